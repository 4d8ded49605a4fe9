//! In which pieces each op stands.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::PieceKind;
use super::assign::{Assignment, Chunks};
use crate::lower::{View, When};
use crate::profile::work;
use crate::program::{ArgumentClass, Id, Op, OpId, Phase, Program, ValueId};
use crate::shard::{Layout, Sharding};

/// Which piece. Pieces of a chunk run in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) chunk: usize,
    pub(super) kind: PieceKind,
    /// Of several updates of a chunk, which.
    pub(super) turn: usize,
}

impl Key {
    pub(super) fn new(chunk: usize, kind: PieceKind) -> Key {
        Key { chunk, kind, turn: 0 }
    }

    /// Whether it runs once for every microbatch.
    pub(super) fn is_inside(self) -> bool {
        matches!(self.kind, PieceKind::Forward | PieceKind::Backward | PieceKind::Weights)
    }
}

pub(super) type Keys = SmallVec<[Key; 1]>;

/// The pieces of every op.
pub(super) struct Places {
    pub(super) of: Vec<Keys>,
    /// What every op of the body reads that is not free, and how.
    pub(super) reads: Vec<Vec<(ValueId, Sharding)>>,
}

/// What decides where ops stand.
pub(super) struct Placing<'a, 'p> {
    pub(super) layout: &'a Layout<'p>,
    pub(super) assignment: &'a Assignment,
    /// The axis in time that the microbatches lie along, where there is more than one microbatch.
    pub(super) axis: Option<usize>,
    /// Whether gradients of weights are pieces of their own.
    pub(super) splits_weights: bool,
}

/// When an op runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Before,
    Inside,
    After,
}

impl Placing<'_, '_> {
    /// Finds the pieces of every op. The error says why there is no loop over microbatches that all of the
    /// model stands in.
    pub(super) fn places(&self, view: &View<'_, '_, '_>) -> Result<Places, (String, Option<String>)> {
        let program = self.layout.program;
        let mut reads = vec![Vec::new(); program.ops.len()];
        for &op in &program.body().ops {
            if program.ops[op].results.first().is_none_or(|&result| !self.layout.is_free(result)) {
                reads[op.index()] = view.reads(op);
            }
        }
        let moments = self.moments(view)?;
        let mut places = Places { of: vec![Keys::new(); program.ops.len()], reads };
        self.place_work(&moments, &mut places);
        if self.splits_weights {
            self.split_weights(&mut places);
        }
        self.place_rest(view, &moments, &mut places);
        Ok(places)
    }

    fn moments(&self, view: &View<'_, '_, '_>) -> Result<Vec<Moment>, (String, Option<String>)> {
        let program = self.layout.program;
        let mut moments = vec![Moment::Before; program.ops.len()];
        let Some(axis) = self.axis else {
            for &op in &program.body().ops {
                moments[op.index()] = self.moment_of_one(op);
            }
            return Ok(moments);
        };
        let levels = view.levels(axis);
        let main = main_level(program, &levels);
        for &op in &program.body().ops {
            let When { level, inside } = levels[&op];
            let is_update = self.layout.anatomy.phase(op) == Phase::Update;
            let is_work = !self.assignment.portable.makes(program, op);
            moments[op.index()] = match inside {
                true if level == main => Moment::Inside,
                // What the batch alone decides, such as a count of tokens, is found in a loop of its own before.
                true if level < main && !is_work => Moment::Before,
                true => return Err(self.no_single_loop(op, axis)),
                false if level > main || is_update => Moment::After,
                false => Moment::Before,
            };
        }
        Ok(moments)
    }

    /// With one microbatch, the phase of an op says it all.
    fn moment_of_one(&self, op: OpId) -> Moment {
        let (program, portable) = (self.layout.program, &self.assignment.portable);
        if portable.makes(program, op) {
            let result = program.ops[op].results[0];
            return if portable.is_batch(result) { Moment::Inside } else { Moment::Before };
        }
        let is_late = self.layout.anatomy.phase(op) == Phase::Update || self.assignment.joins[op.index()];
        if is_late { Moment::After } else { Moment::Inside }
    }

    fn no_single_loop(&self, op: OpId, axis: usize) -> (String, Option<String>) {
        let program = self.layout.program;
        let operation = &program.ops[op];
        let scope = program.locations[operation.location].modules().join("/");
        let name = operation.op.name();
        let place = if scope.is_empty() { String::new() } else { format!(" in `{scope}`") };
        let axis = &self.layout.mesh.axes[axis].name;
        let message = format!(
            "`{name}`{place} needs something of all microbatches of `{axis}` before it can begin, so they cannot \
             follow each other through the stages"
        );
        let hint = "statistics over the whole batch, as of batch normalization or of experts' loads, need one \
                    microbatch; a batch that is cut elsewhere too may be cut by `data` only";
        (message, Some(hint.to_owned()))
    }

