//! Built-in models: well formed, with the parameters that were published, and quick to build.

use std::time::{Duration, Instant};

use meshwright::interpret::{Data, Options, Tensor, difference, evaluate, generate, generate_arguments};
use meshwright::models::{Family, Loss, Model, PRESETS, parameter_count};
use meshwright::program::{ArgumentClass, DType, Op, Operation, Phase, Program, ResultInfo, ValueId};

#[track_caller]
fn preset(name: &str) -> Model {
    Model::preset(name).expect("the preset is there")
}

/// The builder writes scopes, dataflow finds phases: the two must agree.
#[test]
fn phases_are_those_that_the_builder_wrote() {
    for row in PRESETS.iter().filter(|row| row.family != Family::Decode) {
        let mut model = preset(row.name);
        model.settings.layers = model.settings.layers.min(2);
        let program = model.build().expect("a preset's settings go together");
        let anatomy = program.anatomy();
        for &op in &program.body().ops {
            let operation = &program.ops[op];
            let scope = &program.locations[operation.location].scope;
            let phase = anatomy.phase(op);
            let agrees = if scope.starts_with("update") {
                phase == Phase::Update
            } else if scope.starts_with("transpose(") {
                // Where gradients end in a conversion, it is the optimizer's.
                phase == Phase::Backward || phase == Phase::Update && matches!(operation.op, Op::Convert { .. })
            } else {
                // The gradient of the loss is 1, and running statistics are no part of it.
                let is_seed = phase == Phase::Backward && operation.operands.is_empty();
                phase == Phase::Forward || is_seed || phase == Phase::Update && row.family == Family::Resnet
            };
            assert!(agrees, "{}: {} in `{scope}` is {phase:?}", row.name, operation.op.name());
        }
        let parameters = anatomy.classes.iter().zip(&anatomy.gradients);
        for (index, (class, gradient)) in parameters.enumerate() {
            let is_parameter = *class == ArgumentClass::Parameter;
            assert_eq!(gradient.is_some(), is_parameter, "{}: {}", row.name, program.arguments[index].name);
        }
    }
}

#[test]
fn every_preset_builds_a_program_that_verifies() {
    for row in PRESETS {
        let mut model = preset(row.name);
        // A few layers stand for all.
        model.settings.layers = model.settings.layers.min(2);
        let program = model.build().expect("a preset's settings go together");
        program.verify().expect("a built program is well formed");
        let anatomy = program.anatomy();
        for (argument, pair) in program.arguments.iter().zip(&anatomy.next) {
            // Decoding only reads its parameters.
            let is_state = row.family != Family::Decode
                && ["params.", "opt.", "state."].iter().any(|prefix| argument.name.starts_with(prefix));
            let next = pair.map(|result| program.results[result].name.as_str());
            assert_eq!(next, is_state.then_some(argument.name.as_str()), "{}", row.name);
        }
    }
}

#[test]
fn every_preset_builds_recomputed_and_in_half_precision() {
    for row in PRESETS {
        for (key, value) in [("remat", "true"), ("dtype", "bf16"), ("dtype", "f16")] {
            let mut model = preset(row.name);
            model.settings.layers = model.settings.layers.min(2);
            model.settings.set(key, value).expect("a value of the key");
            let program = model.build().expect("a preset's settings go together");
            program.verify().expect("a built program is well formed");
        }
    }
}

