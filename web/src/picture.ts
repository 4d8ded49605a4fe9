// How a mesh cuts a tensor, drawn: lines and columns for the last two dimensions that are cut, panels for further ones.
// A part of a sum is a stack of sheets.

import type { Mesh, Sharding } from "./document";
import { h, s } from "./dom";
import { count } from "./format";

/** Parts along a dimension that are drawn, and panels; of more, the first and the last are. */
const MOST = 8;
const MOST_PANELS = 6;
const CELL = { width: 58, height: 30 };

/** The sizes of `f32[8,16]`. */
export function shapeOf(type: string): number[] {
  const inside = /\[(.*)\]/.exec(type)?.[1] ?? "";
  return inside === "" ? [] : inside.split(",").map(Number);
}

/** The axes that cut a value, by name, each dimension's behind the others. */
export function axesOf(mesh: Mesh, sharding: Sharding): string {
  const axes = new Set(sharding.dims.flat().map((piece) => mesh.pieces[piece]!.axis));
  return [...axes].sort((left, right) => left - right).map((axis) => mesh.axes[axis]!.name).join(" ");
}

function parts(mesh: Mesh, pieces: number[]): number {
  return pieces.reduce((product, piece) => product * mesh.pieces[piece]!.size, 1);
}

/** Where a device stands along pieces, the first the most significant. Slices in time are all on the same device. */
function position(mesh: Mesh, device: number, pieces: number[]): number {
  return pieces.reduce((at, number) => {
    const piece = mesh.pieces[number]!;
    if (mesh.axes[piece.axis]!.time) return at;
    return at * piece.size + (Math.floor(device / piece.stride) % piece.size);
  }, 0);
}

export function picture(mesh: Mesh, shape: number[], sharding: Sharding): HTMLElement {
  const cuts = sharding.dims.map((pieces) => parts(mesh, pieces));
  const cut = cuts.map((_, dim) => dim).filter((dim) => cuts[dim]! > 1);
  const rank = cuts.length;
  let rows: number | null = rank > 1 ? rank - 2 : null;
  let columns: number | null = rank > 0 ? rank - 1 : null;
  let panels: number[] = [];
  if (cut.length === 1) {
    const dim = cut[0]!;
    [rows, columns] = dim === rank - 1 ? [dim > 0 ? dim - 1 : null, dim] : [dim, rank - 1];
  } else if (cut.length > 1) {
    rows = cut[cut.length - 2]!;
    columns = cut[cut.length - 1]!;
    panels = cut.slice(0, -2);
  }
  const holders = new Map<string, number[]>();
  for (let device = 0; device < mesh.devices; device++) {
    const key = sharding.dims.map((pieces) => position(mesh, device, pieces)).join(",");
    const list = holders.get(key);
    if (list) list.push(device);
    else holders.set(key, [device]);
  }
  const combinations = panels.reduce<number[][]>(
    (all, dim) => all.flatMap((before) => Array.from({ length: cuts[dim]! }, (_, part) => [...before, part])),
    [[]],
  );
  const drawn = combinations.map((panel) => {
    const at = new Array<number>(rank).fill(0);
    panels.forEach((dim, index) => (at[dim] = panel[index]!));
    const title = panels.map((dim, index) => `part ${panel[index]} of dimension ${dim}`).join(", ");
    return { title, svg: grid(sharding, holders, at, cuts, rows, columns, shape) };
  });
  const skipped = Math.max(drawn.length - MOST_PANELS, 0);
  const shown = skipped > 0 ? [...drawn.slice(0, MOST_PANELS - 1), drawn[drawn.length - 1]!] : drawn;
  return h(
    "div",
    { class: "picture", role: "img", "aria-label": describe(mesh, shape, sharding, cuts) },
    ...shown.map(({ title, svg }) => h("div", { class: "panel" }, title ? h("span", { class: "small" }, title) : null, svg)),
    skipped > 0 ? h("span", { class: "small" }, `${skipped} more panels`) : null,
    h("p", { class: "small" }, describe(mesh, shape, sharding, cuts)),
  );
}

/** How a value lies, in words. */
function describe(mesh: Mesh, shape: number[], sharding: Sharding, cuts: number[]): string {
  const name = (pieces: number[]) => [...new Set(pieces.map((piece) => mesh.axes[mesh.pieces[piece]!.axis]!.name))].join(", ");
  const cut = cuts
    .map((number, dim) => (number > 1 ? `dimension ${dim} of ${count(shape[dim] ?? 0)} into ${number} parts by ${name(sharding.dims[dim]!)}` : ""))
    .filter(Boolean);
  const lies = cut.length > 0 ? `Cut: ${cut.join("; ")}.` : "Whole on every device.";
  const terms = parts(mesh, sharding.partial);
  const partial = sharding.partial.length > 0 ? ` Every part is one of ${terms} terms of a ${sharding.reduction} over ${name(sharding.partial)}.` : "";
  return lies + partial;
}

function grid(
  sharding: Sharding,
  holders: Map<string, number[]>,
  at: number[],
  cuts: number[],
  rows: number | null,
  columns: number | null,
  shape: number[],
): SVGElement {
  const along = (dim: number | null): (number | null)[] => {
    const number = dim === null ? 1 : cuts[dim]!;
    if (number <= MOST) return Array.from({ length: number }, (_, part) => part);
    return [...Array.from({ length: MOST - 2 }, (_, part) => part), null, number - 1];
  };
  const [down, across] = [along(rows), along(columns)];
  const isPartial = sharding.partial.length > 0;
  const sheets = isPartial ? 2 : 0;
  const [left, top] = [46, 18];
  const width = left + across.length * CELL.width + 12;
  const height = top + down.length * CELL.height + 12;
  const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  const text = (x: number, y: number, anchor: string, words: string, kind: string) =>
    svg.append(s("text", { x, y, "text-anchor": anchor, class: kind }, words));
  if (columns !== null) text(left + (across.length * CELL.width) / 2, 12, "middle", `${count(shape[columns] ?? 0)}`, "dim");
  if (rows !== null) text(left - 6, top + (down.length * CELL.height) / 2 + 4, "end", `${count(shape[rows] ?? 0)}`, "dim");
  down.forEach((row, y) => {
    across.forEach((column, x) => {
      const [px, py] = [left + x * CELL.width, top + y * CELL.height];
      for (let sheet = sheets; sheet >= 0; sheet--) {
        const shift = sheet * 3;
        svg.append(
          s("rect", {
            x: px + shift,
            y: py + shift,
            width: CELL.width - 6,
            height: CELL.height - 6,
            rx: 2,
            class: isPartial ? "cell partial" : "cell",
          }),
        );
      }
      const part = [...at];
      if (rows !== null) part[rows] = row ?? 0;
      if (columns !== null) part[columns] = column ?? 0;
      const devices = row === null || column === null ? "…" : listed(holders.get(part.join(",")) ?? []);
      text(px + (CELL.width - 6) / 2, py + CELL.height / 2 + 1, "middle", isPartial && devices !== "…" ? `Σ ${devices}` : devices, "devices");
    });
  });
  return svg;
}

/** Devices, such as `0–7` or `0,8,…56`. */
function listed(devices: number[]): string {
  if (devices.length < 3) return devices.join(",");
  const [first, second, last] = [devices[0]!, devices[1]!, devices[devices.length - 1]!];
  const step = second - first;
  const isEven = devices.every((device, index) => index === 0 || device - devices[index - 1]! === step);
  if (isEven && step === 1) return `${first}–${last}`;
  return `${first},${second},…${last}`;
}
