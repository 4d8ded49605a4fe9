//! Arguments made up for programs: inside of what they index, and different from one another.

use std::sync::Arc;

use meshwright::import::import;
use meshwright::interpret::{Data, Options, Tensor, evaluate, generate_arguments};
use meshwright::models::{Model, PRESETS};
use meshwright::program::Program;

fn integers(tensor: &Tensor) -> &[i64] {
    match &tensor.data {
        Data::Integer(values) => values,
        _ => panic!("`{}` is not of integers", tensor.ty),
    }
}

/// Makes arguments of a function `main` and compares the limits of its integers with those expected:
/// all are below, and one comes near.
#[track_caller]
fn check(text: &str, expected: &[(usize, i64)]) {
    let program = import(&Arc::from(text)).program.expect("the text is sound");
    for &(argument, limit) in expected {
        let mut largest = 0;
        for seed in 0..50 {
            let arguments = generate_arguments(&program, seed);
            for &value in integers(&arguments[argument]) {
                assert!((0..limit).contains(&value), "{value} is not below {limit}");
                largest = largest.max(value);
            }
        }
        assert!(2 * (largest + 1) >= limit, "{largest} is far below {limit}");
    }
}

#[test]
fn starts_of_slices_leave_room_for_the_slice() {
    let text = "func.func @main(%x: tensor<20x9xf32>, %i: tensor<i32>, %j: tensor<i64>) -> tensor<3x9xf32> {
        %c = stablehlo.convert %j : (tensor<i64>) -> tensor<i32>
        %r = stablehlo.dynamic_slice %x, %i, %c, sizes = [3, 9] : (tensor<20x9xf32>, tensor<i32>, tensor<i32>) -> tensor<3x9xf32>
        %s = stablehlo.dynamic_update_slice %x, %r, %c, %i : (tensor<20x9xf32>, tensor<3x9xf32>, tensor<i32>, tensor<i32>) -> tensor<20x9xf32>
        %t = stablehlo.slice %s [0:3, 0:9] : (tensor<20x9xf32>) -> tensor<3x9xf32>
        return %t : tensor<3x9xf32>
    }";
    check(text, &[(1, 1), (2, 1)]);
    let text = "func.func @main(%x: tensor<20x9xf32>, %i: tensor<i32>, %j: tensor<i8>) -> tensor<3x2xf32> {
        %c = stablehlo.convert %j : (tensor<i8>) -> tensor<i32>
        %r = stablehlo.dynamic_slice %x, %i, %c, sizes = [3, 2] : (tensor<20x9xf32>, tensor<i32>, tensor<i32>) -> tensor<3x2xf32>
        return %r : tensor<3x2xf32>
    }";
    check(text, &[(1, 18), (2, 8)]);
}

#[test]
fn columns_of_index_vectors_have_limits_of_their_own() {
    let text = "func.func @main(%x: tensor<1x50xf32>, %i: tensor<6xi32>, %j: tensor<6xi32>) -> tensor<6xf32> {
        %z = stablehlo.constant dense<0> : tensor<i32>
        %n = stablehlo.constant dense<50> : tensor<i32>
        %c = stablehlo.clamp %z, %j, %n : (tensor<i32>, tensor<6xi32>, tensor<i32>) -> tensor<6xi32>
        %a = stablehlo.reshape %i : (tensor<6xi32>) -> tensor<6x1xi32>
        %b = stablehlo.broadcast_in_dim %c, dims = [0] : (tensor<6xi32>) -> tensor<6x1xi32>
        %v = stablehlo.concatenate %a, %b, dim = 1 : (tensor<6x1xi32>, tensor<6x1xi32>) -> tensor<6x2xi32>
        %r = \"stablehlo.gather\"(%x, %v) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}> : (tensor<1x50xf32>, tensor<6x2xi32>) -> tensor<6xf32>
        return %r : tensor<6xf32>
    }";
    check(text, &[(1, 1), (2, 50)]);
}

#[test]
fn what_is_compared_with_positions_is_one() {
    let text = "func.func @main(%i: tensor<8xi32>) -> tensor<8x30xi1> {
        %n = stablehlo.iota dim = 0 : tensor<30xi32>
        %a = stablehlo.broadcast_in_dim %n, dims = [1] : (tensor<30xi32>) -> tensor<8x30xi32>
        %b = stablehlo.broadcast_in_dim %i, dims = [0] : (tensor<8xi32>) -> tensor<8x30xi32>
        %r = stablehlo.compare EQ, %b, %a, SIGNED : (tensor<8x30xi32>, tensor<8x30xi32>) -> tensor<8x30xi1>
        return %r : tensor<8x30xi1>
    }";
    check(text, &[(0, 30)]);
}

