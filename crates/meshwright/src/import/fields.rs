//! Looking up attributes of an operation as written.

use super::attribute::{Attribute, Named};
use super::cursor::{Parse, error};
use super::operation::RawOp;
use crate::codes::Code;
use crate::program::{DType, Dims, Literal, Type, plural};

/// The attributes of one operation. A lookup takes all the names an attribute goes by: that of the
/// generic form, then that of the pretty form.
#[derive(Clone, Copy)]
pub(super) struct Fields<'r, 'a> {
    pub(super) raw: &'r RawOp<'a>,
}

/// The named values inside one attribute, such as `#stablehlo.dot<...>`.
pub(super) struct Inner<'r, 'a> {
    outer: Fields<'r, 'a>,
    named: &'r [Named<'a>],
}

impl<'r, 'a> Fields<'r, 'a> {
    pub(super) fn find(self, names: &[&str]) -> Option<&'r Named<'a>> {
        self.raw.attributes.iter().find(|named| names.contains(&named.name))
    }

    pub(super) fn need(self, names: &[&str]) -> Parse<&'r Named<'a>> {
        self.find(names).ok_or_else(|| {
            error(
                Code::Attribute,
                self.raw.span.clone(),
                format!("`{}` needs the attribute `{}`", self.raw.name, names[0]),
                "missing",
            )
        })
    }

    /// The error for an attribute that has a value of the wrong kind, or none.
    pub(super) fn wrong(self, names: &[&str], expected: &str) -> Box<super::Diagnostic> {
        match self.need(names) {
            Ok(named) => wrong_value(self.raw, named, expected),
            Err(problem) => problem,
        }
    }

    /// The value of a word, or an error that says which words there are.
    pub(super) fn known<T>(self, value: Option<T>, word: &str, words: &[&str]) -> Parse<T> {
        value.ok_or_else(|| {
            let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            let label = format!("expected {}", words.join(", "));
            error(Code::Attribute, self.raw.span.clone(), format!("`{}` does not know `{word}`", self.raw.name), label)
        })
    }

    pub(super) fn word<T>(self, names: &[&str], words: &[&str], from_name: impl Fn(&str) -> Option<T>) -> Parse<T> {
        match &self.need(names)?.value {
            Attribute::Word(word) | Attribute::String(word) => self.known(from_name(word), word, words),
            _ => Err(self.wrong(names, "a word")),
        }
    }

