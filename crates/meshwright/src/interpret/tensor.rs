//! Tensors in memory: making them, reading their bytes, and rounding to an element type.

use std::sync::Arc;

use crate::program::{DType, DTypeKind, Literal, Type};

/// A tensor in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub ty: Type,
    pub data: Data,
}

/// Elements in row-major order. Every float type is held as `f64` and rounded to its own precision
/// after each op, which is exact for the basic operations; every integer as `i64`, wrapped to its
/// own width (a `u64` as the same bits); a boolean as 0 or 1.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    Float(Vec<f64>),
    Integer(Vec<i64>),
    /// Stored bytes of types that are moved about but never computed with.
    Raw(Vec<u8>),
}

impl Tensor {
    /// Every element is zero.
    pub fn zeros(ty: &Type) -> Tensor {
        let elements = ty.elements();
        let data = match ty.dtype.kind() {
            DTypeKind::Float => Data::Float(vec![0.0; elements]),
            DTypeKind::Bool | DTypeKind::Signed | DTypeKind::Unsigned => Data::Integer(vec![0; elements]),
            DTypeKind::SmallFloat | DTypeKind::Complex | DTypeKind::Token => {
                Data::Raw(vec![0; elements * ty.dtype.stored_bytes()])
            }
        };
        Tensor { ty: ty.clone(), data }
    }

    pub fn from_literal(literal: &Literal) -> Tensor {
        let dtype = literal.ty.dtype;
        if let Some(bits) = literal.as_splat() {
            let elements = literal.ty.elements();
            let data = match decode(dtype, &bits.to_le_bytes()[..dtype.stored_bytes()]) {
                Data::Float(one) => Data::Float(vec![one[0]; elements]),
                Data::Integer(one) => Data::Integer(vec![one[0]; elements]),
                Data::Raw(one) => Data::Raw(one.repeat(elements)),
            };
            return Tensor { ty: literal.ty.clone(), data };
        }
        Tensor { ty: literal.ty.clone(), data: decode(dtype, &literal.bytes()) }
    }

    /// Reads stored bytes: little-endian, row-major, `DType::stored_bytes` for each element.
    /// `None` where there are not exactly as many as the type needs.
    pub fn from_bytes(ty: Type, bytes: &[u8]) -> Option<Tensor> {
        let expected = ty.checked_elements()?.checked_mul(ty.dtype.stored_bytes())?;
        (bytes.len() == expected).then(|| Tensor { data: decode(ty.dtype, bytes), ty })
    }

    /// The stored bytes, as [`from_bytes`](Tensor::from_bytes) reads them.
    pub fn to_bytes(&self) -> Vec<u8> {
        let width = self.ty.dtype.stored_bytes();
        match &self.data {
            Data::Raw(bytes) => bytes.clone(),
            Data::Float(values) => {
                let mut bytes = Vec::with_capacity(values.len() * width);
                for &value in values {
                    bytes.extend_from_slice(&encode_float(self.ty.dtype, value).to_le_bytes()[..width]);
                }
                bytes
            }
            Data::Integer(values) => {
                // Types narrower than a byte are stored with their upper bits clear.
                let mask = mask(self.ty.dtype);
                let mut bytes = Vec::with_capacity(values.len() * width);
                for &value in values {
                    bytes.extend_from_slice(&(value as u64 & mask).to_le_bytes()[..width]);
                }
                bytes
            }
        }
    }

    pub(super) fn float(ty: Type, values: Vec<f64>) -> Tensor {
        debug_assert_eq!(ty.elements(), values.len());
        Tensor { ty, data: Data::Float(values) }
    }

    pub(super) fn integer(ty: Type, values: Vec<i64>) -> Tensor {
        debug_assert_eq!(ty.elements(), values.len());
        Tensor { ty, data: Data::Integer(values) }
    }

    pub(super) fn floats(&self) -> Result<&[f64], String> {
        match &self.data {
            Data::Float(values) => Ok(values),
            Data::Integer(_) | Data::Raw(_) => Err(unsupported(self.ty.dtype)),
        }
    }

    pub(super) fn integers(&self) -> Result<&[i64], String> {
        match &self.data {
            Data::Integer(values) => Ok(values),
            Data::Float(_) | Data::Raw(_) => Err(unsupported(self.ty.dtype)),
        }
    }

