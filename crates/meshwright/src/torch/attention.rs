//! What the attention of `meshwright.torch.ops` needs while it runs: keys and values that groups of heads share are
//! repeated for each, and where PyTorch has no kernel for it, scores are written out.

use super::scratch::{StridesOf, is_straight};
use crate::profile::reshaped;
use crate::program::{DType, Op, OpId, Program, Type, ValueId};

pub(super) fn of_attention(program: &Program, op: OpId, strides: StridesOf<'_>) -> usize {
    let operation = &program.ops[op];
    let (has_bias, causal, is_gradient) = match &operation.op {
        Op::Attention(attention) => (attention.bias, attention.causal, false),
        Op::AttentionGrad(attention) => (attention.bias, attention.causal, true),
        _ => return 0,
    };
    let [query, key, value] = [0, 1, 2].map(|index| program.ty(operation.operands[index]));
    let is_grouped = query.shape[1] != key.shape[1];
    let is_fused = !has_bias && (!causal || query.shape[2] == key.shape[2]) && value.shape[3] == query.shape[3];
    if is_fused {
        let repeated = if is_grouped { spread(key, query) + spread(value, query) } else { 0 };
        // Operands whose heads do not lie next to each other are copied; what is repeated is a copy already.
        let lies = |index: usize| strides(operation.operands[index]).last().is_none_or(|&stride| stride == 1);
        let whole: &[usize] = match (is_gradient, is_grouped) {
            (false, false) => &[0, 1, 2],
            (false, true) => &[0],
            (true, false) => &[0, 1, 2, 3, 5],
            (true, true) => &[0, 3, 5],
        };
        let copied = whole.iter().filter(|&&index| query.shape[3] > 1 && !lies(index));
        let copied: usize = copied.map(|&index| program.ty(operation.operands[index]).bytes()).sum();
        let blocks = copied + blocks(query, key, is_gradient);
        return match (is_gradient, is_grouped) {
            // When gradients are added up over groups of heads, the kernel has ended.
            (true, true) => 2 * repeated + blocks.saturating_sub(key.bytes() + value.bytes()),
            (false, true) => repeated + blocks,
            (_, false) => blocks,
        };
    }
    let plain = Plain { program, op, strides, size: wide(query.dtype), is_grouped };
    let made = operation.results.iter().map(|&result| program.ty(result).bytes()).sum();
    let most = if is_gradient { plain.backward() } else { plain.forward() };
    most.saturating_sub(made)
}

/// What PyTorch's kernel for CPUs has of scores at a time, for one thread: those of some queries and some keys, and sums of
/// these queries.
fn blocks(query: &Type, key: &Type, is_gradient: bool) -> usize {
    let (queries, keys, width) = (query.shape[2], key.shape[2], query.shape[3]);
    let block = match queries {
        0..192 => 32,
        192..768 => 64,
        _ => 256,
    };
    let (rows, columns) = (queries.min(block), keys.min(512));
    let numbers = if is_gradient { rows * (2 * columns + 1) } else { rows * (columns + 2 + width) };
    numbers * wide(query.dtype)
}

/// The bytes of an element in which scores are computed.
fn wide(dtype: DType) -> usize {
    if dtype == DType::F64 { 8 } else { 4 }
}

/// The bytes of keys or values for all heads of queries.
fn spread(shared: &Type, query: &Type) -> usize {
    shared.bytes() / shared.shape[1].max(1) * query.shape[1]
}

/// An attention that is written out. What it has in memory is told with what it makes.
struct Plain<'a> {
    program: &'a Program,
    op: OpId,
    strides: StridesOf<'a>,
    /// Bytes of an element that is computed with.
    size: usize,
    is_grouped: bool,
}

