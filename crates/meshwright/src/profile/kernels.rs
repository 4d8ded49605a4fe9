//! What an engine that runs op by op runs at once, and what it keeps for the backward pass.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::functions::{Function, Fused, Keeps, Kept, function_of, is_copy, is_filled, node_of};
use super::views::{Strides, contiguous, made, view};
use crate::program::{Anatomy, Binary, Id, Op, OpId, Phase, Program, Region, RegionId, Type, ValueId};

/// The kernels of a region in the order in which they run.
pub(super) struct Kernels {
    pub(super) list: Vec<Kernel>,
    /// For each value, the one in whose storage it lies.
    pub(super) sources: Vec<ValueId>,
}

pub(super) fn kernels(program: &Program, anatomy: &Anatomy, region: RegionId, fused: Fused) -> Kernels {
    let mut grouping = Grouping::new(program, anatomy, fused);
    for op in early_sums(program, region) {
        grouping.run(op);
    }
    grouping.keep_what_functions_keep();
    grouping.hold_what_nodes_hold();
    Kernels { list: grouping.kernels, sources: grouping.sources }
}

/// The kernels of a program that is a forward pass alone, and what it leaves for a backward pass elsewhere.
pub(super) fn forward_kernels(program: &Program, anatomy: &Anatomy, fused: Fused) -> (Kernels, Left) {
    let mut grouping = Grouping::new(program, anatomy, fused);
    for &op in &program.body().ops {
        grouping.run(op);
    }
    let left = grouping.leave_what_functions_keep();
    (Kernels { list: grouping.kernels, sources: grouping.sources }, left)
}

/// What is there when a forward pass has ended.
pub(super) struct Left {
    pub(super) values: Vec<ValueId>,
    /// For each result, its bytes. What a function keeps beside results is counted with the first of its own.
    pub(super) bytes: Vec<usize>,
}

/// The ops of a region in the order in which they run. A loop adds up gradients at the end of a trip; engines
/// reduce and add each as soon as it is made.
fn early_sums(program: &Program, region: RegionId) -> Vec<OpId> {
    let Region { arguments, ops, results } = &program.regions[region];
    if region == program.body {
        return ops.clone();
    }
    let mut readers = vec![0usize; program.values.len()];
    let reads = ops.iter().flat_map(|&op| program.outer_reads(op)).chain(results.iter().copied());
    reads.for_each(|read| readers[read.index()] += 1);
    let here: FxHashSet<OpId> = ops.iter().copied().collect();
    // Ops that run right after another one.
    let mut after: FxHashMap<OpId, Vec<OpId>> = FxHashMap::default();
    let mut moved = FxHashSet::default();
    for (&argument, &result) in arguments.iter().zip(results) {
        let Some(sum) = program.producer(result).filter(|op| here.contains(op)) else { continue };
        let Some(part) = added_to(program, sum, argument) else { continue };
        let (mut way, mut value) = (vec![sum], part);
        while let Some(op) = program.producer(value).filter(|op| here.contains(op))
            && let [operand] = program.ops[op].operands[..]
            && readers[value.index()] == 1
        {
            way.push(op);
            value = operand;
        }
        if let Some(maker) = program.producer(value).filter(|op| here.contains(op)) {
            moved.extend(way.iter().copied());
            after.entry(maker).or_default().extend(way.into_iter().rev());
        }
    }
    let mut order = Vec::with_capacity(ops.len());
    for &op in ops.iter().filter(|op| !moved.contains(op)) {
        order.push(op);
        order.extend(after.remove(&op).unwrap_or_default());
    }
    order
}

/// What an op adds to a value, where it does.
fn added_to(program: &Program, op: OpId, sum: ValueId) -> Option<ValueId> {
    let operation = &program.ops[op];
    match operation.operands[..] {
        [left, right] if operation.op == Op::Binary(Binary::Add) && left == sum => Some(right),
        [left, right] if operation.op == Op::Binary(Binary::Add) && right == sum => Some(left),
        _ => None,
    }
}

/// The bytes of the scores of attention or its gradients, in the type of the query.
pub(super) fn score_bytes(program: &Program, op: OpId) -> usize {
    let [query, key] = [0, 1].map(|operand| program.ty(program.ops[op].operands[operand]));
    let (rank, width) = (key.shape.len(), query.shape.last().copied().unwrap_or(1).max(1));
    query.bytes() / width * key.shape[rank.saturating_sub(2)]
}

