//! From an operation as written to an op of the Program: one row per name.

use smallvec::SmallVec;

use super::attribute::{Attribute, Named};
use super::cursor::{Parse, error, unescape, with_hint};
use super::fields::{Fields, convolution_labels, fields_of};
use super::legalize;
use super::operation::RawOp;
use super::parse::{Call, Parser, join};
use crate::codes::Code;
use crate::program::{
    Algorithm, AllGather, AllToAll, Attention, AttentionGrad, BatchNorm, Binary, BroadcastInDim, Check, Collective,
    CollectivePermute, Convolution, CustomCall, Direction, Distribution, DotGeneral, Feed, FftKind, Gather, LocationId,
    Op, Opaque, Order, Pad, Precision, ReduceScatter, RegionId, Scatter, SelectAndScatter, Shape, Slice, Transfer,
    TransposeA, TriangularSolve, Type, Unary, Values, Window,
};
use crate::shard::parse_rule;

/// Adds the operation to a region and gives its results.
pub(super) fn add_operation<'a>(
    parser: &mut Parser<'a>,
    region: RegionId,
    raw: &RawOp<'a>,
    location: LocationId,
) -> Parse<Values> {
    if let Some(results) = legalize::add_legalized(parser, region, raw, location)? {
        return Ok(results);
    }
    let fields = Fields { raw };
    let op = match raw.name {
        "func.call" | "stablehlo.composite" => return add_call(parser, region, raw, location),
        // As the op that a reduction applies.
        "func.return" | "stablehlo.return" => {
            return Err(error(
                Code::Syntax,
                raw.span.clone(),
                format!("`{}` is not an operation to apply", raw.name),
                "applied here",
            ));
        }
        name => match op_from(name, fields)? {
            Some(Op::CustomCall(mut call)) => {
                let elsewhere = ["call_target_name", "callee", "has_side_effect", "meshwright.rule"];
                call.attributes = attribute_texts(parser, raw, &elsewhere)?;
                Op::CustomCall(call)
            }
            Some(op) => op,
            None => parser.opaque(raw)?,
        },
    };
    add_checked(parser, region, op, raw, location)
}

/// Adds an op and compares its results with what the text declares.
pub(super) fn add_checked<'a>(
    parser: &mut Parser<'a>,
    region: RegionId,
    op: Op,
    raw: &RawOp<'a>,
    location: LocationId,
) -> Parse<Values> {
    let id = parser
        .program
        .add_op(region, op, &raw.operands, &raw.regions, location)
        .map_err(|message| invalid(parser, raw, &message))?;
    let results = parser.program.ops[id].results.clone();
    let matches = results.len() == raw.result_types.len()
        && results.iter().zip(&raw.result_types).all(|(&result, declared)| parser.program.ty(result) == declared);
    if !matches {
        let types: Vec<Type> = results.iter().map(|&result| parser.program.ty(result).clone()).collect();
        let label = format!("gives ({}), the text says ({})", join(&types), join(&raw.result_types));
        return Err(error(
            Code::Types,
            raw.span.clone(),
            format!("`{}` does not give the results that are declared", raw.name),
            label,
        ));
    }
    Ok(results)
}

/// The error for an op that type inference refuses.
pub(super) fn invalid(parser: &Parser<'_>, raw: &RawOp<'_>, message: &str) -> Box<super::Diagnostic> {
    let operands = join(raw.operands.iter().map(|&operand| parser.program.ty(operand)));
    error(Code::Types, raw.span.clone(), format!("`{}`: {message}", raw.name), format!("the operands are ({operands})"))
}

/// A call stands as an opaque op until it is inlined. A composite is a call of what it is made of.
fn add_call<'a>(parser: &mut Parser<'a>, region: RegionId, raw: &RawOp<'a>, location: LocationId) -> Parse<Values> {
    let fields = Fields { raw };
    let callee = fields.symbol(&["callee", "decomposition"])?;
    let op = Op::Opaque(Box::new(Opaque {
        name: raw.name.to_owned(),
        result_types: raw.result_types.to_vec(),
        attributes: Vec::new(),
    }));
    let types = raw.result_types.iter().cloned();
    let id = parser.program.add_op_with_types(region, op, &raw.operands, &[], types, location);
    parser.calls.insert(id, Call { callee, span: raw.span.clone() });
    Ok(parser.program.ops[id].results.clone())
}

