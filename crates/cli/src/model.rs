//! Reading a MODEL: a preset, a StableHLO text file, plain or compressed, or standard input.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use meshwright::codes::Code;
use meshwright::import::{Diagnostic, Severity, import};
use meshwright::models::{KEYS, Model as BuiltIn, PRESETS};
use meshwright::program::Program;
pub(crate) use meshwright_report::diagnostics::Module;
use meshwright_report::plan::planned_program;

use crate::diagnostics;
use crate::error::Error;
use crate::input::{self, Wanted};
use crate::suggest::nearest;

/// The MODEL argument of every command, and what can be set of it.
#[derive(Debug, Args)]
pub(crate) struct ModelArguments {
    /// Preset (see `meshwright models`), StableHLO text file (`.mlir` or `.mlir.gz`), or `-` for
    /// standard input
    pub(crate) model: PathBuf,
    /// Change a setting of a preset, such as `layers=4`; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

impl ModelArguments {
    /// What is set, as it was given.
    pub(crate) fn settings(&self) -> &[String] {
        &self.settings
    }
}

/// A text with the name it goes by in messages.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    /// What lines `// -----` separate.
    pub(crate) modules: Vec<Module>,
}

/// An imported module.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) program: Program,
    pub(crate) warnings: Vec<Warning>,
}

#[derive(Debug)]
pub(crate) struct Warning {
    pub(crate) message: String,
    pub(crate) line: usize,
}

/// Builds a preset, or reads and imports every module of a file. Errors and warnings go to standard
/// error.
pub(crate) fn load(arguments: &ModelArguments) -> Result<Vec<Model>, Error> {
    if let Some(preset) = preset(arguments)? {
        let program = preset.build().map_err(Error::of(Code::Setting))?;
        return Ok(vec![Model { program, warnings: Vec::new() }]);
    }
    let path = &arguments.model;
    let source = read(path)?;
    if !arguments.settings.is_empty() {
        let error = Error::new(Code::Setting, format!("`{}` is a file, of which nothing can be set", path.display()));
        return Err(error.hint("`--set` changes a preset; `meshwright models` lists them"));
    }
    let imported: Vec<_> = source.modules.iter().map(|module| import(&module.text)).collect();
    let diagnostics: Vec<_> = source
        .modules
        .iter()
        .zip(&imported)
        .flat_map(|(module, imported)| imported.diagnostics.iter().map(move |diagnostic| (module, diagnostic)))
        .collect();
    diagnostics::tell_all(&source.name, &diagnostics);
    let mut models = Vec::new();
    for (module, imported) in source.modules.iter().zip(imported) {
        let failed = imported.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error);
        let program = imported.program.filter(|_| !failed).ok_or(Error::AlreadyTold)?;
        models.push(Model { program, warnings: warnings(module, &imported.diagnostics) });
    }
    Ok(models)
}

/// The preset that is asked for, with some settings changed, unless it is a file.
pub(crate) fn preset(arguments: &ModelArguments) -> Result<Option<BuiltIn>, Error> {
    let path = &arguments.model;
    // A file of that name comes first: its author knows of it.
    let is_file = path.exists() && !path.is_dir();
    let preset = path.to_str().filter(|_| !is_file).and_then(BuiltIn::preset);
    let Some(mut preset) = preset else { return Ok(None) };
    for setting in &arguments.settings {
        let Some((key, value)) = setting.split_once('=') else {
            return Err(Error::new(Code::Setting, format!("`{setting}` is not of the form KEY=VALUE"))
                .hint("such as `--set layers=4`"));
        };
        preset.set(key, value).map_err(|message| {
            let keys = preset.family.keys();
            let known = KEYS.iter().any(|row| row.name == key);
            let hint = match nearest(key, keys.iter().copied()).filter(|_| !known) {
                Some(near) => Some(format!("did you mean `{near}`?")),
                None if keys.contains(&key) => None,
                None => Some(format!("it has {}", keys.join(", "))),
            };
            Error::new(Code::Setting, message).maybe_hint(hint)
        })?;
    }
    Ok(Some(preset))
}

/// Like [`load`], for commands whose answer is about one program.
pub(crate) fn load_one(arguments: &ModelArguments) -> Result<Model, Error> {
    let path = &arguments.model;
    let mut models = load(arguments)?;
    match models.pop() {
        Some(model) if models.is_empty() => Ok(model),
        _ => Err(Error::new(
            Code::SeveralModules,
            format!("`{}` holds {} modules, one is expected", path.display(), models.len() + 1),
        )
        .hint("split the file at its `// -----` lines")),
    }
}

