// What each decision did: a stepper over tactics, or over what a plan decides.

import type { ReportDocument, TacticStep } from "./document";
import { h, replace, section, words } from "./dom";
import { count, duration, size } from "./format";
import { table } from "./summary";

export function stepsSection(report: ReportDocument): HTMLElement | null {
  const { steps } = report;
  if (steps.length < 2) return null;
  let current = steps.length - 1;
  const limit = (report.summary.memory_limit as number | undefined) ?? 0;
  const slowest = Math.max(...steps.map((step) => step.step_seconds));
  const largest = Math.max(limit, ...steps.map((step) => step.peak_bytes));
  const buttons = steps.map((step, index) => {
    const bar = (value: number, most: number, kind: string) => h("span", { class: `meter ${kind}`, "aria-hidden": "true" }, h("span", { style: { width: `${(100 * value) / most}%` } }));
    const fits = limit === 0 || step.peak_bytes <= limit;
    return h(
      "button",
      { type: "button", role: "tab", id: `step-${index}`, "aria-controls": "step-panel", on: { click: () => show(index) } },
      h("strong", {}, `${index}. ${step.name}`),
      h("span", { class: "small" }, `${duration(step.step_seconds)} a step`),
      bar(step.step_seconds, slowest, "time"),
      h("span", { class: fits ? "small" : "small over" }, `${size(step.peak_bytes)}${fits ? "" : ", does not fit"}`),
      bar(step.peak_bytes, largest, fits ? "memory" : "memory over"),
    );
  });
  const list = h("div", { class: "stepper", role: "tablist", "aria-label": "Decisions in order" }, ...buttons);
  list.addEventListener("keydown", (event) => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (by === 0) return;
    event.preventDefault();
    show(Math.min(Math.max(current + by, 0), steps.length - 1));
    buttons[current]!.focus();
  });
  const panel = h("div", { id: "step-panel", role: "tabpanel", class: "step-panel" });
  const show = (index: number) => {
    current = index;
    buttons.forEach((button, number) => {
      button.setAttribute("aria-selected", String(number === index));
      button.tabIndex = number === index ? 0 : -1;
    });
    panel.setAttribute("aria-labelledby", `step-${index}`);
    replace(panel, ...details(steps[index]!, steps[index - 1]));
  };
  show(current);
  const kind = report.kind === "plan" ? "What the plan decides" : "What each tactic did";
  return section("steps", kind, "Each step is lowered and simulated by itself, with all decisions before it.", list, panel);
}

function details(step: TacticStep, before: TacticStep | undefined): (Node | null)[] {
  const change = (now: number, then: number | undefined, show: (value: number) => string) =>
    then === undefined || now === then ? "" : `${now > then ? "+" : "−"}${show(Math.abs(now - then))}`;
  const rows: [string, string, string][] = [
    ["a step", duration(step.step_seconds), change(step.step_seconds, before?.step_seconds, duration)],
    ["computing", duration(step.compute_seconds), change(step.compute_seconds, before?.compute_seconds, duration)],
    ["waiting for communication", duration(step.exposed_seconds), change(step.exposed_seconds, before?.exposed_seconds, duration)],
    ["at the peak", size(step.peak_bytes), change(step.peak_bytes, before?.peak_bytes, size)],
    ["sent by a device", size(step.bytes_moved), change(step.bytes_moved, before?.bytes_moved, size)],
    ...Object.keys(step.collectives)
      .filter((kind) => step.collectives[kind]! > 0 || (before?.collectives[kind] ?? 0) > 0)
      .map((kind): [string, string, string] => [kind.replaceAll("_", "-"), count(step.collectives[kind]!), change(step.collectives[kind]!, before?.collectives[kind], count)]),
  ];
  const changes = step.changes.slice(0, 40).map((each) => [
    h("span", {}, h("code", {}, each.name), each.count > 1 ? ` ${count(each.count)} of them` : ""),
    h("code", {}, each.from),
    h("code", {}, each.to),
  ]);
  return [
    h("p", {}, words(step.words)),
    h(
      "div",
      { class: "columns even" },
      h("div", { class: "main" }, table(["", "now", "change"], rows)),
      h("div", { class: "main scroll" }, changes.length > 0 ? table(["is stored otherwise", "before", "now"], changes) : h("p", { class: "small" }, "Everything is stored as before.")),
    ),
    step.notes.length > 0 ? h("ul", {}, ...step.notes.map((note) => h("li", {}, words(note)))) : null,
  ];
}
