//! Special functions in double precision.

use std::f64::consts::{FRAC_2_SQRT_PI, PI};

use crate::program::DType;

use super::tensor::{decode_float, encode_float};

/// The logarithm of the absolute value of the gamma function.
pub(super) fn lgamma(x: f64) -> f64 {
    if x.is_infinite() { f64::INFINITY } else { libm::lgamma(x) }
}

/// As `chlo` expands it, step by step in the element type: halves of two exponentials, with the
/// half inside so that neither overflows too early.
pub(super) fn cosh(x: f64, step: fn(f64) -> f64) -> f64 {
    let [rising, falling] = half_exponentials(x, step);
    step(rising + falling)
}

/// As `chlo` expands it: like [`cosh`], and near zero through `expm1`, where exponentials cancel.
pub(super) fn sinh(x: f64, step: fn(f64) -> f64) -> f64 {
    if x.abs() < 1.0 {
        let grown = step(libm::expm1(x));
        return step(0.5 * step(grown + step(grown / step(grown + 1.0))));
    }
    let [rising, falling] = half_exponentials(x, step);
    step(rising - falling)
}

fn half_exponentials(x: f64, step: fn(f64) -> f64) -> [f64; 2] {
    let half = step(libm::log(0.5));
    [step(libm::exp(step(x + half))), step(libm::exp(step(half - x)))]
}

/// The derivative of `lgamma`.
pub(super) fn digamma(x: f64) -> f64 {
    if x.is_nan() || x == f64::NEG_INFINITY {
        return f64::NAN;
    }
    if x <= 0.0 {
        // A pole, which has no value from either side.
        if x == x.floor() {
            return f64::NAN;
        }
        // Reflection, with the fraction reduced first so that the tangent stays exact.
        return digamma(1.0 - x) - PI / libm::tan(PI * (x - x.round()));
    }
    let (mut x, mut result) = (x, 0.0);
    while x < 12.0 {
        result -= 1.0 / x;
        x += 1.0;
    }
    let inverse = 1.0 / (x * x);
    // Bernoulli numbers over twice their index.
    const COEFFICIENTS: [f64; 8] = [
        1.0 / 12.0,
        -1.0 / 120.0,
        1.0 / 252.0,
        -1.0 / 240.0,
        1.0 / 132.0,
        -691.0 / 32760.0,
        1.0 / 12.0,
        -3617.0 / 8160.0,
    ];
    let series = COEFFICIENTS.iter().rev().fold(0.0, |sum, coefficient| (sum + coefficient) * inverse);
    result + libm::log(x) - 0.5 / x - series
}

/// The inverse of `erf`: a closed approximation, then Newton's method with second-order steps.
pub(super) fn erf_inv(y: f64) -> f64 {
    if y.is_nan() || y.abs() > 1.0 {
        return f64::NAN;
    }
    if y.abs() == 1.0 {
        return f64::INFINITY.copysign(y);
    }
    if y == 0.0 {
        return y;
    }
    let logarithm = libm::log1p(-y * y);
    let a = 0.147;
    let term = 2.0 / (PI * a) + 0.5 * logarithm;
    let mut x = ((term * term - logarithm / a).sqrt() - term).sqrt();
    let magnitude = y.abs();
    for _ in 0..4 {
        // Near one the complement keeps the digits that `erf` would lose.
        let error = if magnitude > 0.5 { (1.0 - magnitude) - libm::erfc(x) } else { libm::erf(x) - magnitude };
        let step = error / (FRAC_2_SQRT_PI * libm::exp(-x * x));
        x -= step / (1.0 + x * step);
    }
    x.copysign(y)
}

