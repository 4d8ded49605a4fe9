//! The page: everything there is to tell about a plan, a step, a profile or a sweep, in one HTML file that needs nothing
//! else.
//!
//! A page is a document of data, told once as JSON, and a program that shows it (`web/`, bundled into `bundle.js`). What
//! the document has no part for is not shown. All lists that grow with the model are columns: a page of a hundred thousand
//! operations stays small and opens fast.

mod memory;
mod plan;
mod profile;
mod program;
mod simulate;
mod steps;
mod sweep;
mod tables;
mod timeline;
mod transfers;
mod write;

pub use plan::{ladder_document, plan_document};
pub use profile::profile_document;
pub use simulate::{LaidOutBy, applied_document, simulation_document};
pub use sweep::{SweptRow, sweep_document};
pub use tables::{Modules, Strings, Tables};

use serde::Serialize;
use serde_json::Value;

/// What a page shows.
#[derive(Debug, Serialize)]
pub struct Document {
    /// The form of the document, which `web/src/document.ts` knows.
    version: u32,
    /// The command that it comes from.
    kind: &'static str,
    /// What it is about, such as `gpt-2.6b on 8xa100-80g`.
    title: String,
    verdict: Verdict,
    /// The plan in words, a sentence each; literals stand in backticks.
    words: Vec<String>,
    /// What to change, naming the flags.
    hints: Vec<String>,
    /// The line that torchtitan would log.
    line: Option<String>,
    /// What the command prints with `--json`.
    summary: Value,
    strings: Strings,
    modules: Modules,
    mesh: Option<program::MeshPart>,
    timeline: Option<timeline::TimelinePart>,
    memory: Vec<memory::MemoryPart>,
    plans: Vec<plan::PlanPoint>,
    program: Option<program::ProgramPart>,
    arguments: Option<program::ArgumentsPart>,
    collectives: Option<transfers::CollectivesPart>,
    reshards: Option<transfers::ReshardsPart>,
    steps: Vec<steps::StepPart>,
    sweep: Option<sweep::SweepPart>,
}

/// The answer in a line.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// None where that was not the question.
    fits: Option<bool>,
    text: String,
}

impl Document {
    /// The answer in a line.
    pub fn verdict(&self) -> &str {
        &self.verdict.text
    }

    fn new(kind: &'static str, title: String, verdict: Verdict, summary: Value) -> Document {
        Document {
            version: 1,
            kind,
            title,
            verdict,
            words: Vec::new(),
            hints: Vec::new(),
            line: None,
            summary,
            strings: Strings::default(),
            modules: Modules::default(),
            mesh: None,
            timeline: None,
            memory: Vec::new(),
            plans: Vec::new(),
            program: None,
            arguments: None,
            collectives: None,
            reshards: None,
            steps: Vec::new(),
            sweep: None,
        }
    }
}
