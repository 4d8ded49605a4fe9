//! What convolutions need while they run, besides what they read and make. PyTorch has two ways on CPUs: it calls oneDNN,
//! which has tensors of its own whose channels lie in blocks, or it writes windows out as columns of a matrix.

use super::scratch::{StridesOf, is_straight};
use crate::program::{Convolution, DType, OpId, Program, ValueId};

/// Channels that oneDNN has in one block: as many numbers of 32 bits as a vector of AVX-512.
const BLOCK: usize = 16;

/// What oneDNN puts between parts of its workspace.
const SEAM: usize = 128;

/// A convolution as PyTorch is called with it, after what is around and between its elements was put there.
struct Call {
    batch: usize,
    channels: usize,
    made_channels: usize,
    groups: usize,
    space: Vec<usize>,
    window: Vec<usize>,
    places: usize,
    size: usize,
    is_padded: bool,
    has_steps: bool,
    /// Whether steps leave nothing over at the end.
    is_divided: bool,
    has_gaps: bool,
}

/// What there is at most at any time, without the result, which is there last.
pub(super) fn of_convolution(program: &Program, op: OpId, convolution: &Convolution, strides: StridesOf<'_>) -> usize {
    let operation = &program.ops[op];
    let (value, kernel) = (program.ty(operation.operands[0]), program.ty(operation.operands[1]));
    let made = program.ty(operation.results[0]).bytes();
    let call = Call::new(program, op, convolution);

    let kernel_order =
        order(convolution.kernel_output_feature, convolution.kernel_input_feature, &convolution.kernel_spatial);
    let kernel_bytes = ordered(program, operation.operands[1], &kernel_order, strides);
    // What is turned around lies as before, and is put in order then.
    let reversed = if convolution.reversal.contains(&true) { kernel.bytes() } else { 0 };

    let input_order = order(convolution.input_batch, convolution.input_feature, &convolution.input_spatial);
    // Groups of the batch become groups of features, which do not lie one behind the other.
    let regrouped = if convolution.batch_groups > 1 { value.bytes() } else { 0 };
    let is_spread = convolution.lhs_dilation.iter().any(|&gap| gap > 1);
    let is_widened = convolution.padding.iter().any(|&(low, high)| low != 0 || high != 0);
    let (before, turned) = if is_even(convolution) {
        (0, regrouped.max(ordered(program, operation.operands[0], &input_order, strides)))
    } else {
        let whole = |space: &[usize]| call.batch * call.channels * space.iter().product::<usize>() * call.size;
        let padded = whole(&call.space);
        // What is put between elements is there while more is put around them.
        let spread = if is_spread && is_widened { whole(&spread(program, op, convolution)) } else { 0 };
        (regrouped + spread + padded, padded)
    };
    let running = if call.is_product() {
        made
    } else if call.is_blocked(convolution.dtype) {
        call.blocks(made)
    } else {
        call.columns(value.bytes(), made)
    };
    (reversed + before).max(reversed + kernel_bytes + turned + running).saturating_sub(made)
}

impl Call {
    fn new(program: &Program, op: OpId, convolution: &Convolution) -> Call {
        let operation = &program.ops[op];
        let (value, kernel) = (program.shape(operation.operands[0]), program.shape(operation.operands[1]));
        let made = program.shape(operation.results[0]);
        let is_even = is_even(convolution);
        let space: Vec<usize> = if is_even {
            convolution.input_spatial.iter().map(|&dim| value[dim]).collect()
        } else {
            let widened = |(own, &(low, high)): (usize, &(i64, i64))| (own as i64 + low + high).max(0) as usize;
            spread(program, op, convolution).into_iter().zip(&convolution.padding).map(widened).collect()
        };
        let places: Vec<usize> = convolution.output_spatial.iter().map(|&dim| made[dim]).collect();
        let steps = places.iter().zip(&convolution.strides).map(|(&count, &stride)| count * stride);
        let is_divided = steps.eq(space.iter().copied());
        Call {
            batch: value[convolution.input_batch] / convolution.batch_groups,
            channels: value[convolution.input_feature] * convolution.batch_groups,
            made_channels: made[convolution.output_feature],
            groups: convolution.feature_groups * convolution.batch_groups,
            space,
            window: convolution.kernel_spatial.iter().map(|&dim| kernel[dim]).collect(),
            places: places.iter().product(),
            size: convolution.dtype.stored_bytes(),
            is_padded: is_even && convolution.padding.iter().any(|&(low, _)| low > 0),
            has_steps: convolution.strides.iter().any(|&stride| stride > 1),
            is_divided,
            has_gaps: convolution.rhs_dilation.iter().any(|&gap| gap > 1),
        }
    }

    /// Whether each sample is one window, as in gradients of kernels without extent, and `convolution` of
    /// `meshwright.torch.ops` multiplies matrices that lie as the operands do.
    fn is_product(&self) -> bool {
        self.groups == 1 && !self.is_padded && self.window == self.space
    }

