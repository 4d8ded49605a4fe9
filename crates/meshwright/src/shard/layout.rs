//! The layout of a program on a mesh: the shardings of its values and the strategies of its ops.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::free::free_values;
use super::mesh::Mesh;
use super::pieces::{Piece, PieceSet, Pieces};
use super::rule::{FactorId, Kind, Rule};
use super::rules::rule;
use super::sharding::{Reduction, Sharding};
use super::strategy::Strategy;
use crate::program::{Anatomy, Id, Op, OpId, Program, RegionId, ValueId};

/// Shardings and strategies under way. Decisions are added, never undone.
#[derive(Clone, Debug)]
pub struct Layout<'p> {
    pub program: &'p Program,
    pub mesh: Mesh,
    /// What the parts of the program are for.
    pub anatomy: Arc<Anatomy>,
    /// Ops in program order that have a strategy or tie values: those of the body and of branches and
    /// loops, not those of scalar functions such as a reduction's.
    pub(super) order: Arc<Vec<OpId>>,
    pub(super) rules: Arc<Vec<Rule>>,
    pub(super) strategies: Vec<Strategy>,
    shardings: Vec<Sharding>,
    /// Values that are one and the same thing, such as what a loop carries, stand for one of them.
    representatives: Arc<Vec<ValueId>>,
    /// Values that are made anew wherever they are used; see [`free_values`].
    free: Arc<Vec<bool>>,
    /// Pieces that must not cut a value.
    pub(super) blocked: Vec<PieceSet>,
    /// Pieces that must not cut any factor of an op.
    pub(super) blocked_ops: Vec<PieceSet>,
    /// Pieces that must not cut a factor of an op.
    blocked_factors: FxHashMap<(OpId, FactorId), PieceSet>,
    /// The ops that look at a value, by value.
    users: Arc<Users>,
    /// Per op, the pieces over which its operands stay partial through it, and the reduction.
    carried: Vec<Option<Carried>>,
    /// Pieces whose reductions are done in every trip of a loop in time instead of once after it, so
    /// that only cut sums are kept.
    pub eager: PieceSet,
    /// Pieces in time that cut single ops rather than the whole step: their loops stand where those ops do.
    pub sliced: PieceSet,
    /// Which tactic brought a piece to a value.
    causes: Vec<SmallVec<[(Piece, u16); 4]>>,
    /// The tactic under way.
    pub(super) tactic: u16,
    pub(super) dirty: Vec<bool>,
}

/// What an op carries on instead of finishing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    pub pieces: Pieces,
    pub reduction: Reduction,
}

/// Which ops see each value, in one list cut into runs.
#[derive(Clone, Debug, Default)]
struct Users {
    starts: Vec<u32>,
    ops: Vec<OpId>,
}

impl<'p> Layout<'p> {
    /// Everything whole.
    pub fn new(program: &'p Program, mesh: Mesh) -> Layout<'p> {
        let mut order = Vec::new();
        collect_ops(program, program.body, &mut order);
        let mut rules = Vec::new();
        rules.resize_with(program.ops.len(), Rule::default);
        for &op in &order {
            rules[op.index()] = rule(program, op);
        }
        let representatives = representatives(program, &order);
        let layout = Layout {
            program,
            mesh: Mesh::default(),
            anatomy: Arc::new(program.anatomy()),
            users: Arc::new(Users::new(program, &order, &representatives)),
            free: Arc::new(free_values(program, &order)),
            representatives: Arc::new(representatives),
            rules: Arc::new(rules),
            order: Arc::new(order),
            strategies: Vec::new(),
            shardings: Vec::new(),
            blocked: Vec::new(),
            blocked_ops: Vec::new(),
            blocked_factors: FxHashMap::default(),
            carried: Vec::new(),
            eager: PieceSet::default(),
            sliced: PieceSet::default(),
            causes: Vec::new(),
            tactic: 0,
            dirty: Vec::new(),
        };
        layout.on(mesh)
    }

    /// The same program on another mesh, everything whole.
    pub(crate) fn on(&self, mesh: Mesh) -> Layout<'p> {
        let program = self.program;
        let mut causes = Vec::new();
        causes.resize_with(program.values.len(), SmallVec::new);
        Layout {
            program,
            mesh,
            anatomy: self.anatomy.clone(),
            order: self.order.clone(),
            rules: self.rules.clone(),
            strategies: self.rules.iter().map(Strategy::whole).collect(),
            shardings: program.values.iter().map(|(_, value)| Sharding::whole(value.ty.rank())).collect(),
            representatives: self.representatives.clone(),
            free: self.free.clone(),
            blocked: vec![PieceSet::default(); program.values.len()],
            blocked_ops: vec![PieceSet::default(); program.ops.len()],
            blocked_factors: FxHashMap::default(),
            users: self.users.clone(),
            carried: vec![None; program.ops.len()],
            eager: PieceSet::default(),
            sliced: PieceSet::default(),
            causes,
            tactic: 0,
            dirty: vec![false; program.ops.len()],
        }
    }

