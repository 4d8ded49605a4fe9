//! Small models in stages, compared with themselves whole.

use meshwright::interpret::{Options, difference, evaluate, evaluate_pipeline, generate_arguments};
use meshwright::lower::estimate;
use meshwright::pipeline::{Pipelined, pipeline};
use meshwright::program::Program;
use meshwright::shard::Mesh;
use meshwright::tactics::parse;

use crate::small::small_model;

/// How far apart numbers may be, relative to the largest of a tensor.
pub(crate) const TOLERANCE: f64 = 1e-9;

pub(crate) fn staged(program: &Program, mesh: &str, tactics: &str) -> Result<Pipelined, String> {
    let tactics = parse(tactics).map_err(|error| error.message)?;
    let mesh = Mesh::parse(mesh)?;
    pipeline(program, &mesh, &tactics, &estimate).map_err(|error| error.message)
}

/// Microbatches, stages, and presets for axes.
fn tactics(stages: &str, presets: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (axis, preset) in presets {
        text += &format!("[[tactic]]\naxis = \"{axis}\"\npreset = \"{preset}\"\n");
    }
    text + "[[tactic]]\n" + stages + "\n"
}

#[track_caller]
fn check(program: &Program, mesh: &str, tactics: &str) {
    let arguments = generate_arguments(program, 3);
    let options = Options { wide: true };
    let expected = evaluate(program, &arguments, options).expect("the program can be evaluated").results;
    let cut = staged(program, mesh, tactics).unwrap_or_else(|message| panic!("{message}\non {mesh}\n{tactics}"));
    let found = evaluate_pipeline(&cut.pipeline, &arguments, options);
    let found = found.unwrap_or_else(|error| panic!("{}\non {mesh}\n{tactics}\n{}", error.message, cut.pipeline));
    let apart = difference(&expected, &found);
    assert!(apart.relative < TOLERANCE, "{apart:?} on {mesh}\n{tactics}\n{}", cut.pipeline);
}

const MICRO: (&str, &str) = ("micro", "data");

const SCHEDULES: [&str; 4] = ["gpipe", "1f1b", "interleaved", "zero-bubble"];

/// Under every schedule, interleaved with two chunks on each of two stages.
fn check_schedules(program: &Program, mesh: &str, presets: &[(&str, &str)]) {
    for schedule in SCHEDULES {
        let chunks = if schedule == "interleaved" { "chunks = 2\n" } else { "" };
        let stages = format!("stages = 2\nschedule = \"{schedule}\"\n{chunks}");
        check(program, mesh, &tactics(&stages, presets));
    }
}

#[test]
fn a_gpt_whose_ends_share_a_parameter_computes_the_same() {
    let program = small_model("gpt2", &[("layers", "4"), ("optimizer", "adamw"), ("clip", "0.1")]);
    check(&program, "data=1", &tactics("stages = 2", &[]));
    check(&program, "data=1", &tactics("stages = 4", &[]));
    check_schedules(&program, "micro=4@time", &[MICRO]);
    check(&program, "micro=4@time", &tactics("stages = 4", &[MICRO]));
    check(&program, "micro=2@time", &tactics("stages = 4\nschedule = \"zero-bubble\"", &[MICRO]));
}

#[test]
fn a_gpt_that_recomputes_its_layers_computes_the_same() {
    let program = small_model("gpt2", &[("layers", "4"), ("optimizer", "adamw")]);
    for schedule in ["1f1b", "zero-bubble"] {
        let stages = format!("remat = [\"layers.*\"]\n[[tactic]]\nstages = 2\nschedule = \"{schedule}\"");
        check(&program, "micro=2@time", &tactics(&stages, &[MICRO]));
    }
    let program = small_model("gpt2", &[("layers", "4"), ("remat", "true")]);
    check_schedules(&program, "micro=2@time", &[MICRO]);
}

#[test]
fn stages_cut_by_data_and_model_compute_the_same() {
    let program = small_model("gpt2", &[("layers", "4"), ("optimizer", "adamw"), ("clip", "0.1")]);
    let mesh = "data=2,model=2,micro=2@time";
    check_schedules(&program, mesh, &[("data", "data"), ("model", "megatron"), MICRO]);
    check(&program, mesh, &tactics("stages = 2", &[("data", "data"), ("data", "zero1"), MICRO]));
    check(&program, mesh, &tactics("stages = 2", &[("data", "data"), ("data", "zero2"), MICRO]));
    let all = [("data", "data"), ("model", "megatron"), ("data", "zero3"), MICRO];
    check(&program, mesh, &tactics("stages = 4", &all));
}

#[test]
fn a_llama_computes_the_same() {
    let program = small_model("llama2-7b", &[("layers", "4"), ("optimizer", "adamw"), ("clip", "0.1")]);
    check_schedules(&program, "micro=4@time", &[MICRO]);
    let all = [("data", "data"), ("model", "megatron"), ("data", "zero3"), MICRO];
    check(&program, "data=2,model=2,micro=2@time", &tactics("stages = 4", &all));
}

#[test]
fn experts_compute_the_same() {
    let program = small_model("mixtral-8x7b", &[("layers", "4"), ("optimizer", "adamw")]);
    check(&program, "data=1", &tactics("stages = 2", &[]));
    check(&program, "data=2", &tactics("stages = 4", &[("data", "data"), ("data", "expert")]));
    let program = small_model("moe-380m", &[("layers", "4")]);
    check(&program, "data=1", &tactics("stages = 2", &[]));
}

#[test]
fn an_encoder_that_all_of_a_decoder_reads_computes_the_same() {
    let changes = [("layers", "2"), ("decoder_layers", "2"), ("optimizer", "adamw"), ("clip", "0.1")];
    let program = small_model("t5-large", &changes);
    check_schedules(&program, "micro=4@time", &[MICRO]);
    check(&program, "micro=4@time", &tactics("stages = 4", &[MICRO]));
    check(&program, "data=2,micro=2@time", &tactics("stages = 4", &[("data", "data"), ("data", "zero1"), MICRO]));
}

#[test]
fn a_unet_whose_skips_cross_stages_computes_the_same() {
    let program = small_model("unet", &[]);
    check_schedules(&program, "micro=2@time", &[MICRO]);
    check(&program, "micro=4@time", &tactics("stages = 4", &[MICRO]));
}

#[test]
fn other_models_compute_the_same() {
    for name in ["bert-base", "gns", "mlp", "vit-l16"] {
        let program = small_model(name, &[("layers", "4")]);
        check(&program, "data=1", &tactics("stages = 2", &[]));
    }
    for name in ["bert-base", "mlp", "vit-l16"] {
        let program = small_model(name, &[("layers", "4")]);
        check(&program, "micro=2@time", &tactics("stages = 2", &[MICRO]));
    }
    let program = small_model("wresnet-250m", &[]);
    check(&program, "data=1", &tactics("stages = 2", &[]));
}
