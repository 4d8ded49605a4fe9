//! Plans: as files, and as people and programs read them.

mod apply;
mod file;
mod fingerprint;
mod json;
mod ranges;
mod refusal;
#[cfg(test)]
mod round_trip;
mod text;
mod uses;
mod write;

pub use apply::{AppliedPlan, given};
pub use file::{ArgumentPart, ClassPart, PlanFile, RunnerUpPart};
pub use json::considered;
pub use ranges::{fold_names, unfold_name};
pub use refusal::{refusal_json, refusal_text};
pub use text::phase_name;
pub(crate) use uses::{Lying, stored_uses};
pub use uses::{UsedAxis, axes, in_words};
pub use write::{Setting, plan_file};

use meshwright::codes::Code;
use meshwright::lower::Movement;
use meshwright::plan::Plan;
use meshwright::program::{Op, Program, expand_batch_norm};
use meshwright::shard::Mesh;
use meshwright::simulate::{Engine, Runner, movement_seconds};
use meshwright::tactics::Partitioned;

use crate::place::place;
use crate::problem::Problem;
use crate::simulate::{Step, Summary};
use crate::table::count;

/// Everything there is to tell about a plan.
#[derive(Debug)]
pub struct Report<'a> {
    pub program: &'a Program,
    pub plan: &'a Plan,
    pub simulated: Summary<'a>,
    pub limit_bytes: u64,
    pub planning_seconds: f64,
}

impl Report<'_> {
    /// The plan lowered once more, with the reasons of all reshards.
    pub fn partition(&self) -> Result<Partitioned, String> {
        let simulation = self.simulated.simulation;
        let (cluster, engine) = (simulation.cluster, simulation.engine);
        let runner = Runner { cluster, device: cluster.device(0), engine };
        let price = move |mesh: &Mesh, movement: &Movement<'_>| movement_seconds(runner, mesh, movement);
        self.plan.recipe.partition(self.program, &price)
    }
}

/// A program as it is planned: loops written out, since layers alike are found in the body.
pub fn planned_program(program: &Program) -> Result<Program, String> {
    let unrolled = program.unroll()?;
    Ok(expand_batch_norm(&unrolled).into_owned())
}

/// What a device runs by a plan, ready to be put in time.
pub fn step(program: &Program, plan: &Plan, engine: &Engine) -> Step {
    let prepared = plan.runs.prepared(&plan.classes, engine);
    let modules = plan.runs.modules().to_vec();
    Step { modules, ..Step::of(prepared, program, &program.anatomy(), &[]) }
}

/// Only a whole program can be cut.
pub fn check_whole(program: &Program) -> Result<(), Problem> {
    let hint = "give the program of a single device, as it was before it was partitioned";
    let processes = program.replicas.saturating_mul(program.partitions);
    if processes > 1 {
        return Err(Problem::new(
            Code::AlreadyPartitioned,
            format!("the model is already written for {} processes", count(processes)),
        )
        .hint(hint));
    }
    match program.ops.iter().find(|(_, operation)| is_local(&operation.op)) {
        Some((_, operation)) => {
            let place = place(program, operation.location).map(|place| format!(" at {place}")).unwrap_or_default();
            let name = operation.op.name();
            Err(Problem::new(
                Code::AlreadyPartitioned,
                format!("the model is already written for several processes: it has `{name}`{place}"),
            )
            .hint(hint))
        }
        None => Ok(()),
    }
}

/// Whether an op means something only among several processes.
fn is_local(op: &Op) -> bool {
    op.is_collective() || matches!(op, Op::PartitionId | Op::ReplicaId)
}