    /// What was decided, on a mesh that lacks some axes: what they cut is whole there.
    pub(crate) fn within(&self, mesh: Mesh) -> Layout<'p> {
        let lacked = mesh.lacked();
        let without = |(rule, strategy): (&Rule, &Strategy)| match strategy.used().intersects(lacked) {
            true => strategy.without(rule, &mesh, lacked),
            false => strategy.clone(),
        };
        let carried = |carried: &Option<Carried>| {
            let Carried { pieces, reduction } = carried.as_ref()?;
            let pieces = pieces.iter().copied().filter(|&piece| !lacked.contains(piece)).collect();
            Some(Carried { pieces, reduction: *reduction })
        };
        Layout {
            strategies: self.rules.iter().zip(&self.strategies).map(without).collect(),
            shardings: self.shardings.iter().map(|lies| lies.within(&mesh)).collect(),
            carried: self.carried.iter().map(carried).collect(),
            mesh,
            ..self.clone()
        }
    }

    /// How a value lies.
    pub fn sharding(&self, value: ValueId) -> &Sharding {
        &self.shardings[self.representative(value).index()]
    }

    pub fn rule(&self, op: OpId) -> &Rule {
        &self.rules[op.index()]
    }

    pub fn strategy(&self, op: OpId) -> &Strategy {
        &self.strategies[op.index()]
    }

    pub fn is_free(&self, value: ValueId) -> bool {
        self.free[value.index()]
    }

    pub fn ops(&self) -> &[OpId] {
        &self.order
    }

    /// Takes pieces away from everything inside of an op and from what it passes on, and keeps them
    /// away: a loop that cannot be cut so runs whole.
    pub(crate) fn strip(&mut self, op: OpId, pieces: PieceSet) {
        let program = self.program;
        let operation = &program.ops[op];
        let (rule, strategy) = (&self.rules[op.index()], &self.strategies[op.index()]);
        self.strategies[op.index()] = strategy.without(rule, &self.mesh, pieces);
        self.block_op(op, pieces);
        let inner = operation.regions.iter().map(|&region| &program.regions[region]);
        let values = inner.clone().flat_map(|region| region.arguments.iter().chain(&region.results));
        for &value in operation.results.iter().chain(values) {
            let index = self.representative(value).index();
            for dim in &mut self.shardings[index].dims {
                let keep = dim.iter().take_while(|piece| !pieces.contains(**piece)).count();
                dim.truncate(keep);
            }
            self.block(value, pieces);
        }
        if is_tie(&operation.op) {
            for &inner in inner.flat_map(|region| &region.ops) {
                self.strip(inner, pieces);
            }
        }
    }

    /// The tactic that brought a piece to a value.
    pub fn cause(&self, value: ValueId, piece: Piece) -> Option<u16> {
        let causes = &self.causes[self.representative(value).index()];
        causes.iter().find(|(known, _)| *known == piece).map(|&(_, tactic)| tactic)
    }

    /// How an argument or result of the program is stored: as its value lies, but whole along
    /// dimensions that do not divide, and never in parts over time.
    pub fn stored(&self, value: ValueId) -> Sharding {
        let mut sharding = self.sharding(value).finished();
        for (dim, &size) in self.program.shape(value).iter().enumerate() {
            let spatial: Pieces =
                sharding.dims[dim].iter().copied().take_while(|&piece| !self.mesh.is_temporal(piece)).collect();
            let divides = size.is_multiple_of(self.mesh.product(&spatial));
            sharding.dims[dim] = if divides { spatial } else { Pieces::new() };
        }
        sharding
    }

    pub(super) fn representative(&self, value: ValueId) -> ValueId {
        self.representatives[value.index()]
    }

    /// What is decided from here on is this tactic's.
    pub fn begin_tactic(&mut self, number: u16) {
        self.tactic = number;
    }

    /// Forbids pieces on a value from now on.
    pub fn block(&mut self, value: ValueId, pieces: PieceSet) {
        let index = self.representative(value).index();
        self.blocked[index] = self.blocked[index].union(pieces);
    }

    /// Forbids pieces in the strategy of an op from now on.
    pub fn block_op(&mut self, op: OpId, pieces: PieceSet) {
        let blocked = &mut self.blocked_ops[op.index()];
        *blocked = blocked.union(pieces);
    }

    /// Forbids pieces on a factor of an op from now on.
    pub fn block_factor(&mut self, op: OpId, factor: FactorId, pieces: PieceSet) {
        let blocked = self.blocked_factors.entry((op, factor)).or_default();
        *blocked = blocked.union(pieces);
    }

    /// The pieces that must not cut a factor of an op.
    pub(super) fn blocked_on(&self, op: OpId, factor: FactorId) -> PieceSet {
        let factor = self.blocked_factors.get(&(op, factor)).copied().unwrap_or_default();
        self.blocked_ops[op.index()].union(factor)
    }

    /// Whether some of the pieces are forbidden in the strategy of an op.
    pub fn is_blocked(&self, op: OpId, pieces: PieceSet) -> bool {
        self.blocked_ops[op.index()].intersects(pieces)
    }

    /// Whether nobody keeps a piece off a value.
    pub(crate) fn may_ever_cut(&self, value: ValueId, piece: Piece) -> bool {
        !self.blocked[self.representative(value).index()].contains(piece)
    }

    /// Whether a piece may cut a dimension of a value as well.
    pub fn may_cut(&self, value: ValueId, dim: usize, piece: Piece) -> bool {
        let index = self.representative(value).index();
        let sharding = &self.shardings[index];
        let size = self.program.shape(value)[dim];
        let parts = self.mesh.product(&sharding.dims[dim]) * self.mesh.size(piece);
        !self.free[value.index()]
            && !self.blocked[index].contains(piece)
            && !sharding.used().contains(piece)
            && parts <= size
            && self.mesh.may_follow(&sharding.dims[dim], piece, size)
    }

    /// Cuts a dimension of a value by one more piece, which [`may_cut`](Layout::may_cut) allows.
    pub fn cut(&mut self, value: ValueId, dim: usize, piece: Piece) {
        let index = self.representative(value).index();
        self.shardings[index].dims[dim].push(piece);
        self.causes[index].push((piece, self.tactic));
        for &op in self.users.of(index) {
            self.dirty[op.index()] = true;
        }
    }

    /// Takes back all that was decided about some ops and what they read and make.
    pub(crate) fn clear(&mut self, ops: &[OpId]) {
        for &op in ops {
            self.strategies[op.index()] = Strategy::whole(&self.rules[op.index()]);
            let operation = &self.program.ops[op];
            for &value in operation.operands.iter().chain(&operation.results) {
                let index = self.representative(value).index();
                self.shardings[index] = Sharding::whole(self.program.shape(value).len());
                self.causes[index].clear();
            }
        }
    }

    /// Says how a value lies. One that is partial is finished by whoever reads it, or carried on.
    pub(crate) fn set_sharding(&mut self, value: ValueId, lies: &Sharding) {
        let index = self.representative(value).index();
        self.shardings[index] = lies.clone();
    }

    /// What an op carries on partial.
    pub fn carried(&self, op: OpId) -> Option<&Carried> {
        self.carried[op.index()].as_ref()
    }

    pub(crate) fn set_carried(&mut self, op: OpId, carried: Carried) {
        self.carried[op.index()] = Some(carried);
    }

    /// How the results of an op come out, before they are finished or moved.
    pub fn produced(&self, op: OpId) -> SmallVec<[Sharding; 1]> {
        if is_tie(&self.program.ops[op].op) {
            return self.program.ops[op].results.iter().map(|&result| self.sharding(result).clone()).collect();
        }
        self.produced_by(op, self.strategy(op))
    }

    /// How the results of an op come out under a strategy.
    pub fn produced_by(&self, op: OpId, strategy: &Strategy) -> SmallVec<[Sharding; 1]> {
        let rule = self.rule(op);
        let carried = self.carried(op);
        let produce = |labels| {
            let mut sharding = strategy.result(rule, &self.mesh, labels);
            if let Some(Carried { pieces, reduction }) = carried {
                sharding.partial.extend(pieces.iter().copied());
                sharding.partial.sort_unstable();
                sharding.reduction = *reduction;
            }
            sharding
        };
        rule.results.iter().map(produce).collect()
    }

    pub(crate) fn set_strategy(&mut self, op: OpId, strategy: Strategy) {
        self.strategies[op.index()] = strategy;
    }

    /// What cuts the results of an op that reduces: pieces of reduced factors.
    pub fn reduced_pieces(&self, op: OpId) -> PieceSet {
        let (rule, strategy) = (self.rule(op), self.strategy(op));
        let reduced = rule.factors.iter().zip(&strategy.factors).filter(|(f, _)| matches!(f.kind, Kind::Reduced(_)));
        reduced.flat_map(|(_, pieces)| pieces).copied().collect()
    }
}

