//! Built-in models, partitioned by hand and at random.

use meshwright::interpret::{Options, Tensor, evaluate, generate};
use meshwright::lower::{Step, Ways, defer, estimate, lower, lower_layout};
use meshwright::program::{Op, Program, expand_batch_norm};
use meshwright::shard::{Layout, Mesh};
use meshwright::tactics::{Partitioned, parse, partition};

use crate::case::{compare, decide};
use crate::random::Random;
use crate::small::small_model;

/// One preset of each family.
const PRESETS: [&str; 13] = [
    "bert-base",
    "gns",
    "gpt2",
    "it32",
    "llama2-7b",
    "mlp",
    "mixtral-8x7b",
    "moe-380m",
    "t5-large",
    "t32",
    "unet",
    "vit-l16",
    "wresnet-250m",
];

fn small(name: &str) -> Program {
    expand_batch_norm(&small_model(name, &[])).into_owned()
}

/// A small model, arguments for it, and what it makes of them.
fn evaluated(name: &str) -> (Program, Vec<Tensor>, Vec<Tensor>) {
    let program = small(name);
    let arguments = arguments(&program);
    let expected = evaluate(&program, &arguments, Options { wide: true });
    let expected = expected.unwrap_or_else(|error| panic!("{name}: {}", error.message)).results;
    (program, arguments, expected)
}

fn arguments(program: &Program) -> Vec<Tensor> {
    let types = program.body().arguments.iter().map(|&value| program.ty(value));
    types.zip(0..).map(|(ty, seed)| generate(ty, seed)).collect()
}

#[test]
fn models_cut_at_random_compute_the_same() {
    let rounds = if std::env::var_os("LONG").is_some() { 200 } else { 3 };
    for name in PRESETS {
        let (program, arguments, expected) = evaluated(name);
        for seed in 0..rounds {
            let mut random = Random::new(seed);
            let mesh =
                Mesh::parse(random.pick(&["a=2,b=2", "a=4", "a=2,b=3", "a=2,t=2@time"])).expect("the mesh is sound");
            let mut layout = Layout::new(&program, mesh.clone());
            decide(&mut layout, &mut random, usize::MAX);
            let lowered = lower_layout(layout.clone(), &estimate);
            if let Err(message) = lowered.and_then(|(_, local)| compare(&local, &arguments, &expected)) {
                let summary: Vec<&str> = message.lines().take(3).collect();
                panic!("{name}, seed {seed}, on {mesh}: {}", summary.join("\n"));
            }
        }
    }
}

/// Schedules of presets, accumulation, recomputation and operator splitting, in any order.
#[test]
fn models_under_random_tactics_compute_the_same() {
    let rounds = if std::env::var_os("LONG").is_some() { 400 } else { 40 };
    let mut seen = Seen::default();
    for name in PRESETS {
        let (program, arguments, expected) = evaluated(name);
        for seed in 0..rounds {
            let mut random = Random::new(seed * 1000 + name.len() as u64);
            let mesh =
                random.pick(&["data=2,model=2,micro=2@time", "data=2,micro=4@time", "model=4,micro=2@time,data=1"]);
            let schedule = random_schedule(&program, &mut random);
            let tactics = parse(&schedule).unwrap_or_else(|error| panic!("{}\n{schedule}", error.message));
            let lowered = partition(&program, &Mesh::parse(mesh).expect("the mesh is sound"), &tactics, &estimate);
            let partitioned = match lowered {
                Ok(partitioned) => partitioned,
                // Not every model has what every preset looks for.
                Err(error) if error.number.is_some() => continue,
                Err(error) => panic!("{name}, seed {seed}, on {mesh}: {}\n{schedule}", error.message),
            };
            seen.count(&program, &partitioned);
            if let Err(message) = compare(&partitioned.local, &arguments, &expected) {
                let summary: Vec<&str> = message.lines().take(3).collect();
                panic!("{name}, seed {seed}, on {mesh}: {}\n{schedule}", summary.join("\n"));
            }
        }
    }
    // The property must not go blind.
    assert!(seen.programs > 30 && seen.loops > 10 && seen.barriers > 10 && seen.splits > 0, "{seen:?}");
}

fn random_schedule(program: &Program, random: &mut Random) -> String {
    let mut schedule = String::new();
    for _ in 0..1 + random.below(5) {
        let axis = random.pick(&["data", "model", "micro"]);
        let presets: &[&str] = match axis {
            "micro" => &["data", "data", "vocab"],
            "data" => &["data", "data", "data", "expert", "zero1", "zero2", "zero3"],
            _ => &["megatron", "megatron", "vocab", "sequence", "expert", "zero3"],
        };
        schedule += "[[tactic]]\n";
        schedule += &match random.below(10) {
            0 | 1 => format!("remat = [\"{}\"]\n", random.pick(&["layers.*", "**.attn", "**.mlp", "**"])),
            2 => format!("split = {{ \"{}\" = 2 }}\n", random_parameter(program, random)),
            _ => format!("axis = \"{axis}\"\npreset = \"{}\"\n", random.pick(presets)),
        };
    }
    schedule
}

fn random_parameter(program: &Program, random: &mut Random) -> String {
    let names: Vec<&str> = program.arguments.iter().map(|argument| argument.name.as_str()).collect();
    let parameters: Vec<&str> = names.into_iter().filter(|name| name.starts_with("params.")).collect();
    random.pick(&parameters).to_owned()
}

/// What came about of what tactics asked for.
#[derive(Debug, Default)]
struct Seen {
    programs: usize,
    loops: usize,
    splits: usize,
    barriers: usize,
}

impl Seen {
    fn count(&mut self, program: &Program, partitioned: &Partitioned) {
        let count = |program: &Program, is: fn(&Op) -> bool| program.ops.iter().filter(|(_, op)| is(&op.op)).count();
        let is_loop = |op: &Op| matches!(op, Op::While);
        let is_barrier = |op: &Op| matches!(op, Op::OptimizationBarrier);
        let local = &partitioned.local;
        self.programs += 1;
        self.loops += usize::from(count(&local.program, is_loop) > count(program, is_loop));
        self.barriers += usize::from(count(&partitioned.program, is_barrier) > count(program, is_barrier));
        let is_split = local.mesh.axes.iter().any(|axis| axis.name.starts_with("split_"));
        self.splits += usize::from(is_split && count(&local.program, is_loop) > count(program, is_loop));
    }
}

#[test]
fn a_data_parallel_resnet_gathers_nothing() {
    let program = small("wresnet-250m");
    assert!(!program.ops.iter().any(|(_, op)| matches!(op.op, Op::BatchNormGrad(_) | Op::BatchNormTraining(_))));
    let mesh = Mesh::parse("data=2").expect("the mesh is sound");
    let mut layout = Layout::new(&program, mesh.clone());
    for (&value, argument) in program.body().arguments.iter().zip(&program.arguments) {
        if argument.name.starts_with("batch.") {
            layout.cut(value, 0, mesh.pieces(0)[0]);
        }
    }
    layout.propagate();
    let mut ways = Ways::new(&mesh, &estimate);
    defer(&mut layout, &mut ways);
    let local = lower(&layout, &mut ways).expect("the layout can be lowered");
    let steps = || local.reshards.iter().flat_map(|reshard| &reshard.moves).map(|next| &next.step);
    assert!(steps().count() > 0);
    let others: Vec<&Step> =
        steps().filter(|step| !matches!(step, Step::AllReduce { .. } | Step::Spread { .. })).collect();
    assert!(others.is_empty(), "{others:?}");
}
