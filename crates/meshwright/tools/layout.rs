//! Lays a model out by tiles on its arguments and tells the shardings, for comparison with Shardy
//! (`python/benches/shardy.py`).
//!
//! ```text
//! layout MODEL.mlir.gz --mesh data=2,model=4 [--tiles axis:pattern=dim,pattern=dim]... --emit WHAT
//! ```
//!
//! Each `--tiles` is one step: it cuts the arguments whose names the patterns match and spreads the cuts.
//! WHAT is one of
//!
//! - `shardings`: JSON with the tiles, and the shardings of arguments, results and matrix products that
//!   follow from them,
//! - `numbered`: the model itself, with the number of each op as its location,
//! - `seconds`: the least time that the shardings take, that they and lowering take, and that a schedule
//!   of three presets takes with the costs of the program after each.

#![expect(clippy::print_stdout, reason = "a tool prints what it makes")]

use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use meshwright::import::import;
use meshwright::lower::{estimate, lower_layout};
use meshwright::program::{AttentionForm, Id, Location, Op, PrintOptions, Program, ValueId, print};
use meshwright::shard::{Layout, Mesh, Piece};
use meshwright::tactics::{Pattern, parse, partition};

const ROUNDS: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    let program = read(&arguments.model)?;
    let mesh = Mesh::parse(&arguments.mesh)?;
    match arguments.emit.as_str() {
        "numbered" => println!("{}", numbered(program)),
        "seconds" => println!("{}", seconds(&program, &mesh, &arguments.tiles)?),
        "shardings" => {
            let (layout, seeds) = lay_out(&program, &mesh, &arguments.tiles)?;
            println!("{}", shardings(&layout, &seeds));
        }
        other => return Err(format!("nothing is called `{other}`").into()),
    }
    Ok(())
}

/// A cut that was asked for.
struct Seed {
    argument: usize,
    dim: usize,
    pieces: Vec<Piece>,
    /// Which step asked for it.
    step: usize,
}

fn lay_out<'p>(program: &'p Program, mesh: &Mesh, tiles: &[String]) -> Result<(Layout<'p>, Vec<Seed>), Box<dyn Error>> {
    let mut layout = Layout::new(program, mesh.clone());
    let mut seeds = Vec::new();
    for (number, step) in tiles.iter().enumerate() {
        seeds.extend(tile(&mut layout, step, number)?);
        layout.propagate();
    }
    Ok((layout, seeds))
}

fn seconds(program: &Program, mesh: &Mesh, tiles: &[String]) -> Result<String, Box<dyn Error>> {
    let (mut spread, mut all, mut schedule) = (Duration::MAX, Duration::MAX, Duration::MAX);
    let tactics = parse(SCHEDULE).map_err(|error| error.message)?;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let (layout, _) = lay_out(program, mesh, tiles)?;
        spread = spread.min(start.elapsed());
        lower_layout(layout.clone(), &estimate)?;
        all = all.min(start.elapsed());
        let start = Instant::now();
        partition(program, mesh, &tactics, &estimate).map_err(|error| error.message)?;
        schedule = schedule.min(start.elapsed());
    }
    Ok(format!("{} {} {}", spread.as_secs_f64(), all.as_secs_f64(), schedule.as_secs_f64()))
}

const SCHEDULE: &str = r#"
    tactic = [
      { axis = "data", preset = "data" },
      { axis = "model", preset = "megatron" },
      { axis = "data", preset = "zero3" },
    ]"#;

struct Arguments {
    model: String,
    mesh: String,
    tiles: Vec<String>,
    emit: String,
}

impl Arguments {
    fn parse(mut given: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let (mut model, mut mesh) = (None, "devices=1".to_owned());
        let (mut tiles, mut emit) = (Vec::new(), "shardings".to_owned());
        while let Some(argument) = given.next() {
            let mut value = || given.next().ok_or_else(|| format!("`{argument}` lacks its value"));
            match argument.as_str() {
                "--mesh" => mesh = value()?,
                "--tiles" => tiles.push(value()?),
                "--emit" => emit = value()?,
                _ => model = Some(argument),
            }
        }
        Ok(Arguments { model: model.ok_or("which model?")?, mesh, tiles, emit })
    }
}

