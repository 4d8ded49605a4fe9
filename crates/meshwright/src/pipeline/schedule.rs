//! In which order stages work on microbatches.

/// A pipeline schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Schedule {
    /// All forward passes, then all backward passes (Huang et al., GPipe).
    Gpipe,
    /// One forward and one backward pass in turn, as soon as there are backward passes (Narayanan et al.,
    /// PipeDream).
    OneForwardOneBackward,
    /// The same with several chunks on every stage, which shortens the time that stages wait (Narayanan et
    /// al., Megatron-LM).
    Interleaved,
    /// Gradients of weights are left for later, where a stage would wait (Qi et al., Zero Bubble, ZB-H1).
    ZeroBubble,
}

impl Schedule {
    pub const ALL: &'static [(&'static str, Schedule)] = &[
        ("1f1b", Schedule::OneForwardOneBackward),
        ("gpipe", Schedule::Gpipe),
        ("interleaved", Schedule::Interleaved),
        ("zero-bubble", Schedule::ZeroBubble),
    ];

    pub fn name(self) -> &'static str {
        Schedule::ALL.iter().find(|(_, schedule)| *schedule == self).map_or("", |(name, _)| name)
    }
}

/// What a stage does with a microbatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Forward,
    Backward,
    Weights,
}

/// One pass of a microbatch through a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    pub(super) work: Work,
    pub(super) chunk: usize,
    pub(super) microbatch: usize,
}

/// How many of what there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    pub(super) stages: usize,
    /// Chunks on every stage.
    pub(super) chunks: usize,
    pub(super) microbatches: usize,
}

/// The passes of a stage in order.
pub(super) fn passes(schedule: Schedule, stage: usize, counts: Counts) -> Vec<Pass> {
    match schedule {
        Schedule::Gpipe => gpipe(stage, counts.microbatches),
        Schedule::OneForwardOneBackward => one_forward_one_backward(stage, counts),
        Schedule::Interleaved => interleaved(stage, counts),
        Schedule::ZeroBubble => zero_bubble(stage, counts),
    }
}

fn gpipe(stage: usize, microbatches: usize) -> Vec<Pass> {
    let all = |work| (0..microbatches).map(move |microbatch| Pass { work, chunk: stage, microbatch });
    all(Work::Forward).chain(all(Work::Backward)).collect()
}

/// As many forward passes first as there are stages behind, so that the last stage never waits for them.
fn one_forward_one_backward(stage: usize, counts: Counts) -> Vec<Pass> {
    let ahead = (counts.stages - 1 - stage).min(counts.microbatches);
    in_turn(ahead, counts.microbatches, |work, number| Pass { work, chunk: stage, microbatch: number })
}

/// Some forward passes, then one of each in turn, then the backward passes that are left.
fn in_turn(ahead: usize, count: usize, pass: impl Fn(Work, usize) -> Pass) -> Vec<Pass> {
    let mut passes: Vec<Pass> = (0..ahead).map(|number| pass(Work::Forward, number)).collect();
    for number in 0..count {
        if number + ahead < count {
            passes.push(pass(Work::Forward, number + ahead));
        }
        passes.push(pass(Work::Backward, number));
    }
    passes
}

/// Microbatches go through a stage in groups of as many as there are stages; each group through the first
/// chunk, then through the second, and so on, and backward the other way round.
fn interleaved(stage: usize, Counts { stages, chunks, microbatches }: Counts) -> Vec<Pass> {
    let total = microbatches * chunks;
    let ahead = if microbatches == stages { total } else { (stages - 1 - stage) * 2 + (chunks - 1) * stages };
    let pass = |work, number: usize| {
        let in_group = number % (stages * chunks);
        let turn = in_group / stages;
        let turn = if work == Work::Forward { turn } else { chunks - 1 - turn };
        let microbatch = number / (stages * chunks) * stages + in_group % stages;
        Pass { work, chunk: turn * stages + stage, microbatch }
    };
    in_turn(ahead.min(total), total, pass)
}

/// As one forward and one backward pass in turn, but the gradients of weights follow as many microbatches
/// later as there are stages before this one: a stage then keeps no more than the first stage does.
fn zero_bubble(stage: usize, counts: Counts) -> Vec<Pass> {
    let mut passes = Vec::new();
    let mut backward = 0;
    let weights = |microbatch| Pass { work: Work::Weights, chunk: stage, microbatch };
    for pass in one_forward_one_backward(stage, counts) {
        passes.push(pass);
        if pass.work == Work::Backward {
            backward += 1;
            if backward > stage {
                passes.push(weights(backward - 1 - stage));
            }
        }
    }
    let done = counts.microbatches.saturating_sub(stage);
    passes.extend((done..counts.microbatches).map(weights));
    passes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(schedule: Schedule, stages: usize, chunks: usize, microbatches: usize) -> Vec<String> {
        let letter = |work| match work {
            Work::Forward => 'f',
            Work::Backward => 'b',
            Work::Weights => 'w',
        };
        let counts = Counts { stages, chunks, microbatches };
        let show = |pass: &Pass| match chunks {
            1 => format!("{}{}", letter(pass.work), pass.microbatch),
            _ => format!("{}{}.{}", letter(pass.work), pass.chunk / stages, pass.microbatch),
        };
        (0..stages)
            .map(|stage| passes(schedule, stage, counts).iter().map(show).collect::<Vec<_>>().join(" "))
            .collect()
    }

    #[test]
    fn passes_are_in_the_order_of_the_papers() {
        assert_eq!(shown(Schedule::Gpipe, 2, 1, 2), ["f0 f1 b0 b1", "f0 f1 b0 b1"]);
        assert_eq!(
            shown(Schedule::OneForwardOneBackward, 3, 1, 4),
            ["f0 f1 f2 b0 f3 b1 b2 b3", "f0 f1 b0 f2 b1 f3 b2 b3", "f0 b0 f1 b1 f2 b2 f3 b3"]
        );
        assert_eq!(shown(Schedule::OneForwardOneBackward, 3, 1, 1), ["f0 b0"; 3]);
        assert_eq!(shown(Schedule::ZeroBubble, 2, 1, 3), ["f0 f1 b0 w0 f2 b1 w1 b2 w2", "f0 b0 f1 b1 w0 f2 b2 w1 w2"]);
        assert_eq!(
            shown(Schedule::Interleaved, 2, 2, 4)[1],
            "f0.0 f0.1 f1.0 b1.0 f1.1 b1.1 f0.2 b0.0 f0.3 b0.1 f1.2 b1.2 f1.3 b1.3 b0.2 b0.3"
        );
    }
}
