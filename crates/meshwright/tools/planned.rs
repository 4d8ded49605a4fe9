//! What planning comes to beside what it is measured against.

use std::error::Error;
use std::fs;
use std::time::Instant;

use meshwright::cluster::{Cluster, parse};
use meshwright::models::PRESETS;
use meshwright::plan::{Plan, Refusal, Request, plan};
use meshwright::program::{Program, expand_batch_norm};
use meshwright::simulate::{Engine, engine};

use crate::peers::cases::{CASES, build};
use crate::peers::grid::{Candidate, STATES, Setting};
use crate::peers::osdp;

const GIB: f64 = (1_u64 << 30) as f64;

/// Seconds that planning a model takes, and bytes of this process at most.
pub(crate) fn time(program: &Program, cluster: &Cluster, engine: &Engine) -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    find(program, cluster, engine, cluster.memory_bytes() as u64)?;
    println!("{} {}", started.elapsed().as_secs_f64(), peak_bytes()?);
    Ok(())
}

/// As Linux knows it.
fn peak_bytes() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("the system tells no peak")?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kibibytes << 10)
}

/// Of these the first that a preset fits is planned for.
const CLUSTERS: [&str; 3] = ["8xh100", "8x8xh100", "64x8xh100"];

/// How far the labelling of every preset is from its bound.
pub(crate) fn gaps(engine: &Engine) -> Result<(), Box<dyn Error>> {
    println!("{:<16} {:<12} {:>10} {:>12} {:>12}", "preset", "cluster", "gap", "a step", "products");
    for preset in PRESETS {
        // Loops are written out, and all tokens of this one would be millions of ops.
        let settings = if preset.name == "it32" { &[("steps", "1")][..] } else { &[] };
        let program = build(preset.name, settings.iter().copied())?;
        let found = CLUSTERS.iter().find_map(|&name| {
            let cluster = parse(name).ok()?;
            Some((name, find(&program, &cluster, engine, cluster.memory_bytes() as u64).ok()?))
        });
        match found {
            Some((cluster, plan)) => println!(
                "{:<16} {cluster:<12} {:>9.4}% {:>10.4} s {:>10.4} s",
                preset.name,
                100.0 * plan.search_gap,
                plan.timeline.step_seconds,
                plan.lower_bound_seconds
            ),
            None => println!("{:<16} {:<12} fits none of the clusters", preset.name, "-"),
        }
    }
    Ok(())
}

/// The best point of the grid of every case as it was recorded, and what planning finds. Where nothing fit, or nothing is
/// recorded, there is no time; where the point has become too large since, it is said.
pub(crate) fn cases(name: &str, engine: &Engine) -> Result<(), Box<dyn Error>> {
    println!("{:<90} {:>12} {:>12} {:>9}  in", "case", "grid", "planned", "faster");
    for case in CASES.iter().filter(|case| case.name().contains(name)) {
        let (program, cluster) = case.build()?;
        let limit_bytes = cluster.memory_bytes();
        let setting = Setting { cluster: &cluster, engine, limit_bytes };
        let best = case.recorded_best().map(|best| best.try_on(&program, setting)).transpose()?;
        let started = Instant::now();
        let planned = find(&program, &cluster, engine, limit_bytes as u64).ok();
        let taken = started.elapsed().as_secs_f64();
        let planned = planned.map(|plan| plan.timeline.step_seconds);
        let (grid, faster) = match best {
            Some(best) if best.fits => (told(Some(best.seconds)), faster(Some(best.seconds), planned)),
            Some(_) => ("too large".to_owned(), faster(None, planned)),
            None => ("-".to_owned(), faster(None, planned)),
        };
        println!("{:<90} {grid:>12} {:>12} {faster:>9}  {taken:.1} s", case.name(), told(planned));
    }
    Ok(())
}

/// One way to keep state for all of a model under limits, the best of each, and what planning finds.
pub(crate) fn uniform() -> Result<(), Box<dyn Error>> {
    for case in osdp::CASES {
        let program = build(case.model, case.settings.iter().copied())?;
        let cluster = parse(case.cluster).map_err(|error| error.message)?;
        let engine = engine(case.engine).ok_or_else(|| format!("there is no engine `{}`", case.engine))?;
        println!("{} on {} by {}", case.name, case.cluster, case.engine);
        let heading: String = STATES.iter().map(|state| format!(" {:>12}", state.name)).collect();
        println!("{:>9}{heading} {:>12} {:>9}", "limit", "planned", "faster");
        for row in osdp::uniform(case)? {
            let fastest = |ways: &[Option<Candidate>; 2]| {
                ways.iter().flatten().map(|candidate| candidate.seconds).min_by(f64::total_cmp)
            };
            let uniform: Vec<Option<f64>> = row.best.iter().map(fastest).collect();
            let planned = find(&program, &cluster, engine, (row.limit_gib as u64) << 30).ok();
            let planned = planned.map(|plan| plan.timeline.step_seconds);
            let best = uniform.iter().flatten().copied().min_by(f64::total_cmp);
            let cells: String = uniform.into_iter().map(|seconds| format!(" {:>12}", told(seconds))).collect();
            println!("{:>5} GiB{cells} {:>12} {:>9}", row.limit_gib, told(planned), faster(best, planned));
        }
        println!();
    }
    Ok(())
}

fn told(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "nothing fits".to_owned(), |seconds| format!("{seconds:.4} s"))
}

/// By how much the second takes less.
fn faster(first: Option<f64>, second: Option<f64>) -> String {
    match (first, second) {
        (Some(first), Some(second)) => format!("{:+.2}%", 100.0 * (first / second - 1.0)),
        (None, Some(_)) => "fits".to_owned(),
        (Some(_), None) => "WORSE".to_owned(),
        (None, None) => "-".to_owned(),
    }
}

fn find(program: &Program, cluster: &Cluster, engine: &Engine, limit_bytes: u64) -> Result<Plan, String> {
    let program = &expand_batch_norm(&program.unroll()?).into_owned();
    let request = Request { program, cluster, engine, limit_bytes, microbatches: None, told: None, mesh: None };
    plan(&request).map_err(|refusal| match refusal {
        Refusal::Unplannable(reason) => reason,
        Refusal::TooLarge(large) => format!("{:.2} GiB are missing", large.missing_bytes as f64 / GIB),
    })
}
