//! Plans under many limits: more memory is never slower, what does not fit says by how much, and what is suggested fits.

mod small_steps;

use std::borrow::Cow;
use std::env;

use meshwright::cluster::{Cluster, parse};
use meshwright::plan::{Change, Refusal, Request, Variant, check, plan, plan_ladder, plan_limits, suggest};
use meshwright::program::Program;

use small_steps::{model, small_engine};

const GPT: &str = "layers=2 hidden=64 heads=4 vocab=128 seq=32 batch=16";
const LLAMA: &str = "layers=2 hidden=32 heads=4 kv_heads=2 ffn=64 vocab=64 seq=16 batch=8";

const BERT: &str = "layers=2 hidden=32 heads=4 vocab=64 seq=16 batch=8";
const EXPERTS: &str = "layers=2 hidden=32 heads=4 experts=4 vocab=64 seq=16 batch=8 expert_group=32";

const FREE: u64 = u64::MAX >> 8;

/// Plans under limits between what a free plan takes and next to nothing. Each must hold what it promises, and be no
/// slower than with less memory, nor than what is found under its limit alone.
#[track_caller]
fn check_limits(program: &Program, cluster: &str) {
    let (cluster, engine) = (parse(cluster).expect("a cluster"), small_engine());
    let request = |limit_bytes| Request {
        program,
        cluster: &cluster,
        engine: &engine,
        limit_bytes,
        microbatches: None,
        told: None,
        mesh: None,
    };
    let free = plan(&request(FREE)).expect("a plan without a limit");
    let count = if env::var_os("LONG").is_some() { 20 } else { 5 };
    let share = |number: i32| 0.92_f64.powi(number * 20 / count);
    let limits: Vec<u64> = (0..count).map(|number| (free.peak_bytes as f64 * share(number)) as u64).collect();
    let all = plan_limits(&request(0), &limits);
    assert_eq!(all.len(), limits.len());
    let mut least_seconds = 0.0;
    for (number, (&limit, planned)) in limits.iter().zip(&all).enumerate() {
        match planned {
            Ok(planned) => {
                let figures = &planned.figures;
                let checked = check(program, &planned.recipe, &cluster, &engine, limit).expect("a plan that holds");
                assert_eq!((checked.step_seconds, checked.peak_bytes), (figures.step_seconds, figures.peak_bytes));
                assert!(figures.step_seconds >= least_seconds, "{limit} bytes are slower than less");
                least_seconds = figures.step_seconds;
                if number % 2 == 1 {
                    let alone = plan(&request(limit)).expect("what fits among others fits alone");
                    assert!(figures.step_seconds <= alone.timeline.step_seconds, "faster alone with {limit} bytes");
                }
            }
            Err(refusal) => {
                assert!(number > 0, "what a free plan takes is enough");
                check_refusal(&request(limit), refusal);
                assert!(all[number..].iter().all(Result::is_err), "less than {limit} bytes are enough");
            }
        }
    }
    assert!(all.iter().filter(|planned| planned.is_ok()).count() > limits.len() / 2);
}

/// What is missing is told by class, and with as much more the step fits.
#[track_caller]
fn check_refusal(request: &Request<'_>, refusal: &Refusal) {
    let Refusal::TooLarge(large) = refusal else { panic!("{refusal:?}") };
    assert_eq!(large.missing_bytes, large.least_bytes - request.limit_bytes);
    assert_eq!(large.closest.peak_bytes, large.least_bytes);
    let binding = &large.binding;
    assert_eq!(binding.by_class.iter().sum::<usize>() as u64 + binding.engine_bytes, large.least_bytes);
    assert!(binding.largest.is_sorted_by_key(|held| std::cmp::Reverse(held.bytes)));
    assert!(!binding.largest.is_empty() && !binding.op.is_empty());
    let enough = plan(&Request { limit_bytes: large.least_bytes, ..*request }).expect("a plan with what it needs");
    assert!(enough.peak_bytes <= large.least_bytes);
}

#[test]
fn more_memory_is_never_slower_for_gpt() {
    check_limits(&model("gpt2", GPT), "4xa100-80g");
}

#[test]
fn more_memory_is_never_slower_for_llama_over_nodes() {
    check_limits(&model("llama2-7b", LLAMA), "2x2xv100-16g");
}

#[test]
fn more_memory_is_never_slower_for_others() {
    check_limits(&model("bert-base", BERT), "2xh100");
    if env::var_os("LONG").is_some() {
        check_limits(&model("moe-380m", EXPERTS), "2xh100");
    }
}

#[test]
fn what_does_not_fit_says_what_it_takes() {
    for (name, settings, cluster, microbatches) in [
        ("gpt2", GPT, "4xa100-80g", None),
        ("gpt2", GPT, "2xa100-80g", Some(2)),
        ("llama2-7b", LLAMA, "2x2xh100", None),
        ("moe-380m", EXPERTS, "2xh100", None),
        ("resnet-18", "batch=8 image=32 channels=8 classes=16", "1xh100", None),
    ] {
        let (program, cluster, engine) = (model(name, settings), parse(cluster).expect("a cluster"), small_engine());
        let request = Request {
            program: &program,
            cluster: &cluster,
            engine: &engine,
            limit_bytes: 1000,
            microbatches,
            told: None,
            mesh: None,
        };
        check_refusal(&request, &plan(&request).expect_err("a thousand bytes are too few"));
    }
}

