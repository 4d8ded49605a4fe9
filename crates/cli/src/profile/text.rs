//! The summary as people read it.

use std::ops::Range;

use meshwright::program::Phase;

use super::chart::{Chart, MARGIN};
use super::tree::{Row, Spread, rows};
use super::{PHASES, Summary, phase_name, present};
use crate::place::{op_name, op_place};
use crate::table::{Table, bar, count, counted, flops, paragraph, share, size};

/// Columns from which there is room for pictures in tables.
const PICTURES: usize = 60;

/// Columns from which there is room for every phase.
const WIDE: usize = 100;

/// A picture that is wider says no more.
const WIDEST_CHART: usize = 120;

impl Summary<'_> {
    pub(super) fn to_text(&self, width: usize, depth: usize, buffers: Option<usize>) -> String {
        let buffers = match buffers {
            Some(shown) => self.buffers(shown, width),
            None => "`--buffers 10` shows what is there at the peak.\n\n".to_owned(),
        };
        let tables = [self.memory(width), self.phases(width), self.chart(width), buffers, self.tree(depth, width)];
        self.verdict() + "\n" + &tables.concat()
    }

    /// All in one line.
    pub(super) fn verdict(&self) -> String {
        let devices = self.devices.as_ref().map(|devices| {
            let count = counted(devices.count, "device");
            format!(" on {}, one of {count}", devices.mesh)
        });
        format!(
            "{}{}: {}, {} a step, {} at the peak\n",
            self.name,
            devices.unwrap_or_default(),
            counted(self.profile.parameters(), "parameter"),
            flops(self.flops(None)),
            size(self.peak_bytes()),
        )
    }

    fn memory(&self, width: usize) -> String {
        let classes = self.at_peak();
        let (total, most) = (self.peak_bytes(), classes.iter().copied().max().unwrap_or(0));
        let mut table = Table::new(&["at the peak", "size", "share", ""]);
        for (class, bytes) in present(classes) {
            let picture = if width < PICTURES { String::new() } else { bar(bytes, most) };
            table.row([class.name().to_owned(), size(bytes), share(bytes as f64, total as f64), picture]);
        }
        table.render(width) + "\n"
    }

    fn phases(&self, width: usize) -> String {
        if self.profile.ops.is_empty() {
            return String::new();
        }
        let mut table = Table::new(&["phase", "operations", "share", "ops"]);
        let total = self.flops(None);
        for phase in PHASES {
            let ops = self.profile.ops.iter().filter(|record| record.phase == phase).count();
            if ops > 0 {
                let work = self.flops(Some(phase));
                table.row([phase_name(phase).to_owned(), flops(work), share(work, total), count(ops)]);
            }
        }
        table.render(width) + "\n" + &paragraph(&self.besides(), "", "", width) + "\n"
    }

    /// What there is besides arguments, in words.
    fn besides(&self) -> String {
        let memory = &self.profile.memory;
        let before = size(memory.forward_backward_bytes());
        if memory.steps.iter().all(|step| step.phase == Phase::Forward) {
            return format!("Besides arguments there is at most {before} at a time.");
        }
        let update = size(memory.update_bytes());
        let kept = match memory.saved_activation_bytes() {
            0 => String::new(),
            saved => format!(" Forward keeps {} for backward.", size(saved)),
        };
        format!("Besides arguments there is at most {before} until backward is over, and {update} from then on.{kept}")
    }

    fn chart(&self, width: usize) -> String {
        // What is one loop, or nothing at all, has no course of time to show.
        let Some(peak) = self.peak_step.filter(|_| self.timeline.len() > 1) else { return String::new() };
        if width < PICTURES {
            return String::new();
        }
        let columns = Columns { steps: self.timeline.len(), count: width.min(WIDEST_CHART).saturating_sub(MARGIN + 1) };
        let bytes = |step: usize| self.timeline[step].iter().sum::<usize>();
        let most = |column: usize| columns.steps_of(column).map(bytes).max().unwrap_or(0);
        let step = &self.profile.memory.steps[peak];
        let place = op_place(self.program(), step.op).map(|place| format!(" at {place}")).unwrap_or_default();
        let chart = Chart {
            columns: &(0..columns.count).map(most).collect::<Vec<_>>(),
            parts: &self.parts(&columns),
            resident: self.resident_bytes(),
            peak: columns.of_step(peak),
            caption: &format!("peak: {}, {}{place}", phase_name(step.phase), op_name(self.program(), step.op)),
        };
        format!("memory over the step, ░ for arguments and results\n{}\n", chart.draw())
    }

    /// Where in the picture the phases are. Updates may begin before the backward pass has come to its end.
    fn parts(&self, columns: &Columns) -> Vec<(&'static str, usize)> {
        let phases: Vec<Phase> = self.profile.memory.steps.iter().map(|step| step.phase).collect();
        let Some(span) = backward_span(&phases) else { return Vec::new() };
        let [begin, end] = [span.start, span.end].map(|step| columns.of_step(step));
        let backward = if phases[span].contains(&Phase::Update) { "backward and update" } else { "backward" };
        vec![("forward", begin), (backward, end - begin), ("update", columns.count - end)]
    }

    /// What is there at the peak, like ones told once.
    fn buffers(&self, shown: usize, width: usize) -> String {
        let kinds = self.kinds_at_peak();
        let mut table = Table::new(&["buffers at the peak", "type", "class", "count", "size"]).with_words(3);
        for kind in kinds.iter().take(shown) {
            let number = format!("x{}", count(kind.count));
            table.row([kind.name.clone(), kind.ty.clone(), kind.class.name().to_owned(), number, size(kind.bytes)]);
        }
        let rest = kinds.get(shown..).unwrap_or_default();
        if !rest.is_empty() {
            let bytes = rest.iter().map(|kind| kind.bytes).sum();
            table.row([
                format!("{} more", counted(rest.len(), "kind")),
                String::new(),
                String::new(),
                String::new(),
                size(bytes),
            ]);
        }
        table.render(width) + "\n"
    }

    fn tree(&self, depth: usize, width: usize) -> String {
        let mut rows = rows(&self.profile.modules, depth, &|work| self.profile.flops(work));
        rows.retain(|row| row.level == 0 || !row.is_empty());
        let is_wide = width >= WIDE;
        let heading: &[&str] = if is_wide {
            &["module", "parameters", "forward", "backward", "update", "share", "kept for backward"]
        } else {
            &["module", "parameters", "forward", "backward", "share", "kept"]
        };
        let mut table = Table::new(heading);
        rows.iter().for_each(|row| table.row(cells(row, self.flops(None), is_wide)));
        let mut text = table.render(width);
        if rows.iter().any(|row| row.count > 1) {
            let words = "Where a row stands for several modules, numbers in it and below it are those of each.";
            text += &format!("\n{}", paragraph(words, "", "", width));
        }
        text
    }
}

