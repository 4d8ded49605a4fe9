//! Names that are no ops of their own: each becomes one or several that are.

use std::ops::Range;

use smallvec::SmallVec;

use super::attention::add_cudnn_attention;
use super::build::{add_checked, add_operation, dynamic_shape_error, invalid};
use super::cursor::{Parse, error, unescape, with_hint};
use super::fields::Fields;
use super::operation::RawOp;
use super::parse::Parser;
use crate::codes::Code;
use crate::program::{
    BroadcastInDim, DType, Dims, DotGeneral, Gather, Literal, LocationId, Op, RegionId, Type, ValueId, Values,
};

/// Adds the operation if its name is one of these; gives its results.
pub(super) fn add_legalized<'a>(
    parser: &mut Parser<'a>,
    region: RegionId,
    raw: &RawOp<'a>,
    location: LocationId,
) -> Parse<Option<Values>> {
    let fields = Fields { raw };
    let op = match raw.name {
        "check.expect_almost_eq_const" | "check.expect_close_const" | "check.expect_eq_const" => {
            return add_constant_check(parser, region, raw, location).map(Some);
        }
        "chlo.constant" => Op::Constant(Box::new(fields.literal("value")?)),
        "chlo.constant_like" => return add_constant_like(parser, region, raw, location).map(Some),
        "sdy.sharding_constraint" => return drop_annotation(parser, raw).map(Some),
        "stablehlo.broadcast" => {
            let shape = fields.result_type()?.shape.clone();
            let added = fields.integers(&["broadcast_sizes", "sizes"])?.len();
            let dims: Dims = (added.min(shape.len())..shape.len()).collect();
            Op::BroadcastInDim(Box::new(BroadcastInDim { shape, dims }))
        }
        "stablehlo.custom_call" if is_sharding_annotation(fields) => return drop_annotation(parser, raw).map(Some),
        "stablehlo.custom_call" => return Ok(add_cudnn_attention(parser, region, raw, location)),
        "stablehlo.dot" => dot_from(parser, fields)?,
        "stablehlo.get_dimension_size" => {
            let dim = fields.size(&["dimension", "dim"])?;
            let size = raw.operands.first().and_then(|&operand| parser.program.shape(operand).get(dim)).copied();
            let message = || format!("dimension {dim} is out of range");
            let size = size.ok_or_else(|| invalid(parser, raw, &message()))?;
            let literal = Literal::splat_number(Type::scalar(DType::I32), size as f64);
            return Ok(Some(add_constant(parser, region, literal, location)?));
        }
        "stablehlo.torch_index_select" => index_select_from(parser, fields)?,
        "stablehlo.dynamic_broadcast_in_dim"
        | "stablehlo.dynamic_conv"
        | "stablehlo.dynamic_gather"
        | "stablehlo.dynamic_iota"
        | "stablehlo.dynamic_pad"
        | "stablehlo.dynamic_reshape"
        | "stablehlo.real_dynamic_slice"
        | "stablehlo.set_dimension_size" => return Err(dynamic_shape_error(raw)),
        name => match name.strip_prefix("chlo.broadcast_") {
            Some(rest) => return add_broadcasting(parser, region, raw, rest, location).map(Some),
            None => return Ok(None),
        },
    };
    add_checked(parser, region, op, raw, location).map(Some)
}

fn add_constant(parser: &mut Parser<'_>, region: RegionId, literal: Literal, location: LocationId) -> Parse<Values> {
    let ty = literal.ty.clone();
    let id = parser.program.add_op_with_types(region, Op::Constant(Box::new(literal)), &[], &[], [ty], location);
    Ok(parser.program.ops[id].results.clone())
}

