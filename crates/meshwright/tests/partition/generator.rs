//! Random programs: a pool of values, and ops that read from it and add to it.

use meshwright::program::{Builder, DType, Id, Literal, Op, Program, RegionId, Type, Unary, ValueId};

use crate::random::Random;

/// A value and what is known of its numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) value: ValueId,
    pub(crate) quality: Quality,
    /// No number is larger.
    pub(crate) bound: f64,
}

/// Whether a partitioned program gives the very same numbers. Where it does not, ops that jump, such
/// as a rounding or a sort, could turn a difference in the last bit into a large one, and are not
/// applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Quality {
    /// Whole numbers: sums are exact in any order. All integers and booleans are of this quality.
    Grid,
    /// Not whole, and never partial, so always computed in the same order.
    Exact,
    Rough,
}

/// What is larger is made small again before it goes on.
const LARGEST: f64 = 1e9;
const MAXIMUM_ELEMENTS: usize = 150;
/// Sizes of dimensions; some divide by the sizes of axes and some do not.
const SIZES: [usize; 11] = [1, 2, 2, 3, 4, 4, 5, 6, 6, 7, 8];

pub(crate) struct Generator {
    pub(crate) builder: Builder,
    pub(crate) random: Random,
    pub(crate) pool: Vec<Entry>,
    /// How many regions the present op stands in.
    pub(crate) depth: usize,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Generator {
        Generator { builder: Builder::new("random"), random: Random::new(seed), pool: Vec::new(), depth: 0 }
    }

    /// The program, whose results are all that nobody reads and some of the rest.
    pub(crate) fn finish(mut self) -> Program {
        let program = &self.builder.program;
        let mut is_read = vec![false; program.values.len()];
        for (_, operation) in program.ops.iter() {
            operation.operands.iter().for_each(|operand| is_read[operand.index()] = true);
        }
        for (_, region) in program.regions.iter() {
            region.results.iter().for_each(|result| is_read[result.index()] = true);
        }
        let mut results = Vec::new();
        for entry in std::mem::take(&mut self.pool) {
            let is_argument = self.builder.program.producer(entry.value).is_none();
            if !is_read[entry.value.index()] && !is_argument || self.random.chance(8) {
                results.push(entry.value);
            }
        }
        results.dedup();
        for (index, value) in results.into_iter().enumerate() {
            self.builder.result(format!("result.{index}"), value);
            self.replace_argument(index, value);
        }
        self.builder.program.compact()
    }

    /// Some results are the next values of arguments, and stored as those are.
    fn replace_argument(&mut self, result: usize, value: ValueId) {
        let chosen = self.random.chance(30);
        let program = &mut self.builder.program;
        let arguments = &program.regions[program.body].arguments;
        let fits = |&index: &usize| {
            program.ty(arguments[index]) == program.ty(value) && program.arguments[index].alias.is_none()
        };
        if let Some(index) = (0..arguments.len()).find(fits).filter(|_| chosen) {
            program.arguments[index].alias = Some(result);
        }
    }

    pub(crate) fn dtype(&self, entry: Entry) -> DType {
        self.builder.dtype(entry.value)
    }

    pub(crate) fn dims(&self, entry: Entry) -> Vec<usize> {
        self.builder.shape(entry.value).to_vec()
    }

    /// Adds a value to the pool, so that later ops can read it.
    pub(crate) fn push(&mut self, value: ValueId, quality: Quality, bound: f64) -> Entry {
        let is_float = self.builder.dtype(value).is_float();
        // Larger whole numbers are no longer exact.
        let quality = if quality == Quality::Grid && bound > 2f64.powi(50) { Quality::Rough } else { quality };
        let mut entry = Entry { value, quality, bound };
        if !is_float {
            (entry.quality, entry.bound) = (Quality::Grid, 1.0);
        } else if bound.is_nan() || bound > LARGEST {
            entry.value = self.builder.unary(Unary::Tanh, value);
            entry.quality = if quality == Quality::Rough { Quality::Rough } else { Quality::Exact };
            entry.bound = 1.0;
        }
        self.pool.push(entry);
        entry
    }

