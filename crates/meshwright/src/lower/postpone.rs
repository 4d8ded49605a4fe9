//! Where ops stand that read what collectives give: as late as they may, so that others run meanwhile.
//!
//! Gradients are summed and then made what updates read: of another type or shape, added up over microbatches. Programs do
//! so as soon as they can. A device runs ops one after the other, so that it would wait for every sum, and no sum could be
//! one with the next.

use std::mem::take;

use crate::program::{Definition, Id, Op, OpId, Program, RegionId};

/// Moves cheap ops that read what collectives give, and those that read what these make, down to who reads them. Those
/// that would keep memory for that long are moved until collectives have given as much again.
pub(super) fn postpone(program: &mut Program) {
    let mut regions = vec![program.body];
    while let Some(region) = regions.pop() {
        let ops = &program.regions[region].ops;
        let loops = ops.iter().filter(|&&op| program.ops[op].op == Op::While);
        regions.extend(loops.flat_map(|&op| program.ops[op].regions.iter().copied()));
        if ops.iter().any(|&op| program.ops[op].op.is_collective()) {
            program.regions[region].ops = reordered(program, region);
        }
    }
}

fn reordered(program: &Program, region: RegionId) -> Vec<OpId> {
    let ops = &program.regions[region].ops;
    let is_postponed = vec![false; program.ops.len()];
    let mut order =
        Order { program, postponed: Vec::new(), is_postponed, written: Vec::with_capacity(ops.len()), given_bytes: 0 };
    for &op in ops {
        match order.patience(op) {
            Patience::None => order.write(op),
            Patience::Some { bytes } => order.postpone(op, Some(order.given_bytes + bytes)),
            Patience::All => order.postpone(op, None),
        }
    }
    for Postponed { op, .. } in take(&mut order.postponed) {
        if order.is_postponed[op.index()] {
            order.write_postponed(op);
        }
    }
    order.written
}

/// How far an op may be moved down.
enum Patience {
    None,
    /// Until collectives have given so much more.
    Some {
        bytes: usize,
    },
    /// To who reads it.
    All,
}

/// The ops of a region in their new order.
struct Order<'p> {
    program: &'p Program,
    /// In their old order.
    postponed: Vec<Postponed>,
    is_postponed: Vec<bool>,
    written: Vec<OpId>,
    /// What the collectives give that are written.
    given_bytes: usize,
}

struct Postponed {
    op: OpId,
    /// It is written once collectives give as much, if nobody reads it before.
    until: Option<usize>,
}

impl Order<'_> {
    fn patience(&self, op: OpId) -> Patience {
        let (program, operation) = (self.program, &self.program.ops[op]);
        if !is_cheap(&operation.op) {
            return Patience::None;
        }
        let (mut sent_bytes, mut reads_argument) = (0, false);
        for &value in &operation.operands {
            match program.values[value].definition {
                Definition::Argument { .. } => reads_argument = true,
                Definition::Result { op: maker, .. } if self.is_sent(maker) => sent_bytes += program.ty(value).bytes(),
                Definition::Result { .. } if program.ty(value).elements() <= 1 => {}
                Definition::Result { op: maker, .. } if is_number(program, maker) => {}
                Definition::Result { .. } => return Patience::None,
            }
        }
        let made_bytes = self.made_bytes(op);
        match sent_bytes {
            0 => Patience::None,
            _ if sent_bytes <= made_bytes && !reads_argument => Patience::All,
            bytes => Patience::Some { bytes },
        }
    }

    fn made_bytes(&self, op: OpId) -> usize {
        self.program.ops[op].results.iter().map(|&value| self.program.ty(value).bytes()).sum()
    }

    /// Whether what an op makes is waited for where it is read.
    fn is_sent(&self, op: OpId) -> bool {
        self.program.ops[op].op.is_collective() || self.is_postponed[op.index()]
    }

    fn postpone(&mut self, op: OpId, until: Option<usize>) {
        self.is_postponed[op.index()] = true;
        self.postponed.push(Postponed { op, until });
    }

    fn write(&mut self, op: OpId) {
        self.write_makers(op);
        self.written.push(op);
        if self.program.ops[op].op.is_collective() {
            self.given_bytes += self.made_bytes(op);
            let given_bytes = self.given_bytes;
            self.postponed.retain(|one| self.is_postponed[one.op.index()]);
            let is_due = |one: &&Postponed| one.until.is_some_and(|until| until <= given_bytes);
            let due: Vec<OpId> = self.postponed.iter().filter(is_due).map(|one| one.op).collect();
            for op in due {
                if self.is_postponed[op.index()] {
                    self.write_postponed(op);
                }
            }
        }
    }

    fn write_postponed(&mut self, op: OpId) {
        self.is_postponed[op.index()] = false;
        self.write_makers(op);
        self.written.push(op);
    }

    /// Writes those that make what an op reads.
    fn write_makers(&mut self, op: OpId) {
        for maker in self.program.outer_reads(op).into_iter().filter_map(|value| self.program.producer(value)) {
            if self.is_postponed[maker.index()] {
                self.write_postponed(maker);
            }
        }
    }
}

