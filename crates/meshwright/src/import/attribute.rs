//! Reading attributes, in every form that StableHLO and JAX print.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::cursor::{Cursor, Parse, error, is_word, unescape};
use super::literal::{elided, parse_dense};
use super::types::{TypeList, parse_function_type};
use crate::codes::Code;
use crate::program::Literal;

/// The value of an attribute, as far as any op of ours looks into it.
#[derive(Clone, Debug)]
pub(super) enum Attribute<'a> {
    Unit,
    Bool(bool),
    Integer(i64),
    Float(f64),
    /// Between the quotes, escapes as they are.
    String(&'a str),
    Symbol(&'a str),
    /// `[a, b]`.
    List(Vec<Attribute<'a>>),
    /// `array<i64: 1, 2>`.
    Integers(SmallVec<[i64; 6]>),
    Dense(Box<Literal>),
    /// `#stablehlo<precision DEFAULT>` or a bare word such as `DEFAULT`: the word.
    Word(&'a str),
    /// `{a = 1}` or the inside of `#stablehlo.dot<a = 1>`.
    Fields(Attributes<'a>),
    /// The inside of `#stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>`.
    ConvolutionDims([Vec<&'a str>; 3]),
    /// `(A, B) -> C`: the types of operands and results.
    FunctionType(Box<(TypeList, TypeList)>),
    /// Something we only carry: types, mappings, other dialects' attributes.
    Other,
}

/// One named attribute with the place of its value.
#[derive(Clone, Debug)]
pub(super) struct Named<'a> {
    pub(super) name: &'a str,
    pub(super) value: Attribute<'a>,
    pub(super) span: Range<usize>,
}

pub(super) type Attributes<'a> = Vec<Named<'a>>;

/// What reading an attribute may refer to.
pub(super) struct Context<'a> {
    /// The whole text, shared with large constants.
    pub(super) source: Arc<str>,
    /// `#name = ...` definitions: where the value starts.
    pub(super) aliases: FxHashMap<&'a str, usize>,
    /// How many bytes of definitions may still be read in place of their aliases.
    pub(super) expansion: Cell<usize>,
    /// The first use of a location that is not defined.
    pub(super) undefined_location: Cell<Option<(usize, usize)>>,
}

impl Context<'_> {
    /// Counts the definition of an alias that was read in its place. Aliases of aliases may grow
    /// exponentially.
    pub(super) fn charge(&self, definition: Range<usize>) -> Parse<()> {
        let rest = self.expansion.get().saturating_sub(definition.len());
        self.expansion.set(rest);
        if rest > 0 {
            return Ok(());
        }
        Err(error(Code::TooLarge, definition, "aliases expand to too much text", "this definition is used too often"))
    }

    /// A piece of the text with every alias replaced by its definition, which means something also
    /// outside of this text.
    pub(super) fn expand(&self, text: &str, span: &Range<usize>) -> Parse<String> {
        let mut out = String::new();
        self.expand_into(text, span, 0, &mut out)?;
        Ok(out)
    }

    fn expand_into(&self, text: &str, span: &Range<usize>, depth: usize, out: &mut String) -> Parse<()> {
        let mut cursor = Cursor::new(&text[..span.end], span.start);
        let mut copied = span.start;
        while let Some(offset) = memchr::memchr2(b'#', b'"', &text.as_bytes()[cursor.position..span.end]) {
            cursor.position += offset;
            let start = cursor.position;
            if cursor.byte() == b'"' && cursor.string().is_ok() {
                continue;
            }
            cursor.position = start + 1;
            let name = if text.as_bytes()[start] == b'#' { cursor.suffix() } else { "" };
            let Some(&position) = self.aliases.get(name).filter(|_| !name.is_empty()) else { continue };
            let mut definition = Cursor::new(text, position);
            self.charge(position..position)?;
            parse_attribute(&mut definition, self, depth)?;
            self.charge(position..definition.position)?;
            out.push_str(&text[copied..start]);
            self.expand_into(text, &(position..definition.position), depth + 1, out)?;
            copied = cursor.position;
        }
        out.push_str(&text[copied..span.end]);
        Ok(())
    }
}

/// How deep lists, dictionaries and aliases may nest.
const MAXIMUM_DEPTH: usize = 64;

/// `{a = 1, b}`; the cursor stands after the `{`, and ends after `close`.
pub(super) fn parse_fields<'a>(
    cursor: &mut Cursor<'a>,
    context: &Context<'a>,
    close: &str,
    depth: usize,
    out: &mut Attributes<'a>,
) -> Parse<()> {
    if cursor.eat(close) {
        return Ok(());
    }
    loop {
        let name = parse_name(cursor)?;
        cursor.skip_space();
        let mut start = cursor.position;
        let mut value = Attribute::Unit;
        if cursor.eat("=") {
            cursor.skip_space();
            start = cursor.position;
            value = parse_attribute(cursor, context, depth)?;
        }
        out.push(Named { name, value, span: start..cursor.position });
        if !cursor.eat(",") {
            return cursor.expect(close);
        }
    }
}

/// The name of an attribute, in quotes where it is no word; escapes as they are.
fn parse_name<'a>(cursor: &mut Cursor<'a>) -> Parse<&'a str> {
    if cursor.peek() != b'"' {
        return cursor.expect_word("the name of an attribute");
    }
    let start = cursor.position;
    let name = cursor.string()?;
    // Names are compared as written, so that one name must not have two spellings.
    if name.contains('\\') && is_word(&unescape(name)) {
        return Err(error(
            Code::Syntax,
            start..cursor.position,
            "escapes in a name that needs none",
            "expected a plain word",
        ));
    }
    Ok(name)
}

