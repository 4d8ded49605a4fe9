//! T5, version 1.0: an encoder, and a decoder that attends to what it made.

use super::layers::{dropout, linear, linear_heads, logits, merge_heads, relu, rms_norm};
use super::loss::cross_entropy;
use super::settings::Settings;
use super::step::Step;
use crate::program::{Attention, DType, Literal, Program, Type, ValueId};

const EPSILON: f64 = 1e-6;

/// Rows of the table of position biases.
const BUCKETS: usize = 32;
/// All larger distances share the last bucket.
const LARGEST_DISTANCE: usize = 128;

pub(super) fn build(settings: &Settings) -> Result<Program, String> {
    let mut step = Step::new("t5", settings);
    let target_type = Type::new(DType::I32, &[settings.batch, settings.target_seq]);
    let tokens = step.input("tokens", Type::new(DType::I32, &[settings.batch, settings.seq]));
    // What the decoder reads: the targets moved by one position.
    let decoder_tokens = step.input("decoder_tokens", target_type.clone());
    let targets = step.input("targets", target_type);
    let embedding = step.parameter("embedding", &[settings.vocab, settings.hidden]);

    let encoder = Stack { name: "encoder", layers: settings.layers, seq: settings.seq, encoded: None };
    let encoded = encoder.build(&mut step, embedding, tokens);
    let decoder =
        Stack { name: "decoder", layers: settings.decoder_layers, seq: settings.target_seq, encoded: Some(encoded) };
    let decoded = decoder.build(&mut step, embedding, decoder_tokens);

    let loss = step.scoped("head", |step| {
        let scale = if settings.tied { (settings.hidden as f64).powf(-0.5) } else { 1.0 };
        let scaled = step.builder.times_number(decoded, scale);
        let logits = logits(step, scaled, embedding);
        cross_entropy(step, logits, targets)
    });
    step.finish(loss)
}

/// The encoder or the decoder.
struct Stack {
    name: &'static str,
    layers: usize,
    seq: usize,
    /// What the encoder made, in the decoder.
    encoded: Option<ValueId>,
}

impl Stack {
    fn build(&self, step: &mut Step<'_>, embedding: ValueId, tokens: ValueId) -> ValueId {
        let stack = self.name;
        let (mut x, bias) = step.scoped(stack, |step| {
            let x = step.builder.take_rows(embedding, tokens);
            let x = dropout(step, &format!("{stack}.embed"), x);
            (x, self.position_bias(step))
        });
        for layer in 0..self.layers {
            let name = format!("{stack}.layers.{layer}");
            x = step.layer(&name, |step| self.block(step, &name, x, bias));
        }
        step.scoped(stack, |step| {
            let x = rms_norm(step, &format!("{stack}.norm"), x, EPSILON);
            dropout(step, &format!("{stack}.out"), x)
        })
    }

    fn block(&self, step: &mut Step<'_>, name: &str, x: ValueId, bias: ValueId) -> ValueId {
        let causal = self.encoded.is_some();
        let mut x = step.scoped("attn", |step| {
            let normal = rms_norm(step, &format!("{name}.norm1"), x, EPSILON);
            let mixed = attend(step, &format!("{name}.attn"), normal, normal, Some(bias), causal);
            step.builder.plus(x, mixed)
        });
        if let Some(encoded) = self.encoded {
            x = step.scoped("cross", |step| {
                let normal = rms_norm(step, &format!("{name}.norm2"), x, EPSILON);
                let mixed = attend(step, &format!("{name}.cross"), normal, encoded, None, false);
                step.builder.plus(x, mixed)
            });
        }
        step.scoped("mlp", |step| {
            let normal = rms_norm(step, &format!("{name}.norm3"), x, EPSILON);
            let up = linear(step, &format!("{name}.mlp.up"), normal, step.settings.ffn, false);
            let bent = relu(step, up);
            let bent = dropout(step, &format!("{name}.mlp.inner"), bent);
            let down = linear(step, &format!("{name}.mlp.down"), bent, step.settings.hidden, false);
            let down = dropout(step, &format!("{name}.mlp"), down);
            step.builder.plus(x, down)
        })
    }