    fn place_work(&self, moments: &[Moment], places: &mut Places) {
        let program = self.layout.program;
        let mut owes_gradient = vec![false; program.ops.len()];
        for &op in &program.body().ops {
            let chunks = &self.assignment.chunks[op.index()];
            let is_gradient = self.layout.anatomy.phase(op) == Phase::Backward;
            let makers = places.reads[op.index()].iter().filter_map(|(value, _)| program.producer(*value));
            owes_gradient[op.index()] =
                is_gradient && !chunks.is_empty() || makers.into_iter().any(|maker| owes_gradient[maker.index()]);
            let keys: Keys = match moments[op.index()] {
                // Whoever needs something again computes it again.
                Moment::Inside if self.assignment.again[op.index()] => Keys::new(),
                Moment::Before => chunks.iter().map(|&chunk| Key::new(chunk, PieceKind::Prepare)).collect(),
                Moment::Inside => {
                    let kind = if owes_gradient[op.index()] { PieceKind::Backward } else { PieceKind::Forward };
                    chunks.iter().take(1).map(|&chunk| Key::new(chunk, kind)).collect()
                }
                Moment::After => chunks
                    .iter()
                    .map(|&chunk| Key { turn: turn(program, places, op, chunk), ..Key::new(chunk, PieceKind::Update) })
                    .collect(),
            };
            places.of[op.index()] = keys;
        }
    }

    /// Leaves what leads to the gradient of one parameter alone, and is not sent to another chunk, for later.
    fn split_weights(&self, places: &mut Places) {
        let program = self.layout.program;
        let mut is_awaited = vec![false; program.values.len()];
        for &op in program.body().ops.iter().rev() {
            let operation = &program.ops[op];
            let reads = &places.reads[op.index()];
            if operation.op == Op::OptimizationBarrier {
                // A barrier passes each value on by itself.
                for (operand, result) in operation.operands.iter().zip(&operation.results) {
                    is_awaited[operand.index()] |= is_awaited[result.index()];
                }
                continue;
            }
            let Some(&key) = places.of[op.index()].first() else { continue };
            let mut awaits = false;
            if key.kind == PieceKind::Backward {
                awaits = !self.assignment.for_one[op.index()]
                    || operation.results.iter().any(|result| is_awaited[result.index()]);
                if !awaits {
                    places.of[op.index()] = Keys::from_slice(&[Key { kind: PieceKind::Weights, ..key }]);
                }
            }
            for (value, _) in reads {
                let maker = program.producer(*value).and_then(|maker| places.of[maker.index()].first());
                let is_elsewhere = key.is_inside() && maker.is_some_and(|maker| maker.chunk != key.chunk);
                // Whose reader stands behind a barrier may be another chunk's.
                let is_fenced = |maker: OpId| program.ops[maker].op == Op::OptimizationBarrier;
                let is_fenced = key.is_inside() && program.producer(*value).is_some_and(is_fenced);
                is_awaited[value.index()] |= awaits || is_elsewhere || is_fenced;
            }
        }
    }

    /// Places what stands wherever it is read: portable ops, barriers, and what is computed again.
    fn place_rest(&self, view: &View<'_, '_, '_>, moments: &[Moment], places: &mut Places) {
        let program = self.layout.program;
        let mut wanted: FxHashMap<ValueId, Keys> = FxHashMap::default();
        let first_update = Key::new(0, PieceKind::Update);
        for &result in &program.body().results {
            // Results made elsewhere are not wanted in any place.
            let is_free = self.layout.is_free(result);
            let rank = program.shape(result).len();
            for (value, _) in if is_free { view.sources(result, &Sharding::whole(rank)) } else { Vec::new() } {
                add(wanted.entry(value).or_default(), first_update);
            }
        }
        let results: FxHashMap<ValueId, usize> =
            program.body().results.iter().enumerate().map(|(number, &value)| (value, number)).collect();
        for &op in program.body().ops.iter().rev() {
            let operation = &program.ops[op];
            let is_barrier = operation.op == Op::OptimizationBarrier;
            let is_again = self.assignment.again[op.index()] && moments[op.index()] == Moment::Inside;
            if self.assignment.portable.makes(program, op) || is_barrier || is_again {
                let mut keys = Keys::new();
                for result in &operation.results {
                    for &key in wanted.get(result).into_iter().flatten() {
                        add(&mut keys, self.place_for(key, op, moments[op.index()]));
                    }
                }
                if is_again {
                    // What is computed again for gradients is kept for those of weights.
                    let has_backward = |chunk| keys.contains(&Key::new(chunk, PieceKind::Backward));
                    let twice: Keys = keys.iter().copied().filter(|key| has_backward(key.chunk)).collect();
                    keys.retain(|key| key.kind == PieceKind::Backward || !twice.contains(key));
                }
                let result = operation.results.iter().find_map(|result| results.get(result));
                if let Some(&result) = result.filter(|_| keys.iter().all(|key| key.is_inside())) {
                    for chunk in self.homes(result) {
                        add(&mut keys, self.place_for(Key::new(chunk, PieceKind::Update), op, moments[op.index()]));
                    }
                }
                keys.sort_unstable();
                places.of[op.index()] = keys;
            }
            let keys = places.of[op.index()].clone();
            if is_barrier {
                for (result, value, _) in passed(view, self.layout, op) {
                    for key in wanted.get(&result).cloned().unwrap_or_default() {
                        add(wanted.entry(value).or_default(), key);
                    }
                }
                continue;
            }
            for (value, _) in &places.reads[op.index()] {
                keys.iter().for_each(|&key| add(wanted.entry(*value).or_default(), key));
            }
        }
    }

