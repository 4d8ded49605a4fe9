//! The reference interpreter: what a program means, computed plainly.
//!
//! Every float op computes in `f64` and rounds once to its own type. The steps of a reduction or a
//! scatter are ops of the element type, so each is rounded; matrix products and convolutions keep
//! their sums in `f32` or wider, as engines do; attention is computed in `f64` and rounded once.
//! Where the StableHLO specification leaves a result open, we do what XLA does on CPUs.

mod arguments;
mod attention;
mod check;
mod collective;
mod contract;
mod control;
mod devices;
mod elementwise;
mod index;
mod lanes;
mod linear;
mod partitioned;
mod random;
mod reduce;
mod shape;
mod sort;
mod special;
mod staged;
mod tensor;
#[cfg(test)]
mod tests;
mod window;

pub use arguments::generate_arguments;
pub use devices::evaluate_devices;
pub use partitioned::{Difference, difference, evaluate_partitioned};
pub use staged::evaluate_pipeline;
pub use tensor::{Data, Tensor, generate};

use std::sync::Arc;

use crate::program::{DType, LocationId, Op, OpId, Program, Unary};

use control::{Lifetimes, Machine, lifetimes};
use devices::Process;
use tensor::{into_tensor, unsupported};

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Keep `f64` inside: results of float ops are not rounded to their own type.
    pub wide: bool,
}

#[derive(Clone, Debug)]
pub struct Evaluation {
    pub results: Vec<Tensor>,
    pub checks_passed: usize,
    pub failures: Vec<CheckFailure>,
}

/// A check that did not hold.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckFailure {
    pub location: LocationId,
    /// Such as `element [0, 3]: 1.5 is 8 ulps from 1.500001`.
    pub message: String,
}

/// Why a program could not be evaluated, such as arithmetic on a type we only carry.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluateError {
    pub location: LocationId,
    pub message: String,
}

/// More elements than this are refused, in one tensor or in all arguments: each takes eight bytes.
const MAXIMUM_ELEMENTS: usize = 1 << 31;

/// What is too large to be evaluated, as an error. It should be asked for before arguments are made.
pub fn check_sizes(program: &Program) -> Result<(), EvaluateError> {
    let large = program.values.iter().find(|(_, value)| value.ty.elements() > MAXIMUM_ELEMENTS);
    if let Some((value, _)) = large {
        let location = program.producer(value).map_or(Program::UNKNOWN_LOCATION, |op| program.ops[op].location);
        let message = format!("`{}` is too large to be evaluated", program.ty(value));
        return Err(EvaluateError { location, message });
    }
    // No single one is large, so the sum is far from overflowing.
    let total: usize = program.body().arguments.iter().map(|&value| program.ty(value).elements()).sum();
    if total > MAXIMUM_ELEMENTS {
        let message = format!("the arguments have {total} elements together, which is too large to be evaluated");
        return Err(EvaluateError { location: Program::UNKNOWN_LOCATION, message });
    }
    Ok(())
}

/// Evaluates a verified program on arguments of its argument types. Of a program that is written for
/// several processes this is the first, which fails where it would meet another; [`evaluate_devices`]
/// runs all of them.
pub fn evaluate(program: &Program, arguments: &[Tensor], options: Options) -> Result<Evaluation, EvaluateError> {
    check_sizes(program)?;
    check_arguments(program, arguments)?;
    run(program, &lifetimes(program), arguments, options, Process::alone())
}

fn check_arguments(program: &Program, arguments: &[Tensor]) -> Result<(), EvaluateError> {
    let fail = |message| Err(EvaluateError { location: Program::UNKNOWN_LOCATION, message });
    let expected = &program.body().arguments;
    if arguments.len() != expected.len() {
        return fail(format!("the program has {} arguments but {} were given", expected.len(), arguments.len()));
    }
    for (index, (&value, argument)) in expected.iter().zip(arguments).enumerate() {
        if program.ty(value) != &argument.ty {
            return fail(format!("argument {index} is `{}` but `{}` was given", program.ty(value), argument.ty));
        }
    }
    Ok(())
}