    pub(super) fn symbol(self, names: &[&str]) -> Parse<&'a str> {
        let symbols = self.raw.attributes.iter().filter(|named| names.contains(&named.name));
        symbols
            .filter_map(|named| match named.value {
                Attribute::Symbol(symbol) => Some(symbol),
                _ => None,
            })
            .next()
            .ok_or_else(|| self.wrong(names, "a symbol such as `@name`"))
    }

    pub(super) fn flag(self, names: &[&str]) -> Parse<bool> {
        match self.find(names).map(|named| &named.value) {
            None => Ok(false),
            Some(Attribute::Bool(flag)) => Ok(*flag),
            Some(Attribute::Unit) => Ok(true),
            Some(_) => Err(self.wrong(names, "`true` or `false`")),
        }
    }

    pub(super) fn integer_or(self, names: &[&str], default: i64) -> Parse<i64> {
        match self.find(names).map(|named| &named.value) {
            None => Ok(default),
            Some(Attribute::Integer(value)) => Ok(*value),
            Some(_) => Err(self.wrong(names, "an integer")),
        }
    }

    pub(super) fn float_or(self, names: &[&str], default: f64) -> Parse<f64> {
        match self.find(names).map(|named| &named.value) {
            None => Ok(default),
            Some(Attribute::Float(value)) => Ok(*value),
            Some(Attribute::Integer(value)) => Ok(*value as f64),
            Some(_) => Err(self.wrong(names, "a number")),
        }
    }

    /// A float that is a number and has an end.
    pub(super) fn finite_or(self, names: &[&str], default: f64) -> Parse<f64> {
        let value = self.float_or(names, default)?;
        if value.is_finite() { Ok(value) } else { Err(self.wrong(names, "a finite number")) }
    }

    pub(super) fn size(self, names: &[&str]) -> Parse<usize> {
        self.need(names)?;
        self.size_or(names, 0)
    }

    pub(super) fn size_or(self, names: &[&str], default: usize) -> Parse<usize> {
        let value = self.integer_or(names, default as i64)?;
        usize::try_from(value).map_err(|_| self.negative(names, value))
    }

    fn negative(self, names: &[&str], value: i64) -> Box<super::Diagnostic> {
        let (span, name) =
            self.find(names).map_or((self.raw.span.clone(), names[0]), |named| (named.span.clone(), named.name));
        error(Code::Attribute, span, format!("`{name}` of `{}` is negative", self.raw.name), format!("found {value}"))
    }

    /// A list of integers in any of its spellings.
    pub(super) fn integers(self, names: &[&str]) -> Parse<Vec<i64>> {
        let named = self.need(names)?;
        integers_in(&named.value).ok_or_else(|| self.wrong(names, "a list of integers"))
    }

    pub(super) fn integers_or_empty(self, name: &str) -> Parse<Vec<i64>> {
        if self.find(&[name]).is_some() { self.integers(&[name]) } else { Ok(Vec::new()) }
    }

    pub(super) fn sizes(self, names: &[&str]) -> Parse<Dims> {
        let integers = self.integers(names)?;
        integers.into_iter().map(|value| usize::try_from(value).map_err(|_| self.negative(names, value))).collect()
    }

    pub(super) fn sizes_or_empty(self, name: &str) -> Parse<Dims> {
        if self.find(&[name]).is_some() { self.sizes(&[name]) } else { Ok(Dims::new()) }
    }

    /// `[[0, 1], [2, 3]]`.
    pub(super) fn rows(self, names: &[&str]) -> Parse<Vec<Vec<i64>>> {
        let named = self.need(names)?;
        rows_in(&named.value).ok_or_else(|| self.wrong(names, "lists of integers"))
    }

    pub(super) fn pairs(self, names: &[&str]) -> Parse<Vec<(i64, i64)>> {
        let rows = self.rows(names)?;
        rows.iter()
            .map(|row| match row[..] {
                [first, second] => Ok((first, second)),
                _ => Err(self.wrong(names, "pairs of integers")),
            })
            .collect()
    }

    pub(super) fn pairs_or_empty(self, name: &str) -> Parse<Vec<(i64, i64)>> {
        if self.find(&[name]).is_some() { self.pairs(&[name]) } else { Ok(Vec::new()) }
    }

    /// `[1] x [0]` of the pretty form, or two empty lists.
    pub(super) fn two_lists(self, name: &str) -> Parse<[Dims; 2]> {
        let Some(named) = self.find(&[name]) else { return Ok([Dims::new(), Dims::new()]) };
        let wrong = || self.wrong(&[name], "two lists such as `[1] x [0]`");
        let Attribute::List(lists) = &named.value else { return Err(wrong()) };
        let [left, right] = lists.as_slice() else { return Err(wrong()) };
        let dims = |list: &Attribute<'a>| -> Parse<Dims> {
            let integers = integers_in(list).ok_or_else(wrong)?;
            integers
                .into_iter()
                .map(|value| usize::try_from(value).map_err(|_| self.negative(&[name], value)))
                .collect()
        };
        Ok([dims(left)?, dims(right)?])
    }

    pub(super) fn literal(self, name: &str) -> Parse<Literal> {
        match &self.need(&[name])?.value {
            Attribute::Dense(literal) => Ok((**literal).clone()),
            _ => Err(self.wrong(&[name], "a constant such as `dense<0.0> : tensor<f32>`")),
        }
    }

    /// `#stablehlo.channel_handle<handle = 1, type = 0>`: handle and type.
    pub(super) fn channel(self) -> Parse<(i64, i64)> {
        let Some(named) = self.find(&["channel_handle"]) else { return Ok((0, 0)) };
        let inner = fields_of(self, named)?;
        Ok((inner.integer_or("handle", 0)?, inner.integer_or("type", 0)?))
    }

    /// The declared type of the only result.
    pub(super) fn result_type(self) -> Parse<&'r Type> {
        Ok(&self.result_types(1)?[0])
    }

    pub(super) fn result_types(self, count: usize) -> Parse<&'r [Type]> {
        if self.raw.result_types.len() != count {
            let label = format!("the text declares {}", self.raw.result_types.len());
            let message = format!("`{}` has {}", self.raw.name, plural(count, "result"));
            return Err(error(Code::Attribute, self.raw.span.clone(), message, label));
        }
        Ok(&self.raw.result_types)
    }

    /// A dimension counted from the end where it is negative; the rank is that of the first result.
    pub(super) fn counted_from_end(self, dim: i64) -> Parse<usize> {
        let rank = self.raw.result_types.first().map_or(0, Type::rank) as i64;
        usize::try_from(if dim < 0 { dim.saturating_add(rank) } else { dim })
            .map_err(|_| self.negative(&["dimension"], dim))
    }

    /// How many times larger (or smaller) dimension `dim` is in the result than in the operand.
    /// Where the sizes do not divide, type inference sees a factor that cannot be right.
    pub(super) fn result_factor(self, dim: usize, smaller: bool) -> usize {
        let size = |types: &[Type]| types.first().and_then(|ty| ty.shape.get(dim).copied()).unwrap_or(0);
        let (operand, result) = (size(&self.raw.operand_types), size(&self.raw.result_types));
        let (large, small) = if smaller { (operand, result) } else { (result, operand) };
        if small > 0 && large.is_multiple_of(small) { large / small } else { usize::from(large == small) }
    }
}