#[test]
fn positions_are_found_through_loops() {
    let text = "func.func @main(%x: tensor<40xf32>, %i: tensor<i32>) -> tensor<1xf32> {
        %z = stablehlo.constant dense<0> : tensor<i32>
        %o = stablehlo.constant dense<0.0> : tensor<1xf32>
        %r:3 = stablehlo.while(%k = %z, %j = %i, %s = %o) : tensor<i32>, tensor<i32>, tensor<1xf32> cond {
            %n = stablehlo.constant dense<3> : tensor<i32>
            %c = stablehlo.compare LT, %k, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
        } do {
            %one = stablehlo.constant dense<1> : tensor<i32>
            %next = stablehlo.add %k, %one : tensor<i32>
            %e = stablehlo.dynamic_slice %x, %j, sizes = [1] : (tensor<40xf32>, tensor<i32>) -> tensor<1xf32>
            %t = stablehlo.add %s, %e : tensor<1xf32>
            stablehlo.return %next, %j, %t : tensor<i32>, tensor<i32>, tensor<1xf32>
        }
        return %r#2 : tensor<1xf32>
    }";
    check(text, &[(1, 40)]);
}

#[test]
fn arguments_differ_by_place_and_by_seed() {
    let text = "func.func @main(%x: tensor<9xf32>, %y: tensor<9xf32>) -> tensor<9xf32> {
        %r = stablehlo.add %x, %y : tensor<9xf32>
        return %r : tensor<9xf32>
    }";
    let program = import(&Arc::from(text)).program.expect("the text is sound");
    let all: Vec<Tensor> = (0..3).flat_map(|seed| generate_arguments(&program, seed)).collect();
    assert!(all.iter().enumerate().all(|(index, tensor)| !all[..index].contains(tensor)));
    assert_eq!(all[..2], generate_arguments(&program, 0));
}

fn small(name: &str) -> Program {
    let mut model = Model::preset(name).expect("the preset is there");
    let sizes =
        [("layers", "1"), ("decoder_layers", "1"), ("hidden", "8"), ("heads", "2"), ("kv_heads", "2"), ("batch", "2")];
    let more = [("ffn", "8"), ("head_width", "4"), ("seq", "4"), ("target_seq", "4"), ("vocab", "300"), ("steps", "2")];
    let images = [
        ("image", "8"),
        ("patch", "4"),
        ("classes", "70"),
        ("channels", "32"),
        ("experts", "2"),
        ("expert_group", "4"),
    ];
    let graph = [("nodes", "90"), ("edges", "20"), ("dtype", "f32")];
    for (key, value) in sizes.into_iter().chain(more).chain(images).chain(graph) {
        if model.family.keys().contains(&key) {
            model.set(key, value).expect("a value of the key");
        }
    }
    model.build().expect("the settings go together")
}

/// Tokens, labels and ends of edges are spread over all there are, and every step can be evaluated.
#[test]
fn batches_of_models_are_spread_over_what_they_index() {
    let limits =
        [("tokens", 300), ("targets", 300), ("labels", 70), ("senders", 90), ("receivers", 90), ("segments", 2)];
    let mut seen = Vec::new();
    for row in PRESETS {
        if seen.contains(&row.family) {
            continue;
        }
        seen.push(row.family);
        let program = small(row.name);
        let arguments = generate_arguments(&program, 1);
        for (argument, tensor) in program.arguments.iter().zip(&arguments) {
            let limit = limits.iter().find(|(name, _)| argument.name == format!("batch.{name}"));
            if let (Some(&(_, limit)), Data::Integer(values)) = (limit, &tensor.data) {
                assert!(values.iter().all(|value| (0..limit).contains(value)), "{} of {}", argument.name, row.name);
                let largest = values.iter().max().copied().unwrap_or(0);
                assert!(3 * (largest + 1) >= limit, "{} of {}: {largest} of {limit}", argument.name, row.name);
            }
        }
        evaluate(&program, &arguments, Options { wide: false }).expect("the step can be evaluated");
    }
}
