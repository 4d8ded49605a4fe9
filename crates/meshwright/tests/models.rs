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
        ("moe-380m", 0.38e9, 0.05),
        ("moe-1.3b", 1.3e9, 0.05),
        ("moe-2.4b", 2.4e9, 0.05),
        ("moe-10b", 10e9, 0.05),
        ("moe-27b", 27e9, 0.05),
        ("moe-70b", 70e9, 0.05),
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