/// Whether an op only passes values on.
pub(crate) fn is_tie(op: &Op) -> bool {
    matches!(op, Op::Case | Op::If | Op::OptimizationBarrier | Op::While)
}

/// Pairs of values that an op passes on unchanged. In a loop the second is the loop's result, which
/// stands for all that is carried with it.
pub(super) fn ties(program: &Program, op: OpId) -> Vec<(ValueId, ValueId)> {
    let operation = &program.ops[op];
    let with_results = |values: &[ValueId]| values.iter().copied().zip(operation.results.iter().copied()).collect();
    let yields = |region: RegionId| with_results(&program.regions[region].results);
    match operation.op {
        Op::Case | Op::If => operation.regions.iter().flat_map(|&region| -> Vec<_> { yields(region) }).collect(),
        Op::OptimizationBarrier => with_results(&operation.operands),
        Op::While => {
            let mut pairs: Vec<_> = with_results(&operation.operands);
            pairs.extend::<Vec<_>>(yields(operation.regions[1]));
            pairs
        }
        _ => Vec::new(),
    }
}

/// The ops of a region and of the branches and loops in it, in program order.
fn collect_ops(program: &Program, region: RegionId, order: &mut Vec<OpId>) {
    for &op in &program.regions[region].ops {
        order.push(op);
        let operation = &program.ops[op];
        if matches!(operation.op, Op::Case | Op::If | Op::While) {
            for &inner in &operation.regions {
                collect_ops(program, inner, order);
            }
        }
    }
}

