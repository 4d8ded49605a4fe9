// Everything about the module or the operation that is chosen.

import { type Group, modulePath } from "../document";
import { h, replace, words } from "../dom";
import { count, duration, flops, share, signed, size } from "../format";
import { picture, shapeOf } from "../picture";
import { PHASES, type ProgramModel } from "./model";

function fact(name: string, value: Node | string | null): HTMLElement | null {
  return value === null || value === "" ? null : h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, value));
}

export function showModuleDetails(model: ProgramModel, details: HTMLElement, module: number): void {
  const { report, total } = model;
  const kernels = total.kernels[module]!;
  const step = report.summary.step_seconds ?? 0;
  const stages = report.timeline?.stages.length ?? 1;
  replace(
    details,
    h("h3", {}, modulePath(report, module) || "the step"),
    h(
      "dl",
      {},
      fact("operations", count(total.ops[module]!)),
      fact("work, whole", flops(total.flops[module]!)),
      fact("kernels take", kernels > 0 ? `${duration(kernels)}, ${share(kernels, step * stages)} of the step` : null),
      fact("collectives take", total.collectives[module]! > 0 ? `${duration(total.collectives[module]!)}, waited for or not` : null),
      fact("parameters", report.modules.parameters[module] ? count(report.modules.parameters[module]!) : null),
      fact("kept for the backward pass", report.modules.kept_bytes[module] ? size(report.modules.kept_bytes[module]!) : null),
      fact("modules inside", model.children[module]!.length > 0 ? count(model.children[module]!.length) : null),
    ),
  );
}

export function showOp(model: ProgramModel, details: HTMLElement, op: number, choose: (op: number) => void): void {
  const { report } = model;
  const program = report.program!;
  const type = model.text(program.type[op]!);
  const lies = program.shardings[program.lies[op]!];
  const made = program.shardings[program.made[op]!];
  const group = program.groups[program.group[op]!];
  const link = (other: number) =>
    h("button", { type: "button", class: "link", on: { click: () => choose(other) } }, `${model.name(other)} ${model.text(program.type[other]!)}`);
  const inputs = model.operands(op).map(({ op: maker, argument }) => {
    const name = argument >= 0 && report.arguments ? model.text(report.arguments.name[argument]!) : `argument ${argument}`;
    return h("li", {}, maker >= 0 ? link(maker) : h("code", {}, name));
  });
  const readers = model.readersOf(op);
  replace(
    details,
    h("h3", {}, model.name(op)),
    h("p", { class: "small" }, `${PHASES[model.phase[op]!]}, ${modulePath(report, model.module[op]!) || "the step"}`),
    h(
      "dl",
      {},
      fact("type", h("code", {}, type)),
      fact("source", program.source[op] ? h("code", {}, model.text(program.source[op]!)) : null),
      fact("scope", program.scope[op] ? h("code", {}, model.text(program.scope[op]!)) : null),
      fact("rule", h("code", { id: "op-rule" }, model.text(program.rule[op]!))),
      fact("cut", program.cut[op] ? h("code", {}, model.text(program.cut[op]!)) : model.hasCuts ? "nothing: it runs whole on every device" : null),
      fact("comes out as", made && lies && made.text !== lies.text ? h("code", {}, made.text) : null),
      fact("lies as", lies ? h("code", {}, lies.text) : null),
      fact("work, whole", program.flops[op]! > 0 ? flops(program.flops[op]!) : null),
      fact("result, whole", size(program.bytes[op]!)),
    ),
    group ? reasons(group) : null,
    lies && report.mesh ? picture(report.mesh, shapeOf(type), made && made.partial.length > 0 ? made : lies) : null,
    inputs.length > 0 ? h("h4", {}, "reads") : null,
    inputs.length > 0 ? h("ul", { class: "plain" }, ...inputs.slice(0, 12)) : null,
    readers.length > 0 ? h("h4", {}, `read by ${readers.length > 12 ? `${count(readers.length)}, the first of them` : ""}`) : null,
    readers.length > 0 ? h("ul", { class: "plain" }, ...readers.slice(0, 12).map((reader) => h("li", {}, link(reader)))) : null,
  );
}

/** What decided about a group of ops, and what else it could do. */
function reasons(group: Group): HTMLElement {
  const kept: Record<string, string> = {
    kept: group.phase === "forward" ? "is kept while anybody reads it" : "",
    recomputed: "is computed again for the backward pass",
    dropped: "is dropped: the backward pass does not read it",
  };
  const other = group.runner_ups[0];
  let decided = "decided by what is around it: nothing else goes with that";
  if (other) {
    const [compute, moving] = [other.more_compute_seconds, other.more_moving_seconds];
    if (other.over_bytes > 0 && compute + moving <= 0) decided = "decided by memory";
    else if (compute + moving < 1e-8) decided = "something else would take as long";
    else decided = compute >= moving ? "decided by computing" : "decided by moving";
  }
  return h(
    "div",
    { class: "reasons" },
    h("h4", {}, "why"),
    h("p", {}, words(`One of ${count(group.count)} alike (\`${group.ops.join(", ")}\`), ${decided}. All of them take ${duration(group.compute_seconds)} of computing and ${duration(group.moving_seconds)} of moving.${kept[group.keeping] ? ` The result ${kept[group.keeping]}.` : ""}`)),
    ...group.runner_ups.map((runner) => {
      const total = runner.more_compute_seconds + runner.more_moving_seconds;
      const costs = `${signed(total)} (computing ${signed(runner.more_compute_seconds)}, moving ${signed(runner.more_moving_seconds)})`;
      const same = runner.result === group.result ? "the same result, cut otherwise inside" : `\`${runner.result}\``;
      const keeping = runner.keeping === group.keeping ? "" : `, ${runner.keeping}`;
      const over = runner.over_bytes > 0 ? `, and ${size(runner.over_bytes)} too much in memory` : "";
      return h("p", {}, words(`${runner.over_bytes > 0 ? "Does not fit" : "Runner-up"}: ${same}${keeping}: ${costs}${over}.`));
    }),
  );
}
