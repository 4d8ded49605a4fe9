//! Hand-made pipelines of equal stages, whose times the papers of their schedules give.

use std::sync::Arc;

use meshwright::import::import;
use meshwright::pipeline::{Buffer, Instruction, Piece, PieceKind, Pipeline, Role, Schedule};
use meshwright::profile::Class;
use meshwright::program::{DType, Program, Type};
use meshwright::shard::Mesh;
use meshwright::simulate::{Engine, Prepared, Runner, Timeline, engine, kernels, run, simulate};

use crate::{assert_close, free_host, free_links};

/// Forward, backward and weights of a chunk at work on a microbatch.
type Pass = (PieceKind, usize, usize);

const FORWARD: PieceKind = PieceKind::Forward;
const BACKWARD: PieceKind = PieceKind::Backward;
const WEIGHTS: PieceKind = PieceKind::Weights;

/// A chain of so many products of the same size.
fn products(count: usize) -> Arc<Program> {
    let ty = "tensor<512x512xf32>";
    let mut text = format!("func.func @main(%v0: {ty}, %w: {ty}) -> {ty} {{\n");
    for number in 1..=count {
        let before = number - 1;
        let operands = format!("%v{before}, %w, contracting_dims = [1] x [0]");
        text += &format!("  %v{number} = stablehlo.dot_general {operands} : ({ty}, {ty}) -> {ty}\n");
    }
    text += &format!("  return %v{count} : {ty}\n}}\n");
    Arc::new(import(&text.as_str().into()).program.unwrap_or_else(|| panic!("cannot read\n{text}")))
}

/// What a program takes.
fn seconds(program: &Program) -> f64 {
    let (cluster, engine) = (free_links(), free_host());
    run(Runner { cluster: &cluster, device: cluster.device(0), engine: &engine }, &kernels(program), 0.0).seconds
}

/// Buffers of a chunk, by their number after the chunk's first.
const INPUT: usize = 0;
const OUTPUT: usize = 1;
const KEPT: usize = 2;
const GRADIENT: usize = 3;
const GRADIENT_OUTPUT: usize = 4;
const BUFFERS: usize = 5;

/// Bytes that a chunk keeps of a microbatch for its backward pass.
const KEPT_BYTES: usize = 4 << 20;

fn buffers(stages: usize, chunks: usize) -> Vec<Buffer> {
    let buffer = |number: usize| {
        let (chunk, place) = (number / BUFFERS, number % BUFFERS);
        let elements = if place == KEPT { KEPT_BYTES / 4 } else { 1 };
        let role = if place == INPUT || place == GRADIENT { Role::Received } else { Role::Activation };
        let ty = Type { dtype: DType::F32, shape: [elements].into_iter().collect() };
        Buffer { name: format!("buffer {number}"), stage: chunk % stages, ty, each_microbatch: true, role }
    };
    (0..chunks * BUFFERS).map(buffer).collect()
}

/// What a stage does for a pass: it receives, runs, sends and frees.
fn instructions(pass: Pass, stages: usize, chunks: usize, is_split: bool) -> Vec<Instruction> {
    let (kind, chunk, number) = pass;
    let microbatch = Some(number);
    let piece = 3 * chunk + [FORWARD, BACKWARD, WEIGHTS].iter().position(|other| *other == kind).expect("a kind");
    let buffer = |chunk: usize, place: usize| chunk * BUFFERS + place;
    let free = |place: usize| Instruction::Free { buffer: buffer(chunk, place), microbatch };
    let receive = |place: usize, from: usize| Instruction::Receive {
        buffer: buffer(chunk, place),
        microbatch,
        from: from % stages,
    };
    let send = |place: usize, to: usize, into: usize| Instruction::Send {
        buffer: buffer(chunk, place),
        microbatch,
        to: to % stages,
        into: buffer(to, into),
    };
    let mut list = Vec::new();
    list.extend((kind == FORWARD && chunk > 0).then(|| receive(INPUT, chunk.wrapping_sub(1))));
    list.extend((kind == BACKWARD && chunk + 1 < chunks).then(|| receive(GRADIENT, chunk + 1)));
    list.push(Instruction::Run { piece, microbatch });
    match kind {
        PieceKind::Forward => {
            list.extend((chunk + 1 < chunks).then(|| send(OUTPUT, chunk + 1, INPUT)));
            list.extend([free(INPUT), free(OUTPUT)]);
        }
        PieceKind::Backward => {
            list.extend((chunk > 0).then(|| send(GRADIENT_OUTPUT, chunk.wrapping_sub(1), GRADIENT)));
            list.extend([free(GRADIENT), free(GRADIENT_OUTPUT)]);
        }
        _ => {}
    }
    let is_last = kind == WEIGHTS || kind == BACKWARD && !is_split;
    list.extend(is_last.then(|| free(KEPT)));
    list
}

