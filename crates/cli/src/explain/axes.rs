//! What the axes of a plan are used for.

use meshwright_report::plan::{ArgumentPart, PlanFile};

use crate::table::count;

/// An axis of a plan's mesh.
pub(super) struct Axis<'f> {
    pub(super) name: &'f str,
    pub(super) size: usize,
    pub(super) is_time: bool,
    /// What it cuts, in words.
    pub(super) uses: Vec<String>,
}

pub(super) fn axes(file: &PlanFile) -> Vec<Axis<'_>> {
    let mut axes = Vec::new();
    for axis in file.mesh.split(',').filter(|axis| !axis.is_empty()) {
        let (name, size) = axis.split_once('=').unwrap_or((axis, "1"));
        let size = size.parse().unwrap_or(1);
        axes.push(Axis { name, size, is_time: false, uses: uses(file, name) });
    }
    if file.microbatches > 1 {
        let when = if file.eager { "for each of them" } else { "once for all of them" };
        let uses = vec![format!(
            "the batch into {} microbatches, weights being gathered and gradients reduced {when}",
            count(file.microbatches)
        )];
        axes.push(Axis { name: "micro", size: file.microbatches, is_time: true, uses });
    }
    axes
}

fn uses(file: &PlanFile, axis: &str) -> Vec<String> {
    let mut uses = Vec::new();
    let is_cut = |argument: &&ArgumentPart| dims(&argument.stored).iter().any(|dim| cuts(dim, axis));
    let of_role = |role: &'static str| file.arguments.iter().filter(move |argument| argument.role == role);
    for argument in of_role("input").filter(is_cut) {
        let cut = dims(&argument.stored).iter().position(|dim| cuts(dim, axis)).unwrap_or(0);
        let size = shape(&argument.ty).get(cut).copied().unwrap_or(1);
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