    /// Adds a value that was only moved about.
    pub(crate) fn push_moved(&mut self, value: ValueId, from: &[Entry]) -> Entry {
        let bound = from.iter().map(|entry| entry.bound).fold(0.0, f64::max);
        self.push(value, joined(from), bound)
    }

    pub(crate) fn size(&mut self) -> usize {
        self.random.pick(&SIZES)
    }

    /// A random shape.
    pub(crate) fn shape(&mut self, rank: usize) -> Vec<usize> {
        let mut shape: Vec<usize> = (0..rank).map(|_| self.size()).collect();
        while shape.iter().product::<usize>() > MAXIMUM_ELEMENTS {
            let dim = self.random.below(rank);
            shape[dim] = self.random.pick(&[1, 2, 3]);
        }
        shape
    }

    pub(crate) fn float_type(&mut self) -> DType {
        self.random.pick(&[DType::F32, DType::F32, DType::F32, DType::F64, DType::BF16])
    }

    pub(crate) fn integer_type(&mut self) -> DType {
        self.random.pick(&[DType::I32, DType::I32, DType::I32, DType::I64, DType::U32, DType::I8])
    }

    pub(crate) fn argument(&mut self, dtype: DType, shape: &[usize]) -> Entry {
        let name = format!("argument.{}", self.builder.program.arguments.len());
        let value = self.builder.argument(name, Type::new(dtype, shape));
        let entry = Entry { value, quality: Quality::Grid, bound: 4.0 };
        // An argument is there from the beginning: regions around this one may read it too, but
        // whoever leaves a region cuts the pool, so it is offered again only by chance.
        self.pool.push(entry);
        entry
    }

    /// A value of the type: one of the pool, one made of another, or a new one.
    pub(crate) fn value(&mut self, dtype: DType, shape: &[usize]) -> Entry {
        match self.random.below(100) {
            0..45 => self.known(dtype, shape),
            45..60 => self.reshaped(dtype, shape),
            60..70 => self.broadcast(dtype, shape),
            70..75 => Some(self.constant(dtype, shape)),
            _ => None,
        }
        .unwrap_or_else(|| self.argument(dtype, shape))
    }

    /// A value whose numbers are the same in a partitioned program.
    pub(crate) fn exact(&mut self, dtype: DType, shape: &[usize]) -> Entry {
        let entry = self.value(dtype, shape);
        if entry.quality == Quality::Rough { self.argument(dtype, shape) } else { entry }
    }

    /// Some value of the pool, or a new one.
    pub(crate) fn any(&mut self, dtype: DType, least_rank: usize) -> Entry {
        let found: Vec<Entry> = self
            .pool
            .iter()
            .copied()
            .filter(|&entry| {
                let ty = self.builder.program.ty(entry.value);
                ty.dtype == dtype && ty.rank() >= least_rank && ty.elements() > 0
            })
            .collect();
        if !found.is_empty() && self.random.chance(70) {
            return self.random.pick(&found);
        }
        let rank = least_rank + self.random.below(4 - least_rank.min(3));
        let shape = self.shape(rank);
        self.argument(dtype, &shape)
    }

    pub(crate) fn any_float(&mut self, least_rank: usize) -> Entry {
        let dtype = self.float_type();
        self.any(dtype, least_rank)
    }

    fn known(&mut self, dtype: DType, shape: &[usize]) -> Option<Entry> {
        let ty = Type::new(dtype, shape);
        let found: Vec<Entry> =
            self.pool.iter().copied().filter(|entry| *self.builder.program.ty(entry.value) == ty).collect();
        (!found.is_empty()).then(|| self.random.pick(&found))
    }

