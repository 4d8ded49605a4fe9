//! The Program: a typed SSA tensor program with one closed set of ops.

mod anatomy;
mod barriers;
mod build;
mod builder;
mod chosen;
mod compact;
mod copy;
mod expand;
mod host;
mod id;
mod infer;
mod literal;
mod loops;
mod merge;
mod op;
mod print;
mod recompute;
mod recomputed;
mod repeats;
mod scope;
mod state;
mod types;
mod unroll;
mod verify;

pub use anatomy::{Anatomy, Phase};
pub use builder::{Builder, OuterRegion};
pub(crate) use chosen::chosen_maker;
pub use copy::{Copier, CopyRegion};
pub use expand::{expand_attention, expand_batch_norm, expand_branches};
pub use host::MemoryKind;
pub use id::{Id, LocationId, OpId, RegionId, Table, ValueId};
pub use infer::{Types, infer};
pub(crate) use infer::{countable, plural};
pub use literal::{Literal, encode_number};
pub use loops::{CountedLoop, Role, Trips};
pub(crate) use merge::{is_pure, twin_key};
pub use op::*;
pub use print::{AttentionForm, PrintOptions, Surroundings, Whole, print, print_on_mesh};
pub(crate) use recompute::{Group, Recomputation, recompute};
pub(crate) use recomputed::Given;
pub use repeats::Repeat;
pub(crate) use repeats::{is_heavy, stretches};
pub(crate) use scope::{bare, scope_parts};
pub use state::ArgumentClass;
pub use types::{DType, DTypeKind, Dims, Shape, Type};
pub use verify::VerifyError;

use std::sync::Arc;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

/// How deep regions may stand inside each other. Walks over a program recurse this deep.
pub const MAXIMUM_NESTING: usize = 128;

/// How many dimensions a tensor may have. Walks over its elements recurse this deep.
pub const MAXIMUM_RANK: usize = 64;

/// A list of values: operands or results.
pub type Values = SmallVec<[ValueId; 4]>;

/// A whole function, most often a training step: parameters, optimizer state and batch in; new
/// parameters, new state and loss out.
///
/// Values and operations are numbered in the order in which they are printed once the program is
/// [`compact`](Program::compact); every way of making a program ends in that form.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    pub name: String,
    pub values: Table<ValueId, Value>,
    pub ops: Table<OpId, Operation>,
    pub regions: Table<RegionId, Region>,
    pub locations: Table<LocationId, Location>,
    pub body: RegionId,
    /// One per argument of the body.
    pub arguments: Vec<Argument>,
    /// One per result of the body.
    pub results: Vec<ResultInfo>,
    /// Processes the program is written for: replicas and partitions, 1 and 1 for a whole program.
    pub replicas: usize,
    pub partitions: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    pub ty: Type,
    pub definition: Definition,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definition {
    Argument { region: RegionId, index: u32 },
    Result { op: OpId, index: u32 },
}

/// One op with what it reads and makes.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    pub op: Op,
    pub operands: Values,
    pub results: Values,
    pub regions: SmallVec<[RegionId; 2]>,
    pub location: LocationId,
}

/// A straight line of operations. It may read values of the regions around it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Region {
    pub arguments: Vec<ValueId>,
    pub ops: Vec<OpId>,
    /// What the region gives back: the operands of its `return`.
    pub results: Vec<ValueId>,
}

/// What is known of an argument besides its type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Argument {
    /// Dotted, such as `params.layers.0.attn.wqkv`; empty where unknown.
    pub name: String,
    /// The caller lets the program overwrite this argument with the result of that number.
    pub alias: Option<usize>,
    /// The caller gives the argument's memory up, for any result.
    pub donated: bool,
}

/// What is known of a result besides its type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResultInfo {
    /// Dotted, such as `result.0.layers.0.attn.wqkv`; empty where unknown.
    pub name: String,
}

/// Where an op came from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// The path of scopes with the op's own name last, such as
    /// `jit(step)/transpose(jvp(layer0))/attn/dot_general`; empty where unknown.
    pub scope: Arc<str>,
    /// Empty where unknown.
    pub file: Arc<str>,
    pub line: u32,
    pub column: u32,
}

impl Location {
    pub fn unknown() -> Location {
        Location { scope: Arc::from(""), file: Arc::from(""), line: 0, column: 0 }
    }
}

impl Program {
    pub fn ty(&self, value: ValueId) -> &Type {
        &self.values[value].ty
    }

    pub fn shape(&self, value: ValueId) -> &[usize] {
        &self.values[value].ty.shape
    }

    pub fn dtype(&self, value: ValueId) -> DType {
        self.values[value].ty.dtype
    }

    /// The op that makes a value, or `None` for an argument.
    pub fn producer(&self, value: ValueId) -> Option<OpId> {
        match self.values[value].definition {
            Definition::Argument { .. } => None,
            Definition::Result { op, .. } => Some(op),
        }
    }

    /// What an op reads: its operands, and what stands in its regions.
    pub fn reads(&self, op: OpId) -> Values {
        let mut values = Values::from_slice(&self.ops[op].operands);
        for &region in &self.ops[op].regions {
            let region = &self.regions[region];
            region.ops.iter().for_each(|&inner| values.extend(self.reads(inner)));
            values.extend(region.results.iter().copied());
        }
        values
    }

    /// What an op reads that is made outside of it.
    pub fn outer_reads(&self, op: OpId) -> Values {
        let mut reads = self.reads(op);
        if !self.ops[op].regions.is_empty() {
            let mut inside = FxHashSet::default();
            self.collect_inside(op, &mut inside);
            reads.retain(|value| !inside.contains(&*value));
        }
        reads
    }

    /// Adds the values that are made inside of an op.
    pub fn collect_inside(&self, op: OpId, inside: &mut FxHashSet<ValueId>) {
        for &region in &self.ops[op].regions {
            let region = &self.regions[region];
            inside.extend(&region.arguments);
            for &inner in &region.ops {
                inside.extend(&self.ops[inner].results);
                self.collect_inside(inner, inside);
            }
        }
    }

    /// Whether every element of a value is the number zero, as can be seen at once.
    pub fn is_zero(&self, value: ValueId) -> bool {
        let Some(op) = self.producer(value) else { return false };
        let operation = &self.ops[op];
        match &operation.op {
            Op::Constant(literal) => literal.as_splat() == Some(0),
            Op::BroadcastInDim(_) | Op::Reshape { .. } => self.is_zero(operation.operands[0]),
            _ => false,
        }
    }

    /// The op that a region applies to its two arguments, where that is all it does: most reductions.
    pub fn applied_binary(&self, region: RegionId) -> Option<Binary> {
        let region = &self.regions[region];
        let (&[op], &[result]) = (region.ops.as_slice(), region.results.as_slice()) else { return None };
        let operation = &self.ops[op];
        let reads_both = region.arguments.len() == 2
            && region.arguments.iter().all(|argument| operation.operands.contains(argument));
        match operation.op {
            Op::Binary(binary) if reads_both && operation.results[0] == result => Some(binary),
            _ => None,
        }
    }

    pub fn body(&self) -> &Region {
        &self.regions[self.body]
    }
}
