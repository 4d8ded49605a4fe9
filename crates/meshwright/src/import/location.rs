//! Reading locations, and the dotted names that live in them.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::attribute::Context;
use super::cursor::{Cursor, Parse, error, unescape};
use crate::codes::Code;
use crate::program::{Location, LocationId, Table};

/// Locations read so far.
pub(super) struct Locations<'a> {
    pub(super) table: Table<LocationId, Location>,
    ids: FxHashMap<Place<'a>, LocationId>,
    by_alias: FxHashMap<&'a str, LocationId>,
    files: FxHashMap<&'a str, Arc<str>>,
}

/// A location before its strings are copied out of the text.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Place<'a> {
    scope: &'a str,
    file: &'a str,
    line: u32,
    column: u32,
}

/// How many locations may stand inside each other.
const MAXIMUM_DEPTH: usize = 200;

impl<'a> Locations<'a> {
    pub(super) fn new() -> Locations<'a> {
        let mut table = Table::new();
        let unknown = table.push(Location::unknown());
        let ids = FxHashMap::from_iter([(Place::default(), unknown)]);
        Locations { table, ids, by_alias: FxHashMap::default(), files: FxHashMap::default() }
    }

    /// Reads `loc(...)` if it comes next; the unknown location otherwise.
    pub(super) fn parse_optional(&mut self, cursor: &mut Cursor<'a>, context: &Context<'a>) -> Parse<LocationId> {
        if cursor.peek() != b'l' || !cursor.eat("loc(") {
            return Ok(LocationId(0));
        }
        cursor.skip_space();
        if cursor.byte() == b'#' {
            let name_start = cursor.position + 1;
            let mut after = Cursor::new(cursor.text, name_start);
            let name = after.suffix();
            if let Some(&id) = self.by_alias.get(name) {
                cursor.position = after.position;
                cursor.expect(")")?;
                return Ok(id);
            }
            let place = parse_place(cursor, context, 0)?;
            cursor.expect(")")?;
            let id = self.intern(place);
            self.by_alias.insert(name, id);
            return Ok(id);
        }
        let place = parse_place(cursor, context, 0)?;
        cursor.expect(")")?;
        Ok(self.intern(place))
    }

    fn intern(&mut self, place: Place<'a>) -> LocationId {
        if let Some(&id) = self.ids.get(&place) {
            return id;
        }
        let file = self.files.entry(place.file).or_insert_with(|| Arc::from(unescape(place.file))).clone();
        let scope = match place.scope.contains('\\') {
            true => Arc::from(unescape(place.scope)),
            false => Arc::from(place.scope),
        };
        let id = self.table.push(Location { scope, file, line: place.line, column: place.column });
        self.ids.insert(place, id);
        id
    }
}

/// The inside of `loc(...)`. The outermost name is the scope; the innermost frame is the file.
fn parse_place<'a>(cursor: &mut Cursor<'a>, context: &Context<'a>, depth: usize) -> Parse<Place<'a>> {
    if depth > MAXIMUM_DEPTH {
        let message = format!("locations nested deeper than {MAXIMUM_DEPTH}");
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
            if cursor.byte() == b':' {
                return parse_file(cursor, string);
            }
            let mut place = Place::default();
            if cursor.eat("(") {
                place = parse_place(cursor, context, depth + 1)?;
                cursor.expect(")")?;
            }
            Ok(Place { scope: string, ..place })
        }
        b'#' => {
            let start = cursor.position;
            cursor.position += 1;
            let name = cursor.suffix();
            let Some(&position) = context.aliases.get(name) else {
                // A text that was cut off lacks hundreds of them; one is enough to say so.
                let first = context.undefined_location.get().unwrap_or((start, cursor.position));
                context.undefined_location.set(Some(first));
                return Ok(Place::default());
            };
            context.charge(position..position)?;
            let mut definition = Cursor::new(cursor.text, position);
            if !definition.eat("loc(") {
                return Err(definition.unexpected("a location such as `loc(\"name\")`"));
            }
            let place = parse_place(&mut definition, context, depth + 1)?;
            context.charge(position..definition.position)?;
            Ok(place)
        }
        b'c' if cursor.eat("callsite(") => {
            let callee = parse_place(cursor, context, depth + 1)?;
            cursor.expect("at")?;
            skip_place(cursor)?;
            cursor.expect(")")?;
            Ok(callee)
        }
        b'f' if cursor.eat("fused") => parse_fused(cursor, context, depth),
        _ => {
            cursor.expect_word("a location")?;
            Ok(Place::default())
        }
    }
}

