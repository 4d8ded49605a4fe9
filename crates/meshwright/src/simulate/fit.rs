//! Fits what a device can do to measured launches, chains of elementwise ops and products.
//!
//! Each number is found where it alone decides: launches from programs of tiny kernels, the memory's rate from
//! chains that no cache holds, and rates of products, one for each type, with a depth of tiles that they share.

use super::compute::{chain_seconds, products_seconds};
use super::engine::{ENGINES, Engine};
use super::products::Product;
use crate::cluster::{
    Device, Efficiency, FitError, Rates, Residual, check_seconds, descend, log_error, peak_and_share, rounded,
};
use crate::program::{DType, DTypeKind};

/// Times of programs on one device, while all devices of its node run the same.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measurements {
    pub launches: Vec<MeasuredLaunches>,
    pub chains: Vec<MeasuredChain>,
    pub products: Vec<MeasuredProduct>,
}

/// A program of so many kernels that do nearly nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredLaunches {
    pub kernels: usize,
    pub seconds: f64,
}

/// A program of one kernel that reads and writes so many bytes together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredChain {
    pub bytes: usize,
    pub seconds: f64,
}

/// A program of one product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredProduct {
    pub product: Product,
    /// Operands of `f32` were rounded to `tf32`.
    pub is_tf32: bool,
    pub seconds: f64,
}

/// A device with fitted numbers, and how well they fit.
#[derive(Clone, Debug, PartialEq)]
pub struct FittedDevice {
    pub device: Device,
    /// What the host needs to start a program and to learn that it ended, beside its kernels. It is no number of
    /// the device, but part of each measurement.
    pub call_seconds: f64,
    pub launches: Residual,
    /// Of chains that caches hold, which the model does not know; none where no short chains were measured.
    pub short_chains: Option<Residual>,
    pub long_chains: Residual,
    pub products: Residual,
}

/// From here on chains are longer than what caches of most devices hold, also where they write what they read, so
/// that a cache of half as many bytes would do.
pub const LONG_CHAIN_BYTES: usize = 128 << 20;

/// The numbers of a device that fit measurements best. `start` has what is not measured. Where the maker's rates
/// are known, they stay, and shares of them are fitted; else rates are what was reached.
pub fn fit_device(start: &Device, maker: Option<&Device>, measured: &Measurements) -> Result<FittedDevice, FitError> {
    check(measured)?;
    let (call_seconds, launch_seconds) = fit_launches(&measured.launches);
    let mut device = Device {
        launch_seconds: rounded(launch_seconds),
        efficiency: Efficiency { products: 1.0, memory: 1.0, ..start.efficiency },
        ..start.clone()
    };
    let long: Vec<MeasuredChain> =
        measured.chains.iter().copied().filter(|chain| chain.bytes >= LONG_CHAIN_BYTES).collect();
    let reached = fit_memory(&device, call_seconds, &long);
    let (rate, share) = peak_and_share(reached, maker.map(|maker| maker.memory_bytes_per_second));
    (device.memory_bytes_per_second, device.efficiency.memory) = (rounded(rate), rounded(share));
    fit_products(&mut device, call_seconds, &measured.products);
    if let Some(maker) = maker {
        take_rates_of(&mut device, maker, &measured.products);
    }
    Ok(with_residuals(device, call_seconds, measured))
}

fn check(measured: &Measurements) -> Result<(), FitError> {
    let Measurements { launches, chains, products } = measured;
    check_seconds("launches", 2, launches.iter().map(|launches| launches.seconds))?;
    check_seconds("chains", 1, chains.iter().map(|chain| chain.seconds))?;
    check_seconds("products", 2, products.iter().map(|product| product.seconds))?;
    let nothing = |what, index| Err(FitError::Nothing { what, index });
    if let Some(index) = chains.iter().position(|chain| chain.bytes == 0) {
        return nothing("chains", index);
    }
    let is_positive = |flops: f64| flops.is_finite() && flops > 0.0;
    if let Some(index) = products.iter().position(|measured| !is_positive(measured.product.flops())) {
        return nothing("products", index);
    }
    // One length of programs cannot tell the call from its kernels.
    let lengths = |launches: &MeasuredLaunches| launches.kernels;
    if launches.iter().map(lengths).min() == launches.iter().map(lengths).max() {
        return Err(FitError::TooFew { what: "lengths of programs of launches", found: 1, needed: 2 });
    }
    let found = chains.iter().filter(|chain| chain.bytes >= LONG_CHAIN_BYTES).count();
    if found == 0 {
        return Err(FitError::TooFew { what: "chains of 128 MiB and more", found, needed: 1 });
    }
    Ok(())
}

