// A sweep: what comes of every combination.

import type { ReportDocument, SweptRow } from "./document";
import { figure, h, replace, section } from "./dom";
import { count, duration, share, size } from "./format";
import { type Column, sortableTable } from "./list";
import { type Line, plot } from "./plot";

const COLORS = ["--blue", "--orange", "--green", "--purple", "--teal", "--red", "--yellow", "--pink"];

export function sweepSection(report: ReportDocument): HTMLElement | null {
  const sweep = report.sweep;
  if (!sweep) return null;
  const { keys, rows } = sweep;
  const measures: Record<string, { title: string; value: (row: SweptRow) => number | null; show: (value: number) => string }> = {
    step: { title: "a step", value: (row) => row.step_seconds, show: duration },
    rate: { title: "throughput", value: (row) => row.throughput, show: count },
    mfu: { title: "MFU", value: (row) => row.mfu, show: (value) => share(value, 1) },
    peak: { title: "at the peak", value: (row) => row.peak_bytes, show: size },
  };
  const holder = h("div", {});
  const across = h("select", { "aria-label": "Along", id: "sweep-along" }, ...keys.map((key, index) => h("option", { value: String(index) }, key)));
  const measure = h("select", { "aria-label": "Show", id: "sweep-measure" }, ...Object.entries(measures).map(([name, { title }]) => h("option", { value: name }, title)));
  const draw = () => {
    const along = Number(across.value);
    const { title, value, show } = measures[measure.value]!;
    const lines = new Map<string, Line>();
    for (const row of rows) {
      const number = value(row);
      if (number === null) continue;
      const name = keys.map((key, index) => (index === along ? "" : `${key} ${row.shown[index]}`)).filter(Boolean).join(", ");
      const line = lines.get(name) ?? { name, color: COLORS[lines.size % COLORS.length]!, points: [] };
      line.points.push({ x: row.values[along]!, y: number, label: `${keys[along]} ${row.shown[along]}${name ? `, ${name}` : ""}: ${show(number)}${row.fits ? "" : ", does not fit"}`, faint: !row.fits });
      lines.set(name, line);
    }
    for (const line of lines.values()) line.points.sort((left, right) => left.x - right.x);
    const isBytes = keys[along] === "memory";
    replace(
      holder,
      lines.size > 0
        ? plot({
            label: `${title} over ${keys[along]}. The table has the same.`,
            x: { title: keys[along]!, show: isBytes ? (bytes) => size(bytes).replace(/\.0+ /, " ") : (number) => String(Number(number.toPrecision(4))), unit: isBytes ? 2 ** 30 : 1 },
            y: { title, show, fromZero: measure.value !== "step" },
            lines: [...lines.values()],
            points: [],
          })
        : h("p", {}, "Nothing came of any combination."),
    );
  };
  across.addEventListener("change", draw);
  measure.addEventListener("change", draw);
  draw();
  const columns: Column[] = [
    ...keys.map((key, index): Column => ({ title: key, width: "minmax(5rem, 1fr)", number: true, key: (row) => rows[row]!.values[index]!, cell: (row) => rows[row]!.shown[index]! })),
    { title: "a step", width: "6rem", number: true, key: (row) => rows[row]!.step_seconds ?? Infinity, cell: (row) => told(rows[row]!.step_seconds, duration) },
    { title: "throughput", width: "6.5rem", number: true, key: (row) => rows[row]!.throughput ?? -1, cell: (row) => told(rows[row]!.throughput, (rate) => (rate >= 99.95 ? count(rate) : rate.toFixed(1))) },
    { title: "MFU", width: "5rem", number: true, key: (row) => rows[row]!.mfu ?? -1, cell: (row) => told(rows[row]!.mfu, (mfu) => share(mfu, 1)) },
    { title: "at the peak", width: "6.5rem", number: true, key: (row) => rows[row]!.peak_bytes ?? Infinity, cell: (row) => told(rows[row]!.peak_bytes, size) },
    { title: "fits", width: "4rem", key: (row) => (rows[row]!.fits ? 0 : 1), cell: (row) => (rows[row]!.fits ? "yes" : "no") },
    { title: "mesh, or why not", width: "minmax(10rem, 2fr)", key: (row) => rows[row]!.mesh ?? "", cell: (row) => rows[row]!.mesh ?? rows[row]!.reason ?? "" },
  ];
  return section(
    "sweep",
    "Every combination",
    "",
    h("div", { class: "toolbar" }, h("label", {}, "show ", measure), h("label", {}, "along ", across)),
    figure("", holder),
    sortableTable({
      id: "sweep-table",
      label: "combinations",
      rows: rows.length,
      columns,
      sortedBy: keys.length + 1,
      text: (row) => `${rows[row]!.shown.join(" ")} ${rows[row]!.mesh ?? ""} ${rows[row]!.reason ?? ""}`,
    }),
  );
}

function told(value: number | null, show: (value: number) => string): string {
  return value === null ? "" : show(value);
}
