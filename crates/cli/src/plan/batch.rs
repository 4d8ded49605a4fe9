//! `--batch`: another batch of a preset, or the one that the most samples a second go through with.

use std::str::FromStr;

use meshwright::codes::Code;
use meshwright::models::Model;
use meshwright::plan::{Considered, Plan, Refusal, Request, Tried, best_batch, plan};
use meshwright::program::Program;
use meshwright_report::plan::considered;
use meshwright_report::simulate::rate;
use serde_json::{Value, json};

use super::variant::build;
use crate::error::Error;
use crate::model::{self, ModelArguments};
use crate::table::{Table, count, duration, size};

/// How many samples a step has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BatchSize {
    Samples(usize),
    /// As many as give the largest throughput.
    Max,
}

impl FromStr for BatchSize {
    type Err = String;

    fn from_str(text: &str) -> Result<BatchSize, String> {
        if text == "max" {
            return Ok(BatchSize::Max);
        }
        let samples = text.parse().ok().filter(|&samples: &usize| samples > 0);
        samples.map(BatchSize::Samples).ok_or_else(|| "neither `max` nor a whole number above 0".to_owned())
    }
}

/// The preset whose batch is asked for. A file cannot be changed, and nobody means two sizes.
pub(super) fn preset(arguments: &ModelArguments) -> Result<Model, Error> {
    let Some(preset) = model::preset(arguments)? else {
        let name = arguments.model.display();
        return Err(Error::new(Code::Setting, format!("`{name}` is a file, whose batch is what it is"))
            .hint("`--batch` changes a preset; `meshwright models` lists them"));
    };
    if arguments.settings().iter().any(|setting| setting.starts_with("batch=")) {
        return Err(Error::new(Code::FlagsExclude, "the batch is given twice, by `--batch` and by `--set batch=…`")
            .hint("leave one of them out"));
    }
    if !preset.family.keys().contains(&"batch") {
        return Err(Error::new(Code::Setting, "this model has no `batch`"));
    }
    Ok(preset)
}

/// The model with a batch.
pub(super) fn with_batch(preset: &Model, batch: usize) -> Result<Model, String> {
    let mut model = preset.clone();
    model.set("batch", &batch.to_string())?;
    Ok(model)
}

/// What was tried, and the best of it.
pub(super) struct Batches {
    pub(super) tried: Vec<Tried<Considered>>,
    pub(super) best: Option<Best>,
}

pub(super) struct Best {
    pub(super) batch: usize,
    pub(super) program: Program,
    pub(super) plan: Plan,
}

/// Plans for batches until throughput no longer rises. The program of the request is not looked at.
pub(super) fn search(preset: &Model, request: &Request<'_>) -> Batches {
    let mut best: Option<Best> = None;
    let rate_of = |best: &Best| best.batch as f64 / best.plan.timeline.step_seconds;
    let (tried, number) = best_batch(request.cluster.devices(), |batch| {
        let program = with_batch(preset, batch).and_then(|model| build(&model)).map_err(Refusal::Unplannable)?;
        let plan = plan(&Request { program: &program, ..*request })?;
        let (figures, step_seconds) = (plan.alternatives[0].clone(), plan.timeline.step_seconds);
        // Programs are large, so only the best is kept; of equals the last tried, as among what was tried.
        let found = Best { batch, program, plan };
        if best.as_ref().is_none_or(|before| rate_of(&found) >= rate_of(before)) {
            best = Some(found);
        }
        Ok((figures, step_seconds))
    });
    let batch = number.map(|number| tried[number].batch);
    Batches { best: best.filter(|best| Some(best.batch) == batch), tried }
}

impl Batches {
    pub(super) fn to_text(&self, width: usize) -> String {
        let mut table =
            Table::new(&["batch", "microbatches", "a step", "samples/s", "at the peak", ""]).ending_in_prose();
        for tried in &self.tried {
            let batch = count(tried.batch);
            match &tried.outcome {
                Ok((figures, seconds)) => {
                    let is_best = self.best.as_ref().is_some_and(|best| best.batch == tried.batch);
                    let (microbatches, peak) = (count(figures.microbatches), size(figures.peak_bytes as usize));
                    let remark = if is_best { "best" } else { "" }.to_owned();
                    table.row([batch, microbatches, duration(*seconds), rate(tried.rate()), peak, remark]);
                }
                Err(refusal) => {
                    let empty = [const { String::new() }; 4];
                    table.row([batch].into_iter().chain(empty).chain([reason(refusal)]));
                }
            }
        }
        table.render(width)
    }

    pub(super) fn to_json(&self) -> Value {
        let batch = |tried: &Tried<Considered>| match &tried.outcome {
            Ok((figures, _)) => {
                let mut object = considered(figures);
                object["batch"] = json!(tried.batch);
                object["fits"] = json!(true);
                object["samples_per_second"] = json!(tried.rate());
                object
            }
            Err(refusal) => json!({ "batch": tried.batch, "fits": false, "reason": reason(refusal) }),
        };
        json!(self.tried.iter().map(batch).collect::<Vec<_>>())
    }
}

/// Why there is no plan, in few words.
pub(crate) fn reason(refusal: &Refusal) -> String {
    match refusal {
        Refusal::TooLarge(large) => format!("needs {} more", size(large.missing_bytes as usize)),
        Refusal::Unplannable(reason) => reason.clone(),
    }
}
