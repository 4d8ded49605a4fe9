//! `meshwright verify`: whether a partitioned model computes what the whole one does.

use clap::Args;
use meshwright::codes::Code;
use meshwright::interpret::{
    Difference, EvaluateError, Options, Tensor, check_sizes, difference, evaluate, evaluate_partitioned,
    evaluate_pipeline, generate_arguments,
};
use meshwright::program::{DType, Program, ValueId};
use serde_json::json;

use crate::error::{Answer, Error};
use crate::model::ModelArguments;
use crate::names::names;
use crate::output;
use crate::run::refused;
use crate::schedule::{LayoutArguments, Schedule};
use crate::table::count;

/// Check that a model laid out by tactics or a plan computes what the whole model does
///
/// Both are evaluated with the reference interpreter on the same generated inputs, the partitioned
/// one on every device of the mesh, and their results compared. The exit code is 1 if they differ.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    schedule: LayoutArguments,
    /// Seed of the generated inputs
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Largest difference that counts as equal, relative to the largest magnitude in the same result
    /// [default: 1e-9, or what the element types allow with `--narrow`]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    tolerance: Option<f64>,
    /// Round floats to their own types as engines do, instead of computing in f64 throughout
    #[arg(long)]
    narrow: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  meshwright verify mlp --set hidden=16 --mesh data=2,model=2 --tactics megatron.toml
  meshwright verify step.mlir --mesh data=8 --tactics zero.toml --json | jq .equal
  meshwright verify step.mlir --plan plan.json";

/// Each device is a thread with its own memory.
const MAXIMUM_DEVICES: usize = 256;

/// More elements than this, on one device or on all together, are refused: each takes eight bytes, and
/// there are inputs and results of both programs at a time.
const MAXIMUM_ELEMENTS: usize = 1 << 27;

pub(crate) fn execute(arguments: &Arguments) -> Result<Answer, Error> {
    if let Some(tolerance) = arguments.tolerance.filter(|tolerance| !tolerance.is_finite() || *tolerance < 0.0) {
        return Err(Error::new(Code::Usage, format!("`--tolerance` is {tolerance}, must be 0 or more")));
    }
    let schedule = Schedule::load_layout(&arguments.model, &arguments.schedule)?;
    let program = &schedule.model.program;
    check_elements(program, 1)?;
    check_devices(schedule.mesh.devices())?;
    let verdict = if schedule.has_stages() {
        let pipeline = schedule.pipeline()?.pipeline;
        check_devices(pipeline.devices())?;
        for piece in &pipeline.pieces {
            check_elements(&piece.program, schedule.mesh.devices())?;
        }
        compare(program, |inputs, options| evaluate_pipeline(&pipeline, inputs, options), arguments)?
    } else {
        let local = schedule.partition()?.local;
        check_elements(&local.program, schedule.mesh.devices())?;
        compare(program, |inputs, options| evaluate_partitioned(&local, inputs, options), arguments)?
    };
    if arguments.json {
        output::print_json(&verdict.to_json())?;
    } else {
        output::print(verdict.to_text().as_bytes())?;
    }
    Ok(if verdict.is_equal() { Answer::Yes } else { Answer::No })
}

fn check_devices(devices: usize) -> Result<(), Error> {
    if devices <= MAXIMUM_DEVICES {
        return Ok(());
    }
    let devices = count(devices);
    Err(Error::new(
        Code::TooManyDevices,
        format!("{devices} devices are too many to be evaluated, {MAXIMUM_DEVICES} is the most"),
    )
    .hint("verify the same tactics on a smaller mesh"))
}

/// Refuses what would fill the memory: on all devices together, every argument and the largest value.
fn check_elements(program: &Program, devices: usize) -> Result<(), Error> {
    let hint = "verify a smaller one: `--set` changes the sizes of a preset";
    check_sizes(program).map_err(|error| refused(program, &error).hint(hint))?;
    let elements = |value: ValueId| program.ty(value).elements();
    let arguments: usize = program.body().arguments.iter().map(|&value| elements(value)).sum();
    let largest = program.values.ids().map(elements).max().unwrap_or(0);
    let total = arguments.saturating_add(largest).saturating_mul(devices);
    if total > MAXIMUM_ELEMENTS {
        let on = if devices > 1 { format!(" on {devices} devices") } else { String::new() };
        let message = format!("the model has {} elements{on} at a time, too many to be evaluated", count(total));
        return Err(Error::new(Code::TooManyDevices, message).hint(hint));
    }
    Ok(())
}

