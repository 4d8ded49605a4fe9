//! Reading regions and operations in generic form.

use std::ops::Range;

use smallvec::SmallVec;

use super::attribute::{Attributes, check_distinct, parse_fields};
use super::build;
use super::cursor::{Parse, error, is_word, with_hint};
use super::parse::{Binding, Parser};
use super::pretty;
use super::types::{TypeList, parse_function_type, parse_type};
use crate::codes::Code;
use crate::program::{LocationId, MAXIMUM_NESTING, RegionId, ValueId, Values, plural};

/// What a region says beyond its operations.
pub(super) struct Block {
    /// Where its arguments come from.
    pub(super) locations: Vec<LocationId>,
    pub(super) has_return: bool,
}

/// An operation as written, before it has a meaning.
pub(super) struct RawOp<'a> {
    pub(super) name: &'a str,
    pub(super) span: Range<usize>,
    pub(super) operands: Values,
    /// An operand is the result of an op that had an error.
    pub(super) poisoned: bool,
    pub(super) attributes: Attributes<'a>,
    /// Bare words of the pretty form, such as `LT` and `SIGNED`.
    pub(super) words: SmallVec<[&'a str; 2]>,
    pub(super) regions: SmallVec<[RegionId; 2]>,
    pub(super) operand_types: TypeList,
    pub(super) result_types: TypeList,
}

/// The names before the `=` with how many values each stands for.
type ResultNames<'a> = SmallVec<[(&'a str, u32); 1]>;

impl<'a> Parser<'a> {
    /// `{ ^bb0(%a: tensor<f32>): ops }`.
    pub(super) fn parse_region(&mut self, region: RegionId) -> Parse<Block> {
        let mark = self.scope.len();
        self.enter()?;
        let mut locations = Vec::new();
        if self.cursor.peek() == b'^' {
            locations = self.parse_block_arguments(region)?;
        }
        let errors = self.errors;
        let has_return = self.parse_operations(region);
        if !has_return && self.errors > errors {
            self.broken_regions.insert(region);
        }
        self.nesting -= 1;
        self.forget(mark);
        self.cursor.expect("}")?;
        Ok(Block { locations, has_return })
    }

    /// Takes the `{` of a region.
    pub(super) fn enter(&mut self) -> Parse<()> {
        self.cursor.expect("{")?;
        if self.nesting >= MAXIMUM_NESTING {
            let span = self.cursor.position - 1..self.cursor.position;
            return Err(error(
                Code::Types,
                span,
                format!("regions nested deeper than {MAXIMUM_NESTING}"),
                "one too many opens here",
            ));
        }
        self.nesting += 1;
        Ok(())
    }

    fn parse_block_arguments(&mut self, region: RegionId) -> Parse<Vec<LocationId>> {
        self.cursor.position += 1;
        self.cursor.suffix();
        let mut locations = Vec::new();
        if self.cursor.eat("(") && !self.cursor.eat(")") {
            loop {
                let name = self.parse_value_name()?;
                self.cursor.expect(":")?;
                let ty = parse_type(&mut self.cursor)?;
                locations.push(self.locations.parse_optional(&mut self.cursor, &self.context)?);
                let value = self.program.add_region_argument(region, ty);
                self.define(name, Binding::Values { first: value, count: 1 })?;
                if !self.cursor.eat(",") {
                    self.cursor.expect(")")?;
                    break;
                }
            }
        }
        self.cursor.expect(":")?;
        Ok(locations)
    }

    /// The operations up to the `}`; whether a `return` was among them.
    fn parse_operations(&mut self, region: RegionId) -> bool {
        let mut terminated = false;
        loop {
            match self.cursor.peek() {
                b'}' | 0 => return terminated,
                b'^' => {
                    let span = self.cursor.position..self.cursor.position + 1;
                    let problem =
                        error(Code::ControlFlow, span, "branches between blocks are not supported", "a second block");
                    self.report(*with_hint(problem, "use `stablehlo.while`, `stablehlo.if` or `stablehlo.case`"));
                    self.skip_to_region_end();
                    return terminated;
                }
                _ => {}
            }
            let start = self.cursor.position;
            if terminated {
                let problem = self.cursor.unexpected("`}` after the `return` of a region");
                self.report(*problem);
                self.skip_to_region_end();
                return terminated;
            }
            match self.parse_operation(region) {
                Ok(is_terminator) => terminated = is_terminator,
                Err(problem) => {
                    self.report(*problem);
                    self.recover(start);
                }
            }
            if self.has_too_many_errors() {
                self.cursor.position = self.cursor.text.len();
                return terminated;
            }
        }
    }