/// `check.expect_eq_const %a, dense<...>`: the constant becomes the second operand.
fn add_constant_check<'a>(
    parser: &mut Parser<'a>,
    region: RegionId,
    raw: &RawOp<'a>,
    location: LocationId,
) -> Parse<Values> {
    let expected = add_constant(parser, region, Fields { raw }.literal("value")?, location)?;
    let name = raw.name.strip_suffix("_const").unwrap_or(raw.name);
    let mut check = RawOp::new(name, raw.span.clone());
    check.operands = raw.operands.clone();
    check.operands.extend(expected);
    check.attributes = raw.attributes.clone();
    add_operation(parser, region, &check, location)
}

/// `chlo.constant_like`: a constant of the operand's type.
fn add_constant_like<'a>(
    parser: &mut Parser<'a>,
    region: RegionId,
    raw: &RawOp<'a>,
    location: LocationId,
) -> Parse<Values> {
    let fields = Fields { raw };
    let value = fields.float_or(&["value"], 0.0)?;
    let literal = Literal::splat_number(fields.result_type()?.clone(), value);
    add_constant(parser, region, literal, location)
}

fn is_sharding_annotation(fields: Fields<'_, '_>) -> bool {
    use super::attribute::Attribute;
    match fields.find(&["call_target_name", "callee"]).map(|named| &named.value) {
        Some(Attribute::String(target) | Attribute::Symbol(target)) => unescape(target) == "Sharding",
        _ => false,
    }
}

/// A sharding written into the program is the operand itself: here the plan decides.
fn drop_annotation<'a>(parser: &mut Parser<'a>, raw: &RawOp<'a>) -> Parse<Values> {
    if raw.operands.len() != 1 {
        return Err(invalid(parser, raw, &format!("expected 1 operand, got {}", raw.operands.len())));
    }
    if !is_on_no_devices(parser, raw) {
        parser.warn_once(raw.name, raw, "sharding annotations are left out", "shardings come from tactics and plans");
    }
    Ok(raw.operands.clone())
}

/// JAX annotates random keys also where it knows of no devices, by a mesh without axes. That says nothing.
fn is_on_no_devices(parser: &Parser<'_>, raw: &RawOp<'_>) -> bool {
    let written = |span: &Range<usize>| parser.context.source.get(span.clone());
    raw.attributes.iter().filter_map(|named| written(&named.span)).any(|text| text.contains("<@empty_mesh,"))
}

/// `stablehlo.dot`: vectors and matrices, the last dimension of the left with the first of the right.
fn dot_from(parser: &Parser<'_>, fields: Fields<'_, '_>) -> Parse<Op> {
    let left_rank = fields.raw.operands.first().map_or(0, |&left| parser.program.shape(left).len());
    Ok(Op::DotGeneral(Box::new(DotGeneral {
        lhs_batch: Dims::new(),
        rhs_batch: Dims::new(),
        lhs_contract: Dims::from_slice(&[left_rank.saturating_sub(1)]),
        rhs_contract: Dims::from_slice(&[0]),
        precision: SmallVec::new(),
        dtype: fields.result_type()?.dtype,
    })))
}

/// `stablehlo.torch_index_select`: whole slices along `dim`, picked by an index tensor.
fn index_select_from(parser: &Parser<'_>, fields: Fields<'_, '_>) -> Parse<Op> {
    let dim = fields.size(&["dim"])?;
    let batch = fields.size_or(&["batch_dims"], 0)?;
    let [operand, index] = fields.raw.operands[..] else {
        return Err(invalid(parser, fields.raw, &format!("expected 2 operands, got {}", fields.raw.operands.len())));
    };
    let mut slice_sizes = parser.program.ty(operand).shape.clone();
    let index_rank = parser.program.shape(index).len();
    if dim >= slice_sizes.len() || batch > dim || batch > index_rank {
        return Err(invalid(
            parser,
            fields.raw,
            &format!("dimension {dim} or {batch} batch dimensions are out of range"),
        ));
    }
    slice_sizes[dim] = 1;
    slice_sizes[..batch].fill(1);
    let result_rank = slice_sizes.len() - 1 + index_rank - batch;
    let is_from_index = |position: usize| (dim..dim + index_rank - batch).contains(&position);
    Ok(Op::Gather(Box::new(Gather {
        offset_dims: (batch..result_rank).filter(|&position| !is_from_index(position)).collect(),
        collapsed_slice_dims: Dims::from_slice(&[dim]),
        operand_batching_dims: (0..batch).collect(),
        start_indices_batching_dims: (0..batch).collect(),
        start_index_map: Dims::from_slice(&[dim]),
        index_vector_dim: index_rank,
        slice_sizes,
        indices_are_sorted: false,
    })))
}

