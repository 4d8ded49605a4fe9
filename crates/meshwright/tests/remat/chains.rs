//! Small chains of stages, beside all choices there are.

use meshwright::plan::{Fixed, Last, Tape, Taped};

use crate::random::Random;

/// A stage of a chain: what it makes of what the stage before made, and what its gradient reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage {
    pub(crate) bytes: u64,
    pub(crate) cost: u64,
    reads_input: bool,
    reads_output: bool,
}

/// Stages whose gradients read what goes into them.
pub(crate) fn random_chain(random: &mut Random, length: usize) -> Vec<Stage> {
    let stage = |_| Stage {
        bytes: random.between(1, 12) as u64,
        cost: 1000 * random.between(1, 20) as u64,
        reads_input: true,
        reads_output: false,
    };
    (0..length).map(stage).collect()
}

fn random_stages(random: &mut Random, length: usize) -> Vec<Stage> {
    let mut stages = random_chain(random, length);
    for stage in &mut stages {
        (stage.reads_input, stage.reads_output) = (random.chance(60), random.chance(60));
    }
    stages
}

/// Stage `i` runs at step `i`, its gradient at step `2 n - 1 - i`. What comes first is an argument.
pub(crate) fn tape(stages: &[Stage]) -> Tape {
    let count = stages.len();
    let mut values: Vec<Taped> = Vec::new();
    for (index, stage) in stages.iter().enumerate() {
        let next = stages.get(index + 1);
        let mut late = Vec::new();
        late.extend(next.filter(|next| next.reads_input).map(|_| 2 * count - 2 - index));
        late.extend(stage.reads_output.then_some(2 * count - 1 - index));
        values.push(Taped {
            bytes: stage.bytes,
            cost: Some(stage.cost),
            reads: index.checked_sub(1).into_iter().collect(),
            made: index,
            early: next.map(|_| Last { step: index + 1, is_taken: false }),
            late,
            ..Taped::default()
        });
    }
    // The gradient of what stage `i` makes is as large, and is there from the gradient of the next on.
    let gradient = |index: usize| {
        let made = 2 * count - 2 - index;
        Fixed { bytes: stages[index].bytes, made, last: Last { step: made + 1, is_taken: false } }
    };
    Tape { values, fixed: (0..count - 1).map(gradient).collect(), steps: 2 * count }
}

/// What a choice costs and how much memory it takes, found by running it: the stages one after the other, then
/// the gradients, each after what it lacks; and everything is there from who makes it to who reads it last.
fn run(stages: &[Stage], again: &[bool]) -> (u64, u64) {
    let count = stages.len();
    // For each event, what is made, how large it is, and what is read.
    let mut made: Vec<u64> = Vec::new();
    let mut reads: Vec<Vec<usize>> = Vec::new();
    let mut cost = 0;
    let mut latest: Vec<Option<usize>> = vec![None; count];
    for (index, stage) in stages.iter().enumerate() {
        reads.push(index.checked_sub(1).into_iter().collect());
        latest[index] = (!again[index]).then_some(made.len());
        made.push(stage.bytes);
    }
    let mut gradient = None;
    for index in (0..count).rev() {
        let mut needed: Vec<usize> = Vec::new();
        needed.extend(index.checked_sub(1).filter(|_| stages[index].reads_input));
        needed.extend(stages[index].reads_output.then_some(index));
        for &value in &needed {
            let lacking: Vec<usize> = (0..=value).rev().take_while(|&before| latest[before].is_none()).collect();
            for &before in lacking.iter().rev() {
                reads.push(before.checked_sub(1).and_then(|before| latest[before]).into_iter().collect());
                latest[before] = Some(made.len());
                made.push(stages[before].bytes);
                // What nobody read before is only made late.
                cost += if before + 1 < count { stages[before].cost } else { 0 };
            }
        }
        let mut read: Vec<usize> = needed.iter().filter_map(|&value| latest[value]).collect();
        read.extend(gradient);
        reads.push(read);
        gradient = Some(made.len());
        made.push(index.checked_sub(1).map_or(0, |before| stages[before].bytes));
    }
    let mut last: Vec<usize> = (0..made.len()).collect();
    for (event, reads) in reads.iter().enumerate() {
        reads.iter().for_each(|&read| last[read] = event);
    }
    // The first time that the last stage runs does not count where it is only made late.
    let is_real = |event: usize| event + 1 != count || !again[count - 1] || latest[count - 1].is_none();
    let bytes = |event: usize| {
        let live = (0..=event).filter(|&other| last[other] >= event && is_real(other));
        live.map(|other| made[other]).sum::<u64>()
    };
    (cost, (0..made.len()).map(bytes).max().unwrap_or(0))
}

/// What every choice costs and takes.
fn all_choices(stages: &[Stage]) -> Vec<(u64, u64)> {
    let choice = |bits: usize| (0..stages.len()).map(|index| bits >> index & 1 == 1).collect::<Vec<bool>>();
    (0..1 << stages.len()).map(|bits| run(stages, &choice(bits))).collect()
}

#[test]
fn a_tape_says_of_a_choice_what_running_it_shows() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let length = 2 + random.below(7);
        let stages = random_stages(&mut random, length);
        let tape = tape(&stages);
        for _ in 0..50 {
            let again: Vec<bool> = (0..length).map(|_| random.chance(50)).collect();
            let outcome = tape.outcome(&again);
            assert_eq!((outcome.cost, outcome.peak_bytes), run(&stages, &again), "{seed}: {stages:?} {again:?}");
        }
    }
}

#[test]
fn small_chains_are_solved_at_every_limit() {
    let seeds = if std::env::var_os("LONG").is_some() { 200 } else { 20 };
    let mut compared = 0;
    for seed in 0..seeds {
        let mut random = Random::new(1000 + seed);
        let length = 3 + random.below(7);
        let stages = random_stages(&mut random, length);
        let (tape, choices) = (tape(&stages), all_choices(&stages));
        let mut limits: Vec<u64> = choices.iter().map(|(_, bytes)| *bytes).collect();
        limits.sort_unstable();
        limits.dedup();
        assert_eq!(tape.cheapest(limits[0] - 1).map(|outcome| outcome.peak_bytes), None);
        for limit in limits {
            let best = choices.iter().filter(|(_, bytes)| *bytes <= limit).map(|(cost, _)| *cost).min();
            let found = tape.cheapest(limit);
            assert!(found.as_ref().is_none_or(|found| found.peak_bytes <= limit));
            assert_eq!(found.map(|found| found.cost), best, "seed {seed}, limit {limit}: {stages:?}");
            compared += 1;
        }
    }
    assert!(compared > 200, "{compared}");
}
