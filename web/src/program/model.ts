// The program as its views ask about it: op by op and module by module.

import { CutColors } from "../colors";
import type { ReportDocument } from "../document";
import { axesOf } from "../picture";

export const PHASES = ["forward", "backward", "update"];

/** What the program is asked about, op by op and module by module. */
export class ProgramModel {
  readonly ops: number;
  readonly phase: Uint8Array;
  readonly module: Uint32Array;
  /** By sharding: the axes that cut it, and the color of that. */
  readonly axes: string[];
  readonly colors: string[];
  readonly color: Uint8Array;
  readonly palette: string[] = [];
  /** Modules inside of each, in the order of the program, and ops of each alone. */
  readonly children: number[][];
  readonly own: Uint32Array[];
  readonly depth: Uint8Array;
  readonly total: { ops: Float64Array; flops: Float64Array; kernels: Float64Array; collectives: Float64Array };
  /** By module, how many bytes of results have each color. */
  readonly mix: Float64Array[];
  readonly hasCuts: boolean;
  /** Where the operands of each op begin. */
  private readonly operandStart: Uint32Array;
  private readers: Map<number, number[]> | null = null;

  constructor(readonly report: ReportDocument) {
    const program = report.program!;
    const modules = report.modules.name.length;
    this.ops = program.name.length;
    this.phase = Uint8Array.from(program.phase);
    this.module = Uint32Array.from(program.module);
    this.hasCuts = program.shardings.length > 0 && report.mesh !== null;
    const cut = new CutColors();
    this.axes = program.shardings.map((sharding) => axesOf(report.mesh!, sharding));
    // What most ops have gets the first colors.
    const counts = new Map<string, number>();
    for (const lies of program.lies) if (lies >= 0) counts.set(this.axes[lies]!, (counts.get(this.axes[lies]!) ?? 0) + 1);
    [...counts].sort((left, right) => right[1] - left[1]).forEach(([axes]) => cut.color(axes));
    this.colors = this.axes.map((axes) => cut.color(axes));
    const phases = ["--blue", "--orange", "--green"];
    const number = (variable: string) => {
      const known = this.palette.indexOf(variable);
      return known >= 0 ? known : this.palette.push(variable) - 1;
    };
    this.color = new Uint8Array(this.ops);
    for (let op = 0; op < this.ops; op++) {
      const lies = program.lies[op]!;
      this.color[op] = number(this.hasCuts ? (lies >= 0 ? this.colors[lies]! : "--whole") : phases[this.phase[op]!]!);
    }
    this.children = Array.from({ length: modules }, () => []);
    this.depth = new Uint8Array(modules);
    for (let module = 1; module < modules; module++) {
      this.depth[module] = this.depth[report.modules.parent[module]!]! + 1;
    }
    const lengths = new Uint32Array(modules);
    for (const module of this.module) lengths[module]! += 1;
    this.own = Array.from(lengths, (length) => new Uint32Array(length));
    const filled = new Uint32Array(modules);
    const firsts = new Float64Array(modules).fill(Infinity);
    for (let op = 0; op < this.ops; op++) {
      const module = this.module[op]!;
      this.own[module]![filled[module]!++] = op;
      if (firsts[module] === Infinity) firsts[module] = op;
    }
    const columns = () => new Float64Array(modules);
    this.total = { ops: columns(), flops: columns(), kernels: columns(), collectives: columns() };
    this.mix = Array.from({ length: modules }, () => new Float64Array(this.palette.length));
    for (let op = 0; op < this.ops; op++) {
      const module = this.module[op]!;
      this.total.ops[module]! += 1;
      this.total.flops[module]! += program.flops[op]!;
      this.mix[module]![this.color[op]!]! += program.bytes[op]!;
    }
    this.addTimes();
    for (let module = modules - 1; module > 0; module--) {
      const parent = report.modules.parent[module]!;
      firsts[parent] = Math.min(firsts[parent]!, firsts[module]!);
      for (const column of Object.values(this.total)) column[parent]! += column[module]!;
      this.mix[module]!.forEach((bytes, color) => (this.mix[parent]![color]! += bytes));
    }
    for (let module = 1; module < modules; module++) this.children[report.modules.parent[module]!]!.push(module);
    for (const children of this.children) children.sort((left, right) => firsts[left]! - firsts[right]!);
    this.operandStart = new Uint32Array(this.ops + 1);
    for (let op = 0; op < this.ops; op++) this.operandStart[op + 1] = this.operandStart[op]! + program.operands[op]!;
  }

  /** What kernels and collectives of each module take, on all stages. */
  private addTimes(): void {
    const timeline = this.report.timeline;
    if (!timeline) return;
    const runs = timeline.pieces.map(() => 0);
    for (const stage of timeline.stages) for (const piece of stage.piece) if (piece >= 0) runs[piece]! += 1;
    timeline.pieces.forEach((piece, number) => {
      for (const lane of ["kernels", "collectives"] as const) {
        const track = piece[lane];
        for (let index = 0; index < track.length.length; index++) {
          this.total[lane][track.module[index]!]! += (runs[number]! * track.length[index]!) / 1e9;
        }
      }
    });
  }

  operands(op: number): { op: number; argument: number }[] {
    const makers = this.report.program!.makers.slice(this.operandStart[op], this.operandStart[op + 1]);
    return makers.map((maker) => (maker > 0 ? { op: op - maker, argument: -1 } : { op: -1, argument: -maker }));
  }

  readersOf(op: number): number[] {
    if (!this.readers) {
      this.readers = new Map();
      for (let reader = 0; reader < this.ops; reader++) {
        for (let at = this.operandStart[reader]!; at < this.operandStart[reader + 1]!; at++) {
          const maker = this.report.program!.makers[at]!;
          if (maker <= 0) continue;
          const list = this.readers.get(reader - maker);
          if (list) list.push(reader);
          else this.readers.set(reader - maker, [reader]);
        }
      }
    }
    return this.readers.get(op) ?? [];
  }

  text(number: number): string {
    return this.report.strings[number] ?? "";
  }

  name(op: number): string {
    return this.text(this.report.program!.name[op]!);
  }
}
