//! Attention and its gradient written out in plain StableHLO.

use std::fmt;

use super::Printer;
use super::literal::Real;
use super::parts::List;
use crate::program::{Attention, AttentionGrad, DType, Operation, Program, Type, ValueId};

impl<'a> Printer<'a> {
    /// Prints an attention as the ops it stands for. Values in between are named after the first
    /// result, `%a12_0`, `%a12_1` and so on for `%12`, so that they never meet the name of another
    /// value.
    ///
    /// Query heads that share a group of keys are laid one after the other along the queries, so
    /// that keys and values are never repeated in memory. A query that may see no key at all gets
    /// zeros, where a softmax taken literally would divide zero by zero.
    pub(super) fn expand_attention(&mut self, attention: &Attention, operation: &'a Operation) -> fmt::Result {
        let scores = Scores::of(self.program, operation, attention.scale, attention.causal, attention.bias);
        // What is not an attention at all is printed as it is, to be seen and mended.
        let (Some(scores), &[output, ref statistics @ ..]) = (scores, &operation.results[..]) else {
            return self.as_it_is(operation);
        };
        let mut writer = Expansion { printer: self, operation, first: output, count: 0 };
        let masked = writer.masked_scores(&scores)?;
        let softmax = writer.softmax(&masked, &scores.ty)?;
        writer.weighted_values(&softmax.weights, output, &scores)?;
        match *statistics {
            [statistics] => writer.statistics(&softmax, statistics),
            _ => Ok(()),
        }
    }

    /// Prints the gradient of an attention as the ops it stands for, in the way of
    /// [`expand_attention`](Printer::expand_attention). The sums over the heads of a group come with
    /// the sums over the queries.
    pub(super) fn expand_attention_grad(&mut self, grad: &AttentionGrad, operation: &'a Operation) -> fmt::Result {
        let scores = Scores::of(self.program, operation, grad.scale, grad.causal, grad.bias);
        let (
            Some(scores),
            &[.., output, statistics, output_gradient],
            &[query_gradient, key_gradient, value_gradient, ref bias_gradient @ ..],
        ) = (scores, &operation.operands[..], &operation.results[..])
        else {
            return self.as_it_is(operation);
        };
        let mut writer = Expansion { printer: self, operation, first: query_gradient, count: 0 };
        let masked = writer.masked_scores(&scores)?;
        let weights = writer.weights(&masked, statistics, &scores.ty)?;
        writer.value_gradient(&weights, output_gradient, value_gradient, &scores)?;
        let score_gradients = writer.score_gradients(&weights, output, output_gradient, &scores)?;
        writer.query_and_key_gradients(&score_gradients, query_gradient, key_gradient, &scores)?;
        match *bias_gradient {
            [bias_gradient] => writer.bias_gradient(&score_gradients, bias_gradient, &scores.ty),
            _ => Ok(()),
        }
    }
}

/// What the scores of an attention are made of.
struct Scores {
    query: ValueId,
    key: ValueId,
    value: ValueId,
    bias: Option<ValueId>,
    scale: f64,
    causal: bool,
    /// Of all scores; f32 or wider, as the softmax is.
    ty: Type,
    groups: usize,
}

impl Scores {
    fn of(program: &Program, operation: &Operation, scale: f64, causal: bool, has_bias: bool) -> Option<Scores> {
        let &[query, key, value, ref others @ ..] = &operation.operands[..] else { return None };
        let (&[batch, heads, queries, _], &[_, groups, keys, _]) = (program.shape(query), program.shape(key)) else {
            return None;
        };
        let bias = if has_bias { Some(*others.first()?) } else { None };
        let wide = if program.dtype(query) == DType::F64 { DType::F64 } else { DType::F32 };
        let ty = Type::new(wide, &[batch, heads, queries, keys]);
        Some(Scores { query, key, value, bias, scale, causal, ty, groups })
    }
}

/// A number to be printed in some element type.
#[derive(Clone, Copy)]
enum Number {
    Of(f64),
    /// The least finite number.
    Lowest,
}

struct Softmax {
    weights: String,
    /// Of each row of scores: the largest, and the sum of the exponentials of what is left after
    /// subtracting it.
    largest: String,
    sum: String,
}

