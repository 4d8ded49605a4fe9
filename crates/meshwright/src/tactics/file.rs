//! Tactics as a TOML file.

use serde::Deserialize;
use toml::Spanned;
use toml::value::Table;

use super::{Action, Auto, Dim, Freedom, Pattern, Preset, StageCut, Stages, Tactic};
use crate::cluster::parse_bytes;
use crate::pipeline::Schedule;

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
    Ok(parse_with_spans(text)?.into_iter().map(|(tactic, _)| tactic).collect())
}

/// Reads `[[tactic]]` tables, each with the bytes where it stands.
pub fn parse_with_spans(text: &str) -> Result<Vec<(Tactic, std::ops::Range<usize>)>, FileError> {
    let file: File = toml::from_str(text).map_err(|error| FileError {
        span: error.span().unwrap_or(0..0),
        message: error.message().to_owned(),
        hint: None,
    })?;
    file.tactic.into_iter().enumerate().map(|(index, entry)| Ok((read(index, &entry)?, entry.span()))).collect()
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
    tile: Option<Spanned<Table>>,
    #[serde(default)]
    replicate: Vec<String>,
    #[serde(default)]
    keep_whole: Vec<String>,
    preset: Option<Spanned<String>>,
    #[serde(default)]
    remat: Vec<String>,
    split: Option<Spanned<Table>>,
    auto: Option<Spanned<bool>>,
    stages: Option<Spanned<toml::Value>>,
    schedule: Option<Spanned<String>>,
    chunks: Option<Spanned<usize>>,
    // These belong to `auto`.
    axes: Option<Spanned<Vec<String>>>,
    memory: Option<Spanned<String>>,
    only: Option<Spanned<Vec<String>>>,
}

