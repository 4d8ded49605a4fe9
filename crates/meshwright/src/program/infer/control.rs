//! Branches and loops, and ops that talk to the world outside.

use smallvec::smallvec;

use super::check::{at_least, is_type, region_arguments, region_results, take, take_regions};
use super::{Signature, Types};
use crate::program::{DType, Feed, Transfer, Type};

pub(super) fn after_all(operands: &[&Type]) -> Result<Types, String> {
    for (index, operand) in operands.iter().enumerate() {
        is_type(&format!("operand {index}"), operand, &Type::token())?;
    }
    Ok(smallvec![Type::token()])
}

pub(super) fn case(operands: &[&Type], regions: &[Signature<'_>]) -> Result<Types, String> {
    let [index] = take(operands)?;
    is_type("the index", index, &Type::scalar(DType::I32))?;
    branches(regions)
}

/// Types that the op itself says.
pub(super) fn declared(types: &[Type]) -> Result<Types, String> {
    Ok(types.iter().cloned().collect())
}

pub(super) fn if_(operands: &[&Type], regions: &[Signature<'_>]) -> Result<Types, String> {
    let [predicate] = take(operands)?;
    is_type("the predicate", predicate, &Type::scalar(DType::Bool))?;
    take_regions::<2>(regions)?;
    branches(regions)
}

pub(super) fn infeed(feed: &Feed, operands: &[&Type]) -> Result<Types, String> {
    let [token] = take(operands)?;
    is_type("operand 0", token, &Type::token())?;
    tensors_then_token(&feed.result_types)
}

pub(super) fn optimization_barrier(operands: &[&Type]) -> Result<Types, String> {
    Ok(operands.iter().map(|&operand| operand.clone()).collect())
}

pub(super) fn outfeed(feed: &Feed, operands: &[&Type]) -> Result<Types, String> {
    sends_tensors(operands, &feed.result_types)
}

pub(super) fn recv(transfer: &Transfer, operands: &[&Type]) -> Result<Types, String> {
    let [token] = take(operands)?;
    is_type("operand 0", token, &Type::token())?;
    channel_type(transfer, if transfer.is_host_transfer { 3 } else { 1 })?;
    tensors_then_token(&transfer.result_types)
}

pub(super) fn send(transfer: &Transfer, operands: &[&Type]) -> Result<Types, String> {
    channel_type(transfer, if transfer.is_host_transfer { 2 } else { 1 })?;
    sends_tensors(operands, &transfer.result_types)
}

pub(super) fn while_(operands: &[&Type], regions: &[Signature<'_>]) -> Result<Types, String> {
    let [condition, body] = take_regions(regions)?;
    let state = || operands.iter().copied();
    region_arguments("the condition", condition, state())?;
    region_results("the condition", condition, [Type::scalar(DType::Bool)].iter())?;
    region_arguments("the body", body, state())?;
    region_results("the body", body, state())?;
    Ok(state().cloned().collect())
}

/// At least one branch; none takes arguments and all give back the same types.
fn branches(regions: &[Signature<'_>]) -> Result<Types, String> {
    let Some(first) = regions.first() else {
        return Err("expected at least 1 region, got 0".to_owned());
    };
    for (index, branch) in regions.iter().enumerate() {
        let name = format!("branch {index}");
        region_arguments(&name, branch, std::iter::empty())?;
        region_results(&name, branch, first.results.iter().copied())?;
    }
    Ok(first.results.iter().map(|&result| result.clone()).collect())
}

fn channel_type(transfer: &Transfer, expected: i64) -> Result<(), String> {
    if transfer.channel_type == expected {
        return Ok(());
    }
    Err(format!("expected channel type {expected}, got {}", transfer.channel_type))
}

fn sends_tensors(operands: &[&Type], result_types: &[Type]) -> Result<Types, String> {
    at_least(operands, 1)?;
    for (index, operand) in operands.iter().enumerate() {
        let is_last = index + 1 == operands.len();
        if (operand.dtype == DType::Token) != is_last {
            return Err(format!("expected tensors and then one token, got `{operand}` as operand {index}"));
        }
    }
    match result_types {
        [token] if *token == Type::token() => Ok(smallvec![Type::token()]),
        _ => Err(format!("the result is one token, but {result_types:?} is declared")),
    }
}

fn tensors_then_token(result_types: &[Type]) -> Result<Types, String> {
    match result_types.split_last() {
        Some((last, tensors)) if last.dtype == DType::Token && tensors.iter().all(|ty| ty.dtype != DType::Token) => {
            declared(result_types)
        }
        _ => Err(format!("the results are tensors and then one token, but {result_types:?} is declared")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use crate::program::*;

    #[test]
    fn after_all_and_optimization_barrier() {
        check(Op::AfterAll, "", &[], "token");
        check(Op::AfterAll, "token token", &[], "token");
        check(Op::AfterAll, "f32", &[], "error: operand 0 must be `!stablehlo.token`, got `tensor<f32>`");
        check(Op::OptimizationBarrier, "f32 token 2xi8", &[], "f32 token 2xi8");
    }

    #[test]
    fn branches() {
        check(Op::Case, "i32", &["-> f32 token", "-> f32 token"], "f32 token");
        check(Op::Case, "i32", &[], "error: expected at least 1 region, got 0");
        check(Op::Case, "i64", &["->"], "error: the index must be `tensor<i32>`, got `tensor<i64>`");
        check(Op::If, "i1", &["-> 2xf32", "-> 2xf32"], "2xf32");
        check(Op::If, "i1", &["-> 2xf32"], "error: expected 2 regions, got 1");
        check(Op::If, "2xi1", &["->", "->"], "error: the predicate must be `tensor<i1>`, got `tensor<2xi1>`");
        let message = "error: result 0 of branch 1 must be `tensor<f32>`, got `tensor<i32>`";
        check(Op::If, "i1", &["-> f32", "-> i32"], message);
        check(Op::If, "i1", &["f32 ->", "->"], "error: expected 0 arguments of branch 0, got 1");
    }

    #[test]
    fn declared_types() {
        let types = || vec![Type::new(DType::F32, &[2]), Type::token()];
        let opaque = Opaque { name: "x.y".to_owned(), result_types: types(), attributes: Vec::new() };
        check(Op::Opaque(Box::new(opaque)), "i1", &["f32 -> f32"], "2xf32 token");
        let call = CustomCall {
            target: "f".to_owned(),
            has_side_effect: false,
            result_types: vec![Type::new(DType::F32, &[1 << 62])],
            attributes: Vec::new(),
            rule: None,
        };
        let message = "error: `tensor<4611686018427387904xf32>` has more elements than 63 bits can count";
        check(Op::CustomCall(Box::new(call)), "i1", &[], message);
    }

    #[test]
    fn feeds() {
        let feed =
            |result_types: &[Type]| Box::new(Feed { config: String::new(), result_types: result_types.to_vec() });
        let tensor = Type::new(DType::F32, &[2]);
        check(Op::Infeed(feed(&[tensor.clone(), Type::token()])), "token", &[], "2xf32 token");
        let message = "error: the results are tensors and then one token, but [tensor<2xf32>] is declared";
        check(Op::Infeed(feed(std::slice::from_ref(&tensor))), "token", &[], message);
        let message = "error: operand 0 must be `!stablehlo.token`, got `tensor<f32>`";
        check(Op::Infeed(feed(&[Type::token()])), "f32", &[], message);
        check(Op::Outfeed(feed(&[Type::token()])), "2xf32 token", &[], "token");
        let message = "error: expected tensors and then one token, got `tensor<2xf32>` as operand 0";
        check(Op::Outfeed(feed(&[Type::token()])), "2xf32", &[], message);
        let message = "error: the result is one token, but [tensor<2xf32>] is declared";
        check(Op::Outfeed(feed(&[tensor])), "token", &[], message);
    }

    #[test]
    fn transfers() {
        let transfer = |channel_type, is_host_transfer, result_types: &[Type]| {
            Box::new(Transfer { channel: 1, channel_type, is_host_transfer, result_types: result_types.to_vec() })
        };
        let tensor = Type::new(DType::F32, &[2]);
        check(Op::Recv(transfer(3, true, &[tensor.clone(), Type::token()])), "token", &[], "2xf32 token");
        let message = "error: expected channel type 1, got 3";
        check(Op::Recv(transfer(3, false, &[tensor, Type::token()])), "token", &[], message);
        check(Op::Send(transfer(2, true, &[Type::token()])), "2xf32 token", &[], "token");
        check(Op::Send(transfer(1, false, &[Type::token()])), "2xf32 token", &[], "token");
        check(Op::Send(transfer(1, false, &[Type::token()])), "", &[], "error: expected at least 1 operand, got 0");
    }

    #[test]
    fn while_() {
        let check = |regions, expected| check(Op::While, "i32 2xf32", regions, expected);
        check(&["i32 2xf32 -> i1", "i32 2xf32 -> i32 2xf32"], "i32 2xf32");
        check(&["i32 2xf32 -> i1"], "error: expected 2 regions, got 1");
        let message = "error: expected 1 result of the condition, got 0";
        check(&["i32 2xf32 ->", "i32 2xf32 -> i32 2xf32"], message);
        let message = "error: expected 2 results of the body, got 1";
        check(&["i32 2xf32 -> i1", "i32 2xf32 -> i32"], message);
    }
}
