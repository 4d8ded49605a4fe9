//! What is explained, as people read it.

use meshwright::shard::Mesh;
use meshwright_report::picture::{parse_sharding, picture};
use meshwright_report::plan::{ArgumentPart, ClassPart, PlanFile, RunnerUpPart, given, in_words, unfold_name};

use super::{DecidedBy, Found};
use crate::names::{collapse, group};
use crate::table::{Table, count, counted, duration, paragraph, share, size};

/// Operations that are told.
const CLASSES: usize = 16;

/// Pictures are drawn where no more than so many things are told.
const PICTURES: usize = 4;

pub(super) fn summary(file: &PlanFile, width: usize) -> String {
    let results = &file.results;
    let mut text = format!(
        "Fits: {} of {} on the fullest device\n\n",
        size(results.peak_bytes as usize),
        size(file.memory_limit as usize)
    );
    let setting = format!("{} on {} by {}: {}", given(file), file.cluster.name, file.engine, file.whole_mesh());
    text += &paragraph(&setting, "", "  ", width);
    text += &format!("{} a step   MFU {}\n\n", duration(results.step_seconds), share(results.mfu, 1.0));
    for sentence in in_words(file) {
        text += &paragraph(&sentence, "", "  ", width);
    }
    text + "\n" + &classes(file, width)
}

/// The dearest classes; those that do the same are told once.
fn classes(file: &PlanFile, width: usize) -> String {
    let mut groups: Vec<(String, &ClassPart, usize, f64, f64)> = Vec::new();
    for class in &file.classes {
        let name = class_name(class);
        let is_same = |group: &&mut (String, &ClassPart, usize, f64, f64)| {
            let first = group.1;
            group.0 == name
                && (&first.phase, &first.keeping, &first.result) == (&class.phase, &class.keeping, &class.result)
        };
        match groups.iter_mut().find(is_same) {
            Some((_, _, times, computes, moves)) => {
                *times += class.count;
                *computes += class.compute_seconds;
                *moves += class.moving_seconds;
            }
            None => groups.push((name, class, class.count, class.compute_seconds, class.moving_seconds)),
        }
    }
    groups.sort_by(|left, right| (right.3 + right.4).total_cmp(&(left.3 + left.4)));
    let heading = ["operations", "pass", "times", "computes", "moves", "is", "result lies"];
    let mut table = Table::new(&heading).ending_in_prose();
    let more = groups.len().saturating_sub(CLASSES);
    for (name, class, times, computes, moves) in groups.into_iter().take(CLASSES) {
        let ClassPart { phase, keeping, result, .. } = class;
        let (computes, moves) = (duration(computes), duration(moves));
        table.row([name, phase.clone(), count(times), computes, moves, keeping.clone(), result.clone()]);
    }
    let note = "Both ends of a move count it; what is hidden behind computing counts less.";
    let rest = if more > 0 { format!("{} more.\n", counted(more, "group")) } else { String::new() };
    table.render(width) + &rest + "\n" + &paragraph(note, "", "", width)
}

/// What the first of a class is called, with numbers as `*`.
pub(crate) fn class_name(class: &ClassPart) -> String {
    let first = class.scopes.first().and_then(|scope| unfold_name(scope).into_iter().next()).unwrap_or_default();
    if first.is_empty() { class.phase.clone() } else { collapse(&first) }
}

pub(super) fn found(file: &PlanFile, found: &Found<'_>, width: usize) -> String {
    let mut parts: Vec<String> = Vec::new();
    let told = |argument: &&ArgumentPart| {
        let kind = format!("{} of type {}", argument.role, argument.ty);
        (argument.name.clone(), (kind, argument_text(file, argument, width)))
    };
    let groups = group(found.arguments.iter().map(told));
    let has_room = groups.len() + found.classes.len() <= PICTURES;
    let draw = |lies: &str, ty: Option<&str>| if has_room { drawn(file, lies, ty, width) } else { String::new() };
    for alike in groups {
        let (kind, text) = alike.what;
        let many = if alike.count > 1 { format!(", {} of them", count(alike.count)) } else { String::new() };
        let drawing = found.arguments.iter().find(|argument| told(argument).1 == (kind.clone(), text.clone()));
        let drawing = drawing.map(|argument| draw(&argument.stored, Some(&argument.ty))).unwrap_or_default();
        parts.push(paragraph(&format!("{}, {kind}{many}", alike.name), "", "  ", width) + &text + &drawing);
    }
    parts.extend(found.classes.iter().map(|class| class_text(class, width) + &draw(&class.result, None)));
    parts.join("\n")
}

