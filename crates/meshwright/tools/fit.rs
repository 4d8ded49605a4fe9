//! Fits the efficiencies of devices and engines to measured runs, and prints them with their residuals.
//!
//! `cargo run --release -p meshwright --example fit -- RUNS.csv [SOURCE...]`

use std::collections::BTreeMap;

use meshwright::simulate::Prepared;
use meshwright::validate::{Setup, key, parse_rows, predict, prepare, setup};

struct Case {
    source: String,
    group: String,
    setup: Setup,
    prepared: Prepared,
    measured: f64,
}

/// A number that is fitted: what it is called, which runs it concerns, where it stands, and how far it may go.
struct Parameter {
    name: &'static str,
    concerns: fn(&Setup) -> bool,
    place: fn(&mut Setup) -> Vec<&mut f64>,
    range: (f64, f64),
}

fn device(setup: &Setup, prefix: &str) -> bool {
    setup.cluster.nodes[0].device.name.starts_with(prefix)
}

macro_rules! of_device {
    ($name:literal, $prefix:literal, $field:ident, $range:expr) => {
        Parameter {
            name: $name,
            concerns: |setup| device(setup, $prefix),
            place: |setup| setup.cluster.nodes.iter_mut().map(|nodes| &mut nodes.device.efficiency.$field).collect(),
            range: $range,
        }
    };
}

macro_rules! of_engine {
    ($name:literal, $engine:literal, $field:ident, $range:expr) => {
        Parameter {
            name: $name,
            concerns: |setup| setup.engine.name == $engine,
            place: |setup| vec![&mut setup.engine.$field],
            range: $range,
        }
    };
}

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "omnipath efficiency",
        concerns: |setup| setup.cluster.network.name == "omnipath-100",
        place: |setup| vec![&mut setup.cluster.network.efficiency],
        range: (0.1, 1.0),
    },
    Parameter {
        name: "infiniband efficiency",
        concerns: |setup| setup.cluster.network.name.starts_with("infiniband"),
        place: |setup| vec![&mut setup.cluster.network.efficiency],
        range: (0.3, 1.0),
    },
    of_device!("A100 products", "a100", products, (0.4, 1.0)),
    of_device!("A100 tile depth", "a100", tile_depth, (1.0, 400.0)),
    of_device!("A100 memory", "a100", memory, (0.3, 1.0)),
    of_device!("A100 attention", "a100", attention, (0.1, 1.0)),
    Parameter {
        name: "H100 products",
        concerns: |setup| ["h100", "h200"].contains(&&*setup.cluster.nodes[0].device.name),
        place: |setup| setup.cluster.nodes.iter_mut().map(|nodes| &mut nodes.device.efficiency.products).collect(),
        range: (0.3, 1.0),
    },
    of_device!("H100 500 W products", "h100-96g", products, (0.2, 1.0)),
    of_device!("H100 tile depth", "h100", tile_depth, (1.0, 400.0)),
    of_device!("H100 memory", "h100", memory, (0.3, 1.0)),
    of_device!("H100 attention", "h100", attention, (0.1, 1.0)),
    of_engine!("megatron dispatch", "megatron", dispatch_seconds, (1e-6, 2e-4)),
    of_engine!("megatron start", "megatron", collective_seconds, (1e-6, 1e-3)),
    of_engine!("megatron scores", "megatron", score_passes, (1.0, 12.0)),
    of_engine!("megatron collectives", "megatron", collective_share, (0.2, 1.0)),
    of_engine!("megatron step", "megatron", step_seconds, (1e-4, 2e-1)),
    of_engine!("megatron-core dispatch", "megatron-core", dispatch_seconds, (1e-6, 2e-4)),
    of_engine!("megatron-core collectives", "megatron-core", collective_share, (0.2, 1.0)),
    of_engine!("megatron-core hidden", "megatron-core", hidden_share, (0.0, 0.95)),
    of_engine!("fsdp dispatch", "fsdp", dispatch_seconds, (1e-6, 2e-4)),
    of_engine!("fsdp collectives", "fsdp", collective_share, (0.2, 1.0)),
    of_engine!("fsdp step", "fsdp", step_seconds, (1e-4, 2e-1)),
    of_engine!("fsdp contention", "fsdp", contention, (0.001, 0.6)),
    of_engine!("torchtitan dispatch", "torchtitan", dispatch_seconds, (1e-6, 2e-4)),
    of_engine!("torchtitan collectives", "torchtitan", collective_share, (0.2, 1.0)),
];

/// What it costs to be off by a factor of e from where a parameter starts.
const PRIOR: f64 = 0.01;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = std::fs::read_to_string(&arguments[0]).expect("the table can be read");
    let sources = &arguments[1..];
    let mut cases = Vec::new();
    let mut known: BTreeMap<String, Option<Prepared>> = BTreeMap::new();
    for (number, row) in parse_rows(&text).expect("a table").into_iter().enumerate() {
        if !sources.is_empty() && !sources.iter().any(|source| row.source_id.starts_with(source.as_str())) {
            continue;
        }
        // Of sources with many rows a part is enough.
        let stride = match row.source_id.as_str() {
            "vtrain_single" => 10,
            "bigscience_a100" => 3,
            _ => 1,
        };
        if number % stride != 0 {
            continue;
        }
        let (Ok(setup), Some(measured)) = (setup(&row), row.measured_seconds()) else { continue };
        let prepared = known.entry(key(&setup)).or_insert_with(|| prepare(&setup).ok());
        let Some(prepared) = prepared.clone() else { continue };
        let group = format!("{} {}", row.source_id, row.model);
        cases.push(Case { source: row.source_id.clone(), group, setup, prepared, measured });
    }
    println!("{} runs", cases.len());
    let fitted = fit(&mut cases);
    for (parameter, value) in PARAMETERS.iter().zip(&fitted) {
        println!("{:24} {value:.5e}", parameter.name);
    }
    residuals(&cases);
}

