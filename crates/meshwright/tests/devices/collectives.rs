//! What each collective gives. Where a case names no source, it follows from the definitions of the
//! StableHLO specification.

use meshwright::interpret::{Options, Tensor, evaluate_devices, generate};

use super::{program, results};

/// A grid, a collective of one operand `%x`, its type, and what goes in and comes out of each process.
type Case = ([usize; 2], &'static str, &'static str, &'static str, &'static str);

#[track_caller]
fn check((grid, op, ty, inputs, expected): Case) {
    let (from, to) = ty.split_once(" -> ").expect("a type with an arrow");
    let op = op.replacen('(', "\"(", 1);
    let function = format!(
        "func.func @main(%x: tensor<{from}>) -> tensor<{to}> {{
           %r = \"stablehlo.{op} : (tensor<{from}>) -> tensor<{to}>
           return %r : tensor<{to}>
         }}"
    );
    let inputs = per_process(inputs);
    let inputs: Vec<Vec<&[f64]>> = inputs.iter().map(|values| vec![&values[..]]).collect();
    assert_eq!(results(&program(grid, &function), &inputs), per_process(expected), "{op} on {grid:?}");
}

/// Reads lists of numbers such as `1 2 | 3 4`.
fn per_process(text: &str) -> Vec<Vec<f64>> {
    let number = |word: &str| word.parse().expect("a number");
    text.split('|').map(|part| part.split_whitespace().map(number).collect()).collect()
}

#[test]
fn all_gather_concatenates_in_the_order_of_the_group() {
    let cases: &[Case] = &[
        // The example of the specification.
        (
            [2, 1],
            "all_gather(%x) {all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}",
            "2x2xf32 -> 2x4xf32",
            "1 2 3 4 | 5 6 7 8",
            "1 2 5 6 3 4 7 8 | 1 2 5 6 3 4 7 8",
        ),
        // Across replicas, each partition for itself.
        (
            [2, 2],
            "all_gather(%x) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}",
            "1xi64 -> 2xi64",
            "1 | 2 | 3 | 4",
            "1 3 | 2 4 | 1 3 | 2 4",
        ),
        // Across both, replicas of the first partition first.
        (
            [2, 2],
            "all_gather(%x) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, CHANNEL}",
            "1xi64 -> 4xi64",
            "1 | 2 | 3 | 4",
            "1 3 2 4 | 1 3 2 4 | 1 3 2 4 | 1 3 2 4",
        ),
        // By process, not in ascending order.
        (
            [2, 2],
            "all_gather(%x) {all_gather_dim = 0 : i64,
             replica_groups = dense<[[3, 0], [1, 2]]> : tensor<2x2xi64>, GLOBAL}",
            "1xi64 -> 2xi64",
            "1 | 2 | 3 | 4",
            "4 1 | 2 3 | 2 3 | 4 1",
        ),
        // Without groups, everybody.
        (
            [1, 4],
            "all_gather(%x) {all_gather_dim = 0 : i64, replica_groups = dense<> : tensor<0x0xi64>, GLOBAL}",
            "1xi64 -> 4xi64",
            "1 | 2 | 3 | 4",
            "1 2 3 4 | 1 2 3 4 | 1 2 3 4 | 1 2 3 4",
        ),
    ];
    cases.iter().copied().for_each(check);
}