    /// The chunks of a result that no update reads, as a count of steps: those of the parameter that it is state of by
    /// its name, such as `opt.step.a.weight` of `params.a.weight`. Users look for both at one place.
    fn homes(&self, result: usize) -> Chunks {
        let (arguments, anatomy) = (&self.layout.program.arguments, &self.layout.anatomy);
        let parameters = (0..arguments.len()).filter(|&each| anatomy.classes[each] == ArgumentClass::Parameter);
        let state = anatomy.next.iter().position(|next| *next == Some(result));
        let nearest = state.and_then(|state| {
            let alike = |parameter: usize| {
                let [one, other] = [state, parameter].map(|argument| arguments[argument].name.rsplit('.'));
                one.zip(other).take_while(|(one, other)| one == other).count()
            };
            let counted = parameters.map(|parameter| (alike(parameter), parameter));
            counted.max_by_key(|(count, _)| *count).filter(|(count, _)| *count > 0)
        });
        let found = nearest.map(|(_, parameter)| self.assignment.held[parameter].clone());
        found.filter(|chunks| !chunks.is_empty()).unwrap_or_else(|| Chunks::from_slice(&[0]))
    }

    /// Where an op stands that a piece reads: in the piece itself, unless it runs at another time.
    fn place_for(&self, reader: Key, op: OpId, moment: Moment) -> Key {
        let is_barrier = self.layout.program.ops[op].op == Op::OptimizationBarrier;
        let pass = if self.assignment.again[op.index()] { PieceKind::Backward } else { PieceKind::Forward };
        match moment {
            _ if is_barrier => reader,
            Moment::Inside if !reader.is_inside() => Key::new(reader.chunk, pass),
            Moment::Before if reader.is_inside() => Key::new(reader.chunk, PieceKind::Prepare),
            // What is made of state alone is made again after the microbatches, not kept.
            _ => reader,
        }
    }
}

/// Of each result of a barrier, what it is made of that is not free, and how.
pub(super) fn passed(view: &View<'_, '_, '_>, layout: &Layout<'_>, op: OpId) -> Vec<(ValueId, ValueId, Sharding)> {
    let operation = &layout.program.ops[op];
    let pairs = operation.operands.iter().zip(&operation.results);
    let sources = pairs.flat_map(|(&operand, &result)| {
        let found = view.sources(operand, layout.sharding(result));
        found.into_iter().map(move |(value, wanted)| (result, value, wanted))
    });
    sources.collect()
}

/// Updates of a chunk that wait for another chunk's come a turn later.
fn turn(program: &Program, places: &Places, op: OpId, chunk: usize) -> usize {
    let mut turn = 0;
    for (value, _) in &places.reads[op.index()] {
        let Some(maker) = program.producer(*value) else { continue };
        let keys = &places.of[maker.index()];
        let Some(source) = keys.iter().find(|key| key.chunk == chunk).or(keys.first()) else { continue };
        turn = turn.max(source.turn + usize::from(source.chunk != chunk));
    }
    turn
}

/// The loop with most of the work.
fn main_level(program: &Program, levels: &FxHashMap<OpId, When>) -> usize {
    let mut flops: Vec<f64> = Vec::new();
    for &op in &program.body().ops {
        if let Some(When { level, inside: true }) = levels.get(&op) {
            flops.resize(flops.len().max(level + 1), 0.0);
            let regions = program.ops[op].regions.len() as f64;
            flops[*level] += work(program, op).total() + regions;
        }
    }
    (0..flops.len()).rev().max_by(|&left, &right| flops[left].total_cmp(&flops[right])).unwrap_or(0)
}

fn add(keys: &mut Keys, key: Key) {
    if !keys.contains(&key) {
        keys.push(key);
    }
}
