// A stretch of a line that is looked at: zoomed and moved by wheel, pointer, keys and buttons. Several drawings may share one.

import { h } from "./dom";

export class Viewport {
  start = 0;
  end: number;
  private readonly listeners: (() => void)[] = [];

  /** `least` is the shortest stretch that can be looked at. */
  constructor(
    readonly length: number,
    readonly least: number,
  ) {
    this.end = length;
  }

  onChange(listener: () => void): void {
    this.listeners.push(listener);
  }

  show(start: number, end: number): void {
    const span = Math.min(Math.max(end - start, this.least), this.length);
    this.start = Math.min(Math.max(start, 0), this.length - span);
    this.end = this.start + span;
    for (const listener of this.listeners) listener();
  }

  /** Zooms about a place by a factor below 1 inwards, above 1 outwards. */
  zoom(factor: number, about = (this.start + this.end) / 2): void {
    const span = Math.min(Math.max((this.end - this.start) * factor, this.least), this.length);
    const left = (about - this.start) / (this.end - this.start);
    this.show(about - left * span, about + (1 - left) * span);
  }

  move(share: number): void {
    const by = share * (this.end - this.start);
    this.show(this.start + by, this.end + by);
  }

  reset(): void {
    this.show(0, this.length);
  }

  get isWhole(): boolean {
    return this.start <= 0 && this.end >= this.length;
  }
}

export interface Hit {
  /** Where it is, for zooming to it. */
  start: number;
  end: number;
  lane: number;
  title: string;
  lines: string[];
  module?: number;
  op?: number;
}

/** A drawing on a canvas over a viewport, with what is under the pointer told. */
export class Drawing {
  readonly element: HTMLElement;
  readonly canvas: HTMLCanvasElement;
  private readonly tip = h("div", { class: "tip", "aria-hidden": "true" });
  private frame = 0;
  private hit: Hit | null = null;
  private dragged = 0;

  constructor(
    private readonly view: Viewport,
    private readonly options: {
      label: string;
      /** Pixels at the left that are labels of lanes. */
      margin: number;
      height: () => number;
      draw: (context: CanvasRenderingContext2D, width: number, height: number) => void;
      find?: (at: number, y: number, perPixel: number) => Hit | null;
      /** The next thing in a lane, for keys. */
      next?: (hit: Hit | null, by: number, lanes: number) => Hit | null;
      choose?: (hit: Hit) => void;
      say?: (text: string) => void;
    },
  ) {
    this.canvas = h("canvas", {
      tabindex: "0",
      role: "img",
      "aria-label": `${options.label} Keys: arrows move, plus and minus zoom, 0 shows all, n and p go from one to the next, Enter shows it in the program.`,
    });
    this.element = h("div", { class: "drawing" }, this.canvas, this.tip);
    this.listen();
    view.onChange(() => this.redraw());
    new ResizeObserver(() => this.redraw()).observe(this.element);
  }

