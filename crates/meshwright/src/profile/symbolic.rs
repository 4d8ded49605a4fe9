//! Costs of a model as functions of its batch and its sequence, evaluated without building it again.
//!
//! Every size in a built-in model is a polynomial of the batch, of degree one, and of the length of the
//! sequence, of degree two. A few models of different sizes are profiled, and the polynomials through them are
//! the costs of all. Weighed against sizes with letters in every shape: they would make each rule of the
//! compiler an algebra, for what six small profiles give exactly.

use std::ops::AddAssign;

use super::{MemoryModel, Profile, profile};
use crate::models::Model;
use crate::program::Phase;

/// What a model costs at any batch and sequence.
///
/// With [`MemoryModel::Eager`] that is exact at every size. A compiler that fuses treats small values in other
/// ways than large ones, so with [`MemoryModel::Fused`] it is exact for sizes like those that were sampled, but
/// where two dimensions are equal by chance.
#[derive(Clone, Debug, PartialEq)]
pub struct SymbolicProfile {
    memory_model: MemoryModel,
    /// The smallest and the largest batch and sequence that were profiled.
    pub sampled: [(usize, usize); 2],
    /// By phase, as [`Profile::flops`] counts.
    pub flops: [Polynomial; 3],
    pub argument_bytes: Polynomial,
    pub output_bytes: Polynomial,
    pub saved_activation_bytes: Polynomial,
    /// Bytes at the times of which one is the fullest, whatever the sizes.
    peaks: Vec<Polynomial>,
    temporary_peaks: Vec<Polynomial>,
}

/// Numbers times powers of batch and sequence: `terms[i][j]` times `batch^i * seq^j`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Polynomial {
    pub terms: [[f64; SEQUENCES]; BATCHES],
}

/// Points that a polynomial of degree one, and of degree two, goes through.
const BATCHES: usize = 2;
const SEQUENCES: usize = 3;

impl SymbolicProfile {
    /// Costs around the sizes that a model has, or at larger ones where these are too small to be alike. The
    /// error says why they are no such functions.
    pub fn new(model: &Model, memory_model: MemoryModel) -> Result<SymbolicProfile, String> {
        let mut last = Err(NOT_ONE_FUNCTION.to_owned());
        for scale in SCALES {
            let sample = |(batch, seq)| Sample::new(model, memory_model, scale * batch, scale * seq);
            let samples: Vec<Sample> = GRID.into_iter().map(sample).collect::<Result<_, _>>()?;
            last = fit(&samples, &sample(BEYOND)?);
            if last.is_ok() {
                break;
            }
        }
        last
    }

    /// Whether costs are known to be exact at some size.
    pub fn is_exact_at(&self, batch: usize, seq: usize) -> bool {
        let [(least_batch, least_seq), (most_batch, most_seq)] = self.sampled;
        let is_sampled = (least_batch..=most_batch).contains(&batch) && (least_seq..=most_seq).contains(&seq);
        is_sampled || self.memory_model == MemoryModel::Eager
    }

    pub fn flops(&self, batch: usize, seq: usize) -> f64 {
        self.flops.iter().map(|phase| phase.at(batch, seq)).sum()
    }

    pub fn phase_flops(&self, phase: Phase, batch: usize, seq: usize) -> f64 {
        self.flops[phase as usize].at(batch, seq)
    }

    /// The most bytes that are there at a time.
    pub fn peak_bytes(&self, batch: usize, seq: usize) -> f64 {
        largest(&self.peaks, batch, seq)
    }

    /// The most bytes besides arguments and results.
    pub fn temporary_bytes(&self, batch: usize, seq: usize) -> f64 {
        largest(&self.temporary_peaks, batch, seq)
    }
}

/// Multiples of a model's own batch and sequence that a polynomial is laid through, and one that it is checked
/// at. They share few factors with others, so that no two dimensions are equal by chance.
const GRID: [(usize, usize); BATCHES * SEQUENCES] = [(3, 3), (3, 5), (3, 7), (5, 3), (5, 5), (5, 7)];
const BEYOND: (usize, usize) = (7, 11);

