//! Meshes, numbers of microbatches and orders of work for stages: divided by formulas, then lowered and simulated.

use std::ops::Range;
use std::sync::Arc;

use super::divide::{Cost, Division, Problem, Stage, divide};
use super::menu::{Hold, Menu, Pressure, StageCost};
use super::order::{FIRST, OTHERS, Order};
use super::place::{Kind, stage_meshes};
use super::realize::{Chosen, Realized, realize};
use crate::cluster::Collective;
use crate::pipeline::Layers;
use crate::plan::check::device_limit;
use crate::plan::considered::{Considered, by_time, distinct, pareto};
use crate::plan::decision::decisions;
use crate::plan::frames::{batch, frames};
use crate::plan::parallel::in_parallel;
use crate::plan::search::{Plan, Request, Runs};
use crate::plan::sketch::{Frame, Ground, Sketch};
use crate::plan::time::Time;
use crate::shard::Mesh;
use crate::simulate::Runner;

/// So many divisions are lowered and simulated at once.
const MOST_SIMULATED: usize = 3;
/// So often are divisions made with what was told before, once something fits, and at all.
const MOST_ROUNDS: usize = 2;
const MOST_TURNS: usize = 8;
/// What others promise is much more where the best takes longer than they should by this factor.
const MUCH_MORE: f64 = 1.1;
/// Divisions that should be slower than the best of their round by this factor are not simulated.
const MOST_WORSE: f64 = 1.1;
/// Divisions that should be slower than what was found by this factor are not either.
const MOST_WORSE_AGAIN: f64 = 1.02;
/// More microbatches are tried only on meshes that are worse than the best by no more than this factor.
const MOST_WORSE_MESH: f64 = 1.5;

/// What could at best be slower than the best by this factor is only looked at roughly.
const MOST_WORSE_REFINED: f64 = 1.05;

/// Stages of different sizes are worth a look where that should take no more than this share of the time.
const LITTLE_FASTER: f64 = 0.995;

/// With sizes of which there could be more stages than this, all stages have as many devices.
const MOST_UNEVEN: usize = 64;

/// By no more than this share do two candidates differ that do the same.
const SAME_SHARE: f64 = 1e-6;

/// What is searched for stages.
pub(super) struct Searching<'s, 'g> {
    pub(super) request: &'s Request<'s>,
    /// Of every kind of device.
    pub(super) grounds: &'s [&'g Ground<'g>],
    pub(super) kinds: Vec<Kind<'s>>,
    pub(super) layers: &'s Layers,
}

/// What layers take on a mesh that stages may have.
pub(super) struct Offer<'g> {
    /// The kind of its devices.
    kind: usize,
    menu: Menu<'g>,
}

impl Offer<'_> {
    fn mesh(&self) -> &Mesh {
        &self.menu.sketch.frame.mesh
    }
}

/// Meshes for stages, a number of microbatches and an order of work, with the best division.
pub(super) struct Candidate<'g> {
    /// Where all stages have as many devices there are so many, where not about.
    stages: usize,
    /// What there have to be.
    count: Option<usize>,
    microbatches: usize,
    order: Order,
    offers: Vec<Arc<Offer<'g>>>,
    /// How many devices stages may have, the fewest first, and what all of these are multiples of.
    sizes: Vec<usize>,
    unit: usize,
    /// By how much more every stage should take than it does, the last first.
    corrections: Vec<i64>,
    /// What steps took, as a share of what they should.
    bias: f64,
    division: Option<Division>,
    realized: Vec<(Division, Realized)>,
    /// It could not be lowered.
    is_stuck: bool,
}

impl Candidate<'_> {
    /// What the division that is to be simulated next should take.
    pub(super) fn seconds(&self) -> f64 {
        self.division.as_ref().map_or(f64::INFINITY, |division| self.bias * division.seconds)
    }
}

/// What was found.
pub(super) struct Staged<'g> {
    candidates: Vec<Candidate<'g>>,
    plan: Option<Plan>,
}

impl Staged<'_> {
    pub(super) fn into_plan(self) -> Option<Plan> {
        drop(self.candidates);
        self.plan
    }
}

