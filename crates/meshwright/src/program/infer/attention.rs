//! Attention and its gradient.

use smallvec::smallvec;

use super::Types;
use super::check::{accepts, has_rank, is_type, plural, same_dtype, take};
use crate::program::{Attention, AttentionGrad, DType, Type};

pub(super) fn attention(attention: &Attention, operands: &[&Type]) -> Result<Types, String> {
    let forward = Forward::read(attention.bias, 0, operands)?;
    let mut types: Types = smallvec![forward.output];
    types.extend(attention.statistics.then_some(forward.statistics));
    Ok(types)
}

pub(super) fn attention_grad(grad: &AttentionGrad, operands: &[&Type]) -> Result<Types, String> {
    let forward = Forward::read(grad.bias, 3, operands)?;
    let [output, statistics, output_gradient] = take(forward.others)?;
    is_type("the output", output, &forward.output)?;
    is_type("the statistics", statistics, &forward.statistics)?;
    is_type("the gradient of the output", output_gradient, &forward.output)?;
    let mut types: Types = operands[..3].iter().map(|&ty| ty.clone()).collect();
    match forward.bias {
        _ if !grad.bias_gradient => {}
        Some(bias) if bias.dtype != DType::Bool => types.push(bias.clone()),
        Some(bias) => return Err(format!("the bias `{bias}` has no gradient")),
        None => return Err("there is no bias to give the gradient of".to_owned()),
    }
    Ok(types)
}

/// What an attention has and what it gives.
struct Forward<'o, 't> {
    bias: Option<&'t Type>,
    /// The operands after its own.
    others: &'o [&'t Type],
    output: Type,
    statistics: Type,
}