    /// One operation; `true` when it ends the region.
    fn parse_operation(&mut self, region: RegionId) -> Parse<bool> {
        let names = self.parse_result_names()?;
        let (mark, nesting) = (self.scope.len(), self.nesting);
        let outcome = self.parse_operation_body(region, &names);
        if outcome.is_err() {
            self.leave(mark, nesting);
            for &(name, _) in &names {
                self.define(name, Binding::Poisoned)?;
            }
        }
        outcome
    }

    fn parse_operation_body(&mut self, region: RegionId, names: &ResultNames<'a>) -> Parse<bool> {
        self.cursor.skip_space();
        let start = self.cursor.position;
        let mut raw =
            if self.cursor.byte() == b'"' { self.parse_generic(start)? } else { pretty::parse_pretty(self, start)? };
        let location = self.locations.parse_optional(&mut self.cursor, &self.context)?;
        check_distinct(&raw.attributes)?;
        raw.poisoned |= raw.regions.iter().any(|inner| self.broken_regions.contains(inner));
        if matches!(raw.name, "stablehlo.return" | "func.return") {
            if !names.is_empty() {
                return Err(error(
                    Code::Types,
                    raw.span,
                    format!("`{}` has no results", raw.name),
                    "expected no name before it",
                ));
            }
            if raw.poisoned {
                self.broken_regions.insert(region);
            } else {
                self.check_operand_types(&raw)?;
                self.program.regions[region].results = raw.operands.to_vec();
            }
            return Ok(true);
        }
        if raw.poisoned {
            for &(name, _) in names {
                self.define(name, Binding::Poisoned)?;
            }
            return Ok(false);
        }
        self.check_operand_types(&raw)?;
        let results = build::add_operation(self, region, &raw, location)?;
        if raw.words.contains(&"applies") {
            pretty::locate_applied_op(self, &raw, location);
        }
        self.define_results(names, &results, &raw)?;
        Ok(false)
    }

