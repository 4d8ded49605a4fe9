//! All frames of a request, sketched when somebody asks, and once for all limits.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::exposure::Exposure;
use super::fixed::Fixed;
use super::frames::{batch, frames, microbatch_counts, named_frames, spanning_frames};
use super::label::{Effort, Labelled, Until};
use super::search::{Refusal, Request};
use super::sketch::{Frame, Ground, Sketch};
use super::split::thin_values;
use super::time::Time;
use crate::shard::Mesh;
use crate::tactics::Freedom;

/// The frames that are searched: every mesh with every number of microbatches.
pub(super) struct Space<'g> {
    ground: &'g Ground<'g>,
    meshes: Vec<Mesh>,
    /// How many of the meshes have axes within the levels of the cluster alone: they come first.
    within_count: usize,
    /// How many microbatches, the least first.
    pub(super) counts: Vec<usize>,
    /// What each of them cuts.
    times: Vec<OnceLock<Result<Time, String>>>,
    /// Of each mesh with each number of microbatches.
    cells: Vec<OnceLock<Result<Vec<Sketched<'g>>, String>>>,
    /// Into how many slices the largest values are cut, where that is worth it.
    slices: OnceLock<Option<Arc<Vec<u8>>>>,
}

/// A sketch, and what is known of it whatever the limit.
pub(super) struct Sketched<'g> {
    pub(super) sketch: Arc<Sketch<'g>>,
    /// Its labelling where memory has nothing to do with it, before anything is known of what is hidden, and with what
    /// mostly is.
    free: OnceLock<Option<Labelled>>,
    free_again: OnceLock<Option<Labelled>>,
}

/// What is hidden behind computing before any simulation has told.
pub(super) const FIRST_EXPOSURE: Exposure = Exposure::all(0.3);
/// Where by this factor more must be exposed than was thought, it is labelled again.
const MUCH_MORE: f64 = 1.5;

impl<'g> Space<'g> {
    pub(super) fn new(request: &Request<'_>, ground: &'g Ground<'g>) -> Result<Space<'g>, Refusal> {
        let (mut meshes, spanning) = meshes(request).map_err(Refusal::Unplannable)?;
        if let Some(told) = request.told {
            // What cannot be laid out on any mesh is told of the first; on some it may only not divide.
            let batch = batch(request.program, &ground.arguments);
            let mut tried = meshes.iter().map(|mesh| Fixed::new(&ground.base, mesh, told, batch).map(|_| ()));
            let first = tried.next().unwrap_or(Ok(()));
            first.or_else(|reason| tried.find(Result::is_ok).unwrap_or(Err(reason))).map_err(Refusal::Unplannable)?;
        }
        let counts = match request.microbatches {
            Some(count) => {
                let batch = batch(request.program, &ground.arguments);
                if count == 0 || !batch.is_multiple_of(count) {
                    let reason = format!("a batch of {batch} is not cut into {count} microbatches");
                    return Err(Refusal::Unplannable(reason));
                }
                vec![count]
            }
            None if request.told.is_some_and(|told| !told.auto.may(Freedom::Microbatches)) => vec![1],
            None => microbatch_counts(request.program, &ground.arguments),
        };
        let within_count = meshes.len();
        meshes.extend(spanning);
        let times = counts.iter().map(|_| OnceLock::new()).collect();
        let cells = (0..meshes.len() * counts.len()).map(|_| OnceLock::new()).collect();
        Ok(Space { ground, meshes, within_count, counts, times, cells, slices: OnceLock::new() })
    }

    /// What is known of the program.
    pub(super) fn ground(&self) -> &'g Ground<'g> {
        self.ground
    }

    /// How a number of microbatches cuts the step.
    pub(super) fn time(&self, time: usize) -> Result<&Time, String> {
        let found = self.times[time].get_or_init(|| Time::new(&self.ground.base, self.counts[time]));
        found.as_ref().map_err(String::clone)
    }

    /// A mesh with a number of microbatches, both ways to gather and reduce; none where it cannot be.
    pub(super) fn sketches(&self, mesh: usize, time: usize) -> &[Sketched<'g>] {
        let cell = self.cells[mesh * self.counts.len() + time].get_or_init(|| {
            let (mesh, count) = (self.meshes[mesh].clone(), self.counts[time]);
            let time = self.time(time)?.clone();
            let frame = Frame::new(mesh, count);
            let lazy = Sketch::in_time(self.ground, frame, time)?;
            let eager = (count > 1).then(|| lazy.made_eager());
            let sketched = |sketch| Sketched::new(Arc::new(sketch));
            Ok([Some(lazy), eager].into_iter().flatten().map(sketched).collect())
        });
        cell.as_deref().unwrap_or_default()
    }

    /// A sketch where what takes most at a time runs in slices.
    pub(super) fn sliced(&self, sketch: &Arc<Sketch<'g>>) -> Arc<Sketch<'g>> {
        if sketch.frame.is_sliced {
            return Arc::clone(sketch);
        }
        Arc::new(sketch.sliced(self.slices()))
    }

    /// Whether there is anything to slice.
    pub(super) fn may_slice(&self) -> bool {
        self.slices().is_some()
    }

    /// Whether state may lie on the host.
    pub(super) fn may_hold(&self) -> bool {
        let is_allowed = self.ground.told.is_none_or(|told| told.auto.may(Freedom::Offload));
        is_allowed && self.ground.costs.host_seconds_per_byte > 0.0
    }

    /// The meshes whose axes lie within levels of the cluster.
    pub(super) fn within(&self) -> Range<usize> {
        0..self.within_count
    }

    /// The meshes with an axis across levels.
    pub(super) fn across(&self) -> Range<usize> {
        self.within_count..self.meshes.len()
    }

    pub(super) fn is_across(&self, mesh: &Mesh) -> bool {
        self.meshes[self.across()].contains(mesh)
    }

    /// All sketches of meshes within levels.
    pub(super) fn all(&self) -> impl Iterator<Item = &Sketched<'g>> {
        let cells = self.within().flat_map(|mesh| (0..self.counts.len()).map(move |time| (mesh, time)));
        cells.flat_map(|(mesh, time)| self.sketches(mesh, time))
    }

    /// The sketches of the same mesh with at most as many microbatches that would be faster, were there memory enough:
    /// a list for each way to gather and reduce, those with most microbatches first.
    pub(super) fn faster(&self, frame: &Frame, seconds: f64) -> Vec<Vec<Arc<Sketch<'g>>>> {
        let mesh = self.meshes.iter().position(|mesh| *mesh == frame.mesh);
        mesh.map(|mesh| self.faster_on(mesh, frame.microbatches, seconds)).unwrap_or_default()
    }

