//! Reading modules, functions, regions and operations.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::attribute::{Attribute, Attributes, Context, parse_attribute, parse_fields};
use super::build;
use super::cursor::{Cursor, Parse, error, unescape, with_hint};
use super::diagnostic::{Diagnostic, Severity};
use super::location::{Locations, dotted};
use super::pretty;
use super::types::{TypeList, parse_function_type, parse_type};
use crate::program::{
    Argument, LocationId, MAXIMUM_NESTING, Op, OpId, Opaque, Program, RegionId, ResultInfo, Table, Type, ValueId,
    Values,
};

/// A module as written: functions side by side, calls between them.
pub(super) struct Parsed<'a> {
    /// Holds the regions of all functions; its own body is empty.
    pub(super) program: Program,
    pub(super) functions: Vec<Function<'a>>,
    /// The ops of `program` that are calls.
    pub(super) calls: FxHashMap<OpId, Call<'a>>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    pub(super) span: Range<usize>,
    pub(super) is_public: bool,
    pub(super) region: RegionId,
    pub(super) arguments: Vec<Argument>,
    pub(super) results: Vec<ResultInfo>,
}

pub(super) struct Call<'a> {
    pub(super) callee: &'a str,
    pub(super) span: Range<usize>,
}

/// Reads a whole text. Errors are in the diagnostics; what could be read is in the rest.
pub(super) fn parse(source: &Arc<str>) -> Parsed<'_> {
    let context = Context { source: source.clone(), aliases: find_aliases(source) };
    let mut program = Program::new("");
    // An op takes at least about a hundred bytes of text; growing the tables would copy them.
    program.ops = Table::with_capacity(source.len() / 120);
    program.values = Table::with_capacity(source.len() / 100);
    let mut parser = Parser {
        cursor: Cursor::new(source, 0),
        context,
        program,
        functions: Vec::new(),
        calls: FxHashMap::default(),
        diagnostics: Vec::new(),
        locations: Locations::new(),
        names: FxHashMap::default(),
        scope: Vec::new(),
        nesting: 0,
        warned_names: Vec::new(),
    };
    parser.parse_module_items(false);
    parser.program.locations = parser.locations.table;
    Parsed {
        program: parser.program,
        functions: parser.functions,
        calls: parser.calls,
        diagnostics: parser.diagnostics,
    }
}

/// Definitions `#name = ...` stand at the start of a line, often after their uses.
fn find_aliases(text: &str) -> FxHashMap<&str, usize> {
    let mut aliases = FxHashMap::default();
    let mut line_start = 0;
    loop {
        if text.as_bytes().get(line_start) == Some(&b'#') {
            let mut cursor = Cursor::new(text, line_start + 1);
            let name = cursor.suffix();
            if cursor.eat("=") {
                cursor.skip_space();
                aliases.insert(name, cursor.position);
            }
        }
        match memchr::memchr(b'\n', &text.as_bytes()[line_start..]) {
            Some(offset) => line_start += offset + 1,
            None => return aliases,
        }
    }
}

/// More errors than this are counted, not kept: a binary file would give millions.
const MAXIMUM_ERRORS: usize = 1000;

pub(super) struct Parser<'a> {
    pub(super) cursor: Cursor<'a>,
    pub(super) context: Context<'a>,
    pub(super) program: Program,
    functions: Vec<Function<'a>>,
    pub(super) calls: FxHashMap<OpId, Call<'a>>,
    diagnostics: Vec<Diagnostic>,
    pub(super) locations: Locations<'a>,
    /// The values that can be named here.
    names: FxHashMap<&'a str, Binding>,
    /// The names in the order in which they were defined, so that a region can forget its own.
    scope: Vec<&'a str>,
    nesting: usize,
    /// Names of ops that were warned of.
    warned_names: Vec<&'a str>,
}

