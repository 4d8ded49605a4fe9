//! Attention recognized in its expanded form: two matrix products with a softmax between them.
//! `cudnn` recognizes it in calls of a library.
//!
//! Only an attention whose inside nobody else reads becomes one op. Where a backward pass reads the
//! probabilities, the expanded form is kept, since one op would then compute them twice.

mod cudnn;
mod mask;
mod pattern;

pub(super) use cudnn::add_cudnn_attention;

use rustc_hash::FxHashMap;

use self::mask::Mask;
use self::pattern::Match;
use crate::program::{
    Attention, Binary, Copier, DType, Dims, Id, Literal, LocationId, Op, OpId, Program, RegionId, Shape, Type, ValueId,
};

/// The same program with every attention that stands expanded in it as one op.
pub(super) fn recognize(program: Program) -> Program {
    let uses = count_uses(&program);
    let found: FxHashMap<OpId, Match> =
        program.ops.ids().filter_map(|op| Some((op, pattern::find(&program, &uses, op)?))).collect();
    if found.is_empty() {
        return program;
    }
    let mut copier = Copier::new(&program);
    let body = copier.new.body;
    copy_region(&mut copier, &found, program.body, body);
    copier.new.compact()
}

/// How often each value is read.
fn count_uses(program: &Program) -> Vec<u32> {
    let mut uses = vec![0; program.values.len()];
    for (_, operation) in program.ops.iter() {
        operation.operands.iter().for_each(|operand| uses[operand.index()] += 1);
    }
    for (_, region) in program.regions.iter() {
        region.results.iter().for_each(|result| uses[result.index()] += 1);
    }
    uses
}

fn copy_region(copier: &mut Copier<'_>, found: &FxHashMap<OpId, Match>, from: RegionId, to: RegionId) {
    let old = copier.old;
    copier.copy_arguments(from, to);
    for &op in &old.regions[from].ops {
        let location = copier.location(old.ops[op].location);
        match found.get(&op) {
            Some(found) => {
                let result = Emit { copier, to, location }.attention(found);
                copier.set_value(old.ops[op].results[0], result);
            }
            None => {
                copier.copy_op(op, to, location, &mut |copier, from, to| copy_region(copier, found, from, to));
            }
        }
    }
    copier.copy_results(from, to);
}

/// Adds ops to the end of a region of the copy.
struct Emit<'c, 'p> {
    copier: &'c mut Copier<'p>,
    to: RegionId,
    location: LocationId,
}

impl Emit<'_, '_> {
    fn add(&mut self, op: Op, operands: &[ValueId], ty: Type) -> ValueId {
        self.copier.add_op(self.to, op, operands, ty, self.location)
    }

    /// The attention between the transposes and reshapes that bring its operands and its result
    /// into their places.
    fn attention(&mut self, found: &Match) -> ValueId {
        let [batch, heads, groups, queries, keys, width, depth] = found.sizes;
        let query = self.arranged(found.query, &found.query_order, &[batch, heads, queries, width]);
        let key = self.arranged(found.key, &found.key_order, &[batch, groups, keys, width]);
        let value = self.arranged(found.value, &found.value_order, &[batch, groups, keys, depth]);
        let mut operands = vec![query, key, value];
        operands.extend(self.bias(found));
        let causal = matches!(found.mask, Mask::Causal);
        let dtype = self.copier.new.dtype(query);
        let bias = operands.len() > 3;
        let op = Attention { scale: found.scale, causal, bias, statistics: false };
        let op = Op::Attention(Box::new(op));
        let mut result = self.add(op, &operands, Type::new(dtype, &[batch, heads, queries, depth]));
        result = self.reshaped(result, &found.result_parts);
        result = self.transposed(result, &found.result_order);
        self.converted(result, found.dtype)
    }

    /// What is added to the scores, or which of them are kept, as one operand.
    fn bias(&mut self, found: &Match) -> Option<ValueId> {
        let [batch, heads, _, queries, keys, ..] = found.sizes;
        let shape = [batch, heads, queries, keys];
        let dtype = self.copier.old.dtype(found.query);
        let ty = Type::new(dtype, &shape);
        let bias = found.bias.map(|bias| {
            let bias = self.arranged(bias, &found.score_order, &shape);
            self.converted(bias, dtype)
        });
        let (keep, fill) = match found.mask {
            Mask::None | Mask::Causal => return bias,
            Mask::Keep(keep) if bias.is_none() => return Some(self.arranged(keep, &found.score_order, &shape)),
            Mask::Keep(keep) => (keep, f64::NEG_INFINITY),
            // The number is so large that what it is added to does not matter.
            Mask::Fill { keep, value } => (keep, value),
        };
        let keep = self.arranged(keep, &found.score_order, &shape);
        let bias = bias.unwrap_or_else(|| self.constant(0.0, &ty));
        let fill = self.constant(fill, &ty);
        Some(self.add(Op::Select, &[keep, bias, fill], ty))
    }

    fn constant(&mut self, number: f64, ty: &Type) -> ValueId {
        self.add(Op::Constant(Box::new(Literal::splat_number(ty.clone(), number))), &[], ty.clone())
    }

    fn arranged(&mut self, old: ValueId, order: &[usize], shape: &[usize]) -> ValueId {
        let value = self.copier.value(old);
        let value = self.transposed(value, order);
        self.reshaped(value, shape)
    }

    fn transposed(&mut self, value: ValueId, order: &[usize]) -> ValueId {
        if order.iter().enumerate().all(|(index, &dim)| index == dim) {
            return value;
        }
        let ty = self.copier.new.ty(value);
        let shape: Shape = order.iter().map(|&dim| ty.shape[dim]).collect();
        let ty = ty.with_shape(&shape);
        self.add(Op::Transpose { permutation: Dims::from_slice(order) }, &[value], ty)
    }

    fn reshaped(&mut self, value: ValueId, shape: &[usize]) -> ValueId {
        let ty = self.copier.new.ty(value);
        if ty.shape.as_slice() == shape {
            return value;
        }
        let ty = ty.with_shape(shape);
        self.add(Op::Reshape { shape: Shape::from_slice(shape) }, &[value], ty)
    }

    fn converted(&mut self, value: ValueId, dtype: DType) -> ValueId {
        let ty = self.copier.new.ty(value);
        if ty.dtype == dtype {
            return value;
        }
        let ty = ty.with_dtype(dtype);
        self.add(Op::Convert { dtype }, &[value], ty)
    }
}

/// The two operands of a binary op of that kind.
fn binary_operands(program: &Program, value: ValueId, kind: Binary) -> Option<[ValueId; 2]> {
    let operation = &program.ops[program.producer(value)?];
    match (&operation.op, operation.operands.as_slice()) {
        (Op::Binary(binary), &[left, right]) if *binary == kind => Some([left, right]),
        _ => None,
    }
}

/// The number that a value holds everywhere, seen through broadcasts, reshapes and conversions.
fn splat(program: &Program, mut value: ValueId) -> Option<f64> {
    loop {
        let operation = &program.ops[program.producer(value)?];
        match &operation.op {
            Op::Constant(literal) => return literal.as_splat_number(),
            Op::BroadcastInDim(_) | Op::Convert { .. } | Op::Reshape { .. } => value = operation.operands[0],
            _ => return None,
        }
    }
}
