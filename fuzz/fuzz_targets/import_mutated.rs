//! Sound texts, changed piece by piece.

#![no_main]

#[path = "check.rs"]
mod check;

use arbitrary::Arbitrary;

const SAMPLES: [&str; 2] = [
    include_str!("../../tests/gallery/pretty.mlir"),
    include_str!("../../tests/gallery/generic.mlir"),
];

#[derive(Arbitrary, Debug)]
struct Mutated {
    sample: u8,
    changes: Vec<Change>,
}

/// Places are counted in pieces: words, numbers and single signs.
#[derive(Arbitrary, Debug)]
enum Change {
    Delete { at: u16, count: u8 },
    Swap { one: u16, other: u16 },
    /// Puts a copy of some pieces in front of another.
    Copy { from: u16, count: u8, to: u16 },
    Replace { at: u16, by: u16 },
    Number { at: u16, number: i64 },
    Insert { at: u16, text: String },
    DeleteLine { at: u16 },
    CopyLine { from: u16, to: u16 },
}

libfuzzer_sys::fuzz_target!(|mutated: Mutated| {
    let sample = SAMPLES[usize::from(mutated.sample) % SAMPLES.len()];
    let mut pieces: Vec<String> = pieces(sample).into_iter().map(str::to_owned).collect();
    for change in mutated.changes.iter().take(8) {
        apply(change, &mut pieces);
    }
    check::survives(&pieces.concat());
});

fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        let length = if is_word(first) { rest.find(|c| !is_word(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
        let (piece, after) = rest.split_at(length);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

fn apply(change: &Change, pieces: &mut Vec<String>) {
    let length = pieces.len();
    if length == 0 {
        return;
    }
    let place = |at: u16| usize::from(at) % length;
    let line = |at: u16| {
        let start = pieces[..place(at)].iter().rposition(|piece| piece == "\n").map_or(0, |before| before + 1);
        let end = pieces[start..].iter().position(|piece| piece == "\n").map_or(length, |offset| start + offset + 1);
        start..end
    };
    match change {
        Change::Delete { at, count } => {
            let start = place(*at);
            pieces.drain(start..(start + usize::from(*count % 16)).min(length));
        }
        Change::Swap { one, other } => pieces.swap(place(*one), place(*other)),
        Change::Copy { from, count, to } => {
            let (start, to) = (place(*from), place(*to));
            let copied = pieces[start..(start + usize::from(*count % 64)).min(length)].to_vec();
            pieces.splice(to..to, copied);
        }
        Change::Replace { at, by } => pieces[place(*at)] = pieces[place(*by)].clone(),
        Change::Number { at, number } => {
            let start = place(*at);
            let is_number = |piece: &String| piece.starts_with(|c: char| c.is_ascii_digit());
            if let Some(offset) = pieces[start..].iter().position(is_number) {
                pieces[start + offset] = number.to_string();
            }
        }
        Change::Insert { at, text } => pieces.insert(place(*at), text.clone()),
        Change::DeleteLine { at } => drop(pieces.drain(line(*at))),
        Change::CopyLine { from, to } => {
            let (copied, to) = (pieces[line(*from)].to_vec(), line(*to).start);
            pieces.splice(to..to, copied);
        }
    }
}
