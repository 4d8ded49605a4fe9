//! Ops that work element by element.

use meshwright::program::{Binary, DType, Direction, Op, Order, Type, Unary};

use crate::generator::{Entry, Generator, Quality, joined};

pub(crate) fn unary(generator: &mut Generator, variant: usize) {
    let unary = Unary::ALL[variant % Unary::ALL.len()];
    let of_integers = matches!(unary, Unary::Abs | Unary::Negate | Unary::Sign) && generator.random.chance(20);
    if of_integers || matches!(unary, Unary::CountLeadingZeros | Unary::Not | Unary::PopulationCount) {
        let entry = generator.any(DType::I32, 1);
        let value = generator.builder.unary(unary, entry.value);
        generator.push(value, Quality::Grid, 1.0);
        return;
    }
    let jumps =
        matches!(unary, Unary::Ceil | Unary::Floor | Unary::RoundNearestAfz | Unary::RoundNearestEven | Unary::Sign);
    let entry = generator.any_float(1);
    let (dtype, dims) = (generator.dtype(entry), generator.dims(entry));
    let entry = if jumps && entry.quality == Quality::Rough { generator.exact(dtype, &dims) } else { entry };
    let is_linear = matches!(unary, Unary::Conj | Unary::Imag | Unary::Negate | Unary::Real | Unary::Abs);
    let entry = match unary {
        _ if is_linear => entry,
        Unary::Acosh | Unary::Digamma | Unary::Lgamma | Unary::Log | Unary::Rsqrt | Unary::Sqrt | Unary::Cbrt => {
            generator.bounded(entry, 2.0, 0.9)
        }
        _ if jumps => generator.bounded(entry, 0.1, 3.0),
        _ => generator.bounded(entry, 0.0, 0.9),
    };
    let value = generator.builder.unary(unary, entry.value);
    let quality = if is_linear || entry.quality == Quality::Rough { entry.quality } else { Quality::Exact };
    generator.push(value, quality, entry.bound.max(40.0));
}

pub(crate) fn binary(generator: &mut Generator, variant: usize) {
    let binary = Binary::ALL[variant % Binary::ALL.len()];
    match binary {
        Binary::And | Binary::Or | Binary::Xor => logic(generator, binary),
        Binary::ShiftLeft | Binary::ShiftRightArithmetic | Binary::ShiftRightLogical => integer(generator, binary),
        Binary::Add | Binary::Maximum | Binary::Minimum | Binary::Multiply | Binary::Remainder | Binary::Subtract
            if generator.random.chance(25) =>
        {
            integer(generator, binary);
        }
        Binary::Add | Binary::Maximum | Binary::Minimum | Binary::Multiply if generator.random.chance(15) => {
            logic(generator, binary);
        }
        _ => float(generator, binary),
    }
}

fn logic(generator: &mut Generator, binary: Binary) {
    let left = generator.any(DType::Bool, 1);
    let dims = generator.dims(left);
    let right = generator.value(DType::Bool, &dims);
    let value = generator.builder.binary(binary, left.value, right.value);
    generator.push(value, Quality::Grid, 1.0);
}

fn integer(generator: &mut Generator, binary: Binary) {
    let dtype = generator.integer_type();
    let left = generator.any(dtype, 1);
    let dims = generator.dims(left);
    let right = generator.value(dtype, &dims);
    let value = generator.builder.binary(binary, left.value, right.value);
    generator.push(value, Quality::Grid, 1.0);
}

fn float(generator: &mut Generator, binary: Binary) {
    let left = generator.any_float(1);
    let (dtype, dims) = (generator.dtype(left), generator.dims(left));
    let right = generator.value(dtype, &dims);
    let (left, right) = if generator.random.chance(50) { (left, right) } else { (right, left) };
    let exact = |generator: &mut Generator, entry: Entry| match entry.quality {
        Quality::Rough => generator.argument(dtype, &dims),
        _ => entry,
    };
    let (left, right) = match binary {
        Binary::Divide => (left, generator.bounded(right, 2.0, 0.9)),
        Binary::Atan2 | Binary::Power | Binary::Zeta => {
            (generator.bounded(left, 2.5, 0.9), generator.bounded(right, 2.0, 0.9))
        }
        Binary::NextAfter | Binary::Remainder => {
            let (left, right) = (exact(generator, left), exact(generator, right));
            (left, generator.bounded(right, 2.0, 0.9))
        }
        Binary::Polygamma => {
            let order = generator.constant(dtype, &dims);
            let order = generator.builder.unary(Unary::Floor, order.value);
            let order = Entry { value: order, quality: Quality::Grid, bound: 4.0 };
            (order, generator.bounded(right, 2.0, 0.9))
        }
        _ => (left, right),
    };
    let value = generator.builder.binary(binary, left.value, right.value);
    let both = [left, right];
    let is_rough = both.iter().any(|entry| entry.quality == Quality::Rough);
    let nonlinear = if is_rough { Quality::Rough } else { Quality::Exact };
    match binary {
        Binary::Add | Binary::Subtract => generator.push(value, joined(&both), left.bound + right.bound),
        Binary::Multiply => generator.push(value, joined(&both), left.bound * right.bound),
        Binary::Maximum | Binary::Minimum => generator.push(value, joined(&both), left.bound.max(right.bound)),
        Binary::Divide => generator.push(value, Quality::Rough, left.bound),
        // Orders that are not whole give no number, and the gamma function grows fast.
        Binary::Polygamma => generator.push(value, nonlinear, f64::INFINITY),
        _ => generator.push(value, nonlinear, 100.0),
    };
}

