//! Updates of parameters by their gradients.

use super::settings::{Optimizer, Settings};
use super::step::Parameter;
use crate::program::{Binary, Builder, DType, Direction, Type, Unary, ValueId};

const FIRST_DECAY: f64 = 0.9;
const SECOND_DECAY: f64 = 0.999;
const MOMENTUM: f64 = 0.9;

/// Adds the update of all parameters; the next values of parameters and optimizer state go to
/// `results` under the names of the arguments they replace.
pub(super) fn update(
    builder: &mut Builder,
    settings: &Settings,
    parameters: &[Parameter],
    gradients: &[ValueId],
    results: &mut Vec<(String, ValueId)>,
) {
    let outer = builder.enter("update");
    let gradients = match settings.clip {
        clip if clip > 0.0 => builder.scoped("clip", |builder| clipped(builder, gradients, clip)),
        _ => gradients.to_vec(),
    };
    let needs_count = !matches!(settings.optimizer, Optimizer::Sgd | Optimizer::None);
    let count = needs_count.then(|| add_count(builder, results));
    let mut states = Vec::new();
    for (parameter, gradient) in parameters.iter().zip(gradients) {
        let mut update = Update { builder, settings, parameter, gradient, count, states: &mut states };
        let next = match settings.optimizer {
            Optimizer::Adafactor => update.adafactor(),
            Optimizer::Adam => update.scoped("adam", |update| update.adam(0.0)),
            Optimizer::AdamW => update.scoped("adam", |update| update.adam(settings.weight_decay)),
            Optimizer::None => continue,
            Optimizer::Sgd => update.scoped("sgd", Update::momentum),
        };
        results.push((format!("params.{}", parameter.name), next));
    }
    results.append(&mut states);
    builder.leave(outer);
}

/// The number of steps so far, and what Adam's averages are divided by after this one.
#[derive(Clone, Copy)]
struct Count {
    /// `1 - decay^count` for both averages, and the count itself, all scalars of f32.
    first: ValueId,
    second: ValueId,
    steps: ValueId,
}

fn add_count(builder: &mut Builder, results: &mut Vec<(String, ValueId)>) -> Count {
    let before = builder.argument("opt.count", Type::scalar(DType::I32));
    let one = builder.scalar(DType::I32, 1.0);
    let count = builder.plus(before, one);
    results.push(("opt.count".to_owned(), count));
    let steps = builder.convert(count, DType::F32);
    // As `-expm1(count * ln(decay))`: one less a power near one would lose four digits of f32.
    let mut rest = |decay: f64| {
        let exponent = builder.times_number(steps, decay.ln());
        let rest = builder.unary(Unary::ExponentialMinusOne, exponent);
        builder.negate(rest)
    };
    Count { first: rest(FIRST_DECAY), second: rest(SECOND_DECAY), steps }
}

/// All gradients times `clip / max(norm, clip)`, where the norm is that of all of them together.
fn clipped(builder: &mut Builder, gradients: &[ValueId], clip: f64) -> Vec<ValueId> {
    let mut total: Option<ValueId> = None;
    for &gradient in gradients {
        let dims: Vec<usize> = (0..builder.shape(gradient).len()).collect();
        let square = builder.times(gradient, gradient);
        let square = builder.sum(square, &dims);
        total = Some(total.map_or(square, |total| builder.plus(total, square)));
    }
    let Some(total) = total else { return Vec::new() };
    let norm = builder.unary(Unary::Sqrt, total);
    let limit = builder.full_like(norm, clip);
    let divisor = builder.binary(Binary::Maximum, norm, limit);
    let factor = builder.over(limit, divisor);
    let scaled = gradients.iter().map(|&gradient| {
        let shape = builder.shape(gradient);
        let factor = builder.broadcast(factor, &shape, &[]);
        builder.times(gradient, factor)
    });
    scaled.collect()
}

/// One parameter being updated.
struct Update<'u> {
    builder: &'u mut Builder,
    settings: &'u Settings,
    parameter: &'u Parameter,
    gradient: ValueId,
    count: Option<Count>,
    /// Next values of optimizer state.
    states: &'u mut Vec<(String, ValueId)>,
}

