//! Plain tables and numbers for people.

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

/// A table with a heading row. The first column stands left, the others right; a name that is too
/// long for the terminal loses its beginning, which says less than its end.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
    /// As many columns stand left.
    words: usize,
    /// The last column is prose: it stands left, and nothing is cut for its sake.
    ends_in_prose: bool,
}

impl Table {
    pub fn new(heading: &[&str]) -> Table {
        Table { rows: vec![heading.iter().map(|&cell| cell.to_owned()).collect()], words: 1, ends_in_prose: false }
    }

    /// The same table with words in its first columns.
    pub fn with_words(self, words: usize) -> Table {
        Table { words, ..self }
    }

    /// The same table with its last column as prose.
    pub fn ending_in_prose(self) -> Table {
        Table { ends_in_prose: true, ..self }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub fn render(&self, width: usize) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut widths: Vec<usize> = (0..columns)
            .map(|column| {
                self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0)
            })
            .collect();
        if let (true, Some(last)) = (self.ends_in_prose, widths.last_mut()) {
            *last = 0;
        }
        let others: usize = widths.iter().skip(1).map(|width| GAP.len() + width).sum();
        if let Some(first) = widths.first_mut() {
            *first = (*first).min(width.saturating_sub(others).max(NARROWEST));
        }
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if column == 0 {
                    let cell = shorten(cell, *width);
                    let padding = width - cell.width();
                    let _ = write!(line, "{cell}{:padding$}", "");
                } else {
                    let padding = width.saturating_sub(cell.width());
                    let _ = if column < self.words {
                        write!(line, "{GAP}{cell}{:padding$}", "")
                    } else {
                        write!(line, "{GAP}{:padding$}{cell}", "")
                    };
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

const GAP: &str = "  ";

/// A name is never cut below this, however narrow the terminal is.
const NARROWEST: usize = 12;

/// A whole number with thousands separators: `124,439,808`.
pub fn count(number: usize) -> String {
    grouped(number as i128)
}

/// A number with commas between groups of digits.
pub fn grouped(number: i128) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = if number < 0 { "-".to_owned() } else { String::new() };
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count and its noun: `1 loop`, `2 loops`.
pub fn counted(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// A number of bytes with three digits and a unit: `474 MiB`.
pub fn size(bytes: usize) -> String {
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
        // What would round up to 1024 of one unit is 1 of the next.
        if value < 1023.5 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    let decimals = if unit == "B" || value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.decimals$} {unit}")
}

/// A number of seconds with three digits and a unit: `12.5 ms`.
pub fn duration(seconds: f64) -> String {
    let (value, unit) = match seconds {
        seconds if seconds <= 0.0 => return "0 s".to_owned(),
        seconds if seconds < 0.9995e-3 => (seconds * 1e6, "µs"),
        seconds if seconds < 0.9995 => (seconds * 1e3, "ms"),
        seconds => (seconds, "s"),
    };
    let decimals = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.decimals$} {unit}")
}

/// A number of floating-point operations with three digits and a unit: `2.71 TFLOP`.
pub fn flops(operations: f64) -> String {
    let units = ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "ZFLOP", "YFLOP"];
    let (mut value, mut unit) = (operations, 0);
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = if unit == 0 || value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.decimals$} {}", units[unit])
}

/// A part of a whole: `12.5%`.
pub fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.1}%", 100.0 * part / whole) } else { String::new() }
}

/// Words in lines no longer than `width`, where words allow.
pub fn paragraph(words: &str, first: &str, rest: &str, width: usize) -> String {
    let mut text = String::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in words.split(' ') {
        if !is_empty && line.width() + 1 + word.width() > width {
            text += &(line + "\n");
            line = rest.to_owned();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    text + &line + "\n"
}

/// A bar of at most twenty cells for `number` of `most`, padded to that width.
pub fn bar(number: usize, most: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (number as f64 / most.max(1) as f64 * (BAR * 8) as f64).round() as usize;
    let text = "█".repeat(eighths / 8) + EIGHTHS[eighths % 8];
    format!("{text:BAR$}")
}

/// Cells of the longest bar.
const BAR: usize = 20;

/// The end of a text, no wider than `width`, with a mark where something is missing.
fn shorten(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut end: &str = text;
    while end.width() >= width {
        let mut letters = end.chars();
        letters.next();
        end = letters.as_str();
    }
    format!("…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0, 1023, 1024, 10_485_760, 1 << 40].map(size),
            ["0 B", "1023 B", "1.00 KiB", "10.0 MiB", "1.00 TiB"]
        );
        assert_eq!(size((1 << 20) - 1), "1.00 MiB");
        assert_eq!(
            [0.0, 1.5e-5, 0.9996e-3, 0.0125, 250.4].map(duration),
            ["0 s", "15.0 µs", "1.00 ms", "12.5 ms", "250 s"]
        );
    }

    #[test]
    fn operations_read_well() {
        let given = [0.0, 999.0, 999.6, 12_345.0, 2.7149e12, 999.9e12, 1e30];
        let expected = ["0 FLOP", "999 FLOP", "1.00 kFLOP", "12.3 kFLOP", "2.71 TFLOP", "1.00 PFLOP", "1000000 YFLOP"];
        assert_eq!(given.map(flops), expected);
    }

    #[test]
    fn a_table_keeps_to_the_width() {
        let mut table = Table::new(&["name", "count"]);
        table.row(["a.very.long.name.indeed".to_owned(), "1".to_owned()]);
        table.row(["short".to_owned(), "1,000".to_owned()]);
        assert_eq!(table.render(21), "name            count\n…g.name.indeed      1\nshort           1,000\n");
    }
}