fn wrong_value(raw: &RawOp<'_>, named: &Named<'_>, expected: &str) -> Box<super::Diagnostic> {
    let message = format!("`{}` cannot read its attribute `{}`", raw.name, named.name);
    error(Code::Attribute, named.span.clone(), message, format!("expected {expected}"))
}

/// The values inside an attribute such as `#stablehlo.gather<...>` or `{...}`.
pub(super) fn fields_of<'r, 'a>(outer: Fields<'r, 'a>, named: &'r Named<'a>) -> Parse<Inner<'r, 'a>> {
    match &named.value {
        Attribute::Fields(inner) => Ok(Inner { outer, named: inner }),
        _ => Err(wrong_value(outer.raw, named, "named values such as `<a = [0]>`")),
    }
}

impl<'r, 'a> Inner<'r, 'a> {
    fn find(&self, name: &str) -> Option<&'r Named<'a>> {
        self.named.iter().find(|named| named.name == name)
    }

    fn wrong(&self, named: &Named<'_>, expected: &str) -> Box<super::Diagnostic> {
        wrong_value(self.outer.raw, named, expected)
    }

    pub(super) fn integers_or_empty(&self, name: &str) -> Parse<Vec<i64>> {
        match self.find(name) {
            None => Ok(Vec::new()),
            Some(named) => integers_in(&named.value).ok_or_else(|| self.wrong(named, "a list of integers")),
        }
    }

    pub(super) fn sizes_or_empty(&self, name: &str) -> Parse<Dims> {
        let Some(named) = self.find(name) else { return Ok(Dims::new()) };
        let sizes = |integers: Vec<i64>| integers.into_iter().map(|value| usize::try_from(value).ok()).collect();
        integers_in(&named.value).and_then(sizes).ok_or_else(|| self.wrong(named, "a list of integers from 0"))
    }

    pub(super) fn pairs_or_empty(&self, name: &str) -> Parse<Vec<(i64, i64)>> {
        let Some(named) = self.find(name) else { return Ok(Vec::new()) };
        let wrong = || self.wrong(named, "pairs of integers");
        let rows = rows_in(&named.value).ok_or_else(wrong)?;
        rows.iter()
            .map(|row| match row[..] {
                [first, second] => Ok((first, second)),
                _ => Err(wrong()),
            })
            .collect()
    }

