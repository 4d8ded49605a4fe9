//! `meshwright models`: the presets there are.

use clap::Args;
use meshwright::models::{KEYS, Model, PRESETS, parameter_count};
use serde_json::json;

use crate::error::{Answer, Error};
use crate::output;
use crate::table::{Table, count};
use crate::terminal::terminal_width;

/// List the presets with their parameter counts, and what can be set
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  meshwright models
  meshwright inspect gpt-2.6b --set layers=4 --set batch=32";

pub(crate) fn execute(arguments: &Arguments) -> Result<Answer, Error> {
    let rows: Vec<Row> = PRESETS.iter().filter_map(|preset| row(preset.name, preset.about)).collect();
    if arguments.json {
        let presets: Vec<_> = rows
            .iter()
            .map(|row| {
                json!({"name": row.name, "about": row.about, "parameters": row.parameters, "settings": settings(&row.model)})
            })
            .collect();
        let keys: Vec<_> =
            KEYS.iter().map(|key| json!({"name": key.name, "about": key.about, "takes": key.allowed()})).collect();
        output::print_json(&json!({"presets": presets, "settings": keys}))?;
        return Ok(Answer::Yes);
    }
    let width = terminal_width();
    let mut presets = Table::new(&["preset", "parameters", "about"]).ending_in_prose();
    for row in &rows {
        presets.row([row.name.to_owned(), count(row.parameters), row.about.to_owned()]);
    }
    let mut keys = Table::new(&["setting", "about"]).ending_in_prose();
    for key in KEYS {
        keys.row([key.name.to_owned(), key.about.to_owned()]);
    }
    output::print(format!("{}\n{}", presets.render(width), keys.render(width)).as_bytes())?;
    Ok(Answer::Yes)
}

struct Row {
    name: &'static str,
    about: &'static str,
    parameters: usize,
    model: Model,
}

fn row(name: &'static str, about: &'static str) -> Option<Row> {
    let model = Model::preset(name)?;
    let parameters = parameter_count(&model.build().ok()?);
    Some(Row { name, about, parameters, model })
}

fn settings(model: &Model) -> serde_json::Map<String, serde_json::Value> {
    let texts = KEYS.iter().filter_map(|key| Some((key.name.to_owned(), json!(model.settings.get(key.name)?))));
    texts.collect()
}
