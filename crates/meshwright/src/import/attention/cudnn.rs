//! Attention as JAX calls it from cuDNN, by names such as `__cudnn$fmhaSoftmax`.
//!
//! Operands lie as the products of the call's configuration say: JAX has (batch, length, heads,
//! width) or (batch, heads, length, width). The shapes of outputs and gradients are always (batch,
//! heads, length, width); that they lie in memory as the operands do is a matter of layouts, which
//! are not part of a program.

use serde_json::Value;
use smallvec::SmallVec;

use crate::import::attribute::Attribute;
use crate::import::cursor::unescape;
use crate::import::fields::Fields;
use crate::import::parse::{Parser, RawOp};
use crate::program::{
    Attention, AttentionGrad, DType, Dims, Literal, LocationId, Op, Program, RegionId, Type, ValueId, Values,
};

const PREFIX: &str = "__cudnn$fmha";

/// Adds the attention, or the gradient of one, that a custom call stands for. A call that does more
/// than our ops say is left alone, with a warning; then and for any other call there are no results.
pub(in crate::import) fn add_cudnn_attention<'a>(
    parser: &mut Parser<'a>,
    region: RegionId,
    raw: &RawOp<'a>,
    location: LocationId,
) -> Option<Values> {
    let fields = Fields { raw };
    let target = match fields.find(&["call_target_name", "callee"])?.value {
        Attribute::String(target) | Attribute::Symbol(target) if target.starts_with(PREFIX) => target,
        _ => return None,
    };
    let config = match fields.find(&["backend_config"]).map(|named| &named.value) {
        Some(Attribute::String(config)) => unescape(config),
        _ => String::new(),
    };
    let added = read_config(&config).and_then(|config| match &target[PREFIX.len()..] {
        "ScaleBiasSoftmax" => Emit { parser, region, location }.forward(raw, &config, true),
        "ScaleBiasSoftmaxBackward" => Emit { parser, region, location }.backward(raw, &config, true),
        "Softmax" => Emit { parser, region, location }.forward(raw, &config, false),
        "SoftmaxBackward" => Emit { parser, region, location }.backward(raw, &config, false),
        _ => Err("there is no op for its kind".to_owned()),
    });
    match added {
        Ok(results) => Some(results),
        Err(reason) => {
            let message = format!("`{target}` is not read as attention: {reason}");
            parser.warn_once(target, raw, &message, "kept whole on each device");
            None
        }
    }
}

/// What the calls say of themselves in `backend_config`.
struct Config {
    scale: f64,
    causal: bool,
    /// The whole of it, which also holds the dimensions of the products.
    all: Value,
}

fn read_config(text: &str) -> Result<Config, String> {
    let mut config: Value = serde_json::from_str(text).map_err(|problem| format!("its configuration: {problem}"))?;
    let all = config["cudnn_fmha_backend_config"].take();
    let causal = match all["mask_type"].as_str() {
        Some("CAUSAL") => true,
        Some("NO_MASK") => false,
        mask => return Err(format!("its mask is `{}`", mask.unwrap_or("unknown"))),
    };
    let scale = number(&all["fmha_scale"]).ok_or("it has no scale")?;
    let number_or = |name: &str, default: f64| if all[name].is_null() { Some(default) } else { number(&all[name]) };
    if number_or("dropout_rate", 0.0) != Some(0.0) {
        return Err("it drops weights out".to_owned());
    }
    if number_or("sliding_window_length", 0.0) != Some(0.0) {
        return Err("it has a sliding window".to_owned());
    }
    if number_or("max_seg_per_batch", 1.0) != Some(1.0) {
        return Err("it packs several sequences into one".to_owned());
    }
    if all["is_paged_attention"] == true {
        return Err("its keys and values are in pages".to_owned());
    }
    // Other kinds keep the weights where these keep the statistics.
    if all["is_flash_attention"] != true {
        return Err("it is no flash attention".to_owned());
    }
    Ok(Config { scale, causal, all })
}

/// JSON made from protocol buffers has large integers as strings.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

impl Config {
    /// How the right side of a product has to be transposed to (batch, heads, length, width), given
    /// whether it is the length or the width that is contracted.
    fn right_order(&self, product: &str, contracted: Contracted) -> Result<Dims, String> {
        self.order(product, "rhs", contracted)
    }

    fn order(&self, product: &str, side: &str, contracted: Contracted) -> Result<Dims, String> {
        let numbers = &self.all[format!("{product}_dot_dimension_numbers")];
        let dims = |name: &str| -> Option<Vec<usize>> {
            let list = numbers[format!("{side}_{name}_dimensions")].as_array()?;
            list.iter().map(|dim| number(dim).map(|dim| dim as usize)).collect()
        };
        let order = match (dims("batch").as_deref(), dims("contracting").as_deref()) {
            (Some(&[batch, heads]), Some(&[inner])) => (0..4)
                .find(|dim| ![batch, heads, inner].contains(dim))
                .map(|free| match contracted {
                    Contracted::Length => Dims::from_slice(&[batch, heads, inner, free]),
                    Contracted::Width => Dims::from_slice(&[batch, heads, free, inner]),
                })
                .filter(|order| (0..4).all(|dim| order.contains(&dim))),
            _ => None,
        };
        order.ok_or_else(|| format!("the dimensions of its product `{product}` are unusual"))
    }
}

#[derive(Clone, Copy)]
enum Contracted {
    Length,
    Width,
}

