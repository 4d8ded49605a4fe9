//! Costs as functions of batch and sequence, beside profiles of models that are built at each size.

use meshwright::models::Model;
use meshwright::profile::{MemoryModel, SymbolicProfile, profile};

const PRESETS: [(&str, &[(&str, &str)]); 9] = [
    ("bert-base", &[("layers", "2"), ("batch", "2"), ("seq", "32")]),
    ("gpt2", &[("layers", "2"), ("batch", "2"), ("seq", "32")]),
    ("gpt2", &[("layers", "2"), ("batch", "2"), ("seq", "32"), ("remat", "true")]),
    ("llama3-8b", &[("layers", "2"), ("batch", "2"), ("seq", "32")]),
    ("moe-380m", &[("layers", "2"), ("batch", "8"), ("seq", "1024")]),
    ("resnet-50", &[("batch", "2")]),
    ("t5-large", &[("layers", "2"), ("batch", "2"), ("seq", "32")]),
    ("unet", &[("batch", "2")]),
    ("vit-l16", &[("layers", "2"), ("batch", "2")]),
];

fn model(preset: &str, settings: &[(&str, &str)]) -> Model {
    let mut model = Model::preset(preset).expect("a preset");
    settings.iter().for_each(|(key, value)| model.set(key, value).expect("a setting"));
    model
}

#[test]
fn costs_op_by_op_are_exact_at_every_size() {
    for (preset, settings) in PRESETS {
        let model = model(preset, settings);
        let symbolic = SymbolicProfile::new(&model, MemoryModel::Eager).expect("costs are functions");
        let (batch, seq) = (model.settings.batch, model.settings.seq);
        for (batches, sequences) in [(1, 1), (1, 2), (3, 1), (4, 13), (16, 8)] {
            check(&model, &symbolic, MemoryModel::Eager, batch * batches, seq * sequences);
        }
    }
}

/// Which buffers find room in others depends on sizes, so not every model has such functions.
#[test]
fn costs_under_fusion_are_exact_at_sizes_like_those_sampled() {
    let mut functions = 0;
    for (preset, settings) in PRESETS {
        let model = model(preset, settings);
        let Ok(symbolic) = SymbolicProfile::new(&model, MemoryModel::Fused) else { continue };
        functions += 1;
        // The smallest is three times a step, the largest seven and eleven times.
        let (batch, seq) = (symbolic.sampled[0].0 / 3, symbolic.sampled[0].1 / 3);
        for (batches, sequences) in [(4, 6), (6, 4), (4, 10)] {
            check(&model, &symbolic, MemoryModel::Fused, batch * batches, seq * sequences);
        }
    }
    assert!(functions >= 6, "only {functions} models have costs that are functions");
}

fn check(model: &Model, symbolic: &SymbolicProfile, memory_model: MemoryModel, batch: usize, seq: usize) {
    let mut model = model.clone();
    (model.settings.batch, model.settings.seq) = (batch, seq);
    let program = model.build().expect("the model is built");
    let found = profile(&program, memory_model);
    let compare = |name: &str, symbolic: f64, found: f64| {
        let is_same = (symbolic - found).abs() <= 1e-9 * found;
        assert!(is_same, "{name} of {:?} at {batch} by {seq}: {symbolic} instead of {found}", model.family);
    };
    compare("flops", symbolic.flops(batch, seq), found.flops(found.work(None)));
    compare("arguments", symbolic.argument_bytes.at(batch, seq), found.argument_bytes() as f64);
    compare("results", symbolic.output_bytes.at(batch, seq), found.output_bytes() as f64);
    let saved = found.memory.saved_activation_bytes() as f64;
    compare("saved activations", symbolic.saved_activation_bytes.at(batch, seq), saved);
    compare("temporaries", symbolic.temporary_bytes(batch, seq), found.memory.temporary_bytes() as f64);
    compare("peak", symbolic.peak_bytes(batch, seq), found.memory.peak_bytes() as f64);
}
