//! Constants and numbers as text that reads back to the same bits.

use std::fmt::{self, Display};

use crate::program::{DType, DTypeKind, Literal};

/// Literals with more elements than this are printed as hex digits.
const LISTED_ELEMENTS: usize = 32;

/// `dense<...>`: one element for a splat, a nested list for a few, hex digits for many.
pub(super) struct Elements<'a>(pub(super) &'a Literal);

impl Display for Elements<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let literal = self.0;
        let dtype = literal.ty.dtype;
        let elements = literal.ty.elements();
        // A token has no bits to show.
        if elements == 0 || dtype == DType::Token {
            return f.write_str("dense<>");
        }
        if let Some(bits) = literal.as_splat() {
            return write!(f, "dense<{}>", Element { dtype, bits });
        }
        let bytes = literal.bytes();
        let width = dtype.stored_bytes();
        // Equal literals print the same, however they are stored.
        if bytes.chunks_exact(width).all(|element| element == &bytes[..width]) {
            return write!(f, "dense<{}>", Element { dtype, bits: bits_of(&bytes[..width]) });
        }
        f.write_str("dense<")?;
        if elements <= LISTED_ELEMENTS {
            write_nested(f, dtype, &literal.ty.shape, &bytes)?;
        } else {
            f.write_str("\"0x")?;
            write_hex(f, &bytes)?;
            f.write_str("\"")?;
        }
        f.write_str(">")
    }
}

fn write_nested(f: &mut fmt::Formatter<'_>, dtype: DType, shape: &[usize], bytes: &[u8]) -> fmt::Result {
    let Some((&size, inner)) = shape.split_first() else {
        return write!(f, "{}", Element { dtype, bits: bits_of(bytes) });
    };
    f.write_str("[")?;
    for (index, part) in bytes.chunks_exact(bytes.len() / size).enumerate() {
        f.write_str(if index == 0 { "" } else { ", " })?;
        write_nested(f, dtype, inner, part)?;
    }
    f.write_str("]")
}

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    // Constants may be megabytes, so digits are collected in a buffer instead of written one by one.
    let mut buffer = [0; 1024];
    for chunk in bytes.chunks(buffer.len() / 2) {
        for (pair, byte) in buffer.chunks_exact_mut(2).zip(chunk) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        let digits = &buffer[..2 * chunk.len()];
        f.write_str(std::str::from_utf8(digits).expect("hex digits are ASCII"))?;
    }
    Ok(())
}

fn bits_of(element: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    bytes[..element.len()].copy_from_slice(element);
    u128::from_le_bytes(bytes)
}

/// One element, given by its bits.
struct Element {
    dtype: DType,
    bits: u128,
}

impl Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.bits;
        match self.dtype.kind() {
            DTypeKind::Bool => write!(f, "{}", bits != 0),
            DTypeKind::Signed => {
                let unused = 64 - self.dtype.bits();
                write!(f, "{}", ((bits as u64) << unused) as i64 >> unused)
            }
            DTypeKind::Unsigned => write!(f, "{bits}"),
            // Their decimal values differ from type to type; their bits do not need a table.
            DTypeKind::SmallFloat => write!(f, "0x{bits:02X}"),
            DTypeKind::Float => write!(f, "{}", real(self.dtype, bits)),
            DTypeKind::Complex => {
                let (part, shift) = match self.dtype {
                    DType::Complex128 => (DType::F64, 64),
                    _ => (DType::F32, 32),
                };
                write!(f, "({}, {})", real(part, bits), real(part, bits >> shift))
            }
            DTypeKind::Token => Ok(()),
        }
    }
}

fn real(dtype: DType, bits: u128) -> Real {
    match dtype {
        DType::BF16 => Real::BF16(half::bf16::from_bits(bits as u16)),
        DType::F16 => Real::F16(half::f16::from_bits(bits as u16)),
        DType::F64 => Real::F64(f64::from_bits(bits as u64)),
        _ => Real::F32(f32::from_bits(bits as u32)),
    }
}

/// A floating-point number in the shortest decimal form that reads back to the same bits; as its
/// bits in hex where there is no such form.
#[derive(Clone, Copy)]
pub(super) enum Real {
    BF16(half::bf16),
    F16(half::f16),
    F32(f32),
    F64(f64),
}

impl Display for Real {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Real::BF16(value) if value.is_finite() => write_decimal(f, &format!("{:?}", value.to_f32())),
            Real::BF16(value) => write!(f, "0x{:04X}", value.to_bits()),
            Real::F16(value) if value.is_finite() => write_decimal(f, &format!("{:?}", value.to_f32())),
            Real::F16(value) => write!(f, "0x{:04X}", value.to_bits()),
            Real::F32(value) => {
                let digits = format!("{value:?}");
                // MLIR reads every decimal as an f64 and rounds again, which for a few numbers
                // (7.038531e-26 is one) ends beside the number that was printed.
                let survives = digits.parse::<f64>().is_ok_and(|wide| wide as f32 == value);
                if value.is_finite() && survives {
                    write_decimal(f, &digits)
                } else {
                    write!(f, "0x{:08X}", value.to_bits())
                }
            }
            Real::F64(value) if value.is_finite() => write_decimal(f, &format!("{value:?}")),
            Real::F64(value) => write!(f, "0x{:016X}", value.to_bits()),
        }
    }
}

/// Writes Rust's shortest digits of a finite number as MLIR's lexer wants them: with a point also
/// before an exponent, so `1e-5` becomes `1.0e-05`.
fn write_decimal(f: &mut fmt::Formatter<'_>, digits: &str) -> fmt::Result {
    let Some((mantissa, exponent)) = digits.split_once('e') else { return f.write_str(digits) };
    let point = if mantissa.contains('.') { "" } else { ".0" };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(("+", exponent), |exponent| ("-", exponent));
    write!(f, "{mantissa}{point}e{sign}{exponent:0>2}")
}
