// The page: reads the document and puts its sections together.

import { watchColors } from "./colors";
import { readDocument } from "./document";
import { h } from "./dom";
import { plansSection } from "./plans";
import { profileSection } from "./profile";
import { programSection } from "./program";
import { stepsSection } from "./steps";
import { summarySection } from "./summary";
import { sweepSection } from "./sweep";
import { tensorsSection } from "./tensors";
import { timelineSection } from "./timeline";
import { transfersSection } from "./transfers";

const KINDS = { plan: "plan", pareto: "plans under many limits", simulate: "simulated step", profile: "profile", sweep: "sweep" };

function open(): void {
  watchColors();
  const report = readDocument();
  const program = programSection(report);
  const showModule = (module: number) => program?.showModule(module);
  const sections: [string, HTMLElement | null][] = [
    ["Summary", summarySection(report)],
    ["Combinations", sweepSection(report)],
    ["Time", timelineSection(report, showModule)],
    ["Memory", profileSection(report)],
    ["Plans", plansSection(report)],
    ["Program", program?.element ?? null],
    ["Transfers", transfersSection(report, showModule)],
    ["Decisions", stepsSection(report)],
    ["Tensors", tensorsSection(report)],
  ];
  const there = sections.filter((entry): entry is [string, HTMLElement] => entry[1] !== null);
  const engine = report.summary.engine;
  const subtitle = [KINDS[report.kind], typeof engine === "string" ? `by ${engine}` : ""].filter(Boolean).join(", ");
  document.body.append(
    h("a", { class: "skip", href: "#summary" }, "Skip to the summary"),
    h(
      "header",
      {},
      h("div", { class: "bounds" }, h("p", { class: "brand" }, "meshwright"), h("h1", {}, report.title), h("p", { class: "small" }, subtitle)),
    ),
    h(
      "nav",
      { "aria-label": "Sections" },
      h("ul", { class: "bounds" }, ...there.map(([name, element]) => h("li", {}, h("a", { href: `#${element.id}` }, name)))),
    ),
    h("main", { class: "bounds" }, ...there.map(([, element]) => element)),
    h(
      "footer",
      { class: "bounds small" },
      h("p", {}, `Made by ${document.querySelector<HTMLMetaElement>("meta[name=generator]")?.content ?? "meshwright"}. All times and sizes are predicted. This page needs no network.`),
    ),
  );
  document.documentElement.dataset.ready = performance.now().toFixed(0);
}

open();
