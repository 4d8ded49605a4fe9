//! Tactics as a TOML file.

use serde::Deserialize;
use toml::Spanned;
use toml::value::Table;

use super::{Action, Dim, Pattern, Preset, Tactic};

/// What is wrong with a file of tactics, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// Bytes of the text.
    pub span: std::ops::Range<usize>,
    pub message: String,
    pub hint: Option<String>,
}

/// Reads `[[tactic]]` tables.
pub fn parse(text: &str) -> Result<Vec<Tactic>, FileError> {
    let file: File = toml::from_str(text).map_err(|error| FileError {
        span: error.span().unwrap_or(0..0),
        message: error.message().to_owned(),
        hint: None,
    })?;
    file.tactic.into_iter().enumerate().map(|(index, entry)| read(index, entry)).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    tactic: Vec<Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Option<String>,
    axis: Option<String>,
    #[serde(default)]
    tile: Table,
    #[serde(default)]
    replicate: Vec<String>,
    #[serde(default)]
    keep_whole: Vec<String>,
    preset: Option<Spanned<String>>,
    #[serde(default)]
    remat: Vec<String>,
    #[serde(default)]
    split: Table,
    auto: Option<Spanned<bool>>,
    stages: Option<Spanned<toml::Value>>,
    // These belong to `auto` and `stages`.
    #[serde(rename = "axes")]
    _axes: Option<toml::Value>,
    #[serde(rename = "memory")]
    _memory: Option<toml::Value>,
    #[serde(rename = "schedule")]
    _schedule: Option<toml::Value>,
    #[serde(rename = "chunks")]
    _chunks: Option<toml::Value>,
}

fn read(index: usize, entry: Spanned<Entry>) -> Result<Tactic, FileError> {
    let span = entry.span();
    let entry = entry.into_inner();
    let refuse = |span: std::ops::Range<usize>, message: &str, hint: Option<String>| {
        Err(FileError { span, message: message.to_owned(), hint })
    };
    if let Some(auto) = &entry.auto {
        return refuse(auto.span(), "`auto` needs the planner, which is not there yet", None);
    }
    if let Some(stages) = &entry.stages {
        return refuse(stages.span(), "`stages` needs the simulator, which is not there yet", None);
    }
    let mut actions = Vec::new();
    // Restrictions come first, so that they hold for what the same tactic cuts.
    actions.extend(entry.replicate.iter().map(|text| Action::Replicate(Pattern::new(text))));
    actions.extend(entry.keep_whole.iter().map(|text| Action::KeepWhole(Pattern::new(text))));
    for (pattern, value) in &entry.tile {
        let Some(dim) = read_dim(value) else {
            return refuse(span, &format!("`{value}` is no dimension: a number from 0, or \"first\""), None);
        };
        actions.push(Action::Tile { pattern: Pattern::new(pattern), dim });
    }
    if let Some(name) = &entry.preset {
        let Some(&(_, preset)) = Preset::ALL.iter().find(|(known, _)| known == name.get_ref()) else {
            let names: Vec<&str> = Preset::ALL.iter().map(|(name, _)| *name).collect();
            let hint = format!("there are {}", names.join(", "));
            return refuse(name.span(), &format!("there is no preset `{}`", name.get_ref()), Some(hint));
        };
        actions.push(Action::Preset(preset));
    }
    actions.extend(entry.remat.iter().map(|text| Action::Remat(Pattern::new(text))));
    for (pattern, value) in &entry.split {
        let Some(slices) = value.as_integer().and_then(|slices| usize::try_from(slices).ok()).filter(|&n| n > 0) else {
            return refuse(span, &format!("`{value}` is no number of slices"), None);
        };
        actions.push(Action::Split { pattern: Pattern::new(pattern), slices });
    }
    if actions.is_empty() {
        let hint = "give it `tile`, `replicate`, `keep_whole`, `preset`, `remat` or `split`".to_owned();
        return refuse(span, "the tactic does nothing", Some(hint));
    }
    let name = entry.name.unwrap_or_else(|| format!("tactic {}", index + 1));
    Ok(Tactic { name, axis: entry.axis, actions })
}

fn read_dim(value: &toml::Value) -> Option<Dim> {
    match value {
        toml::Value::String(text) if text == "first" => Some(Dim::First),
        toml::Value::Integer(dim) => usize::try_from(*dim).ok().map(Dim::Number),
        _ => None,
    }
}