/// What runs at once: an op, a function, or what belongs to the gradient of one op.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) ops: Vec<OpId>,
    pub(super) pass: Pass,
    pub(super) function: Option<(&'static Function, PathId)>,
    /// The values in whose storage its operands lie, but for what it makes itself.
    pub(super) reads: Vec<ValueId>,
    /// What kernels before it have read and is still there while it runs: all of them are one node of autograd.
    pub(super) holds: Vec<ValueId>,
    /// What it keeps for a backward pass besides values of the program.
    pub(super) kept_bytes: usize,
    /// The last kernel that reads what is kept.
    pub(super) kept_until: usize,
}

/// What a kernel is for. What is made again belongs to the backward pass but works as the forward pass did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Pass {
    Forward,
    Again,
    Backward,
    Update,
}

impl Pass {
    pub(super) fn phase(self) -> Phase {
        match self {
            Pass::Forward => Phase::Forward,
            Pass::Again | Pass::Backward => Phase::Backward,
            Pass::Update => Phase::Update,
        }
    }
}

/// The place of a function's scope in the list of all, without what differentiation puts around it.
pub(super) type PathId = usize;

struct Grouping<'p> {
    program: &'p Program,
    anatomy: &'p Anatomy,
    fused: Fused,
    kernels: Vec<Kernel>,
    /// For each value, the one in whose storage it lies.
    sources: Vec<ValueId>,
    strides: Vec<Option<Strides>>,
    /// For each value, the kernel that makes it.
    makers: Vec<Option<usize>>,
    paths: FxHashMap<String, PathId>,
    functions: Vec<Option<Option<(&'static Function, PathId)>>>,
    /// Kernels of functions that can still grow: nobody else has read what they make.
    open: FxHashMap<(PathId, Pass), usize>,
}

