//! The page of a plan.

use meshwright::plan::{Considered, Recipe, Rung};
use meshwright::program::Program;
use meshwright::simulate::Runner;
use meshwright::tactics::Partitioned;
use serde::Serialize;
use serde_json::Value;

use super::program::{Cuts, Groups, MeshPart, ProgramPart, Shardings, Shown, arguments_part, program_part};
use super::simulate::{finished, simulated};
use super::steps::of_recipe;
use super::transfers::{Resharded, reshards_part};
use super::{Document, Tables, Verdict};
use crate::plan::{PlanFile, Report, in_words};
use crate::simulate::Summary;
use crate::table::{count, duration, size};

/// A plan that was found: time against memory.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PlanPoint {
    mesh: String,
    microbatches: usize,
    step_seconds: f64,
    peak_bytes: u64,
    /// Whether no other is both faster and smaller.
    is_frontier: bool,
    is_chosen: bool,
    /// The limit that it was planned under, where there were several.
    memory_limit: Option<u64>,
}

/// A program and what a plan decides about it.
pub(super) struct PlanView<'v> {
    pub(super) program: &'v Program,
    pub(super) recipe: &'v Recipe,
    pub(super) groups: Groups<'v>,
    /// Lowered with reasons.
    pub(super) partitioned: Option<Partitioned>,
}

/// The page of a plan that was searched for. `file` is the plan as it is written, `json` what `--json` prints.
pub fn plan_document(report: &Report<'_>, file: &PlanFile, json: Value) -> Document {
    let (plan, summary) = (report.plan, &report.simulated);
    let (mut document, mut tables) = simulated("plan", summary, json);
    document.verdict = Verdict { fits: Some(true), text: report.verdict() };
    document.words = in_words(file);
    document.hints = report.hints();
    let ops = plan.decisions.iter().map(|decision| decision.bundles.iter().map(Vec::as_slice).collect());
    let groups = Groups { parts: file.classes.clone(), ops: Some(ops.collect()) };
    let partitioned = report.partition().ok();
    let view = PlanView { program: report.program, recipe: &plan.recipe, groups, partitioned };
    planned_parts(&mut document, &mut tables, summary, view);
    document.plans = points(&plan.alternatives, &plan.pareto);
    finished(document, tables)
}

/// What a plan decides, op by op and step by step.
pub(super) fn planned_parts(document: &mut Document, tables: &mut Tables, summary: &Summary<'_>, view: PlanView<'_>) {
    let simulation = summary.simulation;
    let PlanView { program, recipe, groups, partitioned } = view;
    let anatomy = program.anatomy();
    let mesh = partitioned.as_ref().map_or(&recipe.mesh, |partitioned| &partitioned.local.mesh);
    let mut shardings = Shardings::default();
    let shown = Shown { program, anatomy: &anatomy, mesh, cuts: Cuts::Recipe(recipe), groups };
    let part = program_part(tables, &mut shardings, shown);
    let stored = &recipe.arguments;
    document.arguments = Some(arguments_part(tables, &mut shardings, program, &anatomy.classes, mesh, stored));
    if let Some(partitioned) = &partitioned {
        let resharded = Resharded {
            program: &partitioned.program,
            local: &partitioned.local,
            explanations: &partitioned.explanations,
        };
        let runner =
            Runner { cluster: simulation.cluster, device: simulation.cluster.device(0), engine: simulation.engine };
        document.reshards = Some(reshards_part(tables, &mut shardings, &resharded, runner));
    }
    document.mesh = Some(MeshPart::new(mesh));
    document.program = Some(ProgramPart::with_shardings(part, shardings));
    document.steps = of_recipe(summary, program, recipe);
}

/// The page of plans under many limits.
pub fn ladder_document(name: &str, cluster: &str, rungs: &[Rung], json: Value) -> Document {
    let fastest = rungs.iter().map(|rung| &rung.planned.figures).min_by(|left, right| {
        left.step_seconds.total_cmp(&right.step_seconds).then(left.peak_bytes.cmp(&right.peak_bytes))
    });
    let text = fastest.map_or_else(
        || "Nothing fits".to_owned(),
        |best| {
            let (step, peak) = (duration(best.step_seconds), size(best.peak_bytes as usize));
            format!("Fits: {} limits planned, the fastest takes {step} a step in {peak}", count(rungs.len()))
        },
    );
    let verdict = Verdict { fits: Some(!rungs.is_empty()), text };
    let mut document = Document::new("pareto", format!("{name} on {cluster}"), verdict, json);
    for rung in rungs {
        let figures = &rung.planned.figures;
        let mut point = point(figures, true, fastest == Some(figures));
        point.memory_limit = Some(rung.limit_bytes);
        document.plans.push(point);
    }
    document
}

fn points(alternatives: &[Considered], pareto: &[Considered]) -> Vec<PlanPoint> {
    let mut points: Vec<PlanPoint> = Vec::new();
    for (number, considered) in alternatives.iter().enumerate() {
        points.push(point(considered, pareto.contains(considered), number == 0));
    }
    for considered in pareto.iter().filter(|considered| !alternatives.contains(considered)) {
        points.push(point(considered, true, false));
    }
    points
}

fn point(considered: &Considered, is_frontier: bool, is_chosen: bool) -> PlanPoint {
    PlanPoint {
        mesh: match considered.stages {
            1 => considered.mesh.to_string(),
            stages => format!("{stages} stages of {}", considered.mesh),
        },
        microbatches: considered.microbatches,
        step_seconds: considered.step_seconds,
        peak_bytes: considered.peak_bytes,
        is_frontier,
        is_chosen,
        memory_limit: None,
    }
}
