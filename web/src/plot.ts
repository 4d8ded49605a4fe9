// Plots of points and lines with two axes.

import { h, s } from "./dom";
import { ticks } from "./viewport";

export interface Point {
  x: number;
  y: number;
  label: string;
  /** A name that is written beside it. */
  name?: string;
  chosen?: boolean;
  faint?: boolean;
}

export interface Line {
  points: Point[];
  color: string;
  name?: string;
  /** Drawn as steps, as what no point beats is. */
  steps?: boolean;
}

export function plot(options: {
  label: string;
  x: { title: string; show: (value: number) => string; limit?: number; unit?: number };
  y: { title: string; show: (value: number) => string; fromZero?: boolean };
  lines: Line[];
  points: Point[];
}): HTMLElement {
  const [width, height] = [640, 330];
  const [left, right, top, bottom] = [72, 24, 14, 44];
  const all = [...options.points, ...options.lines.flatMap((line) => line.points)];
  const xs = all.map((point) => point.x).concat(options.x.limit ?? []);
  const ys = all.map((point) => point.y);
  const xMost = Math.max(...xs) * 1.05 || 1;
  const xLeast = Math.min(0, ...xs);
  const spread = Math.max(...ys) - Math.min(...ys) || Math.max(...ys) * 0.1 || 1;
  const yLeast = options.y.fromZero ? 0 : Math.max(Math.min(...ys) - spread * 0.15, 0);
  const yMost = Math.max(...ys) + spread * 0.15;
  const x = (value: number) => left + ((value - xLeast) / (xMost - xLeast)) * (width - left - right);
  const y = (value: number) => height - bottom - ((value - yLeast) / (yMost - yLeast)) * (height - top - bottom);
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot", role: "img", "aria-label": options.label });
  const text = (at: number, down: number, anchor: string, words: string, kind = "tick") =>
    svg.append(s("text", { x: at, y: down, "text-anchor": anchor, class: kind }, words));
  for (const tick of ticks(yLeast, yMost, 5)) {
    svg.append(s("line", { x1: left, x2: width - right, y1: y(tick), y2: y(tick), class: "grid" }));
    text(left - 8, y(tick) + 4, "end", options.y.show(tick));
  }
  const unit = options.x.unit ?? 1;
  for (const tick of ticks(xLeast / unit, xMost / unit, 6)) {
    text(x(tick * unit), height - bottom + 18, "middle", options.x.show(tick * unit));
    svg.append(s("line", { x1: x(tick * unit), x2: x(tick * unit), y1: height - bottom, y2: height - bottom + 4, class: "grid" }));
  }
  text(width - right, height - 6, "end", options.x.title, "title");
  text(left - 60, top + 2, "start", options.y.title, "title");
  if (options.x.limit) {
    svg.append(s("line", { x1: x(options.x.limit), x2: x(options.x.limit), y1: top, y2: height - bottom, class: "limit-line" }));
    text(x(options.x.limit) - 5, top + 10, "end", "limit", "limit-text");
  }
  for (const line of options.lines) svg.append(path(line, x, y));
  for (const point of [...options.lines.flatMap((line) => (line.steps ? [] : line.points.map((each) => ({ ...each, color: line.color })))), ...options.points]) {
    const color = (point as { color?: string }).color;
    const dot = s(
      "circle",
      { cx: x(point.x), cy: y(point.y), r: point.chosen ? 6 : 4, class: `point${point.chosen ? " chosen" : ""}${point.faint ? " faint" : ""}`, tabindex: "0", role: "img", "aria-label": point.label, style: color ? { fill: `var(${color})` } : undefined },
      s("title", {}, point.label),
    );
    svg.append(dot);
    if (point.name) {
      const isRight = x(point.x) > width * 0.7;
      text(x(point.x) + (isRight ? -10 : 10), y(point.y) - 8, isRight ? "end" : "start", point.name, "name");
    }
  }
  const legend = options.lines.filter((line) => line.name);
  return h(
    "div",
    {},
    legend.length > 0
      ? h("ul", { class: "legend" }, ...legend.map((line) => h("li", {}, h("span", { class: "swatch", style: { background: `var(${line.color})` } }), line.name!)))
      : null,
    svg,
  );
}

function path(line: Line, x: (value: number) => number, y: (value: number) => number): SVGElement {
  let data = "";
  line.points.forEach((point, index) => {
    if (index === 0) data += `M${x(point.x).toFixed(1)},${y(point.y).toFixed(1)}`;
    else if (line.steps) data += `V${y(point.y).toFixed(1)}H${x(point.x).toFixed(1)}`;
    else data += `L${x(point.x).toFixed(1)},${y(point.y).toFixed(1)}`;
  });
  return s("path", { d: data, class: line.steps ? "curve steps" : "curve", style: { stroke: `var(${line.color})` } });
}
