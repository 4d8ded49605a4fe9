//! Links between devices of a node and between nodes.

use std::borrow::Cow;

/// What joins devices, or nodes, and what a transfer over it costs.
///
/// A collective takes a start, a time for each hop that its data makes one after another, and the time in which
/// its bytes pass at the rate of the lanes it has.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    pub name: Cow<'static, str>,
    pub wiring: Wiring,
    /// Lengths of the axes of a torus, outermost first; empty elsewhere.
    pub axes: Vec<usize>,
    /// What one lane carries in each direction, as its maker says.
    pub bytes_per_second: f64,
    /// Lanes that a device can use at once.
    pub lanes: usize,
    /// The share of the rate that is left to data.
    pub efficiency: f64,
    /// Before anything moves: the launch, and the devices finding each other.
    pub start_seconds: f64,
    /// From one device to the next.
    pub hop_seconds: f64,
    /// Work on a device's own buffers that hides behind no transfer, in bytes on the link for each byte of a
    /// buffer that is all-reduced.
    pub copy_share: f64,
}

/// Which devices are neighbors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wiring {
    /// Eight devices in two squares, as in a DGX-1: how many lanes a group has depends on its size.
    Cube,
    /// Each device has a lane to each other.
    Full,
    /// Each device reaches each other over all its lanes.
    Switch,
    /// Each device has a neighbor on both sides along each axis. An axis of at least so many devices is closed
    /// to a ring; a shorter one is a line.
    Torus { dimensions: usize, closed_from: usize },
}

/// Lanes that rings over the first devices of a cube have, by the number of devices: edge-disjoint directed
/// rings in the wiring of a DGX-1 with V100. Five devices have no ring, because the fifth has one neighbor; a
/// tree over one lane reduces as fast as 1.6 lanes in a ring would.
const CUBE_LANES: [f64; 9] = [1.0, 1.0, 1.0, 2.0, 4.0, 1.6, 2.0, 4.0, 6.0];

impl Link {
    /// Bytes a second that each of a group of devices sends while it receives as much, as long as nobody else
    /// uses the link. A torus needs to know where the group lies; here is one of its lanes.
    pub fn group_bytes_per_second(&self, devices: usize) -> f64 {
        let lanes = match self.wiring {
            Wiring::Cube => CUBE_LANES[devices.min(CUBE_LANES.len() - 1)].min(self.lanes as f64),
            Wiring::Full => devices.saturating_sub(1).clamp(1, self.lanes) as f64,
            Wiring::Switch => self.lanes as f64,
            Wiring::Torus { .. } => 1.0,
        };
        lanes * self.lane_bytes_per_second()
    }

    /// Bytes a second that one lane leaves to data in each direction.
    pub fn lane_bytes_per_second(&self) -> f64 {
        self.bytes_per_second * self.efficiency
    }
}

/// A link by its name.
pub(super) fn find(name: &str) -> Option<&'static Link> {
    LINKS.iter().find(|link| link.name == name)
}

/// What is fitted or guessed of a link, apart from its rate.
#[derive(Clone, Copy)]
struct Costs {
    efficiency: f64,
    start_seconds: f64,
    hop_seconds: f64,
    copy_share: f64,
}

/// Fitted by `tools/links.rs` to all-reduces of two to eight A100 (`tests/cluster/nccl_all_reduce.csv`). Later
/// generations of NVLink have other rates; that the rest is alike is an assumption.
const NVSWITCH: Costs = Costs { efficiency: 0.939, start_seconds: 34.2e-6, hop_seconds: 4.14e-6, copy_share: 0.467 };
/// Fitted likewise to two to eight V100 in a cube.
const CUBE: Costs = Costs { efficiency: 0.97, start_seconds: 22.1e-6, hop_seconds: 5.63e-6, copy_share: 0.073 };
/// AMD, "Understanding RCCL bandwidth and xGMI performance on MI300X" (2025): 48 of 64 GB/s a link are left to
/// data. Latencies are assumed to be those of NVLink.
const XGMI: Costs = Costs { efficiency: 0.75, copy_share: 0.0, ..NVSWITCH };
/// "How to Scale Your Model" (2025), on TPUs: 45 of 50 GB/s a link are reached, and a hop takes about 1 µs.
const ICI: Costs = Costs { efficiency: 0.9, start_seconds: 1e-6, hop_seconds: 1e-6, copy_share: 0.0 };
/// NCCL 2.20, graph/tuning.cc: a hop of a ring over a network takes 14 µs. The share of the rate that is reached is
/// fitted by `tools/fit.rs` to runs on several nodes. That a start is as within a node is an assumption.
const INFINIBAND: Costs = Costs { efficiency: 0.701, start_seconds: 34e-6, hop_seconds: 14e-6, copy_share: 0.0 };
/// Fitted by `tools/fit.rs` to runs over four such ports a node; latencies are assumed to be those of InfiniBand.
const OMNIPATH: Costs = Costs { efficiency: 0.504, ..INFINIBAND };
/// An assumption: TCP loses more of the rate than InfiniBand, and a hop goes through the kernels of two systems.
const ETHERNET: Costs = Costs { efficiency: 0.8, start_seconds: 34e-6, hop_seconds: 30e-6, copy_share: 0.0 };
/// NCCL 2.20, graph/tuning.cc: a hop of a ring over PCIe takes 5.7 µs. An assumption: packets of 256 bytes and
/// root complexes leave three quarters of the rate.
const PCIE: Costs = Costs { efficiency: 0.75, start_seconds: 34e-6, hop_seconds: 5.7e-6, copy_share: 0.0 };
/// An assumption: each byte is written by one core and read by another.
const MEMORY: Costs = Costs { efficiency: 0.5, start_seconds: 20e-6, hop_seconds: 5e-6, copy_share: 0.0 };