fn error(case: &Case) -> f64 {
    (predict(&case.setup, &case.prepared).0.seconds / case.measured).ln()
}

/// Fits all parameters at once by the method of Nelder and Mead, in logarithms, from where they stand.
fn fit(cases: &mut [Case]) -> Vec<f64> {
    let start: Vec<f64> = PARAMETERS
        .iter()
        .map(|parameter| {
            let case = cases.iter_mut().find(|case| (parameter.concerns)(&case.setup));
            case.map_or(f64::NAN, |case| *(parameter.place)(&mut case.setup)[0])
        })
        .collect();
    // Nobody ran what the others concern.
    let free: Vec<usize> = (0..start.len()).filter(|&index| !start[index].is_nan()).collect();
    let mut counts: BTreeMap<String, f64> = BTreeMap::new();
    cases.iter().for_each(|case| *counts.entry(case.source.clone()).or_default() += 1.0);
    let weights: Vec<f64> = cases.iter().map(|case| 1.0 / counts[&case.source].sqrt()).collect();
    let value = |index: usize, point: f64| {
        let (least, most) = PARAMETERS[index].range;
        (start[index] * point.exp()).clamp(least, most)
    };
    let mut price = |point: &[f64]| {
        for (&index, &point) in free.iter().zip(point) {
            set(cases, &PARAMETERS[index], value(index, point));
        }
        let (first, second) = cases.split_at(cases.len() / 2);
        let errors = std::thread::scope(|scope| {
            let second = scope.spawn(|| second.iter().map(error).collect::<Vec<f64>>());
            let mut errors: Vec<f64> = first.iter().map(error).collect();
            errors.extend(second.join().expect("errors are found"));
            errors
        });
        let errors = errors.iter().zip(&weights).map(|(error, weight)| weight * error.abs());
        // What runs say little about stays near to what is known of devices.
        let far = PRIOR * point.iter().map(|point| point * point).sum::<f64>();
        errors.sum::<f64>() / weights.iter().sum::<f64>() + far
    };
    let best = nelder_mead(&mut price, free.len());
    price(&best);
    let mut fitted = start.clone();
    free.iter().zip(&best).for_each(|(&index, &point)| fitted[index] = value(index, point));
    fitted
}

/// The point near zero where a function is least: a simplex of points that walks downhill.
fn nelder_mead(price: &mut impl FnMut(&[f64]) -> f64, size: usize) -> Vec<f64> {
    let mut simplex: Vec<(f64, Vec<f64>)> = Vec::new();
    for corner in 0..=size {
        let mut point = vec![0.0; size];
        if corner > 0 {
            point[corner - 1] = 0.35;
        }
        simplex.push((price(&point), point));
    }
    for _ in 0..40 * size {
        simplex.sort_by(|left, right| left.0.total_cmp(&right.0));
        let middle: Vec<f64> = (0..size)
            .map(|axis| simplex[..size].iter().map(|(_, point)| point[axis]).sum::<f64>() / size as f64)
            .collect();
        let worst = simplex[size].clone();
        let mut along = |far: f64| {
            let point: Vec<f64> =
                middle.iter().zip(&worst.1).map(|(middle, worst)| middle + far * (middle - worst)).collect();
            (price(&point), point)
        };
        let reflected = along(1.0);
        let next = if reflected.0 < simplex[0].0 {
            let expanded = along(2.0);
            if expanded.0 < reflected.0 { expanded } else { reflected }
        } else if reflected.0 < simplex[size - 1].0 {
            reflected
        } else {
            along(if reflected.0 < worst.0 { 0.5 } else { -0.5 })
        };
        if next.0 < worst.0 {
            simplex[size] = next;
            continue;
        }
        let best = simplex[0].1.clone();
        for (value, point) in &mut simplex[1..] {
            point.iter_mut().zip(&best).for_each(|(point, best)| *point = 0.5 * (*point + best));
            *value = price(point);
        }
    }
    simplex.sort_by(|left, right| left.0.total_cmp(&right.0));
    simplex.swap_remove(0).1
}

fn set(cases: &mut [Case], parameter: &Parameter, value: f64) {
    for case in cases.iter_mut().filter(|case| (parameter.concerns)(&case.setup)) {
        (parameter.place)(&mut case.setup).into_iter().for_each(|place| *place = value);
    }
}

fn residuals(cases: &[Case]) {
    let mut by_source: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut by_group: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for case in cases {
        let error = error(case);
        by_source.entry(&case.source).or_default().push(error);
        by_group.entry(&case.group).or_default().push(error);
    }
    for (name, errors) in by_source.iter().chain(&by_group) {
        println!(
            "{name:40} {:4} runs, median error {:.3}, bias {:+.3}",
            errors.len(),
            median(errors, true),
            median(errors, false)
        );
    }
}

fn median(errors: &[f64], absolute: bool) -> f64 {
    let mut sorted: Vec<f64> = errors.iter().map(|error| if absolute { error.abs() } else { *error }).collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