#[test]
fn presets_have_the_published_parameters() {
    // Name, parameters, and how far off a round figure may be.
    let published: &[(&str, f64, f64)] = &[
        ("bert-base", 109_514_298.0, 0.0), // Hugging Face `BertForMaskedLM`
        ("bert-large", 335_174_458.0, 0.0),
        ("gpt2", 124_439_808.0, 0.0), // Hugging Face `gpt2`
        ("gpt-350m", 0.35e9, 0.02),
        ("gpt-1.3b", 1.3e9, 0.02),
        ("gpt-2.6b", 2.6e9, 0.03),
        ("gpt-6.7b", 6.7e9, 0.01),
        ("gpt-15b", 15e9, 0.04),
        ("gpt-39b", 39e9, 0.01),
        ("gpt-175b", 175e9, 0.01),
        ("gpt-1t", 1e12, 0.02),
        ("llama2-7b", 6_738_415_616.0, 0.0), // Hugging Face `LlamaForCausalLM`
        ("llama2-70b", 68_976_648_192.0, 0.0),
        ("llama3-8b", 8_030_261_248.0, 0.0),
        ("llama3-70b", 70_553_706_496.0, 0.0),
        ("llama3-405b", 405_853_388_800.0, 0.0),
        ("t5-large", 737_668_096.0, 0.0), // Hugging Face `T5ForConditionalGeneration`
        ("mixtral-8x7b", 46_702_792_704.0, 0.0), // Hugging Face `mistralai/Mixtral-8x7B-v0.1`
        ("moe-380m", 0.38e9, 0.05),
        ("moe-1.3b", 1.3e9, 0.05),
        ("moe-2.4b", 2.4e9, 0.05),
        ("moe-10b", 10e9, 0.05),
        ("moe-27b", 27e9, 0.05),
        ("moe-70b", 70e9, 0.05),
        ("vit-l16", 304_326_632.0, 0.0), // torchvision `vit_l_16`
        ("wresnet-250m", 0.25e9, 0.02),
        ("wresnet-1b", 1e9, 0.01),
        ("wresnet-2b", 2e9, 0.02),
        ("wresnet-4b", 4e9, 0.01),
        ("wresnet-6.8b", 6.8e9, 0.02),
        ("wresnet-13b", 13e9, 0.03),
    ];
    for &(name, expected, tolerance) in published {
        let count = parameter_count(&preset(name).build().expect("a preset builds")) as f64;
        assert!((count / expected - 1.0).abs() <= tolerance, "{name} has {count} parameters, published are {expected}");
    }
}

#[test]
fn every_family_takes_the_settings_that_all_have() {
    let mut seen = Vec::new();
    for row in PRESETS {
        // Decoding drops nothing, and says so.
        if seen.contains(&row.family) || row.family == Family::Decode {
            continue;
        }
        seen.push(row.family);
        for settings in [
            &[("dtype", "bf16")][..],
            &[("dropout", "0.1")],
            &[("remat", "true")],
            &[("label_smoothing", "0.1"), ("z_loss", "1e-4"), ("dtype", "bf16")],
            &[("dtype", "f16"), ("dropout", "0.1"), ("remat", "true"), ("clip", "1")],
        ] {
            let mut model = preset(row.name);
            model.settings.layers = model.settings.layers.min(2);
            for (key, value) in settings.iter().filter(|(key, _)| row.family.keys().contains(key)) {
                model.set(key, value).expect("the setting is there");
            }
            let program = model.build().expect("the settings go together");
            program.verify().unwrap_or_else(|problem| panic!("{} with {settings:?}: {problem:?}", row.name));
        }
    }
}

#[test]
fn a_family_takes_the_losses_of_its_targets_and_no_others() {
    for row in PRESETS {
        for loss in Loss::ALL {
            let mut model = preset(row.name);
            model.settings.layers = model.settings.layers.min(2);
            let fits = row.family.targets() == Some(loss.targets());
            assert_eq!(model.set("loss", loss.name()).is_ok(), fits, "{} with {}", row.name, loss.name());
            model.settings.loss = loss;
            let is_trained = row.family.targets().is_some();
            assert_eq!(model.build().is_ok(), fits || !is_trained, "{} with {}", row.name, loss.name());
        }
        let default = preset(row.name).settings.loss;
        assert!(row.family.targets().is_none_or(|targets| targets == default.targets()), "{}", row.name);
    }
}

