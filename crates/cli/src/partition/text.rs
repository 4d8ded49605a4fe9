//! The summary as people read it.

use std::collections::BTreeMap;
use std::fmt::Write;

use meshwright::lower::{CollectiveKind, Measures, Reason, measure};
use meshwright::program::ArgumentClass;
use unicode_width::UnicodeWidthStr;

use super::json::value_name;
use super::{Stored, Summary};
use crate::names::{collapse, collapse_literals, group};
use crate::place::{location, op_name, short_type};
use crate::table::{Table, count, counted, duration, paragraph, size};

/// As many kinds of reshards are shown.
const SHOWN: usize = 10;

/// Columns from which headings are spelled out and local types shown.
const WIDE: usize = 112;

impl Summary<'_> {
    pub(super) fn to_text(&self, width: usize, all: bool) -> String {
        let devices = counted(self.mesh.devices(), "device");
        let mut text = format!("{} on {}: {devices}\n\n", self.name, self.mesh);
        text += &self.costs(width);
        text += &self.notes(width);
        text += &self.conflicts(width);
        text += &self.layout(width, all);
        text + &self.reshards(width, all)
    }

    /// A row per tactic.
    fn costs(&self, width: usize) -> String {
        let heading = if width < WIDE {
            ["after", "gather", "reduce", "scatter", "to-all", "perm", "moved", "peak", "est. time"]
        } else {
            [
                "after",
                "all-gather",
                "all-reduce",
                "reduce-scatter",
                "all-to-all",
                "permute",
                "moved",
                "peak memory",
                "est. time",
            ]
        };
        let mut table = Table::new(&heading);
        let whole = measure(self.program);
        table.row(cost_cells("(nothing)", &whole));
        for feedback in &self.partitioned.feedback {
            table.row(cost_cells(&feedback.tactic, &feedback.measures));
        }
        let mut text = table.render(width);
        text.push('\n');
        let mut facts = "Per device and step, with all tactics up to that row.".to_owned();
        match self.measures().scalar_collectives {
            0 => {}
            1 => facts += " One of the last row's collectives moves a single number.",
            scalars => {
                let _ = write!(facts, " {} of the last row's collectives move single numbers.", count(scalars));
            }
        }
        facts += " Times are a first estimate of communication alone.";
        text + &paragraph(&facts, "", "", width) + "\n"
    }

    /// What tactics asked for in vain.
    fn notes(&self, width: usize) -> String {
        let mut kinds: Vec<(String, usize)> = Vec::new();
        for feedback in &self.partitioned.feedback {
            for note in &feedback.notes {
                let note = format!("{}: {}", feedback.tactic, collapse_literals(note));
                match kinds.iter_mut().find(|(known, _)| *known == note) {
                    Some((_, times)) => *times += 1,
                    None => kinds.push((note, 1)),
                }
            }
        }
        if kinds.is_empty() {
            return String::new();
        }
        let mut text = "notes\n".to_owned();
        for (note, times) in kinds {
            text += &paragraph(&format!("{note}{}", repeated(times)), "  ", "    ", width);
        }
        text + "\n"
    }

    /// What tactics want from each other, told once for each pair of tactics and axis.
    fn conflicts(&self, width: usize) -> String {
        let axis = |piece| self.mesh.axis_of(piece);
        let conflicts = &self.partitioned.conflicts;
        let mut kinds: Vec<(usize, usize)> = Vec::new();
        for (index, conflict) in conflicts.iter().enumerate() {
            let key = (axis(conflict.piece), conflict.wanted_by, conflict.taken_by);
            let is_known = |&(first, _): &(usize, usize)| {
                let first = &conflicts[first];
                (axis(first.piece), first.wanted_by, first.taken_by) == key
            };
            match kinds.iter().position(is_known) {
                Some(known) => kinds[known].1 += 1,
                None => kinds.push((index, 1)),
            }
        }
        if kinds.is_empty() {
            return String::new();
        }
        let mut text = "conflicts\n".to_owned();
        for &(first, times) in &kinds {
            text += &paragraph(&self.conflict(first, times), "  ", "    ", width);
        }
        let hint = format!(
            "hint: put the tactic that matters more first, or keep these operations whole with `keep_whole = [\"{}\"]` \
             in a tactic before",
            self.scope_pattern(kinds[0].0)
        );
        text + &paragraph(&hint, "  ", "    ", width) + "\n"
    }

    /// A pattern that finds the scope of a conflict in every layer.
    fn scope_pattern(&self, index: usize) -> String {
        let op = self.partitioned.conflicts[index].op;
        let scope = &self.program.locations[self.program.ops[op].location].scope;
        // What tracing put around a scope is no part of patterns.
        if scope.is_empty() || scope.contains('(') { "scope".to_owned() } else { collapse(scope) }
    }

    fn conflict(&self, index: usize, times: usize) -> String {
        let conflict = &self.partitioned.conflicts[index];
        let axis = &self.mesh.axes[self.mesh.axis_of(conflict.piece)].name;
        let place = location(self.program, conflict.op).map(|place| format!(" at {place}")).unwrap_or_default();
        let (wanted, taken) = (self.tactic(conflict.wanted_by), self.tactic(conflict.taken_by));
        let value = value_name(self.program, conflict.value);
        let ty = short_type(self.program.ty(conflict.value));
        let other = if wanted == taken { "also uses" } else { "uses" };
        format!(
            "{} over `{axis}`: {wanted} cuts dimension {} of `{value}` {ty}, {taken} {other} `{axis}` for another \
             dimension in {}{place}{}",
            counted(times, "conflict"),
            conflict.dim,
            op_name(self.program, conflict.op),
            if times > 1 { ", and so on" } else { "" },
        )
    }

    /// How arguments and results lie. State that lies like its parameter is told in a sentence.
    fn layout(&self, width: usize, all: bool) -> String {
        let arguments = self.arguments();
        let (told, state) = if all { (arguments, Vec::new()) } else { apart(arguments) };
        let mut text = self.table("arguments", &told, width) + "\n";
        if !state.is_empty() {
            let sentence =
                format!("{} of state lie like the parameters of the same names.", counted(state.len(), "argument"));
            text += &(paragraph(&sentence, "", "", width) + "\n");
        }
        let mut is_next = vec![false; self.program.results.len()];
        self.partitioned.anatomy.next.iter().flatten().for_each(|&result| is_next[result] = true);
        let results: Vec<_> = self.results().into_iter().zip(&is_next).collect();
        let others: Vec<Stored<'_>> =
            results.into_iter().filter(|(_, is_next)| !**is_next).map(|(stored, _)| stored).collect();
        let next = is_next.len() - others.len();
        if !others.is_empty() {
            text += &(self.table("results", &others, width) + "\n");
        }
        let more = if others.is_empty() { "" } else { " more" };
        match next {
            0 => {}
            1 => text += &format!("One{more} result is the next value of an argument and lies like it.\n\n"),
            next => {
                let next = count(next);
                text += &format!("{next}{more} results are the next values of arguments and lie like them.\n\n");
            }
        }
        text
    }

    fn table(&self, title: &str, values: &[Stored<'_>], width: usize) -> String {
        let is_wide = width >= WIDE;
        let rows = values.iter().map(|stored| {
            let local = short_type(&stored.sharding.local_type(self.mesh, stored.ty));
            (stored.name.clone(), (short_type(stored.ty), stored.sharding.describe(self.mesh), local))
        });
        let heading: &[&str] = if is_wide {
            &[title, "type", "cut by", "on a device", "count"]
        } else {
            &[title, "type", "cut by", "count"]
        };
        let mut table = Table::new(heading).with_words(heading.len() - 1);
        for alike in group(rows) {
            let (ty, cut, local) = alike.what;
            let mut cells = vec![alike.name, ty, cut];
            cells.extend(is_wide.then_some(local));
            cells.push(format!("x{}", count(alike.count)));
            table.row(cells);
        }
        table.render(width)
    }

    /// Where values change their form, the dearest first, like ones told once.
    fn reshards(&self, width: usize, all: bool) -> String {
        let kinds = self.reshard_kinds();
        let total: usize = kinds.iter().map(|kind| kind.times).sum();
        if total == 0 {
            return String::new();
        }
        // What moves nothing between devices is of interest to few.
        let moving = kinds.iter().filter(|kind| kind.bytes > 0.0).count();
        let shown = if all { kinds.len() } else { SHOWN.min(moving) };
        let (values, of) = (counted(total, "value"), counted(kinds.len(), "kind"));
        let mut text = match shown {
            shown if shown == kinds.len() => format!("reshards: {values} of {of}\n"),
            0 => format!("reshards: {values} of {of}, none of which is sent; `--all` shows them\n"),
            shown => format!("reshards: the {shown} dearest of {of}, {values}; `--all` shows the rest\n"),
        };
        for kind in &kinds[..shown] {
            let head = format!("{:>9}  {:>5}", size(kind.bytes as usize), format!("x{}", count(kind.times)));
            let indent = " ".repeat(head.width());
            text += &flow(&head, &indent, [&kind.title, &kind.place], " ", width);
            text += &flow(&indent, &indent, [&format!("{} → {}", kind.from, kind.to), &kind.steps], "  ", width);
            let indent = indent + "  ";
            text += &paragraph(&kind.reason, &indent, &indent, width);
        }
        text
    }

    fn reshard_kinds(&self) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = Vec::new();
        for (reshard, explanation) in self.partitioned.local.reshards.iter().zip(&self.partitioned.explanations) {
            let name = explanation.op.map_or("argument", |op| op_name(self.program, op));
            let place = explanation.op.and_then(|op| location(self.program, op));
            let place = place.map(|place| format!("at {}", collapse_place(&place))).unwrap_or_default();
            let verb = match reshard.reason {
                Reason::Made { .. } => "made by",
                Reason::Read { .. } => "read by",
                Reason::Stored { .. } => "stored from",
            };
            let to = reshard.moves.last().map_or(&reshard.from, |last| &last.to);
            let steps: Vec<String> = reshard.moves.iter().map(|next| next.step.describe(self.mesh)).collect();
            let kind = Kind {
                title: format!("{} {verb} {name}", short_type(self.program.ty(reshard.value))),
                place,
                from: reshard.from.describe(self.mesh),
                to: to.describe(self.mesh),
                steps: steps.join(", "),
                reason: collapse_literals(&explanation.reason),
                bytes: explanation.bytes,
                times: 1,
            };
            match kinds.iter_mut().find(|known| known.is_like(&kind)) {
                Some(known) => {
                    known.bytes += kind.bytes;
                    known.times += 1;
                }
                None => kinds.push(kind),
            }
        }
        // The sort keeps the order of the program among equals.
        kinds.sort_by(|left, right| right.bytes.total_cmp(&left.bytes));
        kinds
    }
}