#[test]
fn the_ladder_goes_from_the_fastest_plan_to_the_smallest() {
    let (program, cluster, engine) = (model("gpt2", GPT), parse("2xa100-80g").expect("a cluster"), small_engine());
    let request = Request {
        program: &program,
        cluster: &cluster,
        engine: &engine,
        limit_bytes: FREE,
        microbatches: None,
        told: None,
        mesh: None,
    };
    let rungs = plan_ladder(&request, 4).expect("a ladder");
    let free = plan(&request).expect("a plan");
    assert_eq!(rungs[0].planned.figures, free.alternatives[0]);
    assert_eq!(rungs.len(), 4);
    for pair in rungs.windows(2) {
        assert!(pair[1].limit_bytes < pair[0].limit_bytes);
        assert!(pair[1].planned.figures.step_seconds >= pair[0].planned.figures.step_seconds);
    }
    for rung in &rungs {
        let checked = check(&program, &rung.planned.recipe, &cluster, &engine, rung.limit_bytes);
        assert_eq!(checked.expect("a plan that holds").step_seconds, rung.planned.figures.step_seconds);
    }
}

#[test]
fn the_pareto_set_of_a_plan_begins_with_it() {
    let (program, cluster, engine) = (model("gpt2", GPT), parse("4xa100-80g").expect("a cluster"), small_engine());
    let request = |limit_bytes| Request {
        program: &program,
        cluster: &cluster,
        engine: &engine,
        limit_bytes,
        microbatches: None,
        told: None,
        mesh: None,
    };
    let free = plan(&request(FREE)).expect("a plan");
    let tight = plan(&request(free.peak_bytes * 6 / 10)).expect("a plan");
    for plan in [free, tight] {
        let own = (plan.timeline.step_seconds, plan.peak_bytes);
        assert_eq!((plan.pareto[0].step_seconds, plan.pareto[0].peak_bytes), own);
        assert_eq!(plan.alternatives[0], plan.pareto[0]);
        for pair in plan.pareto.windows(2) {
            assert!(pair[0].step_seconds < pair[1].step_seconds && pair[0].peak_bytes > pair[1].peak_bytes);
        }
        for (number, other) in plan.alternatives.iter().enumerate() {
            let is_again = |before: &meshwright::plan::Considered| before == other;
            assert!(!plan.alternatives[..number].iter().any(is_again), "{other:?} is told twice");
        }
    }
}

/// Every change that is suggested is planned again, by itself, and must come to what was told.
#[test]
fn what_is_suggested_fits() {
    let (cluster, engine) = (parse("2xa100-80g").expect("a cluster"), small_engine());
    let settings = |batch: usize, dtype: &str| {
        model("gpt2", &format!("layers=2 hidden=32 heads=2 vocab=64 seq=64 batch={batch} dtype={dtype}"))
    };
    let build = |change: Change| -> Option<(Program, Cluster)> {
        match change {
            Change::Microbatches => Some((settings(32, "f32"), cluster.clone())),
            Change::Batch { divisor } => Some((settings((32 / divisor).max(1), "f32"), cluster.clone())),
            Change::Devices { factor } => Some((settings(32, "f32"), parse(&format!("{}xa100-80g", 2 * factor)).ok()?)),
            Change::Narrow => Some((settings(32, "bf16"), cluster.clone())),
            Change::LessState => None,
        }
    };
    let program = settings(32, "f32");
    let request = |limit_bytes| Request {
        program: &program,
        cluster: &cluster,
        engine: &engine,
        limit_bytes,
        microbatches: Some(1),
        told: None,
        mesh: None,
    };
    let Err(Refusal::TooLarge(large)) = plan(&request(1)) else { panic!("a byte is too little") };
    let request = request(large.least_bytes * 9 / 10);
    let variant = |change: Change| {
        let (program, cluster) = build(change)?;
        Some(Variant { told: String::new(), program: Cow::Owned(program), cluster: Cow::Owned(cluster) })
    };
    let suggestions = suggest(&request, variant);
    let kinds: Vec<Change> = suggestions.iter().map(|suggestion| suggestion.change).collect();
    let devices = Change::Devices { factor: 2 };
    assert_eq!(kinds, [Change::Microbatches, Change::Batch { divisor: 2 }, devices, Change::Narrow]);
    for suggestion in suggestions {
        let (program, cluster) = build(suggestion.change).expect("a variant");
        let microbatches = request.microbatches.filter(|_| suggestion.change != Change::Microbatches);
        let changed = Request { program: &program, cluster: &cluster, microbatches, ..request };
        let planned = plan(&changed).expect("a suggestion that fits");
        assert_eq!(suggestion.figures, planned.alternatives[0], "{:?}", suggestion.change);
        assert!(suggestion.figures.peak_bytes <= request.limit_bytes);
    }
}
