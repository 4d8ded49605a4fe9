//! Reading operations in their pretty forms.
//!
//! Most pretty forms are a list of operands, `keyword = value` pairs and bare words, then `:` and
//! types. They are read loosely into a [`RawOp`]; `build` knows which keyword stands for which
//! attribute. Only `reduce`, `while`, `slice` and calls have a grammar of their own.

use super::attribute::{Attribute, Attributes, Named, parse_convolution_dims};
use super::cursor::{Parse, error};
use super::operation::RawOp;
use super::parse::Parser;
use super::types::{TypeList, parse_function_type, parse_result_types, parse_type};
use crate::codes::Code;
use crate::program::{LocationId, RegionId, ValueId, plural};

/// One operation; the cursor stands on its name.
pub(super) fn parse_pretty<'a>(parser: &mut Parser<'a>, start: usize) -> Parse<RawOp<'a>> {
    let name = parser.cursor.expect_word("an operation")?;
    let name = match name {
        "return" => "func.return",
        "call" => "func.call",
        name => name,
    };
    let mut raw = RawOp::new(name, start..parser.cursor.position);
    match name {
        "stablehlo.reduce" => parse_reduce(parser, &mut raw)?,
        "stablehlo.while" => parse_while(parser, &mut raw)?,
        _ if !name.contains('.') => {
            return Err(error(
                Code::Types,
                raw.span,
                format!("`{name}` is not an operation"),
                "expected a name such as `stablehlo.add`",
            ));
        }
        _ => {
            parse_items(parser, &mut raw)?;
            parse_types(parser, &mut raw)?;
        }
    }
    Ok(raw)
}

/// Operands, keywords and words up to the `:`.
fn parse_items<'a>(parser: &mut Parser<'a>, raw: &mut RawOp<'a>) -> Parse<()> {
    // Inside `(...)`; the pieces after it need no comma before them.
    let mut in_parens = false;
    loop {
        match parser.cursor.peek() {
            b'%' => parse_operand_item(parser, raw)?,
            b'@' => {
                parser.cursor.skip_space();
                let start = parser.cursor.position;
                let symbol = parser.cursor.symbol()?;
                push(raw, "callee", Attribute::Symbol(symbol), start..parser.cursor.position);
                continue;
            }
            b'"' => {
                let start = parser.cursor.position;
                let string = parser.cursor.string()?;
                push(raw, "name", Attribute::String(string), start..parser.cursor.position);
                continue;
            }
            b'(' if !in_parens => {
                parser.cursor.position += 1;
                in_parens = true;
                continue;
            }
            b')' if in_parens => {
                parser.cursor.position += 1;
                in_parens = false;
                continue;
            }
            b'{' => {
                parser.cursor.position += 1;
                parser.parse_attribute_fields("}", &mut raw.attributes)?;
                continue;
            }
            b'<' if parser.cursor.text[parser.cursor.position..].starts_with("<{") => {
                parser.cursor.position += 2;
                parser.parse_attribute_fields("}>", &mut raw.attributes)?;
                continue;
            }
            b'<' if raw.name == "sdy.sharding_constraint" => {
                let start = parser.cursor.position;
                if !parser.cursor.skip_balanced() {
                    return Err(parser.cursor.unexpected("a sharding"));
                }
                push(raw, "sharding", Attribute::Other, start..parser.cursor.position);
                continue;
            }
            b':' => return Ok(()),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let before = parser.cursor.position;
                // A location, or the next operation after one that has no types.
                let is_return = matches!(raw.name, "func.return" | "stablehlo.return");
                if is_return || parser.cursor.eat("loc(") {
                    parser.cursor.position = before;
                    return Ok(());
                }
                parse_word_item(parser, raw)?;
                if raw.name.ends_with("_const") {
                    return Ok(());
                }
            }
            _ if raw.name == "func.return" || raw.name == "stablehlo.return" => return Ok(()),
            _ => return Err(parser.cursor.unexpected("an operand, an attribute or `:`")),
        }
        let ended = !parser.cursor.eat(",") && !matches!(parser.cursor.peek(), b'{' | b':' | b')' | b'(' | b'<');
        if ended {
            return Ok(());
        }
    }
}

/// `%a`, and after the operand of a slice `[0:4:2, 1:3]`.
fn parse_operand_item<'a>(parser: &mut Parser<'a>, raw: &mut RawOp<'a>) -> Parse<()> {
    parser.parse_operand(raw)?;
    if raw.name != "stablehlo.slice" || !parser.cursor.eat("[") {
        return Ok(());
    }
    let span = parser.cursor.position - 1..parser.cursor.position;
    let mut bounds = [smallvec::SmallVec::new(), smallvec::SmallVec::new(), smallvec::SmallVec::new()];
    while !parser.cursor.eat("]") {
        let start = parser.cursor.integer()?;
        parser.cursor.expect(":")?;
        let limit = parser.cursor.integer()?;
        let stride = if parser.cursor.eat(":") { parser.cursor.integer()? } else { 1 };
        for (list, value) in bounds.iter_mut().zip([start, limit, stride]) {
            list.push(i64::try_from(value).unwrap_or(i64::MAX));
        }
        if parser.cursor.peek() != b']' {
            parser.cursor.expect(",")?;
        }
    }
    let [starts, limits, strides] = bounds;
    push(raw, "start_indices", Attribute::Integers(starts), span.clone());
    push(raw, "limit_indices", Attribute::Integers(limits), span.clone());
    push(raw, "strides", Attribute::Integers(strides), span);
    Ok(())
}

