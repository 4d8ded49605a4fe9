// Long lists: only what is seen is there, and rows are told by number to those who hear the page.

import { h } from "./dom";

const ROW = 26;

/** A list of rows of the same height that are made when they are seen. */
export class VirtualList {
  readonly element: HTMLElement;
  private readonly space = h("div", { class: "space", role: "presentation" });
  private frame = 0;
  private length = 0;
  /** The row that keys go from. */
  current = 0;

  constructor(
    private readonly options: {
      role: string;
      label: string;
      row: (index: number) => HTMLElement;
      header?: HTMLElement;
      height?: number;
      onKey?: (event: KeyboardEvent, row: number) => boolean;
    },
  ) {
    this.element = h("div", { class: "list", role: options.role, "aria-label": options.label, style: { maxHeight: `${options.height ?? 420}px` } });
    if (options.header) this.element.append(options.header);
    this.element.append(this.space);
    this.element.addEventListener("scroll", () => this.render());
    this.element.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.render()).observe(this.element);
    addEventListener("beforeprint", () => this.fill(Math.min(this.length, 60)));
    addEventListener("afterprint", () => this.render());
  }

  show(length: number): void {
    this.length = length;
    this.current = Math.min(this.current, Math.max(length - 1, 0));
    this.element.setAttribute("aria-rowcount", String(length + 1));
    this.space.style.height = `${length * ROW}px`;
    this.render();
  }

  render(): void {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.fill(0);
    });
  }

  /** Brings a row into the middle, and the keyboard to it where that is wanted. */
  reveal(index: number, focus = false): void {
    this.current = index;
    const room = this.element.clientHeight;
    const top = index * ROW;
    if (top < this.element.scrollTop || top > this.element.scrollTop + room - 2 * ROW) {
      this.element.scrollTop = Math.max(top - room / 2, 0);
    }
    this.fill(0);
    if (focus) this.space.querySelector<HTMLElement>(`[data-row="${index}"]`)?.focus({ preventScroll: true });
  }

  private fill(atLeast: number): void {
    const begin = performance.now();
    const held = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.row : undefined;
    const isHeld = held !== undefined && this.space.contains(document.activeElement);
    const first = atLeast > 0 ? 0 : Math.max(Math.floor(this.element.scrollTop / ROW) - 4, 0);
    const seen = Math.ceil(this.element.clientHeight / ROW) + 8;
    const last = Math.min(first + Math.max(seen, atLeast), this.length);
    const rows: HTMLElement[] = [];
    for (let index = first; index < last; index++) {
      const row = this.options.row(index);
      row.style.top = `${index * ROW}px`;
      row.dataset.row = String(index);
      row.tabIndex = index === this.current ? 0 : -1;
      row.setAttribute("aria-rowindex", String(index + 2));
      rows.push(row);
    }
    if (rows.length > 0 && (this.current < first || this.current >= last)) rows[0]!.tabIndex = 0;
    this.space.replaceChildren(...rows);
    if (isHeld) this.space.querySelector<HTMLElement>(`[data-row="${held}"]`)?.focus({ preventScroll: true });
    // Tests hold this to what a frame may take.
    this.element.dataset.drawn = (performance.now() - begin).toFixed(2);
  }

  private key(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    const row = target.closest<HTMLElement>("[data-row]");
    if (!row) return;
    const at = Number(row.dataset.row);
    if (this.options.onKey?.(event, at)) {
      event.preventDefault();
      return;
    }
    const page = Math.max(Math.floor(this.element.clientHeight / ROW) - 2, 1);
    const to: Record<string, number> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      PageDown: at + page,
      PageUp: at - page,
      Home: 0,
      End: this.length - 1,
    };
    const next = to[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.reveal(Math.min(Math.max(next, 0), this.length - 1), true);
  }
}

export interface Column {
  title: string;
  /** Of a row, for sorting. */
  key: (row: number) => number | string;
  cell: (row: number) => Node | string;
  width: string;
  number?: boolean;
}

/** A table that can be sorted by every column and filtered by a text. */
export function sortableTable(options: {
  id: string;
  label: string;
  rows: number;
  columns: Column[];
  sortedBy: number;
  /** All text of a row, in which is searched. */
  text: (row: number) => string;
  choose?: (row: number) => void;
  height?: number;
}): HTMLElement {
  let sorted = options.sortedBy;
  let falling = true;
  let filter = "";
  let order: number[] = [];
  const template = options.columns.map((column) => column.width).join(" ");
  const heads = options.columns.map((column, index) => {
    const button = h("button", { type: "button", on: { click: () => sortBy(index) } }, column.title);
    return h("div", { role: "columnheader", class: column.number ? "number" : "" }, button);
  });
  const header = h("div", { role: "row", class: "row head", style: { gridTemplateColumns: template } }, ...heads);
  const list = new VirtualList({
    role: "table",
    label: options.label,
    header,
    height: options.height,
    row: (index) => {
      const number = order[index]!;
      const cells = options.columns.map((column) =>
        h("div", { role: "cell", class: column.number ? "number" : "" }, column.cell(number)),
      );
      return h("div", { role: "row", class: "row", style: { gridTemplateColumns: template }, on: { click: () => options.choose?.(number) } }, ...cells);
    },
    onKey: (event, row) => {
      if (event.key !== "Enter" || !options.choose) return false;
      options.choose(order[row]!);
      return true;
    },
  });
  list.element.id = options.id;
  const tally = h("span", { class: "small", role: "status" });
  const input = h("input", { type: "search", placeholder: "Filter", "aria-label": `Filter ${options.label}` });
  input.addEventListener("input", () => {
    filter = input.value.trim().toLowerCase();
    update();
  });
  const update = () => {
    const column = options.columns[sorted]!;
    order = Array.from({ length: options.rows }, (_, row) => row);
    if (filter) order = order.filter((row) => options.text(row).toLowerCase().includes(filter));
    const keys = new Map(order.map((row) => [row, column.key(row)]));
    order.sort((left, right) => {
      const [a, b] = [keys.get(left)!, keys.get(right)!];
      const compared = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
      return (falling ? -compared : compared) || left - right;
    });
    heads.forEach((head, index) => head.setAttribute("aria-sort", index !== sorted ? "none" : falling ? "descending" : "ascending"));
    tally.textContent = filter ? `${order.length.toLocaleString("en-US")} of ${options.rows.toLocaleString("en-US")}` : options.rows.toLocaleString("en-US");
    list.element.scrollTop = 0;
    list.show(order.length);
  };
  const sortBy = (column: number) => {
    falling = column === sorted ? !falling : Boolean(options.columns[column]!.number);
    sorted = column;
    update();
  };
  update();
  return h("div", {}, h("div", { class: "toolbar" }, input, tally), list.element);
}
