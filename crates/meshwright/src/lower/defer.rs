//! Where partial values are finished.
//!
//! A sum over parts can be finished where it arises, or be carried through ops that are linear in it
//! and finished later: once for several sums that are added up, or when it has become smaller. Values
//! that have one reader form trees; in each tree the cheapest places are chosen.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::reshard::{Haste, Ways};
use crate::program::{Id, Op, OpId, Program, ValueId, is_heavy};
use crate::shard::{Carried, Layout, Piece, PieceSet, Pieces, Reduction, Sharding, Strategy, is_tie};

/// Chooses for every partial value whether it is finished where it is made or by those that read it,
/// and says so in the layout.
pub fn defer(layout: &mut Layout<'_>, ways: &mut Ways<'_>) {
    let readers = Readers::new(layout.program, layout.ops());
    let mut open = vec![None; layout.program.values.len()];
    let yields = find_yields(layout, &readers, &mut open);
    for op in layout.ops().to_vec() {
        let operation = &layout.program.ops[op];
        if let Op::OptimizationBarrier = operation.op {
            pass_barrier(layout, &mut open, op);
            continue;
        }
        let &[result] = operation.results.as_slice() else {
            settle_operands(layout, &mut open, op);
            continue;
        };
        if layout.is_free(result) {
            continue;
        }
        let Some(node) = weigh(layout, ways, &open, op, result) else {
            settle_operands(layout, &mut open, op);
            continue;
        };
        // Operands outside of the join, such as the other factor of a product, end here.
        for &operand in &operation.operands {
            if !node.joined.contains(&operand) {
                settle(layout, &mut open, operand);
            }
        }
        open[result.index()] = Some(Box::new(node));
        if let Some(&carried) = yields.get(&result) {
            leave_loop(layout, ways, &mut open, result, carried);
        } else if !readers.has_one(result) {
            settle(layout, &mut open, result);
        }
    }
    // What the results of regions read was never a reader's to carry.
    for value in layout.program.values.ids() {
        settle(layout, &mut open, value);
    }
}

/// A value that could be partial.
#[derive(Clone, Debug)]
struct Open {
    /// `None` for what a loop carries, which is as partial as what is added to it.
    op: Option<OpId>,
    /// How it lies while partial.
    lies: Sharding,
    /// What its op does then.
    strategy: Strategy,
    /// The partial operands that flow into it; none where it arises.
    joined: SmallVec<[ValueId; 2]>,
    /// The price of having it partial, and of having it finished.
    partial_price: f64,
    finished_price: f64,
    /// Whether the cheapest way to have it finished is to finish it here, not its operands.
    finish_here: bool,
}

/// For every value, how it is open. Few are.
type Opened = [Option<Box<Open>>];

/// A sum that a loop carries.
#[derive(Clone, Copy, Debug)]
struct CarriedSum {
    argument: ValueId,
    result: ValueId,
    trips: usize,
}

/// Loops that begin with zeros and only add to them can carry a sum that is partial. Their arguments
/// are opened; gives what each trip makes of them.
fn find_yields(layout: &Layout<'_>, readers: &Readers, open: &mut Opened) -> FxHashMap<ValueId, CarriedSum> {
    let program = layout.program;
    let mut yields = FxHashMap::default();
    for &op in layout.ops() {
        let operation = &program.ops[op];
        let (Op::While, &[condition, body]) = (&operation.op, operation.regions.as_slice()) else { continue };
        let trips = program.counted_loop(op).map_or(1, |counted| counted.trips);
        for (index, &result) in operation.results.iter().enumerate() {
            let argument = program.regions[body].arguments[index];
            let is_asked = readers.counts[program.regions[condition].arguments[index].index()] > 0;
            if is_asked || !readers.has_one(argument) || !program.is_zero(operation.operands[index]) {
                continue;
            }
            let lies = layout.sharding(argument).clone();
            open[argument.index()] = Some(Box::new(Open {
                op: None,
                lies,
                strategy: Strategy::default(),
                joined: SmallVec::new(),
                partial_price: 0.0,
                finished_price: 0.0,
                finish_here: true,
            }));
            yields.insert(program.regions[body].results[index], CarriedSum { argument, result, trips });
        }
    }
    yields
}

/// Decides whether a sum that a trip added to is finished in every trip or after the loop.
fn leave_loop(layout: &mut Layout<'_>, ways: &mut Ways<'_>, open: &mut Opened, value: ValueId, carried: CarriedSum) {
    let CarriedSum { argument, result, trips } = carried;
    let Some(node) = &open[value.index()] else { return };
    let joins = node.joined.contains(&argument);
    let lies =
        Sharding { partial: node.lies.partial, reduction: node.lies.reduction, ..layout.sharding(result).clone() };
    let after = ways.price(layout.program.ty(result), &lies, &lies.finished(), haste(layout, result));
    let in_time = lies.partial.iter().any(|&piece| layout.mesh.is_temporal(piece));
    let is_worth_it = |after: &f64| in_time || *after < node.finished_price * trips as f64;
    let fits = joins && lies.reduction == Reduction::Sum && !lies.cut().intersects(PieceSet::of(&lies.partial));
    match after.filter(|after| fits && is_worth_it(after)) {
        Some(_) => {
            carry(layout, open, value);
            layout.set_sharding(result, &lies);
        }
        None => settle(layout, open, value),
    }
}

