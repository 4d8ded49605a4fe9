//! Plans as files: `plan.json`, with everything that was decided and what came of it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::input::{self, Wanted, is_stdin};

/// The version that is written, and the newest that is read.
pub(crate) const VERSION: u64 = 1;

/// A plan as it is written. `docs/reference/plan.schema.json` says the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlanFile {
    pub(crate) meshwright_plan: u64,
    pub(crate) model: ModelPart,
    pub(crate) cluster: ClusterPart,
    pub(crate) engine: String,
    pub(crate) memory_limit: u64,
    /// Axes of devices.
    pub(crate) mesh: String,
    pub(crate) microbatches: usize,
    /// Weights are gathered, and gradients reduced, for every microbatch.
    pub(crate) eager: bool,
    pub(crate) results: ResultsPart,
    pub(crate) classes: Vec<ClassPart>,
    pub(crate) arguments: Vec<ArgumentPart>,
    pub(crate) strategies: Vec<StrategyPart>,
    pub(crate) recomputed: Vec<RecomputedPart>,
}

/// The model as it was given, and how to know its program again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ModelPart {
    pub(crate) name: String,
    pub(crate) settings: Vec<String>,
    pub(crate) fingerprint: String,
    /// How many ops the program has, and four digits of each.
    pub(crate) ops: usize,
    pub(crate) op_digests: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClusterPart {
    pub(crate) name: String,
    pub(crate) nodes: Vec<NodesPart>,
    /// The lines of a file that says everything about it.
    pub(crate) file: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodesPart {
    pub(crate) count: usize,
    pub(crate) devices: usize,
    pub(crate) device: String,
    pub(crate) memory_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ResultsPart {
    pub(crate) step_seconds: f64,
    pub(crate) peak_bytes: u64,
    pub(crate) mfu: f64,
    pub(crate) lower_bound_seconds: f64,
    pub(crate) search_gap: f64,
}

/// What ops alike do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ClassPart {
    /// Where they are, such as `layers.{0-31}.mlp.up`.
    pub(crate) scopes: Vec<String>,
    pub(crate) phase: String,
    /// The kinds of ops that are cut together.
    pub(crate) ops: Vec<String>,
    /// How often they are there.
    pub(crate) count: usize,
    pub(crate) result: String,
    pub(crate) keeping: String,
    pub(crate) compute_seconds: f64,
    pub(crate) inner_seconds: f64,
    pub(crate) moving_seconds: f64,
    pub(crate) runner_ups: Vec<RunnerUpPart>,
    pub(crate) source: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunnerUpPart {
    pub(crate) result: String,
    pub(crate) keeping: String,
    pub(crate) more_compute_seconds: f64,
    pub(crate) more_moving_seconds: f64,
    pub(crate) over_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ArgumentPart {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) ty: String,
    /// What it is for.
    pub(crate) role: String,
    pub(crate) stored: String,
    pub(crate) local_type: String,
    pub(crate) local_bytes: u64,
    /// The class that decided how it is stored, by number.
    pub(crate) decided_by: Option<usize>,
}

/// How some ops are cut and what they make lies, by number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StrategyPart {
    /// Factors of the op's rule by name, and what cuts them.
    pub(crate) factors: BTreeMap<String, String>,
    pub(crate) results: Vec<String>,
    /// Numbers of ops, such as `3,7-9`.
    pub(crate) ops: String,
}

/// Ops that are made again together, and the values that are read of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecomputedPart {
    pub(crate) ops: String,
    pub(crate) reads: String,
}

impl PlanFile {
    /// What is wrong with the text of a plan, and what could be done.
    pub(crate) fn parse(text: &str) -> Result<PlanFile, (String, Option<String>)> {
        let fail = |error: &serde_json::Error| {
            let told = error.to_string();
            let reason = told.split(" at line ").next().unwrap_or(&told).to_owned();
            (format!("line {}, column {}: {reason}", error.line(), error.column()), None)
        };
        let value: serde_json::Value = serde_json::from_str(text).map_err(|error| fail(&error))?;
        let hint = || Some("`meshwright plan MODEL --cluster CLUSTER -o FILE` writes plans".to_owned());
        match value.get("meshwright_plan").and_then(serde_json::Value::as_u64) {
            None => return Err(("it has no version `meshwright_plan`, so it is no plan".to_owned(), hint())),
            Some(version) if version > VERSION => {
                let message = format!("it is of version {version}, and {VERSION} is the newest that is known here");
                return Err((message, Some("use the meshwright that wrote it, or plan again".to_owned())));
            }
            Some(_) => {}
        }
        serde_json::from_str(text).map_err(|error| fail(&error))
    }

    pub(crate) fn read(path: &Path) -> Result<PlanFile, Error> {
        let name = if is_stdin(path) { "<stdin>".to_owned() } else { path.display().to_string() };
        let bytes = input::read(path, Wanted { kind: "plan", names: &[] })?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Error::new(format!("`{name}` is not valid UTF-8")).hint("save the file as UTF-8"))?;
        PlanFile::parse(&text)
            .map_err(|(reason, hint)| Error::new(format!("cannot read the plan `{name}`: {reason}")).maybe_hint(hint))
    }

    /// The text of a plan: the same plan has the same text.
    pub(crate) fn to_text(&self) -> Result<String, Error> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|error| Error::new(format!("cannot write the plan: {error}")))
    }

    /// The mesh as people read it, with the axis in time.
    pub(crate) fn whole_mesh(&self) -> String {
        let time = (self.microbatches > 1).then(|| format!("micro={}@time", self.microbatches));
        let axes = [Some(self.mesh.clone()).filter(|mesh| !mesh.is_empty()), time];
        axes.into_iter().flatten().collect::<Vec<_>>().join(",")
    }
}
