//! Built-in models: well formed, with the parameters that were published, and quick to build.

use std::time::{Duration, Instant};

use meshwright::models::{Model, PRESETS, parameter_count};

#[track_caller]
fn preset(name: &str) -> Model {
    Model::preset(name).expect("the preset is there")
}

#[test]
fn every_preset_builds_a_program_that_verifies() {
    for row in PRESETS {
        let mut model = preset(row.name);
        // A few layers stand for all.
        model.settings.layers = model.settings.layers.min(2);
        let program = model.build().expect("a preset's settings go together");
        program.verify().expect("a built program is well formed");
        let pairs = program.state_pairs();
        for (argument, pair) in program.arguments.iter().zip(&pairs) {
            let is_state = ["params.", "opt.", "state."].iter().any(|prefix| argument.name.starts_with(prefix));
            let next = pair.map(|result| program.results[result].name.as_str());
            assert_eq!(next, is_state.then_some(argument.name.as_str()), "{}", row.name);
        }
    }
}

#[test]
fn presets_have_the_published_parameters() {
    // Name, parameters, and how far off a round figure may be.
    let published: &[(&str, f64, f64)] = &[
        ("gpt2", 124_439_808.0, 0.0), // Hugging Face `gpt2`
        ("gpt-350m", 0.35e9, 0.02),
        ("gpt-1.3b", 1.3e9, 0.02),
        ("gpt-2.6b", 2.6e9, 0.03),
        ("gpt-6.7b", 6.7e9, 0.01),
        ("gpt-15b", 15e9, 0.04),
        ("gpt-39b", 39e9, 0.01),
        ("gpt-175b", 175e9, 0.01),
        ("gpt-1t", 1e12, 0.02),
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
    assert_eq!(model.settings.set("haeds", "8").expect_err("no key"), "there is no setting `haeds`");
    let problem = model.settings.set("layers", "many").expect_err("no number");
    assert_eq!(problem, "`many` is no value for `layers` (layers)");
}

#[test]
fn a_resnet_of_width_1_is_the_published_one() {
    let mut model = preset("wresnet-250m");
    for (key, value) in [("channels", "64"), ("width", "1"), ("classes", "1000")] {
        model.settings.set(key, value).expect("a setting");
    }
    // torchvision `resnet50`, `resnet101`, `resnet152`
    for (layers, expected) in [("50", 25_557_032), ("101", 44_549_160), ("152", 60_192_808)] {
        model.settings.set("layers", layers).expect("a setting");
        assert_eq!(parameter_count(&model.build().expect("it builds")), expected);
    }
}

#[test]
fn settings_of_images_that_do_not_go_together_are_refused() {
    let check = |name: &str, key: &str, value: &str, expected: &str| {
        let mut model = preset(name);
        model.settings.set(key, value).expect("a setting");
        assert_eq!(model.build().expect_err(expected), expected);
    };
    check("vit-l16", "patch", "15", "`patch` = 15 does not divide `image` = 224");
    let depths = "`layers` = 34 is none of 50, 101, 152, or 1 to 8 for as many blocks in each group";
    check("wresnet-1b", "layers", "34", depths);
    check("unet", "image", "36", "`image` = 36 cannot be halved 3 times");
    check("unet", "channels", "48", "`channels` = 48 is no multiple of the 32 groups of a norm");
    check("unet", "heads", "3", "`heads` = 3 does not divide the 256 channels that attend");
}

#[test]
fn every_preset_can_be_recomputed_in_a_narrow_type() {
    for row in PRESETS {
        let mut model = preset(row.name);
        model.settings.layers = model.settings.layers.min(2);
        for (key, value) in [("remat", "true"), ("dtype", "bf16"), ("dropout", "0.1")] {
            model.settings.set(key, value).expect("a setting");
        }
        let program = model.build().expect("these settings go with all");
        program.verify().unwrap_or_else(|problem| panic!("{}: {problem:?}", row.name));
    }
}
