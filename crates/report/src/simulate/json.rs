//! The summary as JSON.

use meshwright::profile::{ByClass, Class};
use serde_json::{Map, Value, json};

use super::Summary;

impl Summary<'_> {
    pub fn to_json(&self) -> Value {
        let (simulation, pipeline) = (self.simulation, &self.step.prepared.pipeline);
        let (timeline, memory) = (&simulation.timeline, simulation.memory());
        let mut object = json!({
            "model": self.name,
            "cluster": simulation.cluster.name,
            "engine": simulation.engine.name,
            "mesh": pipeline.mesh.to_string(),
            "devices": pipeline.devices(),
            "microbatches": pipeline.microbatches,
            "schedule": (pipeline.stages.len() > 1).then(|| pipeline.schedule.name()),
            "fits": simulation.fits(),
            "step_seconds": timeline.step_seconds,
            "mfu": simulation.mfu,
            "hfu": simulation.hfu,
            "model_flops": self.step.flops.flops,
            "hardware_flops": timeline.flops,
            "peak_bytes": memory.peak_bytes,
            "memory_limit": simulation.memory_limit(),
            "memory": by_class(memory.by_class),
            "time": time(&simulation.time()),
        });
        if let Some((number, unit)) = simulation.throughput() {
            object[format!("{unit}_per_second")] = json!(number);
        }
        object["stages"] = json!((0..pipeline.stages.len()).map(|stage| self.stage_json(stage)).collect::<Vec<_>>());
        object["collectives"] = json!(self.collectives_json());
        object["notes"] = json!(self.notes);
        object["seconds"] = json!(self.seconds);
        object
    }

    fn stage_json(&self, number: usize) -> Value {
        let stage = &self.simulation.stages()[number];
        let pipeline = &self.step.prepared.pipeline;
        let devices = pipeline.devices_of(number);
        json!({
            "stage": number,
            "devices": [devices.start, devices.end],
            "mesh": pipeline.meshes[number].to_string(),
            "modules": self.step.modules_of(number),
            "time": {
                "compute": stage.compute_seconds,
                "exposed_communication": stage.exposed_seconds,
                "bubble": stage.bubble_seconds,
                "host": stage.host_seconds,
            },
            "communication_seconds": stage.communication_seconds,
            "peak_bytes": stage.memory.peak_bytes,
            "memory_limit": self.simulation.limit(number),
            "memory": by_class(stage.memory.by_class),
        })
    }

    fn collectives_json(&self) -> Vec<Value> {
        let kinds = self.collectives().into_iter();
        kinds
            .map(|kind| {
                json!({
                    "collective": kind.name.replace('-', "_"),
                    "place": kind.place,
                    "devices": kind.devices,
                    "stage": kind.stage,
                    "runs": kind.runs,
                    "bytes": kind.bytes,
                    "seconds": kind.seconds,
                })
            })
            .collect()
    }
}

pub(crate) fn by_class(classes: ByClass) -> Value {
    let entries = Class::ALL.into_iter().zip(classes);
    Value::Object(entries.map(|(class, bytes)| (class.name().to_owned(), json!(bytes))).collect())
}

fn time(times: &[(&str, f64)]) -> Value {
    let entry = |&(name, seconds): &(&str, f64)| (name.replace(' ', "_"), json!(seconds));
    Value::Object(times.iter().map(entry).collect::<Map<String, Value>>())
}
