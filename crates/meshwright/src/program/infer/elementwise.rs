//! Ops that work element by element.

use smallvec::smallvec;

use super::check::{
    accepts, at_least, has_dtype, is_type, plural, region_types, same_dtype, same_shape, same_type, take, take_regions,
};
use super::{Signature, Types};
use crate::program::{Binary, DType, DTypeKind, Order, Type, Unary};

pub(super) fn unary(unary: Unary, operands: &[&Type]) -> Result<Types, String> {
    let [operand] = take(operands)?;
    let dtype = operand.dtype;
    let (accepted, family) = match unary {
        Unary::Abs | Unary::Sign => {
            (dtype.is_signed() || dtype.is_float() || dtype.is_complex(), "signed integer, float or complex")
        }
        Unary::Negate | Unary::Square => {
            (dtype.is_integer() || dtype.is_float() || dtype.is_complex(), "integer, float or complex")
        }
        Unary::Not => (dtype == DType::Bool || dtype.is_integer(), "boolean or integer"),
        Unary::CountLeadingZeros | Unary::PopulationCount => (dtype.is_integer(), "integer"),
        Unary::BesselI1e
        | Unary::Ceil
        | Unary::Digamma
        | Unary::Erf
        | Unary::ErfInv
        | Unary::Erfc
        | Unary::Floor
        | Unary::IsFinite
        | Unary::IsInf
        | Unary::IsNegInf
        | Unary::IsPosInf
        | Unary::Lgamma
        | Unary::RoundNearestAfz
        | Unary::RoundNearestEven => (dtype.is_float(), "float"),
        Unary::Acos
        | Unary::Acosh
        | Unary::Asin
        | Unary::Asinh
        | Unary::Atan
        | Unary::Atanh
        | Unary::Cbrt
        | Unary::Conj
        | Unary::Cosh
        | Unary::Cosine
        | Unary::Exponential
        | Unary::ExponentialMinusOne
        | Unary::Imag
        | Unary::Log
        | Unary::LogPlusOne
        | Unary::Logistic
        | Unary::Real
        | Unary::Rsqrt
        | Unary::Sine
        | Unary::Sinh
        | Unary::Sqrt
        | Unary::Tan
        | Unary::Tanh => (dtype.is_float() || dtype.is_complex(), "float or complex"),
    };
    accepts(operand, accepted, family)?;
    let result = match unary {
        Unary::Abs | Unary::Imag | Unary::Real => part_of_complex(dtype),
        Unary::IsFinite | Unary::IsInf | Unary::IsNegInf | Unary::IsPosInf => DType::Bool,
        _ => dtype,
    };
    Ok(smallvec![operand.with_dtype(result)])
}

pub(super) fn binary(binary: Binary, operands: &[&Type]) -> Result<Types, String> {
    let [left, right] = take(operands)?;
    same_type(left, right)?;
    let dtype = left.dtype;
    let (accepted, family) = match binary {
        Binary::Add | Binary::Maximum | Binary::Minimum | Binary::Multiply => (true, "any"),
        Binary::And | Binary::Or | Binary::Xor => (dtype == DType::Bool || dtype.is_integer(), "boolean or integer"),
        Binary::Atan2 => (dtype.is_float() || dtype.is_complex(), "float or complex"),
        Binary::Divide | Binary::Power | Binary::Remainder | Binary::Subtract => {
            (dtype != DType::Bool, "integer, float or complex")
        }
        Binary::NextAfter | Binary::Polygamma | Binary::Zeta => (dtype.is_float(), "float"),
        Binary::ShiftLeft | Binary::ShiftRightArithmetic | Binary::ShiftRightLogical => (dtype.is_integer(), "integer"),
    };
    accepts(left, accepted, family)?;
    Ok(smallvec![left.clone()])
}

