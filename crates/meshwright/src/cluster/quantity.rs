//! Numbers with units, as files of clusters have them.

use serde::Deserialize;

/// A plain number in the base unit, or a text such as `"25Gbit/s"`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Quantity {
    Number(f64),
    Text(String),
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Bytes,
    BytesPerSecond,
    FlopsPerSecond,
    Seconds,
    /// A share or a count: no unit.
    One,
}

/// Units by name, and how many base units each is.
const UNITS: &[(Unit, &str, f64)] = &[
    (Unit::Bytes, "B", 1.0),
    (Unit::Bytes, "MB", 1e6),
    (Unit::Bytes, "GB", 1e9),
    (Unit::Bytes, "TB", 1e12),
    (Unit::Bytes, "KiB", 1024.0),
    (Unit::Bytes, "MiB", 1048576.0),
    (Unit::Bytes, "GiB", 1073741824.0),
    (Unit::Bytes, "TiB", 1099511627776.0),
    (Unit::BytesPerSecond, "MB/s", 1e6),
    (Unit::BytesPerSecond, "GB/s", 1e9),
    (Unit::BytesPerSecond, "TB/s", 1e12),
    (Unit::BytesPerSecond, "GiB/s", 1073741824.0),
    (Unit::BytesPerSecond, "Gbit/s", 1e9 / 8.0),
    (Unit::BytesPerSecond, "Tbit/s", 1e12 / 8.0),
    (Unit::FlopsPerSecond, "GFLOP/s", 1e9),
    (Unit::FlopsPerSecond, "TFLOP/s", 1e12),
    (Unit::FlopsPerSecond, "PFLOP/s", 1e15),
    (Unit::Seconds, "ns", 1e-9),
    (Unit::Seconds, "us", 1e-6),
    (Unit::Seconds, "µs", 1e-6),
    (Unit::Seconds, "ms", 1e-3),
    (Unit::Seconds, "s", 1.0),
];

/// A number of bytes such as `14GiB`, or what is wrong and what to do about it.
pub fn parse_bytes(text: &str) -> Result<usize, (String, String)> {
    let quantity = match text.parse() {
        Ok(number) => Quantity::Number(number),
        Err(_) => Quantity::Text(text.to_owned()),
    };
    quantity.read(Unit::Bytes).map(|bytes| bytes.round() as usize)
}

impl Quantity {
    /// The number in base units, or what is wrong and what to do about it.
    pub(super) fn read(&self, unit: Unit) -> Result<f64, (String, String)> {
        let number = match self {
            Quantity::Number(number) => *number,
            Quantity::Text(text) => read_text(text, unit)?,
        };
        if number.is_finite() && number >= 0.0 {
            return Ok(number);
        }
        Err((format!("`{number}` is no amount"), "give a number that is not negative".to_owned()))
    }
}

fn read_text(text: &str, unit: Unit) -> Result<f64, (String, String)> {
    let trimmed = text.trim();
    let digits = trimmed.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(trimmed.len());
    let (number, name) = trimmed.split_at(digits);
    let known = UNITS.iter().find(|(of, known, _)| *of == unit && *known == name.trim_start());
    match (number.parse::<f64>(), known) {
        (Ok(number), Some((_, _, factor))) => Ok(number * factor),
        _ => {
            let names: Vec<&str> = UNITS.iter().filter(|(of, _, _)| *of == unit).map(|(_, name, _)| *name).collect();
            let hint = if names.is_empty() {
                "give a plain number".to_owned()
            } else {
                format!("give a number in one of {}", names.join(", "))
            };
            Err((format!("cannot read `{text}`"), hint))
        }
    }
}
