//! What every op is in PyTorch: one table, in the order of the alphabet. What needs more than an expression is a function
//! of `meshwright.torch.ops`.

use super::contract::dot_general;
use super::reuse::out_name;
use super::values::{Form, name};
use super::writer::{Writer, tuple};
use crate::program::{
    Binary, Collective, CustomCall, DType, Direction, Distribution, Id, Op, OpId, RegionId, Unary, ValueId, Window,
};

/// The expression that an op is. Loops, branches and barriers are statements, which the writer has.
pub(super) fn expression(writer: &mut Writer<'_>, op: OpId) -> Result<String, String> {
    let program = writer.program;
    let operation = &program.ops[op];
    let operands = operation.operands.clone();
    let result = operation.results.first().copied();
    let shape = |value: ValueId| program.shape(value);
    let text = match &operation.op {
        Op::AfterAll => return Err("PyTorch has no tokens".to_owned()),
        Op::AllGather(gather) => {
            let group = writer.group(&gather.collective.groups);
            format!("all_gather({}, {}, {group})", writer.tensor(operands[0]), gather.dim)
        }
        Op::AllReduce(collective) => {
            let (kind, group) = reduction(writer, operation.regions[0], collective)?;
            format!("all_reduce({}, \"{kind}\", {group})", writer.tensor(operands[0]))
        }
        Op::AllToAll(exchange) => {
            let group = writer.group(&exchange.collective.groups);
            let (split, concat) = (exchange.split_dim, exchange.concat_dim);
            format!("all_to_all({}, {split}, {concat}, {group})", writer.tensor(operands[0]))
        }
        Op::Attention(attention) => {
            let names = list(writer, &operands[..3]);
            let bias = if attention.bias { writer.tensor(operands[3]) } else { "None".to_owned() };
            let statistics = python(attention.statistics);
            let (scale, causal) = (attention.scale, python(attention.causal));
            format!("attention({names}, {bias}, {scale:?}, {causal}, {statistics})")
        }
        Op::AttentionGrad(attention) => {
            let names = list(writer, &operands[..3]);
            let bias = if attention.bias { writer.tensor(operands[3]) } else { "None".to_owned() };
            let rest = list(writer, &operands[3 + usize::from(attention.bias)..]);
            let (scale, causal, of_bias) = (attention.scale, python(attention.causal), python(attention.bias_gradient));
            format!("attention_grad({names}, {bias}, {rest}, {scale:?}, {causal}, {of_bias})")
        }
        Op::BatchNormGrad(norm) => {
            let names = list(writer, &operands);
            format!("batch_norm_grad({names}, {:?}, {})", norm.epsilon, norm.feature_dim)
        }
        Op::BatchNormInference(norm) => {
            let names = list(writer, &operands);
            format!("batch_norm_inference({names}, {:?}, {})", norm.epsilon, norm.feature_dim)
        }
        Op::BatchNormTraining(norm) => {
            let names = list(writer, &operands);
            format!("batch_norm_training({names}, {:?}, {})", norm.epsilon, norm.feature_dim)
        }
        Op::Binary(binary) => match (writer.reused(op), in_place(*binary)) {
            (Some(own), Some(function)) => {
                let other = if operands[0] == own { operands[1] } else { operands[0] };
                format!("{function}({}, {}, out={0})", name(own), writer.scalar(other))
            }
            _ => self::binary(writer, *binary, operands[0], operands[1], result)?,
        },
        Op::BitcastConvert { dtype: to } => format!("{}.view({})", writer.tensor(operands[0]), dtype(*to)?),
        Op::BroadcastInDim(broadcast) => spread(writer, operands[0], &broadcast.shape, &broadcast.dims),
        Op::Case | Op::If | Op::OptimizationBarrier | Op::While => return Err("it is a statement".to_owned()),
        Op::Check(_) => return Err("checks are for the interpreter".to_owned()),
        Op::Cholesky { lower } => format!("cholesky({}, {})", writer.tensor(operands[0]), python(*lower)),
        Op::Clamp => clamp(writer, &operands, result),
        Op::CollectiveBroadcast(collective) => {
            let group = writer.group(&collective.groups);
            format!("broadcast({}, {group})", writer.tensor(operands[0]))
        }
        Op::CollectivePermute(permute) => {
            format!("permute({}, {:?})", writer.tensor(operands[0]), permute.pairs)
        }
        Op::Compare { direction, .. } => {
            let sign = match direction {
                Direction::Equal => "==",
                Direction::Greater => ">",
                Direction::GreaterOrEqual => ">=",
                Direction::Less => "<",
                Direction::LessOrEqual => "<=",
                Direction::NotEqual => "!=",
            };
            let (left, right) = pair(writer, operands[0], operands[1], result);
            format!("{left} {sign} {right}")
        }
        Op::Complex => format!("torch.complex({})", list(writer, &operands)),
        Op::Concatenate { dim } => format!("torch.cat([{}], {dim})", list(writer, &operands)),
        Op::Constant(literal) => writer.constant(literal.ty.dtype, &literal.ty.shape, &literal.bytes())?,
        Op::Convert { dtype: to } => format!("{}.to({})", writer.tensor(operands[0]), dtype(*to)?),
        Op::Convolution(convolution) => {
            let padding: Vec<String> =
                convolution.padding.iter().map(|(low, high)| format!("({low}, {high})")).collect();
            let reversal: Vec<&str> = convolution.reversal.iter().map(|&is| python(is)).collect();
            let order = |batch: usize, feature: usize, spatial: &[usize]| tuple(&[&[batch, feature], spatial].concat());
            format!(
                "convolution({}, strides={}, padding={}, dilation={}, kernel_dilation={}, reversal={}, input_order={}, kernel_order={}, output_order={}, groups={}, batch_groups={}, dtype={})",
                list(writer, &operands),
                tuple(&convolution.strides),
                tuple(&padding),
                tuple(&convolution.lhs_dilation),
                tuple(&convolution.rhs_dilation),
                tuple(&reversal),
                order(convolution.input_batch, convolution.input_feature, &convolution.input_spatial),
                order(convolution.kernel_output_feature, convolution.kernel_input_feature, &convolution.kernel_spatial),
                order(convolution.output_batch, convolution.output_feature, &convolution.output_spatial),
                convolution.feature_groups,
                convolution.batch_groups,
                dtype(convolution.dtype)?,
            )
        }
        Op::CustomCall(call) => custom_call(writer, &operands, call)?,
        Op::DotGeneral(dot) => dot_general(writer, op, dot)?,
        Op::DynamicSlice { sizes } => {
            let starts: Vec<String> = operands[1..].iter().map(|&start| writer.scalar(start)).collect();
            format!("part({}, {}, {})", writer.tensor(operands[0]), tuple(&starts), tuple(sizes))
        }
        Op::DynamicUpdateSlice => {
            let starts: Vec<String> = operands[2..].iter().map(|&start| writer.scalar(start)).collect();
            let function = if writer.is_own(operands[0]) { "put_part_" } else { "put_part" };
            format!("{function}({}, {})", list(writer, &operands[..2]), tuple(&starts))
        }
        Op::Fft { .. } => return Err("Fourier transforms are not written yet".to_owned()),
        Op::Gather(gather) => self::gather(writer, &operands, gather),
        Op::Infeed(_) | Op::Outfeed(_) => return Err("PyTorch feeds nothing into a step".to_owned()),
        Op::Iota { dim, ty } => {
            let line = format!("torch.arange({}, dtype={}, device=device)", ty.shape[*dim], dtype(ty.dtype)?);
            spread_text(line, &ty.shape[*dim..=*dim], &ty.shape, &[*dim])
        }
        Op::Map => return Err("functions of single elements are not written yet".to_owned()),
        Op::Opaque(opaque) => return Err(format!("`{}` is not known", opaque.name)),
        Op::Pad(pad) => {
            let value = writer.scalar(operands[1]);
            let [low, high, interior] = [&pad.low, &pad.high, &pad.interior].map(|amounts| tuple(amounts));
            format!("pad({}, {value}, {low}, {high}, {interior})", writer.tensor(operands[0]))
        }
        Op::PartitionId => "rank".to_owned(),
        Op::Recv(_) | Op::Send(_) => return Err("transfers stand between stages".to_owned()),
        Op::Reduce { dims } => reduce(writer, op, dims)?,
        Op::ReducePrecision { exponent_bits, mantissa_bits } => {
            let to = match (exponent_bits, mantissa_bits) {
                (8, 7) => "torch.bfloat16",
                (5, 10) => "torch.float16",
                (8, 23) => "torch.float32",
                _ => return Err("PyTorch has no numbers of that precision".to_owned()),
            };
            let ty = dtype(program.dtype(operands[0]))?;
            format!("{}.to({to}).to({ty})", writer.tensor(operands[0]))
        }
        Op::ReduceScatter(scatter) => {
            let (kind, group) = reduction(writer, operation.regions[0], &scatter.collective)?;
            format!("reduce_scatter({}, \"{kind}\", {}, {group})", writer.tensor(operands[0]), scatter.dim)
        }
        Op::ReduceWindow(window) => reduce_window(writer, op, window)?,
        Op::ReplicaId => "0".to_owned(),
        Op::Reshape { shape } => format!("{}.reshape({})", writer.tensor(operands[0]), tuple(shape)),
        Op::Reverse { dims } => format!("{}.flip({})", writer.tensor(operands[0]), tuple(dims)),
        Op::Rng { distribution, shape } => {
            let kind = match distribution {
                Distribution::Normal => "normal",
                Distribution::Uniform => "uniform",
            };
            let (low, high) = (writer.scalar(operands[0]), writer.scalar(operands[1]));
            let dtype = dtype(program.dtype(operands[0]))?;
            // Where it comes from tells what is drawn once from what is drawn again, and its number how often it was.
            let place = &program.locations[operation.location].scope;
            let chance = format!("chance({place:?}, {})", op.index());
            format!("random_{kind}({low}, {high}, {}, {dtype}, {chance})", tuple(shape))
        }
        Op::RngBitGenerator { .. } => return Err("random bits are not written yet".to_owned()),
        Op::Scatter(scatter) => self::scatter(writer, op, scatter)?,
        Op::Select => select(writer, &operands, result),
        Op::SelectAndScatter(window) => {
            let padding: Vec<String> = window.padding.iter().map(|(low, high)| format!("({low}, {high})")).collect();
            let kind = selector(writer, operation.regions[0])?;
            if reducer(writer, operation.regions[1])? != "sum" {
                return Err("what is scattered is not added".to_owned());
            }
            format!(
                "select_and_scatter({}, {}, \"{kind}\", {}, {}, {})",
                list(writer, &operands[..2]),
                writer.scalar(operands[2]),
                tuple(&window.window),
                tuple(&window.strides),
                tuple(&padding),
            )
        }
        Op::Slice(slice) => {
            let part = |dim: usize| {
                let (start, limit, stride) = (slice.start[dim], slice.limit[dim], slice.strides[dim]);
                let is_whole = start == 0 && limit == shape(operands[0])[dim] && stride == 1;
                match (is_whole, stride) {
                    (true, _) => ":".to_owned(),
                    (_, 1) => format!("{start}:{limit}"),
                    _ => format!("{start}:{limit}:{stride}"),
                }
            };
            let parts: Vec<String> = (0..slice.start.len()).map(part).collect();
            let parts = if parts.is_empty() { "...".to_owned() } else { parts.join(", ") };
            format!("{}[{parts}]", writer.tensor(operands[0]))
        }
        Op::Sort { dim, stable } => {
            let descending = descending(writer, operation.regions[0])?;
            let names = list(writer, &operands);
            let comma = if operands.len() == 1 { "," } else { "" };
            let text = format!("sort(({names}{comma}), {dim}, {}, {})", python(descending), python(*stable));
            if operands.len() == 1 { format!("{text}[0]") } else { text }
        }
        Op::TopK { k } => format!("top_k({}, {k})", writer.tensor(operands[0])),
        Op::Transpose { permutation } => format!("{}.permute({})", writer.tensor(operands[0]), tuple(permutation)),
        Op::TriangularSolve(_) => return Err("triangular systems are not written yet".to_owned()),
        Op::Unary(unary) => match (writer.reused(op), out_name(*unary)) {
            (Some(own), Some(function)) => format!("{function}({}, out={0})", name(own)),
            _ => self::unary(*unary, &writer.tensor(operands[0]), program.dtype(operands[0])),
        },
    };
    Ok(text)
}

