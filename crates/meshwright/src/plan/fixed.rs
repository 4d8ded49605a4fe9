//! What was decided before planning, on a mesh, and what is left to it.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

use super::bundle::source;
use super::choices::Cut;
use super::moves::{Axes, Place};
use super::time::Time;
use super::told::Told;
use crate::program::{ArgumentClass, Id, OpId, Phase, ValueId, is_heavy};
use crate::shard::{Layout, Mesh, Piece, PieceSet, Pieces, Sharding};
use crate::tactics::{Action, Freedom, Preset, Tactic, act, apply, check_stored};

/// What was decided, on a mesh.
pub(super) struct Fixed<'p> {
    /// As those tactics leave it that are not about parameters and state by name: how these are stored is fixed, not
    /// how they are used.
    used: Layout<'p>,
    /// The same where they are stored as said.
    stored: Layout<'p>,
    /// The same with what follows from how they are stored.
    followed: Layout<'p>,
    /// Pieces that are left to planning.
    free: PieceSet,
    /// What follows from cutting the batch, where planning may cut nothing else of products.
    batch: Option<Time>,
    may_cut_state: bool,
    /// The argument that a value is the next value of.
    argument_of: Vec<Option<ValueId>>,
}

impl<'p> Fixed<'p> {
    pub(super) fn new(base: &Layout<'p>, mesh: &Mesh, told: Told<'_>, batch: usize) -> Result<Fixed<'p>, String> {
        let mut used = base.on(mesh.clone());
        let mut about_state: Vec<(&Tactic, &Action)> = Vec::new();
        for (number, tactic) in told.before.iter().enumerate() {
            // What runs in slices does so whatever the mesh.
            let spatial = tactic.actions.iter().filter(|action| !matches!(action, Action::Split { .. }));
            let (state, actions): (Vec<&Action>, Vec<&Action>) =
                spatial.partition(|action| is_about_state(base, action));
            let actions = actions.into_iter().cloned().collect();
            apply(&mut used, &Tactic { actions, ..tactic.clone() }, number as u16).map_err(|error| error.message)?;
            about_state.extend(state.into_iter().map(|action| (tactic, action)));
        }
        let mut stored = used.clone();
        for (tactic, action) in about_state {
            act(&mut stored, tactic, action).map_err(|(message, _)| message)?;
        }
        check_stored(&stored, told.before).map_err(|error| format!("{}: {}", error.tactic, error.message))?;
        let mut followed = stored.clone();
        followed.propagate();
        let is_cut_in_time = |piece: &Piece| mesh.is_temporal(*piece);
        let mut strategies = used.ops().iter().map(|&op| used.strategy(op));
        if strategies.any(|strategy| strategy.factors.iter().flatten().any(is_cut_in_time)) {
            return Err("what is cut in time has to come after `auto`".to_owned());
        }
        let names = told.auto.axes.as_ref();
        if let Some(name) = names.and_then(|names| names.iter().find(|name| mesh.axis(name).is_none())) {
            return Err(format!("there is no axis `{name}`"));
        }
        let is_free = |piece: &Piece| {
            let name = &mesh.axes[mesh.axis_of(*piece)].name;
            !mesh.is_temporal(*piece) && names.is_none_or(|names| names.contains(name))
        };
        let free = mesh.all_pieces().filter(is_free).collect();
        let may = |freedom: Freedom| told.auto.may(freedom);
        let batch = if may(Freedom::Tensor) { None } else { Some(Time::new(base, batch)?) };
        let body = base.program.body();
        let mut argument_of = vec![None; base.program.values.len()];
        for (&argument, next) in body.arguments.iter().zip(&base.anatomy.next) {
            if let Some(result) = *next {
                argument_of[source(base.program, body.results[result]).index()] = Some(argument);
            }
        }
        Ok(Fixed { stored, followed, used, free, batch, may_cut_state: may(Freedom::State), argument_of })
    }

    /// Where it stands what is decided about an op, and nothing else.
    pub(super) fn layout(&self, op: OpId) -> &Layout<'p> {
        if self.follows_state(op) { &self.followed } else { &self.used }
    }

    /// Whether an op is cut as state is stored, where planning may cut nothing else: the ops of the update, and on the
    /// way to it and from it, such as casts of weights and transposes of gradients, those that the batch does not go
    /// through.
    fn follows_state(&self, op: OpId) -> bool {
        let is_apart = |batch: &Time| {
            let is_update = self.used.anatomy.phase(op) == Phase::Update;
            is_update || !is_heavy(&self.used.program.ops[op].op) && batch.trips(op) == 1
        };
        self.batch.as_ref().is_some_and(is_apart)
    }

    /// Keeps pieces off the values of a layout that they are kept off here.
    pub(super) fn block(&self, layout: &mut Layout<'p>) {
        for value in layout.program.values.ids() {
            let blocked: PieceSet =
                layout.mesh.all_pieces().filter(|&piece| !self.stored.may_ever_cut(value, piece)).collect();
            layout.block(value, blocked);
        }
    }

    /// Whether a value is the next one of an argument.
    pub(super) fn is_stored(&self, value: ValueId) -> bool {
        self.argument_of[value.index()].is_some()
    }

    /// Has next values lie as their arguments are stored, as far as that was said, however they are made.
    pub(super) fn store(&self, axes: &Axes, op: OpId, cut: &mut Cut) {
        for (&value, lies) in self.used.program.ops[op].results.iter().zip(&mut cut.lies) {
            let Some(argument) = self.argument_of[value.index()] else { continue };
            for (axis, pieces) in axes.pieces.iter().enumerate() {
                let dims = &self.stored.sharding(argument).dims;
                match dims.iter().position(|cut| cut.contains(&pieces[0])) {
                    Some(dim) => *lies = lies.with(axis, dim as u32 + 1),
                    None if !self.stored.may_ever_cut(argument, pieces[0]) => *lies = lies.with(axis, 0),
                    None => {}
                }
            }
        }
    }

    /// How a value has to lie, as far as it was said.
    fn lies(&self, op: OpId, value: ValueId) -> &Sharding {
        match self.argument_of[value.index()] {
            Some(argument) => self.stored.sharding(argument),
            None => self.layout(op).sharding(value),
        }
    }

    /// Whether a way to cut an op keeps what is decided, and adds only what is left.
    pub(super) fn allows(&self, axes: &Axes, op: OpId, cut: &Cut) -> bool {
        let is_update = self.used.anatomy.phase(op) == Phase::Update;
        let follows_state = self.follows_state(op);
        let (layout, operation) = (self.layout(op), &self.used.program.ops[op]);
        for (axis, pieces) in axes.pieces.iter().enumerate() {
            let piece = pieces[0];
            let cuts = |factors: &[Pieces]| factors.iter().position(|cut| cut.contains(&piece));
            let (before, after) = (cuts(&layout.strategy(op).factors), cuts(&cut.strategy.factors));
            let is_batch = |factor: usize| {
                let follows = |batch: &Time| batch.factor_trips(op, factor) > 1;
                self.batch.as_ref().is_none_or(follows) || follows_state && self.may_cut_state
            };
            let may_add = self.free.contains(piece) && !layout.is_blocked(op, PieceSet::of(pieces));
            let is_kept = match (before, after) {
                (Some(before), after) => after == Some(before),
                (None, None) => true,
                (None, Some(factor)) => may_add && is_batch(factor) && (!is_update || self.may_cut_state),
            };
            if !is_kept {
                return false;
            }
            for (&value, lies) in operation.results.iter().zip(&cut.lies) {
                let dims = &self.lies(op, value).dims;
                let stored = self.argument_of[value.index()].unwrap_or(value);
                let before = dims.iter().position(|cut| cut.contains(&piece)).map(|dim| dim as u32 + 1);
                let is_cut = (1..=dims.len() as u32).contains(&lies.spot(axis));
                if before.is_some_and(|before| before != lies.spot(axis))
                    || is_cut && before.is_none() && !self.stored.may_ever_cut(stored, piece)
                {
                    return false;
                }
            }
            for (&value, wanted) in operation.operands.iter().zip(&cut.wanted) {
                if layout.program.producer(value).is_none() && !self.may_read(value, axis, piece, *wanted) {
                    return false;
                }
            }
        }
        true
    }

    /// Whether an argument that nothing writes may be read so: it would be stored so.
    fn may_read(&self, value: ValueId, axis: usize, piece: Piece, wanted: Place) -> bool {
        let layout = &self.used;
        let index = layout.program.body().arguments.iter().position(|&argument| argument == value);
        if index.is_some_and(|index| layout.anatomy.next[index].is_some()) {
            return true;
        }
        let dims = &layout.sharding(value).dims;
        let before = dims.iter().position(|cut| cut.contains(&piece)).map(|dim| dim as u32 + 1);
        match before {
            Some(before) => wanted.spot(axis) == before,
            None => wanted.spot(axis) == 0 || layout.may_ever_cut(value, piece),
        }
    }

    /// Equal for ops about which the same was decided.
    pub(super) fn sign(&self, op: OpId, hasher: &mut FxHasher) {
        let (layout, operation) = (self.layout(op), &self.used.program.ops[op]);
        layout.strategy(op).factors.hash(hasher);
        for &value in operation.operands.iter().chain(&operation.results) {
            layout.sharding(value).dims.hash(hasher);
            self.lies(op, value).dims.hash(hasher);
            let blocked = layout.mesh.all_pieces().filter(|&piece| !layout.may_ever_cut(value, piece));
            blocked.for_each(|piece| piece.hash(hasher));
        }
        layout.is_blocked(op, self.free).hash(hasher);
        hasher.write_u8(0);
    }
}

/// Whether an action only says how parameters or state are stored.
fn is_about_state(base: &Layout<'_>, action: &Action) -> bool {
    match action {
        Action::Preset(Preset::Zero1 | Preset::Zero2 | Preset::Zero3) => true,
        Action::Tile { pattern, .. } => {
            let named = base.program.arguments.iter().zip(&base.anatomy.classes);
            let mut named = named.filter(|(argument, _)| pattern.matches(&argument.name));
            named.all(|(_, class)| *class != ArgumentClass::Input)
        }
        Action::Auto(_)
        | Action::KeepWhole(_)
        | Action::Preset(_)
        | Action::Remat(_)
        | Action::Replicate(_)
        | Action::Split { .. }
        | Action::Stages(_) => false,
    }
}