    /// The same on all meshes, as far as they were labelled.
    pub(super) fn faster_anywhere(&self, frame: &Frame, seconds: f64) -> Vec<Vec<Arc<Sketch<'g>>>> {
        let meshes = 0..self.meshes.len();
        meshes.flat_map(|mesh| self.faster_on(mesh, frame.microbatches, seconds)).collect()
    }

    fn faster_on(&self, mesh: usize, most_microbatches: usize, seconds: f64) -> Vec<Vec<Arc<Sketch<'g>>>> {
        let cells = (0..self.counts.len()).rev().filter(|&time| self.counts[time] <= most_microbatches);
        let labelled = cells.filter_map(|time| self.cells[mesh * self.counts.len() + time].get()?.as_deref().ok());
        let is_faster = |sketched: &&Sketched<'g>| (f64::MIN_POSITIVE..seconds).contains(&sketched.free_seconds());
        let faster = labelled.flatten().filter(is_faster).map(|sketched| &sketched.sketch);
        let (eager, lazy) = faster.cloned().partition(|sketch| sketch.frame.is_eager);
        vec![lazy, eager]
    }

    /// The sketches of other meshes with as many microbatches, gathered and reduced alike.
    pub(super) fn elsewhere(&self, frame: &Frame) -> impl Iterator<Item = &Arc<Sketch<'g>>> {
        let time = self.counts.iter().position(|count| *count == frame.microbatches);
        let cells = time.into_iter().flat_map(|time| (0..self.meshes.len()).map(move |mesh| (mesh, time)));
        let sketches = cells.flat_map(|(mesh, time)| self.sketches(mesh, time)).map(|sketched| &sketched.sketch);
        sketches.filter(|sketch| sketch.frame.mesh != frame.mesh && sketch.frame.is_eager == frame.is_eager)
    }

    /// What the fastest of those that were labelled would take if there were no limit.
    pub(super) fn free_seconds(&self) -> f64 {
        let sketched = self.cells.iter().filter_map(|cell| cell.get()?.as_deref().ok()).flatten();
        let known = sketched.map(Sketched::free_seconds).filter(|seconds| *seconds > 0.0);
        known.fold(f64::INFINITY, f64::min)
    }

    fn slices(&self) -> Option<&Arc<Vec<u8>>> {
        let Ground { base, buffers, .. } = self.ground;
        self.slices.get_or_init(|| thin_values(base, buffers).map(Arc::new)).as_ref()
    }

    /// Why some of what was looked at could not be sketched.
    pub(super) fn first_error(&self) -> Option<String> {
        let of_cell = |cell: &OnceLock<Result<Vec<Sketched<'g>>, String>>| cell.get()?.as_ref().err().cloned();
        self.cells.iter().find_map(of_cell)
    }

    /// A frame whose layers alike may do different things.
    pub(super) fn split(&self, frame: &Frame, runs: usize) -> Result<Arc<Sketch<'g>>, String> {
        Sketch::new(self.ground, Frame { runs, ..frame.clone() }).map(Arc::new)
    }
}

