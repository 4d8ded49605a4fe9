//! Dead code dropped, the rest numbered in the order in which it is printed.

use super::{Definition, Id, LocationId, OpId, Operation, Program, Region, RegionId, Table, Value, ValueId};

impl Program {
    /// The same program without ops that nobody needs, its tables numbered in print order: an op's
    /// results, then the arguments and ops of its regions.
    pub fn compact(&self) -> Program {
        let live = find_live(self);
        let mut compactor = Compactor {
            old: self,
            live: &live,
            values: vec![None; self.values.len()],
            locations: vec![None; self.locations.len()],
            new: Program {
                name: self.name.clone(),
                arguments: self.arguments.clone(),
                results: self.results.clone(),
                replicas: self.replicas,
                partitions: self.partitions,
                ops: Table::with_capacity(live.op_count),
                ..Program::new("")
            },
        };
        compactor.locations[0] = Some(Program::UNKNOWN_LOCATION);
        let body = compactor.new.body;
        compactor.copy_region(self.body, body);
        compactor.new
    }
}

/// Which ops are needed: those with side effects and all that these and the results depend on.
struct Live {
    ops: Vec<bool>,
    values: Vec<bool>,
    op_count: usize,
}

fn find_live(program: &Program) -> Live {
    let mut live = Live { ops: vec![false; program.ops.len()], values: vec![false; program.values.len()], op_count: 0 };
    let effects = find_effects(program);
    mark_region(program, program.body, &effects, &mut live);
    live
}

/// Ops that have side effects, or contain one that has.
fn find_effects(program: &Program) -> Vec<bool> {
    let mut effects = vec![false; program.ops.len()];
    // Ops inside a region may have larger or smaller ids than the op around it, so two steps: mark
    // the ops themselves, then carry the marks outward.
    let mut around: Vec<Option<OpId>> = vec![None; program.ops.len()];
    for (id, operation) in program.ops.iter() {
        for &region in &operation.regions {
            for &inner in &program.regions[region].ops {
                around[inner.index()] = Some(id);
            }
        }
    }
    for (id, operation) in program.ops.iter() {
        let mut next = operation.op.has_side_effect().then_some(id);
        while let Some(op) = next {
            if std::mem::replace(&mut effects[op.index()], true) {
                break;
            }
            next = around[op.index()];
        }
    }
    effects
}

/// Walks backwards, so that every use is seen before its definition.
fn mark_region(program: &Program, region: RegionId, effects: &[bool], live: &mut Live) {
    for &result in &program.regions[region].results {
        live.values[result.index()] = true;
    }
    for &op in program.regions[region].ops.iter().rev() {
        let operation = &program.ops[op];
        let needed = effects[op.index()] || operation.results.iter().any(|result| live.values[result.index()]);
        if !needed {
            continue;
        }
        live.ops[op.index()] = true;
        live.op_count += 1;
        for &operand in &operation.operands {
            live.values[operand.index()] = true;
        }
        for &inner in &operation.regions {
            mark_region(program, inner, effects, live);
        }
    }
}

struct Compactor<'p> {
    old: &'p Program,
    live: &'p Live,
    /// New ids of old values and locations.
    values: Vec<Option<ValueId>>,
    locations: Vec<Option<LocationId>>,
    new: Program,
}

impl Compactor<'_> {
    fn copy_region(&mut self, from: RegionId, to: RegionId) {
        let old = &self.old.regions[from];
        let mut region = Region { ops: Vec::with_capacity(old.ops.len()), ..Region::default() };
        for (index, &argument) in old.arguments.iter().enumerate() {
            let definition = Definition::Argument { region: to, index: index as u32 };
            region.arguments.push(self.copy_value(argument, definition));
        }
        for &op in &old.ops {
            if self.live.ops[op.index()] {
                region.ops.push(self.copy_op(op));
            }
        }
        region.results = old.results.iter().map(|&result| self.renamed(result)).collect();
        self.new.regions[to] = region;
    }

    fn copy_op(&mut self, op: OpId) -> OpId {
        let old = &self.old.ops[op];
        let id = self.new.ops.next_id();
        let mut operation = Operation {
            op: old.op.clone(),
            operands: old.operands.iter().map(|&operand| self.renamed(operand)).collect(),
            results: Default::default(),
            regions: Default::default(),
            location: self.copy_location(old.location),
        };
        for (index, &result) in old.results.iter().enumerate() {
            let definition = Definition::Result { op: id, index: index as u32 };
            operation.results.push(self.copy_value(result, definition));
        }
        operation.regions = old.regions.iter().map(|_| self.new.add_region()).collect();
        let regions = operation.regions.clone();
        self.new.ops.push(operation);
        for (&from, &to) in old.regions.iter().zip(&regions) {
            self.copy_region(from, to);
        }
        id
    }

    fn copy_value(&mut self, value: ValueId, definition: Definition) -> ValueId {
        let ty = self.old.values[value].ty.clone();
        let id = self.new.values.push(Value { ty, definition });
        self.values[value.index()] = Some(id);
        id
    }

    fn renamed(&self, value: ValueId) -> ValueId {
        self.values[value.index()].expect("a value is copied before its uses")
    }

    fn copy_location(&mut self, location: LocationId) -> LocationId {
        let (old, new) = (self.old, &mut self.new);
        *self.locations[location.index()].get_or_insert_with(|| new.locations.push(old.locations[location].clone()))
    }
}
