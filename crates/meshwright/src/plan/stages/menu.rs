//! What every layer of a model takes on the mesh of a stage, in several ways: the faster, the more memory.

use std::ops::Range;
use std::sync::Arc;

use crate::pipeline::Layers;
use crate::plan::graph::{Flow, Kind, Origin};
use crate::plan::label::{Labelled, Worth};
use crate::plan::moves::Place;
use crate::plan::sketch::Sketch;
use crate::program::{Id, Phase, ValueId};

/// What layers could do on one mesh with one number of microbatches.
pub(super) struct Menu<'g> {
    pub(super) sketch: Arc<Sketch<'g>>,
    /// The fastest first.
    pub(super) ways: Vec<Arc<Way>>,
    pressure: Pressure,
}

/// Labels for all of a model, and what comes of them layer by layer. All sums are of the layers before each place.
pub(super) struct Way {
    pub(super) labelled: Labelled,
    trip_seconds: Vec<f64>,
    once_seconds: Vec<f64>,
    always_bytes: Vec<u64>,
    kept_bytes: Vec<u64>,
    /// What there is at most besides: of every layer alone, then of the two, the four, the eight, ... from it on.
    transient_bytes: Vec<Vec<u64>>,
    /// Of every layer but the last, what a device has of what later layers read.
    crossing_bytes: Vec<u64>,
    /// Into how many parts devices cut what is cut into microbatches.
    pub(super) batch_parts: usize,
}

/// What one layer takes on a device.
#[derive(Clone, Copy, Debug, Default)]
struct LayerCost {
    /// For every microbatch, forward and backward.
    trip_seconds: f64,
    /// Once in a step.
    once_seconds: f64,
    always_bytes: u64,
    /// For every microbatch between its forward and its backward pass.
    kept_bytes: u64,
    transient_bytes: u64,
}

/// What some layers take as a stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StageCost {
    pub(super) trip_seconds: f64,
    pub(super) once_seconds: f64,
    /// As far as can be known before any simulation.
    pub(super) peak_bytes: u64,
    /// The first layers go the first way, the others the second.
    pub(super) ways: [usize; 2],
    pub(super) first_count: usize,
}

/// What a stage is held to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) microbatches: usize,
    /// Microbatches between their forward and their backward pass at a time.
    pub(super) in_flight: usize,
    /// The program alone may take so much.
    pub(super) limit_bytes: u64,
}

/// What memory is worth, as shares of the time of a step for all memory of a device: nothing and nearly all at first, and
/// what is between where that could win.
const ENDS: [f64; 2] = [0.0, 6.0];
const BETWEEN: [f64; 4] = [0.03, 0.1, 0.3, 1.0];

/// How dear memory is on a stage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pressure {
    /// How many microbatches a stage has in flight, about.
    pub(super) in_flight: f64,
    /// What there is of memory for all layers.
    pub(super) limit_bytes: f64,
}

impl<'g> Menu<'g> {
    /// The fastest ways, and those that take least memory.
    pub(super) fn new(sketch: Arc<Sketch<'g>>, layers: &Layers, pressure: Pressure) -> Menu<'g> {
        let mut menu = Menu { sketch, ways: Vec::new(), pressure };
        menu.add(layers, &ENDS);
        menu
    }

    /// With ways between these.
    pub(super) fn refined(&self, layers: &Layers) -> Menu<'g> {
        let mut menu = Menu { sketch: Arc::clone(&self.sketch), ways: self.ways.clone(), pressure: self.pressure };
        menu.add(layers, &BETWEEN);
        menu
    }

