// The document of a page, as `crates/report/src/page` writes it. Columns become typed arrays once, when the page opens.

export interface Verdict {
  fits: boolean | null;
  text: string;
}

export interface Axis {
  name: string;
  size: number;
  time: boolean;
}

/** A prime factor of an axis. */
export interface Piece {
  axis: number;
  size: number;
  stride: number;
}

export interface Mesh {
  axes: Axis[];
  pieces: Piece[];
  devices: number;
}

export interface Sharding {
  text: string;
  dims: number[][];
  partial: number[];
  reduction: string;
}

export interface Group {
  scopes: string[];
  phase: string;
  ops: string[];
  count: number;
  result: string;
  keeping: string;
  compute_seconds: number;
  inner_seconds: number;
  moving_seconds: number;
  runner_ups: RunnerUp[];
  source: string | null;
}

export interface RunnerUp {
  result: string;
  keeping: string;
  more_compute_seconds: number;
  more_moving_seconds: number;
  over_bytes: number;
}

export interface Track {
  gap: number[];
  length: number[];
  name: number[];
  module: number[];
}

export interface StageLane {
  kind: number[];
  start: number[];
  length: number[];
  name: number[];
  piece: number[];
  microbatch: number[];
  messages: { to: number[]; start: number[]; length: number[]; bytes: number[]; microbatch: number[] };
}

export interface Timeline {
  step: number;
  pieces: { kernels: Track; collectives: Track }[];
  stages: StageLane[];
}

export interface MemoryOverTime {
  stage: number;
  limit: number | null;
  time: number[];
  classes: { name: string; bytes: number[] }[];
}

export interface PlanPoint {
  mesh: string;
  microbatches: number;
  step_seconds: number;
  peak_bytes: number;
  is_frontier: boolean;
  is_chosen: boolean;
  memory_limit: number | null;
}

export interface ProgramColumns {
  name: number[];
  module: number[];
  phase: number[];
  type: number[];
  made: number[];
  lies: number[];
  rule: number[];
  cut: number[];
  source: number[];
  scope: number[];
  group: number[];
  flops: number[];
  bytes: number[];
  operands: number[];
  makers: number[];
  shardings: Sharding[];
  groups: Group[];
}

export interface ArgumentColumns {
  name: number[];
  type: number[];
  role: number[];
  lies: number[];
  bytes: number[];
}

export interface CollectiveColumns {
  name: number[];
  module: number[];
  source: number[];
  stage: number[];
  devices: number[];
  runs: number[];
  bytes: number[];
  seconds: number[];
}

export interface ReshardColumns {
  op: number[];
  module: number[];
  source: number[];
  type: number[];
  from: number[];
  to: number[];
  steps: number[];
  reason: number[];
  times: number[];
  bytes: number[];
  seconds: number[];
}

export interface TacticStep {
  name: string;
  words: string;
  step_seconds: number;
  compute_seconds: number;
  exposed_seconds: number;
  peak_bytes: number;
  memory: Record<string, number>;
  collectives: Record<string, number>;
  bytes_moved: number;
  notes: string[];
  changes: { name: string; count: number; from: string; to: string }[];
}

export interface SweptRow {
  values: number[];
  shown: string[];
  step_seconds: number | null;
  throughput: number | null;
  mfu: number | null;
  peak_bytes: number | null;
  memory_limit: number | null;
  fits: boolean;
  mesh: string | null;
  reason: string | null;
}

export interface StageSummary {
  stage: number;
  devices: [number, number];
  modules: string[];
  time: Record<string, number>;
  communication_seconds: number;
  peak_bytes: number;
  memory_limit: number;
  memory: Record<string, number>;
}

/** What `--json` prints; which keys there are depends on the command. */
export interface Summary {
  [key: string]: unknown;
  step_seconds?: number;
  mfu?: number;
  hfu?: number;
  peak_bytes?: number;
  memory_limit?: number;
  tokens_per_second?: number;
  samples_per_second?: number;
  devices?: number;
  microbatches?: number;
  lower_bound_seconds?: number;
  stages?: StageSummary[];
  memory?: Record<string, number>;
  flops?: number;
  parameters?: number;
  notes?: string[];
}

export interface ReportDocument {
  version: number;
  kind: "plan" | "pareto" | "simulate" | "profile" | "sweep";
  title: string;
  verdict: Verdict;
  words: string[];
  hints: string[];
  line: string | null;
  summary: Summary;
  strings: string[];
  modules: { name: number[]; parent: number[]; parameters: number[]; kept_bytes: number[] };
  mesh: Mesh | null;
  timeline: Timeline | null;
  memory: MemoryOverTime[];
  plans: PlanPoint[];
  program: ProgramColumns | null;
  arguments: ArgumentColumns | null;
  collectives: CollectiveColumns | null;
  reshards: ReshardColumns | null;
  steps: TacticStep[];
  sweep: { keys: string[]; rows: SweptRow[] } | null;
}

export function readDocument(): ReportDocument {
  const text = document.getElementById("document")?.textContent ?? "{}";
  return JSON.parse(text) as ReportDocument;
}

/** The dotted path of a module. */
export function modulePath(report: ReportDocument, module: number): string {
  const parts: string[] = [];
  for (let at = module; at > 0; at = report.modules.parent[at]!) {
    parts.push(report.strings[report.modules.name[at]!]!);
  }
  return parts.reverse().join(".");
}