    pub(super) fn integer_or(&self, name: &str, default: i64) -> Parse<i64> {
        match self.find(name) {
            None => Ok(default),
            Some(Named { value: Attribute::Integer(value), .. }) => Ok(*value),
            Some(named) => Err(self.wrong(named, "an integer")),
        }
    }

    pub(super) fn size_or(&self, name: &str, default: usize) -> Parse<usize> {
        match self.find(name) {
            None => Ok(default),
            Some(&Named { value: Attribute::Integer(value), .. }) if value >= 0 => Ok(value as usize),
            Some(named) => Err(self.wrong(named, "an integer from 0")),
        }
    }
}

/// `[b, 0, 1, f]`: the positions of the two named dimensions, and of the spatial ones in order.
pub(super) fn convolution_labels(
    fields: Fields<'_, '_>,
    labels: &[&str],
    first: &str,
    second: &str,
) -> Parse<(usize, usize, Dims)> {
    let position = |label: &str| labels.iter().position(|&found| found == label);
    let spatial: Option<Dims> = (0..labels.len().saturating_sub(2)).map(|index| position(&index.to_string())).collect();
    match (position(first), position(second), spatial) {
        (Some(first), Some(second), Some(spatial)) => Ok((first, second, spatial)),
        _ => {
            Err(fields
                .wrong(&["dimension_numbers", "dim_numbers"], "dimensions such as `[b, 0, f]x[0, i, o]->[b, 0, f]`"))
        }
    }
}

fn integers_in(value: &Attribute<'_>) -> Option<Vec<i64>> {
    match value {
        Attribute::Integers(integers) => Some(integers.to_vec()),
        Attribute::List(list) => list.iter().map(integer_in).collect(),
        Attribute::Dense(literal) => integers_in_literal(literal),
        _ => None,
    }
}

fn integer_in(value: &Attribute<'_>) -> Option<i64> {
    match value {
        Attribute::Integer(value) => Some(*value),
        Attribute::Bool(flag) => Some(i64::from(*flag)),
        _ => None,
    }
}

fn rows_in(value: &Attribute<'_>) -> Option<Vec<Vec<i64>>> {
    match value {
        Attribute::List(rows) => rows.iter().map(integers_in).collect(),
        Attribute::Dense(literal) => {
            let &[rows, columns] = literal.ty.shape.as_slice() else { return None };
            if rows > MAXIMUM_REPEATED && columns == 0 {
                return None;
            }
            let integers = integers_in_literal(literal)?;
            Some((0..rows).map(|row| integers[row * columns..(row + 1) * columns].to_vec()).collect())
        }
        _ => None,
    }
}

/// A constant whose few characters stand for more rows or elements than this is no list.
const MAXIMUM_REPEATED: usize = 1 << 12;

/// The elements of an integer constant.
fn integers_in_literal(literal: &Literal) -> Option<Vec<i64>> {
    let is_repeated = literal.as_splat().is_some() && literal.ty.elements() > MAXIMUM_REPEATED;
    if !(literal.ty.dtype == DType::I64 || literal.ty.dtype == DType::Bool) || is_repeated {
        return None;
    }
    let width = literal.ty.dtype.stored_bytes();
    let bytes = literal.bytes();
    Some(
        bytes
            .chunks_exact(width)
            .map(|element| {
                let mut wide = [0; 8];
                wide[..width].copy_from_slice(element);
                i64::from_le_bytes(wide)
            })
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use smallvec::SmallVec;

    use super::*;

    #[test]
    fn lists_are_read_in_all_their_spellings() {
        let expected = Some(vec![1, 0]);
        assert_eq!(integers_in(&Attribute::Integers(SmallVec::from_slice(&[1, 0]))), expected);
        assert_eq!(integers_in(&Attribute::List(vec![Attribute::Integer(1), Attribute::Bool(false)])), expected);
        let literal = Literal::packed(Type::new(DType::Bool, &[2]), vec![1u8, 0]);
        assert_eq!(integers_in(&Attribute::Dense(Box::new(literal))), expected);
        assert_eq!(integers_in(&Attribute::Unit), None);
    }
}