#[test]
fn the_largest_step_is_built_in_a_tenth_of_a_second() {
    let limit = if cfg!(debug_assertions) { Duration::from_secs(2) } else { Duration::from_millis(100) };
    let best = (0..3).map(|_| {
        let start = Instant::now();
        preset("gpt-175b").build().expect("a preset builds");
        start.elapsed()
    });
    let best = best.min().expect("three rounds");
    assert!(best <= limit, "took {best:?}");
}

#[test]
fn settings_that_do_not_go_together_are_refused() {
    let mut model = preset("gpt2");
    model.settings.heads = 7;
    assert_eq!(model.build().expect_err("7 heads"), "`heads` = 7 does not divide `hidden` = 768");
    model.settings.heads = 12;
    model.settings.head_width = 100;
    let problem = model.build().expect_err("heads wider than the model");
    assert_eq!(problem, "`head_width` = 100 must be 64, which is `hidden` over `heads`");
    assert_eq!(model.set("haeds", "8").expect_err("no key"), "there is no setting `haeds`");
    assert_eq!(model.set("experts", "8").expect_err("no experts"), "this model has no `experts`");
    refused("moe-380m", &[("experts_per_token", "9")], "`experts_per_token` = 9 is more than `experts` = 8");
    let problem = "`expert_group` = 1000 does not divide `batch * seq` = 1048576";
    refused("mixtral-8x7b", &[("expert_group", "1000")], problem);
    let problem = "`head_width` = 31 is odd: rotary positions turn its two halves";
    refused("mixtral-8x7b", &[("head_width", "31")], problem);
    let problem = "`steps` = 1536 must be at most `seq` = 1024, the room of the caches";
    refused("it32", &[("seq", "1024")], problem);
    let problem = model.settings.set("layers", "many").expect_err("no number");
    assert_eq!(problem, "`many` is no value for `layers`, which takes a whole number from 1 to 16777216");
    let problem = model.settings.set("dtype", "f8E5M2").expect_err("not for computing");
    assert_eq!(problem, "`f8E5M2` is no value for `dtype`, which takes bf16, f16, f32 or f64");
    let problem = model.settings.set("dropout", "1").expect_err("nothing is left");
    assert_eq!(problem, "`1` is no value for `dropout`, which takes a number of at least 0 and less than 1");
    model.settings.seq = 0;
    let problem = model.build().expect_err("no tokens");
    assert_eq!(problem, "`seq` is 0, but it takes a whole number from 1 to 16777216");
    let mut model = preset("llama3-8b");
    model.settings.head_width = 65;
    let problem = model.build().expect_err("halves that differ");
    assert_eq!(problem, "`head_width` = 65 is odd: rotary positions turn its two halves");
    model.settings.kv_heads = 5;
    assert_eq!(model.build().expect_err("5 heads"), "`kv_heads` = 5 does not divide `heads` = 32");
}

