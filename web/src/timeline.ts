// What runs when: lanes of every stage and stream, waiting hatched, and memory below on the same time.

import { kernelColor, onColors, passColor, value } from "./colors";
import type { MemoryOverTime, ReportDocument, Timeline, Track } from "./document";
import { modulePath } from "./document";
import { announcer, figure, h, section } from "./dom";
import { count, duration, nanoseconds, share, size } from "./format";
import { memoryDrawing } from "./memory";
import { Drawing, type Hit, Viewport, ticks, zoomButtons } from "./viewport";

/** A stream of a piece with absolute times. */
interface Stream {
  start: Float64Array;
  end: Float64Array;
  name: Uint32Array;
  module: Uint32Array;
  color: Uint8Array;
  /** The longest span, so that searches know how far back to look. */
  longest: number;
}

interface Lane {
  stage: number;
  kind: "passes" | "kernels" | "collectives" | "messages";
  label: string;
  top: number;
  height: number;
}

const MARGIN = 118;
const AXIS = 24;
const HEIGHTS = { passes: 22, kernels: 20, collectives: 20, messages: 10 };
/** With more stages than this, what runs inside of passes is shown when asked for. */
const FEW_STAGES = 3;

export function timelineSection(report: ReportDocument, showModule: (module: number) => void): HTMLElement | null {
  const timeline = report.timeline;
  if (!timeline || timeline.step <= 0) return null;
  const view = new Viewport(timeline.step, Math.max(timeline.step / 2e6, 50));
  const status = announcer();
  const lanes = new Lanes(report, timeline, view);
  const drawing = new Drawing(view, {
    label: `Timeline of a step of ${nanoseconds(timeline.step)}.`,
    margin: MARGIN,
    height: () => lanes.height,
    draw: (context, width) => lanes.draw(context, width),
    find: (at, y, perPixel) => lanes.find(at, y, perPixel),
    next: (hit, by, across) => lanes.next(hit, by, across),
    choose: (hit) => hit.module !== undefined && showModule(hit.module),
    say: status.say,
  });
  drawing.canvas.id = "timeline-canvas";
  onColors(() => drawing.redraw());
  const memory = report.memory.map((part) => memoryFigure(report, part, view));
  const detail = h("input", { type: "checkbox", id: "streams", checked: lanes.hasStreams });
  detail.addEventListener("change", () => {
    lanes.layOut(detail.checked);
    drawing.redraw();
  });
  const many = timeline.stages.length > 1;
  const toggle = many ? h("label", { class: "toggle" }, detail, " streams of every stage") : null;
  const window = h("span", { class: "window", "aria-live": "off" });
  const tell = () => {
    window.textContent = view.isWhole
      ? `the whole step, ${nanoseconds(timeline.step)}`
      : `${nanoseconds(view.start)} to ${nanoseconds(view.end)}`;
  };
  view.onChange(tell);
  tell();
  const lead = many
    ? "Every stage has a lane for its passes, and one for each stream of a device. Hatched is waiting: a bubble, or a message on its way."
    : "What one device runs; all devices do the same. Hatched is waiting for what is communicated.";
  return section(
    "timeline",
    "The step in time",
    lead,
    h("div", { class: "toolbar" }, zoomButtons(view), window, toggle, h("span", { class: "keys" }, "Ctrl + wheel zooms, dragging moves, a click shows the module")),
    figure("", legend(report, timeline), drawing.element),
    ...memory,
    status.element,
    longest(report, timeline, showModule),
  );
}

function memoryFigure(report: ReportDocument, part: MemoryOverTime, view: Viewport): HTMLElement {
  const many = report.memory.length > 1;
  const title = many ? `Memory of a device of stage ${part.stage}` : "Memory of a device over the step";
  return figure(title, memoryDrawing(part, view, MARGIN, title, many ? 90 : 180, nanoseconds, part.stage === 0));
}

class Lanes {
  height = 0;
  hasStreams: boolean;
  private lanes: Lane[] = [];
  private readonly kernels: Stream[];
  private readonly collectives: Stream[];
  private readonly palette: string[] = [];
  private buckets = new Float32Array(0);

  constructor(
    private readonly report: ReportDocument,
    private readonly timeline: Timeline,
    private readonly view: Viewport,
  ) {
    this.kernels = timeline.pieces.map((piece) => this.stream(piece.kernels));
    this.collectives = timeline.pieces.map((piece) => this.stream(piece.collectives));
    this.hasStreams = timeline.stages.length <= FEW_STAGES;
    this.layOut(this.hasStreams);
  }

