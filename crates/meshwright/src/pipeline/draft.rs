//! What every piece is given and gives on.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::PieceKind;
use super::ground::Grounds;
use super::place::{Key, Places, passed};
use crate::lower::{View, stored_results};
use crate::program::{Definition, Id, Op, OpId, Program, ValueId};
use crate::shard::{Layout, Piece, Reduction, Sharding};

/// A piece before it is written.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// In program order.
    pub(super) ops: Vec<OpId>,
    pub(super) given: Forms,
    /// Where each form that it is given comes from.
    pub(super) sources: Vec<Source>,
    pub(super) gives: Forms,
    /// Sums over the microbatches that it finishes.
    pub(super) finished: Vec<ValueId>,
}

/// Values in forms, each once and in order.
#[derive(Debug, Default)]
pub(super) struct Forms {
    pub(super) list: Vec<(ValueId, Sharding)>,
    places: FxHashMap<(ValueId, Sharding), usize>,
}

impl Forms {
    /// The place of a form, and whether it is new.
    fn add(&mut self, value: ValueId, sharding: &Sharding) -> (usize, bool) {
        let next = self.list.len();
        let place = *self.places.entry((value, sharding.clone())).or_insert(next);
        if place == next {
            self.list.push((value, sharding.clone()));
        }
        (place, place == next)
    }

    pub(super) fn place(&self, value: ValueId, sharding: &Sharding) -> Option<usize> {
        self.places.get(&(value, sharding.clone())).copied()
    }
}

/// Where a piece has something from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// An argument of the step: all of it, or the part of the microbatch.
    Argument { index: usize, is_tile: bool },
    /// What another piece makes, for the same microbatch where both run for each.
    Piece(Key),
    /// What a piece makes for every microbatch, added up; it gives it in this form.
    Sum { piece: Key, given: Sharding },
}

/// Where a result of the step is: in which pieces, or arguments of the step.
#[derive(Clone, Debug)]
pub(super) enum Made {
    Argument(usize),
    /// Each with how it lies there.
    In(Vec<(Key, Sharding)>),
}

pub(super) struct Drafts<'a, 'p> {
    /// That of the mesh with all axes.
    pub(super) layout: &'a Layout<'p>,
    pub(super) grounds: &'a Grounds<'p>,
    pub(super) axis: Option<usize>,
    pub(super) places: &'a Places,
    pub(super) pieces: BTreeMap<Key, Draft>,
    /// How the results of the step are stored, by the number of the layout.
    stored: Vec<Vec<Sharding>>,
    /// The number of every value that is a result and no next value of an argument.
    shown: FxHashMap<ValueId, usize>,
}

impl<'a, 'p> Drafts<'a, 'p> {
    pub(super) fn new(grounds: &'a Grounds<'p>, axis: Option<usize>, places: &'a Places) -> Drafts<'a, 'p> {
        let layout = &grounds.layouts[0];
        let results = layout.program.body().results.iter().enumerate();
        let is_state = |index: usize| layout.anatomy.next.contains(&Some(index));
        let shown = results.filter(|&(index, _)| !is_state(index)).map(|(index, &value)| (value, index)).collect();
        let stored = grounds.layouts.iter().map(all_stored_results).collect();
        Drafts { layout, grounds, axis, places, pieces: BTreeMap::new(), stored, shown }
    }

