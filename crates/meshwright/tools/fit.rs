//! Fits the efficiencies of devices and engines to measured runs, and prints them with their residuals.
//!
//! `cargo run --release -p meshwright --example fit -- RUNS.csv [--folds=N [--from-scratch]] [--only=NAME,NAME]
//! [SOURCE...]`
//!
//! With `--folds`, runs are predicted by fits that have not seen their source's model: groups of runs of one
//! source and model are dealt out to so many folds, and each fold is predicted by a fit to the others. Fits start from
//! the numbers in the tables, which all runs had a part in, or with `--from-scratch` from what one would say who had
//! seen none; that looks at a third of the runs.

#![expect(clippy::print_stdout, reason = "its output is for people")]

use std::collections::BTreeMap;

use meshwright::cluster::Efficiency;
use meshwright::simulate::Prepared;
use meshwright::validate::{Setup, key, median, parse_rows, predict, prepare, setup};

struct Case {
    source: String,
    group: String,
    setup: Setup,
    prepared: Prepared,
    measured: f64,
}

/// A number that is fitted: what it is called, which runs it concerns, where it stands, how far it may go, and what
/// one would say of it who had seen no run.
struct Parameter {
    name: &'static str,
    concerns: Concerns,
    place: fn(&mut Setup) -> &mut f64,
    range: (f64, f64),
    neutral: f64,
}

/// Runs by what they ran on.
enum Concerns {
    Device(&'static [&'static str]),
    Engine(&'static str),
    /// By how the network's name begins.
    Network(&'static str),
}

use Concerns::{Device, Engine, Network};

impl Concerns {
    fn fits(&self, setup: &Setup) -> bool {
        match self {
            Device(names) => names.contains(&&*setup.cluster.nodes[0].device.name),
            Engine(name) => setup.engine.name == *name,
            Network(name) => setup.cluster.network.name.starts_with(name),
        }
    }
}

const fn row(
    name: &'static str,
    concerns: Concerns,
    place: fn(&mut Setup) -> &mut f64,
    least: f64,
    most: f64,
    neutral: f64,
) -> Parameter {
    Parameter { name, concerns, place, range: (least, most), neutral }
}

/// Measured clusters have nodes of one kind.
fn efficiency(setup: &mut Setup) -> &mut Efficiency {
    &mut setup.cluster.nodes[0].device.efficiency
}

const A100: &[&str] = &["a100-40g", "a100-80g"];
const HOPPER: &[&str] = &["h100", "h100-96g", "h200"];

#[rustfmt::skip] // One row a parameter.
const PARAMETERS: &[Parameter] = &[
    row("omnipath efficiency", Network("omnipath-100"), |setup| &mut setup.cluster.network.efficiency, 0.1, 1.0, 0.8),
    row("infiniband efficiency", Network("infiniband"), |setup| &mut setup.cluster.network.efficiency, 0.3, 1.0, 0.8),
    row("A100 products", Device(A100), |setup| &mut efficiency(setup).products, 0.4, 1.0, 0.8),
    row("A100 tile depth", Device(A100), |setup| &mut efficiency(setup).tile_depth, 1.0, 400.0, 48.0),
    row("A100 memory", Device(A100), |setup| &mut efficiency(setup).memory, 0.3, 1.0, 0.8),
    row("A100 attention", Device(A100), |setup| &mut efficiency(setup).attention, 0.1, 1.0, 0.8),
    row("H100 products", Device(&["h100", "h200"]), |setup| &mut efficiency(setup).products, 0.3, 1.0, 0.8),
    row("H100 500 W products", Device(&["h100-96g"]), |setup| &mut efficiency(setup).products, 0.2, 1.0, 0.8),
    row("H100 tile depth", Device(HOPPER), |setup| &mut efficiency(setup).tile_depth, 1.0, 400.0, 48.0),
    row("H100 memory", Device(HOPPER), |setup| &mut efficiency(setup).memory, 0.3, 1.0, 0.8),
    row("H100 attention", Device(HOPPER), |setup| &mut efficiency(setup).attention, 0.1, 1.0, 0.8),
    row("megatron dispatch", Engine("megatron"), |setup| &mut setup.engine.dispatch_seconds, 1e-6, 2e-4, 1e-5),
    row("megatron start", Engine("megatron"), |setup| &mut setup.engine.collective_seconds, 1e-6, 1e-3, 1e-5),
    row("megatron scores", Engine("megatron"), |setup| &mut setup.engine.score_passes, 1.0, 12.0, 4.0),
    row("megatron collectives", Engine("megatron"), |setup| &mut setup.engine.collective_share, 0.2, 1.0, 0.8),
    row("megatron step", Engine("megatron"), |setup| &mut setup.engine.step_seconds, 1e-4, 2e-1, 1e-3),
    row("megatron-core dispatch", Engine("megatron-core"), |setup| &mut setup.engine.dispatch_seconds, 1e-6, 2e-4, 1e-5),
    row("megatron-core collectives", Engine("megatron-core"), |setup| &mut setup.engine.collective_share, 0.2, 1.0, 0.8),
    row("megatron-core hidden", Engine("megatron-core"), |setup| &mut setup.engine.hidden_share, 0.0, 0.95, 0.5),
    row("megatron-core speed", Engine("megatron-core"), |setup| &mut setup.engine.kernel_speed, 0.5, 2.0, 1.0),
    row("fsdp dispatch", Engine("fsdp"), |setup| &mut setup.engine.dispatch_seconds, 1e-6, 2e-4, 1e-5),
    row("fsdp collectives", Engine("fsdp"), |setup| &mut setup.engine.collective_share, 0.2, 1.0, 0.8),
    row("fsdp step", Engine("fsdp"), |setup| &mut setup.engine.step_seconds, 1e-4, 2e-1, 1e-3),
    row("fsdp contention", Engine("fsdp"), |setup| &mut setup.engine.contention, 0.001, 0.6, 0.1),
    row("torchtitan dispatch", Engine("torchtitan"), |setup| &mut setup.engine.dispatch_seconds, 1e-6, 2e-4, 1e-5),
    row("torchtitan collectives", Engine("torchtitan"), |setup| &mut setup.engine.collective_share, 0.2, 1.0, 0.8),
];

/// What it costs to be off by a factor of e from where a parameter starts.
const PRIOR: f64 = 0.01;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| arguments.iter().find_map(|argument| argument.strip_prefix(name));
    let fold_count: usize = option("--folds=").map_or(0, |count| count.parse().expect("a number of folds"));
    let only: Vec<&str> = option("--only=").map_or(vec![""], |names| names.split(',').collect());
    let is_source = |argument: &&str| !argument.starts_with("--");
    let sources: Vec<&str> = arguments[1..].iter().map(String::as_str).filter(is_source).collect();
    let text = std::fs::read_to_string(&arguments[0]).expect("the table can be read");
    let from_scratch = arguments.iter().any(|argument| argument == "--from-scratch");
    let mut cases = load(&text, &sources, if from_scratch { 3 } else { 1 });
    println!("{} runs", cases.len());
    if from_scratch {
        PARAMETERS.iter().for_each(|parameter| set(&mut cases, parameter, parameter.neutral));
    }
    if fold_count > 0 {
        let near = |cases: &mut [Case], seen: &[bool], only: &[&str]| _ = fit(cases, seen, only, 6);
        cross_validate(&mut cases, fold_count, &only, if from_scratch { descend } else { near });
        return;
    }
    let everything = vec![true; cases.len()];
    let fitted = fit(&mut cases, &everything, &only, 30);
    for (parameter, value) in PARAMETERS.iter().zip(&fitted) {
        println!("{:24} {value:.5e}", parameter.name);
    }
    let errors: Vec<f64> = cases.iter().map(error).collect();
    residuals(&cases, &errors);
}

