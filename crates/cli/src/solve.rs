//! `meshwright solve`: labelling with memory, on its own.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use meshwright::codes::Code;
use meshwright_solver::{
    Answer as Solved, Enough, Infeasible, Limit, Options, Problem, Progress, Solution, Start, contest,
};

use crate::error::{Answer, Error};
use crate::input::{self, Wanted};
use crate::output::{self, Overwrite};
use crate::table::{count, grouped};

/// Choose one alternative per node at least cost, with memory under its limit at every time
///
/// An instance is a JSON file of the contest on intra-operator parallelism: nodes with alternatives,
/// each with a cost and a usage over an interval of times; edges with a cost for every combination of
/// their nodes' alternatives; a usage limit. Costs of 10^18 and more mark what must not be chosen.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// JSON file, plain or compressed with gzip, or `-` for standard input
    instance: PathBuf,
    /// How long to search; the search ends earlier when the best is proven to be that
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds)]
    time: f64,
    /// Search for so much work instead, about a billion per second and thread: the same work finds
    /// the same, whatever the machine and the number of threads
    #[arg(long, value_name = "N", conflicts_with = "time")]
    work: Option<f64>,
    /// How many threads to use [default: as many as there are]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    /// Seed of the search
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Start from an assignment, a file as `-o` writes it
    #[arg(long, value_name = "FILE")]
    start: Option<PathBuf>,
    /// Write the chosen alternatives as a JSON list
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    overwrite: Overwrite,
}

const AFTER_HELP: &str = "\
Examples:
  meshwright solve instance.json.gz --time 30
  meshwright solve instance.json -o assignment.json --json";

pub(crate) fn execute(arguments: &Arguments) -> Result<Answer, Error> {
    if let Some(path) = &arguments.output {
        output::check(path, arguments.overwrite)?;
    }
    let problem = read(&arguments.instance)?;
    let assignment = arguments.start.as_deref().map(|path| read_assignment(path, &problem)).transpose()?;
    let options = Options {
        limit: match arguments.work {
            Some(work) => Limit::Work(work),
            None => Limit::Time(Duration::from_secs_f64(arguments.time)),
        },
        threads: arguments.threads.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZero::get),
        seed: arguments.seed,
        start: Start { assignments: assignment.into_iter().collect(), prices: Vec::new() },
        enough: Enough::default(),
    };
    let start = Instant::now();
    let mut shown = Shown::new(start);
    let solved = meshwright_solver::solve(&problem, &options, |progress| shown.update(progress));
    shown.clear();
    let solved = solved.map_err(|error| Error::new(Code::Instance, error.to_string()))?;
    let seconds = start.elapsed().as_secs_f64();
    if let (Some(path), Solved::Solved(solution)) = (&arguments.output, &solved) {
        let list = serde_json::Value::from(solution.assignment.clone());
        output::write(path, format!("{list}\n").as_bytes(), arguments.overwrite)?;
    }
    let text = if arguments.json { to_json(&problem, &solved, seconds) } else { to_text(&problem, &solved, seconds) };
    output::print(text.as_bytes())?;
    Ok(if matches!(solved, Solved::Solved(_)) { Answer::Yes } else { Answer::No })
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..1e9).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds".to_owned()),
    }
}

const FILE: Wanted<'_> = Wanted { kind: "file", names: &[] };

fn read(path: &Path) -> Result<Problem, Error> {
    let bytes = input::read(path, FILE)?;
    contest::read(&bytes).map_err(|error| {
        Error::new(Code::Instance, format!("`{}` is no instance: {error}", path.display()))
            .hint("`meshwright solve --help` says what an instance is")
    })
}

fn read_assignment(path: &Path, problem: &Problem) -> Result<Vec<u32>, Error> {
    let list: Vec<u32> = serde_json::from_slice(&input::read(path, FILE)?).map_err(|error| {
        Error::new(Code::Instance, format!("`{}` is no list of alternatives: {error}", path.display()))
    })?;
    if list.len() != problem.nodes.len() {
        let (found, expected) = (count(list.len()), count(problem.nodes.len()));
        return Err(Error::new(
            Code::Instance,
            format!("`{}` has {found} choices for {expected} nodes", path.display()),
        ));
    }
    Ok(list)
}

/// Progress, on a terminal only.
struct Shown {
    start: Instant,
    is_terminal: bool,
}

