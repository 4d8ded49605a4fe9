//! Clusters: names and files in, numbers out; and times of collectives beside measurements.

mod measured;

use std::fmt::Write;
use std::{env, fs};

use meshwright::cluster::{Algorithm, Cluster, Collective, Group, LINKS, SYSTEMS, Wiring, estimate, parse, parse_file};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cluster/");

/// Compares with a file of `tests/cluster`, or rewrites it.
#[track_caller]
fn check_file(name: &str, found: &str) {
    let path = format!("{FOLDER}{name}");
    if env::var_os("BLESS").is_some() {
        fs::write(&path, found).expect("the file can be written");
    }
    assert_eq!(found, fs::read_to_string(&path).unwrap_or_default(), "{name} differs; BLESS=1 rewrites it");
}

fn seconds(cluster: &Cluster, collective: Collective, pieces: &[(usize, usize)], bytes: usize) -> f64 {
    estimate(cluster, collective, &Group::along(cluster, pieces), bytes).seconds
}

const ALL: [Collective; 7] = [
    Collective::AllGather,
    Collective::AllReduce,
    Collective::AllToAll,
    Collective::Broadcast,
    Collective::CollectivePermute,
    Collective::ReduceScatter,
    Collective::Send,
];

#[test]
fn names_print_as_files() {
    for name in ["4x8xh100", "2x8xv100-16g", "2x64xtpu-v4", "8xmi300x"] {
        check_file(&format!("{name}.toml"), &parse(name).expect("a known cluster").to_toml());
    }
}

#[test]
fn printed_files_read_back_alike() {
    for system in SYSTEMS {
        let cluster =
            parse(&format!("3x{}x{}", system.most_in_node.min(8), system.device.name)).expect("a known cluster");
        assert_eq!(parse_file(&cluster.to_toml()), Ok(cluster));
    }
}

#[test]
fn a_device_of_ones_own_reads_back_alike() {
    let text = "base = \"2x12xcpu\"\n[device]\nname = \"mine\"\nmemory_bytes = \"24GB\"\nflops_per_second.bf16 = \"1PFLOP/s\"\n[link]\nbase = \"nvlink3\"\nname = \"\\\"fast\\\"\"";
    let cluster = parse_file(text).expect("a good file");
    assert_eq!(cluster.nodes[0].device.memory_bytes, 24_000_000_000);
    assert_eq!(cluster.nodes[0].device.flops_per_second.bf16, 1e15);
    assert_eq!(cluster.nodes[0].link.wiring, Wiring::Switch);
    assert_eq!(parse_file(&cluster.to_toml()), Ok(cluster));
}

#[test]
fn a_file_changes_what_it_names_and_nothing_else() {
    let changed =
        parse_file("base = \"8x8xv100-16g\"\nadapters = 1\nnetwork.base = \"ethernet-25\"").expect("a good file");
    let mut expected = parse("8x8xv100-16g").expect("a known cluster");
    expected.nodes[0].adapters = 1;
    expected.network = LINKS.iter().find(|link| link.name == "ethernet-25").expect("a known link").clone();
    assert_eq!(changed, expected);
}

#[test]
fn nodes_may_differ() {
    let text = "[[nodes]]\nbase = \"2x8xa100-80g\"\n[[nodes]]\nbase = \"1x4xh100\"\ndevice.memory_bytes = \"60GiB\"";
    let cluster = parse_file(text).expect("a good file");
    assert_eq!((cluster.devices(), cluster.node_count(), cluster.devices_per_node()), (20, 3, 4));
    assert_eq!(cluster.memory_bytes(), 60 << 30);
    let last = cluster.part(2, 1);
    assert_eq!((last.devices(), &*last.nodes[0].device.name), (4, "h100"));
    assert_eq!(parse_file(&cluster.to_toml()), Ok(cluster));
}

