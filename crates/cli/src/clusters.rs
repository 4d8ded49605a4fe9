//! `meshwright clusters`: the devices and links there are, and what a cluster is made of.

use std::path::PathBuf;

use clap::Args;
use meshwright::cluster::{
    Cluster, Collective, Device, Group, LINKS, Link, Nodes, Rates, SYSTEMS, System, Wiring, estimate,
};
use serde_json::{Value, json};

use crate::cluster;
use crate::error::{Answer, Error};
use crate::output;
use crate::table::{Table, count, counted, duration, size};
use crate::terminal::terminal_width;

/// List the devices and links that clusters are made of, or show all of one cluster
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Cluster such as `4x8xh100` (nodes, devices of a node, device), or a TOML file
    cluster: Option<PathBuf>,
    /// Print the cluster as a TOML file with all its numbers
    #[arg(long, requires = "cluster", conflicts_with = "json")]
    toml: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  meshwright clusters
  meshwright clusters 4x8xh100
  meshwright clusters 4x8xh100 --toml > mine.toml";

pub(crate) fn execute(arguments: &Arguments) -> Result<Answer, Error> {
    match &arguments.cluster {
        Some(path) => {
            let cluster = cluster::load(path)?;
            match (arguments.toml, arguments.json) {
                (true, _) => output::print(cluster.to_toml().as_bytes())?,
                (_, true) => output::print_json(&cluster_json(&cluster))?,
                _ => output::print(cluster_text(&cluster).as_bytes())?,
            }
        }
        None if arguments.json => {
            let devices: Vec<Value> = SYSTEMS.iter().map(system_json).collect();
            let links: Vec<Value> = LINKS.iter().map(link_json).collect();
            output::print_json(&json!({"devices": devices, "links": links}))?;
        }
        None => output::print(catalog_text().as_bytes())?,
    }
    Ok(Answer::Yes)
}

fn catalog_text() -> String {
    let width = terminal_width();
    let mut devices = Table::new(&["device", "memory", "GB/s", "bf16", "f16", "f32", "a node", "link"]);
    for System { device, link, most_in_node, .. } in SYSTEMS {
        let rates = &device.flops_per_second;
        devices.row([
            device.name.to_string(),
            size(device.memory_bytes),
            count((device.memory_bytes_per_second / 1e9) as usize),
            teraflops(rates.bf16),
            teraflops(rates.f16),
            teraflops(rates.f32),
            count(*most_in_node),
            (*link).to_owned(),
        ]);
    }
    let mut links = Table::new(&["link", "wiring", "lanes", "GB/s a lane", "efficiency", "start", "hop"]).with_words(2);
    for link in LINKS {
        links.row([
            link.name.to_string(),
            link.wiring.name().to_owned(),
            link.lanes.to_string(),
            format!("{:.1}", link.bytes_per_second / 1e9),
            format!("{:.2}", link.efficiency),
            duration(link.start_seconds),
            duration(link.hop_seconds),
        ]);
    }
    let note = "Rates are dense, in TFLOP/s; `a node` is the most devices that a node has.\n\
                A cluster is named by nodes, devices of a node and the device: `8xh100`,\n\
                `4x8xa100-80g`.";
    format!("{}\n{note}\n\n{}", devices.render(width), links.render(width))
}

/// A rate in TFLOP/s, empty where there is none.
fn teraflops(rate: f64) -> String {
    match rate / 1e12 {
        0.0 => String::new(),
        rate if rate >= 99.5 => count(rate.round() as usize),
        rate if rate >= 1.0 => format!("{rate:.1}"),
        rate => format!("{rate:.2}"),
    }
}

