//! Fits of devices and links: times made from known numbers give these numbers back.

use meshwright::cluster::{
    Cluster, Collective, Device, Efficiency, FitError, Group, MeasuredCollective, Rates, Residual, estimate,
    find_reported, fit_link, parse, parse_file, peak_and_share,
};
use meshwright::program::{DType, OpId};
use meshwright::simulate::{
    ENGINES, Engine, Kernel, MeasuredChain, MeasuredLaunches, MeasuredNode, MeasuredProduct, Measurements, Product,
    Task, calibrate, fit_device, kernel_seconds,
};

/// A device unlike any of the tables.
fn truth() -> Device {
    Device {
        memory_bytes_per_second: 700e9,
        launch_seconds: 4e-6,
        flops_per_second: Rates { f64: 0.0, f32: 15e12, tf32: 0.0, f16: 0.0, bf16: 110e12, f8: 0.0, i8: 0.0 },
        processors: 40,
        efficiency: Efficiency { products: 1.0, attention: 0.4, tile_depth: 90.51, memory: 1.0 },
        ..parse("cpu").expect("a known device").nodes[0].device.clone()
    }
}

const CALL_SECONDS: f64 = 30e-6;

/// Times as the simulator predicts them, each changed by a factor of up to `1 + noise` to either side.
fn measurements(device: &Device, noise: f64) -> Measurements {
    let mut state = 1u64;
    let mut noisy = |seconds: f64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let share = (state >> 33) as f64 / f64::from(1u32 << 31);
        seconds * (1.0 + noise).powf(2.0 * share - 1.0)
    };
    let mut measured = Measurements::default();
    for kernels in [1, 5, 9, 33, 65, 129] {
        let seconds = noisy(CALL_SECONDS + kernels as f64 * device.launch_seconds);
        measured.launches.push(MeasuredLaunches { kernels, seconds });
    }
    for bytes in [8 << 10, 1 << 20, 128 << 20, 256 << 20, 300 << 20, 512 << 20] {
        let seconds = noisy(CALL_SECONDS + seconds(device, Task::Chain, bytes as f64));
        measured.chains.push(MeasuredChain { bytes, seconds });
    }
    for dtype in [DType::F32, DType::BF16] {
        for (rows, columns, depth) in SHAPES {
            let product = Product { count: 1.0, rows, columns, depth, dtype };
            let elements = rows * depth + depth * columns + rows * columns;
            let task = Task::Products([product].into_iter().collect());
            let seconds = noisy(CALL_SECONDS + seconds(device, task, elements * dtype.bits() as f64 / 8.0));
            measured.products.push(MeasuredProduct { product, is_tf32: false, seconds });
        }
    }
    measured
}

const SHAPES: [(f64, f64, f64); 9] = [
    (1024.0, 1024.0, 64.0),
    (4096.0, 4096.0, 64.0),
    (4096.0, 4096.0, 256.0),
    (2048.0, 2048.0, 2048.0),
    (4096.0, 4096.0, 4096.0),
    (128.0, 4096.0, 4096.0),
    (8192.0, 256.0, 1024.0),
    (1536.0, 1536.0, 512.0),
    (8192.0, 8192.0, 128.0),
];

fn seconds(device: &Device, task: Task, bytes: f64) -> f64 {
    let engine = Engine { tf32: false, f8: false, ..ENGINES[0].clone() };
    let kernel = Kernel { op: OpId(0), task, after: [].into_iter().collect(), bytes, is_late: false };
    kernel_seconds(device, &engine, &kernel)
}

#[track_caller]
fn check_near(found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() <= share, "{found} is not within {share} of {expected}");
}