/// A call of what was recorded as it is, and is whole here or cut as its user says.
fn custom_call(writer: &Writer<'_>, operands: &[ValueId], call: &CustomCall) -> Result<String, String> {
    let attribute = |wanted: &str| {
        let found = call.attributes.iter().find(|(name, _)| name == wanted);
        found.map(|(_, text)| text.trim_matches('"').to_owned())
    };
    let (Some(mut arguments), Some(results)) = (attribute("arguments"), attribute("results")) else {
        return Err(format!("`{}` is a custom call", call.target));
    };
    for (number, &operand) in operands.iter().enumerate() {
        arguments = arguments.replace(&format!("{{{number}}}"), &writer.tensor(operand));
    }
    let choice = if call.result_types.len() == 1 { "[0]" } else { "" };
    Ok(format!("called(\"{}\", [{arguments}], ({results})){choice}", call.target))
}

/// The expression that collectives of one kind are together.
pub(super) fn together(writer: &mut Writer<'_>, ops: &[OpId]) -> Result<String, String> {
    let program = writer.program;
    let operands: Vec<ValueId> = ops.iter().map(|&op| program.ops[op].operands[0]).collect();
    let names = list(writer, &operands);
    let dims = ops.iter().filter_map(|&op| match &program.ops[op].op {
        Op::AllGather(gather) => Some(gather.dim),
        Op::ReduceScatter(scatter) => Some(scatter.dim),
        _ => None,
    });
    let dims = tuple(&dims.collect::<Vec<usize>>());
    let first = &program.ops[ops[0]];
    Ok(match &first.op {
        Op::AllGather(gather) => {
            let group = writer.group(&gather.collective.groups);
            format!("all_gathers([{names}], {dims}, {group})")
        }
        Op::AllReduce(collective) => {
            let (kind, group) = reduction(writer, first.regions[0], collective)?;
            format!("all_reduces([{names}], \"{kind}\", {group})")
        }
        Op::ReduceScatter(scatter) => {
            let (kind, group) = reduction(writer, first.regions[0], &scatter.collective)?;
            format!("reduce_scatters([{names}], \"{kind}\", {dims}, {group})")
        }
        // Nothing else is ever put together.
        other => return Err(format!("`{}` runs alone", other.name())),
    })
}

