//! Devices: one table, each number with its source.

use std::borrow::Cow;

use crate::program::{DType, DTypeKind};

/// What one device can do, as its maker says.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    pub name: Cow<'static, str>,
    /// What programs can use: less than what is soldered on.
    pub memory_bytes: usize,
    pub memory_bytes_per_second: f64,
    pub flops_per_second: Rates,
    /// Between the starts of two kernels that wait for nothing.
    pub launch_seconds: f64,
    /// Units that each work on a tile of a product of their own.
    pub processors: usize,
    pub efficiency: Efficiency,
    pub host: Host,
}

/// The way from a device to the memory of its host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Host {
    /// In each direction. Zero where a device has no memory apart from its host's.
    pub bytes_per_second: f64,
    /// The part of the host's memory that is there for each device.
    pub memory_bytes: usize,
}

/// How much of its maker's rates a device reaches. Fitted to measured runs by `tools/fit.rs`, which prints the
/// residuals that stand in docs/concepts/accuracy.md.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Efficiency {
    /// The share of the peak rate that large products reach.
    pub products: f64,
    /// The share that fused attention reaches.
    pub attention: f64,
    /// The depth of a product whose work takes as long as the start and the end of its tiles.
    pub tile_depth: f64,
    /// The share of the memory's rate that chains of elementwise ops reach.
    pub memory: f64,
}

/// A device, and what its maker's reference system puts around it.
#[derive(Clone, Debug, PartialEq)]
pub struct System {
    pub device: Device,
    /// What joins the devices of a node, by its name.
    pub link: &'static str,
    /// What joins nodes, by its name.
    pub network: &'static str,
    /// Devices that share a network adapter.
    pub devices_per_adapter: usize,
    /// The most devices that one node has.
    pub most_in_node: usize,
}

/// Dense operations a second by the type of the operands of a product, without counting on zeros among them.
/// Zero where the device has no such product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    pub f64: f64,
    pub f32: f64,
    /// `f32` operands rounded to ten bits of fraction, which engines use where they are allowed to.
    pub tf32: f64,
    pub f16: f64,
    pub bf16: f64,
    pub f8: f64,
    pub i8: f64,
}

impl Rates {
    /// The rate of products of such elements. Types that a device does not multiply are widened to `f32`, whose
    /// rate is that of exact products; whether `tf32` may be used instead is the engine's to say.
    pub fn of(&self, dtype: DType) -> f64 {
        let rate = match (dtype, dtype.kind()) {
            (DType::BF16, _) => self.bf16,
            (DType::F16, _) => self.f16,
            (DType::F64 | DType::Complex128, _) => self.f64,
            (DType::I8 | DType::U8, _) => self.i8,
            (_, DTypeKind::SmallFloat) => self.f8,
            // Wider integers, and what is not multiplied at all, are the work of the units for `f32`.
            _ => self.f32,
        };
        if rate > 0.0 { rate } else { self.f32 }
    }
}

/// A system by the name of its device.
pub(super) fn find(name: &str) -> Option<&'static System> {
    SYSTEMS.iter().find(|system| system.device.name == name)
}

/// The system whose device an engine reports under a name such as `NVIDIA A100-SXM4-80GB` or `TPU v4`: every part of
/// our name is a word of theirs. Where several names are, the one that says most is meant.
pub fn find_reported(reported: &str) -> Option<&'static System> {
    let reported = reported.to_lowercase().replace("v5 lite", "v5e");
    let words: Vec<&str> = reported.split(|letter: char| !letter.is_alphanumeric()).collect();
    let is_alike = |system: &&System| {
        let mut parts = system.device.name.split('-');
        let is_said = |part: &str| words.iter().any(|&word| word == part || word.strip_suffix('b') == Some(part));
        // Devices on cards have other rates than those that NVLink joins.
        parts.all(is_said) && system.device.name.ends_with("pcie") == words.contains(&"pcie")
    };
    SYSTEMS.iter().filter(is_alike).max_by_key(|system| system.device.name.split('-').count())
}

/// Bytes from GiB, as PyTorch reports the memory of a device in its messages.
const fn gib(gib: f64) -> usize {
    (gib * 1073741824.0) as usize
}

