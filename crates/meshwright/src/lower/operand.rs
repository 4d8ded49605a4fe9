//! Ops with their operands as a strategy wants them.

use smallvec::SmallVec;

use super::Reason;
use super::emit::Emitter;
use super::reshard::{Move, Step};
use crate::program::{Op, OpId, ValueId, Values};
use crate::shard::{Carried, Kind, Labels, Reduction, Sharding, Strategy};

/// The results of an op, and how they lie.
type Localized = (Values, SmallVec<[Sharding; 1]>);

impl Emitter<'_, '_, '_> {
    /// Emits an op under a strategy. Gives its results and how they lie.
    pub(super) fn localized(&mut self, op: OpId, strategy: &Strategy) -> Result<Localized, String> {
        if let Some(narrowed) = self.narrowed(op, strategy)? {
            return Ok(narrowed);
        }
        let operation = &self.old.ops[op];
        let mut operands = Values::new();
        let mut wanted = Vec::with_capacity(operation.operands.len());
        for (index, &value) in operation.operands.iter().enumerate() {
            let sharding = self.wanted_under(op, strategy, index);
            let local = self.get(value, &sharding, Reason::Read { by: op })?;
            operands.push(self.masked(local, op, index, strategy, &sharding)?);
            wanted.push(sharding);
        }
        let shardings = self.layout.produced_by(op, strategy);
        let results = self.local_op(op, &operands, &wanted, &shardings)?;
        Ok((results, shardings))
    }

    /// What is gathered only to be made narrower is made narrower first, so that less is gathered.
    fn narrowed(&mut self, op: OpId, strategy: &Strategy) -> Result<Option<Localized>, String> {
        let operation = &self.old.ops[op];
        let Op::Convert { dtype } = operation.op else { return Ok(None) };
        let operand = operation.operands[0];
        if dtype.bits() >= self.old.ty(operand).dtype.bits() {
            return Ok(None);
        }
        let shardings = self.layout.produced_by(op, strategy);
        let Some((source, moves)) = self.gathers(operand, &self.wanted_under(op, strategy, 0), op) else {
            return Ok(None);
        };
        let ((value, from), result) = (source, operation.results[0]);
        let value = self.apply(operation.op.clone(), &[value])?;
        let value = self.follow(value, result, &from, &moves)?;
        self.tell_reshard(result, Reason::Made { by: op }, from, moves);
        Ok(Some(([value].into_iter().collect(), shardings)))
    }

    /// How an op needs an operand.
    pub(super) fn wanted(&self, op: OpId, operand: usize) -> Sharding {
        self.wanted_under(op, self.layout.strategy(op), operand)
    }

    fn wanted_under(&self, op: OpId, strategy: &Strategy, operand: usize) -> Sharding {
        let rule = self.layout.rule(op);
        let mut sharding = strategy.sharding(rule, self.mesh, &rule.operands[operand]);
        self.add_partial(&mut sharding, op, strategy, operand);
        sharding
    }

    /// What an operand has to be partial over: what the op carries, and what cuts the reduced
    /// factors that other operands added with it have and it lacks.
    pub(super) fn add_partial(&self, sharding: &mut Sharding, op: OpId, strategy: &Strategy, operand: usize) {
        let rule = self.layout.rule(op);
        if let Some(Carried { pieces, reduction }) = self.layout.carried(op)
            && self.carries(op, operand, *reduction)
        {
            sharding.partial.extend(pieces.iter().copied());
            sharding.reduction = *reduction;
        }
        let Some(reduction) = strategy.reduction(rule) else { return };
        let Some(carry) = rule.carry(operand, reduction).filter(|carry| carry.operands.len() > 1) else { return };
        for (id, (factor, pieces)) in rule.factors.iter().zip(&strategy.factors).enumerate() {
            let has = |labels: &Labels| labels.iter().flatten().any(|&label| usize::from(label) == id);
            let added_with = carry.operands.iter().any(|&other| has(&rule.operands[usize::from(other)]));
            if matches!(factor.kind, Kind::Reduced(_)) && !has(&rule.operands[operand]) && added_with {
                sharding.partial.extend(pieces.iter().copied());
                sharding.reduction = reduction;
            }
        }
        sharding.partial.sort_unstable();
    }

    /// Whether an operand is one of those that an op carries on.
    fn carries(&self, op: OpId, operand: usize, reduction: Reduction) -> bool {
        let operands = &self.old.ops[op].operands;
        let is_partial = |index: &u16| !self.layout.sharding(operands[usize::from(*index)]).partial.is_empty();
        self.layout.rule(op).carry(operand, reduction).is_some_and(|carry| carry.operands.iter().any(is_partial))
    }

    /// An operand with what changes nothing in the place of padding along reduced factors.
    fn masked(
        &mut self,
        value: ValueId,
        op: OpId,
        operand: usize,
        strategy: &Strategy,
        sharding: &Sharding,
    ) -> Result<ValueId, String> {
        let (rule, operation) = (self.layout.rule(op), &self.old.ops[op]);
        let Some(reduction) = strategy.reduction(rule) else { return Ok(value) };
        // A lookup answers only for what is there.
        if matches!(operation.op, Op::Gather(_)) || rule.carry(operand, reduction).is_none() {
            return Ok(value);
        }
        let mut value = value;
        let shape = self.old.shape(operation.operands[operand]);
        for (dim, factors) in rule.operands[operand].iter().enumerate() {
            let is_reduced = |&id: &u16| matches!(rule.factors[usize::from(id)].kind, Kind::Reduced(_));
            if factors.iter().any(is_reduced) && sharding.is_padded(self.mesh, dim, shape[dim]) {
                let ty = self.new.ty(value).clone();
                let inside = self.inside(&ty.shape, dim, &sharding.dims[dim], shape[dim])?;
                let neutral = self.splat(&ty, reduction.neutral(ty.dtype))?;
                value = self.apply(Op::Select, &[inside, value, neutral])?;
            }
        }
        Ok(value)
    }

    /// Makes a free value in the form that is wanted.
    pub(super) fn materialize(&mut self, old: ValueId, wanted: &Sharding, reason: Reason) -> Result<ValueId, String> {
        let Some(op) = self.old.producer(old) else { return Err(format!("{old} is nobody's result")) };
        let finished = wanted.finished();
        let value = if wanted.partial.is_empty() {
            let (before, location) = (self.op, self.location);
            (self.op, self.location) = (op, self.old.ops[op].location);
            let value = self.materialize_cut(op, &finished)?;
            (self.op, self.location) = (before, location);
            value
        } else {
            let value = self.get(old, &finished, reason)?;
            let step = Step::Spread { pieces: wanted.partial, reduction: wanted.reduction };
            self.step(value, self.old.ty(old), &finished, &step, wanted)?
        };
        self.add_copy(old, value, wanted.clone());
        Ok(value)
    }

    fn materialize_cut(&mut self, op: OpId, wanted: &Sharding) -> Result<ValueId, String> {
        let (rule, operation) = (self.layout.rule(op), &self.old.ops[op]);
        let strategy = Strategy::from_result(rule, self.mesh, &rule.results[0], wanted);
        let is_literal = matches!(&operation.op, Op::Constant(literal) if literal.as_splat().is_none());
        if !is_literal && strategy.sharding(rule, self.mesh, &rule.results[0]) == *wanted {
            return Ok(self.localized(op, &strategy)?.0[0]);
        }
        let mut value = self.localized(op, &Strategy::whole(rule))?.0[0];
        let mut from = Sharding::whole(wanted.dims.len());
        for (dim, pieces) in wanted.dims.iter().enumerate().filter(|(_, pieces)| !pieces.is_empty()) {
            let mut to = from.clone();
            to.dims[dim] = *pieces;
            let Move { step, to } = Move { step: Step::Slice { dim, pieces: *pieces }, to };
            value = self.step(value, self.old.ty(operation.results[0]), &from, &step, &to)?;
            from = to;
        }
        Ok(value)
    }

    /// The local shapes of values that lie so.
    pub(super) fn local_shapes(
        &self,
        values: &[ValueId],
        shardings: &[Sharding],
    ) -> SmallVec<[SmallVec<[usize; 4]>; 4]> {
        values.iter().zip(shardings).map(|(&value, lies)| lies.local_shape(self.mesh, self.old.shape(value))).collect()
    }
}