/// The type of elements in PyTorch.
pub(super) fn dtype(dtype: DType) -> Result<&'static str, String> {
    Ok(match dtype {
        DType::BF16 => "torch.bfloat16",
        DType::Bool => "torch.bool",
        DType::Complex128 => "torch.complex128",
        DType::Complex64 => "torch.complex64",
        DType::F16 => "torch.float16",
        DType::F32 => "torch.float32",
        DType::F64 => "torch.float64",
        DType::F8E4M3FN => "torch.float8_e4m3fn",
        DType::F8E4M3FNUZ => "torch.float8_e4m3fnuz",
        DType::F8E5M2 => "torch.float8_e5m2",
        DType::F8E5M2FNUZ => "torch.float8_e5m2fnuz",
        DType::F8E8M0FNU => "torch.float8_e8m0fnu",
        DType::I16 => "torch.int16",
        DType::I32 => "torch.int32",
        DType::I64 => "torch.int64",
        DType::I8 => "torch.int8",
        DType::U16 => "torch.uint16",
        DType::U32 => "torch.uint32",
        DType::U64 => "torch.uint64",
        DType::U8 => "torch.uint8",
        DType::F4E2M1FN
        | DType::F6E2M3FN
        | DType::F6E3M2FN
        | DType::F8E3M4
        | DType::F8E4M3
        | DType::F8E4M3B11FNUZ
        | DType::I2
        | DType::I4
        | DType::Token
        | DType::U2
        | DType::U4 => return Err(format!("PyTorch has no elements of type `{dtype}`")),
    })
}