/// A picture of how a value lies. The type of what operations make is not in plans.
fn drawn(file: &PlanFile, lies: &str, ty: Option<&str>, width: usize) -> String {
    let shape = ty.map(shape);
    let mesh = file.whole_mesh();
    let mesh = if mesh.is_empty() { Mesh::new(Vec::new()) } else { Mesh::parse(&mesh) };
    let drawn = mesh.and_then(|mesh| Ok(picture(&mesh, shape.as_deref(), &parse_sharding(lies, &mesh)?, width)));
    drawn.unwrap_or_default()
}

/// The sizes of `tensor<2x3xf32>`.
fn shape(ty: &str) -> Vec<usize> {
    let inside = ty.strip_prefix("tensor<").and_then(|rest| rest.strip_suffix('>')).unwrap_or("");
    inside.split('x').map_while(|size| size.parse().ok()).collect()
}

/// How an argument is stored, and why.
fn argument_text(file: &PlanFile, argument: &ArgumentPart, width: usize) -> String {
    let ArgumentPart { role, stored, local_bytes, on_host, decided_by, .. } = argument;
    let place = if *on_host { "on the host for each device" } else { "on a device" };
    let text = line(&format!("is stored as {stored}, {} {place}", size(*local_bytes as usize)), width);
    let Some(class) = decided_by.and_then(|class| file.classes.get(class)) else { return text };
    let how = if role == "input" { "as it is read" } else { "as its next value is made" };
    let place = format!("{how} in the {} pass by {}", class.phase, class.ops.join(", "));
    text + &line(&place.replace("update pass", "update"), width) + &why(class, width)
}

fn class_text(class: &ClassPart, width: usize) -> String {
    let scopes: Vec<&str> =
        class.scopes.iter().map(|scope| if scope.is_empty() { &*class.phase } else { scope }).collect();
    let times = if class.count == 1 { String::new() } else { format!(", {} times", count(class.count)) };
    let heading = format!("{}, {}{times}: {}", scopes.join(" "), class.phase, class.ops.join(", "));
    let mut text = paragraph(&heading, "", "  ", width);
    let kept = match class.keeping.as_str() {
        "kept" if class.phase == "forward" => ", and is kept while anybody reads it",
        "recomputed" => ", and is computed again for the backward pass",
        "dropped" => ", and is dropped: the backward pass does not read it",
        _ => "",
    };
    text += &line(&format!("its result lies as {}{kept}", class.result), width);
    let (computes, moves) = (duration(class.compute_seconds), duration(class.moving_seconds));
    text += &line(&format!("takes {computes} of computing and {moves} of moving"), width);
    text += &why(class, width);
    if let Some(source) = class.source.as_ref().filter(|source| !class.scopes.contains(source)) {
        text += &line(&format!("from {source}"), width);
    }
    text
}

/// What decided, and what else was possible.
fn why(class: &ClassPart, width: usize) -> String {
    let decided = match DecidedBy::of(class) {
        DecidedBy::Compute => "decided by computing",
        DecidedBy::Moving => "decided by moving",
        DecidedBy::Memory => "decided by memory",
        DecidedBy::Nothing => "decided by nothing: something else takes as long",
        DecidedBy::Others => "decided by others: nothing else goes with what is around it",
    };
    let mut text = line(decided, width);
    for other in &class.runner_ups {
        text += &line(&runner_up(class, other), width);
    }
    text
}

fn runner_up(class: &ClassPart, other: &RunnerUpPart) -> String {
    let lies = match (other.result == class.result, other.keeping == class.keeping) {
        (true, true) => "the same result, cut otherwise inside".to_owned(),
        (true, false) => format!("the same, {}", other.keeping),
        (false, true) => other.result.clone(),
        (false, false) => format!("{}, {}", other.result, other.keeping),
    };
    let (compute, moving) = (signed(other.more_compute_seconds), signed(other.more_moving_seconds));
    let total = other.more_compute_seconds + other.more_moving_seconds;
    let costs = format!("{} (computing {compute}, moving {moving})", signed(total));
    match other.over_bytes {
        0 => format!("runner-up: {lies}: {costs}"),
        over => format!("does not fit: {lies}: {costs}, and {} too much in memory", size(over as usize)),
    }
}

/// Seconds with their sign: `+1.20 ms`.
pub(crate) fn signed(seconds: f64) -> String {
    // Rounding is no difference.
    let seconds = if seconds.abs() < 1e-8 { 0.0 } else { seconds };
    if seconds < 0.0 { format!("-{}", duration(-seconds)) } else { format!("+{}", duration(seconds)) }
}

fn line(words: &str, width: usize) -> String {
    paragraph(words, "  ", "    ", width)
}