/// Seconds of a call and of each kernel.
fn fit_launches(launches: &[MeasuredLaunches]) -> (f64, f64) {
    let distance = |numbers: &[f64]| {
        let error = |launches: &MeasuredLaunches| {
            log_error(numbers[0] + launches.kernels as f64 * numbers[1], launches.seconds).abs()
        };
        launches.iter().map(error).sum::<f64>()
    };
    // The line through the shortest and the longest program is near the best one.
    let mut sorted = launches.to_vec();
    sorted.sort_by_key(|launches| launches.kernels);
    let (first, last) = (sorted[0], sorted[sorted.len() - 1]);
    let kernels = (last.kernels - first.kernels).max(1) as f64;
    let slope = ((last.seconds - first.seconds) / kernels).max(1e-9);
    let numbers =
        descend(&[(first.seconds - first.kernels as f64 * slope).max(1e-9), slope], &[f64::INFINITY; 2], distance);
    (numbers[0], numbers[1])
}

/// Bytes a second.
fn fit_memory(device: &Device, call_seconds: f64, chains: &[MeasuredChain]) -> f64 {
    let distance = |numbers: &[f64]| {
        let device = Device { memory_bytes_per_second: numbers[0], ..device.clone() };
        chain_errors(&device, call_seconds, chains).iter().map(|error| error.abs()).sum()
    };
    let start = chains[0].bytes as f64 / chains[0].seconds;
    descend(&[start], &[f64::INFINITY], distance)[0]
}

/// Rates of products and the depth of tiles. For each depth, each type has its own best rate.
fn fit_products(device: &mut Device, call_seconds: f64, measured: &[MeasuredProduct]) {
    let mut groups: Vec<Vec<MeasuredProduct>> = Vec::new();
    for product in measured {
        let is_alike = |group: &&mut Vec<MeasuredProduct>| unit(&group[0]) == unit(product);
        match groups.iter_mut().find(is_alike) {
            Some(group) => group.push(*product),
            None => groups.push(vec![*product]),
        }
    }
    device.flops_per_second = Rates { f64: 0.0, f32: 0.0, tf32: 0.0, f16: 0.0, bf16: 0.0, f8: 0.0, i8: 0.0 };
    let mut least = f64::INFINITY;
    let mut best = device.clone();
    for step in 0..=TILE_DEPTH_STEPS {
        device.efficiency.tile_depth = rounded(2f64.powf(f64::from(step) / 4.0));
        let mut distance = 0.0;
        for group in &groups {
            let (rate, group_distance) = fit_rate(device, call_seconds, group);
            *unit_rate(&mut device.flops_per_second, unit(&group[0])) = rounded(rate);
            distance += group_distance;
        }
        if distance < least {
            (least, best) = (distance, device.clone());
        }
    }
    *device = best;
}

/// Depths of tiles from 1 to 2048, four to an octave.
const TILE_DEPTH_STEPS: u32 = 44;

/// The best rate of products of one type, and how far it is from measurements.
fn fit_rate(device: &Device, call_seconds: f64, group: &[MeasuredProduct]) -> (f64, f64) {
    let distance = |numbers: &[f64]| {
        let mut device = device.clone();
        *unit_rate(&mut device.flops_per_second, unit(&group[0])) = numbers[0];
        product_errors(&device, call_seconds, group).iter().map(|error| error.abs()).sum::<f64>()
    };
    let start = group.iter().map(|measured| measured.product.flops() / measured.seconds).fold(1.0, f64::max);
    let rate = descend(&[start], &[f64::INFINITY], distance)[0];
    (rate, distance(&[rate]))
}