/// No attribute of an operation may come twice.
pub(super) fn check_distinct(attributes: &[Named<'_>]) -> Parse<()> {
    if attributes.len() < 2 {
        return Ok(());
    }
    let mut seen = FxHashSet::default();
    for named in attributes {
        if !seen.insert(unescape(named.name)) {
            let message = format!("attribute `{}` is given twice", named.name);
            return Err(error(Code::DefinedTwice, named.span.clone(), message, "given again"));
        }
    }
    Ok(())
}

/// One attribute value with its type, if it has one.
pub(super) fn parse_attribute<'a>(
    cursor: &mut Cursor<'a>,
    context: &Context<'a>,
    depth: usize,
) -> Parse<Attribute<'a>> {
    if depth > MAXIMUM_DEPTH {
        let message = format!("attributes nested deeper than {MAXIMUM_DEPTH}");
        return Err(error(
            Code::TooLarge,
            cursor.position..cursor.position,
            message,
            "or an alias that contains itself",
        ));
    }
    match cursor.peek() {
        b'"' => {
            let string = cursor.string()?;
            skip_type_suffix(cursor);
            Ok(Attribute::String(string))
        }
        b'-' | b'0'..=b'9' => parse_number(cursor),
        b'@' => {
            let symbol = cursor.symbol()?;
            while cursor.eat("::") {
                cursor.symbol()?;
            }
            Ok(Attribute::Symbol(symbol))
        }
        b'[' => {
            cursor.position += 1;
            parse_list(cursor, context, depth).map(Attribute::List)
        }
        b'{' => {
            cursor.position += 1;
            let mut fields = Attributes::new();
            parse_fields(cursor, context, "}", depth + 1, &mut fields)?;
            Ok(Attribute::Fields(fields))
        }
        b'#' => parse_dialect_attribute(cursor, context, depth),
        b'<' => {
            // The bare inside of a dialect attribute, as in `algorithm = <...>`.
            cursor.position += 1;
            parse_dialect_body(cursor, context, depth)
        }
        b'(' | b'!' => parse_carried(cursor),
        _ => parse_word(cursor, context),
    }
}

fn parse_list<'a>(cursor: &mut Cursor<'a>, context: &Context<'a>, depth: usize) -> Parse<Vec<Attribute<'a>>> {
    let mut list = Vec::new();
    if cursor.eat("]") {
        return Ok(list);
    }
    loop {
        list.push(parse_attribute(cursor, context, depth + 1)?);
        if !cursor.eat(",") {
            cursor.expect("]")?;
            return Ok(list);
        }
    }
}

