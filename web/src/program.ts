// The program: a map of all operations in order, a tree of modules, and everything about the one that is chosen.

import { CutColors, onColors, value } from "./colors";
import type { Group, ReportDocument } from "./document";
import { modulePath } from "./document";
import { announcer, figure, h, replace, section, words } from "./dom";
import { count, duration, flops, share, signed, size } from "./format";
import { VirtualList } from "./list";
import { axesOf, picture, shapeOf } from "./picture";
import { Drawing, type Hit, Viewport, zoomButtons } from "./viewport";

const PHASES = ["forward", "backward", "update"];
const MARGIN = 118;

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

export interface ProgramSection {
  element: HTMLElement;
  showModule: (module: number) => void;
}

export function programSection(report: ReportDocument): ProgramSection | null {
  if (!report.program || report.program.name.length === 0) return null;
  const model = new ProgramModel(report);
  const status = announcer();
  const details = h("aside", { class: "details", "aria-label": "What is chosen", tabindex: "-1" });
  const tree = new Tree(model, (row) => choose(row));
  const map = programMap(model, (op) => choose({ op, module: model.module[op]! }), status.say);
  const choose = (row: { op: number; module: number }) => {
    if (row.op >= 0) {
      tree.revealOp(row.op);
      showOp(model, details, row.op, (op) => choose({ op, module: model.module[op]! }));
      status.say(`${model.name(row.op)} in ${modulePath(report, row.module) || "the step"}`);
    } else {
      tree.revealModule(row.module);
      showModuleDetails(model, details, row.module);
      status.say(`module ${modulePath(report, row.module) || "the step"}`);
    }
  };
  showModuleDetails(model, details, 0);
  const lead = model.hasCuts
    ? "Every operation has the color of the axes that cut its result. Choose one to see its rule, what it costs, why it is cut so, and where it comes from."
    : "Every operation, by module. Choose one to see what it reads, what it makes, and where it comes from.";
  const element = section(
    "program",
    "The program",
    lead,
    tree.legend(),
    figure("", map),
    h("div", { class: "columns" }, h("div", { class: "main" }, tree.toolbar(), tree.element), details),
    status.element,
  );
  const showModule = (module: number) => {
    choose({ op: -1, module });
    element.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth", block: "start" });
  };
  return { element, showModule };
}

