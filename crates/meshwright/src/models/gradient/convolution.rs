//! The gradient of a convolution: two convolutions.

use smallvec::SmallVec;

use super::rules::Rule;
use crate::program::{Convolution, ValueId};

pub(super) fn convolution(rule: &mut Rule<'_>, op: &Convolution) {
    if rule.wants(0) {
        let gradient = input_gradient(rule, op);
        rule.give(0, gradient);
    }
    if rule.wants(1) {
        let gradient = kernel_gradient(rule, op);
        rule.give(1, gradient);
    }
}

/// The result's gradient, spread by the strides, with the kernel reversed and its input and output
/// features exchanged.
fn input_gradient(rule: &mut Rule<'_>, op: &Convolution) -> ValueId {
    let (input, kernel, gradient) = (rule.operand(0), rule.operand(1), rule.gradient);
    let input_shape = rule.builder.shape(input);
    let kernel_shape = rule.builder.shape(kernel);
    let output_shape = rule.builder.shape(gradient);
    let mut kernel = kernel;
    let mut feature_groups = 1;
    if op.feature_groups > 1 {
        // (i / g, o) becomes (i, o / g): the groups of output features move to the input features.
        kernel = regrouped(rule, kernel, op.kernel_output_feature, op.kernel_input_feature, op.feature_groups);
        feature_groups = op.feature_groups;
    }
    if op.batch_groups > 1 {
        // Each group of batches made some of the output features: with the groups among the input
        // features, the batches come out again.
        kernel = regrouped(rule, kernel, op.kernel_output_feature, op.kernel_input_feature, op.batch_groups);
        feature_groups = op.batch_groups;
    }
    let padding: SmallVec<[(i64, i64); 3]> = (0..op.strides.len())
        .map(|dim| {
            let size = kernel_shape[op.kernel_spatial[dim]] as i64;
            let reach = (size - 1) * op.rhs_dilation[dim] as i64;
            let low = reach - op.padding[dim].0;
            let spread = (output_shape[op.output_spatial[dim]] as i64 - 1) * op.strides[dim] as i64 + 1;
            let dilated = (input_shape[op.input_spatial[dim]] as i64 - 1) * op.lhs_dilation[dim] as i64 + 1;
            (low, dilated + reach - low - spread)
        })
        .collect();
    let backward = Convolution {
        strides: op.lhs_dilation.clone(),
        padding,
        lhs_dilation: op.strides.clone(),
        rhs_dilation: op.rhs_dilation.clone(),
        reversal: op.reversal.iter().map(|reversed| !reversed).collect(),
        input_batch: op.output_batch,
        input_feature: op.output_feature,
        input_spatial: op.output_spatial.clone(),
        kernel_input_feature: op.kernel_output_feature,
        kernel_output_feature: op.kernel_input_feature,
        kernel_spatial: op.kernel_spatial.clone(),
        output_batch: op.input_batch,
        output_feature: op.input_feature,
        output_spatial: op.input_spatial.clone(),
        feature_groups,
        batch_groups: 1,
        precision: op.precision.clone(),
        dtype: rule.builder.dtype(input),
    };
    let result = rule.builder.convolution(gradient, kernel, backward);
    if op.batch_groups > 1 {
        // (b / g, i g) becomes (b, i).
        return regrouped(rule, result, op.input_feature, op.input_batch, op.batch_groups);
    }
    result
}

/// The input with the result's gradient as the kernel: what was batch is summed over.
fn kernel_gradient(rule: &mut Rule<'_>, op: &Convolution) -> ValueId {
    let (input, kernel, gradient) = (rule.operand(0), rule.operand(1), rule.gradient);
    let input_shape = rule.builder.shape(input);
    let kernel_shape = rule.builder.shape(kernel);
    let output_shape = rule.builder.shape(gradient);
    let padding: SmallVec<[(i64, i64); 3]> = (0..op.strides.len())
        .map(|dim| {
            let low = op.padding[dim].0;
            let spread = (output_shape[op.output_spatial[dim]] as i64 - 1) * op.strides[dim] as i64 + 1;
            let dilated = (input_shape[op.input_spatial[dim]] as i64 - 1) * op.lhs_dilation[dim] as i64 + 1;
            let places = (kernel_shape[op.kernel_spatial[dim]] as i64 - 1) * op.rhs_dilation[dim] as i64 + 1;
            (low, places + spread - 1 - dilated - low)
        })
        .collect();
    let (batch_groups, feature_groups) = (op.feature_groups, op.batch_groups);
    let backward = Convolution {
        strides: op.rhs_dilation.clone(),
        padding,
        lhs_dilation: op.lhs_dilation.clone(),
        rhs_dilation: op.strides.clone(),
        reversal: op.reversal.iter().map(|_| false).collect(),
        input_batch: op.input_feature,
        input_feature: op.input_batch,
        input_spatial: op.input_spatial.clone(),
        kernel_input_feature: op.output_batch,
        kernel_output_feature: op.output_feature,
        kernel_spatial: op.output_spatial.clone(),
        output_batch: op.kernel_input_feature,
        output_feature: op.kernel_output_feature,
        output_spatial: op.kernel_spatial.clone(),
        feature_groups,
        batch_groups,
        precision: op.precision.clone(),
        dtype: rule.builder.dtype(kernel),
    };
    let result = rule.builder.convolution(input, gradient, backward);
    let reversed = (0..op.strides.len()).filter(|&dim| op.reversal[dim]);
    let reversed: crate::program::Dims = reversed.map(|dim| op.kernel_spatial[dim]).collect();
    if reversed.is_empty() {
        return result;
    }
    rule.builder.op(crate::program::Op::Reverse { dims: reversed }, &[result], &[])[0]
}

/// Moves `groups` from the front of dimension `from` to the front of dimension `to`.
fn regrouped(rule: &mut Rule<'_>, value: ValueId, from: usize, to: usize, groups: usize) -> ValueId {
    let shape = rule.builder.shape(value);
    let mut split = shape.to_vec();
    split[from] /= groups;
    split.insert(from, groups);
    let value = rule.builder.reshape(value, &split);
    // The group dimension stands at `from`; bring it before `to`.
    let to_now = if to > from { to + 1 } else { to };
    let mut order: Vec<usize> = (0..split.len()).filter(|&dim| dim != from).collect();
    let place = order.iter().position(|&dim| dim == to_now).unwrap_or(0);
    order.insert(place, from);
    let value = rule.builder.transpose(value, &order);
    let mut joined = shape.to_vec();
    joined[from] /= groups;
    joined[to] *= groups;
    rule.builder.reshape(value, &joined)
}
