//! One ATen op with what stands in the places of its schema.

use rustc_hash::FxHashMap;
use smallvec::smallvec;

use super::elementwise;
use super::promote::{Category, promoted};
use super::table::Row;
use super::text::{Node, Operand};
use crate::models::gradient::pullback;
use crate::program::{Builder, DType, DTypeKind, Dims, Literal, Shape, Type, ValueId, Values, encode_number};

/// The values that a row makes, one for each result of the op, or what is wrong.
pub(super) type Made = Result<Values, String>;

pub(super) struct Call<'c> {
    pub(super) builder: &'c mut Builder,
    pub(super) values: &'c FxHashMap<usize, ValueId>,
    pub(super) node: &'c Node,
}

impl Call<'_> {
    pub(super) fn apply(&mut self, row: Row) -> Made {
        match row {
            Row::Binary(binary) => elementwise::binary(self, binary),
            Row::Compare(direction) => elementwise::compare(self, direction),
            Row::Custom(make) => make(self),
            Row::Same => Ok(smallvec![self.tensor(0)?]),
            Row::Unary(unary) => elementwise::unary(self, unary),
        }
    }

    // What stands in a place.

    pub(super) fn operand(&self, index: usize) -> &Operand {
        self.node.operands.get(index).unwrap_or(&Operand::None)
    }

    pub(super) fn has(&self, index: usize) -> bool {
        *self.operand(index) != Operand::None
    }

    pub(super) fn tensor(&self, index: usize) -> Result<ValueId, String> {
        self.optional(index)?.ok_or_else(|| format!("operand {index} is no tensor"))
    }

    pub(super) fn optional(&self, index: usize) -> Result<Option<ValueId>, String> {
        match self.operand(index) {
            Operand::Value(value) => Ok(self.values.get(value).copied()),
            Operand::None => Ok(None),
            _ => Err(format!("operand {index} is no tensor")),
        }
    }

    /// The tensors of a list; those that are not there are `None`.
    pub(super) fn tensors(&self, index: usize) -> Result<Vec<Option<ValueId>>, String> {
        let Operand::List(list) = self.operand(index) else { return Err(format!("operand {index} is no list")) };
        let tensor = |operand: &Operand| match operand {
            Operand::Value(value) => Ok(self.values.get(value).copied()),
            Operand::None => Ok(None),
            _ => Err(format!("operand {index} has something else than tensors")),
        };
        list.iter().map(tensor).collect()
    }

    pub(super) fn float(&self, index: usize) -> Result<f64, String> {
        number(self.operand(index)).ok_or_else(|| format!("operand {index} is no number"))
    }

    pub(super) fn float_or(&self, index: usize, default: f64) -> Result<f64, String> {
        if self.has(index) { self.float(index) } else { Ok(default) }
    }

    pub(super) fn int(&self, index: usize) -> Result<i64, String> {
        match self.operand(index) {
            Operand::Int(number) => Ok(*number),
            Operand::Bool(flag) => Ok(i64::from(*flag)),
            Operand::Float(number) => Ok(*number as i64),
            _ => Err(format!("operand {index} is no whole number")),
        }
    }

    pub(super) fn flag(&self, index: usize) -> bool {
        matches!(self.operand(index), Operand::Bool(true))
    }

    pub(super) fn text(&self, index: usize) -> &str {
        if let Operand::Text(text) = self.operand(index) { text } else { "" }
    }

    pub(super) fn flags(&self, index: usize) -> Vec<bool> {
        match self.operand(index) {
            Operand::List(list) => list.iter().map(|operand| *operand == Operand::Bool(true)).collect(),
            _ => Vec::new(),
        }
    }

    /// A list of numbers; one number is a list too.
    pub(super) fn ints(&self, index: usize) -> Result<Vec<i64>, String> {
        match self.operand(index) {
            Operand::List(list) => list
                .iter()
                .map(|operand| match operand {
                    Operand::Int(number) => Ok(*number),
                    _ => Err(format!("operand {index} has something else than whole numbers")),
                })
                .collect(),
            Operand::None => Ok(Vec::new()),
            _ => Ok(vec![self.int(index)?]),
        }
    }

    /// A list of one number for each of so many dimensions, where one may stand for all.
    pub(super) fn spread(&self, index: usize, rank: usize, default: i64) -> Result<Vec<i64>, String> {
        let found = self.ints(index)?;
        match found[..] {
            [] => Ok(vec![default; rank]),
            [one] => Ok(vec![one; rank]),
            _ if found.len() == rank => Ok(found),
            _ => Err(format!("operand {index} has {} numbers, not {rank}", found.len())),
        }
    }

    /// A dimension; those below zero count from the end.
    pub(super) fn dim(&self, index: usize, rank: usize) -> Result<usize, String> {
        wrapped(self.int(index)?, rank)
    }

    /// Dimensions in ascending order; none given means all.
    pub(super) fn dims_or_all(&self, index: usize, rank: usize) -> Result<Dims, String> {
        let given = self.ints(index)?;
        if given.is_empty() {
            return Ok((0..rank).collect());
        }
        let mut dims = given.iter().map(|&dim| wrapped(dim, rank)).collect::<Result<Dims, _>>()?;
        dims.sort_unstable();
        dims.dedup();
        if rank == 0 {
            dims.clear();
        }
        Ok(dims)
    }

    // What comes out.

    pub(super) fn result(&self, index: usize) -> Result<Type, String> {
        let ty = self.node.types.get(index).and_then(Clone::clone);
        ty.ok_or_else(|| format!("result {index} is not there"))
    }

    /// The type in which an op computes whose first result is of some type: narrow floats are rounded once, at the end.
    pub(super) fn wide(&self, dtype: DType) -> DType {
        if matches!(dtype, DType::BF16 | DType::F16) || dtype.kind() == DTypeKind::SmallFloat {
            DType::F32
        } else {
            dtype
        }
    }

    // Values.

    pub(super) fn rank(&self, value: ValueId) -> usize {
        self.builder.program.shape(value).len()
    }

    pub(super) fn shape(&self, value: ValueId) -> Shape {
        self.builder.shape(value)
    }

    /// A tensor or a number as a tensor of some type, broadcast as PyTorch does.
    pub(super) fn like(&mut self, index: usize, ty: &Type) -> Result<ValueId, String> {
        match self.operand(index).clone() {
            Operand::Value(_) => {
                let value = self.tensor(index)?;
                let value = self.builder.convert(value, ty.dtype);
                self.broadcast(value, &ty.shape)
            }
            operand => self.number(&operand, ty),
        }
    }

    /// A tensor of one number.
    pub(super) fn number(&mut self, operand: &Operand, ty: &Type) -> Result<ValueId, String> {
        let scalar = match (operand, ty.dtype.kind()) {
            (Operand::Int(number), DTypeKind::Signed | DTypeKind::Unsigned) => {
                self.builder.literal(Literal::splat_integer(Type::scalar(ty.dtype), *number))
            }
            (&Operand::Complex(real, imaginary), DTypeKind::Complex) => {
                let part = if ty.dtype == DType::Complex128 { DType::F64 } else { DType::F32 };
                let [real, imaginary] = [real, imaginary].map(|number| encode_number(part, number));
                self.builder.literal(Literal::splat(Type::scalar(ty.dtype), imaginary << part.bits() | real))
            }
            _ => {
                let number = number(operand).ok_or("a number is expected")?;
                self.builder.scalar(ty.dtype, number)
            }
        };
        Ok(self.builder.broadcast(scalar, &ty.shape, &[]))
    }

    pub(super) fn broadcast(&mut self, value: ValueId, shape: &[usize]) -> Result<ValueId, String> {
        let own = self.shape(value);
        if own.len() > shape.len() {
            return Err(format!("{own:?} does not broadcast to {shape:?}"));
        }
        if own[..] == *shape {
            return Ok(value);
        }
        // A dimension of one spreads over all, which no dimension of a program does by itself.
        let offset = shape.len() - own.len();
        let kept: Vec<usize> = (0..own.len()).filter(|&dim| own[dim] == shape[dim + offset]).collect();
        let sizes: Vec<usize> = kept.iter().map(|&dim| own[dim]).collect();
        let value = self.builder.reshape(value, &sizes);
        let dims: Vec<usize> = kept.iter().map(|dim| dim + offset).collect();
        Ok(self.builder.broadcast(value, shape, &dims))
    }

    /// The type that PyTorch computes in for operands in some places.
    pub(super) fn promoted(&self, places: &[usize]) -> DType {
        promoted(places.iter().filter_map(|&place| match self.operand(place) {
            Operand::Value(value) => {
                let value = self.values.get(value)?;
                let dtype = self.builder.dtype(*value);
                let category = if self.rank(*value) > 0 { Category::Tensor } else { Category::Scalar };
                Some((dtype, category))
            }
            Operand::Bool(_) => Some((DType::Bool, Category::Number)),
            Operand::Int(_) => Some((DType::I64, Category::Number)),
            Operand::Float(_) => Some((DType::F64, Category::Number)),
            Operand::Complex(..) => Some((DType::Complex128, Category::Number)),
            _ => None,
        }))
    }

    /// The gradients of values that something is made of, from the gradient of what is made of them.
    pub(super) fn pullback(
        &mut self,
        of: &[ValueId],
        gradient: ValueId,
        make: impl FnOnce(&mut Self) -> Result<ValueId, String>,
    ) -> Result<Vec<ValueId>, String> {
        let start = self.builder.program.body().ops.len();
        let made = make(self)?;
        self.builder.check()?;
        pullback(self.builder, start, made, gradient, of)
    }

    pub(super) fn one(&self, value: ValueId) -> Made {
        Ok(smallvec![value])
    }
}

pub(super) fn number(operand: &Operand) -> Option<f64> {
    match operand {
        Operand::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Operand::Int(number) => Some(*number as f64),
        Operand::Float(number) => Some(*number),
        _ => None,
    }
}

pub(super) fn wrapped(dim: i64, rank: usize) -> Result<usize, String> {
    let count = rank.max(1) as i64;
    let found = if dim < 0 { dim + count } else { dim };
    if (0..count).contains(&found) { Ok(found as usize) } else { Err(format!("there is no dimension {dim}")) }
}
