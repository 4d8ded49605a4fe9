//! The choice that OSDP improves on: one way to keep state for all of a model, under limits that bind.

use meshwright::cluster::parse;
use meshwright::simulate::engine;

use super::cases::build;
use super::grid::{Candidate, Choice, STATES, Setting, THREADS, Way, choices, try_all};

/// A model under limits, on eight devices that share the lanes of their host, as OSDP's did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) model: &'static str,
    pub(crate) settings: &'static [(&'static str, &'static str)],
    pub(crate) cluster: &'static str,
    pub(crate) engine: &'static str,
    pub(crate) limits_gib: &'static [usize],
}

/// One or two sequences on a device: what binds is state, not activations, as in OSDP's measurements under small
/// limits. Its engine is FSDP.
#[rustfmt::skip] // One row a case.
pub(crate) const CASES: &[Case] = &[
    Case { name: "GPT-2, 48 layers of 2048", model: "gpt-2.6b", settings: &[("layers", "48"), ("hidden", "2048"), ("heads", "32"), ("vocab", "50304"), ("batch", "16")], cluster: "8xa100-40g-pcie", engine: "fsdp", limits_gib: &[6, 8, 9, 10, 12, 16, 20, 24] },
    Case { name: "OPT-30B, 8 layers of 7168", model: "gpt-2.6b", settings: &[("layers", "8"), ("hidden", "7168"), ("heads", "56"), ("seq", "2048"), ("vocab", "50272"), ("batch", "8")], cluster: "8xa100-40g-pcie", engine: "fsdp", limits_gib: &[12, 14, 16, 18, 20, 24] },
];

/// The best under one limit: of every way to keep state, alone and with every layer computed again.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) limit_gib: usize,
    /// In the order of [`STATES`]: what is kept is kept, or every layer is computed again.
    pub(crate) best: Vec<[Option<Candidate>; 2]>,
}

/// Tries data parallelism with every way to keep state, with and without recomputation, and any number of
/// microbatches. What a choice needs does not depend on the limit, so each is tried once.
pub(crate) fn uniform(case: &Case) -> Result<Vec<Row>, String> {
    let program = build(case.model, case.settings.iter().copied())?;
    let cluster = parse(case.cluster).map_err(|error| error.message)?;
    let engine = engine(case.engine).ok_or_else(|| format!("there is no engine `{}`", case.engine))?;
    let setting = Setting { cluster: &cluster, engine, limit_bytes: usize::MAX };
    let is_uniform = |choice: &Choice| choice.tensor == 1 && ["nothing", "layers"].contains(&choice.remat.name);
    let points: Vec<Choice> = choices(&program, &cluster).into_iter().filter(is_uniform).collect();
    let grid = try_all(&program, setting, &points, THREADS);
    let best = |limit_gib: usize, state: Way, remat: &str| {
        let fits = |candidate: &&Candidate| {
            let Candidate { choice, peak_bytes, .. } = candidate;
            choice.state == state && choice.remat.name == remat && *peak_bytes <= limit_gib << 30
        };
        grid.candidates.iter().find(fits).map(|candidate| Candidate { fits: true, ..candidate.clone() })
    };
    let row = |&limit_gib: &usize| {
        let of_state = |state: Way| ["nothing", "layers"].map(|remat| best(limit_gib, state, remat));
        Row { limit_gib, best: STATES.into_iter().map(of_state).collect() }
    };
    Ok(case.limits_gib.iter().map(row).collect())
}
