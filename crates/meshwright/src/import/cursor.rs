//! A position in the text, and the smallest pieces that can stand there.

use std::ops::Range;

use smallvec::SmallVec;

use super::diagnostic::{Diagnostic, Severity};
use crate::codes::Code;

/// What reading gives back: the thing read, or what is wrong at a place.
pub(super) type Parse<T> = Result<T, Box<Diagnostic>>;

/// An error at a place. `label` says what was expected or found there.
pub(super) fn error(
    code: Code,
    span: Range<usize>,
    message: impl Into<String>,
    label: impl Into<String>,
) -> Box<Diagnostic> {
    let (message, label) = (message.into(), label.into());
    Box::new(Diagnostic { code, severity: Severity::Error, span, message, label, hint: None })
}

pub(super) fn with_hint(mut diagnostic: Box<Diagnostic>, hint: impl Into<String>) -> Box<Diagnostic> {
    diagnostic.hint = Some(hint.into());
    diagnostic
}

/// How many bytes, strings apart, a bracketed piece may have that is passed over. Without a limit
/// each bracket that never closes would search the whole text.
const MAXIMUM_PIECE: usize = 1 << 20;

#[derive(Clone)]
pub(super) struct Cursor<'a> {
    pub(super) text: &'a str,
    pub(super) position: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str, position: usize) -> Cursor<'a> {
        Cursor { text, position }
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    /// The byte at the position as it is, or 0 at the end.
    #[inline]
    pub(super) fn byte(&self) -> u8 {
        self.bytes().get(self.position).copied().unwrap_or(0)
    }

    /// Passes over white space and comments.
    #[inline]
    pub(super) fn skip_space(&mut self) {
        // Most tokens stand right behind the one before, or after one space.
        if self.byte() == b' ' {
            self.position += 1;
        }
        if !matches!(self.byte(), b'!'..=b'.' | b'0'..=b'~') {
            self.skip_space_and_comments();
        }
    }

    #[cold]
    fn skip_space_and_comments(&mut self) {
        let bytes = self.bytes();
        loop {
            while matches!(bytes.get(self.position), Some(b' ' | b'\n' | b'\t' | b'\r')) {
                self.position += 1;
            }
            if self.byte() != b'/' || bytes.get(self.position + 1) != Some(&b'/') {
                return;
            }
            self.position =
                memchr::memchr(b'\n', &bytes[self.position..]).map_or(bytes.len(), |offset| self.position + offset);
        }
    }

    /// The next byte that is not white space, or 0 at the end.
    #[inline]
    pub(super) fn peek(&mut self) -> u8 {
        self.skip_space();
        self.byte()
    }

    pub(super) fn at_end(&mut self) -> bool {
        self.skip_space();
        self.position >= self.text.len()
    }

    /// Takes `token` if it comes next. A token of letters must end where a word ends.
    #[inline(always)]
    pub(super) fn eat(&mut self, token: &str) -> bool {
        self.skip_space();
        let rest = &self.bytes()[self.position..];
        if !rest.starts_with(token.as_bytes()) {
            return false;
        }
        let is_word = token.as_bytes()[token.len() - 1].is_ascii_alphanumeric();
        if is_word && rest.get(token.len()).is_some_and(|&byte| is_word_byte(byte)) {
            return false;
        }
        self.position += token.len();
        true
    }

    #[inline(always)]
    pub(super) fn expect(&mut self, token: &str) -> Parse<()> {
        if self.eat(token) { Ok(()) } else { Err(self.missing(token)) }
    }

    #[cold]
    fn missing(&mut self, token: &str) -> Box<Diagnostic> {
        self.unexpected(&format!("`{token}`"))
    }

    /// An error that says what was expected at the position and what stands there.
    pub(super) fn unexpected(&mut self, expected: &str) -> Box<Diagnostic> {
        self.skip_space();
        let start = self.position.min(self.text.len());
        let rest = &self.text[start..];
        let length = match rest.chars().next() {
            None => 0,
            Some(first) if first.is_ascii() && is_word_byte(first as u8) => {
                rest.bytes().take(40).take_while(|&byte| is_word_byte(byte)).count()
            }
            Some(first) => first.len_utf8(),
        };
        let found = match length {
            0 => "the text ends here".to_owned(),
            _ => format!("found `{}`", rest[..length].escape_debug()),
        };
        error(Code::Syntax, start..start + length, format!("expected {expected}"), found)
    }

    /// A word such as `stablehlo.add` or `dims`: letters, digits, `_`, `$` and dots.
    pub(super) fn word(&mut self) -> Option<&'a str> {
        self.skip_space();
        let rest = &self.bytes()[self.position..];
        if !matches!(rest.first(), Some(b'a'..=b'z' | b'A'..=b'Z' | b'_')) {
            return None;
        }
        let length = rest.iter().position(|&byte| !is_word_byte(byte)).unwrap_or(rest.len());
        let word = &self.text[self.position..self.position + length];
        self.position += length;
        Some(word)
    }

    pub(super) fn expect_word(&mut self, expected: &str) -> Parse<&'a str> {
        self.word().ok_or_else(|| self.unexpected(expected))
    }

    /// The part after `%`, `@`, `^`, `#` or `!`: letters, digits, `_`, `$`, `.` and `-`.
    pub(super) fn suffix(&mut self) -> &'a str {
        let rest = &self.bytes()[self.position..];
        let is_suffix = |byte: u8| is_word_byte(byte) || byte == b'-';
        let mut length = rest.iter().position(|&byte| !is_suffix(byte)).unwrap_or(rest.len());
        // `%a->` is a name followed by an arrow.
        while length > 0 && rest[length - 1] == b'-' {
            length -= 1;
        }
        let suffix = &self.text[self.position..self.position + length];
        self.position += length;
        suffix
    }

    /// A symbol `@name` or `@"name"`, without the sign and the quotes.
    pub(super) fn symbol(&mut self) -> Parse<&'a str> {
        if !self.eat("@") {
            return Err(self.unexpected("a symbol such as `@main`"));
        }
        if self.byte() == b'"' { self.string() } else { Ok(self.suffix()) }
    }

    /// A string literal; gives what stands between the quotes, escapes as they are.
    pub(super) fn string(&mut self) -> Parse<&'a str> {
        if self.peek() != b'"' {
            return Err(self.unexpected("a string"));
        }
        let start = self.position + 1;
        let bytes = self.bytes();
        let mut position = start;
        loop {
            match memchr::memchr3(b'"', b'\\', b'\n', &bytes[position..]) {
                Some(offset) if bytes[position + offset] == b'"' => {
                    let end = position + offset;
                    self.position = end + 1;
                    return Ok(&self.text[start..end]);
                }
                Some(offset) if bytes[position + offset] == b'\\' => {
                    position = (position + offset + 2).min(bytes.len());
                }
                _ => return Err(error(Code::Syntax, start - 1..start, "string without an end", "starts here")),
            }
        }
    }

    /// An unsigned decimal integer that fits.
    pub(super) fn integer(&mut self) -> Parse<u64> {
        self.skip_space();
        let start = self.position;
        // Up to 19 digits always fit.
        let digits = self.bytes()[start..].iter().take(20).take_while(|byte| byte.is_ascii_digit()).count();
        if (1..20).contains(&digits) {
            self.position += digits;
            let digits = &self.bytes()[start..start + digits];
            return Ok(digits.iter().fold(0, |value, digit| 10 * value + u64::from(digit - b'0')));
        }
        let mut value: u64 = 0;
        while self.byte().is_ascii_digit() {
            let digit = u64::from(self.byte() - b'0');
            let Some(next) = value.checked_mul(10).and_then(|value| value.checked_add(digit)) else {
                while self.byte().is_ascii_digit() {
                    self.position += 1;
                }
                return Err(error(Code::Syntax, start..self.position, "integer does not fit 64 bits", "too large"));
            };
            value = next;
            self.position += 1;
        }
        if self.position == start { Err(self.unexpected("an integer")) } else { Ok(value) }
    }

    /// The characters of a number: sign, digits, dot, exponent, or `0x` and hex digits.
    pub(super) fn number(&mut self) -> &'a str {
        self.skip_space();
        let start = self.position;
        let bytes = self.bytes();
        let mut position = start + usize::from(matches!(self.byte(), b'-' | b'+'));
        if bytes[position..].starts_with(b"0x") {
            position += 2;
            position += bytes[position..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        } else {
            while let Some(&byte) = bytes.get(position) {
                let is_exponent_sign = matches!(byte, b'-' | b'+') && matches!(bytes[position - 1], b'e' | b'E');
                if !(byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E') || is_exponent_sign) {
                    break;
                }
                position += 1;
            }
        }
        self.position = position;
        &self.text[start..position]
    }

    /// Passes over a bracketed piece, whatever is in it. The cursor stands on the opening bracket
    /// and ends after the matching one; `false` where there is none.
    pub(super) fn skip_balanced(&mut self) -> bool {
        let bytes = self.bytes();
        // The brackets that have to close what is open.
        let mut open: SmallVec<[u8; 16]> = SmallVec::new();
        for _ in 0..MAXIMUM_PIECE {
            match self.byte() {
                0 if self.position >= bytes.len() => return false,
                b'(' => open.push(b')'),
                b'[' => open.push(b']'),
                b'{' => open.push(b'}'),
                b'<' => open.push(b'>'),
                // Of an arrow or a comparison.
                b'>' if bytes[self.position - 1] == b'-' || open.last() != Some(&b'>') => {}
                close @ (b')' | b']' | b'}' | b'>') => {
                    if open.pop() != Some(close) {
                        return false;
                    }
                    if open.is_empty() {
                        self.position += 1;
                        return true;
                    }
                }
                b'"' => {
                    if self.string().is_err() {
                        return false;
                    }
                    continue;
                }
                _ => {}
            }
            self.position += 1;
        }
        false
    }
}

pub(super) fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.')
}

/// Whether all of it is one [`Cursor::word`].
pub(super) fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') && text.bytes().all(is_word_byte)
}

/// The text of a string literal with its escapes undone (`\22`, `\n`, `\\`).
pub(super) fn unescape(raw: &str) -> String {
    if !raw.contains('\\') {
        return raw.to_owned();
    }
    let bytes = raw.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut position = 0;
    while position < bytes.len() {
        if bytes[position] != b'\\' || position + 1 >= bytes.len() {
            out.push(bytes[position]);
            position += 1;
            continue;
        }
        let hex = raw.get(position + 1..position + 3).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match (bytes[position + 1], hex) {
            (b'n', _) => out.push(b'\n'),
            (b't', _) => out.push(b'\t'),
            (b'\\' | b'"', _) => out.push(bytes[position + 1]),
            (_, Some(byte)) => {
                out.push(byte);
                position += 1;
            }
            (other, None) => out.push(other),
        }
        position += 2;
    }
    String::from_utf8_lossy(&out).into_owned()
}