  layOut(streams: boolean): void {
    this.hasStreams = streams;
    this.lanes = [];
    let top = AXIS + 4;
    const many = this.timeline.stages.length > 1;
    this.timeline.stages.forEach((stage, number) => {
      const kinds: Lane["kind"][] = many ? ["passes"] : [];
      if (streams) kinds.push("kernels", "collectives");
      if (streams && stage.messages.start.length > 0) kinds.push("messages");
      for (const kind of kinds) {
        const label = kind === "passes" ? `stage ${number}` : kind;
        const height = many ? HEIGHTS[kind] : 1.5 * HEIGHTS[kind];
        this.lanes.push({ stage: number, kind, label, top, height });
        top += height + 3;
      }
      top += many ? 6 : 0;
    });
    this.height = top + 4;
  }

  private stream(track: Track): Stream {
    const length = track.length.length;
    const stream: Stream = {
      start: new Float64Array(length),
      end: new Float64Array(length),
      name: Uint32Array.from(track.name),
      module: Uint32Array.from(track.module),
      color: new Uint8Array(length),
      longest: 0,
    };
    const colors = new Map<number, number>();
    let at = 0;
    for (let index = 0; index < length; index++) {
      at += track.gap[index]!;
      stream.start[index] = at;
      at += track.length[index]!;
      stream.end[index] = at;
      stream.longest = Math.max(stream.longest, track.length[index]!);
      const name = track.name[index]!;
      let color = colors.get(name);
      if (color === undefined) {
        const variable = kernelColor(this.report.strings[name]!).color;
        color = this.palette.indexOf(variable);
        if (color < 0) color = this.palette.push(variable) - 1;
        colors.set(name, color);
      }
      stream.color[index] = color;
    }
    return stream;
  }

