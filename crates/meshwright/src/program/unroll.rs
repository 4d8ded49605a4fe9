//! Counted loops written out, trip by trip.

use rustc_hash::FxHashMap;

use super::{
    Binary, Copier, CountedLoop, DType, Literal, LocationId, Op, OpId, Program, RegionId, Role, Shape, Slice, Type,
    ValueId,
};

/// Unrolling that makes more ops than this is refused.
const MAXIMUM_OPS: usize = 5_000_000;

impl Program {
    /// The same program with its counted loops written out. Positions that depend on the trip become
    /// constants, slices at them become plain slices, and what the trips stacked is concatenated.
    /// The error says that the program would become too large.
    pub fn unroll(&self) -> Result<Program, String> {
        let mut unroller = Unroller { known: FxHashMap::default(), inside: 0, is_too_large: false };
        let mut copier = Copier::new(self);
        let body = copier.new.body;
        unroller.copy_region(&mut copier, self.body, body);
        if unroller.is_too_large {
            return Err(format!("unrolling makes more than {MAXIMUM_OPS} ops"));
        }
        Ok(copier.new.compact())
    }
}

struct Unroller {
    /// Integer scalars of the new program whose value is known.
    known: FxHashMap<ValueId, i64>,
    /// How many unrolled loops the copy stands inside.
    inside: usize,
    is_too_large: bool,
}

impl Unroller {
    fn copy_region(&mut self, copier: &mut Copier<'_>, from: RegionId, to: RegionId) {
        copier.copy_arguments(from, to);
        self.copy_ops(copier, from, to, &[]);
        if !self.is_too_large {
            copier.copy_results(from, to);
        }
    }

    /// Copies the ops of a region but for those in `skipped`.
    fn copy_ops(&mut self, copier: &mut Copier<'_>, from: RegionId, to: RegionId, skipped: &[OpId]) {
        let old = copier.old;
        for &op in &old.regions[from].ops {
            if skipped.contains(&op) {
                continue;
            }
            self.is_too_large |= copier.new.ops.len() > MAXIMUM_OPS;
            if self.is_too_large {
                return;
            }
            let location = copier.location(old.ops[op].location);
            if let Some(counted) = old.counted_loop(op) {
                self.copy_loop(copier, op, &counted, to, location);
            } else if !self.fold(copier, op, to, location) {
                copier.copy_op(op, to, location, &mut |copier, from, to| self.copy_region(copier, from, to));
            }
        }
    }

    fn copy_loop(&mut self, copier: &mut Copier<'_>, op: OpId, counted: &CountedLoop, to: RegionId, at: LocationId) {
        let old = copier.old;
        let operation = &old.ops[op];
        let body = operation.regions[1];
        let mut carried = copier.values(&operation.operands);
        let stacks = whole_stacks(old, op, counted);
        let updates: Vec<OpId> = stacks.iter().filter_map(|stack| old.producer(stack.result)).collect();
        let mut pieces: Vec<Vec<ValueId>> = vec![Vec::new(); stacks.len()];
        self.inside += 1;
        for trip in 0..counted.trips {
            carried[counted.counter] =
                self.add_counter(copier, operation.operands[counted.counter], counted, trip, to, at);
            for (&argument, &value) in old.regions[body].arguments.iter().zip(&carried) {
                copier.set_value(argument, value);
            }
            self.copy_ops(copier, body, to, &updates);
            if self.is_too_large {
                return;
            }
            for (stack, pieces) in stacks.iter().zip(&mut pieces) {
                let update = old.producer(stack.result).map(|update| old.ops[update].operands[1]);
                pieces.extend(update.map(|update| copier.value(update)));
                // The stack itself is made after the last trip.
                copier.set_value(stack.result, carried[stack.index]);
            }
            carried = copier.values(&old.regions[body].results);
        }
        self.inside -= 1;
        let after = counted.trips;
        carried[counted.counter] =
            self.add_counter(copier, operation.operands[counted.counter], counted, after, to, at);
        for (stack, pieces) in stacks.iter().zip(pieces) {
            carried[stack.index] = add_stack(copier, stack, pieces, to, at);
        }
        for (&result, &value) in operation.results.iter().zip(&carried) {
            copier.set_value(result, value);
        }
    }

    /// The counter's value in a trip, as a constant.
    fn add_counter(
        &mut self,
        copier: &mut Copier<'_>,
        counter: ValueId,
        counted: &CountedLoop,
        trip: usize,
        to: RegionId,
        at: LocationId,
    ) -> ValueId {
        let ty = copier.old.ty(counter).clone();
        self.add_constant(copier, ty, counted.start.wrapping_add(counted.step.wrapping_mul(trip as i64)), to, at)
    }

    fn add_constant(&mut self, copier: &mut Copier<'_>, ty: Type, value: i64, to: RegionId, at: LocationId) -> ValueId {
        let literal = Literal::splat_integer(ty.clone(), value);
        let constant = copier.add_op(to, Op::Constant(Box::new(literal)), &[], ty, at);
        self.known.insert(constant, value);
        constant
    }