#[test]
fn files_of_the_guide_are_good() {
    let guide = include_str!("../../../docs/guides/clusters.md");
    let files: Vec<&str> = guide.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(files.len(), 3);
    for file in files {
        assert!(parse_file(file).is_ok(), "{file}: {:?}", parse_file(file));
    }
    assert_eq!(parse("256xtpu-v5e").expect("a known cluster").nodes[0].link.axes, [16, 16]);
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let names = ["8xh10", "a100", "16xh100", "2x3x4xh100", "0xh100", "999999999999999999999x8xh100", "x", ""];
    let files = [
        "",
        "base = \"8xb20\"",
        "base = \"8xh100\"\nmemory = 3",
        "base = \"8xh100\"\n[device]\nmemory_bytes = \"14 apples\"",
        "base = \"8xh100\"\n[device]\nmemory_bytes = -1",
        "base = \"8xh100\"\n[link]\nefficiency = 1.5",
        "base = \"8xh100\"\n[link]\nbytes_per_second = 0",
        "base = \"8xh100\"\n[link]\naxes = [2, 4]",
        "base = \"8xtpu-v4\"\n[link]\naxes = [3, 3]",
        "base = \"8xh100\"\n[link]\nwiring = \"hypercube\"",
        "base = \"8xh100\"\n[network]\nwiring = \"torus\"",
        "base = \"8xh100\"\n[network]\nbase = \"infiniband\"",
        "base = \"8xh100\"\nadapters = 0.5",
        "base = \"8xh100\"\n[[nodes]]\nbase = \"8xh100\"",
        "base = \"\\u0038xé100é\"",
        "base = 8",
        "base = ",
    ];
    let mut found = String::new();
    let names = names.iter().map(|text| (*text, parse(text)));
    for (text, result) in names.chain(files.iter().map(|text| (*text, parse_file(text)))) {
        let error = result.expect_err("it is wrong");
        let place = text.get(error.span.clone()).expect("a place in the text");
        let hint = error.hint.map(|hint| format!("\n  hint: {hint}")).unwrap_or_default();
        let _ = writeln!(found, "{text}\n  at `{}`: {}{hint}\n", place.replace('\n', " "), error.message.trim_end());
    }
    check_file("errors.txt", &found);
}

#[test]
fn tables_are_in_order_and_name_what_there_is() {
    assert!(SYSTEMS.is_sorted_by(|a, b| a.device.name < b.device.name) && LINKS.is_sorted_by(|a, b| a.name < b.name));
    for system in SYSTEMS {
        for name in [system.link, system.network] {
            assert!(LINKS.iter().any(|link| link.name == name), "{}: no link {name}", system.device.name);
        }
    }
}