/** All operations in order, with the modules that they are in above them. */
function programMap(model: ProgramModel, choose: (op: number) => void, say: (text: string) => void): HTMLElement {
  const { report } = model;
  const view = new Viewport(model.ops, Math.min(20, model.ops));
  const LEVELS = 3;
  const rows = { phase: 4, module: 17, ops: 30 };
  const top = (level: number) => rows.phase + 4 + level * (rows.module + 1);
  const opsTop = top(LEVELS) + 1;
  const height = opsTop + rows.ops + 4;
  // Runs of ops that share a module, level by level.
  const levels = Array.from({ length: LEVELS }, (_, level) => {
    const starts: number[] = [];
    const modules: number[] = [];
    let before = -1;
    const above = new Int32Array(report.modules.name.length).fill(-2);
    const ancestor = (module: number): number => {
      if (above[module] === -2) {
        let at = module;
        while (at > 0 && model.depth[at]! > level + 1) at = report.modules.parent[at]!;
        above[module] = model.depth[module]! > level ? at : -1;
      }
      return above[module]!;
    };
    for (let op = 0; op < model.ops; op++) {
      const here = ancestor(model.module[op]!);
      if (here !== before) {
        starts.push(op);
        modules.push(here);
        before = here;
      }
    }
    return { starts: Float64Array.from([...starts, model.ops]), modules };
  });
  const buckets = { array: new Float32Array(0) };
  const draw = (context: CanvasRenderingContext2D, width: number) => {
    const inner = width - MARGIN;
    const scale = inner / (view.end - view.start);
    const x = (op: number) => MARGIN + (op - view.start) * scale;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "right";
    context.fillStyle = value("--muted");
    context.fillText("modules", MARGIN - 8, top(1) + rows.module / 2);
    context.fillText("operations", MARGIN - 8, opsTop + rows.ops / 2);
    context.textAlign = "left";
    context.save();
    context.beginPath();
    context.rect(MARGIN, 0, inner, height);
    context.clip();
    drawPhases(context, model, x, width, rows.phase);
    levels.forEach((level, number) => drawLevel(context, model, level, top(number), rows.module, x, width));
    drawOps(context, model, buckets, view, scale, Math.ceil(inner), opsTop, rows.ops);
    context.restore();
  };
  const hit = (op: number): Hit => {
    const lines = [modulePath(report, model.module[op]!), model.text(report.program!.type[op]!)];
    const lies = report.program!.lies[op]!;
    if (lies >= 0) lines.push(report.program!.shardings[lies]!.text);
    const found: Hit = { start: op, end: op + 1, lane: 0, title: model.name(op), lines: lines.filter(Boolean), op };
    return Object.assign(found, { top: opsTop, tall: rows.ops });
  };
  const inside = (op: number) => Math.min(Math.max(Math.floor(op), 0), model.ops - 1);
  const drawing = new Drawing(view, {
    label: `Map of ${count(model.ops)} operations in the order in which they run.`,
    margin: MARGIN,
    height: () => height,
    draw,
    find: (at, y) => (at < 0 || at >= model.ops ? null : y >= opsTop ? hit(inside(at)) : moduleHit(model, levels, at, y, top, rows.module)),
    next: (current, by) => hit(inside((current?.start ?? view.start) + (current ? by : 0))),
    choose: (found) => found.op !== undefined && choose(found.op),
    say,
  });
  drawing.canvas.id = "program-canvas";
  onColors(() => drawing.redraw());
  return h("div", {}, h("div", { class: "toolbar" }, zoomButtons(view)), drawing.element);
}

function moduleHit(
  model: ProgramModel,
  levels: { starts: Float64Array; modules: number[] }[],
  at: number,
  y: number,
  top: (level: number) => number,
  tall: number,
): Hit | null {
  const level = levels.findIndex((_, number) => y >= top(number) && y <= top(number) + tall);
  const found = levels[level];
  if (!found) return null;
  let index = 0;
  while (index + 1 < found.modules.length && found.starts[index + 1]! <= at) index += 1;
  const module = found.modules[index]!;
  if (module < 0) return null;
  const [start, end] = [found.starts[index]!, found.starts[index + 1]!];
  const lines = [`${count(end - start)} operations here`];
  const hit: Hit = { start, end, lane: level + 1, title: modulePath(model.report, module) || "the step", lines, op: start, module };
  return Object.assign(hit, { top: top(level), tall });
}

function drawPhases(context: CanvasRenderingContext2D, model: ProgramModel, x: (op: number) => number, width: number, tall: number): void {
  const fills = ["--ink", "--muted", "--hairline"].map(value);
  let begin = 0;
  for (let op = 1; op <= model.ops; op++) {
    if (op < model.ops && model.phase[op] === model.phase[begin]) continue;
    const [left, right] = [x(begin), x(op)];
    if (right > MARGIN && left < width && right - left > 0.3) {
      context.fillStyle = fills[model.phase[begin]!]!;
      context.fillRect(left, 0, right - left, tall);
    }
    begin = op;
  }
}

function drawLevel(
  context: CanvasRenderingContext2D,
  model: ProgramModel,
  level: { starts: Float64Array; modules: number[] },
  top: number,
  tall: number,
  x: (op: number) => number,
  width: number,
): void {
  const [fill, ink] = [value("--lane"), value("--ink")];
  let drawn = -1;
  for (let index = 0; index < level.modules.length; index++) {
    const [left, right] = [x(level.starts[index]!), x(level.starts[index + 1]!)];
    if (right < MARGIN || right - drawn < 1) continue;
    if (left > width) break;
    const module = level.modules[index]!;
    if (module < 0) continue;
    context.fillStyle = fill;
    context.fillRect(left, top, Math.max(right - left - 0.8, 0.4), tall);
    drawn = right;
    const room = right - Math.max(left, MARGIN) - 6;
    if (room > 18) {
      context.fillStyle = ink;
      const name = model.text(model.report.modules.name[module]!);
      context.fillText(name.length * 6 > room ? name.slice(0, Math.max(Math.floor(room / 6.2), 1)) : name, Math.max(left, MARGIN) + 4, top + tall / 2 + 0.5);
    }
  }
}