  draw(context: CanvasRenderingContext2D, width: number): void {
    const { view } = this;
    const inner = width - MARGIN;
    const scale = inner / (view.end - view.start);
    this.axis(context, width, scale);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const lane of this.lanes) {
      context.fillStyle = value("--lane");
      context.fillRect(MARGIN, lane.top, inner, lane.height);
      context.fillStyle = value("--muted");
      context.textAlign = "right";
      context.fillText(lane.label, MARGIN - 8, lane.top + lane.height / 2 + 0.5);
      context.textAlign = "left";
      context.save();
      context.beginPath();
      context.rect(MARGIN, lane.top, inner, lane.height);
      context.clip();
      if (lane.kind === "passes") this.passes(context, lane, scale, width);
      else if (lane.kind === "messages") this.messages(context, lane, scale);
      else this.streams(context, lane, scale, width);
      context.restore();
    }
  }

  private axis(context: CanvasRenderingContext2D, width: number, scale: number): void {
    const { view } = this;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "center";
    const bottom = this.height;
    for (const tick of ticks(view.start, view.end, (width - MARGIN) / 110)) {
      const x = MARGIN + (tick - view.start) * scale;
      context.fillStyle = value("--hairline");
      context.fillRect(Math.round(x), AXIS - 6, 1, bottom - AXIS);
      context.fillStyle = value("--muted");
      if (x < width - 30) context.fillText(tick === 0 ? "0" : nanoseconds(tick), Math.max(x, MARGIN + 4), 9);
    }
  }

  private passes(context: CanvasRenderingContext2D, lane: Lane, scale: number, width: number): void {
    const stage = this.timeline.stages[lane.stage]!;
    for (let index = 0; index < stage.start.length; index++) {
      const x = MARGIN + (stage.start[index]! - this.view.start) * scale;
      const wide = stage.length[index]! * scale;
      if (x + wide < MARGIN || x > width) continue;
      const name = this.report.strings[stage.name[index]!]!;
      if (stage.kind[index] === 2 || stage.kind[index] === 1) {
        hatch(context, x, lane.top, wide, lane.height, stage.kind[index] === 2 ? value("--muted") : value("--red"));
        continue;
      }
      context.fillStyle = value(passColor(name));
      context.fillRect(x, lane.top, Math.max(wide - (wide > 3 ? 0.8 : 0), 0.6), lane.height);
      if (wide > 26) {
        const microbatch = stage.microbatch[index]!;
        const whole = microbatch < 0 ? name : `${name} ${microbatch}`;
        const text = whole.length * 6.2 + 8 < wide || microbatch < 0 ? whole : String(microbatch);
        label(context, text, x, wide, lane);
      }
    }
    const last = stage.start.length - 1;
    const end = last < 0 ? 0 : stage.start[last]! + stage.length[last]!;
    const x = MARGIN + (end - this.view.start) * scale;
    hatch(context, x, lane.top, (this.timeline.step - end) * scale, lane.height, value("--muted"));
  }

  private messages(context: CanvasRenderingContext2D, lane: Lane, scale: number): void {
    const { messages } = this.timeline.stages[lane.stage]!;
    context.fillStyle = value("--green");
    for (let index = 0; index < messages.start.length; index++) {
      const x = MARGIN + (messages.start[index]! - this.view.start) * scale;
      context.fillRect(x, lane.top + 1, Math.max(messages.length[index]! * scale, 0.6), lane.height - 2);
    }
  }

  /** Spans of at least a pixel or so are drawn one by one; of smaller ones, every column shows what fills it most. */
  private streams(context: CanvasRenderingContext2D, lane: Lane, scale: number, width: number): void {
    const stage = this.timeline.stages[lane.stage]!;
    const columns = Math.ceil(width - MARGIN);
    const colors = this.palette.length;
    if (this.buckets.length !== columns * colors) this.buckets = new Float32Array(columns * colors);
    else this.buckets.fill(0);
    const isKernels = lane.kind === "kernels";
    const fills = this.palette.map(value);
    for (let pass = 0; pass < stage.start.length; pass++) {
      const piece = stage.piece[pass]!;
      if (piece < 0) continue;
      const base = stage.start[pass]!;
      const stream = (isKernels ? this.kernels : this.collectives)[piece]!;
      const before = stream.start.length > 0 ? Math.min(stream.start[0]!, 0) : 0;
      if (base + before > this.view.end || base + stage.length[pass]! + stream.longest < this.view.start) continue;
      if (isKernels) this.waits(context, stream, base, base + stage.length[pass]!, lane, scale);
      this.spans(context, stream, base, lane, scale, columns, fills);
    }
    for (let column = 0; column < columns; column++) {
      let [most, filled, best] = [0, 0, 0];
      for (let color = 0; color < colors; color++) {
        const part = this.buckets[column * colors + color]!;
        filled += part;
        if (part > most) [most, best] = [part, color];
      }
      if (filled < 0.02) continue;
      context.globalAlpha = Math.min(filled, 1);
      context.fillStyle = fills[best]!;
      context.fillRect(MARGIN + column, lane.top, 1, lane.height);
    }
    context.globalAlpha = 1;
  }

  private spans(
    context: CanvasRenderingContext2D,
    stream: Stream,
    base: number,
    lane: Lane,
    scale: number,
    columns: number,
    fills: string[],
  ): void {
    const { start, end, color, name } = stream;
    const colors = fills.length;
    const offset = base - this.view.start;
    const first = lowerBound(start, this.view.start - base - stream.longest);
    const until = this.view.end - base;
    for (let index = first; index < start.length && start[index]! < until; index++) {
      const x0 = (start[index]! + offset) * scale;
      const x1 = (end[index]! + offset) * scale;
      if (x1 < 0) continue;
      if (x1 - x0 >= 1.5) {
        context.fillStyle = fills[color[index]!]!;
        context.fillRect(MARGIN + x0, lane.top, x1 - x0 - (x1 - x0 > 4 ? 0.7 : 0), lane.height);
        if (x1 - x0 > 46) label(context, this.report.strings[name[index]!]!, MARGIN + x0, x1 - x0, lane);
        continue;
      }
      // It may lie over the border of two columns.
      const column = Math.max(Math.floor(x0), 0);
      const here = Math.min(x1, column + 1) - Math.max(x0, column);
      if (column < columns) this.buckets[column * colors + color[index]!]! += Math.max(here, 0);
      if (x1 > column + 1 && column + 1 < columns) this.buckets[(column + 1) * colors + color[index]!]! += x1 - column - 1;
    }
  }

  /** Gaps between kernels are time in which the device waits. */
  private waits(context: CanvasRenderingContext2D, stream: Stream, base: number, until: number, lane: Lane, scale: number): void {
    const offset = base - this.view.start;
    const first = Math.max(lowerBound(stream.start, this.view.start - base - stream.longest) - 1, 0);
    const color = value("--red");
    let before = first === 0 ? 0 : stream.end[first - 1]!;
    for (let index = first; index < stream.start.length; index++) {
      const gap = stream.start[index]! - before;
      if (gap * scale >= 1.2) hatch(context, MARGIN + (before + offset) * scale, lane.top, gap * scale, lane.height, color);
      before = Math.max(before, stream.end[index]!);
      if (before > this.view.end - base) return;
    }
    const rest = until - base - before;
    if (rest * scale >= 1.2) {
      hatch(context, MARGIN + (before + offset) * scale, lane.top, rest * scale, lane.height, value("--muted"));
    }
  }

  find(at: number, y: number, perPixel: number): Hit | null {
    const lane = this.lanes.findIndex((lane) => y >= lane.top - 1 && y <= lane.top + lane.height + 1);
    if (lane < 0 || at < 0 || at > this.timeline.step) return null;
    return this.hitAt(lane, at, perPixel * 2);
  }

  private hitAt(number: number, at: number, slack: number): Hit | null {
    const lane = this.lanes[number]!;
    const stage = this.timeline.stages[lane.stage]!;
    if (lane.kind === "messages") {
      const { messages } = stage;
      for (let index = 0; index < messages.start.length; index++) {
        const [start, end] = [messages.start[index]!, messages.start[index]! + messages.length[index]!];
        if (at >= start - slack && at <= end + slack) {
          const lines = [size(messages.bytes[index]!), nanoseconds(end - start)];
          return this.hit(number, start, end, `to stage ${messages.to[index]}`, lines);
        }
      }
      return null;
    }
    for (let pass = 0; pass < stage.start.length; pass++) {
      const [start, end] = [stage.start[pass]!, stage.start[pass]! + stage.length[pass]!];
      if (lane.kind === "passes") {
        if (at >= start && at <= end) return this.passHit(number, pass);
      } else if (stage.piece[pass]! >= 0) {
        const stream = (lane.kind === "kernels" ? this.kernels : this.collectives)[stage.piece[pass]!]!;
        const found = nearest(stream, at - start, slack);
        if (found >= 0) return this.spanHit(number, stream, start, found);
      }
    }
    return null;
  }

  private passHit(lane: number, pass: number): Hit {
    const stage = this.timeline.stages[this.lanes[lane]!.stage]!;
    const start = stage.start[pass]!;
    const microbatch = stage.microbatch[pass]!;
    const name = this.report.strings[stage.name[pass]!]!;
    const lines = [nanoseconds(stage.length[pass]!)];
    if (microbatch >= 0) lines.unshift(`microbatch ${microbatch}`);
    return this.hit(lane, start, start + stage.length[pass]!, name, lines);
  }

  private spanHit(lane: number, stream: Stream, base: number, index: number): Hit {
    const [start, end] = [base + stream.start[index]!, base + stream.end[index]!];
    const module = stream.module[index]!;
    const path = modulePath(this.report, module);
    const lines = [path, `${nanoseconds(end - start)}, from ${nanoseconds(start)}`].filter(Boolean);
    return { ...this.hit(lane, start, end, this.report.strings[stream.name[index]!]!, lines), module };
  }

  private hit(lane: number, start: number, end: number, title: string, lines: string[]): Hit {
    const { top, height } = this.lanes[lane]!;
    return Object.assign({ start, end, lane, title, lines }, { top, tall: height });
  }

  next(hit: Hit | null, by: number, across: number): Hit | null {
    if (!hit) return this.scan(0, this.view.start, 1);
    if (across !== 0) {
      const lane = hit.lane + across;
      return lane >= 0 && lane < this.lanes.length ? (this.hitAt(lane, hit.start, 0) ?? this.scan(lane, hit.start, 1)) : null;
    }
    return this.scan(hit.lane, by > 0 ? hit.end : hit.start, by);
  }

  /** The first thing of a lane that begins at or after a time, or the last that ends before. */
  private scan(number: number, from: number, by: number): Hit | null {
    const lane = this.lanes[number]!;
    const stage = this.timeline.stages[lane.stage]!;
    const passes = [...stage.start.keys()];
    if (by < 0) passes.reverse();
    for (const pass of passes) {
      const base = stage.start[pass]!;
      if (lane.kind === "passes") {
        const end = base + stage.length[pass]!;
        if (by > 0 ? base >= from - 0.5 : end <= from + 0.5) return this.passHit(number, pass);
        continue;
      }
      if (stage.piece[pass]! < 0 || lane.kind === "messages") continue;
      const stream = (lane.kind === "kernels" ? this.kernels : this.collectives)[stage.piece[pass]!]!;
      let index = lowerBound(stream.start, from - base - 0.5);
      if (by < 0) index -= 1;
      if (index >= 0 && index < stream.start.length) return this.spanHit(number, stream, base, index);
    }
    return null;
  }
}

