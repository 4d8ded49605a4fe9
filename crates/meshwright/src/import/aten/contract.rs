//! Products of matrices, convolutions and attention.

use smallvec::{SmallVec, smallvec};

use super::call::{Call, Made};
use super::elementwise::{is_one, scaled};
use super::merged::{columns, rows, single};
use crate::program::{Attention, AttentionGrad, Convolution, DType, Dims, Direction, Op, Shape, Type, ValueId, Values};

pub(super) fn mm(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let made = product(call, 0, 1, false)?;
    let made = call.builder.reshape(made, &ty.shape);
    call.one(made)
}

pub(super) fn bmm(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let made = product(call, 0, 1, true)?;
    let made = call.builder.reshape(made, &ty.shape);
    call.one(made)
}

/// `beta * self + alpha * left * right`.
pub(super) fn addmm(call: &mut Call<'_>) -> Made {
    added_product(call, false)
}

pub(super) fn baddbmm(call: &mut Call<'_>) -> Made {
    added_product(call, true)
}

fn added_product(call: &mut Call<'_>, batched: bool) -> Made {
    let ty = call.result(0)?;
    let made = product(call, 1, 2, batched)?;
    // Factors are no numbers of 16 bits, nor is what they multiply.
    let is_plain = is_one(call.operand(3)) && is_one(call.operand(4));
    let wide = if is_plain { ty.dtype } else { call.wide(ty.dtype) };
    let made = call.builder.convert(made, wide);
    let mut made = scaled(call, 4, made)?;
    if call.float_or(3, 1.0)? != 0.0 {
        // A number for every column is the same for all rows, however these are put together.
        let is_row = call.tensor(0).is_ok_and(|sum| call.rank(sum) <= 1);
        made = if is_row { made } else { call.builder.reshape(made, &ty.shape) };
        let sum = call.like(0, &call.builder.ty(made))?;
        let sum = scaled(call, 3, sum)?;
        made = call.builder.plus(sum, made);
    }
    let made = call.builder.convert(made, ty.dtype);
    let made = call.builder.reshape(made, &ty.shape);
    call.one(made)
}

/// Matrices, or stacks of them, or vectors. Rows that were several dimensions are so in the result.
fn product(call: &mut Call<'_>, left: usize, right: usize, batched: bool) -> Result<ValueId, String> {
    let ty = call.result(0)?;
    let (left, right) = (call.tensor(left)?, call.tensor(right)?);
    let (left, right) = (call.builder.convert(left, ty.dtype), call.builder.convert(right, ty.dtype));
    // `einsum` makes stacks of a single matrix, whose rows may be several dimensions as those of any other.
    let is_single = batched && [left, right].iter().all(|&value| call.shape(value).first() == Some(&1));
    let (left, right) = if is_single { (single(call, left), single(call, right)) } else { (left, right) };
    let batched = batched && !is_single;
    let batch: &[usize] = if batched { &[0] } else { &[] };
    let left_dim = call.rank(left).checked_sub(1).ok_or("a product needs a dimension")?;
    if let Some(inner) = columns(call, left)
        && let Some(other) = rows(call, right)
        && inner.sizes == other.sizes
    {
        let summed: Vec<usize> = (0..inner.sizes.len()).collect();
        return Ok(call.builder.dot(inner.value, other.value, [&[], &[]], [&summed, &summed], ty.dtype));
    }
    if let Some(outer) = rows(call, left).filter(|_| !batched) {
        let summed = outer.sizes.len();
        return Ok(call.builder.dot(outer.value, right, [&[], &[]], [&[summed], &[0]], ty.dtype));
    }
    Ok(call.builder.dot(left, right, [batch, batch], [&[left_dim], &[batch.len()]], ty.dtype))
}

// Convolutions.

/// What a convolution of PyTorch is, for its input and kernel, and the kernel as programs have it.
struct Plan {
    convolution: Convolution,
    groups: usize,
    is_transposed: bool,
    rank: usize,
}