    /// Inside an unrolled loop, computes what is known instead of copying the op.
    fn fold(&mut self, copier: &mut Copier<'_>, op: OpId, to: RegionId, at: LocationId) -> bool {
        let operation = &copier.old.ops[op];
        if self.inside == 0 && !matches!(operation.op, Op::Constant(_)) {
            return false;
        }
        let &[result] = operation.results.as_slice() else { return false };
        let ty = copier.old.ty(result).clone();
        let operands = copier.values(&operation.operands);
        let known = |index: usize| operands.get(index).and_then(|operand| self.known.get(operand)).copied();
        let is_scalar = ty.rank() == 0 && (ty.dtype.is_integer() || ty.dtype == DType::Bool);
        let value = match &operation.op {
            Op::Binary(binary) if is_scalar => known(0).zip(known(1)).and_then(|(a, b)| compute(*binary, a, b)),
            Op::Compare { direction, .. } if is_scalar => {
                known(0).zip(known(1)).map(|(a, b)| i64::from(direction.holds(a.cmp(&b))))
            }
            Op::Convert { .. } | Op::Reshape { .. } if is_scalar => known(0),
            Op::Constant(literal) if is_scalar => {
                let value = literal.as_splat_integer();
                let constant = copier.add_op(to, operation.op.clone(), &[], ty, at);
                copier.set_value(result, constant);
                self.known.extend(value.map(|value| (constant, value)));
                return true;
            }
            Op::Select => match known(0) {
                Some(choice) => {
                    copier.set_value(result, operands[if choice != 0 { 1 } else { 2 }]);
                    return true;
                }
                None => None,
            },
            Op::DynamicSlice { sizes } => {
                let starts: Option<Vec<i64>> = (1..operands.len()).map(known).collect();
                let Some(starts) = starts else { return false };
                let slice = add_slice(copier, operands[0], &starts, sizes, ty, to, at);
                copier.set_value(result, slice);
                return true;
            }
            _ => None,
        };
        let Some(value) = value.map(|value| ty.dtype.wrap(value)) else { return false };
        // Past 63 bits an unsigned number looks negative, and would compare as such.
        if ty.dtype.is_unsigned() && value < 0 {
            return false;
        }
        let constant = self.add_constant(copier, ty, value, to, at);
        copier.set_value(result, constant);
        true
    }
}

fn compute(binary: Binary, left: i64, right: i64) -> Option<i64> {
    match binary {
        Binary::Add => Some(left.wrapping_add(right)),
        Binary::Multiply => Some(left.wrapping_mul(right)),
        Binary::Subtract => Some(left.wrapping_sub(right)),
        _ => None,
    }
}

/// A carried value that the trips fill entirely, one slice each.
struct Stack {
    index: usize,
    /// What the body makes of it.
    result: ValueId,
    dim: usize,
    is_reversed: bool,
    ty: Type,
}

fn whole_stacks(program: &Program, op: OpId, counted: &CountedLoop) -> Vec<Stack> {
    let body = &program.regions[program.ops[op].regions[1]];
    let stacks = counted.roles.iter().enumerate().filter_map(|(index, &role)| {
        let Role::StackedOutput { dim, step, .. } = role else { return None };
        let result = body.results[index];
        let ty = program.ty(result).clone();
        let is_whole = ty.shape[dim] == counted.trips && step.abs() == 1;
        is_whole.then_some(Stack { index, result, dim, is_reversed: step < 0, ty })
    });
    stacks.collect()
}

fn add_stack(
    copier: &mut Copier<'_>,
    stack: &Stack,
    mut pieces: Vec<ValueId>,
    to: RegionId,
    at: LocationId,
) -> ValueId {
    if stack.is_reversed {
        pieces.reverse();
    }
    match pieces.as_slice() {
        &[only] => only,
        _ => copier.add_op(to, Op::Concatenate { dim: stack.dim }, &pieces, stack.ty.clone(), at),
    }
}

/// The slice at known positions, clamped as a dynamic slice is. A slice of what was concatenated is
/// the piece itself.
fn add_slice(
    copier: &mut Copier<'_>,
    operand: ValueId,
    starts: &[i64],
    sizes: &[usize],
    ty: Type,
    to: RegionId,
    at: LocationId,
) -> ValueId {
    let shape = copier.new.shape(operand);
    let clamped = starts.iter().zip(shape.iter().zip(sizes));
    let start: Shape =
        clamped.map(|(&start, (&whole, &size))| start.clamp(0, (whole - size) as i64) as usize).collect();
    if let Some(piece) = piece_of(&copier.new, operand, &start, sizes) {
        return piece;
    }
    let limit = start.iter().zip(sizes).map(|(&start, &size)| start + size).collect();
    let strides = sizes.iter().map(|_| 1).collect();
    copier.add_op(to, Op::Slice(Box::new(Slice { start, limit, strides })), &[operand], ty, at)
}

fn piece_of(program: &Program, operand: ValueId, start: &[usize], sizes: &[usize]) -> Option<ValueId> {
    let operation = &program.ops[program.producer(operand)?];
    let Op::Concatenate { dim } = operation.op else { return None };
    // A stack of single slices is looked up at once; there may be as many as trips.
    let single = operation.operands.len() == program.shape(operand)[dim];
    let mut position = 0;
    let piece = operation.operands.get(start[dim]).filter(|_| single).or_else(|| {
        operation.operands.iter().find(|&&piece| {
            let here = position;
            position += program.shape(piece)[dim];
            here == start[dim]
        })
    })?;
    (program.shape(*piece) == sizes).then_some(*piece)
}
