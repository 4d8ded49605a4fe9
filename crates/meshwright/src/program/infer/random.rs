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
