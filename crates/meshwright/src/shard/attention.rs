//! The rules of attention and of its gradient.

use super::rule::{Factor, Kind, Labels, Rule};
use super::rules::{Draft, Part};
use super::sharding::Reduction;
use crate::program::{Attention, AttentionGrad};

pub(super) fn attention(mut draft: Draft<'_>, attention: &Attention) -> Rule {
    let factors = attention_factors(&mut draft);
    attention_inputs(&mut draft, &factors, attention.bias);
    let (AttentionFactors { batch, heads, queries, depth, .. }, results) = (&factors, draft.operation.results.len());
    draft.label_result(0, [batch, heads, queries, depth]);
    if results > 1 {
        draft.label_result(1, [batch, heads, queries]);
    }
    draft.rule
}

pub(super) fn attention_grad(mut draft: Draft<'_>, grad: &AttentionGrad) -> Rule {
    let factors = attention_factors(&mut draft);
    if grad.causal && grad.bias_gradient {
        keep_bias_shape(&mut draft, &factors);
    }
    attention_inputs(&mut draft, &factors, grad.bias);
    let AttentionFactors { batch, groups, heads, queries, keys, width, depth } = &factors;
    let first = if grad.bias { 4 } else { 3 };
    draft.label_operand(first, [batch, heads, queries, depth]);
    draft.label_operand(first + 1, [batch, heads, queries]);
    draft.label_operand(first + 2, [batch, heads, queries, depth]);
    draft.label_result(0, [batch, heads, queries, width]);
    draft.label_result(1, [batch, groups, keys, width]);
    draft.label_result(2, [batch, groups, keys, depth]);
    if grad.bias_gradient {
        let labels = draft.rule.operands[3].clone();
        draft.rule.results[3] = labels;
    }
    // What some gradient lacks is summed in it. Rows of padding have no sensible statistics.
    for id in 0..draft.rule.factors.len() {
        let lacks = |labels: &Labels| !labels.iter().flatten().any(|&factor| usize::from(factor) == id);
        let factor = &mut draft.rule.factors[id];
        if factor.kind == Kind::Parallel && draft.rule.results.iter().any(lacks) {
            *factor = Factor { kind: Kind::Reduced(Reduction::Sum), even: true, ..*factor };
        }
    }
    draft.rule
}

/// Cut queries say in the bias which keys they see, for which it needs all of its dimensions; its
/// gradient would have them too.
fn keep_bias_shape(draft: &mut Draft<'_>, factors: &AttentionFactors) {
    let (query, key, bias) = (draft.operand_shape(0), draft.operand_shape(1), draft.operand_shape(3));
    if bias[2..] != [query[2], key[2]] {
        for &queries in &factors.queries {
            draft.rule.factors[usize::from(queries)].kind = Kind::Whole;
        }
    }
}

struct AttentionFactors {
    batch: Part,
    groups: Part,
    /// Groups, and in each the heads that share its keys and values.
    heads: Part,
    queries: Part,
    keys: Part,
    width: Part,
    depth: Part,
}

fn attention_factors(draft: &mut Draft<'_>) -> AttentionFactors {
    let [query, key, value] = [0, 1, 2].map(|operand| draft.operand_shape(operand));
    let batch = draft.parallel(query[0]);
    let groups = draft.parallel(key[1]);
    let repeats = draft.parallel(query[1] / key[1].max(1));
    let queries = draft.parallel(query[2]);
    let keys = draft.whole(key[2]);
    let width = draft.whole(query[3]);
    let depth = draft.whole(value[3]);
    let heads = groups.iter().chain(&repeats).copied().collect();
    AttentionFactors { batch, groups, heads, queries, keys, width, depth }
}

fn attention_inputs(draft: &mut Draft<'_>, factors: &AttentionFactors, bias: bool) {
    let AttentionFactors { batch, groups, heads, queries, keys, width, depth } = factors;
    draft.label_operand(0, [batch, heads, queries, width]);
    draft.label_operand(1, [batch, groups, keys, width]);
    draft.label_operand(2, [batch, groups, keys, depth]);
    if bias {
        let shape = draft.operand_shape(3);
        let labels = [batch, heads, queries, keys];
        // A dimension of size 1 serves all.
        draft.rule.operands[3] =
            labels.iter().zip(shape).map(|(&part, &size)| if size == 1 { Part::new() } else { part.clone() }).collect();
    }
}