/// Places are those of strides, padding, dilation, transposed, output padding and groups.
fn plan(call: &Call<'_>, input: ValueId, kernel: ValueId, first: usize) -> Result<Plan, String> {
    let rank = call.rank(input).checked_sub(2).ok_or("a convolution needs batch and features")?;
    let strides = call.spread(first, rank, 1)?;
    let pads = call.spread(first + 1, rank, 0)?;
    let dilation = call.spread(first + 2, rank, 1)?;
    let is_transposed = call.flag(first + 3);
    let more = call.spread(first + 4, rank, 0)?;
    let groups = call.int(first + 5)?.max(1) as usize;
    let kernel_shape = call.shape(kernel);
    let spatial: Dims = (2..2 + rank).collect();
    let ones: Shape = SmallVec::from_elem(1, rank);
    let sizes = |values: &[i64]| values.iter().map(|&value| value.max(1) as usize).collect::<Shape>();
    let padding = (0..rank)
        .map(|dim| {
            if !is_transposed {
                return (pads[dim], pads[dim]);
            }
            let reach = dilation[dim] * (kernel_shape[2 + dim] as i64 - 1);
            (reach - pads[dim], reach - pads[dim] + more[dim])
        })
        .collect();
    let convolution = Convolution {
        strides: if is_transposed { ones.clone() } else { sizes(&strides) },
        padding,
        lhs_dilation: if is_transposed { sizes(&strides) } else { ones },
        rhs_dilation: sizes(&dilation),
        reversal: SmallVec::from_elem(is_transposed, rank),
        input_batch: 0,
        input_feature: 1,
        input_spatial: spatial.clone(),
        kernel_input_feature: usize::from(!is_transposed),
        kernel_output_feature: usize::from(is_transposed),
        kernel_spatial: spatial.clone(),
        output_batch: 0,
        output_feature: 1,
        output_spatial: spatial,
        feature_groups: groups,
        batch_groups: 1,
        precision: SmallVec::new(),
        dtype: call.builder.dtype(input),
    };
    Ok(Plan { convolution, groups, is_transposed, rank })
}

impl Plan {
    fn apply(&self, call: &mut Call<'_>, input: ValueId, kernel: ValueId) -> ValueId {
        let kernel = if self.is_transposed && self.groups > 1 { self.regrouped(call, kernel) } else { kernel };
        call.builder.convolution(input, kernel, self.convolution.clone())
    }

    /// A kernel of (inputs, outputs of a group) as one of (inputs of a group, outputs).
    fn regrouped(&self, call: &mut Call<'_>, kernel: ValueId) -> ValueId {
        let shape = call.shape(kernel);
        let (inputs, outputs) = (shape[0] / self.groups, shape[1]);
        let mut apart = vec![self.groups, inputs, outputs];
        apart.extend(&shape[2..]);
        let kernel = call.builder.reshape(kernel, &apart);
        let mut order = vec![1, 0, 2];
        order.extend(3..3 + self.rank);
        let kernel = call.builder.transpose(kernel, &order);
        let mut together = vec![inputs, self.groups * outputs];
        together.extend(&shape[2..]);
        call.builder.reshape(kernel, &together)
    }
}

pub(super) fn convolution(call: &mut Call<'_>) -> Made {
    let ty = call.result(0)?;
    let (input, kernel) = (call.tensor(0)?, call.tensor(1)?);
    let plan = plan(call, input, kernel, 3)?;
    let mut made = plan.apply(call, input, kernel);
    if let Some(bias) = call.optional(2)? {
        let bias = call.builder.broadcast(bias, &ty.shape, &[1]);
        made = call.builder.plus(made, bias);
    }
    call.one(made)
}

pub(super) fn convolution_backward(call: &mut Call<'_>) -> Made {
    let [gradient, input, kernel] = [call.tensor(0)?, call.tensor(1)?, call.tensor(2)?];
    let plan = plan(call, input, kernel, 4)?;
    let wanted = call.flags(10);
    let wants = |index: usize| wanted.get(index).copied().unwrap_or(false);
    let of: Vec<ValueId> =
        [(0, input), (1, kernel)].iter().filter(|(index, _)| wants(*index)).map(|row| row.1).collect();
    let mut found = call.pullback(&of, gradient, |call| Ok(plan.apply(call, input, kernel)))?.into_iter();
    let mut made = Values::new();
    for index in 0..2 {
        made.push(if wants(index) { found.next().unwrap_or(gradient) } else { gradient });
    }
    let dims: Dims = (0..call.rank(gradient)).filter(|&dim| dim != 1).collect();
    made.push(if wants(2) { call.builder.sum(gradient, &dims) } else { gradient });
    Ok(made)
}

