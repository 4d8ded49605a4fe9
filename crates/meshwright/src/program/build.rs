//! Making programs, op by op.

use smallvec::SmallVec;

use super::{
    Argument, Definition, Location, LocationId, Op, OpId, Operation, Program, Region, RegionId, ResultInfo, Table,
    Type, Value, ValueId, Values, infer,
};

impl Program {
    /// A program without arguments, operations or results.
    pub fn new(name: impl Into<String>) -> Program {
        let mut regions = Table::new();
        let body = regions.push(Region::default());
        let mut locations = Table::new();
        locations.push(Location::unknown());
        Program {
            name: name.into(),
            values: Table::new(),
            ops: Table::new(),
            regions,
            locations,
            body,
            arguments: Vec::new(),
            results: Vec::new(),
            replicas: 1,
            partitions: 1,
        }
    }

    /// The location of ops that came from nowhere in particular.
    pub const UNKNOWN_LOCATION: LocationId = LocationId(0);

    pub fn add_region(&mut self) -> RegionId {
        self.regions.push(Region::default())
    }

    /// Appends an argument to a region. Arguments of the body go through
    /// [`add_argument`](Program::add_argument), which also names them.
    pub fn add_region_argument(&mut self, region: RegionId, ty: Type) -> ValueId {
        let index = self.regions[region].arguments.len() as u32;
        let value = self.values.push(Value { ty, definition: Definition::Argument { region, index } });
        self.regions[region].arguments.push(value);
        value
    }

    pub fn add_argument(&mut self, argument: Argument, ty: Type) -> ValueId {
        self.arguments.push(argument);
        self.add_region_argument(self.body, ty)
    }

    pub fn add_result(&mut self, value: ValueId, result: ResultInfo) {
        let body = self.body;
        self.regions[body].results.push(value);
        self.results.push(result);
    }

    /// Appends an op to a region; its result types are inferred. The error says what is wrong with
    /// the operands.
    pub fn add_op(
        &mut self,
        region: RegionId,
        op: Op,
        operands: &[ValueId],
        regions: &[RegionId],
        location: LocationId,
    ) -> Result<OpId, String> {
        let types = infer(self, &op, operands, regions)?;
        Ok(self.add_op_with_types(region, op, operands, regions, types, location))
    }

    /// Appends an op whose result types are already known to be right.
    pub fn add_op_with_types(
        &mut self,
        region: RegionId,
        op: Op,
        operands: &[ValueId],
        regions: &[RegionId],
        types: impl IntoIterator<Item = Type>,
        location: LocationId,
    ) -> OpId {
        let id = self.ops.next_id();
        let mut results = Values::new();
        for (index, ty) in types.into_iter().enumerate() {
            let definition = Definition::Result { op: id, index: index as u32 };
            results.push(self.values.push(Value { ty, definition }));
        }
        self.ops.push(Operation {
            op,
            operands: Values::from_slice(operands),
            results,
            regions: SmallVec::from_slice(regions),
            location,
        });
        self.regions[region].ops.push(id);
        id
    }
}
