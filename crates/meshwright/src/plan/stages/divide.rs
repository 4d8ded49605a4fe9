//! Which layers run on which devices: stages, one after the other, as many as pay.
//!
//! A step takes as long as its slowest stage works, and as long as the first microbatch takes to pass all. Dynamic
//! programming from the last layer on finds the stages through which a microbatch passes fastest where none works for
//! longer than a limit, and with that what the last layers add at least. Dynamic programming from the first layer on then
//! keeps of the first layers what no other way to run them is better than in both, as long as that can still lead to less
//! than what was found.

use std::ops::Range;

/// What is divided.
pub(super) struct Problem<'p> {
    pub(super) layers: usize,
    pub(super) devices: usize,
    /// How many devices a stage may have.
    pub(super) shapes: &'p [usize],
    pub(super) least_stages: usize,
    pub(super) most_stages: usize,
    /// What a stage takes, or none where it cannot be.
    pub(super) cost: &'p dyn Fn(&Stage) -> Option<Cost>,
    /// What its layers take at least on so many devices, whatever the memory; more layers take more.
    pub(super) least: &'p dyn Fn(usize, Range<usize>) -> f64,
}

/// Layers on devices.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stage {
    pub(super) layers: Range<usize>,
    pub(super) devices: Range<usize>,
    /// How many stages follow.
    pub(super) behind: usize,
}

/// What a stage takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    /// All that it does in a step. The slowest bounds the step.
    pub(super) busy_seconds: f64,
    /// What it adds to a step where it is not the slowest.
    pub(super) passing_seconds: f64,
}

/// The stages in order, and what a step takes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Division {
    pub(super) seconds: f64,
    pub(super) stages: Vec<Stage>,
}

/// The division that takes least, if there is any that uses all devices.
pub(super) fn divide(problem: &Problem<'_>) -> Option<Division> {
    let mut table = Table { problem, known: vec![Vec::new(); problem.most_stages.min(problem.layers)] };
    // A limit that can be kept is found from below, so that few stages are looked at.
    let mut limit = table.first_limit();
    let mut found = table.under(limit);
    for _ in 0..MOST_RAISES {
        if found.is_some() {
            break;
        }
        limit *= 1.5;
        found = table.under(limit);
    }
    let (first, _) = found.or_else(|| table.under(f64::INFINITY))?;
    // Nothing better has a stage that is busy for longer than all of this takes.
    let (fastest_passing, rests) = table.under(first.seconds)?;
    let best = if fastest_passing.seconds < first.seconds { fastest_passing } else { first };
    Some(table.better(&rests, best.seconds).unwrap_or(best))
}

const MOST_RAISES: usize = 12;

/// What two ways to run the same layers may differ in and count as one.
const SAME: f64 = 1.0 + 1e-12;

struct Table<'p> {
    problem: &'p Problem<'p>,
    /// What stages take, by the number of those behind.
    known: Vec<Vec<Lane>>,
}

/// Stages on the same devices, with as many stages behind.
#[derive(Clone)]
struct Lane {
    devices: Range<usize>,
    /// By the layer that they end before, from the shortest on.
    costs: Vec<Vec<Option<Cost>>>,
}

/// What the last layers add to the passage at least, by the number of stages that run them, by how many devices these
/// have, and by the first of the layers. Where there is no way, it is infinite.
struct Rests(Vec<Vec<Vec<f64>>>);

/// A way to run the first layers.
#[derive(Clone, Copy, Debug)]
struct Way {
    busy_seconds: f64,
    passing_seconds: f64,
    /// Its last stage, by the number in a list of all.
    link: Option<usize>,
}

/// A stage of a way, and the one before.
struct Link {
    stage: Stage,
    before: Option<usize>,
}

