//! Elements that are computed where an operand lies that nobody reads any more: neither memory is taken nor new pages are
//! touched for them.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::parts::roots;
use crate::program::{Binary, Definition, Id, Op, OpId, Program, Unary, ValueId};

/// Of ops the operand that the result may take the place of, given the last reads of what a block makes.
pub(super) fn reused(
    program: &Program,
    groups: &[Vec<OpId>],
    last: &BTreeMap<ValueId, usize>,
    kept: &FxHashSet<ValueId>,
    written: &[(ValueId, ValueId)],
) -> FxHashMap<OpId, ValueId> {
    let mut sharing = Sharing::default();
    for &op in groups.iter().flatten() {
        sharing.add(program, op);
    }
    let mut found = over_arguments(program, groups, last, &sharing, written);
    for (place, group) in groups.iter().enumerate() {
        for &op in group.iter().filter(|&&op| is_elementwise(program, op)) {
            let operation = &program.ops[op];
            let ty = program.ty(operation.results[0]);
            let is_over = |value: &ValueId| last.get(value) == Some(&place) && !kept.contains(value);
            let is_alone = |value: &ValueId| {
                let others = sharing.others(*value);
                others.iter().all(|other| !kept.contains(other) && last.get(other).is_some_and(|&end| end < place))
            };
            let may = |value: &ValueId| {
                sharing.fresh.contains(value) && program.ty(*value) == ty && is_over(value) && is_alone(value)
            };
            if let Some(&value) = candidates(program, op).iter().find(|value| may(value)) {
                found.entry(op).or_insert(value);
            }
        }
    }
    found
}

/// Operands whose place a result can take: of a difference or a quotient only what stands first is written over in one
/// pass.
fn candidates(program: &Program, op: OpId) -> &[ValueId] {
    let operation = &program.ops[op];
    if commutes(&operation.op) { &operation.operands } else { &operation.operands[..1] }
}

/// Ops on the way from an argument to its next value, all of which write where the argument is: nothing reads that after
/// the first of them, nor what another has written after the next.
fn over_arguments(
    program: &Program,
    groups: &[Vec<OpId>],
    last: &BTreeMap<ValueId, usize>,
    sharing: &Sharing,
    written: &[(ValueId, ValueId)],
) -> FxHashMap<OpId, ValueId> {
    let mut found = FxHashMap::default();
    if written.is_empty() {
        return found;
    }
    let roots = roots(program);
    let mut places: FxHashMap<OpId, usize> = FxHashMap::default();
    let mut reads: FxHashMap<ValueId, usize> = FxHashMap::default();
    let mut seen: FxHashSet<ValueId> = FxHashSet::default();
    for (place, group) in groups.iter().enumerate() {
        for &op in group {
            places.insert(op, place);
            for value in program.outer_reads(op) {
                reads.insert(value, place);
                // Views of arguments, which would change with these.
                seen.extend(roots[value.index()].iter().filter(|&&root| root != value));
            }
        }
    }
    let search = Search { program, sharing, places, reads, last };
    for &(argument, result) in written.iter().filter(|(argument, _)| !seen.contains(argument)) {
        let way = search.way(argument, result, &mut FxHashSet::default()).unwrap_or_default();
        if way.iter().all(|(op, _)| !found.contains_key(op)) {
            found.extend(way);
        }
    }
    found
}

/// The last reads of a function.
struct Search<'a> {
    program: &'a Program,
    sharing: &'a Sharing,
    places: FxHashMap<OpId, usize>,
    reads: FxHashMap<ValueId, usize>,
    /// Of what may be deleted.
    last: &'a BTreeMap<ValueId, usize>,
}

