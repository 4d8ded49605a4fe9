//! A scanner for JSON that is read once, from front to back, into whatever the caller makes of it.

use std::fmt;

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// In bytes from the start of the text.
    pub offset: usize,
    /// From 1.
    pub line: usize,
    /// In bytes, from 1.
    pub column: usize,
    pub message: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for ReadError {}

impl ReadError {
    pub(crate) fn new(text: &[u8], offset: usize, message: impl Into<String>) -> ReadError {
        let before = &text[..offset.min(text.len())];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let column = 1 + before.iter().rev().take_while(|byte| **byte != b'\n').count();
        ReadError { offset, line, column, message: message.into() }
    }
}

/// Values nested deeper than this are refused: skipping them must not exhaust the stack.
const DEPTH: usize = 100;

#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Scanner<'a> {
        Scanner { text, at: 0 }
    }

    /// Where the next value begins.
    pub(crate) fn offset(&mut self) -> usize {
        self.skip_space();
        self.at
    }

    pub(crate) fn error(&self, offset: usize, message: impl Into<String>) -> ReadError {
        ReadError::new(self.text, offset, message)
    }

    /// Nothing but space may follow the value.
    pub(crate) fn finish(&mut self) -> Result<(), ReadError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.error(self.at, "expected the end of the text")),
        }
    }

    /// Reads `{"key": value, …}`; the callback reads the values.
    pub(crate) fn object(
        &mut self,
        mut member: impl FnMut(&mut Scanner<'a>, &str) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        self.expect(b'{', "an object")?;
        if self.accept(b'}') {
            return Ok(());
        }
        loop {
            let key = self.string()?;
            self.expect(b':', "`:`")?;
            member(self, &key)?;
            if self.accept(b'}') {
                return Ok(());
            }
            self.expect(b',', "`,` or `}`")?;
        }
    }

    /// Reads `[value, …]`; the callback reads the values.
    pub(crate) fn list(
        &mut self,
        mut element: impl FnMut(&mut Scanner<'a>) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        self.expect(b'[', "a list")?;
        if self.accept(b']') {
            return Ok(());
        }
        loop {
            element(self)?;
            if self.accept(b']') {
                return Ok(());
            }
            self.expect(b',', "`,` or `]`")?;
        }
    }

    pub(crate) fn string(&mut self) -> Result<String, ReadError> {
        self.expect(b'"', "a string")?;
        let start = self.at;
        let mut bytes = Vec::new();
        loop {
            match self.text.get(self.at) {
                None | Some(b'\n') => return Err(self.error(start - 1, "the string does not end")),
                Some(b'"') => break,
                Some(b'\\') => {
                    let escape = self.escape()?;
                    bytes.extend_from_slice(escape.encode_utf8(&mut [0; 4]).as_bytes());
                }
                Some(byte) => {
                    bytes.push(*byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        String::from_utf8(bytes).map_err(|_| self.error(start, "the string is not UTF-8"))
    }

    /// One escape. Halves of surrogate pairs become the replacement character: names are only shown.
    fn escape(&mut self) -> Result<char, ReadError> {
        let start = self.at;
        let letter = self.text.get(start + 1).copied();
        self.at += 2;
        Ok(match letter {
            Some(letter @ (b'"' | b'\\' | b'/')) => letter as char,
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let digits = self.text.get(start + 2..start + 6).and_then(|digits| std::str::from_utf8(digits).ok());
                let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
                self.at += 4;
                let code = code.ok_or_else(|| self.error(start, "expected four hexadecimal digits"))?;
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            _ => return Err(self.error(start, "unknown escape")),
        })
    }

    /// An integer. What does not fit is brought to the nearest that does, which callers take for
    /// infinite. `1e18` and `2.0` are integers too.
    pub(crate) fn integer(&mut self) -> Result<i64, ReadError> {
        self.skip_space();
        let start = self.at;
        let negative = self.text.get(start) == Some(&b'-');
        self.at += usize::from(negative);
        let first = self.at;
        let mut value = 0_i64;
        while let Some(digit @ b'0'..=b'9') = self.text.get(self.at) {
            value = value.saturating_mul(10).saturating_add(i64::from(digit - b'0'));
            self.at += 1;
        }
        if self.at == first {
            return Err(self.error(start, "expected an integer"));
        }
        if matches!(self.text.get(self.at), Some(b'.' | b'e' | b'E')) {
            return self.float(start);
        }
        Ok(if negative { -value } else { value })
    }

    fn float(&mut self, start: usize) -> Result<i64, ReadError> {
        while let Some(b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-') = self.text.get(self.at) {
            self.at += 1;
        }
        let digits = std::str::from_utf8(&self.text[start..self.at]).unwrap_or_default();
        match digits.parse::<f64>() {
            // The cast saturates.
            Ok(value) if value.fract() == 0.0 || value.is_infinite() => Ok(value as i64),
            Ok(_) => Err(self.error(start, format!("expected an integer, found `{digits}`"))),
            Err(_) => Err(self.error(start, format!("`{digits}` is not a number"))),
        }
    }

    /// Passes over a value of any kind.
    pub(crate) fn skip(&mut self) -> Result<(), ReadError> {
        self.skip_nested(0)
    }

    fn skip_nested(&mut self, depth: usize) -> Result<(), ReadError> {
        let start = self.offset();
        if depth > DEPTH {
            return Err(self.error(start, "nested too deeply"));
        }
        match self.peek() {
            Some(b'{') => self.object(|scanner, _| scanner.skip_nested(depth + 1)),
            Some(b'[') => self.list(|scanner| scanner.skip_nested(depth + 1)),
            Some(b'"') => self.string().map(drop),
            Some(b'-' | b'0'..=b'9') => {
                while let Some(b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-') = self.text.get(self.at) {
                    self.at += 1;
                }
                Ok(())
            }
            _ => self.skip_word(),
        }
    }

    fn skip_word(&mut self) -> Result<(), ReadError> {
        let rest = &self.text[self.at..];
        match ["true", "false", "null"].iter().find(|word| rest.starts_with(word.as_bytes())) {
            Some(word) => {
                self.at += word.len();
                Ok(())
            }
            None => Err(self.error(self.at, "expected a value")),
        }
    }

    pub(crate) fn peek(&mut self) -> Option<u8> {
        self.skip_space();
        self.text.get(self.at).copied()
    }

    fn accept(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8, what: &str) -> Result<(), ReadError> {
        if self.accept(byte) {
            return Ok(());
        }
        let found = if self.at >= self.text.len() { ", the text ends here" } else { "" };
        Err(self.error(self.at, format!("expected {what}{found}")))
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.text.get(self.at) {
            self.at += 1;
        }
    }
}
