//! Memory over time as a picture of letters.

use unicode_width::UnicodeWidthStr;

use crate::table::size;

/// What is drawn: bytes over the columns.
pub(super) struct Chart<'a> {
    /// As many as there are columns in the picture, each the most of the steps that it stands for.
    pub(super) columns: &'a [usize],
    /// The parts of a step, each with as many columns; none where the step has no parts.
    pub(super) parts: &'a [(&'static str, usize)],
    /// What is there all the time.
    pub(super) resident: usize,
    /// The column of the peak, and what there is to say of it.
    pub(super) peak: usize,
    pub(super) caption: &'a str,
}

/// Lines of the picture.
const HEIGHT: usize = 6;

/// Columns before the picture.
pub(super) const MARGIN: usize = 10;

impl Chart<'_> {
    pub(super) fn draw(&self) -> String {
        let most = self.columns.iter().copied().max().unwrap_or(0);
        let mut text = String::new();
        for line in (0..HEIGHT).rev() {
            let label = match line {
                0 => "0 B".to_owned(),
                line if line == HEIGHT - 1 => size(most),
                _ => String::new(),
            };
            let cells: String = self.columns.iter().map(|&bytes| cell(bytes, self.resident, most, line)).collect();
            text += &format!("{label:>width$} {cells}", width = MARGIN - 1);
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        text + &below(&self.part_line()) + &below(&self.peak_line())
    }

    /// The name of each part where it begins, as far as there is room.
    fn part_line(&self) -> String {
        let mut line = String::new();
        for &(name, columns) in self.parts {
            let begin = if line.is_empty() { "" } else { "│" };
            line.extend(begin.chars().chain(name.chars()).chain(std::iter::repeat('╌')).take(columns));
        }
        line
    }

    /// A mark below the peak, with the caption on whichever side has room.
    fn peak_line(&self) -> String {
        let (width, caption) = (self.columns.len(), self.caption);
        if self.peak + 2 + caption.width() <= width {
            format!("{:peak$}▲ {caption}", "", peak = self.peak)
        } else if caption.width() < self.peak {
            format!("{caption:>before$} ▲", before = self.peak - 1)
        } else {
            format!("{:peak$}▲\n{caption}", "", peak = self.peak)
        }
    }
}

/// One letter of the picture: what is there all the time is lighter than what comes and goes.
fn cell(bytes: usize, resident: usize, most: usize, line: usize) -> char {
    const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let eighths = |bytes: usize| (bytes as f64 / most.max(1) as f64 * (HEIGHT * 8) as f64).round() as usize;
    let filled = |bytes: usize| eighths(bytes).saturating_sub(line * 8).min(8);
    if 2 * filled(resident) > 8 { '░' } else { EIGHTHS[filled(bytes)] }
}

fn below(lines: &str) -> String {
    lines.lines().map(|line| format!("{:MARGIN$}{line}\n", "")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_shows_what_stays_the_parts_and_the_peak() {
        let columns = [30, 45, 60, 48, 36, 30, 30, 30, 30, 30, 30, 30];
        let parts = [("forward", 3), ("backward", 9)];
        let chart = Chart { columns: &columns, parts: &parts, resident: 30, peak: 2, caption: "here" };
        let expected = "
     60 B   █
           ▄█▆
           ███▅
          ░░░░░░░░░░░░
          ░░░░░░░░░░░░
      0 B ░░░░░░░░░░░░
          for│backward
            ▲ here
";
        assert_eq!(chart.draw(), expected.trim_start_matches('\n'));
    }
}
