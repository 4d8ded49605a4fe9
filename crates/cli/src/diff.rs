//! `meshwright diff`: what two plans do differently.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use meshwright::codes::Code;
use meshwright_report::plan::{ArgumentPart, PlanFile, fold_names, given, unfold_name};
use serde_json::{Value, json};

use crate::error::{Answer, Error};
use crate::input::is_stdin;
use crate::names::{Alike, collapse, group};
use crate::output;
use crate::plan::read_plan;
use crate::table::{Table, count, duration, paragraph, share, size};
use crate::terminal::terminal_width;

/// Show what two plans do differently
///
/// You see where their models, clusters, meshes, microbatches, times and memory differ, which operations
/// are cut or kept otherwise, and which arguments are stored otherwise. The exit code is 1 if they differ.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// File that `meshwright plan -o` wrote
    left: PathBuf,
    /// Another such file
    right: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  meshwright diff before.json after.json
  meshwright diff 16gib.json 40gib.json --json | jq '.arguments | length'";

pub(crate) fn execute(arguments: &Arguments) -> Result<Answer, Error> {
    if is_stdin(&arguments.left) && is_stdin(&arguments.right) {
        return Err(Error::new(Code::StandardInputTwice, "two plans cannot both be standard input")
            .hint("give one of them as a file"));
    }
    let (left, right) = (read_plan(&arguments.left)?, read_plan(&arguments.right)?);
    let difference = Difference::new(&left, &right);
    if arguments.json {
        output::print_json(&difference.to_json())?;
    } else {
        output::print(difference.to_text(terminal_width()).as_bytes())?;
    }
    Ok(if difference.is_empty() { Answer::Yes } else { Answer::No })
}

/// Shares below this are told as nothing.
const LITTLE: f64 = 5e-4;

/// What is different.
struct Difference {
    settings: Vec<Setting>,
    classes: Vec<ChangedClass>,
    arguments: Vec<Changed>,
}

/// Something about a plan as a whole, in words and for programs.
struct Setting {
    key: &'static str,
    name: &'static str,
    told: [String; 2],
    values: [Value; 2],
    /// How much more the second has of it.
    more: Option<f64>,
}

/// Something by its name, in one plan and in the other; nothing where it is not there.
struct Changed {
    name: String,
    sides: [Option<String>; 2],
}

/// Operations by what they are, and what they do in each plan.
struct ChangedClass {
    scopes: Vec<String>,
    phase: String,
    ops: String,
    count: usize,
    sides: [Option<String>; 2],
}

impl Difference {
    fn new(left: &PlanFile, right: &PlanFile) -> Difference {
        let settings = settings(left).into_iter().zip(settings(right)).filter_map(|(before, after)| {
            let [value, other] = [before.2, after.2];
            let more = value.as_f64().zip(other.as_f64()).filter(|_| before.3).map(|(left, right)| right / left - 1.0);
            let told = [before.1.1, after.1.1];
            (value != other).then(|| Setting { key: before.0, name: before.1.0, told, values: [value, other], more })
        });
        Difference { settings: settings.collect(), classes: classes(left, right), arguments: arguments(left, right) }
    }

    fn is_empty(&self) -> bool {
        self.settings.is_empty() && self.classes.is_empty() && self.arguments.is_empty()
    }

    /// What the second plan is beside the first, in a line.
    fn verdict(&self) -> String {
        let more = |key: &str| self.settings.iter().find(|setting| setting.key == key).and_then(|setting| setting.more);
        let compared = |more: Option<f64>, greater: &str, less: &str, same: &str| match more {
            Some(more) if more >= LITTLE => format!("{} {greater}", share(more, 1.0)),
            Some(more) if more <= -LITTLE => format!("{} {less}", share(-more, 1.0)),
            _ => same.to_owned(),
        };
        let time = compared(more("step_seconds"), "slower", "faster", "as fast");
        let memory = compared(more("peak_bytes"), "more memory", "less memory", "as much memory");
        format!("The second is {time} and takes {memory}")
    }

    fn to_text(&self, width: usize) -> String {
        if self.is_empty() {
            return "the same\n".to_owned();
        }
        let mut parts: Vec<String> = vec![paragraph(&self.verdict(), "", "  ", width)];
        if !self.settings.is_empty() {
            let mut table = Table::new(&["plan", "first", "second", "more"]);
            for Setting { name, told: [left, right], more, .. } in &self.settings {
                let sign = |more: f64| if more > 0.0 { "+" } else { "" };
                let more = more.map(|more| sign(more).to_owned() + &share(more, 1.0)).unwrap_or_default();
                table.row([(*name).to_owned(), left.clone(), right.clone(), more]);
            }
            parts.push(table.render(width));
        }
        if !self.classes.is_empty() {
            let mut text = "operations that do otherwise:\n".to_owned();
            for class in &self.classes {
                let times = if class.count == 1 { String::new() } else { format!(", {} times", count(class.count)) };
                text += &format!("  {}, {}{times}: {}\n", class.scopes.join(" "), class.phase, class.ops);
                text += &format!("    first   {}\n    second  {}\n", told(&class.sides[0]), told(&class.sides[1]));
            }
            parts.push(text);
        }
        if !self.arguments.is_empty() {
            let mut table = Table::new(&["arguments", "count", "first", "second"]).ending_in_prose();
            let named = self.arguments.iter().map(|changed| (changed.name.clone(), &changed.sides));
            for Alike { name, what: [left, right], count: times } in group(named) {
                table.row([name, count(times), told(left), told(right)]);
            }
            parts.push(table.render(width));
        }
        parts.join("\n")
    }

