//! Presets: tactics that find their tensors by structure, so that they work on any model.

use super::structure::{Place, Structure};
use super::{Preset, cut, first_that_divides};
use crate::program::{ArgumentClass, Op, ValueId};
use crate::shard::{Kind, Layout, Piece, PieceSet};

/// Applies a preset; what it cannot find is an error.
pub(super) fn apply(layout: &mut Layout<'_>, preset: Preset, pieces: &[Piece]) -> Result<Vec<String>, String> {
    let structure = Structure::new(layout);
    let mut notes = Vec::new();
    match preset {
        Preset::Data => batch(layout, &structure, 0, pieces, &mut notes)?,
        Preset::Expert => expert(layout, &structure, pieces, &mut notes)?,
        Preset::Megatron => megatron(layout, &structure, pieces, &mut notes)?,
        Preset::Sequence => batch(layout, &structure, 1, pieces, &mut notes)?,
        Preset::Vocab => vocab(layout, &structure, pieces, &mut notes)?,
        Preset::Zero1 | Preset::Zero2 => {
            for value in structure.arguments(ArgumentClass::Parameter) {
                layout.block(value, PieceSet::of(pieces));
            }
            zero(layout, &structure, ArgumentClass::State, pieces, &mut notes)?;
        }
        Preset::Zero3 => zero(layout, &structure, ArgumentClass::Parameter, pieces, &mut notes)?,
    }
    // Where gradients are added up over time, the first stage keeps whole sums and reduces them once;
    // the others keep cut sums and reduce in every trip.
    if matches!(preset, Preset::Zero2 | Preset::Zero3) {
        layout.eager = layout.eager.union(PieceSet::of(pieces));
    }
    Ok(notes)
}

/// What else to do where a preset finds nothing.
pub(super) fn hint(preset: Preset) -> Option<String> {
    let is_megatron = matches!(preset, Preset::Megatron);
    is_megatron.then(|| {
        "matrices that are kept as one, such as those of queries, keys and values, or of gates and what they let through, \
         are not cut; without this tactic, what is left is planned"
            .to_owned()
    })
}

/// Cuts the inputs along a dimension by all pieces of an axis, and what follows from it.
pub(crate) fn cut_batch(layout: &mut Layout<'_>, axis: usize) -> Result<(), String> {
    let (structure, pieces) = (Structure::new(layout), layout.mesh.pieces(axis));
    batch(layout, &structure, 0, &pieces, &mut Vec::new())?;
    layout.propagate();
    Ok(())
}

/// Cuts the inputs along a dimension: 0 is the batch, 1 the sequence. Inputs that lack it, such as a
/// learning rate or a random key, have another size there than most of the data.
fn batch(
    layout: &mut Layout<'_>,
    structure: &Structure<'_>,
    dim: usize,
    pieces: &[Piece],
    notes: &mut Vec<String>,
) -> Result<(), String> {
    let program = structure.program;
    let inputs: Vec<ValueId> = structure
        .arguments(ArgumentClass::Input)
        .into_iter()
        .filter(|&value| program.shape(value).len() > dim)
        .collect();
    let mut weights: Vec<(usize, usize)> = Vec::new();
    for &value in &inputs {
        let size = program.shape(value)[dim];
        match weights.iter_mut().find(|(known, _)| *known == size) {
            Some((_, elements)) => *elements += program.ty(value).elements(),
            None => weights.push((size, program.ty(value).elements())),
        }
    }
    let Some(&(size, _)) = weights.iter().rev().max_by_key(|(_, elements)| *elements) else {
        return Err(format!("no input has a dimension {dim}"));
    };
    for value in inputs {
        if program.shape(value)[dim] == size {
            cut(layout, value, dim, pieces, notes);
        }
    }
    Ok(())
}

/// Cuts the optimizer's state, or the parameters and with them everything of their shape. Vectors are
/// left: there is little to gain.
fn zero(
    layout: &mut Layout<'_>,
    structure: &Structure<'_>,
    class: ArgumentClass,
    pieces: &[Piece],
    notes: &mut Vec<String>,
) -> Result<(), String> {
    let program = structure.program;
    let is_matrix = |value: &ValueId| program.shape(*value).len() >= 2 && program.dtype(*value).is_float();
    let values: Vec<ValueId> = structure.arguments(class).into_iter().filter(is_matrix).collect();
    if values.is_empty() {
        let what = if class == ArgumentClass::Parameter { "parameter" } else { "state of an optimizer" };
        return Err(format!("there is no {what} with two dimensions or more"));
    }
    for value in values {
        match first_that_divides(layout, value, pieces) {
            Some(dim) => {
                cut(layout, value, dim, pieces, notes);
            }
            None => notes.push(format!("no dimension of {} divides", super::value_name(program, value))),
        }
    }
    Ok(())
}