/** The first entry that is not below a number. */
export function lowerBound(sorted: Float64Array, number: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! < number) low = middle + 1;
    else high = middle;
  }
  return low;
}

function nearest(stream: Stream, at: number, slack: number): number {
  let [best, distance] = [-1, slack];
  for (let index = lowerBound(stream.start, at - stream.longest - slack); index < stream.start.length; index++) {
    if (stream.start[index]! > at + slack) break;
    const away = Math.max(stream.start[index]! - at, at - stream.end[index]!, 0);
    if (away <= distance) [best, distance] = [index, away];
    if (away === 0) break;
  }
  return best;
}

function label(context: CanvasRenderingContext2D, text: string, x: number, wide: number, lane: Lane): void {
  const left = Math.max(x, MARGIN);
  const room = x + wide - left - 8;
  if (room < 14) return;
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = value("--on-color");
  let shown = text;
  // Letters are about six pixels wide, which is near enough to cut by.
  if (shown.length * 6 > room) shown = shown.slice(0, Math.max(Math.floor(room / 6.2), 1));
  context.fillText(shown, left + 4, lane.top + lane.height / 2 + 0.5);
}

export function hatch(context: CanvasRenderingContext2D, x: number, top: number, wide: number, high: number, color: string): void {
  if (wide <= 0) return;
  const left = Math.max(x, MARGIN - 10);
  const right = Math.min(x + wide, context.canvas.width + 10);
  if (right - left < 1) return;
  context.save();
  context.beginPath();
  context.rect(left, top, right - left, high);
  context.clip();
  context.globalAlpha = 0.16;
  context.fillStyle = color;
  context.fillRect(left, top, right - left, high);
  context.globalAlpha = 0.55;
  context.strokeStyle = color;
  context.lineWidth = 1;
  context.beginPath();
  const begin = Math.floor((left - high) / 6) * 6;
  for (let at = begin; at < right; at += 6) {
    context.moveTo(at, top + high);
    context.lineTo(at + high, top);
  }
  context.stroke();
  context.restore();
}

