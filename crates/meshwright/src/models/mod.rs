//! Well-known training steps, built straight into a Program at any size.
//!
//! A model is a family and its settings; presets are rows of a table. Each family writes its forward
//! pass; differentiation and the optimizer's update are the same for all.

pub mod gradient;

mod bert;
mod decode;
mod experts;
mod gpt;
mod graph;
mod layers;
mod llama;
mod loss;
mod mixtral;
mod mlp;
mod moe;
mod optimizer;
mod presets;
mod resnet;
mod settings;
mod step;
mod t5;
mod unet;
mod vit;

pub use presets::{PRESETS, Preset};
pub use settings::{KEYS, Key, Loss, Optimizer, Settings, Targets};

use crate::program::{DType, Program};

/// A kind of model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Trained to fill in masked tokens.
    Bert,
    /// Decoding with the transformer of PartIR's experiments.
    Decode,
    Gpt,
    /// Message passing between the nodes of a graph.
    Graph,
    Llama,
    Mixtral,
    Mlp,
    /// GShard: a GPT with experts in every second layer.
    Moe,
    /// The transformer of PartIR's experiments.
    Partir,
    /// ResNet, and Wide-ResNet as Alpa's benchmark has it.
    Resnet,
    /// An encoder and a decoder.
    T5,
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

    /// The whole program: a training step but for decoding. The error says which settings do not go together.
    pub fn build(&self) -> Result<Program, String> {
        let settings = self.resolved()?;
        match self.family {
            Family::Bert => bert::build(&settings),
            Family::Decode => decode::build(&settings),
            Family::Gpt => gpt::build(&settings, gpt::GPT),
            Family::Graph => graph::build(&settings),
            Family::Llama => llama::build(&settings),
            Family::Mixtral => mixtral::build(&settings),
            Family::Mlp => mlp::build(&settings),
            Family::Moe => moe::build(&settings),
            Family::Partir => gpt::build(&settings, gpt::PARTIR),
            Family::Resnet => resnet::build(&settings),
            Family::T5 => t5::build(&settings),
            Family::Unet => unet::build(&settings),
            Family::Vit => vit::build(&settings),
        }
    }

    /// Settings with what follows from others filled in, and checked.
    fn resolved(&self) -> Result<Settings, String> {
        let keys = self.family.keys();
        self.settings.check(&keys)?;
        self.family.check_loss(self.settings.loss)?;
        let mut settings = self.settings.clone();
        if settings.ffn == 0 {
            settings.ffn = settings.hidden.saturating_mul(4);
        }
        if settings.kv_heads == 0 {
            settings.kv_heads = settings.heads;
        }
        if settings.decoder_layers == 0 {
            settings.decoder_layers = settings.layers;
        }
        if settings.norm_group == 0 {
            settings.norm_group = settings.batch;
        }
        if settings.target_seq == 0 {
            settings.target_seq = settings.seq;
        }
        if keys.contains(&"head_width") {
            settings.head_width = self.head_width(&settings)?;
        }
        self.family.check_length(&settings)?;
        Ok(settings)
    }

    /// The width of one head, which follows from that of the model where it is not free.
    fn head_width(&self, settings: &Settings) -> Result<usize, String> {
        let Settings { heads, kv_heads, head_width, hidden, .. } = *settings;
        divides("kv_heads", kv_heads, "heads", heads)?;
        if head_width > 0 && self.family.has_free_head_width() {
            return Ok(head_width);
        }
        divides("heads", heads, "hidden", hidden)?;
        let width = hidden / heads;
        if ![0, width].contains(&head_width) {
            return Err(format!("`head_width` = {head_width} must be {width}, which is `hidden` over `heads`"));
        }
        Ok(width)
    }

    /// Changes one setting. The error says what the key takes, that there is no such key, or that
    /// this kind of model has no use for it.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), String> {
        let is_known = KEYS.iter().any(|row| row.name == key);
        if is_known && !self.family.keys().contains(&key) {
            return Err(format!("this model has no `{key}`"));
        }
        let mut settings = self.settings.clone();
        settings.set(key, text)?;
        if key == "loss" {
            self.family.check_loss(settings.loss)?;
        }
        self.settings = settings;
        Ok(())
    }
}

/// Programs of more blocks than this are refused: each is written out.
const MAXIMUM_REPEATS: usize = 4096;

/// What every training step has.
const STEP: &[&str] = &["batch", "clip", "dtype", "epsilon", "learning_rate", "optimizer", "remat", "weight_decay"];
/// What every transformer has.
const TRANSFORMER: &[&str] = &["ffn", "head_width", "heads", "hidden", "layers"];
/// What every model of tokens has.
const TOKENS: &[&str] = &["seq", "vocab"];
/// What every model has that tells labels.
const LABELS: &[&str] = &["label_smoothing", "loss", "z_loss"];
const EXPERTS: &[&str] = &["capacity_factor", "expert_group", "experts", "experts_per_token"];