    /// The one element of an integer scalar.
    pub(super) fn index(&self) -> Result<i64, String> {
        self.integers()?.first().copied().ok_or_else(|| "a scalar without an element".to_owned())
    }
}

/// A tensor made up from a seed: floats near a normal distribution in [-1, 1), small integers that
/// are valid indices almost anywhere, and booleans.
pub fn generate(ty: &Type, seed: u64) -> Tensor {
    generate_below(ty, seed, None)
}

/// The same, where integers are less than a limit.
pub(super) fn generate_below(ty: &Type, seed: u64, limit: Option<usize>) -> Tensor {
    let elements = ty.elements();
    let hash = |index: usize| mix(mix(seed) ^ index as u64);
    let data = match ty.dtype.kind() {
        DTypeKind::Float => {
            let mut values: Vec<f64> = (0..elements)
                .map(|index| {
                    // The mean of four uniform numbers is bell-shaped and bounded.
                    let bits = hash(index);
                    let sum: u64 = (0..4).map(|part| bits >> (16 * part) & 0xffff).sum();
                    sum as f64 / f64::from(1 << 17) - 1.0
                })
                .collect();
            round(ty.dtype, false, &mut values);
            Data::Float(values)
        }
        DTypeKind::Bool => Data::Integer((0..elements).map(|index| (hash(index) & 1) as i64).collect()),
        DTypeKind::Signed | DTypeKind::Unsigned => {
            let bits = ty.dtype.bits() - usize::from(ty.dtype.is_signed());
            let limit = (limit.unwrap_or(4).max(1) as u64).min(1 << bits.min(62));
            Data::Integer((0..elements).map(|index| (hash(index) % limit) as i64).collect())
        }
        DTypeKind::SmallFloat | DTypeKind::Complex | DTypeKind::Token => return Tensor::zeros(ty),
    };
    Tensor { ty: ty.clone(), data }
}

pub(super) fn unsupported(dtype: DType) -> String {
    format!("arithmetic on `{dtype}` is not supported by the interpreter")
}

/// The values of a tensor, without a copy where nobody else holds it.
pub(super) fn into_tensor(tensor: Arc<Tensor>) -> Tensor {
    Arc::try_unwrap(tensor).unwrap_or_else(|shared| (*shared).clone())
}

/// Rounds every value to the nearest of the element type, ties to even.
pub(super) fn round(dtype: DType, wide: bool, values: &mut [f64]) {
    if wide {
        return;
    }
    match dtype {
        DType::F32 => values.iter_mut().for_each(|value| *value = f64::from(*value as f32)),
        DType::BF16 => values.iter_mut().for_each(|value| *value = round_to(*value, 8, 7)),
        DType::F16 => values.iter_mut().for_each(|value| *value = round_to(*value, 5, 10)),
        _ => {}
    }
}

pub(super) fn round_one(dtype: DType, wide: bool, value: f64) -> f64 {
    let mut one = [value];
    round(dtype, wide, &mut one);
    one[0]
}

/// What rounds one value to the nearest of the element type.
pub(super) fn rounding(dtype: DType, wide: bool) -> fn(f64) -> f64 {
    match dtype {
        _ if wide => |value| value,
        DType::F32 => |value| f64::from(value as f32),
        DType::BF16 => |value| round_to(value, 8, 7),
        DType::F16 => |value| round_to(value, 5, 10),
        _ => |value| value,
    }
}

/// Rounds to an IEEE format with that many exponent and mantissa bits, subnormals and overflow to
/// infinity included. It goes straight from `f64`: a stop in between would round twice.
pub(super) fn round_to(value: f64, exponent_bits: u32, mantissa_bits: u32) -> f64 {
    if exponent_bits >= 11 && mantissa_bits >= 52 || !value.is_finite() {
        return value;
    }
    let bias = (1i32 << (exponent_bits.clamp(1, 11) - 1)) - 1;
    let smallest_normal = power_of_two(1 - bias);
    let rounded = if value.abs() < smallest_normal {
        let quantum = power_of_two(1 - bias - mantissa_bits as i32);
        (value / quantum).round_ties_even() * quantum
    } else if mantissa_bits >= 52 {
        value
    } else {
        let shift = 52 - mantissa_bits;
        let bits = value.to_bits();
        let half = (1u64 << (shift - 1)) - 1 + (bits >> shift & 1);
        f64::from_bits((bits + half) & !((1u64 << shift) - 1))
    };
    let limit = power_of_two(bias + 1);
    if rounded.abs() >= limit { f64::INFINITY.copysign(value) } else { rounded }
}

