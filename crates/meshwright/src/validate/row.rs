//! Measured runs as rows of a table.

use serde::Deserialize;

/// A run that somebody measured, as its source says. Blank means unknown.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Row {
    pub source_id: String,
    pub system: String,
    pub model: String,
    pub layers: String,
    pub hidden: String,
    pub ffn: String,
    pub heads: String,
    pub kv_heads: String,
    pub seq: String,
    pub vocab: String,
    pub dtype: String,
    pub global_batch_seqs: String,
    pub micro_batch: String,
    pub tp: String,
    pub pp: String,
    pub vpp_chunks: String,
    pub dp: String,
    pub cp: String,
    pub ep: String,
    pub sharding: String,
    pub recompute: String,
    pub flags: String,
    pub gpu: String,
    pub n_gpus: String,
    pub iter_time_s: String,
    pub tokens_per_s_per_gpu: String,
    pub tflops_per_gpu: String,
    pub tflops_kind: String,
    pub mem_gib_per_gpu: String,
    pub status: String,
}

/// Reads a table with a line of names first. Columns may stand in any order; unknown ones are passed over.
pub fn parse_rows(text: &str) -> Result<Vec<Row>, String> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let known = reader.headers().map_err(|error| error.to_string())?.clone();
    for needed in ["source_id", "model", "gpu", "n_gpus"] {
        if !known.iter().any(|name| name == needed) {
            return Err(format!("the table has no column `{needed}`"));
        }
    }
    reader.deserialize().collect::<Result<Vec<Row>, csv::Error>>().map_err(|error| error.to_string())
}

impl Row {
    /// What was measured of the time of a step, whatever the source calls it.
    pub fn measured_seconds(&self) -> Option<f64> {
        if let Some(seconds) = positive(&self.iter_time_s) {
            return Some(seconds);
        }
        let batch = self.batch()? as f64;
        let tokens = positive(&self.seq)? * batch;
        let devices = positive(&self.n_gpus)?;
        if let Some(rate) = positive(&self.tokens_per_s_per_gpu) {
            return Some(tokens / (rate * devices));
        }
        // Operations as papers count them: six for each weight of a layer and token, and those of attention.
        let rate = positive(&self.tflops_per_gpu)? * 1e12;
        let (layers, hidden) = (positive(&self.layers)?, positive(&self.hidden)?);
        let (seq, vocab) = (positive(&self.seq)?, positive(&self.vocab)?);
        let ffn = positive(&self.ffn).unwrap_or(4.0 * hidden);
        let heads = positive(&self.heads)?;
        let groups = positive(&self.kv_heads);
        let matrices = if groups.is_some() { 3.0 } else { 2.0 };
        let attention = 2.0 * hidden * hidden * (1.0 + groups.unwrap_or(heads) / heads);
        let per_token = layers * (attention + matrices * hidden * ffn + 2.0 * seq * hidden) + hidden * vocab;
        let passes = if self.tflops_kind.starts_with("hardware") { 8.0 } else { 6.0 };
        Some(passes * per_token * tokens / (rate * devices))
    }

    /// Sequences in a step, of all devices.
    pub(super) fn batch(&self) -> Option<usize> {
        whole(&self.global_batch_seqs).or_else(|| Some(self.local_batch()? * whole(&self.dp)?))
    }

    /// Sequences in a step of one replica of the model, where a row says that instead of a microbatch.
    pub(super) fn local_batch(&self) -> Option<usize> {
        whole(self.micro_batch.strip_prefix("local batch ")?)
    }

    pub fn measured_bytes(&self) -> Option<f64> {
        positive(&self.mem_gib_per_gpu).map(|gib| gib * f64::from(1 << 30))
    }

    /// Whether the run was stopped by a lack of memory.
    pub fn ran_out(&self) -> bool {
        self.status.starts_with("OOM")
    }
}

/// A number above zero.
pub(super) fn positive(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0)
}

/// A whole number above zero.
pub(super) fn whole(text: &str) -> Option<usize> {
    positive(text).filter(|number| number.fract() == 0.0 && *number < 1e9).map(|number| number as usize)
}