/// The op of that name, or `None` for a name outside the set.
fn op_from(name: &str, fields: Fields<'_, '_>) -> Parse<Option<Op>> {
    let op = match name {
        "check.expect_almost_eq" | "check.expect_close" | "check.expect_eq" => check_from(name, fields)?,
        "chlo.tan" => Op::Unary(Unary::Tan),
        "chlo.top_k" => Op::TopK { k: fields.size(&["k"])? },
        "stablehlo.after_all" | "stablehlo.create_token" => Op::AfterAll,
        "stablehlo.all_gather" => all_gather_from(fields)?,
        "stablehlo.all_reduce" => Op::AllReduce(Box::new(collective_from(fields)?)),
        "stablehlo.all_to_all" => Op::AllToAll(Box::new(AllToAll {
            split_dim: fields.size(&["split_dimension"])?,
            concat_dim: fields.size(&["concat_dimension"])?,
            split_count: fields.size(&["split_count"])?,
            collective: Collective { global_ids: false, ..collective_from(fields)? },
        })),
        "stablehlo.batch_norm_grad" => Op::BatchNormGrad(batch_norm_from(fields)?),
        "stablehlo.batch_norm_inference" => Op::BatchNormInference(batch_norm_from(fields)?),
        "stablehlo.batch_norm_training" => Op::BatchNormTraining(batch_norm_from(fields)?),
        "stablehlo.bitcast_convert" => Op::BitcastConvert { dtype: fields.result_type()?.dtype },
        "stablehlo.broadcast_in_dim" => Op::BroadcastInDim(Box::new(BroadcastInDim {
            shape: fields.result_type()?.shape.clone(),
            dims: fields.sizes(&["broadcast_dimensions", "dims"])?,
        })),
        "stablehlo.case" => Op::Case,
        "stablehlo.cholesky" => Op::Cholesky { lower: fields.flag(&["lower"])? },
        "stablehlo.clamp" => Op::Clamp,
        "stablehlo.collective_broadcast" => {
            let collective = Collective { global_ids: false, ..collective_from(fields)? };
            Op::CollectiveBroadcast(Box::new(collective))
        }
        "stablehlo.collective_permute" => collective_permute_from(fields)?,
        "stablehlo.compare" => compare_from(fields)?,
        "stablehlo.complex" => Op::Complex,
        "stablehlo.concatenate" => Op::Concatenate { dim: fields.size(&["dimension", "dim"])? },
        "stablehlo.constant" => Op::Constant(Box::new(fields.literal("value")?)),
        "stablehlo.convert" => Op::Convert { dtype: fields.result_type()?.dtype },
        "stablehlo.convolution" => convolution_from(fields)?,
        "stablehlo.custom_call" => custom_call_from(fields)?,
        "stablehlo.dot_general" => dot_general_from(fields)?,
        "stablehlo.dynamic_slice" => Op::DynamicSlice { sizes: fields.sizes(&["slice_sizes", "sizes"])? },
        "stablehlo.dynamic_update_slice" => Op::DynamicUpdateSlice,
        "stablehlo.fft" => Op::Fft {
            kind: fields.word(&["fft_type", "type"], FftKind::NAMES, FftKind::from_name)?,
            lengths: fields.sizes(&["fft_length", "length"])?,
        },
        "stablehlo.gather" => gather_from(fields)?,
        "stablehlo.if" => Op::If,
        "stablehlo.infeed" => Op::Infeed(Box::new(feed_from(fields, "infeed_config"))),
        "stablehlo.iota" => {
            Op::Iota { dim: fields.size(&["iota_dimension", "dim"])?, ty: Box::new(fields.result_type()?.clone()) }
        }
        "stablehlo.map" => Op::Map,
        "stablehlo.optimization_barrier" => Op::OptimizationBarrier,
        "stablehlo.outfeed" => Op::Outfeed(Box::new(feed_from(fields, "outfeed_config"))),
        "stablehlo.pad" => Op::Pad(Box::new(Pad {
            low: fields.integers(&["edge_padding_low", "low"])?.into_iter().collect(),
            high: fields.integers(&["edge_padding_high", "high"])?.into_iter().collect(),
            interior: fields.integers(&["interior_padding", "interior"])?.into_iter().collect(),
        })),
        "stablehlo.partition_id" => Op::PartitionId,
        "stablehlo.recv" => Op::Recv(Box::new(transfer_from(fields)?)),
        "stablehlo.reduce" => Op::Reduce { dims: fields.sizes(&["dimensions"])? },
        "stablehlo.reduce_precision" => reduce_precision_from(fields)?,
        "stablehlo.reduce_scatter" => reduce_scatter_from(fields)?,
        "stablehlo.reduce_window" => window_from(fields)?,
        "stablehlo.replica_id" => Op::ReplicaId,
        "stablehlo.reshape" => Op::Reshape { shape: fields.result_type()?.shape.clone() },
        "stablehlo.reverse" => Op::Reverse { dims: fields.sizes(&["dimensions", "dims"])? },
        "stablehlo.rng" => Op::Rng {
            distribution: fields.word(
                &["rng_distribution", "distribution"],
                Distribution::NAMES,
                Distribution::from_name,
            )?,
            shape: fields.result_type()?.shape.clone(),
        },
        "stablehlo.rng_bit_generator" => Op::RngBitGenerator {
            algorithm: fields.word(&["rng_algorithm", "algorithm"], Algorithm::NAMES, Algorithm::from_name)?,
            ty: Box::new(fields.result_types(2)?[1].clone()),
        },
        "stablehlo.scatter" => scatter_from(fields)?,
        "stablehlo.select" => Op::Select,
        "stablehlo.select_and_scatter" => select_and_scatter_from(fields)?,
        "stablehlo.send" => Op::Send(Box::new(transfer_from(fields)?)),
        "stablehlo.slice" => Op::Slice(Box::new(Slice {
            start: fields.sizes(&["start_indices"])?,
            limit: fields.sizes(&["limit_indices"])?,
            strides: fields.sizes(&["strides"])?,
        })),
        "stablehlo.sort" => {
            let dim = fields.integer_or(&["dimension"], -1)?;
            Op::Sort { dim: fields.counted_from_end(dim)?, stable: fields.flag(&["is_stable"])? }
        }
        "stablehlo.transpose" => Op::Transpose { permutation: fields.sizes(&["permutation", "dims"])? },
        "stablehlo.triangular_solve" => Op::TriangularSolve(TriangularSolve {
            left_side: fields.flag(&["left_side"])?,
            lower: fields.flag(&["lower"])?,
            unit_diagonal: fields.flag(&["unit_diagonal"])?,
            transpose_a: fields.word(&["transpose_a"], TransposeA::NAMES, TransposeA::from_name)?,
        }),
        "stablehlo.while" => Op::While,
        name => {
            let unary = Unary::from_name(name).map(Op::Unary);
            return Ok(unary.or_else(|| Binary::from_name(name).map(Op::Binary)));
        }
    };
    Ok(Some(op))
}

