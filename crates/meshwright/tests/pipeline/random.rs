//! Models in stages under random tactics.

use meshwright::interpret::{Options, difference, evaluate, evaluate_pipeline, generate_arguments};
use meshwright::program::Program;

use crate::equality::{TOLERANCE, staged};
use crate::numbers::Random;
use crate::small::small_model;

/// One preset of each family that has layers.
const PRESETS: [&str; 9] =
    ["bert-base", "gpt2", "llama2-7b", "mixtral-8x7b", "mlp", "moe-380m", "t5-large", "unet", "vit-l16"];

#[test]
fn models_in_stages_under_random_tactics_compute_the_same() {
    let rounds = if std::env::var_os("LONG").is_some() { 200 } else { 12 };
    let (mut compared, mut refused) = (0, 0);
    for name in PRESETS {
        let changes = [("layers", "2"), ("decoder_layers", "2"), ("optimizer", "adamw"), ("clip", "0.5")];
        let program = small_model(name, if name == "unet" { &changes[2..3] } else { &changes });
        let arguments = generate_arguments(&program, 1);
        let options = Options { wide: true };
        let expected = evaluate(&program, &arguments, options).expect("the model can be evaluated").results;
        for seed in 0..rounds {
            let mut random = Random::new(seed * 1000 + name.len() as u64);
            let mesh =
                random.pick(&["data=2,micro=2@time", "data=2,model=2,micro=2@time", "model=2,micro=4@time", "data=2"]);
            let tactics = random_tactics(&program, mesh, &mut random);
            let cut = match staged(&program, mesh, &tactics) {
                Ok(cut) => cut,
                // Not every model has what every preset looks for, nor a loop that all of it stands in.
                Err(message) if is_refusal(&message) => {
                    refused += 1;
                    continue;
                }
                Err(message) => panic!("{name}, seed {seed}, on {mesh}: {message}\n{tactics}"),
            };
            let found = evaluate_pipeline(&cut.pipeline, &arguments, options)
                .unwrap_or_else(|error| panic!("{name}, seed {seed}, on {mesh}: {}\n{tactics}", error.message));
            let apart = difference(&expected, &found);
            assert!(apart.relative < TOLERANCE, "{name}, seed {seed}, on {mesh}: {apart:?}\n{tactics}");
            compared += 1;
        }
    }
    // The property must not go blind.
    assert!(compared > 2 * refused, "{compared} compared, {refused} refused");
}

fn is_refusal(message: &str) -> bool {
    // That a value is not there is a failure of ours.
    let is_ours = message.contains("there is no way from");
    let refuses = [
        "needs something of all microbatches",
        "at once, and is no sum",
        "there is nothing",
        "no ",
        "too few layers",
        "is there twice",
    ]
    .iter()
    .any(|words| message.contains(words));
    refuses && !is_ours
}

fn random_tactics(program: &Program, mesh: &str, random: &mut Random) -> String {
    let mut text = String::new();
    if mesh.contains("micro") {
        text += "[[tactic]]\naxis = \"micro\"\npreset = \"data\"\n";
    }
    for _ in 0..random.below(4) {
        let axis = random.pick(&["data", "model"]);
        if !mesh.contains(axis) {
            continue;
        }
        let presets: &[&str] = match axis {
            "data" => &["data", "data", "expert", "zero1", "zero2", "zero3"],
            _ => &["megatron", "megatron", "vocab", "sequence", "expert", "zero3"],
        };
        text += &match random.below(8) {
            0 => format!("[[tactic]]\nremat = [\"{}\"]\n", random.pick(&["layers.*", "**.attn", "**.mlp", "**"])),
            1 => format!("[[tactic]]\nsplit = {{ \"{}\" = 2 }}\n", random_parameter(program, random)),
            _ => format!("[[tactic]]\naxis = \"{axis}\"\npreset = \"{}\"\n", random.pick(presets)),
        };
    }
    let stages = 2 + random.below(2);
    let schedule = random.pick(&["1f1b", "gpipe", "zero-bubble", "interleaved"]);
    let chunks = if schedule == "interleaved" && stages == 2 && mesh.contains("micro") { 2 } else { 1 };
    text + &format!("[[tactic]]\nstages = {stages}\nschedule = \"{schedule}\"\nchunks = {chunks}\n")
}

fn random_parameter(program: &Program, random: &mut Random) -> String {
    let names = program.arguments.iter().map(|argument| argument.name.as_str());
    let parameters: Vec<&str> = names.filter(|name| name.starts_with("params.")).collect();
    random.pick(&parameters).to_owned()
}