impl Plain<'_> {
    fn value(&self, index: usize) -> ValueId {
        self.program.ops[self.op].operands[index]
    }

    fn operand(&self, index: usize) -> &Type {
        self.program.ty(self.value(index))
    }

    fn converted(&self, ty: &Type) -> usize {
        if ty.dtype.stored_bytes() == self.size { 0 } else { ty.elements() * self.size }
    }

    /// What a product needs of an operand: it is converted, and copied where batch and heads are not one dimension.
    fn read(&self, index: usize) -> usize {
        let (ty, strides) = (self.operand(index), (self.strides)(self.value(index)));
        let merged = [ty.shape[0] * ty.shape[1], ty.shape[2], ty.shape[3]];
        let copied = if reshaped(&ty.shape, &strides, &merged).is_some() { 0 } else { ty.elements() * self.size };
        self.converted(ty) + copied
    }

    /// The same of keys or values, for all heads that share them.
    fn read_shared(&self, index: usize) -> usize {
        if !self.is_grouped {
            return self.read(index);
        }
        let ty = self.operand(index);
        if ty.dtype.stored_bytes() == self.size { 0 } else { self.spread_wide(index) }
    }

    fn repeated(&self, index: usize) -> usize {
        if self.is_grouped { spread(self.operand(index), self.operand(0)) } else { 0 }
    }

    fn spread_wide(&self, index: usize) -> usize {
        let ty = self.operand(index);
        ty.elements() / ty.shape[1].max(1) * self.operand(0).shape[1] * self.size
    }

    /// One number for each query and head.
    fn rows(&self) -> usize {
        self.operand(0).shape[..3].iter().product()
    }

    fn scores(&self) -> usize {
        self.rows() * self.operand(1).shape[2] * self.size
    }

    /// What says which scores count.
    fn masked(&self) -> usize {
        let (has_bias, causal) = match &self.program.ops[self.op].op {
            Op::Attention(attention) => (attention.bias, attention.causal),
            Op::AttentionGrad(attention) => (attention.bias, attention.causal),
            _ => (false, false),
        };
        let bias = match has_bias.then(|| self.operand(3)) {
            Some(ty) if ty.dtype == DType::Bool => ty.elements(),
            Some(ty) => self.converted(ty),
            None => 0,
        };
        let seen = if causal { self.operand(0).shape[2] * self.operand(1).shape[2] } else { 0 };
        bias.max(seen)
    }

    /// What is taken besides while a result is finished, of heads for every query or of shared ones: those are added up,
    /// and what has another type or order than an operand is copied.
    fn finishing(&self, ty: &Type, index: usize, is_shared: bool) -> usize {
        let model = self.operand(index);
        let is_alike = ty.shape == model.shape && !is_straight(&model.shape, &(self.strides)(self.value(index)));
        let copied = if self.converted(ty) > 0 || is_alike { ty.bytes() } else { 0 };
        if !is_shared || !self.is_grouped {
            return copied;
        }
        let summed = ty.elements() * self.size;
        summed.max((summed + copied).saturating_sub(self.spread_wide(index)))
    }

    fn forward(&self) -> usize {
        let (scores, rows) = (self.scores(), self.rows() * self.size);
        let output = self.program.ty(self.program.ops[self.op].results[0]);
        let of_output = output.elements() * self.size;
        [
            self.repeated(1) + scores + (self.read(0) + self.read_shared(1)).max(self.masked()),
            // The sum of exponentials has these written out, and what is largest in each row.
            2 * scores + 2 * rows,
            scores + rows + of_output + (self.repeated(2) + self.read_shared(2)).max(self.finishing(output, 0, false)),
        ]
        .into_iter()
        .max()
        .unwrap_or(0)
    }

    fn backward(&self) -> usize {
        let operation = &self.program.ops[self.op];
        let (scores, last) = (self.scores(), operation.operands.len() - 1);
        let made = |result: usize| self.program.ty(operation.results[result]);
        let [gradient, output] = [last, last - 2].map(|index| self.operand(index));
        let [of_query, of_key, of_value] = [0, 1, 2].map(|result| made(result).bytes());
        let [wide_query, wide_key, wide_value] = [0, 1, 2].map(|index| self.spread_wide(index));
        let [end_query, end_key, end_value] = [0, 1, 2].map(|index| self.finishing(made(index), index, index > 0));
        let repeated = self.repeated(1) + self.repeated(2);
        let widened = self.converted(gradient);
        // The gradient of a bias may be that of the scores.
        let of_bias = operation.results.get(3).map_or(0, |&result| {
            let ty = self.program.ty(result);
            let is_cut = ty.elements() * self.size < scores;
            if is_cut || self.converted(ty) > 0 { ty.bytes() } else { 0 }
        });
        [
            repeated + scores + (self.read(0) + self.read_shared(1)).max(self.masked()),
            repeated + scores + wide_value + self.read(last).max(widened + end_value),
            repeated + 2 * scores + of_value + self.read(last) + self.read_shared(2),
            repeated + 2 * scores + of_value + widened + self.converted(output) + output.elements() * self.size,
            self.repeated(1) + scores + of_value + wide_query + self.read_shared(1).max(end_query),
            scores + of_value + of_query + wide_key + self.read(0).max(end_key),
            scores + of_value + of_query + of_key + of_bias,
        ]
        .into_iter()
        .max()
        .unwrap_or(0)
    }
}
