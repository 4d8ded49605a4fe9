//! Random numbers.

use std::f64::consts::PI;
use std::sync::Arc;

use crate::program::{Algorithm, DType, Distribution, Type};

use super::elementwise::convert;
use super::shape::view;
use super::tensor::{Data, Tensor, mix, round, unsupported, wrap_one};

/// The specification leaves the numbers open. They depend on the op's place in the program and on
/// the element, so that every run gives the same ones.
pub(super) fn rng(
    a: &Tensor,
    b: &Tensor,
    distribution: Distribution,
    result: &Type,
    seed: u64,
    wide: bool,
) -> Result<Tensor, String> {
    let uniform = |index: usize, stream: u64| {
        let bits = mix(mix(seed).wrapping_add(stream) ^ mix(index as u64));
        (bits >> 11) as f64 / (1u64 << 53) as f64
    };
    match (&a.data, &b.data) {
        (Data::Float(a), Data::Float(b)) => {
            let (a, b) = (a[0], b[0]);
            let value = |index: usize| match distribution {
                Distribution::Uniform => a + (b - a) * uniform(index, 0),
                Distribution::Normal => {
                    let radius = (-2.0 * libm::log(1.0 - uniform(index, 0))).sqrt();
                    a + b * radius * libm::cos(2.0 * PI * uniform(index, 1))
                }
            };
            let mut values: Vec<f64> = (0..result.elements()).map(value).collect();
            round(result.dtype, wide, &mut values);
            Ok(Tensor::float(result.clone(), values))
        }
        (Data::Integer(a), Data::Integer(b)) => {
            let (a, range) = (a[0], b[0].wrapping_sub(a[0]) as u64);
            let value = |index: usize| {
                let bits = mix(mix(seed) ^ mix(index as u64));
                wrap_one(result.dtype, a.wrapping_add(bits.checked_rem(range).unwrap_or(0) as i64))
            };
            Ok(Tensor::integer(result.clone(), (0..result.elements()).map(value).collect()))
        }
        _ => Err(unsupported(a.ty.dtype)),
    }
}

/// Bits as XLA makes them. The default algorithm is Philox, as on XLA's CPUs.
pub(super) fn rng_bit_generator(
    state: &Tensor,
    algorithm: Algorithm,
    result: &Type,
) -> Result<Vec<Arc<Tensor>>, String> {
    // The state may also come as pairs of 32-bit words.
    let words: Vec<u64> = if state.ty.dtype.bits() == 32 {
        state
            .integers()?
            .chunks(2)
            .map(|pair| pair.iter().rev().fold(0, |word, &half| word << 32 | half as u64))
            .collect()
    } else {
        state.integers()?.iter().map(|&word| word as u64).collect()
    };
    if words.len() < 2 {
        return Err(format!("a state of `{}` is too small", state.ty));
    }
    let bits = result.dtype.bits();
    let (values, next) = match algorithm {
        Algorithm::ThreeFry => three_fry_bits(&words, result, bits)?,
        Algorithm::Philox | Algorithm::Default => philox_bits(&words, result.elements(), bits),
    };
    let values: Vec<i64> = values.into_iter().map(|value| wrap_one(result.dtype, value as i64)).collect();
    let next: Vec<i64> = if state.ty.dtype.bits() == 32 {
        next.iter().flat_map(|word| [(word & 0xffff_ffff) as i64, (word >> 32) as i64]).collect()
    } else {
        next.into_iter().map(|word| word as i64).collect()
    };
    let state = Tensor::integer(state.ty.clone(), next);
    if result.dtype.is_float() {
        // Bits of a float type are read as that type.
        let integer = match bits {
            64 => DType::U64,
            32 => DType::U32,
            _ => DType::U16,
        };
        let bits = Tensor::integer(result.with_dtype(integer), values);
        return Ok(vec![Arc::new(state), Arc::new(super::elementwise::bitcast_convert(&bits, result)?)]);
    }
    let tensor = convert(Arc::new(Tensor::integer(result.clone(), values)), result.dtype, false)?;
    Ok(vec![Arc::new(state), Arc::new(tensor)])
}

/// Words of 64 bits take a whole block each. Narrower ones share a block between neighbors along
/// the first even dimension, or along the longest one, which is cut short afterwards.
fn three_fry_bits(state: &[u64], result: &Type, bits: usize) -> Result<(Vec<u64>, Vec<u64>), String> {
    let (key, counter) = (state[0], state[1]);
    let advanced = |blocks: usize| {
        let mut next = state.to_vec();
        next[1] = counter.wrapping_add(blocks as u64);
        next
    };
    if bits == 64 {
        let count = result.elements();
        let word = |index: usize| {
            let [low, high] = three_fry(key, counter.wrapping_add(index as u64));
            u64::from(low) | u64::from(high) << 32
        };
        return Ok(((0..count).map(word).collect(), advanced(count)));
    }
    if result.rank() == 0 {
        return Ok((vec![u64::from(three_fry(key, counter)[0])], advanced(1)));
    }
    let shape = &result.shape;
    let split = shape.iter().position(|size| size % 2 == 0).unwrap_or_else(|| {
        // The first of the longest.
        (0..shape.len()).rev().max_by_key(|&dim| shape[dim]).unwrap_or(0)
    });
    let mut half = shape.to_vec();
    half[split] = half[split].div_ceil(2);
    let blocks: usize = half.iter().product();
    let inner: usize = shape[split + 1..].iter().product();
    // Rows of the half shape along the split dimension, each block giving two neighbors.
    let mut padded = vec![0i64; 2 * blocks];
    for block in 0..blocks {
        let [first, second] = three_fry(key, counter.wrapping_add(block as u64));
        let (outer, rest) = (block / (half[split] * inner).max(1), block % (half[split] * inner).max(1));
        let (row, column) = (rest / inner.max(1), rest % inner.max(1));
        let position = ((outer * half[split] + row) * 2) * inner + column;
        padded[position] = i64::from(first);
        padded[position + inner] = i64::from(second);
    }
    let mut padded_shape = shape.to_vec();
    padded_shape[split] = 2 * half[split];
    let whole = Tensor::integer(Type::new(DType::U32, &padded_shape), padded);
    let cut = view(&whole, &whole.ty.with_shape(shape), &super::shape::strides(&padded_shape), 0);
    Ok((cut.integers()?.iter().map(|&value| value as u64).collect(), advanced(blocks)))
}