function legend(report: ReportDocument, timeline: Timeline): HTMLElement {
  const entries = new Map<string, string>();
  if (timeline.stages.length > 1) {
    entries.set("forward", "--blue").set("backward", "--orange").set("update", "--green");
  }
  const names = new Set<number>();
  for (const piece of timeline.pieces) {
    for (const track of [piece.kernels, piece.collectives]) for (const name of track.name) names.add(name);
  }
  for (const name of names) {
    const { color, meaning } = kernelColor(report.strings[name]!);
    entries.set(meaning, color);
  }
  return h(
    "ul",
    { class: "legend", "aria-label": "Colors" },
    ...[...entries].map(([meaning, color]) =>
      h("li", {}, h("span", { class: "swatch", style: { background: `var(${color})` } }), meaning),
    ),
    h("li", {}, h("span", { class: "swatch hatched" }), "waiting"),
  );
}

/** The same as a table: where the time goes, for those who cannot see the picture. */
function longest(report: ReportDocument, timeline: Timeline, showModule: (module: number) => void): HTMLElement {
  interface Sum {
    name: number;
    module: number;
    runs: number;
    time: number;
    lane: string;
  }
  const build = (): HTMLElement => {
    const sums = new Map<string, Sum>();
    const runs = timeline.pieces.map(() => 0);
    for (const stage of timeline.stages) for (const piece of stage.piece) if (piece >= 0) runs[piece]! += 1;
    timeline.pieces.forEach((piece, number) => {
      for (const lane of ["kernels", "collectives"] as const) {
        const track = piece[lane];
        track.length.forEach((length, index) => {
          const key = `${lane} ${track.name[index]} ${track.module[index]}`;
          const sum = sums.get(key) ?? { name: track.name[index]!, module: track.module[index]!, runs: 0, time: 0, lane };
          sum.runs += runs[number]!;
          sum.time += runs[number]! * length;
          sums.set(key, sum);
        });
      }
    });
    const rows = [...sums.values()].sort((left, right) => right.time - left.time).slice(0, 40);
    const whole = timeline.step * timeline.stages.length;
    return h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ...["what", "where", "stream", "runs", "takes", "of the step"].map((title, column) => h("th", { scope: "col", class: column > 2 ? "number" : "" }, title)))),
      h(
        "tbody",
        {},
        ...rows.map((row) =>
          h(
            "tr",
            {},
            h("td", {}, report.strings[row.name]!),
            h("td", {}, h("button", { type: "button", class: "link", on: { click: () => showModule(row.module) } }, modulePath(report, row.module) || "the step")),
            h("td", {}, row.lane),
            h("td", { class: "number" }, count(row.runs)),
            h("td", { class: "number" }, duration(row.time / 1e9)),
            h("td", { class: "number" }, share(row.time, whole)),
          ),
        ),
      ),
    );
  };
  const details = h("details", {}, h("summary", {}, "What takes longest, as a table"));
  details.addEventListener("toggle", () => details.open && details.childElementCount === 1 && details.append(build()));
  return details;
}
