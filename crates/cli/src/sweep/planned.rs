//! Combinations that are planned, each for itself.

use meshwright::cluster::Cluster;
use meshwright::models::Model;
use meshwright::plan::{Planned, Refusal, Request, check, plan_limits};
use meshwright::program::{Program, expand_batch_norm};
use meshwright::simulate::Engine;
use meshwright_report::simulate::{Simulation, Step};

use super::vary::{Choice, Key};
use super::{Outcome, Row, Unfit, changed};
use crate::plan::{build, reason};

/// A row for every combination. Those that differ in memory alone are planned together, so that more memory is never
/// slower.
pub(super) fn plan_rows(
    preset: Option<&Model>,
    program: &Program,
    cluster: &Cluster,
    engine: &'static Engine,
    combinations: Vec<Vec<Choice>>,
) -> Vec<Row> {
    let mut outcomes: Vec<Option<Result<Outcome, Unfit>>> = combinations.iter().map(|_| None).collect();
    for first in 0..combinations.len() {
        if outcomes[first].is_some() {
            continue;
        }
        let alike: Vec<usize> = (first..combinations.len())
            .filter(|&other| others(&combinations[other]).eq(others(&combinations[first])))
            .collect();
        let case = Case { preset, program, cluster, engine, choices: &combinations[first] };
        let memory: Vec<Option<usize>> = alike.iter().map(|&row| whole(&combinations[row], Key::Memory)).collect();
        for (row, outcome) in alike.into_iter().zip(case.outcomes(&memory)) {
            outcomes[row] = Some(outcome);
        }
    }
    let rows = combinations.into_iter().zip(outcomes.into_iter().flatten());
    rows.map(|(choices, outcome)| Row { choices, outcome }).collect()
}

/// All that is chosen but memory.
fn others(choices: &[Choice]) -> impl Iterator<Item = &Choice> {
    choices.iter().filter(|choice| choice.key != Key::Memory)
}

fn value(choices: &[Choice], key: Key) -> Option<f64> {
    choices.iter().find(|choice| choice.key == key).map(|choice| choice.value)
}

fn whole(choices: &[Choice], key: Key) -> Option<usize> {
    value(choices, key).map(|number| number as usize)
}

/// Combinations that differ in memory alone.
struct Case<'c> {
    preset: Option<&'c Model>,
    program: &'c Program,
    cluster: &'c Cluster,
    engine: &'static Engine,
    choices: &'c [Choice],
}

impl Case<'_> {
    /// What comes of it with each amount of memory.
    fn outcomes(&self, memory: &[Option<usize>]) -> Vec<Result<Outcome, Unfit>> {
        let fail = |reason: String| Unfit { reason, least_bytes: None };
        let program = match self.program() {
            Ok(program) => program,
            Err(reason) => return memory.iter().map(|_| Err(fail(reason.clone()))).collect(),
        };
        let cluster = |memory| {
            changed(self.cluster, memory, whole(self.choices, Key::Devices), value(self.choices, Key::Bandwidth))
        };
        let clusters: Vec<Cluster> = memory.iter().map(|&memory| cluster(memory)).collect();
        let limits: Vec<u64> = clusters.iter().map(|cluster| cluster.memory_bytes() as u64).collect();
        let (base, engine) = (cluster(None), self.engine);
        let request = Request {
            program: &program,
            cluster: &base,
            engine,
            limit_bytes: u64::MAX,
            microbatches: None,
            told: None,
            mesh: None,
        };
        let planned = plan_limits(&request, &limits).into_iter().zip(&clusters);
        planned
            .map(|(planned, cluster)| match planned {
                Ok(planned) => self.simulate(&program, &planned, cluster).map_err(fail),
                Err(refusal) => Err(Unfit { reason: reason(&refusal), least_bytes: least_bytes(&refusal) }),
            })
            .collect()
    }

    fn program(&self) -> Result<Program, String> {
        match (self.preset, whole(self.choices, Key::Batch)) {
            (Some(preset), Some(batch)) => {
                let mut model = preset.clone();
                model.set("batch", &batch.to_string())?;
                build(&model)
            }
            _ => Ok(expand_batch_norm(&self.program.unroll()?).into_owned()),
        }
    }

    fn simulate(&self, program: &Program, planned: &Planned, cluster: &Cluster) -> Result<Outcome, String> {
        let checked = check(program, &planned.recipe, cluster, self.engine, cluster.memory_bytes() as u64);
        let runs = checked.map_err(|faults| faults.join("; "))?.runs;
        let anatomy = program.anatomy();
        let prepared = runs.prepared(&anatomy.classes, self.engine);
        let mesh = prepared.pipeline.mesh.clone();
        let step = Step::of(prepared, program, &anatomy, &[]);
        Ok(Outcome::new(&Simulation::new(&step, cluster, self.engine), Some(mesh)))
    }
}

fn least_bytes(refusal: &Refusal) -> Option<u64> {
    match refusal {
        Refusal::TooLarge(large) => Some(large.least_bytes),
        Refusal::Unplannable(_) => None,
    }
}