fn python(is_true: bool) -> &'static str {
    if is_true { "True" } else { "False" }
}

fn list(writer: &Writer<'_>, values: &[ValueId]) -> String {
    let names: Vec<String> = values.iter().map(|&value| writer.tensor(value)).collect();
    names.join(", ")
}

/// Two operands of which at least one is a tensor where the result is one. Numbers keep no shape, so that of the two one
/// has the shape of the result.
fn pair(writer: &Writer<'_>, left: ValueId, right: ValueId, result: Option<ValueId>) -> (String, String) {
    let is_number = result.is_some_and(|result| *writer.form(result) != Form::Tensor);
    let both = writer.number(left).is_some() && writer.number(right).is_some();
    let first = if both && !is_number { writer.tensor(left) } else { writer.scalar(left) };
    (first, writer.scalar(right))
}

fn binary(
    writer: &Writer<'_>,
    binary: Binary,
    left: ValueId,
    right: ValueId,
    result: Option<ValueId>,
) -> Result<String, String> {
    let dtype = writer.program.dtype(left);
    let is_number = result.is_some_and(|result| *writer.form(result) != Form::Tensor);
    let (a, b) = pair(writer, left, right, result);
    let call = |function: &str| format!("{function}({}, {})", writer.tensor(left), writer.tensor(right));
    // One side is a number: PyTorch has functions for that.
    let bounded = |function: &str, bound: &str| match (writer.number(left), writer.number(right)) {
        _ if is_number => format!("{}({a}, {b})", if bound == "min" { "max" } else { "min" }),
        (None, Some(number)) => format!("{a}.clamp({bound}={number})"),
        (Some(number), None) => format!("{b}.clamp({bound}={number})"),
        _ => call(function),
    };
    let is_float = dtype.is_float() || dtype.is_complex();
    Ok(match binary {
        Binary::Add if writer.is_own(left) && *writer.form(right) == Form::Tensor => format!("{a}.add_({b})"),
        Binary::Add => format!("{a} + {b}"),
        Binary::And if is_number && dtype == DType::Bool => format!("{a} and {b}"),
        Binary::And => format!("{a} & {b}"),
        Binary::Atan2 => call("torch.atan2"),
        Binary::Divide if is_float => format!("{a} / {b}"),
        Binary::Divide if is_number => format!("quotient({a}, {b})"),
        Binary::Divide => format!("torch.div({}, {b}, rounding_mode=\"trunc\")", writer.tensor(left)),
        Binary::Maximum => bounded("torch.maximum", "min"),
        Binary::Minimum => bounded("torch.minimum", "max"),
        Binary::Multiply if dtype == DType::Bool => format!("{a} & {b}"),
        Binary::Multiply => format!("{a} * {b}"),
        Binary::NextAfter => call("torch.nextafter"),
        Binary::Or => format!("{a} | {b}"),
        Binary::Polygamma => return Err("PyTorch has it for one order at a time".to_owned()),
        Binary::Power => format!("torch.pow({a}, {b})"),
        Binary::Remainder if is_number => format!("remainder({a}, {b})"),
        Binary::Remainder => format!("torch.fmod({}, {b})", writer.tensor(left)),
        Binary::ShiftLeft => format!("{a} << {b}"),
        Binary::ShiftRightArithmetic => format!("{a} >> {b}"),
        Binary::ShiftRightLogical if dtype.is_unsigned() => format!("{a} >> {b}"),
        Binary::ShiftRightLogical => return Err("PyTorch shifts signs in".to_owned()),
        Binary::Subtract => format!("{a} - {b}"),
        Binary::Xor => format!("{a} ^ {b}"),
        Binary::Zeta => call("torch.special.zeta"),
    })
}

