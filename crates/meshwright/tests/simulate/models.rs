//! What holds of every model, cluster and engine.

use meshwright::cluster::parse as parse_cluster;
use meshwright::lower::estimate;
use meshwright::pipeline::pipeline;
use meshwright::profile::profile;
use meshwright::program::Program;
use meshwright::shard::Mesh;
use meshwright::simulate::{ENGINES, Engine, Prepared, collective_costs, engine, model_flops, simulate};
use meshwright::tactics::{parse, partition};

use crate::assert_close;
use crate::small::small_model;

fn gpt(settings: &[(&str, &str)]) -> Program {
    small_model("gpt2", &[&[("layers", "4"), ("batch", "8"), ("optimizer", "adamw")], settings].concat())
}

fn whole(program: &Program, mesh: &str, tactics: &str, engine: &Engine) -> Prepared {
    let (mesh, tactics) = (Mesh::parse(mesh).expect("a mesh"), parse(tactics).expect("tactics"));
    let partitioned = partition(program, &mesh, &tactics, &estimate).expect("the model can be laid out");
    Prepared::whole(&partitioned.local, &partitioned.anatomy.classes, engine)
}

fn staged(program: &Program, mesh: &str, schedule: &str, engine: &Engine) -> Prepared {
    let tactics = format!(
        "[[tactic]]\naxis = 'data'\npreset = 'data'\n[[tactic]]\naxis = 'micro'\npreset = 'data'\n\
         [[tactic]]\nstages = 2\n{schedule}\n"
    );
    let (mesh, tactics) = (Mesh::parse(mesh).expect("a mesh"), parse(&tactics).expect("tactics"));
    let pipelined = pipeline(program, &mesh, &tactics, &estimate).expect("the model can be cut");
    Prepared::new(pipelined.pipeline, &pipelined.anatomy.classes, engine)
}

const DATA: &str = "[[tactic]]\naxis = 'data'\npreset = 'data'\n";
const ZERO: &str = "[[tactic]]\naxis = 'data'\npreset = 'data'\n[[tactic]]\naxis = 'data'\npreset = 'zero3'\n";
const ACCUMULATED: &str = "[[tactic]]\naxis = 'data'\npreset = 'data'\n[[tactic]]\naxis = 'micro'\npreset = 'data'\n";

/// Steps of all kinds for an engine.
fn steps(engine: &Engine) -> Vec<Prepared> {
    let program = gpt(&[("clip", "1")]);
    let mut steps = vec![
        whole(&program, "data=4", DATA, engine),
        whole(&program, "data=4", ZERO, engine),
        whole(&program, "data=2,micro=4@time", ACCUMULATED, engine),
    ];
    for schedule in ["gpipe", "1f1b", "zero-bubble"] {
        steps.push(staged(&program, "data=2,micro=4@time", &format!("schedule = '{schedule}'"), engine));
    }
    steps.push(staged(&program, "data=2,micro=4@time", "schedule = 'interleaved'\nchunks = 2", engine));
    steps
}

#[test]
fn what_a_stage_does_is_all_of_the_step() {
    for engine in ENGINES {
        for name in ["8xh100", "2x2xa100-40g"] {
            let cluster = parse_cluster(name).expect("a cluster");
            for step in steps(engine) {
                let timeline = simulate(&step, &cluster, engine);
                for stage in &timeline.stages {
                    let parts =
                        [stage.compute_seconds, stage.exposed_seconds, stage.host_seconds, stage.bubble_seconds];
                    assert!(parts.iter().all(|&seconds| seconds >= 0.0), "{parts:?}");
                    assert_close(parts.iter().sum(), timeline.step_seconds);
                    assert_eq!(stage.memory.by_class.iter().sum::<usize>(), stage.memory.peak_bytes);
                    let most = stage.usage.iter().map(|entry| entry.1).max().expect("pieces run");
                    assert!(most <= stage.memory.peak_bytes);
                }
            }
        }
    }
}

