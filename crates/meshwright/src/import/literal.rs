//! Reading constants: `dense<...> : tensor<...>`.

use std::ops::Range;
use std::sync::Arc;

use super::cursor::{Cursor, Parse, error, with_hint};
use super::types::parse_constant_type;
use crate::codes::Code;
use crate::program::{DType, DTypeKind, Literal, Type, encode_number, plural};

/// Reads `dense<...> : type`; the cursor stands after `dense<`. `source` is the text of the cursor,
/// shared so that a large blob can stay in it.
pub(super) fn parse_dense(cursor: &mut Cursor<'_>, source: &Arc<str>) -> Parse<Literal> {
    let body = body_span(cursor)?;
    cursor.expect(":")?;
    let ty = parse_constant_type(cursor)?;
    let text = cursor.text[body.clone()].trim_ascii();
    let start = body.start + (cursor.text[body.clone()].len() - cursor.text[body.clone()].trim_ascii_start().len());
    if let Some(quoted) = text.strip_prefix('"') {
        let Some(digits) = quoted.strip_suffix('"') else {
            return Err(error(Code::Syntax, start..start + 1, "string without an end", "starts here"));
        };
        return parse_blob(source, ty, digits, start + 1);
    }
    if text.is_empty() {
        return match ty.elements() {
            0 => Ok(Literal::packed(ty, Vec::new())),
            _ => {
                Err(error(Code::Constant, body, "constant without elements", format!("`{ty}` needs {}", ty.elements())))
            }
        };
    }
    let mut elements = Cursor::new(&cursor.text[..body.end], start);
    if text.starts_with('[') {
        return parse_list(&mut elements, ty, body);
    }
    let bits = parse_element(&mut elements, ty.dtype)?;
    if !elements.at_end() {
        return Err(elements.unexpected("the end of the constant"));
    }
    Ok(Literal::splat(ty, bits))
}

/// The span between `dense<` and its `>`; no element contains a `>` or a `<`.
fn body_span(cursor: &mut Cursor<'_>) -> Parse<Range<usize>> {
    let start = cursor.position;
    let bytes = cursor.text.as_bytes();
    match memchr::memchr2(b'>', b'<', &bytes[start..]) {
        Some(length) if bytes[start + length] == b'>' => {
            cursor.position = start + length + 1;
            Ok(start..start + length)
        }
        _ => Err(error(Code::Constant, start - 1..start, "constant without an end", "this `<` has no `>`")),
    }
}

/// A blob `"0x..."` of all elements (or of one, which is then everywhere).
fn parse_blob(source: &Arc<str>, ty: Type, quoted: &str, start: usize) -> Parse<Literal> {
    let span = start..start + quoted.len();
    let Some(digits) = quoted.strip_prefix("0x") else {
        return Err(error(Code::Constant, span, "expected hex digits", "a string constant starts with `0x`"));
    };
    if let Some((bad, found)) = digits.char_indices().find(|(_, digit)| !digit.is_ascii_hexdigit()) {
        let place = start + 2 + bad;
        let span = place..place + found.len_utf8();
        return Err(error(Code::Constant, span, "not a hex digit", "expected `0` to `9` or `A` to `F`"));
    }
    let width = ty.dtype.stored_bytes();
    let expected = 2 * ty.elements() * width;
    // Every bit of such elements counts, so that they can stay in the text.
    let is_whole = ty.dtype.bits() == 8 * width && ty.dtype != DType::Bool;
    if digits.len() == expected && is_whole {
        let digits_start = start + 2;
        return Ok(Literal::hex(ty, source.clone(), digits_start, digits_start + expected));
    }
    let mut bytes: Vec<u8> =
        digits.as_bytes().chunks_exact(2).map(|pair| hex_value(pair[0]) << 4 | hex_value(pair[1])).collect();
    if digits.len() == expected || digits.len() == 2 * width {
        if ty.dtype == DType::Bool {
            bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        } else if !is_whole {
            bytes.iter_mut().for_each(|byte| *byte &= (1 << ty.dtype.bits()) - 1);
        }
    }
    if digits.len() == expected {
        return Ok(Literal::packed(ty, bytes));
    }
    if digits.len() == 2 * width {
        let mut element = [0; 16];
        element[..width].copy_from_slice(&bytes);
        return Ok(Literal::splat(ty, u128::from_le_bytes(element)));
    }
    // Older printers pack booleans, eight to a byte, lowest bit first.
    if ty.dtype == DType::Bool && digits.len() == 2 * ty.elements().div_ceil(8) {
        let unpacked: Vec<u8> = (0..ty.elements()).map(|index| bytes[index / 8] >> (index % 8) & 1).collect();
        return Ok(Literal::packed(ty, unpacked));
    }
    let label = format!("`{ty}` needs {expected} digits, here are {}", digits.len());
    Err(error(Code::Constant, span, "constant of the wrong length", label))
}

