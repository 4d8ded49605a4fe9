//! The simulator: from what devices run to a timeline.

mod calibrate;
mod collectives;
mod combine;
mod compute;
mod engine;
mod fit;
mod kernels;
mod memory;
mod model_flops;
mod prepare;
mod price;
mod products;
mod run;
mod timeline;

pub use calibrate::{Calibration, MeasuredNode, calibrate};
pub use collectives::{CollectiveCost, collective_costs};
pub(crate) use compute::chain_seconds;
pub use compute::{kernel_flops, kernel_seconds};
pub use engine::{ENGINES, Engine, engine};
pub use fit::{
    FittedDevice, LONG_CHAIN_BYTES, MeasuredChain, MeasuredLaunches, MeasuredProduct, Measurements, fit_device,
};
pub use kernels::{AttentionTask, Kernel, Task, kernels};
pub(crate) use kernels::{End, Touch, traffic};
pub use memory::StageMemory;
pub use model_flops::{ModelFlops, model_flops, peak_flops_per_second};
pub use prepare::Prepared;
pub use price::movement_seconds;
pub use products::Product;
pub use run::{Run, Runner, Span, run, run_early};
pub use timeline::{MessageSpan, SpanKind, StageSpan, StageTimeline, Timeline, simulate};