/// The runs of some sources, or of all. Of sources with many rows a part is enough, and `fewer` says how much less.
fn load(text: &str, sources: &[&str], fewer: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut known: BTreeMap<String, Option<Prepared>> = BTreeMap::new();
    for row in parse_rows(text).expect("a table") {
        if !sources.is_empty() && !sources.iter().any(|source| row.source_id.starts_with(source)) {
            continue;
        }
        let stride = match row.source_id.as_str() {
            "vtrain_single" => 10 * fewer,
            "bigscience_a100" | "llmfoundry_mpt" | "vtrain_multi" => 3 * fewer,
            _ => 1,
        };
        let count = counts.entry(row.source_id.clone()).or_default();
        *count += 1;
        if *count % stride != 1 % stride {
            continue;
        }
        let (Ok(setup), Some(measured)) = (setup(&row), row.measured_seconds()) else { continue };
        let prepared = known.entry(key(&setup)).or_insert_with(|| Some(prepare(&setup).ok()?.0));
        let Some(prepared) = prepared.clone() else { continue };
        let group = format!("{} {}", row.source_id, row.model);
        cases.push(Case { source: row.source_id.clone(), group, setup, prepared, measured });
    }
    cases
}

/// Predicts every run by a fit that has not seen its group.
fn cross_validate(cases: &mut [Case], folds: usize, only: &[&str], fit_fold: fn(&mut [Case], &[bool], &[&str])) {
    let mut groups: Vec<String> = cases.iter().map(|case| case.group.clone()).collect();
    groups.sort();
    groups.dedup();
    let fold_of: Vec<usize> = cases.iter().map(|case| groups.binary_search(&case.group).unwrap_or(0) % folds).collect();
    let start = values(cases);
    let mut errors = vec![0.0; cases.len()];
    for fold in 0..folds {
        let seen: Vec<bool> = fold_of.iter().map(|&other| other != fold).collect();
        fit_fold(cases, &seen, only);
        for (index, case) in cases.iter().enumerate().filter(|(index, _)| !seen[*index]) {
            errors[index] = error(case);
        }
        for (parameter, &value) in PARAMETERS.iter().zip(&start) {
            set(cases, parameter, value);
        }
    }
    residuals(cases, &errors);
}

