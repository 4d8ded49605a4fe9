//! Models and clusters that differ from what was given.

use std::borrow::Cow;

use meshwright::cluster::{Cluster, parse};
use meshwright::models::{Model, Optimizer};
use meshwright::plan::{Change, Variant};
use meshwright::program::{DType, Program};
use meshwright_report::plan::planned_program;

use crate::table::counted;

/// A model as it is planned.
pub(crate) fn build(model: &Model) -> Result<Program, String> {
    planned_program(&model.build()?)
}

/// What was given, and what of it can be changed.
pub(crate) struct Given<'g> {
    pub(crate) program: &'g Program,
    pub(crate) cluster: &'g Cluster,
    /// None where the model is a file.
    pub(crate) preset: Option<&'g Model>,
    /// How the batch was given.
    pub(crate) batch_flag: &'static str,
}

impl<'g> Given<'g> {
    /// The step with a change, where it can be made.
    pub(crate) fn variant(&self, change: Change) -> Option<Variant<'g>> {
        match change {
            Change::Microbatches => Some(Variant {
                told: String::new(),
                program: Cow::Borrowed(self.program),
                cluster: Cow::Borrowed(self.cluster),
            }),
            Change::Batch { divisor } => {
                let batch = self.preset?.settings.batch;
                let smaller = batch.is_multiple_of(divisor).then_some(batch / divisor).filter(|&batch| batch > 0)?;
                self.set("batch", &smaller.to_string(), &format!("{}{smaller}", self.batch_flag))
            }
            Change::Devices { factor } => {
                let (told, cluster) = larger(self.cluster, factor)?;
                Some(Variant { told, program: Cow::Borrowed(self.program), cluster: Cow::Owned(cluster) })
            }
            Change::Narrow => {
                let is_wide = self.preset?.settings.dtype == DType::F32;
                self.set("dtype", "bf16", "--set dtype=bf16").filter(|_| is_wide)
            }
            Change::LessState => {
                let has_moments = matches!(self.preset?.settings.optimizer, Optimizer::Adam | Optimizer::AdamW);
                self.set("optimizer", "adafactor", "--set optimizer=adafactor").filter(|_| has_moments)
            }
        }
    }

    fn set(&self, key: &str, value: &str, told: &str) -> Option<Variant<'g>> {
        let mut model = self.preset?.clone();
        model.set(key, value).ok()?;
        let program = Cow::Owned(build(&model).ok()?);
        Some(Variant { told: told.to_owned(), program, cluster: Cow::Borrowed(self.cluster) })
    }
}

/// A cluster of so many times as many devices, and how to ask for it: in the same node if there is room, else in more
/// nodes.
fn larger(cluster: &Cluster, factor: usize) -> Option<(String, Cluster)> {
    let [nodes] = &cluster.nodes[..] else { return None };
    let (count, devices, name) = (nodes.count, nodes.devices, &nodes.device.name);
    let names = match count {
        1 => vec![format!("{}x{name}", devices * factor), format!("{factor}x{devices}x{name}")],
        _ => vec![format!("{}x{devices}x{name}", count * factor)],
    };
    let memory_bytes = nodes.device.memory_bytes;
    if parse(&cluster.name).is_ok() {
        let mut larger = names.iter().find_map(|name| parse(name).ok())?;
        // What may be used of a device may be less than all of its memory.
        larger.nodes.iter_mut().for_each(|nodes| nodes.device.memory_bytes = memory_bytes);
        return Some((format!("--cluster {}", larger.name), larger));
    }
    let mut larger = cluster.clone();
    larger.nodes[0].count = count * factor;
    Some((format!("a cluster of {}", counted(count * factor, "such node")), larger))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, factor: usize, expected: &str) {
        let cluster = parse(name).expect("a cluster");
        let (told, larger) = larger(&cluster, factor).expect("a larger cluster");
        assert_eq!(told, expected);
        assert_eq!(larger.devices(), factor * cluster.devices());
    }

    #[test]
    fn a_node_is_filled_before_there_are_more() {
        check("4xh100", 2, "--cluster 8xh100");
        check("4xh100", 4, "--cluster 4x4xh100");
        check("8xh100", 2, "--cluster 2x8xh100");
        check("2x8xh100", 4, "--cluster 8x8xh100");
    }
}
