//! Which result is the next value of which argument, and what the arguments are for.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Definition, Id, Op, OpId, Program, RegionId, ValueId};

/// What an argument is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ArgumentClass {
    /// State that the loss depends on and that an optimizer updates, element by element.
    Parameter,
    /// State of any other kind: an optimizer's moments, counters, running statistics, caches.
    State,
    /// What comes anew with every step: the batch, a learning rate.
    Input,
}

impl Program {
    /// For each argument, the number of the result that is its next value.
    ///
    /// Pairs are found by path first: subtrees of the arguments and of the results with the same
    /// names and types below them, the largest first. Then by aliasing. What is left pairs where one
    /// result is computed from one argument element by element, beside a loss.
    pub(super) fn state_pairs(&self) -> Vec<Option<usize>> {
        let mut pairing = Pairing {
            program: self,
            results: vec![None; self.arguments.len()],
            taken: vec![false; self.results.len()],
            sources: (0..self.results.len()).map(|result| elementwise_sources(self, result)).collect(),
        };
        pairing.pair_by_path();
        pairing.pair_by_alias();
        pairing.pair_by_dataflow();
        pairing.results
    }

    /// What each argument is for, given the state pairs.
    pub(super) fn argument_classes(&self, pairs: &[Option<usize>]) -> Vec<ArgumentClass> {
        let paired: FxHashSet<usize> = pairs.iter().flatten().copied().collect();
        let body = self.body();
        let losses = body.results.iter().enumerate().filter(|(index, _)| !paired.contains(index));
        let read = values_read_by(self, losses.map(|(_, &value)| value).collect());
        let class = |(&argument, pair): (&ValueId, &Option<usize>)| {
            let Some(result) = *pair else { return ArgumentClass::Input };
            let is_read = read[argument.index()] && self.dtype(argument).is_float();
            // A cache is written in slices; a parameter is computed from state of its own shape.
            let is_updated = is_read && !elementwise_sources(self, result).is_empty();
            if is_updated { ArgumentClass::Parameter } else { ArgumentClass::State }
        };
        body.arguments.iter().zip(pairs).map(class).collect()
    }
}

struct Pairing<'p> {
    program: &'p Program,
    /// Per argument, its result.
    results: Vec<Option<usize>>,
    /// Per result, whether it is some argument's.
    taken: Vec<bool>,
    /// Per result, the arguments that it is computed from element by element.
    sources: Vec<BTreeSet<usize>>,
}

/// A subtree of the arguments and one of the results that have the same leaves.
#[derive(Default)]
struct Subtrees {
    pairs: Vec<(usize, usize)>,
    /// How many of the pairs are computed element by element.
    elementwise: usize,
}

impl Pairing<'_> {
    fn pair(&mut self, argument: usize, result: usize) {
        if self.results[argument].is_none() && !self.taken[result] {
            self.results[argument] = Some(result);
            self.taken[result] = true;
        }
    }

    fn same_type(&self, argument: usize, result: usize) -> bool {
        let body = self.program.body();
        self.program.ty(body.arguments[argument]) == self.program.ty(body.results[result])
    }

    fn pair_by_path(&mut self) {
        for (argument, result) in self.candidates_by_path() {
            self.pair(argument, result);
        }
    }

    /// Pairs of the same type whose paths end alike, those of the largest common subtrees first.
    /// Of each result only the arguments that share the longest ending count.
    fn candidates_by_path(&self) -> Vec<(usize, usize)> {
        let program = self.program;
        let mut by_ending: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
        for (index, argument) in program.arguments.iter().enumerate() {
            for ending in endings(&argument.name) {
                by_ending.entry(ending).or_default().push(index);
            }
        }
        // Subtrees are told apart by what stands before the common ending on both sides.
        let mut positions: FxHashMap<(&str, &str), usize> = FxHashMap::default();
        let mut subtrees: Vec<Subtrees> = Vec::new();
        for (result, info) in program.results.iter().enumerate() {
            let name = info.name.strip_prefix("result.").unwrap_or(&info.name);
            let shared = endings(name).find_map(|ending| {
                let arguments = by_ending.get(ending)?;
                let fitting = arguments.iter().copied().filter(|&argument| self.same_type(argument, result));
                // Where more share an ending, it tells nothing.
                let fitting: Vec<usize> = fitting.take(MAXIMUM_CANDIDATES).collect();
                (!fitting.is_empty()).then_some((ending, fitting))
            });
            let Some((ending, arguments)) = shared else { continue };
            for argument in arguments {
                let argument_name = &program.arguments[argument].name;
                let key = (&argument_name[..argument_name.len() - ending.len()], &name[..name.len() - ending.len()]);
                let position = *positions.entry(key).or_insert(subtrees.len());
                if position == subtrees.len() {
                    subtrees.push(Subtrees::default());
                }
                subtrees[position].pairs.push((argument, result));
                subtrees[position].elementwise += usize::from(self.sources[result].contains(&argument));
            }
        }
        // A stable sort: equals stay in the order of the results.
        subtrees.sort_by_key(|subtrees| std::cmp::Reverse((subtrees.pairs.len(), subtrees.elementwise)));
        subtrees.into_iter().flat_map(|subtrees| subtrees.pairs).collect()
    }

    fn pair_by_alias(&mut self) {
        for argument in 0..self.results.len() {
            if let Some(result) = self.program.arguments[argument].alias
                && result < self.taken.len()
                && self.same_type(argument, result)
            {
                self.pair(argument, result);
            }
        }
    }

    /// Without names and aliases, a function that returns a loss is taken for a training step.
    fn pair_by_dataflow(&mut self) {
        let body = self.program.body();
        let is_loss = |&result: &usize| {
            let ty = self.program.ty(body.results[result]);
            ty.rank() == 0 && ty.dtype.is_float() && self.sources[result].is_empty()
        };
        if !(0..self.taken.len()).filter(|&result| !self.taken[result]).any(|result| is_loss(&result)) {
            return;
        }
        for result in 0..self.taken.len() {
            let free = |&argument: &usize| self.results[argument].is_none() && self.same_type(argument, result);
            let mut sources = self.sources[result].iter().copied().filter(free);
            if let (Some(argument), None) = (sources.next(), sources.next()) {
                self.pair(argument, result);
            }
        }
    }
}