/// `2^exponent`, also where that is subnormal or infinite.
pub(super) fn power_of_two(exponent: i32) -> f64 {
    if exponent > 1023 {
        f64::INFINITY
    } else if exponent >= -1022 {
        f64::from_bits(((exponent + 1023) as u64) << 52)
    } else if exponent >= -1074 {
        f64::from_bits(1u64 << (exponent + 1074))
    } else {
        0.0
    }
}

/// Wraps an integer to the width of its type; a boolean is anything but zero.
pub(super) fn wrap_one(dtype: DType, value: i64) -> i64 {
    match dtype.kind() {
        DTypeKind::Bool => i64::from(value != 0),
        DTypeKind::Signed => {
            let shift = 64 - dtype.bits();
            value << shift >> shift
        }
        DTypeKind::Unsigned => (value as u64 & mask(dtype)) as i64,
        DTypeKind::SmallFloat | DTypeKind::Float | DTypeKind::Complex | DTypeKind::Token => value,
    }
}

pub(super) fn wrap(dtype: DType, values: &mut [i64]) {
    if !matches!(dtype, DType::I64 | DType::U64) {
        values.iter_mut().for_each(|value| *value = wrap_one(dtype, *value));
    }
}

/// Ones in the bits of an integer type.
pub(super) fn mask(dtype: DType) -> u64 {
    if dtype == DType::Bool {
        1
    } else if dtype.bits() >= 64 {
        u64::MAX
    } else {
        (1 << dtype.bits()) - 1
    }
}

/// The bits of a float in its own type. The payload of a NaN survives, quiet or signaling.
pub(super) fn encode_float(dtype: DType, value: f64) -> u64 {
    let (exponent_bits, mantissa_bits) = match dtype {
        DType::F32 => (8u32, 23u32),
        DType::BF16 => (8, 7),
        DType::F16 => (5, 10),
        _ => return value.to_bits(),
    };
    let width = exponent_bits + mantissa_bits;
    let bits = value.to_bits();
    let sign = (bits >> 63) << width;
    let infinity = ((1u64 << exponent_bits) - 1) << mantissa_bits;
    if value.is_nan() {
        let payload = (bits & ((1 << 52) - 1)) >> (52 - mantissa_bits);
        // A payload that does not fit must not turn the NaN into an infinity.
        let payload = if payload == 0 { 1 << (mantissa_bits - 1) } else { payload };
        return sign | infinity | payload;
    }
    let rounded = round_to(value, exponent_bits, mantissa_bits).abs();
    if rounded.is_infinite() {
        return sign | infinity;
    }
    let bias = (1i32 << (exponent_bits - 1)) - 1;
    if rounded < power_of_two(1 - bias) {
        return sign | (rounded / power_of_two(1 - bias - mantissa_bits as i32)) as u64;
    }
    let bits = rounded.to_bits();
    let exponent = (bits >> 52) as i32 - 1023 + bias;
    sign | (exponent as u64) << mantissa_bits | (bits & ((1 << 52) - 1)) >> (52 - mantissa_bits)
}

/// The value of the bits of a float type. The payload of a NaN survives, quiet or signaling.
pub(super) fn decode_float(dtype: DType, bits: u64) -> f64 {
    let (exponent_bits, mantissa_bits) = match dtype {
        DType::F32 => (8u32, 23u32),
        DType::BF16 => (8, 7),
        DType::F16 => (5, 10),
        _ => return f64::from_bits(bits),
    };
    let width = exponent_bits + mantissa_bits;
    let sign = (bits >> width & 1) << 63;
    let exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
    let mantissa = bits & ((1 << mantissa_bits) - 1);
    let bias = (1i32 << (exponent_bits - 1)) - 1;
    let magnitude = if exponent == (1 << exponent_bits) - 1 {
        f64::from_bits(0x7ff << 52 | mantissa << (52 - mantissa_bits))
    } else if exponent == 0 {
        mantissa as f64 * power_of_two(1 - bias - mantissa_bits as i32)
    } else {
        f64::from_bits(((exponent as i64 - i64::from(bias) + 1023) as u64) << 52 | mantissa << (52 - mantissa_bits))
    };
    f64::from_bits(magnitude.to_bits() | sign)
}

