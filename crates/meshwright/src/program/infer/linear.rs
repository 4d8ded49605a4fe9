//! Linear algebra and Fourier transforms.

use smallvec::smallvec;

use super::Types;
use super::check::{accepts, same_dtype, take};
use crate::program::{DType, FftKind, Shape, TriangularSolve, Type};

pub(super) fn cholesky(operands: &[&Type]) -> Result<Types, String> {
    let [operand] = take(operands)?;
    square_matrices(operand)?;
    Ok(smallvec![operand.clone()])
}

pub(super) fn fft(kind: FftKind, lengths: &Shape, operands: &[&Type]) -> Result<Types, String> {
    let [operand] = take(operands)?;
    if !(1..=3).contains(&lengths.len()) {
        return Err(format!("expected 1 to 3 transform lengths, got {}", lengths.len()));
    }
    let Some(first) = operand.rank().checked_sub(lengths.len()) else {
        return Err(format!("`{operand}` has fewer dimensions than there are transform lengths, {}", lengths.len()));
    };
    let (outer, sizes) = operand.shape.split_at(first);
    let dtype = match (kind, operand.dtype) {
        (FftKind::Fft | FftKind::Ifft, DType::Complex64 | DType::Complex128) => operand.dtype,
        (FftKind::Rfft, DType::F32) => DType::Complex64,
        (FftKind::Rfft, DType::F64) => DType::Complex128,
        (FftKind::Irfft, DType::Complex64) => DType::F32,
        (FftKind::Irfft, DType::Complex128) => DType::F64,
        (FftKind::Rfft, _) => return Err(format!("expected f32 or f64 elements, got `{operand}`")),
        _ => return Err(format!("expected complex elements, got `{operand}`")),
    };
    // Half of the spectrum of real numbers says it all.
    let halved = |mut sizes: Shape| {
        if let Some(last) = sizes.last_mut().filter(|last| **last > 0) {
            *last = *last / 2 + 1;
        }
        sizes
    };
    let (expected, transformed) = match kind {
        FftKind::Fft | FftKind::Ifft => (lengths.clone(), lengths.clone()),
        FftKind::Rfft => (lengths.clone(), halved(lengths.clone())),
        FftKind::Irfft => (halved(lengths.clone()), lengths.clone()),
    };
    if sizes != &expected[..] {
        return Err(format!("the last dimensions of `{operand}` must be {:?}, got {sizes:?}", &expected[..]));
    }
    let shape: Shape = outer.iter().chain(&transformed).copied().collect();
    Ok(smallvec![Type { dtype, shape }])
}

pub(super) fn triangular_solve(solve: TriangularSolve, operands: &[&Type]) -> Result<Types, String> {
    let [matrix, right] = take(operands)?;
    let size = square_matrices(matrix)?;
    same_dtype(matrix, right)?;
    let outer = matrix.rank() - 2;
    if right.rank() != matrix.rank() || right.shape[..outer] != matrix.shape[..outer] {
        return Err(format!("`{matrix}` and `{right}` differ in rank or batch dimensions"));
    }
    let dim = if solve.left_side { outer } else { outer + 1 };
    if right.shape[dim] != size {
        return Err(format!(
            "the matrix has size {size}, dimension {dim} of the right-hand side has size {}",
            right.shape[dim]
        ));
    }
    Ok(smallvec![right.clone()])
}

/// The size of the matrices in the last two dimensions.
fn square_matrices(operand: &Type) -> Result<usize, String> {
    accepts(operand, operand.dtype.is_float() || operand.dtype.is_complex(), "float or complex")?;
    match operand.shape[..] {
        [.., rows, columns] if rows == columns => Ok(rows),
        _ => Err(format!("expected square matrices, got `{operand}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use crate::program::*;

    #[test]
    fn cholesky() {
        let check = |operand, expected| check(Op::Cholesky { lower: true }, operand, &[], expected);
        check("5x3x3xf32", "5x3x3xf32");
        check("3x4xf32", "error: expected square matrices, got `tensor<3x4xf32>`");
        check("3xf32", "error: expected square matrices, got `tensor<3xf32>`");
        check("3x3xi32", "error: expected float or complex elements, got `tensor<3x3xi32>`");
    }

    #[test]
    fn fft() {
        let check = |kind, lengths: &[usize], operand, expected| {
            check(Op::Fft { kind, lengths: Shape::from_slice(lengths) }, operand, &[], expected);
        };
        check(FftKind::Fft, &[4], "2x4xcomplex<f32>", "2x4xcomplex<f32>");
        check(FftKind::Rfft, &[3, 8], "2x3x8xf32", "2x3x5xcomplex<f32>");
        check(FftKind::Rfft, &[0], "0xf64", "0xcomplex<f64>");
        check(FftKind::Irfft, &[8], "2x5xcomplex<f64>", "2x8xf64");
        check(FftKind::Irfft, &[9], "5xcomplex<f32>", "9xf32");
        let message = "error: the last dimensions of `tensor<4xcomplex<f32>>` must be [5], got [4]";
        check(FftKind::Irfft, &[8], "4xcomplex<f32>", message);
        check(FftKind::Ifft, &[4], "4xf32", "error: expected complex elements, got `tensor<4xf32>`");
        check(FftKind::Rfft, &[4], "4xf16", "error: expected f32 or f64 elements, got `tensor<4xf16>`");
        check(FftKind::Fft, &[], "4xf32", "error: expected 1 to 3 transform lengths, got 0");
        let message = "error: `tensor<4xf32>` has fewer dimensions than there are transform lengths, 2";
        check(FftKind::Rfft, &[4, 4], "4xf32", message);
    }

    #[test]
    fn triangular_solve() {
        let check = |left_side, operands, expected| {
            let solve = TriangularSolve { left_side, lower: true, unit_diagonal: false, transpose_a: TransposeA::None };
            check(Op::TriangularSolve(solve), operands, &[], expected);
        };
        check(true, "5x3x3xf32 5x3x2xf32", "5x3x2xf32");
        check(false, "3x3xf32 2x3xf32", "2x3xf32");
        let message = "error: the matrix has size 3, dimension 1 of the right-hand side has size 2";
        check(false, "3x3xf32 3x2xf32", message);
        let message = "error: `tensor<3x3xf32>` and `tensor<3xf32>` differ in rank or batch dimensions";
        check(true, "3x3xf32 3xf32", message);
    }
}
