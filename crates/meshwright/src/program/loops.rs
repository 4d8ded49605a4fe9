//! Loops whose number of trips is known: what JAX's `scan` and `fori_loop` become.

use super::{Binary, Definition, Direction, Id, Op, OpId, Program, RegionId, ValueId};

/// A `while` that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedLoop {
    pub trips: usize,
    /// Which carried value counts.
    pub counter: usize,
    pub start: i64,
    pub step: i64,
    /// What each carried value does.
    pub roles: Vec<Role>,
}

/// What a value carried around a loop does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Counter,
    /// Changes from trip to trip.
    Carried,
    /// The same in every trip.
    Invariant,
    /// Each trip reads one slice along `dim`, and nobody changes it. The slice of trip `t` is the
    /// one at `first + t * step`.
    StackedInput {
        dim: usize,
        first: i64,
        step: i64,
    },
    /// Each trip writes one slice along `dim`, and nobody reads it.
    StackedOutput {
        dim: usize,
        first: i64,
        step: i64,
    },
}

/// `scale * trip + offset`, where the trip counts from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Affine {
    scale: i64,
    offset: i64,
}

/// How often each part of a program runs where that is known, once otherwise.
#[derive(Clone, Debug)]
pub struct Trips {
    /// Per region.
    regions: Vec<usize>,
    /// The region of each op.
    homes: Vec<RegionId>,
}

impl Trips {
    pub fn of_op(&self, op: OpId) -> usize {
        self.regions[self.homes[op.index()].index()]
    }

    /// How often a value is made.
    pub fn of_value(&self, program: &Program, value: ValueId) -> usize {
        match program.values[value].definition {
            Definition::Argument { region, .. } => self.regions[region.index()],
            Definition::Result { op, .. } => self.of_op(op),
        }
    }
}

impl Program {
    pub fn trips(&self) -> Trips {
        let mut trips = Trips { regions: vec![1; self.regions.len()], homes: vec![self.body; self.ops.len()] };
        let mut open = vec![self.body];
        while let Some(region) = open.pop() {
            for &op in &self.regions[region].ops {
                trips.homes[op.index()] = region;
                let own = self.counted_loop(op).map_or(1, |counted| counted.trips);
                for &inner in &self.ops[op].regions {
                    trips.regions[inner.index()] = own.saturating_mul(trips.regions[region.index()]);
                    open.push(inner);
                }
            }
        }
        trips
    }

    /// Whether a loop carries a value that no trip changes.
    pub fn carries_unchanged(&self, op: OpId, index: usize) -> bool {
        let operation = &self.ops[op];
        let (Op::While, &[_, body]) = (&operation.op, operation.regions.as_slice()) else { return false };
        let body = &self.regions[body];
        body.results.get(index).is_some_and(|result| body.arguments.get(index) == Some(result))
    }

    /// The counted loop that a `while` is, if its trip count can be proven.
    pub fn counted_loop(&self, op: OpId) -> Option<CountedLoop> {
        let operation = self.ops.get(op)?;
        let (Op::While, &[condition, body]) = (&operation.op, operation.regions.as_slice()) else { return None };
        let &[verdict] = self.regions[condition].results.as_slice() else { return None };
        let compare = &self.ops[self.producer(verdict)?];
        let Op::Compare { direction, .. } = compare.op else { return None };
        let (left, right) = (compare.operands[0], compare.operands[1]);
        // The counter may stand on either side.
        [(left, direction, right), (right, mirrored(direction), left)].into_iter().find_map(
            |(value, direction, limit)| {
                let counter = argument_index(self, condition, value)?;
                let bound = constant(self, op, limit, 0)?;
                count(self, op, body, counter, direction, bound)
            },
        )
    }
}