    /// Those ways alone in which devices cut microbatches into so many parts, if there are any. Microbatches are cut from
    /// what devices have, so that they are the same on all stages only where these do alike.
    pub(super) fn of_batch_parts(&self, batch_parts: usize) -> Option<Menu<'g>> {
        let ways = self.ways.iter().filter(|way| way.batch_parts == batch_parts);
        let ways: Vec<Arc<Way>> = ways.cloned().collect();
        (!ways.is_empty()).then(|| Menu { sketch: Arc::clone(&self.sketch), ways, pressure: self.pressure })
    }

    fn add(&mut self, layers: &Layers, shares: &[f64]) {
        let Pressure { in_flight, limit_bytes } = self.pressure;
        // What a step takes is known once it is labelled.
        let seconds = self.sketch.least_seconds();
        let worth = |share: &f64| {
            let always = share * seconds / limit_bytes;
            Worth { always, kept: always * in_flight }
        };
        let worths: Vec<Worth> = shares.iter().map(worth).collect();
        for (labelled, flow_seconds) in self.sketch.label_for(crate::plan::space::FIRST_EXPOSURE, &worths) {
            if !self.ways.iter().any(|way| way.labelled.labels == labelled.labels) {
                self.ways.push(Arc::new(Way::new(&self.sketch, labelled, &flow_seconds, layers)));
            }
        }
        let microbatches = self.sketch.frame.microbatches as f64;
        let seconds = |way: &Arc<Way>| {
            let all = way.trip_seconds.len() - 1;
            microbatches * way.trip_seconds[all] + way.once_seconds[all]
        };
        self.ways.sort_by(|left, right| seconds(left).total_cmp(&seconds(right)));
    }

    /// The fastest that some layers can be as a stage: all of them one way, or the first of them faster than the others.
    pub(super) fn stage(&self, layers: Range<usize>, hold: Hold) -> Option<StageCost> {
        let Hold { microbatches, in_flight, limit_bytes } = hold;
        let seconds = |cost: &StageCost| microbatches as f64 * cost.trip_seconds + cost.once_seconds;
        let all = |way: usize| self.mixed(&layers, [way, way], layers.len(), in_flight);
        let slow = (0..self.ways.len()).find(|&way| all(way).peak_bytes <= limit_bytes)?;
        let mut best = all(slow);
        for fast in 0..slow {
            // The more of them are fast, the more memory they take.
            let fits = |count: usize| self.mixed(&layers, [fast, slow], count, in_flight).peak_bytes <= limit_bytes;
            let (mut count, mut most) = (0, layers.len());
            while count < most {
                let middle = (count + most).div_ceil(2);
                if fits(middle) { count = middle } else { most = middle - 1 }
            }
            let cost = self.mixed(&layers, [fast, slow], count, in_flight);
            if count > 0 && seconds(&cost) < seconds(&best) {
                best = cost;
            }
        }
        Some(best)
    }

    /// What layers take that go two ways.
    pub(super) fn mixed(
        &self,
        layers: &Range<usize>,
        ways: [usize; 2],
        first_count: usize,
        in_flight: usize,
    ) -> StageCost {
        let middle = layers.start + first_count;
        let parts = [(&self.ways[ways[0]], layers.start..middle), (&self.ways[ways[1]], middle..layers.end)];
        let (mut trip_seconds, mut once_seconds, mut lasting, mut transient) = (0.0, 0.0, 0, 0);
        for (way, range) in &parts {
            let Range { start, end } = *range;
            trip_seconds += way.trip_seconds[end] - way.trip_seconds[start];
            once_seconds += way.once_seconds[end] - way.once_seconds[start];
            lasting += way.always_bytes[end] - way.always_bytes[start];
            lasting += in_flight as u64 * (way.kept_bytes[end] - way.kept_bytes[start]);
            transient = transient.max(way.transient(range));
        }
        // What comes from the stage before is there as long.
        let received = layers.start.checked_sub(1).map_or(0, |cut| parts[0].0.crossing_bytes[cut]);
        let peak_bytes = lasting + (in_flight as u64 + 1) * received + transient;
        StageCost { trip_seconds, once_seconds, peak_bytes, ways, first_count }
    }

    /// What the fastest way takes for some layers, whatever its memory: no stage takes less.
    pub(super) fn least(&self, layers: Range<usize>, microbatches: f64) -> f64 {
        let Some(way) = self.ways.first() else { return f64::INFINITY };
        let trips = way.trip_seconds[layers.end] - way.trip_seconds[layers.start];
        microbatches * trips + way.once_seconds[layers.end] - way.once_seconds[layers.start]
    }

    /// What a device sends to the next stage after these layers, for a microbatch.
    pub(super) fn sent_bytes(&self, cost: &StageCost, layers: &Range<usize>) -> u64 {
        let way = &self.ways[cost.ways[usize::from(cost.first_count < layers.len())]];
        layers.end.checked_sub(1).and_then(|cut| way.crossing_bytes.get(cut)).copied().unwrap_or(0)
    }
}

