//! Models that are small enough for the reference interpreter.

use meshwright::models::Model;
use meshwright::program::Program;

/// What makes a model small.
const SMALL: [(&str, &str); 22] = [
    ("batch", "4"),
    ("channels", "4"),
    ("classes", "6"),
    ("decoder_layers", "1"),
    ("edges", "12"),
    ("expert_group", "8"),
    ("experts", "4"),
    ("ffn", "16"),
    ("head_width", "4"),
    ("heads", "4"),
    ("hidden", "16"),
    ("image", "32"),
    ("kv_heads", "2"),
    ("layers", "1"),
    ("nodes", "6"),
    ("optimizer", "sgd"),
    ("patch", "8"),
    ("seq", "4"),
    ("steps", "2"),
    ("target_seq", "4"),
    ("vocab", "12"),
    ("width", "1"),
];

/// A preset made small, then changed further. Keys that it does not have are left out.
pub(crate) fn small_model(name: &str, changes: &[(&str, &str)]) -> Program {
    // Norms of this one have groups of 32 channels.
    let unet: &[(&str, &str)] = if name == "unet" { &[("channels", "32"), ("image", "8")] } else { &[] };
    build(name, &[&SMALL[..], unet, changes].concat())
}

/// A preset with those settings that it has.
pub(crate) fn build(name: &str, settings: &[(&str, &str)]) -> Program {
    let mut model = Model::preset(name).unwrap_or_else(|| panic!("there is no preset `{name}`"));
    let keys = model.family.keys();
    for (key, value) in settings.iter().filter(|(key, _)| keys.contains(key)) {
        model.set(key, value).expect("a value of the key");
    }
    model.build().unwrap_or_else(|error| panic!("{name}: {error}"))
}