impl Family {
    /// An error where the program would be too long. What is too large is found as it is built.
    fn check_length(self, settings: &Settings) -> Result<(), String> {
        let Settings { layers, decoder_layers, steps, .. } = *settings;
        // A graph network writes its steps out, each with several networks of all layers; a UNet has its
        // layers at several resolutions.
        let (name, count) = match self {
            Family::Graph => ("layers * steps", 3 * layers * steps),
            Family::Unet => ("layers", 8 * layers),
            Family::T5 => ("layers", layers + decoder_layers),
            Family::Bert
            | Family::Decode
            | Family::Gpt
            | Family::Llama
            | Family::Mixtral
            | Family::Mlp
            | Family::Moe
            | Family::Partir
            | Family::Resnet
            | Family::Vit => ("layers", layers),
        };
        if count > MAXIMUM_REPEATS {
            return Err(format!("`{name}` is too many: the program would have more than {MAXIMUM_REPEATS} blocks"));
        }
        Ok(())
    }

    /// The settings that a family reads, in the order of the alphabet.
    pub fn keys(self) -> Vec<&'static str> {
        let groups: &[&[&str]] = match self {
            Family::Bert => &[STEP, TRANSFORMER, TOKENS, LABELS, &["dropout"]],
            Family::Decode => &[TRANSFORMER, TOKENS, &["batch", "dtype", "steps", "tied"]],
            Family::Gpt | Family::Partir => &[STEP, TRANSFORMER, TOKENS, LABELS, &["dropout", "tied"]],
            Family::Graph => &[STEP, &["edges", "ffn", "hidden", "layers", "loss", "nodes", "steps"]],
            Family::Llama => &[STEP, TRANSFORMER, TOKENS, LABELS, &["dropout", "kv_heads", "rope_theta", "tied"]],
            Family::Mixtral => {
                &[STEP, TRANSFORMER, TOKENS, LABELS, EXPERTS, &["dropout", "kv_heads", "rope_theta", "tied"]]
            }
            Family::Mlp => &[STEP, &["hidden", "layers", "loss"]],
            Family::Moe => &[STEP, TRANSFORMER, TOKENS, LABELS, EXPERTS, &["dropout", "tied"]],
            Family::Resnet => &[STEP, LABELS, &["channels", "classes", "image", "layers", "norm_group", "width"]],
            Family::T5 => &[STEP, TRANSFORMER, TOKENS, LABELS, &["decoder_layers", "dropout", "target_seq", "tied"]],
            Family::Unet => &[STEP, &["channels", "dropout", "heads", "image", "layers", "loss"]],
            Family::Vit => &[STEP, TRANSFORMER, LABELS, &["classes", "dropout", "image", "patch"]],
        };
        let mut keys: Vec<&str> = groups.concat();
        keys.sort_unstable();
        keys
    }

    /// What the outputs are compared with, where a model is trained.
    pub fn targets(self) -> Option<Targets> {
        match self {
            Family::Graph | Family::Mlp | Family::Unet => Some(Targets::Numbers),
            Family::Bert
            | Family::Gpt
            | Family::Llama
            | Family::Mixtral
            | Family::Moe
            | Family::Partir
            | Family::Resnet
            | Family::T5
            | Family::Vit => Some(Targets::Labels),
            Family::Decode => None,
        }
    }

    /// An error where a loss compares with other targets than there are.
    fn check_loss(self, loss: Loss) -> Result<(), String> {
        let Some(targets) = self.targets().filter(|&targets| targets != loss.targets()) else { return Ok(()) };
        let fitting = Loss::ALL.into_iter().filter(|loss| loss.targets() == targets);
        let fitting: Vec<&str> = fitting.map(Loss::name).collect();
        let (name, wanted, given) = (loss.name(), loss.targets().name(), targets.name());
        let allowed = settings::one_of(&fitting);
        Err(format!("`loss` = {name} is for {wanted}, but the targets of this model are {given}: it takes {allowed}"))
    }

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

#[cfg(test)]
mod tests {
    use super::{KEYS, Model, PRESETS};

    /// The fields of settings are public, so any number can stand there, also where no text sets it.
    #[test]
    fn any_numbers_in_settings_build_or_are_refused() {
        let mut refused = 0;
        let mut seen = Vec::new();
        for row in PRESETS {
            if seen.contains(&row.family) {
                continue;
            }
            seen.push(row.family);
            for key in KEYS {
                for number in [0, 1, 7, 8191, 1 << 24, (1 << 24) + 1, usize::MAX] {
                    let mut model = Model::preset(row.name).expect("the preset is there");
                    model.settings.layers = model.settings.layers.min(2);
                    model.settings.steps = model.settings.steps.min(2);
                    key.put(&mut model.settings, number);
                    match model.build() {
                        Ok(program) => program.verify().expect("a built program is well formed"),
                        Err(_) => refused += 1,
                    }
                }
            }
        }
        assert!(refused > 0);
    }
}
