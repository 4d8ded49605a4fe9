//! Attention and its gradient: everything in `f64`, each result rounded once.

use std::sync::Arc;

use crate::program::{Attention, AttentionGrad, Type};

use super::contract::finish;
use super::elementwise::maximum;
use super::shape::strides;
use super::tensor::{Data, Tensor};

pub(super) fn attention(
    operands: &[Arc<Tensor>],
    op: &Attention,
    types: &[&Type],
    wide: bool,
) -> Result<Vec<Arc<Tensor>>, String> {
    let inputs = Inputs::read(operands, op.scale, op.causal, op.bias)?;
    let (keys, depth) = (inputs.keys, inputs.depth);
    let mut output = vec![0.0; types[0].elements()];
    let mut statistics = vec![f64::NEG_INFINITY; inputs.rows()];
    let mut scores = vec![0.0; keys];
    for row in 0..inputs.rows() {
        inputs.scores(row, &mut scores);
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, maximum);
        if largest == f64::NEG_INFINITY {
            continue;
        }
        scores.iter_mut().for_each(|score| *score = libm::exp(*score - largest));
        let total: f64 = scores.iter().sum();
        statistics[row] = largest + libm::log(total);
        let output = &mut output[row * depth..][..depth];
        let values = &inputs.value[inputs.group(row) * keys * depth..];
        for (score, value) in scores.iter().zip(values.chunks_exact(depth.max(1))) {
            add_scaled(output, score / total, value);
        }
    }
    let results = [output, statistics].into_iter().zip(types);
    results.map(|(values, ty)| Ok(Arc::new(finish(Data::Float(values), ty, wide)?))).collect()
}

pub(super) fn attention_grad(
    operands: &[Arc<Tensor>],
    op: &AttentionGrad,
    types: &[&Type],
    wide: bool,
) -> Result<Vec<Arc<Tensor>>, String> {
    let inputs = Inputs::read(operands, op.scale, op.causal, op.bias)?;
    let (keys, width, depth) = (inputs.keys, inputs.width, inputs.depth);
    let [output, statistics, output_gradient] = &operands[3 + usize::from(op.bias)..] else {
        return Err("the gradient of attention reads the output, its statistics and its gradient".to_owned());
    };
    let (output, statistics) = (output.floats()?, statistics.floats()?);
    let output_gradient = output_gradient.floats()?;
    let mut gradients: Vec<Vec<f64>> = types.iter().map(|ty| vec![0.0; ty.elements()]).collect();
    let mut scores = vec![0.0; keys];
    for (row, &statistic) in statistics.iter().enumerate() {
        if statistic == f64::NEG_INFINITY {
            continue;
        }
        inputs.scores(row, &mut scores);
        let output_gradient = &output_gradient[row * depth..][..depth];
        let along_output = dot(&output[row * depth..][..depth], output_gradient);
        for (column, score) in scores.iter().enumerate() {
            let weight = libm::exp(score - statistic);
            let position = inputs.group(row) * keys + column;
            let (key, value) = (position * width, position * depth);
            let score_gradient = weight * (dot(output_gradient, &inputs.value[value..][..depth]) - along_output);
            let scaled = op.scale * score_gradient;
            add_scaled(&mut gradients[0][row * width..][..width], scaled, &inputs.key[key..][..width]);
            add_scaled(&mut gradients[1][key..][..width], scaled, &inputs.query[row * width..][..width]);
            add_scaled(&mut gradients[2][value..][..depth], weight, output_gradient);
            if let (Some(bias), Some(gradient)) = (&inputs.bias, gradients.get_mut(3)) {
                gradient[inputs.bias_position(bias, row, column)] += score_gradient;
            }
        }
    }
    let results = gradients.into_iter().zip(types);
    results.map(|(values, ty)| Ok(Arc::new(finish(Data::Float(values), ty, wide)?))).collect()
}

/// What the scores are made of. A row is one query of one head of one batch entry.
struct Inputs<'t> {
    query: &'t [f64],
    key: &'t [f64],
    value: &'t [f64],
    bias: Option<Bias<'t>>,
    scale: f64,
    causal: bool,
    batch: usize,
    heads: usize,
    groups: usize,
    queries: usize,
    keys: usize,
    width: usize,
    depth: usize,
}

struct Bias<'t> {
    data: &'t Data,
    /// How far apart neighbors are along each dimension of the scores; 0 where the bias is broadcast.
    steps: Vec<usize>,
}

impl<'t> Inputs<'t> {
    fn read(operands: &'t [Arc<Tensor>], scale: f64, causal: bool, bias: bool) -> Result<Inputs<'t>, String> {
        let shape = |index: usize| -> Result<[usize; 4], String> {
            operands[index].ty.shape[..].try_into().map_err(|_| "attention reads four dimensions".to_owned())
        };
        let [batch, heads, queries, width] = shape(0)?;
        let [_, groups, keys, _] = shape(1)?;
        let [_, _, _, depth] = shape(2)?;
        let bias = operands.get(3).filter(|_| bias).map(|bias| {
            let steps = strides(&bias.ty.shape).into_iter().zip(&bias.ty.shape);
            Bias {
                data: &bias.data,
                steps: steps.map(|(step, &size)| if size == 1 { 0 } else { step as usize }).collect(),
            }
        });
        let (query, key, value) = (operands[0].floats()?, operands[1].floats()?, operands[2].floats()?);
        Ok(Inputs { query, key, value, bias, scale, causal, batch, heads, groups, queries, keys, width, depth })
    }

    fn rows(&self) -> usize {
        self.batch * self.heads * self.queries
    }

    /// Which group of keys a row reads, counted over the whole batch.
    fn group(&self, row: usize) -> usize {
        let head = row / self.queries;
        head / self.heads * self.groups + head % self.heads / (self.heads / self.groups)
    }

    /// The scaled, biased and masked scores of a row.
    fn scores(&self, row: usize, scores: &mut [f64]) {
        let query = &self.query[row * self.width..][..self.width];
        let keys = &self.key[self.group(row) * self.keys * self.width..];
        let last = row % self.queries + self.keys;
        for (column, score) in scores.iter_mut().enumerate() {
            let score_before = self.scale * dot(query, &keys[column * self.width..][..self.width]);
            let bias = self.bias.as_ref().map(|bias| (bias.data, self.bias_position(bias, row, column)));
            *score = match bias {
                _ if self.causal && column + self.queries > last => f64::NEG_INFINITY,
                Some((Data::Float(bias), position)) => score_before + bias[position],
                Some((Data::Integer(mask), position)) if mask[position] == 0 => f64::NEG_INFINITY,
                Some((Data::Integer(_) | Data::Raw(_), _)) | None => score_before,
            };
        }
    }

    fn bias_position(&self, bias: &Bias<'_>, row: usize, column: usize) -> usize {
        let head = row / self.queries;
        let position = [head / self.heads, head % self.heads, row % self.queries, column];
        position.iter().zip(&bias.steps).map(|(position, step)| position * step).sum()
    }
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(a, b)| a * b).sum()
}

fn add_scaled(sum: &mut [f64], factor: f64, values: &[f64]) {
    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += factor * value);
}