    /// What is added to the scores of all layers, (1, heads, seq, seq): one number per head and
    /// bucket of distances.
    fn position_bias(&self, step: &mut Step<'_>) -> ValueId {
        let heads = step.settings.heads;
        let dtype = step.settings.dtype;
        // The gradient adds up many positions per bucket, so it is taken in the wider type.
        let table = step.stored_parameter(&format!("{}.position_bias", self.name), &[BUCKETS, heads]);
        let buckets = self.buckets(step);
        let b = &mut step.builder;
        let bias = b.take_rows(table, buckets);
        let bias = b.convert(bias, dtype);
        let bias = b.transpose(bias, &[2, 0, 1]);
        b.reshape(bias, &[1, heads, self.seq, self.seq])
    }

    /// The bucket of each query and key.
    fn buckets(&self, step: &mut Step<'_>) -> ValueId {
        let seq = self.seq;
        let both_ways = self.encoded.is_none();
        // A bucket depends only on how far the key is ahead, from `1 - seq` to `seq - 1`.
        let by_offset = (0..2 * seq - 1).map(|offset| bucket(offset as i64 + 1 - seq as i64, both_ways));
        let bytes: Vec<u8> = by_offset.flat_map(|bucket| (bucket as i32).to_le_bytes()).collect();
        let table = step.builder.literal(Literal::packed(Type::new(DType::I32, &[2 * seq - 1]), bytes));
        let ty = Type::new(DType::I32, &[seq, seq]);
        let query = step.builder.iota(&ty, 0);
        let key = step.builder.iota(&ty, 1);
        let ahead = step.builder.minus(key, query);
        let offset = step.builder.plus_number(ahead, (seq - 1) as f64);
        step.builder.take_rows(table, offset)
    }
}

/// The bucket of a key that stands `ahead` of the query. Near distances have one each, those further
/// off share one over ever longer stretches. Both ways, keys ahead have the second half of the
/// buckets; else they count as distance 0.
fn bucket(ahead: i64, both_ways: bool) -> usize {
    let (buckets, first) = match both_ways {
        true if ahead > 0 => (BUCKETS / 2, BUCKETS / 2),
        true => (BUCKETS / 2, 0),
        false => (BUCKETS, 0),
    };
    let distance = if both_ways { ahead.unsigned_abs() as usize } else { (-ahead).max(0) as usize };
    let near = buckets / 2;
    if distance < near {
        return first + distance;
    }
    let share = (distance as f64 / near as f64).ln() / (LARGEST_DISTANCE as f64 / near as f64).ln();
    // Where a bucket starts at a whole distance, rounding must not move it to the next one.
    let far = (share * (buckets - near) as f64 + 1e-9) as usize;
    first + (near + far).min(buckets - 1)
}

/// Attention from `x` to `source`. Scores are not scaled.
fn attend(
    step: &mut Step<'_>,
    name: &str,
    x: ValueId,
    source: ValueId,
    bias: Option<ValueId>,
    causal: bool,
) -> ValueId {
    let settings = step.settings;
    let query = linear_heads(step, &format!("{name}.query"), x, settings.heads, false);
    let key = linear_heads(step, &format!("{name}.key"), source, settings.heads, false);
    let value = linear_heads(step, &format!("{name}.value"), source, settings.heads, false);
    let mut operands = vec![query, key, value];
    operands.extend(bias);
    let attention = Attention { scale: 1.0, causal, bias: bias.is_some(), statistics: true };
    let mixed = step.builder.attention(&operands, attention)[0];
    let mixed = merge_heads(step, mixed);
    let out = linear(step, &format!("{name}.out"), mixed, settings.hidden, false);
    dropout(step, name, out)
}

#[cfg(test)]
mod tests {
    use super::bucket;

    /// The least distance of every bucket, which is where Hugging Face's T5 has it.
    #[track_caller]
    fn check(buckets: usize, first: usize, bucket: impl Fn(i64) -> usize, starts: &[i64]) {
        assert_eq!(bucket(1000), first + buckets - 1);
        let found = (1..1000).filter(|&distance| bucket(distance) != bucket(distance - 1));
        assert_eq!(found.collect::<Vec<_>>(), starts);
    }

    #[test]
    fn buckets_start_where_they_do_elsewhere() {
        let both_ways = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91];
        check(16, 0, |distance| bucket(-distance, true), &both_ways);
        check(16, 16, |distance| bucket(distance, true), &both_ways);
        let far = [16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113];
        let back: Vec<i64> = (1..16).chain(far).collect();
        check(32, 0, |distance| bucket(-distance, false), &back);
        check(1, 0, |distance| bucket(distance, false), &[]);
    }
}
