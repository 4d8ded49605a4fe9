//! Element types, shapes, and the type of a value.

use std::fmt;

use smallvec::SmallVec;

/// Sizes of the dimensions of a tensor, outermost first.
pub type Shape = SmallVec<[usize; 4]>;

/// Numbers of dimensions (which ones, not how large).
pub type Dims = SmallVec<[usize; 4]>;

/// What one value is: a tensor of static shape, or a token (no dimensions, no bytes).
#[derive(PartialEq, Eq, Hash)]
pub struct Type {
    pub dtype: DType,
    pub shape: Shape,
}

/// Types are cloned for every value; copying the sizes at once is several times faster than what
/// would be derived, which copies them one by one.
impl Clone for Type {
    fn clone(&self) -> Type {
        Type { dtype: self.dtype, shape: Shape::from_slice(&self.shape) }
    }
}

impl Type {
    pub fn new(dtype: DType, shape: &[usize]) -> Type {
        Type { dtype, shape: Shape::from_slice(shape) }
    }

    pub fn scalar(dtype: DType) -> Type {
        Type { dtype, shape: Shape::new() }
    }

    pub fn token() -> Type {
        Type::scalar(DType::Token)
    }

    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// How many elements; the verifier has checked that the product does not overflow.
    pub fn elements(&self) -> usize {
        if self.shape.contains(&0) { 0 } else { self.shape.iter().product() }
    }

    /// How many elements, or `None` where the product (or its size in bytes) leaves 63 bits.
    pub fn checked_elements(&self) -> Option<usize> {
        // A zero anywhere makes the tensor empty, however large the other dimensions are.
        if self.shape.contains(&0) {
            return Some(0);
        }
        let elements = self.shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size))?;
        let bits = elements.checked_mul(self.dtype.bits().max(1))?;
        (bits <= i64::MAX as usize).then_some(elements)
    }

    /// Bytes in memory, elements narrower than a byte packed.
    pub fn bytes(&self) -> usize {
        (self.elements() * self.dtype.bits()).div_ceil(8)
    }

    pub fn with_dtype(&self, dtype: DType) -> Type {
        Type { dtype, ..self.clone() }
    }

    pub fn with_shape(&self, shape: &[usize]) -> Type {
        Type { dtype: self.dtype, shape: Shape::from_slice(shape) }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.dtype == DType::Token {
            return f.write_str("!stablehlo.token");
        }
        f.write_str("tensor<")?;
        for size in &self.shape {
            write!(f, "{size}x")?;
        }
        write!(f, "{}>", self.dtype)
    }
}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The type of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DType {
    Bool,
    I2,
    I4,
    I8,
    I16,
    I32,
    I64,
    U2,
    U4,
    U8,
    U16,
    U32,
    U64,
    F4E2M1FN,
    F6E2M3FN,
    F6E3M2FN,
    F8E3M4,
    F8E4M3,
    F8E4M3B11FNUZ,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0FNU,
    BF16,
    F16,
    F32,
    F64,
    Complex64,
    Complex128,
    /// Orders side effects; carries no data.
    Token,
}