#[test]
fn exact_times_give_the_device_back() {
    let truth = truth();
    let fitted = fit_device(&parse("cpu").expect("known").nodes[0].device, None, &measurements(&truth, 0.0));
    let fitted = fitted.expect("enough measurements");
    let (found, expected) = (&fitted.device.flops_per_second, &truth.flops_per_second);
    check_near(fitted.call_seconds, CALL_SECONDS, 0.01);
    check_near(fitted.device.launch_seconds, truth.launch_seconds, 0.01);
    check_near(fitted.device.memory_bytes_per_second, truth.memory_bytes_per_second, 0.01);
    // The fit knows how many processors a device has from elsewhere; one is not 40, so that rounds differ.
    let with_processors = Device { processors: 40, ..parse("cpu").expect("known").nodes[0].device.clone() };
    let fitted_again = fit_device(&with_processors, None, &measurements(&truth, 0.0)).expect("enough measurements");
    check_near(fitted_again.device.efficiency.tile_depth, truth.efficiency.tile_depth, 0.01);
    check_near(fitted_again.device.flops_per_second.bf16, expected.bf16, 0.01);
    check_near(fitted_again.device.flops_per_second.f32, expected.f32, 0.01);
    assert!(fitted_again.products.worst < 0.01, "{:?}", fitted_again.products);
    assert!(fitted_again.products.worst < fitted.products.worst);
    assert_eq!((found.f64, found.f16, found.i8), (0.0, 0.0, 0.0), "what was not measured is not made up");
}

#[test]
fn noise_moves_numbers_less_than_it_moves_times() {
    let truth = truth();
    let start = Device { processors: 40, ..parse("cpu").expect("known").nodes[0].device.clone() };
    let fitted = fit_device(&start, None, &measurements(&truth, 0.1)).expect("enough measurements");
    let (found, expected) = (&fitted.device.flops_per_second, &truth.flops_per_second);
    check_near(fitted.device.memory_bytes_per_second, truth.memory_bytes_per_second, 0.1);
    check_near(fitted.device.launch_seconds, truth.launch_seconds, 0.1);
    check_near(found.bf16, expected.bf16, 0.1);
    check_near(found.f32, expected.f32, 0.1);
    assert!(fitted.products.median > 0.01 && fitted.products.worst < 0.2, "{:?}", fitted.products);
}

#[test]
fn one_wild_time_does_not_move_the_rest() {
    let start = Device { processors: 40, ..parse("cpu").expect("known").nodes[0].device.clone() };
    let mut measured = measurements(&truth(), 0.0);
    measured.products[4].seconds *= 20.0;
    let fitted = fit_device(&start, None, &measured).expect("enough measurements");
    check_near(fitted.device.flops_per_second.f32, truth().flops_per_second.f32, 0.02);
    check_near(fitted.products.worst, 20f64.ln(), 0.02);
}

#[test]
fn a_makers_rates_stay_and_shares_are_fitted() {
    let maker = parse("a100-80g").expect("known").nodes[0].device.clone();
    let mut truth = maker.clone();
    truth.efficiency = Efficiency { products: 0.62, attention: 0.5, tile_depth: 45.25, memory: 0.71 };
    let fitted = fit_device(&maker, Some(&maker), &measurements(&truth, 0.0)).expect("enough measurements");
    let device = &fitted.device;
    assert_eq!(device.memory_bytes_per_second, maker.memory_bytes_per_second);
    check_near(device.efficiency.memory, 0.71, 0.01);
    check_near(device.efficiency.products, 0.62, 0.01);
    check_near(device.flops_per_second.bf16, maker.flops_per_second.bf16, 0.01);
    check_near(device.flops_per_second.f32, maker.flops_per_second.f32, 0.01);
    assert_eq!(device.flops_per_second.i8, maker.flops_per_second.i8, "what was not measured stays");
}

#[test]
fn tf32_has_its_own_rate() {
    let start = Device { processors: 40, ..parse("cpu").expect("known").nodes[0].device.clone() };
    let mut measured = measurements(&truth(), 0.0);
    for product in &mut measured.products {
        product.is_tf32 = product.product.dtype == DType::BF16;
        product.product.dtype = DType::F32;
    }
    let found = fit_device(&start, None, &measured).expect("enough measurements").device.flops_per_second;
    check_near(found.f32, 15e12, 0.03);
    assert!(found.tf32 > 5.0 * found.f32 && found.bf16 == 0.0, "{found:?}");
}