#[test]
fn collectives_told_one_by_one_are_all_communication() {
    let (cluster, engine) = (parse_cluster("8xh100").expect("a cluster"), engine("xla").expect("an engine"));
    for step in steps(engine) {
        let timeline = simulate(&step, &cluster, engine);
        let costs = collective_costs(&step, &cluster, engine);
        for (number, stage) in timeline.stages.iter().enumerate() {
            let collectives: f64 = costs.iter().filter(|cost| cost.stage == number).map(|cost| cost.seconds).sum();
            let messages: f64 = stage.messages.iter().map(|message| message.end - message.start).sum();
            assert!(collectives > 0.0);
            assert_close(collectives + messages, stage.communication_seconds);
        }
    }
}

#[test]
fn what_is_computed_again_is_no_work_of_the_model() {
    let (cluster, engine) = (parse_cluster("1xh100").expect("a cluster"), engine("xla").expect("an engine"));
    let measured = |remat: &str| {
        let program = gpt(&[("remat", remat)]);
        let model = model_flops(&program, &program.anatomy());
        let timeline = simulate(&whole(&program, "data=1", DATA, engine), &cluster, engine);
        (model.flops, timeline.flops)
    };
    let ((model, computed), (same_model, computed_again)) = (measured("false"), measured("true"));
    assert_close(same_model, model);
    assert_close(computed, model);
    // Forward passes of layers are a quarter to a third of what is then computed.
    assert!((1.2..1.4).contains(&(computed_again / model)), "{}", computed_again / model);
}

#[test]
fn a_loss_that_is_computed_again_does_not_take_its_gradients_for_that() {
    let program = gpt(&[]);
    let (mesh, model) = (Mesh::parse("data=1").expect("a mesh"), model_flops(&program, &program.anatomy()));
    for scopes in ["**", "layers.*", "head"] {
        let tactics = parse(&format!("{DATA}[[tactic]]\nremat = ['{scopes}']\n")).expect("tactics");
        let again = partition(&program, &mesh, &tactics, &estimate).expect("the model can be laid out");
        assert_close(model_flops(&again.program, &again.anatomy).flops, model.flops);
    }
}

#[test]
fn more_devices_share_the_work() {
    let (cluster, engine) = (parse_cluster("8xh100").expect("a cluster"), engine("xla").expect("an engine"));
    let program = gpt(&[]);
    let flops = |mesh: &str| simulate(&whole(&program, mesh, DATA, engine), &cluster, engine).flops;
    assert_close(flops("data=8"), flops("data=1"));
}

#[test]
fn stages_keep_of_functions_what_whole_steps_keep() {
    for name in ["pytorch", "megatron-core", "megatron"] {
        let engine = Engine { reserved_bytes: 0, fragmentation: 0.0, ..engine(name).expect("an engine").clone() };
        for model in ["gpt2", "llama2-7b"] {
            let sizes = [
                ("layers", "8"),
                ("hidden", "64"),
                ("head_width", "16"),
                ("ffn", "128"),
                ("seq", "64"),
                ("dtype", "f32"),
            ];
            let step = |batch: &str| small_model(model, &[&sizes[..], &[("batch", batch)]].concat());
            let peaks = |count: usize| -> usize {
                let (program, mesh) = (step(&(2 * count).to_string()), format!("data=1,micro={count}@time"));
                let prepared = staged(&program, &mesh, "schedule = 'gpipe'", &engine);
                let cluster = parse_cluster("2xh100").expect("a cluster");
                let timeline = simulate(&prepared, &cluster, &engine);
                timeline.stages.iter().map(|stage| stage.memory.peak_bytes).sum()
            };
            // All microbatches are kept until the last is there, so that each adds what it keeps.
            let each = (peaks(12) - peaks(4)) as f64 / 8.0;
            let whole = profile(&step("2"), engine.memory_model).memory.saved_activation_bytes() as f64;
            assert!((0.9..1.15).contains(&(each / whole)), "{name}, {model}: {each} of {whole}");
        }
    }
}