/// Four words a block, in order; a word of 64 bits is two of them, low first.
fn philox_bits(state: &[u64], count: usize, bits: usize) -> (Vec<u64>, Vec<u64>) {
    // A state of two words has no upper half of the counter; XLA takes the key for it.
    let high = state.get(2).copied().unwrap_or(state[0]);
    let counter = u128::from(high) << 64 | u128::from(state[1]);
    let words = if bits == 64 { 2 * count } else { count };
    let blocks = words.div_ceil(4);
    let stream = (0..blocks).flat_map(|block| philox(state[0], counter.wrapping_add(block as u128)));
    let values = if bits == 64 {
        let words: Vec<u32> = stream.collect();
        words.chunks(2).take(count).map(|pair| u64::from(pair[0]) | u64::from(pair[1]) << 32).collect()
    } else {
        stream.take(count).map(u64::from).collect()
    };
    let next = counter.wrapping_add(blocks as u128);
    let mut state = state.to_vec();
    state[1] = next as u64;
    if let Some(high) = state.get_mut(2) {
        *high = (next >> 64) as u64;
    }
    (values, state)
}

/// Threefry 2x32 of twenty rounds, of one counter.
fn three_fry(key: u64, counter: u64) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let keys = [key as u32, (key >> 32) as u32];
    let keys = [keys[0], keys[1], keys[0] ^ keys[1] ^ 0x1bd1_1bda];
    let mut x = [(counter as u32).wrapping_add(keys[0]), ((counter >> 32) as u32).wrapping_add(keys[1])];
    for group in 0..5 {
        for rotation in ROTATIONS[group % 2] {
            x[0] = x[0].wrapping_add(x[1]);
            x[1] = x[1].rotate_left(rotation) ^ x[0];
        }
        x[0] = x[0].wrapping_add(keys[(group + 1) % 3]);
        x[1] = x[1].wrapping_add(keys[(group + 2) % 3]).wrapping_add(group as u32 + 1);
    }
    x
}

/// Philox 4x32 of ten rounds, of one counter.
fn philox(key: u64, counter: u128) -> [u32; 4] {
    let mut keys = [key as u32, (key >> 32) as u32];
    let mut x = [0, 32, 64, 96].map(|shift| (counter >> shift) as u32);
    for _ in 0..10 {
        let first = u64::from(x[0]) * 0xd251_1f53;
        let second = u64::from(x[2]) * 0xcd9e_8d57;
        x = [
            (second >> 32) as u32 ^ x[1] ^ keys[0],
            second as u32,
            (first >> 32) as u32 ^ x[3] ^ keys[1],
            first as u32,
        ];
        keys = [keys[0].wrapping_add(0x9e37_79b9), keys[1].wrapping_add(0xbb67_ae85)];
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected bits are XLA's on a CPU, through `jax.lax.rng_bit_generator`.
    #[track_caller]
    fn check(algorithm: Algorithm, ty: &Type, expected: &[u64], counter: u64) {
        let state = [0x9abc_def0_1234_5678u64, 0xffff_ffff_ffff_fffe].map(|word| word as i64);
        let state = Tensor::integer(Type::new(DType::U64, &[2]), state.to_vec());
        let results = rng_bit_generator(&state, algorithm, ty).unwrap();
        assert_eq!(results[0].integers().unwrap()[1] as u64, counter);
        let bits: Vec<u64> = results[1].integers().unwrap().iter().map(|&bits| bits as u64).collect();
        assert_eq!(bits[..expected.len()], *expected);
    }

    #[test]
    fn bits_are_those_of_xla() {
        let three_fry = [0xb67b_1508, 0xd04e_5495, 0x22b3_e624];
        check(Algorithm::ThreeFry, &Type::new(DType::U32, &[3]), &three_fry, 0);
        let split_inside = [0xb67b_1508, 0x22b3_e624, 0xd04e_5495, 0xfaab_5466];
        check(Algorithm::ThreeFry, &Type::new(DType::U32, &[3, 4, 2]), &split_inside, 10);
        check(Algorithm::ThreeFry, &Type::new(DType::U8, &[3, 5]), &[0x8, 0x95, 0x24, 0x66, 0x79], 7);
        check(Algorithm::ThreeFry, &Type::scalar(DType::U64), &[0xd04e_5495_b67b_1508], u64::MAX);
        let philox = [0x78e5_0b5c, 0xd13f_68cb, 0x7a60_12f5, 0xb29a_5028, 0x1f96_72e0];
        check(Algorithm::Philox, &Type::new(DType::U32, &[3, 5]), &philox, 2);
        check(Algorithm::Default, &Type::new(DType::U64, &[3]), &[0xd13f_68cb_78e5_0b5c, 0xb29a_5028_7a60_12f5], 0);
        check(Algorithm::Default, &Type::new(DType::U16, &[3]), &[0xb5c, 0x68cb, 0x12f5], u64::MAX);
    }
}