#[test]
fn all_reduce_adds_within_groups() {
    let cases: &[Case] = &[
        // The example of the specification.
        (
            [2, 1],
            "all_reduce(%x) ADD(f32) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}",
            "4xf32 -> 4xf32",
            "1 2 3 4 | 5 6 7 8",
            "6 8 10 12 | 6 8 10 12",
        ),
        // Groups of several sizes.
        (
            [3, 1],
            "all_reduce(%x) ADD(i64) {replica_groups = dense<[[0, 1], [2, -1]]> : tensor<2x2xi64>}",
            "1xi64 -> 1xi64",
            "1 | 5 | 7",
            "6 | 6 | 7",
        ),
        (
            [2, 2],
            "all_reduce(%x) ADD(i64) {replica_groups = dense<[[0], [1]]> : tensor<2x1xi64>, CHANNEL}",
            "1xi64 -> 1xi64",
            "1 | 2 | 3 | 4",
            "3 | 3 | 7 | 7",
        ),
        (
            [2, 2],
            "all_reduce(%x) ADD(i64) {replica_groups = dense<[[0, 3], [1, 2]]> : tensor<2x2xi64>, GLOBAL}",
            "1xi64 -> 1xi64",
            "1 | 2 | 3 | 40",
            "41 | 5 | 5 | 41",
        ),
        // Each step is rounded: 256 + 1 is 256 in bf16.
        (
            [3, 1],
            "all_reduce(%x) ADD(bf16) {replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>}",
            "1xbf16 -> 1xbf16",
            "256 | 1 | 1",
            "256 | 256 | 256",
        ),
        (
            [3, 1],
            "all_reduce(%x) ADD(bf16) {replica_groups = dense<[[2, 1, 0]]> : tensor<1x3xi64>}",
            "1xbf16 -> 1xbf16",
            "256 | 1 | 1",
            "258 | 258 | 258",
        ),
        // The region may accumulate in a wider type.
        (
            [3, 1],
            "all_reduce(%x) ADD(f32) {replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>}",
            "1xbf16 -> 1xf32",
            "256 | 1 | 1",
            "258 | 258 | 258",
        ),
        // Any region will do, and sees operands in the order of the group.
        (
            [3, 1],
            "all_reduce(%x) ({ ^bb0(%a: tensor<i64>, %b: tensor<i64>):
                   %ten = stablehlo.constant dense<10> : tensor<i64>
                   %m = stablehlo.multiply %a, %ten : tensor<i64>
                   %s = stablehlo.add %m, %b : tensor<i64>
                   stablehlo.return %s : tensor<i64> }) {replica_groups = dense<[[2, 0, 1]]> : tensor<1x3xi64>}",
            "2xi64 -> 2xi64",
            "1 4 | 2 5 | 3 6",
            "312 645 | 312 645 | 312 645",
        ),
        (
            [3, 1],
            "all_reduce(%x) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
                   %s = stablehlo.subtract %a, %b : tensor<f32>
                   stablehlo.return %s : tensor<f32> }) {replica_groups = dense<[[1, 2, 0]]> : tensor<1x3xi64>}",
            "1xf32 -> 1xf32",
            "1 | 20 | 3",
            "16 | 16 | 16",
        ),
    ];
    cases.iter().copied().for_each(check);
}

#[test]
fn all_reduce_takes_several_operands() {
    let program = program(
        [2, 1],
        "func.func @main(%x: tensor<4xi64>, %y: tensor<5xi64>) -> (tensor<4xi64>, tensor<5xi64>) {
           %r:2 = \"stablehlo.all_reduce\"(%x, %y) ADD(i64) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}
             : (tensor<4xi64>, tensor<5xi64>) -> (tensor<4xi64>, tensor<5xi64>)
           return %r#0, %r#1 : tensor<4xi64>, tensor<5xi64>
         }",
    );
    let inputs: [Vec<&[f64]>; 2] = [
        vec![&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0, 9.0]],
        vec![&[11.0, 12.0, 13.0, 14.0], &[15.0, 16.0, 17.0, 18.0, 19.0]],
    ];
    let sums = vec![12.0, 14.0, 16.0, 18.0, 20.0, 22.0, 24.0, 26.0, 28.0];
    assert_eq!(results(&program, &inputs), [sums.clone(), sums]);
}

#[test]
fn a_reduction_may_read_what_differs_between_processes() {
    let program = program(
        [1, 2],
        "func.func @main(%x: tensor<i64>, %own: tensor<i64>) -> tensor<i64> {
           %r = \"stablehlo.all_reduce\"(%x) ({ ^bb0(%a: tensor<i64>, %b: tensor<i64>):
             %s = stablehlo.add %a, %b : tensor<i64>
             %t = stablehlo.add %s, %own : tensor<i64>
             stablehlo.return %t : tensor<i64>
           }) {replica_groups = dense<[[0]]> : tensor<1x1xi64>,
               CHANNEL} : (tensor<i64>) -> tensor<i64>
           return %r : tensor<i64>
         }",
    );
    let inputs: [Vec<&[f64]>; 2] = [vec![&[1.0], &[10.0]], vec![&[2.0], &[20.0]]];
    assert_eq!(results(&program, &inputs), [[13.0], [23.0]]);
}

