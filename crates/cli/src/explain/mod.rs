//! `meshwright explain`: what a plan decided about what, and why.

mod json;
mod text;

use std::path::PathBuf;

use clap::Args;
use meshwright::codes::Code;
use meshwright::tactics::Pattern;
use meshwright_report::plan::{ArgumentPart, ClassPart, PlanFile, unfold_name};
use serde_json::json;

use crate::error::{Answer, Error};
use crate::output;
use crate::plan::read_plan;
use crate::suggest::nearest;
use crate::table::paragraph;
use crate::terminal::terminal_width;

/// Explain a plan: what is cut how, what that costs, and what else was possible
///
/// Without a name you see what each axis of the mesh is used for, and what the dearest operations do.
/// With one, for every argument and operation that it names: how it lies, what decided that (computing,
/// moving or memory), and the runner-up, which is the cheapest other choice with all others as they are.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// File that `meshwright plan -o` wrote, or `-` for standard input; or the code of an error, such as `MW060`
    plan: PathBuf,
    /// Name of an argument such as `params.layers.0.mlp.up.weight`, scope of operations such as
    /// `layers.0.attn`, or a pattern of such names
    name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  meshwright explain plan.json
  meshwright explain MW060
  meshwright explain plan.json 'params.layers.*.attn.**'
  meshwright explain plan.json layers.0.mlp --json | jq '.classes[].decided_by'";

pub(crate) fn execute(arguments: &Arguments) -> Result<Answer, Error> {
    let width = terminal_width();
    let code = arguments.plan.to_str().and_then(Code::parse).filter(|_| !arguments.plan.exists());
    if let Some(code) = code {
        explain_code(code, arguments.json, width)?;
        return Ok(Answer::Yes);
    }
    let file = read_plan(&arguments.plan)?;
    match &arguments.name {
        None if arguments.json => output::print_json(&self::json::summary(&file))?,
        None => output::print(text::summary(&file, width).as_bytes())?,
        Some(name) => {
            let found = Found::new(&file, name)?;
            if arguments.json {
                output::print_json(&self::json::found(&file, &found))?;
            } else {
                output::print(text::found(&file, &found, width).as_bytes())?;
            }
        }
    }
    Ok(Answer::Yes)
}

/// Prints the page of a code.
fn explain_code(code: Code, as_json: bool, width: usize) -> Result<(), Error> {
    let page = code.page();
    if as_json {
        return output::print_json(&json!({ "code": code.to_string(), "title": page.title, "text": page.text }));
    }
    let text = format!("{code}: {}\n\n{}", page.title, paragraph(page.text, "", "", width));
    output::print(text.as_bytes())
}

/// What a name stands for.
struct Found<'f> {
    arguments: Vec<&'f ArgumentPart>,
    classes: Vec<&'f ClassPart>,
}

impl<'f> Found<'f> {
    fn new(file: &'f PlanFile, name: &str) -> Result<Found<'f>, Error> {
        let pattern = Pattern::new(name);
        let arguments: Vec<&ArgumentPart> =
            file.arguments.iter().filter(|argument| pattern.matches(&argument.name)).collect();
        let is_meant = |class: &&ClassPart| {
            // Updates go by the names of arguments, which say the same of them.
            let is_told = class.phase == "update" && !arguments.is_empty();
            !is_told
                && class.scopes.iter().flat_map(|scope| unfold_name(scope)).any(|scope| is_within(&pattern, &scope))
        };
        let classes: Vec<&ClassPart> = file.classes.iter().filter(is_meant).collect();
        if arguments.is_empty() && classes.is_empty() {
            let scopes: Vec<String> =
                file.classes.iter().flat_map(|class| &class.scopes).flat_map(|scope| unfold_name(scope)).collect();
            let known = file.arguments.iter().map(|argument| &argument.name).chain(&scopes);
            let near = nearest(name, known.map(String::as_str)).map(|near| format!("did you mean `{near}`?"));
            let some = "names are those of arguments, such as `batch.0`, and scopes, such as `layers.0`".to_owned();
            let error = Error::new(Code::NoSuchName, format!("the plan has no argument and no scope `{name}`"));
            return Err(error.hint(near.unwrap_or(some)));
        }
        Ok(Found { arguments, classes })
    }
}

/// Whether a pattern is a scope or one of those around it.
fn is_within(pattern: &Pattern, scope: &str) -> bool {
    let ends = scope.match_indices(['.', '/']).map(|(end, _)| end).chain([scope.len()]);
    ends.into_iter().any(|end| !scope.is_empty() && pattern.matches(&scope[..end]))
}

/// What decided that a class does what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecidedBy {
    Compute,
    Moving,
    Memory,
    /// Something else would take as long.
    Nothing,
    /// Nothing else goes with what the others do.
    Others,
}

impl DecidedBy {
    pub(crate) fn of(class: &ClassPart) -> DecidedBy {
        let Some(other) = class.runner_ups.first() else { return DecidedBy::Others };
        let (compute, moving) = (other.more_compute_seconds, other.more_moving_seconds);
        if other.over_bytes > 0 && compute + moving <= 0.0 {
            DecidedBy::Memory
        } else if compute + moving < LITTLE_SECONDS {
            DecidedBy::Nothing
        } else if compute >= moving {
            DecidedBy::Compute
        } else {
            DecidedBy::Moving
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            DecidedBy::Compute => "compute",
            DecidedBy::Moving => "moving",
            DecidedBy::Memory => "memory",
            DecidedBy::Nothing => "nothing",
            DecidedBy::Others => "others",
        }
    }
}

/// Less than the labelling tells apart.
const LITTLE_SECONDS: f64 = 1e-8;