impl Way {
    fn new(sketch: &Sketch<'_>, labelled: Labelled, flow_seconds: &[f64], layers: &Layers) -> Way {
        let costs = Counting { sketch, labelled: &labelled, flow_seconds, layers }.costs();
        let sums = |of: &dyn Fn(&LayerCost) -> f64| {
            let mut sum = 0.0;
            let next = costs.iter().map(|cost| {
                sum += of(cost);
                sum
            });
            std::iter::once(0.0).chain(next).collect::<Vec<f64>>()
        };
        let byte_sums = |of: &dyn Fn(&LayerCost) -> u64| {
            let mut sum = 0;
            let next = costs.iter().map(|cost| {
                sum += of(cost);
                sum
            });
            std::iter::once(0).chain(next).collect::<Vec<u64>>()
        };
        Way {
            trip_seconds: sums(&|cost| cost.trip_seconds),
            once_seconds: sums(&|cost| cost.once_seconds),
            always_bytes: byte_sums(&|cost| cost.always_bytes),
            kept_bytes: byte_sums(&|cost| cost.kept_bytes),
            transient_bytes: doubled(costs.iter().map(|cost| cost.transient_bytes).collect()),
            crossing_bytes: crossing_bytes(sketch, &labelled, layers),
            batch_parts: batch_parts(sketch, &labelled, layers),
            labelled,
        }
    }

    /// What there is at most of what is there for one of some layers alone.
    fn transient(&self, layers: &Range<usize>) -> u64 {
        let Some(power) = layers.len().checked_ilog2() else { return 0 };
        let most = &self.transient_bytes[power as usize];
        most[layers.start].max(most[layers.end - (1 << power)])
    }
}

/// The most of every one, of every two neighbours, of every four, ...
fn doubled(each: Vec<u64>) -> Vec<Vec<u64>> {
    let mut all = vec![each];
    let mut reach = 1;
    while let Some(last) = all.last().filter(|last| last.len() > reach) {
        let next = last.iter().zip(&last[reach..]).map(|(&left, &right)| left.max(right)).collect();
        all.push(next);
        reach *= 2;
    }
    all
}

/// What a device has of what crosses between layers.
fn crossing_bytes(sketch: &Sketch<'_>, labelled: &Labelled, layers: &Layers) -> Vec<u64> {
    let parts = sketch.parts();
    let bytes = |value: &ValueId| Some(parts.bytes(*value, place(sketch, labelled, *value)?));
    layers.crossing.iter().map(|values| values.iter().filter_map(bytes).sum()).collect()
}

/// Into how many parts devices cut the batch of what crosses between layers, at most.
fn batch_parts(sketch: &Sketch<'_>, labelled: &Labelled, layers: &Layers) -> usize {
    let parts = |value: &ValueId| {
        let axes = sketch.time.batch_axes(&sketch.axes, *value, place(sketch, labelled, *value)?);
        let sizes = sketch.axes.sizes.iter().enumerate().filter(|(axis, _)| axes >> axis & 1 == 1);
        Some(sizes.map(|(_, &size)| size).product())
    };
    layers.crossing.iter().flatten().filter_map(parts).max().unwrap_or(1)
}

/// How a value lies that is not an argument alone.
fn place(sketch: &Sketch<'_>, labelled: &Labelled, value: ValueId) -> Option<Place> {
    let origin = sketch.graph.origins[value.index()]?;
    let choice = &sketch.choices[origin.class()][labelled.labels[origin.class()].choice];
    Some(match origin {
        Origin::Made { op, result, .. } => choice.ops[op].lies[result],
        Origin::Stored { .. } | Origin::Read { .. } => origin.place(choice),
    })
}

/// Counts what labels come to, layer by layer.
struct Counting<'c, 'g> {
    sketch: &'c Sketch<'g>,
    labelled: &'c Labelled,
    /// How long every flow is waited for, in all trips.
    flow_seconds: &'c [f64],
    layers: &'c Layers,
}

impl Counting<'_, '_> {
    fn costs(&self) -> Vec<LayerCost> {
        let mut costs = vec![LayerCost::default(); self.layers.count()];
        self.add_computing(&mut costs);
        self.add_moving(&mut costs);
        self.add_memory(&mut costs);
        costs
    }

