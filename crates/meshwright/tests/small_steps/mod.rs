//! Steps that are small enough to be run, and what they are planned for.

use meshwright::models::Model;
use meshwright::program::{Program, expand_batch_norm};
use meshwright::simulate::{Engine, engine};

/// An engine that takes nothing for itself, so that small steps have small limits.
pub(crate) fn small_engine() -> Engine {
    Engine { reserved_bytes: 0, fragmentation: 0.0, ..engine("xla").expect("an engine").clone() }
}

/// A preset with other settings, as it is planned.
pub(crate) fn model(name: &str, settings: &str) -> Program {
    let mut model = Model::preset(name).expect("a preset");
    for setting in settings.split_whitespace() {
        let (key, value) = setting.split_once('=').expect("a setting");
        model.set(key, value).expect("a setting of the preset");
    }
    expand_batch_norm(&model.build().expect("a model")).into_owned()
}
