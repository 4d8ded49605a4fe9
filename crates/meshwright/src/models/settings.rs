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
    pub label_smoothing: f64,
    pub layers: usize,
    pub learning_rate: f64,
    pub loss: Loss,
    pub nodes: usize,
    pub norm_group: usize,
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
    pub z_loss: f64,
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

/// What training makes small. All are means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    AbsoluteError,
    /// Minus the log of the probability of the right label.
    CrossEntropy,
    /// Half the squared difference up to 1, from there on as steep as at 1.
    Huber,
    SquaredError,
}

/// What a loss compares the outputs of a model with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Targets {
    /// The number of a class or a token.
    Labels,
    Numbers,
}

/// Of every key: its name, what it means, and where its value is kept.
#[derive(Debug)]
pub struct Key {
    pub name: &'static str,
    pub about: &'static str,
    slot: Slot,
}

/// Where a value is kept, and with that what it may be.
#[derive(Clone, Copy, Debug)]
enum Slot {
    DType(fn(&mut Settings) -> &mut DType),
    /// A size of 0 stands for what follows from other settings.
    DerivedSize(fn(&mut Settings) -> &mut usize),
    Flag(fn(&mut Settings) -> &mut bool),
    Loss(fn(&mut Settings) -> &mut Loss),
    Number(fn(&mut Settings) -> &mut f64),
    Optimizer(fn(&mut Settings) -> &mut Optimizer),
    /// A number of which all is less than 1.
    Share(fn(&mut Settings) -> &mut f64),
    Size(fn(&mut Settings) -> &mut usize),
}

/// The largest size. Products of three still fit a machine's integer; what has too many elements is
/// found when a model is built.
const LARGEST_SIZE: usize = 1 << 24;

const DTYPES: [DType; 4] = [DType::BF16, DType::F16, DType::F32, DType::F64];

