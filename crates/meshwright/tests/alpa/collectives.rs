//! Collectives as Alpa's tests count them: after those that can run together have been made one.

use std::collections::{BTreeMap, BTreeSet};

use meshwright::lower::{CollectiveKind, collective};
use meshwright::program::{Binary, Id, Op, OpId, Program, RegionId};

/// How many collectives of each kind a local program runs, in the order of [`CollectiveKind::ALL`], once XLA has made
/// one of those that it can.
///
/// What is done twice to the same value is done once. Reductions, gathers and scatters of one kind over the same groups
/// of devices that as many others wait for, one after the other, are one: none of them waits for another. So are
/// all gradients that are reduced at the end. Single numbers are left out: Alpa's steps give no loss. Those in loops
/// count once a trip.
pub(crate) fn combined(program: &Program) -> [usize; CollectiveKind::ALL.len()] {
    let trips = program.trips();
    let mut counts = [0; CollectiveKind::ALL.len()];
    for (region, content) in program.regions.iter() {
        let heights = heights(program, region);
        let (mut seen, mut bundles) = (BTreeSet::new(), BTreeSet::new());
        for &op in &content.ops {
            let Some(found) = find(program, op) else { continue };
            let operands = &program.ops[op].operands;
            let is_new = seen.insert(format!("{} {operands:?} {:?} {:?}", found.kind.name(), found.groups, found.dims));
            let bundle =
                format!("{} {:?} {:?} {}", found.kind.name(), found.groups, found.reduction, heights[&op.index()]);
            if is_new && (!found.combines || bundles.insert(bundle)) {
                counts[found.kind as usize] += trips.of_op(op);
            }
        }
    }
    counts
}

/// For each op of a region, how many collectives follow it at most, one waiting for the other.
fn heights(program: &Program, region: RegionId) -> BTreeMap<usize, usize> {
    let mut heights = BTreeMap::new();
    // Of a value, the collectives from its readers on.
    let mut after: Vec<usize> = vec![0; program.values.len()];
    for &op in program.regions[region].ops.iter().rev() {
        let results = &program.ops[op].results;
        let height = results.iter().map(|result| after[result.index()]).max().unwrap_or(0);
        heights.insert(op.index(), height);
        let own = height + usize::from(find(program, op).is_some());
        for value in program.reads(op) {
            after[value.index()] = after[value.index()].max(own);
        }
    }
    heights
}

/// What tells collectives apart.
struct Found<'p> {
    kind: CollectiveKind,
    groups: &'p [Vec<i64>],
    dims: Vec<usize>,
    reduction: Option<Binary>,
    /// Exchanges and permutations stay as they are.
    combines: bool,
}

/// The collective that an op is, if it is one of more than a number.
fn find(program: &Program, op: OpId) -> Option<Found<'_>> {
    let operation = &program.ops[op];
    let (kind, _) = collective(&operation.op)?;
    if program.ty(operation.results[0]).elements() == 1 {
        return None;
    }
    let (groups, dims, combines): (&[Vec<i64>], Vec<usize>, bool) = match &operation.op {
        Op::AllGather(gather) => (&gather.collective.groups, vec![gather.dim], true),
        Op::AllReduce(collective) => (&collective.groups, Vec::new(), true),
        Op::AllToAll(exchange) => (&exchange.collective.groups, vec![exchange.split_dim, exchange.concat_dim], false),
        Op::ReduceScatter(scatter) => (&scatter.collective.groups, vec![scatter.dim], true),
        // Of the collectives that lowering emits, permutations are left, each of which is one of its own.
        _ => (&[], vec![op.index()], false),
    };
    let reduction = operation.regions.first().and_then(|&region| program.applied_binary(region));
    Some(Found { kind, groups, dims, reduction, combines })
}
