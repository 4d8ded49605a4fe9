//! Tries the grid of plans that people choose from without a planner, and prints the best:
//!
//! ```text
//! cargo run --release -p meshwright --example grid -- MODEL [--set KEY=VALUE]... --cluster CLUSTER
//!     [--memory BYTES] [--engine ENGINE] [--show COUNT]
//! cargo run --release -p meshwright --example grid -- --all | --only NAME [--plans] [--engine ENGINE]
//! cargo run --release -p meshwright --example grid -- --recorded [--plans] [--engine ENGINE]
//! cargo run --release -p meshwright --example grid -- --osdp [--plans]
//! cargo run --release -p meshwright --example grid -- --gaps [--engine ENGINE]
//! cargo run --release -p meshwright --example grid -- MODEL [--set KEY=VALUE]... --cluster CLUSTER --time
//! ```
//!
//! For one model: the best ten, the best of every kind, and the mesh and the tactics of the best. `--all` prints the
//! best of every case in `tests/peers/cases.rs`, which takes an hour or two and is kept in `tests/peers/best.txt`,
//! and `--only` of those with a text in their names; `--recorded` prints what those that were kept come to now;
//! `--osdp` prints what each way to keep state comes to under limits. With `--plans` all print tables with what planning
//! comes to beside, that of recorded cases where it does for cases. `--gaps` prints how far the labelling of every preset is from its bound, and `--time` the seconds
//! that planning a model takes and the bytes that the process had at most.

#![expect(clippy::print_stdout, reason = "a tool tells its findings")]

use std::error::Error;
use std::time::Instant;

use meshwright::cluster::{Cluster, parse, parse_bytes};
use meshwright::program::Program;
use meshwright::simulate::{Engine, engine};

#[path = "../tests/peers/mod.rs"]
#[expect(dead_code, reason = "another tool asks for the other peers")]
mod peers;
mod planned;

use peers::cases::{CASES, build};
use peers::grid::{Candidate, Grid, STATES, Setting, grid};
use peers::osdp;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    let engine = engine(&arguments.engine).ok_or_else(|| format!("there is no engine `{}`", arguments.engine))?;
    match &arguments.what {
        What::Cases(name) if arguments.plans => planned::cases(name, engine),
        What::Cases(name) => cases(name, engine),
        What::Gaps => planned::gaps(engine),
        What::Osdp if arguments.plans => planned::uniform(),
        What::Osdp => uniform(),
        What::Recorded if arguments.plans => planned::cases("", engine),
        What::Recorded => recorded(engine),
        What::One(model) if arguments.time => {
            let (program, cluster) = arguments.build(model)?;
            planned::time(&program, &cluster, engine)
        }
        What::One(model) => one(model, &arguments, engine),
    }
}

enum What {
    /// Those with this in their names.
    Cases(String),
    Gaps,
    Osdp,
    Recorded,
    One(String),
}

struct Arguments {
    what: What,
    settings: Vec<(String, String)>,
    cluster: Option<String>,
    memory: Option<String>,
    engine: String,
    /// How many of the best are shown.
    show: usize,
    /// Whether plans stand beside.
    plans: bool,
    /// Whether planning is timed, and nothing else done.
    time: bool,
}