fn cells(row: &Row, total: f64, is_wide: bool) -> Vec<String> {
    let times = if row.count > 1 { format!(" ×{}", count(row.count)) } else { String::new() };
    let mut cells = vec![
        format!("{}{}{times}", "  ".repeat(row.level), row.name),
        shown(row.parameters, |number| count(number as usize)),
        shown(row.forward, flops),
        shown(row.backward, flops),
    ];
    cells.extend(is_wide.then(|| shown(row.update, flops)));
    cells.push(share(row.flops.most, total));
    cells.push(shown(row.saved_activation_bytes, |bytes| size(bytes as usize)));
    cells
}

/// A number, or the least and the most, with the unit once where it is the same. What is nothing is left out.
fn shown(spread: Spread, number: impl Fn(f64) -> String) -> String {
    let (least, most) = (number(spread.least), number(spread.most));
    if spread.most == 0.0 {
        return String::new();
    }
    if least == most {
        return most;
    }
    match (least.split_once(' '), most.split_once(' ')) {
        (Some((short, left)), Some((_, right))) if left == right => format!("{short}–{most}"),
        _ => format!("{least}–{most}"),
    }
}

/// Which steps a column of the picture stands for: several, or one that takes several columns.
struct Columns {
    steps: usize,
    count: usize,
}

impl Columns {
    fn steps_of(&self, column: usize) -> Range<usize> {
        let first = column * self.steps / self.count;
        first..((column + 1) * self.steps / self.count).max(first + 1)
    }

    /// The first column that stands for a step, or the number of columns where there is no such step.
    fn of_step(&self, step: usize) -> usize {
        (0..self.count).find(|&column| self.steps_of(column).end > step).unwrap_or(self.count)
    }
}

/// The steps of the backward pass, if there is one: up to its last step, and from where fewest backward steps are
/// before and fewest forward steps behind. Compilers run what has no operands at once, whatever it is for, so the
/// first backward step says little.
fn backward_span(phases: &[Phase]) -> Option<Range<usize>> {
    let end = 1 + phases.iter().rposition(|&phase| phase == Phase::Backward)?;
    let mut misplaced = phases[..end].iter().filter(|&&phase| phase == Phase::Forward).count();
    let (mut start, mut fewest) = (0, misplaced);
    for (index, phase) in phases[..end].iter().enumerate() {
        match phase {
            Phase::Forward => misplaced -= 1,
            Phase::Backward => misplaced += 1,
            Phase::Update => {}
        }
        if misplaced < fewest {
            (start, fewest) = (index + 1, misplaced);
        }
    }
    Some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(phases: &str, expected: Option<(usize, usize)>) {
        let phase = |letter| match letter {
            'f' => Phase::Forward,
            'b' => Phase::Backward,
            _ => Phase::Update,
        };
        let span = backward_span(&phases.chars().map(phase).collect::<Vec<_>>());
        assert_eq!(span.map(|span| (span.start, span.end)), expected);
    }

    #[test]
    fn the_backward_pass_begins_where_most_of_it_does() {
        check("", None);
        check("ffuu", None);
        check("fffbbbuu", Some((3, 6)));
        check("bufffbfbbubbuu", Some((5, 12)));
        check("bfff", Some((0, 1)));
    }

    #[test]
    fn a_range_has_its_unit_once() {
        let of = |least, most| shown(Spread { least, most }, flops);
        let found = [of(0.0, 0.0), of(2e9, 2e9), of(1e9, 2e9), of(5e8, 2e9), of(2e9, 2.0001e9)];
        assert_eq!(found, ["", "2.00 GFLOP", "1.00–2.00 GFLOP", "500 MFLOP–2.00 GFLOP", "2.00 GFLOP"]);
    }
}