fn parse_number<'a>(cursor: &mut Cursor<'a>) -> Parse<Attribute<'a>> {
    cursor.skip_space();
    let start = cursor.position;
    let text = cursor.number();
    let span = start..cursor.position;
    let suffix = scalar_type_suffix(cursor);
    let is_float_type = matches!(suffix, "f16" | "bf16" | "f32" | "f64");
    let hex = text.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
    let value = match hex {
        Some(Ok(bits)) if suffix == "f64" => Some(Attribute::Float(f64::from_bits(bits))),
        Some(Ok(bits)) if suffix == "f32" => Some(Attribute::Float(f64::from(f32::from_bits(bits as u32)))),
        Some(Ok(bits)) => Some(Attribute::Integer(bits as i64)),
        Some(Err(_)) => None,
        None if is_float_type || text.contains(['.', 'e', 'E']) => text.parse().ok().map(Attribute::Float),
        None if suffix == "ui64" => text.parse::<u64>().ok().map(|bits| Attribute::Integer(bits as i64)),
        None => text.parse().ok().map(Attribute::Integer),
    };
    value.ok_or_else(|| error(Code::Syntax, span, "cannot read this number", "expected a 64-bit integer or a float"))
}

/// The type in `: i64` after a number, or nothing. In `dim = 0 : tensor<4xf32>` the `:` belongs to
/// the operation.
fn scalar_type_suffix<'a>(cursor: &mut Cursor<'a>) -> &'a str {
    let before = cursor.position;
    if cursor.eat(":") {
        match cursor.word() {
            Some(word) if word == "index" || word.ends_with(|last: char| last.is_ascii_digit()) => return word,
            _ => {}
        }
    }
    cursor.position = before;
    ""
}

/// `: i64` and the like after a string. Tensor types belong to the operation.
fn skip_type_suffix(cursor: &mut Cursor<'_>) {
    let before = cursor.position;
    let is_type = cursor.eat(":") && cursor.peek() != b'(' && !cursor.eat("tensor<");
    if !is_type || parse_carried(cursor).is_err() {
        cursor.position = before;
    }
}

fn parse_word<'a>(cursor: &mut Cursor<'a>, context: &Context<'a>) -> Parse<Attribute<'a>> {
    let start = cursor.position;
    let word = cursor.expect_word("an attribute value")?;
    match word {
        "true" => Ok(Attribute::Bool(true)),
        "false" => Ok(Attribute::Bool(false)),
        "unit" => Ok(Attribute::Unit),
        "dense" => {
            cursor.expect("<")?;
            parse_dense(cursor, &context.source).map(|literal| Attribute::Dense(Box::new(literal)))
        }
        "dense_resource" => Err(elided(start..cursor.position)),
        "array" => parse_array(cursor),
        _ if cursor.byte() == b'<' || word == "loc" => {
            cursor.position = start;
            parse_carried(cursor)
        }
        _ => Ok(Attribute::Word(word)),
    }
}

/// `array<i64: 1, 2>`, `array<i1: true, false>`, `array<i64>`; the cursor stands after `array`.
fn parse_array<'a>(cursor: &mut Cursor<'a>) -> Parse<Attribute<'a>> {
    cursor.expect("<")?;
    cursor.expect_word("the element type of the array")?;
    let mut integers = SmallVec::new();
    if cursor.eat(":") {
        loop {
            match cursor.peek() {
                b't' if cursor.eat("true") => integers.push(1),
                b'f' if cursor.eat("false") => integers.push(0),
                _ => integers.push(parse_integer(cursor)?),
            }
            if !cursor.eat(",") {
                break;
            }
        }
    }
    cursor.expect(">")?;
    Ok(Attribute::Integers(integers))
}

fn parse_integer(cursor: &mut Cursor<'_>) -> Parse<i64> {
    let start = cursor.position;
    let is_negative = cursor.eat("-");
    let magnitude = i128::from(cursor.integer()?);
    i64::try_from(if is_negative { -magnitude } else { magnitude })
        .map_err(|_| error(Code::Syntax, start..cursor.position, "integer does not fit 64 bits", "out of range"))
}

