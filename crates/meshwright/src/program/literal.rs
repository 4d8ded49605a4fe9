//! Constants: the data of `stablehlo.constant`.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::types::{DType, Type};

/// A tensor known at compile time.
///
/// Elements are stored little-endian, each in whole bytes (`DType::stored_bytes`), row-major. A
/// large constant that came as a hex blob stays where it is in the source text and is decoded
/// only when somebody asks for its bytes.
#[derive(Clone)]
pub struct Literal {
    pub ty: Type,
    data: Data,
}

#[derive(Clone)]
enum Data {
    /// Every element has these bytes.
    Splat([u8; 16]),
    Packed(Arc<[u8]>),
    /// `start..end` are the hex digits of all elements in the text.
    Hex {
        text: Arc<str>,
        start: usize,
        end: usize,
    },
}

impl Literal {
    /// Every element is `element`, given as the bits of the element type.
    pub fn splat(ty: Type, element: u128) -> Literal {
        Literal { ty, data: Data::Splat(element.to_le_bytes()) }
    }

    /// Elements as stored bytes. `bytes` holds exactly the elements of `ty`.
    pub fn packed(ty: Type, bytes: impl Into<Arc<[u8]>>) -> Literal {
        let bytes = bytes.into();
        debug_assert_eq!(bytes.len(), ty.elements() * ty.dtype.stored_bytes());
        Literal { ty, data: Data::Packed(bytes) }
    }

    /// Elements as hex digits inside `text`. The caller has checked that they are hex digits and
    /// that there are as many as `ty` needs.
    pub fn hex(ty: Type, text: Arc<str>, start: usize, end: usize) -> Literal {
        debug_assert_eq!(end - start, 2 * ty.elements() * ty.dtype.stored_bytes());
        Literal { ty, data: Data::Hex { text, start, end } }
    }

    /// A literal of `ty` with every element equal to the number `value`, rounded to the type.
    pub fn splat_number(ty: Type, value: f64) -> Literal {
        let bits = encode_number(ty.dtype, value);
        Literal::splat(ty, bits)
    }

    /// A literal of an integer or boolean type with every element equal to `value`, wrapped.
    pub fn splat_integer(ty: Type, value: i64) -> Literal {
        let mask = u64::MAX >> (64 - ty.dtype.bits().clamp(1, 64));
        Literal::splat(ty, u128::from(value as u64 & mask))
    }

    /// The bits of the one element that is everywhere, where the literal is stored as a splat.
    pub fn as_splat(&self) -> Option<u128> {
        match self.data {
            Data::Splat(bytes) => Some(u128::from_le_bytes(bytes)),
            Data::Packed(_) | Data::Hex { .. } => None,
        }
    }

    /// The value of the one element that is everywhere, as an integer, for integer splats.
    pub fn as_splat_integer(&self) -> Option<i64> {
        let bits = self.as_splat()?;
        match self.ty.dtype {
            DType::Bool => Some(bits as i64),
            dtype if dtype.is_unsigned() => i64::try_from(bits).ok(),
            dtype if dtype.is_signed() => {
                let shift = 64 - dtype.bits();
                Some(((bits as u64) << shift) as i64 >> shift)
            }
            _ => None,
        }
    }

    /// The value of the one element that is everywhere, as a number, for float and integer splats.
    pub fn as_splat_number(&self) -> Option<f64> {
        if let Some(integer) = self.as_splat_integer() {
            return Some(integer as f64);
        }
        let bits = self.as_splat()?;
        match self.ty.dtype {
            DType::F64 => Some(f64::from_bits(bits as u64)),
            DType::F32 => Some(f64::from(f32::from_bits(bits as u32))),
            DType::F16 => Some(half::f16::from_bits(bits as u16).to_f64()),
            DType::BF16 => Some(half::bf16::from_bits(bits as u16).to_f64()),
            _ => None,
        }
    }

    /// All elements, as stored bytes.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match &self.data {
            Data::Splat(element) => {
                let width = self.ty.dtype.stored_bytes();
                Cow::Owned(element[..width].repeat(self.ty.elements()))
            }
            Data::Packed(bytes) => Cow::Borrowed(bytes),
            Data::Hex { text, start, end } => {
                let digits = &text.as_bytes()[*start..*end];
                Cow::Owned(digits.chunks_exact(2).map(|pair| hex_digit(pair[0]) << 4 | hex_digit(pair[1])).collect())
            }
        }
    }
}

/// The bits of `value` in an element type, rounded to nearest even; integers are truncated. The real part of a complex number
/// comes first, which is its low half.
pub fn encode_number(dtype: DType, value: f64) -> u128 {
    match dtype {
        DType::F64 | DType::Complex128 => u128::from(value.to_bits()),
        DType::F32 | DType::Complex64 => u128::from((value as f32).to_bits()),
        DType::F16 => u128::from(half::f16::from_f64(value).to_bits()),
        DType::BF16 => u128::from(half::bf16::from_f64(value).to_bits()),
        DType::Bool => u128::from(value != 0.0),
        DType::U64 => u128::from(value as u64),
        _ => {
            let mask = if dtype.bits() >= 64 { u64::MAX } else { (1 << dtype.bits()) - 1 };
            u128::from(value as i64 as u64 & mask)
        }
    }
}

fn hex_digit(digit: u8) -> u8 {
    (digit as char).to_digit(16).map_or(0, |value| value as u8)
}

/// Two literals are equal when their elements have equal bits, however they are stored.
impl PartialEq for Literal {
    fn eq(&self, other: &Literal) -> bool {
        self.ty == other.ty
            && match (&self.data, &other.data) {
                (Data::Splat(a), Data::Splat(b)) => a == b,
                _ => self.bytes() == other.bytes(),
            }
    }
}

impl fmt::Debug for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.data {
            Data::Splat(bytes) => write!(f, "splat {:#x} : {}", u128::from_le_bytes(*bytes), self.ty),
            Data::Packed(bytes) => write!(f, "{} bytes : {}", bytes.len(), self.ty),
            Data::Hex { start, end, .. } => write!(f, "{} hex digits : {}", end - start, self.ty),
        }
    }
}
