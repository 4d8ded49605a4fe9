//! What the parts of a training step are for, found from dataflow once for everybody.

use rustc_hash::FxHashMap;

use super::recomputed::{Given, recomputed};
use super::state::moved;
use super::{ArgumentClass, Definition, Id, Op, OpId, Program, RegionId, ValueId, is_heavy};

/// What arguments, results and ops are for.
#[derive(Clone, Debug)]
pub struct Anatomy {
    /// For each argument, the number of the result that is its next value.
    pub next: Vec<Option<usize>>,
    pub classes: Vec<ArgumentClass>,
    /// For each value, the argument that it is, but for its form or a choice of its parts.
    pub origins: Vec<Option<usize>>,
    /// For each parameter, its gradient as the backward pass leaves it.
    pub gradients: Vec<Option<ValueId>>,
    /// For every op, also inside of regions.
    phases: Vec<Phase>,
    recomputed: Vec<bool>,
    /// For every value, whether it is made before the update and nothing but updates is made of it.
    only_updates: Vec<bool>,
    only_ends: Vec<bool>,
}

/// When in a step an op runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// A loss depends on it. Where there is no loss, everything is forward.
    Forward,
    /// A gradient depends on it, and no loss.
    Backward,
    /// All else: the optimizer, statistics, metrics.
    Update,
}

impl Program {
    /// A loss is a scalar result that is no argument's next value and needs no gradient.
    pub fn anatomy(&self) -> Anatomy {
        let next = self.state_pairs();
        let classes = self.argument_classes(&next);
        let origins = origins(self);
        let losses = losses(self, &next);
        if losses.is_empty() {
            let gradients = vec![None; self.arguments.len()];
            let (phases, recomputed) = (vec![Phase::Forward; self.ops.len()], vec![false; self.ops.len()]);
            let only_updates = vec![false; self.values.len()];
            let only_ends = only_updates.clone();
            return Anatomy { next, classes, origins, gradients, phases, recomputed, only_updates, only_ends };
        }
        let forward = Dependencies::of(self, &losses);
        let gradients = gradients(self, &next, &classes, &forward);
        let found: Vec<ValueId> = gradients.iter().flatten().copied().collect();
        let backward = Dependencies::of(self, &found);
        let phase = |op: OpId| match (forward.ops[op.index()], backward.ops[op.index()]) {
            (true, _) => Phase::Forward,
            (false, true) => Phase::Backward,
            (false, false) => Phase::Update,
        };
        let phases: Vec<Phase> = self.ops.ids().map(phase).collect();
        let recomputed = recomputed(self, &phases, &[]);
        let [only_updates, only_ends] =
            [Waits::Nobody, Waits::Products].map(|waits| only_updates(self, &phases, waits));
        Anatomy { next, classes, origins, gradients, phases, recomputed, only_updates, only_ends }
    }
}

impl Anatomy {
    /// Of a part of a step whose ops are all of one phase.
    pub(crate) fn of_part(program: &Program, phase: Phase, given: &[Given]) -> Anatomy {
        let next = program.state_pairs();
        let classes = program.argument_classes(&next);
        let gradients = vec![None; program.arguments.len()];
        let phases = vec![phase; program.ops.len()];
        let recomputed = recomputed(program, &phases, given);
        let [only_updates, only_ends] =
            [Waits::Nobody, Waits::Products].map(|waits| only_updates(program, &phases, waits));
        let origins = origins(program);
        Anatomy { next, classes, origins, gradients, phases, recomputed, only_updates, only_ends }
    }

    pub fn phase(&self, op: OpId) -> Phase {
        self.phases[op.index()]
    }

    /// Whether a value is a gradient, or on the way to one that nobody but the update waits for.
    pub fn is_gradient(&self, value: ValueId) -> bool {
        self.only_updates[value.index()]
    }

    /// The same where no product stands between it and the update either: such values can be brought together.
    pub fn is_final_gradient(&self, value: ValueId) -> bool {
        self.only_ends[value.index()]
    }

    pub fn is_forward(&self, op: OpId) -> bool {
        self.phase(op) == Phase::Forward
    }

    /// Whether an op of the backward pass computes something of the forward pass again.
    pub fn is_recomputed(&self, op: OpId) -> bool {
        self.recomputed[op.index()]
    }
}

/// Who is taken to wait for what it reads, besides the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Nobody,
    Products,
}