/// `#stablehlo.dot<...>`, `#stablehlo<precision DEFAULT>`, `#alias`.
fn parse_dialect_attribute<'a>(cursor: &mut Cursor<'a>, context: &Context<'a>, depth: usize) -> Parse<Attribute<'a>> {
    let start = cursor.position;
    cursor.position += 1;
    let name = cursor.suffix();
    if cursor.byte() == b'<' {
        cursor.position += 1;
        // Attributes of other dialects are only carried; their insides have rules of their own.
        if name.starts_with("stablehlo") || name.starts_with("mhlo") || name.starts_with("chlo") {
            return parse_dialect_body(cursor, context, depth);
        }
        cursor.position = start;
        return parse_carried(cursor);
    }
    match context.aliases.get(name) {
        Some(&position) => {
            context.charge(position..position)?;
            let mut definition = Cursor::new(cursor.text, position);
            let value = parse_attribute(&mut definition, context, depth + 1)?;
            context.charge(position..definition.position)?;
            Ok(value)
        }
        None => Err(error(Code::Undefined, start..cursor.position, format!("`#{name}` is not defined"), "used here")),
    }
}

/// The inside of `#dialect.kind<...>` after the `<`.
fn parse_dialect_body<'a>(cursor: &mut Cursor<'a>, context: &Context<'a>, depth: usize) -> Parse<Attribute<'a>> {
    if cursor.peek() == b'[' {
        let dims = parse_convolution_dims(cursor)?;
        cursor.expect(">")?;
        return Ok(Attribute::ConvolutionDims(dims));
    }
    if cursor.eat(">") {
        return Ok(Attribute::Fields(Attributes::new()));
    }
    let before = cursor.clone();
    let first = cursor.expect_word("a word")?;
    match cursor.peek() {
        b'=' => {
            *cursor = before;
            let mut fields = Attributes::new();
            parse_fields(cursor, context, ">", depth + 1, &mut fields)?;
            Ok(Attribute::Fields(fields))
        }
        b'>' => {
            cursor.position += 1;
            Ok(Attribute::Word(first))
        }
        _ => {
            // `precision DEFAULT`: the kind of the enum, then its value.
            let word = cursor.expect_word("the value of an enum")?;
            cursor.expect(">")?;
            Ok(Attribute::Word(word))
        }
    }
}

/// `[b, 0, f]x[0, i, o]->[b, 0, f]`.
pub(super) fn parse_convolution_dims<'a>(cursor: &mut Cursor<'a>) -> Parse<[Vec<&'a str>; 3]> {
    let input = parse_labels(cursor)?;
    cursor.expect("x")?;
    let kernel = parse_labels(cursor)?;
    cursor.expect("->")?;
    let output = parse_labels(cursor)?;
    Ok([input, kernel, output])
}

fn parse_labels<'a>(cursor: &mut Cursor<'a>) -> Parse<Vec<&'a str>> {
    cursor.expect("[")?;
    let mut labels = Vec::new();
    while !cursor.eat("]") {
        cursor.skip_space();
        let label = cursor.suffix();
        if label.is_empty() {
            return Err(cursor.unexpected("a dimension such as `b`, `f` or `0`"));
        }
        labels.push(label);
        if cursor.peek() != b']' {
            cursor.expect(",")?;
        }
    }
    Ok(labels)
}

/// Types and attributes that nothing looks into.
fn parse_carried<'a>(cursor: &mut Cursor<'a>) -> Parse<Attribute<'a>> {
    cursor.skip_space();
    let start = cursor.position;
    if cursor.byte() == b'('
        && let Ok(ty) = parse_function_type(cursor)
    {
        return Ok(Attribute::FunctionType(Box::new(ty)));
    }
    cursor.position = start;
    if matches!(cursor.byte(), b'#' | b'!') {
        cursor.position += 1;
    }
    cursor.suffix();
    if matches!(cursor.byte(), b'<' | b'(') && !cursor.skip_balanced() {
        return Err(error(Code::Syntax, start..start + 1, "attribute without an end", "its brackets do not match"));
    }
    if cursor.position == start {
        return Err(cursor.unexpected("an attribute value"));
    }
    Ok(Attribute::Other)
}
