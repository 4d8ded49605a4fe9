//! What is varied, and all combinations of it.

use meshwright::cluster::parse_bytes;
use meshwright::codes::Code;
use serde_json::{Value, json};

use crate::error::Error;
use crate::table::{count, size};

/// What can be varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Memory,
    Batch,
    Devices,
    Bandwidth,
}

const KEYS: [(&str, Key); 4] =
    [("memory", Key::Memory), ("batch", Key::Batch), ("devices", Key::Devices), ("bandwidth", Key::Bandwidth)];

impl Key {
    pub(super) fn name(self) -> &'static str {
        KEYS.iter().find(|(_, key)| *key == self).map_or("", |(name, _)| name)
    }
}

/// A value of a key: bytes, a whole number or a factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Choice {
    pub(super) key: Key,
    pub(super) value: f64,
}

impl Choice {
    pub(super) fn show(self) -> String {
        match self.key {
            Key::Memory => size(self.value as usize),
            Key::Batch | Key::Devices => count(self.value as usize),
            Key::Bandwidth => format!("x{}", self.value),
        }
    }

    pub(super) fn to_json(self) -> Value {
        match self.key {
            Key::Memory | Key::Batch | Key::Devices => json!(self.value as usize),
            Key::Bandwidth => json!(self.value),
        }
    }
}

/// More would take long, and nobody reads as many rows.
const MOST_COMBINATIONS: usize = 1000;

/// All combinations of what `--vary` gives, in that order, the last key fastest.
pub(super) fn combinations(texts: &[String]) -> Result<Vec<Vec<Choice>>, Error> {
    let mut combinations: Vec<Vec<Choice>> = vec![Vec::new()];
    let mut seen: Vec<Key> = Vec::new();
    for text in texts {
        let choices = parse(text)?;
        let key = choices[0].key;
        if seen.contains(&key) {
            return Err(Error::new(Code::Vary, format!("`{}` is varied twice", key.name()))
                .hint("give all its values in one list"));
        }
        seen.push(key);
        let all = combinations.len() * choices.len();
        if all > MOST_COMBINATIONS {
            let (all, most) = (count(all), count(MOST_COMBINATIONS));
            return Err(Error::new(
                Code::Vary,
                format!("there are at least {all} combinations, at most {most} are simulated"),
            )
            .hint("give fewer values"));
        }
        let with = |before: &Vec<Choice>| {
            let before = before.clone();
            choices.iter().map(move |&choice| before.iter().copied().chain([choice]).collect()).collect::<Vec<_>>()
        };
        combinations = combinations.iter().flat_map(with).collect();
    }
    Ok(combinations)
}

/// Reads `memory=8GiB,16GiB` and the like: at least one value.
fn parse(text: &str) -> Result<Vec<Choice>, Error> {
    let refuse = |reason: String, hint: &str| Error::new(Code::Vary, format!("`--vary {text}` {reason}")).hint(hint);
    let example = "such as `--vary batch=256,512`";
    let (name, list) = text.split_once('=').ok_or_else(|| refuse("is not of the form KEY=LIST".to_owned(), example))?;
    let Some(&(_, key)) = KEYS.iter().find(|(known, _)| *known == name) else {
        let names: Vec<&str> = KEYS.iter().map(|(name, _)| *name).collect();
        return Err(refuse(
            format!("changes `{name}`, which cannot be varied"),
            &format!("keys are {}", names.join(", ")),
        ));
    };
    let value = |item: &str| match key {
        Key::Memory => parse_bytes(item)
            .map(|bytes| bytes as f64)
            .map_err(|(message, hint)| refuse(format!("has a wrong amount: {message}"), &hint)),
        Key::Batch | Key::Devices => {
            let number = item.parse::<u32>().ok().filter(|&number| number > 0).map(f64::from);
            number.ok_or_else(|| refuse(format!("has `{item}`, no whole number above 0"), example))
        }
        Key::Bandwidth => {
            let number = item.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
            number
                .ok_or_else(|| refuse(format!("has `{item}`, no factor above 0"), "such as `--vary bandwidth=0.5,1,2`"))
        }
    };
    list.split(',').map(|item| value(item.trim()).map(|value| Choice { key, value })).collect()
}