    /// `"name"(%a, %b) <{...}> ({...}) {...} : (A, B) -> C`.
    fn parse_generic(&mut self, start: usize) -> Parse<RawOp<'a>> {
        let name = self.cursor.string()?;
        let mut raw = RawOp::new(name, start..self.cursor.position);
        if !is_word(name) {
            return Err(error(
                Code::Syntax,
                raw.span,
                "not the name of an operation",
                "expected a name such as `stablehlo.add`",
            ));
        }
        self.cursor.expect("(")?;
        self.parse_operands_until_paren(&mut raw)?;
        if self.cursor.peek() == b'[' {
            let span = self.cursor.position..self.cursor.position + 1;
            return Err(error(Code::ControlFlow, span, "branches between blocks are not supported", "successors"));
        }
        if self.cursor.peek() == b'<' {
            self.cursor.expect("<{")?;
            parse_fields(&mut self.cursor, &self.context, "}>", 0, &mut raw.attributes)?;
        }
        if self.cursor.eat("(") {
            loop {
                let region = self.program.add_region();
                self.parse_region(region)?;
                raw.regions.push(region);
                if !self.cursor.eat(",") {
                    self.cursor.expect(")")?;
                    break;
                }
            }
        }
        if self.cursor.eat("{") {
            parse_fields(&mut self.cursor, &self.context, "}", 0, &mut raw.attributes)?;
        }
        self.cursor.expect(":")?;
        (raw.operand_types, raw.result_types) = parse_function_type(&mut self.cursor)?;
        Ok(raw)
    }

    /// `%a, %b)`.
    pub(super) fn parse_operands_until_paren(&mut self, raw: &mut RawOp<'a>) -> Parse<()> {
        if self.cursor.eat(")") {
            return Ok(());
        }
        loop {
            self.parse_operand(raw)?;
            if !self.cursor.eat(",") {
                return self.cursor.expect(")");
            }
        }
    }

    /// `%a` or `%a#1`.
    pub(super) fn parse_operand(&mut self, raw: &mut RawOp<'a>) -> Parse<()> {
        let name = self.parse_value_name()?;
        let start = self.cursor.position - name.len() - 1;
        let mut index = 0;
        if self.cursor.byte() == b'#' {
            self.cursor.position += 1;
            index = self.cursor.integer()?;
        }
        let span = start..self.cursor.position;
        match self.names.get(name) {
            Some(&Binding::Values { first, count }) if index < u64::from(count) => {
                raw.operands.push(ValueId(first.0 + index as u32));
            }
            Some(&Binding::Values { count, .. }) => {
                let label = format!("`%{name}` stands for {}", plural(count as usize, "value"));
                return Err(error(Code::Undefined, span, format!("there is no result {index}"), label));
            }
            Some(Binding::Poisoned) => raw.poisoned = true,
            None => {
                return Err(error(
                    Code::Undefined,
                    span,
                    format!("use of undefined value `%{name}`"),
                    "not defined here",
                ));
            }
        }
        Ok(())
    }

    /// The name after a `%`.
    pub(super) fn parse_value_name(&mut self) -> Parse<&'a str> {
        if self.cursor.peek() != b'%' {
            return Err(self.cursor.unexpected("a value such as `%0`"));
        }
        self.cursor.position += 1;
        let name = self.cursor.suffix();
        if name.is_empty() { Err(self.cursor.unexpected("the name of a value")) } else { Ok(name) }
    }

    /// `%a, %b:2 =`, or nothing.
    fn parse_result_names(&mut self) -> Parse<ResultNames<'a>> {
        let mut names = ResultNames::new();
        if self.cursor.peek() != b'%' {
            return Ok(names);
        }
        loop {
            let name = self.parse_value_name()?;
            let mut count = 1;
            if self.cursor.byte() == b':' {
                self.cursor.position += 1;
                count = u32::try_from(self.cursor.integer()?).unwrap_or(u32::MAX);
            }
            names.push((name, count));
            if !self.cursor.eat(",") {
                break;
            }
        }
        self.cursor.expect("=")?;
        Ok(names)
    }

    fn check_operand_types(&self, raw: &RawOp<'a>) -> Parse<()> {
        if raw.operand_types.is_empty() && (raw.operands.is_empty() || !raw.is_generic()) {
            return Ok(());
        }
        if raw.operand_types.len() != raw.operands.len() {
            let (operands, types) = (raw.operands.len(), raw.operand_types.len());
            let label = format!("{} and {}", plural(operands, "operand"), plural(types, "type"));
            return Err(error(
                Code::Types,
                raw.span.clone(),
                format!("`{}` needs one type per operand", raw.name),
                label,
            ));
        }
        for (index, (&operand, declared)) in raw.operands.iter().zip(&raw.operand_types).enumerate() {
            let actual = self.program.ty(operand);
            if actual != declared {
                let label = format!("is `{actual}`, the text says `{declared}`");
                return Err(error(
                    Code::Types,
                    raw.span.clone(),
                    format!("operand {index} of `{}` has another type", raw.name),
                    label,
                ));
            }
        }
        Ok(())
    }

    fn define_results(&mut self, names: &ResultNames<'a>, results: &[ValueId], raw: &RawOp<'a>) -> Parse<()> {
        let named: u64 = names.iter().map(|&(_, count)| u64::from(count)).sum();
        if named != results.len() as u64 && !names.is_empty() {
            let label = format!("{} and {}", plural(named as usize, "name"), plural(results.len(), "result"));
            for &(name, _) in names {
                self.define(name, Binding::Poisoned)?;
            }
            self.report(*error(
                Code::Types,
                raw.span.clone(),
                format!("`{}` needs one name per result", raw.name),
                label,
            ));
            return Ok(());
        }
        let mut next = 0;
        for &(name, count) in names {
            // `%a:0` names no value.
            if let Some(&first) = results.get(next) {
                self.define(name, Binding::Values { first, count })?;
            }
            next += count as usize;
        }
        Ok(())
    }
}

impl<'a> RawOp<'a> {
    pub(super) fn new(name: &'a str, span: Range<usize>) -> RawOp<'a> {
        RawOp {
            name,
            span,
            operands: Values::new(),
            poisoned: false,
            attributes: Attributes::new(),
            words: SmallVec::new(),
            regions: SmallVec::new(),
            operand_types: TypeList::new(),
            result_types: TypeList::new(),
        }
    }

    /// In the generic form every operand has its type beside it.
    fn is_generic(&self) -> bool {
        self.span.len() == self.name.len() + 2
    }
}
