//! The text form of a recorded ATen graph: one line per op.
//!
//! ```text
//! aten 1 "Classifier"
//! location 0 "head/_addmm#0" "model.py" 12
//! %0 = argument "params.head.weight" : f32[10,64]
//! %1 = constant 0x0000803f : f32[]
//! %4 = aten.addmm.default(%3, %2, %0, 1, 1) : f32[8,10] @0
//! %5 _ = my.op.default(%4, [1, 2], "same", none) : f32[8,10] _ @0 rule "(i j) -> (i j)"
//! result "loss" %9
//! ```
//!
//! Operands stand in the order of the op's schema, all of them. The last word of a result, where there is one, is the
//! argument that it may overwrite.

use std::ops::Range;

use crate::codes::Code;
use crate::import::cursor::{Cursor, Parse, error};
use crate::program::{DType, Type};

/// A line of the text.
#[derive(Debug)]
pub(super) enum Line {
    Location { number: usize, scope: String, file: String, line: u32 },
    Argument { value: usize, name: String, ty: Type },
    Constant { value: usize, digits: Range<usize>, ty: Type },
    Node(Node),
    Result { name: String, value: usize, overwrites: Option<String> },
}

/// An ATen op.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) op: String,
    pub(super) operands: Vec<Operand>,
    /// Numbers and types of what it makes; an optional result may be missing.
    pub(super) values: Vec<Option<usize>>,
    pub(super) types: Vec<Option<Type>>,
    pub(super) location: usize,
    pub(super) rule: Option<String>,
}

/// What stands in a place of an op's schema.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    Value(usize),
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Complex(f64, f64),
    Text(String),
    DType(DType),
    List(Vec<Operand>),
}

/// The name of the graph from its first line, and where the lines after it begin.
pub(super) fn header(text: &str) -> Parse<(String, usize)> {
    let mut cursor = Cursor::new(text, 0);
    cursor.expect("aten")?;
    let version = integer(&mut cursor)?;
    if version != 1 {
        return Err(error(
            Code::Syntax,
            0..text.find('\n').unwrap_or(text.len()),
            format!("version {version} is not known"),
            "",
        ));
    }
    let name = string(&mut cursor)?;
    Ok((name, end_of_line(text, cursor.position)))
}

/// The line at a position, and where the next one begins; nothing at the end of the text.
pub(super) fn line(text: &str, start: usize) -> Parse<Option<(Line, usize)>> {
    let mut cursor = Cursor::new(text, start);
    if cursor.at_end() {
        return Ok(None);
    }
    let end = end_of_line(text, cursor.position);
    let line = if cursor.eat("location") {
        let number = number(&mut cursor)?;
        let (scope, file) = (string(&mut cursor)?, string(&mut cursor)?);
        Line::Location { number, scope, file, line: number_of_line(&mut cursor)? }
    } else if cursor.eat("result") {
        let (name, value) = (string(&mut cursor)?, value(&mut cursor)?);
        let overwrites = if stands_next(&cursor, end, "\"") { Some(string(&mut cursor)?) } else { None };
        Line::Result { name, value, overwrites }
    } else {
        made(&mut cursor, end)?
    };
    if cursor.position > end || !text[cursor.position..end].trim().is_empty() {
        return Err(cursor.unexpected("the end of the line"));
    }
    Ok(Some((line, end)))
}

fn made(cursor: &mut Cursor<'_>, end: usize) -> Parse<Line> {
    let mut values = Vec::new();
    while cursor.peek() != b'=' {
        values.push(if cursor.eat("_") { None } else { Some(value(cursor)?) });
    }
    cursor.expect("=")?;
    if let [Some(value)] = values[..] {
        if cursor.eat("argument") {
            let name = string(cursor)?;
            cursor.expect(":")?;
            return Ok(Line::Argument { value, name, ty: ty(cursor)? });
        }
        if cursor.eat("constant") {
            cursor.skip_space();
            if !cursor.text[cursor.position..].starts_with("0x") {
                return Err(cursor.unexpected("digits such as `0x0000803f`"));
            }
            cursor.position += 2;
            let start = cursor.position;
            while cursor.byte().is_ascii_hexdigit() {
                cursor.position += 1;
            }
            let digits = start..cursor.position;
            cursor.expect(":")?;
            let ty = ty(cursor)?;
            if ty.elements().checked_mul(2 * ty.dtype.stored_bytes()) != Some(digits.len()) {
                return Err(error(Code::Constant, digits, format!("these are not the digits of a `{ty}`"), ""));
            }
            return Ok(Line::Constant { value, digits, ty });
        }
    }
    let op = word(cursor)?;
    cursor.expect("(")?;
    let operands = list(cursor, ")")?;
    cursor.expect(":")?;
    let mut types = Vec::with_capacity(values.len());
    for _ in &values {
        types.push(if cursor.eat("_") { None } else { Some(ty(cursor)?) });
    }
    cursor.expect("@")?;
    let location = number(cursor)?;
    let rule = if stands_next(cursor, end, "rule") && cursor.eat("rule") { Some(string(cursor)?) } else { None };
    Ok(Line::Node(Node { op, operands, values, types, location, rule }))
}

