//! Windows that slide over a padded, dilated dimension.

use super::check::{bounded, bounded_size, has_length, positive};

/// What makes the windows of every dimension; all lists have the same length.
pub(super) struct Windows<'a> {
    pub(super) sizes: &'a [usize],
    pub(super) strides: &'a [usize],
    pub(super) base_dilation: &'a [usize],
    pub(super) window_dilation: &'a [usize],
    pub(super) padding: &'a [(i64, i64)],
}

impl Windows<'_> {
    /// How many windows fit along each dimension of a tensor with these sizes.
    pub(super) fn count(&self, shape: &[usize]) -> Result<Vec<usize>, String> {
        let rank = shape.len();
        has_length("window size", self.sizes.len(), rank)?;
        has_length("window stride", self.strides.len(), rank)?;
        has_length("base dilation", self.base_dilation.len(), rank)?;
        has_length("window dilation", self.window_dilation.len(), rank)?;
        has_length("window padding", self.padding.len(), rank)?;
        (0..rank).map(|dim| self.count_along(dim, shape[dim])).collect()
    }

    fn count_along(&self, dim: usize, size: usize) -> Result<usize, String> {
        positive("a window stride", self.strides[dim])?;
        positive("a base dilation", self.base_dilation[dim])?;
        positive("a window dilation", self.window_dilation[dim])?;
        let stride = bounded_size("window stride", self.strides[dim])?;
        let low = bounded("low padding", self.padding[dim].0)?;
        let high = bounded("high padding", self.padding[dim].1)?;
        let base = dilated("dilated size", size, self.base_dilation[dim])?;
        let window = dilated("dilated window size", self.sizes[dim], self.window_dilation[dim])?;
        let padded = low + base + high;
        let count = if padded == 0 || window > padded { 0 } else { (padded - window) / stride + 1 };
        Ok(usize::try_from(count).unwrap_or(0))
    }
}

/// The length of `size` elements that stand `dilation` apart.
fn dilated(what: &str, size: usize, dilation: usize) -> Result<i64, String> {
    bounded_size("dilation", dilation)?;
    let length = size.checked_sub(1).map_or(Some(0), |gaps| gaps.checked_mul(dilation)?.checked_add(1));
    bounded_size(what, length.unwrap_or(usize::MAX))
}