struct Expansion<'p, 'a> {
    printer: &'p mut Printer<'a>,
    operation: &'p Operation,
    /// The result that values in between are named after.
    first: ValueId,
    /// How many names have been given.
    count: usize,
}

impl Expansion<'_, '_> {
    /// The scaled, biased and masked scores.
    fn masked_scores(&mut self, scores: &Scores) -> Result<String, fmt::Error> {
        let products = self.head_products(scores.query, scores.key, scores)?;
        let scale = self.splat(Number::Of(scores.scale), &scores.ty)?;
        let mut masked = self.binary("multiply", &products, &scale, &scores.ty)?;
        if let Some(bias) = scores.bias {
            masked = self.add_bias(&masked, bias, &scores.ty)?;
        }
        if scores.causal {
            masked = self.mask_the_future(&masked, &scores.ty)?;
        }
        Ok(masked)
    }

    /// `products[b, h, q, k] = left[b, h, q, :] . right[b, h / (heads / groups), k, :]`.
    fn head_products(&mut self, left: ValueId, right: ValueId, scores: &Scores) -> Result<String, fmt::Error> {
        let program = self.printer.program;
        let (left, left_type) = self.folded(&left.to_string(), program.ty(left), scores.groups)?;
        let folded = fold_heads(&scores.ty, scores.groups);
        let product = Product { left: &left, left_type: &left_type, right, contract: [3, 3] };
        let products = self.line(format_args!("{}", product.text(program, &folded)))?;
        if folded == scores.ty {
            return Ok(products);
        }
        self.line(format_args!("stablehlo.reshape {products} : ({folded}) -> {}", scores.ty))
    }

    fn add_bias(&mut self, scores: &str, bias: ValueId, score_type: &Type) -> Result<String, fmt::Error> {
        let bias_type = self.printer.program.ty(bias);
        if bias_type.dtype == DType::Bool {
            let seen = self.spread(&bias.to_string(), bias_type, score_type)?;
            return self.keep_where(&seen, scores, score_type);
        }
        let wide_type = bias_type.with_dtype(score_type.dtype);
        let wide = self.convert(&bias.to_string(), bias_type, &wide_type)?;
        let bias = self.spread(&wide, &wide_type, score_type)?;
        self.binary("add", scores, &bias, score_type)
    }

    /// Masks out the keys after `q + keys - queries` for query `q`.
    fn mask_the_future(&mut self, scores: &str, score_type: &Type) -> Result<String, fmt::Error> {
        let (queries, keys) = (score_type.shape[2], score_type.shape[3]);
        let index_type = Type::new(DType::I32, &[queries, keys]);
        let row = self.line(format_args!("stablehlo.iota dim = 0 : {index_type}"))?;
        let column = self.line(format_args!("stablehlo.iota dim = 1 : {index_type}"))?;
        let ahead = keys as i64 - queries as i64;
        let ahead = self.line(format_args!("stablehlo.constant dense<{ahead}> : {index_type}"))?;
        let last = self.binary("add", &row, &ahead, &index_type)?;
        let seen_type = index_type.with_dtype(DType::Bool);
        let seen = self.line(format_args!(
            "stablehlo.compare LE, {column}, {last}, SIGNED : ({index_type}, {index_type}) -> {seen_type}"
        ))?;
        let seen = self.spread(&seen, &seen_type, score_type)?;
        self.keep_where(&seen, scores, score_type)
    }

    /// Softmax along the keys.
    fn softmax(&mut self, scores: &str, score_type: &Type) -> Result<Softmax, fmt::Error> {
        let row_type = score_type.with_shape(&score_type.shape[..3]);
        let scalar_type = Type::scalar(score_type.dtype);
        // A largest score of at least the least finite number keeps rows without any key to see
        // away from the difference of two infinities.
        let lowest = self.constant(Number::Lowest, &scalar_type)?;
        let largest = self.reduce("maximum", scores, &lowest, score_type, &row_type)?;
        let everywhere = self.spread_rows(&largest, &row_type, score_type)?;
        let shifted = self.binary("subtract", scores, &everywhere, score_type)?;
        let powers = self.line(format_args!("stablehlo.exponential {shifted} : {score_type}"))?;
        let zero = self.constant(Number::Of(0.0), &scalar_type)?;
        let sum = self.reduce("add", &powers, &zero, score_type, &row_type)?;
        // The largest score adds exactly one, so this changes the sum of rows without keys only.
        let one = self.splat(Number::Of(1.0), &row_type)?;
        let divisor = self.binary("maximum", &sum, &one, &row_type)?;
        let divisor = self.spread_rows(&divisor, &row_type, score_type)?;
        let weights = self.binary("divide", &powers, &divisor, score_type)?;
        Ok(Softmax { weights, largest, sum })
    }