impl Table<'_> {
    /// What every device does where all do as much.
    fn first_limit(&self) -> f64 {
        let Problem { layers, devices, shapes, least, .. } = self.problem;
        let even = shapes.iter().map(|&shape| least(shape, 0..*layers) * shape as f64 / *devices as f64);
        1.05 * even.fold(f64::INFINITY, f64::min)
    }

    /// Does something with the start and the cost of every stage that ends before a layer and could be busy for no longer
    /// than a limit.
    fn each(
        &mut self,
        behind: usize,
        devices: &Range<usize>,
        end: usize,
        limit: f64,
        act: &mut dyn FnMut(usize, Cost),
    ) {
        let Problem { layers, least, cost, .. } = self.problem;
        let lanes = &mut self.known[behind];
        let number = lanes.iter().position(|lane| lane.devices == *devices).unwrap_or_else(|| {
            lanes.push(Lane { devices: devices.clone(), costs: vec![Vec::new(); layers + 1] });
            lanes.len() - 1
        });
        let known = &mut lanes[number].costs[end];
        for start in (0..end).rev() {
            if least(devices.len(), start..end) > limit {
                return;
            }
            if known.len() < end - start {
                known.push(cost(&Stage { layers: start..end, devices: devices.clone(), behind }));
            }
            if let Some(cost) = known[end - start - 1].filter(|cost| cost.busy_seconds <= limit) {
                act(start, cost);
            }
        }
    }

    /// The stages through which a microbatch passes fastest where none is busy for longer, and what the last layers add.
    fn under(&mut self, limit: f64) -> Option<(Division, Rests)> {
        let &Problem { layers, devices, shapes, least_stages, most_stages, .. } = self.problem;
        let mut nothing = vec![Vec::new(); devices + 1];
        nothing[0] = vec![f64::INFINITY; layers + 1];
        nothing[0][layers] = 0.0;
        let mut rests = Rests(vec![nothing]);
        for behind in 0..most_stages.min(layers) {
            let mut next: Vec<Vec<f64>> = vec![Vec::new(); devices + 1];
            for used in (0..devices).filter(|&used| !rests.0[behind][used].is_empty()) {
                for &shape in shapes.iter().filter(|&&shape| used + shape <= devices) {
                    let own = devices - used - shape..devices - used;
                    let mut here = std::mem::take(&mut next[used + shape]);
                    here.resize(layers + 1, f64::INFINITY);
                    for end in 1..=layers {
                        let rest = rests.0[behind][used][end];
                        if rest.is_finite() {
                            self.each(behind, &own, end, limit, &mut |start, cost| {
                                here[start] = here[start].min(cost.passing_seconds + rest);
                            });
                        }
                    }
                    next[used + shape] = here;
                }
            }
            rests.0.push(next);
        }
        let whole = |count: &usize| rests.of(*count, devices, 0);
        let count = (least_stages.max(1)..rests.0.len()).min_by(|left, right| whole(left).total_cmp(&whole(right)))?;
        let division = self.follow(&rests, count, limit)?;
        Some((division, rests))
    }

    /// The stages that add what the last layers add at least.
    fn follow(&self, rests: &Rests, count: usize, limit: f64) -> Option<Division> {
        let &Problem { layers, devices, shapes, cost, least, .. } = self.problem;
        let (mut used, mut layer) = (devices, 0);
        let (mut stages, mut costs) = (Vec::new(), Vec::new());
        for behind in (0..count).rev() {
            let mut best: Option<(f64, Stage, Cost)> = None;
            for &shape in shapes.iter().filter(|&&shape| shape <= used) {
                for end in (layer + 1..=layers).take_while(|&end| least(shape, layer..end) <= limit) {
                    let rest = rests.of(behind, used - shape, end);
                    if rest >= best.as_ref().map_or(f64::INFINITY, |(seconds, ..)| *seconds) {
                        continue;
                    }
                    let own = devices - used..devices - used + shape;
                    let stage = Stage { layers: layer..end, devices: own, behind };
                    let Some(cost) = cost(&stage).filter(|cost| cost.busy_seconds <= limit) else { continue };
                    let seconds = cost.passing_seconds + rest;
                    if best.as_ref().is_none_or(|(least, ..)| seconds < *least) {
                        best = Some((seconds, stage, cost));
                    }
                }
            }
            let (_, stage, cost) = best?;
            (used, layer) = (used - stage.devices.len(), stage.layers.end);
            stages.push(stage);
            costs.push(cost);
        }
        Some(Division { seconds: seconds(costs.into_iter()), stages })
    }

    /// The division that takes least, where it takes less than so many seconds.
    fn better(&mut self, rests: &Rests, most_seconds: f64) -> Option<Division> {
        let &Problem { layers, devices, shapes, least_stages, .. } = self.problem;
        let least_passing =
            (least_stages.max(1)..rests.0.len()).map(|count| rests.of(count, devices, 0)).fold(f64::INFINITY, f64::min);
        let begun = Way { busy_seconds: 0.0, passing_seconds: 0.0, link: None };
        let mut links: Vec<Link> = Vec::new();
        let mut best = Way { busy_seconds: most_seconds, ..begun };
        // By the devices that are left, and by the first layer that is.
        let mut ways: Vec<Vec<Vec<Way>>> = vec![Vec::new(); devices + 1];
        for behind in (0..rests.0.len() - 1).rev() {
            let mut next: Vec<Vec<Vec<Way>>> = vec![Vec::new(); devices + 1];
            if behind + 1 >= least_stages {
                ways[devices] = vec![vec![begun]];
            }
            for left in (1..=devices).filter(|&left| !ways[left].is_empty()) {
                for &shape in shapes.iter().filter(|&&shape| shape <= left) {
                    let own = devices - left..devices - left + shape;
                    let mut after = std::mem::take(&mut next[left - shape]);
                    after.resize(layers + 1, Vec::new());
                    for (end, after) in after.iter_mut().enumerate().skip(1) {
                        let rest = rests.of(behind, left - shape, end);
                        if rest.is_infinite() {
                            continue;
                        }
                        let limit = best.seconds() - least_passing;
                        self.each(behind, &own, end, limit, &mut |start, cost| {
                            for way in ways[left].get(start).into_iter().flatten() {
                                let longer = Way { link: Some(links.len()), ..way.with(cost) };
                                if SAME * (longer.seconds() + rest) < best.seconds() && longer.joins(after) {
                                    let stage = Stage { layers: start..end, devices: own.clone(), behind };
                                    links.push(Link { stage, before: way.link });
                                    best = if behind == 0 { longer } else { best };
                                }
                            }
                        });
                    }
                    next[left - shape] = after;
                }
            }
            ways = next;
        }
        let mut stages = Vec::new();
        let mut link = best.link;
        while let Some(Link { stage, before }) = link.map(|link| &links[link]) {
            stages.push(stage.clone());
            link = *before;
        }
        stages.reverse();
        (!stages.is_empty()).then_some(Division { seconds: best.seconds(), stages })
    }
}

