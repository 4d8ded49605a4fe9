// What is in memory over time, by what it is for.

import { CLASSES, onColors, value } from "./colors";
import type { MemoryOverTime } from "./document";
import { h } from "./dom";
import { size } from "./format";
import { Drawing, type Hit, type Viewport, ticks } from "./viewport";

export function memoryDrawing(
  part: MemoryOverTime,
  view: Viewport,
  margin: number,
  label: string,
  height: number,
  tell: (at: number) => string,
  hasLegend = true,
): HTMLElement {
  const time = Float64Array.from(part.time);
  const sums = new Float64Array(time.length);
  for (const series of part.classes) series.bytes.forEach((bytes, index) => (sums[index]! += bytes));
  let highest = 0;
  let peak = 0;
  sums.forEach((sum, index) => {
    if (sum > highest) [highest, peak] = [sum, index];
  });
  const top = Math.max(highest, part.limit ?? 0) * 1.06;
  const draw = (context: CanvasRenderingContext2D, width: number, high: number) => {
    const scale = (width - margin) / (view.end - view.start);
    const x = (at: number) => margin + (at - view.start) * scale;
    const y = (bytes: number) => high - 4 - (bytes / top) * (high - 12);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "right";
    const unit = 2 ** (10 * Math.floor(Math.log2(top) / 10));
    for (const tick of ticks(0, top / unit, high > 100 ? 5 : 2)) {
      context.fillStyle = value("--hairline");
      context.fillRect(margin, Math.round(y(tick * unit)), width - margin, 1);
      context.fillStyle = value("--muted");
      context.fillText(size(tick * unit).replace(/\.0+ /, " "), margin - 8, y(tick * unit));
    }
    context.save();
    context.beginPath();
    context.rect(margin, 0, width - margin, high);
    context.clip();
    area(context, part, time, x, y, view);
    if (part.limit) {
      context.strokeStyle = value("--red");
      context.setLineDash([5, 4]);
      context.beginPath();
      context.moveTo(margin, y(part.limit) + 0.5);
      context.lineTo(width, y(part.limit) + 0.5);
      context.stroke();
      context.setLineDash([]);
      context.fillStyle = value("--red");
      context.textAlign = "left";
      context.fillText(`limit ${size(part.limit)}`, margin + 6, y(part.limit) + (y(part.limit) > 14 ? -7 : 9));
    }
    if (time.length > 0) {
      context.fillStyle = value("--ink");
      context.beginPath();
      context.arc(x(time[peak]!), y(highest), 3, 0, 7);
      context.fill();
      context.textAlign = x(time[peak]!) > width - 90 ? "right" : "left";
      const aside = context.textAlign === "right" ? -7 : 7;
      context.fillText(`peak ${size(highest)}`, x(time[peak]!) + aside, y(highest) - 2);
    }
    context.restore();
  };
  const find = (at: number): Hit | null => {
    if (time.length === 0 || at < 0) return null;
    const index = Math.max(indexAt(time, at), 0);
    const lines = part.classes
      .filter((series) => series.bytes[index]! > 0)
      .map((series) => `${series.name} ${size(series.bytes[index]!)}`);
    const until = time[index + 1] ?? view.length;
    return { start: time[index]!, end: until, lane: -1, title: `${size(sums[index]!)} at ${tell(at)}`, lines };
  };
  const drawing = new Drawing(view, { label: `${label}: ${size(highest)} at the peak.`, margin, height: () => height, draw, find });
  drawing.canvas.classList.add("memory-canvas");
  onColors(() => drawing.redraw());
  const legend = h(
    "ul",
    { class: "legend", "aria-label": "Colors" },
    ...part.classes.map((series) =>
      h("li", {}, h("span", { class: "swatch", style: { background: `var(${CLASSES[series.name] ?? "--gray"})` } }), series.name),
    ),
  );
  return h("div", {}, hasLegend ? legend : null, drawing.element);
}

function indexAt(time: Float64Array, at: number): number {
  let [low, high] = [0, time.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (time[middle]! <= at) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Stacked steps: bytes are there from each time on until the next. */
function area(
  context: CanvasRenderingContext2D,
  part: MemoryOverTime,
  time: Float64Array,
  x: (at: number) => number,
  y: (bytes: number) => number,
  view: Viewport,
): void {
  const first = Math.max(indexAt(time, view.start), 0);
  let last = indexAt(time, view.end) + 1;
  last = Math.min(Math.max(last, first + 1), time.length);
  const base = new Float64Array(last - first);
  for (const series of part.classes) {
    context.beginPath();
    for (let index = first; index < last; index++) {
      const until = index + 1 < time.length ? time[index + 1]! : view.length;
      const high = y(base[index - first]! + series.bytes[index]!);
      if (index === first) context.moveTo(x(time[index]!), high);
      else context.lineTo(x(time[index]!), high);
      context.lineTo(x(until), high);
    }
    for (let index = last - 1; index >= first; index--) {
      const until = index + 1 < time.length ? time[index + 1]! : view.length;
      const low = y(base[index - first]!);
      context.lineTo(x(until), low);
      context.lineTo(x(time[index]!), low);
    }
    context.closePath();
    context.fillStyle = value(CLASSES[series.name] ?? "--gray");
    context.globalAlpha = 0.85;
    context.fill();
    context.globalAlpha = 1;
    for (let index = first; index < last; index++) base[index - first]! += series.bytes[index]!;
  }
}