// Attention.

/// Places are those of the bias, whether it is causal, and the scale.
struct Places {
    bias: Option<usize>,
    causal: Option<usize>,
    scale: usize,
}

/// `meshwright::attention(query, key, value, bias, scale, causal)`.
pub(super) fn attention(call: &mut Call<'_>) -> Made {
    attend(call, &Places { bias: Some(3), causal: Some(5), scale: 4 }, [0, 1])
}

/// `_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout, causal, *, mask, scale)`.
pub(super) fn flash_for_cpu(call: &mut Call<'_>) -> Made {
    attend(call, &Places { bias: Some(5), causal: Some(4), scale: 6 }, [0, 1])
}

/// `_scaled_dot_product_flash_attention(query, key, value, dropout, causal, return_mask, *, scale)`.
pub(super) fn flash(call: &mut Call<'_>) -> Made {
    attend(call, &Places { bias: None, causal: Some(4), scale: 6 }, [0, 1])
}

/// `_scaled_dot_product_efficient_attention(query, key, value, bias, with_statistics, dropout, causal, *, scale)`.
pub(super) fn efficient(call: &mut Call<'_>) -> Made {
    attend(call, &Places { bias: Some(3), causal: Some(6), scale: 7 }, [0, 1])
}

/// `_scaled_dot_product_cudnn_attention(query, key, value, bias, with_statistics, dropout, causal, return_mask, *, scale)`.
pub(super) fn cudnn(call: &mut Call<'_>) -> Made {
    attend(call, &Places { bias: Some(3), causal: Some(6), scale: 8 }, [0, 1])
}

fn scale(call: &Call<'_>, place: usize, query: ValueId) -> Result<f64, String> {
    let width = call.shape(query).last().copied().unwrap_or(1).max(1);
    call.float_or(place, 1.0 / (width as f64).sqrt())
}

/// Output and statistics; kernels have more results, of their generators, which nobody reads.
fn attend(call: &mut Call<'_>, places: &Places, [output, statistics]: [usize; 2]) -> Made {
    let (operands, causal) = attended(call, places, [0, 1, 2])?;
    let scale = scale(call, places.scale, operands[0])?;
    let attention = Attention { scale, causal, bias: operands.len() > 3, statistics: true };
    let made = call.builder.attention(&operands, attention);
    let count = call.node.types.len();
    let mut results: Values = smallvec![made[0]; count];
    results[output] = made[0];
    if let Some(Some(ty)) = call.node.types.get(statistics).cloned() {
        // Some kernels pad their statistics, or leave them out.
        results[statistics] = if call.shape(made[1]) == ty.shape { made[1] } else { call.builder.full(&ty, 0.0) };
    }
    for (index, ty) in call.node.types.clone().iter().enumerate().skip(2) {
        if let Some(ty) = ty {
            results[index] = call.builder.full(ty, 0.0);
        }
    }
    Ok(results)
}

/// Query, key and value with the bias, which has the dimensions of the scores or ones; and whether later keys are hidden.
fn attended(call: &mut Call<'_>, places: &Places, inputs: [usize; 3]) -> Result<(Vec<ValueId>, bool), String> {
    let mut operands = inputs.iter().map(|&place| call.tensor(place)).collect::<Result<Vec<_>, _>>()?;
    if let Some(bias) = places.bias.map(|place| call.optional(place)).transpose()?.flatten() {
        let mut shape = call.shape(bias).to_vec();
        while shape.len() < 4 {
            shape.insert(0, 1);
        }
        let bias = call.builder.reshape(bias, &shape);
        let is_mask = call.builder.dtype(bias) == DType::Bool;
        let dtype = call.builder.dtype(operands[0]);
        operands.push(if is_mask { bias } else { call.builder.convert(bias, dtype) });
    }
    let causal = places.causal.is_some_and(|place| call.flag(place));
    let [queries, keys] = [0, 1].map(|index| call.shape(operands[index])[2]);
    if causal && queries != keys {
        // PyTorch counts queries from the first key on, programs from the last one back.
        if operands.len() > 3 {
            return Err("a mask besides a causal one is not known".to_owned());
        }
        let whole = Type::new(DType::I64, &[1, 1, queries, keys]);
        let (rows, columns) = (call.builder.iota(&whole, 2), call.builder.iota(&whole, 3));
        operands.push(call.builder.compare(Direction::LessOrEqual, columns, rows));
    }
    Ok((operands, causal && queries == keys))
}