impl<'s, 'g> Searching<'s, 'g> {
    /// Candidates of so many stages.
    pub(super) fn candidates(&self, count: usize) -> Vec<Candidate<'g>> {
        let devices = self.request.cluster.devices();
        let meshes = stage_meshes(&self.kinds).into_iter().filter(|mesh| mesh.devices() * count == devices);
        self.with_uneven(self.divided(meshes.collect()), Some(count))
    }

    /// Candidates of one stage, and of all other numbers of stages.
    pub(super) fn all_candidates(&self) -> (Vec<Candidate<'g>>, Vec<Candidate<'g>>) {
        let mut meshes = stage_meshes(&self.kinds);
        if self.kinds.len() == 1 {
            meshes.extend(frames(self.request.cluster).unwrap_or_default());
        }
        let (one, several) = self.divided(meshes).into_iter().partition(|candidate| candidate.stages == 1);
        (one, self.with_uneven(several, None))
    }

    /// Candidates, the best first, with those whose stages may have different numbers of devices, where that should be
    /// faster than if all have as many. They cut the batch as is best for these, or in all ways where there are none.
    fn with_uneven(&self, mut candidates: Vec<Candidate<'g>>, count: Option<usize>) -> Vec<Candidate<'g>> {
        let best = candidates.first().map_or(f64::INFINITY, Candidate::seconds);
        let stages = count.or_else(|| candidates.first().map(|best| best.stages)).unwrap_or(2);
        let batches = candidates.first().map_or_else(|| self.batches(stages), |best| vec![self.batch_of(best)]);
        let mut uneven = Vec::new();
        for (microbatches, parts) in batches {
            let wanted = self.uneven_meshes(&candidates, best * MOST_WORSE_MESH, parts);
            let offers = in_parallel(wanted, |(kind, mesh, unbatched)| {
                let is_known = |offer: &&Arc<Offer<'g>>| {
                    let frame = &offer.menu.sketch.frame;
                    offer.kind == kind && frame.microbatches == microbatches && frame.mesh == mesh
                };
                let mut known =
                    candidates.iter().flat_map(|candidate| &candidate.offers).filter(|_| unbatched.is_empty());
                let known = known.find(is_known).map(|offer| offer.menu.of_batch_parts(parts));
                let menu = known.unwrap_or_else(|| {
                    let offer = self.offer(kind, &mesh, microbatches, unbatched)?;
                    offer.menu.of_batch_parts(parts)
                });
                menu.map(|menu| Arc::new(Offer { kind, menu }))
            });
            uneven.push(self.ordered(offers.into_iter().flatten().collect(), count, stages, microbatches, FIRST));
        }
        for mut candidate in uneven {
            if let Some(division) = candidate.division.as_ref().filter(|_| candidate.seconds() < best * LITTLE_FASTER) {
                candidate.stages = division.stages.len();
                candidates.push(candidate);
            }
        }
        sort(&mut candidates);
        candidates
    }

    /// How many microbatches a candidate has, and into how many parts devices cut them.
    fn batch_of(&self, candidate: &Candidate<'g>) -> (usize, usize) {
        let first = candidate.division.as_ref().and_then(|division| division.stages.first());
        let found = first.and_then(|chunk| self.chunk(candidate, chunk));
        let parts = found.map_or(1, |(cost, offer)| offer.menu.ways[cost.ways[0]].batch_parts);
        (candidate.microbatches, parts)
    }

    /// Numbers of microbatches and of their parts that could be tried where nothing is known.
    fn batches(&self, stages: usize) -> Vec<(usize, usize)> {
        let counts = self.counts(stages);
        let first = self.first_count(self.request.cluster.devices().div_ceil(stages), &counts);
        let per_node = self.kinds.iter().map(|kind| kind.per_node).min().unwrap_or(1);
        let parts = (0..=per_node.ilog2()).map(|power| 1 << power);
        let mut near = counts[first.saturating_sub(1)..counts.len().min(first + 2)].to_vec();
        // Where nothing else can be done, such as with norms over the batch, stages still save memory.
        if counts[0] > 1 && self.request.microbatches.is_none() {
            near.push(1);
        }
        near.iter().flat_map(|&count| parts.clone().map(move |parts| (count, parts))).collect()
    }

    /// Meshes of every kind that some stages may have while others have others, with the axes that leave the batch whole,
    /// so that it is cut into so many parts. Those are left out with which all stages should take longer than so many
    /// seconds, and those that are so small that there are too many.
    fn uneven_meshes(
        &self,
        candidates: &[Candidate<'g>],
        most_seconds: f64,
        parts: usize,
    ) -> Vec<(usize, Mesh, Vec<usize>)> {
        let is_slow = |mesh: &Mesh| {
            let mut known =
                candidates.iter().filter(|candidate| candidate.offers.iter().all(|offer| offer.mesh() == mesh));
            known.next().is_some_and(|first| first.seconds() > most_seconds)
        };
        let least = self.request.cluster.devices().div_ceil(MOST_UNEVEN);
        let mut found = Vec::new();
        for (kind, own) in self.kinds.iter().enumerate() {
            for mesh in own.meshes().into_iter().filter(|mesh| mesh.devices() >= least && !is_slow(mesh)) {
                for set in 0..1_usize << mesh.axes.len() {
                    let (unbatched, batched): (Vec<usize>, Vec<usize>) =
                        (0..mesh.axes.len()).partition(|axis| set >> axis & 1 == 1);
                    if batched.iter().map(|&axis| mesh.axes[axis].size).product::<usize>() == parts {
                        found.push((kind, mesh.clone(), unbatched));
                    }
                }
            }
        }
        found
    }

    /// Meshes with numbers of microbatches, divided as well as can be known, the best first. On every mesh one number is
    /// tried first, then on those that are not far from the best those beside it, as long as that helps.
    fn divided(&self, meshes: Vec<Mesh>) -> Vec<Candidate<'g>> {
        let devices = self.request.cluster.devices();
        let fits = |mesh: &Mesh| devices / mesh.devices() <= self.layers.count();
        let meshes: Vec<Mesh> = meshes.into_iter().filter(fits).collect();
        let first = in_parallel(meshes, |mesh| {
            let counts = self.counts(devices / mesh.devices());
            let start = self.first_count(mesh.devices(), &counts);
            let candidate = self.candidate(&mesh, counts[start]);
            (mesh, counts, start, candidate)
        });
        let best = first.iter().flat_map(|(.., found)| found).map(Candidate::seconds).fold(f64::INFINITY, f64::min);
        let mut all: Vec<Candidate<'g>> = in_parallel(first, |(mesh, counts, start, candidate)| {
            let seconds = candidate.as_ref().map_or(f64::INFINITY, Candidate::seconds);
            let is_near = seconds.is_infinite() || seconds <= best * MOST_WORSE_MESH;
            let mut found = vec![candidate];
            for step in [1, -1_isize].into_iter().filter(|_| is_near) {
                let (mut place, mut last) = (start, seconds);
                while let Some(next) = place.checked_add_signed(step).filter(|&next| next < counts.len()) {
                    let candidate = self.candidate(&mesh, counts[next]);
                    let seconds = candidate.as_ref().map_or(f64::INFINITY, Candidate::seconds);
                    found.push(candidate);
                    if seconds > last {
                        break;
                    }
                    (place, last) = (next, seconds);
                }
            }
            // Where nothing else can be done, such as with norms over the batch, stages still save memory.
            if counts[0] > 1 && self.request.microbatches.is_none() {
                found.push(self.candidate(&mesh, 1));
            }
            found
        })
        .into_iter()
        .flatten()
        .flatten()
        .collect();
        all.retain(|candidate| candidate.division.is_some());
        distinct_divisions(self.refined(distinct_divisions(all)))
    }

    /// The same with more ways to run layers, where they could then be about as fast as the best.
    fn refined(&self, candidates: Vec<Candidate<'g>>) -> Vec<Candidate<'g>> {
        let best = candidates.iter().map(Candidate::seconds).fold(f64::INFINITY, f64::min);
        let mut all = in_parallel(candidates, |candidate| {
            let is_bound = candidate.division.as_ref().is_some_and(|division| self.is_bound(&candidate, division));
            if !is_bound || self.least_seconds(&candidate) > best * MOST_WORSE_REFINED {
                return candidate;
            }
            let Candidate { stages, count, microbatches, order, offers, .. } = candidate;
            let refined =
                |offer: &Arc<Offer<'g>>| Arc::new(Offer { kind: offer.kind, menu: offer.menu.refined(self.layers) });
            self.ordered(offers.iter().map(refined).collect(), count, stages, microbatches, order)
        });
        sort(&mut all);
        all
    }

    /// Whether some stage would be faster with more memory.
    fn is_bound(&self, candidate: &Candidate<'g>, division: &Division) -> bool {
        let mut costs = division.stages.iter().map(|chunk| self.chunk(candidate, chunk));
        costs.any(|cost| cost.is_none_or(|(cost, _)| cost.ways != [0, 0]))
    }

    /// What a candidate takes at least, whatever the memory.
    fn least_seconds(&self, candidate: &Candidate<'g>) -> f64 {
        let Candidate { stages, microbatches, .. } = *candidate;
        let all = 0..self.layers.count();
        let trips = microbatches as f64 + candidate.order.waiting_share() * (stages - 1) as f64;
        let devices = self.request.cluster.devices() as f64;
        let share = |offer: &Offer<'g>| offer.mesh().devices() as f64 / devices;
        let least = candidate.offers.iter().map(|offer| offer.menu.least(all.clone(), trips) * share(offer));
        least.fold(f64::INFINITY, f64::min)
    }

    /// The numbers of microbatches that could be tried: enough to fill the stages.
    fn counts(&self, stages: usize) -> Vec<usize> {
        if let Some(count) = self.request.microbatches {
            return vec![count];
        }
        let batch = batch(self.request.program, &self.grounds[0].arguments);
        let divisors: Vec<usize> = (1..=batch).filter(|count| batch.is_multiple_of(*count)).collect();
        let enough = divisors.iter().copied().filter(|&count| count >= stages);
        let mut counts: Vec<usize> = enough.collect();
        // Numbers that hardly differ would only take time.
        let mut last = 0;
        counts.retain(|&count| {
            let is_apart = 2 * count >= 3 * last;
            last = if is_apart { count } else { last };
            is_apart
        });
        if counts.is_empty() { vec![batch] } else { counts }
    }

    /// The number of microbatches that have about as many samples as a stage has devices, or the nearest.
    fn first_count(&self, devices: usize, counts: &[usize]) -> usize {
        let batch = batch(self.request.program, &self.grounds[0].arguments);
        let wanted = batch as f64 / devices as f64;
        let far = |&place: &usize| (counts[place] as f64 / wanted).ln().abs();
        (0..counts.len()).min_by(|left, right| far(left).total_cmp(&far(right))).unwrap_or(0)
    }

    /// Where all stages have a mesh.
    fn candidate(&self, mesh: &Mesh, microbatches: usize) -> Option<Candidate<'g>> {
        let stages = self.request.cluster.devices() / mesh.devices();
        let offer = |kind: usize| self.offer(kind, mesh, microbatches, Vec::new()).map(Arc::new);
        let offers = (0..self.kinds.len()).map(offer).collect::<Option<Vec<_>>>()?;
        Some(self.ordered(offers, Some(stages), stages, microbatches, FIRST))
    }

    /// What layers take on a mesh of devices of a kind, some axes of which leave the batch whole.
    fn offer(&self, kind: usize, mesh: &Mesh, microbatches: usize, unbatched: Vec<usize>) -> Option<Offer<'g>> {
        let ground = self.grounds[kind];
        let stages = self.request.cluster.devices().div_ceil(mesh.devices());
        let time = Time::new(&ground.base, microbatches).ok()?;
        let frame = Frame { unbatched, ..Frame::new(mesh.clone(), microbatches) };
        let sketch = Arc::new(Sketch::in_time(ground, frame, time).ok()?);
        let in_flight = (stages.min(microbatches) as f64 / 2.0).max(1.0);
        let limit_bytes = stages as f64 * self.own_bytes(self.limit_bytes(kind)) as f64;
        Some(Offer { kind, menu: Menu::new(sketch, self.layers, Pressure { in_flight, limit_bytes }) })
    }

    fn ordered(
        &self,
        offers: Vec<Arc<Offer<'g>>>,
        count: Option<usize>,
        stages: usize,
        microbatches: usize,
        order: Order,
    ) -> Candidate<'g> {
        let mut sizes: Vec<usize> = offers.iter().map(|offer| offer.mesh().devices()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let unit = sizes.iter().copied().reduce(common_divisor).unwrap_or(1);
        let mut candidate = Candidate {
            sizes,
            unit,
            stages,
            count,
            microbatches,
            order,
            offers,
            corrections: Vec::new(),
            bias: 1.0,
            division: None,
            realized: Vec::new(),
            is_stuck: false,
        };
        candidate.division = self.divide(&candidate);
        candidate
    }

    /// Simulates what could be best, and better than so many seconds, again and again.
    pub(super) fn search(&self, mut candidates: Vec<Candidate<'g>>, most_seconds: f64) -> Staged<'g> {
        let (mut best, mut rounds, mut has_orders) = (most_seconds, 0, false);
        for turn in 0..MOST_TURNS {
            sort(&mut candidates);
            let near = candidates.first().map_or(0.0, Candidate::seconds) * MOST_WORSE;
            let most = near.min(best * MOST_WORSE_AGAIN);
            let is_worth = |candidate: &&Candidate<'_>| candidate.seconds() <= most;
            let count = candidates.iter().take(MOST_SIMULATED).take_while(is_worth).count();
            if count == 0 || rounds == MOST_ROUNDS {
                break;
            }
            let rest = candidates.split_off(count);
            candidates = in_parallel(candidates, |candidate| self.proceed(candidate));
            candidates.extend(rest);
            let fastest = candidates.iter().map(|candidate| self.found_seconds(candidate));
            let fastest = fastest.fold(f64::INFINITY, f64::min);
            best = best.min(fastest);
            if candidates.iter().all(|candidate| candidate.realized.is_empty()) {
                // What keeps microbatches from following each other does so however many there are.
                candidates.retain(|candidate| candidate.microbatches == 1 || !candidate.is_stuck);
            }
            // As long as nothing fits, or others promise much more than what does, more is tried.
            let promised = candidates.iter().map(Candidate::seconds).fold(f64::INFINITY, f64::min);
            let is_late = turn + MOST_ROUNDS >= MOST_TURNS;
            if fastest.is_finite() && (is_late || fastest <= promised * MUCH_MORE) {
                rounds += 1;
                if !has_orders {
                    candidates.extend(self.other_orders(&candidates));
                    has_orders = true;
                }
            }
        }
        let plan = self.choose(&candidates);
        Staged { candidates, plan }
    }

    /// What the fastest takes of what was simulated and fits.
    fn found_seconds(&self, candidate: &Candidate<'g>) -> f64 {
        let fitting = candidate.realized.iter().filter(|(_, realized)| self.fits(realized));
        fitting.map(|(_, realized)| realized.timeline.step_seconds).fold(f64::INFINITY, f64::min)
    }

    /// The best of what was simulated, in other orders.
    fn other_orders(&self, candidates: &[Candidate<'g>]) -> Vec<Candidate<'g>> {
        let seconds = |candidate: &Candidate<'g>| self.found_seconds(candidate);
        let best = candidates.iter().min_by(|left, right| seconds(left).total_cmp(&seconds(right)));
        let Some(best) = best else { return Vec::new() };
        let Candidate { stages, count, microbatches, ref offers, bias, .. } = *best;
        let is_possible = |order: &Order| {
            let has_chunks = order.chunks > 1;
            order.is_possible(stages, microbatches, self.layers.count()) && !(has_chunks && best.sizes.len() > 1)
        };
        let ordered = OTHERS.into_iter().filter(is_possible).map(|order| {
            let candidate = self.ordered(offers.clone(), count, stages, microbatches, order);
            Candidate { bias, corrections: best.corrections.clone(), ..candidate }
        });
        ordered.filter(|candidate| candidate.division.is_some()).collect()
    }

    /// What a device of a kind may have in memory at all.
    fn limit_bytes(&self, kind: usize) -> u64 {
        device_limit(self.request.cluster, self.kinds[kind].devices.start, self.request.limit_bytes)
    }

    /// The same without what the engine takes besides the program.
    fn own_bytes(&self, bytes: u64) -> u64 {
        let engine = self.request.engine;
        (bytes.saturating_sub(engine.reserved_bytes as u64) as f64 / (1.0 + engine.fragmentation)) as u64
    }

    fn kind_of(&self, device: usize) -> usize {
        self.kinds.iter().position(|kind| kind.devices.contains(&device)).unwrap_or(0)
    }

    /// What a chunk of a candidate takes, and how its layers do, on the mesh on which they do best.
    fn chunk<'c>(&self, candidate: &'c Candidate<'g>, chunk: &Stage) -> Option<(StageCost, &'c Offer<'g>)> {
        let Candidate { stages, microbatches, order, .. } = *candidate;
        let devices = self.devices(candidate, chunk);
        let kind = self.kind_of(devices.start);
        if !self.kinds[kind].may_give(&devices) {
            return None;
        }
        let behind = candidate.behind(chunk);
        let correction = candidate.corrections.get(behind).copied().unwrap_or(0);
        let limit_bytes = self.own_bytes(self.limit_bytes(kind)).saturating_add_signed(correction);
        let in_flight = order.in_flight(stages, behind, microbatches);
        let hold = Hold { microbatches, in_flight, limit_bytes: limit_bytes / order.chunks as u64 };
        let own = |offer: &&Arc<Offer<'g>>| offer.kind == kind && offer.mesh().devices() == devices.len();
        let costs = candidate.offers.iter().filter(own).filter_map(|offer| {
            let cost = offer.menu.stage(chunk.layers.clone(), hold)?;
            Some((cost, &**offer))
        });
        let seconds = |cost: &StageCost| microbatches as f64 * cost.trip_seconds + cost.once_seconds;
        costs.min_by(|left, right| seconds(&left.0).total_cmp(&seconds(&right.0)))
    }

    /// The devices of a chunk. Chunks are divided among so many times the devices as a stage has chunks.
    fn devices(&self, candidate: &Candidate<'g>, chunk: &Stage) -> Range<usize> {
        let start = chunk.devices.start * candidate.unit % self.request.cluster.devices();
        start..start + chunk.devices.len() * candidate.unit
    }

    /// Chunks are divided like stages of which there are more.
    fn divide(&self, candidate: &Candidate<'g>) -> Option<Division> {
        let Candidate { microbatches, order, count, unit, .. } = *candidate;
        let share = order.waiting_share();
        let others = microbatches as f64 - share;
        let chunks = order.chunks as f64;
        let cost = |chunk: &Stage| {
            let (cost, offer) = self.chunk(candidate, chunk)?;
            let bytes = offer.menu.sent_bytes(&cost, &chunk.layers);
            let sending = 2.0 * self.send_seconds(offer.kind, offer.mesh().devices(), bytes);
            Some(Cost {
                busy_seconds: chunks * (others * cost.trip_seconds + cost.once_seconds),
                passing_seconds: share * cost.trip_seconds + sending,
            })
        };
        let least = |size: usize, layers: Range<usize>| {
            let own = candidate.offers.iter().filter(|offer| offer.mesh().devices() == size * unit);
            let least = own.map(|offer| chunks * offer.menu.least(layers.clone(), others));
            least.fold(f64::INFINITY, f64::min)
        };
        // Devices are counted in as many as all stages have multiples of.
        let shapes: Vec<usize> = candidate.sizes.iter().map(|size| size / unit).collect();
        let devices = order.chunks * self.request.cluster.devices() / unit;
        let count = count.map(|count| count * order.chunks);
        divide(&Problem {
            layers: self.layers.count(),
            devices,
            shapes: &shapes,
            least_stages: count.unwrap_or(2),
            most_stages: count.unwrap_or(devices),
            cost: &cost,
            least: &least,
        })
    }

    /// Seconds of a message to the next stage.
    fn send_seconds(&self, kind: usize, distance: usize, bytes: u64) -> f64 {
        let Request { cluster, engine, .. } = *self.request;
        let runner = Runner { cluster, device: self.kinds[kind].device, engine };
        runner.collective_seconds(Collective::Send, &[(2, distance)], bytes as usize)
    }

    fn chosen<'m>(&self, candidate: &'m Candidate<'g>, division: &Division) -> Option<Chosen<'m, 'g>> {
        let chunk = |chunk: &Stage| {
            let (cost, offer) = self.chunk(candidate, chunk)?;
            Some((chunk.clone(), cost, &offer.menu))
        };
        Some(Chosen { chunks: division.stages.iter().map(chunk).collect::<Option<_>>()?, order: candidate.order })
    }

    /// Lowers and simulates the division of a candidate, and makes another with what that told about memory.
    fn proceed(&self, mut candidate: Candidate<'g>) -> Candidate<'g> {
        let Some(division) = candidate.division.take() else { return candidate };
        let Some(chosen) = self.chosen(&candidate, &division) else { return candidate };
        let Request { program, cluster, engine, .. } = *self.request;
        let runner = Runner { cluster, device: cluster.device(0), engine };
        let ground = self.grounds[0];
        let recipe = chosen.recipe(program, self.layers);
        let realized = recipe.and_then(|recipe| realize(recipe, &ground.base, runner, ground.costs.price).ok());
        let Some(realized) = realized else { return self.of_one_batch(candidate) };
        let is_bound = chosen.chunks.iter().any(|(_, cost, _)| cost.ways != [0, 0]);
        let mut corrections = vec![0; realized.timeline.stages.len()];
        for (chunk, cost, _) in &chosen.chunks {
            corrections[candidate.behind(chunk)] += cost.peak_bytes as i64;
        }
        let fits = self.fits(&realized);
        for (correction, stage) in corrections.iter_mut().zip(realized.timeline.stages.iter().rev()) {
            let own = self.own_bytes(stage.memory.peak_bytes as u64) as i64;
            // What does not fit is given a little less than it should need.
            *correction -= if fits { own } else { own + own / 64 };
        }
        candidate.corrections = corrections;
        candidate.bias = realized.timeline.step_seconds / division.seconds;
        candidate.realized.push((division, realized));
        if !fits || is_bound {
            let next = self.divide(&candidate);
            let is_known = |next: &Division| candidate.realized.iter().any(|(known, _)| known.stages == next.stages);
            candidate.division = next.filter(|next| !fits || !is_known(next));
        }
        candidate
    }

    /// What could not be lowered, with ways alone that cut microbatches into as many parts, where it had others.
    fn of_one_batch(&self, candidate: Candidate<'g>) -> Candidate<'g> {
        let Candidate { stages, count, microbatches, order, ref offers, .. } = candidate;
        let refined: Vec<Offer<'g>> =
            offers.iter().map(|offer| Offer { kind: offer.kind, menu: offer.menu.refined(self.layers) }).collect();
        let mut parts: Vec<usize> =
            refined.iter().flat_map(|offer| &offer.menu.ways).map(|way| way.batch_parts).collect();
        parts.sort_unstable();
        parts.dedup();
        let is_mixed = parts.len() > 1;
        let of_parts = parts.into_iter().filter(|_| is_mixed).map(|parts| {
            let own = |offer: &Offer<'g>| {
                let menu = offer.menu.of_batch_parts(parts)?;
                Some(Arc::new(Offer { kind: offer.kind, menu }))
            };
            self.ordered(refined.iter().filter_map(own).collect(), count, stages, microbatches, order)
        });
        let best = of_parts.min_by(|left, right| left.seconds().total_cmp(&right.seconds()));
        best.filter(|best| best.division.is_some()).unwrap_or(Candidate { is_stuck: true, ..candidate })
    }

    fn fits(&self, realized: &Realized) -> bool {
        let fits = |(number, stage): (usize, &crate::simulate::StageTimeline)| {
            let first = realized.pipeline.devices_of(number).start;
            stage.memory.peak_bytes as u64 <= self.limit_bytes(self.kind_of(first))
        };
        realized.timeline.stages.iter().enumerate().all(fits)
    }

    /// The fastest of what fits, as a plan.
    fn choose(&self, candidates: &[Candidate<'g>]) -> Option<Plan> {
        let devices = self.request.cluster.devices() as f64;
        let products = candidates.iter().flat_map(|candidate| &candidate.offers);
        let products = products.map(|offer| offer.menu.sketch.least_seconds() * offer.mesh().devices() as f64);
        let lower_bound_seconds = products.fold(f64::INFINITY, f64::min) / devices;
        let mut fitting: Vec<(Considered, &Candidate<'g>, &(Division, Realized))> = Vec::new();
        for candidate in candidates {
            for found in candidate.realized.iter().filter(|(_, realized)| self.fits(realized)) {
                fitting.push((considered(candidate, &found.1), candidate, found));
            }
        }
        fitting.sort_by(|left, right| by_time(&left.0, &right.0));
        let all: Vec<Considered> = fitting.iter().map(|(considered, ..)| considered.clone()).collect();
        let (Considered { peak_bytes, .. }, candidate, (division, realized)) = fitting.first()?;
        let (decisions, search_gap) = match self.chosen(candidate, division).and_then(|chosen| chosen.main()) {
            Some((sketch, labelled)) => (decisions(sketch, labelled, u64::MAX), labelled.gap()),
            None => (Vec::new(), 0.0),
        };
        let pipeline = Box::new(realized.pipeline.clone());
        Some(Plan {
            mesh: pipeline.mesh.clone(),
            microbatches: candidate.microbatches,
            recipe: realized.recipe.clone(),
            runs: Runs::Stages { pipeline, modules: realized.modules.clone() },
            classes: realized.classes.clone(),
            timeline: realized.timeline.clone(),
            peak_bytes: *peak_bytes,
            decisions,
            lower_bound_seconds,
            search_gap,
            alternatives: distinct(all.clone()),
            pareto: pareto(all),
        })
    }
}

impl Candidate<'_> {
    /// How many stages follow that of a chunk.
    fn behind(&self, chunk: &Stage) -> usize {
        if self.order.chunks == 1 { chunk.behind } else { chunk.behind % self.stages }
    }
}

fn common_divisor(left: usize, right: usize) -> usize {
    if right == 0 { left } else { common_divisor(right, left % right) }
}

/// The best first, without those that do the same as one before: a finer mesh often leads to nothing that a coarser one
/// does not.
fn distinct_divisions(mut candidates: Vec<Candidate<'_>>) -> Vec<Candidate<'_>> {
    sort(&mut candidates);
    let mut kept: Vec<Candidate<'_>> = Vec::new();
    for candidate in candidates {
        let is_same = |other: &&Candidate<'_>| {
            let is_alike = (other.stages, other.microbatches) == (candidate.stages, candidate.microbatches);
            is_alike && candidate.seconds() - other.seconds() <= SAME_SHARE * candidate.seconds()
        };
        if !kept.iter().any(|other| is_same(&other)) {
            kept.push(candidate);
        }
    }
    kept
}

fn sort(candidates: &mut [Candidate<'_>]) {
    candidates.sort_by(|left, right| left.seconds().total_cmp(&right.seconds()));
}

fn considered(candidate: &Candidate<'_>, realized: &Realized) -> Considered {
    let peaks = realized.timeline.stages.iter().map(|stage| stage.memory.peak_bytes as u64);
    Considered {
        mesh: realized.pipeline.mesh.clone(),
        stages: realized.pipeline.stages.len(),
        microbatches: candidate.microbatches,
        step_seconds: realized.timeline.step_seconds,
        peak_bytes: peaks.max().unwrap_or(0),
    }
}