function drawOps(
  context: CanvasRenderingContext2D,
  model: ProgramModel,
  buckets: { array: Float32Array },
  view: Viewport,
  scale: number,
  columns: number,
  top: number,
  tall: number,
): void {
  const fills = model.palette.map(value);
  const colors = fills.length;
  const first = Math.max(Math.floor(view.start), 0);
  const last = Math.min(Math.ceil(view.end), model.ops);
  if (scale >= 1.5) {
    for (let op = first; op < last; op++) {
      context.fillStyle = fills[model.color[op]!]!;
      context.fillRect(MARGIN + (op - view.start) * scale, top, Math.max(scale - (scale > 4 ? 0.7 : 0), 0.5), tall);
      if (scale > 70) {
        context.fillStyle = value("--on-color");
        context.fillText(model.name(op).slice(0, Math.floor(scale / 6.4)), MARGIN + (op - view.start) * scale + 4, top + tall / 2);
      }
    }
    return;
  }
  if (buckets.array.length !== columns * colors) buckets.array = new Float32Array(columns * colors);
  else buckets.array.fill(0);
  for (let op = first; op < last; op++) {
    const column = Math.floor((op - view.start) * scale);
    if (column >= 0 && column < columns) buckets.array[column * colors + model.color[op]!]! += 1;
  }
  // A column shows its colors one above the other, as much of each as there is.
  for (let column = 0; column < columns; column++) {
    let all = 0;
    for (let color = 0; color < colors; color++) all += buckets.array[column * colors + color]!;
    let at = top;
    for (let color = 0; color < colors && all > 0; color++) {
      const part = (buckets.array[column * colors + color]! / all) * tall;
      if (part <= 0) continue;
      context.fillStyle = fills[color]!;
      context.fillRect(MARGIN + column, at, 1, part);
      at += part;
    }
  }
}

interface TreeRow {
  module: number;
  op: number;
  depth: number;
}

class Tree {
  readonly element: HTMLElement;
  private readonly open = new Set<number>([0]);
  private rows: TreeRow[] = [];
  private chosen: TreeRow = { module: 0, op: -1, depth: 0 };
  private readonly list: VirtualList;
  private readonly tally = h("span", { class: "small", role: "status" });
  private filter = "";
  private phase = -1;
  private readonly hidden = new Set<number>();

  constructor(
    private readonly model: ProgramModel,
    private readonly choose: (row: { op: number; module: number }) => void,
  ) {
    const columns = ["name", model.hasCuts ? "result lies" : "", "type", ...this.numbers().map(({ title }) => title)];
    const header = h(
      "div",
      { role: "row", class: "row head tree", style: { gridTemplateColumns: this.template() } },
      ...columns.map((title, index) => h("div", { role: "columnheader", class: index > 2 ? "number" : "" }, title)),
    );
    this.list = new VirtualList({
      role: "treegrid",
      label: "Modules and operations",
      header,
      height: 520,
      row: (index) => this.row(this.rows[index]!),
      onKey: (event, row) => this.key(event, this.rows[row]!),
    });
    this.element = this.list.element;
    this.element.id = "program-tree";
    this.update();
  }

  private template(): string {
    return `minmax(12rem, 2.4fr) minmax(6rem, 1.2fr) minmax(7rem, 1.1fr) ${this.numbers().map(() => "5.6rem").join(" ")}`;
  }

