//! Gradients of elementwise ops.

use super::rules::Rule;
use crate::program::{Binary, Builder, Direction, Unary, ValueId};

/// Turns the gradient of `f(x)` into that of `x`; `x` is the operand, `y` the result.
pub(super) fn unary(rule: &mut Rule<'_>, unary: Unary) -> Result<(), String> {
    let (x, y, g) = (rule.operand(0), rule.result(0), rule.gradient);
    let b = &mut *rule.builder;
    let gradient = match unary {
        Unary::Abs => {
            let sign = b.unary(Unary::Sign, x);
            b.times(g, sign)
        }
        Unary::Acos => {
            let slope = one_over_root(b, x, -1.0, 1.0);
            let slope = b.negate(slope);
            b.times(g, slope)
        }
        Unary::Acosh => {
            let slope = one_over_root(b, x, 1.0, -1.0);
            b.times(g, slope)
        }
        Unary::Asin => {
            let slope = one_over_root(b, x, -1.0, 1.0);
            b.times(g, slope)
        }
        Unary::Asinh => {
            let slope = one_over_root(b, x, 1.0, 1.0);
            b.times(g, slope)
        }
        Unary::Atan => {
            let square = b.times(x, x);
            let divisor = b.plus_number(square, 1.0);
            b.over(g, divisor)
        }
        Unary::Atanh => {
            let square = b.times(x, x);
            let square = b.negate(square);
            let divisor = b.plus_number(square, 1.0);
            b.over(g, divisor)
        }
        Unary::Cbrt => {
            // y / (3 x)
            let slope = b.over(y, x);
            let slope = b.times_number(slope, 1.0 / 3.0);
            b.times(g, slope)
        }
        Unary::Conj | Unary::Real => g,
        Unary::Cosh => {
            let slope = b.unary(Unary::Sinh, x);
            b.times(g, slope)
        }
        Unary::Cosine => {
            let slope = b.unary(Unary::Sine, x);
            let slope = b.negate(slope);
            b.times(g, slope)
        }
        Unary::Digamma => {
            let order = b.full_like(x, 1.0);
            let slope = b.binary(Binary::Polygamma, order, x);
            b.times(g, slope)
        }
        Unary::Erf => {
            let slope = gauss(b, x, std::f64::consts::FRAC_2_SQRT_PI, -1.0);
            b.times(g, slope)
        }
        Unary::ErfInv => {
            let slope = gauss(b, y, 1.0 / std::f64::consts::FRAC_2_SQRT_PI, 1.0);
            b.times(g, slope)
        }
        Unary::Erfc => {
            let slope = gauss(b, x, -std::f64::consts::FRAC_2_SQRT_PI, -1.0);
            b.times(g, slope)
        }
        Unary::Exponential => b.times(g, y),
        Unary::ExponentialMinusOne => {
            let slope = b.plus_number(y, 1.0);
            b.times(g, slope)
        }
        Unary::Lgamma => {
            let slope = b.unary(Unary::Digamma, x);
            b.times(g, slope)
        }
        Unary::Log => b.over(g, x),
        Unary::LogPlusOne => {
            let divisor = b.plus_number(x, 1.0);
            b.over(g, divisor)
        }
        Unary::Logistic => {
            // y (1 - y)
            let rest = b.negate(y);
            let rest = b.plus_number(rest, 1.0);
            let slope = b.times(y, rest);
            b.times(g, slope)
        }
        Unary::Negate => b.negate(g),
        Unary::Rsqrt => {
            // -y / (2 x)
            let slope = b.over(y, x);
            let slope = b.times_number(slope, -0.5);
            b.times(g, slope)
        }
        Unary::Sine => {
            let slope = b.unary(Unary::Cosine, x);
            b.times(g, slope)
        }
        Unary::Sinh => {
            let slope = b.unary(Unary::Cosh, x);
            b.times(g, slope)
        }
        Unary::Sqrt => {
            let half = b.times_number(g, 0.5);
            b.over(half, y)
        }
        Unary::Square => {
            let slope = b.times_number(x, 2.0);
            b.times(g, slope)
        }
        Unary::Tan => {
            let square = b.times(y, y);
            let slope = b.plus_number(square, 1.0);
            b.times(g, slope)
        }
        Unary::Tanh => {
            // 1 - y²
            let square = b.times(y, y);
            let square = b.negate(square);
            let slope = b.plus_number(square, 1.0);
            b.times(g, slope)
        }
        // Flat, or steps between flat pieces.
        Unary::Ceil
        | Unary::Floor
        | Unary::Imag
        | Unary::IsFinite
        | Unary::IsInf
        | Unary::IsNegInf
        | Unary::IsPosInf
        | Unary::RoundNearestAfz
        | Unary::RoundNearestEven
        | Unary::Sign
        | Unary::CountLeadingZeros
        | Unary::Not
        | Unary::PopulationCount => return Ok(()),
        Unary::BesselI1e => return Err(rule.refusal("")),
    };
    rule.give(0, gradient);
    Ok(())
}

