//! `meshwright inspect`: what is in a model.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use clap::Args;
use meshwright::program::{Argument, ArgumentClass, Op, Program, Role, Type, ValueId};
use serde_json::json;

use crate::error::{Answer, Error};
use crate::model::{self, Model, ModelArguments};
use crate::names::names;
use crate::output;
use crate::table::{Table, bar, count, counted, size};
use crate::terminal::terminal_width;

/// Show what is in a model: operations, arguments, results, layers, loops
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  meshwright inspect step.mlir.gz
  meshwright inspect step.mlir --json | jq .operations.total";

pub(crate) fn execute(arguments: &Arguments) -> Result<Answer, Error> {
    let model = model::load_one(&arguments.model)?;
    let summary = Summary::new(&arguments.model.model, &model);
    if arguments.json {
        output::print_json(&summary.to_json())?;
    } else {
        output::print(summary.to_text(terminal_width()).as_bytes())?;
    }
    Ok(Answer::Yes)
}

#[derive(Debug)]
struct Summary<'a> {
    /// What the program calls itself, or else the file's name.
    name: String,
    model: &'a Model,
    /// Most frequent first, ties in the order of the alphabet.
    operations: Vec<(&'a str, usize)>,
    /// For each argument, the result that is its next value.
    pairs: Vec<Option<usize>>,
    /// For each argument, what it is for.
    classes: Vec<ArgumentClass>,
    /// The classes that have arguments.
    arguments: Vec<Class>,
    /// Results that are the next values of arguments, and the others.
    results: Vec<Class>,
    layers: Vec<Layers<'a>>,
    loops: Vec<Loop<'a>>,
}

/// Values that play one role.
#[derive(Debug)]
struct Class {
    name: &'static str,
    count: usize,
    /// As many of them the caller gives up.
    donated: usize,
    elements: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Loop<'a> {
    /// How many turns it takes, where that can be proven.
    trips: Option<usize>,
    /// Values that go from one turn to the next.
    carried: usize,
    /// Those of them that hold one slice for each turn: read, and written.
    stacked_inputs: usize,
    stacked_outputs: usize,
    scope: &'a str,
}

/// A stretch of the program that repeats.
#[derive(Debug)]
struct Layers<'a> {
    count: usize,
    /// Matrix products, convolutions and attentions in one of them.
    heavy_operations: usize,
    /// Where the first one starts.
    scope: &'a str,
}

impl<'a> Summary<'a> {
    fn new(path: &Path, model: &'a Model) -> Summary<'a> {
        let program = &model.program;
        let file = || path.file_name().unwrap_or(path.as_os_str()).display().to_string();
        let name = if program.name.is_empty() { file() } else { program.name.clone() };
        let anatomy = program.anatomy();
        Summary {
            name,
            model,
            operations: operations(program),
            arguments: argument_classes(program, &anatomy.classes),
            results: result_classes(program, &anatomy.next),
            classes: anatomy.classes,
            layers: layers(program),
            loops: loops(program),
            pairs: anatomy.next,
        }
    }

    fn to_text(&self, width: usize) -> String {
        let total = self.model.program.ops.len();
        let mut text = format!(
            "{}: {}, {}, {}\n\n",
            self.name,
            counted(total, "operation"),
            counted(self.loops.len(), "loop"),
            counted(self.model.warnings.len(), "warning"),
        );

        let mut values = Table::new(&["values", "count", "donated", "elements", "size"]);
        for class in &self.arguments {
            values.row(class.cells(count(class.donated)));
        }
        for class in &self.results {
            values.row(class.cells(String::new()));
        }
        let _ = writeln!(text, "{}", values.render(width));

        if !self.layers.is_empty() {
            let mut layers = Table::new(&["layers from", "count", "heavy operations each"]);
            for each in &self.layers {
                layers.row([shown_scope(each.scope).to_owned(), count(each.count), count(each.heavy_operations)]);
            }
            let _ = writeln!(text, "{}", layers.render(width));
        }

        if !self.loops.is_empty() {
            let mut loops = Table::new(&["loop", "trips", "carried", "stacked in", "stacked out"]);
            for each in &self.loops {
                let trips = each.trips.map_or("unknown".to_owned(), count);
                let [inputs, outputs] = [each.stacked_inputs, each.stacked_outputs].map(count);
                loops.row([shown_scope(each.scope).to_owned(), trips, count(each.carried), inputs, outputs]);
            }
            let _ = writeln!(text, "{}", loops.render(width));
        }

        let mut operations = Table::new(&["operation", "count", "share", ""]);
        let most = self.operations.first().map_or(1, |(_, number)| *number);
        for (name, number) in &self.operations {
            let share = format!("{:.1}%", 100.0 * *number as f64 / total as f64);
            // A narrow terminal has no room for pictures.
            let bar = if width < 60 { String::new() } else { bar(*number, most) };
            operations.row([(*name).to_owned(), count(*number), share, bar]);
        }
        text + &operations.render(width)
    }

    fn to_json(&self) -> serde_json::Value {
        let program = &self.model.program;
        let by_name: serde_json::Map<_, _> =
            self.operations.iter().map(|(name, number)| ((*name).to_owned(), json!(number))).collect();
        let warnings: Vec<_> = self
            .model
            .warnings
            .iter()
            .map(|warning| json!({"message": warning.message, "line": warning.line}))
            .collect();
        let loops: Vec<_> = self
            .loops
            .iter()
            .map(|each| {
                json!({
                    "scope": each.scope,
                    "trips": each.trips,
                    "carried": each.carried,
                    "stacked_inputs": each.stacked_inputs,
                    "stacked_outputs": each.stacked_outputs,
                })
            })
            .collect();
        let layers: Vec<_> = self
            .layers
            .iter()
            .map(|each| json!({"scope": each.scope, "count": each.count, "heavy_operations": each.heavy_operations}))
            .collect();
        json!({
            "name": self.name,
            "operations": {"total": program.ops.len(), "by_name": by_name},
            "arguments": {
                "classes": self.arguments.iter().map(Class::to_json).collect::<Vec<_>>(),
                "values": argument_list(self),
            },
            "results": {
                "classes": self.results.iter().map(Class::to_json).collect::<Vec<_>>(),
                "values": result_list(program),
            },
            "layers": layers,
            "loops": loops,
            "warnings": warnings,
        })
    }
}

impl Class {
    fn new(name: &'static str, program: &Program, values: &[ValueId], donated: usize) -> Class {
        let types = || values.iter().map(|value| program.ty(*value));
        Class {
            name,
            count: values.len(),
            donated,
            elements: types().map(Type::elements).sum(),
            bytes: types().map(Type::bytes).sum(),
        }
    }

