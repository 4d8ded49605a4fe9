//! Well-known training steps, built straight into a Program at any size.
//!
//! A model is a family and its settings; presets are rows of a table. Each family writes its forward
//! pass; differentiation and the optimizer's update are the same for all.

pub mod builder;
pub mod gradient;

mod gpt;
mod graph;
mod layers;
mod mlp;
mod optimizer;
mod presets;
mod resnet;
mod settings;
mod step;
mod unet;
mod vit;

pub use presets::{PRESETS, Preset};
pub use settings::{KEYS, Key, Optimizer, Settings};

use crate::program::{DType, Program};

/// A kind of model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Gpt,
    /// Message passing between the nodes of a graph.
    Graph,
    Mlp,
    /// The transformer of PartIR's experiments.
    Partir,
    /// Wide-ResNet as Alpa's benchmark has it.
    Resnet,
    /// The network of a diffusion model over images.
    Unet,
    Vit,
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

    /// The whole training step. The error says which settings do not go together.
    pub fn build(&self) -> Result<Program, String> {
        let settings = self.resolved()?;
        match self.family {
            Family::Gpt => gpt::build(&settings, gpt::GPT),
            Family::Graph => graph::build(&settings),
            Family::Mlp => mlp::build(&settings),
            Family::Partir => gpt::build(&settings, gpt::PARTIR),
            Family::Resnet => resnet::build(&settings),
            Family::Unet => unet::build(&settings),
            Family::Vit => vit::build(&settings),
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
        if settings.heads > 0 {
            divides("heads", settings.heads, "hidden", settings.hidden)?;
            divides("kv_heads", settings.kv_heads, "heads", settings.heads)?;
            if settings.head_width == 0 {
                settings.head_width = settings.hidden / settings.heads;
            }
        }
        if settings.dropout >= 1.0 {
            return Err(format!("`dropout` is {}, must be less than 1", settings.dropout));
        }
        Ok(settings)
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
