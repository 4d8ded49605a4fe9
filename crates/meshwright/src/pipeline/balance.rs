//! Where a model is cut so that all chunks have about as much to do and little crosses between them.

use super::portable::Portable;
use crate::profile::work;
use crate::program::{Id, Op, OpId, Program, ValueId};

/// Cuts ops of the forward pass, in order, into chunks. Gives the chunk of each. Where there are too few
/// places to cut at, the error is how many chunks there can be.
pub(super) fn balance(
    program: &Program,
    portable: &Portable,
    ops: &[OpId],
    chunk_count: usize,
) -> Result<Vec<usize>, usize> {
    let seconds: Vec<f64> = ops.iter().map(|&op| op_seconds(program, op)).collect();
    let before = sums(&seconds);
    let crossing = crossing_bytes(program, portable, ops);
    let places = places(program, ops, &before, &crossing, chunk_count);
    if places.len() + 1 < chunk_count {
        return Err(places.len() + 1);
    }
    let cuts = choose(&before, &crossing, &places, chunk_count);
    let chunk = |index: usize| cuts.partition_point(|&cut| cut <= index);
    Ok((0..ops.len()).map(chunk).collect())
}

/// Where a model may be cut at its finest: between layers, or halves of them, at places where little crosses. Gives the
/// numbers of the ops before which it is, among `ops`.
pub(super) fn finest(program: &Program, portable: &Portable, ops: &[OpId]) -> Vec<usize> {
    let seconds: Vec<f64> = ops.iter().map(|&op| op_seconds(program, op)).collect();
    let heavy = ops.iter().filter(|&&op| work(program, op).matrix > 0.0).count();
    let crossing = crossing_bytes(program, portable, ops);
    places(program, ops, &sums(&seconds), &crossing, (heavy / PRODUCTS_OF_A_PIECE).max(1))
}

/// Products of matrices in the smallest pieces that are worth telling apart: the first and the last of a block, and
/// something between them.
const PRODUCTS_OF_A_PIECE: usize = 3;

/// Rates of an A100 80GB SXM (NVIDIA datasheet): of products of matrices in bf16, and of memory. Only
/// their ratio matters here, and it is alike on all devices that train models.
const MATRIX_RATE: f64 = 312e12;
const MEMORY_RATE: f64 = 2.039e12;

/// A first estimate of what an op takes: to compute, or to read and write what is no product.
fn op_seconds(program: &Program, op: OpId) -> f64 {
    let inside: f64 = program.ops[op]
        .regions
        .iter()
        .flat_map(|&region| &program.regions[region].ops)
        .map(|&inner| op_seconds(program, inner))
        .sum();
    let trips = program.counted_loop(op).map_or(1, |counted| counted.trips) as f64;
    if let Op::While | Op::Case | Op::If = program.ops[op].op {
        return trips * inside;
    }
    let operation = &program.ops[op];
    let bytes: usize = operation.results.iter().map(|&value| program.ty(value).bytes()).sum();
    work(program, op).matrix / MATRIX_RATE + bytes as f64 / MEMORY_RATE
}

/// The sums of all numbers before each place.
fn sums(numbers: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    let mut sums = vec![0.0];
    for number in numbers {
        sum += number;
        sums.push(sum);
    }
    sums
}

/// For each place between ops, the bytes of what is made before and read after it. What every chunk can make
/// for itself does not cross.
fn crossing_bytes(program: &Program, portable: &Portable, ops: &[OpId]) -> Vec<usize> {
    let mut last_reader = vec![0; program.values.len()];
    for (index, &op) in ops.iter().enumerate() {
        program.reads(op).iter().for_each(|value| last_reader[value.index()] = index);
    }
    // What begins and ends to cross at each place.
    let mut changes = vec![0isize; ops.len() + 2];
    for (index, &op) in ops.iter().enumerate() {
        let crosses = |value: &&ValueId| !portable.is_portable(**value) && last_reader[value.index()] > index;
        for value in program.ops[op].results.iter().filter(crosses) {
            let bytes = program.ty(*value).bytes() as isize;
            changes[index + 1] += bytes;
            changes[last_reader[value.index()] + 1] -= bytes;
        }
    }
    let mut crossing = 0;
    changes[..=ops.len()]
        .iter()
        .map(|change| {
            crossing += change;
            crossing as usize
        })
        .collect()
}

