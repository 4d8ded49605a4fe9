//! Collectives that run as one: a meeting of processes costs more than what most of them move.

use rustc_hash::FxHashMap;

use crate::program::{Binary, DType, Op, OpId, Program, ValueId};

/// What collectives move together that would be large alone, at most: what users of PyTorch are used to.
const MOST_BYTES: usize = 25 << 20;
/// The share of what a device holds anyway that it does not matter to hold besides.
const SMALL_SHARE: usize = 64;

/// The ops of a block in their order, with collectives together that can be one: they do the same between the same
/// devices, and all that they read is there before anybody needs what one of them makes.
///
/// What is gathered sooner or summed later is in memory for longer. So no more is moved at once than by the largest of
/// them that stands alone anyway, but for what is small beside all arguments.
pub(super) fn combined(program: &Program, ops: &[OpId]) -> Vec<Vec<OpId>> {
    let mut before: Vec<Vec<Vec<OpId>>> = vec![Vec::new(); ops.len() + 1];
    let mut is_moved = vec![false; ops.len()];
    for bucket in buckets(program, ops).into_iter().filter(|bucket| bucket.members.len() > 1) {
        let place = bucket.window.ready.max(bucket.members[0].place);
        let views = bucket.members.iter().flat_map(|member| &member.views).copied().filter(|&view| view < place);
        let mut views: Vec<usize> = views.collect();
        views.sort_unstable();
        bucket
            .members
            .iter()
            .map(|member| member.place)
            .chain(views.iter().copied())
            .for_each(|at| is_moved[at] = true);
        before[place].push(bucket.members.iter().map(|member| ops[member.place]).collect());
        before[place].extend(views.into_iter().map(|view| vec![ops[view]]));
    }
    let mut groups = Vec::with_capacity(ops.len());
    for (place, here) in before.into_iter().enumerate() {
        groups.extend(here);
        if ops.get(place).is_some() && !is_moved[place] {
            groups.push(vec![ops[place]]);
        }
    }
    groups
}

/// Collectives that become one.
struct Bucket {
    members: Vec<Member>,
    bytes: usize,
    window: Window,
}

/// A collective that may move.
struct Member {
    place: usize,
    /// Places of ops that only look at its result in another way, and go where it goes.
    views: Vec<usize>,
    window: Window,
}

/// Where a collective may stand: behind all that makes what it reads, before all that reads what it makes.
#[derive(Clone, Copy)]
struct Window {
    ready: usize,
    needed: usize,
}

impl Window {
    fn and(self, other: Window) -> Option<Window> {
        let both = Window { ready: self.ready.max(other.ready), needed: self.needed.min(other.needed) };
        (both.ready <= both.needed).then_some(both)
    }
}

fn buckets(program: &Program, ops: &[OpId]) -> Vec<Bucket> {
    let members = members(program, ops);
    let mut largest: FxHashMap<Kind<'_>, usize> = FxHashMap::default();
    for (kind, member) in &members {
        let most = largest.entry(*kind).or_default();
        *most = moved_bytes(program, ops[member.place]).max(*most);
    }
    let held: usize = program.body().arguments.iter().map(|&argument| program.ty(argument).bytes()).sum();
    let mut buckets: Vec<Bucket> = Vec::new();
    let mut open: FxHashMap<Kind<'_>, usize> = FxHashMap::default();
    for (kind, member) in members {
        let bytes = moved_bytes(program, ops[member.place]);
        let most = largest[&kind].max(held / SMALL_SHARE).min(MOST_BYTES);
        if let Some(&number) = open.get(&kind) {
            let bucket = &mut buckets[number];
            if let (Some(both), true) = (bucket.window.and(member.window), bucket.bytes + bytes <= most) {
                bucket.window = both;
                bucket.bytes += bytes;
                bucket.members.push(member);
                continue;
            }
        }
        open.insert(kind, buckets.len());
        buckets.push(Bucket { bytes, window: member.window, members: vec![member] });
    }
    buckets
}

/// The collectives of a block that may move, in its order.
fn members<'p>(program: &'p Program, ops: &[OpId]) -> Vec<(Kind<'p>, Member)> {
    let mut made: FxHashMap<ValueId, usize> = FxHashMap::default();
    let mut members: Vec<(Kind<'p>, Member)> = Vec::new();
    // Values that are there once a member has run.
    let mut follows: FxHashMap<ValueId, usize> = FxHashMap::default();
    for (place, &op) in ops.iter().enumerate() {
        let operation = &program.ops[op];
        let mut followed: Vec<usize> =
            program.outer_reads(op).iter().filter_map(|value| follows.get(value).copied()).collect();
        followed.sort_unstable();
        followed.dedup();
        let is_view = matches!(operation.op, Op::Reshape { .. } | Op::Transpose { .. });
        match (followed.as_slice(), kind(program, op)) {
            (&[member], _) if is_view => {
                members[member].1.views.push(place);
                follows.insert(operation.results[0], member);
            }
            // Of two collectives that follow on each other only the first moves: both could pass each other.
            ([], Some(kind)) => {
                let ready = made.get(&operation.operands[0]).map_or(0, |&maker| maker + 1);
                let window = Window { ready, needed: ops.len() };
                follows.insert(operation.results[0], members.len());
                members.push((kind, Member { place, views: Vec::new(), window }));
            }
            _ => {
                for &member in &followed {
                    let needed = &mut members[member].1.window.needed;
                    *needed = place.min(*needed);
                }
            }
        }
        operation.results.iter().for_each(|&result| _ = made.insert(result, place));
    }
    members
}

/// What collectives have in common that can be one.
type Kind<'p> = (&'static str, Option<Binary>, &'p [Vec<i64>], DType);

fn kind(program: &Program, op: OpId) -> Option<Kind<'_>> {
    let operation = &program.ops[op];
    let (name, groups) = match &operation.op {
        Op::AllGather(gather) => ("gather", &gather.collective.groups),
        Op::AllReduce(collective) => ("reduce", &collective.groups),
        Op::ReduceScatter(scatter) => ("scatter", &scatter.collective.groups),
        _ => return None,
    };
    let &[operand] = operation.operands.as_slice() else { return None };
    let dtype = program.dtype(operand);
    if dtype == DType::Bool {
        return None;
    }
    let reduction = operation.regions.first().and_then(|&region| program.applied_binary(region));
    Some((name, reduction, groups, dtype))
}

/// The bytes of the larger side.
fn moved_bytes(program: &Program, op: OpId) -> usize {
    let operation = &program.ops[op];
    program.ty(operation.operands[0]).bytes().max(program.ty(operation.results[0]).bytes())
}
