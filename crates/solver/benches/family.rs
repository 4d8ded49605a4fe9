//! What the solver finds on made-up training steps and on variants of instances, and when:
//! `cargo bench --package meshwright-solver --bench family -- SECONDS [NAME] [INSTANCE...]`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

#[path = "../tests/family/mod.rs"]
mod family;
mod measure;

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use family::variant::{Variant, vary};
use family::{Shape, training_step};
use measure::{HEADER, measure, read};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let trace = arguments.iter().any(|argument| argument == "--trace");
    let arguments: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let (Some(seconds), only, instances) =
        (arguments.first(), arguments.get(1).map_or("", |name| name), arguments.get(2..).unwrap_or_default())
    else {
        println!("say how many seconds to spend on each, a part of the names to try, and instances to vary");
        return Ok(());
    };
    let limit = Duration::from_secs_f64(seconds.parse()?);
    println!("{HEADER}");
    for (name, shape) in shapes() {
        if name.contains(only) {
            let mut problem = training_step(&shape);
            problem.name = name.to_owned();
            measure(&problem, 0.0, limit, trace)?;
        }
    }
    for path in instances {
        let (problem, rate) = read(Path::new(path))?;
        for variant in VARIANTS {
            let varied = vary(&problem, variant);
            if varied.name.contains(only) {
                measure(&varied, rate, limit, trace)?;
            }
        }
    }
    Ok(())
}

const VARIANTS: [Variant; 11] = [
    Variant::Room(1.001),
    Variant::Room(1.02),
    Variant::Room(1.3),
    Variant::Room(2.0),
    Variant::Costly,
    Variant::Allowed,
    Variant::Unbound,
    Variant::Perturbed(3),
    Variant::Perturbed(30),
    Variant::Half,
    Variant::Huge,
];

fn shapes() -> Vec<(&'static str, Shape)> {
    let shape = Shape { layers: 4, axes: vec![2, 4], binding: true, hyperedges: false, room: 1.1, seed: 1 };
    vec![
        ("4 layers, 2 axes", shape.clone()),
        ("4 layers, 3 axes", Shape { axes: vec![2, 4, 8], ..shape.clone() }),
        ("32 layers, free", Shape { layers: 32, binding: false, ..shape.clone() }),
        ("32 layers, hyper", Shape { layers: 32, hyperedges: true, ..shape.clone() }),
        ("32 layers, 3 axes", Shape { layers: 32, axes: vec![2, 4, 8], ..shape.clone() }),
        ("300 layers, 1.02", Shape { layers: 300, room: 1.02, ..shape.clone() }),
        ("900 layers, free", Shape { layers: 900, binding: false, ..shape.clone() }),
        ("900 layers, tight", Shape { layers: 900, room: 1.05, ..shape.clone() }),
        ("130 layers, 3 axes", Shape { layers: 130, axes: vec![2, 2, 2], ..shape.clone() }),
        ("130 layers, 3 free", Shape { layers: 130, axes: vec![2, 4, 8], binding: false, ..shape }),
    ]
}
