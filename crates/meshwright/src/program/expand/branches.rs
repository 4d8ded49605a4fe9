//! Conditionals as both of their branches and a choice.

use std::borrow::Cow;

use crate::program::{
    Copier, DType, Direction, Literal, LocationId, Op, OpId, Order, Program, RegionId, Type, ValueId,
};
use crate::program::{is_heavy, is_pure};

/// The same program where conditionals compute all their branches and choose among what these give, as far as branches
/// are cheap: optimizers that update in every few steps are written so. A conditional runs whole on every device; what
/// stands outside of it can be cut like everything else.
pub fn expand_branches(program: &Program) -> Cow<'_, Program> {
    if !program.ops.ids().any(|op| is_cheap_choice(program, op)) {
        return Cow::Borrowed(program);
    }
    let mut copier = Copier::new(program);
    let body = copier.new.body;
    copy_region(&mut copier, program.body, body);
    Cow::Owned(copier.new.compact())
}

/// Whether an op is a conditional with branches of which nothing takes long, and that do nothing but compute.
fn is_cheap_choice(program: &Program, op: OpId) -> bool {
    let operation = &program.ops[op];
    matches!(operation.op, Op::Case | Op::If) && operation.regions.iter().all(|&branch| is_cheap(program, branch))
}

fn is_cheap(program: &Program, region: RegionId) -> bool {
    program.regions[region].ops.iter().all(|&op| {
        let operation = &program.ops[op];
        let is_long = is_heavy(&operation.op) || matches!(operation.op, Op::Sort { .. } | Op::While);
        is_pure(&operation.op) && !is_long && operation.regions.iter().all(|&inner| is_cheap(program, inner))
    })
}

fn copy_region(copier: &mut Copier<'_>, from: RegionId, to: RegionId) {
    copier.copy_arguments(from, to);
    copy_ops(copier, from, to);
    copier.copy_results(from, to);
}

fn copy_ops(copier: &mut Copier<'_>, from: RegionId, to: RegionId) {
    let old = copier.old;
    for &op in &old.regions[from].ops {
        let location = copier.location(old.ops[op].location);
        if is_cheap_choice(old, op) {
            choose(copier, op, to, location);
        } else {
            copier.copy_op(op, to, location, &mut copy_region);
        }
    }
}

fn choose(copier: &mut Copier<'_>, op: OpId, to: RegionId, at: LocationId) {
    let old = copier.old;
    let operation = &old.ops[op];
    let chosen = copier.value(operation.operands[0]);
    let mut given = Vec::with_capacity(operation.regions.len());
    for &branch in &operation.regions {
        copy_ops(copier, branch, to);
        given.push(copier.values(&old.regions[branch].results));
    }
    // Of numbers that there is no branch for, all mean the last.
    let mut results = given.pop().unwrap_or_default();
    for (number, branch) in given.into_iter().enumerate().rev() {
        let is_chosen = if operation.op == Op::If { chosen } else { is_number(copier, chosen, number, to, at) };
        for (result, value) in results.iter_mut().zip(branch).filter(|(result, value)| **result != *value) {
            let ty = copier.new.ty(value).clone();
            *result = copier.add_op(to, Op::Select, &[is_chosen, value, *result], ty, at);
        }
    }
    for (&result, value) in operation.results.iter().zip(results) {
        copier.set_value(result, value);
    }
}

fn is_number(copier: &mut Copier<'_>, index: ValueId, number: usize, to: RegionId, at: LocationId) -> ValueId {
    let ty = copier.new.ty(index).clone();
    let literal = Literal::splat_integer(ty.clone(), number as i64);
    let constant = copier.add_op(to, Op::Constant(Box::new(literal)), &[], ty.clone(), at);
    let compare = Op::Compare { direction: Direction::Equal, order: Order::Signed };
    copier.add_op(to, compare, &[index, constant], Type { dtype: DType::Bool, ..ty }, at)
}
