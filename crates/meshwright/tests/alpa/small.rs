//! Programs of up to twelve ops: what planning finds is the cheapest of all ways, with few exceptions that are known.

use std::env;

use meshwright::import::import;
use meshwright::lower::Movement;
use meshwright::program::Program;
use meshwright::shard::Mesh;
use meshwright::tactics::{parse, partition};

use crate::price::Prices;
use crate::small_programs::small_programs;
use crate::{SAME, brute, frontier};

const PRICES: Prices = Prices { alpha: [1.0, 3.0], beta: [1.0, 0.1] };
const MESHES: [&str; 2] = ["x=4,y=1", "x=2,y=2"];

/// How many programs are made up, and how many where there is time.
const FEW: u64 = 40;
const MANY: u64 = 300;

/// Programs for which planning finds something dearer than the best, by mesh. In most, light ops that planning cuts as
/// one would be cut apart, or parts of sums carried through transposes and reshapes. In some a value that several read is
/// counted as brought to one place for all of them, which lowering does only with parts of sums.
#[rustfmt::skip] // Several a line.
const DEARER: [(&str, &[u64]); 2] = [
    ("x=4,y=1", &[74, 131, 162, 171, 222]),
    ("x=2,y=2", &[12, 46, 64, 73, 74, 90, 98, 99, 121, 147, 151, 153, 162, 172, 197, 200, 201, 222, 242, 254, 273, 277, 293]),
];

/// Ways that lowering takes another turn on: it decides by itself where parts of sums are carried.
const UNREALIZED: &[(&str, u64)] = &[("x=2,y=2", 98), ("x=2,y=2", 225), ("x=2,y=2", 280)];

/// What planning makes of a program, and the best that can be.
struct Outcome {
    found: f64,
    /// The least of all ways, and what lowering makes of it.
    least: f64,
    lowered: f64,
}

fn outcome(program: &Program, mesh: &Mesh) -> Outcome {
    let price = |mesh: &Mesh, movement: &Movement<'_>| PRICES.cost(mesh, movement);
    let tactics = parse("tactic = [{ auto = true }]").expect("a tactic");
    let found = PRICES.objective(&partition(program, mesh, &tactics, &price).expect("a plan"));
    match frontier::cheapest(program, mesh, &price, found * (1.0 + SAME)) {
        Some(cheapest) => {
            let lowered = cheapest.recipe.partition(program, &price).expect("a recipe that can be lowered");
            Outcome { found, least: cheapest.cost, lowered: PRICES.objective(&lowered) }
        }
        // What was found is cheaper than any way is counted.
        None => Outcome { found, least: found, lowered: found },
    }
}

fn read(name: &str, text: &str) -> Program {
    let imported = import(&text.to_owned().into());
    imported.program.unwrap_or_else(|| panic!("{name}: {:?}\n{text}", imported.diagnostics))
}

#[test]
fn planning_finds_the_cheapest_of_all_ways_to_cut_small_programs() {
    let generated = if env::var_os("LONG").is_some() { MANY } else { FEW };
    let (mut dearer, mut unrealized, mut costly) = (Vec::new(), Vec::new(), 0);
    for small in small_programs(1, generated) {
        let program = read(&small.name, &small.text);
        for mesh in MESHES {
            let Outcome { found, least, lowered } = outcome(&program, &Mesh::parse(mesh).expect("a mesh"));
            let is_more = |left: f64, right: f64| left > right * (1.0 + SAME);
            if is_more(found, lowered) {
                dearer.push((mesh, small.name.clone()));
            }
            if is_more(lowered, least) || is_more(least, lowered) {
                unrealized.push((mesh, small.name.clone()));
            }
            costly += usize::from(least > 0.0);
        }
    }
    let known = |(mesh, seeds): (&'static str, &[u64])| -> Vec<(&str, String)> {
        let tried = seeds.iter().filter(|seed| **seed < generated);
        tried.map(|seed| (mesh, format!("seed {seed}"))).collect()
    };
    let mut expected: Vec<(&str, String)> = DEARER.into_iter().flat_map(known).collect();
    expected.sort();
    dearer.sort();
    assert_eq!(dearer, expected, "planning is dearer than the best for other programs than is known");
    let expected: Vec<(&str, String)> = UNREALIZED.iter().flat_map(|&(mesh, seed)| known((mesh, &[seed]))).collect();
    assert_eq!(unrealized, expected, "what is cheapest does not come to what it was counted as");
    assert!(costly as u64 > generated / 2, "almost every program can be cut for nothing");
}

/// Programs of three ops, where all combinations of ways can be lowered one by one.
const TINY: [&str; 4] = [
    "%a: tensor<8x16xf32>, %b: tensor<16x4xf32>, %c: tensor<4x8xf32>) -> tensor<8x8xf32> {
       %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
       %1 = stablehlo.tanh %0 : tensor<8x4xf32>
       %2 = stablehlo.dot_general %1, %c, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
       return %2 : tensor<8x8xf32>",
    "%a: tensor<4x32xf32>, %b: tensor<32x4xf32>, %c: tensor<4x16xf32>) -> tensor<16x4xf32> {
       %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x32xf32>, tensor<32x4xf32>) -> tensor<4x4xf32>
       %1 = stablehlo.dot_general %0, %c, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
       %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<4x16xf32>) -> tensor<16x4xf32>
       return %2 : tensor<16x4xf32>",
    "%a: tensor<8x8xf32>, %b: tensor<8x8xf32>, %c: tensor<8x8xf32>, %d: tensor<8x8xf32>) -> tensor<8x8xf32> {
       %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
       %1 = stablehlo.dot_general %c, %d, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
       %2 = stablehlo.add %0, %1 : tensor<8x8xf32>
       return %2 : tensor<8x8xf32>",
    // A product and what its other factor's gradient is made of: no way to cut them costs nothing.
    "%a: tensor<8x4xf32>, %b: tensor<4x16xf32>, %c: tensor<16x4xf32>) -> tensor<16x4xf32> {
       %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
       %1 = stablehlo.dot_general %0, %c, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
       %2 = stablehlo.dot_general %0, %1, contracting_dims = [0] x [0] : (tensor<8x16xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
       return %2 : tensor<16x4xf32>",
];

#[test]
fn the_cheapest_way_is_the_cheapest_of_all_that_are_lowered() {
    let mut dearest: f64 = 0.0;
    for text in TINY {
        let program = read(text, &format!("module {{ func.func @main({text}\n}} }}"));
        for mesh in MESHES.map(|mesh| Mesh::parse(mesh).expect("a mesh")) {
            let all = brute::cheapest(&program, &mesh, &PRICES);
            let Outcome { found, least, lowered } = outcome(&program, &mesh);
            for cost in [found, least, lowered] {
                assert!((cost - all).abs() <= all * SAME, "{cost} on {mesh}, {all} at best: {text}");
            }
            dearest = dearest.max(all);
        }
    }
    assert!(dearest > 0.0, "every program can be cut for nothing");
}