/// For every value that is made before the update, whether nobody waits for it but that.
fn only_updates(program: &Program, phases: &[Phase], waits: Waits) -> Vec<bool> {
    let mut only_updates = vec![false; program.values.len()];
    let is_before = |op: &&OpId| phases[op.index()] != Phase::Update;
    let ops = || program.body().ops.iter().filter(is_before);
    let results = |op: OpId| program.ops[op].results.iter();
    ops().flat_map(|&op| results(op)).for_each(|result| only_updates[result.index()] = true);
    for &op in ops().rev() {
        let leads_on = results(op).any(|result| !only_updates[result.index()]);
        let is_waiting = waits == Waits::Products && is_heavy(&program.ops[op].op);
        if leads_on || phases[op.index()] == Phase::Forward || is_waiting {
            program.outer_reads(op).into_iter().for_each(|value| only_updates[value.index()] = false);
        }
    }
    only_updates
}

fn origins(program: &Program) -> Vec<Option<usize>> {
    let mut origins = vec![None; program.values.len()];
    for (index, argument) in program.body().arguments.iter().enumerate() {
        origins[argument.index()] = Some(index);
    }
    follow_origins(program, program.body, &mut origins);
    origins
}

fn follow_origins(program: &Program, region: RegionId, origins: &mut [Option<usize>]) {
    for &op in &program.regions[region].ops {
        let operation = &program.ops[op];
        match operation.op {
            Op::Convert { .. }
            | Op::DynamicSlice { .. }
            | Op::OptimizationBarrier
            | Op::Reshape { .. }
            | Op::Slice(_)
            | Op::Transpose { .. } => {
                for (operand, result) in operation.operands.iter().zip(&operation.results) {
                    origins[result.index()] = origins[operand.index()];
                }
            }
            // What a loop carries unchanged is in every trip what it was before.
            Op::While => {
                for (index, operand) in operation.operands.iter().enumerate() {
                    if program.carries_unchanged(op, index) {
                        for &region in &operation.regions {
                            origins[program.regions[region].arguments[index].index()] = origins[operand.index()];
                        }
                        origins[operation.results[index].index()] = origins[operand.index()];
                    }
                }
            }
            _ if operation.op.copies_to().is_some() => {
                origins[operation.results[0].index()] = origins[operation.operands[0].index()];
            }
            // All others compute something new.
            _ => {}
        }
        operation.regions.iter().for_each(|&inner| follow_origins(program, inner, origins));
    }
}

/// The results that the backward pass may start from. Steps give back other numbers besides: norms of gradients, say.
fn losses(program: &Program, next: &[Option<usize>]) -> Vec<ValueId> {
    let mut is_state = vec![false; program.results.len()];
    next.iter().flatten().for_each(|&result| is_state[result] = true);
    let is_number = |&(index, &value): &(usize, &ValueId)| {
        let ty = program.ty(value);
        !is_state[index] && ty.rank() == 0 && ty.dtype.is_float()
    };
    let numbers = program.body().results.iter().enumerate().filter(is_number).map(|(_, &value)| value);
    let mut numbers: Vec<(ValueId, Dependencies)> =
        numbers.map(|value| (value, Dependencies::of(program, &[value]))).collect();
    if numbers.len() > 1 {
        // Where a loss is itself made of gradients, such as one on forces, no scope tells it from their norms.
        retain_if_any(&mut numbers, |(_, needs)| !needs.ops_of(program).any(|op| is_transposed(program, op)));
        let states: Vec<ValueId> = next.iter().flatten().map(|&result| program.body().results[result]).collect();
        let products: Vec<OpId> =
            Dependencies::of(program, &states).ops_of(program).filter(|&op| is_heavy(&program.ops[op].op)).collect();
        // What needs all products that the next state does needs all gradients.
        retain_if_any(&mut numbers, |(_, needs)| products.iter().any(|op| !needs.ops[op.index()]));
    }
    numbers.into_iter().map(|(value, _)| value).collect()
}

/// Keeps what is wanted, or everything where nothing is.
fn retain_if_any<T>(list: &mut Vec<T>, is_wanted: impl Fn(&T) -> bool) {
    if list.iter().any(&is_wanted) {
        list.retain(is_wanted);
    }
}

/// Whether an op was made by differentiation in reverse, by its scope.
fn is_transposed(program: &Program, op: OpId) -> bool {
    program.locations[program.ops[op].location].scope.contains("transpose(")
}

