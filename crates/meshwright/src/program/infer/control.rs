//! Branches and loops, and ops that talk to the world outside.

use smallvec::smallvec;

use super::check::{at_least, is_type, region_types, take, take_regions};
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
    region_types("argument of the condition", &condition.arguments, state())?;
    region_types("result of the condition", &condition.results, [Type::scalar(DType::Bool)].iter())?;
    region_types("argument of the body", &body.arguments, state())?;
    region_types("result of the body", &body.results, state())?;
    Ok(state().cloned().collect())
}

/// At least one branch; none takes arguments and all give back the same types.
fn branches(regions: &[Signature<'_>]) -> Result<Types, String> {
    let Some(first) = regions.first() else {
        return Err("expected at least 1 region, got 0".to_owned());
    };
    for (index, branch) in regions.iter().enumerate() {
        region_types(&format!("argument of branch {index}"), &branch.arguments, std::iter::empty())?;
        region_types(&format!("result of branch {index}"), &branch.results, first.results.iter().copied())?;
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
