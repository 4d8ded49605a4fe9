//! Plans compute what the program does, and fit.

mod small_steps;

use meshwright::cluster::{Cluster, parse};
use meshwright::interpret::{Options, difference, evaluate, evaluate_partitioned, generate_arguments};
use meshwright::lower::LocalProgram;
use meshwright::models::{Family, PRESETS, Preset};
use meshwright::plan::{Plan, Recipe, Refusal, Request, Told, check as recipe_check, plan};
use meshwright::program::{AttentionForm, Op, OpId, PrintOptions, Program, print};
use meshwright::shard::Mesh;
use meshwright::simulate::{Engine, engine};
use meshwright::tactics::{Auto, parse as parse_tactics};

use small_steps::{model, small_engine};

fn planned(
    program: &Program,
    cluster: &Cluster,
    limit_bytes: u64,
    microbatches: Option<usize>,
) -> Result<Plan, Refusal> {
    let engine = small_engine();
    plan(&Request { program, cluster, engine: &engine, limit_bytes, microbatches, told: None, mesh: None })
}

/// Plans under several limits; every plan is run on all devices and compared with the whole step.
#[track_caller]
fn check(name: &str, settings: &str, cluster: &str, shares: &[f64], microbatches: Option<usize>) {
    plans(name, settings, cluster, shares, microbatches);
}

/// Plans without a limit, and with shares of what that takes, each of which computes what the step does.
#[track_caller]
fn plans(name: &str, settings: &str, cluster: &str, shares: &[f64], microbatches: Option<usize>) -> Vec<Plan> {
    let program = model(name, settings);
    let cluster = parse(cluster).expect("a cluster");
    let arguments = generate_arguments(&program, 1);
    let whole = evaluate(&program, &arguments, Options { wide: true }).expect("the whole step").results;
    let free = planned(&program, &cluster, u64::MAX >> 8, microbatches).expect("a plan without a limit");
    let limits: Vec<u64> = shares.iter().map(|share| (free.peak_bytes as f64 * share) as u64).collect();
    let mut plans = vec![free];
    for &limit in &limits {
        match planned(&program, &cluster, limit, microbatches) {
            Ok(found) => {
                assert!(found.peak_bytes <= limit, "{name}: {} bytes with a limit of {limit}", found.peak_bytes);
                plans.push(found);
            }
            Err(Refusal::TooLarge { .. }) => {}
            Err(Refusal::Unplannable(reason)) => panic!("{name}: {reason}"),
        }
    }
    assert!(plans.len() > limits.len().div_ceil(2), "{name}: {} plans for {} limits", plans.len(), limits.len());
    for plan in &plans {
        let (bound, step_seconds) = (plan.lower_bound_seconds, plan.timeline.step_seconds);
        assert!(0.0 < bound && bound <= step_seconds, "{name}: {step_seconds} s below the bound of {bound} s");
        assert!(plan.search_gap >= 0.0, "{name}: a gap of {}", plan.search_gap);
        check_recipe(name, &program, &cluster, plan);
        let parts = evaluate_partitioned(plan.runs.one().expect("one stage"), &arguments, Options { wide: true });
        let parts = parts.unwrap_or_else(|error| panic!("{name} on {}: {error:?}", plan.mesh));
        let difference = difference(&whole, &parts);
        assert!(difference.relative < 1e-9, "{name} on {} with {} bytes: {difference:?}", plan.mesh, plan.peak_bytes);
    }
    plans
}

/// The recipe of a plan alone leads to the same program, time and memory.
#[track_caller]
fn check_recipe(name: &str, program: &Program, cluster: &Cluster, plan: &Plan) {
    let checked = recipe_check(program, &plan.recipe, cluster, &small_engine(), plan.peak_bytes);
    let checked = checked.unwrap_or_else(|faults| panic!("{name} on {}: {faults:?}", plan.mesh));
    let options = PrintOptions { locations: true, attention: AttentionForm::CustomCall };
    let text = |local: &LocalProgram| print(&local.program, options);
    assert!(
        text(checked.runs.one().expect("one stage")) == text(plan.runs.one().expect("one stage")),
        "{name} on {}: another program",
        plan.mesh
    );
    assert_eq!((checked.step_seconds, checked.peak_bytes), (plan.timeline.step_seconds, plan.peak_bytes));
    let tight = recipe_check(program, &plan.recipe, cluster, &small_engine(), plan.peak_bytes - 1);
    assert!(tight.is_err_and(|faults| faults.len() == 1 && faults[0].contains("at the peak")), "{name}");
}

const GPT: &str = "layers=4 hidden=64 heads=4 vocab=128 seq=16 batch=16";

