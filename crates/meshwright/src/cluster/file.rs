//! Clusters as TOML files: a named cluster, and what is different about it.

use std::borrow::Cow;

use serde::Deserialize;
use toml::Spanned;

use super::parse::wired;
use super::quantity::{Quantity, Unit};
use super::{Cluster, ClusterError, Device, LINKS, Link, Nodes, Wiring, links, parse};

/// Reads a file. It names a cluster as its `base`, or lists `[[nodes]]` that each name one, and changes what it
/// says: `[device]`, `[link]` and `adapters` for all nodes or for those of an entry, `[network]` for all.
pub fn parse_file(text: &str) -> Result<Cluster, ClusterError> {
    let file: File = toml::from_str(text).map_err(|error| ClusterError {
        span: error.span().unwrap_or(0..0),
        message: error.message().to_owned(),
        hint: None,
    })?;
    let hint = "give `base = \"8xh100\"`, or a table `[[nodes]]` with a `base` for each kind of node";
    let mut cluster = match (&file.base, file.nodes.is_empty()) {
        (Some(base), true) => named(base)?,
        (None, false) => joined(&file.nodes)?,
        (Some(base), false) => return refuse(base.span(), "a cluster has either a `base` or `nodes`", hint),
        (None, true) => return refuse(0..0, "the cluster has no nodes", hint),
    };
    for nodes in &mut cluster.nodes {
        change_nodes(nodes, file.device.as_ref(), file.link.as_ref(), file.adapters.as_ref())?;
    }
    if let Some(network) = &file.network {
        network.apply(&mut cluster.network, 0)?;
    }
    if let Some(name) = file.name {
        cluster.name = name;
    }
    Ok(cluster)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    base: Option<Spanned<String>>,
    #[serde(default)]
    nodes: Vec<Entry>,
    device: Option<DeviceChange>,
    link: Option<LinkChange>,
    adapters: Option<Spanned<Quantity>>,
    network: Option<LinkChange>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    base: Spanned<String>,
    device: Option<DeviceChange>,
    link: Option<LinkChange>,
    adapters: Option<Spanned<Quantity>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceChange {
    name: Option<String>,
    memory_bytes: Option<Spanned<Quantity>>,
    memory_bytes_per_second: Option<Spanned<Quantity>>,
    flops_per_second: Option<RatesChange>,
    launch_seconds: Option<Spanned<Quantity>>,
    processors: Option<Spanned<Quantity>>,
    efficiency: Option<EfficiencyChange>,
    host: Option<HostChange>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostChange {
    bytes_per_second: Option<Spanned<Quantity>>,
    memory_bytes: Option<Spanned<Quantity>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EfficiencyChange {
    products: Option<Spanned<Quantity>>,
    attention: Option<Spanned<Quantity>>,
    tile_depth: Option<Spanned<Quantity>>,
    memory: Option<Spanned<Quantity>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RatesChange {
    f64: Option<Spanned<Quantity>>,
    f32: Option<Spanned<Quantity>>,
    tf32: Option<Spanned<Quantity>>,
    f16: Option<Spanned<Quantity>>,
    bf16: Option<Spanned<Quantity>>,
    f8: Option<Spanned<Quantity>>,
    i8: Option<Spanned<Quantity>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkChange {
    base: Option<Spanned<String>>,
    name: Option<String>,
    wiring: Option<Spanned<String>>,
    closed_from: Option<Spanned<Quantity>>,
    axes: Option<Spanned<Vec<usize>>>,
    bytes_per_second: Option<Spanned<Quantity>>,
    lanes: Option<Spanned<Quantity>>,
    efficiency: Option<Spanned<Quantity>>,
    start_seconds: Option<Spanned<Quantity>>,
    hop_seconds: Option<Spanned<Quantity>>,
    copy_share: Option<Spanned<Quantity>>,
}

fn refuse<T>(
    span: std::ops::Range<usize>,
    message: impl Into<String>,
    hint: impl Into<String>,
) -> Result<T, ClusterError> {
    Err(ClusterError { span, message: message.into(), hint: Some(hint.into()) })
}

/// A cluster by its name. Errors point into the name where it stands, behind its quote; at all of it where it is
/// not written letter by letter.
fn named(base: &Spanned<String>) -> Result<Cluster, ClusterError> {
    parse(base.get_ref()).map_err(|error| {
        if base.span().len() != base.get_ref().len() + 2 {
            return ClusterError { span: base.span(), ..error };
        }
        let start = base.span().start + 1;
        ClusterError { span: start + error.span.start..start + error.span.end, ..error }
    })
}

/// Nodes of several kinds. The network is that of the first, for it has to be one.
fn joined(entries: &[Entry]) -> Result<Cluster, ClusterError> {
    let mut whole: Option<Cluster> = None;
    for entry in entries {
        let mut part = named(&entry.base)?;
        for nodes in &mut part.nodes {
            change_nodes(nodes, entry.device.as_ref(), entry.link.as_ref(), entry.adapters.as_ref())?;
        }
        whole = Some(match whole {
            None => part,
            Some(mut whole) => {
                whole.name = format!("{}+{}", whole.name, part.name);
                whole.nodes.extend(part.nodes);
                whole
            }
        });
    }
    whole.map_or_else(|| refuse(0..0, "the cluster has no nodes", "add a table `[[nodes]]`"), Ok)
}

fn change_nodes(
    nodes: &mut Nodes,
    device: Option<&DeviceChange>,
    link: Option<&LinkChange>,
    adapters: Option<&Spanned<Quantity>>,
) -> Result<(), ClusterError> {
    if let Some(device) = device {
        device.apply(&mut nodes.device)?;
    }
    if let Some(link) = link {
        link.apply(&mut nodes.link, nodes.devices)?;
    }
    change_count(&mut nodes.adapters, adapters)
}

impl DeviceChange {
    fn apply(&self, device: &mut Device) -> Result<(), ClusterError> {
        if let Some(name) = &self.name {
            device.name = Cow::Owned(name.clone());
        }
        let mut memory_bytes = device.memory_bytes as f64;
        change(&mut memory_bytes, self.memory_bytes.as_ref(), Unit::Bytes)?;
        device.memory_bytes = memory_bytes as usize;
        change_positive(&mut device.memory_bytes_per_second, self.memory_bytes_per_second.as_ref())?;
        change(&mut device.launch_seconds, self.launch_seconds.as_ref(), Unit::Seconds)?;
        change_count(&mut device.processors, self.processors.as_ref())?;
        if let Some(changes) = &self.efficiency {
            let efficiency = &mut device.efficiency;
            change_share(&mut efficiency.products, changes.products.as_ref())?;
            change_share(&mut efficiency.attention, changes.attention.as_ref())?;
            change_share(&mut efficiency.memory, changes.memory.as_ref())?;
            change(&mut efficiency.tile_depth, changes.tile_depth.as_ref(), Unit::One)?;
        }
        if let Some(changes) = &self.host {
            change(&mut device.host.bytes_per_second, changes.bytes_per_second.as_ref(), Unit::BytesPerSecond)?;
            let mut memory_bytes = device.host.memory_bytes as f64;
            change(&mut memory_bytes, changes.memory_bytes.as_ref(), Unit::Bytes)?;
            device.host.memory_bytes = memory_bytes as usize;
        }
        let Some(changes) = &self.flops_per_second else { return Ok(()) };
        let rates = &mut device.flops_per_second;
        for (rate, change_to) in [
            (&mut rates.f64, &changes.f64),
            (&mut rates.f32, &changes.f32),
            (&mut rates.tf32, &changes.tf32),
            (&mut rates.f16, &changes.f16),
            (&mut rates.bf16, &changes.bf16),
            (&mut rates.f8, &changes.f8),
            (&mut rates.i8, &changes.i8),
        ] {
            change(rate, change_to.as_ref(), Unit::FlopsPerSecond)?;
        }
        Ok(())
    }
}

impl LinkChange {
    /// `devices` are those of the node, or 0 for a network, which has no torus.
    fn apply(&self, link: &mut Link, devices: usize) -> Result<(), ClusterError> {
        if let Some(base) = &self.base {
            let Some(known) = links::find(base.get_ref()) else {
                let names: Vec<&str> = LINKS.iter().map(|link| &*link.name).collect();
                let message = format!("there is no link `{}`", base.get_ref());
                return refuse(base.span(), message, format!("there are {}", names.join(", ")));
            };
            *link = wired(known.clone(), devices);
        }
        if let Some(name) = &self.name {
            link.name = Cow::Owned(name.clone());
        }
        self.change_wiring(link, devices)?;
        change_positive(&mut link.bytes_per_second, self.bytes_per_second.as_ref())?;
        change_count(&mut link.lanes, self.lanes.as_ref())?;
        change_share(&mut link.efficiency, self.efficiency.as_ref())?;
        change(&mut link.start_seconds, self.start_seconds.as_ref(), Unit::Seconds)?;
        change(&mut link.hop_seconds, self.hop_seconds.as_ref(), Unit::Seconds)?;
        change(&mut link.copy_share, self.copy_share.as_ref(), Unit::One)
    }

    fn change_wiring(&self, link: &mut Link, devices: usize) -> Result<(), ClusterError> {
        let dimensions = self.axes.as_ref().map_or(link.axes.len(), |axes| axes.get_ref().len());
        let mut closed_from = match link.wiring {
            Wiring::Torus { closed_from, .. } => closed_from,
            Wiring::Cube | Wiring::Full | Wiring::Switch => 1,
        };
        change_count(&mut closed_from, self.closed_from.as_ref())?;
        if let Some(wiring) = &self.wiring {
            link.wiring = match wiring.get_ref().as_str() {
                "cube" => Wiring::Cube,
                "full" => Wiring::Full,
                "switch" => Wiring::Switch,
                "torus" if devices > 0 => Wiring::Torus { dimensions: dimensions.max(1), closed_from },
                other => {
                    let message = format!("there is no wiring `{other}`");
                    let hint = if devices > 0 { "there are cube, full, switch, torus" } else { "nodes have `switch`" };
                    return refuse(wiring.span(), message, hint);
                }
            };
            *link = wired(link.clone(), devices);
        } else if let Wiring::Torus { .. } = link.wiring {
            link.wiring = Wiring::Torus { dimensions: dimensions.max(1), closed_from };
        }
        let Some(axes) = &self.axes else { return Ok(()) };
        if !matches!(link.wiring, Wiring::Torus { .. }) {
            return refuse(axes.span(), "only a torus has `axes`", "give `wiring = \"torus\"` too");
        }
        let product = axes.get_ref().iter().try_fold(1usize, |product, &axis| product.checked_mul(axis));
        if product != Some(devices) {
            let message = format!("the axes do not have the {devices} devices of the node");
            return refuse(axes.span(), message, format!("give axes whose product is {devices}"));
        }
        link.axes.clone_from(axes.get_ref());
        Ok(())
    }
}

fn change(number: &mut f64, to: Option<&Spanned<Quantity>>, unit: Unit) -> Result<(), ClusterError> {
    let Some(to) = to else { return Ok(()) };
    *number = to.get_ref().read(unit).or_else(|(message, hint)| refuse(to.span(), message, hint))?;
    Ok(())
}

fn change_share(share: &mut f64, to: Option<&Spanned<Quantity>>) -> Result<(), ClusterError> {
    change(share, to, Unit::One)?;
    match to {
        Some(to) if !(*share > 0.0 && *share <= 1.0) => {
            refuse(to.span(), format!("`{share}` is no efficiency"), "give a share above 0 and up to 1")
        }
        _ => Ok(()),
    }
}

/// Rates divide, so that zero is none.
fn change_positive(rate: &mut f64, to: Option<&Spanned<Quantity>>) -> Result<(), ClusterError> {
    change(rate, to, Unit::BytesPerSecond)?;
    match to {
        Some(to) if *rate <= 0.0 => refuse(to.span(), "a rate of 0 carries nothing", "give a number above 0"),
        _ => Ok(()),
    }
}

fn change_count(count: &mut usize, to: Option<&Spanned<Quantity>>) -> Result<(), ClusterError> {
    let Some(to) = to else { return Ok(()) };
    let mut number = 0.0;
    change(&mut number, Some(to), Unit::One)?;
    if number.fract() != 0.0 || !(1.0..=1e6).contains(&number) {
        return refuse(to.span(), format!("`{number}` is no count"), "give a whole number from 1 on");
    }
    *count = number as usize;
    Ok(())
}
