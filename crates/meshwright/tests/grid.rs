//! The grid of plans that automatic planning is measured against.

#[expect(dead_code, reason = "tools ask for more of the peers")]
mod peers;

use meshwright::cluster::parse;
use meshwright::plan::{Request, Told, plan};
use meshwright::simulate::engine;
use meshwright::tactics;

use peers::cases::{self, build};
use peers::grid::{Candidate, Choice, Grid, REMATS, STATES, Setting, THREADS, choices, grid, read_choice, try_all};
use peers::ladders::{RUNGS, best_of_grid, best_published};
use peers::osdp;

const SMALL_GPT: &[(&str, &str)] = &[
    ("layers", "2"),
    ("hidden", "64"),
    ("heads", "4"),
    ("seq", "32"),
    ("vocab", "128"),
    ("batch", "16"),
    ("dtype", "bf16"),
];

fn small(preset: &str, more: &[(&str, &str)]) -> meshwright::program::Program {
    build(preset, SMALL_GPT.iter().chain(more).copied()).expect("the model is built")
}

fn names(grid: &Grid) -> Vec<String> {
    grid.candidates.iter().map(Candidate::to_string).collect()
}

/// Tensor parallelism of 1, 2 and 4, the latter two with sequence and vocabulary or not; five ways to keep state but
/// one where there is one replica; three to compute again; as many microbatches as a device has examples at least.
#[test]
fn the_grid_has_every_combination_once() {
    let program = small("gpt-350m", &[]);
    let cluster = parse("4xa100-80g").expect("a cluster");
    let choices = choices(&program, &cluster);
    // Of 16 examples a device has 4, 8 or 16, which can be halved 2, 3 and 4 times.
    assert_eq!(choices.len(), 5 * 3 * 3 + 4 * 5 * 3 * 4 + 4 * 3 * 5);
    let texts: std::collections::BTreeSet<(String, String)> =
        choices.iter().map(|choice| (choice.mesh(), choice.tactics())).collect();
    assert_eq!(texts.len(), choices.len());
    let experts = small("moe-380m", &[("experts", "4"), ("expert_group", "32")]);
    let with_experts = peers::grid::choices(&experts, &cluster);
    // Experts double what has an axis of data, and everything may be computed again besides all layers.
    assert_eq!(with_experts.len(), (2 * (5 * 3 * 3 + 4 * 5 * 3 * 4) + 4 * 3 * 5) / 3 * 4);
}

#[test]
fn neither_threads_nor_order_change_what_is_found() {
    let program = small("gpt-350m", &[]);
    let cluster = parse("4xa100-80g").expect("a cluster");
    let setting = Setting { cluster: &cluster, engine: engine("xla").expect("an engine"), limit_bytes: 2 << 30 };
    let mut points: Vec<Choice> = choices(&program, &cluster).into_iter().step_by(7).collect();
    let found = try_all(&program, setting, &points, THREADS);
    assert!(found.candidates.len() > 40 && found.refused.is_empty());
    assert_eq!(try_all(&program, setting, &points, 1), found);
    points.reverse();
    let (mut expected, mut reversed) = (names(&found), names(&try_all(&program, setting, &points, THREADS)));
    expected.sort();
    reversed.sort();
    assert_eq!(reversed, expected);
}

/// Points whose state is too large are not laid out, and of those that are none has less than its state.
#[test]
fn what_is_left_out_for_its_state_would_not_fit() {
    let program = small("gpt-350m", &[("hidden", "512"), ("vocab", "8192"), ("batch", "4")]);
    let cluster = parse("2xa100-80g").expect("a cluster");
    let engine = engine("xla").expect("an engine");
    let limit_bytes = engine.reserved_bytes + (100 << 20);
    let setting = Setting { cluster: &cluster, engine, limit_bytes };
    let found = grid(&program, setting);
    let all = try_all(&program, setting, &choices(&program, &cluster), THREADS);
    let fitting = |grid: &Grid| -> Vec<Candidate> { grid.candidates.iter().filter(|it| it.fits).cloned().collect() };
    assert_eq!(fitting(&found), fitting(&all));
    let left_out: usize = found.refused.values().sum();
    assert!(left_out > 0 && found.best().is_some(), "{left_out} are left out");
    assert_eq!(left_out + found.candidates.len(), all.candidates.len());
}

#[test]
fn choices_can_be_read_from_what_is_printed() {
    let cluster = parse("4xa100-80g").expect("a cluster");
    let experts = small("moe-380m", &[("experts", "4"), ("expert_group", "32")]);
    for choice in choices(&experts, &cluster) {
        for (peak_bytes, fits) in [(3 << 28, true), (300 << 30, false)] {
            let line = Candidate { choice, seconds: 0.25, peak_bytes, fits }.to_string();
            assert_eq!(read_choice(&line), Some(choice), "{line}");
        }
    }
}

/// What the command would be given is what was tried.
#[test]
fn candidates_can_be_reproduced_from_their_texts() {
    let program = small("gpt-350m", &[]);
    let cluster = parse("4xa100-80g").expect("a cluster");
    let engine = engine("xla").expect("an engine");
    let setting = Setting { cluster: &cluster, engine, limit_bytes: cluster.memory_bytes() };
    let points: Vec<Choice> = choices(&program, &cluster).into_iter().step_by(23).collect();
    for candidate in try_all(&program, setting, &points, THREADS).candidates {
        let mesh = meshwright::shard::Mesh::parse(&candidate.choice.mesh()).expect("a mesh");
        let tactics = tactics::parse(&candidate.choice.tactics()).expect("tactics");
        let partitioned =
            tactics::partition(&program, &mesh, &tactics, &meshwright::lower::estimate).expect("the tactics apply");
        let classes = &partitioned.anatomy.classes;
        let prepared = meshwright::simulate::Prepared::whole(&partitioned.local, classes, engine);
        let seconds = meshwright::simulate::simulate(&prepared, &cluster, engine).step_seconds;
        assert_eq!(seconds, candidate.seconds, "{candidate}");
    }
}