/// The defaults of the `check` ops and of the custom calls that stand for them differ in StableHLO.
fn check_from(name: &str, fields: Fields<'_, '_>) -> Parse<Op> {
    let is_call = fields.raw.name == "stablehlo.custom_call";
    let (tolerance, ulps) = if is_call { (1e-3, 3) } else { (1e-4, 1) };
    Ok(Op::Check(match name {
        "check.expect_almost_eq" => Check::AlmostEqual { tolerance: fields.finite_or(&["tolerance"], tolerance)? },
        "check.expect_close" => Check::Close {
            min_ulps: fields.integer_or(&["min_ulp_difference"], 0)?.max(0) as u64,
            max_ulps: fields.integer_or(&["max_ulp_difference"], ulps)?.max(0) as u64,
        },
        _ => Check::Equal,
    }))
}

fn collective_from(fields: Fields<'_, '_>) -> Parse<Collective> {
    let mut groups = fields.rows(&["replica_groups"])?;
    // Groups shorter than the longest are filled up with -1.
    for group in &mut groups {
        let length = group.iter().rposition(|&member| member != -1).map_or(0, |last| last + 1);
        group.truncate(length);
    }
    Ok(Collective {
        groups: groups.into(),
        channel: fields.channel()?.0,
        global_ids: fields.flag(&["use_global_device_ids"])?,
    })
}

