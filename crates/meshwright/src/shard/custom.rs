//! Rules that users write for their own calls.

use smallvec::SmallVec;

use super::rule::{Factor, FactorId, Kind, Labels, Rule};
use super::sharding::Reduction;
use crate::program::{Operation, Program};

/// The rule that a text such as `(i j, j k) -> (i k)` says, or `whole` where it says nothing sensible, which import
/// refuses.
pub(super) fn rule(whole: Rule, program: &Program, operation: &Operation, text: &str) -> Rule {
    let shapes = |values: &[crate::program::ValueId]| values.iter().map(|&value| program.shape(value)).collect();
    let (operands, results): (Vec<&[usize]>, Vec<&[usize]>) = (shapes(&operation.operands), shapes(&operation.results));
    parse(&operands, &results, text).unwrap_or(whole)
}

/// Reads `(i j, j k) -> (i k)` for operands and results of these shapes: a tensor's dimensions between commas, `_` for
/// one that stays whole. Letters that no result has are summed.
pub fn parse(operands: &[&[usize]], results: &[&[usize]], text: &str) -> Result<Rule, String> {
    let (read, made) = text.split_once("->").ok_or("a rule has the form `(i j, j k) -> (i k)`")?;
    let mut letters: Vec<&str> = Vec::new();
    let mut rule = Rule::default();
    let operand_labels = tensors(read, operands, &mut letters, &mut rule)?;
    let result_labels = tensors(made, results, &mut letters, &mut rule)?;
    for (id, factor) in rule.factors.iter_mut().enumerate() {
        let lacks = |labels: &Labels| !labels.iter().flatten().any(|&factor| usize::from(factor) == id);
        if result_labels.iter().any(lacks) {
            factor.kind = Kind::Reduced(Reduction::Sum);
        }
    }
    rule.operands = operand_labels.into();
    rule.results = result_labels.into();
    Ok(rule)
}

fn tensors<'t>(
    text: &'t str,
    shapes: &[&[usize]],
    letters: &mut Vec<&'t str>,
    rule: &mut Rule,
) -> Result<Vec<Labels>, String> {
    let text = text.trim();
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let inner = inner.ok_or_else(|| format!("`{text}` is not in parentheses"))?;
    let parts: Vec<&str> =
        if inner.trim().is_empty() && shapes.is_empty() { vec![] } else { inner.split(',').collect() };
    if parts.len() != shapes.len() {
        return Err(format!("`{text}` has {} tensors, the call has {}", parts.len(), shapes.len()));
    }
    parts.iter().zip(shapes).map(|(part, shape)| labels(shape, part, letters, rule)).collect()
}

fn labels<'t>(shape: &[usize], text: &'t str, letters: &mut Vec<&'t str>, rule: &mut Rule) -> Result<Labels, String> {
    let names: Vec<&str> = text.split_whitespace().collect();
    if names.len() != shape.len() {
        return Err(format!("`{}` names {} dimensions, the tensor has {}", text.trim(), names.len(), shape.len()));
    }
    let label = |(&name, &size): (&&'t str, &usize)| {
        if name == "_" || size == 1 {
            return Ok(SmallVec::new());
        }
        let id = letters.iter().position(|&known| known == name).unwrap_or_else(|| {
            letters.push(name);
            rule.factors.push(Factor { size, kind: Kind::Parallel, even: true });
            letters.len() - 1
        });
        if rule.factors[id].size != size {
            return Err(format!("`{name}` is {} and {size}", rule.factors[id].size));
        }
        Ok(SmallVec::from_slice(&[id as FactorId]))
    };
    names.iter().zip(shape).map(label).collect()
}
