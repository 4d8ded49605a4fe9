//! Plans as files: `plan.json`, with everything that was decided and what came of it.

use std::collections::BTreeMap;

use meshwright::codes::Code;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;

/// The version that is written, and the newest that is read.
pub(super) const VERSION: u64 = 1;

/// A plan as it is written. `docs/reference/plan.schema.json` says the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanFile {
    pub meshwright_plan: u64,
    pub model: ModelPart,
    pub cluster: ClusterPart,
    pub engine: String,
    pub memory_limit: u64,
    /// Axes of devices.
    pub mesh: String,
    pub microbatches: usize,
    /// Weights are gathered, and gradients reduced, for every microbatch.
    pub eager: bool,
    pub results: ResultsPart,
    pub classes: Vec<ClassPart>,
    pub arguments: Vec<ArgumentPart>,
    pub strategies: Vec<StrategyPart>,
    pub recomputed: Vec<RecomputedPart>,
    /// None in files of those who did not know of any.
    #[serde(default)]
    pub splits: Vec<SplitPart>,
    /// How the model is cut into stages, where it is: the mesh is then that of one stage.
    #[serde(default)]
    pub stages: Option<StagesPart>,
}

/// The model as it was given, and how to know its program again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelPart {
    pub name: String,
    pub settings: Vec<String>,
    pub fingerprint: String,
    /// How many ops the program has, and four digits of each.
    pub ops: usize,
    pub op_digests: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterPart {
    pub name: String,
    pub nodes: Vec<NodesPart>,
    /// The lines of a file that says everything about it.
    pub file: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodesPart {
    pub count: usize,
    pub devices: usize,
    pub device: String,
    pub memory_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultsPart {
    pub step_seconds: f64,
    pub peak_bytes: u64,
    pub mfu: f64,
    pub lower_bound_seconds: f64,
    pub search_gap: f64,
}

/// What ops alike do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassPart {
    /// Where they are, such as `layers.{0-31}.mlp.up`.
    pub scopes: Vec<String>,
    pub phase: String,
    /// The kinds of ops that are cut together.
    pub ops: Vec<String>,
    /// How often they are there.
    pub count: usize,
    pub result: String,
    pub keeping: String,
    pub compute_seconds: f64,
    pub inner_seconds: f64,
    pub moving_seconds: f64,
    pub runner_ups: Vec<RunnerUpPart>,
    pub source: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunnerUpPart {
    pub result: String,
    pub keeping: String,
    pub more_compute_seconds: f64,
    pub more_moving_seconds: f64,
    pub over_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArgumentPart {
    pub name: String,
    #[serde(rename = "type")]
    pub ty: String,
    /// What it is for.
    pub role: String,
    pub stored: String,
    pub local_type: String,
    pub local_bytes: u64,
    /// Whether it lies in the memory of the host. Not there in files of those who did not know of that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_host: bool,
    /// The class that decided how it is stored, by number.
    pub decided_by: Option<usize>,
}

/// How some ops are cut and what they make lies, by number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StrategyPart {
    /// Factors of the op's rule by name, and what cuts them.
    pub factors: BTreeMap<String, String>,
    pub results: Vec<String>,
    /// Numbers of ops, such as `3,7-9`.
    pub ops: String,
}

/// Ops that are made again together, and the values that are read of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecomputedPart {
    pub ops: String,
    pub reads: String,
}

/// Ops that run in slices, by the factor of their rule that is cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitPart {
    pub slices: usize,
    /// Factors by name, and the numbers of the ops of which they are cut.
    pub factors: BTreeMap<String, String>,
}

impl ArgumentPart {
    /// How it is stored, and where.
    pub fn place(&self) -> String {
        if self.on_host { format!("{} on the host", self.stored) } else { self.stored.clone() }
    }
}

/// Stages that follow each other, each on devices of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagesPart {
    pub count: usize,
    pub schedule: String,
    /// Chunks of the model on every stage.
    pub chunks: usize,
    /// The numbers of the ops that chunks begin with, but for the first.
    pub starts: Vec<u32>,
    /// Of every chunk, the modules of its forward pass.
    pub modules: Vec<String>,
    /// The mesh of every stage, with size 1 along the axes of the plan's that it lacks. Where there are none, all stages
    /// have the plan's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meshes: Vec<String>,
}

impl PlanFile {
    /// What is wrong with the text of a plan, and what could be done.
    pub fn parse(text: &str) -> Result<PlanFile, Problem> {
        let fail = |error: &serde_json::Error| {
            let told = error.to_string();
            let reason = told.split(" at line ").next().unwrap_or(&told).to_owned();
            Problem::new(Code::PlanFile, format!("line {}, column {}: {reason}", error.line(), error.column()))
        };
        let value: serde_json::Value = serde_json::from_str(text).map_err(|error| fail(&error))?;
        match value.get("meshwright_plan").and_then(serde_json::Value::as_u64) {
            None => {
                return Err(Problem::new(Code::PlanFile, "it has no version `meshwright_plan`, so it is no plan")
                    .hint("`meshwright plan MODEL --cluster CLUSTER -o FILE` writes plans"));
            }
            Some(version) if version > VERSION => {
                let message = format!("it is of version {version}, and {VERSION} is the newest that is known here");
                return Err(
                    Problem::new(Code::PlanFile, message).hint("use the meshwright that wrote it, or plan again")
                );
            }
            Some(_) => {}
        }
        serde_json::from_str(text).map_err(|error| fail(&error))
    }

    /// The text of a plan: the same plan has the same text.
    pub fn to_text(&self) -> Result<String, String> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|error| format!("cannot write the plan: {error}"))
    }

    /// The mesh as people read it, with the axes in time.
    pub fn whole_mesh(&self) -> String {
        let time = (self.microbatches > 1).then(|| format!("micro={}@time", self.microbatches));
        let axes = [Some(self.mesh.clone()).filter(|mesh| !mesh.is_empty()), time];
        let slices = self.splits.iter().enumerate();
        let slices = slices.map(|(number, split)| format!("slices{number}={}@time", split.slices));
        axes.into_iter().flatten().chain(slices).collect::<Vec<_>>().join(",")
    }
}