/// `keyword = value`, a bare word, or a constant.
fn parse_word_item<'a>(parser: &mut Parser<'a>, raw: &mut RawOp<'a>) -> Parse<()> {
    let start = parser.cursor.position;
    let word = parser.cursor.expect_word("a keyword")?;
    if matches!(word, "dense" | "dense_resource" | "array") && parser.cursor.byte() == b'<' {
        parser.cursor.position = start;
        let value = parser.parse_attribute()?;
        // The type of the constant is the type of the operation.
        if let Attribute::Dense(literal) = &value {
            raw.result_types = TypeList::from_iter([literal.ty.clone()]);
        }
        push(raw, "value", value, start..parser.cursor.position);
        return Ok(());
    }
    if !parser.cursor.eat("=") {
        raw.words.push(word);
        return Ok(());
    }
    parser.cursor.skip_space();
    let start = parser.cursor.position;
    if word == "dim_numbers" && raw.name == "stablehlo.convolution" {
        let dims = parse_convolution_dims(&mut parser.cursor)?;
        push(raw, word, Attribute::ConvolutionDims(dims), start..parser.cursor.position);
        return Ok(());
    }
    let mut value = parser.parse_attribute()?;
    // `contracting_dims = [1] x [0]`: one list per operand.
    if raw.name == "stablehlo.dot_general" && parser.cursor.eat("x") {
        value = Attribute::List(vec![value, parser.parse_attribute()?]);
    }
    push(raw, word, value, start..parser.cursor.position);
    Ok(())
}

fn push<'a>(raw: &mut RawOp<'a>, name: &'a str, value: Attribute<'a>, span: std::ops::Range<usize>) {
    raw.attributes.push(Named { name, value, span });
}

/// `: (A, B) -> C`, `: A`, `: A, B`, `: A -> B`, or nothing where the op has no types.
fn parse_types<'a>(parser: &mut Parser<'a>, raw: &mut RawOp<'a>) -> Parse<()> {
    let may_lack_types = raw.name.ends_with("return") || raw.name.ends_with("_const") || raw.name.ends_with("constant");
    if !parser.cursor.eat(":") {
        return if may_lack_types {
            Ok(())
        } else {
            Err(parser.cursor.unexpected("`:` and the types of the operation"))
        };
    }
    if parser.cursor.peek() == b'(' {
        let (operands, results) = parse_function_type(&mut parser.cursor)?;
        (raw.operand_types, raw.result_types) = (operands, results);
        return Ok(());
    }
    let types = parse_type_list(parser)?;
    if parser.cursor.eat("->") {
        raw.result_types = parse_result_types(&mut parser.cursor)?;
        raw.operand_types = types;
        return Ok(());
    }
    match raw.name {
        "func.return" | "stablehlo.return" => raw.operand_types = types,
        "stablehlo.optimization_barrier" => {
            raw.operand_types = types.clone();
            raw.result_types = types;
        }
        _ if raw.name.starts_with("check.") => {}
        _ => raw.result_types = TypeList::from_iter(types.last().cloned()),
    }
    Ok(())
}

fn parse_type_list(parser: &mut Parser<'_>) -> Parse<TypeList> {
    let mut types = TypeList::from_iter([parse_type(&mut parser.cursor)?]);
    while parser.cursor.eat(",") {
        types.push(parse_type(&mut parser.cursor)?);
    }
    Ok(types)
}