#[test]
fn a_reduction_may_hold_a_collective() {
    let program = program(
        [2, 1],
        "func.func @main(%x: tensor<i64>) -> tensor<i64> {
           %r = \"stablehlo.all_reduce\"(%x) ({ ^bb0(%a: tensor<i64>, %b: tensor<i64>):
             %i = \"stablehlo.all_reduce\"(%a) ADD(i64) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}
               : (tensor<i64>) -> tensor<i64>
             %t = stablehlo.add %i, %b : tensor<i64>
             stablehlo.return %t : tensor<i64>
           }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<i64>) -> tensor<i64>
           return %r : tensor<i64>
         }",
    );
    assert_eq!(results(&program, &[vec![&[1.0]], vec![&[5.0]]]), [[7.0], [7.0]]);
}

#[test]
fn all_to_all_exchanges_parts() {
    let cases: &[Case] = &[
        // The example of the specification.
        (
            [2, 1],
            "all_to_all(%x) {split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64,
             replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}",
            "2x4xf32 -> 4x2xf32",
            "1 2 3 4 5 6 7 8 | 9 10 11 12 13 14 15 16",
            "1 2 5 6 9 10 13 14 | 3 4 7 8 11 12 15 16",
        ),
        (
            [1, 2],
            "all_to_all(%x) {split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64,
             replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, CHANNEL}",
            "2x4xf32 -> 4x2xf32",
            "1 2 3 4 5 6 7 8 | 9 10 11 12 13 14 15 16",
            "1 2 5 6 9 10 13 14 | 3 4 7 8 11 12 15 16",
        ),
        // The order of the group says who gets which part, and where it goes.
        (
            [2, 1],
            "all_to_all(%x) {split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64,
             replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>}",
            "2x4xi64 -> 4x2xi64",
            "1 2 3 4 5 6 7 8 | 9 10 11 12 13 14 15 16",
            "11 12 15 16 3 4 7 8 | 9 10 13 14 1 2 5 6",
        ),
        // Split and concatenated along the same dimension.
        (
            [2, 1],
            "all_to_all(%x) {split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64,
             replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}",
            "2x4xi64 -> 2x4xi64",
            "1 2 3 4 5 6 7 8 | 9 10 11 12 13 14 15 16",
            "1 2 3 4 9 10 11 12 | 5 6 7 8 13 14 15 16",
        ),
    ];
    cases.iter().copied().for_each(check);
}

#[test]
fn reduce_scatter_keeps_a_part_of_the_sum() {
    let cases: &[Case] = &[
        // The example of the specification.
        (
            [2, 1],
            "reduce_scatter(%x) ADD(f32) {scatter_dimension = 1 : i64,
             replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}",
            "2x4xf32 -> 2x2xf32",
            "1 2 3 4 5 6 7 8 | 9 10 11 12 13 14 15 16",
            "10 12 18 20 | 14 16 22 24",
        ),
        (
            [1, 2],
            "reduce_scatter(%x) ADD(f32) {scatter_dimension = 1 : i64,
             replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>, GLOBAL}",
            "2x4xf32 -> 2x2xf32",
            "1 2 3 4 5 6 7 8 | 9 10 11 12 13 14 15 16",
            "14 16 22 24 | 10 12 18 20",
        ),
        // Across both, parts go round the replicas of a partition first.
        (
            [2, 2],
            "reduce_scatter(%x) ADD(i64) {scatter_dimension = 0 : i64,
             replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, CHANNEL}",
            "4xi64 -> 1xi64",
            "1 2 3 4 | 1 2 3 4 | 1 2 3 4 | 1 2 3 4",
            "4 | 12 | 8 | 16",
        ),
    ];
    cases.iter().copied().for_each(check);
}

