// How the arguments of the step are stored, each with a picture of its cut.

import type { ReportDocument } from "./document";
import { h, replace, section } from "./dom";
import { size } from "./format";
import { type Column, sortableTable } from "./list";
import { picture, shapeOf } from "./picture";

export function tensorsSection(report: ReportDocument): HTMLElement | null {
  const columns = report.arguments;
  const { mesh, program } = report;
  if (!columns || columns.name.length === 0 || !mesh || !program) return null;
  const text = (number: number) => report.strings[number]!;
  const lies = (row: number) => program.shardings[columns.lies[row]!];
  const details = h("aside", { class: "details", "aria-label": "How a tensor is cut", "aria-live": "polite" });
  const show = (row: number) => {
    const sharding = lies(row);
    const type = text(columns.type[row]!);
    if (!sharding) return;
    replace(
      details,
      h("h3", {}, text(columns.name[row]!)),
      h("p", { class: "small" }, `${text(columns.role[row]!)}, ${type}, ${size(columns.bytes[row]!)} on a device`),
      h("p", {}, h("code", {}, sharding.text)),
      picture(mesh, shapeOf(type), sharding),
    );
  };
  const list: Column[] = [
    { title: "name", width: "minmax(14rem, 2.4fr)", key: (row) => text(columns.name[row]!), cell: (row) => text(columns.name[row]!) },
    { title: "is a", width: "6rem", key: (row) => text(columns.role[row]!), cell: (row) => text(columns.role[row]!) },
    { title: "type", width: "minmax(8rem, 1fr)", key: (row) => text(columns.type[row]!), cell: (row) => h("code", {}, text(columns.type[row]!)) },
    { title: "is stored as", width: "minmax(9rem, 1.2fr)", key: (row) => lies(row)?.text ?? "", cell: (row) => h("code", {}, lies(row)?.text ?? "") },
    { title: "on a device", width: "6.5rem", number: true, key: (row) => columns.bytes[row]!, cell: (row) => size(columns.bytes[row]!) },
  ];
  const table = sortableTable({
    id: "tensors-table",
    label: "arguments",
    rows: columns.name.length,
    columns: list,
    sortedBy: list.length - 1,
    text: (row) => `${text(columns.name[row]!)} ${text(columns.role[row]!)} ${text(columns.type[row]!)} ${lies(row)?.text ?? ""}`,
    choose: show,
    height: 380,
  });
  let largest = 0;
  columns.bytes.forEach((bytes, row) => {
    if (bytes > columns.bytes[largest]!) largest = row;
  });
  show(largest);
  return section(
    "tensors",
    "How tensors are stored",
    "Boxes are parts, with the numbers of the devices that hold them. Choose a row to see its picture.",
    h("div", { class: "columns" }, h("div", { class: "main" }, table), details),
  );
}
