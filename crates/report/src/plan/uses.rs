//! What the axes of a plan are used for.

use meshwright::shard::Mesh;

use super::file::{ArgumentPart, PlanFile};
use crate::table::{count, counted, duration, share};

/// An axis of a plan's mesh.
#[derive(Clone, Debug)]
pub struct UsedAxis<'f> {
    pub name: &'f str,
    pub size: usize,
    pub is_time: bool,
    /// What it cuts, in words.
    pub uses: Vec<String>,
}

/// A plan in words, a sentence each. Literals stand in backticks.
pub fn in_words(file: &PlanFile) -> Vec<String> {
    let mut words: Vec<String> = axes(file).iter().map(UsedAxis::sentence).collect();
    let forward = || file.classes.iter().filter(|class| class.phase == "forward");
    let all: usize = forward().map(|class| class.count).sum();
    let again: usize = forward().filter(|class| class.keeping == "recomputed").map(|class| class.count).sum();
    words.push(match again {
        0 => "Nothing is computed again for the backward pass.".to_owned(),
        _ => format!(
            "{} of {} groups of forward operations are computed again for the backward pass.",
            count(again),
            count(all)
        ),
    });
    if let Some(stages) = &file.stages {
        let chunks = if stages.chunks > 1 { format!(" of {} chunks each", stages.chunks) } else { String::new() };
        let count = counted(stages.count, "stage");
        let devices = |text: &String| Mesh::parse(text).map_or(0, |mesh| mesh.devices()).to_string();
        let sizes = match stages.meshes.iter().map(devices).collect::<Vec<_>>() {
            sizes if sizes.is_empty() => String::new(),
            sizes => format!(" with {} devices", sizes.join(", ")),
        };
        let order = &stages.schedule;
        words.insert(0, format!("The model is cut into {count}{chunks}{sizes}, in the order `{order}`."));
    }
    let held = file.arguments.iter().filter(|argument| argument.on_host).count();
    if held > 0 {
        words.push(format!("{} of state lie on the host and are copied for their update.", counted(held, "argument")));
    }
    for split in &file.splits {
        words.push(format!(
            "What is largest in memory runs in {}, one after the other.",
            counted(split.slices, "slice")
        ));
    }
    words.push(format!(
        "Products alone take {}, whatever the plan; the choice among cuts is within {} of its proven bound.",
        duration(file.results.lower_bound_seconds),
        share(file.results.search_gap, 1.0),
    ));
    words
}

impl UsedAxis<'_> {
    /// Such as ``Axis `data` of 8 cuts the batch of 64 and all 388 parameters.``
    pub fn sentence(&self) -> String {
        let what = match self.uses.as_slice() {
            [] => "cuts nothing: all along it do the same".to_owned(),
            uses => format!("cuts {}", listed(uses)),
        };
        let time = if self.is_time { " in time" } else { "" };
        format!("Axis `{}` of {}{time} {what}.", self.name, count(self.size))
    }
}

/// `a`, `a and b`, `a, b and c`.
fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [word] => word.clone(),
        [words @ .., last] => format!("{} and {last}", words.join(", ")),
    }
}

pub fn axes(file: &PlanFile) -> Vec<UsedAxis<'_>> {
    let mut axes = Vec::new();
    for axis in file.mesh.split(',').filter(|axis| !axis.is_empty()) {
        let (name, size) = axis.split_once('=').unwrap_or((axis, "1"));
        let size = size.parse().unwrap_or(1);
        axes.push(UsedAxis { name, size, is_time: false, uses: uses(file, name) });
    }
    if file.microbatches > 1 {
        let when = if file.eager { "for each of them" } else { "once for all of them" };
        let uses = vec![format!(
            "the batch into {} microbatches, weights being gathered and gradients reduced {when}",
            count(file.microbatches)
        )];
        axes.push(UsedAxis { name: "micro", size: file.microbatches, is_time: true, uses });
    }
    axes
}

fn uses(file: &PlanFile, axis: &str) -> Vec<String> {
    let argument = |argument: &ArgumentPart| Lying {
        role: argument.role.clone(),
        stored: argument.stored.clone(),
        shape: shape(&argument.ty),
    };
    let mut uses = stored_uses(&file.arguments.iter().map(argument).collect::<Vec<_>>(), axis);
    let inner = |result: &str| {
        let (lies, sum) = result.split_once("] ").unwrap_or((result, ""));
        let dims = dims(lies);
        let is_first = dims.first().is_some_and(|dim| cuts(dim, axis));
        !is_first && (dims.iter().any(|dim| cuts(dim, axis)) || cuts_sum(sum, axis))
    };
    let forward = || file.classes.iter().filter(|class| class.phase == "forward");
    let cut: usize = forward().filter(|class| inner(&class.result)).map(|class| class.count).sum();
    if cut > 0 {
        let all: usize = forward().map(|class| class.count).sum();
        uses.push(format!("{} of {} groups of forward operations inside of samples", count(cut), count(all)));
    }
    uses
}

/// How an argument lies.
#[derive(Clone, Debug)]
pub(crate) struct Lying {
    /// `input`, `parameter` or `state`.
    pub(crate) role: String,
    /// Such as `[{data}, {}]`.
    pub(crate) stored: String,
    pub(crate) shape: Vec<usize>,
}

/// Which arguments an axis cuts, in words.
pub(crate) fn stored_uses(arguments: &[Lying], axis: &str) -> Vec<String> {
    let mut uses = Vec::new();
    let is_cut = |argument: &&Lying| dims(&argument.stored).iter().any(|dim| cuts(dim, axis));
    let of_role = |role: &'static str| arguments.iter().filter(move |argument| argument.role == role);
    for argument in of_role("input").filter(is_cut) {
        let cut = dims(&argument.stored).iter().position(|dim| cuts(dim, axis)).unwrap_or(0);
        let size = argument.shape.get(cut).copied().unwrap_or(1);
        let what = match cut {
            0 => format!("the batch of {}", count(size)),
            dim => format!("dimension {dim} of inputs, of size {}", count(size)),
        };
        if !uses.contains(&what) {
            uses.push(what);
        }
    }
    for (role, one, many) in [("parameter", "parameter", "parameters"), ("state", "value of state", "values of state")]
    {
        let (cut, all) = (of_role(role).filter(is_cut).count(), of_role(role).count());
        match (cut, all) {
            (0, _) => {}
            (1, 1) => uses.push(format!("the {one}")),
            _ if cut == all => uses.push(format!("all {} {many}", count(all))),
            _ => uses.push(format!("{} of {} {many}", count(cut), count(all))),
        }
    }
    uses
}

/// What cuts each dimension of a value that lies as `[{a}, {b,c}]`.
fn dims(stored: &str) -> Vec<&str> {
    let inside = stored.trim_start_matches('[').trim_end_matches(']');
    let inside = inside.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    inside.map_or_else(Vec::new, |inside| inside.split("}, {").collect())
}

fn cuts(dim: &str, axis: &str) -> bool {
    dim.split(',').any(|part| part.split(':').next() == Some(axis))
}

/// Whether `sum over {a,b}` is over an axis.
fn cuts_sum(sum: &str, axis: &str) -> bool {
    sum.split_once('{').is_some_and(|(_, rest)| cuts(rest.trim_end_matches('}'), axis))
}

/// The sizes of `tensor<2x3xf32>`.
fn shape(ty: &str) -> Vec<usize> {
    let inside = ty.strip_prefix("tensor<").and_then(|rest| rest.strip_suffix('>')).unwrap_or("");
    inside.split('x').map_while(|size| size.parse().ok()).collect()
}