/// `1 / sqrt(a x² + c)`.
fn one_over_root(b: &mut Builder, x: ValueId, a: f64, c: f64) -> ValueId {
    let square = b.times(x, x);
    let square = b.times_number(square, a);
    let sum = b.plus_number(square, c);
    b.unary(Unary::Rsqrt, sum)
}

/// `factor exp(sign x²)`.
fn gauss(b: &mut Builder, x: ValueId, factor: f64, sign: f64) -> ValueId {
    let square = b.times(x, x);
    let power = b.times_number(square, sign);
    let power = b.unary(Unary::Exponential, power);
    b.times_number(power, factor)
}

pub(super) fn binary(rule: &mut Rule<'_>, binary: Binary) {
    let (x, y, g) = (rule.operand(0), rule.operand(1), rule.gradient);
    match binary {
        Binary::Add => {
            rule.give(0, g);
            rule.give(1, g);
        }
        Binary::Atan2 => {
            // d/dx: y / (x² + y²), d/dy: -x / (x² + y²)
            let b = &mut *rule.builder;
            let (xx, yy) = (b.times(x, x), b.times(y, y));
            let divisor = b.plus(xx, yy);
            let scaled = b.over(g, divisor);
            let of_x = b.times(scaled, y);
            let of_y = b.times(scaled, x);
            let of_y = b.negate(of_y);
            rule.give(0, of_x);
            rule.give(1, of_y);
        }
        Binary::Divide => {
            if rule.wants(0) {
                let of_x = rule.builder.over(g, y);
                rule.give(0, of_x);
            }
            if rule.wants(1) {
                let b = &mut *rule.builder;
                let quotient = b.over(rule.operation.results[0], y);
                let of_y = b.times(g, quotient);
                let of_y = b.negate(of_y);
                rule.give(1, of_y);
            }
        }
        Binary::Maximum => larger(rule, Direction::Greater),
        Binary::Minimum => larger(rule, Direction::Less),
        Binary::Multiply => {
            if rule.wants(0) {
                let of_x = rule.builder.times(g, y);
                rule.give(0, of_x);
            }
            if rule.wants(1) {
                let of_y = rule.builder.times(g, x);
                rule.give(1, of_y);
            }
        }
        Binary::Power => power(rule),
        Binary::Remainder => {
            rule.give(0, g);
            if rule.wants(1) {
                // x - y trunc(x / y): the quotient, rounded toward zero, with the other sign.
                let b = &mut *rule.builder;
                let quotient = b.over(x, y);
                let size = b.unary(Unary::Abs, quotient);
                let size = b.unary(Unary::Floor, size);
                let sign = b.unary(Unary::Sign, quotient);
                let whole = b.times(size, sign);
                let of_y = b.times(g, whole);
                let of_y = b.negate(of_y);
                rule.give(1, of_y);
            }
        }
        Binary::Subtract => {
            rule.give(0, g);
            if rule.wants(1) {
                let of_y = rule.builder.negate(g);
                rule.give(1, of_y);
            }
        }
        // Of integers, or steps between flat pieces.
        Binary::And
        | Binary::NextAfter
        | Binary::Or
        | Binary::Polygamma
        | Binary::ShiftLeft
        | Binary::ShiftRightArithmetic
        | Binary::ShiftRightLogical
        | Binary::Xor
        | Binary::Zeta => {}
    }
}

/// The larger (or smaller) side gets the gradient; equal sides share it.
fn larger(rule: &mut Rule<'_>, direction: Direction) {
    let (x, y, g) = (rule.operand(0), rule.operand(1), rule.gradient);
    let b = &mut *rule.builder;
    let zero = b.full_like(g, 0.0);
    let half = b.times_number(g, 0.5);
    let equal = b.compare(Direction::Equal, x, y);
    let first = b.compare(direction, x, y);
    let of_x = b.select(first, g, zero);
    let of_x = b.select(equal, half, of_x);
    let of_y = b.select(first, zero, g);
    let of_y = b.select(equal, half, of_y);
    rule.give(0, of_x);
    rule.give(1, of_y);
}

/// `y x^(y-1)` and `x^y log x`, without NaN where the power is zero or the base is.
fn power(rule: &mut Rule<'_>) {
    let (x, y, z, g) = (rule.operand(0), rule.operand(1), rule.result(0), rule.gradient);
    if rule.wants(0) {
        let b = &mut *rule.builder;
        let zero = b.full_like(y, 0.0);
        let one = b.full_like(y, 1.0);
        let is_constant = b.compare(Direction::Equal, y, zero);
        let less = b.plus_number(y, -1.0);
        let exponent = b.select(is_constant, one, less);
        let slope = b.binary(Binary::Power, x, exponent);
        let slope = b.times(y, slope);
        let of_x = b.times(g, slope);
        rule.give(0, of_x);
    }
    if rule.wants(1) {
        let b = &mut *rule.builder;
        let zero = b.full_like(x, 0.0);
        let one = b.full_like(x, 1.0);
        let is_zero = b.compare(Direction::Equal, x, zero);
        let base = b.select(is_zero, one, x);
        let logarithm = b.unary(Unary::Log, base);
        let slope = b.times(z, logarithm);
        let of_y = b.times(g, slope);
        rule.give(1, of_y);
    }
}