/// Reshards that differ in the number of their layer only.
struct Kind {
    title: String,
    place: String,
    from: String,
    to: String,
    steps: String,
    reason: String,
    bytes: f64,
    times: usize,
}

impl Kind {
    fn is_like(&self, other: &Kind) -> bool {
        self.title == other.title
            && self.place == other.place
            && self.from == other.from
            && self.to == other.to
            && self.steps == other.steps
            && self.reason == other.reason
    }
}

/// Takes those arguments apart that lie like a parameter whose name they end with.
fn apart(arguments: Vec<Stored<'_>>) -> (Vec<Stored<'_>>, Vec<Stored<'_>>) {
    let tail = |name: &str| name.split_once('.').map(|(_, tail)| tail.to_owned());
    let mut parameters: BTreeMap<String, usize> = BTreeMap::new();
    for (index, stored) in
        arguments.iter().enumerate().filter(|(_, stored)| stored.class == Some(ArgumentClass::Parameter))
    {
        parameters.extend(tail(&stored.name).map(|tail| (tail, index)));
    }
    let lies_like_parameter = |stored: &Stored<'_>| {
        let mut rest = tail(&stored.name);
        while let Some(name) = rest {
            if let Some(&index) = parameters.get(&name) {
                let parameter = &arguments[index];
                return parameter.ty.shape == stored.ty.shape && parameter.sharding == stored.sharding;
            }
            rest = tail(&name);
        }
        false
    };
    let is_told: Vec<bool> = arguments
        .iter()
        .map(|stored| stored.class != Some(ArgumentClass::State) || !lies_like_parameter(stored))
        .collect();
    let (told, like): (Vec<_>, Vec<_>) = arguments.into_iter().zip(is_told).partition(|(_, is_told)| *is_told);
    let stored = |pairs: Vec<(_, bool)>| pairs.into_iter().map(|(stored, _)| stored).collect();
    (stored(told), stored(like))
}

fn cost_cells(name: &str, measures: &Measures) -> [String; 9] {
    let number = |kind| count(measures.count(kind));
    [
        name.to_owned(),
        number(CollectiveKind::AllGather),
        number(CollectiveKind::AllReduce),
        number(CollectiveKind::ReduceScatter),
        number(CollectiveKind::AllToAll),
        number(CollectiveKind::CollectivePermute),
        size(measures.bytes_moved as usize),
        size(measures.peak_bytes),
        duration(measures.communication_seconds),
    ]
}

/// A place in a file stays as it is; in a scope the number of a layer does not matter.
fn collapse_place(place: &str) -> String {
    if place.contains(':') { place.to_owned() } else { collapse(place) }
}

fn repeated(times: usize) -> String {
    if times > 1 { format!(" (x{})", count(times)) } else { String::new() }
}

/// Two fields side by side behind a head, or below each other where there is no room.
fn flow(head: &str, indent: &str, [first, second]: [&str; 2], gap: &str, width: usize) -> String {
    let line = format!("{head}  {first}{gap}{second}");
    if line.width() <= width || second.is_empty() {
        return line.trim_end().to_owned() + "\n";
    }
    format!("{head}  {first}\n{indent}  {second}\n")
}
