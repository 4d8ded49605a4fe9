//! What a local program costs, at a first estimate.

use rustc_hash::FxHashSet;

use super::estimate::{CollectiveKind, sent_bytes, transfer_seconds};
use crate::program::{Id, Op, Program, RegionId, ValueId};

/// Collectives, bytes and seconds of one run of a local program on one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measures {
    /// How many collectives of each kind run, those in loops once per trip.
    pub collectives: [usize; CollectiveKind::ALL.len()],
    /// Those of the above that move a single element, such as a loss.
    pub scalar_collectives: usize,
    /// Bytes that a device sends.
    pub bytes_moved: f64,
    /// The most bytes alive at one time, every value in memory from its op to its last reader.
    pub peak_bytes: usize,
    /// Seconds in collectives.
    pub communication_seconds: f64,
}

impl Measures {
    pub fn count(&self, kind: CollectiveKind) -> usize {
        self.collectives[kind as usize]
    }
}

pub fn measure(program: &Program) -> Measures {
    let mut measures = Measures { peak_bytes: peak_bytes(program), ..Measures::default() };
    let trips = program.trips();
    for (op, operation) in program.ops.iter() {
        if let Some((kind, group)) = collective(&operation.op) {
            let times = trips.of_op(op);
            let bytes = |values: &[ValueId]| values.iter().map(|&value| program.ty(value).bytes()).sum::<usize>();
            let (before, after) = (bytes(&operation.operands), bytes(&operation.results));
            let sent = sent_bytes(kind, group, before, after);
            measures.collectives[kind as usize] += times;
            measures.scalar_collectives += if program.ty(operation.results[0]).elements() == 1 { times } else { 0 };
            measures.bytes_moved += times as f64 * sent;
            measures.communication_seconds += times as f64 * transfer_seconds(sent);
        }
    }
    measures
}

/// The kind of a collective and how many devices take part in one group.
pub fn collective(op: &Op) -> Option<(CollectiveKind, usize)> {
    let group = |groups: &[Vec<i64>]| groups.first().map_or(1, Vec::len);
    match op {
        Op::AllGather(gather) => Some((CollectiveKind::AllGather, group(&gather.collective.groups))),
        Op::AllReduce(collective) => Some((CollectiveKind::AllReduce, group(&collective.groups))),
        Op::AllToAll(exchange) => Some((CollectiveKind::AllToAll, group(&exchange.collective.groups))),
        Op::CollectivePermute(_) => Some((CollectiveKind::CollectivePermute, 2)),
        Op::ReduceScatter(scatter) => Some((CollectiveKind::ReduceScatter, group(&scatter.collective.groups))),
        _ => None,
    }
}

/// The most bytes alive at one time. An argument whose memory the caller gives up is free after its
/// last reader; others stay.
fn peak_bytes(program: &Program) -> usize {
    let body = program.body();
    let mut kept = vec![false; program.values.len()];
    for (&value, argument) in body.arguments.iter().zip(&program.arguments) {
        kept[value.index()] = !argument.donated && argument.alias.is_none();
    }
    let arguments: usize = body.arguments.iter().map(|&value| program.ty(value).bytes()).sum();
    arguments + region_peak(program, program.body, &kept)
}

/// The most bytes that a region needs beyond what is there when it begins.
fn region_peak(program: &Program, region: RegionId, kept: &[bool]) -> usize {
    let content = &program.regions[region];
    let dying = dying_values(program, region, kept);
    let bytes = |values: &[ValueId]| values.iter().map(|&value| program.ty(value).bytes() as isize).sum::<isize>();
    let (mut live, mut peak) = (0, 0);
    for (&op, dying) in content.ops.iter().zip(dying) {
        let operation = &program.ops[op];
        let inside = operation.regions.iter().map(|&inner| region_peak(program, inner, kept)).max().unwrap_or(0);
        live += bytes(&operation.results);
        peak = peak.max(live + inside as isize);
        live -= bytes(&dying);
    }
    peak as usize
}

/// For each op of a region, the values of the region that nobody reads after it. What a region gives
/// back outlives it, and so do the arguments of a region inside another.
fn dying_values(program: &Program, region: RegionId, kept: &[bool]) -> Vec<Vec<ValueId>> {
    let content = &program.regions[region];
    let mut seen: FxHashSet<ValueId> = content.results.iter().copied().collect();
    let mut mortal: FxHashSet<ValueId> =
        content.ops.iter().flat_map(|&op| program.ops[op].results.iter().copied()).collect();
    if region == program.body {
        mortal.extend(content.arguments.iter().filter(|argument| !kept[argument.index()]));
    }
    let mut dying = vec![Vec::new(); content.ops.len()];
    for (index, &op) in content.ops.iter().enumerate().rev() {
        for value in program.ops[op].results.iter().copied().chain(program.reads(op)) {
            if seen.insert(value) && mortal.contains(&value) {
                dying[index].push(value);
            }
        }
    }
    dying
}
