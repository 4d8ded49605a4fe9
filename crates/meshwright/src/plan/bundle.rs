//! Ops that are cut together.
//!
//! A product, a convolution or an attention stands alone. Everything light between two of them, such as the bias,
//! the activation function or a normalization, is one bundle: there would be nothing to gain from cutting its ops
//! differently, and a plan is made of far fewer decisions so. What makes a matrix of every row for one op alone stands with
//! that op: cut otherwise, these matrices would have to be written out.

use rustc_hash::FxHashMap;

use crate::program::{Anatomy, Id, Op, OpId, Phase, Program, ValueId, chosen_maker};
use crate::shard::Layout;

/// Ops in program order that share one decision.
#[derive(Clone, Debug)]
pub(super) struct Bundle {
    pub(super) ops: Vec<OpId>,
    pub(super) phase: Phase,
    /// Whether it is one op that stands alone, or two that are one piece of work.
    pub(super) is_heavy: bool,
}

/// All bundles, in the order of their first ops.
#[derive(Clone, Debug)]
pub(super) struct Bundles {
    pub(super) list: Vec<Bundle>,
    /// For every op its bundle. Ops on numbers alone, those that are made anew wherever they are used, and barriers
    /// have none.
    of: Vec<Option<u32>>,
}

impl Bundles {
    /// The bundles of the body of a layout's program.
    pub(super) fn new(layout: &Layout<'_>) -> Bundles {
        let mut joining = Joining::new(layout);
        for &op in &layout.program.body().ops {
            joining.add(op);
        }
        let whole = joining.finish();
        let levels = levels(layout.program, &layout.anatomy, &whole);
        let level = |op: OpId| whole.of(op).map(|bundle| (bundle, levels[op.index()]));
        let is_heavy = |op: OpId| whole.of(op).is_some_and(|bundle| whole.list[bundle].is_heavy);
        let leveled = collect(layout, level, is_heavy);
        let connected = connected(layout, &leveled);
        collect(layout, |op| leveled.of(op).map(|_| connected.find(op.index())), is_heavy)
    }

    pub(super) fn of(&self, op: OpId) -> Option<usize> {
        self.of[op.index()].map(|bundle| bundle as usize)
    }

    /// The bundle that makes a value.
    pub(super) fn maker(&self, program: &Program, value: ValueId) -> Option<usize> {
        program.producer(source(program, value)).and_then(|op| self.of(op))
    }
}

/// What a value is before barriers held it back.
pub(super) fn source(program: &Program, mut value: ValueId) -> ValueId {
    while let Some(op) = program.producer(value).filter(|&op| program.ops[op].op == Op::OptimizationBarrier) {
        let Some(index) = program.ops[op].results.iter().position(|&result| result == value) else { break };
        value = program.ops[op].operands[index];
    }
    value
}

/// Bundles of ops with the same key.
fn collect<K: Ord>(layout: &Layout<'_>, key: impl Fn(OpId) -> Option<K>, is_heavy: impl Fn(OpId) -> bool) -> Bundles {
    let mut numbers = std::collections::BTreeMap::new();
    let mut bundles = Bundles { list: Vec::new(), of: vec![None; layout.program.ops.len()] };
    for &op in &layout.program.body().ops {
        let Some(key) = key(op) else { continue };
        let number = *numbers.entry(key).or_insert(bundles.list.len());
        if number == bundles.list.len() {
            bundles.list.push(Bundle { ops: Vec::new(), phase: layout.anatomy.phase(op), is_heavy: is_heavy(op) });
        }
        bundles.list[number].ops.push(op);
        bundles.of[op.index()] = Some(number as u32);
    }
    bundles
}

/// Sets that become one another's parts.
struct Sets {
    /// For every set the one that it has become part of, or itself.
    parents: Vec<usize>,
}

impl Sets {
    fn find(&self, mut set: usize) -> usize {
        while self.parents[set] != set {
            set = self.parents[set];
        }
        set
    }

    /// Makes a set part of another.
    fn join(&mut self, part: usize, whole: usize) {
        let (part, whole) = (self.find(part), self.find(whole));
        self.parents[part] = whole;
    }

    fn start(&mut self) -> usize {
        self.parents.push(self.parents.len());
        self.parents.len() - 1
    }
}

