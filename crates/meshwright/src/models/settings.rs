//! What can be set of a model, with `--set key=value` or by a preset.

use crate::program::DType;

/// Everything that can be set. A family reads what concerns it; see [`KEYS`].
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub batch: usize,
    pub capacity_factor: f64,
    pub channels: usize,
    pub classes: usize,
    pub clip: f64,
    pub decoder_layers: usize,
    pub dropout: f64,
    pub dtype: DType,
    pub edges: usize,
    pub epsilon: f64,
    pub expert_group: usize,
    pub experts: usize,
    pub experts_per_token: usize,
    pub ffn: usize,
    pub head_width: usize,
    pub heads: usize,
    pub hidden: usize,
    pub image: usize,
    pub kv_heads: usize,
    pub layers: usize,
    pub learning_rate: f64,
    pub nodes: usize,
    pub optimizer: Optimizer,
    pub patch: usize,
    pub remat: bool,
    pub rope_theta: f64,
    pub seq: usize,
    pub steps: usize,
    pub target_seq: usize,
    pub tied: bool,
    pub vocab: usize,
    pub weight_decay: f64,
    pub width: usize,
}

/// How parameters are updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Optimizer {
    Adafactor,
    Adam,
    /// Adam with decoupled weight decay.
    AdamW,
    /// No update: the gradients are results.
    None,
    /// Gradient descent with momentum.
    Sgd,
}

/// Of every key: its name, what it means, and how its text is read and shown.
#[derive(Debug)]
pub struct Key {
    pub name: &'static str,
    pub about: &'static str,
    read: fn(&mut Settings, &str) -> Option<()>,
    show: fn(&Settings) -> String,
}

/// The keys in the order of the alphabet.
#[rustfmt::skip] // One row a key.
pub const KEYS: &[Key] = &[
    Key { name: "batch", about: "examples in a step", read: |s, t| size(&mut s.batch, t), show: |s| s.batch.to_string() },
    Key { name: "capacity_factor", about: "room of an expert over its even share", read: |s, t| number(&mut s.capacity_factor, t), show: |s| s.capacity_factor.to_string() },
    Key { name: "channels", about: "channels of the first convolution", read: |s, t| size(&mut s.channels, t), show: |s| s.channels.to_string() },
    Key { name: "classes", about: "classes of an image classifier", read: |s, t| size(&mut s.classes, t), show: |s| s.classes.to_string() },
    Key { name: "clip", about: "largest global norm of the gradients; 0 for none", read: |s, t| number(&mut s.clip, t), show: |s| s.clip.to_string() },
    Key { name: "decoder_layers", about: "layers of the decoder", read: |s, t| size(&mut s.decoder_layers, t), show: |s| s.decoder_layers.to_string() },
    Key { name: "dropout", about: "share of activations dropped; 0 for none", read: |s, t| number(&mut s.dropout, t), show: |s| s.dropout.to_string() },
    Key { name: "dtype", about: "type of computation: f32, bf16, f16 or f64; state is f32, or f64 with it", read: |s, t| dtype(&mut s.dtype, t), show: |s| s.dtype.to_string() },
    Key { name: "edges", about: "edges of the graph", read: |s, t| size(&mut s.edges, t), show: |s| s.edges.to_string() },
    Key { name: "epsilon", about: "term in the divisor of the optimizer", read: |s, t| number(&mut s.epsilon, t), show: |s| s.epsilon.to_string() },
    Key { name: "expert_group", about: "tokens that are dispatched together", read: |s, t| size(&mut s.expert_group, t), show: |s| s.expert_group.to_string() },
    Key { name: "experts", about: "experts of a layer", read: |s, t| size(&mut s.experts, t), show: |s| s.experts.to_string() },
    Key { name: "experts_per_token", about: "experts that a token goes to", read: |s, t| size(&mut s.experts_per_token, t), show: |s| s.experts_per_token.to_string() },
    Key { name: "ffn", about: "width inside the feed-forward part", read: |s, t| size(&mut s.ffn, t), show: |s| s.ffn.to_string() },
    Key { name: "head_width", about: "width of one head", read: |s, t| size(&mut s.head_width, t), show: |s| s.head_width.to_string() },
    Key { name: "heads", about: "heads of attention", read: |s, t| size(&mut s.heads, t), show: |s| s.heads.to_string() },
    Key { name: "hidden", about: "width of the model", read: |s, t| size(&mut s.hidden, t), show: |s| s.hidden.to_string() },
    Key { name: "image", about: "height and width of an image", read: |s, t| size(&mut s.image, t), show: |s| s.image.to_string() },
    Key { name: "kv_heads", about: "heads of keys and values", read: |s, t| size(&mut s.kv_heads, t), show: |s| s.kv_heads.to_string() },
    Key { name: "layers", about: "layers", read: |s, t| size(&mut s.layers, t), show: |s| s.layers.to_string() },
    Key { name: "learning_rate", about: "size of an update", read: |s, t| number(&mut s.learning_rate, t), show: |s| s.learning_rate.to_string() },
    Key { name: "nodes", about: "nodes of the graph", read: |s, t| size(&mut s.nodes, t), show: |s| s.nodes.to_string() },
    Key { name: "optimizer", about: "adafactor, adam, adamw, sgd, or none for gradients", read: |s, t| optimizer(&mut s.optimizer, t), show: |s| s.optimizer.name().to_owned() },
    Key { name: "patch", about: "height and width of a patch", read: |s, t| size(&mut s.patch, t), show: |s| s.patch.to_string() },
    Key { name: "remat", about: "recompute each layer in the backward pass", read: |s, t| flag(&mut s.remat, t), show: |s| s.remat.to_string() },
    Key { name: "rope_theta", about: "base of the wave lengths of rotary positions", read: |s, t| number(&mut s.rope_theta, t), show: |s| s.rope_theta.to_string() },
    Key { name: "seq", about: "tokens of an example", read: |s, t| size(&mut s.seq, t), show: |s| s.seq.to_string() },
    Key { name: "steps", about: "steps of decoding or of message passing", read: |s, t| size(&mut s.steps, t), show: |s| s.steps.to_string() },
    Key { name: "target_seq", about: "tokens of a target", read: |s, t| size(&mut s.target_seq, t), show: |s| s.target_seq.to_string() },
    Key { name: "tied", about: "output embedding is the input embedding", read: |s, t| flag(&mut s.tied, t), show: |s| s.tied.to_string() },
    Key { name: "vocab", about: "tokens there are", read: |s, t| size(&mut s.vocab, t), show: |s| s.vocab.to_string() },
    Key { name: "weight_decay", about: "share of a parameter taken off in an update", read: |s, t| number(&mut s.weight_decay, t), show: |s| s.weight_decay.to_string() },
    Key { name: "width", about: "factor on the channels inside a block", read: |s, t| size(&mut s.width, t), show: |s| s.width.to_string() },
];