/// Runs one process from its arguments to its results.
fn run<'p>(
    program: &'p Program,
    lifetimes: &'p Lifetimes,
    arguments: &[Tensor],
    options: Options,
    process: Process<'p>,
) -> Result<Evaluation, EvaluateError> {
    let mut machine = Machine::new(program, lifetimes, options, process);
    let arguments = arguments.iter().cloned().map(Arc::new).collect();
    let results = machine.region(program.body, arguments)?;
    Ok(Evaluation {
        results: results.into_iter().map(into_tensor).collect(),
        checks_passed: machine.checks_passed,
        failures: machine.failures,
    })
}

/// Evaluates one op on its operands. Branches and loops are the machine's own business.
fn apply<'p>(machine: &mut Machine<'p>, id: OpId, operands: Vec<Arc<Tensor>>) -> Result<Vec<Arc<Tensor>>, String> {
    let program = machine.program;
    let operation = &program.ops[id];
    let wide = machine.options.wide;
    let types: Vec<_> = operation.results.iter().map(|&value| program.ty(value)).collect();
    // Ops with one result and a fixed number of operands read them by position.
    let operand = |index: usize| operands[index].as_ref();
    let one = |tensor: Tensor| Ok(vec![Arc::new(tensor)]);
    match &operation.op {
        Op::AfterAll => one(Tensor::zeros(types[0])),
        Op::AllGather(gather) => collective::all_gather(machine, id, gather, operands),
        Op::AllReduce(collective) => collective::all_reduce(machine, id, collective, operands),
        Op::AllToAll(exchange) => collective::all_to_all(machine, id, exchange, operands),
        Op::Attention(attention) => attention::attention(&operands, attention, &types, wide),
        Op::AttentionGrad(grad) => attention::attention_grad(&operands, grad, &types, wide),
        Op::BatchNormGrad(norm) => linear::batch_norm_grad(&operands, *norm, &types, wide),
        Op::BatchNormInference(norm) => linear::batch_norm_inference(&operands, *norm, wide),
        Op::BatchNormTraining(norm) => linear::batch_norm_training(&operands, *norm, &types, wide),
        Op::Binary(binary) => {
            let [left, right] = pair(operands)?;
            one(elementwise::binary(*binary, left, &right, wide)?)
        }
        Op::BitcastConvert { .. } => one(elementwise::bitcast_convert(operand(0), types[0])?),
        Op::BroadcastInDim(broadcast) => one(shape::broadcast_in_dim(operand(0), broadcast, types[0])),
        Op::Case => Err("a branch outside the machine".to_owned()),
        Op::Check(check) => {
            match check::check(*check, operand(0), operand(1)) {
                Ok(()) => machine.checks_passed += 1,
                Err(message) => machine.failures.push(CheckFailure { location: operation.location, message }),
            }
            Ok(Vec::new())
        }
        Op::Cholesky { lower } => one(linear::cholesky(operand(0), *lower, wide)?),
        Op::Clamp => {
            let [low, value, high] = triple(operands)?;
            one(elementwise::clamp(&low, value, &high)?)
        }
        Op::CollectiveBroadcast(collective) => collective::broadcast(machine, id, collective, operands),
        Op::CollectivePermute(permute) => collective::permute(machine, id, permute, operands),
        Op::Compare { direction, order } => {
            one(elementwise::compare(*direction, *order, operand(0), operand(1), types[0])?)
        }
        Op::Complex => one(shape::complex(operand(0), operand(1), types[0])),
        Op::Concatenate { dim } => one(shape::concatenate(&operands, *dim, types[0])),
        Op::Constant(literal) => one(Tensor::from_literal(literal)),
        Op::Convert { dtype } => one(elementwise::convert(only(operands)?, *dtype, wide)?),
        Op::Convolution(convolution) => {
            one(contract::convolution(operand(0), operand(1), convolution, types[0], wide)?)
        }
        Op::CustomCall(_) if operation.op.copies_to().is_some() => Ok(operands),
        Op::CustomCall(call) => Err(format!("custom call `{}` has no meaning here", call.target)),
        Op::DotGeneral(dot) => one(contract::dot_general(operand(0), operand(1), dot, types[0], wide)?),
        Op::DynamicSlice { .. } => one(index::dynamic_slice(&operands, types[0])?),
        Op::DynamicUpdateSlice => one(index::dynamic_update_slice(operands)?),
        Op::Fft { .. } => Err(unsupported(DType::Complex64)),
        Op::Gather(gather) => one(index::gather(operand(0), operand(1), gather, types[0])?),
        Op::If => Err("a branch outside the machine".to_owned()),
        Op::Infeed(_) => Err("an infeed has nothing to read from here".to_owned()),
        Op::Iota { dim, ty } => one(shape::iota(*dim, ty, wide)),
        Op::Map => machine.map(operation, &operands),
        Op::Opaque(opaque) => Err(format!("`{}` has no meaning here", opaque.name)),
        Op::OptimizationBarrier => Ok(operands),
        Op::Outfeed(_) => Err("an outfeed has nowhere to write to here".to_owned()),
        Op::Pad(pad) => one(shape::pad(operand(0), operand(1), pad, types[0])),
        Op::PartitionId => one(Tensor::integer(types[0].clone(), vec![machine.process.partition(program) as i64])),
        Op::Recv(_) => Err("there is nobody to receive from here".to_owned()),
        Op::Reduce { dims } => reduce::reduce(machine, operation, &operands, dims),
        Op::ReducePrecision { exponent_bits, mantissa_bits } => {
            one(elementwise::reduce_precision(only(operands)?, *exponent_bits, *mantissa_bits)?)
        }
        Op::ReduceScatter(scatter) => collective::reduce_scatter(machine, id, scatter, operands),
        Op::ReduceWindow(window) => window::reduce_window(machine, operation, &operands, window),
        Op::ReplicaId => one(Tensor::integer(types[0].clone(), vec![machine.process.replica(program) as i64])),
        Op::Reshape { .. } => one(shape::reshape(only(operands)?, types[0])),
        Op::Reverse { dims } => one(shape::reverse(operand(0), dims)),
        Op::Rng { distribution, .. } => {
            let seed = u64::from(operation.results[0].0);
            one(random::rng(operand(0), operand(1), *distribution, types[0], seed, wide)?)
        }
        Op::RngBitGenerator { algorithm, .. } => random::rng_bit_generator(operand(0), *algorithm, types[1]),
        Op::Scatter(scatter) => index::scatter(machine, operation, operands, scatter),
        Op::Select => {
            let [predicate, on_true, on_false] = triple(operands)?;
            one(elementwise::select(&predicate, &on_true, on_false, types[0])?)
        }
        Op::SelectAndScatter(scatter) => window::select_and_scatter(machine, operation, &operands, scatter),
        Op::Send(_) => Err("there is nobody to send to here".to_owned()),
        Op::Slice(slice) => one(shape::slice(operand(0), slice, types[0])),
        Op::Sort { dim, .. } => sort::sort(machine, operation, &operands, *dim),
        Op::TopK { k } => sort::top_k(operand(0), *k, &types),
        Op::Transpose { permutation } => one(shape::transpose(operand(0), permutation, types[0])),
        Op::TriangularSolve(solve) => one(linear::triangular_solve(operand(0), operand(1), *solve, wide)?),
        Op::Unary(Unary::Real | Unary::Imag) if types[0].dtype != operand(0).ty.dtype => {
            one(shape::complex_part(operand(0), types[0], operation.op == Op::Unary(Unary::Imag)))
        }
        Op::Unary(unary) => one(elementwise::unary(*unary, only(operands)?, types[0], wide)?),
        Op::While => Err("a loop outside the machine".to_owned()),
    }
}

fn only(operands: Vec<Arc<Tensor>>) -> Result<Arc<Tensor>, String> {
    operands.into_iter().next().ok_or_else(|| "an operand is missing".to_owned())
}

fn pair(operands: Vec<Arc<Tensor>>) -> Result<[Arc<Tensor>; 2], String> {
    operands.try_into().map_err(|_| "two operands were expected".to_owned())
}

fn triple(operands: Vec<Arc<Tensor>>) -> Result<[Arc<Tensor>; 3], String> {
    operands.try_into().map_err(|_| "three operands were expected".to_owned())
}