/// The ops of each bundle that have values in common, a set for every op, the first of which stands for all. Nothing
/// carries a cut from an op to one that has nothing to do with it.
fn connected(layout: &Layout<'_>, bundles: &Bundles) -> Sets {
    let program = layout.program;
    let mut sets = Sets { parents: (0..program.ops.len()).collect() };
    // Of every value the op that had it last in each bundle.
    let mut last: FxHashMap<(ValueId, usize), OpId> = FxHashMap::default();
    for &op in &program.body().ops {
        let Some(bundle) = bundles.of(op) else { continue };
        for &value in program.ops[op].operands.iter().chain(&program.ops[op].results) {
            if program.ty(value).elements() > 1
                && !layout.is_free(value)
                && let Some(other) = last.insert((value, bundle), op)
            {
                sets.join(op.index(), other.index());
            }
        }
    }
    sets
}

/// Bundles under way: sets of ops that are joined.
struct Joining<'l, 'p> {
    layout: &'l Layout<'p>,
    /// For every op the number of its set, `None` for ops without a bundle.
    set_of: Vec<Option<usize>>,
    sets: Sets,
    is_heavy: Vec<bool>,
    /// Whether it is made of arguments and constants alone, such as a bias for every token.
    is_plain: Vec<bool>,
}

impl<'l, 'p> Joining<'l, 'p> {
    fn new(layout: &'l Layout<'p>) -> Joining<'l, 'p> {
        let set_of = vec![None; layout.program.ops.len()];
        let sets = Sets { parents: Vec::new() };
        Joining { layout, set_of, sets, is_heavy: Vec::new(), is_plain: Vec::new() }
    }

    fn start(&mut self, is_heavy: bool, is_plain: bool) -> usize {
        self.is_heavy.push(is_heavy);
        self.is_plain.push(is_plain);
        self.sets.start()
    }

    fn add(&mut self, op: OpId) {
        let program = self.layout.program;
        let operation = &program.ops[op];
        let is_free = operation.results.iter().all(|&result| self.layout.is_free(result));
        let is_number = |value: &ValueId| program.ty(*value).elements() <= 1;
        let values = operation.operands.iter().chain(&operation.results);
        if is_free || values.into_iter().all(is_number) || operation.op == Op::OptimizationBarrier {
            return;
        }
        if !is_light(&operation.op) {
            let with = chosen_maker(program, op).filter(|&maker| self.is_for_one(maker));
            let set = with.and_then(|maker| self.set_of[maker.index()]);
            self.set_of[op.index()] = Some(set.unwrap_or_else(|| self.start(true, false)));
            return;
        }
        let (mut best, mut plain, mut is_plain) = (None, Vec::new(), true);
        for &operand in &operation.operands {
            if is_number(&operand) || self.layout.is_free(operand) {
                continue;
            }
            let Some(maker) = program.producer(operand) else { continue };
            let set = self.set_of[maker.index()].map(|set| self.sets.find(set));
            let same_phase = self.layout.anatomy.phase(maker) == self.layout.anatomy.phase(op);
            match set.filter(|&set| same_phase && !self.is_heavy[set]) {
                Some(set) if self.is_plain[set] => plain.push(set),
                Some(set) => best = best.max(Some((program.ty(operand).elements(), maker, set))),
                None => {}
            }
            is_plain &= set.is_some_and(|set| self.is_plain[set]);
        }
        let set = match best {
            Some((_, _, set)) => set,
            None => self.start(false, is_plain),
        };
        for other in plain {
            self.sets.join(other, set);
        }
        self.set_of[op.index()] = Some(set);
    }

    /// Whether one op alone reads what an op makes, and stands alone so far.
    fn is_for_one(&self, op: OpId) -> bool {
        let program = self.layout.program;
        let made = program.ops[op].results[0];
        let reads = program.body().ops.iter().flat_map(|&op| program.outer_reads(op));
        let is_joined = chosen_maker(program, op).is_some();
        !is_joined && reads.chain(program.body().results.iter().copied()).filter(|&value| value == made).count() == 1
    }

    fn finish(self) -> Bundles {
        let set = |op: OpId| self.set_of[op.index()].map(|set| self.sets.find(set));
        collect(self.layout, set, |op| set(op).is_some_and(|set| self.is_heavy[set]))
    }
}

/// Where in its bundle an op is: behind how many ops that stand alone, and behind how many values that others read.
type Level = (u32, u32);

