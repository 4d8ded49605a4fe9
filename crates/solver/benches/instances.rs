//! What the solver finds on instances of the contest, and when:
//! `cargo bench --package meshwright-solver --bench instances -- FOLDER SECONDS`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::error::Error;
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use flate2::read::MultiGzDecoder;
use meshwright_solver::{Answer, Limit, Options, Start, contest, solve};

/// Costs are shown as they were this many seconds after the start.
const EARLY: f64 = 5.0;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let [folder, seconds] = &*arguments else {
        println!("name a folder of instances (`.json.gz`) and how many seconds to spend on each");
        return Ok(());
    };
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(".json.gz"));
    paths.sort();
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    println!("{:<24}{:>10}{:>18}{:>18}{:>18}{:>10}", "instance", "MB/s", "at 5 s", "cost", "lower bound", "seconds");
    for path in paths {
        let mut text = Vec::new();
        MultiGzDecoder::new(fs::File::open(&path)?).read_to_end(&mut text)?;
        let start = Instant::now();
        let problem = contest::read(&text)?;
        let rate = text.len() as f64 / 1e6 / start.elapsed().as_secs_f64();
        drop(text);
        let limit = Limit::Time(Duration::from_secs_f64(seconds.parse()?));
        let (start, mut early) = (Instant::now(), None);
        let options = Options { limit, threads, seed: 0, start: Start::default() };
        let answer = solve(&problem, &options, |progress| {
            if start.elapsed().as_secs_f64() < EARLY {
                early = progress.cost;
            }
        })?;
        let time = start.elapsed().as_secs_f64();
        let early = early.map_or("-".to_owned(), |cost| cost.to_string());
        let (cost, bound) = match answer {
            Answer::Solved(solution) => (solution.evaluation.cost.to_string(), solution.lower_bound.to_string()),
            Answer::Infeasible(_) => ("infeasible".to_owned(), "-".to_owned()),
            Answer::Unknown => ("-".to_owned(), "-".to_owned()),
        };
        println!("{:<24}{rate:>10.0}{early:>18}{cost:>18}{bound:>18}{time:>10.1}", problem.name);
    }
    Ok(())
}
