//! Ops that read or write at computed positions, and ops that order elements.

use smallvec::smallvec;

use super::check::{
    accepts, at_least, dim_in_range, distinct_dims, has_dtype, has_length, is_type, other_dims, plural,
    reduction_dtypes, region_arguments, region_results, same_shape, sorted_dims, take, take_regions,
};
use super::{Signature, Types};
use crate::program::{DType, Dims, Gather, Scatter, Shape, Type};

pub(super) fn gather(gather: &Gather, operands: &[&Type]) -> Result<Types, String> {
    let [operand, indices] = take(operands)?;
    let numbers = Numbers {
        window: &gather.offset_dims,
        collapsed: &gather.collapsed_slice_dims,
        batching: &gather.operand_batching_dims,
        indices_batching: &gather.start_indices_batching_dims,
        index_map: &gather.start_index_map,
        index_vector_dim: gather.index_vector_dim,
    };
    let batch_sizes = numbers.check(operand, indices)?;
    has_length("slice size", gather.slice_sizes.len(), operand.rank())?;
    for (dim, (slice, size)) in gather.slice_sizes.iter().zip(&operand.shape).enumerate() {
        if slice > size {
            return Err(format!("the slice has size {slice} in dimension {dim}, the operand only {size}"));
        }
    }
    let window_sizes: Shape = numbers.window_dims(operand.rank()).iter().map(|&dim| gather.slice_sizes[dim]).collect();
    let result = operand.with_shape(&numbers.combine(&batch_sizes, &window_sizes)?);
    for &dim in gather.collapsed_slice_dims.iter().chain(&gather.operand_batching_dims) {
        let size = gather.slice_sizes[dim];
        // A dimension of size 0 has nothing to read, which is right only when nothing is read.
        if size > 1 || (size == 0 && !result.shape.contains(&0)) {
            return Err(format!("dimension {dim} is not in the result, so its slice must have size 1, got {size}"));
        }
    }
    Ok(smallvec![result])
}