#[test]
fn what_cannot_be_fitted_is_an_error() {
    let start = parse("cpu").expect("known").nodes[0].device.clone();
    let check = |change: &dyn Fn(&mut Measurements), expected: &str| {
        let mut measured = measurements(&truth(), 0.0);
        change(&mut measured);
        let error = fit_device(&start, None, &measured).expect_err("it cannot be fitted");
        assert_eq!(error.to_string(), expected);
    };
    check(&|measured| measured.launches.clear(), "0 measured launches are too few, 2 are needed");
    check(&|measured| measured.products.truncate(1), "1 measured products are too few, 2 are needed");
    check(&|measured| measured.chains.truncate(2), "0 measured chains of 128 MiB and more are too few, 1 are needed");
    check(&|measured| measured.chains[1].seconds = 0.0, "number 2 of the measured chains took 0 seconds");
    check(&|measured| measured.products[3].seconds = f64::NAN, "number 4 of the measured products took NaN seconds");
    check(&|measured| measured.launches[0].seconds = -1.0, "number 1 of the measured launches took -1 seconds");
    check(&|measured| measured.products[0].product.depth = 0.0, "number 1 of the measured products is of nothing");
    check(&|measured| measured.chains[0].bytes = 0, "number 1 of the measured chains is of nothing");
    let lengths = "1 measured lengths of programs of launches are too few, 2 are needed";
    check(&|measured| measured.launches.iter_mut().for_each(|launches| launches.kernels = 3), lengths);
}

const COLLECTIVES: [Collective; 5] = [
    Collective::AllGather,
    Collective::AllReduce,
    Collective::AllToAll,
    Collective::CollectivePermute,
    Collective::ReduceScatter,
];

/// All collectives of two to all devices of a node, as estimated.
fn collectives(cluster: &Cluster, added_seconds: f64) -> Vec<MeasuredCollective> {
    let mut measured = Vec::new();
    for collective in COLLECTIVES {
        for devices in [2, 4, 8] {
            for bytes in [1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 26] {
                let group = Group::along(cluster, &[(devices, 1)]);
                let seconds = estimate(cluster, collective, &group, bytes).seconds + added_seconds;
                measured.push(MeasuredCollective { collective, devices, bytes, seconds });
            }
        }
    }
    measured
}

#[test]
fn exact_times_give_the_link_back() {
    let truth = parse_file(
        "base = \"8xcpu\"\n[link]\nbytes_per_second = 20e9\nefficiency = 0.37\nstart_seconds = 55e-6\nhop_seconds = 2e-6\ncopy_share = 0.3",
    );
    let truth = truth.expect("a good file");
    let start = parse("8xcpu").expect("known");
    let found = fit_link(&start, &collectives(&truth, 0.0)).expect("enough measurements");
    let expected = &truth.nodes[0].link;
    check_near(found.efficiency, expected.efficiency, 0.01);
    check_near(found.start_seconds, expected.start_seconds, 0.01);
    check_near(found.hop_seconds, expected.hop_seconds, 0.05);
    check_near(found.copy_share, expected.copy_share, 0.05);
}

#[test]
fn collectives_that_cannot_be_fitted_are_errors() {
    let cluster = parse("8xcpu").expect("known");
    let good = collectives(&cluster, 0.0);
    let few = FitError::TooFew { what: "collectives", found: 3, needed: 4 };
    assert_eq!(fit_link(&cluster, &good[..3]), Err(few));
    for seconds in [0.0, f64::INFINITY, -1e-6] {
        let mut bad = good.clone();
        bad[2].seconds = seconds;
        assert_eq!(fit_link(&cluster, &bad), Err(FitError::BadSeconds { what: "collectives", index: 2, seconds }));
    }
    let mut alone = good;
    alone[5].devices = 1;
    assert_eq!(fit_link(&cluster, &alone), Err(FitError::Nothing { what: "collectives", index: 5 }));
}