fn simulated(orders: &[Vec<Pass>], chunks: usize) -> Timeline {
    simulated_by(&free_host(), orders, chunks)
}

/// Simulates stages that do these passes, each of one product of its own but for backward passes of both.
fn simulated_by(engine: &Engine, orders: &[Vec<Pass>], chunks: usize) -> Timeline {
    let stages = orders.len();
    let is_split = orders.iter().flatten().any(|pass| pass.0 == WEIGHTS);
    let (one, two) = (products(1), products(2));
    let piece = |number: usize| {
        let (chunk, kind) = (number / 3, [FORWARD, BACKWARD, WEIGHTS][number % 3]);
        let program = if kind == BACKWARD && !is_split { two.clone() } else { one.clone() };
        let writes = match kind {
            PieceKind::Forward => vec![chunk * BUFFERS + OUTPUT, chunk * BUFFERS + KEPT],
            PieceKind::Backward => vec![chunk * BUFFERS + GRADIENT_OUTPUT],
            _ => Vec::new(),
        };
        Piece { chunk, kind, program, reads: Vec::new(), writes }
    };
    let list =
        |order: &Vec<Pass>| order.iter().flat_map(|&pass| instructions(pass, stages, chunks, is_split)).collect();
    let pipeline = Pipeline {
        mesh: Mesh::parse("data=1").expect("a mesh"),
        meshes: vec![Mesh::parse("data=1").expect("a mesh"); stages],
        schedule: Schedule::Gpipe,
        microbatches: 1 + orders.iter().flatten().map(|pass| pass.2).max().unwrap_or(0),
        chunk_count: chunks,
        pieces: (0..3 * chunks).map(piece).collect(),
        buffers: buffers(stages, chunks),
        stages: orders.iter().map(list).collect(),
        arguments: Vec::new(),
        results: Vec::new(),
        names: Arc::default(),
    };
    simulate(&Prepared::new(pipeline, &[], engine), &free_links(), engine)
}

fn gpipe(stages: usize, microbatches: usize) -> Vec<Vec<Pass>> {
    let all = |kind, stage| (0..microbatches).map(move |number| (kind, stage, number));
    (0..stages).map(|stage| all(FORWARD, stage).chain(all(BACKWARD, stage)).collect()).collect()
}

/// As many forward passes first as there are stages behind, then one of each.
fn one_forward_one_backward(stages: usize, microbatches: usize) -> Vec<Vec<Pass>> {
    let of_stage = |stage: usize| {
        let ahead = stages - 1 - stage;
        let mut order: Vec<Pass> = (0..ahead).map(|number| (FORWARD, stage, number)).collect();
        for number in 0..microbatches {
            order.extend((number + ahead < microbatches).then_some((FORWARD, stage, number + ahead)));
            order.push((BACKWARD, stage, number));
        }
        order
    };
    (0..stages).map(of_stage).collect()
}

/// Stage `s` leaves the weights of `s` microbatches for later.
fn zero_bubble(stages: usize, microbatches: usize) -> Vec<Vec<Pass>> {
    let mut orders = one_forward_one_backward(stages, microbatches);
    for (stage, order) in orders.iter_mut().enumerate() {
        let mut with_weights = Vec::new();
        for &pass in order.iter() {
            with_weights.push(pass);
            if pass.0 == BACKWARD && pass.2 >= stage {
                with_weights.push((WEIGHTS, stage, pass.2 - stage));
            }
        }
        with_weights.extend((microbatches - stage..microbatches).map(|number| (WEIGHTS, stage, number)));
        *order = with_weights;
    }
    orders
}

/// Megatron-LM's order of two chunks on every stage.
fn interleaved(stages: usize, microbatches: usize) -> Vec<Vec<Pass>> {
    const CHUNKS: usize = 2;
    let pass = |stage: usize, kind: PieceKind, number: usize| {
        let turn = number % (stages * CHUNKS) / stages;
        let turn = if kind == FORWARD { turn } else { CHUNKS - 1 - turn };
        let microbatch = number / (stages * CHUNKS) * stages + number % stages;
        (kind, turn * stages + stage, microbatch)
    };
    let of_stage = |stage: usize| {
        let (total, ahead) = (microbatches * CHUNKS, 2 * (stages - 1 - stage) + (CHUNKS - 1) * stages);
        let mut order: Vec<Pass> = (0..ahead).map(|number| pass(stage, FORWARD, number)).collect();
        for number in 0..total {
            order.extend((number + ahead < total).then(|| pass(stage, FORWARD, number + ahead)));
            order.push(pass(stage, BACKWARD, number));
        }
        order
    };
    (0..stages).map(of_stage).collect()
}

