//! A step on a cluster: how long it takes, what for, and whether it fits.

mod collectives;
mod json;
mod step;
mod text;

pub(crate) use collectives::name as collective_name;
pub(crate) use json::by_class;
pub use step::{Batch, Simulation, Step, check_devices};
pub use text::{rate, stages_on_devices};

/// Everything there is to tell.
#[derive(Debug)]
pub struct Summary<'a> {
    pub name: String,
    pub step: &'a Step,
    pub simulation: &'a Simulation<'a>,
    pub notes: Vec<String>,
    pub seconds: f64,
}
