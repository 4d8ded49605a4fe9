//! Texts in, expected texts in the same files: one test per file of `tests/<stage>/`.
//!
//! What is expected stands as comments `//> ` at the end of a file; with `BLESS=1` in the
//! environment the comments are rewritten. The folder says what is done with the text:
//!
//! - `errors`: what import says of a broken text, as `line:column severity: message | label | hint`
//! - `expand`: the program with large ops written out in small ones
//! - `import`: the program, calls inlined, dead code dropped, attention recognized
//! - `interpret`: the results on generated inputs, and the checks
//! - `loops`: the counted loops, then the program unrolled
//! - `lower`: what each device runs under a layout
//! - `pipeline`: what every stage does under tactics, and what the pieces run where `// show: pieces` asks for it
//! - `propagate`: how values lie and ops are cut under a layout
//! - `rules`: the sharding rule of each op, and which operands may be partial
//! - `state`: what the arguments are for and which results replace them
//! - `torch`: the program as a source for PyTorch; as a step in three functions where it gives a loss
//!
//! A layout is made by comments at the beginning: `// mesh: data=2,model=4`, then any number of
//! `// tile: data %0 = dim 1`, each of which is propagated before the next. Values have the numbers with
//! which they are printed. Tactics stand in comments `//| `, after the mesh of a stage.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use meshwright::import::{Diagnostic, Severity, import};
use meshwright::interpret::{Data, Options, evaluate, generate_arguments};
use meshwright::lower::{estimate, lower_layout};
use meshwright::pipeline::pipeline;
use meshwright::profile::{MemoryModel, profile};
use meshwright::program::{Program, expand_attention, expand_batch_norm, expand_branches};
use meshwright::shard::{Layout, Mesh, Sharding};
use meshwright::tactics;
use meshwright::torch::{piece_source, step_source};

/// Makes of a text what is expected of it.
type Show = fn(&str) -> Result<String, Failed>;

/// The folders and what is done with their texts.
const STAGES: [(&str, Show); 11] = [
    ("errors", show_errors),
    ("expand", show_expanded),
    ("import", |text| Ok(program(text)?.to_string())),
    ("interpret", show_results),
    ("loops", show_loops),
    ("lower", show_local),
    ("pipeline", show_pipeline),
    ("propagate", show_layout),
    ("rules", show_rules),
    ("state", show_state),
    ("torch", show_torch),
];