fn hex_value(digit: u8) -> u8 {
    (digit as char).to_digit(16).map_or(0, |value| value as u8)
}

/// Nested lists whose depth and lengths match the shape.
fn parse_list(cursor: &mut Cursor<'_>, ty: Type, body: Range<usize>) -> Parse<Literal> {
    let width = ty.dtype.stored_bytes();
    let mut bytes = Vec::new();
    // How many entries each open list has so far; the list at depth d runs along dimension d.
    let mut counts: Vec<usize> = Vec::new();
    loop {
        match cursor.peek() {
            b'[' => {
                if counts.len() == ty.rank() {
                    let label = format!("`{ty}` has {}", plural(ty.rank(), "dimension"));
                    return Err(error(
                        Code::TooLarge,
                        cursor.position..cursor.position + 1,
                        "list nested too deep",
                        label,
                    ));
                }
                cursor.position += 1;
                counts.push(0);
                continue;
            }
            b']' => {}
            _ => {
                let bits = parse_element(cursor, ty.dtype)?;
                if counts.len() != ty.rank() {
                    let label = format!("`{ty}` has {}", plural(ty.rank(), "dimension"));
                    return Err(error(
                        Code::Constant,
                        cursor.position - 1..cursor.position,
                        "element where a list is expected",
                        label,
                    ));
                }
                bytes.extend_from_slice(&bits.to_le_bytes()[..width]);
                counts[ty.rank() - 1] += 1;
            }
        }
        // After an element or before a `]`: close what ends here.
        while cursor.eat("]") {
            let (count, depth) = (counts.pop().unwrap_or(0), counts.len());
            if count != ty.shape[depth] {
                let label = format!("dimension {depth} of `{ty}` has size {}, here are {count}", ty.shape[depth]);
                return Err(error(
                    Code::Constant,
                    cursor.position - 1..cursor.position,
                    "list of the wrong length",
                    label,
                ));
            }
            match counts.last_mut() {
                Some(outer) => *outer += 1,
                None if cursor.at_end() => return Ok(Literal::packed(ty, bytes)),
                None => return Err(cursor.unexpected("the end of the constant")),
            }
        }
        if cursor.at_end() {
            return Err(error(Code::Constant, body, "constant without an end", "a `]` is missing"));
        }
        cursor.expect(",")?;
    }
}

/// One element, as bits of its type.
fn parse_element(cursor: &mut Cursor<'_>, dtype: DType) -> Parse<u128> {
    cursor.skip_space();
    let start = cursor.position;
    if dtype.is_complex() {
        let part = if dtype == DType::Complex64 { DType::F32 } else { DType::F64 };
        cursor.expect("(")?;
        let real = parse_element(cursor, part)?;
        cursor.expect(",")?;
        let imaginary = parse_element(cursor, part)?;
        cursor.expect(")")?;
        return Ok(real | imaginary << part.bits());
    }
    if dtype == DType::Bool && matches!(cursor.byte(), b't' | b'f') {
        if cursor.eat("true") {
            return Ok(1);
        }
        if cursor.eat("false") {
            return Ok(0);
        }
    }
    let text = cursor.number();
    let span = start..cursor.position;
    if text.is_empty() {
        let expected = if dtype == DType::Bool { "`true` or `false`" } else { "a number" };
        return Err(cursor.unexpected(expected));
    }
    element_bits(text, dtype).ok_or_else(|| {
        let expected = match dtype.kind() {
            DTypeKind::Signed | DTypeKind::Unsigned => format!("an integer of {} bits", dtype.bits()),
            DTypeKind::Bool => "`true` or `false`".to_owned(),
            _ => "a number that the type can hold".to_owned(),
        };
        error(
            Code::Constant,
            span,
            format!("`{text}` is not an element of type `{dtype}`"),
            format!("expected {expected}"),
        )
    })
}