/// The unit of a device that multiplies: a type, and whether it is `tf32`.
fn unit(measured: &MeasuredProduct) -> (DType, bool) {
    (measured.product.dtype, measured.is_tf32)
}

/// The number that [`Rates::of`] reads for a type.
fn unit_rate(rates: &mut Rates, unit: (DType, bool)) -> &mut f64 {
    match unit {
        (DType::F32, true) => &mut rates.tf32,
        (DType::F64 | DType::Complex128, _) => &mut rates.f64,
        (DType::F16, _) => &mut rates.f16,
        (DType::BF16, _) => &mut rates.bf16,
        (DType::I8 | DType::U8, _) => &mut rates.i8,
        (dtype, _) if dtype.kind() == DTypeKind::SmallFloat => &mut rates.f8,
        // What has no unit of its own is the work of that for `f32`, as in `Rates::of`.
        _ => &mut rates.f32,
    }
}

/// Rates of the maker for what was not measured, and one share for all types: that of the type that reaches most
/// of its rate. Other types get the rate that, with this share, is what they reach.
fn take_rates_of(device: &mut Device, maker: &Device, measured: &[MeasuredProduct]) {
    let mut makers = maker.flops_per_second;
    let mut reached = device.flops_per_second;
    let mut share: f64 = 0.0;
    for product in measured {
        let (rate, peak) = (*unit_rate(&mut reached, unit(product)), *unit_rate(&mut makers, unit(product)));
        if peak > 0.0 {
            share = share.max(rate / peak);
        }
    }
    if share <= 0.0 {
        return;
    }
    let share = rounded(share.min(1.0));
    let mut rates = makers;
    for product in measured {
        *unit_rate(&mut rates, unit(product)) = rounded(*unit_rate(&mut reached, unit(product)) / share);
    }
    (device.flops_per_second, device.efficiency.products) = (rates, share);
}

fn with_residuals(device: Device, call_seconds: f64, measured: &Measurements) -> FittedDevice {
    let nothing = Residual { points: 0, median: 0.0, worst: 0.0 };
    let launches: Vec<f64> = measured
        .launches
        .iter()
        .map(|launches| log_error(call_seconds + launches.kernels as f64 * device.launch_seconds, launches.seconds))
        .collect();
    let (long, short): (Vec<MeasuredChain>, Vec<MeasuredChain>) =
        measured.chains.iter().partition(|chain| chain.bytes >= LONG_CHAIN_BYTES);
    FittedDevice {
        call_seconds,
        launches: Residual::of(&launches).unwrap_or(nothing),
        short_chains: Residual::of(&chain_errors(&device, call_seconds, &short)),
        long_chains: Residual::of(&chain_errors(&device, call_seconds, &long)).unwrap_or(nothing),
        products: Residual::of(&product_errors(&device, call_seconds, &measured.products)).unwrap_or(nothing),
        device,
    }
}

fn chain_errors(device: &Device, call_seconds: f64, chains: &[MeasuredChain]) -> Vec<f64> {
    let predicted = |chain: &MeasuredChain| call_seconds + chain_seconds(device, chain.bytes as f64);
    chains.iter().map(|chain| log_error(predicted(chain), chain.seconds)).collect()
}

fn product_errors(device: &Device, call_seconds: f64, products: &[MeasuredProduct]) -> Vec<f64> {
    let predicted = |measured: &MeasuredProduct| {
        let engine = Engine { tf32: measured.is_tf32, f8: false, ..ENGINES[0].clone() };
        let Product { count, rows, columns, depth, dtype } = measured.product;
        let elements = count * (rows * depth + depth * columns + rows * columns);
        let bytes = elements * dtype.bits() as f64 / 8.0;
        call_seconds + products_seconds(device, &engine, &[measured.product], bytes)
    };
    products.iter().map(|measured| log_error(predicted(measured), measured.seconds)).collect()
}