pub(super) fn scatter(scatter: &Scatter, operands: &[&Type], regions: &[Signature<'_>]) -> Result<Types, String> {
    at_least(operands, 3)?;
    if operands.len().is_multiple_of(2) {
        return Err(format!("expected inputs, indices and as many updates as inputs, got {} operands", operands.len()));
    }
    let count = operands.len() / 2;
    let (inputs, indices, updates) = (&operands[..count], operands[count], &operands[count + 1..]);
    let (input, update) = (inputs[0], updates[0]);
    for index in 0..count {
        same_shape(input, inputs[index])?;
        same_shape(update, updates[index])?;
        has_dtype(&format!("update {index}"), updates[index], inputs[index].dtype)?;
    }
    let numbers = Numbers {
        window: &scatter.update_window_dims,
        collapsed: &scatter.inserted_window_dims,
        batching: &scatter.input_batching_dims,
        indices_batching: &scatter.scatter_indices_batching_dims,
        index_map: &scatter.scatter_dims_to_operand_dims,
        index_vector_dim: scatter.index_vector_dim,
    };
    let batch_sizes = numbers.check(input, indices)?;
    let mut window_sizes = Shape::new();
    for (dim, &window_dim) in numbers.window_dims(input.rank()).into_iter().zip(numbers.window) {
        dim_in_range("window dimension", window_dim, update.rank())?;
        let (size, limit) = (update.shape[window_dim], input.shape[dim]);
        if size > limit {
            return Err(format!(
                "dimension {window_dim} of the update has size {size}, dimension {dim} of the input only {limit}"
            ));
        }
        window_sizes.push(size);
    }
    let expected = update.with_shape(&numbers.combine(&batch_sizes, &window_sizes)?);
    is_type("the update", update, &expected)?;
    let [region] = take_regions(regions)?;
    let dtypes = reduction_dtypes(region, inputs)?;
    Ok(inputs.iter().zip(dtypes).map(|(input, dtype)| input.with_dtype(dtype)).collect())
}

pub(super) fn sort(dim: usize, operands: &[&Type], regions: &[Signature<'_>]) -> Result<Types, String> {
    at_least(operands, 1)?;
    let [comparator] = take_regions(regions)?;
    dim_in_range("dimension", dim, operands[0].rank())?;
    let mut scalars: Vec<Type> = Vec::with_capacity(2 * operands.len());
    for operand in operands {
        same_shape(operands[0], operand)?;
        scalars.extend([Type::scalar(operand.dtype), Type::scalar(operand.dtype)]);
    }
    region_arguments("the region", comparator, scalars.iter())?;
    region_results("the region", comparator, [Type::scalar(DType::Bool)].iter())?;
    Ok(operands.iter().map(|&operand| operand.clone()).collect())
}

pub(super) fn top_k(k: usize, operands: &[&Type]) -> Result<Types, String> {
    let [operand] = take(operands)?;
    let accepted = operand.dtype == DType::Bool || operand.dtype.is_integer() || operand.dtype.is_float();
    accepts(operand, accepted, "boolean, integer or float")?;
    let mut values = operand.clone();
    match values.shape.last_mut() {
        Some(last) if k <= *last => *last = k,
        Some(last) => return Err(format!("{k} elements are asked of a dimension of size {last}")),
        None => return Err(format!("the operand must have rank 1 or more, got `{operand}`")),
    }
    let indices = values.with_dtype(DType::I32);
    Ok(smallvec![values, indices])
}

/// The dimension numbers of a gather, or of a scatter, which is a gather read backwards: its
/// updates stand where a gather has its result.
struct Numbers<'a> {
    /// Dimensions of the result that count within a slice.
    window: &'a [usize],
    /// Dimensions of the operand that the result leaves out.
    collapsed: &'a [usize],
    batching: &'a [usize],
    indices_batching: &'a [usize],
    /// For each entry of an index vector, the dimension of the operand it counts in.
    index_map: &'a [usize],
    index_vector_dim: usize,
}

impl Numbers<'_> {
    /// Checks everything but the sizes of slices; gives the sizes of the dimensions of the result
    /// that count index vectors.
    fn check(&self, operand: &Type, indices: &Type) -> Result<Shape, String> {
        accepts(indices, indices.dtype.is_integer(), "integer")?;
        let named = self.window.len() + self.collapsed.len() + self.batching.len();
        if named != operand.rank() {
            return Err(format!(
                "{} window, {} collapsed and {} batching dimensions do not make up rank {}",
                self.window.len(),
                self.collapsed.len(),
                self.batching.len(),
                operand.rank()
            ));
        }
        let both = |left: &[usize], right: &[usize]| -> Shape { left.iter().chain(right).copied().collect() };
        distinct_dims("collapsed or batching dimension", both(self.collapsed, self.batching), operand.rank())?;
        sorted_dims("collapsed dimension", self.collapsed)?;
        sorted_dims("batching dimension", self.batching)?;
        distinct_dims("indexed or batching dimension", both(self.index_map, self.batching), operand.rank())?;
        dim_in_range("index vector dimension", self.index_vector_dim, indices.rank() + 1)?;
        let vector_size = indices.shape.get(self.index_vector_dim).copied().unwrap_or(1);
        if self.index_map.len() != vector_size {
            let mapped = plural(self.index_map.len(), "dimension");
            return Err(format!("index vectors of size {vector_size} count in {mapped}"));
        }
        distinct_dims("indices batching dimension", self.indices_batching.iter().copied(), indices.rank())?;
        if self.indices_batching.contains(&self.index_vector_dim) {
            return Err(format!("dimension {} of the indices is both batch and vector", self.index_vector_dim));
        }
        if self.batching.len() != self.indices_batching.len() {
            return Err(format!(
                "the operand has {}, the indices have {}",
                plural(self.batching.len(), "batching dimension"),
                self.indices_batching.len()
            ));
        }
        for (&dim, &indices_dim) in self.batching.iter().zip(self.indices_batching) {
            let (size, indices_size) = (operand.shape[dim], indices.shape[indices_dim]);
            if size != indices_size {
                return Err(format!(
                    "batching dimensions differ: dimension {dim} of the operand has size {size}, \
                     dimension {indices_dim} of the indices has size {indices_size}"
                ));
            }
        }
        let counted = (0..indices.rank()).filter(|&dim| dim != self.index_vector_dim);
        Ok(counted.map(|dim| indices.shape[dim]).collect())
    }

    /// Dimensions of the operand that appear in a slice, in order.
    fn window_dims(&self, rank: usize) -> Dims {
        other_dims(self.collapsed.iter().chain(self.batching).copied(), rank)
    }

    /// Sizes of the result: the window's at the window dimensions, the index vectors' elsewhere.
    fn combine(&self, batch_sizes: &[usize], window_sizes: &[usize]) -> Result<Shape, String> {
        let rank = batch_sizes.len() + window_sizes.len();
        distinct_dims("window dimension", self.window.iter().copied(), rank)?;
        sorted_dims("window dimension", self.window)?;
        let (mut batch, mut window) = (batch_sizes.iter(), window_sizes.iter());
        let mut window_dims = self.window.iter().peekable();
        let mut shape = Shape::with_capacity(rank);
        for dim in 0..rank {
            let next = if window_dims.next_if_eq(&&dim).is_some() { window.next() } else { batch.next() };
            shape.extend(next.copied());
        }
        Ok(shape)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use crate::program::*;
    use smallvec::smallvec;

    /// Rows of a table, looked up by a list of row numbers.
    fn lookup() -> Gather {
        Gather {
            offset_dims: smallvec![1],
            collapsed_slice_dims: smallvec![0],
            operand_batching_dims: smallvec![],
            start_indices_batching_dims: smallvec![],
            start_index_map: smallvec![0],
            index_vector_dim: 1,
            slice_sizes: smallvec![1, 8],
            indices_are_sorted: false,
        }
    }

    #[test]
    fn gather() {
        let check = |change: fn(&mut Gather), operands, expected| {
            let mut gather = lookup();
            change(&mut gather);
            check(Op::Gather(Box::new(gather)), operands, &[], expected);
        };
        check(|_| (), "100x8xf32 5x1xi32", "5x8xf32");
        check(|_| (), "100x8xf32 5xi32", "5x8xf32");
        check(|it| it.offset_dims[0] = 0, "100x8xf32 5x1xi32", "8x5xf32");
        check(|it| it.slice_sizes[1] = 3, "100x8xf32 5x1xi32", "5x3xf32");
        check(|it| it.slice_sizes[0] = 0, "0x8xf32 0x1xi32", "0x8xf32");
        let batched: fn(&mut Gather) = |it| {
            it.operand_batching_dims = smallvec![0];
            it.start_indices_batching_dims = smallvec![0];
            it.collapsed_slice_dims = smallvec![1];
            it.start_index_map = smallvec![1];
            it.index_vector_dim = 2;
            it.offset_dims = smallvec![2];
            it.slice_sizes = smallvec![1, 1, 8];
        };
        check(batched, "4x100x8xf32 4x5x1xi32", "4x5x8xf32");
        let message = "error: batching dimensions differ: dimension 0 of the operand has size 4, \
                       dimension 0 of the indices has size 3";
        check(batched, "4x100x8xf32 3x5x1xi32", message);
        let message = "error: dimension 0 is not in the result, so its slice must have size 1, got 0";
        check(|it| it.slice_sizes[0] = 0, "0x8xf32 5x1xi32", message);
        let message = "error: dimension 0 is not in the result, so its slice must have size 1, got 2";
        check(|it| it.slice_sizes[0] = 2, "100x8xf32 5x1xi32", message);
        let message = "error: the slice has size 9 in dimension 1, the operand only 8";
        check(|it| it.slice_sizes[1] = 9, "100x8xf32 5x1xi32", message);
        let message = "error: index vectors of size 2 count in 1 dimension";
        check(|_| (), "100x8xf32 5x2xi32", message);
        let message = "error: 1 window, 1 collapsed and 0 batching dimensions do not make up rank 3";
        check(|_| (), "100x8x8xf32 5x1xi32", message);
        let message = "error: window dimension 2 is out of range for rank 2";
        check(|it| it.offset_dims[0] = 2, "100x8xf32 5x1xi32", message);
        let message = "error: index vector dimension 3 is out of range for rank 3";
        check(|it| it.index_vector_dim = 3, "100x8xf32 5x1xi32", message);
        let message = "error: indexed or batching dimension 2 is out of range for rank 2";
        check(|it| it.start_index_map[0] = 2, "100x8xf32 5x1xi32", message);
        let change: fn(&mut Gather) = |it| {
            it.collapsed_slice_dims = smallvec![];
            it.offset_dims = smallvec![2, 1];
        };
        let message = "error: window dimensions must be in ascending order, got 2 before 1";
        check(change, "100x8xf32 5x1xi32", message);
        check(|_| (), "100x8xf32 5x1xf32", "error: expected integer elements, got `tensor<5x1xf32>`");
    }

    #[test]
    fn scatter() {
        let check = |change: fn(&mut Scatter), operands, regions, expected| {
            let mut scatter = Scatter {
                update_window_dims: smallvec![1],
                inserted_window_dims: smallvec![0],
                input_batching_dims: smallvec![],
                scatter_indices_batching_dims: smallvec![],
                scatter_dims_to_operand_dims: smallvec![0],
                index_vector_dim: 1,
                indices_are_sorted: false,
                unique_indices: false,
            };
            change(&mut scatter);
            check(Op::Scatter(Box::new(scatter)), operands, regions, expected);
        };
        check(|_| (), "100x8xf32 5x1xi32 5x8xf32", &["f32 f32 -> f32"], "100x8xf32");
        check(|_| (), "100x8xbf16 5x1xi32 5x3xbf16", &["f32 f32 -> f32"], "100x8xf32");
        let two = "100x8xf32 100x8xi32 5x1xi32 5x8xf32 5x8xi32";
        check(|_| (), two, &["f32 i32 f32 i32 -> f32 i32"], "100x8xf32 100x8xi32");
        check(|_| (), "100x8xf32 5x1xi32", &[], "error: expected at least 3 operands, got 2");
        let message = "error: expected inputs, indices and as many updates as inputs, got 4 operands";
        check(|_| (), "100x8xf32 5x1xi32 5x8xf32 5x8xf32", &[], message);
        let message = "error: dimension 1 of the update has size 9, dimension 1 of the input only 8";
        check(|_| (), "100x8xf32 5x1xi32 5x9xf32", &[], message);
        let message = "error: the update must be `tensor<5x8xf32>`, got `tensor<4x8xf32>`";
        check(|_| (), "100x8xf32 5x1xi32 4x8xf32", &[], message);
        let message = "error: update 0 must have elements of type `f32`, got `tensor<5x8xf64>`";
        check(|_| (), "100x8xf32 5x1xi32 5x8xf64", &[], message);
        let message = "error: window dimension 2 is out of range for rank 2";
        check(|it| it.update_window_dims[0] = 2, "100x8xf32 5x1xi32 5x8xf32", &[], message);
        let message = "error: collapsed or batching dimension 2 is out of range for rank 2";
        check(|it| it.inserted_window_dims[0] = 2, "100x8xf32 5x1xi32 5x8xf32", &[], message);
        let message = "error: elements of `tensor<100x8xf32>` cannot be accumulated in `bf16`";
        check(|_| (), "100x8xf32 5x1xi32 5x8xf32", &["bf16 bf16 -> bf16"], message);
        let message = "error: expected 1 region, got 0";
        check(|_| (), "100x8xf32 5x1xi32 5x8xf32", &[], message);
    }

    #[test]
    fn sort() {
        let check = |dim, operands, regions, expected| {
            check(Op::Sort { dim, stable: true }, operands, regions, expected);
        };
        check(1, "2x3xf32 2x3xi32", &["f32 f32 i32 i32 -> i1"], "2x3xf32 2x3xi32");
        check(2, "2x3xf32", &["f32 f32 -> i1"], "error: dimension 2 is out of range for rank 2");
        check(0, "2xf32", &["f32 -> i1"], "error: expected 2 arguments of the region, got 1");
        check(0, "2xf32", &["f32 f32 -> f32"], "error: result 0 of the region must be `tensor<i1>`, got `tensor<f32>`");
        let message = "error: operand shapes differ: `tensor<2xf32>` and `tensor<3xf32>`";
        check(0, "2xf32 3xf32", &["-> i1"], message);
    }

    #[test]
    fn top_k() {
        let check = |k, operand, expected| check(Op::TopK { k }, operand, &[], expected);
        check(2, "4x5xf32", "4x2xf32 4x2xi32");
        check(6, "4x5xf32", "error: 6 elements are asked of a dimension of size 5");
        check(0, "f32", "error: the operand must have rank 1 or more, got `tensor<f32>`");
        check(1, "2xi1", "1xi1 1xi32");
    }
}
