// What devices send each other, sortable by what it costs.

import type { ReportDocument } from "./document";
import { modulePath } from "./document";
import { h, section, words } from "./dom";
import { count, duration, share, size } from "./format";
import { type Column, sortableTable } from "./list";

export function transfersSection(report: ReportDocument, showModule: (module: number) => void): HTMLElement | null {
  const { collectives, reshards } = report;
  const tables: HTMLElement[] = [];
  if (collectives && collectives.name.length > 0) {
    tables.push(h("h3", {}, "Collectives, as they run"), collectivesTable(report, showModule));
  }
  if (reshards && reshards.op.length > 0) {
    tables.push(h("h3", {}, "Reshards, and why"), reshardsTable(report, showModule));
  }
  if (tables.length === 0) return null;
  return section(
    "transfers",
    "What devices send each other",
    "Collectives take as long whether anybody waits for them or not; of several that are combined, the place is that of the last. A reshard is a value that is made one way and needed another; it may take several steps.",
    ...tables,
  );
}

function collectivesTable(report: ReportDocument, showModule: (module: number) => void): HTMLElement {
  const columns = report.collectives!;
  const text = (number: number) => report.strings[number]!;
  const paths = memo((row) => modulePath(report, columns.module[row]!));
  const step = (report.summary.step_seconds ?? 0) * 1;
  const isStaged = (report.timeline?.stages.length ?? 1) > 1;
  const list: Column[] = [
    { title: "collective", width: "minmax(7rem, 1fr)", key: (row) => text(columns.name[row]!), cell: (row) => text(columns.name[row]!) },
    { title: "where", width: "minmax(10rem, 2fr)", key: paths, cell: (row) => paths(row) || "the step" },
    { title: "source", width: "minmax(8rem, 2fr)", key: (row) => text(columns.source[row]!), cell: (row) => text(columns.source[row]!) },
    { title: "devices", width: "5rem", number: true, key: (row) => columns.devices[row]!, cell: (row) => count(columns.devices[row]!) },
    { title: "runs", width: "5rem", number: true, key: (row) => columns.runs[row]!, cell: (row) => count(columns.runs[row]!) },
    { title: "bytes a run", width: "6rem", number: true, key: (row) => columns.bytes[row]!, cell: (row) => size(columns.bytes[row]!) },
    { title: "takes", width: "6rem", number: true, key: (row) => columns.seconds[row]!, cell: (row) => duration(columns.seconds[row]!) },
    { title: "of the step", width: "5.5rem", number: true, key: (row) => columns.seconds[row]!, cell: (row) => share(columns.seconds[row]!, step) },
  ];
  if (isStaged) list.splice(2, 0, { title: "stage", width: "4rem", number: true, key: (row) => columns.stage[row]!, cell: (row) => count(columns.stage[row]!) });
  return sortableTable({
    id: "collectives-table",
    label: "collectives",
    rows: columns.name.length,
    columns: list,
    sortedBy: list.length - 2,
    text: (row) => `${text(columns.name[row]!)} ${paths(row)} ${text(columns.source[row]!)}`,
    choose: (row) => showModule(columns.module[row]!),
  });
}

function reshardsTable(report: ReportDocument, showModule: (module: number) => void): HTMLElement {
  const columns = report.reshards!;
  const text = (number: number) => report.strings[number]!;
  const lies = (number: number) => report.program?.shardings[number]?.text ?? "";
  const paths = memo((row) => modulePath(report, columns.module[row]!));
  const list: Column[] = [
    { title: "operation", width: "minmax(7rem, 1fr)", key: (row) => text(columns.op[row]!), cell: (row) => text(columns.op[row]!) },
    { title: "where", width: "minmax(9rem, 1.4fr)", key: paths, cell: (row) => paths(row) || "the step" },
    { title: "type", width: "minmax(7rem, 1fr)", key: (row) => text(columns.type[row]!), cell: (row) => h("code", {}, text(columns.type[row]!)) },
    { title: "from → to", width: "minmax(11rem, 1.6fr)", key: (row) => lies(columns.from[row]!), cell: (row) => h("code", { title: text(columns.steps[row]!) }, `${lies(columns.from[row]!)} → ${lies(columns.to[row]!)}`) },
    { title: "why", width: "minmax(14rem, 3fr)", key: (row) => text(columns.reason[row]!), cell: (row) => h("span", { title: text(columns.reason[row]!) }, words(text(columns.reason[row]!))) },
    { title: "sent", width: "5.5rem", number: true, key: (row) => columns.bytes[row]!, cell: (row) => size(columns.bytes[row]!) },
    { title: "alone takes", width: "6rem", number: true, key: (row) => columns.seconds[row]!, cell: (row) => duration(columns.seconds[row]!) },
  ];
  return sortableTable({
    id: "reshards-table",
    label: "reshards",
    rows: columns.op.length,
    columns: list,
    sortedBy: list.length - 1,
    text: (row) => `${text(columns.op[row]!)} ${paths(row)} ${text(columns.type[row]!)} ${lies(columns.from[row]!)} ${lies(columns.to[row]!)} ${text(columns.reason[row]!)} ${text(columns.source[row]!)}`,
    choose: (row) => showModule(columns.module[row]!),
  });
}

function memo(make: (row: number) => string): (row: number) => string {
  const known = new Map<number, string>();
  return (row) => {
    let found = known.get(row);
    if (found === undefined) {
      found = make(row);
      known.set(row, found);
    }
    return found;
  };
}
