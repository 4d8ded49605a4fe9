//! What the solver finds on instances of the contest, and when:
//! `cargo bench --package meshwright-solver --bench instances -- FOLDER_OR_FILE... SECONDS [--trace]`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

mod measure;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use measure::{HEADER, measure, read};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let trace = arguments.iter().any(|argument| argument == "--trace");
    arguments.retain(|argument| !argument.starts_with("--"));
    let Some((seconds, places)) = arguments.split_last().filter(|(_, places)| !places.is_empty()) else {
        println!("name instances (`.json.gz`) or folders of them, and how many seconds to spend on each");
        return Ok(());
    };
    let limit = Duration::from_secs_f64(seconds.parse()?);
    println!("{HEADER}");
    for path in places.iter().map(|place| instances(Path::new(place))).collect::<Result<Vec<_>, _>>()?.concat() {
        let (problem, rate) = read(&path)?;
        measure(&problem, rate, limit, trace)?;
    }
    Ok(())
}

/// A file, or those of a folder.
fn instances(place: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    if !place.is_dir() {
        return Ok(vec![place.to_owned()]);
    }
    let mut paths: Vec<PathBuf> = fs::read_dir(place)?.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(".json.gz"));
    paths.sort();
    Ok(paths)
}