#[test]
fn collective_broadcast_sends_from_the_first_of_a_group() {
    let cases: &[Case] = &[
        // The example of the specification: who is in no group gets zeros.
        (
            [4, 1],
            "collective_broadcast(%x) {replica_groups = dense<[[2, 1]]> : tensor<1x2xi64>}",
            "1x2xi64 -> 1x2xi64",
            "1 2 | 3 4 | 5 6 | 7 8",
            "0 0 | 5 6 | 5 6 | 0 0",
        ),
        (
            [2, 2],
            "collective_broadcast(%x) {replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>}",
            "1x2xi64 -> 1x2xi64",
            "1 2 | 3 4 | 5 6 | 7 8",
            "5 6 | 7 8 | 5 6 | 7 8",
        ),
        (
            [2, 2],
            "collective_broadcast(%x) {replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>, CHANNEL}",
            "1x2xi64 -> 1x2xi64",
            "1 2 | 3 4 | 5 6 | 7 8",
            "3 4 | 3 4 | 7 8 | 7 8",
        ),
    ];
    cases.iter().copied().for_each(check);
}

#[test]
fn collective_permute_sends_along_pairs() {
    let cases: &[Case] = &[
        // The example of the specification: who is no target gets zeros.
        (
            [3, 1],
            "collective_permute(%x) {source_target_pairs = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>}",
            "2x2xi64 -> 2x2xi64",
            "1 2 3 4 | 5 6 7 8 | 9 10 11 12",
            "0 0 0 0 | 1 2 3 4 | 5 6 7 8",
        ),
        (
            [5, 1],
            "collective_permute(%x) {source_target_pairs = dense<[[1, 0], [0, 1], [3, 3]]> : tensor<3x2xi64>}",
            "1xi64 -> 1xi64",
            "1 | 2 | 3 | 4 | 5",
            "2 | 1 | 0 | 4 | 0",
        ),
        (
            [2, 2],
            "collective_permute(%x) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}",
            "1xi64 -> 1xi64",
            "1 | 2 | 3 | 4",
            "0 | 0 | 1 | 2",
        ),
        (
            [2, 2],
            "collective_permute(%x) {source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>, CHANNEL}",
            "1xi64 -> 1xi64",
            "1 | 2 | 3 | 4",
            "2 | 1 | 4 | 3",
        ),
    ];
    cases.iter().copied().for_each(check);
}

#[test]
fn parts_of_a_scattered_sum_are_those_of_the_whole_to_the_bit() {
    let groups = "replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>,
                  GLOBAL";
    let function = format!(
        "func.func @main(%x: tensor<16x8xf32>) -> (tensor<16x8xf32>, tensor<16x8xf32>) {{
           %r = \"stablehlo.all_reduce\"(%x) ADD(f32) {{{groups}}} : (tensor<16x8xf32>) -> tensor<16x8xf32>
           %s = \"stablehlo.reduce_scatter\"(%x) ADD(f32) {{scatter_dimension = 1 : i64, {groups}}}
             : (tensor<16x8xf32>) -> tensor<16x1xf32>
           %g = \"stablehlo.all_gather\"(%s) {{all_gather_dim = 1 : i64, {groups}}}
             : (tensor<16x1xf32>) -> tensor<16x8xf32>
           return %r, %g : tensor<16x8xf32>, tensor<16x8xf32>
         }}"
    );
    let program = program([1, 8], &function);
    let ty = program.ty(program.body().arguments[0]);
    let arguments: Vec<Vec<Tensor>> = (0..8).map(|seed| vec![generate(ty, seed)]).collect();
    let evaluations = evaluate_devices(&program, &arguments, Options { wide: false }).expect("an evaluation");
    let sum = &evaluations[0].results[0];
    assert!(evaluations.iter().all(|evaluation| evaluation.results.iter().all(|result| result == sum)));
}

#[test]
fn collectives_of_one_process_need_no_other() {
    let cases = [
        ("all_reduce(%x) ADD(i64) {replica_groups = dense<0> : tensor<1x1xi64>}", "5"),
        ("all_gather(%x) {all_gather_dim = 0 : i64, replica_groups = dense<0> : tensor<1x1xi64>}", "5"),
        ("collective_permute(%x) {source_target_pairs = dense<0> : tensor<1x2xi64>}", "5"),
        ("collective_permute(%x) {source_target_pairs = dense<> : tensor<0x2xi64>}", "0"),
    ];
    for (op, expected) in cases {
        check(([1, 1], op, "1xi64 -> 1xi64", "5", expected));
    }
}