/// The model as it is planned.
pub(crate) fn load_planned(arguments: &ModelArguments) -> Result<Model, Error> {
    let mut model = load_one(arguments)?;
    model.program = planned_program(&model.program).map_err(Error::of(Code::Unplannable))?;
    Ok(model)
}

/// What remains of diagnostics once there are no errors. There may be one for every line of a long
/// text, so its lines are counted once.
fn warnings(module: &Module, diagnostics: &[Diagnostic]) -> Vec<Warning> {
    if diagnostics.is_empty() {
        return Vec::new();
    }
    let newlines: Vec<usize> = module.text.match_indices('\n').map(|(offset, _)| offset).collect();
    let line = |offset| module.first_line + newlines.partition_point(|newline| *newline < offset);
    diagnostics
        .iter()
        .map(|diagnostic| Warning { message: diagnostic.message.clone(), line: line(diagnostic.span.start) })
        .collect()
}

fn read(path: &Path) -> Result<Source, Error> {
    let name = if input::is_stdin(path) { "<stdin>".to_owned() } else { path.display().to_string() };
    let presets: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
    let bytes = input::read(path, Wanted { kind: "file or preset", names: &presets })?;
    let text = decode(&name, bytes)?;
    Ok(Source { name, modules: split(&text.into()) })
}

fn decode(name: &str, bytes: Vec<u8>) -> Result<String, Error> {
    if bytes.starts_with(b"ML\xefR") {
        return Err(Error::new(Code::NotText, format!("`{name}` is MLIR bytecode, not text"))
            .hint("print it as text first, with `mlir-opt` or with `str(module)` in Python"));
    }
    // No text has a zero byte; looking at the beginning is enough to know a binary file.
    if bytes.iter().take(8192).any(|byte| *byte == 0) {
        return Err(Error::new(Code::NotText, format!("`{name}` is a binary file, not StableHLO text"))
            .hint("a model is a text file as printed by `jax.jit(step).lower(...).as_text()`"));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        let bytes = error.as_bytes();
        let line = 1 + bytes[..offset].iter().filter(|byte| **byte == b'\n').count();
        Error::new(
            Code::Unreadable,
            format!("`{name}` is not valid UTF-8: byte 0x{:02x} on line {line}", bytes[offset]),
        )
        .hint("save the file as UTF-8")
    })?;
    if text.trim().is_empty() {
        return Err(Error::new(Code::NotText, format!("`{name}` is empty")));
    }
    Ok(text)
}

/// The modules of a text. A text without separators is one module and is not copied.
fn split(text: &Arc<str>) -> Vec<Module> {
    const SEPARATOR: &str = "// -----";
    if !text.contains(SEPARATOR) {
        return vec![Module { text: text.clone(), first_line: 1 }];
    }
    let mut modules = Vec::new();
    let (mut start, mut first_line) = (0, 1);
    let mut end = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if line.trim_end() == SEPARATOR {
            modules.push(Module { text: text[start..end].into(), first_line });
            (start, first_line) = (end + line.len(), index + 2);
        }
        end += line.len();
    }
    modules.push(Module { text: text[start..].into(), first_line });
    // A separator at the end or a heading comment of its own makes no module.
    if modules.iter().any(|module| !is_blank(&module.text)) {
        modules.retain(|module| !is_blank(&module.text));
    }
    modules
}

fn is_blank(text: &str) -> bool {
    text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with("//"))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[track_caller]
    fn check(text: &str, expected: &[(usize, &str)]) {
        let modules = split(&text.into());
        let modules: Vec<_> = modules.iter().map(|module| (module.first_line, &*module.text)).collect();
        assert_eq!(modules, expected);
    }

    #[test]
    fn a_text_splits_at_separator_lines_only() {
        check("a\nb // -----\n", &[(1, "a\nb // -----\n")]);
        check("a\n// -----\nb\nc\n// -----\n", &[(1, "a\n"), (3, "b\nc\n")]);
        check("// heading\n// -----\nb", &[(3, "b")]);
        check("// only a comment\n", &[(1, "// only a comment\n")]);
    }
}