fn all_gather_from(fields: Fields<'_, '_>) -> Parse<Op> {
    let dim = fields.size(&["all_gather_dim"])?;
    let factor = fields.result_factor(dim, false);
    Ok(Op::AllGather(Box::new(AllGather { dim, factor, collective: collective_from(fields)? })))
}

fn reduce_scatter_from(fields: Fields<'_, '_>) -> Parse<Op> {
    let dim = fields.size(&["scatter_dimension"])?;
    let factor = fields.result_factor(dim, true);
    Ok(Op::ReduceScatter(Box::new(ReduceScatter { dim, factor, collective: collective_from(fields)? })))
}

fn collective_permute_from(fields: Fields<'_, '_>) -> Parse<Op> {
    let pairs = fields.pairs(&["source_target_pairs"])?;
    Ok(Op::CollectivePermute(Box::new(CollectivePermute { pairs, channel: fields.channel()?.0 })))
}

fn batch_norm_from(fields: Fields<'_, '_>) -> Parse<BatchNorm> {
    let epsilon = fields.finite_or(&["epsilon"], 0.0)? as f32;
    if !epsilon.is_finite() {
        return Err(fields.wrong(&["epsilon"], "a finite number"));
    }
    Ok(BatchNorm { epsilon, feature_dim: fields.size(&["feature_index"])? })
}

fn compare_from(fields: Fields<'_, '_>) -> Parse<Op> {
    let words = &fields.raw.words;
    if let Some(direction) = words.first() {
        let direction = fields.known(Direction::from_name(direction), direction, Direction::NAMES)?;
        let order = words
            .get(1)
            .map_or(Ok(Order::Natural), |order| fields.known(Order::from_name(order), order, Order::NAMES))?;
        return Ok(Op::Compare { direction, order });
    }
    let direction = fields.word(&["comparison_direction"], Direction::NAMES, Direction::from_name)?;
    let order = match fields.find(&["compare_type"]) {
        Some(_) => fields.word(&["compare_type"], Order::NAMES, Order::from_name)?,
        None => Order::Natural,
    };
    Ok(Op::Compare { direction, order })
}

fn precision_from(fields: Fields<'_, '_>) -> Parse<SmallVec<[Precision; 2]>> {
    let Some(Named { value: Attribute::List(list), .. }) = fields.find(&["precision_config", "precision"]) else {
        return Ok(SmallVec::new());
    };
    list.iter()
        .map(|entry| match entry {
            Attribute::Word(word) => fields.known(Precision::from_name(word), word, Precision::NAMES),
            _ => Err(fields.wrong(&["precision_config", "precision"], "words such as `DEFAULT`")),
        })
        .collect()
}