/// Whatever is set, there is a program that verifies or a reason why not.
#[test]
fn any_settings_build_or_are_refused() {
    const VALUES: [&str; 22] = [
        "0",
        "1",
        "2",
        "3",
        "4",
        "6",
        "7",
        "8",
        "13",
        "32",
        "50",
        "97",
        "1000",
        "4096",
        "8191",
        "65536",
        "1048576",
        "16777213",
        "16777216",
        "16777217",
        "18446744073709551615",
        "0.5",
    ];
    let mut random = 1u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    let rounds = if std::env::var_os("LONG").is_some() { 2000 } else { 60 };
    let (mut built, mut refused) = (0, 0);
    for row in PRESETS {
        for _ in 0..rounds {
            let mut model = preset(row.name);
            model.settings.layers = model.settings.layers.min(2);
            model.settings.steps = model.settings.steps.min(2);
            let keys = model.family.keys();
            for _ in 0..1 + next(3) {
                let key = keys[next(keys.len())];
                let value = VALUES[next(VALUES.len())];
                // More layers and steps only make longer programs.
                if !["layers", "decoder_layers", "steps"].contains(&key) || value.len() == 1 {
                    // Not every key takes every number: that is an answer too.
                    let _ = model.set(key, value);
                }
            }
            match model.build() {
                Ok(program) => {
                    program.verify().unwrap_or_else(|problem| panic!("{}: {problem}: {:?}", row.name, model.settings));
                    parameter_count(&program);
                    built += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(built > refused && refused > 0, "{built} built, {refused} refused");
}

#[track_caller]
fn refused(name: &str, settings: &[(&str, &str)], expected: &str) {
    let mut model = preset(name);
    for (key, value) in settings {
        model.settings.set(key, value).expect("a value of the key");
    }
    assert_eq!(model.build().expect_err("settings that do not go together"), expected);
}

#[test]
fn decoding_is_a_loop_of_known_length() {
    let program = preset("it32").build().expect("a preset builds");
    let loops = program.ops.ids().filter(|&op| program.ops[op].op == Op::While);
    let trips: Vec<usize> = loops.filter_map(|op| program.counted_loop(op)).map(|counted| counted.trips).collect();
    assert_eq!(trips, [1536]);
}

#[test]
fn dropout_keeps_the_share_it_is_set_to() {
    let mut model = preset("gpt2");
    let small = [("layers", "2"), ("hidden", "32"), ("heads", "4"), ("seq", "16"), ("vocab", "24"), ("batch", "8")];
    for (key, value) in small.into_iter().chain([("dropout", "0.1"), ("optimizer", "none")]) {
        model.settings.set(key, value).expect("a value of the key");
    }
    let mut program = model.build().expect("the settings go together");
    let keys = program.arguments.iter().filter(|argument| argument.name.starts_with("batch.key.")).count();
    assert_eq!(keys, 4, "two a layer");
    // The masks become results.
    let bits: Vec<ValueId> = program.ops.iter().filter_map(|(_, operation)| random_bits(operation)).collect();
    let masks: Vec<ValueId> = program
        .ops
        .iter()
        .filter(|(_, operation)| matches!(operation.op, Op::Compare { .. }) && bits.contains(&operation.operands[0]))
        .map(|(_, operation)| operation.results[0])
        .collect();
    assert_eq!(masks.len(), 4);
    let known = program.results.len();
    for &mask in &masks {
        program.add_result(mask, ResultInfo { name: "mask".to_owned() });
    }
    program.verify().expect("a built program is well formed");
    let arguments: Vec<Tensor> = program
        .body()
        .arguments
        .iter()
        .enumerate()
        .map(|(index, &value)| match program.dtype(value) {
            DType::I32 => Tensor::zeros(program.ty(value)),
            DType::U64 => Tensor { ty: program.ty(value).clone(), data: Data::Integer(vec![index as i64, 7]) },
            _ => generate(program.ty(value), index as u64),
        })
        .collect();
    let results = evaluate(&program, &arguments, Options { wide: false }).expect("the step can be evaluated").results;
    let masks: Vec<&Vec<i64>> = results[known..]
        .iter()
        .map(|mask| match &mask.data {
            Data::Integer(elements) => elements,
            _ => panic!("a mask is of truth values"),
        })
        .collect();
    let count: usize = masks.iter().map(|mask| mask.len()).sum();
    let kept = masks.iter().flat_map(|mask| mask.iter()).filter(|&&element| element != 0).count();
    let share = kept as f64 / count as f64;
    assert!((share - 0.9).abs() < 0.01, "{share} of {count} are kept");
    assert!(masks.iter().enumerate().all(|(index, mask)| !masks[..index].contains(mask)), "masks differ by their keys");
}

/// The bits that a generator of random bits makes.
fn random_bits(operation: &Operation) -> Option<ValueId> {
    matches!(operation.op, Op::RngBitGenerator { .. }).then(|| operation.results[1])
}

#[test]
fn a_resnet_of_width_1_is_the_published_one() {
    let mut model = preset("wresnet-250m");
    for (key, value) in [("channels", "64"), ("width", "1"), ("classes", "1000")] {
        model.settings.set(key, value).expect("a setting");
    }
    // torchvision `resnet18`, `resnet34`, `resnet50`, `resnet101`, `resnet152`
    let published =
        [("18", 11_689_512), ("34", 21_797_672), ("50", 25_557_032), ("101", 44_549_160), ("152", 60_192_808)];
    for (layers, expected) in published {
        model.settings.set("layers", layers).expect("a setting");
        assert_eq!(parameter_count(&model.build().expect("it builds")), expected);
    }
}

/// Everything that a step gives back is a mean over examples, so that two groups are as good as two batches.
#[test]
fn norms_of_groups_are_those_of_batches_as_large() {
    let build = |batch: &str, group: &str| {
        let mut model = preset("resnet-18");
        let settings = [("batch", batch), ("norm_group", group), ("image", "32"), ("channels", "4"), ("classes", "8")];
        for (key, value) in settings.into_iter().chain([("dtype", "f64"), ("optimizer", "none")]) {
            model.set(key, value).expect("a setting");
        }
        model.build().expect("it builds")
    };
    let (grouped, half) = (build("4", "2"), build("2", "2"));
    let arguments = generate_arguments(&grouped, 1);
    let run = |program: &Program, arguments: &[Tensor]| {
        evaluate(program, arguments, Options { wide: true }).expect("the step can be evaluated").results
    };
    let part_of = |number: usize| {
        let part = |(argument, &value): (&Tensor, &ValueId)| {
            let (ty, length) = (half.ty(value).clone(), half.ty(value).elements());
            let own = if argument.ty == ty { 0..length } else { number * length..(number + 1) * length };
            let data = match &argument.data {
                Data::Float(elements) => Data::Float(elements[own].to_vec()),
                Data::Integer(elements) => Data::Integer(elements[own].to_vec()),
                Data::Raw(_) => panic!("a step computes with all it reads"),
            };
            Tensor { ty, data }
        };
        arguments.iter().zip(&half.body().arguments).map(part).collect::<Vec<Tensor>>()
    };
    let halves = [0, 1].map(|number| run(&half, &part_of(number)));
    let floats = |tensor: &Tensor| match &tensor.data {
        Data::Float(elements) => elements.clone(),
        _ => panic!("all results are floats"),
    };
    let mean = |(first, second): (&Tensor, &Tensor)| {
        let elements = floats(first).iter().zip(floats(second)).map(|(first, second)| (first + second) / 2.0).collect();
        Tensor { ty: first.ty.clone(), data: Data::Float(elements) }
    };
    let expected: Vec<Tensor> = halves[0].iter().zip(&halves[1]).map(mean).collect();
    let apart = difference(&expected, &run(&grouped, &arguments));
    assert!(apart.relative < 1e-9, "{apart:?}");
}

#[test]
fn settings_of_images_that_do_not_go_together_are_refused() {
    let check = |name: &str, key: &str, value: &str, expected: &str| {
        let mut model = preset(name);
        model.settings.set(key, value).expect("a setting");
        assert_eq!(model.build().expect_err(expected), expected);
    };
    check("vit-l16", "patch", "15", "`patch` = 15 does not divide `image` = 224");
    let depths = "`layers` = 35 is none of 18, 34, 50, 101, 152, or 1 to 8 for as many blocks in each group";
    check("wresnet-1b", "layers", "35", depths);
    check("wresnet-1b", "norm_group", "7", "`norm_group` = 7 does not divide `batch` = 1536");
    check("unet", "image", "36", "`image` = 36 cannot be halved 3 times");
    check("unet", "channels", "48", "`channels` = 48 is no multiple of the 32 groups of a norm");
    check("unet", "heads", "3", "`heads` = 3 does not divide the 256 channels that attend");
}
