//! How long importing a text takes, which verifies every op as it is read: `cargo bench --bench import -- FILE`.
//!
//! Prints the least seconds of several rounds. `cargo xtask bench` runs it beside jaxlib's parser.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figure")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use meshwright::import::import;

const ROUNDS: usize = 10;

fn main() {
    // Cargo adds `--bench` to what the user gave.
    let Some(path) = std::env::args().skip(1).find(|argument| !argument.starts_with("--")) else {
        println!("usage: cargo bench --bench import -- FILE");
        return;
    };
    let text: Arc<str> = std::fs::read_to_string(&path).expect("the file is text").into();
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        import(&text).program.expect("the file is a program");
        best = best.min(start.elapsed());
    }
    println!("{}", best.as_secs_f64());
}