  private numbers(): { title: string; module: (module: number) => string; op: (op: number) => string }[] {
    const { model } = this;
    const { total, report } = model;
    const some = (number: number, show: (number: number) => string) => (number > 0 ? show(number) : "");
    const work = { title: "FLOPs", module: (module: number) => some(total.flops[module]!, flops), op: (op: number) => some(report.program!.flops[op]!, flops) };
    const time = (title: string, column: Float64Array) => ({ title, module: (module: number) => some(column[module]!, duration), op: () => "" });
    if (report.timeline) return [work, time("kernels", total.kernels), time("collectives", total.collectives)];
    const told = (title: string, column: number[], show: (number: number) => string) => ({ title, module: (module: number) => some(column[module] ?? 0, show), op: () => "" });
    return [work, told("parameters", report.modules.parameters, count), told("kept", report.modules.kept_bytes, size)];
  }

  legend(): HTMLElement {
    const { model } = this;
    if (!model.hasCuts) {
      const entries = PHASES.map((phase, index) => h("li", {}, h("span", { class: "swatch", style: { background: `var(${["--blue", "--orange", "--green"][index]})` } }), phase));
      return h("ul", { class: "legend", "aria-label": "Colors" }, ...entries);
    }
    const names = new Map<number, string>();
    model.axes.forEach((axes, index) => {
      const color = model.palette.indexOf(model.colors[index]!);
      if (color >= 0) names.set(color, axes || "whole on every device");
    });
    const counts = new Float64Array(model.palette.length);
    for (const color of model.color) counts[color]! += 1;
    const entries = [...names].sort((left, right) => counts[right[0]]! - counts[left[0]]!).filter(([color]) => counts[color]! > 0);
    return h(
      "ul",
      { class: "legend", "aria-label": "Colors; each shows or hides its operations" },
      ...entries.map(([color, name]) => {
        const button = h("button", { type: "button", "aria-pressed": "true", class: "key" }, h("span", { class: "swatch", style: { background: `var(${model.palette[color]})` } }), name.includes(" ") && !name.startsWith("whole") ? `cut by ${name.replaceAll(" ", " and ")}` : name.startsWith("whole") ? name : `cut by ${name}`, h("span", { class: "small" }, ` ${count(counts[color]!)}`));
        button.addEventListener("click", () => {
          const isHidden = this.hidden.delete(color) ? false : Boolean(this.hidden.add(color));
          button.setAttribute("aria-pressed", String(!isHidden));
          this.update();
        });
        return h("li", {}, button);
      }),
    );
  }

  toolbar(): HTMLElement {
    const input = h("input", { type: "search", placeholder: "Filter by name, module, type, sharding or source", "aria-label": "Filter operations", id: "program-filter", class: "wide" });
    input.addEventListener("input", () => {
      this.filter = input.value.trim().toLowerCase();
      this.update();
    });
    const phases = h("select", { "aria-label": "Pass" }, h("option", { value: "-1" }, "all passes"), ...PHASES.map((phase, index) => h("option", { value: String(index) }, phase)));
    phases.addEventListener("change", () => {
      this.phase = Number(phases.value);
      this.update();
    });
    return h("div", { class: "toolbar" }, input, phases, this.tally);
  }

  /** The ops that pass the filter, or null where all do. */
  private matching(): Uint8Array | null {
    const { model } = this;
    const program = model.report.program!;
    if (!this.filter && this.phase < 0 && this.hidden.size === 0) return null;
    const matches = new Uint8Array(model.ops);
    const strings = model.report.strings.map((text) => text.toLowerCase().includes(this.filter));
    const lies = program.shardings.map((sharding) => sharding.text.toLowerCase().includes(this.filter));
    const modules = model.report.modules.name.map((_, module) => this.filter !== "" && modulePath(model.report, module).toLowerCase().includes(this.filter));
    for (let op = 0; op < model.ops; op++) {
      const isShown = (this.phase < 0 || model.phase[op] === this.phase) && !this.hidden.has(model.color[op]!);
      if (!isShown) continue;
      matches[op] =
        !this.filter ||
        strings[program.name[op]!] ||
        strings[program.type[op]!] ||
        strings[program.source[op]!] ||
        strings[program.scope[op]!] ||
        modules[model.module[op]!] ||
        (program.lies[op]! >= 0 && lies[program.lies[op]!])
          ? 1
          : 0;
    }
    return matches;
  }

