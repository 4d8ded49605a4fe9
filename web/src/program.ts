// The program: a map of all operations in order, a tree of modules, and everything about the one that is chosen.

import { type ReportDocument, modulePath } from "./document";
import { announcer, figure, h, section } from "./dom";
import { showModuleDetails, showOp } from "./program/details";
import { programMap } from "./program/map";
import { ProgramModel } from "./program/model";
import { Tree } from "./program/tree";

export interface ProgramSection {
  element: HTMLElement;
  showModule: (module: number) => void;
}

export function programSection(report: ReportDocument): ProgramSection | null {
  if (!report.program || report.program.name.length === 0) return null;
  const model = new ProgramModel(report);
  const status = announcer();
  const details = h("aside", { class: "details", "aria-label": "What is chosen", tabindex: "-1" });
  const tree = new Tree(model, (row) => choose(row));
  const map = programMap(model, (op) => choose({ op, module: model.module[op]! }), status.say);
  const choose = (row: { op: number; module: number }) => {
    if (row.op >= 0) {
      tree.revealOp(row.op);
      showOp(model, details, row.op, (op) => choose({ op, module: model.module[op]! }));
      status.say(`${model.name(row.op)} in ${modulePath(report, row.module) || "the step"}`);
    } else {
      tree.revealModule(row.module);
      showModuleDetails(model, details, row.module);
      status.say(`module ${modulePath(report, row.module) || "the step"}`);
    }
  };
  showModuleDetails(model, details, 0);
  const lead = model.hasCuts
    ? "Every operation has the color of the axes that cut its result. Choose one to see its rule, what it costs, why it is cut so, and where it comes from."
    : "Every operation, by module. Choose one to see what it reads, what it makes, and where it comes from.";
  const element = section(
    "program",
    "The program",
    lead,
    tree.legend(),
    figure("", map),
    h("div", { class: "columns" }, h("div", { class: "main" }, tree.toolbar(), tree.element), details),
    status.element,
  );
  const showModule = (module: number) => {
    choose({ op: -1, module });
    element.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth", block: "start" });
  };
  return { element, showModule };
}