/// How much larger models are tried until all are compiled alike.
const SCALES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

const NOT_ONE_FUNCTION: &str =
    "what the model costs is no one polynomial of its batch and sequence, so each size has to be profiled";

fn largest(peaks: &[Polynomial], batch: usize, seq: usize) -> f64 {
    peaks.iter().map(|peak| peak.at(batch, seq)).fold(0.0, f64::max)
}

impl Polynomial {
    pub fn at(&self, batch: usize, seq: usize) -> f64 {
        let (batch, seq) = (batch as f64, seq as f64);
        // Nested products from the highest power down.
        let of_seq = |terms: &[f64; SEQUENCES]| terms.iter().rev().fold(0.0, |sum, term| sum * seq + term);
        self.terms.iter().rev().fold(0.0, |sum, terms| sum * batch + of_seq(terms))
    }

    /// Whether it is nowhere less than another: no term is.
    fn covers(&self, other: &Polynomial) -> bool {
        self.terms.iter().flatten().zip(other.terms.iter().flatten()).all(|(own, other)| own >= other)
    }
}

impl AddAssign for Polynomial {
    fn add_assign(&mut self, other: Polynomial) {
        let terms = self.terms.iter_mut().flatten().zip(other.terms.iter().flatten());
        terms.for_each(|(own, other)| *own += other);
    }
}

/// What a model of some size costs: numbers, and bytes of buffers in their order.
struct Sample {
    memory_model: MemoryModel,
    batch: usize,
    seq: usize,
    /// First those of [`HEADS`], then one for each buffer.
    values: Vec<f64>,
    /// For each buffer, its life, and whether it counts as temporary.
    lives: Vec<(std::ops::Range<usize>, bool)>,
    steps: usize,
}

/// Numbers in front of the buffers: FLOPs of three phases, bytes of arguments, of results, of activations.
const HEADS: usize = 6;

impl Sample {
    /// A model of so many times its own batch and sequence.
    fn new(model: &Model, memory_model: MemoryModel, batches: usize, sequences: usize) -> Result<Sample, String> {
        let mut model = model.clone();
        let (batch, seq) = (model.settings.batch * batches, model.settings.seq * sequences);
        (model.settings.batch, model.settings.seq) = (batch, seq);
        let program = model.build()?;
        let found = profile(&program, memory_model);
        let mut values = heads(&found).to_vec();
        let buffers = || found.memory.buffers.iter().filter(|buffer| buffer.is_counted());
        values.extend(buffers().map(|buffer| buffer.bytes as f64));
        let lives = buffers().map(|buffer| (buffer.life.clone(), buffer.is_temporary()));
        Ok(Sample { memory_model, batch, seq, values, lives: lives.collect(), steps: found.memory.steps.len() })
    }
}

fn heads(profile: &Profile<'_>) -> [f64; HEADS] {
    let flops = |phase| profile.flops(profile.work(Some(phase)));
    [
        flops(Phase::Forward),
        flops(Phase::Backward),
        flops(Phase::Update),
        profile.argument_bytes() as f64,
        profile.output_bytes() as f64,
        profile.memory.saved_activation_bytes() as f64,
    ]
}

