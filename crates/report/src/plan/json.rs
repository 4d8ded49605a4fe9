//! The plan as JSON.

use meshwright::lower::CollectiveKind;
use meshwright::plan::{Considered, Decision};
use serde_json::{Value, json};

use super::Report;
use super::text::{group_name, keeping_name};

impl Report<'_> {
    pub fn to_json(&self) -> Value {
        let plan = self.plan;
        let mut object = self.simulated.to_json();
        let measures = plan.runs.measures();
        let counts = CollectiveKind::ALL.iter().zip(measures.collectives);
        object["fits"] = json!(true);
        object["mesh"] = json!(plan.mesh.to_string());
        object["microbatches"] = json!(plan.microbatches);
        object["schedule"] = json!(plan.recipe.staging.as_ref().map(|staging| staging.schedule.name()));
        object["slices"] = json!(plan.recipe.splits.iter().map(|split| split.slices).collect::<Vec<_>>());
        object["host_bytes"] = json!(plan.held_bytes());
        object["memory_limit"] = json!(self.limit_bytes);
        object["lower_bound_seconds"] = json!(plan.lower_bound_seconds);
        object["search_gap"] = json!(plan.search_gap);
        object["planning_seconds"] = json!(self.planning_seconds);
        object["dearest_collectives"] = object["collectives"].take();
        object["collectives"] =
            Value::Object(counts.map(|(kind, count)| (kind.name().to_owned(), json!(count))).collect());
        object["alternatives"] = json!(plan.alternatives.iter().map(considered).collect::<Vec<_>>());
        object["pareto"] = json!(plan.pareto.iter().map(considered).collect::<Vec<_>>());
        object["decisions"] = json!(plan.decisions.iter().map(|decision| self.decision(decision)).collect::<Vec<_>>());
        object
    }

    fn decision(&self, decision: &Decision) -> Value {
        json!({
            "group": group_name(self.program, decision),
            "count": decision.bundles.len(),
            "result": decision.lies,
            "keeping": keeping_name(decision.keeping),
            "compute_seconds": decision.compute_seconds,
            "inner_seconds": decision.inner_seconds,
        })
    }
}

pub fn considered(considered: &Considered) -> Value {
    json!({
        "mesh": considered.mesh.to_string(),
        "stages": considered.stages,
        "microbatches": considered.microbatches,
        "step_seconds": considered.step_seconds,
        "peak_bytes": considered.peak_bytes,
    })
}