  /** Draws before the next picture of the screen, however often it is asked to. */
  redraw(): void {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.drawNow();
    });
  }

  private drawNow(): void {
    const begin = performance.now();
    const width = this.element.clientWidth;
    const height = this.options.height();
    if (width === 0) return;
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      this.canvas.width = wide;
      this.canvas.height = high;
      this.canvas.style.height = `${height}px`;
    }
    const context = this.canvas.getContext("2d");
    if (!context) return;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    this.options.draw(context, width, height);
    if (this.hit) this.outline(context, width);
    // Tests hold this to what a frame may take.
    this.canvas.dataset.drawn = (performance.now() - begin).toFixed(2);
  }

  private outline(context: CanvasRenderingContext2D, width: number): void {
    const { hit, view } = this;
    const inner = width - this.options.margin;
    if (!hit || hit.lane < 0) return;
    const x = (at: number) => this.options.margin + ((at - view.start) / (view.end - view.start)) * inner;
    const [left, right] = [Math.max(x(hit.start), this.options.margin), Math.min(x(hit.end), width)];
    if (right < this.options.margin || left > width) return;
    context.strokeStyle = getComputedStyle(this.canvas).color;
    context.lineWidth = 1.5;
    const top = (hit as Hit & { top?: number }).top ?? 0;
    const tall = (hit as Hit & { tall?: number }).tall ?? 0;
    if (tall > 0) context.strokeRect(left - 0.5, top + 0.5, Math.max(right - left, 2) + 1, tall - 1);
  }

  private at(event: MouseEvent): { at: number; y: number; perPixel: number; x: number } {
    const box = this.canvas.getBoundingClientRect();
    const inner = Math.max(box.width - this.options.margin, 1);
    const perPixel = (this.view.end - this.view.start) / inner;
    const x = event.clientX - box.left;
    return { at: this.view.start + (x - this.options.margin) * perPixel, y: event.clientY - box.top, perPixel, x };
  }

  private listen(): void {
    const { canvas, view, options } = this;
    canvas.addEventListener(
      "wheel",
      (event) => {
        // A wheel alone scrolls the page; with Ctrl or a pinch it zooms, sideways it moves.
        if (event.ctrlKey || event.metaKey || event.altKey) {
          event.preventDefault();
          view.zoom(Math.exp(event.deltaY * 0.004), this.at(event).at);
        } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
          event.preventDefault();
          view.move((event.deltaX || event.deltaY) / 600);
        }
      },
      { passive: false },
    );
    canvas.addEventListener("pointerdown", (event) => {
      const from = this.at(event);
      const { start, end } = view;
      this.dragged = 0;
      canvas.setPointerCapture(event.pointerId);
      const move = (moved: PointerEvent) => {
        const pixels = moved.clientX - event.clientX;
        this.dragged = Math.max(this.dragged, Math.abs(pixels));
        if (this.dragged > 3) view.show(start - pixels * from.perPixel, end - pixels * from.perPixel);
      };
      const stop = () => {
        canvas.removeEventListener("pointermove", move);
        canvas.removeEventListener("pointerup", stop);
        canvas.removeEventListener("pointercancel", stop);
      };
      canvas.addEventListener("pointermove", move);
      canvas.addEventListener("pointerup", stop);
      canvas.addEventListener("pointercancel", stop);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (event.buttons) return;
      const { at, y, perPixel, x } = this.at(event);
      this.point(x < options.margin ? null : (options.find?.(at, y, perPixel) ?? null));
      if (this.hit) this.showTip(event);
    });
    canvas.addEventListener("pointerleave", () => this.point(null));
    canvas.addEventListener("click", () => {
      if (this.dragged <= 3 && this.hit) options.choose?.(this.hit);
    });
    canvas.addEventListener("dblclick", (event) => {
      const hit = this.hit;
      if (hit && hit.end > hit.start) view.show(hit.start - (hit.end - hit.start), hit.end + (hit.end - hit.start));
      else view.zoom(0.4, this.at(event).at);
    });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  private key(event: KeyboardEvent): void {
    const { view, options } = this;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = (by: number, lanes: number) => {
      const hit = options.next?.(this.hit, by, lanes) ?? null;
      if (!hit) return;
      this.point(hit);
      options.say?.([hit.title, ...hit.lines].join(", "));
      const span = view.end - view.start;
      if (hit.start < view.start || hit.end > view.end) view.show(hit.start - span * 0.1, hit.start + span * 0.9);
    };
    const actions: Record<string, () => void> = {
      ArrowLeft: () => view.move(-0.15),
      ArrowRight: () => view.move(0.15),
      a: () => view.move(-0.15),
      d: () => view.move(0.15),
      "+": () => view.zoom(0.6),
      "=": () => view.zoom(0.6),
      w: () => view.zoom(0.6),
      "-": () => view.zoom(1 / 0.6),
      s: () => view.zoom(1 / 0.6),
      "0": () => view.reset(),
      n: () => step(1, 0),
      p: () => step(-1, 0),
      ArrowDown: () => step(0, 1),
      ArrowUp: () => step(0, -1),
      Enter: () => this.hit && options.choose?.(this.hit),
      Escape: () => this.point(null),
    };
    const action = actions[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  }

  private point(hit: Hit | null): void {
    const same = hit?.start === this.hit?.start && hit?.lane === this.hit?.lane && hit?.title === this.hit?.title;
    this.hit = hit;
    this.canvas.style.cursor = hit && this.options.choose ? "pointer" : "";
    if (!hit) this.tip.style.display = "none";
    if (!same) this.redraw();
  }

  private showTip(event: MouseEvent): void {
    const { hit, tip } = this;
    if (!hit) return;
    tip.replaceChildren(h("strong", {}, hit.title), ...hit.lines.map((line) => h("span", {}, line)));
    tip.style.display = "block";
    const box = this.element.getBoundingClientRect();
    const [wide, high] = [tip.offsetWidth, tip.offsetHeight];
    const left = Math.min(event.clientX - box.left + 14, box.width - wide - 4);
    const top = event.clientY - box.top + 18;
    tip.style.left = `${Math.max(left, 0)}px`;
    tip.style.top = `${event.clientY + high + 30 > innerHeight ? top - high - 30 : top}px`;
  }
}

/** Buttons for what keys and wheels do. */
export function zoomButtons(view: Viewport): HTMLElement {
  const button = (label: string, text: string, act: () => void) =>
    h("button", { type: "button", "aria-label": label, title: label, on: { click: act } }, text);
  const buttons = h(
    "div",
    { class: "buttons", role: "group", "aria-label": "Zoom" },
    button("Zoom in", "+", () => view.zoom(0.5)),
    button("Zoom out", "−", () => view.zoom(2)),
    button("Earlier", "←", () => view.move(-0.3)),
    button("Later", "→", () => view.move(0.3)),
    button("Show all", "All", () => view.reset()),
  );
  return buttons;
}

/** Round numbers between two others, about so many. */
export function ticks(start: number, end: number, about: number): number[] {
  const raw = (end - start) / Math.max(about, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= raw) ?? raw;
  const found: number[] = [];
  for (let at = Math.ceil(start / step) * step; at <= end; at += step) found.push(at);
  return found;
}