/// `meshwright::attention_backward`: gradient, inputs, bias, output, statistics, scale, causal, whether the bias wants one.
pub(super) fn attention_backward(call: &mut Call<'_>) -> Made {
    let places = Places { bias: Some(4), causal: Some(8), scale: 7 };
    let wants_bias = call.flag(9);
    attend_backward(call, &places, [1, 2, 3], [5, 6], wants_bias)
}

/// `(gradient, query, key, value, out, statistics, dropout, causal, *, mask, scale)`.
pub(super) fn flash_for_cpu_backward(call: &mut Call<'_>) -> Made {
    let places = Places { bias: Some(8), causal: Some(7), scale: 9 };
    attend_backward(call, &places, [1, 2, 3], [4, 5], false)
}

/// `(gradient, query, key, value, out, statistics, cum_q, cum_k, max_q, max_k, dropout, causal, seed, offset, *, scale)`.
pub(super) fn flash_backward(call: &mut Call<'_>) -> Made {
    let places = Places { bias: None, causal: Some(11), scale: 14 };
    attend_backward(call, &places, [1, 2, 3], [4, 5], false)
}

/// `(gradient, query, key, value, bias, out, statistics, seed, offset, dropout, wanted, causal, *, scale)`.
pub(super) fn efficient_backward(call: &mut Call<'_>) -> Made {
    let places = Places { bias: Some(4), causal: Some(11), scale: 12 };
    let wants_bias = call.flags(10).get(3).copied().unwrap_or(false);
    attend_backward(call, &places, [1, 2, 3], [5, 6], wants_bias)
}

/// `(gradient, query, key, value, out, statistics, seed, offset, bias, cum_q, cum_k, max_q, max_k, dropout, causal, *,
/// scale)`.
pub(super) fn cudnn_backward(call: &mut Call<'_>) -> Made {
    let places = Places { bias: Some(8), causal: Some(14), scale: 15 };
    attend_backward(call, &places, [1, 2, 3], [4, 5], false)
}

fn attend_backward(
    call: &mut Call<'_>,
    places: &Places,
    inputs: [usize; 3],
    [output, statistics]: [usize; 2],
    wants_bias: bool,
) -> Made {
    let (mut operands, causal) = attended(call, places, inputs)?;
    let scale = scale(call, places.scale, operands[0])?;
    let bias = operands.len() > 3;
    let (output, given, gradient) = (call.tensor(output)?, call.tensor(statistics)?, call.tensor(0)?);
    let expected = call.shape(operands[0])[..3].to_vec();
    let statistics = if call.shape(given)[..] == expected[..] {
        given
    } else {
        // A kernel that pads its statistics has them computed again.
        let attention = Attention { scale, causal, bias, statistics: true };
        call.builder.attention(&operands, attention)[1]
    };
    let gradient = call.builder.convert(gradient, call.builder.dtype(output));
    operands.extend([output, statistics, gradient]);
    let bias_gradient = wants_bias && bias;
    let op = AttentionGrad { scale, causal, bias, bias_gradient };
    let mut made = call.builder.op(Op::AttentionGrad(Box::new(op)), &operands, &[]);
    if let Some(Some(ty)) = call.node.types.get(3).cloned() {
        if made.len() < 4 {
            made.push(call.builder.full(&ty, 0.0));
        } else {
            made[3] = call.builder.reshape(made[3], &ty.shape);
        }
    } else if made.len() < 4 {
        made.push(made[0]);
    }
    Ok(made)
}
