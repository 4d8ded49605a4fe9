//! Reading a text: what is known while reading it, names, and going on after an error.
//!
//! `module` reads modules and functions, `operation` regions and operations, `pretty` operations in
//! their pretty forms.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::attribute::{Attribute, Attributes, Context, parse_attribute, parse_fields};
use super::build;
use super::cursor::{Cursor, Parse, error, with_hint};
use super::diagnostic::{Diagnostic, Severity};
use super::location::Locations;
use super::operation::RawOp;
use crate::codes::Code;
use crate::program::{Argument, Op, OpId, Opaque, Program, RegionId, ResultInfo, Table, Type, ValueId};

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
    /// Whether it is more than a declaration.
    pub(super) has_body: bool,
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
    let (aliases, repeated) = find_aliases(source);
    let context = Context {
        source: source.clone(),
        aliases,
        expansion: Cell::new(EXPANSION_PASSES * source.len()),
        undefined_location: Cell::new(None),
    };
    let mut program = Program::new("");
    // An op takes at least about a hundred bytes of text; growing the tables would copy them.
    program.ops = Table::with_capacity(source.len() / 120);
    program.values = Table::with_capacity(source.len() / 100);
    let mut parser = Parser {
        cursor: Cursor::new(source, text_start(source)),
        context,
        program,
        functions: Vec::new(),
        function_names: FxHashSet::default(),
        calls: FxHashMap::default(),
        diagnostics: Vec::new(),
        locations: Locations::new(),
        names: FxHashMap::default(),
        scope: Vec::new(),
        nesting: 0,
        warned_names: FxHashSet::default(),
        errors: 0,
        recovery: RECOVERY_PASSES * source.len(),
        broken_regions: FxHashSet::default(),
    };
    for span in repeated {
        let message = format!("alias `{}` is defined twice", &source[span.clone()]);
        parser.report(*error(Code::DefinedTwice, span, message, "defined again"));
    }
    parser.parse_module_items(false);
    if let Some((start, end)) = parser.context.undefined_location.get() {
        let problem = error(
            Code::Undefined,
            start..end,
            format!("location `{}` is not defined", &source[start..end]),
            "used here",
        );
        parser.report(*with_hint(problem, "locations are defined at the end of a text; is it cut off?"));
    }
    parser.program.locations = parser.locations.table;
    Parsed {
        program: parser.program,
        functions: parser.functions,
        calls: parser.calls,
        diagnostics: parser.diagnostics,
    }
}

/// After the byte order mark that some editors write.
fn text_start(text: &str) -> usize {
    if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 }
}

/// Definitions in place of their aliases may amount to this many times the text.
const EXPANSION_PASSES: usize = 64;

/// Definitions `#name = ...` stand at the start of a line, often after their uses. Gives where
/// each value starts, and the names that are defined again.
fn find_aliases(text: &str) -> (FxHashMap<&str, usize>, Vec<Range<usize>>) {
    let mut aliases = FxHashMap::default();
    let mut repeated = Vec::new();
    let mut line_start = text_start(text);
    loop {
        if text.as_bytes().get(line_start) == Some(&b'#') {
            let mut cursor = Cursor::new(text, line_start + 1);
            let name = cursor.suffix();
            let has_value = cursor.eat("=") && has_value(&mut cursor);
            if has_value && aliases.insert(name, cursor.position).is_some() {
                repeated.push(line_start..line_start + 1 + name.len());
            }
        }
        match memchr::memchr(b'\n', &text.as_bytes()[line_start..]) {
            Some(offset) => line_start += offset + 1,
            None => return (aliases, repeated),
        }
    }
}

/// Goes to the value of a definition, which starts on the same line.
pub(super) fn has_value(cursor: &mut Cursor<'_>) -> bool {
    while matches!(cursor.byte(), b' ' | b'\t') {
        cursor.position += 1;
    }
    !matches!(cursor.byte(), b'\n' | b'\r' | 0)
}

/// Reading stops at this many errors: a binary file would give millions. More warnings than this
/// are dropped.
pub(super) const MAXIMUM_DIAGNOSTICS: usize = 1000;

/// How often the text may be searched for the ends of items that had errors. A bracket that never
/// closes makes one pass to the end of the text, and there may be many such brackets.
const RECOVERY_PASSES: usize = 16;

pub(super) struct Parser<'a> {
    pub(super) cursor: Cursor<'a>,
    pub(super) context: Context<'a>,
    pub(super) program: Program,
    pub(super) functions: Vec<Function<'a>>,
    pub(super) function_names: FxHashSet<&'a str>,
    pub(super) calls: FxHashMap<OpId, Call<'a>>,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) locations: Locations<'a>,
    /// The values that can be named here.
    pub(super) names: FxHashMap<&'a str, Binding>,
    /// The names in the order in which they were defined, so that a region can forget its own.
    pub(super) scope: Vec<&'a str>,
    pub(super) nesting: usize,
    /// Names of ops that were warned of.
    pub(super) warned_names: FxHashSet<&'a str>,
    /// How many of the diagnostics are errors.
    pub(super) errors: usize,
    /// How many bytes may still be searched for the ends of items with errors.
    pub(super) recovery: usize,
    /// Regions whose results are unknown after an error.
    pub(super) broken_regions: FxHashSet<RegionId>,
}