fn dot_general_from(fields: Fields<'_, '_>) -> Parse<Op> {
    let dtype = fields.result_type()?.dtype;
    let precision = precision_from(fields)?;
    let dot = match fields.find(&["dot_dimension_numbers"]) {
        Some(numbers) => {
            let numbers = fields_of(fields, numbers)?;
            DotGeneral {
                lhs_batch: numbers.sizes_or_empty("lhs_batching_dimensions")?,
                rhs_batch: numbers.sizes_or_empty("rhs_batching_dimensions")?,
                lhs_contract: numbers.sizes_or_empty("lhs_contracting_dimensions")?,
                rhs_contract: numbers.sizes_or_empty("rhs_contracting_dimensions")?,
                precision,
                dtype,
            }
        }
        None => {
            let [lhs_batch, rhs_batch] = fields.two_lists("batching_dims")?;
            let [lhs_contract, rhs_contract] = fields.two_lists("contracting_dims")?;
            DotGeneral { lhs_batch, rhs_batch, lhs_contract, rhs_contract, precision, dtype }
        }
    };
    Ok(Op::DotGeneral(Box::new(dot)))
}

fn convolution_from(fields: Fields<'_, '_>) -> Parse<Op> {
    let named = fields.find(&["dimension_numbers", "dim_numbers"]);
    let Some(Named { value: Attribute::ConvolutionDims([input, kernel, output]), .. }) = named else {
        let expected = "dimensions such as `[b, 0, f]x[0, i, o]->[b, 0, f]`";
        return Err(fields.wrong(&["dimension_numbers", "dim_numbers"], expected));
    };
    let (input_batch, input_feature, input_spatial) = convolution_labels(fields, input, "b", "f")?;
    let (kernel_input_feature, kernel_output_feature, kernel_spatial) = convolution_labels(fields, kernel, "i", "o")?;
    let (output_batch, output_feature, output_spatial) = convolution_labels(fields, output, "b", "f")?;
    let rank = input_spatial.len();
    // The generic form has the window's parts as attributes, the pretty form inside `window`.
    let window = match fields.find(&["window"]) {
        Some(window) => Some(fields_of(fields, window)?),
        None => None,
    };
    let sizes = |generic: &str, pretty: &str| -> Parse<Shape> {
        let found = match &window {
            Some(window) => window.sizes_or_empty(pretty)?,
            None => fields.sizes_or_empty(generic)?,
        };
        Ok(if found.is_empty() { SmallVec::from_elem(1, rank) } else { found })
    };
    let padding = match &window {
        Some(window) => window.pairs_or_empty("pad")?,
        None => fields.pairs_or_empty("padding")?,
    };
    let reversal = match &window {
        Some(window) => window.integers_or_empty("reverse")?,
        None => fields.integers_or_empty("window_reversal")?,
    };
    Ok(Op::Convolution(Box::new(Convolution {
        strides: sizes("window_strides", "stride")?,
        padding: if padding.is_empty() { SmallVec::from_elem((0, 0), rank) } else { padding.into_iter().collect() },
        lhs_dilation: sizes("lhs_dilation", "lhs_dilate")?,
        rhs_dilation: sizes("rhs_dilation", "rhs_dilate")?,
        reversal: if reversal.is_empty() {
            SmallVec::from_elem(false, rank)
        } else {
            reversal.iter().map(|&flag| flag != 0).collect()
        },
        input_batch,
        input_feature,
        input_spatial,
        kernel_input_feature,
        kernel_output_feature,
        kernel_spatial,
        output_batch,
        output_feature,
        output_spatial,
        feature_groups: fields.size_or(&["feature_group_count"], 1)?,
        batch_groups: fields.size_or(&["batch_group_count"], 1)?,
        precision: precision_from(fields)?,
        dtype: fields.result_type()?.dtype,
    })))
}

fn custom_call_from(fields: Fields<'_, '_>) -> Parse<Op> {
    let target = match fields.find(&["call_target_name", "callee"]).map(|named| &named.value) {
        Some(Attribute::String(target) | Attribute::Symbol(target)) => unescape(target),
        _ => return Err(fields.wrong(&["call_target_name", "callee"], "a name")),
    };
    if let "check.expect_almost_eq" | "check.expect_close" | "check.expect_eq" = target.as_str() {
        return check_from(&target, fields);
    }
    if let "meshwright.attention" | "meshwright.attention_grad" = target.as_str() {
        return attention_from(&target, fields);
    }
    let rule = call_rule(fields)?;
    Ok(Op::CustomCall(Box::new(CustomCall {
        target,
        has_side_effect: fields.flag(&["has_side_effect"])?,
        result_types: fields.raw.result_types.to_vec(),
        attributes: Vec::new(),
        rule,
    })))
}