/// Name in the text form, width in bits, and kind of every element type, in the order of [`DType`].
const DTYPES: [(DType, &str, usize, DTypeKind); 31] = [
    (DType::Bool, "i1", 8, DTypeKind::Bool),
    (DType::I2, "i2", 2, DTypeKind::Signed),
    (DType::I4, "i4", 4, DTypeKind::Signed),
    (DType::I8, "i8", 8, DTypeKind::Signed),
    (DType::I16, "i16", 16, DTypeKind::Signed),
    (DType::I32, "i32", 32, DTypeKind::Signed),
    (DType::I64, "i64", 64, DTypeKind::Signed),
    (DType::U2, "ui2", 2, DTypeKind::Unsigned),
    (DType::U4, "ui4", 4, DTypeKind::Unsigned),
    (DType::U8, "ui8", 8, DTypeKind::Unsigned),
    (DType::U16, "ui16", 16, DTypeKind::Unsigned),
    (DType::U32, "ui32", 32, DTypeKind::Unsigned),
    (DType::U64, "ui64", 64, DTypeKind::Unsigned),
    (DType::F4E2M1FN, "f4E2M1FN", 4, DTypeKind::SmallFloat),
    (DType::F6E2M3FN, "f6E2M3FN", 6, DTypeKind::SmallFloat),
    (DType::F6E3M2FN, "f6E3M2FN", 6, DTypeKind::SmallFloat),
    (DType::F8E3M4, "f8E3M4", 8, DTypeKind::SmallFloat),
    (DType::F8E4M3, "f8E4M3", 8, DTypeKind::SmallFloat),
    (DType::F8E4M3B11FNUZ, "f8E4M3B11FNUZ", 8, DTypeKind::SmallFloat),
    (DType::F8E4M3FN, "f8E4M3FN", 8, DTypeKind::SmallFloat),
    (DType::F8E4M3FNUZ, "f8E4M3FNUZ", 8, DTypeKind::SmallFloat),
    (DType::F8E5M2, "f8E5M2", 8, DTypeKind::SmallFloat),
    (DType::F8E5M2FNUZ, "f8E5M2FNUZ", 8, DTypeKind::SmallFloat),
    (DType::F8E8M0FNU, "f8E8M0FNU", 8, DTypeKind::SmallFloat),
    (DType::BF16, "bf16", 16, DTypeKind::Float),
    (DType::F16, "f16", 16, DTypeKind::Float),
    (DType::F32, "f32", 32, DTypeKind::Float),
    (DType::F64, "f64", 64, DTypeKind::Float),
    (DType::Complex64, "complex<f32>", 64, DTypeKind::Complex),
    (DType::Complex128, "complex<f64>", 128, DTypeKind::Complex),
    (DType::Token, "token", 0, DTypeKind::Token),
];

/// The family an element type belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DTypeKind {
    Bool,
    Signed,
    Unsigned,
    /// Types of eight bits and fewer: carried and sized, never computed with.
    SmallFloat,
    Float,
    /// Carried and sized, never computed with.
    Complex,
    Token,
}

impl DType {
    pub fn all() -> impl Iterator<Item = DType> {
        DTYPES.iter().map(|row| row.0)
    }

    /// The name in StableHLO text, such as `bf16` or `ui8`.
    pub fn name(self) -> &'static str {
        DTYPES[self as usize].1
    }

    pub fn from_name(name: &str) -> Option<DType> {
        match name {
            "f32" => Some(DType::F32),
            "bf16" => Some(DType::BF16),
            "token" => None,
            _ => DTYPES.iter().find(|row| row.1 == name).map(|row| row.0),
        }
    }

    /// Width of one element in memory; a boolean takes a byte.
    pub fn bits(self) -> usize {
        DTYPES[self as usize].2
    }

    pub fn kind(self) -> DTypeKind {
        DTYPES[self as usize].3
    }

    pub fn is_float(self) -> bool {
        matches!(self.kind(), DTypeKind::Float | DTypeKind::SmallFloat)
    }

    pub fn is_signed(self) -> bool {
        self.kind() == DTypeKind::Signed
    }

    pub fn is_unsigned(self) -> bool {
        self.kind() == DTypeKind::Unsigned
    }

    /// A signed or unsigned integer; a boolean is not one.
    pub fn is_integer(self) -> bool {
        matches!(self.kind(), DTypeKind::Signed | DTypeKind::Unsigned)
    }

    pub fn is_complex(self) -> bool {
        self.kind() == DTypeKind::Complex
    }

    /// An integer as this type holds it: wrapped to its width, and of a boolean whether it is not 0.
    pub fn wrap(self, value: i64) -> i64 {
        let shift = 64 - self.bits().clamp(1, 64) as u32;
        match self.kind() {
            DTypeKind::Bool => i64::from(value != 0),
            DTypeKind::Signed => value << shift >> shift,
            _ => ((value as u64) << shift >> shift) as i64,
        }
    }

    /// Bytes of one element in a literal or a file, where each element has whole bytes of its own.
    pub fn stored_bytes(self) -> usize {
        self.bits().div_ceil(8)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_dtype_table_follow_the_order_of_the_enum() {
        for (index, dtype) in DType::all().enumerate() {
            assert_eq!(dtype as usize, index);
        }
    }

    #[test]
    fn a_huge_shape_has_no_element_count_unless_it_is_empty() {
        assert_eq!(Type::new(DType::F32, &[1 << 40, 1 << 40]).checked_elements(), None);
        assert_eq!(Type::new(DType::F32, &[1 << 40, 0, 1 << 40]).checked_elements(), Some(0));
    }
}
