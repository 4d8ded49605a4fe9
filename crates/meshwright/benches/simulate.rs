//! How long simulating a pipeline takes once it is prepared: `cargo bench --bench simulate`.
//!
//! GPT-3 with 96 layers in 12 stages of 8 devices and 64 microbatches. Prints the seconds of preparing and the least
//! seconds of several rounds of simulating. `cargo xtask bench` shows both.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::time::{Duration, Instant};

use meshwright::cluster::parse as parse_cluster;
use meshwright::lower::estimate;
use meshwright::models::Model;
use meshwright::pipeline::pipeline;
use meshwright::shard::Mesh;
use meshwright::simulate::{Prepared, engine, simulate};
use meshwright::tactics::parse as parse_tactics;

const ROUNDS: usize = 10;

const TACTICS: &str = "
    [[tactic]]
    axis = 'model'
    preset = 'megatron'

    [[tactic]]
    axis = 'micro'
    preset = 'data'

    [[tactic]]
    stages = 12
    schedule = '1f1b'
";

fn main() {
    let mut model = Model::preset("gpt-175b").expect("a preset");
    model.set("batch", "64").expect("a batch");
    let program = model.build().expect("the preset can be built");
    let mesh = Mesh::parse("model=8,micro=64@time").expect("a mesh");
    let tactics = parse_tactics(TACTICS).expect("tactics");
    let cluster = parse_cluster("12x8xh100").expect("a cluster");
    let engine = engine("xla").expect("an engine");
    let pipelined = pipeline(&program, &mesh, &tactics, &estimate).expect("the model can be cut");
    let started = Instant::now();
    let prepared = Prepared::new(pipelined.pipeline, &pipelined.anatomy.classes, engine);
    let preparing = started.elapsed();
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let timeline = simulate(&prepared, &cluster, engine);
        best = best.min(started.elapsed());
        assert!(timeline.step_seconds > 0.0, "a step takes time");
    }
    println!("{} {}", preparing.as_secs_f64(), best.as_secs_f64());
}