#[test]
fn all_reduces_take_as_long_as_was_measured() {
    let mut table = String::from("Predicted over measured time of all-reduces in one node, less one, in percent.\n\n");
    for gpu in ["a100", "v100"] {
        let cluster = measured::node(gpu);
        let rows: Vec<_> = measured::read().into_iter().filter(|row| row.gpu == gpu).collect();
        let error = |row: &measured::Measured| 100.0 * measured::error(&cluster, None, row);
        let mut sizes: Vec<usize> = rows.iter().map(|row| row.bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let _ = writeln!(table, "{gpu:>8} devices {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6}", 2, 3, 4, 5, 6, 7, 8);
        for bytes in sizes {
            let _ = write!(table, "{:>12} MiB", bytes >> 20);
            for row in rows.iter().filter(|row| row.bytes == bytes) {
                let _ = write!(table, " {:>6.1}", error(row));
            }
            table.push('\n');
        }
        let mut sizes: Vec<f64> = rows.iter().map(|row| error(row).abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let (median, worst) = (sizes[sizes.len() / 2], sizes[sizes.len() - 1]);
        let _ = writeln!(table, "median {median:.1}, worst {worst:.1}\n");
        assert!(median < 4.0 && worst < 30.0, "{gpu}: median {median}, worst {worst}");
    }
    check_file("nccl_all_reduce.txt", &table);
}

#[test]
fn more_bytes_take_longer() {
    for name in ["8xh100", "4x8xa100-80g", "4x8xv100-16g", "2x64xtpu-v4", "16x16xtpu-v5e", "2x8xmi300x", "2x8xcpu"] {
        let cluster = parse(name).expect("a known cluster");
        for collective in ALL {
            for pieces in [[(2, 1)], [(8, 1)], [(4, 2)], [(cluster.devices(), 1)]] {
                let times: Vec<f64> = (0..30).map(|power| seconds(&cluster, collective, &pieces, 1 << power)).collect();
                assert!(times.is_sorted() && times[0] > 0.0, "{name} {collective:?} {pieces:?}: {times:?}");
                assert!(times.iter().all(|time| time.is_finite()));
            }
        }
    }
}

#[test]
fn more_devices_take_longer_over_switches() {
    let cluster = parse("16x8xh100").expect("a known cluster");
    for collective in ALL {
        for bytes in [1 << 10, 1 << 20, 1 << 30] {
            let times: Vec<f64> =
                (0..8).map(|power| seconds(&cluster, collective, &[(1 << power, 1)], bytes)).collect();
            assert!(times.is_sorted(), "{collective:?} of {bytes} bytes: {times:?}");
        }
    }
}

#[test]
fn an_all_reduce_is_a_reduce_scatter_and_an_all_gather() {
    for name in ["8xh100", "8xv100-16g", "8xmi300x", "64xtpu-v4"] {
        let cluster = parse(name).expect("a known cluster");
        let group = [(cluster.devices(), 1)];
        let whole = seconds(&cluster, Collective::AllReduce, &group, 1 << 30);
        let parts = seconds(&cluster, Collective::ReduceScatter, &group, 1 << 30)
            + seconds(&cluster, Collective::AllGather, &group, 1 << 30);
        let start = cluster.nodes[0].link.start_seconds;
        assert!((parts - whole - start).abs() < 1e-9, "{name}: {whole} and {parts}");
    }
}

#[test]
fn algorithms_are_chosen_by_size_and_place() {
    let check = |name: &str, pieces: &[(usize, usize)], bytes, expected| {
        let cluster = parse(name).expect("a known cluster");
        let found = estimate(&cluster, Collective::AllReduce, &Group::along(&cluster, pieces), bytes);
        assert_eq!(found.algorithm, expected, "{name} {pieces:?} {bytes}: {found:?}");
    };
    check("8xa100-80g", &[(8, 1)], 1 << 10, Algorithm::Tree);
    check("8xa100-80g", &[(8, 1)], 1 << 30, Algorithm::Ring);
    check("8xa100-80g", &[(1, 1)], 1 << 30, Algorithm::None);
    check("64x8xa100-80g", &[(512, 1)], 1 << 10, Algorithm::Tree);
    check("8x8xa100-80g", &[(8, 8)], 1 << 30, Algorithm::Ring);
    check("64xtpu-v4", &[(64, 1)], 1 << 20, Algorithm::Torus);
    check("2x64xtpu-v4", &[(128, 1)], 1 << 20, Algorithm::Hierarchical);
}

#[test]
fn sums_are_made_within_nodes_where_the_network_is_slow() {
    let text = "base = \"8x8xv100-16g\"\nadapters = 1\nnetwork.base = \"ethernet-25\"";
    let cluster = parse_file(text).expect("a good file");
    for collective in [Collective::AllGather, Collective::AllReduce, Collective::ReduceScatter] {
        let found = estimate(&cluster, collective, &Group::whole(&cluster), 1 << 30);
        assert_eq!(found.algorithm, Algorithm::Hierarchical);
        // A ring over all devices sends 63 of 64 parts out of each node, instead of seven of eight.
        let rounds = if collective == Collective::AllReduce { 2.0 } else { 1.0 };
        let ring = rounds * 63.0 / 64.0 * f64::from(1 << 30) / cluster.network.lane_bytes_per_second();
        assert!(found.seconds < 0.95 * ring, "{collective:?}: {found:?}, a ring {ring}");
    }
}

/// Sixty-four V100 with one slow adapter a node: groups of one device of each node, eight at once, have an eighth
/// of it each.
#[test]
fn groups_at_once_share_adapters() {
    let text = "base = \"8x8xv100-16g\"\nadapters = 1\nnetwork.base = \"ethernet-25\"";
    let cluster = parse_file(text).expect("a good file");
    let rate = cluster.network.lane_bytes_per_second();
    let bytes = 1 << 30;
    let alone = Group { at_once: 1, ..Group::along(&cluster, &[(8, 8)]) };
    let least = 2.0 * 7.0 / 8.0 * bytes as f64 / rate;
    let alone = estimate(&cluster, Collective::AllReduce, &alone, bytes).seconds;
    let shared = seconds(&cluster, Collective::AllReduce, &[(8, 8)], bytes);
    assert!((alone / least - 1.0).abs() < 0.01, "{alone} and {least}");
    assert!((shared / (8.0 * least) - 1.0).abs() < 0.01, "{shared} and {least}");
    // Eight adapters for eight groups: nobody waits.
    let cluster = parse("8x8xa100-80g").expect("a known cluster");
    let group = Group::along(&cluster, &[(8, 8)]);
    let alone = Group { at_once: 1, ..group.clone() };
    assert_eq!(
        estimate(&cluster, Collective::AllReduce, &group, bytes),
        estimate(&cluster, Collective::AllReduce, &alone, bytes)
    );
}

/// No algorithm beats what has to leave a node: with sums made inside, twice all data but a node's share.
#[test]
fn nothing_is_faster_than_the_adapters() {
    for name in ["4x8xa100-80g", "4x8xv100-16g", "32x8xh100"] {
        let cluster = parse(name).expect("a known cluster");
        let nodes = &cluster.nodes[0];
        let bytes = 1 << 30;
        let out = 2.0 * (nodes.count as f64 - 1.0) / nodes.count as f64 * bytes as f64;
        let least = out / (nodes.adapters as f64 * cluster.network.lane_bytes_per_second());
        let found = seconds(&cluster, Collective::AllReduce, &[(cluster.devices(), 1)], bytes);
        assert!(found >= least && found < 3.0 * least, "{name}: {found}, at least {least}");
    }
}

#[test]
fn a_torus_carries_along_all_its_axes() {
    let cluster = parse("64xtpu-v4").expect("a known cluster");
    assert_eq!(cluster.nodes[0].link.axes, [4, 4, 4]);
    let rate = cluster.nodes[0].link.lane_bytes_per_second();
    let stream = |pieces: &[(usize, usize)], devices: f64, lanes: f64| {
        let found = seconds(&cluster, Collective::AllGather, pieces, 1 << 30);
        let expected = (devices - 1.0) / devices * f64::from(1 << 30) / (lanes * rate);
        assert!((found / expected - 1.0).abs() < 0.01, "{pieces:?}: {found} and {expected}");
    };
    stream(&[(4, 1)], 4.0, 2.0);
    stream(&[(4, 16)], 4.0, 2.0);
    stream(&[(16, 1)], 16.0, 4.0);
    stream(&[(64, 1)], 64.0, 6.0);
    // Half of an axis is a line, and every second device of one shares its links with the others.
    stream(&[(2, 1)], 2.0, 1.0);
    stream(&[(2, 2)], 2.0, 1.0);
    let line = parse("8xtpu-v5e").expect("a known cluster");
    assert_eq!(line.nodes[0].link.axes, [2, 4]);
}

/// The lanes of a cube are the most rings, one direction each, that have no lane in common. They are counted
/// here by trying all, on the links that `nvidia-smi topo -m` lists for a DGX-1 with V100.
#[test]
fn a_cube_has_as_many_rings_as_links_allow() {
    const LINKS_BETWEEN: [[u8; 8]; 8] = [
        [0, 1, 1, 2, 2, 0, 0, 0],
        [1, 0, 2, 1, 0, 2, 0, 0],
        [1, 2, 0, 2, 0, 0, 1, 0],
        [2, 1, 2, 0, 0, 0, 0, 1],
        [2, 0, 0, 0, 0, 1, 1, 2],
        [0, 2, 0, 0, 1, 0, 2, 1],
        [0, 0, 1, 0, 1, 2, 0, 2],
        [0, 0, 0, 1, 2, 1, 2, 0],
    ];
    let link = &parse("8xv100-16g").expect("a known cluster").nodes[0].link;
    for devices in [2, 3, 4, 6, 7, 8] {
        let mut rings = Vec::new();
        find_rings(&LINKS_BETWEEN, devices, &mut vec![0], &mut rings);
        let lanes = link.group_bytes_per_second(devices) / link.lane_bytes_per_second();
        assert_eq!(most_rings(&rings, LINKS_BETWEEN, devices) as f64, lanes, "{devices} devices");
    }
    let mut rings = Vec::new();
    find_rings(&LINKS_BETWEEN, 5, &mut vec![0], &mut rings);
    assert!(rings.is_empty(), "five devices have no ring");
}

fn find_rings(links: &[[u8; 8]; 8], devices: usize, path: &mut Vec<usize>, rings: &mut Vec<Vec<usize>>) {
    let last = path[path.len() - 1];
    if path.len() == devices {
        if links[last][0] > 0 {
            rings.push(path.clone());
        }
        return;
    }
    for next in 1..devices {
        if links[last][next] > 0 && !path.contains(&next) {
            path.push(next);
            find_rings(links, devices, path, rings);
            path.pop();
        }
    }
}

/// The most rings among `rings`, each as often as its links are left.
fn most_rings(rings: &[Vec<usize>], left: [[u8; 8]; 8], devices: usize) -> usize {
    // Each ring leaves every device once, so the device with the fewest links bounds their number.
    let bound = (0..devices).map(|from| left[from][..devices].iter().sum::<u8>()).min().unwrap_or(0) as usize;
    let mut most = 0;
    for (index, ring) in rings.iter().enumerate() {
        let mut rest = left;
        let is_free = (0..devices).all(|at| {
            let lane = &mut rest[ring[at]][ring[(at + 1) % devices]];
            let is_free = *lane > 0;
            *lane = lane.saturating_sub(1);
            is_free
        });
        if is_free {
            most = most.max(1 + most_rings(&rings[index..], rest, devices));
        }
        if most == bound {
            break;
        }
    }
    most
}