/// What the lines with the expected diagnostics start with.
const MARK: &str = "//> ";

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let trials = STAGES.iter().flat_map(|(stage, show)| {
        let mut paths: Vec<PathBuf> = fs::read_dir(root.join(stage))
            .expect("every stage has a folder")
            .map(|entry| entry.expect("the folder can be read").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "mlir"))
            .collect();
        paths.sort();
        paths.into_iter().map(move |path| {
            let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            Trial::test(format!("{stage}::{name}"), move || check(&path, *show))
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

fn check(path: &Path, show: Show) -> Result<(), Failed> {
    let text = fs::read_to_string(path)?;
    let (source, expected) = text.split_at(text.find(MARK).unwrap_or(text.len()));
    let actual: String = show(source)?.lines().map(|line| format!("{MARK}{line}\n")).collect();
    if std::env::var_os("BLESS").is_some() {
        fs::write(path, format!("{source}{actual}"))?;
        return Ok(());
    }
    if actual != expected {
        return Err(format!("expected\n{expected}\ngot\n{actual}\nrun with BLESS=1 to accept").into());
    }
    Ok(())
}

fn show_errors(source: &str) -> Result<String, Failed> {
    let imported = import(&Arc::from(source));
    let has_error = imported.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error);
    if has_error == imported.program.is_some() {
        return Err("there is a program just where there is no error".into());
    }
    Ok(imported.diagnostics.iter().map(|diagnostic| line(source, diagnostic)).collect())
}

/// The program of a sound text, which prints and reads back as itself.
fn program(source: &str) -> Result<Program, Failed> {
    let program = import(&Arc::from(source)).program.ok_or("the text has errors")?;
    program.verify()?;
    let again = import(&Arc::from(program.to_string())).program.ok_or("the printed program has errors")?;
    if again.to_string() != program.to_string() {
        return Err("printing and reading gives another program".into());
    }
    Ok(program)
}

fn show_expanded(source: &str) -> Result<String, Failed> {
    let program = program(source)?;
    let program = expand_attention(&program);
    let program = expand_batch_norm(&program);
    let program = expand_branches(&program);
    program.verify()?;
    if program.compact() != *program {
        return Err("values are not numbered in the order in which they are printed".into());
    }
    Ok(program.to_string())
}

fn show_results(source: &str) -> Result<String, Failed> {
    results(&program(source)?)
}

/// The results on generated inputs, and the checks.
fn results(program: &Program) -> Result<String, Failed> {
    let arguments = generate_arguments(program, 0);
    let evaluation = evaluate(program, &arguments, Options { wide: false }).map_err(|error| error.message)?;
    let mut text = String::new();
    for result in &evaluation.results {
        let values = match &result.data {
            Data::Float(values) => format!("{values:?}"),
            Data::Integer(values) => format!("{values:?}"),
            Data::Raw(bytes) => format!("{bytes:?}"),
        };
        writeln!(text, "{} {values}", result.ty)?;
    }
    writeln!(text, "{} checks passed", evaluation.checks_passed)?;
    for failure in &evaluation.failures {
        writeln!(text, "failed: {}", failure.message)?;
    }
    Ok(text)
}

fn show_torch(source: &str) -> Result<String, Failed> {
    let program = program(source)?;
    let is_step = program.results.iter().any(|result| result.name == "loss");
    let written = if is_step { step_source(&program) } else { piece_source(&program) };
    let mut text = written.unwrap_or_else(|refused| format!("error: {refused}\n"));
    if is_step {
        let memory = profile(&program, MemoryModel::Written).memory;
        let bytes = memory.timeline().into_iter().map(|classes| classes.iter().sum::<usize>().to_string());
        writeln!(text, "\nbytes while each op runs: {}", bytes.collect::<Vec<_>>().join(" "))?;
    }
    Ok(text)
}

fn show_loops(source: &str) -> Result<String, Failed> {
    let program = program(source)?;
    let mut text = String::new();
    for op in program.ops.ids() {
        if let Some(counted) = program.counted_loop(op) {
            writeln!(text, "{op}: {} trips from {} by {}", counted.trips, counted.start, counted.step)?;
            for (index, role) in counted.roles.iter().enumerate() {
                writeln!(text, "  {index}: {role:?}")?;
            }
        }
    }
    let unrolled = program.unroll()?;
    unrolled.verify()?;
    if results(&program)? != results(&unrolled)? {
        return Err("unrolling changes the results".into());
    }
    write!(text, "{unrolled}")?;
    Ok(text)
}

fn show_state(source: &str) -> Result<String, Failed> {
    let program = program(source)?;
    let anatomy = program.anatomy();
    let mut text = String::new();
    for (index, class) in anatomy.classes.iter().enumerate() {
        let next = anatomy.next[index].map_or(String::new(), |result| format!(" -> result {result}"));
        writeln!(text, "{}: {class:?}{next}", program.arguments[index].name)?;
    }
    for &op in &program.body().ops {
        writeln!(text, "{} {:?}", program.ops[op].op.name(), anatomy.phase(op))?;
    }
    Ok(text)
}

fn show_rules(source: &str) -> Result<String, Failed> {
    let program = program(source)?;
    let layout = Layout::new(&program, Mesh::parse("a=1")?);
    let mut text = String::new();
    for &op in layout.ops() {
        let rule = layout.rule(op);
        writeln!(text, "{} {rule}", program.ops[op].op.name())?;
        for carry in &rule.carries {
            writeln!(text, "  carries {carry}")?;
        }
    }
    Ok(text)
}

/// The layout that the comments at the beginning of a text ask for.
fn layout<'p>(source: &str, program: &'p Program) -> Result<Layout<'p>, Failed> {
    let mesh = source.lines().find_map(|line| line.strip_prefix("// mesh: ")).ok_or("there is no mesh")?;
    let mut layout = Layout::new(program, Mesh::parse(mesh)?);
    for tile in source.lines().filter_map(|line| line.strip_prefix("// tile: ")) {
        let [axis, value, "=", "dim", dim] = tile.split(' ').collect::<Vec<_>>()[..] else {
            return Err(format!("`{tile}` is not of the form `data %0 = dim 1`").into());
        };
        let axis = layout.mesh.axis(axis).ok_or_else(|| format!("there is no axis `{axis}`"))?;
        let value = program.values.ids().find(|id| id.to_string() == value).ok_or("there is no such value")?;
        let dim = dim.parse()?;
        for piece in layout.mesh.pieces(axis) {
            if !layout.may_cut(value, dim, piece) {
                return Err(format!("`{tile}` is not possible").into());
            }
            layout.cut(value, dim, piece);
        }
        layout.propagate();
    }
    Ok(layout)
}

