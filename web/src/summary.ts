// The first screen: the answer, the figures, where memory and time go, the plan in words and what else there is.

import { CLASSES, TIMES } from "./colors";
import type { PlanPoint, ReportDocument, StageSummary } from "./document";
import { h, words } from "./dom";
import { count, duration, flops, share, size } from "./format";

export function summarySection(report: ReportDocument): HTMLElement {
  const { verdict, summary } = report;
  const mark = verdict.fits === null ? "" : verdict.fits ? "yes" : "no";
  return h(
    "section",
    { id: "summary", "aria-labelledby": "summary-title" },
    h("h2", { class: "unseen", id: "summary-title" }, "Summary"),
    h("p", { class: `verdict ${mark}`, id: "verdict" }, verdict.text),
    figures(report),
    report.line ? h("p", { class: "line" }, h("code", { id: "line" }, report.line), h("span", { class: "small" }, " as torchtitan would log it")) : null,
    h(
      "div",
      { class: "columns even" },
      h("div", { class: "main" }, memoryBars(report), timeBars(summary.stages ?? [])),
      h("div", { class: "main" }, inWords(report), alternatives(report.plans)),
    ),
    notes(summary.notes ?? []),
  );
}

function figures(report: ReportDocument): HTMLElement {
  const { summary } = report;
  const entries: [string, string, string, number][] = [];
  const add = (key: string, name: string, shown: string | undefined, raw: number | undefined) => {
    if (shown !== undefined && raw !== undefined) entries.push([key, name, shown, raw]);
  };
  add("step_seconds", "a step", summary.step_seconds !== undefined ? duration(summary.step_seconds) : undefined, summary.step_seconds);
  const rate = summary.tokens_per_second ?? summary.samples_per_second;
  const unit = summary.tokens_per_second !== undefined ? "tokens" : "samples";
  add(`${unit}_per_second`, `${unit} a second`, rate !== undefined ? (rate >= 99.95 ? count(rate) : rate.toFixed(1)) : undefined, rate);
  add("mfu", "MFU", summary.mfu !== undefined ? share(summary.mfu, 1) : undefined, summary.mfu);
  add("peak_bytes", "at the peak", summary.peak_bytes !== undefined ? size(summary.peak_bytes) : undefined, summary.peak_bytes);
  if (report.kind === "profile") {
    add("flops", "a step", summary.flops !== undefined ? flops(summary.flops) : undefined, summary.flops);
    add("parameters", "parameters", summary.parameters !== undefined ? count(summary.parameters) : undefined, summary.parameters);
  }
  add("devices", summary.devices === 1 ? "device" : "devices", summary.devices !== undefined ? count(summary.devices) : undefined, summary.devices);
  return h(
    "dl",
    { class: "figures" },
    ...entries.map(([key, name, shown, raw]) => h("div", {}, h("dd", { "data-key": key, "data-value": String(raw) }, shown), h("dt", {}, name))),
  );
}

/** Bars of memory by class against what a device has, a bar for every stage. */
function memoryBars(report: ReportDocument): HTMLElement | null {
  const { summary } = report;
  let stages = summary.stages ?? [];
  if (stages.length === 0 && summary.memory && summary.peak_bytes !== undefined) {
    stages = [{ stage: 0, devices: [0, 1], modules: [], time: {}, communication_seconds: 0, peak_bytes: summary.peak_bytes, memory_limit: 0, memory: summary.memory }];
  }
  if (stages.length === 0) return null;
  const whole = Math.max(...stages.map((stage) => Math.max(stage.peak_bytes, stage.memory_limit)));
  const classes = Object.keys(CLASSES).filter((name) => stages.some((stage) => (stage.memory[name] ?? 0) > 0));
  const limit = stages[0]!.memory_limit;
  const heading = stages.length > 1 ? "Memory of every stage at its peak" : "Memory at the peak";
  return h(
    "figure",
    { class: "bars" },
    h("figcaption", {}, limit > 0 ? `${heading}, of ${size(limit)}` : heading),
    ...stages.map((stage) => memoryBar(stage, classes, whole, stages.length > 1)),
    table(
      ["", "size", limit > 0 ? "of the device" : "share"],
      classes.map((name) => {
        const most = Math.max(...stages.map((stage) => stage.memory[name] ?? 0));
        return [swatch(CLASSES[name]!, name), size(most), share(most, limit || whole)];
      }),
      stages.length > 1 ? "Of every class, that of the stage that has most of it" : undefined,
    ),
  );
}