/// Time from one kernel's start to the next on a stream that is never empty: 2 to 3 µs on NVIDIA devices
/// (Zhang et al., "A study of single and multi-device synchronization methods in Nvidia GPUs", 2020).
const GPU_LAUNCH: f64 = 2.5e-6;
/// A compiled TPU program has no launches between its ops; what is left is the start of a loop over tiles,
/// about a thousand cycles at 1 GHz. An assumption.
const TPU_LAUNCH: f64 = 1e-6;

/// Fitted to runs on A100.
const A100_EFFICIENCY: Efficiency = Efficiency { products: 0.822, attention: 0.293, tile_depth: 66.0, memory: 0.832 };
/// Fitted to runs on H100.
const H100_EFFICIENCY: Efficiency = Efficiency { products: 0.646, attention: 0.259, tile_depth: 64.3, memory: 0.421 };
/// Fitted to runs on H100 that are held to 500 W.
const H100_500W_EFFICIENCY: Efficiency = Efficiency { products: 0.517, ..H100_EFFICIENCY };
/// Fitted by hand to runs on B200 and GB200, most of them with products of 8-bit numbers.
const B200_EFFICIENCY: Efficiency = Efficiency { products: 0.45, ..H100_EFFICIENCY };
/// An assumption: as A100, whose tiles are alike.
const V100_EFFICIENCY: Efficiency = A100_EFFICIENCY;
/// Nothing was fitted: the rates of the maker, with the losses that XLA's fused loops usually have.
const ASSUMED_EFFICIENCY: Efficiency = Efficiency { products: 0.75, attention: 0.45, tile_depth: 48.0, memory: 0.8 };

/// PCIe of the third generation, 16 lanes: 32 GB/s in both directions (NVIDIA V100 data sheet, January 2020); hosts with
/// 512 GB for eight devices (NVIDIA DGX-1 data sheet, 2017).
const PCIE3_HOST: Host = Host { bytes_per_second: 16e9, memory_bytes: 64_000_000_000 };
/// Of the fourth: 64 GB/s in both directions (NVIDIA A100 data sheet, June 2021); hosts with 1 TB for eight devices
/// (NVIDIA DGX A100 data sheet, 2020).
const PCIE4_HOST: Host = Host { bytes_per_second: 32e9, memory_bytes: 128_000_000_000 };
/// Of the fifth: 128 GB/s in both directions (NVIDIA H100 data sheet, 2023); hosts with 2 TB for eight devices (NVIDIA DGX
/// H100 data sheet, 2023).
const PCIE5_HOST: Host = Host { bytes_per_second: 64e9, memory_bytes: 256_000_000_000 };
/// NVLink-C2C: 900 GB/s in both directions for each processor, which has two devices and 480 GB (NVIDIA GB200 NVL72 data
/// sheet, 2024).
const C2C_HOST: Host = Host { bytes_per_second: 225e9, memory_bytes: 240_000_000_000 };
/// Four devices share a host of 400 GB or so, each by 16 lanes of PCIe of the third generation. An assumption.
const TPU_HOST: Host = Host { bytes_per_second: 16e9, memory_bytes: 100_000_000_000 };
/// A device that is its own host.
const NO_HOST: Host = Host { bytes_per_second: 0.0, memory_bytes: 0 };

/// NVIDIA A100 data sheet (June 2021), the same for all variants; rates "with sparsity" stand apart there.
const A100_RATES: Rates =
    Rates { f64: 19.5e12, f32: 19.5e12, tf32: 156e12, f16: 312e12, bf16: 312e12, f8: 0.0, i8: 624e12 };
/// NVIDIA H100 data sheet (2023), column SXM; tensor rates are given with sparsity and halved here. H200 alike.
const H100_RATES: Rates =
    Rates { f64: 67e12, f32: 67e12, tf32: 494.7e12, f16: 989.4e12, bf16: 989.4e12, f8: 1978.9e12, i8: 1978.9e12 };
/// NVIDIA V100 data sheet (January 2020), column SXM2; no bf16, so that products of it are done in f32.
/// The rate of i8 is that of its instruction for four products (DP4A): four times f32.
const V100_RATES: Rates = Rates { f64: 7.8e12, f32: 15.7e12, tf32: 0.0, f16: 125e12, bf16: 0.0, f8: 0.0, i8: 62.8e12 };