    fn weighted_values(&mut self, weights: &str, output: ValueId, scores: &Scores) -> fmt::Result {
        let (weights, weight_type) = self.narrow_and_folded(weights, scores)?;
        let product = Product { left: &weights, left_type: &weight_type, right: scores.value, contract: [3, 2] };
        self.unfolded_product(&product, output, scores.groups)
    }

    /// The logarithm of a sum of no exponentials is minus infinity, as it should be.
    fn statistics(&mut self, softmax: &Softmax, result: ValueId) -> fmt::Result {
        let ty = self.printer.program.ty(result);
        let logarithm = self.line(format_args!("stablehlo.log {} : {ty}", softmax.sum))?;
        self.result_line(result, format_args!("stablehlo.add {}, {logarithm} : {ty}", softmax.largest))
    }

    /// The softmax again, from the statistics of its rows.
    fn weights(&mut self, scores: &str, statistics: ValueId, score_type: &Type) -> Result<String, fmt::Error> {
        let row_type = score_type.with_shape(&score_type.shape[..3]);
        // As in the softmax, no difference of two infinities.
        let lowest = self.splat(Number::Lowest, &row_type)?;
        let bounded = self.binary("maximum", &statistics.to_string(), &lowest, &row_type)?;
        let everywhere = self.spread_rows(&bounded, &row_type, score_type)?;
        let shifted = self.binary("subtract", scores, &everywhere, score_type)?;
        self.line(format_args!("stablehlo.exponential {shifted} : {score_type}"))
    }

    fn value_gradient(
        &mut self,
        weights: &str,
        output_gradient: ValueId,
        result: ValueId,
        scores: &Scores,
    ) -> fmt::Result {
        let program = self.printer.program;
        let (weights, weight_type) = self.narrow_and_folded(weights, scores)?;
        let gradient_type = program.ty(output_gradient);
        let (gradient, gradient_type) = self.folded(&output_gradient.to_string(), gradient_type, scores.groups)?;
        self.sum_over_queries([&weights, &gradient], [&weight_type, &gradient_type], result)
    }

    /// `weights * (output_gradient * value^T - sum(output * output_gradient))`.
    fn score_gradients(
        &mut self,
        weights: &str,
        output: ValueId,
        output_gradient: ValueId,
        scores: &Scores,
    ) -> Result<String, fmt::Error> {
        let program = self.printer.program;
        let output_type = program.ty(output);
        let wide_type = output_type.with_dtype(scores.ty.dtype);
        let row_type = scores.ty.with_shape(&scores.ty.shape[..3]);
        let weight_gradients = self.head_products(output_gradient, scores.value, scores)?;
        let wide_output = self.convert(&output.to_string(), output_type, &wide_type)?;
        let wide_gradient = self.convert(&output_gradient.to_string(), output_type, &wide_type)?;
        let along_output = self.binary("multiply", &wide_output, &wide_gradient, &wide_type)?;
        let zero = self.constant(Number::Of(0.0), &Type::scalar(wide_type.dtype))?;
        let along_output = self.reduce("add", &along_output, &zero, &wide_type, &row_type)?;
        let along_output = self.spread_rows(&along_output, &row_type, &scores.ty)?;
        let difference = self.binary("subtract", &weight_gradients, &along_output, &scores.ty)?;
        self.binary("multiply", weights, &difference, &scores.ty)
    }

    fn query_and_key_gradients(
        &mut self,
        score_gradients: &str,
        query_gradient: ValueId,
        key_gradient: ValueId,
        scores: &Scores,
    ) -> fmt::Result {
        let program = self.printer.program;
        let scale = self.splat(Number::Of(scores.scale), &scores.ty)?;
        let scaled = self.binary("multiply", score_gradients, &scale, &scores.ty)?;
        let (scaled, scaled_type) = self.narrow_and_folded(&scaled, scores)?;
        let product = Product { left: &scaled, left_type: &scaled_type, right: scores.key, contract: [3, 2] };
        self.unfolded_product(&product, query_gradient, scores.groups)?;
        let query = scores.query;
        let (query, query_type) = self.folded(&query.to_string(), program.ty(query), scores.groups)?;
        self.sum_over_queries([&scaled, &query], [&scaled_type, &query_type], key_gradient)
    }