function memoryBar(stage: StageSummary, classes: string[], whole: number, isNamed: boolean): HTMLElement {
  const over = stage.memory_limit > 0 && stage.peak_bytes > stage.memory_limit;
  const told = classes.filter((name) => (stage.memory[name] ?? 0) > 0).map((name) => `${name} ${size(stage.memory[name]!)}`);
  const label = `Stage ${stage.stage}: ${size(stage.peak_bytes)}: ${told.join(", ")}`;
  const bar = h(
    "div",
    { class: over ? "bar over" : "bar", role: "img", "aria-label": label, title: label },
    ...classes.map((name) => h("span", { style: { width: `${(100 * (stage.memory[name] ?? 0)) / whole}%`, background: `var(${CLASSES[name]})` } })),
  );
  if (stage.memory_limit > 0) bar.append(h("i", { class: "limit", style: { left: `${(100 * stage.memory_limit) / whole}%` } }));
  return h("div", { class: "bar-row" }, isNamed ? h("span", { class: "small" }, `stage ${stage.stage}`) : null, bar, h("span", { class: "small number" }, size(stage.peak_bytes)));
}

const TIME_NAMES: Record<string, string> = {
  compute: "computing",
  exposed_communication: "waiting for communication",
  bubble: "bubbles",
  host: "waiting for the host",
};

function timeBars(stages: StageSummary[]): HTMLElement | null {
  if (stages.length === 0) return null;
  const keys = Object.keys(TIMES).filter((key) => stages.some((stage) => (stage.time[key] ?? 0) > 0));
  const sum = (stage: StageSummary) => keys.reduce((all, key) => all + (stage.time[key] ?? 0), 0);
  const whole = Math.max(...stages.map(sum), 1e-12);
  const mean = (key: string) => stages.reduce((all, stage) => all + (stage.time[key] ?? 0), 0) / stages.length;
  return h(
    "figure",
    { class: "bars" },
    h("figcaption", {}, stages.length > 1 ? "Where the time goes, stage by stage" : "Where the time goes"),
    ...stages.map((stage) => {
      const label = `Stage ${stage.stage}: ${keys.map((key) => `${TIME_NAMES[key]} ${duration(stage.time[key] ?? 0)}`).join(", ")}`;
      const bar = h(
        "div",
        { class: "bar", role: "img", "aria-label": label, title: label },
        ...keys.map((key) => h("span", { class: key === "bubble" ? "hatched" : "", style: { width: `${(100 * (stage.time[key] ?? 0)) / whole}%`, background: `var(${TIMES[key]})` } })),
      );
      return h("div", { class: "bar-row" }, stages.length > 1 ? h("span", { class: "small" }, `stage ${stage.stage}`) : null, bar, h("span", { class: "small number" }, duration(sum(stage))));
    }),
    table(
      ["", "takes", "share"],
      keys.map((key) => [swatch(TIMES[key]!, TIME_NAMES[key]!), duration(mean(key)), share(mean(key), whole)]),
      stages.length > 1 ? "Mean of all stages" : undefined,
    ),
  );
}

function inWords(report: ReportDocument): HTMLElement | null {
  if (report.words.length === 0 && report.hints.length === 0) return null;
  return h(
    "div",
    { class: "prose" },
    h("h3", {}, "In words"),
    h("ul", {}, ...report.words.map((sentence) => h("li", {}, words(sentence)))),
    ...report.hints.map((hint) => h("p", { class: "hint" }, h("strong", {}, "Hint: "), words(hint), ".")),
  );
}

function alternatives(plans: PlanPoint[]): HTMLElement | null {
  const others = plans.filter((plan) => !plan.is_chosen).slice(0, 5);
  const chosen = plans.find((plan) => plan.is_chosen);
  if (!chosen || others.length === 0) return null;
  const row = (plan: PlanPoint) => [
    h("code", {}, plan.mesh),
    duration(plan.step_seconds),
    plan.is_chosen ? "" : `+${share(plan.step_seconds / chosen.step_seconds - 1, 1)}`,
    size(plan.peak_bytes),
  ];
  return h("div", {}, h("h3", {}, "What else fits"), table(["mesh", "a step", "", "at the peak"], [chosen, ...others].map(row)));
}

function notes(notes: string[]): HTMLElement | null {
  if (notes.length === 0) return null;
  return h("div", { class: "prose" }, h("h3", {}, "Notes"), h("ul", {}, ...notes.map((note) => h("li", {}, words(note)))));
}

export function swatch(color: string, name: string): HTMLElement {
  return h("span", {}, h("span", { class: "swatch", style: { background: `var(${color})` } }), name);
}

/** A small table; the first column is words, the others are numbers. */
export function table(titles: string[], rows: (Node | string)[][], caption?: string): HTMLElement {
  return h(
    "table",
    {},
    caption ? h("caption", {}, caption) : null,
    h("thead", {}, h("tr", {}, ...titles.map((title, index) => h("th", { scope: "col", class: index > 0 ? "number" : "" }, title)))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell, index) => h(index === 0 ? "th" : "td", { scope: index === 0 ? "row" : undefined, class: index > 0 ? "number" : "" }, cell))))),
  );
}