fn decode(dtype: DType, bytes: &[u8]) -> Data {
    let width = dtype.stored_bytes();
    let bits = |chunk: &[u8]| {
        let mut word = [0u8; 8];
        word[..width].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    match dtype.kind() {
        DTypeKind::Float if dtype == DType::F32 => {
            // The common case, without a detour through a variable width.
            let value = |chunk: &[u8]| {
                let single = f32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
                if single.is_nan() { decode_float(dtype, u64::from(single.to_bits())) } else { f64::from(single) }
            };
            Data::Float(bytes.chunks_exact(4).map(value).collect())
        }
        DTypeKind::Float => {
            Data::Float(bytes.chunks_exact(width).map(|chunk| decode_float(dtype, bits(chunk))).collect())
        }
        DTypeKind::Bool | DTypeKind::Signed | DTypeKind::Unsigned => {
            Data::Integer(bytes.chunks_exact(width).map(|chunk| wrap_one(dtype, bits(chunk) as i64)).collect())
        }
        DTypeKind::SmallFloat | DTypeKind::Complex | DTypeKind::Token => Data::Raw(bytes.to_vec()),
    }
}

/// What SplitMix64 steps by.
pub(super) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash that spreads every bit of its input over all of its output: a step of SplitMix64.
pub(super) fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(GOLDEN);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_to_bf16_sees_the_lowest_bits_of_an_f64() {
        // 1 + 2^-8 is a tie; one bit below it decides, even the last of the mantissa.
        assert_eq!(round_to(1.0 + 1.0 / 256.0, 8, 7), 1.0);
        assert_eq!(round_to(1.0 + 1.0 / 256.0 + f64::EPSILON, 8, 7), 1.0 + 1.0 / 128.0);
        assert_eq!(round_to(3.0 + 1.0 / 128.0 - 4.0 * f64::EPSILON, 8, 7), 3.0);
    }

    #[test]
    fn rounding_handles_subnormals_and_overflow() {
        assert_eq!(round_to(65519.99, 5, 10), 65504.0);
        assert_eq!(round_to(65520.0, 5, 10), f64::INFINITY);
        assert_eq!(round_to(power_of_two(-25), 5, 10), 0.0);
        assert_eq!(round_to(power_of_two(-25) * 1.0001, 5, 10), power_of_two(-24));
        assert_eq!(round_to(-power_of_two(-134) * 1.5, 8, 7), -power_of_two(-133));
        assert_eq!(round_to(-1e-300, 8, 7).to_bits(), (-0.0f64).to_bits());
    }

    #[test]
    fn bits_of_every_half_survive_a_round_trip() {
        for dtype in [DType::F16, DType::BF16] {
            for bits in 0..=u64::from(u16::MAX) {
                assert_eq!(encode_float(dtype, decode_float(dtype, bits)), bits, "{dtype} {bits:#x}");
            }
        }
        for bits in [0x7f80_0001u32, 0xffc0_1234, 1, 0x807f_ffff, 0x7f7f_ffff, 0xff80_0000] {
            assert_eq!(encode_float(DType::F32, decode_float(DType::F32, u64::from(bits))), u64::from(bits));
        }
    }

    #[test]
    fn halves_agree_with_the_half_crate() {
        for bits in 0..=u16::MAX {
            let (ours, theirs) = (decode_float(DType::BF16, u64::from(bits)), half::bf16::from_bits(bits).to_f64());
            assert!(ours == theirs || ours.is_nan() && theirs.is_nan());
            let (ours, theirs) = (decode_float(DType::F16, u64::from(bits)), half::f16::from_bits(bits).to_f64());
            assert!(ours == theirs || ours.is_nan() && theirs.is_nan());
        }
    }

    #[test]
    fn bytes_round_trip() {
        let ty = Type::new(DType::I4, &[2]);
        let tensor = Tensor::from_bytes(ty.clone(), &[0x0f, 0x07]).unwrap();
        assert_eq!(tensor.data, Data::Integer(vec![-1, 7]));
        assert_eq!(tensor.to_bytes(), [0x0f, 0x07]);
        assert_eq!(Tensor::from_bytes(ty, &[1]), None);
    }

    #[test]
    fn generated_values_stay_in_their_range() {
        let tensor = generate(&Type::new(DType::BF16, &[1000]), 7);
        assert!(tensor.floats().unwrap().iter().all(|value| (-1.0..1.0).contains(value)));
        assert_eq!(tensor, generate(&tensor.ty, 7));
    }
}
