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
    if collective.global_ids && collective.channel <= 0 {
        return Err(format!("global ids need a positive channel, got {}", collective.channel));
    }
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

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use crate::program::*;

    fn pairs() -> Collective {
        Collective { groups: vec![vec![0, 1], vec![2, 3]].into(), channel: 1, global_ids: true }
    }

    #[test]
    fn all_gather() {
        let check = |dim, factor, operands, expected| {
            check(Op::AllGather(Box::new(AllGather { dim, factor, collective: pairs() })), operands, &[], expected);
        };
        check(0, 2, "3x4xf32 5xf32", "6x4xf32 10xf32");
        check(1, 2, "3xf32", "error: dimension 1 is out of range for rank 1");
        check(0, 0, "3xf32", "error: the number of gathered parts must be positive, got 0");
        let message = "error: `tensor<18446744073709551615xf32>` has more elements than 63 bits can count";
        check(0, usize::MAX, "3xf32", message);
        check(0, 2, "", "error: expected at least 1 operand, got 0");
    }

    #[test]
    fn all_reduce() {
        let check = |groups: &[&[i64]], operands, regions, expected| {
            let groups = groups.iter().map(|group| group.to_vec()).collect();
            let collective = Collective { groups, channel: 0, global_ids: false };
            check(Op::AllReduce(Box::new(collective)), operands, regions, expected);
        };
        let add = &["f32 f32 -> f32"];
        check(&[&[0, 1], &[7]], "3xf32 4xbf16", add, "3xf32 4xf32");
        check(&[], "3xf32", add, "3xf32");
        check(&[&[0, -1]], "3xf32", add, "error: device -1 cannot be a member of a group");
        check(&[&[0], &[0]], "3xf32", add, "error: device 0 is a member of a group twice");
        check(&[], "3xf32", &[], "error: expected 1 region, got 0");
        check(&[], "3xf64", add, "error: elements of `tensor<3xf64>` cannot be accumulated in `f32`");
    }

    #[test]
    fn all_to_all() {
        let check = |split_dim, concat_dim, split_count, operands, expected| {
            let exchange = AllToAll { split_dim, concat_dim, split_count, collective: pairs() };
            check(Op::AllToAll(Box::new(exchange)), operands, &[], expected);
        };
        check(0, 1, 2, "4x5xf32", "2x10xf32");
        check(1, 1, 5, "4x5xf32", "4x5xf32");
        check(1, 0, 2, "4x5xf32", "error: dimension 1 of size 5 cannot be split into 2 parts");
        check(2, 0, 2, "4x5xf32", "error: split dimension 2 is out of range for rank 2");
        check(0, 2, 2, "4x5xf32", "error: concatenation dimension 2 is out of range for rank 2");
        check(0, 1, 0, "4x5xf32", "error: the split count must be positive, got 0");
    }

    #[test]
    fn broadcast_and_permute() {
        let no_channel = Collective { channel: 0, ..pairs() };
        let message = "error: global ids need a positive channel, got 0";
        check(Op::CollectiveBroadcast(Box::new(no_channel)), "3xf32", &[], message);
        check(Op::CollectiveBroadcast(Box::new(pairs())), "3xf32", &[], "3xf32");
        let check = |pairs: &[(i64, i64)], expected| {
            let permute = CollectivePermute { pairs: pairs.to_vec(), channel: 1 };
            check(Op::CollectivePermute(Box::new(permute)), "3xf32", &[], expected);
        };
        check(&[(0, 1), (1, 0)], "3xf32");
        check(&[(0, 1), (0, 2)], "error: device 0 is a source twice");
        check(&[(0, 1), (2, 1)], "error: device 1 is a target twice");
        check(&[(-5, 1)], "error: device -5 cannot be a source");
    }

    #[test]
    fn process_id() {
        check(Op::PartitionId, "", &[], "ui32");
        check(Op::ReplicaId, "", &[], "ui32");
        check(Op::ReplicaId, "f32", &[], "error: expected 0 operands, got 1");
    }

    #[test]
    fn reduce_scatter() {
        let check = |dim, factor, operands, expected| {
            let scatter = ReduceScatter { dim, factor, collective: pairs() };
            check(Op::ReduceScatter(Box::new(scatter)), operands, &["f32 f32 -> f32"], expected);
        };
        check(1, 2, "3x4xf32", "3x2xf32");
        check(1, 2, "3x4xbf16", "3x2xf32");
        check(0, 2, "3x4xf32", "error: dimension 0 of size 3 cannot be split into 2 parts");
        check(2, 2, "3x4xf32", "error: dimension 2 is out of range for rank 2");
        check(1, 0, "3x4xf32", "error: the number of scattered parts must be positive, got 0");
    }
}