fn read(index: usize, entry: &Spanned<Entry>) -> Result<Tactic, FileError> {
    let span = entry.span();
    let entry = entry.get_ref();
    let refuse = |span: std::ops::Range<usize>, message: &str, hint: Option<String>| {
        Err(FileError { span, message: message.to_owned(), hint })
    };
    let mut actions = Vec::new();
    // Restrictions come first, so that they hold for what the same tactic cuts.
    actions.extend(entry.replicate.iter().map(|text| Action::Replicate(Pattern::new(text))));
    actions.extend(entry.keep_whole.iter().map(|text| Action::KeepWhole(Pattern::new(text))));
    for (pattern, value) in entry.tile.iter().flat_map(Spanned::get_ref) {
        let Some(dim) = read_dim(value) else {
            let hint = "give a number from 0, or \"first\" for the first dimension that divides".to_owned();
            let span = entry.tile.as_ref().map_or(span, Spanned::span);
            return refuse(span, &format!("`{value}` is no dimension of `{pattern}`"), Some(hint));
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
    for (pattern, value) in entry.split.iter().flat_map(Spanned::get_ref) {
        let Some(slices) = value.as_integer().and_then(|slices| usize::try_from(slices).ok()).filter(|&n| n > 0) else {
            let span = entry.split.as_ref().map_or(span, Spanned::span);
            return refuse(span, &format!("`{value}` is no number of slices of `{pattern}`"), None);
        };
        actions.push(Action::Split { pattern: Pattern::new(pattern), slices });
    }
    actions.extend(read_stages(entry)?.map(Action::Stages));
    if let Some(auto) = read_auto(entry)? {
        if !actions.is_empty() {
            return refuse(
                span,
                "`auto` shares its tactic with others",
                Some("give it a tactic of its own".to_owned()),
            );
        }
        actions.push(Action::Auto(auto));
    }
    if actions.is_empty() {
        let hint =
            "give it `tile`, `replicate`, `keep_whole`, `preset`, `remat`, `split`, `stages` or `auto`".to_owned();
        return refuse(span, "the tactic does nothing", Some(hint));
    }
    let name = entry.name.clone().unwrap_or_else(|| format!("tactic {}", index + 1));
    Ok(Tactic { name, axis: entry.axis.clone(), actions })
}

fn read_auto(entry: &Entry) -> Result<Option<Auto>, FileError> {
    let refuse = |span: std::ops::Range<usize>, message: String, hint: String| {
        Err(FileError { span, message, hint: Some(hint) })
    };
    let Some(auto) = entry.auto.as_ref().filter(|auto| *auto.get_ref()) else {
        let spans =
            [("axes", entry.axes.as_ref().map(Spanned::span)), ("only", entry.only.as_ref().map(Spanned::span))];
        let memory = ("memory", entry.memory.as_ref().map(Spanned::span));
        let lonely = spans.into_iter().chain([memory]).find_map(|(key, span)| span.map(|span| (key, span)));
        return match lonely {
            Some((key, span)) => refuse(span, format!("`{key}` belongs to `auto`"), "add `auto = true`".to_owned()),
            None => Ok(None),
        };
    };
    if entry.axis.is_some() {
        let hint = "name the axes that it may cut with as `axes = [\"data\"]`".to_owned();
        return refuse(auto.span(), "`auto` is not about one `axis`".to_owned(), hint);
    }
    let memory_bytes = match &entry.memory {
        None => None,
        Some(text) => match parse_bytes(text.get_ref()) {
            Ok(bytes) => Some(bytes as u64),
            Err((message, hint)) => return refuse(text.span(), message, hint),
        },
    };
    let mut only = None;
    for name in entry.only.iter().flat_map(Spanned::get_ref) {
        let Some(&(_, freedom)) = Freedom::ALL.iter().find(|(known, _)| known == name) else {
            let names: Vec<&str> = Freedom::ALL.iter().map(|(name, _)| *name).collect();
            let span = entry.only.as_ref().map_or(0..0, Spanned::span);
            return refuse(
                span,
                format!("`{name}` is nothing that `auto` may do"),
                format!("there are {}", names.join(", ")),
            );
        };
        only.get_or_insert_with(Vec::new).push(freedom);
    }
    let only = if entry.only.is_some() { only.or(Some(Vec::new())) } else { None };
    Ok(Some(Auto { axes: entry.axes.as_ref().map(|axes| axes.get_ref().clone()), memory_bytes, only }))
}

fn read_stages(entry: &Entry) -> Result<Option<Stages>, FileError> {
    let refuse = |span: std::ops::Range<usize>, message: String, hint: &str| {
        Err(FileError { span, message, hint: Some(hint.to_owned()) })
    };
    let Some(stages) = &entry.stages else {
        let (schedule, chunks) = (entry.schedule.as_ref(), entry.chunks.as_ref());
        let lonely = schedule.map(|s| (s.span(), "schedule")).or(chunks.map(|c| (c.span(), "chunks")));
        return match lonely {
            Some((span, key)) => {
                refuse(span, format!("`{key}` belongs to `stages`"), "say how many `stages` there are")
            }
            None => Ok(None),
        };
    };
    let Some(cut) = read_cut(stages.get_ref()) else {
        let hint = "give how many there are, or a list with the scopes of each, such as [\"layers.0\", \"layers.1\"]";
        return refuse(stages.span(), format!("`{}` are no stages", stages.get_ref()), hint);
    };
    let schedule = match &entry.schedule {
        None => Schedule::OneForwardOneBackward,
        Some(name) => match Schedule::ALL.iter().find(|(known, _)| known == name.get_ref()) {
            Some(&(_, schedule)) => schedule,
            None => {
                let names: Vec<&str> = Schedule::ALL.iter().map(|(name, _)| *name).collect();
                let hint = format!("there are {}", names.join(", "));
                return refuse(name.span(), format!("there is no schedule `{}`", name.get_ref()), &hint);
            }
        },
    };
    let chunks = entry.chunks.as_ref().map_or(1, |chunks| *chunks.get_ref());
    if let Some(given) =
        entry.chunks.as_ref().filter(|_| chunks == 0 || chunks > 1 && schedule != Schedule::Interleaved)
    {
        let hint = "several chunks on a stage take `schedule = \"interleaved\"`";
        return refuse(given.span(), format!("`chunks = {chunks}` does not go with `{}`", schedule.name()), hint);
    }
    if let StageCut::Scopes(scopes) = &cut
        && !scopes.len().is_multiple_of(chunks)
    {
        let hint = "the list has an entry for every chunk, in the order of the model";
        return refuse(stages.span(), format!("{} entries are not {chunks} for every stage", scopes.len()), hint);
    }
    Ok(Some(Stages { cut, schedule, chunks }))
}

fn read_cut(value: &toml::Value) -> Option<StageCut> {
    let pattern = |value: &toml::Value| value.as_str().map(Pattern::new);
    match value {
        toml::Value::Integer(count) => usize::try_from(*count).ok().filter(|&count| count > 0).map(StageCut::Even),
        toml::Value::Array(entries) if !entries.is_empty() => {
            let patterns = |entry: &toml::Value| match entry {
                toml::Value::Array(several) => several.iter().map(pattern).collect::<Option<Vec<Pattern>>>(),
                one => pattern(one).map(|pattern| vec![pattern]),
            };
            entries.iter().map(patterns).collect::<Option<Vec<_>>>().map(StageCut::Scopes)
        }
        _ => None,
    }
}

fn read_dim(value: &toml::Value) -> Option<Dim> {
    match value {
        toml::Value::String(text) if text == "first" => Some(Dim::First),
        toml::Value::Integer(dim) => usize::try_from(*dim).ok().map(Dim::Number),
        _ => None,
    }
}
