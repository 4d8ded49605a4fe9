//! Random numbers.

use smallvec::smallvec;

use super::Types;
use super::check::{accepts, has_dtype, has_rank, is_type, take};
use crate::program::{Algorithm, DType, Distribution, Shape, Type};

pub(super) fn rng(distribution: Distribution, shape: &Shape, operands: &[&Type]) -> Result<Types, String> {
    let [first, second, sizes] = take(operands)?;
    let dtype = first.dtype;
    match distribution {
        Distribution::Normal => accepts(first, dtype.is_float(), "float")?,
        Distribution::Uniform => accepts(first, !dtype.is_complex(), "boolean, integer or float")?,
    }
    is_type("operand 0", first, &Type::scalar(dtype))?;
    is_type("operand 1", second, &Type::scalar(dtype))?;
    accepts(sizes, sizes.dtype.is_integer(), "integer")?;
    is_type("the shape operand", sizes, &sizes.with_shape(&[shape.len()]))?;
    Ok(smallvec![Type::new(dtype, shape)])
}

pub(super) fn rng_bit_generator(algorithm: Algorithm, ty: &Type, operands: &[&Type]) -> Result<Types, String> {
    let [state] = take(operands)?;
    has_rank("the state", state, 1)?;
    has_dtype("the state", state, DType::U64)?;
    let size = state.shape[0];
    // What the default algorithm keeps is up to the engine; ours keeps what Philox does.
    let fits = match algorithm {
        Algorithm::ThreeFry => size == 2,
        Algorithm::Default | Algorithm::Philox => size == 2 || size == 3,
    };
    if !fits {
        return Err(format!("`{}` does not keep a state of {size} numbers", algorithm.name()));
    }
    accepts(ty, ty.dtype.is_integer() || ty.dtype.is_float(), "integer or float")?;
    Ok(smallvec![state.clone(), ty.clone()])
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use crate::program::*;

    #[test]
    fn rng() {
        let check = |distribution, operands, expected| {
            check(Op::Rng { distribution, shape: Shape::from_slice(&[2, 3]) }, operands, &[], expected);
        };
        check(Distribution::Uniform, "i32 i32 2xi64", "2x3xi32");
        check(Distribution::Normal, "f32 f32 2xi64", "2x3xf32");
        check(Distribution::Normal, "i32 i32 2xi64", "error: expected float elements, got `tensor<i32>`");
        check(Distribution::Uniform, "f32 f64 2xi64", "error: operand 1 must be `tensor<f32>`, got `tensor<f64>`");
        check(Distribution::Uniform, "2xf32 f32 2xi64", "error: operand 0 must be `tensor<f32>`, got `tensor<2xf32>`");
        let message = "error: the shape operand must be `tensor<2xi64>`, got `tensor<3xi64>`";
        check(Distribution::Uniform, "f32 f32 3xi64", message);
    }

    #[test]
    fn rng_bit_generator() {
        let check = |algorithm, dtype, operand, expected| {
            let ty = Box::new(Type::new(dtype, &[4]));
            check(Op::RngBitGenerator { algorithm, ty }, operand, &[], expected);
        };
        check(Algorithm::Philox, DType::U32, "3xui64", "3xui64 4xui32");
        check(Algorithm::ThreeFry, DType::F32, "2xui64", "2xui64 4xf32");
        check(Algorithm::ThreeFry, DType::U32, "3xui64", "error: `THREE_FRY` does not keep a state of 3 numbers");
        check(Algorithm::Default, DType::U32, "ui64", "error: the state must have rank 1, got `tensor<ui64>`");
        let message = "error: the state must have elements of type `ui64`, got `tensor<4xui32>`";
        check(Algorithm::Default, DType::U32, "4xui32", message);
        let message = "error: expected integer or float elements, got `tensor<4xi1>`";
        check(Algorithm::Default, DType::Bool, "2xui64", message);
    }
}