#[test]
fn plans_of_gpt_compute_what_it_does() {
    check("gpt2", GPT, "8xa100-80g", &[0.7, 0.5], None);
}

#[test]
fn plans_over_nodes_compute_what_the_step_does() {
    check("gpt2", GPT, "2x4xv100-16g", &[0.6], None);
}

#[test]
fn plans_in_microbatches_compute_what_the_step_does() {
    check("gpt2", GPT, "4xa100-80g", &[0.7], Some(2));
}

#[test]
fn plans_of_one_device_recompute() {
    check("gpt2", "layers=4 hidden=32 heads=2 vocab=64 seq=64 batch=8", "1xa100-80g", &[0.7], None);
}

/// Engines that run op by op keep what others never write, also of layers of which the backward pass reads nothing else.
#[test]
fn plans_for_engines_that_run_op_by_op_compute_what_the_step_does() {
    let small = "layers=2 hidden=32 heads=4 vocab=64 seq=8 batch=8 ffn=64";
    let (t5, llama) = (format!("{small} target_seq=8 head_width=8"), format!("{small} kv_heads=2"));
    for (name, settings) in [("llama3-8b", llama), ("t5-large", t5)] {
        let (program, cluster) = (model(name, &settings), parse("4xcpu").expect("a cluster"));
        let arguments = generate_arguments(&program, 1);
        let whole = evaluate(&program, &arguments, Options { wide: true }).expect("the whole step").results;
        for engine in ["pytorch", "pytorch-cpu"] {
            let engine =
                Engine { reserved_bytes: 0, ..meshwright::simulate::engine(engine).expect("an engine").clone() };
            let limited = |limit_bytes| {
                let (program, cluster, engine) = (&program, &cluster, &engine);
                plan(&Request { program, cluster, engine, limit_bytes, microbatches: Some(1), told: None, mesh: None })
            };
            let free = limited(u64::MAX >> 8).unwrap_or_else(|refusal| panic!("{name}: {refusal:?}"));
            let limit_bytes = free.peak_bytes * 4 / 5;
            let found = match limited(limit_bytes) {
                Ok(found) => found,
                Err(Refusal::TooLarge(large)) => {
                    assert!(large.least_bytes > limit_bytes, "{name} by {}", engine.name);
                    continue;
                }
                Err(Refusal::Unplannable(reason)) => panic!("{name} by {}: {reason}", engine.name),
            };
            assert!(found.peak_bytes <= limit_bytes, "{name} by {}: {} bytes", engine.name, found.peak_bytes);
            let parts = evaluate_partitioned(found.runs.one().expect("one stage"), &arguments, Options { wide: true });
            let difference = difference(&whole, &parts.unwrap_or_else(|error| panic!("{name}: {error:?}")));
            assert!(difference.relative < 1e-9, "{name} by {}: {difference:?}", engine.name);
        }
    }
}

#[test]
fn plans_run_the_largest_values_in_slices() {
    let small = "layers=2 hidden=16 heads=2 kv_heads=2 ffn=32 vocab=2048 seq=32 batch=2";
    let plans = plans("llama2-7b", small, "1xa100-80g", &[0.6, 0.45], Some(1));
    assert!(plans[0].recipe.splits.is_empty() && plans[1..].iter().all(|plan| !plan.recipe.splits.is_empty()));
}

#[test]
fn plans_leave_state_on_the_host() {
    let small = "layers=2 hidden=64 heads=4 vocab=128 seq=8 batch=2";
    let plans = plans("gpt2", small, "1xa100-80g", &[0.6, 0.5], Some(1));
    assert!(plans[0].recipe.held.is_empty(), "there is memory enough");
    assert!(plans[1..].iter().any(|plan| !plan.recipe.held.is_empty()), "there is not");
}

#[test]
fn plans_slice_microbatches_and_leave_state_on_the_host() {
    let small = "layers=2 hidden=16 heads=2 kv_heads=2 ffn=32 vocab=2048 seq=32 batch=4";
    let plans = plans("llama2-7b", small, "1xa100-80g", &[0.6, 0.45], Some(2));
    let has_all =
        |plan: &Plan| plan.microbatches == 2 && !plan.recipe.splits.is_empty() && !plan.recipe.held.is_empty();
    assert!(plans.iter().any(has_all), "all at once");
}