impl Search<'_> {
    /// Ops from an argument to a value, with the operand that each writes over.
    fn way(&self, argument: ValueId, value: ValueId, tried: &mut FxHashSet<ValueId>) -> Option<Vec<(OpId, ValueId)>> {
        let op = self.program.producer(value).filter(|&op| tried.insert(value) && is_elementwise(self.program, op))?;
        let place = self.places.get(&op)?;
        let alike = |operand: &&ValueId| self.program.ty(**operand) == self.program.ty(value);
        candidates(self.program, op).iter().filter(alike).find_map(|&operand| {
            if operand == argument {
                return (self.reads.get(&operand) == Some(place)).then(|| vec![(op, operand)]);
            }
            let others = self.sharing.others(operand);
            let is_alone = others.iter().all(|other| self.last.get(other).is_some_and(|end| end < place));
            let is_over = self.last.get(&operand) == Some(place) && self.sharing.fresh.contains(&operand);
            let mut way = (is_over && is_alone).then(|| self.way(argument, operand, tried)).flatten()?;
            way.push((op, operand));
            Some(way)
        })
    }
}

fn commutes(op: &Op) -> bool {
    matches!(op, Op::Binary(Binary::Add | Binary::Multiply))
}

/// Ops for which PyTorch writes the result where an operand is, element by element.
fn is_elementwise(program: &Program, op: OpId) -> bool {
    let operation = &program.ops[op];
    let is_float = operation.results.first().is_some_and(|&result| program.dtype(result).is_float());
    is_float
        && match &operation.op {
            Op::Binary(binary) => {
                matches!(binary, Binary::Add | Binary::Divide | Binary::Multiply | Binary::Subtract)
            }
            Op::Unary(unary) => out_name(*unary).is_some(),
            _ => false,
        }
}

/// The function that takes `out` for a unary op.
pub(super) fn out_name(unary: Unary) -> Option<&'static str> {
    Some(match unary {
        Unary::Abs => "torch.abs",
        Unary::Cosine => "torch.cos",
        Unary::Erf => "torch.erf",
        Unary::Exponential => "torch.exp",
        Unary::Log => "torch.log",
        Unary::Logistic => "torch.sigmoid",
        Unary::Negate => "torch.neg",
        Unary::Rsqrt => "torch.rsqrt",
        Unary::Sine => "torch.sin",
        Unary::Sqrt => "torch.sqrt",
        Unary::Tanh => "torch.tanh",
        _ => return None,
    })
}

/// Which values may lie in the same memory.
#[derive(Default)]
struct Sharing {
    /// Values that ops made in memory of their own.
    fresh: FxHashSet<ValueId>,
    /// The fresh values that a value may be a view of.
    roots: FxHashMap<ValueId, Vec<ValueId>>,
    /// The other way round.
    views: FxHashMap<ValueId, Vec<ValueId>>,
}

impl Sharing {
    fn add(&mut self, program: &Program, op: OpId) {
        let operation = &program.ops[op];
        if makes_new(program, op) {
            self.fresh.extend(operation.results.iter().copied());
            operation.results.iter().for_each(|&result| _ = self.roots.insert(result, vec![result]));
            return;
        }
        let mut roots: Vec<ValueId> =
            program.outer_reads(op).iter().filter_map(|value| self.roots.get(value)).flatten().copied().collect();
        roots.sort_unstable();
        roots.dedup();
        for &result in &operation.results {
            roots.iter().for_each(|root| self.views.entry(*root).or_default().push(result));
            self.roots.insert(result, roots.clone());
        }
    }

    fn others(&self, value: ValueId) -> &[ValueId] {
        self.views.get(&value).map_or(&[], Vec::as_slice)
    }
}

/// Ops whose results never lie where an operand does. Of all others that is believed.
fn makes_new(program: &Program, op: OpId) -> bool {
    let operation = &program.ops[op];
    match &operation.op {
        // A sum that a loop carries is added to in its place.
        Op::Binary(_) => {
            operation.operands.iter().all(|&value| program.producer(value).is_some() || is_input(program, value))
        }
        Op::AllGather(_)
        | Op::AllReduce(_)
        | Op::Compare { .. }
        | Op::DotGeneral(_)
        | Op::ReduceScatter(_)
        | Op::Scatter(_) => true,
        Op::Unary(unary) => out_name(*unary).is_some(),
        _ => false,
    }
}

/// Whether a value is an argument of the program, and not of a loop.
fn is_input(program: &Program, value: ValueId) -> bool {
    matches!(program.values[value].definition, Definition::Argument { region, .. } if region == program.body)
}