#[test]
fn models_without_layers_or_vocabulary_have_what_applies_to_them() {
    let settings = [("layers", "1"), ("channels", "16"), ("image", "32"), ("batch", "8"), ("classes", "8")];
    let program = build("resnet-50", settings.into_iter()).expect("the model is built");
    let cluster = parse("2xv100-16g").expect("a cluster");
    let engine = engine("xla").expect("an engine");
    let found = grid(&program, Setting { cluster: &cluster, engine, limit_bytes: cluster.memory_bytes() });
    let reasons: Vec<&str> = found.refused.keys().map(String::as_str).collect();
    assert_eq!(reasons, ["no operation is in a scope `**/attn/attention`", "no table of parameters is looked up"]);
    for state in STATES {
        let kind = format!("data {}", state.name);
        assert!(found.best_of_kinds().iter().any(|best| best.choice.kind() == kind), "nothing is {kind}");
    }
}

/// Models and clusters are there, all nodes have eight devices, and there are from 8 to 64 of them. What was best of a
/// grid is one of its points.
#[test]
fn cases_can_be_built() {
    for case in cases::CASES {
        let (program, cluster) = case.build().unwrap_or_else(|error| panic!("{}: {error}", case.name()));
        assert_eq!(cluster.devices_per_node(), 8, "{}", case.name());
        assert!((8..=64).contains(&cluster.devices()), "{}", case.name());
        let choices = choices(&program, &cluster);
        match case.recorded_best() {
            Some(best) => assert!(choices.contains(&best), "{}: {best:?}", case.name()),
            None => assert!(!choices.is_empty(), "{}", case.name()),
        }
    }
}

/// A plan under a limit is one under every larger limit, and state that is cut needs no more than state that is whole.
#[test]
fn larger_limits_are_no_slower() {
    let settings = &[("layers", "2"), ("hidden", "512"), ("batch", "16")];
    let case = osdp::Case { settings, limits_gib: &[4, 5, 8, 39], ..osdp::CASES[0] };
    let rows = osdp::uniform(&case).expect("the case is built");
    let seconds = |candidate: &Option<Candidate>| candidate.as_ref().map_or(f64::INFINITY, |it| it.seconds);
    for pair in rows.windows(2) {
        assert!(pair[0].limit_gib < pair[1].limit_gib);
        for (tight, loose) in pair[0].best.iter().flatten().zip(pair[1].best.iter().flatten()) {
            assert!(seconds(loose) <= seconds(tight));
        }
    }
    assert!(rows[3].best.iter().flatten().all(Option::is_some), "not all of {} fits in the end", case.name);
}

#[test]
fn published_plans_and_the_grid_have_stages() {
    let program = small("gpt-1.3b", &[("layers", "4")]);
    let (cluster, engine) = (parse("2x8xv100-16g").expect("a cluster"), engine("xla").expect("an engine"));
    let setting = Setting { cluster: &cluster, engine, limit_bytes: cluster.memory_bytes() };
    let rung = RUNGS.iter().find(|rung| rung.model == "gpt-6.7b").expect("a rung");
    let published = peers::ladders::Published { microbatches: 4, ..rung.published.expect("a plan") };
    let found = best_published(&program, setting, published).expect("the plan can be laid out");
    assert_eq!((found.point.stages, found.point.choice.data, found.point.choice.tensor), (2, 2, 4));
    let best = best_of_grid(&program, setting, 16).expect("something fits");
    assert!(best.seconds <= found.seconds, "{} beside {}", best.seconds, found.seconds);
}

/// Planning may cut state and compute again, and nothing else. It then needs little more than what ZeRO-3 with all layers
/// computed again takes by hand: the last layer is no part of what repeats, and is kept.
#[test]
fn what_layers_computed_again_by_hand_take_is_enough_for_plans() {
    let settings =
        [("layers", "12"), ("hidden", "1024"), ("heads", "8"), ("seq", "1024"), ("vocab", "4096"), ("batch", "32")];
    let cluster = parse("4xa100-80g").expect("a cluster");
    let engine = engine("xla").expect("an engine");
    let all =
        tactics::Auto { only: Some(vec![tactics::Freedom::Remat, tactics::Freedom::State]), ..Default::default() };
    for (preset, more) in [("gpt-1.3b", &[][..]), ("llama2-7b", &[("kv_heads", "8"), ("ffn", "2816")])] {
        let program = build(preset, settings.iter().chain(more).copied()).expect("the model is built");
        let [_, _, layers, _] = REMATS;
        let [.., zero3] = STATES;
        let (data, tensor, microbatches) = (4, 1, 1);
        let (expert, sequence, vocab) = (false, false, false);
        let choice = Choice { data, tensor, microbatches, expert, sequence, vocab, state: zero3, remat: layers };
        let by_hand = choice
            .try_on(&program, Setting { cluster: &cluster, engine, limit_bytes: usize::MAX })
            .expect("the choice is laid out");
        let limit_bytes = by_hand.peak_bytes as u64 * 115 / 100;
        let told = Some(Told::new(&[], &all).expect("a plan can be made"));
        let request =
            Request { program: &program, cluster: &cluster, engine, limit_bytes, microbatches: None, told, mesh: None };
        let planned = plan(&request).unwrap_or_else(|refusal| panic!("{preset}: {refusal:?}"));
        let (step, most) = (planned.timeline.step_seconds, by_hand.seconds);
        assert!(step <= most, "{preset}: planned {step} s, by hand {most} s");
    }
}