fn is_cheap(op: &Op) -> bool {
    op.is_elementwise() && *op != Op::OptimizationBarrier
        || matches!(
            op,
            Op::DynamicSlice { .. } | Op::Reduce { .. } | Op::Reshape { .. } | Op::Slice(_) | Op::Transpose { .. }
        )
}

/// Whether an op makes the same number everywhere, as can be seen at once.
fn is_number(program: &Program, op: OpId) -> bool {
    let operation = &program.ops[op];
    match &operation.op {
        Op::Constant(_) => true,
        Op::BroadcastInDim(_) | Op::Convert { .. } => {
            program.producer(operation.operands[0]).is_some_and(|maker| is_number(program, maker))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ops of a body in their new order, by what they are and which of its kind.
    fn check(body: &str, expected: &str) {
        let text = format!(
            "func.func @main(%w: tensor<4xf16>, %m: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf16>) {{\n{body}\n}}\n"
        );
        let mut program = crate::import::import(&text.as_str().into()).program.expect("a program");
        postpone(&mut program);
        let name = |&op: &OpId| program.ops[op].op.name().trim_start_matches("stablehlo.").to_owned();
        let names: Vec<String> = program.body().ops.iter().map(name).collect();
        assert_eq!(names.join(" "), expected);
    }

    fn sum(result: &str, operand: &str) -> String {
        format!(
            "{result} = \"stablehlo.all_reduce\"({operand}) ({{ ^bb0(%a: tensor<f16>, %b: tensor<f16>):
               %s = stablehlo.add %a, %b : tensor<f16>
               stablehlo.return %s : tensor<f16> }})
               {{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}} : (tensor<4xf16>) -> tensor<4xf16>\n"
        )
    }

    #[test]
    fn what_makes_a_sum_wider_stands_where_it_is_read() {
        let body = sum("%0", "%w")
            + "%1 = stablehlo.convert %0 : (tensor<4xf16>) -> tensor<4xf32>
               %2 = stablehlo.exponential %w : tensor<4xf16>
               %3 = stablehlo.tanh %2 : tensor<4xf16>
               %4 = stablehlo.add %1, %m : tensor<4xf32>
               return %4, %3 : tensor<4xf32>, tensor<4xf16>";
        check(&body, "all_reduce exponential tanh convert add");
    }

    #[test]
    fn what_adds_a_sum_to_an_argument_passes_as_much_as_was_summed() {
        let body = sum("%0", "%w")
            + "%1 = stablehlo.add %0, %w : tensor<4xf16>
               %2 = stablehlo.exponential %w : tensor<4xf16>\n"
            + &sum("%3", "%2")
            + "%4 = stablehlo.tanh %2 : tensor<4xf16>
               %5 = stablehlo.multiply %4, %3 : tensor<4xf16>
               %6 = stablehlo.multiply %5, %1 : tensor<4xf16>
               return %m, %6 : tensor<4xf32>, tensor<4xf16>";
        check(&body, "all_reduce exponential all_reduce add tanh multiply multiply");
    }

    #[test]
    fn what_reads_other_values_too_stays() {
        let body = sum("%0", "%w")
            + "%1 = stablehlo.exponential %w : tensor<4xf16>
               %2 = stablehlo.add %0, %1 : tensor<4xf16>
               %3 = stablehlo.tanh %1 : tensor<4xf16>
               %4 = stablehlo.multiply %3, %2 : tensor<4xf16>
               return %m, %4 : tensor<4xf32>, tensor<4xf16>";
        check(&body, "all_reduce exponential add tanh multiply");
    }
}