/// What a name stands for: some values in a row, or nothing after an error.
#[derive(Clone, Copy)]
pub(super) enum Binding {
    Values { first: ValueId, count: u32 },
    Poisoned,
}

impl<'a> Parser<'a> {
    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        // Where a text ends too early, everything around that place misses its end there.
        let is_repeated = self
            .diagnostics
            .last()
            .is_some_and(|last| last.severity == Severity::Error && last.span == diagnostic.span);
        if is_repeated || self.has_too_many_errors() {
            return;
        }
        let place = diagnostic.span.start;
        self.diagnostics.push(diagnostic);
        self.errors += 1;
        if self.has_too_many_errors() {
            let problem = error(Code::TooLarge, place..place, "too many errors", "the rest of the text was not read");
            self.diagnostics.push(*problem);
        }
    }

    pub(super) fn has_too_many_errors(&self) -> bool {
        self.errors >= MAXIMUM_DIAGNOSTICS
    }

    /// Goes to the end of the item that starts at `start`: a line end outside of all brackets that
    /// the item opened, or the bracket that closes what is around it. Only a bracket that ends its
    /// line goes on over line ends, so that one that is missing does not swallow what follows.
    pub(super) fn recover(&mut self, start: usize) {
        let bytes = self.cursor.text.as_bytes();
        let failed_at = self.cursor.position;
        // For each open bracket, whether it ends its line.
        let mut open: Vec<bool> = Vec::new();
        let mut cursor = Cursor::new(self.cursor.text, start);
        let limit = start.saturating_add(self.recovery).min(bytes.len());
        while cursor.position < limit {
            match bytes[cursor.position] {
                b'(' | b'[' | b'{' => open.push(ends_line(&bytes[cursor.position + 1..])),
                b')' | b']' | b'}' if open.is_empty() && cursor.position > start => break,
                b')' | b']' | b'}' => drop(open.pop()),
                b'\n' if !open.last().is_some_and(|&ends_line| ends_line) => break,
                b'"' if cursor.string().is_ok() => continue,
                _ => {}
            }
            cursor.position += 1;
        }
        self.recovery = self.recovery.saturating_sub(cursor.position - start);
        // Brackets that never close would swallow the rest of the text: go on at the next line.
        if cursor.position >= limit {
            let from = failed_at.max(start + 1).min(bytes.len());
            cursor.position = memchr::memchr(b'\n', &bytes[from..]).map_or(bytes.len(), |offset| from + offset);
        }
        self.cursor.position = cursor.position;
    }

    pub(super) fn skip_to_region_end(&mut self) {
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

    pub(super) fn define_value(&mut self, name: &'a str, value: ValueId) -> Parse<()> {
        self.define(name, Binding::Values { first: value, count: 1 })
    }

    pub(super) fn define(&mut self, name: &'a str, binding: Binding) -> Parse<()> {
        if let Some(previous) = self.names.insert(name, binding) {
            // The name keeps its first meaning, and the scope its one entry.
            self.names.insert(name, previous);
            if matches!(binding, Binding::Poisoned) {
                return Ok(());
            }
            let end = self.cursor.position;
            let span = self.line_of_definition(name, end);
            return Err(error(Code::DefinedTwice, span, format!("value `%{name}` is defined twice"), "defined again"));
        }
        self.scope.push(name);
        Ok(())
    }

    /// Where `name`, a slice of the text, stands.
    pub(super) fn line_of_definition(&self, name: &'a str, fallback: usize) -> Range<usize> {
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

    /// Goes back to the scope and depth that held before an item with an error.
    pub(super) fn leave(&mut self, mark: usize, nesting: usize) {
        self.forget(mark);
        self.nesting = nesting;
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
        if self.warned_names.len() >= MAXIMUM_DIAGNOSTICS || !self.warned_names.insert(name) {
            return;
        }
        let (message, label) = (message.to_owned(), label.to_owned());
        self.diagnostics.push(Diagnostic {
            code: Code::UnknownOp,
            severity: Severity::Warning,
            span: raw.span.clone(),
            message,
            label,
            hint: None,
        });
    }

    /// Keeps an op that is not in the set, and says so.
    pub(super) fn opaque(&mut self, raw: &RawOp<'a>) -> Parse<Op> {
        self.warn_once(raw.name, raw, &format!("unknown op `{}`", raw.name), "kept whole on each device");
        let attributes = build::attribute_texts(self, raw, &[])?;
        let result_types = raw.result_types.to_vec();
        Ok(Op::Opaque(Box::new(Opaque { name: raw.name.to_owned(), result_types, attributes })))
    }
}

/// Whether nothing but space stands before the next line end.
fn ends_line(bytes: &[u8]) -> bool {
    let end = bytes.iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\r'));
    end == Some(&b'\n')
}

pub(super) fn join<'t>(types: impl IntoIterator<Item = &'t Type>) -> String {
    types.into_iter().map(|ty| format!("`{ty}`")).collect::<Vec<_>>().join(", ")
}