/// The loop counted by one carried value, compared with a constant bound.
fn count(
    program: &Program,
    op: OpId,
    body: RegionId,
    counter: usize,
    direction: Direction,
    bound: i64,
) -> Option<CountedLoop> {
    let operation = &program.ops[op];
    let start = constant(program, op, operation.operands[counter], 0)?;
    let next = program.regions[body].results[counter];
    let step = step_of(program, op, body, counter, next)?;
    let trips = trip_count(start, step, direction, bound)?;
    // The counter must not wrap around before it gets there.
    let dtype = program.dtype(next);
    let half = 1i128 << (dtype.bits() - 1);
    let range = if dtype.is_signed() { -half..half } else { 0..2 * half };
    if !range.contains(&(i128::from(start) + trips as i128 * i128::from(step))) {
        return None;
    }
    let counted = Counted { program, op, body, counter, start, step, trips };
    let roles = (0..operation.operands.len()).map(|index| role(&counted, index)).collect();
    Some(CountedLoop { trips, counter, start, step, roles })
}

fn mirrored(direction: Direction) -> Direction {
    match direction {
        Direction::Equal => Direction::Equal,
        Direction::Greater => Direction::Less,
        Direction::GreaterOrEqual => Direction::LessOrEqual,
        Direction::Less => Direction::Greater,
        Direction::LessOrEqual => Direction::GreaterOrEqual,
        Direction::NotEqual => Direction::NotEqual,
    }
}

/// How often `start + t * step` passes the comparison, counted from the first trip.
fn trip_count(start: i64, step: i64, direction: Direction, bound: i64) -> Option<usize> {
    let distance = i128::from(bound) - i128::from(start);
    let step = i128::from(step);
    let trips = match direction {
        Direction::Less if step > 0 => ceiling_division(distance.max(0), step),
        Direction::LessOrEqual if step > 0 => ceiling_division((distance + 1).max(0), step),
        Direction::Greater if step < 0 => ceiling_division((-distance).max(0), -step),
        Direction::GreaterOrEqual if step < 0 => ceiling_division((1 - distance).max(0), -step),
        Direction::NotEqual if step != 0 && distance % step == 0 && distance / step >= 0 => distance / step,
        _ => return None,
    };
    usize::try_from(trips).ok()
}

fn ceiling_division(dividend: i128, divisor: i128) -> i128 {
    (dividend + divisor - 1) / divisor
}

/// Which argument of the region a value is.
fn argument_index(program: &Program, region: RegionId, value: ValueId) -> Option<usize> {
    match program.values[value].definition {
        Definition::Argument { region: of, index } if of == region => Some(index as usize),
        _ => None,
    }
}

/// How deep expressions are followed.
const MAXIMUM_DEPTH: usize = 16;

/// The value of an integer scalar that is the same in every trip of the loop `op`.
fn constant(program: &Program, op: OpId, value: ValueId, depth: usize) -> Option<i64> {
    if depth > MAXIMUM_DEPTH || !program.shape(value).is_empty() {
        return None;
    }
    match program.values[value].definition {
        Definition::Argument { region, index } => {
            // An argument of the loop that every trip passes on has its first value.
            let operation = &program.ops[op];
            if !operation.regions.contains(&region) || !is_invariant(program, operation.regions[1], index as usize) {
                return None;
            }
            constant(program, op, operation.operands[index as usize], depth + 1)
        }
        Definition::Result { op: producer, .. } => {
            let producer = &program.ops[producer];
            match &producer.op {
                Op::Constant(literal) => literal.as_splat_integer(),
                Op::Convert { dtype } if dtype.is_integer() => {
                    constant(program, op, producer.operands[0], depth + 1).map(|value| dtype.wrap(value))
                }
                Op::Reshape { .. } => constant(program, op, producer.operands[0], depth + 1),
                _ => None,
            }
        }
    }
}

fn is_invariant(program: &Program, body: RegionId, index: usize) -> bool {
    let body = &program.regions[body];
    body.results.get(index) == body.arguments.get(index)
}

/// The constant that each trip adds to the counter.
fn step_of(program: &Program, op: OpId, body: RegionId, counter: usize, next: ValueId) -> Option<i64> {
    let producer = &program.ops[program.producer(next)?];
    let is_counter = |value: ValueId| argument_index(program, body, value) == Some(counter);
    let (&left, &right) = (producer.operands.first()?, producer.operands.get(1)?);
    match producer.op {
        Op::Binary(Binary::Add) if is_counter(left) => constant(program, op, right, 0),
        Op::Binary(Binary::Add) if is_counter(right) => constant(program, op, left, 0),
        Op::Binary(Binary::Subtract) if is_counter(left) => constant(program, op, right, 0)?.checked_neg(),
        _ => None,
    }
}

