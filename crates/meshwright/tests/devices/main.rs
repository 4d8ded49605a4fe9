//! Programs of several processes: what collectives give, and that nobody waits forever.

mod collectives;
mod meetings;

use std::sync::Arc;

use meshwright::import::import;
use meshwright::interpret::{Data, EvaluateError, Evaluation, Options, Tensor, evaluate_devices};
use meshwright::program::{Program, Type};

const ADD: &str = "({ ^bb0(%left: tensor<TYPE>, %right: tensor<TYPE>):
    %sum = stablehlo.add %left, %right : tensor<TYPE>
    stablehlo.return %sum : tensor<TYPE> })";

const CHANNEL: &str = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>";

/// A program for a grid of replicas and partitions. `ADD(f32)` stands for a region that adds,
/// `CHANNEL` for a channel, and `GLOBAL` for one with ids of processes.
fn program(grid: [usize; 2], function: &str) -> Program {
    let mut function = function.replace("GLOBAL", "CHANNEL, use_global_device_ids").replace("CHANNEL", CHANNEL);
    for dtype in ["i64", "f32", "bf16"] {
        function = function.replace(&format!("ADD({dtype})"), &ADD.replace("TYPE", dtype));
    }
    let [replicas, partitions] = grid;
    let text = format!(
        "module attributes {{mhlo.num_partitions = {partitions} : i32, mhlo.num_replicas = {replicas} : i32}} {{\n\
         {function}\n}}"
    );
    let program = import(&Arc::from(text.as_str())).program.unwrap_or_else(|| panic!("errors in\n{text}"));
    program.verify().expect("a sound program");
    program
}

fn tensor(ty: &Type, values: &[f64]) -> Tensor {
    let mut tensor = Tensor::zeros(ty);
    match &mut tensor.data {
        Data::Float(target) => target.copy_from_slice(values),
        Data::Integer(target) => target.iter_mut().zip(values).for_each(|(target, &value)| *target = value as i64),
        Data::Raw(_) => panic!("{ty} is not for numbers"),
    }
    tensor
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    match &tensor.data {
        Data::Float(values) => values.clone(),
        Data::Integer(values) => values.iter().map(|&value| value as f64).collect(),
        Data::Raw(_) => panic!("{} is not for numbers", tensor.ty),
    }
}

/// Runs all processes, each on the arguments that are listed for it.
fn run(program: &Program, inputs: &[Vec<&[f64]>]) -> Result<Vec<Evaluation>, EvaluateError> {
    let types: Vec<&Type> = program.body().arguments.iter().map(|&value| program.ty(value)).collect();
    let of_process = |values: &Vec<&[f64]>| types.iter().zip(values).map(|(ty, values)| tensor(ty, values)).collect();
    let arguments: Vec<Vec<Tensor>> = inputs.iter().map(of_process).collect();
    evaluate_devices(program, &arguments, Options { wide: false })
}

/// One list of numbers for each process: all its results, one after the other.
fn results(program: &Program, inputs: &[Vec<&[f64]>]) -> Vec<Vec<f64>> {
    let evaluations = run(program, inputs).unwrap_or_else(|error| panic!("{}\n{program}", error.message));
    evaluations.iter().map(|evaluation| evaluation.results.iter().flat_map(numbers).collect()).collect()
}