/// `exp(-|x|)` times the modified Bessel function of the first kind and order one.
pub(super) fn bessel_i1e(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let z = x.abs();
    let value = if z < 20.0 {
        // The power series has only positive terms, so nothing cancels.
        let quarter = z * z / 4.0;
        let (mut term, mut sum, mut k) = (z / 2.0, z / 2.0, 1.0);
        while term > sum * 1e-18 && k < 500.0 {
            term *= quarter / (k * (k + 1.0));
            sum += term;
            k += 1.0;
        }
        sum * libm::exp(-z)
    } else if z.is_infinite() {
        0.0
    } else {
        // Hankel's expansion, cut at its smallest term.
        let (mut term, mut sum) = (1.0f64, 1.0);
        for k in 1..60 {
            let odd = f64::from(2 * k - 1);
            let next = -term * (4.0 - odd * odd) / (f64::from(k) * 8.0 * z);
            if next.abs() >= term.abs() || next.abs() < 1e-18 {
                break;
            }
            term = next;
            sum += term;
        }
        // Two roots, because the product would overflow.
        sum / ((2.0 * PI).sqrt() * z.sqrt())
    };
    value.copysign(x)
}

/// The Hurwitz zeta function, the sum over n of `(q + n)^-x`, by Euler and Maclaurin.
pub(super) fn zeta(x: f64, q: f64) -> f64 {
    if x.is_nan() || q.is_nan() || x < 1.0 {
        return f64::NAN;
    }
    if x == 1.0 {
        return f64::INFINITY;
    }
    if q <= 0.0 {
        if q == q.floor() {
            // A pole: an even power goes up on both of its sides, any other has no value.
            return if x % 2.0 == 0.0 { f64::INFINITY } else { f64::NAN };
        }
        if x != x.floor() {
            return f64::NAN;
        }
    }
    let mut sum = 0.0;
    let mut base = q;
    let mut count = 0;
    while count < 12 || base <= 12.0 {
        let term = libm::pow(base, -x);
        sum += term;
        base += 1.0;
        count += 1;
        // Far from the origin the terms below zero are many and none of them matters any more.
        if base > 0.0 && term.abs() < 1e-18 * sum.abs() {
            return sum;
        }
        if count > 1_000_000 {
            return f64::NAN;
        }
    }
    let power = libm::pow(base, -x);
    sum += base * power / (x - 1.0) + 0.5 * power;
    // B_2k / (2k)!
    const COEFFICIENTS: [f64; 12] = [
        1.0 / 12.0,
        -1.0 / 720.0,
        1.0 / 30240.0,
        -1.0 / 1_209_600.0,
        1.0 / 47_900_160.0,
        -691.0 / 1_307_674_368_000.0,
        1.0 / 74_724_249_600.0,
        -3617.0 / 10_670_622_842_880_000.0,
        43867.0 / 5_109_094_217_170_944_000.0,
        -174_611.0 / 802_857_662_698_291_200_000.0,
        77683.0 / 14_101_100_039_391_805_440_000.0,
        -236_364_091.0 / 1_693_824_136_731_743_669_452_800_000.0,
    ];
    let mut factor = x * power / base;
    for (index, coefficient) in COEFFICIENTS.iter().enumerate() {
        let term = coefficient * factor;
        sum += term;
        if term.abs() < 1e-18 * sum.abs() {
            break;
        }
        let k = 2.0 * index as f64 + 1.0;
        factor *= (x + k) * (x + k + 1.0) / (base * base);
    }
    sum
}

/// The derivative of that order of `digamma`; order zero is `digamma` itself.
pub(super) fn polygamma(order: f64, x: f64) -> f64 {
    if order == 0.0 {
        return digamma(x);
    }
    if order < 0.0 || order != order.floor() || order.is_infinite() {
        return f64::NAN;
    }
    let sign = if order % 2.0 == 0.0 { -1.0 } else { 1.0 };
    // Beyond this the factorial overflows on its own although the product may not.
    if order < 150.0 {
        sign * libm::tgamma(order + 1.0) * zeta(order + 1.0, x)
    } else {
        sign * libm::exp(libm::lgamma(order + 1.0) + libm::log(zeta(order + 1.0, x)))
    }
}