    fn cells(&self, donated: String) -> [String; 5] {
        [self.name.to_owned(), count(self.count), donated, count(self.elements), size(self.bytes)]
    }

    fn to_json(&self) -> serde_json::Value {
        json!({
            "name": self.name,
            "count": self.count,
            "donated": self.donated,
            "elements": self.elements,
            "bytes": self.bytes,
        })
    }
}

fn argument_classes(program: &Program, classes: &[ArgumentClass]) -> Vec<Class> {
    let mut found = Vec::new();
    for class in [ArgumentClass::Parameter, ArgumentClass::State, ArgumentClass::Input] {
        let members = || classes.iter().enumerate().filter(|(_, each)| **each == class).map(|(index, _)| index);
        let values: Vec<ValueId> = members().map(|index| program.body().arguments[index]).collect();
        let donated = members().filter(|index| is_donated(&program.arguments[*index])).count();
        if !values.is_empty() {
            found.push(Class::new(class_name(class), program, &values, donated));
        }
    }
    found
}

fn class_name(class: ArgumentClass) -> &'static str {
    match class {
        ArgumentClass::Parameter => "parameters",
        ArgumentClass::State => "state",
        ArgumentClass::Input => "inputs",
    }
}

fn operations(program: &Program) -> Vec<(&str, usize)> {
    let mut counts = BTreeMap::new();
    for (_, operation) in program.ops.iter() {
        *counts.entry(operation.op.name()).or_insert(0) += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    // The sort keeps the alphabetical order among equals.
    counts.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    counts
}

fn result_classes(program: &Program, pairs: &[Option<usize>]) -> Vec<Class> {
    let mut is_paired = vec![false; program.results.len()];
    pairs.iter().flatten().for_each(|result| is_paired[*result] = true);
    let is_state = |index: &usize| is_paired[*index];
    let (state, other): (Vec<usize>, Vec<usize>) = (0..program.results.len()).partition(is_state);
    let values =
        |indices: &[usize]| -> Vec<ValueId> { indices.iter().map(|index| program.body().results[*index]).collect() };
    let classes = [("next state", state), ("results", other)];
    let present = classes.iter().filter(|(_, indices)| !indices.is_empty());
    present.map(|(name, indices)| Class::new(name, program, &values(indices), 0)).collect()
}

fn layers(program: &Program) -> Vec<Layers<'_>> {
    let repeats = program.repeats().into_iter();
    repeats
        .map(|repeat| Layers {
            count: repeat.count,
            heavy_operations: repeat.ops.len(),
            scope: &program.locations[program.ops[repeat.ops[0]].location].scope,
        })
        .collect()
}

fn loops(program: &Program) -> Vec<Loop<'_>> {
    let whiles = program.ops.iter().filter(|(_, operation)| operation.op == Op::While);
    whiles
        .map(|(op, operation)| {
            let counted = program.counted_loop(op);
            let roles = counted.as_ref().map_or(&[][..], |counted| &counted.roles);
            Loop {
                trips: counted.as_ref().map(|counted| counted.trips),
                carried: operation.operands.len(),
                stacked_inputs: roles.iter().filter(|role| matches!(role, Role::StackedInput { .. })).count(),
                stacked_outputs: roles.iter().filter(|role| matches!(role, Role::StackedOutput { .. })).count(),
                scope: &program.locations[operation.location].scope,
            }
        })
        .collect()
}

fn argument_list(summary: &Summary<'_>) -> Vec<serde_json::Value> {
    let program = &summary.model.program;
    let names = names("argument", program.arguments.iter().map(|argument| argument.name.as_str()));
    let list = names.into_iter().zip(&program.arguments).zip(&program.body().arguments).enumerate();
    list.map(|(index, ((name, argument), value))| {
        let ty = program.ty(*value);
        json!({
            "name": name,
            "type": ty.to_string(),
            "bytes": ty.bytes(),
            "class": class_name(summary.classes[index]),
            "next": summary.pairs[index],
            "donated": is_donated(argument),
        })
    })
    .collect()
}

fn result_list(program: &Program) -> Vec<serde_json::Value> {
    let names = names("result", program.results.iter().map(|result| result.name.as_str()));
    let results = names.into_iter().zip(&program.body().results);
    results
        .map(|(name, value)| {
            let ty = program.ty(*value);
            json!({"name": name, "type": ty.to_string(), "bytes": ty.bytes()})
        })
        .collect()
}

fn is_donated(argument: &Argument) -> bool {
    argument.donated || argument.alias.is_some()
}

fn shown_scope(scope: &str) -> &str {
    if scope.is_empty() { "(no scope)" } else { scope }
}