/// A sum over time goes through a barrier as it is, for it is there only when its loop has ended; others are
/// finished before.
fn pass_barrier(layout: &mut Layout<'_>, open: &mut Opened, op: OpId) {
    let operation = &layout.program.ops[op];
    for (&operand, &result) in operation.operands.iter().zip(&operation.results) {
        let lies = open[operand.index()].as_ref().map(|node| node.lies.clone());
        match lies.filter(|lies| lies.partial.iter().any(|&piece| layout.mesh.is_temporal(piece))) {
            Some(lies) => {
                carry(layout, open, operand);
                layout.set_sharding(result, &lies);
            }
            None => settle(layout, open, operand),
        }
    }
}

/// What an op can make of partial operands, or a partial value that arises in it.
fn weigh(layout: &Layout<'_>, ways: &mut Ways<'_>, open: &Opened, op: OpId, result: ValueId) -> Option<Open> {
    let (rule, strategy) = (layout.rule(op), layout.strategy(op));
    let ty = layout.program.ty(result);
    let own = strategy.result(rule, &layout.mesh, rule.results.first()?);
    if !own.partial.is_empty() {
        let finished_price = ways.price(ty, &own, layout.sharding(result), haste(layout, result))?;
        let (strategy, joined) = (strategy.clone(), SmallVec::new());
        let op = Some(op);
        return Some(Open { op, lies: own, strategy, joined, partial_price: 0.0, finished_price, finish_here: true });
    }
    let Join { joined, spread, partial, reduction } = joined(layout, open, op)?;
    let cut = strategy;
    let strategy = strategy.without(rule, &layout.mesh, PieceSet::of(&partial));
    let uncutting = uncut_price(layout, ways, op, cut, &strategy, &joined)?;
    let mut lies = strategy.result(rule, &layout.mesh, &rule.results[0]);
    lies.partial = partial;
    lies.reduction = reduction;
    let opened = || joined.iter().filter_map(|operand| open[operand.index()].as_ref());
    let spreading = spread.iter().map(|&index| spread_price(layout, ways, op, index, &strategy, &lies));
    let spreading = spreading.sum::<Option<f64>>()?;
    let partial_price = opened().map(|node| node.partial_price).sum::<f64>() + spreading + uncutting;
    let before = opened().map(|node| node.finished_price).sum::<f64>();
    let here = partial_price + ways.price(ty, &lies, layout.sharding(result), haste(layout, result))?;
    let finish_here = here < before;
    let finished_price = here.min(before);
    Some(Open { op: Some(op), lies, strategy, joined, partial_price, finished_price, finish_here })
}

/// Whether somebody waits for a value.
fn haste(layout: &Layout<'_>, value: ValueId) -> Haste {
    if layout.anatomy.is_final_gradient(value) { Haste::Combined } else { Haste::Awaited }
}

/// What it takes more to bring an op its other operands where it gives up being cut by what it carries. A product gives
/// up nothing: each device would do the work of all.
fn uncut_price(
    layout: &Layout<'_>,
    ways: &mut Ways<'_>,
    op: OpId,
    before: &Strategy,
    after: &Strategy,
    joined: &[ValueId],
) -> Option<f64> {
    if before == after {
        return Some(0.0);
    }
    let (rule, operation) = (layout.rule(op), &layout.program.ops[op]);
    if is_heavy(&operation.op) {
        return None;
    }
    let mut price = 0.0;
    for (&operand, labels) in operation.operands.iter().zip(&rule.operands) {
        if layout.is_free(operand) || joined.contains(&operand) {
            continue;
        }
        let mut to = |strategy: &Strategy| {
            let wanted = strategy.sharding(rule, &layout.mesh, labels);
            ways.price(layout.program.ty(operand), layout.sharding(operand), &wanted, haste(layout, operand))
        };
        price += to(after)? - to(before)?;
    }
    Some(price)
}

/// What an op can carry on partial.
struct Join {
    /// The operands that are partial.
    joined: SmallVec<[ValueId; 2]>,
    /// The places of those that are not, which join as a part on one device.
    spread: SmallVec<[u16; 2]>,
    partial: Pieces,
    reduction: Reduction,
}