impl Arguments {
    fn parse(mut given: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let (mut what, mut cluster, mut memory) = (None, None, None);
        let (mut settings, mut engine, mut show) = (Vec::new(), "xla".to_owned(), 10);
        let (mut plans, mut time) = (false, false);
        while let Some(argument) = given.next() {
            let mut value = || given.next().ok_or_else(|| format!("`{argument}` lacks its value"));
            match argument.as_str() {
                "--all" => what = Some(What::Cases(String::new())),
                "--only" => what = Some(What::Cases(value()?)),
                "--recorded" => what = Some(What::Recorded),
                "--gaps" => what = Some(What::Gaps),
                "--osdp" => what = Some(What::Osdp),
                "--plans" => plans = true,
                "--time" => time = true,
                "--cluster" => cluster = Some(value()?),
                "--memory" => memory = Some(value()?),
                "--engine" => engine = value()?,
                "--show" => show = value()?.parse().map_err(|_| "`--show` takes a number")?,
                "--set" => {
                    let text = value()?;
                    let (key, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is no `key=value`"))?;
                    settings.push((key.to_owned(), value.to_owned()));
                }
                option if option.starts_with("--") => return Err(format!("there is no option `{option}`")),
                model => what = Some(What::One(model.to_owned())),
            }
        }
        Ok(Arguments { what: what.ok_or("which model?")?, settings, cluster, memory, engine, show, plans, time })
    }

    fn build(&self, model: &str) -> Result<(Program, Cluster), String> {
        let settings = self.settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let cluster = parse(self.cluster.as_ref().ok_or("which cluster?")?).map_err(|error| error.message)?;
        Ok((build(model, settings)?, cluster))
    }
}

/// Over the columns of candidates.
const HEADING: &str =
    "        step         peak           mesh                             state             computes   besides";

fn one(model: &str, arguments: &Arguments, engine: &Engine) -> Result<(), Box<dyn Error>> {
    let (program, cluster) = arguments.build(model)?;
    let limit_bytes = match &arguments.memory {
        Some(text) => parse_bytes(text).map_err(|(message, _)| message)?,
        None => cluster.memory_bytes(),
    };
    let found = grid(&program, Setting { cluster: &cluster, engine, limit_bytes });
    println!("{}", counts(&found));
    println!("\nbest\n{HEADING}");
    found.candidates.iter().filter(|candidate| candidate.fits).take(arguments.show).for_each(|best| println!("{best}"));
    println!("\nbest of every kind\n{:28} {HEADING}", "");
    for best in found.best_of_kinds() {
        println!("{:28} {best}", best.choice.kind());
    }
    match found.best() {
        Some(best) => println!("\n--mesh {}\n\n{}", best.choice.mesh(), best.choice.tactics()),
        None => println!("\nnothing fits"),
    }
    Ok(())
}

fn cases(name: &str, engine: &Engine) -> Result<(), Box<dyn Error>> {
    for case in CASES.iter().filter(|case| case.name().contains(name)) {
        let started = Instant::now();
        let (program, cluster) = case.build()?;
        let found = grid(&program, Setting { cluster: &cluster, engine, limit_bytes: cluster.memory_bytes() });
        println!("{}: {} in {:.0} s", case.name(), counts(&found), started.elapsed().as_secs_f64());
        match found.best() {
            Some(best) => println!("{best}"),
            None => println!("nothing fits"),
        }
    }
    Ok(())
}

fn recorded(engine: &Engine) -> Result<(), Box<dyn Error>> {
    for case in CASES {
        let (program, cluster) = case.build()?;
        let setting = Setting { cluster: &cluster, engine, limit_bytes: cluster.memory_bytes() };
        match case.recorded_best() {
            Some(best) => println!("{}\n{}", case.name(), best.try_on(&program, setting)?),
            None => println!("{}\nnothing is recorded", case.name()),
        }
    }
    Ok(())
}

/// How many points there are, and what became of them.
fn counts(grid: &Grid) -> String {
    let fitting = grid.candidates.iter().filter(|candidate| candidate.fits).count();
    let mut text = format!("{fitting} of {} points fit", grid.candidates.len());
    for (reason, count) in &grid.refused {
        text += &format!(", {count} left out: {reason}");
    }
    text
}

fn uniform() -> Result<(), Box<dyn Error>> {
    for case in osdp::CASES {
        println!(
            "{} on {} by {}: seconds and microbatches, alone | with layers computed again",
            case.name, case.cluster, case.engine
        );
        let heading: String = STATES.iter().map(|state| format!(" {:>25}", state.name)).collect();
        println!("{:>9}{heading}", "limit");
        for row in osdp::uniform(case)? {
            let cell = |candidate: &Option<Candidate>| match candidate {
                Some(found) => format!("{:.3} /{}", found.seconds, found.choice.microbatches),
                None => "-".to_owned(),
            };
            let cells = row.best.iter().map(|[alone, again]| format!(" {:>12}|{:>12}", cell(alone), cell(again)));
            println!("{:>5} GiB{}", row.limit_gib, cells.collect::<String>());
        }
        println!();
    }
    Ok(())
}