/// `(%a init: %x), (%b init: %y) applies stablehlo.add across dimensions = [0] : ...` or
/// `... across dimensions = [0] : ... reducer(%p: T, %q: T) (...) {...}`.
fn parse_reduce<'a>(parser: &mut Parser<'a>, raw: &mut RawOp<'a>) -> Parse<()> {
    let mut inputs = RawOp::new(raw.name, raw.span.clone());
    let mut initial = RawOp::new(raw.name, raw.span.clone());
    loop {
        parser.cursor.expect("(")?;
        parser.parse_operand(&mut inputs)?;
        parser.cursor.expect("init")?;
        parser.cursor.expect(":")?;
        parser.parse_operand(&mut initial)?;
        parser.cursor.expect(")")?;
        if !parser.cursor.eat(",") {
            break;
        }
    }
    raw.poisoned = inputs.poisoned || initial.poisoned;
    raw.operands = inputs.operands;
    raw.operands.extend(initial.operands);
    let mut applies = None;
    if parser.cursor.eat("applies") {
        raw.words.push("applies");
        applies = Some(parser.cursor.expect_word("an operation")?);
    }
    parser.cursor.expect("across")?;
    parser.cursor.expect("dimensions")?;
    parser.cursor.expect("=")?;
    let start = parser.cursor.position;
    let dims = parser.parse_attribute()?;
    push(raw, "dimensions", dims, start..parser.cursor.position);
    if parser.cursor.eat("{") {
        parser.parse_attribute_fields("}", &mut raw.attributes)?;
    }
    parse_types(parser, raw)?;
    let region = parser.program.add_region();
    raw.regions.push(region);
    match applies {
        Some(name) => add_applied_op(parser, raw, region, name),
        None => parse_reducer(parser, region),
    }
}

/// The region of `applies stablehlo.add`: that op on the two arguments.
fn add_applied_op<'a>(parser: &mut Parser<'a>, raw: &RawOp<'a>, region: RegionId, name: &'a str) -> Parse<()> {
    if raw.poisoned {
        return Ok(());
    }
    let Some(&first) = raw.operands.first() else { return Ok(()) };
    let scalar = parser.program.ty(first).with_shape(&[]);
    let mut applied = RawOp::new(name, raw.span.clone());
    for _ in 0..2 {
        applied.operands.push(parser.program.add_region_argument(region, scalar.clone()));
    }
    applied.result_types.push(scalar);
    let results = super::build::add_operation(parser, region, &applied, crate::program::Program::UNKNOWN_LOCATION)?;
    parser.program.regions[region].results = results.to_vec();
    Ok(())
}

/// The op inside stands where the reduction stands, which is known only after its types.
pub(super) fn locate_applied_op(parser: &mut Parser<'_>, raw: &RawOp<'_>, location: LocationId) {
    for &region in &raw.regions {
        for op in parser.program.regions[region].ops.clone() {
            parser.program.ops[op].location = location;
        }
    }
}

/// `reducer(%p: T, %q: T) (%r: U, %s: U) {...}`: first the left sides, then the right sides.
fn parse_reducer<'a>(parser: &mut Parser<'a>, region: RegionId) -> Parse<()> {
    parser.cursor.expect("reducer")?;
    let mark = parser.scope_mark();
    let mut sides: [Vec<(&'a str, crate::program::Type)>; 2] = [Vec::new(), Vec::new()];
    while parser.cursor.eat("(") {
        for (index, side) in sides.iter_mut().enumerate() {
            let name = parser.parse_value_name()?;
            parser.cursor.expect(":")?;
            side.push((name, parse_type(&mut parser.cursor)?));
            parser.locations.parse_optional(&mut parser.cursor, &parser.context)?;
            parser.cursor.expect(if index == 0 { "," } else { ")" })?;
        }
    }
    for (name, ty) in sides.into_iter().flatten() {
        let value = parser.program.add_region_argument(region, ty);
        parser.define_value(name, value)?;
    }
    parser.parse_region(region)?;
    parser.forget(mark);
    Ok(())
}

/// `(%p = %a, %q = %b) : A, B cond {...} do {...}`: both regions call their arguments `%p`, `%q`.
fn parse_while<'a>(parser: &mut Parser<'a>, raw: &mut RawOp<'a>) -> Parse<()> {
    let mut names: Vec<&'a str> = Vec::new();
    parser.cursor.expect("(")?;
    while !parser.cursor.eat(")") {
        names.push(parser.parse_value_name()?);
        parser.cursor.expect("=")?;
        parser.parse_operand(raw)?;
        if parser.cursor.peek() != b')' {
            parser.cursor.expect(",")?;
        }
    }
    if parser.cursor.eat(":") {
        raw.operand_types = parse_type_list(parser)?;
        raw.result_types = raw.operand_types.clone();
    }
    if raw.operand_types.len() != names.len() {
        let (values, types) = (names.len(), raw.operand_types.len());
        let label = format!("{} and {}", plural(values, "value"), plural(types, "type"));
        return Err(error(Code::Types, raw.span.clone(), "`stablehlo.while` needs one type per value", label));
    }
    if parser.cursor.eat("attributes") {
        parser.cursor.expect("{")?;
        parser.parse_attribute_fields("}", &mut Attributes::new())?;
    }
    for keyword in ["cond", "do"] {
        parser.cursor.expect(keyword)?;
        let region = parser.program.add_region();
        let mark = parser.scope_mark();
        for (name, ty) in names.iter().zip(raw.operand_types.clone()) {
            let value: ValueId = parser.program.add_region_argument(region, ty);
            parser.define_value(name, value)?;
        }
        parser.parse_region(region)?;
        parser.forget(mark);
        raw.regions.push(region);
    }
    Ok(())
}
