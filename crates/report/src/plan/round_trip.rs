//! Plans of many models through their files and back.

use meshwright::cluster::parse;
use meshwright::lower::estimate;
use meshwright::models::Model;
use meshwright::plan::{Recipe, Request, plan};
use meshwright::program::{Program, expand_batch_norm};
use meshwright::simulate::{Engine, engine};

use super::apply::recipe;
use super::file::PlanFile;
use super::write::{Setting, plan_file};

type Case = (&'static str, &'static str, &'static str, &'static [f64], Option<usize>);

/// Models with their settings, the cluster, shares of the memory that a free plan takes, and microbatches.
const CASES: [Case; 12] = [
    ("gpt2", GPT, "8xa100-80g", &[0.7, 0.5], None),
    ("gpt2", GPT, "2x4xv100-16g", &[0.6], None),
    ("gpt2", GPT, "4xa100-80g", &[0.7], Some(2)),
    ("gpt2", "layers=4 hidden=32 heads=2 vocab=64 seq=64 batch=8", "1xa100-80g", &[0.7], None),
    ("llama2-7b", "layers=2 hidden=32 heads=4 kv_heads=2 ffn=64 vocab=64 seq=16 batch=8", "4xh100", &[0.7], None),
    ("bert-base", "layers=2 hidden=32 heads=4 vocab=64 seq=16 batch=8", "4xh100", &[0.7], None),
    ("moe-380m", MOE, "4xh100", &[0.7], None),
    ("resnet-18", "batch=8 image=32 channels=8 classes=16", "4xh100", &[0.7], None),
    ("unet", "batch=4 image=16 channels=32", "4xh100", &[0.7], None),
    ("vit-l16", "layers=2 hidden=32 heads=4 batch=8 image=32 patch=16 classes=8", "4xh100", &[0.7], None),
    ("t5-large", "layers=2 hidden=32 heads=4 vocab=64 seq=16 batch=8", "4xh100", &[], None),
    // Axes that are no powers of two.
    ("gpt2", "layers=2 hidden=96 heads=12 vocab=96 seq=24 batch=24", "12xtpu-v5p", &[0.5], None),
];

const GPT: &str = "layers=4 hidden=64 heads=4 vocab=128 seq=16 batch=16";
const MOE: &str = "layers=2 hidden=32 heads=4 experts=4 vocab=64 seq=16 batch=8 expert_group=32";

#[test]
fn plans_read_back_from_their_text_are_the_same() {
    let engine = Engine { reserved_bytes: 0, fragmentation: 0.0, ..engine("xla").expect("an engine").clone() };
    for (name, settings, cluster_name, shares, microbatches) in CASES {
        let (program, cluster) = (program(name, settings), parse(cluster_name).expect("a cluster"));
        let settings: Vec<String> = settings.split(' ').map(str::to_owned).collect();
        let mut limits = vec![u64::MAX >> 8];
        let mut count = 0;
        while let Some(limit_bytes) = limits.pop() {
            let request = Request {
                program: &program,
                cluster: &cluster,
                engine: &engine,
                limit_bytes,
                microbatches,
                told: None,
                mesh: None,
            };
            let Ok(found) = plan(&request) else { continue };
            if count == 0 {
                limits.extend(shares.iter().map(|share| (found.peak_bytes as f64 * share) as u64));
            }
            count += 1;
            let setting = Setting {
                model: name,
                settings: &settings,
                program: &program,
                cluster: &cluster,
                engine: "xla",
                memory_limit: limit_bytes,
            };
            let written = plan_file(&setting, &found, 0.5);
            let text = written.to_text().expect("a text");
            let read = PlanFile::parse(&text).expect("a plan");
            assert_eq!(read, written, "{name} on {cluster_name}");
            let back = recipe(&read, &program).expect("a recipe");
            assert!(back == found.recipe, "{name} on {cluster_name}: another recipe");
            assert_eq!(lowered(&back, &program), lowered(&found.recipe, &program), "{name} on {cluster_name}");
        }
        assert!(count > shares.len() / 2, "{name} on {cluster_name}: {count} plans");
    }
}

fn program(name: &str, settings: &str) -> Program {
    let mut model = Model::preset(name).expect("a preset");
    for setting in settings.split(' ') {
        let (key, value) = setting.split_once('=').expect("a setting");
        model.set(key, value).expect("a setting of the preset");
    }
    expand_batch_norm(&model.build().expect("a model")).into_owned()
}

fn lowered(recipe: &Recipe, program: &Program) -> String {
    recipe.lower(program, &estimate).expect("a local program").0.program.to_string()
}