impl<'o, 't> Forward<'o, 't> {
    /// Checks the query, the key, the value and the bias; that many others follow them.
    fn read(has_bias: bool, others: usize, operands: &'o [&'t Type]) -> Result<Forward<'o, 't>, String> {
        let own = 3 + usize::from(has_bias);
        if operands.len() != own + others {
            return Err(format!("expected {}, got {}", plural(own + others, "operand"), operands.len()));
        }
        let (own, others) = operands.split_at(own);
        let [query, key, value] = take(&own[..3])?;
        let bias = own.get(3).copied();
        accepts(query, query.dtype.is_float(), "float")?;
        for (what, operand) in [("the query", query), ("the key", key), ("the value", value)] {
            has_rank(what, operand, 4)?;
            same_dtype(query, operand)?;
        }
        let [batch, heads, queries] = [query.shape[0], query.shape[1], query.shape[2]];
        let [groups, keys, depth] = [value.shape[1], value.shape[2], value.shape[3]];
        if key.shape[..3] != value.shape[..3] {
            return Err(format!("the key `{key}` and the value `{value}` differ in batch, groups or keys"));
        }
        if query.shape[0] != key.shape[0] || query.shape[3] != key.shape[3] {
            return Err(format!("the query `{query}` and the key `{key}` differ in batch or width"));
        }
        if groups == 0 || heads % groups != 0 {
            return Err(format!("{heads} heads cannot share {groups} groups of keys"));
        }
        let scores = Type::new(query.dtype, &[batch, heads, queries, keys]);
        super::countable(&scores.with_dtype(DType::F32))?;
        if let Some(bias) = bias {
            has_rank("the bias", bias, 4)?;
            let fits = bias.shape.iter().zip(&scores.shape).all(|(&size, &score)| size == 1 || size == score);
            if !fits || (bias.dtype != query.dtype && bias.dtype != DType::Bool) {
                return Err(format!("the bias `{bias}` does not broadcast to the scores `{scores}`"));
            }
        }
        let wide = if query.dtype == DType::F64 { DType::F64 } else { DType::F32 };
        Ok(Forward {
            bias,
            others,
            output: query.with_shape(&[batch, heads, queries, depth]),
            statistics: Type::new(wide, &[batch, heads, queries]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use crate::program::*;

    #[test]
    fn attention() {
        let check_with = |bias, statistics, operands, expected| {
            let attention = Attention { scale: 1.0, causal: false, bias, statistics };
            check(Op::Attention(Box::new(attention)), operands, &[], expected);
        };
        let check = |bias, operands, expected| check_with(bias, false, operands, expected);
        check(false, "2x8x5x16xf32 2x4x7x16xf32 2x4x7x32xf32", "2x8x5x32xf32");
        check(true, "2x8x5x16xf32 2x8x7x16xf32 2x8x7x16xf32 1x1x5x7xf32", "2x8x5x16xf32");
        check(true, "2x8x5x16xf32 2x8x7x16xf32 2x8x7x16xf32 2x1x1x7xi1", "2x8x5x16xf32");
        check_with(false, true, "2x8x5x16xbf16 2x4x7x16xbf16 2x4x7x32xbf16", "2x8x5x32xbf16 2x8x5xf32");
        check_with(false, true, "2x8x5x16xf64 2x4x7x16xf64 2x4x7x32xf64", "2x8x5x32xf64 2x8x5xf64");
        check(true, "f32 f32 f32", "error: expected 4 operands, got 3");
        check(false, "f32 f32 f32", "error: the query must have rank 4, got `tensor<f32>`");
        let message = "error: 8 heads cannot share 3 groups of keys";
        check(false, "2x8x5x16xf32 2x3x7x16xf32 2x3x7x16xf32", message);
        let message = "error: 0 heads cannot share 0 groups of keys";
        check(false, "2x0x5x16xf32 2x0x7x16xf32 2x0x7x16xf32", message);
        let message = "error: the query `tensor<2x8x5x16xf32>` and the key `tensor<2x8x7x4xf32>` \
                       differ in batch or width";
        check(false, "2x8x5x16xf32 2x8x7x4xf32 2x8x7x16xf32", message);
        let message = "error: the key `tensor<2x8x7x16xf32>` and the value `tensor<2x8x6x16xf32>` \
                       differ in batch, groups or keys";
        check(false, "2x8x5x16xf32 2x8x7x16xf32 2x8x6x16xf32", message);
        let message = "error: the bias `tensor<1x1x5x6xf32>` does not broadcast to the scores `tensor<2x8x5x7xf32>`";
        check(true, "2x8x5x16xf32 2x8x7x16xf32 2x8x7x16xf32 1x1x5x6xf32", message);
        let message = "error: `tensor<1x1x4294967296x4294967296xf32>` has more elements than 63 bits can count";
        check(false, "1x1x4294967296x1xf32 1x1x4294967296x1xf32 1x1x4294967296x1xf32", message);
    }

    #[test]
    fn attention_grad() {
        let check = |bias, bias_gradient, operands: &str, expected: &str| {
            let grad = AttentionGrad { scale: 1.0, causal: false, bias, bias_gradient };
            check(Op::AttentionGrad(Box::new(grad)), operands, &[], expected);
        };
        let inputs = "2x8x5x16xbf16 2x4x7x16xbf16 2x4x7x32xbf16";
        let rest = "2x8x5x32xbf16 2x8x5xf32 2x8x5x32xbf16";
        check(false, false, &format!("{inputs} {rest}"), inputs);
        check(true, false, &format!("{inputs} 1x1x5x7xi1 {rest}"), inputs);
        check(true, true, &format!("{inputs} 1x8x1x7xbf16 {rest}"), &format!("{inputs} 1x8x1x7xbf16"));
        check(true, false, &format!("{inputs} {rest}"), "error: expected 7 operands, got 6");
        let message = "error: there is no bias to give the gradient of";
        check(false, true, &format!("{inputs} {rest}"), message);
        let message = "error: the bias `tensor<1x1x5x7xi1>` has no gradient";
        check(true, true, &format!("{inputs} 1x1x5x7xi1 {rest}"), message);
        let message = "error: the output must be `tensor<2x8x5x32xbf16>`, got `tensor<2x8x5x16xbf16>`";
        check(false, false, &format!("{inputs} 2x8x5x16xbf16 2x8x5xf32 2x8x5x32xbf16"), message);
        let message = "error: the statistics must be `tensor<2x8x5xf32>`, got `tensor<2x8x5xbf16>`";
        check(false, false, &format!("{inputs} 2x8x5x32xbf16 2x8x5xbf16 2x8x5x32xbf16"), message);
        let message = "error: the gradient of the output must be `tensor<2x8x5x32xbf16>`, got `tensor<2x8x5x32xf32>`";
        check(false, false, &format!("{inputs} 2x8x5x32xbf16 2x8x5xf32 2x8x5x32xf32"), message);
    }
}
