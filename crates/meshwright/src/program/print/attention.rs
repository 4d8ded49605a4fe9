//! Attention written out in plain StableHLO.

use std::fmt;

use super::Printer;
use super::literal::Real;
use super::parts::List;
use crate::program::{Attention, DType, Operation, Type, ValueId};

impl<'a> Printer<'a> {
    /// Prints an attention as the ops it stands for. Values in between are named after the result,
    /// `%a12_0`, `%a12_1` and so on for `%12`, so that they never meet the name of another value.
    ///
    /// Query heads that share a group of keys are laid one after the other along the queries, so
    /// that keys and values are never repeated in memory. A query that may see no key at all gets
    /// zeros, where a softmax taken literally would divide zero by zero.
    pub(super) fn expand_attention(&mut self, attention: &Attention, operation: &'a Operation) -> fmt::Result {
        let program = self.program;
        // What is not an attention at all is printed as it is, to be seen and mended.
        let (&[query, key, value, ref bias @ ..], &[result]) = (&operation.operands[..], &operation.results[..]) else {
            return self.as_it_is(operation);
        };
        let (&[batch, heads, queries, _], &[_, groups, keys, _]) = (program.shape(query), program.shape(key)) else {
            return self.as_it_is(operation);
        };
        // The softmax is computed in f32 or wider.
        let wide = if program.dtype(query) == DType::F64 { DType::F64 } else { DType::F32 };
        let score_type = Type::new(wide, &[batch, heads, queries, keys]);
        let mut writer = Expansion { printer: self, operation, result, count: 0 };

        let scores = writer.scores(query, key, &score_type)?;
        let scale = writer.splat(Number::Of(attention.scale), &score_type)?;
        let mut scores = writer.binary("multiply", &scores, &scale, &score_type)?;
        if let [bias] = *bias {
            scores = writer.add_bias(&scores, bias, &score_type)?;
        }
        if attention.causal {
            scores = writer.mask_the_future(&scores, &score_type)?;
        }
        let weights = writer.softmax(&scores, &score_type)?;
        writer.weighted_values(&weights, value, groups, &score_type)
    }
}

/// A number to be printed in some element type.
#[derive(Clone, Copy)]
enum Number {
    Of(f64),
    /// The least finite number.
    Lowest,
}

struct Expansion<'p, 'a> {
    printer: &'p mut Printer<'a>,
    operation: &'p Operation,
    result: ValueId,
    /// How many names have been given.
    count: usize,
}

impl Expansion<'_, '_> {
    /// `scores[b, h, q, k] = query[b, h, q, :] . key[b, h / (heads / groups), k, :]`.
    fn scores(&mut self, query: ValueId, key: ValueId, score_type: &Type) -> Result<String, fmt::Error> {
        let program = self.printer.program;
        let (query_type, key_type) = (program.ty(query), program.ty(key));
        let (heads, groups) = (query_type.shape[1], key_type.shape[1]);
        let (mut query, mut query_type) = (query.to_string(), query_type.clone());
        if heads != groups {
            let folded = fold_heads(&query_type, groups);
            query = self.line(format_args!("stablehlo.reshape {query} : ({query_type}) -> {folded}"))?;
            query_type = folded;
        }
        let folded = fold_heads(score_type, groups);
        let scores = self.line(format_args!(
            "stablehlo.dot_general {query}, {key}, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : \
             ({query_type}, {key_type}) -> {folded}"
        ))?;
        if heads == groups {
            return Ok(scores);
        }
        self.line(format_args!("stablehlo.reshape {scores} : ({folded}) -> {score_type}"))
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
    fn softmax(&mut self, scores: &str, score_type: &Type) -> Result<String, fmt::Error> {
        let row_type = score_type.with_shape(&score_type.shape[..3]);
        let scalar_type = Type::scalar(score_type.dtype);
        // A largest score of at least the least finite number keeps rows without any key to see
        // away from the difference of two infinities.
        let lowest = self.constant(Number::Lowest, &scalar_type)?;
        let largest = self.reduce("maximum", scores, &lowest, score_type, &row_type)?;
        let largest = self.spread_rows(&largest, &row_type, score_type)?;
        let shifted = self.binary("subtract", scores, &largest, score_type)?;
        let powers = self.line(format_args!("stablehlo.exponential {shifted} : {score_type}"))?;
        let zero = self.constant(Number::Of(0.0), &scalar_type)?;
        let sum = self.reduce("add", &powers, &zero, score_type, &row_type)?;
        // The largest score adds exactly one, so this changes the sum of rows without keys only.
        let one = self.splat(Number::Of(1.0), &row_type)?;
        let sum = self.binary("maximum", &sum, &one, &row_type)?;
        let sum = self.spread_rows(&sum, &row_type, score_type)?;
        self.binary("divide", &powers, &sum, score_type)
    }

    /// Prints the last op, which makes the attention's own result.
    fn weighted_values(&mut self, weights: &str, value: ValueId, groups: usize, score_type: &Type) -> fmt::Result {
        let program = self.printer.program;
        let (value_type, result_type) = (program.ty(value), program.ty(self.result));
        let mut weight_type = score_type.with_dtype(value_type.dtype);
        let mut weights = self.convert(weights, score_type, &weight_type)?;
        let grouped = score_type.shape[1] != groups;
        if grouped {
            let folded = fold_heads(&weight_type, groups);
            weights = self.line(format_args!("stablehlo.reshape {weights} : ({weight_type}) -> {folded}"))?;
            weight_type = folded;
        }
        let folded = fold_heads(result_type, groups);
        let product = format_args!(
            "stablehlo.dot_general {weights}, {value}, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : \
             ({weight_type}, {value_type}) -> {folded}"
        )
        .to_string();
        if !grouped {
            return self.last_line(format_args!("{product}"));
        }
        let product = self.line(format_args!("{product}"))?;
        self.last_line(format_args!("stablehlo.reshape {product} : ({folded}) -> {result_type}"))
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
        let name = format!("%a{}_{}", self.result.0, self.count);
        self.count += 1;
        self.named_line(&name, text)?;
        Ok(name)
    }

    fn last_line(&mut self, text: fmt::Arguments<'_>) -> fmt::Result {
        self.named_line(&self.result.to_string(), text)
    }

    fn named_line(&mut self, name: &str, text: fmt::Arguments<'_>) -> fmt::Result {
        self.printer.start_line()?;
        write!(self.printer.out, "{name} = {text}")?;
        self.printer.end_line(self.operation)
    }
}

/// The type with the heads of a group laid one after the other along the next dimension.
fn fold_heads(ty: &Type, groups: usize) -> Type {
    let shape = &ty.shape;
    let per_group = shape[1].checked_div(groups).unwrap_or(0);
    ty.with_shape(&[shape[0], groups, per_group * shape[2], shape[3]])
}
