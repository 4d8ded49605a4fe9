//! Changes with which a step fits, each planned.

use std::borrow::Cow;

use super::considered::Considered;
use super::search::{Otherwise, Request, choose, search};
use crate::cluster::Cluster;
use crate::program::{ArgumentClass, Program};

/// What can be changed so that a step fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// As many microbatches as are best, instead of a number that was asked for.
    Microbatches,
    /// The batch divided by so much.
    Batch { divisor: usize },
    /// So many times as many devices.
    Devices { factor: usize },
    /// Computing with half the bits.
    Narrow,
    /// An optimizer with less state.
    LessState,
}

/// A step that was changed.
#[derive(Debug)]
pub struct Variant<'v> {
    /// How to ask for it.
    pub told: String,
    pub program: Cow<'v, Program>,
    pub cluster: Cow<'v, Cluster>,
}

/// A change with which the step fits, and what comes of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Suggestion {
    pub change: Change,
    pub told: String,
    pub figures: Considered,
}

/// The least change of each kind is sought, those first that change the least of what is computed.
const LADDERS: [&[Change]; 5] = [
    &[Change::Microbatches],
    &[
        Change::Batch { divisor: 2 },
        Change::Batch { divisor: 4 },
        Change::Batch { divisor: 8 },
        Change::Batch { divisor: 16 },
        Change::Batch { divisor: 32 },
        Change::Batch { divisor: 64 },
    ],
    &[Change::Devices { factor: 2 }, Change::Devices { factor: 4 }, Change::Devices { factor: 8 }],
    &[Change::Narrow],
    &[Change::LessState],
];

/// People wait for them.
const MOST_PLANS: usize = 10;

/// Changes with which a step fits that does not fit as it was requested. `build` makes the step with a change, where it
/// can be made.
pub fn suggest<'v>(request: &Request<'_>, build: impl FnMut(Change) -> Option<Variant<'v>>) -> Vec<Suggestion> {
    let mut attempts = Attempts { request, build, plans: 0 };
    LADDERS.iter().filter_map(|ladder| attempts.least(ladder)).collect()
}

struct Attempts<'a, 'r, F> {
    request: &'a Request<'r>,
    build: F,
    plans: usize,
}

impl<'v, F: FnMut(Change) -> Option<Variant<'v>>> Attempts<'_, '_, F> {
    /// The first change of a ladder that is enough. Where the last is not, none before it is.
    fn least(&mut self, ladder: &[Change]) -> Option<Suggestion> {
        let mut rungs = ladder.iter().enumerate().rev();
        let (last, furthest) = rungs.find_map(|(number, &change)| Some((number, self.attempt(change)?)))?;
        let furthest = furthest?;
        let nearer = ladder[..last].iter().find_map(|&change| self.attempt(change).flatten());
        nearer.or(Some(furthest))
    }

    /// Plans with a change. `None` where it cannot be made, and then where nothing fits with it.
    fn attempt(&mut self, change: Change) -> Option<Option<Suggestion>> {
        let request = self.request;
        if change == Change::Microbatches && request.microbatches.is_none() {
            return None;
        }
        let Variant { told, program, cluster } = (self.build)(change)?;
        let microbatches = request.microbatches.filter(|_| change != Change::Microbatches);
        let changed = Request { program: &program, cluster: &cluster, microbatches, ..*request };
        if self.plans == MOST_PLANS || has_too_much_state(&changed) {
            return Some(None);
        }
        self.plans += 1;
        Some(fitting(&changed).map(|figures| Suggestion { change, told, figures }))
    }
}

/// Whether weights and state alone do not fit, however they are cut, so that nothing need be planned to know.
fn has_too_much_state(request: &Request<'_>) -> bool {
    let Request { program, cluster, engine, limit_bytes, .. } = *request;
    let arguments = program.body().arguments.iter().zip(program.anatomy().classes);
    let state = arguments.filter(|(_, class)| matches!(class, ArgumentClass::Parameter | ArgumentClass::State));
    let bytes: usize = state.map(|(&value, _)| program.ty(value).bytes()).sum();
    (bytes / cluster.devices().max(1) + engine.reserved_bytes) as u64 > limit_bytes
}

fn fitting(request: &Request<'_>) -> Option<Considered> {
    let plan = request.in_space(|space| choose(request, search(request, space, Otherwise::GiveUp)));
    plan.ok()?.ok()?.alternatives.into_iter().next()
}
