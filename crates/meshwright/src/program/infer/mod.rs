//! Result types from operand types: one row per op.
//!
//! What passes here is safe to run: every dimension an op names exists, every list has the length
//! its use needs, and positions computed from sizes, strides and padding stay within 63 bits.

mod attention;
mod check;
mod collective;
mod contract;
mod control;
mod elementwise;
mod index;
mod linear;
mod normalize;
mod random;
mod reduce;
mod shape;
#[cfg(test)]
mod tests;
mod window;

use smallvec::SmallVec;

use super::{DType, Op, Program, RegionId, Type, ValueId};

pub(super) use check::{countable, plural};

/// Types of the results of an op.
pub type Types = SmallVec<[Type; 1]>;

/// The result types of `op` on these operands and regions, or what is wrong with them.
pub fn infer(program: &Program, op: &Op, operands: &[ValueId], regions: &[RegionId]) -> Result<Types, String> {
    let operands = &operand_types(program, op, operands)?[..];
    let regions = &signatures(program, op, regions)?[..];
    let types = match op {
        Op::AfterAll => control::after_all(operands),
        Op::AllGather(gather) => collective::all_gather(gather, operands),
        Op::AllReduce(collective) => collective::all_reduce(collective, operands, regions),
        Op::AllToAll(exchange) => collective::all_to_all(exchange, operands),
        Op::Attention(attention) => attention::attention(attention, operands),
        Op::AttentionGrad(grad) => attention::attention_grad(grad, operands),
        Op::BatchNormGrad(norm) => normalize::batch_norm_grad(*norm, operands),
        Op::BatchNormInference(norm) => normalize::batch_norm_inference(*norm, operands),
        Op::BatchNormTraining(norm) => normalize::batch_norm_training(*norm, operands),
        Op::Binary(binary) => elementwise::binary(*binary, operands),
        Op::BitcastConvert { dtype } => elementwise::bitcast_convert(*dtype, operands),
        Op::BroadcastInDim(broadcast) => shape::broadcast_in_dim(broadcast, operands),
        Op::Case => control::case(operands, regions),
        Op::Check(_) => elementwise::check(operands),
        Op::Cholesky { .. } => linear::cholesky(operands),
        Op::Clamp => elementwise::clamp(operands),
        Op::CollectiveBroadcast(collective) => collective::collective_broadcast(collective, operands),
        Op::CollectivePermute(permute) => collective::collective_permute(permute, operands),
        Op::Compare { order, .. } => elementwise::compare(*order, operands),
        Op::Complex => elementwise::complex(operands),
        Op::Concatenate { dim } => shape::concatenate(*dim, operands),
        Op::Constant(literal) => shape::constant(literal, operands),
        Op::Convert { dtype } => elementwise::convert(*dtype, operands),
        Op::Convolution(convolution) => contract::convolution(convolution, operands),
        Op::CustomCall(call) => control::declared(&call.result_types),
        Op::DotGeneral(dot) => contract::dot_general(dot, operands),
        Op::DynamicSlice { sizes } => shape::dynamic_slice(sizes, operands),
        Op::DynamicUpdateSlice => shape::dynamic_update_slice(operands),
        Op::Fft { kind, lengths } => linear::fft(*kind, lengths, operands),
        Op::Gather(gather) => index::gather(gather, operands),
        Op::If => control::if_(operands, regions),
        Op::Infeed(feed) => control::infeed(feed, operands),
        Op::Iota { dim, ty } => shape::iota(*dim, ty, operands),
        Op::Map => elementwise::map(operands, regions),
        Op::Opaque(opaque) => control::declared(&opaque.result_types),
        Op::OptimizationBarrier => control::optimization_barrier(operands),
        Op::Outfeed(feed) => control::outfeed(feed, operands),
        Op::Pad(pad) => shape::pad(pad, operands),
        Op::PartitionId => collective::process_id(operands),
        Op::Recv(transfer) => control::recv(transfer, operands),
        Op::Reduce { dims } => reduce::reduce(dims, operands, regions),
        Op::ReducePrecision { exponent_bits, .. } => elementwise::reduce_precision(*exponent_bits, operands),
        Op::ReduceScatter(scatter) => collective::reduce_scatter(scatter, operands, regions),
        Op::ReduceWindow(window) => reduce::reduce_window(window, operands, regions),
        Op::ReplicaId => collective::process_id(operands),
        Op::Reshape { shape } => shape::reshape(shape, operands),
        Op::Reverse { dims } => shape::reverse(dims, operands),
        Op::Rng { distribution, shape } => random::rng(*distribution, shape, operands),
        Op::RngBitGenerator { algorithm, ty } => random::rng_bit_generator(*algorithm, ty, operands),
        Op::Scatter(scatter) => index::scatter(scatter, operands, regions),
        Op::Select => elementwise::select(operands),
        Op::SelectAndScatter(scatter) => reduce::select_and_scatter(scatter, operands, regions),
        Op::Send(transfer) => control::send(transfer, operands),
        Op::Slice(slice) => shape::slice(slice, operands),
        Op::Sort { dim, .. } => index::sort(*dim, operands, regions),
        Op::TopK { k } => index::top_k(*k, operands),
        Op::Transpose { permutation } => shape::transpose(permutation, operands),
        Op::TriangularSolve(solve) => linear::triangular_solve(*solve, operands),
        Op::Unary(unary) => elementwise::unary(*unary, operands),
        Op::While => control::while_(operands, regions),
    }?;
    for (index, ty) in types.iter().enumerate() {
        countable(ty)?;
        if ty.dtype == DType::Token && !carries_tokens(op) {
            return Err(format!("result {index} is a token"));
        }
    }
    Ok(types)
}