fn error(case: &Case) -> f64 {
    (predict(&case.setup, &case.prepared).0.seconds / case.measured).ln()
}

/// Where parameters stand; `NAN` where nobody ran what they concern.
fn values(cases: &mut [Case]) -> Vec<f64> {
    let value = |parameter: &Parameter| {
        let case = cases.iter_mut().find(|case| parameter.concerns.fits(&case.setup));
        case.map_or(f64::NAN, |case| *(parameter.place)(&mut case.setup))
    };
    PARAMETERS.iter().map(value).collect()
}

/// Fits all parameters at once by the method of Nelder and Mead, in logarithms, from where they stand, to the runs
/// that it may see.
fn fit(cases: &mut [Case], seen: &[bool], only: &[&str], rounds: usize) -> Vec<f64> {
    let start = values(cases);
    // Nobody ran what the others concern.
    let is_asked = |index: &usize| only.iter().any(|name| PARAMETERS[*index].name.starts_with(name));
    let free: Vec<usize> = (0..start.len()).filter(|index| !start[*index].is_nan() && is_asked(index)).collect();
    let mut counts: BTreeMap<String, f64> = BTreeMap::new();
    cases.iter().for_each(|case| *counts.entry(case.source.clone()).or_default() += 1.0);
    let weight = |(case, seen): (&Case, &bool)| if *seen { 1.0 / counts[&case.source].sqrt() } else { 0.0 };
    let weights: Vec<f64> = cases.iter().zip(seen).map(weight).collect();
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
    let best = nelder_mead(&mut price, free.len(), rounds);
    price(&best);
    let mut fitted = start.clone();
    free.iter().zip(&best).for_each(|(&index, &point)| fitted[index] = value(index, point));
    fitted
}

/// How often all parameters are tried anew when fits start from nothing.
const SWEEPS: usize = 9;

/// Fits parameters one after the other, in steps that become smaller, looking only at the runs that each concerns. It
/// gets near from far away; the method of Nelder and Mead needs a start that is near.
fn descend(cases: &mut [Case], seen: &[bool], only: &[&str]) {
    let mut counts: BTreeMap<String, f64> = BTreeMap::new();
    cases.iter().for_each(|case| *counts.entry(case.source.clone()).or_default() += 1.0);
    let mut step = 0.5f64;
    for _ in 0..SWEEPS {
        for parameter in PARAMETERS.iter().filter(|parameter| only.iter().any(|name| parameter.name.starts_with(name)))
        {
            let members: Vec<usize> =
                (0..cases.len()).filter(|&index| seen[index] && parameter.concerns.fits(&cases[index].setup)).collect();
            let Some(&first) = members.first() else { continue };
            let price = |cases: &[Case]| -> f64 {
                let (left, right) = members.split_at(members.len() / 2);
                let sum = |part: &[usize]| -> f64 {
                    part.iter().map(|&index| error(&cases[index]).abs() / counts[&cases[index].source].sqrt()).sum()
                };
                std::thread::scope(|scope| {
                    let right = scope.spawn(|| sum(right));
                    sum(left) + right.join().expect("errors are found")
                })
            };
            let start = *(parameter.place)(&mut cases[first].setup);
            let mut best = (price(cases), start);
            for factor in [step.exp(), (-step).exp()] {
                let value = (start * factor).clamp(parameter.range.0, parameter.range.1);
                set(cases, parameter, value);
                let found = price(cases);
                if found < best.0 {
                    best = (found, value);
                }
            }
            set(cases, parameter, best.1);
        }
        step *= 0.75;
    }
}

/// The point near zero where a function is least: a simplex of points that walks downhill.
fn nelder_mead(price: &mut impl FnMut(&[f64]) -> f64, size: usize, rounds: usize) -> Vec<f64> {
    let mut simplex: Vec<(f64, Vec<f64>)> = Vec::new();
    for corner in 0..=size {
        let mut point = vec![0.0; size];
        if corner > 0 {
            point[corner - 1] = 0.35;
        }
        simplex.push((price(&point), point));
    }
    for _ in 0..rounds * size {
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
    for case in cases.iter_mut().filter(|case| parameter.concerns.fits(&case.setup)) {
        *(parameter.place)(&mut case.setup) = value;
    }
}

fn residuals(cases: &[Case], errors: &[f64]) {
    let mut by_source: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut by_group: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (case, &error) in cases.iter().zip(errors) {
        by_source.entry(&case.source).or_default().push(error);
        by_group.entry(&case.group).or_default().push(error);
    }
    for (name, errors) in by_source.iter().chain(&by_group) {
        println!(
            "{name:40} {:4} runs, median error {:.3}, bias {:+.3}",
            errors.len(),
            middle(errors.iter().map(|error| error.abs())),
            middle(errors.iter().copied())
        );
    }
}

fn middle(errors: impl Iterator<Item = f64>) -> f64 {
    median(&mut errors.collect::<Vec<f64>>()).unwrap_or(f64::NAN)
}