impl<'p> Grouping<'p> {
    fn new(program: &'p Program, anatomy: &'p Anatomy, fused: Fused) -> Grouping<'p> {
        Grouping {
            program,
            anatomy,
            fused,
            kernels: Vec::new(),
            sources: program.values.ids().collect(),
            strides: vec![None; program.values.len()],
            makers: vec![None; program.values.len()],
            paths: FxHashMap::default(),
            functions: vec![None; program.locations.len()],
            open: FxHashMap::default(),
        }
    }

    fn pass(&self, op: OpId, path: Option<PathId>) -> Pass {
        // Gradients also need numbers that owe nothing to gradients, such as the square of what was made again.
        let has_begun = path.is_some_and(|path| self.open.contains_key(&(path, Pass::Backward)));
        match self.anatomy.phase(op) {
            Phase::Forward => Pass::Forward,
            Phase::Backward if self.anatomy.is_recomputed(op) && !has_begun => Pass::Again,
            Phase::Backward => Pass::Backward,
            Phase::Update => Pass::Update,
        }
    }

    fn function(&mut self, op: OpId) -> Option<(&'static Function, PathId)> {
        let location = self.program.ops[op].location;
        let paths = &mut self.paths;
        *self.functions[location.index()].get_or_insert_with(|| {
            let (function, path) = function_of(&self.program.locations[location], self.fused)?;
            let next = paths.len();
            Some((function, *paths.entry(path).or_insert(next)))
        })
    }

    /// Where the elements of a value lie in its storage. Nobody asks for most of them.
    fn strides(&self, value: ValueId) -> Strides {
        self.strides[value.index()].clone().unwrap_or_else(|| contiguous(self.program.shape(value)))
    }

    fn run(&mut self, op: OpId) {
        let operation = &self.program.ops[op];
        let mut key = self.function(op).map(|(_, path)| (path, self.pass(op, Some(path))));
        let mut own = key.and_then(|key| self.open.get(&key).copied());
        let reads: Vec<ValueId> = self.program.outer_reads(op).iter().map(|read| self.sources[read.index()]).collect();
        if self.is_accumulation(op, own) {
            (key, own) = (None, None);
        }
        if self.alias(op, own) {
            return;
        }
        // Numbers and literals are part of the program.
        if matches!(operation.op, Op::Constant(_)) {
            return;
        }
        self.close_read(&reads, own);
        let own = own.filter(|_| key.is_some_and(|key| self.open.contains_key(&key)));
        let kernel = own.or_else(|| self.same_node(op, key, &reads)).unwrap_or_else(|| self.start(op, key));
        self.kernels[kernel].ops.push(op);
        for read in reads {
            if self.makers[read.index()] != Some(kernel) && !self.kernels[kernel].reads.contains(&read) {
                self.kernels[kernel].reads.push(read);
            }
        }
        for (index, &result) in operation.results.iter().enumerate() {
            if operation.op == Op::While && self.carries_in_place(op, index) {
                self.sources[result.index()] = self.sources[operation.operands[index].index()];
                continue;
            }
            self.makers[result.index()] = Some(kernel);
            let strides = if is_copy(&self.program.locations[operation.location]) {
                contiguous(self.program.shape(result))
            } else {
                made(self.program, op, result, |value| self.strides(value))
            };
            self.strides[result.index()] = Some(strides);
        }
    }

    /// A function that somebody else has read from is at its end.
    fn close_read(&mut self, reads: &[ValueId], own: Option<usize>) {
        for read in reads {
            if let Some(maker) = self.makers[read.index()].filter(|&maker| Some(maker) != own)
                && let Kernel { function: Some((_, path)), pass, .. } = self.kernels[maker]
            {
                self.open.remove(&(path, pass));
            }
        }
    }

    /// Whether what a loop carries begins in the memory of its operand. Arguments and numbers stay as they are.
    fn carries_in_place(&self, op: OpId, index: usize) -> bool {
        let operand = self.program.ops[op].operands[index];
        self.makers[self.sources[operand.index()].index()].is_some() || self.program.carries_unchanged(op, index)
    }

    /// Whether an op adds up gradients that come from several sides, which is no function's business.
    fn is_accumulation(&self, op: OpId, own: Option<usize>) -> bool {
        let operation = &self.program.ops[op];
        let is_foreign = |value: &ValueId| {
            let maker = self.makers[self.sources[value.index()].index()];
            maker.is_some_and(|maker| Some(maker) != own && self.kernels[maker].pass == Pass::Backward)
        };
        let is_backward = self.anatomy.phase(op) == Phase::Backward;
        is_backward && operation.op == Op::Binary(Binary::Add) && operation.operands.iter().any(is_foreign)
    }

    /// The kernel of the op before, where both belong to the gradient of one op: they stand in the same place
    /// and read the same gradient. What that keeps goes when all of it has run.
    fn same_node(&self, op: OpId, key: Option<(PathId, Pass)>, reads: &[ValueId]) -> Option<usize> {
        let last = self.kernels.len().checked_sub(1)?;
        let kernel = &self.kernels[last];
        let is_gradient = |value: &&ValueId| {
            self.makers[value.index()].is_some_and(|maker| maker != last && self.kernels[maker].pass == Pass::Backward)
        };
        let is_alone = key.is_none() && kernel.function.is_none() && kernel.pass == Pass::Backward;
        let is_here = kernel.ops.iter().all(|&other| self.program.ops[other].location == self.program.ops[op].location);
        let shares = reads.iter().filter(is_gradient).any(|read| kernel.reads.contains(read));
        (is_alone && is_here && shares && self.pass(op, None) == Pass::Backward).then_some(last)
    }

    fn start(&mut self, op: OpId, key: Option<(PathId, Pass)>) -> usize {
        let kernel = self.kernels.len();
        let function = self.function(op).filter(|_| key.is_some());
        let pass = key.map_or_else(|| self.pass(op, None), |(_, pass)| pass);
        self.kernels.push(Kernel {
            ops: Vec::new(),
            pass,
            function,
            reads: Vec::new(),
            holds: Vec::new(),
            kept_bytes: 0,
            kept_until: kernel,
        });
        if let Some(key) = key {
            self.open.insert(key, kernel);
        }
        kernel
    }

    /// Whether the results of an op lie where its operands do. What a function does to values of its own
    /// stays inside of it.
    fn alias(&mut self, op: OpId, own: Option<usize>) -> bool {
        let operation = &self.program.ops[op];
        let Some(&operand) = operation.operands.first() else { return false };
        let source = self.sources[operand.index()];
        if let Op::OptimizationBarrier = operation.op {
            for (operand, result) in operation.operands.iter().zip(&operation.results) {
                self.sources[result.index()] = self.sources[operand.index()];
                self.strides[result.index()] = self.strides[operand.index()].clone();
            }
            return true;
        }
        let result = operation.results[0];
        if self.function(op).is_some_and(|(function, _)| function.keeps == Keeps::InPlace)
            && operation.op.is_elementwise()
            && self.program.ty(operand) == self.program.ty(result)
        {
            self.sources[result.index()] = source;
            return true;
        }
        if own.is_some() && self.makers[source.index()] == own {
            return false;
        }
        // What is filled in the backward pass is written to in place, which is no memory besides what is made of it.
        let is_forward = self.anatomy.is_forward(op);
        if is_forward && self.makers[source.index()].is_none() && is_filled(&self.program.locations[operation.location])
        {
            return false;
        }
        let Some(strides) = view(self.program, op, &self.strides(operand)) else { return false };
        self.sources[result.index()] = source;
        self.strides[result.index()] = Some(strides);
        true
    }

    /// Backward passes of functions read what these keep, whatever the program reads.
    fn keep_what_functions_keep(&mut self) {
        let mut by_operand: FxHashMap<(PathId, ValueId), usize> = FxHashMap::default();
        for index in 0..self.kernels.len() {
            let kernel = &self.kernels[index];
            let Some((kept, path)) = kernel.function.and_then(|(function, path)| Some((function.keeps.list()?, path)))
            else {
                continue;
            };
            match kernel.pass {
                Pass::Forward | Pass::Again => {
                    let made = kernel.reads.iter().filter(|read| self.makers[read.index()].is_some());
                    by_operand.extend(made.map(|&read| ((path, read), index)));
                }
                Pass::Backward => {
                    let is_forward = |&maker: &usize| {
                        let maker = &self.kernels[maker];
                        maker.pass != Pass::Backward && maker.function.is_some_and(|(_, other)| other == path)
                    };
                    let mut makers = kernel.reads.iter().filter_map(|read| self.makers[read.index()]);
                    let mut readers = kernel.reads.iter().filter_map(|&read| by_operand.get(&(path, read)).copied());
                    if let Some(forward) = makers.find(is_forward).or_else(|| readers.next()) {
                        self.keep(forward, index, kept);
                    }
                }
                Pass::Update => {}
            }
        }
        self.make_again();
        self.keep_scores();
    }

    /// A node of autograd lets go of what it was given when all of its kernels have run. They follow each other.
    fn hold_what_nodes_hold(&mut self) {
        let node = |kernel: &Kernel| node_of(&self.program.locations[self.program.ops[*kernel.ops.first()?].location]);
        let mut start = 0;
        while start < self.kernels.len() {
            let name = node(&self.kernels[start]);
            let next =
                (start + 1..self.kernels.len()).find(|&next| name.is_none() || node(&self.kernels[next]) != name);
            let end = next.unwrap_or(self.kernels.len());
            let is_outer = |read: &&ValueId| self.makers[read.index()].is_none_or(|maker| maker < start);
            let reads = self.kernels[start..end - 1].iter().flat_map(|kernel| &kernel.reads);
            self.kernels[end - 1].holds = reads.filter(is_outer).copied().collect();
            start = end;
        }
    }

    /// Attention that is written out keeps the weights that it makes of scores, until its gradients are made.
    fn keep_scores(&mut self) {
        if self.fused.attention {
            return;
        }
        for index in 0..self.kernels.len() {
            let gradients = |op: &&OpId| matches!(self.program.ops[**op].op, Op::AttentionGrad(_));
            // Before the gradient of the output stands what says of scores how they became weights. Who made that
            // made these weights, perhaps again.
            let statistics = self.kernels[index].ops.iter().find(gradients).and_then(|&op| {
                let operands = &self.program.ops[op].operands;
                operands.len().checked_sub(2).map(|place| self.sources[operands[place].index()])
            });
            if let Some((forward, bytes)) = statistics.and_then(|value| self.scores(value)) {
                self.kernels[forward].kept_bytes = bytes;
                self.kernels[forward].kept_until = index;
            }
        }
    }

    /// Where a value is the statistics of an attention, the kernel of that, and the bytes of its scores.
    fn scores(&self, value: ValueId) -> Option<(usize, usize)> {
        let (op, maker) = (self.program.producer(value)?, self.makers[value.index()]?);
        let operation = &self.program.ops[op];
        let is_statistics = matches!(operation.op, Op::Attention(_)) && operation.results.get(1) == Some(&value);
        is_statistics.then(|| (maker, score_bytes(self.program, op)))
    }

    /// In the backward pass, what is made of a result that is not kept is made of the operand instead.
    fn make_again(&mut self) {
        for index in 0..self.kernels.len() {
            if self.kernels[index].pass != Pass::Backward {
                continue;
            }
            for place in 0..self.kernels[index].reads.len() {
                let read = self.kernels[index].reads[place];
                let maker = self.makers[read.index()].filter(|&maker| {
                    let is_again = |(function, _): (&Function, PathId)| function.keeps == Keeps::Again;
                    self.kernels[maker].pass != Pass::Backward && self.kernels[maker].function.is_some_and(is_again)
                });
                if let Some(operand) = maker.and_then(|maker| self.main_operand(maker)) {
                    self.kernels[index].reads[place] = operand;
                }
            }
        }
    }

    /// What functions keep in the place of what the program's results say: their backward passes are another
    /// program, which reads what is inside of them.
    fn leave_what_functions_keep(&mut self) -> Left {
        let mut is_read = vec![false; self.program.values.len()];
        for kernel in &self.kernels {
            kernel.reads.iter().for_each(|read| is_read[read.index()] = true);
        }
        let mut left = Left { values: Vec::new(), bytes: Vec::new() };
        let mut seen = FxHashSet::default();
        // Kernels of functions with the first result that they made, and what they keep.
        let mut functions: BTreeMap<usize, (usize, &'static [Kept])> = BTreeMap::new();
        for (number, result) in self.program.body().results.iter().enumerate() {
            let source = self.sources[result.index()];
            let mut is_left = true;
            if let Some(maker) = self.makers[source.index()]
                && let Some((function, _)) = self.kernels[maker].function
                && let Some(kept) = function.keeps.list()
            {
                let last = self.kernels[maker].ops.last().map(|&op| self.program.ops[op].results[0]);
                is_left = function.keeps != Keeps::Again && (last == Some(source) || is_read[source.index()]);
                functions.entry(maker).or_insert((number, kept));
            }
            // What lies in the place of another result is there once.
            let is_new = is_left && seen.insert(source);
            left.bytes.push(if is_new { self.program.ty(source).bytes() } else { 0 });
            left.values.extend(is_new.then_some(source));
        }
        for (maker, (number, kept)) in functions {
            let (values, bytes) = self.kept(maker, kept);
            self.leave(maker, number, bytes, &mut left);
            for value in values.into_iter().filter(|&value| seen.insert(value)) {
                left.bytes[number] += self.program.ty(value).bytes();
                left.values.push(value);
            }
        }
        for (number, result) in self.program.body().results.iter().enumerate() {
            let scores = self.scores(self.sources[result.index()]);
            if let Some((maker, bytes)) = scores.filter(|_| !self.fused.attention) {
                self.leave(maker, number, bytes, &mut left);
            }
        }
        left
    }

    /// Has a kernel keep so many bytes, which are counted with a result, beyond the end.
    fn leave(&mut self, kernel: usize, result: usize, bytes: usize, left: &mut Left) {
        self.kernels[kernel].kept_bytes = bytes;
        self.kernels[kernel].kept_until = self.kernels.len() - 1;
        left.bytes[result] += bytes;
    }

    /// Lets a backward kernel read what a function keeps instead of what the function reads and makes.
    fn keep(&mut self, forward: usize, backward: usize, kept: &[Kept]) {
        let (values, bytes) = self.kept(forward, kept);
        let mut reads = std::mem::take(&mut self.kernels[backward].reads);
        reads.retain(|read| {
            self.makers[read.index()] != Some(forward)
                && (!self.kernels[forward].reads.contains(read) || self.makers[read.index()].is_none())
        });
        reads.extend(values);
        self.kernels[backward].reads = reads;
        self.kernels[forward].kept_bytes = bytes;
        self.kernels[forward].kept_until = self.kernels[forward].kept_until.max(backward);
    }

    /// The values that a kernel keeps, and its bytes besides.
    fn kept(&self, kernel: usize, kept: &[Kept]) -> (Vec<ValueId>, usize) {
        let operand = self.main_operand(kernel);
        let result = self.kernels[kernel].ops.last().map(|&op| self.program.ops[op].results[0]);
        let (mut values, mut bytes) = (Vec::new(), 0);
        for kept in kept {
            let ty = |value: Option<ValueId>| value.map(|value| self.program.ty(value));
            match kept {
                Kept::Operand => values.extend(operand),
                Kept::Result => values.extend(result),
                Kept::Alike => bytes += ty(operand).map_or(0, Type::bytes),
                Kept::Wide => bytes += ty(operand).map_or(0, |ty| ty.bytes().max(4 * ty.elements())),
                Kept::PerRow(count) => {
                    let rows = ty(operand).map_or(0, |ty| ty.elements() / ty.shape.last().copied().unwrap_or(1).max(1));
                    bytes += 4 * count * rows;
                }
                Kept::PerElement(size) => bytes += size * ty(result).map_or(0, Type::elements),
            }
        }
        (values, bytes)
    }

    /// The largest value that a kernel reads and that is no argument.
    fn main_operand(&self, kernel: usize) -> Option<ValueId> {
        let reads = self.kernels[kernel].reads.iter().copied();
        let made = reads.clone().filter(|read| self.makers[read.index()].is_some());
        made.max_by_key(|&read| self.program.ty(read).bytes())
            .or_else(|| reads.max_by_key(|&read| self.program.ty(read).bytes()))
    }
}