    fn reshaped(&mut self, dtype: DType, shape: &[usize]) -> Option<Entry> {
        let elements: usize = shape.iter().product();
        let fits = |ty: &Type| ty.dtype == dtype && ty.elements() == elements;
        let found: Vec<Entry> =
            self.pool.iter().copied().filter(|entry| fits(self.builder.program.ty(entry.value))).collect();
        let from = (!found.is_empty()).then(|| self.random.pick(&found))?;
        let value = self.builder.reshape(from.value, shape);
        Some(self.push_moved(value, &[from]))
    }

    /// A smaller value repeated.
    fn broadcast(&mut self, dtype: DType, shape: &[usize]) -> Option<Entry> {
        let dims: Vec<usize> = (0..shape.len()).filter(|_| self.random.chance(50)).collect();
        let small: Vec<usize> = dims.iter().map(|&dim| if self.random.chance(20) { 1 } else { shape[dim] }).collect();
        let from = self.known(dtype, &small).unwrap_or_else(|| self.argument(dtype, &small));
        let value = self.builder.broadcast(from.value, shape, &dims);
        Some(self.push_moved(value, &[from]))
    }

    /// A constant: of one number, of many, or positions.
    pub(crate) fn constant(&mut self, dtype: DType, shape: &[usize]) -> Entry {
        let ty = Type::new(dtype, shape);
        let bound = 4.0f64.max(shape.iter().copied().max().unwrap_or(1) as f64);
        let value = match self.random.below(3) {
            0 => {
                let number = if dtype == DType::Bool { self.random.between(0, 1) } else { self.random.between(0, 4) };
                self.builder.literal(Literal::splat_number(ty, number as f64))
            }
            1 if !shape.is_empty() && dtype != DType::Bool => {
                let dim = self.random.below(shape.len());
                self.builder.iota(&ty, dim)
            }
            _ => {
                let bytes = self.random.tensor(&ty).to_bytes();
                self.builder.literal(Literal::packed(ty, bytes))
            }
        };
        self.push(value, Quality::Grid, bound)
    }

    /// `middle + reach * tanh(x)`, so that functions with a domain can be applied.
    pub(crate) fn bounded(&mut self, entry: Entry, middle: f64, reach: f64) -> Entry {
        let squashed = self.builder.unary(Unary::Tanh, entry.value);
        let scaled = self.builder.times_number(squashed, reach);
        let value = self.builder.plus_number(scaled, middle);
        let quality = if entry.quality == Quality::Rough { Quality::Rough } else { Quality::Exact };
        Entry { value, quality, bound: middle.abs() + reach }
    }

    /// Writes a region; what is made in it can be read in it only.
    pub(crate) fn region(
        &mut self,
        arguments: &[(Type, Quality, f64)],
        build: impl FnOnce(&mut Generator, &[Entry]) -> Vec<ValueId>,
    ) -> RegionId {
        let region = self.builder.program.add_region();
        let (outer_pool, outer) = (self.pool.clone(), self.builder.enter_region(region));
        let mut entries = Vec::new();
        for (ty, quality, bound) in arguments {
            let value = self.builder.program.add_region_argument(region, ty.clone());
            entries.push(self.push(value, *quality, *bound));
        }
        self.depth += 1;
        let results = build(self, &entries);
        self.depth -= 1;
        self.builder.program.regions[region].results = results;
        self.pool = outer_pool;
        self.builder.leave_region(outer);
        region
    }

    /// Adds an op with one result.
    pub(crate) fn one(&mut self, op: Op, operands: &[ValueId], regions: &[RegionId]) -> ValueId {
        self.builder.op(op, operands, regions)[0]
    }
}

/// The quality of what only moves or joins values linearly. Values that may be partial mix with
/// values that are not only where no digit is lost.
pub(crate) fn joined(entries: &[Entry]) -> Quality {
    let has = |quality: Quality| entries.iter().any(|entry| entry.quality == quality);
    match (has(Quality::Grid), has(Quality::Exact), has(Quality::Rough)) {
        (_, _, true) | (true, true, false) => Quality::Rough,
        (false, true, false) => Quality::Exact,
        (_, false, false) => Quality::Grid,
    }
}