impl Settings {
    /// Sets one key from its text. The error says what the key takes, or that there is no such key.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), String> {
        let Some(row) = KEYS.iter().find(|row| row.name == key) else {
            return Err(format!("there is no setting `{key}`"));
        };
        (row.read)(self, text).ok_or_else(|| format!("`{text}` is no value for `{key}` ({})", row.about))
    }

    /// The text of one key.
    pub fn get(&self, key: &str) -> Option<String> {
        KEYS.iter().find(|row| row.name == key).map(|row| (row.show)(self))
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            batch: 8,
            capacity_factor: 2.0,
            channels: 64,
            classes: 1000,
            clip: 0.0,
            decoder_layers: 0,
            dropout: 0.0,
            dtype: DType::F32,
            edges: 0,
            epsilon: 1e-8,
            expert_group: 1024,
            experts: 0,
            experts_per_token: 2,
            ffn: 0,
            head_width: 0,
            heads: 0,
            hidden: 0,
            image: 224,
            kv_heads: 0,
            layers: 0,
            learning_rate: 1e-3,
            nodes: 0,
            optimizer: Optimizer::Adam,
            patch: 16,
            remat: false,
            rope_theta: 10_000.0,
            seq: 0,
            steps: 0,
            target_seq: 0,
            tied: true,
            vocab: 0,
            weight_decay: 0.01,
            width: 1,
        }
    }
}

impl Optimizer {
    pub const ALL: [Optimizer; 5] =
        [Optimizer::Adafactor, Optimizer::Adam, Optimizer::AdamW, Optimizer::None, Optimizer::Sgd];

    pub fn name(self) -> &'static str {
        match self {
            Optimizer::Adafactor => "adafactor",
            Optimizer::Adam => "adam",
            Optimizer::AdamW => "adamw",
            Optimizer::None => "none",
            Optimizer::Sgd => "sgd",
        }
    }
}

/// Sizes are at least 1; products of them are checked when a model is built.
fn size(slot: &mut usize, text: &str) -> Option<()> {
    let value: usize = text.parse().ok()?;
    (1..=1 << 24).contains(&value).then(|| *slot = value)
}

fn number(slot: &mut f64, text: &str) -> Option<()> {
    let value: f64 = text.parse().ok()?;
    (value.is_finite() && value >= 0.0).then(|| *slot = value)
}

fn flag(slot: &mut bool, text: &str) -> Option<()> {
    *slot = text.parse().ok()?;
    Some(())
}

fn dtype(slot: &mut DType, text: &str) -> Option<()> {
    let value = DType::from_name(text)?;
    matches!(value, DType::BF16 | DType::F16 | DType::F32 | DType::F64).then(|| *slot = value)
}

fn optimizer(slot: &mut Optimizer, text: &str) -> Option<()> {
    *slot = Optimizer::ALL.into_iter().find(|optimizer| optimizer.name() == text)?;
    Some(())
}