    fn to_json(&self) -> Value {
        let setting = |setting: &Setting| (setting.key.to_owned(), json!(setting.values));
        let class = |class: &ChangedClass| {
            let ChangedClass { scopes, phase, ops, count, sides: [first, second] } = class;
            json!({ "scopes": scopes, "phase": phase, "ops": ops, "count": count, "first": first, "second": second })
        };
        let argument = |changed: &Changed| {
            let [first, second] = &changed.sides;
            json!({ "name": changed.name, "first": first, "second": second })
        };
        json!({
            "same": self.is_empty(),
            "settings": Value::Object(self.settings.iter().map(setting).collect()),
            "classes": self.classes.iter().map(class).collect::<Vec<_>>(),
            "arguments": self.arguments.iter().map(argument).collect::<Vec<_>>(),
        })
    }
}

fn told(side: &Option<String>) -> String {
    side.clone().unwrap_or_else(|| "(not there)".to_owned())
}

/// The key of a setting, its name and itself in words, its value, and whether it is an amount.
type Told = (&'static str, (&'static str, String), Value, bool);

fn settings(file: &PlanFile) -> Vec<Told> {
    let results = &file.results;
    let microbatches = |eager: bool| if eager { "gathered in each" } else { "gathered once" };
    let model = given(file).trim_matches('`').to_owned();
    vec![
        ("model", ("model", model.clone()), json!(model), false),
        ("fingerprint", ("program", file.model.fingerprint.clone()), json!(file.model.fingerprint), false),
        ("cluster", ("cluster", file.cluster.name.clone()), json!(file.cluster.name), false),
        ("engine", ("engine", file.engine.clone()), json!(file.engine), false),
        ("memory_limit", ("memory limit", size(file.memory_limit as usize)), json!(file.memory_limit), true),
        ("mesh", ("mesh", file.mesh.clone()), json!(file.mesh), false),
        ("microbatches", ("microbatches", count(file.microbatches)), json!(file.microbatches), false),
        ("eager", ("weights", microbatches(file.eager).to_owned()), json!(file.eager), false),
        ("step_seconds", ("a step", duration(results.step_seconds)), json!(results.step_seconds), true),
        ("peak_bytes", ("at the peak", size(results.peak_bytes as usize)), json!(results.peak_bytes), true),
        ("mfu", ("MFU", share(results.mfu, 1.0)), json!(results.mfu), true),
    ]
}

/// What operations are: their scope, pass and kinds, and which of several alike.
type Key = (String, String, String, usize);

/// What every operation does, layer by layer, so that layers that are split otherwise can be compared.
fn works(file: &PlanFile) -> (Vec<Key>, BTreeMap<Key, String>) {
    let (mut order, mut works) = (Vec::new(), BTreeMap::new());
    let mut seen: BTreeMap<(String, String, String), usize> = BTreeMap::new();
    for class in &file.classes {
        for scope in class.scopes.iter().flat_map(|scope| unfold_name(scope)) {
            let alike = (scope, class.phase.clone(), class.ops.join(", "));
            let number = seen.entry(alike.clone()).or_default();
            let key = (alike.0, alike.1, alike.2, *number);
            *number += 1;
            order.push(key.clone());
            works.insert(key, format!("{}, {}", class.result, class.keeping));
        }
    }
    (order, works)
}

fn classes(left: &PlanFile, right: &PlanFile) -> Vec<ChangedClass> {
    let ((order, before), (later, after)) = (works(left), works(right));
    let mut changed: Vec<ChangedClass> = Vec::new();
    let only_later = later.into_iter().filter(|key| !before.contains_key(key));
    let mut numbers: Vec<usize> = Vec::new();
    for key in order.into_iter().chain(only_later) {
        let sides = [before.get(&key).cloned(), after.get(&key).cloned()];
        if sides[0] == sides[1] {
            continue;
        }
        let (scope, phase, ops, number) = key;
        let name = collapse(&scope);
        let is_same = |(class, other): &(&mut ChangedClass, &usize)| {
            let first = class.scopes.first().map(|scope| collapse(scope));
            first.as_ref() == Some(&name)
                && (&class.phase, &class.ops, &class.sides) == (&phase, &ops, &sides)
                && **other == number
        };
        match changed.iter_mut().zip(&numbers).find(is_same) {
            Some((class, _)) => {
                class.scopes.push(scope);
                class.count += 1;
            }
            None => {
                numbers.push(number);
                changed.push(ChangedClass { scopes: vec![scope], phase, ops, count: 1, sides });
            }
        }
    }
    for class in &mut changed {
        class.scopes = fold_names(std::mem::take(&mut class.scopes));
    }
    changed
}

fn arguments(left: &PlanFile, right: &PlanFile) -> Vec<Changed> {
    let by_name = |file: &PlanFile| -> BTreeMap<String, (String, String)> {
        let row = |argument: &ArgumentPart| (argument.name.clone(), (argument.ty.clone(), argument.place()));
        file.arguments.iter().map(row).collect()
    };
    let (before, after) = (by_name(left), by_name(right));
    let only_later = right.arguments.iter().filter(|argument| !before.contains_key(&argument.name));
    let names = left.arguments.iter().chain(only_later).map(|argument| argument.name.clone());
    let changed = |name: String| {
        let sides = [before.get(&name), after.get(&name)];
        // Types are told where they are not the same.
        let types = sides.map(|side| side.map(|(ty, _)| ty));
        let told = |(ty, stored): &(String, String)| match types[0] == types[1] {
            true => stored.clone(),
            false => format!("{ty} {stored}"),
        };
        (sides[0] != sides[1]).then(|| Changed { name, sides: sides.map(|side| side.map(told)) })
    };
    names.filter_map(changed).collect()
}