/// A loop whose count is known and whose values are being looked at.
struct Counted<'p> {
    program: &'p Program,
    op: OpId,
    body: RegionId,
    counter: usize,
    start: i64,
    step: i64,
    trips: usize,
}

fn role(counted: &Counted<'_>, index: usize) -> Role {
    let body = &counted.program.regions[counted.body];
    let (argument, result) = (body.arguments[index], body.results[index]);
    if index == counted.counter {
        return Role::Counter;
    }
    if argument == result {
        return stacked_input(counted, argument).unwrap_or(Role::Invariant);
    }
    stacked_output(counted, argument, result).unwrap_or(Role::Carried)
}

/// An invariant that the body reads only by one slice per trip, the same way everywhere.
fn stacked_input(counted: &Counted<'_>, argument: ValueId) -> Option<Role> {
    let program = counted.program;
    let mut found = None;
    for op in uses_in_body(counted, argument)? {
        let operation = &program.ops[op];
        let Op::DynamicSlice { sizes } = &operation.op else { return None };
        if operation.operands[0] != argument {
            return None;
        }
        let slice = one_slice(counted, program.shape(argument), sizes, &operation.operands[1..])?;
        if *found.get_or_insert(slice) != slice {
            return None;
        }
    }
    let (dim, Affine { scale, offset }) = found?;
    Some(Role::StackedInput { dim, first: offset, step: scale })
}

/// A value that the body only writes one slice of.
fn stacked_output(counted: &Counted<'_>, argument: ValueId, result: ValueId) -> Option<Role> {
    let program = counted.program;
    let update = program.producer(result)?;
    let operation = &program.ops[update];
    if operation.op != Op::DynamicUpdateSlice || operation.operands[0] != argument {
        return None;
    }
    if uses_in_body(counted, argument)? != [update] {
        return None;
    }
    let sizes = program.shape(operation.operands[1]);
    let (dim, Affine { scale, offset }) = one_slice(counted, program.shape(argument), sizes, &operation.operands[2..])?;
    Some(Role::StackedOutput { dim, first: offset, step: scale })
}

/// The ops of the body that read a value, or `None` where a nested region or the body's results do.
fn uses_in_body(counted: &Counted<'_>, value: ValueId) -> Option<Vec<OpId>> {
    let program = counted.program;
    let body = &program.regions[counted.body];
    let mut uses = Vec::new();
    for &op in &body.ops {
        let operation = &program.ops[op];
        if operation.operands.contains(&value) {
            uses.push(op);
        }
        if operation.regions.iter().any(|&region| region_uses(program, region, value)) {
            return None;
        }
    }
    let passed_on = body.results.iter().filter(|&&result| result == value).count();
    let own = usize::from(body.arguments.iter().zip(&body.results).any(|(&from, &to)| from == value && to == value));
    (passed_on == own).then_some(uses)
}

fn region_uses(program: &Program, region: RegionId, value: ValueId) -> bool {
    let region = &program.regions[region];
    region.results.contains(&value)
        || region.ops.iter().any(|&op| {
            let operation = &program.ops[op];
            operation.operands.contains(&value)
                || operation.regions.iter().any(|&inner| region_uses(program, inner, value))
        })
}

