//! Products of matrices as PyTorch multiplies them.

use super::table::dtype;
use super::writer::{Writer, tuple};
use crate::program::{DotGeneral, OpId, ValueId};

/// `torch.mm` or `torch.bmm` on the operands with their dimensions put together. Most of that is views.
pub(super) fn dot_general(writer: &Writer<'_>, op: OpId, dot: &DotGeneral) -> Result<String, String> {
    let program = writer.program;
    let operation = &program.ops[op];
    let (left, right) = (operation.operands[0], operation.operands[1]);
    let left = Side::new(writer, left, &dot.lhs_batch, &dot.lhs_contract, dot)?;
    let right = Side::new(writer, right, &dot.rhs_batch, &dot.rhs_contract, dot)?;
    let result = program.shape(operation.results[0]);
    let has_batch = !dot.lhs_batch.is_empty();
    // The last dimension of what a layer reads is summed; PyTorch puts those before it together itself.
    if !has_batch && left.free.len() > 1 && left.is_in_order() && right.free.len() == 1 && right.contract.len() == 1 {
        return Ok(format!("torch.matmul({}, {})", left.text, right.matrix(false)));
    }
    let product = if has_batch { "torch.bmm" } else { "torch.mm" };
    let text = format!("{product}({}, {})", left.matrix(true), right.matrix(false));
    let is_flat = left.free.len() == 1 && right.free.len() == 1 && left.batch.len() == usize::from(has_batch);
    Ok(if is_flat { text } else { format!("{text}.reshape({})", tuple(result)) })
}

/// An operand: which of its dimensions are which.
struct Side {
    text: String,
    shape: Vec<usize>,
    batch: Vec<usize>,
    free: Vec<usize>,
    contract: Vec<usize>,
}

impl Side {
    fn new(
        writer: &Writer<'_>,
        value: ValueId,
        batch: &[usize],
        contract: &[usize],
        dot: &DotGeneral,
    ) -> Result<Side, String> {
        let ty = writer.program.ty(value);
        let mut text = writer.tensor(value);
        if ty.dtype != dot.dtype {
            text = format!("{text}.to({})", dtype(dot.dtype)?);
        }
        let is_free = |dim: &usize| !batch.contains(dim) && !contract.contains(dim);
        Ok(Side {
            text,
            shape: ty.shape.to_vec(),
            batch: batch.to_vec(),
            free: (0..ty.rank()).filter(is_free).collect(),
            contract: contract.to_vec(),
        })
    }

    fn sizes(&self, dims: &[usize]) -> usize {
        dims.iter().map(|&dim| self.shape[dim]).product()
    }

    fn is_in_order(&self) -> bool {
        let order: Vec<usize> = [&self.batch[..], &self.free, &self.contract].concat();
        order.is_sorted()
    }

    /// A matrix, or several: rows are free dimensions where `rows_are_free`, else those that are summed. Where the
    /// dimensions lie the other way round, the transpose of what lies there is no copy.
    fn matrix(&self, rows_are_free: bool) -> String {
        let (rows, columns) = if rows_are_free { (&self.free, &self.contract) } else { (&self.contract, &self.free) };
        let straight: Vec<usize> = [&self.batch[..], rows, columns].concat();
        let turned: Vec<usize> = [&self.batch[..], columns, rows].concat();
        if !straight.is_sorted() && turned.is_sorted() {
            return format!("{}.mT", self.flat(&self.text, columns, rows));
        }
        let text = if straight.is_sorted() {
            self.text.clone()
        } else if self.batch.is_empty() && rows.len() == 1 && columns.len() == 1 {
            return format!("{}.mT", self.text);
        } else {
            format!("{}.permute({})", self.text, tuple(&straight))
        };
        self.flat(&text, rows, columns)
    }

    fn flat(&self, text: &str, rows: &[usize], columns: &[usize]) -> String {
        let is_flat = rows.len() == 1 && columns.len() == 1 && self.batch.len() <= 1;
        if is_flat {
            return text.to_owned();
        }
        let mut sizes = vec![self.sizes(rows), self.sizes(columns)];
        if !self.batch.is_empty() {
            sizes.insert(0, self.sizes(&self.batch));
        }
        format!("{text}.reshape({})", tuple(&sizes))
    }
}