/// Batches are cut in time once, so that slices of what is in microbatches lie along other dimensions.
#[test]
fn plans_slice_what_is_in_microbatches() {
    let small = "layers=2 hidden=16 heads=2 kv_heads=2 ffn=32 vocab=2048 seq=32 batch=16";
    for cluster in ["1xa100-80g", "2xa100-80g"] {
        let plans = plans("llama2-7b", small, cluster, &[0.6, 0.5, 0.4], Some(2));
        assert!(plans.iter().any(|plan| !plan.recipe.splits.is_empty()), "slices on {cluster}");
    }
}

/// What makes a family small enough to be run.
const SMALL: &[(&str, &str)] = &[
    ("layers", "2"),
    ("decoder_layers", "2"),
    ("hidden", "32"),
    ("heads", "4"),
    ("kv_heads", "2"),
    ("head_width", "8"),
    ("ffn", "64"),
    ("experts", "4"),
    ("expert_group", "32"),
    ("vocab", "64"),
    ("seq", "16"),
    ("target_seq", "8"),
    ("batch", "8"),
    ("image", "32"),
    ("patch", "16"),
    ("channels", "8"),
    ("classes", "16"),
    ("steps", "2"),
    ("nodes", "16"),
    ("edges", "32"),
];

/// A preset of every family; with `LONG=1`, every preset.
#[test]
fn plans_of_every_preset_compute_what_it_does() {
    let is_long = std::env::var_os("LONG").is_some();
    let mut families = Vec::new();
    for preset in PRESETS {
        // Whoever plans a step writes its loops out first, which this one has all its products in.
        let is_loop = preset.family == Family::Decode;
        if is_loop || families.contains(&preset.family) && !is_long {
            continue;
        }
        families.push(preset.family);
        let settings: Vec<String> = small_settings(preset).map(|(key, value)| format!("{key}={value}")).collect();
        check(preset.name, &settings.join(" "), "2x2xh100", &[0.7], None);
    }
}

fn small_settings(preset: &Preset) -> impl Iterator<Item = (&'static str, &'static str)> {
    let keys = preset.family.keys();
    // Depths of these networks are those that their authors chose, and channels come in groups.
    let is_fixed = move |key: &str| preset.family == Family::Resnet && key == "layers";
    let value = move |key: &str, value: &'static str| match (preset.family, key) {
        (Family::Unet, "channels") => "32",
        (Family::Resnet, "width") => "1",
        _ => value,
    };
    let is_known = move |(key, _): &&(&str, &str)| keys.contains(key) && !is_fixed(key);
    SMALL.iter().filter(is_known).map(move |&(key, small)| (key, value(key, small)))
}

#[test]
fn plans_of_llama_compute_what_it_does() {
    check("llama2-7b", "layers=2 hidden=32 heads=4 kv_heads=2 ffn=64 vocab=64 seq=16 batch=8", "4xh100", &[0.7], None);
}

#[test]
fn plans_of_bert_compute_what_it_does() {
    check("bert-base", "layers=2 hidden=32 heads=4 vocab=64 seq=16 batch=8", "4xh100", &[0.7], None);
}

#[test]
fn plans_of_experts_compute_what_they_do() {
    let small = "layers=2 hidden=32 heads=4 experts=4 vocab=64 seq=16 batch=8 expert_group=32";
    check("moe-380m", small, "4xh100", &[0.7], None);
    check("moe-380m", small, "2xh100", &[0.7], Some(2));
}

/// What tactics lead to is found without them too: everything between two products can be cut along the batch, also what
/// says to which expert a token goes.
#[test]
fn experts_in_microbatches_are_cut_along_the_batch() {
    let program = model("moe-1.3b", "layers=2 batch=256");
    let cluster = parse("4xv100-16g").expect("a cluster");
    let engine = engine("xla").expect("an engine");
    let tactics = parse_tactics("tactic = [{ axis = 'data', preset = 'data' }]").expect("tactics");
    let mesh = Mesh::parse("data=4").expect("a mesh");
    let seconds = |told| {
        let (limit_bytes, microbatches) = (cluster.memory_bytes() as u64, Some(16));
        let (cluster, mesh) = (&cluster, Some(&mesh));
        let request = Request { program: &program, cluster, engine, limit_bytes, microbatches, told, mesh };
        plan(&request).expect("a plan").timeline.step_seconds
    };
    let all = Auto::default();
    let told = Told::new(&tactics, &all).expect("a plan can be made");
    let (free, told) = (seconds(None), seconds(Some(told)));
    assert!(free <= told * 1.001, "{free} s, and {told} s with the batch cut by tactics");
}

