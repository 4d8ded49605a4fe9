//! Regions of the program, op by op.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::Reason;
use super::emit::Emitter;
use crate::program::{Op, OpId, RegionId, ValueId, Values};
use crate::shard::{Piece, Sharding, is_tie};

impl Emitter<'_, '_, '_> {
    /// The whole program.
    pub(super) fn body(&mut self) -> Result<(), String> {
        let old = self.old;
        self.ops(&old.body().ops)
    }

    pub(super) fn ops(&mut self, ops: &[OpId]) -> Result<(), String> {
        if let Some(axis) = self.axis_to_enter(ops) {
            return self.ops_in_time(axis, ops);
        }
        for &op in ops {
            self.one(op)?;
        }
        Ok(())
    }

    fn one(&mut self, op: OpId) -> Result<(), String> {
        let operation = &self.old.ops[op];
        self.begin(op);
        match operation.op {
            Op::Case | Op::If => self.branch(op),
            Op::OptimizationBarrier => self.barrier(op),
            Op::While => self.repeat(op),
            _ if operation.results.iter().any(|&result| self.layout.is_free(result)) => Ok(()),
            _ => {
                let layout = self.layout;
                let (results, shardings) = self.localized(op, layout.strategy(op))?;
                for ((&old, &new), sharding) in operation.results.iter().zip(&results).zip(&shardings) {
                    self.made(old, new, sharding, op)?;
                }
                Ok(())
            }
        }
    }

    /// A result comes out in some form; what is not meant to stay partial is finished at once.
    fn made(&mut self, old: ValueId, new: ValueId, sharding: &Sharding, by: OpId) -> Result<(), String> {
        let lies = self.in_entered_loops(self.layout.sharding(old));
        self.define(old, new, sharding.clone());
        if sharding.partial != lies.partial && !self.is_waiting(sharding, &lies) {
            self.get(old, &lies, Reason::Made { by })?;
            self.forget(old, sharding);
        }
        Ok(())
    }

    /// Whether a result can only be finished later: a sum over time after its loop, where a tile is put
    /// into another place too.
    pub(super) fn is_waiting(&self, made: &Sharding, lies: &Sharding) -> bool {
        let is_pending = |&piece: &Piece| self.mesh.is_temporal(piece) && !lies.partial.contains(&piece);
        made.partial.iter().any(is_pending) || self.moves_tile(made, lies)
    }

    fn barrier(&mut self, op: OpId) -> Result<(), String> {
        let (layout, operation) = (self.layout, &self.old.ops[op]);
        let (mut operands, mut passed) = (Values::new(), Values::new());
        for (&operand, &result) in operation.operands.iter().zip(&operation.results) {
            if self.needed.as_ref().is_none_or(|needed| needed.contains(&result)) {
                operands.push(self.get(operand, layout.sharding(result), Reason::Read { by: op })?);
                passed.push(result);
            }
        }
        let results = self.apply_all(Op::OptimizationBarrier, &operands, &[])?;
        self.define_all(&passed, &results);
        Ok(())
    }

    fn branch(&mut self, op: OpId) -> Result<(), String> {
        let operation = &self.old.ops[op];
        let chooser = self.get(operation.operands[0], &Sharding::whole(0), Reason::Read { by: op })?;
        let mut regions: SmallVec<[RegionId; 2]> = SmallVec::new();
        for index in 0..operation.regions.len() {
            regions.push(self.inner(op, index)?);
        }
        let results = self.apply_all(operation.op.clone(), &[chooser], &regions)?;
        self.define_all(&operation.results, &results);
        Ok(())
    }

    fn repeat(&mut self, op: OpId) -> Result<(), String> {
        let (layout, operation) = (self.layout, &self.old.ops[op]);
        let mut operands = Values::new();
        for (&operand, &result) in operation.operands.iter().zip(&operation.results) {
            operands.push(self.get(operand, layout.sharding(result), Reason::Read { by: op })?);
        }
        let condition = self.inner(op, 0)?;
        let body = self.inner(op, 1)?;
        let results = self.apply_all(Op::While, &operands, &[condition, body])?;
        self.define_all(&operation.results, &results);
        Ok(())
    }

    /// Writes a region of a branch or loop.
    fn inner(&mut self, op: OpId, index: usize) -> Result<RegionId, String> {
        let (layout, old) = (self.layout, &self.old.regions[self.old.ops[op].regions[index]]);
        let new = self.open();
        for &argument in &old.arguments {
            let sharding = layout.sharding(argument).clone();
            let ty = sharding.local_type(self.mesh, self.old.ty(argument));
            let value = self.new.add_region_argument(new, ty);
            self.define(argument, value, sharding);
        }
        self.ops(&old.ops)?;
        let mut results = Vec::new();
        for (result, &value) in old.results.iter().enumerate() {
            results.push(self.get(value, &self.given(op, index, result), Reason::Read { by: op })?);
        }
        self.new.regions[new].results = results;
        self.close();
        Ok(new)
    }

    /// How a region gives back a result: as the op has it, and where the op has none, whole.
    pub(super) fn given(&self, op: OpId, index: usize, result: usize) -> Sharding {
        let operation = &self.old.ops[op];
        let is_condition = matches!(operation.op, Op::While) && index == 0;
        match operation.results.get(result).filter(|_| is_tie(&operation.op) && !is_condition) {
            Some(&value) => self.layout.sharding(value).clone(),
            None => {
                let value = self.old.regions[operation.regions[index]].results[result];
                Sharding::whole(self.old.shape(value).len())
            }
        }
    }

    fn define_all(&mut self, old: &[ValueId], new: &[ValueId]) {
        let layout = self.layout;
        for (&old, &new) in old.iter().zip(new) {
            self.define(old, new, layout.sharding(old).clone());
        }
    }

    /// A region of scalars, such as a reduction's, as it is.
    pub(super) fn copy_region(&mut self, region: RegionId) -> Result<RegionId, String> {
        self.copy_scalars(region, &mut FxHashMap::default())
    }

    fn copy_scalars(&mut self, region: RegionId, values: &mut FxHashMap<ValueId, ValueId>) -> Result<RegionId, String> {
        let old = &self.old.regions[region];
        let new = self.new.add_region();
        for &argument in &old.arguments {
            values.insert(argument, self.new.add_region_argument(new, self.old.ty(argument).clone()));
        }
        for &op in &old.ops {
            let operation = &self.old.ops[op];
            let operands = self.scalars(&operation.operands, values)?;
            let mut regions: SmallVec<[RegionId; 2]> = SmallVec::new();
            for &inner in &operation.regions {
                regions.push(self.copy_scalars(inner, values)?);
            }
            let types: Vec<_> = operation.results.iter().map(|&result| self.old.ty(result).clone()).collect();
            let (copied, location) = (operation.op.clone(), operation.location);
            let id = self.new.add_op_with_types(new, copied, &operands, &regions, types, location);
            values.extend(operation.results.iter().copied().zip(self.new.ops[id].results.iter().copied()));
        }
        self.new.regions[new].results = self.scalars(&old.results, values)?.to_vec();
        Ok(new)
    }

    /// What values are in a copied region; those from outside are read whole.
    fn scalars(&mut self, old: &[ValueId], values: &FxHashMap<ValueId, ValueId>) -> Result<Values, String> {
        let mut new = Values::new();
        for &value in old {
            new.push(match values.get(&value) {
                Some(&known) => known,
                None => {
                    let whole = Sharding::whole(self.old.shape(value).len());
                    self.get(value, &whole, Reason::Read { by: self.op })?
                }
            });
        }
        Ok(new)
    }
}
