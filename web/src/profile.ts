// Parts of a profile: memory over the steps of the program, and the largest buffers.

import type { ReportDocument } from "./document";
import { figure, h, section } from "./dom";
import { count, size } from "./format";
import { memoryDrawing } from "./memory";
import { table } from "./summary";
import { Viewport, zoomButtons } from "./viewport";

interface Buffer {
  name: string;
  type: string;
  class: string;
  bytes: number;
  module?: string | null;
  location?: string | null;
}

export function profileSection(report: ReportDocument): HTMLElement | null {
  if (report.kind !== "profile" || report.memory.length === 0) return null;
  const part = report.memory[0]!;
  const view = new Viewport(Math.max(part.time[part.time.length - 1] ?? 0, 1) + 1, 10);
  const buffers = (report.summary.buffers as Buffer[] | undefined) ?? [];
  return section(
    "memory",
    "Memory over the step",
    "What is in memory while each kernel of the step runs, in their order.",
    h("div", { class: "toolbar" }, zoomButtons(view)),
    figure("", memoryDrawing(part, view, 118, "Memory over the step", 220, (at) => `kernel ${count(at)}`)),
    buffers.length > 0 ? h("h3", {}, "The largest at the peak") : null,
    buffers.length > 0
      ? table(
          ["buffer", "is a part of", "type", "size"],
          buffers.map((buffer) => [h("span", {}, h("code", {}, buffer.name), buffer.location ? ` ${buffer.location}` : ""), buffer.class, h("code", {}, buffer.type), size(buffer.bytes)]),
        )
      : null,
  );
}