/// Nothing is hidden where an engine waits for what it moves, and a collective takes longer to start than all else. What
/// labels do not know is that the first of a kind has a start of its own.
#[test]
fn small_steps_of_engines_that_wait_move_little() {
    let program = model("gpt2", "layers=2 hidden=16 heads=4 vocab=32 seq=8 batch=8");
    let cluster = parse("4xcpu").expect("a cluster");
    let engine = engine("pytorch-cpu").expect("an engine");
    let tactics = "tactic = [{ axis = 'data', preset = 'data' }, { auto = true, only = [] }]";
    let (tactics, all) = (parse_tactics(tactics).expect("tactics"), Auto::default());
    let told = Told::new(&tactics, &all).expect("a plan can be made");
    let mesh = Mesh::parse("data=4").expect("a mesh");
    let seconds = |told, mesh| {
        let (cluster, limit_bytes) = (&cluster, cluster.memory_bytes() as u64);
        let request = Request { program: &program, cluster, engine, limit_bytes, microbatches: None, told, mesh };
        plan(&request).expect("a plan").timeline.step_seconds
    };
    let (free, data) = (seconds(None, None), seconds(Some(told), Some(&mesh)));
    assert!(free <= data + 2.0 * engine.collective_seconds, "{free} s, and {data} s of data parallelism");
}

/// Presets as large as they are, where memory is short. `cargo xtask bars gap` prints gaps of all presets.
#[test]
fn labels_are_close_to_their_bound() {
    for (name, cluster) in [("gpt-1.3b", "8xv100-16g"), ("moe-1.3b", "4xv100-16g"), ("t48", "8x8xh100")] {
        let (program, cluster) = (model(name, ""), parse(cluster).expect("a cluster"));
        let (engine, limit_bytes) = (engine("xla").expect("an engine"), cluster.memory_bytes() as u64);
        let (program, cluster) = (&program, &cluster);
        let request = Request { program, cluster, engine, limit_bytes, microbatches: None, told: None, mesh: None };
        let gap = plan(&request).unwrap_or_else(|refusal| panic!("{name}: {refusal:?}")).search_gap;
        assert!(gap < 0.01, "{name} is {gap} from its bound");
    }
}

#[test]
fn plans_of_convolutions_compute_what_they_do() {
    check("resnet-18", "batch=8 image=32 channels=8 classes=16", "4xh100", &[0.7], None);
    check("resnet-18", "batch=32 norm_group=2 image=32 channels=4 classes=8", "4xh100", &[], Some(4));
    check("unet", "batch=4 image=16 channels=32", "4xh100", &[0.7], None);
}

#[test]
fn plans_of_vit_and_t5_compute_what_they_do() {
    check("vit-l16", "layers=2 hidden=32 heads=4 batch=8 image=32 patch=16 classes=8", "4xh100", &[0.7], None);
    check("t5-large", "layers=2 hidden=32 heads=4 vocab=64 seq=16 batch=8", "4xh100", &[], None);
}

/// Layers of residual networks are hardly alike, and what each makes is read by the next: all else is made again.
#[test]
fn residual_networks_come_to_little_memory() {
    let program = model("resnet-50", "batch=16 image=64 channels=16 classes=16");
    let cluster = parse("2xh100").expect("a cluster");
    let free = planned(&program, &cluster, u64::MAX >> 8, Some(1)).expect("a plan without a limit");
    let limit = free.peak_bytes / 2;
    let half = planned(&program, &cluster, limit, Some(1)).expect("a plan within half of the memory");
    assert!(half.peak_bytes <= limit);
    assert!(half.recipe.splits.is_empty() && half.recipe.held.is_empty() && !half.recipe.again.is_empty());
}