const SIZES: [(usize, usize); 4] = [(2, 2), (2, 8), (4, 8), (8, 16)];

#[test]
fn bubbles_are_as_many_passes_as_there_are_other_stages() {
    let pass = seconds(&products(1)) + seconds(&products(2));
    for (stages, microbatches) in SIZES {
        for orders in [gpipe(stages, microbatches), one_forward_one_backward(stages, microbatches)] {
            let timeline = simulated(&orders, stages);
            let (ideal, bubble) = (microbatches as f64 * pass, (stages - 1) as f64 * pass);
            assert_close(timeline.step_seconds, ideal + bubble);
            for stage in &timeline.stages {
                assert_close(stage.compute_seconds, ideal);
                assert_close(stage.bubble_seconds, bubble);
            }
        }
    }
}

#[test]
fn weights_that_wait_fill_bubbles() {
    // Qi et al.: with passes of equal length, two thirds of the bubbles of 1F1B go.
    let one = seconds(&products(1));
    for (stages, microbatches) in [(2, 8), (4, 8), (8, 16)] {
        let timeline = simulated(&zero_bubble(stages, microbatches), stages);
        let (ideal, bubble) = (3.0 * microbatches as f64 * one, (stages - 1) as f64 * one);
        assert_close(timeline.step_seconds, ideal + bubble);
        let plain = simulated(&one_forward_one_backward(stages, microbatches), stages);
        assert!(timeline.step_seconds < plain.step_seconds);
    }
}

#[test]
fn chunks_in_turn_shorten_bubbles() {
    // Narayanan et al.: by as many times as there are chunks on a stage.
    let pass = seconds(&products(1)) + seconds(&products(2));
    for (stages, microbatches) in [(2, 4), (4, 8), (4, 16)] {
        let timeline = simulated(&interleaved(stages, microbatches), 2 * stages);
        let (ideal, bubble) = (2.0 * microbatches as f64 * pass, (stages - 1) as f64 * pass);
        assert_close(timeline.step_seconds, ideal + bubble);
    }
}

#[test]
fn schedules_keep_as_many_microbatches_as_they_have_begun() {
    let kept = |orders: &[Vec<Pass>]| -> Vec<usize> {
        let timeline = simulated(orders, orders.len());
        let bytes = timeline.stages.iter().map(|stage| stage.memory.by_class[Class::Activations as usize]);
        bytes.map(|bytes| bytes / KEPT_BYTES).collect()
    };
    assert_eq!(kept(&one_forward_one_backward(4, 8)), [4, 3, 2, 1]);
    assert_eq!(kept(&one_forward_one_backward(4, 16)), [4, 3, 2, 1]);
    assert_eq!(kept(&gpipe(4, 8)), [8; 4]);
    assert_eq!(kept(&gpipe(4, 16)), [16; 4]);
}

#[test]
fn what_is_sent_stays_while_the_next_piece_runs_on_pytorch() {
    let grows = |engine: &Engine| -> Vec<usize> {
        let timeline = simulated_by(engine, &gpipe(2, 3), 2);
        // Bytes as every piece begins and ends, of which the first three make what is sent.
        let begins: Vec<usize> = timeline.stages[0].usage.iter().step_by(2).map(|(_, bytes)| *bytes).collect();
        begins[..3].windows(2).map(|pair| pair[1] - pair[0]).collect()
    };
    let sent = 512 * 512 * 4;
    assert_eq!(grows(engine("pytorch-cpu").expect("an engine")), [KEPT_BYTES + sent, KEPT_BYTES]);
    assert_eq!(grows(&free_host()), [KEPT_BYTES; 2]);
}

#[test]
fn messages_follow_each_other_and_are_not_waited_for_by_senders() {
    let timeline = simulated(&gpipe(2, 4), 2);
    let messages = &timeline.stages[0].messages;
    assert_eq!(messages.len(), 4);
    for (number, message) in messages.iter().enumerate() {
        assert_eq!((message.to, message.microbatch, message.bytes), (1, Some(number), 4));
    }
    assert!(messages.windows(2).all(|pair| pair[0].end <= pair[1].start));
}