/// The rule that the user gives for a call, if it can be one.
fn call_rule(fields: Fields<'_, '_>) -> Parse<Option<String>> {
    let Some(named) = fields.find(&["meshwright.rule"]) else { return Ok(None) };
    let Attribute::String(text) = &named.value else {
        return Err(fields.wrong(&["meshwright.rule"], "a text such as `\"(i j, j k) -> (i k)\"`"));
    };
    let text = unescape(text);
    fn shapes(types: &[Type]) -> Vec<&[usize]> {
        types.iter().map(|ty| ty.shape.as_slice()).collect()
    }
    match parse_rule(&shapes(&fields.raw.operand_types), &shapes(&fields.raw.result_types), &text) {
        Ok(_) => Ok(Some(text)),
        Err(reason) => {
            let message = format!("the rule of this call is wrong: {reason}");
            Err(error(Code::CallRule, named.span.clone(), message, "says how the call may be cut"))
        }
    }
}

/// An attention or its gradient, as we print them.
fn attention_from(target: &str, fields: Fields<'_, '_>) -> Parse<Op> {
    let scale = fields.finite_or(&["meshwright.scale"], 1.0)?;
    let causal = fields.flag(&["meshwright.causal"])?;
    let operands = fields.raw.operands.len();
    Ok(match target {
        "meshwright.attention" => {
            let statistics = fields.flag(&["meshwright.statistics"])?;
            Op::Attention(Box::new(Attention { scale, causal, bias: operands > 3, statistics }))
        }
        _ => {
            let bias_gradient = fields.flag(&["meshwright.bias_gradient"])?;
            Op::AttentionGrad(Box::new(AttentionGrad { scale, causal, bias: operands > 6, bias_gradient }))
        }
    })
}

fn reduce_precision_from(fields: Fields<'_, '_>) -> Parse<Op> {
    if let Some(Named { value: Attribute::Word(format), .. }) = fields.find(&["format"]) {
        // `e5m10`.
        let parts = format.strip_prefix('e').and_then(|rest| rest.split_once('m'));
        let bits = parts.and_then(|(exponent, mantissa)| Some((exponent.parse().ok()?, mantissa.parse().ok()?)));
        let (exponent_bits, mantissa_bits) = fields.known(bits, format, &["e5m10"])?;
        return Ok(Op::ReducePrecision { exponent_bits, mantissa_bits });
    }
    Ok(Op::ReducePrecision {
        exponent_bits: u32::try_from(fields.size(&["exponent_bits"])?).unwrap_or(u32::MAX),
        mantissa_bits: u32::try_from(fields.size(&["mantissa_bits"])?).unwrap_or(u32::MAX),
    })
}

fn gather_from(fields: Fields<'_, '_>) -> Parse<Op> {
    let numbers = fields_of(fields, fields.need(&["dimension_numbers"])?)?;
    Ok(Op::Gather(Box::new(Gather {
        offset_dims: numbers.sizes_or_empty("offset_dims")?,
        collapsed_slice_dims: numbers.sizes_or_empty("collapsed_slice_dims")?,
        operand_batching_dims: numbers.sizes_or_empty("operand_batching_dims")?,
        start_indices_batching_dims: numbers.sizes_or_empty("start_indices_batching_dims")?,
        start_index_map: numbers.sizes_or_empty("start_index_map")?,
        index_vector_dim: numbers.size_or("index_vector_dim", 0)?,
        slice_sizes: fields.sizes(&["slice_sizes"])?,
        indices_are_sorted: fields.flag(&["indices_are_sorted"])?,
    })))
}