    fn layer(&self, bundle: usize) -> usize {
        let ops = &self.sketch.ground.bundles.list[bundle].ops;
        ops.iter().find_map(|op| self.layers.of[op.index()]).unwrap_or(0) as usize
    }

    /// Adds something that is the same for every bundle of a class.
    fn spread(&self, costs: &mut [LayerCost], class: usize, is_trip: bool, seconds: f64) {
        let members = &self.sketch.classes.members[class];
        let each = seconds / members.len() as f64;
        for &bundle in members {
            let cost = &mut costs[self.layer(bundle)];
            if is_trip {
                cost.trip_seconds += each / self.sketch.frame.microbatches as f64;
            } else {
                cost.once_seconds += each;
            }
        }
    }

    fn add_computing(&self, costs: &mut [LayerCost]) {
        let Sketch { time, classes, choices, ground, .. } = self.sketch;
        for (class, members) in classes.members.iter().enumerate() {
            let label = self.labelled.labels[class];
            let choice = &choices[class][label.choice];
            let times = if label.mode == crate::plan::lives::Mode::Again { 2.0 } else { 1.0 };
            let bundle = &ground.bundles.list[members[0]];
            let is_looped = bundle.ops.iter().any(|&op| time.trips(op) > 1);
            let is_trip = if time.microbatches > 1 { is_looped } else { bundle.phase != Phase::Update };
            let seconds = members.len() as f64 * times * (choice.compute_seconds + choice.inner_seconds);
            self.spread(costs, class, is_trip, seconds);
        }
    }

    fn add_moving(&self, costs: &mut [LayerCost]) {
        let microbatches = self.sketch.time.microbatches;
        let flows = self.sketch.graph.flows.iter().zip(&self.labelled.copies);
        for ((flow, copy), seconds) in flows.zip(self.flow_seconds) {
            let is_trip = if microbatches > 1 { flow.times > 1 } else { flow.kind == Kind::Activation };
            if let Some(reader) = flow.readers.first() {
                self.spread(costs, reader.class, is_trip, *seconds);
            }
            if let Some(copied) = self.copied_bytes(flow, *copy) {
                let reader = flow.readers.first().map_or(0, |reader| reader.class);
                let members = &self.sketch.classes.members[reader];
                let each = copied / members.len() as u64;
                members.iter().for_each(|&bundle| costs[self.layer(bundle)].always_bytes += each);
            }
        }
    }

    /// What copies take that are there as long as microbatches run.
    fn copied_bytes(&self, flow: &Flow, copy: Option<Place>) -> Option<u64> {
        let place = copy.filter(|_| flow.is_early)?;
        let class = flow.origin.class();
        let stored = flow.origin.place(&self.sketch.choices[class][self.labelled.labels[class].choice]);
        (place != stored).then(|| flow.count as u64 * self.sketch.parts().bytes(flow.value, place))
    }

    fn add_memory(&self, costs: &mut [LayerCost]) {
        let Sketch { lives, classes, choices, .. } = self.sketch;
        let parts = self.sketch.parts();
        // Of every layer, when bytes come and go.
        let mut changes: Vec<Vec<(usize, i64)>> = vec![Vec::new(); costs.len()];
        for (class, members) in classes.members.iter().enumerate() {
            let label = self.labelled.labels[class];
            let choice = &choices[class][label.choice];
            for (life, &bundle) in lives.classes[class].iter().zip(members) {
                let layer = self.layer(bundle);
                life.each(&parts, choice, label.mode, &mut |bytes, start, end| {
                    if start == 0 && end > lives.middle {
                        costs[layer].always_bytes += bytes;
                    } else if start <= lives.middle && lives.middle < end {
                        costs[layer].kept_bytes += bytes;
                    }
                    changes[layer].push((start, bytes as i64));
                    changes[layer].push((end, -(bytes as i64)));
                });
            }
        }
        for (cost, mut changes) in costs.iter_mut().zip(changes) {
            // What goes makes room for what comes at the same time.
            changes.sort_unstable();
            let (mut bytes, mut most) = (0, 0);
            for (_, change) in changes {
                bytes += change;
                most = most.max(bytes);
            }
            let lasting = cost.always_bytes + cost.kept_bytes;
            cost.transient_bytes = (most as u64).saturating_sub(lasting);
        }
    }
}