/// In the order of the alphabet.
#[rustfmt::skip] // A number a line, with its source.
pub const SYSTEMS: &[System] = &[
    System {
        device: Device {
            name: Cow::Borrowed("a100-40g"),
            memory_bytes: gib(39.39),                   // of 40 GB; PyTorch's total capacity.
            memory_bytes_per_second: 1555e9,            // NVIDIA A100 data sheet (June 2021), 40GB SXM.
            flops_per_second: A100_RATES,               // NVIDIA A100 data sheet (June 2021).
            launch_seconds: GPU_LAUNCH,                 // see there.
            processors: 108,                            // NVIDIA A100 architecture whitepaper (2020).
            efficiency: A100_EFFICIENCY,                // see there.
            host: PCIE4_HOST,                           // see there.
        },
        link: "nvlink3",                                // NVIDIA DGX A100 data sheet (2020).
        network: "infiniband-200",                      // NVIDIA DGX A100 data sheet (2020).
        devices_per_adapter: 1,                         // the same: eight adapters for compute.
        most_in_node: 16,                               // Google Cloud a2-megagpu-16g.
    },
    System {
        device: Device {
            name: Cow::Borrowed("a100-40g-pcie"),
            memory_bytes: gib(39.39),                   // of 40 GB; PyTorch's total capacity.
            memory_bytes_per_second: 1555e9,            // NVIDIA A100 data sheet (June 2021), 40GB PCIe.
            flops_per_second: A100_RATES,               // NVIDIA A100 data sheet (June 2021).
            launch_seconds: GPU_LAUNCH,                 // see there.
            processors: 108,                            // NVIDIA A100 architecture whitepaper (2020).
            efficiency: A100_EFFICIENCY,                // see there.
            host: PCIE4_HOST,                           // see there.
        },
        link: "pcie4",                                  // NVIDIA A100 data sheet (June 2021); bridges of NVLink join pairs only and are left out.
        network: "infiniband-200",                      // an assumption.
        devices_per_adapter: 4,                         // an assumption: two adapters for eight devices.
        most_in_node: 8,                                // NVIDIA-certified servers have up to eight.
    },
    System {
        device: Device {
            name: Cow::Borrowed("a100-80g"),
            memory_bytes: gib(79.15),                   // of 80 GB; PyTorch's total capacity.
            memory_bytes_per_second: 2039e9,            // NVIDIA A100 data sheet (June 2021), 80GB SXM.
            flops_per_second: A100_RATES,               // NVIDIA A100 data sheet (June 2021).
            launch_seconds: GPU_LAUNCH,                 // see there.
            processors: 108,                            // NVIDIA A100 architecture whitepaper (2020).
            efficiency: A100_EFFICIENCY,                // see there.
            host: PCIE4_HOST,                           // see there.
        },
        link: "nvlink3",                                // NVIDIA DGX A100 data sheet (2020).
        network: "infiniband-200",                      // NVIDIA DGX A100 data sheet (2020).
        devices_per_adapter: 1,                         // the same: eight adapters for compute.
        most_in_node: 16,                               // as a100-40g.
    },
    System {
        device: Device {
            name: Cow::Borrowed("a100-80g-pcie"),
            memory_bytes: gib(79.15),                   // of 80 GB; PyTorch's total capacity.
            memory_bytes_per_second: 1935e9,            // NVIDIA A100 data sheet (June 2021), 80GB PCIe.
            flops_per_second: A100_RATES,               // NVIDIA A100 data sheet (June 2021).
            launch_seconds: GPU_LAUNCH,                 // see there.
            processors: 108,                            // NVIDIA A100 architecture whitepaper (2020).
            efficiency: A100_EFFICIENCY,                // see there.
            host: PCIE4_HOST,                           // see there.
        },
        link: "pcie4",                                  // NVIDIA A100 data sheet (June 2021); bridges left out as above.
        network: "infiniband-200",                      // an assumption, as above.
        devices_per_adapter: 4,                         // an assumption, as above.
        most_in_node: 8,                                // NVIDIA-certified servers have up to eight.
    },
    System {
        device: Device {
            name: Cow::Borrowed("b200"),
            memory_bytes: gib(178.35),                  // of 180 GB in DGX B200; PyTorch's total capacity.
            memory_bytes_per_second: 8e12,              // NVIDIA DGX B200 data sheet (2024): 64 TB/s for eight.
            // NVIDIA Blackwell architecture technical brief (2024), HGX B200; rates with sparsity are halved.
            flops_per_second: Rates { f64: 40e12, f32: 80e12, tf32: 1100e12, f16: 2250e12, bf16: 2250e12, f8: 4500e12, i8: 4500e12 },
            launch_seconds: GPU_LAUNCH,                 // see there.
            processors: 148,                            // what CUDA reports as multiprocessors.
            efficiency: B200_EFFICIENCY,                // see there.
            host: PCIE5_HOST,                           // see there.
        },
        link: "nvlink5",                                // NVIDIA DGX B200 data sheet (2024).
        network: "infiniband-400",                      // NVIDIA DGX B200 data sheet (2024).
        devices_per_adapter: 1,                         // the same: eight ports for compute.
        most_in_node: 8,                                // the same.
    },
    System {
        device: Device {
            name: Cow::Borrowed("cpu"),
            memory_bytes: gib(16.0),                    // an assumption: memory of a small machine.
            memory_bytes_per_second: 20e9,              // DDR4-2666, one channel: 21 GB/s (JEDEC JESD79-4).
            // An assumption: one core at 3 GHz, two fused products of eight f32 each cycle; half types are converted.
            flops_per_second: Rates { f64: 48e9, f32: 96e9, tf32: 0.0, f16: 48e9, bf16: 48e9, f8: 0.0, i8: 96e9 },
            launch_seconds: 1e-6,                       // an assumption: a call and a wake of a thread.
            processors: 1,                              // a core.
            efficiency: ASSUMED_EFFICIENCY,             // see there.
            host: NO_HOST,                              // see there.
        },
        link: "memory",                                 // devices of a machine are its cores.
        network: "ethernet-10",                         // an assumption.
        devices_per_adapter: 256,                       // a machine has one.
        most_in_node: 256,                              // an assumption: two sockets of 128 cores.
    },
    System {
        device: Device {
            name: Cow::Borrowed("gb200"),
            memory_bytes: gib(184.0),                   // of 186 GB; GB200 NVL72 data sheet (2024): 13.4 TB for 72.
            memory_bytes_per_second: 8e12,              // NVIDIA GB200 NVL72 data sheet (2024): 576 TB/s for 72.
            // NVIDIA GB200 NVL72 data sheet (2024), divided by 72; rates with sparsity are halved.
            flops_per_second: Rates { f64: 40e12, f32: 80e12, tf32: 1250e12, f16: 2500e12, bf16: 2500e12, f8: 5000e12, i8: 5000e12 },
            launch_seconds: GPU_LAUNCH,                 // see there.
            processors: 148,                            // an assumption: as b200.
            efficiency: B200_EFFICIENCY,                // see there.
            host: C2C_HOST,                             // see there.
        },
        link: "nvlink5",                                // NVIDIA GB200 NVL72 data sheet (2024): one domain of 72.
        network: "infiniband-400",                      // NVIDIA DGX GB200 data sheet (2024): 72 ports of 400 Gb/s.
        devices_per_adapter: 1,                         // the same.
        most_in_node: 72,                               // the same; a node is what NVLink joins.
    },
    System {
        device: Device {
            name: Cow::Borrowed("h100"),
            memory_bytes: gib(79.1),                    // of 80 GB; PyTorch's total capacity.
            memory_bytes_per_second: 3350e9,            // NVIDIA H100 data sheet (2023), SXM.
            flops_per_second: H100_RATES,               // see there.
            launch_seconds: GPU_LAUNCH,                 // see there.
            processors: 132,                            // NVIDIA H100 architecture whitepaper (2022), SXM5.
            efficiency: H100_EFFICIENCY,                // see there.
            host: PCIE5_HOST,                           // see there.
        },
        link: "nvlink4",                                // NVIDIA DGX H100 data sheet (2022).
        network: "infiniband-400",                      // NVIDIA DGX H100 data sheet (2022).
        devices_per_adapter: 1,                         // the same: eight ports for compute.
        most_in_node: 8,                                // the same.
    },
    System {
        device: Device {
            name: Cow::Borrowed("h100-96g"),
            memory_bytes: gib(95.0),                    // of 96 GB; torchtitan's reports give memory as a share of 95.0 GiB.
            memory_bytes_per_second: 2400e9,            // an assumption: five stacks of HBM2e at 3.75 Gb/s a pin.
            flops_per_second: H100_RATES,               // as h100; the limit of 500 W is in the efficiency.
            launch_seconds: GPU_LAUNCH,                 // see there.
            processors: 132,                            // as h100.
            efficiency: H100_500W_EFFICIENCY,           // see there.
            host: PCIE5_HOST,                           // see there.
        },
        link: "nvlink4",                                // as h100.
        network: "infiniband-400",                      // torchtitan's reports (2024): 400 Gb/s a device.
        devices_per_adapter: 1,                         // the same.
        most_in_node: 8,                                // the same.
    },
    System {
        device: Device {
            name: Cow::Borrowed("h200"),
            memory_bytes: gib(139.8),                   // of 141 GB; PyTorch's total capacity.
            memory_bytes_per_second: 4800e9,            // NVIDIA H200 data sheet (2024), SXM.
            flops_per_second: H100_RATES,               // NVIDIA H200 data sheet (2024): those of H100.
            launch_seconds: GPU_LAUNCH,                 // see there.
            processors: 132,                            // as h100.
            efficiency: H100_EFFICIENCY,                // see there.
            host: PCIE5_HOST,                           // see there.
        },
        link: "nvlink4",                                // NVIDIA DGX H200 data sheet (2024).
        network: "infiniband-400",                      // NVIDIA DGX H200 data sheet (2024).
        devices_per_adapter: 1,                         // the same: eight ports for compute.
        most_in_node: 8,                                // the same.
    },
    System {
        device: Device {
            name: Cow::Borrowed("mi300x"),
            memory_bytes: gib(191.98),                  // of 192 GB; PyTorch's total capacity.
            memory_bytes_per_second: 5300e9,            // AMD Instinct MI300X data sheet (2023).
            // AMD Instinct MI300X data sheet (2023), matrix rates, those without sparsity.
            flops_per_second: Rates { f64: 163.4e12, f32: 163.4e12, tf32: 653.7e12, f16: 1307.4e12, bf16: 1307.4e12, f8: 2614.9e12, i8: 2614.9e12 },
            launch_seconds: GPU_LAUNCH,                 // an assumption: as NVIDIA's.
            processors: 304,                            // AMD Instinct MI300X data sheet (2023): compute units.
            efficiency: ASSUMED_EFFICIENCY,             // see there.
            host: PCIE5_HOST,                           // an assumption: as h100.
        },
        link: "infinity-fabric3",                       // AMD Instinct MI300X platform data sheet (2023).
        network: "infiniband-400",                      // the same: eight slots for adapters; 400 Gb/s is an assumption.
        devices_per_adapter: 1,                         // the same.
        most_in_node: 8,                                // the same.
    },
    System {
        device: Device {
            name: Cow::Borrowed("tpu-v3"),
            memory_bytes: gib(32.0),                    // Cloud TPU documentation, v3: 32 GiB a chip, half for each core.
            memory_bytes_per_second: 900e9,             // Cloud TPU documentation, v3.
            flops_per_second: tpu_rates(123e12, 0.0),   // Cloud TPU documentation, v3.
            launch_seconds: TPU_LAUNCH,                 // see there.
            processors: 4,                              // Cloud TPU documentation, v3: two cores of two matrix units.
            efficiency: ASSUMED_EFFICIENCY,             // see there.
            host: TPU_HOST,                             // see there.
        },
        link: "ici-v3",                                 // Cloud TPU documentation, v3: a torus of two dimensions.
        network: "dcn-25",                              // see there.
        devices_per_adapter: 1,                         // the rate is for each chip.
        most_in_node: 1024,                             // Cloud TPU documentation, v3; a node is a slice.
    },
    System {
        device: Device {
            name: Cow::Borrowed("tpu-v4"),
            memory_bytes: gib(32.0),                    // Cloud TPU documentation, v4.
            memory_bytes_per_second: 1200e9,            // Cloud TPU documentation, v4.
            flops_per_second: tpu_rates(275e12, 275e12),// Cloud TPU documentation, v4: bf16 and int8 alike.
            launch_seconds: TPU_LAUNCH,                 // see there.
            processors: 8,                              // Cloud TPU documentation, v4: two cores of four.
            efficiency: ASSUMED_EFFICIENCY,             // see there.
            host: TPU_HOST,                             // see there.
        },
        link: "ici-v4",                                 // Cloud TPU documentation, v4: a torus of three dimensions.
        network: "dcn-25",                              // see there.
        devices_per_adapter: 1,                         // the rate is for each chip.
        most_in_node: 4096,                             // Cloud TPU documentation, v4; a node is a slice.
    },
    System {
        device: Device {
            name: Cow::Borrowed("tpu-v5e"),
            memory_bytes: gib(16.0),                    // Cloud TPU documentation, v5e.
            memory_bytes_per_second: 819e9,             // Cloud TPU documentation, v5e.
            flops_per_second: tpu_rates(197e12, 393e12),// Cloud TPU documentation, v5e.
            launch_seconds: TPU_LAUNCH,                 // see there.
            processors: 4,                              // Cloud TPU documentation, v5e: one core of four.
            efficiency: ASSUMED_EFFICIENCY,             // see there.
            host: TPU_HOST,                             // see there.
        },
        link: "ici-v5e",                                // Cloud TPU documentation, v5e: a torus of two dimensions.
        network: "dcn-25",                              // Cloud TPU documentation, v5e: 6.4 Tb/s for 256 chips.
        devices_per_adapter: 1,                         // the rate is for each chip.
        most_in_node: 256,                              // Cloud TPU documentation, v5e; a node is a slice.
    },
    System {
        device: Device {
            name: Cow::Borrowed("tpu-v5p"),
            memory_bytes: gib(95.0),                    // Cloud TPU documentation, v5p.
            memory_bytes_per_second: 2765e9,            // Cloud TPU documentation, v5p.
            flops_per_second: tpu_rates(459e12, 918e12),// Cloud TPU documentation, v5p.
            launch_seconds: TPU_LAUNCH,                 // see there.
            processors: 8,                              // Cloud TPU documentation, v5p: two cores of four.
            efficiency: ASSUMED_EFFICIENCY,             // see there.
            host: TPU_HOST,                             // see there.
        },
        link: "ici-v5p",                                // Cloud TPU documentation, v5p: a torus of three dimensions.
        network: "dcn-50",                              // Cloud TPU documentation, v5p: 50 Gb/s a chip.
        devices_per_adapter: 1,                         // the rate is for each chip.
        most_in_node: 6144,                             // Cloud TPU documentation, v5p: the largest job; a node is a slice.
    },
    System {
        device: Device {
            name: Cow::Borrowed("v100-16g"),
            memory_bytes: gib(15.78),                   // of 16 GB; PyTorch's total capacity.
            memory_bytes_per_second: 900e9,             // NVIDIA V100 data sheet (January 2020), SXM2.
            flops_per_second: V100_RATES,               // see there.
            launch_seconds: GPU_LAUNCH,                 // see there.
            processors: 80,                             // NVIDIA V100 architecture whitepaper (2017).
            efficiency: V100_EFFICIENCY,                // see there.
            host: PCIE3_HOST,                           // see there.
        },
        link: "nvlink2-cube",                           // NVIDIA DGX-1 data sheet (2017).
        network: "infiniband-100",                      // NVIDIA DGX-1 data sheet (2017).
        devices_per_adapter: 2,                         // the same: four adapters for eight devices.
        most_in_node: 8,                                // the same.
    },
    System {
        device: Device {
            name: Cow::Borrowed("v100-32g"),
            memory_bytes: gib(31.75),                   // of 32 GB; PyTorch's total capacity.
            memory_bytes_per_second: 900e9,             // NVIDIA V100 data sheet (January 2020), SXM2.
            flops_per_second: V100_RATES,               // see there.
            launch_seconds: GPU_LAUNCH,                 // see there.
            processors: 80,                             // NVIDIA V100 architecture whitepaper (2017).
            efficiency: V100_EFFICIENCY,                // see there.
            host: PCIE3_HOST,                           // see there.
        },
        link: "nvlink2-cube",                           // NVIDIA DGX-1 data sheet (2017).
        network: "infiniband-100",                      // NVIDIA DGX-1 data sheet (2017).
        devices_per_adapter: 2,                         // the same: four adapters for eight devices.
        most_in_node: 8,                                // the same.
    },
];

/// A TPU multiplies bf16; XLA spells a product of f32 out in six of those at full precision, and in one by
/// default, which is the rate of `tf32` here.
const fn tpu_rates(bf16: f64, i8: f64) -> Rates {
    Rates { f64: 0.0, f32: bf16 / 6.0, tf32: bf16, f16: bf16, bf16, f8: 0.0, i8 }
}