fn joined(layout: &Layout<'_>, open: &Opened, op: OpId) -> Option<Join> {
    let operands = &layout.program.ops[op].operands;
    let node = |index: usize| open[operands[index].index()].as_ref();
    let first = (0..operands.len()).find(|&index| node(index).is_some_and(|node| node.op.is_some()))?;
    let Sharding { partial, reduction, .. } = node(first)?.lies.clone();
    let carry = layout.rule(op).carry(first, reduction)?;
    let mut join = Join { joined: SmallVec::new(), spread: SmallVec::new(), partial, reduction };
    for &index in &carry.operands {
        let operand = operands[usize::from(index)];
        match node(usize::from(index)) {
            Some(other) if other.op.is_none() && reduction == Reduction::Sum => join.joined.push(operand),
            Some(other) if other.lies.partial == join.partial && other.lies.reduction == reduction => {
                join.joined.push(operand);
            }
            Some(_) => return None,
            None if can_spread(layout, operand, &join.partial) => join.spread.push(index),
            None => return None,
        }
    }
    // An op that reads a value twice is two readers.
    let distinct = join.joined.iter().enumerate().all(|(index, value)| !join.joined[..index].contains(value));
    distinct.then_some(join)
}

/// Whether an operand that is not partial can stand beside partial ones. A part of a sum over time is
/// made where the sum is, so that only constants and scalars are there in every trip.
fn can_spread(layout: &Layout<'_>, operand: ValueId, pieces: &[Piece]) -> bool {
    let is_used = layout.sharding(operand).used().intersects(PieceSet::of(pieces));
    let in_time = pieces.iter().any(|&piece| layout.mesh.is_temporal(piece));
    layout.is_free(operand) || !is_used && (!in_time || layout.program.ty(operand).elements() == 1)
}

/// What it takes to make an operand partial.
fn spread_price(
    layout: &Layout<'_>,
    ways: &mut Ways<'_>,
    op: OpId,
    index: u16,
    strategy: &Strategy,
    lies: &Sharding,
) -> Option<f64> {
    let operand = layout.program.ops[op].operands[usize::from(index)];
    if layout.is_free(operand) {
        return Some(0.0);
    }
    let rule = layout.rule(op);
    let mut wanted = strategy.sharding(rule, &layout.mesh, &rule.operands[usize::from(index)]);
    (wanted.partial, wanted.reduction) = (lies.partial, lies.reduction);
    ways.price(layout.program.ty(operand), layout.sharding(operand), &wanted, haste(layout, operand))
}

fn settle_operands(layout: &mut Layout<'_>, open: &mut Opened, op: OpId) {
    for index in 0..layout.program.ops[op].operands.len() {
        settle(layout, open, layout.program.ops[op].operands[index]);
    }
}

/// Decides how a value that has to be finished gets there.
fn settle(layout: &mut Layout<'_>, open: &mut Opened, value: ValueId) {
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        let Some(node) = open[value.index()].take() else { continue };
        if node.finish_here {
            apply(layout, &node);
            for operand in node.joined {
                carry(layout, open, operand);
            }
        } else {
            pending.extend(node.joined);
        }
    }
}

/// Leaves a value and what flows into it partial.
fn carry(layout: &mut Layout<'_>, open: &mut Opened, value: ValueId) {
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        let Some(node) = open[value.index()].take() else { continue };
        apply(layout, &node);
        // What a loop carries is set by the loop.
        if node.op.is_some() {
            layout.set_sharding(value, &node.lies);
        }
        pending.extend(node.joined);
    }
}

/// Lets an op do what it does on partial operands.
fn apply(layout: &mut Layout<'_>, node: &Open) {
    let Some(op) = node.op else { return };
    layout.set_strategy(op, node.strategy.clone());
    if !node.joined.is_empty() {
        let carried = Carried { pieces: node.lies.partial, reduction: node.lies.reduction };
        layout.set_carried(op, carried);
    }
}

/// How often each value is read, and whether that is in the region where it is made.
struct Readers {
    counts: Vec<u32>,
}

impl Readers {
    fn new(program: &Program, ops: &[OpId]) -> Readers {
        let mut counts = vec![0u32; program.values.len()];
        let mut makers: Vec<u32> = vec![u32::MAX; program.values.len()];
        let mut region_of = vec![u32::MAX; program.ops.len()];
        for (region, content) in program.regions.iter() {
            for &op in &content.ops {
                region_of[op.index()] = region.0;
            }
            for &argument in &content.arguments {
                makers[argument.index()] = region.0;
            }
            for &result in &content.results {
                // Two, because nobody carries what leaves a region.
                counts[result.index()] += 2;
            }
        }
        for &op in ops {
            for &result in &program.ops[op].results {
                makers[result.index()] = region_of[op.index()];
            }
        }
        for (op, operation) in program.ops.iter() {
            for &operand in &operation.operands {
                let is_elsewhere = makers[operand.index()] != region_of[op.index()];
                let may_carry = !is_tie(&operation.op) || matches!(operation.op, Op::OptimizationBarrier);
                counts[operand.index()] += if may_carry && !is_elsewhere { 1 } else { 2 };
            }
        }
        Readers { counts }
    }

    fn has_one(&self, value: ValueId) -> bool {
        self.counts[value.index()] == 1
    }
}
