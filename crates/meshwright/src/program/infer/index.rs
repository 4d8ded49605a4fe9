//! Ops that read or write at computed positions, and ops that order elements.

use smallvec::smallvec;

use super::check::{
    accepts, at_least, dim_in_range, distinct_dims, has_dtype, has_length, other_dims, plural, reduction_dtypes,
    region_types, same_shape, sorted_dims, take, take_regions,
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
    has_length("slice sizes", gather.slice_sizes.len(), operand.rank())?;
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
    if *update != expected {
        return Err(format!("the update must be `{expected}`, got `{update}`"));
    }
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
    region_types("region argument", &comparator.arguments, scalars.iter())?;
    region_types("region result", &comparator.results, [Type::scalar(DType::Bool)].iter())?;
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
            return Err(format!("{mapped} of the operand are indexed by vectors of size {vector_size}"));
        }
        distinct_dims("batching dimension of the indices", self.indices_batching.iter().copied(), indices.rank())?;
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