    /// Whether PyTorch calls oneDNN, as it decides in one thread: for bfloat16 always, and for numbers of 32 bits unless it
    /// is a product of matrices for a few samples, or there is one small sample.
    fn is_blocked(&self, dtype: DType) -> bool {
        // A line is a plane of one row.
        let (mut window, mut space) = (self.window.clone(), self.space.clone());
        if window.len() == 1 {
            window.insert(0, 1);
            space.insert(0, 1);
        }
        let [.., rows, columns] = window[..] else { return false };
        let is_narrow = !self.has_steps && !self.has_gaps && self.batch < 16 && rows == 1 && columns == 1;
        let is_small = self.groups == 1
            && (rows <= 3 || columns <= 3)
            && self.batch == 1
            && self.channels * space[0] * space[1] <= 20480;
        match dtype {
            DType::F32 => !is_narrow && !is_small,
            other => other == DType::BF16,
        }
    }

    /// Operands and results of oneDNN. Its result is there until it was copied to one that lies in order, its operands are
    /// gone by then.
    fn blocks(&self, made: usize) -> usize {
        let (space, window): (usize, usize) = (self.space.iter().product(), self.window.iter().product());
        let (channels, made_channels) = (self.channels / self.groups, self.made_channels / self.groups);
        let blocked = |count: usize| count.next_multiple_of(BLOCK);
        // Of kernels without extent it multiplies matrices, for which it writes out what steps reach; it does so of planes that
        // steps divide.
        let is_matrix = window == 1 && (!self.has_steps || self.space.len() < 3 && self.is_divided);
        // The elements of what is read, of the kernel, and of what is made; and bytes of a workspace.
        let (read, kernel, written, work) = if self.groups == 1 && !is_matrix && channels < BLOCK {
            // Few channels, as those of images, are read as they lie.
            (0, blocked(made_channels) * channels, blocked(made_channels), 0)
        } else if self.groups == 1 {
            let is_reached = is_matrix && self.has_steps;
            let work = if is_reached { blocked(channels) * self.places * self.size + SEAM } else { 0 };
            (blocked(channels), blocked(made_channels) * blocked(channels), blocked(made_channels), work)
        } else if channels == 1 && made_channels == 1 {
            (blocked(self.groups), blocked(self.groups), blocked(self.groups), 0)
        } else if channels.is_multiple_of(4) && made_channels.is_multiple_of(4) {
            // Blocks may have four channels, too, but none of them has those of two groups.
            (self.channels, self.made_channels * channels, self.made_channels, 0)
        } else {
            // No block fits, and windows of a group of one sample are written out.
            (0, 0, self.made_channels, channels * window * self.places * self.size + SEAM)
        };
        let written = self.batch * written * self.places * self.size;
        let operands = (self.batch * read * space + kernel * window) * self.size + work;
        written + operands.max(made)
    }

    /// Windows written out as columns of a matrix, and the result.
    fn columns(&self, value: usize, made: usize) -> usize {
        let window: usize = self.window.iter().product();
        let is_plain = window == 1 && !self.has_steps && !self.is_padded;
        // Of kernels that are spread out, one sample is written out at a time.
        let at_once = if self.has_gaps { 1 } else { self.batch } * self.channels;
        let columns = if is_plain { 0 } else { at_once * window * self.places * self.size };
        // Groups run one after the other, and what they make is put together.
        made + if self.groups > 1 { made.max((columns + value) / self.groups) } else { columns }
    }
}

/// Whether PyTorch itself puts zeros around what is read.
fn is_even(convolution: &Convolution) -> bool {
    let mut dims = convolution.padding.iter().zip(&convolution.lhs_dilation);
    dims.all(|(&(low, high), &gap)| low == high && low >= 0 && gap == 1)
}

/// The dimensions of space of what is read, with what is put between elements.
fn spread(program: &Program, op: OpId, convolution: &Convolution) -> Vec<usize> {
    let shape = program.shape(program.ops[op].operands[0]);
    let dims = convolution.input_spatial.iter().zip(&convolution.lhs_dilation);
    dims.map(|(&dim, &gap)| shape[dim] + shape[dim].saturating_sub(1) * (gap - 1)).collect()
}

fn order(first: usize, second: usize, rest: &[usize]) -> Vec<usize> {
    [&[first, second], rest].concat()
}

/// The bytes of a copy with dimensions in some order, where they do not lie so.
fn ordered(program: &Program, value: ValueId, order: &[usize], strides: StridesOf<'_>) -> usize {
    let (ty, own) = (program.ty(value), strides(value));
    let shape: Vec<usize> = order.iter().map(|&dim| ty.shape[dim]).collect();
    let lies: Vec<usize> = order.iter().map(|&dim| own[dim]).collect();
    if is_straight(&shape, &lies) { 0 } else { ty.bytes() }
}
