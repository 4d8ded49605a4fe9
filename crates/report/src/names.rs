//! Names of values: one for each, and many in few lines, where what differs in a number or a word only is told once.

use std::collections::BTreeSet;

/// A name for every value: its own if all have one of their own, and `kind.number` otherwise.
pub fn names<'a>(kind: &str, own: impl ExactSizeIterator<Item = &'a str> + Clone) -> Vec<String> {
    let distinct: BTreeSet<&str> = own.clone().filter(|name| !name.is_empty()).collect();
    if distinct.len() == own.len() {
        return own.map(str::to_owned).collect();
    }
    (0..own.len()).map(|index| numbered(kind, index)).collect()
}

/// The name of a value by its place: `argument.0`, `result.0`.
pub fn numbered(kind: &str, index: usize) -> String {
    format!("{kind}.{index}")
}

/// A name with the numbers of its parts as `*`: `params.layers.*.attn.out`. Parts are set apart by `.`
/// or `/`, and a number may follow `_`.
pub fn collapse(name: &str) -> String {
    let mut collapsed = String::new();
    for part in name.split_inclusive(['.', '/', '_']) {
        let end = part.trim_end_matches(['.', '/', '_']);
        let is_number = !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit());
        collapsed.push_str(if is_number { "*" } else { end });
        collapsed.push_str(&part[end.len()..]);
    }
    collapsed
}

/// A text with its literals, which stand in backticks, collapsed.
pub fn collapse_literals(text: &str) -> String {
    let parts: Vec<String> = text
        .split('`')
        .enumerate()
        .map(|(index, part)| if index % 2 == 1 { collapse(part) } else { part.to_owned() })
        .collect();
    parts.join("`")
}

/// Values that differ in nothing but their names.
#[derive(Clone, Debug)]
pub struct Alike<T> {
    pub name: String,
    pub what: T,
    pub count: usize,
}

/// Puts names of like things together, in the order of the first of each: numbers become `*`, and
/// words that differ in one place become `{one,other}`.
pub fn group<T: PartialEq>(named: impl IntoIterator<Item = (String, T)>) -> Vec<Alike<T>> {
    let mut groups: Vec<Group<T>> = Vec::new();
    for (name, what) in named {
        let parts: Vec<Vec<String>> = collapse(&name).split('.').map(|part| vec![part.to_owned()]).collect();
        match groups.iter_mut().find(|group| group.parts == parts && group.what == what) {
            Some(group) => group.count += 1,
            None => groups.push(Group { first: name, parts, what, count: 1 }),
        }
    }
    let longest = groups.iter().map(|group| group.parts.len()).max().unwrap_or(0);
    for place in (0..longest).rev() {
        groups = merge(groups, place);
    }
    groups.into_iter().map(|group| Alike { name: group.name(), what: group.what, count: group.count }).collect()
}

struct Group<T> {
    /// The name of the first of them.
    first: String,
    /// The parts of the name, each with its alternatives.
    parts: Vec<Vec<String>>,
    what: T,
    count: usize,
}

/// A list of alternatives takes at most so many letters.
const LONGEST_LIST: usize = 32;

/// Merges groups that differ in one part of their names only.
fn merge<T: PartialEq>(groups: Vec<Group<T>>, place: usize) -> Vec<Group<T>> {
    let mut merged: Vec<Group<T>> = Vec::new();
    for group in groups {
        match merged.iter_mut().find(|other| other.takes(&group, place)) {
            Some(other) => {
                other.parts[place].extend(group.parts[place].iter().cloned());
                other.count += group.count;
            }
            None => merged.push(group),
        }
    }
    merged
}

impl<T: PartialEq> Group<T> {
    fn takes(&self, other: &Group<T>, place: usize) -> bool {
        let (Some(own), Some(others)) = (self.parts.get(place), other.parts.get(place)) else { return false };
        let length: usize = own.iter().chain(others).map(|word| word.len() + 1).sum();
        self.what == other.what
            && self.parts.len() == other.parts.len()
            && length <= LONGEST_LIST
            && self
                .parts
                .iter()
                .zip(&other.parts)
                .enumerate()
                .all(|(index, (own, others))| index == place || own == others)
    }

    fn name(&self) -> String {
        if self.count == 1 {
            return self.first.clone();
        }
        let shown = |words: &Vec<String>| match words.as_slice() {
            [word] => word.clone(),
            words => format!("{{{}}}", words.join(",")),
        };
        self.parts.iter().map(shown).collect::<Vec<_>>().join(".")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_collapse_where_they_are_a_part_of_their_own() {
        assert_eq!(collapse("params.layers.12.norm1.scale"), "params.layers.*.norm1.scale");
        assert_eq!(collapse("layers.0/attn/3"), "layers.*/attn/*");
        assert_eq!(collapse("Block_7.Dense_0"), "Block_*.Dense_*");
        assert_eq!(collapse(""), "");
        assert_eq!(collapse_literals("2 of `a.2` and `b.3`"), "2 of `a.*` and `b.*`");
    }

    #[test]
    fn names_of_like_things_become_one_line() {
        let names = ["a.0.key", "a.0.query", "a.0.out", "a.1.key", "a.1.query", "a.1.out", "b.0.key", "b"];
        let things = names.map(|name| (name.to_owned(), name.contains("out")));
        let grouped: Vec<_> = group(things).into_iter().map(|alike| (alike.name, alike.what, alike.count)).collect();
        let expected = [("a.*.{key,query}", false, 4), ("a.*.out", true, 2), ("b.0.key", false, 1), ("b", false, 1)];
        assert_eq!(grouped, expected.map(|(name, what, count)| (name.to_owned(), what, count)));
    }
}