  private update(): void {
    const { model } = this;
    const matches = this.matching();
    const rows: TreeRow[] = [];
    let found = model.ops;
    let counts: Float64Array | null = null;
    if (matches) {
      counts = new Float64Array(model.children.length);
      found = 0;
      for (let op = 0; op < model.ops; op++) {
        if (!matches[op]) continue;
        counts[model.module[op]!]! += 1;
        found += 1;
      }
      for (let module = counts.length - 1; module > 0; module--) counts[model.report.modules.parent[module]!]! += counts[module]!;
    }
    // What little is found is shown at once.
    const isOpen = (module: number) => this.open.has(module) || (this.filter !== "" && found <= 5000);
    const add = (module: number, depth: number) => {
      rows.push({ module, op: -1, depth });
      if (!isOpen(module)) return;
      for (const child of model.children[module]!) if (!counts || counts[child]! > 0) add(child, depth + 1);
      for (const op of model.own[module]!) if (!matches || matches[op]) rows.push({ module, op, depth: depth + 1 });
    };
    if (!counts || found > 0) add(0, 0);
    this.rows = rows;
    this.tally.textContent = matches ? `${count(found)} of ${count(model.ops)} operations` : `${count(model.ops)} operations`;
    this.list.show(rows.length);
  }

  private row(row: TreeRow): HTMLElement {
    const { model } = this;
    const isChosen = row.op === this.chosen.op && (row.op >= 0 || row.module === this.chosen.module);
    const cells = row.op >= 0 ? this.opCells(row.op) : this.moduleCells(row.module);
    const isOpen = row.op < 0 && this.open.has(row.module);
    const marker = row.op >= 0 ? "" : isOpen ? "▾" : "▸";
    const name = h("div", { role: "gridcell", class: row.op >= 0 ? "name op" : "name", style: { paddingLeft: `${0.4 + row.depth * 0.9}rem` } }, h("span", { class: "marker", "aria-hidden": "true" }, marker), cells[0]!);
    const element = h(
      "div",
      {
        role: "row",
        class: isChosen ? "row tree chosen" : "row tree",
        "aria-level": row.depth + 1,
        "aria-expanded": row.op >= 0 ? undefined : String(isOpen),
        "aria-selected": String(isChosen),
        style: { gridTemplateColumns: this.template() },
      },
      name,
      ...cells.slice(1).map((cell, index) => h("div", { role: "gridcell", class: index > 1 ? "number" : "" }, cell)),
    );
    element.addEventListener("click", (event) => {
      const onMarker = (event.target as HTMLElement).classList.contains("marker");
      if (row.op < 0 && (onMarker || isChosen)) this.toggle(row.module);
      this.choose(row);
      void model;
    });
    return element;
  }

  private opCells(op: number): (Node | string)[] {
    const { model } = this;
    const program = model.report.program!;
    const lies = program.lies[op]!;
    const made = program.made[op]!;
    const isPartial = made >= 0 && program.shardings[made]!.partial.length > 0;
    const chip = h("span", { class: isPartial ? "swatch partial" : "swatch", style: { background: `var(${model.palette[model.color[op]!]})` } });
    const sharding = lies >= 0 ? h("span", {}, chip, program.shardings[lies]!.text) : h("span", {}, chip, PHASES[model.phase[op]!]!);
    return [model.name(op), sharding, model.text(program.type[op]!), ...this.numbers().map((column) => column.op(op))];
  }