/// Adds ops to the end of a region.
struct Emit<'p, 'a> {
    parser: &'p mut Parser<'a>,
    region: RegionId,
    location: LocationId,
}

impl Emit<'_, '_> {
    /// Query, key, value and the bias in; the output, in training the statistics, and a workspace out.
    fn forward(mut self, raw: &RawOp<'_>, config: &Config, bias: bool) -> Result<Values, String> {
        let [query, key, value, others @ ..] = &raw.operands[..] else { return Err(wrong_operands(raw)) };
        if others.len() != usize::from(bias) {
            return Err(wrong_operands(raw));
        }
        let query = self.arranged(*query, &config.order("bmm1", "lhs", Contracted::Width)?)?;
        let key = self.arranged(*key, &config.right_order("bmm1", Contracted::Width)?)?;
        let value = self.arranged(*value, &config.right_order("bmm2", Contracted::Length)?)?;
        self.check_mask(config, query, key)?;
        let operands: Values = [query, key, value].into_iter().chain(others.iter().copied()).collect();
        let (scale, causal, statistics) = (config.scale, config.causal, raw.result_types.len() == 3);
        self.finish(Op::Attention(Box::new(Attention { scale, causal, bias, statistics })), &operands, raw)
    }

    /// Query, key, value, statistics, the gradient of the output, the bias and the output in; the
    /// gradients of query, key, value and perhaps of the bias, and a workspace out.
    fn backward(mut self, raw: &RawOp<'_>, config: &Config, bias: bool) -> Result<Values, String> {
        let [query, key, value, statistics, output_gradient, biases @ .., output] = &raw.operands[..] else {
            return Err(wrong_operands(raw));
        };
        if biases.len() != usize::from(bias) {
            return Err(wrong_operands(raw));
        }
        let output_order = config.right_order("bmm2_grad_gemm1", Contracted::Length)?;
        let query = self.arranged(*query, &config.right_order("bmm1_grad_gemm1", Contracted::Length)?)?;
        let key = self.arranged(*key, &config.right_order("bmm1_grad_gemm2", Contracted::Length)?)?;
        let value = self.arranged(*value, &config.right_order("bmm2_grad_gemm2", Contracted::Width)?)?;
        let output = self.arranged(*output, &output_order)?;
        let output_gradient = self.arranged(*output_gradient, &output_order)?;
        self.check_mask(config, query, key)?;
        let operands = [query, key, value].into_iter().chain(biases.iter().copied());
        let operands: Values = operands.chain([output, *statistics, output_gradient]).collect();
        let (scale, causal, bias_gradient) = (config.scale, config.causal, raw.result_types.len() == 5);
        self.finish(Op::AttentionGrad(Box::new(AttentionGrad { scale, causal, bias, bias_gradient })), &operands, raw)
    }

    /// cuDNN's causal mask starts from the first query and the first key, ours ends at the last ones.
    fn check_mask(&self, config: &Config, query: ValueId, key: ValueId) -> Result<(), String> {
        let (queries, keys) = (self.program().shape(query)[2], self.program().shape(key)[2]);
        if !config.causal || queries == keys {
            return Ok(());
        }
        Err(format!("its causal mask is between {queries} queries and {keys} keys"))
    }

    /// Adds the op, and an empty constant as the workspace that the call has for its last result.
    fn finish(self, op: Op, operands: &[ValueId], raw: &RawOp<'_>) -> Result<Values, String> {
        let workspace = Type::new(DType::U8, &[0]);
        let types = crate::program::infer(self.program(), &op, operands, &[])?;
        if !types.iter().chain([&workspace]).eq(&raw.result_types) {
            return Err("its results are unusual".to_owned());
        }
        let (program, region, location) = (&mut self.parser.program, self.region, self.location);
        let op = program.add_op_with_types(region, op, operands, &[], types, location);
        let constant = Op::Constant(Literal::splat(workspace.clone(), 0));
        let constant = program.add_op_with_types(region, constant, &[], &[], [workspace], location);
        Ok(program.ops[op].results.iter().chain(&program.ops[constant].results).copied().collect())
    }

    /// The value transposed; what was only transposed the other way before is taken from there.
    fn arranged(&mut self, value: ValueId, order: &[usize]) -> Result<ValueId, String> {
        let program = &mut self.parser.program;
        let ty = program.ty(value);
        if ty.rank() != order.len() {
            return Err(format!("`{ty}` does not have {} dimensions", order.len()));
        }
        if is_identity(order.iter().copied()) {
            return Ok(value);
        }
        if let Some(operation) = program.producer(value).map(|op| &program.ops[op])
            && let Op::Transpose { permutation } = &operation.op
            && is_identity(order.iter().map(|&dim| permutation[dim]))
        {
            return Ok(operation.operands[0]);
        }
        let op = Op::Transpose { permutation: Dims::from_slice(order) };
        let id = program.add_op(self.region, op, &[value], &[], self.location)?;
        Ok(program.ops[id].results[0])
    }

    fn program(&self) -> &Program {
        &self.parser.program
    }
}

fn is_identity(order: impl Iterator<Item = usize>) -> bool {
    order.enumerate().all(|(index, dim)| index == dim)
}

fn wrong_operands(raw: &RawOp<'_>) -> String {
    let types: SmallVec<[String; 8]> = raw.operand_types.iter().map(|ty| format!("`{ty}`")).collect();
    format!("its operands are {}", types.join(", "))
}