/// The polynomials through samples on the grid, where they also go through another one.
fn fit(samples: &[Sample], beyond: &Sample) -> Result<SymbolicProfile, String> {
    let first = &samples[0];
    let is_alike = |other: &Sample| other.lives == first.lives && other.steps == first.steps;
    if !samples.iter().chain([beyond]).all(is_alike) {
        return Err(NOT_ONE_FUNCTION.to_owned());
    }
    let grid = Grid {
        batches: std::array::from_fn(|index| samples[index * SEQUENCES].batch as f64),
        sequences: std::array::from_fn(|index| samples[index].seq as f64),
    };
    let through = |index: usize| grid.polynomial(|point| samples[point].values[index]);
    let values: Vec<Polynomial> = (0..first.values.len()).map(through).collect();
    let is_met = |(polynomial, &value): (&Polynomial, &f64)| {
        (polynomial.at(beyond.batch, beyond.seq) - value).abs() <= 0.5 + 1e-9 * value
    };
    if !values.iter().zip(&beyond.values).all(is_met) {
        return Err(NOT_ONE_FUNCTION.to_owned());
    }
    let (heads, buffers) = values.split_at(HEADS);
    let peaks = |counts: fn(bool) -> bool| {
        let counted = first.lives.iter().zip(buffers).filter(|((_, is_temporary), _)| counts(*is_temporary));
        highest(first.steps, counted.map(|((life, _), &bytes)| (life.clone(), bytes)))
    };
    Ok(SymbolicProfile {
        memory_model: first.memory_model,
        sampled: [first, beyond].map(|sample| (sample.batch, sample.seq)),
        flops: [heads[0], heads[1], heads[2]],
        argument_bytes: heads[3],
        output_bytes: heads[4],
        saved_activation_bytes: heads[5],
        peaks: peaks(|_| true),
        temporary_peaks: peaks(|is_temporary| is_temporary),
    })
}

/// Where points lie: batches by sequences.
struct Grid {
    batches: [f64; BATCHES],
    sequences: [f64; SEQUENCES],
}

impl Grid {
    /// The polynomial through values at all points.
    fn polynomial(&self, value: impl Fn(usize) -> f64) -> Polynomial {
        let rows: [[f64; SEQUENCES]; BATCHES] = std::array::from_fn(|batch| {
            through(&self.sequences, std::array::from_fn(|seq| value(batch * SEQUENCES + seq)))
        });
        let mut terms = [[0.0; SEQUENCES]; BATCHES];
        for power in 0..SEQUENCES {
            let of_batch = through(&self.batches, std::array::from_fn(|batch| rows[batch][power]));
            of_batch.into_iter().zip(&mut terms).for_each(|(term, row)| row[power] = term);
        }
        Polynomial { terms }
    }
}

/// The terms of the polynomial of one variable through as many points, by Newton's differences. All lie on one
/// point where a model has no such size.
fn through<const POINTS: usize>(at: &[f64; POINTS], mut values: [f64; POINTS]) -> [f64; POINTS] {
    let mut terms = [0.0; POINTS];
    if at[0] == at[POINTS - 1] {
        terms[0] = values[0];
        return terms;
    }
    for order in 1..POINTS {
        for index in (order..POINTS).rev() {
            values[index] = (values[index] - values[index - 1]) / (at[index] - at[index - order]);
        }
    }
    for index in (0..POINTS).rev() {
        // terms = terms * (x - at[index]) + values[index]
        for power in (0..POINTS).rev() {
            let below = if power > 0 { terms[power - 1] } else { values[index] };
            terms[power] = below - terms[power] * at[index];
        }
    }
    terms
}

/// The sums of all buffers at the times that can be the fullest: those that no other time covers.
fn highest(steps: usize, buffers: impl Iterator<Item = (std::ops::Range<usize>, Polynomial)>) -> Vec<Polynomial> {
    let mut changes = vec![(Polynomial::default(), Polynomial::default()); steps + 1];
    for (life, bytes) in buffers {
        changes[life.start].0 += bytes;
        changes[life.end].1 += bytes;
    }
    let mut live = Polynomial::default();
    let mut found: Vec<Polynomial> = Vec::new();
    for (born, gone) in changes.into_iter().take(steps) {
        live += born;
        let negative = Polynomial { terms: gone.terms.map(|row| row.map(|term| -term)) };
        live += negative;
        if !found.iter().any(|other| other.covers(&live)) {
            found.retain(|other| !live.covers(other));
            found.push(live);
        }
    }
    found
}
