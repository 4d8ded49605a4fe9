//! The page of a simulated step.

use meshwright::lower::{estimate, explain, lower_layout};
use meshwright::program::Program;
use meshwright::shard::{Mesh, Sharding};
use meshwright::simulate::Runner;
use meshwright::tactics::{LaidOut, Tactic, lay_out, rewrite};

use super::memory::memory;
use super::plan::{PlanView, planned_parts};
use super::program::{Cuts, Groups, MeshPart, ProgramPart, Shardings, Shown, arguments_part, program_part, role};
use super::steps::{On, of_tactics};
use super::timeline::timeline;
use super::transfers::{Resharded, collectives_part, reshards_part};
use super::{Document, Tables, Verdict};
use crate::plan::{AppliedPlan, Lying, UsedAxis, stored_uses};
use crate::simulate::Summary;

/// What a step was laid out by.
#[derive(Clone, Copy, Debug)]
pub enum LaidOutBy<'l> {
    Tactics {
        /// As it was given.
        program: &'l Program,
        mesh: &'l Mesh,
        tactics: &'l [Tactic],
    },
    Plan {
        program: &'l Program,
        plan: &'l AppliedPlan,
    },
}

pub fn simulation_document(summary: &Summary<'_>, by: LaidOutBy<'_>) -> Document {
    let (mut document, mut tables) = simulated("simulate", summary, summary.to_json());
    match by {
        LaidOutBy::Tactics { program, mesh, tactics } => {
            tactics_parts(&mut document, &mut tables, summary, program, mesh, tactics);
        }
        LaidOutBy::Plan { program, plan } => add_plan(&mut document, &mut tables, summary, program, plan),
    }
    finished(document, tables)
}

/// The page of a plan that was read from its file.
pub fn applied_document(summary: &Summary<'_>, program: &Program, plan: &AppliedPlan) -> Document {
    let (mut document, mut tables) = simulated("plan", summary, summary.to_json());
    add_plan(&mut document, &mut tables, summary, program, plan);
    finished(document, tables)
}

fn add_plan(
    document: &mut Document,
    tables: &mut Tables,
    summary: &Summary<'_>,
    program: &Program,
    plan: &AppliedPlan,
) {
    // Files tell groups by place, not op by op.
    let groups = Groups { parts: plan.file().classes.clone(), ops: None };
    document.words = crate::plan::in_words(plan.file());
    let view = PlanView { program, recipe: &plan.recipe, groups, partitioned: plan.partition(program).ok() };
    planned_parts(document, tables, summary, view);
}

/// What there is to tell of a step in time, whatever laid it out.
pub(super) fn simulated(kind: &'static str, summary: &Summary<'_>, json: serde_json::Value) -> (Document, Tables) {
    let simulation = summary.simulation;
    let title = format!("{} on {}", summary.name, simulation.cluster.name);
    let verdict = Verdict { fits: Some(simulation.fits()), text: summary.verdict() };
    let mut document = Document::new(kind, title, verdict, json);
    let mut tables = Tables::default();
    let (timeline, runs) = timeline(&mut tables, summary);
    document.line = summary.log_line();
    document.memory = memory(summary, &runs);
    document.timeline = Some(timeline);
    document.collectives = Some(collectives_part(&mut tables, summary));
    (document, tables)
}

pub(super) fn finished(mut document: Document, tables: Tables) -> Document {
    document.strings = tables.strings;
    document.modules = tables.modules;
    document
}

/// The program as tactics lay it out, and what each of them did.
fn tactics_parts(
    document: &mut Document,
    tables: &mut Tables,
    summary: &Summary<'_>,
    program: &Program,
    mesh: &Mesh,
    tactics: &[Tactic],
) {
    let simulation = summary.simulation;
    let unrolled = if summary.step.prepared.pipeline.stages.len() > 1 { program.unroll().ok() } else { None };
    let program = rewrite(unrolled.as_ref().unwrap_or(program), mesh, tactics);
    let Ok(laid) = lay_out(&program, mesh, tactics, &estimate) else { return };
    let LaidOut { layout, .. } = &laid;
    let names: Vec<String> = tactics.iter().map(|tactic| tactic.name.clone()).collect();
    let mut shardings = Shardings::default();
    // What becomes of partial values is decided when the program is lowered. Stages are lowered piece by piece.
    let lowered = lower_layout(layout.clone(), &estimate).ok();
    let shown = lowered.as_ref().map_or(layout, |(decided, _)| decided);
    let mesh = &shown.mesh;
    let part = program_part(
        tables,
        &mut shardings,
        Shown {
            program: &program,
            anatomy: &shown.anatomy,
            mesh,
            cuts: Cuts::Layout(shown),
            groups: Groups::default(),
        },
    );
    let stored: Vec<Sharding> = program.body().arguments.iter().map(|&value| shown.stored(value)).collect();
    document.arguments = Some(arguments_part(tables, &mut shardings, &program, &shown.anatomy.classes, mesh, &stored));
    if let Some((decided, local)) = &lowered {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let explanations = explain(decided, local, &names);
        let resharded = Resharded { program: &program, local, explanations: &explanations };
        let runner =
            Runner { cluster: simulation.cluster, device: simulation.cluster.device(0), engine: simulation.engine };
        document.reshards = Some(reshards_part(tables, &mut shardings, &resharded, runner));
    }
    let on = On { cluster: simulation.cluster, engine: simulation.engine };
    document.steps = of_tactics(on, &program, &laid.layout.mesh, &names, &laid);
    if let (Some(last), true) = (document.steps.last_mut(), summary.step.prepared.pipeline.stages.len() > 1) {
        last.becomes_pipeline(summary);
    }
    document.mesh = Some(MeshPart::new(mesh));
    document.program = Some(ProgramPart::with_shardings(part, shardings));
    let lying = |(number, (&value, lies)): (usize, (&meshwright::program::ValueId, &Sharding))| Lying {
        role: role(&shown.anatomy.classes, number).to_owned(),
        stored: lies.describe(mesh),
        shape: program.shape(value).to_vec(),
    };
    let lying: Vec<Lying> = program.body().arguments.iter().zip(&stored).enumerate().map(lying).collect();
    document.words = words(summary, &names, mesh, &lying);
}

/// How the step was laid out, in words.
fn words(summary: &Summary<'_>, tactics: &[String], mesh: &Mesh, arguments: &[Lying]) -> Vec<String> {
    let quoted: Vec<String> = tactics.iter().map(|name| format!("`{name}`")).collect();
    let mut words = vec![format!("{}.", summary.setting())];
    if !quoted.is_empty() {
        words.push(format!("Laid out by tactics: {}.", quoted.join(", then ")));
    }
    words.extend(mesh.axes.iter().map(|axis| {
        let uses = stored_uses(arguments, &axis.name);
        UsedAxis { name: &axis.name, size: axis.size, is_time: axis.temporal, uses }.sentence()
    }));
    words
}