fn scatter_from(fields: Fields<'_, '_>) -> Parse<Op> {
    let numbers = fields_of(fields, fields.need(&["scatter_dimension_numbers"])?)?;
    Ok(Op::Scatter(Box::new(Scatter {
        update_window_dims: numbers.sizes_or_empty("update_window_dims")?,
        inserted_window_dims: numbers.sizes_or_empty("inserted_window_dims")?,
        input_batching_dims: numbers.sizes_or_empty("input_batching_dims")?,
        scatter_indices_batching_dims: numbers.sizes_or_empty("scatter_indices_batching_dims")?,
        scatter_dims_to_operand_dims: numbers.sizes_or_empty("scatter_dims_to_operand_dims")?,
        index_vector_dim: numbers.size_or("index_vector_dim", 0)?,
        indices_are_sorted: fields.flag(&["indices_are_sorted"])?,
        unique_indices: fields.flag(&["unique_indices"])?,
    })))
}

fn window_from(fields: Fields<'_, '_>) -> Parse<Op> {
    let sizes: Shape = fields.sizes(&["window_dimensions"])?;
    let rank = sizes.len();
    let ones = |name: &str| -> Parse<Shape> {
        let found = fields.sizes_or_empty(name)?;
        Ok(if found.is_empty() { SmallVec::from_elem(1, rank) } else { found })
    };
    let padding = fields.pairs_or_empty("padding")?;
    Ok(Op::ReduceWindow(Box::new(Window {
        strides: ones("window_strides")?,
        base_dilation: ones("base_dilations")?,
        window_dilation: ones("window_dilations")?,
        padding: if padding.is_empty() { SmallVec::from_elem((0, 0), rank) } else { padding.into_iter().collect() },
        sizes,
    })))
}

fn select_and_scatter_from(fields: Fields<'_, '_>) -> Parse<Op> {
    // The verifier compares the rank of the operand with these.
    let rank = fields.raw.result_types.first().map_or(0, Type::rank);
    let ones = |name: &str| -> Parse<Shape> {
        let found = fields.sizes_or_empty(name)?;
        Ok(if found.is_empty() { SmallVec::from_elem(1, rank) } else { found })
    };
    let padding = fields.pairs_or_empty("padding")?;
    Ok(Op::SelectAndScatter(Box::new(SelectAndScatter {
        window: ones("window_dimensions")?,
        strides: ones("window_strides")?,
        padding: if padding.is_empty() { SmallVec::from_elem((0, 0), rank) } else { padding.into_iter().collect() },
    })))
}

fn feed_from(fields: Fields<'_, '_>, name: &str) -> Feed {
    let config = match fields.find(&[name]).map(|named| &named.value) {
        Some(Attribute::String(config)) => unescape(config),
        _ => String::new(),
    };
    Feed { config, result_types: fields.raw.result_types.to_vec() }
}

fn transfer_from(fields: Fields<'_, '_>) -> Parse<Transfer> {
    let (channel, channel_type) = fields.channel()?;
    Ok(Transfer {
        channel,
        channel_type,
        is_host_transfer: fields.flag(&["is_host_transfer"])?,
        result_types: fields.raw.result_types.to_vec(),
    })
}

/// The attributes of an op in their own text, but for those that are kept elsewhere.
pub(super) fn attribute_texts(parser: &Parser<'_>, raw: &RawOp<'_>, except: &[&str]) -> Parse<Vec<(String, String)>> {
    let kept = raw.attributes.iter().filter(|named| !except.contains(&named.name));
    kept.map(|named| Ok((unescape(named.name), parser.context.expand(parser.cursor.text, &named.span)?))).collect()
}

/// The error for ops whose result shapes are known only at run time.
pub(super) fn dynamic_shape_error(raw: &RawOp<'_>) -> Box<super::Diagnostic> {
    let message = format!("`{}` makes a shape at run time, which is not supported", raw.name);
    with_hint(
        error(Code::DynamicShape, raw.span.clone(), message, "dynamic shape"),
        "export the function with concrete shapes",
    )
}