/// The next number of the element type after `from` in the direction of `to`.
pub(super) fn next_after(dtype: DType, from: f64, to: f64) -> f64 {
    if from.is_nan() || to.is_nan() {
        return f64::NAN;
    }
    if from == to {
        return to;
    }
    let (exponent_bits, mantissa_bits) = super::elementwise::float_layout(dtype);
    let sign = 1u64 << (exponent_bits + mantissa_bits);
    if from == 0.0 {
        return decode_float(dtype, if to > 0.0 { 1 } else { sign | 1 });
    }
    let bits = encode_float(dtype, from);
    // Magnitudes grow with the bits, whatever the sign.
    let away = (to > from) == (from > 0.0);
    decode_float(dtype, if away { bits + 1 } else { bits - 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values are scipy.special's.
    #[track_caller]
    fn check(actual: f64, expected: f64) {
        let close = (actual - expected).abs() <= 4e-15 * expected.abs();
        assert!(close || actual == expected || actual.is_nan() && expected.is_nan(), "{actual} is not {expected}");
    }

    #[test]
    fn digamma_matches() {
        check(digamma(0.1), -10.423754940411076);
        check(digamma(1.0), -0.5772156649015329);
        check(digamma(2.5), 0.7031566406452432);
        check(digamma(9.75), 2.225109535044576);
        check(digamma(100.0), 4.600161852738088);
        check(digamma(-0.3), 2.1133097796353972);
        check(digamma(-3.7), -0.8450768588704185);
    }

    #[test]
    fn erf_inv_matches() {
        check(erf_inv(1e-12), 8.86226925452758e-13);
        check(erf_inv(0.1), 0.08885599049425769);
        check(erf_inv(-0.5), -0.4769362762044699);
        check(erf_inv(0.75), 0.8134198475976184);
        check(erf_inv(0.999), 2.326753765513524);
        check(erf_inv(-0.9999999), -3.766562581638471);
    }

    #[test]
    fn bessel_i1e_matches() {
        check(bessel_i1e(1e-09), 4.999999994999999e-10);
        check(bessel_i1e(0.5), 0.15642080318487173);
        check(bessel_i1e(-3.0), -0.19682671329730084);
        check(bessel_i1e(8.0), 0.13414249329269812);
        check(bessel_i1e(15.0), 0.10037417504516664);
        check(bessel_i1e(25.0), 0.07857611331929278);
        check(bessel_i1e(700.0), 0.015070519444716846);
        check(bessel_i1e(f64::MAX), 2.9754474593158995e-155);
    }

    #[test]
    fn zeta_matches() {
        check(zeta(2.0, 1.0), 1.6449340668482266);
        check(zeta(1.1, 0.5), 12.103813495683745);
        check(zeta(3.5, 20.0), 0.00023798942002684444);
        check(zeta(30.0, 2.0), 9.313274324196682e-10);
        check(zeta(2.0, -1.0), f64::INFINITY);
        check(zeta(3.0, -1.0), f64::NAN);
    }

    #[test]
    fn polygamma_matches() {
        check(polygamma(1.0, 1.0), 1.6449340668482266);
        check(polygamma(2.0, 0.3), -75.27253658872601);
        check(polygamma(5.0, 12.5), 9.562271597107644e-05);
    }

    #[test]
    fn next_after_steps_in_the_bits_of_the_element_type() {
        assert_eq!(next_after(DType::BF16, 1.0, 2.0), 1.0078125);
        assert_eq!(next_after(DType::F16, 1.0, 0.0), 1.0 - 1.0 / 2048.0);
        assert_eq!(next_after(DType::F32, 0.0, -1.0), -f64::from(f32::from_bits(1)));
        assert_eq!(next_after(DType::F64, f64::MAX, f64::INFINITY), f64::INFINITY);
    }
}
