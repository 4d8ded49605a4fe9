//! Solves a problem and prints a line about how that went.

use std::error::Error;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use flate2::read::MultiGzDecoder;
use meshwright_solver::{Answer, Enough, Limit, Options, Problem, Start, contest, solve};

/// Costs are shown as they were this many seconds after the start.
const EARLY: f64 = 5.0;

pub(crate) const HEADER: &str = "instance                   nodes  entries  MB/s first s            at 5 s           at half              cost       lower bound    gap %  seconds    CPU s       MB";

/// An instance and how fast it was read, in megabytes per second.
pub(crate) fn read(path: &Path) -> Result<(Problem, f64), Box<dyn Error>> {
    let mut text = Vec::new();
    MultiGzDecoder::new(fs::File::open(path)?).read_to_end(&mut text)?;
    let start = Instant::now();
    let problem = contest::read(&text)?;
    Ok((problem, text.len() as f64 / 1e6 / start.elapsed().as_secs_f64()))
}

/// Solves an instance and prints its line.
pub(crate) fn measure(problem: &Problem, rate: f64, limit: Duration, trace: bool) -> Result<(), Box<dyn Error>> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let options =
        Options { limit: Limit::Time(limit), threads, seed: 0, start: Start::default(), enough: Enough::default() };
    // Linux forgets the largest size so far when told to.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let (start, cpu, mut early, mut half, mut first) = (Instant::now(), cpu_seconds(), None, None, None);
    let answer = solve(problem, &options, |progress| {
        let seconds = start.elapsed().as_secs_f64();
        if seconds < EARLY {
            early = progress.cost;
        }
        if seconds < 0.5 * limit.as_secs_f64() {
            half = progress.cost;
        }
        if progress.cost.is_some() {
            first.get_or_insert(seconds);
        }
        if trace {
            let (cost, bound) = (shown(progress.cost), shown(progress.lower_bound));
            println!("{seconds:>8.2} s {:>8.2} CPU s {cost:>20} {bound:>20}", cpu_seconds() - cpu);
        }
    })?;
    let (time, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let (cost, bound, gap) = match answer {
        Answer::Solved(solution) => {
            let (cost, bound) = (solution.evaluation.cost, solution.lower_bound);
            let gap = 100.0 * (cost - bound) as f64 / cost as f64;
            // When the search ends early, what it found by then is what it would have found later.
            if time < EARLY {
                early = Some(cost);
            }
            if time < 0.5 * limit.as_secs_f64() {
                half = Some(cost);
            }
            first.get_or_insert(time);
            (cost.to_string(), bound.to_string(), format!("{gap:.3}"))
        }
        Answer::Infeasible(_) => ("infeasible".to_owned(), "-".to_owned(), "-".to_owned()),
        Answer::Unknown => ("-".to_owned(), "-".to_owned(), "-".to_owned()),
    };
    let (name, nodes, early, half) = (&problem.name, problem.nodes.len(), shown(early), shown(half));
    let entries: usize = problem.edges.iter().map(|edge| edge.costs.len()).sum();
    let first = first.map_or("-".to_owned(), |seconds| format!("{seconds:.1}"));
    println!(
        "{name:<24}{nodes:>8}{entries:>9}{rate:>6.0}{first:>8}{early:>18}{half:>18}{cost:>18}{bound:>18}{gap:>9}{time:>9.1}{cpu:>9.1}{:>9.0}",
        peak_megabytes()
    );
    Ok(())
}

fn shown(cost: Option<i128>) -> String {
    cost.map_or("-".to_owned(), |cost| cost.to_string())
}

/// What all threads together have computed, where the system tells; it counts in hundredths.
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// The largest size of the process since it was last forgotten.
fn peak_megabytes() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) / 1e3
}
