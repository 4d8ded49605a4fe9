//! Reading types.

use smallvec::SmallVec;

use super::cursor::{Cursor, Parse, error, with_hint};
use crate::codes::Code;
use crate::program::{DType, MAXIMUM_RANK, Shape, Type, countable};

/// The types of operands or results.
pub(super) type TypeList = SmallVec<[Type; 2]>;

/// One type: a tensor of static shape or a token.
pub(super) fn parse_type(cursor: &mut Cursor<'_>) -> Parse<Type> {
    cursor.skip_space();
    let start = cursor.position;
    if cursor.eat("tensor<") {
        return parse_tensor(cursor, start, parse_dtype);
    }
    if cursor.eat("!stablehlo.token") || cursor.eat("!mhlo.token") {
        return Ok(Type::token());
    }
    let mut word = cursor.clone();
    let name = if word.eat("!") { word.suffix() } else { word.word().unwrap_or("") };
    let found = &cursor.text[start..word.position];
    if found.starts_with('!') || matches!(name, "tuple" | "memref" | "vector" | "index" | "none") {
        let message = format!("type `{found}` is not supported");
        let problem = error(Code::UnknownType, start..word.position, message, "expected a tensor or a token");
        let is_alias = found.starts_with('!') && !name.contains('.');
        return Err(if is_alias { with_hint(problem, "write the type out where its alias stands") } else { problem });
    }
    Err(cursor.unexpected("a tensor type such as `tensor<2x3xf32>`"))
}

/// The type of a constant. Those that are attributes of an op, such as layouts, may have elements of
/// type `index`, which no value has; they are read as integers.
pub(super) fn parse_constant_type(cursor: &mut Cursor<'_>) -> Parse<Type> {
    cursor.skip_space();
    let start = cursor.position;
    if !cursor.eat("tensor<") {
        return parse_type(cursor);
    }
    parse_tensor(cursor, start, |cursor| if cursor.eat("index") { Ok(DType::I64) } else { parse_dtype(cursor) })
}

/// `(A, B) -> C`, `(A, B) -> (C, D)`: the operand types and the result types.
pub(super) fn parse_function_type(cursor: &mut Cursor<'_>) -> Parse<(TypeList, TypeList)> {
    cursor.expect("(")?;
    let operands = parse_types_until_paren(cursor)?;
    cursor.expect("->")?;
    let results = parse_result_types(cursor)?;
    Ok((operands, results))
}

/// `C` or `(C, D)` or `()`.
pub(super) fn parse_result_types(cursor: &mut Cursor<'_>) -> Parse<TypeList> {
    if cursor.eat("(") {
        return parse_types_until_paren(cursor);
    }
    Ok(TypeList::from_iter([parse_type(cursor)?]))
}

fn parse_types_until_paren(cursor: &mut Cursor<'_>) -> Parse<TypeList> {
    let mut types = TypeList::new();
    if cursor.eat(")") {
        return Ok(types);
    }
    loop {
        types.push(parse_type(cursor)?);
        if !cursor.eat(",") {
            cursor.expect(")")?;
            return Ok(types);
        }
    }
}

/// The rest of `tensor<2x3xf32>` after the `<`.
fn parse_tensor(
    cursor: &mut Cursor<'_>,
    start: usize,
    parse_dtype: impl Fn(&mut Cursor<'_>) -> Parse<DType>,
) -> Parse<Type> {
    let mut shape = Shape::new();
    loop {
        match cursor.peek() {
            b'0'..=b'9' => {
                if shape.len() == MAXIMUM_RANK {
                    let message = format!("tensor has more than {MAXIMUM_RANK} dimensions");
                    return Err(error(Code::TooLarge, start..cursor.position, message, "too many"));
                }
                let size = cursor.integer()?;
                shape.push(usize::try_from(size).unwrap_or(usize::MAX));
                if cursor.byte() != b'x' {
                    return Err(cursor.unexpected("`x` after the size of a dimension"));
                }
                cursor.position += 1;
            }
            b'?' | b'*' => {
                let span = cursor.position..cursor.position + 1;
                let problem =
                    error(Code::DynamicShape, span, "dynamic shapes are not supported", "size known only at run time");
                return Err(with_hint(problem, "export the function with concrete shapes"));
            }
            _ => break,
        }
    }
    let dtype = parse_dtype(cursor)?;
    if cursor.eat(",") && !skip_encoding(cursor) {
        return Err(error(
            Code::Syntax,
            start..start + "tensor<".len(),
            "tensor type without an end",
            "this `<` has no `>`",
        ));
    }
    cursor.expect(">")?;
    let ty = Type { dtype, shape };
    countable(&ty).map_err(|message| error(Code::TooLarge, start..cursor.position, message, "too large"))?;
    Ok(ty)
}

const EXPECTED_DTYPE: &str = "expected a type such as `f32`, `bf16` or `i32`";

fn parse_dtype(cursor: &mut Cursor<'_>) -> Parse<DType> {
    cursor.skip_space();
    let start = cursor.position;
    if cursor.eat("complex<") {
        let part = cursor.expect_word("`f32` or `f64`")?;
        cursor.expect(">")?;
        return match part {
            "f32" => Ok(DType::Complex64),
            "f64" => Ok(DType::Complex128),
            _ => Err(error(
                Code::UnknownType,
                start..cursor.position,
                "unknown element type",
                "expected `complex<f32>` or `complex<f64>`",
            )),
        };
    }
    if cursor.byte() == b'!' {
        let quantized = cursor.text[start..].starts_with("!quant");
        let message = if quantized { "quantized types are not supported" } else { "unknown element type" };
        return Err(error(Code::UnknownType, start..start + 1, message, EXPECTED_DTYPE));
    }
    let name = cursor.expect_word("an element type such as `f32`")?;
    DType::from_name(name).ok_or_else(|| {
        error(Code::UnknownType, start..cursor.position, format!("unknown element type `{name}`"), EXPECTED_DTYPE)
    })
}

/// Passes over the encoding in `tensor<4xf32, #encoding>`, leaving the closing `>`.
fn skip_encoding(cursor: &mut Cursor<'_>) -> bool {
    while !matches!(cursor.peek(), b'>' | 0) {
        if matches!(cursor.byte(), b'<' | b'(' | b'[' | b'{') {
            if !cursor.skip_balanced() {
                return false;
            }
        } else {
            cursor.position += cursor.text[cursor.position..].chars().next().map_or(1, char::len_utf8);
        }
    }
    true
}
