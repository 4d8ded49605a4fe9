//! All-reduces that were measured, and what the model of collectives says of them.

use meshwright::cluster::{Cluster, Collective, Group, Link, estimate, parse};

/// One line of `tests/cluster/nccl_all_reduce.csv`.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) gpu: String,
    pub(crate) devices: usize,
    pub(crate) bytes: usize,
    pub(crate) seconds: f64,
}

const TEXT: &str = include_str!("../../../../tests/cluster/nccl_all_reduce.csv");

/// All measurements, in the order of the file.
pub(crate) fn read() -> Vec<Measured> {
    let lines = TEXT.lines().filter(|line| !line.starts_with('#')).skip(1);
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            Measured {
                gpu: cells[0].to_owned(),
                devices: cells[1].parse().expect("a count"),
                bytes: cells[2].parse().expect("bytes"),
                seconds: cells[3].parse().expect("seconds"),
            }
        })
        .collect()
}

/// The node that a measurement was made in. vTrain does not say how much memory its devices had, which does
/// not matter here.
pub(crate) fn node(gpu: &str) -> Cluster {
    let name = if gpu == "v100" { "8xv100-32g" } else { "8xa100-80g" };
    parse(name).expect("a known cluster")
}

/// Predicted over measured time, less one, with another link where one is given.
pub(crate) fn error(cluster: &Cluster, link: Option<&Link>, measured: &Measured) -> f64 {
    let mut cluster = cluster.clone();
    if let Some(link) = link {
        cluster.nodes[0].link = link.clone();
    }
    let group = Group::along(&cluster, &[(measured.devices, 1)]);
    estimate(&cluster, Collective::AllReduce, &group, measured.bytes).seconds / measured.seconds - 1.0
}