/// How the two compare.
#[derive(Debug)]
struct Verdict {
    /// Why there is nothing to compare, though the whole program could be evaluated.
    failure: Option<String>,
    results: Vec<(String, Difference)>,
    tolerance: f64,
    /// Where the tolerance comes from.
    arithmetic: String,
    seed: u64,
}

/// Evaluates the whole program and, by `evaluate_parts`, the partitioned one.
fn compare(
    program: &Program,
    evaluate_parts: impl Fn(&[Tensor], Options) -> Result<Vec<Tensor>, EvaluateError>,
    arguments: &Arguments,
) -> Result<Verdict, Error> {
    let options = Options { wide: !arguments.narrow };
    let inputs = generate_arguments(program, arguments.seed);
    let expected = evaluate(program, &inputs, options).map_err(|error| refused(program, &error))?.results;
    let (tolerance, arithmetic) = default_tolerance(program, options);
    let mut verdict = Verdict {
        failure: None,
        results: Vec::new(),
        tolerance: arguments.tolerance.unwrap_or(tolerance),
        arithmetic,
        seed: arguments.seed,
    };
    match evaluate_parts(&inputs, options) {
        Ok(found) => {
            let names = names("result", program.results.iter().map(|result| result.name.as_str()));
            let pairs = expected.into_iter().zip(found).zip(names);
            verdict.results =
                pairs.map(|((expected, found), name)| (name, difference(&[expected], &[found]))).collect();
        }
        Err(EvaluateError { message, .. }) => verdict.failure = Some(message),
    }
    Ok(verdict)
}

/// What rounding may do, and in which words that is told.
fn default_tolerance(program: &Program, options: Options) -> (f64, String) {
    if options.wide {
        return (1e-9, "computed in f64 throughout".to_owned());
    }
    let floats = program.values.iter().map(|(_, value)| value.ty.dtype).filter(|dtype| dtype.is_float());
    // Of types with as many bits, the one with fewer digits decides.
    let narrowest = floats.min_by_key(|dtype| (dtype.bits(), *dtype != DType::BF16)).unwrap_or(DType::F64);
    let tolerance = match narrowest {
        DType::F64 => 1e-9,
        DType::F32 => 1e-5,
        DType::F16 => 1e-2,
        DType::BF16 => 5e-2,
        // Types of eight bits or fewer have two or three digits.
        _ => 0.5,
    };
    (tolerance, format!("rounded to {narrowest} and wider"))
}

impl Verdict {
    fn is_equal(&self) -> bool {
        self.failure.is_none() && self.results.iter().all(|(_, found)| found.relative <= self.tolerance)
    }

    /// The result that is farthest off, the first of equals.
    fn worst(&self) -> Option<&(String, Difference)> {
        self.results.iter().rev().max_by(|left, right| left.1.relative.total_cmp(&right.1.relative))
    }

    fn largest(&self, of: impl Fn(&Difference) -> f64) -> f64 {
        self.results.iter().map(|(_, found)| of(found)).fold(0.0, f64::max)
    }

    fn to_text(&self) -> String {
        if let Some(failure) = &self.failure {
            return format!("different: the whole model can be evaluated, the partitioned one cannot\n{failure}\n");
        }
        let word = if self.is_equal() { "equal: at most" } else { "different: more than" };
        let tolerance = if self.tolerance > 0.0 { format!("{:e}", self.tolerance) } else { "0".to_owned() };
        let (absolute, relative) = (self.largest(|found| found.absolute), self.largest(|found| found.relative));
        let worst = self.worst().filter(|(_, found)| found.relative > 0.0);
        let worst = worst.map(|(name, _)| format!("  in `{name}`")).unwrap_or_default();
        format!(
            "{word} {tolerance} apart, {}\nmax_abs_error  {absolute:.3e}\nmax_rel_error  {relative:.3e}{worst}\n",
            self.arithmetic
        )
    }

    fn to_json(&self) -> serde_json::Value {
        let known = self.failure.is_none();
        json!({
            "equal": self.is_equal(),
            "max_abs_error": known.then(|| finite(self.largest(|found| found.absolute))),
            "max_rel_error": known.then(|| finite(self.largest(|found| found.relative))),
            "worst_result": self.worst().map(|(name, _)| name),
            "tolerance": self.tolerance,
            "arithmetic": self.arithmetic,
            "seed": self.seed,
            "failure": self.failure,
        })
    }
}

/// JSON has no infinity, which is what a missing number differs by.
fn finite(number: f64) -> f64 {
    number.min(f64::MAX)
}