const fn link(name: &'static str, wiring: Wiring, lanes: usize, bytes_per_second: f64, costs: Costs) -> Link {
    Link {
        name: Cow::Borrowed(name),
        wiring,
        axes: Vec::new(),
        bytes_per_second,
        lanes,
        efficiency: costs.efficiency,
        start_seconds: costs.start_seconds,
        hop_seconds: costs.hop_seconds,
        copy_share: costs.copy_share,
    }
}

const fn torus(dimensions: usize, closed_from: usize) -> Wiring {
    Wiring::Torus { dimensions, closed_from }
}

/// In the order of the alphabet.
#[rustfmt::skip] // One row a link, with the source of its wiring, lanes and rate.
pub const LINKS: &[Link] = &[
    link("dcn-25", Wiring::Switch, 1, 25e9 / 8.0, ETHERNET),             // Cloud TPU documentation, v5e: 6.4 Tb/s for 256 chips; v3 and v4 are assumed alike.
    link("dcn-50", Wiring::Switch, 1, 50e9 / 8.0, ETHERNET),             // Cloud TPU documentation, v5p: 50 Gb/s a chip.
    link("ethernet-10", Wiring::Switch, 1, 10e9 / 8.0, ETHERNET),        // IEEE 802.3ae.
    link("ethernet-100", Wiring::Switch, 1, 100e9 / 8.0, ETHERNET),      // AWS EC2 p3dn.24xlarge: 100 Gb/s a node.
    link("ethernet-25", Wiring::Switch, 1, 25e9 / 8.0, ETHERNET),        // AWS EC2 p3.16xlarge: 25 Gb/s a node.
    link("ici-v3", torus(2, 32), 4, 70e9, ICI),                          // Jouppi et al., "TPU v4" (ISCA 2023), table 4: four links of 70 GB/s; a pod is 32 x 32.
    link("ici-v4", torus(3, 4), 6, 50e9, ICI),                           // the same: six links of 50 GB/s; cubes of 4 x 4 x 4 close their axes.
    link("ici-v5e", torus(2, 16), 4, 50e9, ICI),                         // Cloud TPU documentation, v5e: 400 GB/s in both directions together over four ports; a pod is 16 x 16.
    link("ici-v5p", torus(3, 4), 6, 100e9, ICI),                         // Cloud TPU documentation, v5p: 1,200 GB/s in both directions together, over six ports.
    link("infiniband-100", Wiring::Switch, 1, 100e9 / 8.0, INFINIBAND),  // NVIDIA DGX-1 data sheet (2017): EDR.
    link("infiniband-200", Wiring::Switch, 1, 200e9 / 8.0, INFINIBAND),  // NVIDIA DGX A100 data sheet (2020): HDR.
    link("infiniband-400", Wiring::Switch, 1, 400e9 / 8.0, INFINIBAND),  // NVIDIA DGX H100 data sheet (2022): NDR; DGX B200 and GB200 (2024) alike.
    link("infinity-fabric3", Wiring::Full, 7, 64e9, XGMI),               // AMD Instinct MI300X platform data sheet (2023): seven links of 128 GB/s in both directions together.
    link("memory", Wiring::Switch, 1, 20e9, MEMORY),                     // DDR4-2666: 21 GB/s a channel (JEDEC JESD79-4).
    link("nvlink2-cube", Wiring::Cube, 6, 25e9, CUBE),                   // NVIDIA V100 data sheet (2020): 300 GB/s in both directions over six links; DGX-1 white paper (2017), figure 4: the wiring.
    link("nvlink3", Wiring::Switch, 12, 25e9, NVSWITCH),                 // NVIDIA A100 data sheet (2021): 600 GB/s in both directions over twelve links.
    link("nvlink4", Wiring::Switch, 18, 25e9, NVSWITCH),                 // NVIDIA H100 data sheet (2023): 900 GB/s in both directions over 18 links.
    link("nvlink5", Wiring::Switch, 18, 50e9, NVSWITCH),                 // NVIDIA DGX B200 data sheet (2024): 1.8 TB/s in both directions over 18 links.
    link("omnipath-100", Wiring::Switch, 1, 100e9 / 8.0, OMNIPATH),      // Intel Omni-Path 100 series product brief (2016): 100 Gb/s a port.
    link("pcie3", Wiring::Switch, 1, 15.75e9, PCIE),                     // PCI Express 3.0: 16 lanes of 8 GT/s in 128b/130b code.
    link("pcie4", Wiring::Switch, 1, 31.5e9, PCIE),                      // PCI Express 4.0: 16 lanes of 16 GT/s.
    link("pcie5", Wiring::Switch, 1, 63e9, PCIE),                        // PCI Express 5.0: 16 lanes of 32 GT/s.
];
