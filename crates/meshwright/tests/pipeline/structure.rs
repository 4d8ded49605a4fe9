//! What pipelines are made of, and what is wrong with broken ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use meshwright::pipeline::{Instruction, PieceKind, Pipeline, Role, check};

use crate::equality::staged;
use crate::small::small_model;

fn gpt(stages: usize, schedule: &str, microbatches: usize) -> Pipeline {
    let program = small_model("gpt2", &[("layers", "8"), ("batch", "8"), ("optimizer", "adamw"), ("clip", "1")]);
    let tactics = format!(
        "[[tactic]]\naxis = \"micro\"\npreset = \"data\"\n[[tactic]]\nstages = {stages}\nschedule = \"{schedule}\"\n"
    );
    staged(&program, &format!("micro={microbatches}@time"), &tactics).expect("the model can be cut").pipeline
}

#[test]
fn stages_of_the_same_layers_share_their_programs() {
    let pipeline = gpt(4, "1f1b", 4);
    for kind in [PieceKind::Forward, PieceKind::Backward] {
        let of = |chunk: usize| {
            let found = pipeline.pieces.iter().find(|piece| piece.chunk == chunk && piece.kind == kind);
            &found.expect("every chunk has both passes").program
        };
        assert!(Arc::ptr_eq(of(1), of(2)), "{kind:?}");
        assert!(!Arc::ptr_eq(of(0), of(1)), "{kind:?}");
    }
}

/// The most microbatches of which a stage holds activations at one time.
fn most_in_flight(pipeline: &Pipeline, stage: usize) -> usize {
    let mut live: BTreeMap<usize, usize> = BTreeMap::new();
    let mut most = 0;
    for instruction in &pipeline.stages[stage] {
        match *instruction {
            Instruction::Run { piece, microbatch: Some(microbatch) } => {
                let writes = pipeline.pieces[piece].writes.iter();
                let kept = writes.filter(|&&buffer| pipeline.buffers[buffer].role == Role::Activation).count();
                *live.entry(microbatch).or_default() += kept;
                most = most.max(live.values().filter(|&&count| count > 0).count());
            }
            Instruction::Free { buffer, microbatch: Some(microbatch) }
                if pipeline.buffers[buffer].role == Role::Activation =>
            {
                *live.entry(microbatch).or_default() -= 1;
            }
            _ => {}
        }
    }
    most
}

#[test]
fn schedules_hold_as_many_microbatches_as_the_papers_say() {
    let held = |schedule: &str| -> Vec<usize> {
        let pipeline = gpt(4, schedule, 8);
        (0..4).map(|stage| most_in_flight(&pipeline, stage)).collect()
    };
    assert_eq!(held("gpipe"), [8; 4]);
    assert_eq!(held("1f1b"), [4, 3, 2, 1]);
    assert!(held("zero-bubble").iter().all(|&held| held <= 4), "{:?}", held("zero-bubble"));
}

#[track_caller]
fn refused(pipeline: &Pipeline, words: &str) {
    let message = check(pipeline).expect_err("the lists are broken");
    assert!(message.contains(words), "{message}");
}

#[test]
fn broken_lists_are_refused() {
    let sound = gpt(2, "1f1b", 2);
    check(&sound).expect("the lists are sound");
    let position = |stage: usize, is: fn(&Instruction) -> bool| {
        sound.stages[stage].iter().position(is).expect("there is such an instruction")
    };
    let send = position(0, |instruction| matches!(instruction, Instruction::Send { .. }));
    let mut broken = sound.clone();
    broken.stages[0].remove(send);
    refused(&broken, "comes from stage 0 where");
    let receive = position(1, |instruction| matches!(instruction, Instruction::Receive { .. }));
    let mut broken = sound.clone();
    broken.stages[1].remove(receive);
    refused(&broken, "is used but not made");
    let free = position(0, |instruction| matches!(instruction, Instruction::Free { .. }));
    let mut broken = sound.clone();
    let freed = broken.stages[0].remove(free);
    broken.stages[0].insert(free - 1, freed);
    refused(&broken, "is used after it was freed");
    let last = sound.stages[0].iter().rposition(|instruction| matches!(instruction, Instruction::Run { .. }));
    let mut broken = sound.clone();
    broken.stages[0].truncate(last.expect("a stage runs something"));
    refused(&broken, "is not made");
    // Both ends wait for each other's update.
    let mut broken = sound.clone();
    for stage in 0..2 {
        let list = &mut broken.stages[stage];
        let is_sum = |instruction: &Instruction| matches!(instruction, Instruction::Receive { microbatch: None, .. });
        let place = list.iter().position(is_sum).expect("stages exchange sums");
        let receive = list.remove(place);
        list.insert(0, receive);
    }
    assert!(check(&broken).is_err());
}
