//! Fits what a link costs to measured collectives.
//!
//! Numbers are changed one after the other by smaller and smaller factors as long as the mean of the logarithms'
//! distances falls. That mean treats twice and half as fast alike, and single odd measurements move it little.

use std::fmt;

use super::{Cluster, Collective, Group, Link, estimate};

/// The time that a collective took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredCollective {
    pub collective: Collective,
    /// Devices of one node that took part.
    pub devices: usize,
    /// Of the whole value on one device, as [`estimate`] wants them.
    pub bytes: usize,
    pub seconds: f64,
}

/// The link of a cluster's first nodes with the rate, the start, the hop and the copies that fit measurements best.
///
/// A rate and the share of it that is reached cannot be told apart by measuring: the rate stays what it was, and
/// its share is fitted.
pub fn fit_link(cluster: &Cluster, measured: &[MeasuredCollective]) -> Result<Link, FitError> {
    check_seconds("collectives", LINK_NUMBERS, measured.iter().map(|measured| measured.seconds))?;
    if let Some(index) = measured.iter().position(|measured| measured.bytes == 0 || measured.devices < 2) {
        return Err(FitError::Nothing { what: "collectives", index });
    }
    let Some(nodes) = cluster.nodes.first() else {
        return Err(FitError::TooFew { what: "nodes", found: 0, needed: 1 });
    };
    let with = |numbers: &[f64]| Link {
        efficiency: numbers[0],
        start_seconds: numbers[1],
        hop_seconds: numbers[2],
        copy_share: numbers[3],
        ..nodes.link.clone()
    };
    // A start away from zero, from which factors reach every number.
    let start = [0.9, nodes.link.start_seconds.max(1e-7), nodes.link.hop_seconds.max(1e-7), 0.1];
    let distance = |numbers: &[f64]| {
        let errors = collective_errors(cluster, &with(numbers), measured);
        errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len() as f64
    };
    let most = [1.0, f64::INFINITY, f64::INFINITY, f64::INFINITY];
    Ok(with(&descend(&start, &most, distance)))
}

/// Numbers of a link that are fitted, for which as many measurements are the least.
const LINK_NUMBERS: usize = 4;

/// For each measurement the logarithm of predicted over measured time, with another link in the first nodes.
pub fn collective_errors(cluster: &Cluster, link: &Link, measured: &[MeasuredCollective]) -> Vec<f64> {
    let mut cluster = cluster.part(0, 1);
    for nodes in &mut cluster.nodes {
        nodes.link = link.clone();
    }
    let error = |measured: &MeasuredCollective| {
        let group = Group::along(&cluster, &[(measured.devices, 1)]);
        log_error(estimate(&cluster, measured.collective, &group, measured.bytes).seconds, measured.seconds)
    };
    measured.iter().map(error).collect()
}

/// A rate and the share of it that is reached, from their product. The rate is that of the maker where there is one
/// and it was not exceeded; else what was reached is all there is.
pub fn peak_and_share(reached: f64, maker: Option<f64>) -> (f64, f64) {
    match maker {
        Some(peak) if peak >= reached => (peak, reached / peak),
        _ => (reached, 1.0),
    }
}

/// How far predictions are from measurements, as the distance of logarithms: 0.1 is about ten percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residual {
    pub points: usize,
    pub median: f64,
    pub worst: f64,
}

impl Residual {
    /// Of the logarithms of predicted over measured times; none where there are no measurements.
    pub fn of(log_errors: &[f64]) -> Option<Residual> {
        let mut distances: Vec<f64> = log_errors.iter().map(|error| error.abs()).collect();
        distances.sort_by(f64::total_cmp);
        let worst = *distances.last()?;
        Some(Residual { points: distances.len(), median: distances[distances.len() / 2], worst })
    }
}

/// Why measurements cannot be fitted.
#[derive(Clone, Debug, PartialEq)]
pub enum FitError {
    /// There are fewer than there are numbers to fit.
    TooFew { what: &'static str, found: usize, needed: usize },
    /// A time is zero, negative or no number.
    BadSeconds { what: &'static str, index: usize, seconds: f64 },
    /// A measurement is of nothing: no bytes, no operations, or too few devices.
    Nothing { what: &'static str, index: usize },
    /// No node has so many.
    Devices { found: usize },
}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FitError::TooFew { what, found, needed } => {
                write!(f, "{found} measured {what} are too few, {needed} are needed")
            }
            FitError::BadSeconds { what, index, seconds } => {
                write!(f, "number {} of the measured {what} took {seconds} seconds", index + 1)
            }
            FitError::Devices { found } => write!(f, "no node has {found} devices"),
            FitError::Nothing { what, index } => write!(f, "number {} of the measured {what} is of nothing", index + 1),
        }
    }
}

impl std::error::Error for FitError {}

/// Refuses times that nothing can take, and fewer of them than are needed.
pub(crate) fn check_seconds(
    what: &'static str,
    needed: usize,
    seconds: impl Iterator<Item = f64>,
) -> Result<(), FitError> {
    let mut found = 0;
    for (index, seconds) in seconds.enumerate() {
        if !(seconds.is_finite() && seconds > 0.0) {
            return Err(FitError::BadSeconds { what, index, seconds });
        }
        found += 1;
    }
    if found < needed { Err(FitError::TooFew { what, found, needed }) } else { Ok(()) }
}

/// The logarithm of predicted over measured time. What takes no time at all is as far off as anything can be.
pub(crate) fn log_error(predicted: f64, measured: f64) -> f64 {
    (predicted.max(f64::MIN_POSITIVE) / measured).ln()
}

/// Positive numbers near which a distance is least, from a start on and each no more than its most. The order of
/// the numbers and of the factors is fixed, so that the same measurements give the same numbers.
pub(crate) fn descend(start: &[f64], most: &[f64], distance: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let mut numbers = start.to_vec();
    let mut least = distance(&numbers);
    let mut step = 0.5;
    while step > 1e-4 {
        let mut is_better = false;
        for index in 0..numbers.len() {
            for factor in [1.0 + step, 1.0 / (1.0 + step)] {
                let before = numbers[index];
                numbers[index] = (before * factor).min(most[index]);
                let changed = distance(&numbers);
                if changed < least {
                    (least, is_better) = (changed, true);
                } else {
                    numbers[index] = before;
                }
            }
        }
        if !is_better {
            step /= 2.0;
        }
    }
    numbers
}

/// Four digits: measurements are worth no more, and files are to be read.
pub(crate) fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}