fn cluster_text(cluster: &Cluster) -> String {
    let width = terminal_width();
    let mut parts = Table::new(&["nodes", "devices", "device", "memory", "link", "adapters"]);
    for Nodes { count: nodes, devices, device, link, adapters } in &cluster.nodes {
        let axes: Vec<String> = link.axes.iter().map(ToString::to_string).collect();
        let axes = if axes.is_empty() { String::new() } else { format!(" {}", axes.join("x")) };
        parts.row([
            count(*nodes),
            count(*devices),
            device.name.to_string(),
            size(device.memory_bytes),
            format!("{}{axes}", link.name),
            count(*adapters),
        ]);
    }
    let rate = cluster.network.bytes_per_second / 1e9;
    let network = format!("network: {}, {rate} GB/s an adapter", cluster.network.name);
    let mut times = Table::new(&["collective", "devices", "1 MiB", "64 MiB", "1 GiB", "by"]);
    for (collective, name) in COLLECTIVES {
        for group in groups(cluster) {
            let at = |bytes: usize| estimate(cluster, collective, &group, bytes);
            let cells = [1 << 20, 64 << 20, 1 << 30].map(|bytes| duration(at(bytes).seconds));
            let [first, second, third] = cells;
            let by = format!("{:?}", at(1 << 30).algorithm).to_lowercase();
            times.row([name.to_owned(), count(group.devices()), first, second, third, by]);
        }
    }
    let title = format!(
        "{}: {} in {}",
        cluster.name,
        counted(cluster.devices(), "device"),
        counted(cluster.node_count(), "node")
    );
    format!("{title}\n\n{}\n{network}\n\n{}", parts.render(width), times.render(width))
}

const COLLECTIVES: [(Collective, &str); 5] = [
    (Collective::AllGather, "all_gather"),
    (Collective::AllReduce, "all_reduce"),
    (Collective::AllToAll, "all_to_all"),
    (Collective::CollectivePermute, "collective_permute"),
    (Collective::ReduceScatter, "reduce_scatter"),
];

/// The devices of a node, and all devices, where these are several.
fn groups(cluster: &Cluster) -> Vec<Group> {
    let node = Group::along(cluster, &[(cluster.devices_per_node(), 1)]);
    let whole = Group::whole(cluster);
    let mut groups = vec![node, whole];
    groups.dedup_by_key(|group| group.devices());
    groups.retain(|group| group.devices() > 1);
    groups
}

pub(crate) fn cluster_json(cluster: &Cluster) -> Value {
    let nodes: Vec<Value> = cluster
        .nodes
        .iter()
        .map(|nodes| {
            json!({
                "count": nodes.count,
                "devices": nodes.devices,
                "device": device_json(&nodes.device),
                "link": link_json(&nodes.link),
                "adapters": nodes.adapters,
            })
        })
        .collect();
    json!({
        "name": cluster.name,
        "devices": cluster.devices(),
        "nodes": nodes,
        "network": link_json(&cluster.network),
    })
}

fn system_json(system: &System) -> Value {
    let mut object = device_json(&system.device);
    object["link"] = json!(system.link);
    object["network"] = json!(system.network);
    object["most_in_node"] = json!(system.most_in_node);
    object
}

fn device_json(device: &Device) -> Value {
    let Rates { f64, f32, tf32, f16, bf16, f8, i8 } = device.flops_per_second;
    json!({
        "name": device.name,
        "memory_bytes": device.memory_bytes,
        "memory_bytes_per_second": device.memory_bytes_per_second,
        "flops_per_second": {"f64": f64, "f32": f32, "tf32": tf32, "f16": f16, "bf16": bf16, "f8": f8, "i8": i8},
        "launch_seconds": device.launch_seconds,
        "host": {"bytes_per_second": device.host.bytes_per_second, "memory_bytes": device.host.memory_bytes},
    })
}

fn link_json(link: &Link) -> Value {
    let mut object = json!({
        "name": link.name,
        "wiring": link.wiring.name(),
        "bytes_per_second": link.bytes_per_second,
        "lanes": link.lanes,
        "efficiency": link.efficiency,
        "start_seconds": link.start_seconds,
        "hop_seconds": link.hop_seconds,
        "copy_share": link.copy_share,
    });
    if let Wiring::Torus { closed_from, .. } = link.wiring {
        object["closed_from"] = json!(closed_from);
        object["axes"] = json!(link.axes);
    }
    object
}