/// Which slice of one row each trip touches: whole in all dimensions but one, and there at an
/// affine position that stays inside and differs from trip to trip.
fn one_slice(counted: &Counted<'_>, shape: &[usize], sizes: &[usize], starts: &[ValueId]) -> Option<(usize, Affine)> {
    let mut moving = None;
    for (dim, ((&whole, &size), &start)) in shape.iter().zip(sizes).zip(starts).enumerate() {
        let start = affine(counted, start, 0)?;
        if size == whole && start == (Affine { scale: 0, offset: 0 }) && moving.is_some() | (size != 1) {
            continue;
        }
        if size != 1 || moving.is_some() {
            return None;
        }
        moving = Some((dim, start));
    }
    let (dim, start) = moving?;
    let last = start.scale.checked_mul(counted.trips as i64 - 1)?.checked_add(start.offset)?;
    let inside = |position: i64| (0..shape[dim] as i64).contains(&position);
    let moves = start.scale != 0 || counted.trips == 1;
    (counted.trips > 0 && moves && inside(start.offset) && inside(last)).then_some((dim, start))
}

/// A scalar of the body as a function of the trip, where it stays in the range of its type: being
/// affine, it does so in all trips if it does in the first and the last.
fn affine(counted: &Counted<'_>, value: ValueId, depth: usize) -> Option<Affine> {
    let found = unchecked_affine(counted, value, depth)?;
    let dtype = counted.program.dtype(value);
    let last = found.scale.checked_mul(counted.trips.max(1) as i64 - 1)?.checked_add(found.offset)?;
    let fits = |value: i64| dtype.wrap(value) == value && !(dtype.is_unsigned() && value < 0);
    (fits(found.offset) && fits(last)).then_some(found)
}

fn unchecked_affine(counted: &Counted<'_>, value: ValueId, depth: usize) -> Option<Affine> {
    let program = counted.program;
    if depth > MAXIMUM_DEPTH {
        return None;
    }
    if argument_index(program, counted.body, value) == Some(counted.counter) {
        return Some(Affine { scale: counted.step, offset: counted.start });
    }
    if let Some(offset) = constant(program, counted.op, value, depth) {
        return Some(Affine { scale: 0, offset });
    }
    let operation = &program.ops[program.producer(value)?];
    let operand = |index: usize| affine(counted, *operation.operands.get(index)?, depth + 1);
    match &operation.op {
        Op::Binary(Binary::Add) => combine(operand(0)?, operand(1)?, 1),
        Op::Binary(Binary::Subtract) => combine(operand(0)?, operand(1)?, -1),
        Op::Binary(Binary::Multiply) => {
            let (left, right) = (operand(0)?, operand(1)?);
            let (moving, factor) = if left.scale == 0 { (right, left) } else { (left, right) };
            if factor.scale != 0 {
                return None;
            }
            let scale = moving.scale.checked_mul(factor.offset)?;
            Some(Affine { scale, offset: moving.offset.checked_mul(factor.offset)? })
        }
        Op::Convert { dtype } if dtype.is_integer() => operand(0),
        Op::Reshape { .. } => operand(0),
        // JAX wraps negative positions around: `select(i < 0, i + n, i)`.
        Op::Select => match decided(counted, operation.operands[0], depth)? {
            true => operand(1),
            false => operand(2),
        },
        _ => None,
    }
}

fn combine(left: Affine, right: Affine, sign: i64) -> Option<Affine> {
    let scale = left.scale.checked_add(right.scale.checked_mul(sign)?)?;
    Some(Affine { scale, offset: left.offset.checked_add(right.offset.checked_mul(sign)?)? })
}

/// The outcome of a comparison that is the same in every trip.
fn decided(counted: &Counted<'_>, value: ValueId, depth: usize) -> Option<bool> {
    let operation = &counted.program.ops[counted.program.producer(value)?];
    let Op::Compare { direction, .. } = operation.op else { return None };
    let left = affine(counted, operation.operands[0], depth + 1)?;
    let right = affine(counted, operation.operands[1], depth + 1)?;
    let difference = combine(left, right, -1)?;
    // An affine function is extreme at the ends.
    let last = difference.scale.checked_mul(counted.trips.max(1) as i64 - 1)?.checked_add(difference.offset)?;
    let holds = |difference: i64| direction.holds(difference.cmp(&0));
    let (first, last) = (holds(difference.offset), holds(last));
    let is_order = !matches!(direction, Direction::Equal | Direction::NotEqual);
    (first == last && (is_order || difference.scale == 0)).then_some(first)
}
