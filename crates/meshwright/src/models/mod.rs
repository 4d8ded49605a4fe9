//! Well-known training steps, built straight into a Program at any size.
//!
//! A model is a family and its settings; presets are rows of a table. Each family writes its forward
//! pass; differentiation and the optimizer's update are the same for all.

pub mod builder;
pub mod gradient;

mod bert;
mod decode;
mod experts;
mod gpt;
mod layers;
mod llama;
mod mixtral;
mod mlp;
mod moe;
mod optimizer;
mod presets;
mod settings;
mod step;
mod t5;

pub use presets::{PRESETS, Preset};
pub use settings::{KEYS, Key, Optimizer, Settings};

use crate::program::{DType, Program};

/// A kind of model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Trained to fill in masked tokens.
    Bert,
    /// Decoding with the transformer of PartIR's experiments.
    Decode,
    Gpt,
    Llama,
    Mixtral,
    Mlp,
    /// GShard: a GPT with experts in every second layer.
    Moe,
    /// The transformer of PartIR's experiments.
    Partir,
    /// An encoder and a decoder.
    T5,
}

/// A model that can be built.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    pub family: Family,
    pub settings: Settings,
}

impl Model {
    /// The preset of that name.
    pub fn preset(name: &str) -> Option<Model> {
        let preset = PRESETS.iter().find(|preset| preset.name == name)?;
        let mut settings = Settings::default();
        for (key, value) in preset.settings {
            settings.set(key, value).ok()?;
        }
        Some(Model { family: preset.family, settings })
    }

    /// The whole program: a training step but for decoding. The error says which settings do not go together.
    pub fn build(&self) -> Result<Program, String> {
        let settings = self.resolved()?;
        match self.family {
            Family::Bert => bert::build(&settings),
            Family::Decode => decode::build(&settings),
            Family::Gpt => gpt::build(&settings, gpt::GPT),
            Family::Llama => llama::build(&settings),
            Family::Mixtral => mixtral::build(&settings),
            Family::Mlp => mlp::build(&settings),
            Family::Moe => moe::build(&settings),
            Family::Partir => gpt::build(&settings, gpt::PARTIR),
            Family::T5 => t5::build(&settings),
        }
    }

    /// Settings with what follows from others filled in, and checked.
    fn resolved(&self) -> Result<Settings, String> {
        let mut settings = self.settings.clone();
        if settings.ffn == 0 {
            settings.ffn = 4 * settings.hidden;
        }
        if settings.kv_heads == 0 {
            settings.kv_heads = settings.heads;
        }
        if settings.decoder_layers == 0 {
            settings.decoder_layers = settings.layers;
        }
        if settings.target_seq == 0 {
            settings.target_seq = settings.seq;
        }
        if settings.heads > 0 {
            divides("kv_heads", settings.kv_heads, "heads", settings.heads)?;
            if settings.head_width == 0 || !self.family.has_free_head_width() {
                divides("heads", settings.heads, "hidden", settings.hidden)?;
                let width = settings.hidden / settings.heads;
                if ![0, width].contains(&settings.head_width) {
                    let set = settings.head_width;
                    return Err(format!("`head_width` = {set} must be {width}, which is `hidden` over `heads`"));
                }
                settings.head_width = width;
            }
        }
        if settings.dropout >= 1.0 {
            return Err(format!("`dropout` is {}, must be less than 1", settings.dropout));
        }
        Ok(settings)
    }
}

impl Family {
    /// Whether the heads together may be wider or narrower than the model.
    fn has_free_head_width(self) -> bool {
        matches!(self, Family::Llama | Family::Mixtral | Family::T5)
    }
}

/// An error unless one setting divides another.
fn divides(name: &str, size: usize, of_name: &str, of: usize) -> Result<(), String> {
    if of.is_multiple_of(size) {
        return Ok(());
    }
    Err(format!("`{name}` = {size} does not divide `{of_name}` = {of}"))
}

/// The elements of all parameters of a built step.
pub fn parameter_count(program: &Program) -> usize {
    let named = program.arguments.iter().zip(&program.body().arguments);
    let parameters = named.filter(|(argument, _)| argument.name.starts_with("params."));
    parameters
        .filter(|(_, value)| program.dtype(**value) != DType::Token)
        .map(|(_, &value)| program.ty(value).elements())
        .sum()
}