pub(crate) fn clamp(generator: &mut Generator, variant: usize) {
    let value = generator.any_float(1);
    let (dtype, dims) = (generator.dtype(value), generator.dims(value));
    let bounds: Vec<usize> = if variant.is_multiple_of(2) { vec![] } else { dims };
    let (low, high) = (generator.value(dtype, &bounds), generator.value(dtype, &bounds));
    let all = [low, value, high];
    let clamped = generator.one(Op::Clamp, &all.map(|entry| entry.value), &[]);
    generator.push_moved(clamped, &all);
}

pub(crate) fn compare(generator: &mut Generator, variant: usize) {
    let direction = Direction::ALL[variant % Direction::ALL.len()];
    let dtype = generator.random.pick(&[DType::F32, DType::F64, DType::I32, DType::U32, DType::Bool]);
    let left = generator.any(dtype, 1);
    let dims = generator.dims(left);
    let left = if left.quality == Quality::Rough { generator.exact(dtype, &dims) } else { left };
    let right = generator.exact(dtype, &dims);
    let op = Op::Compare { direction, order: Order::Natural };
    let value = generator.one(op, &[left.value, right.value], &[]);
    generator.push(value, Quality::Grid, 1.0);
}

pub(crate) fn select(generator: &mut Generator, variant: usize) {
    let on_true = generator.any_float(1);
    let (dtype, dims) = (generator.dtype(on_true), generator.dims(on_true));
    let on_false = generator.value(dtype, &dims);
    let predicate = generator.value(DType::Bool, if variant.is_multiple_of(2) { &[] } else { &dims });
    let value = generator.builder.select(predicate.value, on_true.value, on_false.value);
    generator.push_moved(value, &[on_true, on_false]);
}

pub(crate) fn convert(generator: &mut Generator, _: usize) {
    let all = [DType::F32, DType::F64, DType::F16, DType::BF16, DType::I32, DType::U8, DType::Bool, DType::I64];
    let (from, to) = (generator.random.pick(&all), generator.random.pick(&all));
    let entry = generator.any(from, 1);
    let dims = generator.dims(entry);
    let entry = if entry.quality == Quality::Rough && !to.is_float() { generator.exact(from, &dims) } else { entry };
    let value = generator.one(Op::Convert { dtype: to }, &[entry.value], &[]);
    let (quality, bound) = if from.is_float() { (entry.quality, entry.bound) } else { (Quality::Grid, 2f64.powi(33)) };
    generator.push(value, quality, bound);
}

pub(crate) fn bitcast(generator: &mut Generator, variant: usize) {
    let (from, to) = match variant % 3 {
        0 => (DType::I32, DType::U32),
        1 => (DType::U32, DType::U8),
        _ => (DType::U32, DType::I32),
    };
    let entry = generator.any(from, 1);
    let value = generator.one(Op::BitcastConvert { dtype: to }, &[entry.value], &[]);
    generator.push(value, Quality::Grid, 1.0);
    if variant % 3 == 1 {
        let narrow = generator.one(Op::BitcastConvert { dtype: from }, &[value], &[]);
        generator.push(narrow, Quality::Grid, 1.0);
    }
}

pub(crate) fn reduce_precision(generator: &mut Generator, _: usize) {
    let entry = generator.any_float(1);
    let (dtype, dims) = (generator.dtype(entry), generator.dims(entry));
    let entry = if entry.quality == Quality::Rough { generator.exact(dtype, &dims) } else { entry };
    let entry = generator.bounded(entry, 0.0, 3.0);
    let op = Op::ReducePrecision { exponent_bits: 6, mantissa_bits: 3 };
    let value = generator.one(op, &[entry.value], &[]);
    generator.push(value, entry.quality, 4.0);
}

/// Complex numbers are moved, and taken apart again. The interpreter does not add them, so no sum
/// may still be open: the barrier sees to that.
pub(crate) fn complex(generator: &mut Generator, variant: usize) {
    let real = generator.any(DType::F32, 2);
    let dims = generator.dims(real);
    let imaginary = generator.value(DType::F32, &dims);
    let parts = generator.builder.barrier(&[real.value, imaginary.value]);
    let complex = generator.one(Op::Complex, &parts, &[]);
    let order = generator.random.permutation(dims.len());
    let moved = generator.builder.transpose(complex, &order);
    let unary = if variant.is_multiple_of(2) { Unary::Real } else { Unary::Imag };
    let value = generator.builder.unary(unary, moved);
    generator.push(value, real.quality.max(imaginary.quality), real.bound.max(imaginary.bound));
}

/// A function of scalars, applied to every element.
pub(crate) fn map(generator: &mut Generator, variant: usize) {
    let left = generator.any_float(1);
    let (dtype, dims) = (generator.dtype(left), generator.dims(left));
    let right = generator.value(dtype, &dims);
    let region = generator.builder.program.add_region();
    let scalar = Type::scalar(dtype);
    let arguments = [0, 1].map(|_| generator.builder.program.add_region_argument(region, scalar.clone()));
    // Some functions read a value from outside.
    let outside = variant.is_multiple_of(2).then(|| generator.value(dtype, &[]));
    let result = generator.builder.inside(region, |builder| {
        let product = builder.times(arguments[0], arguments[1]);
        let sum = builder.plus(product, arguments[0]);
        let sum = outside.map_or(sum, |outside| builder.plus(sum, outside.value));
        builder.unary(Unary::Tanh, sum)
    });
    generator.builder.program.regions[region].results = vec![result];
    let value = generator.one(Op::Map, &[left.value, right.value], &[region]);
    generator.push(value, Quality::Rough, 1.0);
}