    /// The score gradients summed along the dimensions that the bias does not have.
    fn bias_gradient(&mut self, score_gradients: &str, result: ValueId, score_type: &Type) -> fmt::Result {
        let result_type = self.printer.program.ty(result);
        let sizes = result_type.shape.iter().zip(&score_type.shape);
        let is_summed: Vec<bool> = sizes.map(|(size, score)| size != score).collect();
        let summed: Vec<usize> = (0..4).filter(|&dim| is_summed[dim]).collect();
        let kept: Vec<usize> = (0..4).filter(|&dim| !is_summed[dim]).map(|dim| score_type.shape[dim]).collect();
        let (mut gradient, mut ty) = (score_gradients.to_owned(), score_type.clone());
        if !summed.is_empty() {
            let scalar_type = Type::scalar(ty.dtype);
            let zero = self.constant(Number::Of(0.0), &scalar_type)?;
            let sum_type = ty.with_shape(&kept);
            gradient = self.line(format_args!(
                "stablehlo.reduce({gradient} init: {zero}) applies stablehlo.add across dimensions = [{}] : \
                 ({ty}, {scalar_type}) -> {sum_type}",
                List(&summed)
            ))?;
            ty = sum_type;
        }
        let narrow_type = ty.with_dtype(result_type.dtype);
        let narrow = self.convert(&gradient, &ty, &narrow_type)?;
        self.result_line(result, format_args!("stablehlo.reshape {narrow} : ({narrow_type}) -> {result_type}"))
    }

    /// A tensor of scores in the element type of the values, the heads of a group one after the
    /// other.
    fn narrow_and_folded(&mut self, tensor: &str, scores: &Scores) -> Result<(String, Type), fmt::Error> {
        let narrow_type = scores.ty.with_dtype(self.printer.program.dtype(scores.value));
        let narrow = self.convert(tensor, &scores.ty, &narrow_type)?;
        self.folded(&narrow, &narrow_type, scores.groups)
    }

    fn folded(&mut self, value: &str, ty: &Type, groups: usize) -> Result<(String, Type), fmt::Error> {
        let folded = fold_heads(ty, groups);
        if folded == *ty {
            return Ok((value.to_owned(), folded));
        }
        let value = self.line(format_args!("stablehlo.reshape {value} : ({ty}) -> {folded}"))?;
        Ok((value, folded))
    }

    /// A product whose rows are the queries of all heads of a group, as a result by heads.
    fn unfolded_product(&mut self, product: &Product<'_>, result: ValueId, groups: usize) -> fmt::Result {
        let program = self.printer.program;
        let result_type = program.ty(result);
        let folded = fold_heads(result_type, groups);
        let product = product.text(program, &folded);
        if folded == *result_type {
            return self.result_line(result, format_args!("{product}"));
        }
        let product = self.line(format_args!("{product}"))?;
        self.result_line(result, format_args!("stablehlo.reshape {product} : ({folded}) -> {result_type}"))
    }

    /// `result[b, g, k, :] = sum over q of scores[b, g, q, k] * rows[b, g, q, :]`.
    fn sum_over_queries(&mut self, [scores, rows]: [&str; 2], types: [&Type; 2], result: ValueId) -> fmt::Result {
        let (result_type, [score_type, row_type]) = (self.printer.program.ty(result), types);
        self.result_line(
            result,
            format_args!(
                "stablehlo.dot_general {scores}, {rows}, batching_dims = [0, 1] x [0, 1], \
                 contracting_dims = [2] x [2] : ({score_type}, {row_type}) -> {result_type}"
            ),
        )
    }

    fn keep_where(&mut self, seen: &str, scores: &str, score_type: &Type) -> Result<String, fmt::Error> {
        let hidden = self.splat(Number::Of(f64::NEG_INFINITY), score_type)?;
        let seen_type = score_type.with_dtype(DType::Bool);
        self.line(format_args!("stablehlo.select {seen}, {scores}, {hidden} : {seen_type}, {score_type}"))
    }

