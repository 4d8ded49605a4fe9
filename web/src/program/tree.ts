// The tree of modules and their operations, which can be filtered.

import { modulePath } from "../document";
import { h } from "../dom";
import { count, duration, flops, size } from "../format";
import { VirtualList } from "../list";
import { PHASES, type ProgramModel } from "./model";

interface TreeRow {
  module: number;
  op: number;
  depth: number;
}

export class Tree {
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
      if (color >= 0) names.set(color, axes ? `cut by ${axes.replaceAll(" ", " and ")}` : "whole on every device");
    });
    const counts = new Float64Array(model.palette.length);
    for (const color of model.color) counts[color]! += 1;
    const entries = [...names].sort((left, right) => counts[right[0]]! - counts[left[0]]!).filter(([color]) => counts[color]! > 0);
    return h(
      "ul",
      { class: "legend", "aria-label": "Colors; each shows or hides its operations" },
      ...entries.map(([color, name]) => {
        const button = h("button", { type: "button", "aria-pressed": "true", class: "key" }, h("span", { class: "swatch", style: { background: `var(${model.palette[color]})` } }), name, h("span", { class: "small" }, ` ${count(counts[color]!)}`));
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
