//! Ops across devices. Only shapes are checked against `factor` and `split_count`; how many devices
//! a group has depends on the number of processes, which whoever runs the program knows.

use rustc_hash::FxHashSet;
use smallvec::smallvec;

use super::check::{at_least, dim_in_range, positive, reduction_dtypes, take, take_regions};
use super::{Signature, Types};
use crate::program::{AllGather, AllToAll, Collective, CollectivePermute, DType, ReduceScatter, Type};

pub(super) fn all_gather(gather: &AllGather, operands: &[&Type]) -> Result<Types, String> {
    at_least(operands, 1)?;
    groups(&gather.collective)?;
    positive("the number of gathered parts", gather.factor)?;
    let gathered = |operand: &&Type| {
        dim_in_range("dimension", gather.dim, operand.rank())?;
        let mut result = Type::clone(operand);
        result.shape[gather.dim] = result.shape[gather.dim].saturating_mul(gather.factor);
        Ok(result)
    };
    operands.iter().map(gathered).collect()
}

pub(super) fn all_reduce(
    collective: &Collective,
    operands: &[&Type],
    regions: &[Signature<'_>],
) -> Result<Types, String> {
    at_least(operands, 1)?;
    groups(collective)?;
    let [region] = take_regions(regions)?;
    // One region of two scalars serves every operand.
    let reduced = |operand: &&Type| Ok(operand.with_dtype(reduction_dtypes(region, &[operand])?[0]));
    operands.iter().map(reduced).collect()
}

pub(super) fn all_to_all(exchange: &AllToAll, operands: &[&Type]) -> Result<Types, String> {
    at_least(operands, 1)?;
    groups(&exchange.collective)?;
    positive("the split count", exchange.split_count)?;
    let exchanged = |operand: &&Type| {
        dim_in_range("split dimension", exchange.split_dim, operand.rank())?;
        dim_in_range("concatenation dimension", exchange.concat_dim, operand.rank())?;
        let mut result = split(operand, exchange.split_dim, exchange.split_count)?;
        result.shape[exchange.concat_dim] = result.shape[exchange.concat_dim].saturating_mul(exchange.split_count);
        Ok(result)
    };
    operands.iter().map(exchanged).collect()
}

pub(super) fn collective_broadcast(collective: &Collective, operands: &[&Type]) -> Result<Types, String> {
    let [operand] = take(operands)?;
    groups(collective)?;
    Ok(smallvec![operand.clone()])
}

pub(super) fn collective_permute(permute: &CollectivePermute, operands: &[&Type]) -> Result<Types, String> {
    let [operand] = take(operands)?;
    distinct_ids("a source", permute.pairs.iter().map(|pair| pair.0))?;
    distinct_ids("a target", permute.pairs.iter().map(|pair| pair.1))?;
    Ok(smallvec![operand.clone()])
}

/// The number of this replica or partition.
pub(super) fn process_id(operands: &[&Type]) -> Result<Types, String> {
    let [] = take(operands)?;
    Ok(smallvec![Type::scalar(DType::U32)])
}

pub(super) fn reduce_scatter(
    scatter: &ReduceScatter,
    operands: &[&Type],
    regions: &[Signature<'_>],
) -> Result<Types, String> {
    let [operand] = take(operands)?;
    groups(&scatter.collective)?;
    dim_in_range("dimension", scatter.dim, operand.rank())?;
    positive("the number of scattered parts", scatter.factor)?;
    let [region] = take_regions(regions)?;
    let dtypes = reduction_dtypes(region, operands)?;
    Ok(smallvec![split(operand, scatter.dim, scatter.factor)?.with_dtype(dtypes[0])])
}

fn split(operand: &Type, dim: usize, parts: usize) -> Result<Type, String> {
    let mut result = operand.clone();
    if !result.shape[dim].is_multiple_of(parts) {
        return Err(format!("dimension {dim} of size {} cannot be split into {parts} parts", result.shape[dim]));
    }
    result.shape[dim] /= parts;
    Ok(result)
}

fn groups(collective: &Collective) -> Result<(), String> {
    distinct_ids("a member of a group", collective.groups.iter().flatten().copied())
}

fn distinct_ids(what: &str, ids: impl Iterator<Item = i64>) -> Result<(), String> {
    let mut seen = FxHashSet::default();
    for id in ids {
        if id < 0 {
            return Err(format!("device {id} cannot be {what}"));
        }
        if !seen.insert(id) {
            return Err(format!("device {id} is {what} twice"));
        }
    }
    Ok(())
}
