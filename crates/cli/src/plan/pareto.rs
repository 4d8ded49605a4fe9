//! `--pareto`: time against memory.

use std::time::Instant;

use meshwright::plan::{Refusal, Request, Rung, plan_ladder};
use meshwright_report::page::{Document, ladder_document};
use meshwright_report::plan::considered;
use serde_json::{Value, json};

use crate::table::{Table, bar, count, duration, paragraph, size};

/// Limits that are planned for.
const RUNGS: usize = 12;

/// The fastest plans under limits from what the fastest of all takes down to the least.
pub(super) struct Ladder {
    rungs: Vec<Rung>,
    limit_bytes: u64,
    planning_seconds: f64,
}

impl Ladder {
    pub(super) fn new(request: &Request<'_>) -> Result<Ladder, Refusal> {
        let started = Instant::now();
        let rungs = plan_ladder(request, RUNGS)?;
        Ok(Ladder { rungs, limit_bytes: request.limit_bytes, planning_seconds: started.elapsed().as_secs_f64() })
    }

    /// A row for every plan, with the memory that it takes; limits that the same plan is best under are one row.
    pub(super) fn to_text(&self, width: usize) -> String {
        let mut plans: Vec<&Rung> = Vec::new();
        for rung in &self.rungs {
            if plans.last().is_none_or(|last| last.planned != rung.planned) {
                plans.push(rung);
            }
        }
        let slowest = plans.iter().map(|rung| rung.planned.figures.step_seconds).fold(0.0, f64::max);
        let mut table = Table::new(&["memory", "a step", "", "microbatches", "mesh"]).ending_in_prose();
        for rung in plans {
            let figures = &rung.planned.figures;
            let length = (figures.step_seconds / slowest.max(1e-12) * 1000.0).round() as usize;
            let (memory, step) = (size(figures.peak_bytes as usize), duration(figures.step_seconds));
            table.row([memory, step, bar(length, 1000), count(figures.microbatches), figures.mesh.to_string()]);
        }
        let words = format!(
            "Planned under {} limits in {}, at most {} on a device.",
            count(self.rungs.len()),
            duration(self.planning_seconds),
            size(self.limit_bytes as usize),
        );
        table.render(width) + "\n" + &paragraph(&words, "", "", width)
    }

    pub(super) fn to_document(&self, name: &str, cluster: &str) -> Document {
        ladder_document(name, cluster, &self.rungs, self.to_json())
    }

    pub(super) fn to_json(&self) -> Value {
        let rung = |rung: &Rung| {
            let mut object = considered(&rung.planned.figures);
            object["memory_limit"] = json!(rung.limit_bytes);
            object
        };
        json!({
            "fits": true,
            "memory_limit": self.limit_bytes,
            "pareto": self.rungs.iter().map(rung).collect::<Vec<_>>(),
            "planning_seconds": self.planning_seconds,
        })
    }
}