/// `chlo.broadcast_add` and the like: operands are broadcast to the result's shape, then the op.
fn add_broadcasting<'a>(
    parser: &mut Parser<'a>,
    region: RegionId,
    raw: &RawOp<'a>,
    rest: &'a str,
    location: LocationId,
) -> Parse<Values> {
    let Some(name) = broadcasting_name(rest) else {
        let problem = error(
            Code::UnknownOp,
            raw.span.clone(),
            format!("`{}` is not supported", raw.name),
            "no such elementwise op",
        );
        return Err(with_hint(problem, "broadcast the operands with `stablehlo.broadcast_in_dim`"));
    };
    let shape = Fields { raw }.result_type()?.shape.clone();
    let mut broadcast = RawOp::new(name, raw.span.clone());
    broadcast.attributes = raw.attributes.clone();
    broadcast.words = raw.words.clone();
    broadcast.result_types = raw.result_types.clone();
    for &operand in &raw.operands {
        broadcast.operands.push(broadcast_to(parser, region, operand, &shape, raw, location)?);
    }
    add_operation(parser, region, &broadcast, location)
}

fn broadcasting_name(rest: &str) -> Option<&'static str> {
    Some(match rest {
        "add" => "stablehlo.add",
        "and" => "stablehlo.and",
        "atan2" => "stablehlo.atan2",
        "compare" => "stablehlo.compare",
        "complex" => "stablehlo.complex",
        "divide" => "stablehlo.divide",
        "maximum" => "stablehlo.maximum",
        "minimum" => "stablehlo.minimum",
        "multiply" => "stablehlo.multiply",
        "next_after" => "chlo.next_after",
        "or" => "stablehlo.or",
        "polygamma" => "chlo.polygamma",
        "power" => "stablehlo.power",
        "remainder" => "stablehlo.remainder",
        "select" => "stablehlo.select",
        "shift_left" => "stablehlo.shift_left",
        "shift_right_arithmetic" => "stablehlo.shift_right_arithmetic",
        "shift_right_logical" => "stablehlo.shift_right_logical",
        "subtract" => "stablehlo.subtract",
        "xor" => "stablehlo.xor",
        "zeta" => "chlo.zeta",
        _ => return None,
    })
}

/// Aligns the operand with the last dimensions of the shape, or as `broadcast_dimensions` says.
fn broadcast_to<'a>(
    parser: &mut Parser<'a>,
    region: RegionId,
    operand: ValueId,
    shape: &[usize],
    raw: &RawOp<'a>,
    location: LocationId,
) -> Parse<ValueId> {
    let rank = parser.program.shape(operand).len();
    if parser.program.shape(operand) == shape {
        return Ok(operand);
    }
    let given = Fields { raw }.sizes_or_empty("broadcast_dimensions")?;
    let dims: Dims =
        if given.len() == rank && rank > 0 { given } else { (shape.len().saturating_sub(rank)..shape.len()).collect() };
    let op = Op::BroadcastInDim(Box::new(BroadcastInDim { shape: shape.into(), dims }));
    let id = parser.program.add_op(region, op, &[operand], &[], location);
    let id = id.map_err(|message| invalid(parser, raw, &message))?;
    Ok(parser.program.ops[id].results[0])
}