    /// Finds what all pieces read, with a view of every layout. The error says what cannot be had so.
    pub(super) fn fill(&mut self, views: &mut [View<'_, '_, '_>]) -> Result<(), (String, Option<String>)> {
        let program = self.layout.program;
        for &op in &program.body().ops {
            for &key in &self.places.of[op.index()] {
                self.pieces.entry(key).or_default().ops.push(op);
            }
        }
        let keys: Vec<Key> = self.pieces.keys().copied().collect();
        for key in keys {
            for (value, wanted) in self.read_by(&views[self.grounds.number(key.chunk)], key) {
                self.read(views, key, value, &wanted)?;
            }
        }
        Ok(())
    }

    /// What the ops of a piece read that is made elsewhere. Barriers read no more than what is read of them.
    fn read_by(&self, view: &View<'_, '_, '_>, key: Key) -> Vec<(ValueId, Sharding)> {
        let program = self.layout.program;
        let layout = self.grounds.layout(key.chunk);
        let mut reads = Vec::new();
        let mut needed: FxHashSet<ValueId> = FxHashSet::default();
        for &op in self.pieces[&key].ops.iter().rev() {
            let found: Vec<(ValueId, Sharding)> = match program.ops[op].op {
                Op::OptimizationBarrier => passed(view, layout, op)
                    .into_iter()
                    .filter(|(result, ..)| needed.contains(result) || program.body().results.contains(result))
                    .map(|(_, value, wanted)| (value, wanted))
                    .collect(),
                _ => {
                    let reads = self.places.reads[op.index()].iter();
                    reads.map(|(value, wanted)| (*value, wanted.within(&layout.mesh))).collect()
                }
            };
            needed.extend(found.iter().map(|(value, _)| *value));
            reads.extend(found);
        }
        reads.reverse();
        let is_own =
            |value: ValueId| program.producer(value).is_some_and(|maker| self.places.of[maker.index()].contains(&key));
        reads.retain(|(value, _)| !is_own(*value));
        reads
    }

    fn give(&mut self, key: Key, value: ValueId, sharding: &Sharding, source: Source) {
        let draft = self.pieces.entry(key).or_default();
        if draft.given.add(value, sharding).1 {
            draft.sources.push(source);
        }
    }

    /// Has a piece give a form of a value to another, or what both of their meshes can have of it.
    fn hand_over(&mut self, from: Key, to: Key, value: ValueId, sharding: &Sharding) {
        let sharding = self.grounds.common(from.chunk, to.chunk, sharding);
        self.pieces.entry(from).or_default().gives.add(value, &sharding);
        self.give(to, value, &sharding, Source::Piece(from));
    }

    /// Gets a piece what it reads.
    fn read(
        &mut self,
        views: &mut [View<'_, '_, '_>],
        key: Key,
        value: ValueId,
        wanted: &Sharding,
    ) -> Result<(), (String, Option<String>)> {
        let program = self.layout.program;
        let Some(maker) = program.producer(value) else {
            self.read_argument(&mut views[self.grounds.number(key.chunk)], key, value, wanted);
            return Ok(());
        };
        let Some(from) = self.source(maker, key) else {
            return Err((format!("{value} is read in a piece but made in none"), None));
        };
        let view = &mut views[self.grounds.number(from.chunk)];
        match (from.is_inside(), key.is_inside()) {
            (true, true) => self.hand_over(from, key, value, &view.left(value, self.axis)),
            (true, false) => {
                let finished = self.accumulate(view, from, value)?;
                let home = Key::new(from.chunk, PieceKind::Update);
                if home != key {
                    self.hand_over(home, key, value, &self.stored_or(value, finished));
                }
            }
            (false, true) => {
                let left = view.left(value, None);
                let form = if view.is_kept(value, &left, wanted) { wanted } else { &left };
                self.hand_over(from, key, value, form);
            }
            (false, false) => {
                let left = view.left(value, None);
                self.hand_over(from, key, value, &self.stored_or(value, left));
            }
        }
        Ok(())
    }

    /// How an update gives a value to another. What is a result of the step as well goes as that is stored, so that
    /// whoever receives a gradient has what the step gives back: finished, and in a form that all stages can have.
    fn stored_or(&self, value: ValueId, left: Sharding) -> Sharding {
        let Some(&index) = self.shown.get(&value) else { return left };
        let stored = self.stored[0][index].clone();
        self.grounds.layouts.iter().fold(stored, |form, layout| form.within(&layout.mesh))
    }

    fn read_argument(&mut self, view: &mut View<'_, '_, '_>, key: Key, value: ValueId, wanted: &Sharding) {
        let index = argument_index(self.layout.program, value);
        let stored = self.grounds.layout(key.chunk).stored(value);
        let whole = Source::Argument { index, is_tile: false };
        if !key.is_inside() {
            return self.give(key, value, &stored, whole);
        }
        if let Some(tile) = self.tile(&stored, wanted) {
            return self.give(key, value, &tile, Source::Argument { index, is_tile: true });
        }
        if view.is_kept(value, &stored, wanted) {
            let prepare = Key::new(key.chunk, PieceKind::Prepare);
            self.give(prepare, value, &stored, whole);
            return self.hand_over(prepare, key, value, wanted);
        }
        self.give(key, value, &stored, whole);
    }

    /// The part of a microbatch of something stored, where that is what is wanted.
    fn tile(&self, stored: &Sharding, wanted: &Sharding) -> Option<Sharding> {
        let axis = self.axis?;
        let on_axis = |piece: &&Piece| self.layout.mesh.axis_of(**piece) == axis;
        let (dim, &piece) =
            wanted.dims.iter().enumerate().find_map(|(dim, pieces)| Some((dim, pieces.iter().find(on_axis)?)))?;
        let mut tile = stored.clone();
        tile.dims[dim].push(piece);
        Some(tile)
    }

    /// Which of the pieces that make something a piece reads it from: one of its own chunk, or else of its
    /// own stage.
    fn source(&self, maker: OpId, reader: Key) -> Option<Key> {
        let keys = &self.places.of[maker.index()];
        let is_near = |key: &&Key| self.grounds.stage(key.chunk) == self.grounds.stage(reader.chunk);
        let own = keys.iter().find(|key| key.chunk == reader.chunk);
        own.or_else(|| keys.iter().find(is_near)).or(keys.first()).copied()
    }

    /// Has something added up over the microbatches, and finished in the first update of its chunk. Gives the
    /// form it then has.
    fn accumulate(
        &mut self,
        view: &View<'_, '_, '_>,
        from: Key,
        value: ValueId,
    ) -> Result<Sharding, (String, Option<String>)> {
        let (given, sum) = match self.axis {
            None => (view.left(value, None), view.left(value, None)),
            Some(axis) => {
                let (given, sum) = view.accumulated(value, axis);
                let on_axis = |piece: &Piece| self.layout.mesh.axis_of(*piece) == axis;
                if !given.partial.iter().any(on_axis) || given.reduction != Reduction::Sum {
                    return Err(self.no_sum(value, axis));
                }
                (given, sum)
            }
        };
        let home = Key::new(from.chunk, PieceKind::Update);
        let finished = if self.axis.is_some() { view.finished(value, &sum) } else { sum.clone() };
        self.pieces.entry(from).or_default().gives.add(value, &given);
        let is_new = self.pieces.entry(home).or_default().given.place(value, &sum).is_none();
        self.give(home, value, &sum, Source::Sum { piece: from, given });
        if is_new && self.axis.is_some() {
            self.pieces.entry(home).or_default().finished.push(value);
        }
        Ok(finished)
    }

    fn no_sum(&self, value: ValueId, axis: usize) -> (String, Option<String>) {
        let program = self.layout.program;
        let axis = &self.layout.mesh.axes[axis].name;
        let maker = program.producer(value).map(|op| &program.ops[op]);
        let scope = maker.map(|operation| program.locations[operation.location].modules().join("/"));
        let scope = scope.filter(|scope| !scope.is_empty()).map(|scope| format!(" in `{scope}`")).unwrap_or_default();
        let name = maker.map_or("an argument", |operation| operation.op.name());
        let message = format!(
            "what `{name}`{scope} makes is needed for all microbatches of `{axis}` at once, and is no sum over them"
        );
        (message, Some("use one microbatch, or have the step give back what is a sum or a mean".to_owned()))
    }

    /// Has pieces give back the results of the step.
    pub(super) fn results(&mut self, views: &mut [View<'_, '_, '_>]) -> Result<Vec<Made>, (String, Option<String>)> {
        let stored = self.stored.clone();
        let values = self.layout.program.body().results.iter().enumerate();
        values.map(|(index, &value)| self.result(views, value, &|number| stored[number][index].clone())).collect()
    }

    /// Has pieces give back a result, which is stored so in the layout of a number.
    fn result(
        &mut self,
        views: &mut [View<'_, '_, '_>],
        value: ValueId,
        stored: &dyn Fn(usize) -> Sharding,
    ) -> Result<Made, (String, Option<String>)> {
        let program = self.layout.program;
        let Some(maker) = program.producer(value) else {
            return Ok(Made::Argument(argument_index(program, value)));
        };
        let first = Key::new(0, PieceKind::Update);
        if self.layout.is_free(value) {
            let rank = program.shape(value).len();
            for (source, wanted) in views[self.grounds.number(0)].sources(value, &Sharding::whole(rank)) {
                let is_own =
                    program.producer(source).is_some_and(|maker| self.places.of[maker.index()].contains(&first));
                if !is_own {
                    self.read(views, first, source, &wanted)?;
                }
            }
            return Ok(self.made(vec![first], value, stored));
        }
        let keys = &self.places.of[maker.index()];
        // Once on every stage, and not while microbatches run where it can be had before or after.
        let mut pieces: Vec<Key> = Vec::new();
        for &key in keys.iter().filter(|key| !key.is_inside()) {
            if pieces.iter().all(|other| self.grounds.stage(other.chunk) != self.grounds.stage(key.chunk)) {
                pieces.push(key);
            }
        }
        if !pieces.is_empty() {
            return Ok(self.made(pieces, value, stored));
        }
        let Some(&from) = keys.first() else {
            return Err((format!("result {value} is made in no piece"), None));
        };
        let number = self.grounds.number(from.chunk);
        let left = views[number].left(value, self.axis);
        if let Some(tile) = self.tile(&stored(number), &left) {
            return Ok(self.made(vec![from], value, &|_| tile.clone()));
        }
        self.accumulate(&views[number], from, value)?;
        Ok(self.made(vec![Key::new(from.chunk, PieceKind::Update)], value, stored))
    }

    /// The form in which an update gives a result to another already: it need not make a second one.
    fn handed_over(&self, key: Key, value: ValueId) -> Option<Sharding> {
        let is_given = |(given, _): &&(ValueId, Sharding)| *given == value;
        let draft = self.pieces.get(&key).filter(|_| !key.is_inside() && self.shown.contains_key(&value))?;
        draft.gives.list.iter().find(is_given).map(|(_, sharding)| sharding.clone())
    }

    fn made(&mut self, pieces: Vec<Key>, value: ValueId, stored: &dyn Fn(usize) -> Sharding) -> Made {
        let with_form = |key: Key| {
            let sharding = self.handed_over(key, value).unwrap_or_else(|| stored(self.grounds.number(key.chunk)));
            self.pieces.entry(key).or_default().gives.add(value, &sharding);
            (key, sharding)
        };
        Made::In(pieces.into_iter().map(with_form).collect())
    }
}

/// How the results of the step are stored.
fn all_stored_results(layout: &Layout<'_>) -> Vec<Sharding> {
    let arguments: Vec<_> = layout.program.body().arguments.iter().map(|&value| layout.stored(value)).collect();
    stored_results(layout, &arguments)
}

fn argument_index(program: &Program, value: ValueId) -> usize {
    match program.values[value].definition {
        Definition::Argument { index, .. } => index as usize,
        Definition::Result { .. } => 0,
    }
}