/// The function that writes the result of a binary op where the first operand is.
fn in_place(binary: Binary) -> Option<&'static str> {
    Some(match binary {
        Binary::Add => "torch.add",
        Binary::Divide => "torch.div",
        Binary::Multiply => "torch.mul",
        Binary::Subtract => "torch.sub",
        _ => return None,
    })
}

fn unary(unary: Unary, value: &str, dtype: DType) -> String {
    let function = match unary {
        Unary::Abs => "torch.abs",
        Unary::Acos => "torch.acos",
        Unary::Acosh => "torch.acosh",
        Unary::Asin => "torch.asin",
        Unary::Asinh => "torch.asinh",
        Unary::Atan => "torch.atan",
        Unary::Atanh => "torch.atanh",
        Unary::BesselI1e => "torch.special.i1e",
        Unary::Cbrt => "cube_root",
        Unary::Ceil => "torch.ceil",
        Unary::Conj => "torch.conj_physical",
        Unary::Cosh => "torch.cosh",
        Unary::Cosine => "torch.cos",
        Unary::CountLeadingZeros => "leading_zeros",
        Unary::Digamma => "torch.digamma",
        Unary::Erf => "torch.erf",
        Unary::ErfInv => "torch.erfinv",
        Unary::Erfc => "torch.erfc",
        Unary::Exponential => "torch.exp",
        Unary::ExponentialMinusOne => "torch.expm1",
        Unary::Floor => "torch.floor",
        Unary::Imag => "torch.imag",
        Unary::IsFinite => "torch.isfinite",
        Unary::IsInf => "torch.isinf",
        Unary::IsNegInf => "torch.isneginf",
        Unary::IsPosInf => "torch.isposinf",
        Unary::Lgamma => "torch.lgamma",
        Unary::Log => "torch.log",
        Unary::LogPlusOne => "torch.log1p",
        Unary::Logistic => "torch.sigmoid",
        Unary::Negate => return format!("-{value}"),
        Unary::Not if dtype == DType::Bool => "torch.logical_not",
        Unary::Not => return format!("~{value}"),
        Unary::PopulationCount => "population_count",
        Unary::Real => "torch.real",
        Unary::RoundNearestAfz => "round_away",
        Unary::RoundNearestEven => "torch.round",
        Unary::Rsqrt => "torch.rsqrt",
        Unary::Sign => "torch.sgn",
        Unary::Sine => "torch.sin",
        Unary::Sinh => "torch.sinh",
        Unary::Sqrt => "torch.sqrt",
        Unary::Square => "torch.square",
        Unary::Tan => "torch.tan",
        Unary::Tanh => "torch.tanh",
    };
    format!("{function}({value})")
}

