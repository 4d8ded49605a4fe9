//! Which layers run on which devices: stages, one after the other, as many as pay.
//!
//! A step takes as long as its slowest stage works, and as long as the first microbatch takes to pass the others. So the
//! work of the slowest is limited by one value after the other, and under each limit dynamic programming finds the
//! stages through which a microbatch passes fastest.

use std::ops::Range;

use rustc_hash::FxHashMap;

/// What is divided.
pub(super) struct Problem<'p> {
    pub(super) layers: usize,
    pub(super) devices: usize,
    /// How many devices a stage may have.
    pub(super) shapes: &'p [usize],
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

/// So many limits are tried at most between the lowest that can be kept and the highest that could pay, each of which
/// lets a microbatch pass faster than the one before.
const MOST_LIMITS: usize = 64;

/// The division that takes least, if there is any that uses all devices.
pub(super) fn divide(problem: &Problem<'_>) -> Option<Division> {
    let mut table = Table { problem, known: FxHashMap::default() };
    let mut limit = table.first_limit();
    // A limit that can be kept is found from below, so that few stages are looked at.
    let mut first = table.under(limit);
    for _ in 0..MOST_DOUBLINGS {
        if first.is_some() {
            break;
        }
        limit *= 1.5;
        first = table.under(limit);
    }
    let first = first.or_else(|| table.under(f64::INFINITY))?;
    // Nothing better has a stage that is busy for longer than all of this takes.
    let floor = table.under(first.seconds)?;
    let passing = table.passing(&floor);
    let mut best = if floor.seconds < first.seconds { floor } else { first };
    let limits = table.limits(best.seconds - passing);
    let lowest = limits.partition_point(|&limit| table.under(limit).is_none());
    let mut next = lowest;
    for _ in 0..MOST_LIMITS {
        let Some(&limit) = limits.get(next).filter(|&&limit| limit + passing < best.seconds) else { break };
        let Some(found) = table.under(limit) else { break };
        let reached = table.passing(&found);
        if found.seconds < best.seconds {
            best = found;
        }
        // The next limit that lets a microbatch pass faster.
        let is_as_slow = |&limit: &f64| table.under(limit).is_none_or(|found| table.passing(&found) >= reached);
        next += 1 + limits[next + 1..].partition_point(is_as_slow);
    }
    Some(best)
}

const MOST_DOUBLINGS: usize = 12;

struct Table<'p> {
    problem: &'p Problem<'p>,
    known: FxHashMap<Stage, Option<Cost>>,
}

/// The best way to run the last layers: what they add, and the first stage of them.
#[derive(Clone, Debug)]
struct Rest {
    passing_seconds: f64,
    stage: Stage,
}

impl Table<'_> {
    fn cost(&mut self, stage: &Stage) -> Option<Cost> {
        if let Some(&known) = self.known.get(stage) {
            return known;
        }
        let cost = (self.problem.cost)(stage);
        self.known.insert(stage.clone(), cost);
        cost
    }

    /// What every device does where all do as much.
    fn first_limit(&self) -> f64 {
        let Problem { layers, devices, shapes, least, .. } = self.problem;
        let even = shapes.iter().map(|&shape| least(shape, 0..*layers) * shape as f64 / *devices as f64);
        1.05 * even.fold(f64::INFINITY, f64::min)
    }

    /// The stages through which a microbatch passes fastest where none is busy for longer.
    fn under(&mut self, limit: f64) -> Option<Division> {
        let &Problem { layers, devices, shapes, most_stages, least, .. } = self.problem;
        // By the number of stages and of devices behind, and by the first layer.
        let mut behind: FxHashMap<usize, Vec<Option<Rest>>> = FxHashMap::default();
        let mut rounds: Vec<FxHashMap<usize, Vec<Option<Rest>>>> = Vec::new();
        let mut best: Option<(f64, usize)> = None;
        for count in 0..most_stages.min(layers) {
            let mut next: FxHashMap<usize, Vec<Option<Rest>>> = FxHashMap::default();
            let mut starts: Vec<usize> = if count == 0 { vec![0] } else { behind.keys().copied().collect() };
            starts.sort_unstable();
            for used in starts {
                for &shape in shapes.iter().filter(|&&shape| used + shape <= devices) {
                    let rests = next.entry(used + shape).or_insert_with(|| vec![None; layers]);
                    let own = devices - used - shape..devices - used;
                    for end in 1..=layers {
                        let rest = if count == 0 {
                            (end == layers).then_some(0.0)
                        } else {
                            behind[&used].get(end).and_then(Option::as_ref).map(|rest| rest.passing_seconds)
                        };
                        let Some(rest) = rest else { continue };
                        for start in (0..end).rev() {
                            if least(shape, start..end) > limit {
                                break;
                            }
                            let stage = Stage { layers: start..end, devices: own.clone(), behind: count };
                            let Some(cost) = self.cost(&stage).filter(|cost| cost.busy_seconds <= limit) else {
                                continue;
                            };
                            let passing_seconds = cost.passing_seconds + rest;
                            if rests[start].as_ref().is_none_or(|known| passing_seconds < known.passing_seconds) {
                                rests[start] = Some(Rest { passing_seconds, stage });
                            }
                        }
                    }
                }
            }
            if let Some(whole) = next.get(&devices).and_then(|rests| rests[0].as_ref())
                && best.is_none_or(|(seconds, _)| whole.passing_seconds < seconds)
            {
                best = Some((whole.passing_seconds, count));
            }
            rounds.push(std::mem::replace(&mut behind, next));
        }
        rounds.push(behind);
        let (_, last) = best?;
        let mut stages = Vec::new();
        let (mut used, mut layer) = (devices, 0);
        for count in (0..=last).rev() {
            let rest = rounds[count + 1].get(&used)?[layer].clone()?;
            used -= rest.stage.devices.len();
            layer = rest.stage.layers.end;
            stages.push(rest.stage);
        }
        let seconds = self.seconds(&stages);
        Some(Division { seconds, stages })
    }

    /// What stages come to: the slowest, and the passage through all others.
    fn seconds(&mut self, stages: &[Stage]) -> f64 {
        seconds(stages.iter().filter_map(|stage| self.cost(stage)))
    }

    fn passing(&mut self, division: &Division) -> f64 {
        division.stages.iter().filter_map(|stage| self.cost(stage)).map(|cost| cost.passing_seconds).sum()
    }

    /// What stages that were looked at are busy for, as far as it is less than something, the least first.
    fn limits(&self, most: f64) -> Vec<f64> {
        let busy = self.known.values().flatten().map(|cost| cost.busy_seconds);
        let mut limits: Vec<f64> = busy.filter(|&busy| busy <= most).collect();
        limits.sort_by(f64::total_cmp);
        limits.dedup();
        limits
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
