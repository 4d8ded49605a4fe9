//! Chains beside the dynamic program of Beaumont and others, "Optimal checkpointing for heterogeneous chains",
//! which may run a stage any number of times.

use std::collections::BTreeMap;

use crate::chains::{Stage, random_chain, tape};
use crate::random::Random;

/// The least cost of a chain whose gradients read what goes into a stage and nothing else: the dynamic program with
/// what a stage keeps for itself left out.
struct Rotor<'s> {
    stages: &'s [Stage],
    known: BTreeMap<(usize, usize, u64), Option<u64>>,
}

impl Rotor<'_> {
    fn bytes(&self, index: usize) -> u64 {
        self.stages[index].bytes
    }

    /// Of the gradient of what goes into a stage. What goes into the first needs none.
    fn gradient_before(&self, index: usize) -> u64 {
        index.checked_sub(1).map_or(0, |before| self.bytes(before))
    }

    /// What it costs to run stages `first..=last` backward, where what goes into the first is kept by somebody else
    /// and the gradient of what the last makes is there.
    fn cost(&mut self, first: usize, last: usize, memory: u64) -> Option<u64> {
        if first == last {
            let needed = self.bytes(last) + self.gradient_before(last);
            return (needed <= memory).then_some(0);
        }
        if let Some(&known) = self.known.get(&(first, last, memory)) {
            return known;
        }
        let mut best: Option<u64> = None;
        let mut run = 0;
        // Stages up to a checkpoint run with nothing kept but that; when what is after it is done, what is before
        // it runs the same way.
        for checkpoint in first..last {
            let before = if checkpoint == first { 0 } else { self.bytes(checkpoint - 1) };
            if self.bytes(last) + before + self.bytes(checkpoint) > memory {
                break;
            }
            run += self.stages[checkpoint].cost;
            let after = self.cost(checkpoint + 1, last, memory - self.bytes(checkpoint));
            let again = self.cost(first, checkpoint, memory);
            best = best.into_iter().chain(after.zip(again).map(|(after, again)| run + after + again)).min();
        }
        self.known.insert((first, last, memory), best);
        best
    }
}

/// Made again once is enough for most limits: where it is not, the dynamic program shows what more would gain.
#[test]
fn making_values_again_once_is_nearly_as_good_as_any_number_of_times() {
    let (mut compared, mut equal, mut ours_total, mut theirs_total, mut only_theirs) = (0, 0, 0, 0, 0);
    let mut least = Vec::new();
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let length = 6 + random.below(4);
        let mut stages = random_chain(&mut random, length);
        // The last stage is the loss.
        stages[length - 1].bytes = 0;
        let tape = tape(&stages);
        let once: u64 = stages[..length - 1].iter().map(|stage| stage.cost).sum();
        let most = tape.outcome(&vec![false; length]).peak_bytes;
        let mut rotor = Rotor { stages: &stages, known: BTreeMap::new() };
        let mut smallest = [0, 0];
        for limit in (1..=most).rev() {
            let Some(theirs) = rotor.cost(0, length - 1, limit).map(|cost| cost - once) else { break };
            smallest[1] = limit;
            let Some(ours) = tape.cheapest(limit).map(|outcome| outcome.cost) else {
                only_theirs += 1;
                continue;
            };
            smallest[0] = limit;
            assert!(ours >= theirs, "seed {seed}, limit {limit}: {ours} is less than the optimum {theirs}");
            compared += 1;
            equal += usize::from(ours == theirs);
            ours_total += ours;
            theirs_total += theirs;
        }
        least.push(smallest.map(|bytes| bytes as f64 / most as f64));
    }
    println!("{compared} limits, {equal} equal, {only_theirs} that only many times fit");
    println!("extra cost in all: {ours_total} once, {theirs_total} any number of times");
    println!("least memory, as a share of none made again: {least:.2?}");
    assert!(compared > 200, "{compared}");
    assert!(equal * 100 >= compared * 90, "{equal} of {compared} are equal");
    assert!(ours_total as f64 <= 1.05 * theirs_total as f64, "{ours_total} is more than {theirs_total}");
}