/// Cuts what a matrix makes where the next matrix sums it up: attention by heads, dense layers by
/// their inner width, convolutions by channels.
fn megatron(
    layout: &mut Layout<'_>,
    structure: &Structure<'_>,
    pieces: &[Piece],
    notes: &mut Vec<String>,
) -> Result<(), String> {
    let mut found = false;
    for (op, operand) in structure.weighted(layout) {
        let result = structure.program.ops[op].results[0];
        let rule = layout.rule(op).clone();
        for (dim, factors) in rule.operands[operand].iter().enumerate() {
            let Some(&factor) = factors.first() else { continue };
            let out = rule.results[0].iter().position(|labels| labels.first() == Some(&factor));
            let other = &rule.operands[1 - operand];
            // A factor that both operands have is a batch, not an output.
            let is_shared = other.iter().flatten().any(|&label| label == factor);
            let (Some(out), false) = (out, is_shared) else { continue };
            let used = layout.strategy(op).used();
            if pieces.iter().any(|&piece| used.contains(piece)) {
                found |= rule.factors[usize::from(factor)].kind == Kind::Parallel;
                continue;
            }
            if structure.ends_in_weights(layout, Place { value: result, dim: out }) {
                let weight = structure.program.ops[op].operands[operand];
                found |= cut(layout, weight, dim, pieces, notes);
                layout.propagate();
            }
        }
    }
    if found { Ok(()) } else { Err("no pair of matrices is found to cut between".to_owned()) }
}

/// Cuts weights along the dimension that tells experts apart: a batch of the products they are in.
/// Where tokens are sent to experts and brought back, the experts are no batch, and there they stay
/// whole: an axis that cuts the tokens as well then moves from tokens to experts by an all-to-all.
fn expert(
    layout: &mut Layout<'_>,
    structure: &Structure<'_>,
    pieces: &[Piece],
    notes: &mut Vec<String>,
) -> Result<(), String> {
    let mut weights = Vec::new();
    for (op, operand) in structure.weighted(layout) {
        let operation = &structure.program.ops[op];
        let Op::DotGeneral(dot) = &operation.op else { continue };
        let batch = if operand == 0 { &dot.lhs_batch } else { &dot.rhs_batch };
        if let Some(&dim) = batch.first() {
            weights.push(Place { value: operation.operands[operand], dim });
        }
    }
    if weights.is_empty() {
        return Err("no product has a batch of weights, one per expert".to_owned());
    }
    for (op, factor) in structure.ends_of_batches(layout, &weights) {
        layout.block_factor(op, factor, PieceSet::of(pieces));
    }
    for Place { value, dim } in weights {
        cut(layout, value, dim, pieces, notes);
        layout.propagate();
    }
    Ok(())
}

/// Cuts tables of embeddings along the tokens, and the scores of tokens.
fn vocab(
    layout: &mut Layout<'_>,
    structure: &Structure<'_>,
    pieces: &[Piece],
    notes: &mut Vec<String>,
) -> Result<(), String> {
    let program = structure.program;
    let mut sizes = Vec::new();
    for op in layout.ops().to_vec() {
        let operation = &program.ops[op];
        let Op::Gather(gather) = &operation.op else { continue };
        let (Some(&dim), true) = (gather.start_index_map.first(), structure.is_weight(operation.operands[0])) else {
            continue;
        };
        let table = operation.operands[0];
        let size = program.shape(table)[dim];
        // Positions and segments are looked up too, but in small tables.
        sizes.push((size, table, dim));
    }
    let Some(&(largest, ..)) = sizes.iter().max_by_key(|(size, ..)| *size) else {
        return Err("no table of parameters is looked up".to_owned());
    };
    for (_, table, dim) in sizes.into_iter().filter(|(size, ..)| *size == largest) {
        cut(layout, table, dim, pieces, notes);
    }
    layout.propagate();
    for (op, operand) in structure.weighted(layout) {
        let weight = program.ops[op].operands[operand];
        let Some(dim) = program.shape(weight).iter().position(|&size| size == largest) else { continue };
        if !layout.sharding(weight).dims[dim].starts_with(pieces) {
            cut(layout, weight, dim, pieces, notes);
            layout.propagate();
        }
    }
    Ok(())
}
