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
        let constant = Op::Constant(Box::new(Literal::splat(workspace.clone(), 0)));
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::import::import;

    /// Reads a call and compares what the function holds, or the warning that a call gives that
    /// stays as it is. Types are written as in `2x3xf32`, several with spaces between.
    #[track_caller]
    fn check(target: &str, config: &str, operands: &str, results: &str, expected: &str) {
        let types = |text: &str| -> Vec<String> { text.split(' ').map(|ty| format!("tensor<{ty}>")).collect() };
        let (operands, results) = (types(operands), types(results));
        let arguments: Vec<String> = operands.iter().enumerate().map(|(at, ty)| format!("%arg{at}: {ty}")).collect();
        let names: Vec<String> = (0..operands.len()).map(|at| format!("%arg{at}")).collect();
        let returned: Vec<String> = (0..results.len()).map(|at| format!("%0#{at}")).collect();
        let config = config.replace('"', r"\22");
        let text = format!(
            "func.func public @main({}) -> ({results}) {{
               %0:{} = stablehlo.custom_call @{target}({}) {{api_version = 2 : i32, backend_config = \"{config}\",
                 operand_layouts = [dense<[3, 2, 1, 0]> : tensor<4xindex>]}} : ({}) -> ({results})
               return {} : {results}
             }}",
            arguments.join(", "),
            returned.len(),
            names.join(", "),
            operands.join(", "),
            returned.join(", "),
            results = results.join(", "),
        );
        let imported = import(&Arc::from(text.as_str()));
        let actual = match &imported.diagnostics[..] {
            [] => {
                let text = imported.program.expect("a program without errors").to_string();
                let lines: Vec<&str> = text.lines().collect();
                lines[2..lines.len() - 2].iter().map(|line| line.trim_start()).collect::<Vec<_>>().join("\n")
            }
            [diagnostic] => diagnostic.message.clone(),
            several => panic!("{several:?}"),
        };
        assert_eq!(actual, expected);
    }

    /// The parts of JAX's configuration that are read; `rest` comes last, so it decides.
    fn config(products: &[(&str, [&str; 4])], rest: &str) -> String {
        let products: Vec<String> = products
            .iter()
            .map(|(name, [left_batch, right_batch, left, right])| {
                format!(
                    r#""{name}_dot_dimension_numbers": {{"lhs_contracting_dimensions": [{left}], "rhs_contracting_dimensions": [{right}], "lhs_batch_dimensions": [{left_batch}], "rhs_batch_dimensions": [{right_batch}]}}"#
                )
            })
            .collect();
        format!(
            r#"{{"operation_queue_id": "0", "cudnn_fmha_backend_config": {{"fmha_scale": 0.3, "is_flash_attention": true, "mask_type": "NO_MASK", {}, "dropout_rate": 0.0, "seed": 42, "sliding_window_length": 0, "max_seg_per_batch": 1, "is_paged_attention": false{rest}}}}}"#,
            products.join(", ")
        )
    }

    const HEADS_FIRST: &str = r#""0", "1""#;
    const LENGTH_FIRST: &str = r#""0", "2""#;

    fn forward_config(heads_first: bool, rest: &str) -> String {
        let (batch, length) = if heads_first { (HEADS_FIRST, r#""2""#) } else { (LENGTH_FIRST, r#""1""#) };
        let products = [("bmm1", [batch, batch, r#""3""#, r#""3""#]), ("bmm2", [HEADS_FIRST, batch, r#""3""#, length])];
        config(&products, rest)
    }

    fn backward_config(heads_first: bool, rest: &str) -> String {
        let (batch, length) = if heads_first { (HEADS_FIRST, r#""2""#) } else { (LENGTH_FIRST, r#""1""#) };
        let products = [
            ("bmm1_grad_gemm1", [HEADS_FIRST, batch, r#""2""#, length]),
            ("bmm1_grad_gemm2", [HEADS_FIRST, batch, r#""3""#, length]),
            ("bmm2_grad_gemm1", [HEADS_FIRST, batch, r#""2""#, length]),
            ("bmm2_grad_gemm2", [batch, batch, r#""3""#, r#""3""#]),
        ];
        config(&products, rest)
    }

    #[test]
    fn forward() {
        check(
            "__cudnn$fmhaSoftmax",
            &forward_config(true, ""),
            "2x4x8x16xbf16 2x2x6x16xbf16 2x2x6x24xbf16",
            "2x4x8x24xbf16 0xui8",
            "%3 = stablehlo.custom_call @meshwright.attention(%0, %1, %2) {meshwright.causal = false, meshwright.scale = 0.3 : f64} : (tensor<2x4x8x16xbf16>, tensor<2x2x6x16xbf16>, tensor<2x2x6x24xbf16>) -> tensor<2x4x8x24xbf16>
%4 = stablehlo.constant dense<> : tensor<0xui8>
return %3, %4 : tensor<2x4x8x24xbf16>, tensor<0xui8>",
        );
        check(
            "__cudnn$fmhaSoftmax",
            &forward_config(false, r#", "mask_type": "CAUSAL""#),
            "2x8x4x16xf16 2x8x4x16xf16 2x8x4x16xf16",
            "2x4x8x16xf16 2x4x8xf32 0xui8",
            "%3 = stablehlo.transpose %0, dims = [0, 2, 1, 3] : (tensor<2x8x4x16xf16>) -> tensor<2x4x8x16xf16>
%4 = stablehlo.transpose %1, dims = [0, 2, 1, 3] : (tensor<2x8x4x16xf16>) -> tensor<2x4x8x16xf16>
%5 = stablehlo.transpose %2, dims = [0, 2, 1, 3] : (tensor<2x8x4x16xf16>) -> tensor<2x4x8x16xf16>
%6, %7 = stablehlo.custom_call @meshwright.attention(%3, %4, %5) {meshwright.causal = true, meshwright.scale = 0.3 : f64, meshwright.statistics = true} : (tensor<2x4x8x16xf16>, tensor<2x4x8x16xf16>, tensor<2x4x8x16xf16>) -> (tensor<2x4x8x16xf16>, tensor<2x4x8xf32>)
%8 = stablehlo.constant dense<> : tensor<0xui8>
return %6, %7, %8 : tensor<2x4x8x16xf16>, tensor<2x4x8xf32>, tensor<0xui8>",
        );
        check(
            "__cudnn$fmhaScaleBiasSoftmax",
            &forward_config(true, ""),
            "2x4x8x16xbf16 2x4x6x16xbf16 2x4x6x16xbf16 1x4x8x6xbf16",
            "2x4x8x16xbf16 0xui8",
            "%4 = stablehlo.custom_call @meshwright.attention(%0, %1, %2, %3) {meshwright.causal = false, meshwright.scale = 0.3 : f64} : (tensor<2x4x8x16xbf16>, tensor<2x4x6x16xbf16>, tensor<2x4x6x16xbf16>, tensor<1x4x8x6xbf16>) -> tensor<2x4x8x16xbf16>
%5 = stablehlo.constant dense<> : tensor<0xui8>
return %4, %5 : tensor<2x4x8x16xbf16>, tensor<0xui8>",
        );
    }

    #[test]
    fn backward() {
        check(
            "__cudnn$fmhaSoftmaxBackward",
            &backward_config(false, r#", "mask_type": "CAUSAL""#),
            "2x8x4x16xbf16 2x8x2x16xbf16 2x8x2x24xbf16 2x4x8xf32 2x8x4x24xbf16 2x8x4x24xbf16",
            "2x4x8x16xbf16 2x2x8x16xbf16 2x2x8x24xbf16 0xui8",
            "%6 = stablehlo.transpose %0, dims = [0, 2, 1, 3] : (tensor<2x8x4x16xbf16>) -> tensor<2x4x8x16xbf16>
%7 = stablehlo.transpose %1, dims = [0, 2, 1, 3] : (tensor<2x8x2x16xbf16>) -> tensor<2x2x8x16xbf16>
%8 = stablehlo.transpose %2, dims = [0, 2, 1, 3] : (tensor<2x8x2x24xbf16>) -> tensor<2x2x8x24xbf16>
%9 = stablehlo.transpose %5, dims = [0, 2, 1, 3] : (tensor<2x8x4x24xbf16>) -> tensor<2x4x8x24xbf16>
%10 = stablehlo.transpose %4, dims = [0, 2, 1, 3] : (tensor<2x8x4x24xbf16>) -> tensor<2x4x8x24xbf16>
%11, %12, %13 = stablehlo.custom_call @meshwright.attention_grad(%6, %7, %8, %9, %3, %10) {meshwright.causal = true, meshwright.scale = 0.3 : f64} : (tensor<2x4x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x2x8x24xbf16>, tensor<2x4x8x24xbf16>, tensor<2x4x8xf32>, tensor<2x4x8x24xbf16>) -> (tensor<2x4x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x2x8x24xbf16>)
%14 = stablehlo.constant dense<> : tensor<0xui8>
return %11, %12, %13, %14 : tensor<2x4x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x2x8x24xbf16>, tensor<0xui8>",
        );
        check(
            "__cudnn$fmhaScaleBiasSoftmaxBackward",
            &backward_config(true, ""),
            "2x4x8x16xbf16 2x4x6x16xbf16 2x4x6x16xbf16 2x4x8xf32 2x4x8x16xbf16 1x4x8x6xbf16 2x4x8x16xbf16",
            "2x4x8x16xbf16 2x4x6x16xbf16 2x4x6x16xbf16 1x4x8x6xbf16 0xui8",
            "%7, %8, %9, %10 = stablehlo.custom_call @meshwright.attention_grad(%0, %1, %2, %5, %6, %3, %4) {meshwright.bias_gradient = true, meshwright.causal = false, meshwright.scale = 0.3 : f64} : (tensor<2x4x8x16xbf16>, tensor<2x4x6x16xbf16>, tensor<2x4x6x16xbf16>, tensor<1x4x8x6xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>, tensor<2x4x8x16xbf16>) -> (tensor<2x4x8x16xbf16>, tensor<2x4x6x16xbf16>, tensor<2x4x6x16xbf16>, tensor<1x4x8x6xbf16>)
%11 = stablehlo.constant dense<> : tensor<0xui8>
return %7, %8, %9, %10, %11 : tensor<2x4x8x16xbf16>, tensor<2x4x6x16xbf16>, tensor<2x4x6x16xbf16>, tensor<1x4x8x6xbf16>, tensor<0xui8>",
        );
    }

    #[test]
    fn calls_that_do_more_stay_calls() {
        let check = |target: &str, operands: &str, results: &str, rest: &str, reason: &str| {
            let expected = format!("`{target}` is not read as attention: {reason}");
            check(target, &forward_config(true, rest), operands, results, &expected);
        };
        let softmax = |rest, reason| {
            let operands = "2x4x8x16xbf16 2x4x6x16xbf16 2x4x6x16xbf16";
            check("__cudnn$fmhaSoftmax", operands, "2x4x8x16xbf16 0xui8", rest, reason);
        };
        softmax(r#", "dropout_rate": 0.1"#, "it drops weights out");
        softmax(r#", "sliding_window_length": 3"#, "it has a sliding window");
        softmax(r#", "max_seg_per_batch": 2"#, "it packs several sequences into one");
        softmax(r#", "is_paged_attention": true"#, "its keys and values are in pages");
        softmax(r#", "is_flash_attention": false"#, "it is no flash attention");
        softmax(r#", "mask_type": "PADDING""#, "its mask is `PADDING`");
        softmax(r#", "mask_type": "CAUSAL""#, "its causal mask is between 8 queries and 6 keys");
        softmax(
            r#", "bmm1_dot_dimension_numbers": {"lhs_batch_dimensions": ["0"]}"#,
            "the dimensions of its product `bmm1` are unusual",
        );
        let operands = "2x4x8x16xbf16 2x4x8x16xbf16 2x4x8x16xbf16";
        let results = "2x4x8x16xbf16 0xui8";
        check("__cudnn$fmhaSoftmaxDropout", operands, results, "", "there is no op for its kind");
        check("__cudnn$fmhaSoftmax", operands, "2x4x8x16xbf16 64xui8", "", "its results are unusual");
        let reason = "its operands are `tensor<2x4x8x16xbf16>`, `tensor<2x4x8x16xbf16>`, `tensor<2x4x8x16xbf16>`, \
                      `tensor<2xi32>`";
        check("__cudnn$fmhaSoftmax", &format!("{operands} 2xi32"), results, "", reason);
        let reason = "the bias `tensor<1x4x8x8xf32>` does not broadcast to the scores `tensor<2x4x8x8xbf16>`";
        check("__cudnn$fmhaScaleBiasSoftmax", &format!("{operands} 1x4x8x8xf32"), results, "", reason);
    }

    #[test]
    fn a_call_without_its_configuration_stays_a_call() {
        check(
            "__cudnn$fmhaSoftmax",
            "",
            "2x4x8x16xbf16 2x4x6x16xbf16 2x4x6x16xbf16",
            "2x4x8x16xbf16 0xui8",
            "`__cudnn$fmhaSoftmax` is not read as attention: its configuration: EOF while parsing a value at line 1 \
             column 0",
        );
    }
}