/// The keys in the order of the alphabet.
#[rustfmt::skip] // One row a key.
pub const KEYS: &[Key] = &[
    Key { name: "batch", about: "examples in a step", slot: Slot::Size(|s| &mut s.batch) },
    Key { name: "capacity_factor", about: "room of an expert over its even share", slot: Slot::Number(|s| &mut s.capacity_factor) },
    Key { name: "channels", about: "channels of the first convolution", slot: Slot::Size(|s| &mut s.channels) },
    Key { name: "classes", about: "classes of an image classifier", slot: Slot::Size(|s| &mut s.classes) },
    Key { name: "clip", about: "largest global norm of the gradients; 0 for none", slot: Slot::Number(|s| &mut s.clip) },
    Key { name: "decoder_layers", about: "layers of the decoder", slot: Slot::DerivedSize(|s| &mut s.decoder_layers) },
    Key { name: "dropout", about: "share of activations dropped; 0 for none", slot: Slot::Share(|s| &mut s.dropout) },
    Key { name: "dtype", about: "type of computation: f32, bf16, f16 or f64; state is f32, or f64 with it", slot: Slot::DType(|s| &mut s.dtype) },
    Key { name: "edges", about: "edges of the graph", slot: Slot::Size(|s| &mut s.edges) },
    Key { name: "epsilon", about: "term in the divisor of the optimizer", slot: Slot::Number(|s| &mut s.epsilon) },
    Key { name: "expert_group", about: "tokens that are dispatched together", slot: Slot::Size(|s| &mut s.expert_group) },
    Key { name: "experts", about: "experts of a layer", slot: Slot::Size(|s| &mut s.experts) },
    Key { name: "experts_per_token", about: "experts that a token goes to", slot: Slot::Size(|s| &mut s.experts_per_token) },
    Key { name: "ffn", about: "width inside the feed-forward part", slot: Slot::DerivedSize(|s| &mut s.ffn) },
    Key { name: "head_width", about: "width of one head", slot: Slot::DerivedSize(|s| &mut s.head_width) },
    Key { name: "heads", about: "heads of attention", slot: Slot::Size(|s| &mut s.heads) },
    Key { name: "hidden", about: "width of the model", slot: Slot::Size(|s| &mut s.hidden) },
    Key { name: "image", about: "height and width of an image", slot: Slot::Size(|s| &mut s.image) },
    Key { name: "kv_heads", about: "heads of keys and values", slot: Slot::DerivedSize(|s| &mut s.kv_heads) },
    Key { name: "label_smoothing", about: "share of a label that is spread over all classes; 0 for none", slot: Slot::Share(|s| &mut s.label_smoothing) },
    Key { name: "layers", about: "layers", slot: Slot::Size(|s| &mut s.layers) },
    Key { name: "learning_rate", about: "size of an update", slot: Slot::Number(|s| &mut s.learning_rate) },
    Key { name: "loss", about: "cross-entropy where targets are labels; squared-error, absolute-error or huber (to a difference of 1) where they are numbers", slot: Slot::Loss(|s| &mut s.loss) },
    Key { name: "nodes", about: "nodes of the graph", slot: Slot::Size(|s| &mut s.nodes) },
    Key { name: "norm_group", about: "examples whose mean and variance a batch norm takes together; all where it is not given", slot: Slot::DerivedSize(|s| &mut s.norm_group) },
    Key { name: "optimizer", about: "adafactor, adam, adamw, sgd, or none for gradients", slot: Slot::Optimizer(|s| &mut s.optimizer) },
    Key { name: "patch", about: "height and width of a patch", slot: Slot::Size(|s| &mut s.patch) },
    Key { name: "remat", about: "recompute each layer in the backward pass", slot: Slot::Flag(|s| &mut s.remat) },
    Key { name: "rope_theta", about: "base of the wave lengths of rotary positions", slot: Slot::Number(|s| &mut s.rope_theta) },
    Key { name: "seq", about: "tokens of an example", slot: Slot::Size(|s| &mut s.seq) },
    Key { name: "steps", about: "steps of decoding or of message passing", slot: Slot::Size(|s| &mut s.steps) },
    Key { name: "target_seq", about: "tokens of a target", slot: Slot::DerivedSize(|s| &mut s.target_seq) },
    Key { name: "tied", about: "output embedding is the input embedding", slot: Slot::Flag(|s| &mut s.tied) },
    Key { name: "vocab", about: "tokens there are", slot: Slot::Size(|s| &mut s.vocab) },
    Key { name: "weight_decay", about: "share of a parameter taken off in an update", slot: Slot::Number(|s| &mut s.weight_decay) },
    Key { name: "width", about: "factor on the channels inside a block", slot: Slot::Size(|s| &mut s.width) },
    Key { name: "z_loss", about: "weight of the square of the log of the sum of exponentials; 0 for none", slot: Slot::Number(|s| &mut s.z_loss) },
];

impl Settings {
    /// Sets one key from its text. The error says what the key takes, or that there is no such key.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), String> {
        let Some(row) = KEYS.iter().find(|row| row.name == key) else {
            return Err(format!("there is no setting `{key}`"));
        };
        let refused = || format!("`{text}` is no value for `{key}`, which takes {}", row.allowed());
        row.read(self, text).ok_or_else(refused)
    }

    /// The text of one key.
    pub fn get(&self, key: &str) -> Option<String> {
        KEYS.iter().find(|row| row.name == key).map(|row| row.show(self))
    }

    /// An error where one of these keys has a value that its text could not have given it.
    pub(super) fn check(&self, keys: &[&str]) -> Result<(), String> {
        let wrong = KEYS.iter().find(|row| keys.contains(&row.name) && !row.is_allowed(self));
        wrong.map_or(Ok(()), |row| Err(format!("`{}` is {}, but it takes {}", row.name, row.show(self), row.allowed())))
    }
}

impl Key {
    /// What the key takes, in words.
    pub fn allowed(&self) -> String {
        match self.slot {
            Slot::DType(_) => one_of(&DTYPES.map(DType::name)),
            Slot::DerivedSize(_) | Slot::Size(_) => format!("a whole number from 1 to {LARGEST_SIZE}"),
            Slot::Flag(_) => one_of(&["true", "false"]),
            Slot::Loss(_) => one_of(&Loss::ALL.map(Loss::name)),
            Slot::Number(_) => "a number of at least 0".to_owned(),
            Slot::Optimizer(_) => one_of(&Optimizer::ALL.map(Optimizer::name)),
            Slot::Share(_) => "a number of at least 0 and less than 1".to_owned(),
        }
    }

