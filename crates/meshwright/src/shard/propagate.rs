//! Propagation: what one value's sharding says about the others.

use std::sync::Arc;

use super::layout::{Layout, ties};
use super::mesh::Mesh;
use super::pieces::Piece;
use super::rule::{FactorId, Rule};
use super::strategy::{Strategy, split_pieces};
use crate::program::{Id, Op, OpId, ValueId};

impl Layout<'_> {
    /// Carries cuts from value to value, forward, backward and sideways, until nothing changes. What
    /// an earlier decision took stays taken.
    pub fn propagate(&mut self) {
        let order = Arc::clone(&self.order);
        while self.dirty.contains(&true) {
            for &op in order.iter().chain(order.iter().rev()) {
                if std::mem::replace(&mut self.dirty[op.index()], false) {
                    self.visit(op);
                }
            }
        }
    }

    /// The same among some ops only, which are in program order.
    pub(crate) fn propagate_within(&mut self, ops: &[OpId]) {
        loop {
            let mut any = false;
            for &op in ops.iter().chain(ops.iter().rev()) {
                if std::mem::replace(&mut self.dirty[op.index()], false) {
                    self.visit(op);
                    any = true;
                }
            }
            if !any {
                return;
            }
        }
    }

    fn visit(&mut self, op: OpId) {
        let operation = &self.program.ops[op];
        if matches!(operation.op, Op::Case | Op::If | Op::OptimizationBarrier | Op::While) {
            for (first, second) in ties(self.program, op) {
                self.follow(first, second);
                self.follow(second, first);
            }
            return;
        }
        // Free values are made as they are needed and say nothing.
        if operation.results.iter().any(|&result| self.is_free(result)) {
            return;
        }
        self.extend_strategy(op);
        self.cut_values(op);
    }

    /// Cuts `to` as `from` is cut, as far as it may be.
    fn follow(&mut self, from: ValueId, to: ValueId) {
        if self.is_free(from) {
            return;
        }
        for dim in 0..self.program.shape(from).len() {
            let pieces = self.sharding(from).dims[dim];
            self.lengthen(to, dim, &pieces);
        }
    }

    /// Cuts a dimension by those of `pieces` it lacks, where what it has is their beginning.
    fn lengthen(&mut self, value: ValueId, dim: usize, pieces: &[Piece]) {
        let have = self.sharding(value).dims[dim].len();
        if have >= pieces.len() || self.sharding(value).dims[dim][..] != pieces[..have] {
            return;
        }
        for &piece in &pieces[have..] {
            if !self.may_cut(value, dim, piece) {
                return;
            }
            self.cut(value, dim, piece);
        }
    }

    /// Cuts factors as the operands and results are cut.
    fn extend_strategy(&mut self, op: OpId) {
        let operation = &self.program.ops[op];
        let mut strategy = std::mem::take(&mut self.strategies[op.index()]);
        let rule = &self.rules[op.index()];
        let tensors = operation.operands.iter().zip(&rule.operands).chain(operation.results.iter().zip(&rule.results));
        for (&value, labels) in tensors {
            if self.is_free(value) {
                continue;
            }
            for (pieces, factors) in self.sharding(value).dims.iter().zip(labels) {
                if pieces.is_empty() {
                    continue;
                }
                split_pieces(rule, &self.mesh, factors, pieces, |factor, pieces| {
                    let blocked = self.blocked_on(op, factor);
                    let have = &strategy.factors[usize::from(factor)];
                    // What is there already stays.
                    let is_allowed = |(index, piece): &(usize, &Piece)| {
                        have.get(*index) == Some(piece) || !blocked.contains(**piece)
                    };
                    let allowed = pieces.iter().enumerate().take_while(is_allowed).count();
                    extend(&mut strategy, rule, &self.mesh, factor, &pieces[..allowed]);
                });
            }
        }
        self.strategies[op.index()] = strategy;
    }

    /// Cuts operands and results as the factors are cut.
    fn cut_values(&mut self, op: OpId) {
        if self.strategies[op.index()].used().is_empty() {
            return;
        }
        let operation = &self.program.ops[op];
        for tensor in 0..operation.operands.len() + operation.results.len() {
            let operands = operation.operands.len();
            let value =
                if tensor < operands { operation.operands[tensor] } else { operation.results[tensor - operands] };
            if self.is_free(value) {
                continue;
            }
            let rule = &self.rules[op.index()];
            let labels = if tensor < operands { &rule.operands[tensor] } else { &rule.results[tensor - operands] };
            let wanted = self.strategies[op.index()].sharding(rule, &self.mesh, labels);
            for (dim, pieces) in wanted.dims.iter().enumerate() {
                self.lengthen(value, dim, pieces);
            }
        }
    }
}

/// Adds to a factor those of `pieces` it lacks, where what it has is their beginning.
fn extend(strategy: &mut Strategy, rule: &Rule, mesh: &Mesh, factor: FactorId, pieces: &[Piece]) {
    let id = usize::from(factor);
    let have = strategy.factors[id].len();
    if have >= pieces.len() || strategy.factors[id][..] != pieces[..have] {
        return;
    }
    for &piece in &pieces[have..] {
        if strategy.may_add(rule, mesh, factor, piece).is_err() {
            return;
        }
        strategy.factors[id].push(piece);
    }
}
