// Time against memory: every plan that was found, and those that no other beats in both.

import type { PlanPoint, ReportDocument } from "./document";
import { figure, h, section } from "./dom";
import { count, duration, size } from "./format";
import { plot } from "./plot";
import { table } from "./summary";

export function plansSection(report: ReportDocument): HTMLElement | null {
  const { plans } = report;
  if (plans.length === 0) return null;
  const limit = report.summary.memory_limit;
  const label = (plan: PlanPoint) => `${plan.mesh}: ${duration(plan.step_seconds)} a step, ${size(plan.peak_bytes)} at the peak`;
  const point = (plan: PlanPoint) => ({
    x: plan.peak_bytes,
    y: plan.step_seconds,
    label: label(plan),
    chosen: plan.is_chosen,
    faint: !plan.is_frontier,
    name: plan.is_chosen ? "chosen" : undefined,
  });
  // From the smallest on, which is the slowest.
  const frontier = plans.filter((plan) => plan.is_frontier).sort((left, right) => left.peak_bytes - right.peak_bytes);
  const picture = plot({
    label: `Time against memory of ${plans.length} plans. The table has the same.`,
    x: { title: "memory at the peak", show: (bytes) => (bytes === 0 ? "0" : size(bytes).replace(/\.0+ /, " ")), limit: limit as number | undefined, unit: 2 ** 30 },
    y: { title: "a step", show: duration },
    lines: frontier.length > 1 ? [{ points: frontier.map(point), color: "--blue", steps: true }] : [],
    points: plans.map(point),
  });
  const rows = [...plans].sort((left, right) => left.step_seconds - right.step_seconds);
  return section(
    "plans",
    "Time against memory",
    plans.length > 1
      ? "Plans that were laid out and simulated. On the line are those that no other beats in both; filled is the one that was chosen."
      : "Only one plan was laid out and simulated: no other came close.",
    h(
      "div",
      { class: "columns even" },
      h("div", { class: "main" }, figure("", picture)),
      h(
        "div",
        { class: "main scroll" },
        table(
          ["mesh", "microbatches", "a step", "at the peak"],
          rows.map((plan) => [
            h("span", {}, h("code", {}, plan.mesh), plan.is_chosen ? " chosen" : plan.is_frontier ? "" : " beaten"),
            count(plan.microbatches),
            duration(plan.step_seconds),
            size(plan.peak_bytes),
          ]),
        ),
      ),
    ),
  );
}