fn list(cursor: &mut Cursor<'_>, close: &str) -> Parse<Vec<Operand>> {
    let mut operands = Vec::new();
    if cursor.eat(close) {
        return Ok(operands);
    }
    loop {
        operands.push(operand(cursor)?);
        if cursor.eat(close) {
            return Ok(operands);
        }
        cursor.expect(",")?;
    }
}

fn operand(cursor: &mut Cursor<'_>) -> Parse<Operand> {
    match cursor.peek() {
        b'%' => Ok(Operand::Value(value(cursor)?)),
        b'"' => Ok(Operand::Text(string(cursor)?)),
        b'[' => {
            cursor.expect("[")?;
            Ok(Operand::List(list(cursor, "]")?))
        }
        b'(' => {
            cursor.expect("(")?;
            let (real, imaginary) = (float(cursor)?, float(cursor)?);
            cursor.expect(")")?;
            Ok(Operand::Complex(real, imaginary))
        }
        _ => {
            let start = cursor.position;
            let text = word(cursor)?;
            let wrong = || error(Code::Syntax, start..start + text.len(), format!("`{text}` is no operand"), "");
            Ok(match text.as_str() {
                "none" => Operand::None,
                "true" => Operand::Bool(true),
                "false" => Operand::Bool(false),
                other => match DType::from_name(other) {
                    Some(dtype) => Operand::DType(dtype),
                    None => match other.parse::<i64>() {
                        Ok(number) => Operand::Int(number),
                        Err(_) => Operand::Float(other.parse::<f64>().map_err(|_| wrong())?),
                    },
                },
            })
        }
    }
}

fn ty(cursor: &mut Cursor<'_>) -> Parse<Type> {
    cursor.skip_space();
    let start = cursor.position;
    let rest = &cursor.text[start..];
    let length = rest.find('[').unwrap_or(0);
    let Some(dtype) = DType::from_name(&rest[..length]) else {
        return Err(cursor.unexpected("a type such as `f32[2,3]`"));
    };
    cursor.position += length + 1;
    let mut shape = Vec::new();
    while !cursor.eat("]") {
        shape.push(number(cursor)?);
        cursor.eat(",");
    }
    let ty = Type::new(dtype, &shape);
    match ty.checked_elements() {
        Some(_) => Ok(ty),
        None => Err(error(Code::TooLarge, start..cursor.position, "this has more bytes than 63 bits can count", "")),
    }
}

fn float(cursor: &mut Cursor<'_>) -> Parse<f64> {
    let start = cursor.position;
    let text = word(cursor)?;
    text.parse().map_err(|_| error(Code::Syntax, start..cursor.position, format!("`{text}` is no number"), ""))
}

/// Everything up to a space or a mark.
fn word(cursor: &mut Cursor<'_>) -> Parse<String> {
    cursor.skip_space();
    let rest = &cursor.text[cursor.position..];
    // A complex type is a word with brackets of its own.
    let length = rest.find([' ', '\n', '(', ')', '[', ']', ',', '"', '@']).unwrap_or(rest.len());
    if length == 0 {
        return Err(cursor.unexpected("a word"));
    }
    cursor.position += length;
    Ok(rest[..length].to_owned())
}

fn value(cursor: &mut Cursor<'_>) -> Parse<usize> {
    cursor.expect("%")?;
    number(cursor)
}

fn number_of_line(cursor: &mut Cursor<'_>) -> Parse<u32> {
    Ok(u32::try_from(number(cursor)?).unwrap_or(0))
}

fn number(cursor: &mut Cursor<'_>) -> Parse<usize> {
    let start = cursor.position;
    usize::try_from(integer(cursor)?)
        .map_err(|_| error(Code::Syntax, start..cursor.position, "a number from 0 on is expected", ""))
}

fn integer(cursor: &mut Cursor<'_>) -> Parse<i64> {
    cursor.skip_space();
    let start = cursor.position;
    let rest = cursor.text[start..].as_bytes();
    let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let found = cursor.text[start..start + length].parse();
    let Ok(found) = found else { return Err(cursor.unexpected("a number")) };
    cursor.position += length;
    Ok(found)
}

/// A text in quotes, in which `\` stands before quotes and itself.
fn string(cursor: &mut Cursor<'_>) -> Parse<String> {
    cursor.expect("\"")?;
    let start = cursor.position;
    let mut found = String::new();
    let mut characters = cursor.text[start..].char_indices();
    while let Some((offset, character)) = characters.next() {
        match character {
            '"' => {
                cursor.position = start + offset + 1;
                return Ok(found);
            }
            '\\' => found.extend(characters.next().map(|(_, escaped)| escaped)),
            '\n' => break,
            other => found.push(other),
        }
    }
    Err(error(Code::Syntax, start..start, "this text has no end", ""))
}

/// Whether something is the next thing in a line that ends there.
fn stands_next(cursor: &Cursor<'_>, end: usize, token: &str) -> bool {
    cursor.text.get(cursor.position..end).is_some_and(|rest| rest.trim_start().starts_with(token))
}

fn end_of_line(text: &str, position: usize) -> usize {
    let rest = &text.as_bytes()[position.min(text.len())..];
    memchr::memchr(b'\n', rest).map_or(text.len(), |offset| position + offset)
}