  private moduleCells(module: number): (Node | string)[] {
    const { model } = this;
    const mix = model.mix[module]!;
    const all = mix.reduce((sum, bytes) => sum + bytes, 0);
    const bar = h("span", { class: "mix", role: "img", "aria-label": "share of colors" });
    mix.forEach((bytes, color) => {
      if (bytes > 0) bar.append(h("span", { style: { background: `var(${model.palette[color]})`, flexGrow: String(bytes / all) } }));
    });
    const name = module === 0 ? "the step" : model.text(model.report.modules.name[module]!);
    return [name, bar, `${count(model.total.ops[module]!)} ops`, ...this.numbers().map((column) => column.module(module))];
  }

  private toggle(module: number): void {
    if (!this.open.delete(module)) this.open.add(module);
    this.update();
  }

  private key(event: KeyboardEvent, row: TreeRow): boolean {
    if (event.key === "Enter" || event.key === " ") this.choose(row);
    else if (event.key === "ArrowRight" && row.op < 0 && !this.open.has(row.module)) this.toggle(row.module);
    else if (event.key === "ArrowLeft" && row.op < 0 && this.open.has(row.module)) this.toggle(row.module);
    else if (event.key === "ArrowLeft") {
      const parent = row.op >= 0 ? row.module : this.model.report.modules.parent[row.module]!;
      const index = this.rows.findIndex((other) => other.op < 0 && other.module === parent);
      if (index >= 0) this.list.reveal(index, true);
    } else return false;
    return true;
  }

  private openTo(module: number): void {
    for (let at = module; at > 0; at = this.model.report.modules.parent[at]!) this.open.add(at);
    this.open.add(0);
  }

  revealOp(op: number): void {
    this.openTo(this.model.module[op]!);
    this.chosen = { op, module: this.model.module[op]!, depth: 0 };
    this.update();
    const index = this.rows.findIndex((row) => row.op === op);
    if (index >= 0) this.list.reveal(index);
  }

  revealModule(module: number): void {
    if (module > 0) this.openTo(this.model.report.modules.parent[module]!);
    this.chosen = { op: -1, module, depth: 0 };
    this.update();
    const index = this.rows.findIndex((row) => row.op < 0 && row.module === module);
    if (index >= 0) this.list.reveal(index);
  }
}

function fact(name: string, value: Node | string | null): HTMLElement | null {
  return value === null || value === "" ? null : h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, value));
}

function showModuleDetails(model: ProgramModel, details: HTMLElement, module: number): void {
  const { report, total } = model;
  const kernels = total.kernels[module]!;
  const step = report.summary.step_seconds ?? 0;
  const stages = report.timeline?.stages.length ?? 1;
  replace(
    details,
    h("h3", {}, modulePath(report, module) || "the step"),
    h(
      "dl",
      {},
      fact("operations", count(total.ops[module]!)),
      fact("work, whole", flops(total.flops[module]!)),
      fact("kernels take", kernels > 0 ? `${duration(kernels)}, ${share(kernels, step * stages)} of the step` : null),
      fact("collectives take", total.collectives[module]! > 0 ? `${duration(total.collectives[module]!)}, waited for or not` : null),
      fact("parameters", report.modules.parameters[module] ? count(report.modules.parameters[module]!) : null),
      fact("kept for the backward pass", report.modules.kept_bytes[module] ? size(report.modules.kept_bytes[module]!) : null),
      fact("modules inside", model.children[module]!.length > 0 ? count(model.children[module]!.length) : null),
    ),
  );
}