impl<'g> Sketched<'g> {
    /// The same where state lies on the host.
    pub(super) fn held(&self) -> Sketched<'g> {
        Sketched::new(Arc::new(self.sketch.held()))
    }

    fn new(sketch: Arc<Sketch<'g>>) -> Sketched<'g> {
        Sketched { sketch, free: OnceLock::new(), free_again: OnceLock::new() }
    }

    /// What it takes without a limit, or nothing where that is not known.
    fn free_seconds(&self) -> f64 {
        self.free.get().and_then(Option::as_ref).map_or(0.0, |free| free.seconds)
    }

    /// The cheapest labels before anything is known of what is hidden, where a limit leaves memory enough for them.
    pub(super) fn label_free(&self, limit_bytes: u64) -> Option<Labelled> {
        let free = self.first_free()?;
        (free.peak_bytes <= limit_bytes).then(|| free.clone().under(limit_bytes))
    }

    fn first_free(&self) -> Option<&Labelled> {
        self.free.get_or_init(|| self.sketch.label_free(FIRST_EXPOSURE)).as_ref()
    }

    /// The same whatever the limit leaves; perhaps none where nothing is as fast as so many seconds.
    pub(super) fn label(&self, limit_bytes: u64, most_seconds: f64) -> Option<Labelled> {
        let free = self.first_free()?;
        if free.peak_bytes <= limit_bytes {
            return Some(free.clone().under(limit_bytes));
        }
        // Memory can only make it slower.
        if free.lower_bound_seconds > most_seconds {
            return None;
        }
        let until = Until { effort: Effort::Little, most_seconds };
        self.sketch.label_bound(limit_bytes, FIRST_EXPOSURE, free, until)
    }

    /// The same with what is hidden if as much is as mostly is, where that is another thing.
    pub(super) fn label_again(&self, limit_bytes: u64, first: &Labelled, most_seconds: f64) -> Option<Labelled> {
        let exposure = Exposure::likely(&first.loads);
        // What takes longer than computing cannot be hidden behind it.
        if exposure.backward.moving <= FIRST_EXPOSURE.backward.moving * MUCH_MORE {
            return None;
        }
        let until = Until { effort: Effort::Little, most_seconds };
        if first.is_bound {
            return self.sketch.label_bound(limit_bytes, exposure, first, until);
        }
        let free = self.free_again.get_or_init(|| self.sketch.label_free(exposure)).as_ref()?;
        if free.peak_bytes <= limit_bytes {
            return Some(free.clone().under(limit_bytes));
        }
        self.sketch.label_bound(limit_bytes, exposure, free, until)
    }
}

/// The meshes that are tried: the one that is given, those with the axes that tactics name, or all, of which those with an
/// axis across levels are apart.
fn meshes(request: &Request<'_>) -> Result<(Vec<Mesh>, Vec<Mesh>), String> {
    let devices = request.cluster.devices();
    if let Some(mesh) = request.mesh {
        let has_time = mesh.axes.iter().any(|axis| axis.temporal);
        if mesh.devices() != devices || has_time {
            return Err(format!("the mesh has to have {devices} devices, as the cluster, and no axis in time"));
        }
        return Ok((vec![mesh.clone()], Vec::new()));
    }
    let mut names: Vec<&String> = Vec::new();
    if let Some(told) = request.told {
        let axes = told.before.iter().filter_map(|tactic| tactic.axis.as_ref());
        for name in axes.chain(told.auto.axes.iter().flatten()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    if names.is_empty() {
        return Ok((frames(request.cluster)?, spanning_frames(request.cluster)?));
    }
    // Where axes are not limited there is one more, for what nobody spoke of.
    let rest = REST.to_owned();
    if request.told.is_some_and(|told| told.auto.axes.is_none()) && !names.contains(&&rest) {
        names.insert(0, &rest);
    }
    Ok((named_frames(&names, devices)?, Vec::new()))
}

/// The axis that is left to planning where tactics name others.
const REST: &str = "rest";
