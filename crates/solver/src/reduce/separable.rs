//! Edges that say nothing about pairs: what they cost is the sum of what each label costs by itself.

use super::graph::Graph;
use crate::model::Factor;

const ROUNDING: f64 = 1e-15;

/// Turns such edges into costs of nodes.
pub(super) fn absorb(graph: &mut Graph) {
    for index in 0..graph.factors.len() {
        let Some(factor) = &graph.factors[index] else { continue };
        let &[first, second] = &*factor.nodes else { continue };
        let columns = graph.label_count(second);
        let Some((rows, columns)) = parts(&factor.table, columns) else { continue };
        graph.factors[index] = None;
        graph.add(Factor { nodes: [first].into_iter().collect(), table: rows.into() });
        graph.add(Factor { nodes: [second].into_iter().collect(), table: columns.into() });
    }
}

/// The two parts of a table that is the sum of a row and a column, all of it finite.
fn parts(table: &[f64], columns: usize) -> Option<(Vec<f64>, Vec<f64>)> {
    let first = table.get(..columns)?;
    if first.contains(&f64::INFINITY) {
        return None;
    }
    let offsets: Vec<f64> = table.chunks_exact(columns).map(|row| row[0] - first[0]).collect();
    // Messages that were moved into the table leave it separable but for rounding.
    let equal = |entry: f64, sum: f64| entry.is_finite() && (entry - sum).abs() <= ROUNDING * (entry.abs() + sum.abs());
    let same = |(row, offset): (&[f64], &f64)| row.iter().zip(first).all(|(entry, base)| equal(*entry, base + offset));
    table.chunks_exact(columns).zip(&offsets).all(same).then(|| (offsets.clone(), first.to_vec()))
}