impl Rests {
    fn of(&self, count: usize, devices: usize, layer: usize) -> f64 {
        self.0[count][devices].get(layer).copied().unwrap_or(f64::INFINITY)
    }
}

impl Way {
    fn seconds(&self) -> f64 {
        self.busy_seconds + self.passing_seconds
    }

    /// With another stage.
    fn with(&self, cost: Cost) -> Way {
        let busy_seconds = self.busy_seconds.max(cost.busy_seconds);
        Way { busy_seconds, passing_seconds: self.passing_seconds + cost.passing_seconds, link: self.link }
    }

    /// Joins others that run the same layers, in place of those that are no better, unless one of them is as good.
    fn joins(self, others: &mut Vec<Way>) -> bool {
        let is_as_good = |other: &Way| {
            other.busy_seconds <= SAME * self.busy_seconds && other.passing_seconds <= SAME * self.passing_seconds
        };
        if others.iter().any(is_as_good) {
            return false;
        }
        others.retain(|other| other.busy_seconds < self.busy_seconds || other.passing_seconds < self.passing_seconds);
        others.push(self);
        true
    }
}

/// What a step of stages takes.
fn seconds(costs: impl Iterator<Item = Cost>) -> f64 {
    let (mut busy, mut passing) = (0.0_f64, 0.0);
    for cost in costs {
        busy = busy.max(cost.busy_seconds);
        passing += cost.passing_seconds;
    }
    busy + passing
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Layers of different work on devices of two speeds, some of which need several devices for their memory.
    struct Case {
        work: Vec<f64>,
        bytes: Vec<u64>,
        speeds: Vec<f64>,
        microbatches: f64,
        limit_bytes: u64,
        least_stages: usize,
    }

    impl Case {
        fn cost(&self, stage: &Stage) -> Option<Cost> {
            let count = stage.devices.len() as f64;
            let speed = self.speeds[stage.devices.clone()].iter().copied().fold(f64::INFINITY, f64::min);
            let work: f64 = self.work[stage.layers.clone()].iter().sum();
            let bytes: u64 = self.bytes[stage.layers.clone()].iter().sum::<u64>() * (stage.behind as u64 + 1);
            let trip = work / speed / count + 0.03 * (count - 1.0);
            // Devices of both speeds have nothing in common.
            let is_even = self.speeds[stage.devices.clone()].iter().all(|&other| other == speed);
            let fits = bytes <= self.limit_bytes * stage.devices.len() as u64;
            (fits && is_even).then_some(Cost {
                busy_seconds: (self.microbatches - 1.0) * trip + 0.1 * work,
                passing_seconds: trip + 0.01,
            })
        }

        fn least(&self, devices: usize, layers: Range<usize>) -> f64 {
            let fastest = self.speeds.iter().copied().fold(0.0, f64::max);
            (self.microbatches - 1.0) * self.work[layers].iter().sum::<f64>() / fastest / devices as f64
        }

        fn divide(&self) -> Option<f64> {
            let problem = Problem {
                layers: self.work.len(),
                devices: self.speeds.len(),
                shapes: &[1, 2, 3, 4, 8],
                least_stages: self.least_stages,
                most_stages: 8,
                cost: &|stage| self.cost(stage),
                least: &|devices, layers| self.least(devices, layers),
            };
            divide(&problem).map(|division| division.seconds)
        }

        /// All divisions, one by one.
        fn brute(&self, layer: usize, device: usize, stages: &mut Vec<Stage>) -> Option<f64> {
            let (layers, devices) = (self.work.len(), self.speeds.len());
            if layer == layers && device == devices {
                let count = stages.len();
                if count < self.least_stages {
                    return None;
                }
                let behind = |(number, stage): (usize, &Stage)| Stage { behind: count - 1 - number, ..stage.clone() };
                let costs: Option<Vec<Cost>> =
                    stages.iter().enumerate().map(behind).map(|stage| self.cost(&stage)).collect();
                return costs.map(|costs| seconds(costs.into_iter()));
            }
            let mut best: Option<f64> = None;
            for end in layer + 1..=layers {
                for shape in [1, 2, 3, 4, 8].into_iter().filter(|shape| device + shape <= devices) {
                    stages.push(Stage { layers: layer..end, devices: device..device + shape, behind: 0 });
                    let found = self.brute(end, device + shape, stages);
                    stages.pop();
                    best = match (best, found) {
                        (Some(best), Some(found)) => Some(best.min(found)),
                        (best, found) => best.or(found),
                    };
                }
            }
            best
        }
    }

    #[test]
    fn no_division_is_better_than_the_one_found() {
        let mut random = 7_u64;
        let mut next = |most: u64| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) % most
        };
        let mut found = 0;
        for case in 0..120 {
            let (layers, devices) = (1 + next(6) as usize, 1 + next(8) as usize);
            let fast = next(devices as u64 + 1) as usize;
            let case = Case {
                work: (0..layers).map(|_| 0.2 + next(100) as f64 / 40.0).collect(),
                bytes: (0..layers).map(|_| 1 + next(20)).collect(),
                speeds: (0..devices).map(|device| if device < fast && case % 3 == 0 { 2.0 } else { 1.0 }).collect(),
                microbatches: [1.0, 2.0, 4.0, 32.0][case % 4],
                limit_bytes: [10, 25, 1000][case % 3],
                least_stages: 1 + case % 5 % 3,
            };
            let (best, brute) = (case.divide(), case.brute(0, 0, &mut Vec::new()));
            match (best, brute) {
                (Some(best), Some(brute)) => assert!((best - brute).abs() < 1e-9 * brute, "{best} beside {brute}"),
                (best, brute) => assert_eq!(best, brute),
            }
            found += usize::from(best.is_some());
        }
        assert!(found > 60, "only {found} cases could be divided");
    }
}