impl Update<'_> {
    /// What `build` adds is one function.
    fn scoped(&mut self, name: &str, build: impl FnOnce(&mut Self) -> ValueId) -> ValueId {
        let outer = self.builder.enter(name);
        let made = build(self);
        self.builder.leave(outer);
        made
    }

    fn state(&mut self, kind: &str, shape: &[usize]) -> (String, ValueId) {
        let name = format!("opt.{kind}.{}", self.parameter.name);
        let dtype = self.builder.dtype(self.parameter.value);
        let value = self.builder.argument(name.clone(), Type::new(dtype, shape));
        (name, value)
    }

    /// `decay * average + (1 - decay) * value`, kept as the next value of the state.
    fn average(&mut self, kind: &str, value: ValueId, decay: f64) -> ValueId {
        let shape = self.builder.shape(value);
        let (name, before) = self.state(kind, &shape);
        let old = self.builder.times_number(before, decay);
        let new = self.builder.times_number(value, 1.0 - decay);
        let next = self.builder.plus(old, new);
        self.states.push((name, next));
        next
    }

    /// The parameter less the learning rate times a direction.
    fn moved(&mut self, direction: ValueId) -> ValueId {
        let change = self.builder.times_number(direction, self.settings.learning_rate);
        self.builder.minus(self.parameter.value, change)
    }

    fn momentum(&mut self) -> ValueId {
        let shape = self.builder.shape(self.gradient);
        let (name, before) = self.state("m", &shape);
        let old = self.builder.times_number(before, MOMENTUM);
        let next = self.builder.plus(old, self.gradient);
        self.states.push((name, next));
        self.moved(next)
    }

    fn adam(&mut self, weight_decay: f64) -> ValueId {
        let gradient = self.gradient;
        let square = self.builder.times(gradient, gradient);
        let first = self.average("m", gradient, FIRST_DECAY);
        let second = self.average("v", square, SECOND_DECAY);
        let Some(count) = self.count else { return self.parameter.value };
        let first = self.divided(first, count.first);
        let second = self.divided(second, count.second);
        let root = self.builder.unary(Unary::Sqrt, second);
        let divisor = self.builder.plus_number(root, self.settings.epsilon);
        let mut direction = self.builder.over(first, divisor);
        if weight_decay > 0.0 {
            let decay = self.builder.times_number(self.parameter.value, weight_decay);
            direction = self.builder.plus(direction, decay);
        }
        self.moved(direction)
    }

    fn divided(&mut self, value: ValueId, scalar: ValueId) -> ValueId {
        let ty = self.builder.ty(value);
        let scalar = self.builder.convert(scalar, ty.dtype);
        let scalar = self.builder.broadcast(scalar, &ty.shape, &[]);
        self.builder.over(value, scalar)
    }

    /// Second moments as the outer product of averages over the last two dimensions, where there
    /// are two; the decay grows with the steps, as `1 - count^-0.8`; the update's root mean square
    /// is at most 1.
    fn adafactor(&mut self) -> ValueId {
        let gradient = self.gradient;
        let shape = self.builder.shape(gradient);
        let rank = shape.len();
        let square = self.builder.times(gradient, gradient);
        let square = self.builder.plus_number(square, 1e-30);
        let Some(count) = self.count else { return self.parameter.value };
        let power = self.builder.scalar(DType::F32, -0.8);
        let rate = self.builder.binary(Binary::Power, count.steps, power);
        let scaled = if rank >= 2 {
            let rows = self.builder.mean(square, &[rank - 1]);
            let columns = self.builder.mean(square, &[rank - 2]);
            let rows = self.running("row", rows, rate);
            let columns = self.running("column", columns, rate);
            let row_mean = self.builder.mean(rows, &[rank - 2]);
            let row_shape = self.builder.shape(rows);
            let row_mean = self.builder.broadcast_along(row_mean, &row_shape, rank - 2);
            let rows = self.builder.over(rows, row_mean);
            let rows = self.builder.unary(Unary::Rsqrt, rows);
            let columns = self.builder.unary(Unary::Rsqrt, columns);
            let rows = self.builder.broadcast_along(rows, &shape, rank - 1);
            let columns = self.builder.broadcast_along(columns, &shape, rank - 2);
            let scaled = self.builder.times(gradient, rows);
            self.builder.times(scaled, columns)
        } else {
            let second = self.running("v", square, rate);
            let root = self.builder.unary(Unary::Rsqrt, second);
            self.builder.times(gradient, root)
        };
        let dims: Vec<usize> = (0..rank).collect();
        let size = self.builder.times(scaled, scaled);
        let size = self.builder.mean(size, &dims);
        let size = self.builder.unary(Unary::Sqrt, size);
        let one = self.builder.full_like(size, 1.0);
        let is_large = self.builder.compare(Direction::Greater, size, one);
        let divisor = self.builder.select(is_large, size, one);
        let direction = self.divided(scaled, divisor);
        self.moved(direction)
    }

    /// `(1 - rate) * average + rate * value`, kept as the next value of the state.
    fn running(&mut self, kind: &str, value: ValueId, rate: ValueId) -> ValueId {
        let ty = self.builder.ty(value);
        let (name, before) = self.state(kind, &ty.shape);
        let rate = self.builder.convert(rate, ty.dtype);
        let rate = self.builder.broadcast(rate, &ty.shape, &[]);
        let change = self.builder.minus(value, before);
        let change = self.builder.times(change, rate);
        let next = self.builder.plus(before, change);
        self.states.push((name, next));
        next
    }
}