/// What tactics say is computed again, or runs in slices, is and does so in a plan; the rest is planned.
#[test]
fn what_tactics_compute_again_and_slice_does_so_in_plans() {
    let settings = "layers=2 hidden=32 heads=4 vocab=64 seq=8 batch=16 tied=false";
    let (program, cluster) = (model("gpt2", settings), parse("4xa100-80g").expect("a cluster"));
    let arguments = generate_arguments(&program, 1);
    let whole = evaluate(&program, &arguments, Options { wide: true }).expect("the whole step").results;
    let products = |ops: &mut dyn Iterator<Item = OpId>| -> Vec<&str> {
        let is_product = |op: &OpId| matches!(program.ops[*op].op, Op::DotGeneral(_) | Op::Attention(_));
        ops.filter(is_product).map(|op| &*program.locations[program.ops[op].location].scope).collect()
    };
    let layers = ["layers.0/attn/", "layers.0/attn/qkv/", "layers.0/mlp/up/", "layers.1/attn/qkv/", "layers.1/mlp/up/"];
    let head_alone = "tactic = [{ split = { 'params.head.weight' = 4 } }, { auto = true, only = ['state'] }]";
    let cases: [(&str, &[&str], &str, bool); 3] = [
        ("tactic = [{ remat = ['layers.*'] }, { auto = true, only = [] }]", &layers, "layers.", false),
        ("tactic = [{ remat = ['layers.1.mlp'] }, { auto = true, only = [] }]", &layers[4..], "layers.1/mlp/", false),
        (head_alone, &[], "", true),
    ];
    for (microbatches, (text, made, inside, is_sliced)) in
        [1, 2].into_iter().flat_map(|count| cases.map(|case| (count, case)))
    {
        let (tactics, all) = (parse_tactics(text).expect("tactics"), Auto::default());
        let told = Some(Told::new(&tactics, &all).expect("a plan can be made"));
        let (cluster, engine, limit_bytes) = (&cluster, &small_engine(), u64::MAX >> 8);
        let microbatches = Some(microbatches);
        let request = Request { program: &program, cluster, engine, limit_bytes, microbatches, told, mesh: None };
        let found = plan(&request).unwrap_or_else(|refusal| panic!("{text}: {refusal:?}"));
        let Recipe { again, splits, .. } = &found.recipe;
        let again = products(&mut again.iter().flat_map(|group| group.ops.iter().copied()));
        let is_made = |scope: &&&str| again.iter().any(|other| other.starts_with(**scope));
        assert_eq!(made.iter().find(|scope| !is_made(scope)), None, "{text}: {again:?}");
        assert!(again.iter().all(|scope| scope.starts_with(inside)), "{text}: {again:?}");
        let sliced = products(&mut splits.iter().flat_map(|split| split.ops.iter().map(|&(op, _)| op)));
        assert_eq!(sliced.iter().any(|scope| scope.starts_with("head/")), is_sliced, "{text}: {sliced:?}");
        assert!(splits.iter().all(|split| split.slices == 4), "{text}");
        let local = found.runs.one().expect("one stage");
        let results = evaluate_partitioned(local, &arguments, Options { wide: true }).expect("the plan runs");
        let difference = difference(&whole, &results);
        assert!(difference.relative < 1e-9, "{text}: {difference:?}");
    }
}

/// What tactics decide stays, and only what is left is planned.
#[test]
fn what_tactics_decide_stays() {
    let settings = "layers=2 hidden=32 heads=4 vocab=64 seq=8 batch=16";
    let (program, cluster) = (model("gpt2", settings), parse("8xa100-80g").expect("a cluster"));
    let arguments = generate_arguments(&program, 1);
    let whole = evaluate(&program, &arguments, Options { wide: true }).expect("the whole step").results;
    let cases = [
        ("tactic = [{ axis = 'model', preset = 'megatron' }]", Some("data=2,model=4"), "params.layers.0.mlp.up.weight"),
        (
            "tactic = [{ axis = 'data', tile = { 'opt.**' = 'first' } }, { auto = true }]",
            Some("data=8"),
            "opt.m.layers.0.mlp.up.weight",
        ),
        ("tactic = [{ auto = true, only = [] }]", None, ""),
    ];
    for (text, mesh, cut) in cases {
        let (tactics, all) = (parse_tactics(text).expect("tactics"), Auto::default());
        let mesh = mesh.map(|mesh| Mesh::parse(mesh).expect("a mesh"));
        let told = Some(Told::new(&tactics, &all).expect("a plan can be made"));
        let limit_bytes = u64::MAX >> 8;
        let request = Request {
            program: &program,
            cluster: &cluster,
            engine: &small_engine(),
            limit_bytes,
            microbatches: None,
            told,
            mesh: mesh.as_ref(),
        };
        let found = plan(&request).unwrap_or_else(|refusal| panic!("{text}: {refusal:?}"));
        assert!(cut.is_empty() || program.arguments.iter().any(|argument| argument.name == cut), "no {cut}");
        for (argument, lies) in program.arguments.iter().zip(&found.recipe.arguments) {
            let is_state = argument.name.starts_with("params") || argument.name.starts_with("opt");
            let is_cut = lies.dims.iter().any(|pieces| !pieces.is_empty());
            if argument.name == cut {
                assert!(is_cut, "{text}: {cut} lies whole");
            }
            assert!(!cut.is_empty() || !is_state || !is_cut, "{text}: {} is cut", argument.name);
        }
        let results = evaluate_partitioned(found.runs.one().expect("one stage"), &arguments, Options { wide: true })
            .expect("the plan runs");
        let difference = difference(&whole, &results);
        assert!(difference.relative < 1e-9, "{text}: {difference:?}");
    }
}
