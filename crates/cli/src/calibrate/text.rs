//! What was measured and fitted, as tables, as an object and as the head of a file.

use meshwright::cluster::{Nodes, Rates, Residual};
use meshwright::simulate::{Calibration, LONG_CHAIN_BYTES};
use serde_json::{Value, json};

use super::measure::{Kind, Measured};
use crate::clusters::cluster_json;
use crate::table::{Table, count, counted, duration, flops, size};
use crate::terminal::terminal_width;

/// Comments that say where the numbers of a file come from.
pub(super) fn file_head(measured: &Measured) -> String {
    format!("# Measured by `meshwright calibrate` through {}. The network was not.\n", measured.engine)
}

/// Tables of what was measured and how well it is met, and of what was fitted.
pub(super) fn report(measured: &Measured, fitted: &Calibration) -> String {
    let width = terminal_width();
    let node = &measured.node;
    let known = match fitted.system {
        Some(system) => {
            format!("rates are those of the maker of `{}`, with the shares that are reached", system.device.name)
        }
        None => "not a device of `meshwright clusters`: rates are what is reached".to_owned(),
    };
    let devices = counted(node.devices, "device");
    let title =
        format!("{devices} `{}` of {}, through {}\n{known}", node.name, size(node.memory_bytes), measured.engine);
    let mut fit = Table::new(&["measured", "times", "noise", "median error", "worst error"]);
    for row in rows(measured, fitted) {
        let error = |error: Option<f64>| error.map(|error| percent(error.exp_m1())).unwrap_or_default();
        let (median, worst) =
            (row.residual.map(|residual| residual.median), row.residual.map(|residual| residual.worst));
        fit.row([
            row.name.to_owned(),
            count(row.times),
            row.noise.map(percent).unwrap_or_default(),
            error(median),
            error(worst),
        ]);
    }
    let mut numbers = Table::new(&["fitted", "value", "share"]);
    for (name, value, share) in numbers_of(fitted) {
        // Without a maker's rate, the rate is what was reached.
        let share = share.filter(|_| fitted.system.is_some());
        numbers.row([name, value, share.map(percent).unwrap_or_default()]);
    }
    format!("{title}\n\n{}\n{}", fit.render(width), numbers.render(width))
}

/// One kind of measurement: how many there are, how far medians are above best times, and how far predictions are.
struct Row {
    name: &'static str,
    key: &'static str,
    times: usize,
    noise: Option<f64>,
    residual: Option<Residual>,
}

fn rows(measured: &Measured, fitted: &Calibration) -> Vec<Row> {
    let device = &fitted.device;
    let is_long = |index: &usize| measured.device.chains[*index].bytes >= LONG_CHAIN_BYTES;
    let (long, short): (Vec<usize>, Vec<usize>) = (0..measured.device.chains.len()).partition(is_long);
    let noise = |kind: Kind| -> Vec<f64> {
        measured.noise.iter().filter(|(of, _)| *of == kind).map(|(_, noise)| *noise).collect()
    };
    let chains = noise(Kind::Chain);
    let some = |indices: &[usize]| indices.iter().map(|&index| chains[index]).collect::<Vec<f64>>();
    let all = [
        ("launches", "launches", noise(Kind::Launches), Some(device.launches)),
        ("shorter chains", "short_chains", some(&short), device.short_chains),
        ("chains from 128 MiB on", "long_chains", some(&long), Some(device.long_chains)),
        ("products", "products", noise(Kind::Product), Some(device.products)),
        ("collectives", "collectives", noise(Kind::Collective), fitted.link),
    ];
    let rows = all.into_iter().filter(|(_, _, noise, _)| !noise.is_empty());
    rows.map(|(name, key, noise, residual)| Row { name, key, times: noise.len(), noise: median(noise), residual })
        .collect()
}

fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied()
}

/// Names, values with units, and the shares of rates that are reached.
fn numbers_of(fitted: &Calibration) -> Vec<(String, String, Option<f64>)> {
    let Nodes { device, link, .. } = &fitted.cluster.nodes[0];
    let mut numbers = Vec::new();
    for (name, rate) in rates(&device.flops_per_second) {
        if rate > 0.0 {
            numbers.push((
                format!("products of {name}"),
                format!("{}/s", flops(rate)),
                Some(device.efficiency.products),
            ));
        }
    }
    let gigabytes = |rate: f64| format!("{:.1} GB/s", rate / 1e9);
    numbers.push(("depth of a tile".to_owned(), format!("{:.1}", device.efficiency.tile_depth), None));
    let memory = gigabytes(device.memory_bytes_per_second);
    numbers.push(("memory".to_owned(), memory, Some(device.efficiency.memory)));
    numbers.push(("launch of a kernel".to_owned(), duration(device.launch_seconds), None));
    numbers.push(("call of a program".to_owned(), duration(fitted.device.call_seconds), None));
    if fitted.link.is_some() {
        numbers.push(("link".to_owned(), gigabytes(link.bytes_per_second * link.lanes as f64), Some(link.efficiency)));
        numbers.push(("start of a collective".to_owned(), duration(link.start_seconds), None));
        numbers.push(("hop of a collective".to_owned(), duration(link.hop_seconds), None));
        numbers.push(("copies of an all-reduce".to_owned(), format!("{:.2}", link.copy_share), None));
    }
    numbers
}

fn rates(rates: &Rates) -> [(&'static str, f64); 7] {
    let Rates { f64, f32, tf32, f16, bf16, f8, i8 } = *rates;
    [("f64", f64), ("f32", f32), ("tf32", tf32), ("f16", f16), ("bf16", bf16), ("f8", f8), ("i8", i8)]
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

/// The same as one object.
pub(super) fn object(measured: &Measured, fitted: &Calibration, seconds: f64) -> Value {
    let mut kinds = serde_json::Map::new();
    for Row { key, times, noise, residual, .. } in rows(measured, fitted) {
        let (median, worst) = (residual.map(|residual| residual.median), residual.map(|residual| residual.worst));
        let kind = json!({"times": times, "noise": noise, "median_log_error": median, "worst_log_error": worst});
        kinds.insert(key.to_owned(), kind);
    }
    let efficiency = fitted.cluster.nodes[0].device.efficiency;
    json!({
        "engine": measured.engine,
        "device": measured.node.name,
        "system": fitted.system.map(|system| &system.device.name),
        "measured": kinds,
        "call_seconds": fitted.device.call_seconds,
        "efficiency": {
            "products": efficiency.products,
            "tile_depth": efficiency.tile_depth,
            "memory": efficiency.memory,
        },
        "cluster": cluster_json(&fitted.cluster),
        "seconds": seconds,
    })
}