fn clamp(writer: &Writer<'_>, operands: &[ValueId], result: Option<ValueId>) -> String {
    let (low, value, high) = (operands[0], operands[1], operands[2]);
    if result.is_some_and(|result| *writer.form(result) != Form::Tensor) {
        return format!("min(max({}, {}), {})", writer.scalar(value), writer.scalar(low), writer.scalar(high));
    }
    match (writer.number(low), writer.number(high)) {
        (Some(low), Some(high)) => format!("{}.clamp({low}, {high})", writer.tensor(value)),
        _ => {
            let [low, value, high] = [low, value, high].map(|value| writer.tensor(value));
            format!("torch.minimum(torch.maximum({value}, {low}), {high})")
        }
    }
}

fn select(writer: &Writer<'_>, operands: &[ValueId], result: Option<ValueId>) -> String {
    let (choice, left, right) = (operands[0], operands[1], operands[2]);
    let is_number = result.is_some_and(|result| *writer.form(result) != Form::Tensor);
    if let Some(choice) = writer.number(choice) {
        let [left, right] =
            [left, right].map(|value| if is_number { writer.scalar(value) } else { writer.tensor(value) });
        return format!("{left} if {choice} else {right}");
    }
    // Where both are numbers PyTorch would choose the type of the result.
    let (left, right) = pair(writer, left, right, result);
    let text = format!("torch.where({}, {left}, {right})", writer.tensor(choice));
    let shape = result.map(|result| writer.program.shape(result)).unwrap_or_default();
    let is_alike =
        operands.iter().any(|&value| *writer.form(value) == Form::Tensor && writer.program.shape(value) == shape);
    if is_alike { text } else { format!("{text}.expand({})", tuple(shape)) }
}

/// A value in more or larger dimensions, without a copy.
fn spread(writer: &Writer<'_>, value: ValueId, shape: &[usize], dims: &[usize]) -> String {
    spread_text(writer.tensor(value), writer.program.shape(value), shape, dims)
}

fn spread_text(text: String, own: &[usize], shape: &[usize], dims: &[usize]) -> String {
    let order: Vec<usize> = {
        let mut order: Vec<usize> = (0..dims.len()).collect();
        order.sort_by_key(|&index| dims[index]);
        order
    };
    let text = if order.is_sorted() { text } else { format!("{text}.permute({})", tuple(&order)) };
    let mut middle = vec![1; shape.len()];
    dims.iter().zip(own).for_each(|(&dim, &size)| middle[dim] = size);
    let permuted: Vec<usize> = order.iter().map(|&index| own[index]).collect();
    let text = if middle == permuted {
        text
    } else if own.iter().product::<usize>() == 0 {
        format!("{text}.reshape({})", tuple(&middle))
    } else {
        // Dimensions of size 1 come in between.
        let places: Vec<&str> = (0..shape.len()).map(|dim| if dims.contains(&dim) { ":" } else { "None" }).collect();
        let last = places.iter().rposition(|place| *place == "None").unwrap_or(0);
        format!("{text}[{}]", places[..=last].join(", "))
    };
    if middle == shape { text } else { format!("{text}.expand({})", tuple(shape)) }
}