/// Where bundles are cut apart. What comes back from an op that stands alone, as to the stream that layers add to, is
/// another bundle than what went there. What others read in the same pass is at the end of a bundle, so that it can be
/// kept without what is made of it. Ops of a bundle with different levels are different bundles.
fn levels(program: &Program, anatomy: &Anatomy, bundles: &Bundles) -> Vec<Level> {
    let depths = depths(program, bundles);
    let mut is_shared = vec![false; program.values.len()];
    let mut is_sum = is_shared.clone();
    for &op in &program.body().ops {
        for &operand in &program.ops[op].operands {
            let Some(maker) = program.producer(operand) else { continue };
            let is_elsewhere = bundles.of(maker).is_some() && bundles.of(maker) != bundles.of(op);
            let same_pass = anatomy.is_forward(maker) == anatomy.is_forward(op);
            is_shared[operand.index()] |= is_elsewhere && same_pass && bundles.of(op).is_some();
            // What layers add to is read by the next layer, which is another bundle for what comes back in between. Norms
            // can then be made again of it, behind the last layer as behind all others. What is made of arguments alone, as
            // a bias for every token, is no stream.
            let is_within = bundles.of(op).is_some() && bundles.of(maker) == bundles.of(op);
            let is_stream =
                is_within && same_pass && anatomy.is_forward(op) && program.ops[maker].op == program.ops[op].op;
            let (made, read) = (depths[maker.index()], depths[op.index()]);
            if is_stream && made > 0 && made != read {
                for sum in program.ops[op].results.iter().chain([&operand]) {
                    (is_shared[sum.index()], is_sum[sum.index()]) = (true, true);
                }
            }
        }
    }
    let mut levels: Vec<Level> = depths.into_iter().map(|depth| (depth, 0)).collect();
    for bundle in &bundles.list {
        let inside = |op: OpId| bundles.of(op) == bundles.of(bundle.ops[0]);
        let mut reads_inside = vec![false; bundle.ops.len()];
        for (index, &op) in bundle.ops.iter().enumerate() {
            for &operand in &program.ops[op].operands {
                let Some(maker) = program.producer(operand).filter(|&maker| inside(maker)) else { continue };
                reads_inside[index] = true;
                let (depth, level) = levels[maker.index()];
                let level = level + u32::from(is_shared[operand.index()]);
                levels[op.index()] = levels[op.index()].max((depth, level));
            }
        }
        // What only arranges arguments goes with those that read it.
        let mut lowest: Vec<Option<Level>> = vec![None; bundle.ops.len()];
        for (index, &op) in bundle.ops.iter().enumerate().rev() {
            let own = levels[op.index()];
            let is_near = |level: &Level| own.0 == 0 || own.0 == level.0;
            let goes_along =
                !reads_inside[index] && !program.ops[op].results.iter().any(|result| is_sum[result.index()]);
            if let Some(level) = lowest[index].filter(|level| goes_along && is_near(level)) {
                levels[op.index()] = own.max(level);
            }
            for &operand in &program.ops[op].operands {
                let maker = program.producer(operand).filter(|&maker| inside(maker));
                if let Some(place) = maker.and_then(|maker| bundle.ops.binary_search(&maker).ok()) {
                    let level = levels[op.index()];
                    lowest[place] = Some(lowest[place].map_or(level, |known| known.min(level)));
                }
            }
        }
    }
    levels
}

/// For every op of the body, behind how many ops that stand alone it is at most.
fn depths(program: &Program, bundles: &Bundles) -> Vec<u32> {
    let mut depths = vec![0; program.ops.len()];
    for &op in &program.body().ops {
        for maker in program.ops[op].operands.iter().filter_map(|&operand| program.producer(operand)) {
            let is_other = bundles.of(maker) != bundles.of(op);
            let is_heavy = bundles.of(maker).is_some_and(|bundle| is_other && bundles.list[bundle].is_heavy);
            depths[op.index()] = depths[op.index()].max(depths[maker.index()] + u32::from(is_heavy));
        }
    }
    depths
}

/// Whether an op goes with what is around it.
fn is_light(op: &Op) -> bool {
    matches!(
        op,
        Op::Binary(_)
            | Op::BitcastConvert { .. }
            | Op::BroadcastInDim(_)
            | Op::Clamp
            | Op::Compare { .. }
            | Op::Convert { .. }
            | Op::Pad(_)
            | Op::Reduce { .. }
            | Op::Reshape { .. }
            | Op::Reverse { .. }
            | Op::Select
            | Op::Slice(_)
            | Op::Transpose { .. }
            | Op::Unary(_)
    )
}
