//! Clusters as text: files that say everything there is to say.

use std::fmt::{self, Write};

use super::{Cluster, Device, Efficiency, Host, Link, Wiring, devices};

impl Cluster {
    /// A file from which [`parse_file`](super::parse_file) reads the same cluster, with every number in it.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = write_cluster(&mut text, self);
        text
    }
}

fn write_cluster(text: &mut String, cluster: &Cluster) -> fmt::Result {
    writeln!(text, "name = {}", quoted(&cluster.name))?;
    for nodes in &cluster.nodes {
        // A device of somebody's own begins as one that has so many in a node; all its numbers follow.
        let names = [&*nodes.device.name, "cpu", "tpu-v5p"];
        let fits = |name: &&str| devices::find(name).is_some_and(|system| nodes.devices <= system.most_in_node);
        let base = names.into_iter().find(fits).unwrap_or("tpu-v5p");
        writeln!(text, "\n[[nodes]]\nbase = \"{}x{}x{base}\"", nodes.count, nodes.devices)?;
        writeln!(text, "adapters = {}", nodes.adapters)?;
        writeln!(text, "\n[nodes.device]")?;
        write_device(text, &nodes.device)?;
        writeln!(text, "\n[nodes.link]")?;
        write_link(text, &nodes.link)?;
    }
    writeln!(text, "\n[network]")?;
    write_link(text, &cluster.network)
}

fn write_device(text: &mut String, device: &Device) -> fmt::Result {
    let rates = &device.flops_per_second;
    writeln!(text, "name = {}", quoted(&device.name))?;
    writeln!(text, "memory_bytes = {}", device.memory_bytes)?;
    writeln!(text, "memory_bytes_per_second = {}", number(device.memory_bytes_per_second))?;
    writeln!(text, "launch_seconds = {}", number(device.launch_seconds))?;
    writeln!(text, "processors = {}", device.processors)?;
    let Efficiency { products, attention, tile_depth, memory } = device.efficiency;
    let shares = [("products", products), ("attention", attention), ("tile_depth", tile_depth), ("memory", memory)];
    let shares: Vec<String> = shares.iter().map(|(name, share)| format!("{name} = {}", number(*share))).collect();
    writeln!(text, "efficiency = {{ {} }}", shares.join(", "))?;
    let Host { bytes_per_second, memory_bytes } = device.host;
    writeln!(text, "host = {{ bytes_per_second = {}, memory_bytes = {memory_bytes} }}", number(bytes_per_second))?;
    let rates = [
        ("f64", rates.f64),
        ("f32", rates.f32),
        ("tf32", rates.tf32),
        ("f16", rates.f16),
        ("bf16", rates.bf16),
        ("f8", rates.f8),
        ("i8", rates.i8),
    ];
    let rates: Vec<String> = rates.iter().map(|(name, rate)| format!("{name} = {}", number(*rate))).collect();
    writeln!(text, "flops_per_second = {{ {} }}", rates.join(", "))
}

fn write_link(text: &mut String, link: &Link) -> fmt::Result {
    writeln!(text, "name = {}", quoted(&link.name))?;
    writeln!(text, "wiring = \"{}\"", link.wiring.name())?;
    if let Wiring::Torus { closed_from, .. } = link.wiring {
        writeln!(text, "closed_from = {closed_from}\naxes = {:?}", link.axes)?;
    }
    for (key, value) in [
        ("bytes_per_second", link.bytes_per_second),
        ("lanes", link.lanes as f64),
        ("efficiency", link.efficiency),
        ("start_seconds", link.start_seconds),
        ("hop_seconds", link.hop_seconds),
        ("copy_share", link.copy_share),
    ] {
        writeln!(text, "{key} = {}", number(value))?;
    }
    Ok(())
}

impl Wiring {
    pub fn name(self) -> &'static str {
        match self {
            Wiring::Cube => "cube",
            Wiring::Full => "full",
            Wiring::Switch => "switch",
            Wiring::Torus { .. } => "torus",
        }
    }
}

/// A number that reads back to the same bits: whole where it is, with an exponent where digits would be many.
fn number(value: f64) -> String {
    if value == 0.0 || (1e-3..1e6).contains(&value) { format!("{value}") } else { format!("{value:e}") }
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