#[test]
fn a_node_becomes_a_cluster_that_reads_back() {
    let truth = truth();
    let node =
        MeasuredNode { name: "Some \"GPU\"".to_owned(), devices: 8, memory_bytes: 12 << 30, processors: Some(40) };
    let linked = parse_file("base = \"8xcpu\"\n[link]\nbytes_per_second = 3e9\nefficiency = 1\nstart_seconds = 40e-6");
    let linked = linked.expect("a good file");
    let fitted =
        calibrate(&node, &measurements(&truth, 0.0), &collectives(&linked, CALL_SECONDS)).expect("a good node");
    let nodes = &fitted.cluster.nodes[0];
    assert_eq!((nodes.devices, nodes.device.memory_bytes, &*nodes.device.name), (8, 12 << 30, "Some \"GPU\""));
    assert_eq!((fitted.system, nodes.link.efficiency), (None, 1.0));
    check_near(nodes.link.bytes_per_second, 3e9, 0.02);
    check_near(nodes.link.start_seconds, 40e-6, 0.1);
    assert!(fitted.link.is_some_and(|residual| residual.points == 75 && residual.worst < 0.1), "{:?}", fitted.link);
    assert_eq!(parse_file(&fitted.cluster.to_toml()), Ok(fitted.cluster));
}

#[test]
fn a_single_device_keeps_the_link_it_had() {
    let node = MeasuredNode { name: "Tesla V100-SXM2-32GB".to_owned(), devices: 1, memory_bytes: 1, processors: None };
    let fitted = calibrate(&node, &measurements(&truth(), 0.0), &[]).expect("a good node");
    let known = parse("1xv100-32g").expect("known");
    assert_eq!((fitted.link, &fitted.cluster.nodes[0].link), (None, &known.nodes[0].link));
    assert_eq!((fitted.cluster.name, fitted.cluster.network), ("1xv100-32g".to_owned(), known.network));
}

#[test]
fn devices_are_known_by_what_engines_call_them() {
    let name = |reported: &str| find_reported(reported).map(|system| &*system.device.name);
    for (reported, expected) in [
        ("NVIDIA A100-SXM4-80GB", Some("a100-80g")),
        ("NVIDIA A100-PCIE-40GB", Some("a100-40g-pcie")),
        ("NVIDIA A100 80GB PCIe", Some("a100-80g-pcie")),
        ("Tesla V100-SXM2-16GB", Some("v100-16g")),
        ("NVIDIA H100 80GB HBM3", Some("h100")),
        ("NVIDIA H100 96GB HBM3", Some("h100-96g")),
        ("NVIDIA H100 PCIe", None),
        ("NVIDIA GB200", Some("gb200")),
        ("AMD Instinct MI300X", Some("mi300x")),
        ("TPU v4", Some("tpu-v4")),
        ("TPU v5 lite", Some("tpu-v5e")),
        ("NVIDIA GeForce RTX 4090", None),
        ("AMD EPYC", None),
    ] {
        assert_eq!(name(reported), expected, "{reported}");
    }
}

#[test]
fn residuals_are_medians_and_worst_of_distances() {
    assert_eq!(Residual::of(&[]), None);
    assert_eq!(Residual::of(&[-0.3, 0.1, 0.2]), Some(Residual { points: 3, median: 0.2, worst: 0.3 }));
    assert_eq!((peak_and_share(3.0, Some(4.0)), peak_and_share(5.0, Some(4.0))), ((4.0, 0.75), (5.0, 1.0)));
    assert_eq!(peak_and_share(3.0, None), (3.0, 1.0));
}