fn show_layout(source: &str) -> Result<String, Failed> {
    let program = program(source)?;
    let layout = layout(source, &program)?;
    let mesh = &layout.mesh;
    let mut text = String::new();
    for &value in &program.body().arguments {
        writeln!(text, "{value}: {}", layout.sharding(value).describe(mesh))?;
    }
    for &op in layout.ops() {
        let operation = &program.ops[op];
        let lies: Vec<String> = operation
            .results
            .iter()
            .map(|&result| match layout.is_free(result) {
                true => format!("{result}: free"),
                false => format!("{result}: {}", layout.sharding(result).describe(mesh)),
            })
            .collect();
        let (rule, strategy) = (layout.rule(op), layout.strategy(op));
        let works_on = rule.operands.iter().map(|labels| strategy.sharding(rule, mesh, labels).describe(mesh));
        let makes = rule.results.iter().map(|labels| strategy.result(rule, mesh, labels).describe(mesh));
        let (works_on, makes): (Vec<String>, Vec<String>) = (works_on.collect(), makes.collect());
        let name = operation.op.name();
        if strategy.used().is_empty() {
            writeln!(text, "{} = {name}", lies.join(", "))?;
        } else {
            writeln!(text, "{} = {name} ({}) -> ({})", lies.join(", "), works_on.join(", "), makes.join(", "))?;
        }
    }
    Ok(text)
}

fn show_local(source: &str) -> Result<String, Failed> {
    let program = program(source)?;
    let program = expand_batch_norm(&program);
    let layout = layout(source, &program)?;
    let mesh = layout.mesh.clone();
    let (_, local) = lower_layout(layout, &estimate)?;
    local.program.verify()?;
    let stored = |shardings: &[Sharding]| {
        shardings.iter().map(|sharding| sharding.describe(&mesh)).collect::<Vec<String>>().join(", ")
    };
    Ok(format!("({}) -> ({})\n{}", stored(&local.arguments), stored(&local.results), local.program))
}

fn show_pipeline(source: &str) -> Result<String, Failed> {
    let program = program(source)?;
    let mesh = source.lines().find_map(|line| line.strip_prefix("// mesh: ")).ok_or("there is no mesh")?;
    let tactics: Vec<&str> = source.lines().filter_map(|line| line.strip_prefix("//| ")).collect();
    let wrong = |message: &str, hint: Option<String>| {
        format!("error: {message}\n{}", hint.map(|hint| format!("hint: {hint}\n")).unwrap_or_default())
    };
    let tactics = match tactics::parse(&tactics.join("\n")) {
        Ok(tactics) => tactics,
        Err(error) => return Ok(wrong(&error.message, error.hint)),
    };
    let pipeline = match pipeline(&program, &Mesh::parse(mesh)?, &tactics, &estimate) {
        Ok(cut) => cut.pipeline,
        Err(error) => return Ok(wrong(&error.message, error.hint)),
    };
    let mut text = String::new();
    for (index, piece) in pipeline.pieces.iter().enumerate() {
        piece.program.verify()?;
        if source.contains("// show: pieces") {
            writeln!(text, "{}\n{}", pipeline.piece_name(index), piece.program)?;
        }
    }
    if source.contains("// show: held") {
        for (buffer, held) in pipeline.buffers.iter().zip(pipeline.held()) {
            writeln!(text, "stage {} `{}` {} {}", buffer.stage, buffer.name, buffer.ty, held.describe(&pipeline.mesh))?;
        }
    }
    Ok(text + &pipeline.to_string())
}

fn line(source: &str, diagnostic: &Diagnostic) -> String {
    let before = &source[..diagnostic.span.start];
    let row = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
    let severity = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let mut line = format!("{row}:{column} {severity}: {}", diagnostic.message);
    if !diagnostic.label.is_empty() {
        line += &format!(" | {}", diagnostic.label);
    }
    if let Some(hint) = &diagnostic.hint {
        line += &format!(" | hint: {hint}");
    }
    line + "\n"
}
