//! Models on clusters as people train them.

use meshwright::cluster::{Cluster, parse};
use meshwright::models::Model;
use meshwright::program::Program;

use super::grid::{Choice, read_choice};

/// What `tools/grid.rs --all` printed.
const BEST: &str = include_str!("best.txt");

/// A model on a cluster. The limit is the memory of the devices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) model: &'static str,
    /// What differs from the preset.
    pub(crate) settings: &'static [(&'static str, &'static str)],
    pub(crate) cluster: &'static str,
}

/// Batches are those of whoever trained such models, or as many tokens: GPT-3 (Brown and others, 2020, table 2.1) has
/// half a million tokens up to 760M parameters, one at 1.3B and 2.7B, two at 6.7B and 13B, and 3.2 million at 175B;
/// Alpa's ladder has 1024 sequences of 1024 tokens on V100s of 16 GB, where the largest needs stages; ResNets have 256
/// images (He and others, 2016), since norms over the batch keep microbatches from saving memory; Llama 2 has 4
/// million tokens (Touvron and others, 2023), which is 1024 sequences, and those who train on fewer devices take
/// fewer; DeiT has 1024 images (Touvron and others, 2021) and networks of diffusion 256 (Dhariwal and Nichol, 2021).
/// Megatron rounds the vocabulary of GPT-3 up to 51200.
#[rustfmt::skip] // One row a case.
pub(crate) const CASES: &[Case] = &[
    Case { model: "gpt-1.3b", settings: &[("batch", "1024")], cluster: "8xv100-16g" },
    Case { model: "gpt-1.3b", settings: &[("batch", "512"), ("dtype", "bf16")], cluster: "8xa100-80g" },
    Case { model: "gpt-2.6b", settings: &[("batch", "1024")], cluster: "8xv100-16g" },
    Case { model: "gpt-2.6b", settings: &[("batch", "512"), ("dtype", "bf16")], cluster: "8xh100" },
    Case { model: "gpt-6.7b", settings: &[("batch", "1024")], cluster: "2x8xv100-16g" },
    Case { model: "gpt-6.7b", settings: &[("batch", "256"), ("dtype", "bf16")], cluster: "8xa100-80g" },
    Case { model: "gpt-15b", settings: &[("batch", "1024")], cluster: "4x8xv100-16g" },
    Case { model: "gpt-15b", settings: &[("batch", "1024"), ("dtype", "bf16")], cluster: "2x8xh100" },
    Case { model: "gpt-39b", settings: &[("batch", "1024")], cluster: "8x8xv100-16g" },
    Case { model: "gpt-39b", settings: &[("batch", "1024"), ("dtype", "bf16")], cluster: "4x8xa100-80g" },
    Case { model: "gpt-175b", settings: &[("batch", "1024"), ("vocab", "51200")], cluster: "8x8xh100" },
    Case { model: "llama2-7b", settings: &[("batch", "128")], cluster: "8xh100" },
    Case { model: "llama2-7b", settings: &[("batch", "64"), ("dtype", "f16")], cluster: "2x8xv100-32g" },
    Case { model: "llama2-7b", settings: LLAMA_13B, cluster: "2x8xa100-80g" },
    Case { model: "llama2-70b", settings: &[("batch", "1024")], cluster: "8x8xh100" },
    Case { model: "llama2-70b", settings: &[("batch", "256")], cluster: "4x8xa100-80g" },
    Case { model: "moe-2.4b", settings: &[("batch", "1024")], cluster: "8xv100-16g" },
    Case { model: "moe-10b", settings: &[("batch", "1024"), ("dtype", "bf16")], cluster: "2x8xa100-80g" },
    Case { model: "wresnet-1b", settings: &[("batch", "256")], cluster: "8xv100-32g" },
    Case { model: "wresnet-4b", settings: &[("batch", "256")], cluster: "2x8xa100-80g" },
    Case { model: "vit-l16", settings: &[("batch", "1024"), ("dtype", "bf16")], cluster: "8xa100-80g" },
    Case { model: "unet", settings: &[("batch", "256")], cluster: "8xv100-16g" },
];

const LLAMA_13B: &[(&str, &str)] =
    &[("layers", "40"), ("hidden", "5120"), ("heads", "40"), ("kv_heads", "40"), ("ffn", "13824"), ("batch", "256")];

impl Case {
    /// The step, and what it runs on.
    pub(crate) fn build(&self) -> Result<(Program, Cluster), String> {
        let settings = self.settings.iter().map(|(key, value)| (*key, *value));
        let program = build(self.model, settings)?;
        Ok((program, parse(self.cluster).map_err(|error| error.message)?))
    }

    /// The best point of the grid when all were tried last, so that others can be compared with it at once. Whoever
    /// changes what is simulated may make another the best: `tools/grid.rs --all` tries them all again.
    pub(crate) fn recorded_best(&self) -> Option<Choice> {
        let name = format!("{}: ", self.name());
        let mut lines = BEST.lines().skip_while(|line| !line.starts_with(&name));
        read_choice(lines.nth(1)?)
    }

    pub(crate) fn name(&self) -> String {
        let settings: Vec<String> = self.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!("{} {} on {}", self.model, settings.join(" "), self.cluster)
    }
}

/// A preset with other settings.
pub(crate) fn build<'a>(preset: &str, settings: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Program, String> {
    let mut model = Model::preset(preset).ok_or_else(|| format!("there is no preset `{preset}`"))?;
    for (key, value) in settings {
        model.set(key, value)?;
    }
    model.build()
}