/// What a name stands for: some values in a row, or nothing after an error.
#[derive(Clone, Copy)]
enum Binding {
    Values { first: ValueId, count: u32 },
    Poisoned,
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
    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        if self.diagnostics.len() < MAXIMUM_ERRORS {
            self.diagnostics.push(diagnostic);
        }
    }

    /// The items of a module up to its `}` (or, outside of any module, up to the end of the text).
    fn parse_module_items(&mut self, inside: bool) {
        loop {
            if self.cursor.at_end() {
                if inside {
                    let problem = self.cursor.unexpected("`}` at the end of the module");
                    self.report(*problem);
                }
                return;
            }
            if inside && self.cursor.byte() == b'}' {
                return;
            }
            let start = self.cursor.position;
            if let Err(problem) = self.parse_module_item() {
                self.report(*problem);
                self.recover(start);
            }
            if self.diagnostics.len() >= MAXIMUM_ERRORS {
                return;
            }
        }
    }

    fn parse_module_item(&mut self) -> Parse<()> {
        match self.cursor.peek() {
            b'#' | b'!' => self.skip_alias(),
            b'{' if self.cursor.text[self.cursor.position..].starts_with("{-#") => self.skip_metadata(),
            b'"' => {
                let start = self.cursor.position;
                match self.cursor.string()? {
                    "builtin.module" => self.parse_generic_module(),
                    "func.func" => self.parse_generic_function(start),
                    _ => self.skip_item(start),
                }
            }
            _ => {
                let start = self.cursor.position;
                match self.cursor.expect_word("a module or a function")? {
                    "module" | "builtin.module" => self.parse_pretty_module(),
                    "func.func" => self.parse_pretty_function(start),
                    word if word.contains('.') => self.skip_item(start),
                    _ => {
                        self.cursor.position = start;
                        Err(self.cursor.unexpected("a module or a function"))
                    }
                }
            }
        }
    }

    /// Aliases were found beforehand.
    fn skip_alias(&mut self) -> Parse<()> {
        self.cursor.position += 1;
        self.cursor.suffix();
        self.cursor.expect("=")?;
        let rest = &self.cursor.text[self.cursor.position..];
        self.cursor.position += rest.find('\n').unwrap_or(rest.len());
        Ok(())
    }

    /// `{-# dialect_resources: ... #-}` at the end of a file.
    fn skip_metadata(&mut self) -> Parse<()> {
        let start = self.cursor.position;
        match self.cursor.text[start..].find("#-}") {
            Some(offset) => self.cursor.position = start + offset + 3,
            None => return Err(error(start..start + 3, "metadata without an end", "expected `#-}`")),
        }
        Ok(())
    }

    /// Other dialects' module items, such as `sdy.mesh`.
    fn skip_item(&mut self, start: usize) -> Parse<()> {
        self.cursor.position = start;
        self.recover(start);
        Ok(())
    }

    fn parse_generic_module(&mut self) -> Parse<()> {
        self.cursor.expect("(")?;
        self.cursor.expect(")")?;
        let mut attributes = Attributes::new();
        if self.cursor.eat("<{") {
            parse_fields(&mut self.cursor, &self.context, "}>", 0, &mut attributes)?;
        }
        self.cursor.expect("(")?;
        self.cursor.expect("{")?;
        self.parse_module_items(true);
        self.cursor.expect("}")?;
        self.cursor.expect(")")?;
        if self.cursor.eat("{") {
            parse_fields(&mut self.cursor, &self.context, "}", 0, &mut attributes)?;
        }
        self.take_module_attributes(&attributes);
        self.cursor.expect(":")?;
        parse_function_type(&mut self.cursor)?;
        self.locations.parse_optional(&mut self.cursor, &self.context)?;
        Ok(())
    }

    fn parse_pretty_module(&mut self) -> Parse<()> {
        if self.cursor.peek() == b'@' {
            self.program.name = unescape(self.cursor.symbol()?);
        }
        let mut attributes = Attributes::new();
        if self.cursor.eat("attributes") {
            self.cursor.expect("{")?;
            parse_fields(&mut self.cursor, &self.context, "}", 0, &mut attributes)?;
        }
        self.take_module_attributes(&attributes);
        self.cursor.expect("{")?;
        self.parse_module_items(true);
        self.cursor.expect("}")?;
        self.locations.parse_optional(&mut self.cursor, &self.context)?;
        Ok(())
    }

    fn take_module_attributes(&mut self, attributes: &Attributes<'a>) {
        for attribute in attributes {
            match (attribute.name, &attribute.value) {
                ("sym_name", Attribute::String(name)) => self.program.name = unescape(name),
                ("mhlo.num_partitions", &Attribute::Integer(count)) => self.program.partitions = count.max(1) as usize,
                ("mhlo.num_replicas", &Attribute::Integer(count)) => self.program.replicas = count.max(1) as usize,
                _ => {}
            }
        }
    }

    /// The rest of `"func.func"() <{...}> ({...}) : () -> ()`.
    fn parse_generic_function(&mut self, start: usize) -> Parse<()> {
        self.cursor.expect("(")?;
        self.cursor.expect(")")?;
        let mut attributes = Attributes::new();
        if self.cursor.eat("<{") {
            parse_fields(&mut self.cursor, &self.context, "}>", 0, &mut attributes)?;
        }
        self.cursor.expect("(")?;
        let region = self.program.add_region();
        let span = start..self.cursor.position;
        let locations = self.parse_region(region)?;
        self.cursor.expect(")")?;
        if self.cursor.eat("{") {
            parse_fields(&mut self.cursor, &self.context, "}", 0, &mut attributes)?;
        }
        self.cursor.expect(":")?;
        parse_function_type(&mut self.cursor)?;
        self.locations.parse_optional(&mut self.cursor, &self.context)?;

        let string = |name: &str| {
            attributes.iter().find_map(|attribute| match attribute.value {
                Attribute::String(string) if attribute.name == name => Some(string),
                _ => None,
            })
        };
        let fields_of = |name: &str, index: usize| {
            let list = attributes.iter().find(|attribute| attribute.name == name).map(|attribute| &attribute.value);
            match list {
                Some(Attribute::List(list)) => match list.get(index) {
                    Some(Attribute::Fields(fields)) => fields.as_slice(),
                    _ => &[],
                },
                _ => &[],
            }
        };
        let arguments = locations
            .iter()
            .enumerate()
            .map(|(index, &location)| argument_from(fields_of("arg_attrs", index), &self.locations, location))
            .collect();
        let results = (0..self.program.regions[region].results.len())
            .map(|index| result_from(fields_of("res_attrs", index)))
            .collect();
        let is_public = string("sym_visibility") != Some("private");
        let name = string("sym_name").unwrap_or("");
        self.functions.push(Function { name, span, is_public, region, arguments, results });
        Ok(())
    }

    /// The rest of `func.func public @main(%arg0: tensor<f32> {...} loc(...)) -> (...) {...}`.
    fn parse_pretty_function(&mut self, start: usize) -> Parse<()> {
        let is_public = !self.cursor.eat("private");
        self.cursor.eat("public");
        let name = self.cursor.symbol()?;
        let span = start..self.cursor.position;
        let region = self.program.add_region();
        let mark = self.scope.len();
        let arguments = self.parse_function_arguments(region)?;
        let mut results = Vec::new();
        let mut declared = TypeList::new();
        if self.cursor.eat("->") {
            self.parse_function_results(&mut declared, &mut results)?;
        }
        if self.cursor.eat("attributes") {
            self.cursor.expect("{")?;
            parse_fields(&mut self.cursor, &self.context, "}", 0, &mut Attributes::new())?;
        }
        if self.cursor.peek() == b'{' {
            self.parse_region(region)?;
            self.check_function_results(region, &declared, &span);
        }
        self.forget(mark);
        self.locations.parse_optional(&mut self.cursor, &self.context)?;
        results.resize(self.program.regions[region].results.len(), ResultInfo::default());
        self.functions.push(Function { name, span, is_public, region, arguments, results });
        Ok(())
    }

    fn parse_function_arguments(&mut self, region: RegionId) -> Parse<Vec<Argument>> {
        self.cursor.expect("(")?;
        let mut arguments = Vec::new();
        if self.cursor.eat(")") {
            return Ok(arguments);
        }
        loop {
            let name = self.parse_value_name()?;
            self.cursor.expect(":")?;
            let ty = parse_type(&mut self.cursor)?;
            let mut attributes = Attributes::new();
            if self.cursor.eat("{") {
                parse_fields(&mut self.cursor, &self.context, "}", 0, &mut attributes)?;
            }
            let location = self.locations.parse_optional(&mut self.cursor, &self.context)?;
            let value = self.program.add_region_argument(region, ty);
            self.define(name, Binding::Values { first: value, count: 1 })?;
            arguments.push(argument_from(&attributes, &self.locations, location));
            if !self.cursor.eat(",") {
                self.cursor.expect(")")?;
                return Ok(arguments);
            }
        }
    }

    fn parse_function_results(&mut self, types: &mut TypeList, results: &mut Vec<ResultInfo>) -> Parse<()> {
        if !self.cursor.eat("(") {
            types.push(parse_type(&mut self.cursor)?);
            return Ok(());
        }
        if self.cursor.eat(")") {
            return Ok(());
        }
        loop {
            types.push(parse_type(&mut self.cursor)?);
            let mut attributes = Attributes::new();
            if self.cursor.eat("{") {
                parse_fields(&mut self.cursor, &self.context, "}", 0, &mut attributes)?;
            }
            results.push(result_from(&attributes));
            if !self.cursor.eat(",") {
                return self.cursor.expect(")");
            }
        }
    }

    fn check_function_results(&mut self, region: RegionId, declared: &[Type], span: &Range<usize>) {
        let returned: TypeList =
            self.program.regions[region].results.iter().map(|&value| self.program.ty(value).clone()).collect();
        // After an error inside, what is returned may be unknown; that error was reported.
        let had_error = self
            .diagnostics
            .iter()
            .any(|diagnostic| diagnostic.severity == Severity::Error && diagnostic.span.start >= span.start);
        if returned.as_slice() != declared && !had_error {
            let label = format!("returns ({}), declares ({})", join(&returned), join(declared));
            self.report(*error(span.clone(), "the function does not return what it declares", label));
        }
    }

    /// `{ ^bb0(%a: tensor<f32>): ops }`. Gives the locations of the block's arguments.
    pub(super) fn parse_region(&mut self, region: RegionId) -> Parse<Vec<LocationId>> {
        self.cursor.expect("{")?;
        if self.nesting >= MAXIMUM_NESTING {
            let span = self.cursor.position - 1..self.cursor.position;
            return Err(error(span, format!("regions nested deeper than {MAXIMUM_NESTING}"), "too deep"));
        }
        let mark = self.scope.len();
        self.nesting += 1;
        let mut locations = Vec::new();
        if self.cursor.peek() == b'^' {
            locations = self.parse_block_arguments(region)?;
        }
        self.parse_operations(region);
        self.nesting -= 1;
        self.forget(mark);
        self.cursor.expect("}")?;
        Ok(locations)
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

    fn parse_operations(&mut self, region: RegionId) {
        let mut terminated = false;
        loop {
            match self.cursor.peek() {
                b'}' | 0 => return,
                b'^' => {
                    let span = self.cursor.position..self.cursor.position + 1;
                    let problem = error(span, "branches between blocks are not supported", "a second block");
                    self.report(*with_hint(problem, "use `stablehlo.while`, `stablehlo.if` or `stablehlo.case`"));
                    self.skip_to_region_end();
                    return;
                }
                _ => {}
            }
            let start = self.cursor.position;
            if terminated {
                let problem = error(start..start + 1, "nothing may follow the `return` of a region", "");
                self.report(*problem);
                self.skip_to_region_end();
                return;
            }
            match self.parse_operation(region) {
                Ok(is_terminator) => terminated = is_terminator,
                Err(problem) => {
                    self.report(*problem);
                    self.recover(start);
                }
            }
            if self.diagnostics.len() >= MAXIMUM_ERRORS {
                self.cursor.position = self.cursor.text.len();
                return;
            }
        }
    }

    /// Goes to the end of the item that starts at `start`: a line end outside of all brackets that
    /// the item opened, or the bracket that closes what is around it.
    fn recover(&mut self, start: usize) {
        let bytes = self.cursor.text.as_bytes();
        let failed_at = self.cursor.position;
        let mut depth = 0usize;
        let mut cursor = Cursor::new(self.cursor.text, start);
        while cursor.position < bytes.len() {
            match bytes[cursor.position] {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' if depth == 0 && cursor.position > start => break,
                b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                b'\n' if depth == 0 => break,
                b'"' if cursor.string().is_ok() => continue,
                _ => {}
            }
            cursor.position += 1;
        }
        // Brackets that never close would swallow the rest of the text: go on at the next line.
        if cursor.position >= bytes.len() {
            let from = failed_at.max(start + 1).min(bytes.len());
            cursor.position = memchr::memchr(b'\n', &bytes[from..]).map_or(bytes.len(), |offset| from + offset);
        }
        self.cursor.position = cursor.position;
    }

    fn skip_to_region_end(&mut self) {
        let bytes = self.cursor.text.as_bytes();
        let mut depth = 0usize;
        while self.cursor.position < bytes.len() {
            match bytes[self.cursor.position] {
                b'{' => depth += 1,
                b'}' if depth == 0 => return,
                b'}' => depth -= 1,
                b'"' if self.cursor.string().is_ok() => continue,
                _ => {}
            }
            self.cursor.position += 1;
        }
    }

    /// One operation; `true` when it ends the region.
    fn parse_operation(&mut self, region: RegionId) -> Parse<bool> {
        let names = self.parse_result_names()?;
        let outcome = self.parse_operation_body(region, &names);
        if outcome.is_err() {
            for &(name, _) in &names {
                self.define(name, Binding::Poisoned)?;
            }
        }
        outcome
    }

    fn parse_operation_body(&mut self, region: RegionId, names: &ResultNames<'a>) -> Parse<bool> {
        self.cursor.skip_space();
        let start = self.cursor.position;
        let raw =
            if self.cursor.byte() == b'"' { self.parse_generic(start)? } else { pretty::parse_pretty(self, start)? };
        let location = self.locations.parse_optional(&mut self.cursor, &self.context)?;
        if matches!(raw.name, "stablehlo.return" | "func.return") {
            // Poisoned results leave the region without results; the error was reported.
            if !raw.poisoned {
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
        self.cursor.expect("(")?;
        self.parse_operands_until_paren(&mut raw)?;
        if self.cursor.peek() == b'[' {
            let span = self.cursor.position..self.cursor.position + 1;
            return Err(error(span, "branches between blocks are not supported", "successors"));
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
                let label = format!("`%{name}` has {count} results");
                return Err(error(span, format!("there is no result {index}"), label));
            }
            Some(Binding::Poisoned) => raw.poisoned = true,
            None => return Err(error(span, format!("use of undefined value `%{name}`"), "not defined here")),
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
            let label = format!("{} operands, {} types", raw.operands.len(), raw.operand_types.len());
            return Err(error(raw.span.clone(), format!("`{}` needs one type per operand", raw.name), label));
        }
        for (index, (&operand, declared)) in raw.operands.iter().zip(&raw.operand_types).enumerate() {
            let actual = self.program.ty(operand);
            if actual != declared {
                let label = format!("operand {index} is `{actual}`, the text says `{declared}`");
                return Err(error(raw.span.clone(), "operand of another type", label));
            }
        }
        Ok(())
    }

    fn define_results(&mut self, names: &ResultNames<'a>, results: &[ValueId], raw: &RawOp<'a>) -> Parse<()> {
        let named: u64 = names.iter().map(|&(_, count)| u64::from(count)).sum();
        if named != results.len() as u64 && !names.is_empty() {
            let label = format!("{named} names, {} results", results.len());
            for &(name, _) in names {
                self.define(name, Binding::Poisoned)?;
            }
            self.report(*error(raw.span.clone(), format!("`{}` has another number of results", raw.name), label));
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

    pub(super) fn define_value(&mut self, name: &'a str, value: ValueId) -> Parse<()> {
        self.define(name, Binding::Values { first: value, count: 1 })
    }

    fn define(&mut self, name: &'a str, binding: Binding) -> Parse<()> {
        if let Some(previous) = self.names.insert(name, binding) {
            // The name keeps its first meaning, and the scope its one entry.
            self.names.insert(name, previous);
            if matches!(binding, Binding::Poisoned) {
                return Ok(());
            }
            let end = self.cursor.position;
            let span = self.line_of_definition(name, end);
            return Err(error(span, format!("value `%{name}` is defined twice"), "defined again"));
        }
        self.scope.push(name);
        Ok(())
    }

    /// Where `name`, a slice of the text, stands.
    fn line_of_definition(&self, name: &'a str, fallback: usize) -> Range<usize> {
        let start = (name.as_ptr() as usize).wrapping_sub(self.cursor.text.as_ptr() as usize);
        if start < self.cursor.text.len() { start.saturating_sub(1)..start + name.len() } else { fallback..fallback }
    }

    /// Forgets the names that were defined since the scope had `mark` of them.
    pub(super) fn forget(&mut self, mark: usize) {
        // At the end of a function nothing is left to be remembered.
        if mark == 0 {
            self.scope.clear();
            self.names.clear();
            return;
        }
        for name in self.scope.drain(mark..) {
            self.names.remove(name);
        }
    }

    pub(super) fn scope_mark(&self) -> usize {
        self.scope.len()
    }

    pub(super) fn parse_attribute(&mut self) -> Parse<Attribute<'a>> {
        parse_attribute(&mut self.cursor, &self.context, 0)
    }

    pub(super) fn parse_attribute_fields(&mut self, close: &str, out: &mut Attributes<'a>) -> Parse<()> {
        parse_fields(&mut self.cursor, &self.context, close, 0, out)
    }

    /// Warns of an operation, unless one of that name was warned of before.
    pub(super) fn warn_once(&mut self, name: &'a str, raw: &RawOp<'a>, message: &str, label: &str) {
        if self.warned_names.contains(&name) {
            return;
        }
        self.warned_names.push(name);
        let (message, label) = (message.to_owned(), label.to_owned());
        self.report(Diagnostic { severity: Severity::Warning, span: raw.span.clone(), message, label, hint: None });
    }

    /// Keeps an op that is not in the set, and says so.
    pub(super) fn opaque(&mut self, raw: &RawOp<'a>) -> Op {
        self.warn_once(raw.name, raw, &format!("unknown op `{}`", raw.name), "kept whole on each device");
        let attributes = build::attribute_texts(self, raw, &[]);
        let result_types = raw.result_types.to_vec();
        Op::Opaque(Box::new(Opaque { name: raw.name.to_owned(), result_types, attributes }))
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

fn argument_from(attributes: &[super::attribute::Named<'_>], locations: &Locations<'_>, id: LocationId) -> Argument {
    let mut argument = Argument { name: dotted(&locations.table[id].scope), ..Argument::default() };
    for attribute in attributes {
        match (attribute.name, &attribute.value) {
            ("tf.aliasing_output", &Attribute::Integer(result)) => argument.alias = usize::try_from(result).ok(),
            ("jax.buffer_donor", Attribute::Bool(true)) => argument.donated = true,
            _ => {}
        }
    }
    argument
}

fn result_from(attributes: &[super::attribute::Named<'_>]) -> ResultInfo {
    let info = attributes.iter().find(|attribute| attribute.name == "jax.result_info");
    match info.map(|attribute| &attribute.value) {
        Some(Attribute::String(path)) => ResultInfo { name: dotted(path) },
        _ => ResultInfo::default(),
    }
}

pub(super) fn join(types: &[Type]) -> String {
    types.iter().map(|ty| format!("`{ty}`")).collect::<Vec<_>>().join(", ")
}