/// The bits of one element written as decimal, or as `0x` and the bits themselves.
fn element_bits(text: &str, dtype: DType) -> Option<u128> {
    let (negative, magnitude) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    if let Some(digits) = magnitude.strip_prefix("0x") {
        let bits = u128::from_str_radix(digits, 16).ok()?;
        let width = if dtype == DType::Bool { 1 } else { dtype.bits() };
        let fits = width >= 128 || bits >> width == 0;
        return (fits && !(negative && dtype.is_float())).then_some(if negative { wrap(bits, dtype)? } else { bits });
    }
    match dtype.kind() {
        DTypeKind::Float => float_bits(text, dtype),
        DTypeKind::Bool => matches!(text, "0" | "1").then(|| u128::from(text == "1")),
        DTypeKind::Signed | DTypeKind::Unsigned => {
            let value: u128 = magnitude.parse().ok()?;
            let limit = 1u128 << dtype.bits();
            // MLIR reads `-1 : ui8` as 255 nowhere, and `255 : i8` as -1 in hex only.
            let in_range = match (dtype.is_signed(), negative) {
                (true, true) => value <= limit / 2,
                (true, false) => value < limit / 2,
                (false, true) => value == 0,
                (false, false) => value < limit,
            };
            if !in_range {
                return None;
            }
            if negative { wrap(value, dtype) } else { Some(value) }
        }
        DTypeKind::SmallFloat => small_float_bits(text, dtype),
        DTypeKind::Complex | DTypeKind::Token => None,
    }
}

/// The bits of `-value`.
fn wrap(value: u128, dtype: DType) -> Option<u128> {
    let limit = 1u128.checked_shl(dtype.bits() as u32)?;
    Some((limit - value % limit) % limit)
}

fn float_bits(text: &str, dtype: DType) -> Option<u128> {
    Some(match dtype {
        // Straight from the decimal form, so that nothing is rounded twice.
        DType::F32 => u128::from(text.parse::<f32>().ok()?.to_bits()),
        _ => encode_number(dtype, text.parse::<f64>().ok()?),
    })
}

/// Exponent bits, mantissa bits, bias and the code for NaN of the eight-bit and narrower types
/// that text may spell in decimal. Only numbers that the type holds exactly are read.
fn small_float_bits(text: &str, dtype: DType) -> Option<u128> {
    let (exponent_bits, mantissa_bits, bias) = match dtype {
        DType::F4E2M1FN => (2, 1, 1),
        DType::F6E2M3FN => (2, 3, 1),
        DType::F6E3M2FN => (3, 2, 3),
        DType::F8E3M4 => (3, 4, 3),
        DType::F8E4M3 | DType::F8E4M3FN => (4, 3, 7),
        DType::F8E4M3B11FNUZ => (4, 3, 11),
        DType::F8E4M3FNUZ => (4, 3, 8),
        DType::F8E5M2 => (5, 2, 15),
        DType::F8E5M2FNUZ => (5, 2, 16),
        DType::F8E8M0FNU => (8, 0, 127),
        _ => return None,
    };
    let value = text.parse::<f64>().ok()?;
    let sign_bits = u32::from(dtype != DType::F8E8M0FNU);
    (0..1u128 << (exponent_bits + mantissa_bits + sign_bits)).find(|&bits| {
        let mantissa = (bits & ((1 << mantissa_bits) - 1)) as f64 / f64::from(1u32 << mantissa_bits);
        let exponent = (bits >> mantissa_bits & ((1 << exponent_bits) - 1)) as i32;
        let negative = sign_bits == 1 && bits >> (mantissa_bits + exponent_bits) == 1;
        let magnitude = match (exponent, dtype) {
            (0, dtype) if dtype != DType::F8E8M0FNU => mantissa * f64::powi(2.0, 1 - bias),
            _ => (1.0 + mantissa) * f64::powi(2.0, exponent - bias),
        };
        let decoded = if negative { -magnitude } else { magnitude };
        decoded == value && decoded.is_sign_negative() == value.is_sign_negative()
    })
}

/// The error for constants whose data is not in the text.
pub(super) fn elided(span: Range<usize>) -> Box<super::Diagnostic> {
    let problem =
        error(Code::Constant, span, "the data of this constant is not in the text", "elided or kept in a resource");
    with_hint(problem, "print the module with `large_elements_limit=None` and without resources")
}