/// Everything that some values depend on.
struct Dependencies {
    values: Vec<bool>,
    ops: Vec<bool>,
}

impl Dependencies {
    fn of(program: &Program, targets: &[ValueId]) -> Dependencies {
        let (values, ops) = (vec![false; program.values.len()], vec![false; program.ops.len()]);
        let mut found = Dependencies { values, ops };
        found.need(targets);
        found.mark(program, program.body);
        found
    }

    fn ops_of(&self, program: &Program) -> impl Iterator<Item = OpId> {
        program.ops.ids().filter(|op| self.ops[op.index()])
    }

    fn need(&mut self, values: &[ValueId]) {
        values.iter().for_each(|value| self.values[value.index()] = true);
    }

    /// Walks backwards, so that every use is seen before its definition.
    fn mark(&mut self, program: &Program, region: RegionId) {
        for &op in program.regions[region].ops.iter().rev() {
            let operation = &program.ops[op];
            if !operation.results.iter().any(|result| self.values[result.index()]) {
                continue;
            }
            self.ops[op.index()] = true;
            match operation.op {
                Op::While => self.mark_loop(program, op),
                Op::Case | Op::If => {
                    self.need(&operation.operands);
                    for &region in &operation.regions {
                        self.pass(&operation.results, &program.regions[region].results);
                        self.mark(program, region);
                    }
                }
                _ => {
                    self.need(&operation.operands);
                    for &region in &operation.regions {
                        self.need(&program.regions[region].results);
                        self.mark(program, region);
                    }
                }
            }
        }
    }

    /// What a trip makes of a carried value may depend on others: those are needed too, until nothing
    /// new is.
    fn mark_loop(&mut self, program: &Program, op: OpId) {
        let operation = &program.ops[op];
        let [condition, body] = operation.regions[..] else { return };
        self.need(&program.regions[condition].results);
        self.mark(program, condition);
        loop {
            self.pass(&program.regions[condition].arguments, &operation.results);
            self.pass(&program.regions[body].arguments, &operation.results);
            self.pass(&operation.results, &program.regions[body].results);
            self.mark(program, body);
            let is_new = |(argument, result): (&ValueId, &ValueId)| {
                self.values[argument.index()] && !self.values[result.index()]
            };
            if !program.regions[body].arguments.iter().zip(&operation.results).any(is_new) {
                break;
            }
        }
        self.pass(&operation.results, &operation.operands);
    }

    /// What is needed of the first is needed of the second.
    fn pass(&mut self, from: &[ValueId], to: &[ValueId]) {
        for (from, to) in from.iter().zip(to) {
            self.values[to.index()] |= self.values[from.index()];
        }
    }
}

/// The gradient of every parameter: what its update reads that is of its shape and owes nothing to
/// the optimizer, or what the step gives back as gradient by its name, since products may stand between that and the
/// update; of several such values the one made first.
fn gradients(
    program: &Program,
    next: &[Option<usize>],
    classes: &[ArgumentClass],
    forward: &Dependencies,
) -> Vec<Option<ValueId>> {
    let owing = owing_to_optimizer(program, classes, forward);
    let gradient = |argument: usize| {
        let result = next[argument].filter(|_| classes[argument] == ArgumentClass::Parameter)?;
        let mut chain = Chain { program, forward, owing: &owing, known: FxHashMap::default(), found: Vec::new() };
        chain.follow(program.body().results[result]);
        let found = chain.found.into_iter().chain(named_gradient(program, argument, forward));
        found.min_by_key(|&value| program.producer(value))
    };
    (0..classes.len()).map(gradient).collect()
}

/// The result that has the name of a parameter's gradient: `grads.a.weight` of `params.a.weight`.
fn named_gradient(program: &Program, argument: usize, forward: &Dependencies) -> Option<ValueId> {
    let path = program.arguments[argument].name.strip_prefix("params.")?;
    let is_named = |name: &str| name.strip_prefix("grads.") == Some(path);
    let number = program.results.iter().position(|result| is_named(&result.name))?;
    let value = program.body().results[number];
    let is_made_later = program.producer(value).is_some_and(|op| !forward.ops[op.index()]);
    is_made_later.then_some(value)
}