fn read(path: &str) -> Result<Program, Box<dyn Error>> {
    let mut text = String::new();
    let mut file = File::open(path)?;
    if path.ends_with(".gz") {
        flate2::read::GzDecoder::new(file).read_to_string(&mut text)?;
    } else {
        file.read_to_string(&mut text)?;
    }
    Ok(import(&Arc::from(text)).program.ok_or("the model has errors")?)
}

/// Reads `axis:pattern=dim,pattern=dim` and cuts what matches.
fn tile(layout: &mut Layout<'_>, text: &str, step: usize) -> Result<Vec<Seed>, Box<dyn Error>> {
    let (axis, tiles) = text.split_once(':').ok_or("tiles begin with an axis")?;
    let axis = layout.mesh.axis(axis).ok_or_else(|| format!("the mesh has no axis `{axis}`"))?;
    let mut seeds = Vec::new();
    for tile in tiles.split(',') {
        let (pattern, dim) = tile.rsplit_once('=').ok_or("a tile ends with a dimension")?;
        let dim: usize = dim.parse()?;
        let names = layout.program.arguments.iter().enumerate();
        let matched = names.filter(|(_, argument)| Pattern::new(pattern).matches(&argument.name));
        let matched: Vec<usize> = matched.map(|(index, _)| index).collect();
        if matched.is_empty() {
            return Err(format!("no argument is called `{pattern}`").into());
        }
        for argument in matched {
            let pieces = cut(layout, layout.program.body().arguments[argument], axis, dim);
            if !pieces.is_empty() {
                seeds.push(Seed { argument, dim, pieces, step });
            }
        }
    }
    Ok(seeds)
}

/// Cuts a dimension along as much of an axis as divides it. Gives the pieces.
fn cut(layout: &mut Layout<'_>, value: ValueId, axis: usize, dim: usize) -> Vec<Piece> {
    let mut pieces = layout.mesh.pieces(axis).to_vec();
    let Some(&size) = layout.program.shape(value).get(dim) else { return Vec::new() };
    let divides = |layout: &Layout<'_>, piece: Piece| {
        let parts = layout.mesh.product(&layout.sharding(value).dims[dim]) * layout.mesh.size(piece);
        size.is_multiple_of(parts) && layout.may_cut(value, dim, piece)
    };
    let mut count = 0;
    while count < pieces.len() && divides(layout, pieces[count]) {
        layout.cut(value, dim, pieces[count]);
        count += 1;
    }
    pieces.truncate(count);
    pieces
}

fn shardings(layout: &Layout<'_>, seeds: &[Seed]) -> serde_json::Value {
    let program = layout.program;
    let dims = |value: ValueId| -> Vec<String> {
        layout.sharding(value).dims.iter().map(|pieces| layout.mesh.describe(pieces)).collect()
    };
    let named = |values: &[ValueId], name: &dyn Fn(usize) -> String| -> Vec<serde_json::Value> {
        let each = values.iter().enumerate();
        each.map(|(index, &value)| serde_json::json!({ "name": name(index), "dims": dims(value) })).collect()
    };
    let products = program.ops.iter().filter(|(_, operation)| matches!(operation.op, Op::DotGeneral(_)));
    let products: Vec<serde_json::Value> = products
        .map(|(op, operation)| {
            let scope = program.locations[operation.location].scope.to_string();
            serde_json::json!({ "name": op.index().to_string(), "scope": scope, "dims": dims(operation.results[0]) })
        })
        .collect();
    let seed = |&Seed { argument, dim, ref pieces, step }: &Seed| serde_json::json!({ "argument": argument, "dim": dim, "axes": layout.mesh.describe(pieces), "step": step });
    serde_json::json!({
        "seeds": seeds.iter().map(seed).collect::<Vec<_>>(),
        "arguments": named(&program.body().arguments, &|index| program.arguments[index].name.clone()),
        "results": named(&program.body().results, &|index| program.results[index].name.clone()),
        "products": products,
    })
}

/// The text of a program in which every op can be told by its location.
fn numbered(mut program: Program) -> String {
    let ops: Vec<_> = program.ops.ids().collect();
    for op in ops {
        let scope = Arc::from(format!("op.{}", op.index()));
        let location = program.locations.push(Location { scope, ..Location::unknown() });
        program.ops[op].location = location;
    }
    print(&program, PrintOptions { locations: true, attention: AttentionForm::Expanded })
}
