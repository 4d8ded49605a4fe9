//! Copying a program op by op, so that a pass only says what it does differently.

use rustc_hash::FxHashMap;

use super::{
    Definition, Id, Location, LocationId, Op, OpId, Operation, Program, RegionId, Table, Type, Value, ValueId, Values,
};

/// A copy of a program under way. Ops are added in the order in which they are printed: an op, its
/// results, then the arguments and ops of its regions.
#[derive(Debug)]
pub struct Copier<'p> {
    pub old: &'p Program,
    pub new: Program,
    /// What old values and locations are in the copy.
    values: Vec<Option<ValueId>>,
    locations: Vec<Option<LocationId>>,
    /// The locations of the copy by what they say, so that each is there once.
    location_ids: FxHashMap<Location, LocationId>,
    /// The old op that each new one is a copy of, as far as there is one.
    origins: Vec<Option<OpId>>,
}

/// Copies one region into another; called for the regions of a copied op.
pub type CopyRegion<'c, 'p> = &'c mut dyn FnMut(&mut Copier<'p>, RegionId, RegionId);

impl<'p> Copier<'p> {
    /// Nothing copied yet but names and numbers.
    pub fn new(old: &'p Program) -> Copier<'p> {
        let mut copier = Copier {
            old,
            new: Program {
                name: old.name.clone(),
                arguments: old.arguments.clone(),
                results: old.results.clone(),
                replicas: old.replicas,
                partitions: old.partitions,
                ops: Table::with_capacity(old.ops.len()),
                values: Table::with_capacity(old.values.len()),
                ..Program::new("")
            },
            values: vec![None; old.values.len()],
            locations: vec![None; old.locations.len()],
            location_ids: FxHashMap::from_iter([(Location::unknown(), Program::UNKNOWN_LOCATION)]),
            origins: Vec::with_capacity(old.ops.len()),
        };
        copier.locations[0] = Some(Program::UNKNOWN_LOCATION);
        copier
    }

    /// What an old value is in the copy.
    pub fn value(&self, old: ValueId) -> ValueId {
        self.values[old.index()].expect("a value is copied before its uses")
    }

    pub fn values(&self, old: &[ValueId]) -> Values {
        old.iter().map(|&value| self.value(value)).collect()
    }

    /// From here on, uses of `old` become uses of `new`.
    pub fn set_value(&mut self, old: ValueId, new: ValueId) {
        self.values[old.index()] = Some(new);
    }

    pub fn location(&mut self, old: LocationId) -> LocationId {
        if let Some(id) = self.locations[old.index()] {
            return id;
        }
        let id = self.add_location(self.old.locations[old].clone());
        self.locations[old.index()] = Some(id);
        id
    }

    /// A location that may be in neither program yet.
    pub fn add_location(&mut self, location: Location) -> LocationId {
        let (ids, locations) = (&mut self.location_ids, &mut self.new.locations);
        *ids.entry(location).or_insert_with_key(|location| locations.push(location.clone()))
    }

    pub fn copy_arguments(&mut self, from: RegionId, to: RegionId) {
        let old = self.old;
        for &argument in &old.regions[from].arguments {
            let value = self.new.add_region_argument(to, old.ty(argument).clone());
            self.set_value(argument, value);
        }
    }

    pub fn copy_results(&mut self, from: RegionId, to: RegionId) {
        let old = self.old;
        self.new.regions[to].results = old.regions[from].results.iter().map(|&result| self.value(result)).collect();
    }

    /// Copies an op as it is, with all that is inside of it, to the end of a region.
    pub fn copy_whole(&mut self, op: OpId, to: RegionId) -> OpId {
        let location = self.location(self.old.ops[op].location);
        self.copy_op(op, to, location, &mut |copier, from, to| {
            copier.copy_arguments(from, to);
            for &op in &copier.old.regions[from].ops {
                copier.copy_whole(op, to);
            }
            copier.copy_results(from, to);
        })
    }

    /// Copies an op to the end of a region.
    pub fn copy_op(&mut self, op: OpId, to: RegionId, location: LocationId, region: CopyRegion<'_, 'p>) -> OpId {
        let old = &self.old.ops[op];
        let id = self.new.ops.next_id();
        let operands = self.values(&old.operands);
        let results: Values = old
            .results
            .iter()
            .enumerate()
            .map(|(index, &result)| {
                let definition = Definition::Result { op: id, index: index as u32 };
                let value = self.new.values.push(Value { ty: self.old.ty(result).clone(), definition });
                self.set_value(result, value);
                value
            })
            .collect();
        let regions = old.regions.iter().map(|_| self.new.add_region()).collect();
        self.new.ops.push(Operation { op: old.op.clone(), operands, results, regions, location });
        self.origins.resize(id.index(), None);
        self.origins.push(Some(op));
        self.new.regions[to].ops.push(id);
        for (index, &from) in old.regions.iter().enumerate() {
            let to = self.new.ops[id].regions[index];
            region(self, from, to);
        }
        id
    }

    /// The copy, and for each of its ops the old one that it is a copy of.
    pub fn finish(mut self) -> (Program, Vec<Option<OpId>>) {
        self.origins.resize(self.new.ops.len(), None);
        (self.new, self.origins)
    }

    /// Adds an op that the old program does not have; gives its result.
    pub fn add_op(&mut self, to: RegionId, op: Op, operands: &[ValueId], ty: Type, location: LocationId) -> ValueId {
        let id = self.new.add_op_with_types(to, op, operands, &[], [ty], location);
        self.new.ops[id].results[0]
    }
}
