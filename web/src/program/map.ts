// All operations in order, with the modules that they are in above them.

import { onColors, value } from "../colors";
import { modulePath } from "../document";
import { h } from "../dom";
import { count } from "../format";
import { Drawing, type Hit, Viewport, zoomButtons } from "../viewport";
import type { ProgramModel } from "./model";

const MARGIN = 118;

/** All operations in order, with the modules that they are in above them. */
export function programMap(model: ProgramModel, choose: (op: number) => void, say: (text: string) => void): HTMLElement {
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