/// How much more than the least of its surroundings may cross at a place where a model is cut.
const TOLERANCE: f64 = 1.1;

/// Places at which hardly more crosses than anywhere in their surroundings, a quarter of a chunk on both
/// sides: the ends of layers, or of their halves. Of places with hardly anything to do between them, the last of
/// those at which least crosses: an activation belongs to the product before it.
fn places(program: &Program, ops: &[OpId], before: &[f64], crossing: &[usize], chunk_count: usize) -> Vec<usize> {
    let total = before[ops.len()];
    let reach = total / (4 * chunk_count) as f64;
    let heavy = ops.iter().map(|&op| work(program, op).matrix > 0.0 || program.ops[op].op == Op::While);
    let heavy = sums(&heavy.map(|is_heavy| f64::from(u8::from(is_heavy))).collect::<Vec<f64>>());
    let is_heavy = |range: std::ops::Range<usize>| heavy[range.end] > heavy[range.start];
    let (mut first, mut last) = (0, 0);
    let mut places: Vec<usize> = Vec::new();
    for place in 1..ops.len() {
        while before[first] < before[place] - reach {
            first += 1;
        }
        while last < ops.len() && before[last + 1] <= before[place] + reach {
            last += 1;
        }
        let (low, high) = (first.max(1).min(place), last.min(ops.len() - 1).max(place));
        let least = crossing[low..=high].iter().copied().min().unwrap_or(0);
        let is_low = crossing[place] as f64 <= TOLERANCE * least as f64;
        if !is_low || !is_heavy(0..place) || !is_heavy(place..ops.len()) {
            continue;
        }
        match places.last_mut() {
            Some(last) if !is_heavy(*last..place) => {
                if crossing[place] <= crossing[*last] {
                    *last = place;
                }
            }
            _ => places.push(place),
        }
    }
    places
}

/// The cuts that make the largest chunk as small as possible, and of those the ones at which least crosses.
fn choose(before: &[f64], crossing: &[usize], places: &[usize], chunk_count: usize) -> Vec<usize> {
    let total = before[before.len() - 1];
    // The cost of the first chunks up to each place, and the cut before the last of them.
    let mut best: Vec<(f64, usize)> = places.iter().map(|&place| (before[place], 0)).collect();
    let mut choices: Vec<Vec<usize>> = Vec::new();
    let better = |left: (f64, usize), right: (f64, usize)| {
        left.0 < right.0 * (1.0 - 1e-9) || left.0 <= right.0 * (1.0 + 1e-9) && left.1 < right.1
    };
    for chunk in 2..=chunk_count {
        let is_last = chunk == chunk_count;
        let ends: Vec<f64> = if is_last { vec![total] } else { places.iter().map(|&place| before[place]).collect() };
        let mut next = vec![(f64::INFINITY, usize::MAX); ends.len()];
        let mut choice = vec![0; ends.len()];
        for (end, &until) in ends.iter().enumerate() {
            let cuts = if is_last { places.len() } else { end };
            for cut in chunk - 2..cuts {
                let largest = best[cut].0.max(until - before[places[cut]]);
                let cost = (largest, best[cut].1.saturating_add(crossing[places[cut]]));
                if better(cost, next[end]) {
                    (next[end], choice[end]) = (cost, cut);
                }
            }
        }
        (best, _) = (next, choices.push(choice));
    }
    let mut cuts = Vec::new();
    let mut end = 0;
    for choice in choices.iter().rev() {
        end = choice[end];
        cuts.push(places[end]);
    }
    cuts.reverse();
    cuts
}
