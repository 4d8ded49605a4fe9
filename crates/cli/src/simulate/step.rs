//! A step as a user lays it out.

use meshwright::simulate::{Engine, Prepared};
use meshwright::tactics::TacticError;
use meshwright_report::simulate::Step;

use crate::schedule::Schedule;

/// A model laid out by tactics or by a plan.
pub(crate) fn step(schedule: &Schedule, engine: &Engine) -> Result<Step, TacticError> {
    if schedule.has_stages() {
        let pipelined = schedule.try_pipeline()?;
        let prepared = Prepared::new(pipelined.pipeline, &pipelined.anatomy.classes, engine);
        if schedule.plan().is_some() {
            let program = &schedule.model.program;
            let step = Step::of(prepared, program, &program.anatomy(), &[]);
            return Ok(Step { modules: pipelined.modules, ..step });
        }
        let step = Step::of(prepared, &pipelined.program, &pipelined.anatomy, &pipelined.feedback);
        return Ok(Step { modules: pipelined.modules, ..step });
    }
    let partitioned = schedule.try_partition()?;
    let prepared = Prepared::whole(&partitioned.local, &partitioned.anatomy.classes, engine);
    if schedule.plan().is_some() {
        // What a plan computes again is no work of the model.
        let program = &schedule.model.program;
        return Ok(Step::of(prepared, program, &program.anatomy(), &[]));
    }
    Ok(Step::of(prepared, &partitioned.program, &partitioned.anatomy, &partitioned.feedback))
}