function showOp(model: ProgramModel, details: HTMLElement, op: number, choose: (op: number) => void): void {
  const { report } = model;
  const program = report.program!;
  const type = model.text(program.type[op]!);
  const lies = program.shardings[program.lies[op]!];
  const made = program.shardings[program.made[op]!];
  const group = program.groups[program.group[op]!];
  const link = (other: number) =>
    h("button", { type: "button", class: "link", on: { click: () => choose(other) } }, `${model.name(other)} ${model.text(program.type[other]!)}`);
  const inputs = model.operands(op).map(({ op: maker, argument }) => {
    const name = argument >= 0 && report.arguments ? model.text(report.arguments.name[argument]!) : `argument ${argument}`;
    return h("li", {}, maker >= 0 ? link(maker) : h("code", {}, name));
  });
  const readers = model.readersOf(op);
  replace(
    details,
    h("h3", {}, model.name(op)),
    h("p", { class: "small" }, `${PHASES[model.phase[op]!]}, ${modulePath(report, model.module[op]!) || "the step"}`),
    h(
      "dl",
      {},
      fact("type", h("code", {}, type)),
      fact("source", program.source[op] ? h("code", {}, model.text(program.source[op]!)) : null),
      fact("scope", program.scope[op] ? h("code", {}, model.text(program.scope[op]!)) : null),
      fact("rule", h("code", { id: "op-rule" }, model.text(program.rule[op]!))),
      fact("cut", program.cut[op] ? h("code", {}, model.text(program.cut[op]!)) : model.hasCuts ? "nothing: it runs whole on every device" : null),
      fact("comes out as", made && lies && made.text !== lies.text ? h("code", {}, made.text) : null),
      fact("lies as", lies ? h("code", {}, lies.text) : null),
      fact("work, whole", program.flops[op]! > 0 ? flops(program.flops[op]!) : null),
      fact("result, whole", size(program.bytes[op]!)),
    ),
    group ? reasons(group) : null,
    lies && report.mesh ? picture(report.mesh, shapeOf(type), made && made.partial.length > 0 ? made : lies) : null,
    inputs.length > 0 ? h("h4", {}, "reads") : null,
    inputs.length > 0 ? h("ul", { class: "plain" }, ...inputs.slice(0, 12)) : null,
    readers.length > 0 ? h("h4", {}, `read by ${readers.length > 12 ? `${count(readers.length)}, the first of them` : ""}`) : null,
    readers.length > 0 ? h("ul", { class: "plain" }, ...readers.slice(0, 12).map((reader) => h("li", {}, link(reader)))) : null,
  );
}

/** What decided about a group of ops, and what else it could do. */
function reasons(group: Group): HTMLElement {
  const kept: Record<string, string> = {
    kept: group.phase === "forward" ? "is kept while anybody reads it" : "",
    recomputed: "is computed again for the backward pass",
    dropped: "is dropped: the backward pass does not read it",
  };
  const other = group.runner_ups[0];
  let decided = "decided by what is around it: nothing else goes with that";
  if (other) {
    const [compute, moving] = [other.more_compute_seconds, other.more_moving_seconds];
    if (other.over_bytes > 0 && compute + moving <= 0) decided = "decided by memory";
    else if (compute + moving < 1e-8) decided = "something else would take as long";
    else decided = compute >= moving ? "decided by computing" : "decided by moving";
  }
  return h(
    "div",
    { class: "reasons" },
    h("h4", {}, "why"),
    h("p", {}, words(`One of ${count(group.count)} alike (\`${group.ops.join(", ")}\`), ${decided}. All of them take ${duration(group.compute_seconds)} of computing and ${duration(group.moving_seconds)} of moving.${kept[group.keeping] ? ` The result ${kept[group.keeping]}.` : ""}`)),
    ...group.runner_ups.map((runner) => {
      const total = runner.more_compute_seconds + runner.more_moving_seconds;
      const costs = `${signed(total)} (computing ${signed(runner.more_compute_seconds)}, moving ${signed(runner.more_moving_seconds)})`;
      const same = runner.result === group.result ? "the same result, cut otherwise inside" : `\`${runner.result}\``;
      const keeping = runner.keeping === group.keeping ? "" : `, ${runner.keeping}`;
      const over = runner.over_bytes > 0 ? `, and ${size(runner.over_bytes)} too much in memory` : "";
      return h("p", {}, words(`${runner.over_bytes > 0 ? "Does not fit" : "Runner-up"}: ${same}${keeping}: ${costs}${over}.`));
    }),
  );
}