/// `"file":1:2`, `"file":1:2 to :5`, `"file":1:2 to 3:4`; the cursor stands after the file.
fn parse_file<'a>(cursor: &mut Cursor<'a>, file: &'a str) -> Parse<Place<'a>> {
    cursor.expect(":")?;
    let line = u32::try_from(cursor.integer()?).unwrap_or(u32::MAX);
    cursor.expect(":")?;
    let column = u32::try_from(cursor.integer()?).unwrap_or(u32::MAX);
    if cursor.eat("to") {
        if cursor.peek() != b':' {
            cursor.integer()?;
        }
        cursor.expect(":")?;
        cursor.integer()?;
    }
    // Lines of no file say nothing.
    if file.is_empty() {
        return Ok(Place::default());
    }
    Ok(Place { scope: "", file, line, column })
}

/// `fused<...>[a, b]`: the first that knows a scope or a file.
fn parse_fused<'a>(cursor: &mut Cursor<'a>, context: &Context<'a>, depth: usize) -> Parse<Place<'a>> {
    let start = cursor.position;
    if cursor.peek() == b'<' && !cursor.skip_balanced() {
        return Err(error(Code::Syntax, start..start + 1, "location without an end", "this `<` has no `>`"));
    }
    cursor.expect("[")?;
    let mut best = Place::default();
    loop {
        let place = parse_place(cursor, context, depth + 1)?;
        if best == Place::default() {
            best = place;
        }
        if !cursor.eat(",") {
            cursor.expect("]")?;
            return Ok(best);
        }
    }
}

/// Passes over a location without looking up what it names.
fn skip_place(cursor: &mut Cursor<'_>) -> Parse<()> {
    while !matches!(cursor.peek(), b')' | 0) {
        match cursor.byte() {
            b'"' => drop(cursor.string()?),
            b'(' | b'[' | b'<' => {
                let start = cursor.position;
                if !cursor.skip_balanced() {
                    return Err(error(
                        Code::Syntax,
                        start..start + 1,
                        "location without an end",
                        "this bracket is not closed",
                    ));
                }
            }
            _ => cursor.position += 1,
        }
    }
    Ok(())
}

/// A path as JAX spells it, `params['layers'][0].w`, with dots: `params.layers.0.w`. A name that
/// came out of here stays as it is, so that printed names are read back.
pub(super) fn dotted(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(position) = rest.find(['[', '.']) {
        out.push_str(&rest[..position]);
        if rest.as_bytes()[position] == b'.' {
            push_dot(&mut out);
            rest = &rest[position + 1..];
            continue;
        }
        let inside = &rest[position + 1..];
        let Some(end) = closing_bracket(inside) else {
            out.push_str(&rest[position..]);
            return out;
        };
        let key = &inside[..end];
        let unquoted = key.strip_prefix('\'').and_then(|key| key.strip_suffix('\''));
        let unquoted = unquoted.or_else(|| key.strip_prefix('"').and_then(|key| key.strip_suffix('"')));
        push_dot(&mut out);
        for part in unquoted.unwrap_or(key).split_inclusive(['[', '.']) {
            out.push_str(part.trim_end_matches(['[', '.']));
            if part.ends_with('.') {
                push_dot(&mut out);
            }
        }
        rest = &inside[end + 1..];
    }
    out.push_str(rest);
    out
}

fn push_dot(out: &mut String) {
    if !out.is_empty() && !out.ends_with('.') {
        out.push('.');
    }
}

/// Where the bracket closes, brackets inside quotes left alone.
fn closing_bracket(inside: &str) -> Option<usize> {
    match inside.as_bytes().first()? {
        &quote @ (b'\'' | b'"') => {
            let end = inside[1..].find([quote as char, '\n'])? + 1;
            inside[end..].find(']').map(|offset| end + offset)
        }
        _ => inside.find(']'),
    }
}

#[cfg(test)]
mod tests {
    use super::dotted;

    #[test]
    fn jax_paths_become_dotted_names() {
        let cases = [
            ("params['layers'][0]['w']", "params.layers.0.w"),
            ("opt_state[0].mu['layers'][1]['w']", "opt_state.0.mu.layers.1.w"),
            ("['x']", "x"),
            ("result[0]", "result.0"),
            ("state.params[\"a]b\"]", "state.params.a]b"),
            ("a[unclosed", "a[unclosed"),
            ("", ""),
            ("x", "x"),
            ("a['.b..[c]']", "a.b.c]"),
            ("['[x]']", "x]"),
            ("a[[b]]", "a.b]"),
        ];
        for (path, expected) in cases {
            assert_eq!(dotted(path), expected);
            assert_eq!(dotted(expected), expected);
        }
    }
}