/// A wider element becomes a new last dimension of narrower ones, and back.
pub(super) fn bitcast_convert(dtype: DType, operands: &[&Type]) -> Result<Types, String> {
    let [operand] = take(operands)?;
    let (from, to) = (operand.dtype, dtype);
    if from == to {
        return Ok(smallvec![operand.clone()]);
    }
    if from.is_complex() != to.is_complex() {
        return Err(format!("`{from}` and `{to}` cannot be reinterpreted: only one of them is complex"));
    }
    // How a boolean is laid out is left open, so its bits mean nothing.
    if from == DType::Bool || to == DType::Bool || to == DType::Token {
        return Err(format!("`{from}` and `{to}` cannot be reinterpreted"));
    }
    let (wide, narrow) = (from.bits().max(to.bits()), from.bits().min(to.bits()));
    if wide % narrow != 0 {
        return Err(format!("{narrow} bits of an element do not divide {wide} bits"));
    }
    let mut result = operand.with_dtype(to);
    if to.bits() < from.bits() {
        result.shape.push(wide / narrow);
    } else if to.bits() > from.bits() && result.shape.pop() != Some(wide / narrow) {
        return Err(format!("the last dimension of `{operand}` must have size {} to make `{to}`", wide / narrow));
    }
    Ok(smallvec![result])
}

pub(super) fn check(operands: &[&Type]) -> Result<Types, String> {
    let [left, right] = take(operands)?;
    same_type(left, right)?;
    Ok(Types::new())
}

pub(super) fn clamp(operands: &[&Type]) -> Result<Types, String> {
    let [low, operand, high] = take(operands)?;
    for bound in [low, high] {
        same_dtype(bound, operand)?;
        if bound.rank() != 0 {
            same_shape(bound, operand)?;
        }
    }
    Ok(smallvec![operand.clone()])
}

pub(super) fn compare(order: Order, operands: &[&Type]) -> Result<Types, String> {
    let [left, right] = take(operands)?;
    same_type(left, right)?;
    let fits = match order {
        Order::Natural => true,
        Order::Float => left.dtype.is_float() || left.dtype.is_complex(),
        Order::TotalOrder => left.dtype.is_float(),
        // JAX writes either order for booleans.
        Order::Signed => left.dtype.is_signed() || left.dtype == DType::Bool,
        Order::Unsigned => left.dtype.is_unsigned() || left.dtype == DType::Bool,
    };
    if !fits {
        return Err(format!("`{}` is no order of `{}`", order.name(), left.dtype));
    }
    Ok(smallvec![left.with_dtype(DType::Bool)])
}

pub(super) fn complex(operands: &[&Type]) -> Result<Types, String> {
    let [real, imaginary] = take(operands)?;
    same_type(real, imaginary)?;
    let dtype = match real.dtype {
        DType::F32 => DType::Complex64,
        DType::F64 => DType::Complex128,
        _ => return Err(format!("expected f32 or f64 elements, got `{real}`")),
    };
    Ok(smallvec![real.with_dtype(dtype)])
}

pub(super) fn convert(dtype: DType, operands: &[&Type]) -> Result<Types, String> {
    let [operand] = take(operands)?;
    Ok(smallvec![operand.with_dtype(dtype)])
}

pub(super) fn map(operands: &[&Type], regions: &[Signature<'_>]) -> Result<Types, String> {
    at_least(operands, 1)?;
    let [function] = take_regions(regions)?;
    for operand in operands {
        same_shape(operands[0], operand)?;
    }
    let scalars: Vec<Type> = operands.iter().map(|operand| Type::scalar(operand.dtype)).collect();
    region_types("region argument", &function.arguments, scalars.iter())?;
    let [result] = function.results[..] else {
        return Err(format!("expected {}, got {}", plural(1, "region result"), function.results.len()));
    };
    is_type("region result 0", result, &Type::scalar(result.dtype))?;
    Ok(smallvec![operands[0].with_dtype(result.dtype)])
}

pub(super) fn reduce_precision(exponent_bits: u32, operands: &[&Type]) -> Result<Types, String> {
    let [operand] = take(operands)?;
    accepts(operand, operand.dtype.is_float(), "float")?;
    if exponent_bits == 0 {
        return Err("a float keeps at least 1 exponent bit, got 0".to_owned());
    }
    Ok(smallvec![operand.clone()])
}

pub(super) fn select(operands: &[&Type]) -> Result<Types, String> {
    let [predicate, on_true, on_false] = take(operands)?;
    has_dtype("the predicate", predicate, DType::Bool)?;
    same_type(on_true, on_false)?;
    if predicate.rank() != 0 {
        same_shape(predicate, on_true)?;
    }
    Ok(smallvec![on_true.clone()])
}

/// The type of the real or imaginary part.
fn part_of_complex(dtype: DType) -> DType {
    match (dtype, dtype.kind()) {
        (DType::Complex64, _) => DType::F32,
        (_, DTypeKind::Complex) => DType::F64,
        _ => dtype,
    }
}
