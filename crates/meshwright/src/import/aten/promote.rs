//! Which element type PyTorch computes in: `torch.result_type`.

use crate::program::{DType, DTypeKind};

/// How much an operand has to say: tensors decide among themselves, then tensors without dimensions, then numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Category {
    Number,
    Scalar,
    Tensor,
}

/// The type of operands together. An operand that has less to say counts only where its kind is higher.
pub(super) fn promoted(operands: impl Iterator<Item = (DType, Category)>) -> DType {
    let mut found: [Option<DType>; 3] = [None; 3];
    for (dtype, category) in operands {
        let place = &mut found[category as usize];
        *place = Some(place.map_or(dtype, |other| joined(other, dtype)));
    }
    let [number, scalar, tensor] = found;
    // A number is a float of PyTorch's default size.
    let number = number.map(|dtype| match dtype.kind() {
        DTypeKind::Float => DType::F32,
        DTypeKind::Complex => DType::Complex64,
        _ => dtype,
    });
    let over = |high: Option<DType>, low: Option<DType>| match (high, low) {
        (Some(high), Some(low)) if rank(low) <= rank(high) => Some(high),
        // A number of a higher kind takes its own size, a complex one that of the floats.
        (Some(high), Some(low)) if low.is_complex() => Some(if high == DType::F64 { DType::Complex128 } else { low }),
        (_, Some(low)) => Some(low),
        (high, None) => high,
    };
    over(tensor, over(scalar, number)).unwrap_or(DType::F32)
}

/// Booleans, whole numbers, floats, complex numbers.
fn rank(dtype: DType) -> usize {
    match dtype.kind() {
        DTypeKind::Bool => 0,
        DTypeKind::Signed | DTypeKind::Unsigned => 1,
        DTypeKind::SmallFloat | DTypeKind::Float => 2,
        DTypeKind::Complex | DTypeKind::Token => 3,
    }
}

/// The smallest type that holds both, as PyTorch's table has it.
fn joined(left: DType, right: DType) -> DType {
    if left == right {
        return left;
    }
    let (low, high) = if rank(left) <= rank(right) { (left, right) } else { (right, left) };
    if rank(low) < rank(high) {
        return if high == DType::Complex64 && low == DType::F64 { DType::Complex128 } else { high };
    }
    match (low.kind(), high.kind()) {
        (DTypeKind::Float, DTypeKind::Float) if low.bits() == high.bits() => DType::F32,
        (DTypeKind::Signed, DTypeKind::Unsigned) => mixed(low, high),
        (DTypeKind::Unsigned, DTypeKind::Signed) => mixed(high, low),
        _ => {
            if low.bits() > high.bits() {
                low
            } else {
                high
            }
        }
    }
}

/// A signed type that holds an unsigned one.
fn mixed(signed: DType, unsigned: DType) -> DType {
    if signed.bits() > unsigned.bits() {
        return signed;
    }
    match unsigned.bits() {
        8 => DType::I16,
        16 => DType::I32,
        _ => DType::I64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Category::{Number, Scalar, Tensor};

    #[test]
    fn types_join_as_in_pytorch() {
        #[track_caller]
        fn check(operands: &[(DType, Category)], expected: DType) {
            assert_eq!(promoted(operands.iter().copied()), expected, "{operands:?}");
        }
        check(&[(DType::BF16, Tensor), (DType::F32, Scalar)], DType::BF16);
        check(&[(DType::BF16, Tensor), (DType::F16, Tensor)], DType::F32);
        check(&[(DType::I32, Tensor), (DType::F64, Number)], DType::F32);
        check(&[(DType::I32, Tensor), (DType::F64, Scalar)], DType::F64);
        check(&[(DType::I32, Tensor), (DType::I64, Number)], DType::I32);
        check(&[(DType::Bool, Tensor), (DType::I64, Number)], DType::I64);
        check(&[(DType::U8, Tensor), (DType::I8, Tensor)], DType::I16);
        check(&[(DType::F64, Tensor), (DType::F32, Tensor)], DType::F64);
        check(&[(DType::F16, Scalar), (DType::F64, Number)], DType::F16);
    }
}