    fn binary(&mut self, name: &str, lhs: &str, rhs: &str, ty: &Type) -> Result<String, fmt::Error> {
        self.line(format_args!("stablehlo.{name} {lhs}, {rhs} : {ty}"))
    }

    fn convert(&mut self, value: &str, from: &Type, to: &Type) -> Result<String, fmt::Error> {
        if from == to {
            return Ok(value.to_owned());
        }
        self.line(format_args!("stablehlo.convert {value} : ({from}) -> {to}"))
    }

    fn reduce(&mut self, name: &str, value: &str, start: &str, from: &Type, to: &Type) -> Result<String, fmt::Error> {
        let scalar = Type::scalar(from.dtype);
        self.line(format_args!(
            "stablehlo.reduce({value} init: {start}) applies stablehlo.{name} across dimensions = [3] : \
             ({from}, {scalar}) -> {to}"
        ))
    }

    /// Broadcasts a value whose dimensions are the last ones of the scores, or 1.
    fn spread(&mut self, value: &str, from: &Type, score_type: &Type) -> Result<String, fmt::Error> {
        let to = score_type.with_dtype(from.dtype);
        if *from == to {
            return Ok(value.to_owned());
        }
        let dims = &["0", "1", "2", "3"][4 - from.rank().min(4)..];
        let dims = List(dims);
        self.line(format_args!("stablehlo.broadcast_in_dim {value}, dims = [{dims}] : ({from}) -> {to}"))
    }

    fn spread_rows(&mut self, value: &str, from: &Type, to: &Type) -> Result<String, fmt::Error> {
        self.line(format_args!("stablehlo.broadcast_in_dim {value}, dims = [0, 1, 2] : ({from}) -> {to}"))
    }

    fn splat(&mut self, number: Number, ty: &Type) -> Result<String, fmt::Error> {
        let scalar_type = Type::scalar(ty.dtype);
        let scalar = self.constant(number, &scalar_type)?;
        self.line(format_args!("stablehlo.broadcast_in_dim {scalar}, dims = [] : ({scalar_type}) -> {ty}"))
    }

    fn constant(&mut self, number: Number, ty: &Type) -> Result<String, fmt::Error> {
        let number = match (number, ty.dtype) {
            (Number::Of(value), DType::F64) => Real::F64(value),
            (Number::Of(value), _) => Real::F32(value as f32),
            (Number::Lowest, DType::F64) => Real::F64(f64::MIN),
            (Number::Lowest, _) => Real::F32(f32::MIN),
        };
        self.line(format_args!("stablehlo.constant dense<{number}> : {ty}"))
    }

    /// Prints one op and gives back the name of its result.
    fn line(&mut self, text: fmt::Arguments<'_>) -> Result<String, fmt::Error> {
        let name = format!("%a{}_{}", self.first.0, self.count);
        self.count += 1;
        self.named_line(&name, text)?;
        Ok(name)
    }

    /// Prints the op that makes a result of the whole.
    fn result_line(&mut self, result: ValueId, text: fmt::Arguments<'_>) -> fmt::Result {
        self.named_line(&result.to_string(), text)
    }

    fn named_line(&mut self, name: &str, text: fmt::Arguments<'_>) -> fmt::Result {
        self.printer.start_line()?;
        write!(self.printer.out, "{name} = {text}")?;
        self.printer.end_line(self.operation)
    }
}

/// A product of matrices, one for each group of each batch entry.
struct Product<'t> {
    left: &'t str,
    left_type: &'t Type,
    right: ValueId,
    contract: [usize; 2],
}

impl Product<'_> {
    fn text(&self, program: &Program, result_type: &Type) -> String {
        let Product { left, left_type, right, contract: [left_contract, right_contract] } = self;
        format!(
            "stablehlo.dot_general {left}, {right}, batching_dims = [0, 1] x [0, 1], \
             contracting_dims = [{left_contract}] x [{right_contract}] : ({left_type}, {}) -> {result_type}",
            program.ty(*right)
        )
    }
}

/// The type with the heads of a group laid one after the other along the next dimension.
fn fold_heads(ty: &Type, groups: usize) -> Type {
    let shape = &ty.shape;
    let per_group = shape[1].checked_div(groups).unwrap_or(0);
    ty.with_shape(&[shape[0], groups, per_group * shape[2], shape[3]])
}