impl Shown {
    fn new(start: Instant) -> Shown {
        Shown { start, is_terminal: io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() }
    }

    fn update(&mut self, progress: Progress) {
        if !self.is_terminal {
            return;
        }
        let mut line = format!("{:.1} s", self.start.elapsed().as_secs_f64());
        if let Some(cost) = progress.cost {
            let _ = write!(line, "  cost {}", grouped(cost));
        }
        if let Some(bound) = progress.lower_bound {
            let _ = write!(line, "  bound {}", grouped(bound));
        }
        if let (Some(cost), Some(bound)) = (progress.cost, progress.lower_bound) {
            let _ = write!(line, "  gap {}", gap(cost, bound));
        }
        let _ = write!(io::stderr(), "\r\x1b[2K{line}");
    }

    fn clear(&self) {
        if self.is_terminal {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}

fn gap(cost: i128, bound: i128) -> String {
    format!("{:.3}%", 100.0 * (cost - bound) as f64 / (cost as f64).abs().max(1.0))
}

fn to_text(problem: &Problem, solved: &Solved, seconds: f64) -> String {
    match solved {
        Solved::Solved(solution) => {
            let cost = solution.evaluation.cost;
            let proof = if solution.is_optimal() { "optimal".to_owned() } else { gap(cost, solution.lower_bound) };
            let mut text = format!("cost         {}\n", grouped(cost));
            let _ = writeln!(text, "lower bound  {} ({proof})", grouped(solution.lower_bound));
            let (peak, limit) = usage(problem, solution);
            let limit = limit.map(|limit| format!(" of {}", grouped(i128::from(limit)))).unwrap_or_default();
            let _ = writeln!(text, "peak usage   {}{limit}", grouped(peak as i128));
            let _ = writeln!(text, "seconds      {seconds:.1}");
            text
        }
        Solved::Infeasible(reason) => format!("infeasible: {}\n", explain(reason)),
        Solved::Unknown => "no solution found in time, and no proof that there is none\n".to_owned(),
    }
}

/// Written by hand: costs may have more digits than numbers in JSON libraries do.
fn to_json(problem: &Problem, solved: &Solved, seconds: f64) -> String {
    let Solved::Solved(solution) = solved else {
        let (proven, reason) = match solved {
            Solved::Infeasible(reason) => (true, explain(reason)),
            _ => (false, "no solution found in time".to_owned()),
        };
        let reason = serde_json::Value::from(reason);
        return format!(
            "{{\n  \"cost\": null,\n  \"infeasible\": {proven},\n  \"reason\": {reason},\n  \"seconds\": {seconds:.3}\n}}\n"
        );
    };
    let (peak, limit) = usage(problem, solution);
    let limit = limit.map_or("null".to_owned(), |limit| limit.to_string());
    format!(
        "{{\n  \"cost\": {},\n  \"lower_bound\": {},\n  \"optimal\": {},\n  \"seconds\": {seconds:.3},\n  \
         \"peak_usage\": {peak},\n  \"usage_limit\": {limit}\n}}\n",
        solution.evaluation.cost,
        solution.lower_bound,
        solution.is_optimal(),
    )
}

/// The peak and the limit of the one resource that an instance has.
fn usage(problem: &Problem, solution: &Solution) -> (u128, Option<u64>) {
    let peak = solution.evaluation.peaks.first().map_or(0, |peak| peak.amount);
    (peak, problem.resources.first().and_then(|resource| resource.limit))
}

fn explain(reason: &Infeasible) -> String {
    match reason {
        Infeasible::Forbidden { node } => format!("what is forbidden leaves node {node} no alternative"),
        Infeasible::Limit { time, needed, limit, nodes, .. } => {
            let over = grouped(*needed as i128 - i128::from(*limit));
            let mut text = format!(
                "at time {time} at least {} is used, {over} more than the limit of {}",
                grouped(*needed as i128),
                grouped(i128::from(*limit))
            );
            if !nodes.is_empty() {
                let list: Vec<String> =
                    nodes.iter().map(|(node, amount)| format!("{node} ({})", grouped(i128::from(*amount)))).collect();
                let _ = write!(text, "; most of it by nodes {}", list.join(", "));
            }
            text
        }
        Infeasible::Combination => "every combination breaks a limit or has something forbidden".to_owned(),
    }
}