/// The name of what a region does with two numbers.
fn reducer(writer: &Writer<'_>, region: RegionId) -> Result<&'static str, String> {
    let program = writer.program;
    let is_bool = program.regions[region].arguments.first().is_some_and(|&value| program.dtype(value) == DType::Bool);
    Ok(match program.applied_binary(region) {
        Some(Binary::Add) if is_bool => "any",
        Some(Binary::Add) => "sum",
        Some(Binary::Maximum) if is_bool => "any",
        Some(Binary::Maximum) => "max",
        Some(Binary::Minimum) if is_bool => "all",
        Some(Binary::Minimum) => "min",
        Some(Binary::Multiply) => "product",
        Some(Binary::And) if is_bool => "all",
        Some(Binary::Or) if is_bool => "any",
        _ => return Err("its reduction is none that PyTorch has".to_owned()),
    })
}

fn reduction(
    writer: &mut Writer<'_>,
    region: RegionId,
    collective: &Collective,
) -> Result<(&'static str, String), String> {
    let kind = reducer(writer, region)?;
    Ok((kind, writer.group(&collective.groups)))
}

fn reduce(writer: &Writer<'_>, op: OpId, dims: &[usize]) -> Result<String, String> {
    let program = writer.program;
    let operation = &program.ops[op];
    let [value, initial] = operation.operands[..] else { return several(writer, op, dims) };
    let kind = reducer(writer, operation.regions[0])?;
    let text = writer.tensor(value);
    if dims.is_empty() {
        return Ok(text);
    }
    let dtype = dtype(program.dtype(value))?;
    let is_integer = program.dtype(value).is_integer();
    let made = match kind {
        "sum" if is_integer => format!("{text}.sum({}, dtype={dtype})", tuple(dims)),
        "sum" => format!("{text}.sum({})", tuple(dims)),
        "max" => format!("{text}.amax({})", tuple(dims)),
        "min" => format!("{text}.amin({})", tuple(dims)),
        "all" => format!("{text}.all({})", tuple(dims)),
        "any" => format!("{text}.any({})", tuple(dims)),
        _ => format!("product({text}, {})", tuple(dims)),
    };
    let known = match writer.form(initial) {
        Form::Number { known, .. } => *known,
        Form::Tensor => None,
    };
    let number = writer.scalar(initial);
    Ok(match (kind, known) {
        ("sum" | "any", Some(0.0)) | ("product" | "all", Some(1.0)) => made,
        ("max", Some(least)) if least == f64::NEG_INFINITY => made,
        ("min", Some(most)) if most == f64::INFINITY => made,
        // The least and the most that there is change nothing.
        ("max" | "min", Some(_)) if is_integer => made,
        ("sum", _) => format!("{made} + {number}"),
        ("product", _) => format!("{made} * {number}"),
        ("max", Some(_)) => format!("{made}.clamp(min={number})"),
        ("min", Some(_)) => format!("{made}.clamp(max={number})"),
        _ => return Err("it starts from something else than nothing".to_owned()),
    })
}

/// The largest or least element along a dimension and its place: a reduction of elements and positions at once.
fn several(writer: &Writer<'_>, op: OpId, dims: &[usize]) -> Result<String, String> {
    let operation = &writer.program.ops[op];
    let (&[values, positions, _, _], &[dim]) = (operation.operands.as_slice(), dims) else {
        return Err("it reduces several tensors at once".to_owned());
    };
    let kind = if reads_greater(writer, operation.regions[0])? { "max" } else { "min" };
    Ok(format!("extreme({}, {}, \"{kind}\", {dim})", writer.tensor(values), writer.tensor(positions)))
}

fn reduce_window(writer: &Writer<'_>, op: OpId, window: &Window) -> Result<String, String> {
    let operation = &writer.program.ops[op];
    let padding: Vec<String> = window.padding.iter().map(|(low, high)| format!("({low}, {high})")).collect();
    let shape = format!(
        "{}, {}, {}, {}, {}",
        tuple(&window.sizes),
        tuple(&window.strides),
        tuple(&window.base_dilation),
        tuple(&window.window_dilation),
        tuple(&padding),
    );
    match operation.operands[..] {
        [value, initial] => {
            let kind = reducer(writer, operation.regions[0])?;
            Ok(format!("reduce_window({}, {}, \"{kind}\", {shape})", writer.tensor(value), writer.scalar(initial)))
        }
        [values, positions, _, _] => {
            let kind = if reads_greater(writer, operation.regions[0])? { "max" } else { "min" };
            Ok(format!("extreme_window({}, {}, \"{kind}\", {shape})", writer.tensor(values), writer.tensor(positions)))
        }
        _ => Err("it reduces several tensors at once".to_owned()),
    }
}

/// Whether a region that chooses among elements with positions prefers what is greater.
fn reads_greater(writer: &Writer<'_>, region: RegionId) -> Result<bool, String> {
    let program = writer.program;
    let own = &program.regions[region];
    let first = own.arguments.first().copied();
    let compares = own.ops.iter().filter_map(|&op| match program.ops[op].op {
        Op::Compare { direction, .. } if program.ops[op].operands.first().copied() == first => Some(direction),
        _ => None,
    });
    for direction in compares {
        match direction {
            Direction::Greater | Direction::GreaterOrEqual => return Ok(true),
            Direction::Less | Direction::LessOrEqual => return Ok(false),
            Direction::Equal | Direction::NotEqual => {}
        }
    }
    Err("its reduction is none that PyTorch has".to_owned())
}

/// Which element of a window is chosen.
fn selector(writer: &Writer<'_>, region: RegionId) -> Result<&'static str, String> {
    Ok(if reads_greater(writer, region)? { "max" } else { "min" })
}

fn descending(writer: &Writer<'_>, region: RegionId) -> Result<bool, String> {
    let program = writer.program;
    let own = &program.regions[region];
    let is_simple = own.ops.len() == 1 && program.ops[own.ops[0]].operands[..] == own.arguments[..2];
    if !is_simple {
        return Err("its order is none that PyTorch has".to_owned());
    }
    reads_greater(writer, region).map_err(|_| "its order is none that PyTorch has".to_owned())
}

fn gather(writer: &Writer<'_>, operands: &[ValueId], gather: &crate::program::Gather) -> String {
    let program = writer.program;
    let (value, indices) = (operands[0], operands[1]);
    let (shape, index_rank) = (program.shape(value), program.shape(indices).len());
    let names = list(writer, operands);
    // Slices of one dimension, whole along all others.
    if let (&[dim], &[collapsed], true) =
        (&gather.start_index_map[..], &gather.collapsed_slice_dims[..], gather.operand_batching_dims.is_empty())
        && dim == collapsed
        && (0..shape.len()).all(|other| other == dim || gather.slice_sizes[other] == shape[other])
    {
        let is_vector = gather.index_vector_dim < index_rank;
        let places = index_rank - usize::from(is_vector);
        let expected: Vec<usize> = (0..dim).chain(dim + places..shape.len() - 1 + places).collect();
        if gather.offset_dims[..] == expected[..] && (!is_vector || gather.index_vector_dim == index_rank - 1) {
            let squeezed = if is_vector { ".squeeze(-1)" } else { "" };
            return format!("take({}, {}{squeezed}, {dim})", writer.tensor(value), writer.tensor(indices));
        }
    }
    format!(
        "gather({names}, offset={}, collapsed={}, batching={}, index_batching={}, index_map={}, vector={}, sizes={})",
        tuple(&gather.offset_dims),
        tuple(&gather.collapsed_slice_dims),
        tuple(&gather.operand_batching_dims),
        tuple(&gather.start_indices_batching_dims),
        tuple(&gather.start_index_map),
        gather.index_vector_dim,
        tuple(&gather.slice_sizes),
    )
}

fn scatter(writer: &Writer<'_>, op: OpId, scatter: &crate::program::Scatter) -> Result<String, String> {
    let program = writer.program;
    let operation = &program.ops[op];
    let [value, indices, updates] = operation.operands[..] else {
        return Err("it writes several tensors at once".to_owned());
    };
    let region = &program.regions[operation.regions[0]];
    let is_replaced = region.ops.is_empty() && region.results.first() == region.arguments.get(1);
    let kind = if is_replaced { "replace" } else { reducer(writer, operation.regions[0])? };
    Ok(format!(
        "scatter({}, {}, {}, \"{kind}\", window={}, inserted={}, batching={}, index_batching={}, index_map={}, vector={})",
        writer.scalar(value),
        tuple(program.shape(value)),
        list(writer, &[indices, updates]),
        tuple(&scatter.update_window_dims),
        tuple(&scatter.inserted_window_dims),
        tuple(&scatter.input_batching_dims),
        tuple(&scatter.scatter_indices_batching_dims),
        tuple(&scatter.scatter_dims_to_operand_dims),
        scatter.index_vector_dim,
    ))
}