    /// Whether the value is one that the key takes.
    fn is_allowed(&self, settings: &Settings) -> bool {
        let mut settings = settings.clone();
        match self.slot {
            Slot::DType(at) => DTYPES.contains(at(&mut settings)),
            Slot::DerivedSize(at) => *at(&mut settings) <= LARGEST_SIZE,
            Slot::Flag(_) | Slot::Loss(_) | Slot::Optimizer(_) => true,
            Slot::Number(at) => at(&mut settings).is_finite() && *at(&mut settings) >= 0.0,
            Slot::Share(at) => (0.0..1.0).contains(at(&mut settings)),
            Slot::Size(at) => (1..=LARGEST_SIZE).contains(at(&mut settings)),
        }
    }

    /// Sets the value from its text where the key takes it.
    fn read(&self, settings: &mut Settings, text: &str) -> Option<()> {
        let mut changed = settings.clone();
        match self.slot {
            Slot::DType(at) => *at(&mut changed) = DType::from_name(text)?,
            Slot::DerivedSize(at) => *at(&mut changed) = text.parse().ok().filter(|&size: &usize| size > 0)?,
            Slot::Flag(at) => *at(&mut changed) = text.parse().ok()?,
            Slot::Loss(at) => *at(&mut changed) = Loss::ALL.into_iter().find(|loss| loss.name() == text)?,
            Slot::Number(at) | Slot::Share(at) => *at(&mut changed) = text.parse().ok()?,
            Slot::Optimizer(at) => {
                *at(&mut changed) = Optimizer::ALL.into_iter().find(|optimizer| optimizer.name() == text)?;
            }
            Slot::Size(at) => *at(&mut changed) = text.parse().ok()?,
        }
        self.is_allowed(&changed).then(|| *settings = changed)
    }

    /// Puts a number where the value is kept, whether or not the key takes it.
    #[cfg(test)]
    pub(super) fn put(&self, settings: &mut Settings, number: usize) {
        match self.slot {
            Slot::DerivedSize(at) | Slot::Size(at) => *at(settings) = number,
            Slot::Number(at) | Slot::Share(at) => *at(settings) = number as f64,
            Slot::DType(_) | Slot::Flag(_) | Slot::Loss(_) | Slot::Optimizer(_) => {}
        }
    }

    fn show(&self, settings: &Settings) -> String {
        let mut settings = settings.clone();
        match self.slot {
            Slot::DType(at) => at(&mut settings).to_string(),
            Slot::Flag(at) => at(&mut settings).to_string(),
            Slot::Loss(at) => at(&mut settings).name().to_owned(),
            Slot::Number(at) | Slot::Share(at) => at(&mut settings).to_string(),
            Slot::Optimizer(at) => at(&mut settings).name().to_owned(),
            Slot::DerivedSize(at) | Slot::Size(at) => at(&mut settings).to_string(),
        }
    }
}

/// `a, b or c`.
pub(super) fn one_of(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
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
            label_smoothing: 0.0,
            layers: 0,
            learning_rate: 1e-3,
            loss: Loss::CrossEntropy,
            nodes: 0,
            norm_group: 0,
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
            z_loss: 0.0,
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

impl Loss {
    pub const ALL: [Loss; 4] = [Loss::AbsoluteError, Loss::CrossEntropy, Loss::Huber, Loss::SquaredError];

    pub fn name(self) -> &'static str {
        self.row().0
    }

    pub fn targets(self) -> Targets {
        self.row().1
    }

    fn row(self) -> (&'static str, Targets) {
        match self {
            Loss::AbsoluteError => ("absolute-error", Targets::Numbers),
            Loss::CrossEntropy => ("cross-entropy", Targets::Labels),
            Loss::Huber => ("huber", Targets::Numbers),
            Loss::SquaredError => ("squared-error", Targets::Numbers),
        }
    }
}

impl Targets {
    pub fn name(self) -> &'static str {
        match self {
            Targets::Labels => "labels",
            Targets::Numbers => "numbers",
        }
    }
}