/// For every value, whether it depends on state that no loss reads.
fn owing_to_optimizer(program: &Program, classes: &[ArgumentClass], forward: &Dependencies) -> Vec<bool> {
    let mut owing = vec![false; program.values.len()];
    for (&argument, &class) in program.body().arguments.iter().zip(classes) {
        owing[argument.index()] = class == ArgumentClass::State && !forward.values[argument.index()];
    }
    for &op in &program.body().ops {
        if program.reads(op).iter().any(|value| owing[value.index()]) {
            program.ops[op].results.iter().for_each(|result| owing[result.index()] = true);
        }
    }
    owing
}

/// A way back from the next value of a parameter, through elementwise ops on values of its shape, and what turns them
/// or moves them between devices.
struct Chain<'p> {
    program: &'p Program,
    forward: &'p Dependencies,
    owing: &'p [bool],
    /// Whether a value is an update: made of the parameter itself, or owing to the optimizer.
    known: FxHashMap<ValueId, bool>,
    found: Vec<ValueId>,
}

/// A chain that is longer is no update.
const MAXIMUM_CHAIN: usize = 1024;

impl Chain<'_> {
    /// Whether a value is an update. What flows into updates and is none is a gradient.
    fn follow(&mut self, value: ValueId) -> bool {
        if let Some(&known) = self.known.get(&value) {
            return known;
        }
        if self.known.len() > MAXIMUM_CHAIN {
            return false;
        }
        self.known.insert(value, self.owing[value.index()]);
        let Definition::Result { op, .. } = self.program.values[value].definition else {
            // A parameter, or state that a loss reads.
            self.known.insert(value, true);
            return true;
        };
        let operation = &self.program.ops[op];
        if self.forward.ops[op.index()] {
            return self.owing[value.index()];
        }
        if let Some(part) = moved(self.program, op) {
            let is_update = self.follow(part) || self.owing[value.index()];
            self.known.insert(value, is_update);
            return is_update;
        }
        if matches!(operation.op, Op::Transpose { .. }) && self.owing[value.index()] {
            // A tall matrix may be updated as a wide one.
            self.follow(operation.operands[0]);
        }
        if !operation.op.is_elementwise() {
            return self.owing[value.index()];
        }
        let alike: Vec<ValueId> = self.alike(op, value).collect();
        let updates: Vec<bool> = alike.iter().map(|&operand| self.follow(operand)).collect();
        let is_update = self.owing[value.index()] || updates.contains(&true);
        self.known.insert(value, is_update);
        if is_update {
            let gradients = alike.iter().zip(&updates).filter(|(_, is_update)| !**is_update);
            for (&operand, _) in gradients {
                let gradient = self.before_scaling(operand, &mut FxHashMap::default());
                self.found.push(gradient);
            }
        }
        is_update
    }

    /// Whether a value is a number in every place.
    fn is_spread(&self, value: ValueId) -> bool {
        let Some(op) = self.program.producer(value) else { return false };
        let operation = &self.program.ops[op];
        match operation.op {
            Op::Constant(_) => true,
            Op::BroadcastInDim(_) => self.program.ty(operation.operands[0]).elements() == 1,
            _ => false,
        }
    }

    /// A gradient before it was converted, scaled or clipped: what all of a value is made of, element by
    /// element and with numbers that are the same in every place.
    fn before_scaling(&self, value: ValueId, roots: &mut FxHashMap<ValueId, ValueId>) -> ValueId {
        if let Some(&root) = roots.get(&value) {
            return root;
        }
        let mut root = value;
        if roots.len() < MAXIMUM_CHAIN
            && let Some(op) = self.program.producer(value)
            && self.program.ops[op].op.is_elementwise()
            && !self.forward.ops[op.index()]
        {
            let operands: Vec<ValueId> = self.alike(op, value).collect();
            let before: Vec<ValueId> = operands.iter().map(|&operand| self.before_scaling(operand, roots)).collect();
            if let Some((&first, others)) = before.split_first()
                && others.iter().all(|&other| other == first)
            {
                root = first;
            }
        }
        roots.insert(value, root);
        root
    }

    /// The operands of an op that are of its result's shape and not a number in every place.
    fn alike(&self, op: OpId, result: ValueId) -> impl Iterator<Item = ValueId> {
        let shape = self.program.shape(result);
        let is_alike = move |operand: &ValueId| self.program.shape(*operand) == shape && !self.is_spread(*operand);
        self.program.ops[op].operands.iter().copied().filter(is_alike)
    }
}