/// What a region takes and gives back.
struct Signature<'a> {
    arguments: SmallVec<[&'a Type; 4]>,
    results: SmallVec<[&'a Type; 4]>,
}

/// Whether tokens may be among the operands and results. All other ops compute with tensors alone.
fn carries_tokens(op: &Op) -> bool {
    matches!(
        op,
        Op::AfterAll
            | Op::Case
            | Op::CustomCall(_)
            | Op::If
            | Op::Infeed(_)
            | Op::Opaque(_)
            | Op::OptimizationBarrier
            | Op::Outfeed(_)
            | Op::Recv(_)
            | Op::Send(_)
            | Op::While
    )
}

fn takes_regions(op: &Op) -> bool {
    matches!(
        op,
        Op::AllReduce(_)
            | Op::Case
            | Op::If
            | Op::Map
            | Op::Opaque(_)
            | Op::Reduce { .. }
            | Op::ReduceScatter(_)
            | Op::ReduceWindow(_)
            | Op::Scatter(_)
            | Op::SelectAndScatter(_)
            | Op::Sort { .. }
            | Op::While
    )
}

fn operand_types<'a>(program: &'a Program, op: &Op, operands: &[ValueId]) -> Result<SmallVec<[&'a Type; 4]>, String> {
    let mut types = SmallVec::with_capacity(operands.len());
    for (index, &operand) in operands.iter().enumerate() {
        let ty = value_type(program, operand)?;
        countable(ty)?;
        if ty.dtype == DType::Token && !carries_tokens(op) {
            return Err(format!("operand {index} is a token"));
        }
        types.push(ty);
    }
    Ok(types)
}

fn signatures<'a>(program: &'a Program, op: &Op, regions: &[RegionId]) -> Result<SmallVec<[Signature<'a>; 2]>, String> {
    if !regions.is_empty() && !takes_regions(op) {
        return Err(format!("expected no regions, got {}", regions.len()));
    }
    let mut signatures = SmallVec::with_capacity(regions.len());
    for &id in regions {
        let region = program.regions.get(id).ok_or_else(|| format!("there is no region {id}"))?;
        let types = |values: &[ValueId]| values.iter().map(|&value| value_type(program, value)).collect();
        let arguments: Result<_, String> = types(&region.arguments);
        let results: Result<_, String> = types(&region.results);
        signatures.push(Signature { arguments: arguments?, results: results? });
    }
    Ok(signatures)
}

fn value_type(program: &Program, value: ValueId) -> Result<&Type, String> {
    program.values.get(value).map(|value| &value.ty).ok_or_else(|| format!("there is no value {value}"))
}
