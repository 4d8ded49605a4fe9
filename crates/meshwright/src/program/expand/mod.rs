//! Large ops written out in smaller ones, for engines and analyses that do not know them.

mod attention;
mod batch_norm;
mod branches;

pub use branches::expand_branches;

use std::borrow::Cow;

use super::{Builder, Copier, Op, OpId, Program, RegionId, ValueId, Values};

/// The same program with attention and its gradient written out in ops that every engine has.
///
/// Like every rewrite, it leaves out what nobody reads. An attention whose parts would have more
/// elements than can be counted stays as it is.
pub fn expand_attention(program: &Program) -> Cow<'_, Program> {
    expand(program, attention::written_out)
}

/// The same program with batch normalizations of training steps written out. As ops they need all of
/// a feature on one device; written out, their sums over a batch are sums like any other, and a batch
/// can be cut.
pub fn expand_batch_norm(program: &Program) -> Cow<'_, Program> {
    expand(program, batch_norm::written_out)
}

/// An op written out: adds what makes its results of its operands, and gives the results.
type WrittenOut<'o> = Box<dyn FnOnce(&mut Builder, &[ValueId]) -> Values + 'o>;

/// How an op is written out, or `None` if it stays.
type Choice = fn(&Op) -> Option<WrittenOut<'_>>;

fn expand(program: &Program, choice: Choice) -> Cow<'_, Program> {
    if !program.ops.iter().any(|(_, operation)| choice(&operation.op).is_some()) {
        return Cow::Borrowed(program);
    }
    let mut copier = Copier::new(program);
    let body = copier.new.body;
    expand_region(&mut copier, program.body, body, choice);
    Cow::Owned(copier.new.compact())
}

fn expand_region(copier: &mut Copier<'_>, from: RegionId, to: RegionId, choice: Choice) {
    let old = copier.old;
    copier.copy_arguments(from, to);
    for &op in &old.regions[from].ops {
        let is_written = choice(&old.ops[op].op).is_some_and(|written_out| write(copier, op, to, written_out));
        if !is_written {
            let location = copier.location(old.ops[op].location);
            copier.copy_op(op, to, location, &mut |copier, from, to| expand_region(copier, from, to, choice));
        }
    }
    copier.copy_results(from, to);
}

/// Writes an op out at its own location; tells whether that was possible.
fn write(copier: &mut Copier<'_>, op: OpId, to: RegionId, written_out: WrittenOut<'_>) -> bool {
    let operation = &copier.old.ops[op];
    let location = copier.location(operation.location);
    let operands = copier.values(&operation.operands);
    let mut builder = Builder::on(std::mem::replace(&mut copier.new, Program::new("")));
    let results = builder.inside(to, |builder| builder.located(location, |builder| written_out(builder, &operands)));
    // What was added before an error is read by nobody, and goes when the copy is compacted.
    let is_written = builder.check().is_ok();
    copier.new = builder.program;
    if is_written {
        for (&old, new) in operation.results.iter().zip(results) {
            copier.set_value(old, new);
        }
    }
    is_written
}
