//! The summary as people read it.

use meshwright::profile::Module;
use meshwright::program::Phase;

use super::chart::{Chart, MARGIN};
use super::tree::{Range, Row, rows};
use super::{PHASES, Summary, op_place, phase_name, present};
use crate::place::op_name;
use crate::table::{Table, bar, count, counted, flops, paragraph, size};

/// Columns from which there is room for pictures in tables.
const PICTURES: usize = 60;

/// A picture that is wider says no more.
const WIDEST_CHART: usize = 120;

impl Summary<'_> {
    pub(super) fn to_text(&self, width: usize, depth: usize, buffers: Option<usize>) -> String {
        let mut text = self.verdict() + "\n" + &self.memory(width) + &self.phases(width) + &self.chart(width);
        if let Some(shown) = buffers {
            text += &self.buffers(shown, width);
        }
        text + &self.tree(depth, width)
    }

    /// All in one line.
    fn verdict(&self) -> String {
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
        let mut table = Table::new(&["phase", "operations", "share", "ops", "memory besides"]);
        let total = self.flops(None);
        for phase in PHASES {
            let ops = self.profile.ops.iter().filter(|record| record.phase == phase).count();
            if ops > 0 {
                let (work, made) = (self.flops(Some(phase)), self.profile.memory.phase_bytes(&[phase]));
                let name = phase_name(phase).to_owned();
                table.row([name, flops(work), share(work, total), count(ops), size(made)]);
            }
        }
        let mut words = "Memory besides is the most that there is besides arguments and results.".to_owned();
        match self.profile.memory.saved_activation_bytes() {
            0 => {}
            saved => words += &format!(" {} of it are kept from forward to backward.", size(saved)),
        }
        table.render(width) + "\n" + &paragraph(&words, "", "", width) + "\n"
    }

    fn chart(&self, width: usize) -> String {
        let (Some(peak), steps) = (self.peak_step, self.timeline.len()) else { return String::new() };
        let columns = width.min(WIDEST_CHART).saturating_sub(MARGIN + 1).max(1);
        // A step may be several columns wide, or a column several steps.
        let first = |column: usize| column * steps / columns;
        let past = |column: usize| ((column + 1) * steps / columns).max(first(column) + 1);
        let bytes = |step: usize| self.timeline[step].iter().sum::<usize>();
        let most = |column: usize| (first(column)..past(column)).map(bytes).max().unwrap_or(0);
        let op = self.profile.memory.steps[peak].op;
        let place = op_place(self.program(), op).map(|place| format!(" in {place}")).unwrap_or_default();
        let phase = phase_name(self.profile.memory.steps[peak].phase);
        let chart = Chart {
            columns: &(0..columns).map(most).collect::<Vec<_>>(),
            phases: &(0..columns).map(|column| self.main_phase(first(column)..past(column))).collect::<Vec<_>>(),
            resident: self.resident_bytes(),
            peak: (0..columns).find(|&column| past(column) > peak).unwrap_or(0),
            caption: &format!("peak: {phase}, {}{place}", op_name(self.program(), op)),
        };
        format!("memory over {}, ░ for arguments and results\n{}\n", counted(steps, "step"), chart.draw())
    }

    /// The phase of most of some steps.
    fn main_phase(&self, steps: std::ops::Range<usize>) -> Phase {
        let number =
            |phase: &Phase| self.profile.memory.steps[steps.clone()].iter().filter(|step| step.phase == *phase).count();
        PHASES.into_iter().max_by_key(|phase| (number(phase), std::cmp::Reverse(*phase))).unwrap_or(Phase::Forward)
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
        let rows = rows(&self.profile.modules, depth, &|work| self.profile.flops(work));
        let mut table = Table::new(&["module", "parameters", "forward", "backward", "share", "kept"]);
        let total = self.flops(None);
        for row in &rows {
            table.row(cells(row, total));
        }
        if depth > 0 && rows.len() > 1 {
            let outside = outside(&self.profile.modules);
            if outside.ops > 0 {
                let work = |phase| flops(self.profile.flops(outside.work(phase)));
                let share = share(self.profile.flops(outside.total_work()), total);
                let (forward, backward) = (work(Phase::Forward), work(Phase::Backward));
                let (parameters, kept) = (count(outside.parameters), size(outside.saved_activation_bytes));
                table.row(["  (no module)".to_owned(), parameters, forward, backward, share, kept]);
            }
        }
        let mut text = table.render(width);
        if rows.iter().any(|row| row.count > 1) {
            let words = "Where a row stands for several modules, numbers in it and below it are those of each.";
            text += &format!("\n{}", paragraph(words, "", "", width));
        }
        text
    }
}

fn cells(row: &Row, total: f64) -> [String; 6] {
    let times = if row.count > 1 { format!(" ×{}", count(row.count)) } else { String::new() };
    [
        format!("{}{}{times}", "  ".repeat(row.level), row.name),
        shown(row.parameters, |number| count(number as usize)),
        shown(row.forward, flops),
        shown(row.backward, flops),
        share(row.flops.most, total),
        shown(row.saved_activation_bytes, |bytes| size(bytes as usize)),
    ]
}

/// A number, or the least and the most, with the unit once where it is the same.
fn shown(range: Range, number: impl Fn(f64) -> String) -> String {
    let (least, most) = (number(range.least), number(range.most));
    if least == most {
        return most;
    }
    match (least.split_once(' '), most.split_once(' ')) {
        (Some((short, left)), Some((_, right))) if left == right => format!("{short}–{most}"),
        _ => format!("{least}–{most}"),
    }
}

fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.1}%", 100.0 * part / whole) } else { String::new() }
}

/// What stands in no module at all.
fn outside(root: &Module) -> Module {
    let mut rest = Module { modules: Vec::new(), ..root.clone() };
    for inner in &root.modules {
        rest.ops -= inner.ops;
        rest.parameters -= inner.parameters;
        rest.saved_activation_bytes -= inner.saved_activation_bytes;
        for (sum, work) in rest.work.iter_mut().zip(inner.work) {
            *sum = sum.plus(work.times(-1.0));
        }
    }
    rest
}