/// How many arguments may compete for a result.
const MAXIMUM_CANDIDATES: usize = 64;

/// A dotted name and what is left of it as parts are taken off its front: `a.b.c`, `b.c`, `c`.
fn endings(name: &str) -> impl Iterator<Item = &str> {
    let rests = std::iter::successors(Some(name), |rest| rest.split_once('.').map(|(_, after)| after));
    rests.filter(|rest| !rest.is_empty())
}

/// A result whose history is longer than this is no update of a state.
const MAXIMUM_HISTORY: usize = 4096;

/// The arguments that reach a result through elementwise ops on values of its shape.
fn elementwise_sources(program: &Program, result: usize) -> BTreeSet<usize> {
    let start = program.body().results[result];
    let mut sources = BTreeSet::new();
    let mut seen = FxHashSet::from_iter([start]);
    let mut pending = vec![start];
    while let Some(value) = pending.pop() {
        match program.values[value].definition {
            Definition::Argument { region, index } if region == program.body => {
                sources.insert(index as usize);
            }
            Definition::Argument { .. } => {}
            Definition::Result { op, .. } => {
                let operation = &program.ops[op];
                if seen.len() > MAXIMUM_HISTORY {
                    continue;
                }
                if let Some(part) = moved(program, op).filter(|&part| seen.insert(part)) {
                    pending.push(part);
                }
                if !operation.op.is_elementwise() {
                    continue;
                }
                for &operand in &operation.operands {
                    if program.shape(operand) == program.shape(value) && seen.insert(operand) {
                        pending.push(operand);
                    }
                }
            }
        }
    }
    sources
}

/// What an op of a device's program makes its result of by taking a part of it, or by gathering the parts of other devices:
/// a device may update a part of what it has all of.
pub(super) fn moved(program: &Program, op: OpId) -> Option<ValueId> {
    let operation = &program.ops[op];
    let is_moved = matches!(operation.op, Op::AllGather(_) | Op::AllToAll(_) | Op::DynamicSlice { .. });
    (is_moved && program.partitions > 1).then(|| operation.operands[0])
}

/// For every value, whether one of `targets` depends on it.
fn values_read_by(program: &Program, targets: Vec<ValueId>) -> Vec<bool> {
    let mut read = vec![false; program.values.len()];
    for value in targets {
        read[value.index()] = true;
    }
    mark_reads(program, &program.body().ops, &mut read);
    read
}

/// Walks backwards, so that every use is seen before its definition. A region is read as a whole.
fn mark_reads(program: &Program, ops: &[OpId], read: &mut [bool]) {
    for &op in ops.iter().rev() {
        let operation = &program.ops[op];
        if !operation.results.iter().any(|result| read[result.index()]) {
            continue;
        }
        for &operand in &operation.operands {
            read[operand.index()] = true;
        }
        for &region in &operation.regions {
            mark_region(program, region, read);
        }
    }
}

fn mark_region(program: &Program, region: RegionId, read: &mut [bool]) {
    let region = &program.regions[region];
    for &result in &region.results {
        read[result.index()] = true;
    }
    mark_reads(program, &region.ops, read);
}
