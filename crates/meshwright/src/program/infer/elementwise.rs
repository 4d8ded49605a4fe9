//! Ops that work element by element.

use smallvec::smallvec;

use super::check::{
    accepts, at_least, has_dtype, region_arguments, region_results, same_dtype, same_shape, same_type, take,
    take_regions,
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
    region_arguments("the region", function, scalars.iter())?;
    // Any scalar will do; without a result the type does not matter, as the count is wrong.
    let dtype = function.results.first().map_or(DType::F32, |result| result.dtype);
    region_results("the region", function, [Type::scalar(dtype)].iter())?;
    Ok(smallvec![operands[0].with_dtype(dtype)])
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

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use crate::program::*;

    #[test]
    fn unary() {
        let check = |unary, operand, expected| check(Op::Unary(unary), operand, &[], expected);
        check(Unary::Tanh, "2x3xbf16", "2x3xbf16");
        check(Unary::Tanh, "2xcomplex<f32>", "2xcomplex<f32>");
        check(Unary::Tanh, "2xi32", "error: expected float or complex elements, got `tensor<2xi32>`");
        check(Unary::Tanh, "f32 f32", "error: expected 1 operand, got 2");
        check(Unary::Abs, "2xcomplex<f64>", "2xf64");
        check(Unary::Abs, "i8", "i8");
        check(Unary::Abs, "ui8", "error: expected signed integer, float or complex elements, got `tensor<ui8>`");
        check(Unary::Real, "2xcomplex<f32>", "2xf32");
        check(Unary::Imag, "2xf16", "2xf16");
        check(Unary::IsFinite, "2xf32", "2xi1");
        check(Unary::IsInf, "2xi32", "error: expected float elements, got `tensor<2xi32>`");
        check(Unary::Erf, "complex<f32>", "error: expected float elements, got `tensor<complex<f32>>`");
        check(Unary::Negate, "ui32", "ui32");
        check(Unary::Negate, "i1", "error: expected integer, float or complex elements, got `tensor<i1>`");
        check(Unary::Not, "4xi1", "4xi1");
        check(Unary::Not, "f32", "error: expected boolean or integer elements, got `tensor<f32>`");
        check(Unary::PopulationCount, "i1", "error: expected integer elements, got `tensor<i1>`");
    }

    #[test]
    fn binary() {
        let check = |binary, operands, expected| check(Op::Binary(binary), operands, &[], expected);
        for binary in [Binary::Add, Binary::Multiply, Binary::Maximum, Binary::Minimum, Binary::And] {
            check(binary, "2xi1 2xi1", "2xi1");
        }
        check(Binary::Add, "2xf32 3xf32", "error: operand types differ: `tensor<2xf32>` and `tensor<3xf32>`");
        check(Binary::Add, "2xf32", "error: expected 2 operands, got 1");
        check(Binary::Subtract, "i1 i1", "error: expected integer, float or complex elements, got `tensor<i1>`");
        check(Binary::And, "f32 f32", "error: expected boolean or integer elements, got `tensor<f32>`");
        check(Binary::Atan2, "i32 i32", "error: expected float or complex elements, got `tensor<i32>`");
        check(Binary::Zeta, "i32 i32", "error: expected float elements, got `tensor<i32>`");
        check(Binary::ShiftLeft, "i1 i1", "error: expected integer elements, got `tensor<i1>`");
        check(Binary::Power, "2xi32 2xi32", "2xi32");
    }

    #[test]
    fn bitcast_convert() {
        let check = |dtype, operand, expected| check(Op::BitcastConvert { dtype }, operand, &[], expected);
        check(DType::I32, "2xf32", "2xi32");
        check(DType::I8, "2xf32", "2x4xi8");
        check(DType::F32, "2x4xi8", "2xf32");
        check(DType::I4, "i8", "2xi4");
        check(DType::Complex128, "2xcomplex<f32>", "complex<f64>");
        check(DType::F32, "2x3xi8", "error: the last dimension of `tensor<2x3xi8>` must have size 4 to make `f32`");
        check(DType::F32, "i8", "error: the last dimension of `tensor<i8>` must have size 4 to make `f32`");
        check(DType::F6E2M3FN, "i8", "error: 6 bits of an element do not divide 8 bits");
        check(DType::I8, "i1", "error: `i1` and `i8` cannot be reinterpreted");
        let message = "error: `complex<f32>` and `f64` cannot be reinterpreted: only one of them is complex";
        check(DType::F64, "complex<f32>", message);
    }

    #[test]
    fn clamp() {
        let check = |operands, expected| check(Op::Clamp, operands, &[], expected);
        check("f32 2xf32 2xf32", "2xf32");
        check("2xf32 2xf32 f32", "2xf32");
        check("3xf32 2xf32 f32", "error: operand shapes differ: `tensor<3xf32>` and `tensor<2xf32>`");
        check("f32 2xf32 i32", "error: element types of the operands differ: `tensor<i32>` and `tensor<2xf32>`");
    }

    #[test]
    fn compare() {
        let check = |order, operands, expected| {
            check(Op::Compare { direction: Direction::Less, order }, operands, &[], expected);
        };
        check(Order::Natural, "2xf32 2xf32", "2xi1");
        check(Order::TotalOrder, "2xf32 2xf32", "2xi1");
        check(Order::Signed, "i1 i1", "i1");
        check(Order::Unsigned, "i1 i1", "i1");
        check(Order::Float, "complex<f32> complex<f32>", "i1");
        check(Order::TotalOrder, "complex<f32> complex<f32>", "error: `TOTALORDER` is no order of `complex<f32>`");
        check(Order::Signed, "ui8 ui8", "error: `SIGNED` is no order of `ui8`");
        check(Order::Natural, "f32 2xf32", "error: operand types differ: `tensor<f32>` and `tensor<2xf32>`");
    }

    #[test]
    fn check_complex_and_convert() {
        check(Op::Check(Check::Equal), "2xf32 2xf32", &[], "");
        let message = "error: operand types differ: `tensor<2xf32>` and `tensor<f32>`";
        check(Op::Check(Check::AlmostEqual { tolerance: 0.1 }), "2xf32 f32", &[], message);
        check(Op::Complex, "2xf64 2xf64", &[], "2xcomplex<f64>");
        check(Op::Complex, "f16 f16", &[], "error: expected f32 or f64 elements, got `tensor<f16>`");
        check(Op::Convert { dtype: DType::F8E4M3FN }, "2xi1", &[], "2xf8E4M3FN");
    }

    #[test]
    fn map() {
        let check = |operands, regions, expected| check(Op::Map, operands, regions, expected);
        check("2xf32 2xi32", &["f32 i32 -> i1"], "2xi1");
        check("", &["-> i1"], "error: expected at least 1 operand, got 0");
        check("2xf32", &[], "error: expected 1 region, got 0");
        check("2xf32 3xf32", &["-> i1"], "error: operand shapes differ: `tensor<2xf32>` and `tensor<3xf32>`");
        check("2xf32", &["-> i1"], "error: expected 1 argument of the region, got 0");
        check("2xf32", &["i32 -> i1"], "error: argument 0 of the region must be `tensor<f32>`, got `tensor<i32>`");
        check("2xf32", &["f32 -> 2xf32"], "error: result 0 of the region must be `tensor<f32>`, got `tensor<2xf32>`");
        check("2xf32", &["f32 ->"], "error: expected 1 result of the region, got 0");
    }

    #[test]
    fn reduce_precision() {
        let check = |exponent_bits, operand, expected| {
            check(Op::ReducePrecision { exponent_bits, mantissa_bits: 7 }, operand, &[], expected);
        };
        check(8, "2xf32", "2xf32");
        check(0, "2xf32", "error: a float keeps at least 1 exponent bit, got 0");
        check(8, "2xi32", "error: expected float elements, got `tensor<2xi32>`");
    }

    #[test]
    fn select() {
        let check = |operands, expected| check(Op::Select, operands, &[], expected);
        check("2xi1 2xf32 2xf32", "2xf32");
        check("i1 2xf32 2xf32", "2xf32");
        check("3xi1 2xf32 2xf32", "error: operand shapes differ: `tensor<3xi1>` and `tensor<2xf32>`");
        check("i8 f32 f32", "error: the predicate must have elements of type `i1`, got `tensor<i8>`");
        check("i1 f32 i32", "error: operand types differ: `tensor<f32>` and `tensor<i32>`");
    }
}