fn representatives(program: &Program, order: &[OpId]) -> Vec<ValueId> {
    let mut representatives: Vec<ValueId> = program.values.ids().collect();
    for &op in order {
        let operation = &program.ops[op];
        if operation.op != Op::While {
            continue;
        }
        for &region in &operation.regions {
            for (&argument, &result) in program.regions[region].arguments.iter().zip(&operation.results) {
                representatives[argument.index()] = result;
            }
        }
    }
    representatives
}

impl Users {
    fn new(program: &Program, order: &[OpId], representatives: &[ValueId]) -> Users {
        let mut pairs: Vec<(ValueId, OpId)> = Vec::with_capacity(3 * order.len());
        for &op in order {
            let operation = &program.ops[op];
            let seen = operation.operands.iter().chain(&operation.results);
            pairs.extend(seen.map(|value| (representatives[value.index()], op)));
            if matches!(operation.op, Op::Case | Op::If | Op::While) {
                let yields = operation.regions.iter().flat_map(|&region| &program.regions[region].results);
                pairs.extend(yields.map(|value| (representatives[value.index()], op)));
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        let mut starts = vec![0; program.values.len() + 1];
        for (value, _) in &pairs {
            starts[value.index() + 1] += 1;
        }
        for index in 1..starts.len() {
            starts[index] += starts[index - 1];
        }
        Users { starts, ops: pairs.into_iter().map(|(_, op)| op).collect() }
    }

    fn of(&self, value: usize) -> &[OpId] {
        &self.ops[self.starts[value] as usize..self.starts[value + 1] as usize]
    }
}
