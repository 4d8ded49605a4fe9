//! Local programs as the text that XLA runs. `python/tests/test_partition.py` runs such texts.

use std::sync::Arc;

use meshwright::import::import;
use meshwright::lower::{estimate, lower_layout, stablehlo};
use meshwright::shard::{Layout, Mesh};

/// Cuts dimensions of arguments, given as (argument, dimension, axis, number of pieces), and prints.
fn emit(text: &str, mesh: &str, cuts: &[(usize, usize, &str, usize)]) -> String {
    let program = import(&Arc::from(text)).program.expect("the text is a program");
    let mesh = Mesh::parse(mesh).expect("the mesh is sound");
    let mut layout = Layout::new(&program, mesh.clone());
    for &(argument, dim, axis, count) in cuts {
        let value = program.body().arguments[argument];
        for &piece in &mesh.pieces(mesh.axis(axis).expect("the axis is there"))[..count] {
            layout.cut(value, dim, piece);
        }
        layout.propagate();
    }
    stablehlo(&lower_layout(layout, &estimate).expect("the layout can be lowered").1)
}

const PRODUCT: &str = r#"
    func.func public @main(%x: tensor<8x6xf32> loc("x"), %w: tensor<6x6xf32> loc("w"), %n: tensor<i32> {tf.aliasing_output = 1 : i32})
        -> (tensor<8x6xf32> {jax.result_info = "y"}, tensor<i32>) {
      %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x6xf32>, tensor<6x6xf32>) -> tensor<8x6xf32>
      %m = stablehlo.add %n, %n : tensor<i32>
      return %y, %m : tensor<8x6xf32>, tensor<i32>
    }"#;

#[test]
fn every_device_runs_its_part_inside_of_a_module_of_whole_values() {
    let expected = r#"module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["model"=2, "one"=1]>
  func.func public @main(%argument0: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>} loc("x"), %argument1: tensor<6x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>} loc("w"), %argument2: tensor<i32> {sdy.sharding = #sdy.sharding<@mesh, []>, tf.aliasing_output = 1 : i32}) -> (tensor<8x6xf32> {jax.result_info = "y", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<i32> {sdy.sharding = #sdy.sharding<@mesh, []>}) {
    %result0, %result1 = sdy.manual_computation(%argument0, %argument1, %argument2) in_shardings=[<@mesh, [{}, {"model"}]>, <@mesh, [{"model"}, {}]>, <@mesh, []>] out_shardings=[<@mesh, [{}, {}]>, <@mesh, []>] manual_axes={"model", "one"} (%0: tensor<8x3xf32>, %1: tensor<3x6xf32>, %2: tensor<i32>) {
      %3 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] : (tensor<8x3xf32>, tensor<3x6xf32>) -> tensor<8x6xf32> loc(unknown)
      %4 = "stablehlo.all_reduce"(%3) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
      ^bb0(%5: tensor<f32>, %6: tensor<f32>):
        %7 = stablehlo.add %5, %6 : tensor<f32> loc(unknown)
        stablehlo.return %7 : tensor<f32>
      }) : (tensor<8x6xf32>) -> tensor<8x6xf32> loc(unknown)
      %8 = stablehlo.add %2, %2 : tensor<i32> loc(unknown)
      sdy.return %4, %8 : tensor<8x6xf32>, tensor<i32>
    } : (tensor<8x6xf32>, tensor<6x6xf32>, tensor<i32>) -> (tensor<8x6xf32>, tensor<i32>)
    return %result0, %result1 : tensor<8x6xf32>, tensor<i32>
  }
}
"#;
    assert_eq!(emit(PRODUCT, "model=2,one=1", &[(1, 0, "model", 1)]), expected);
}

#[test]
fn parts_of_axes_are_written_as_sub_axes_and_axes_in_time_are_left_out() {
    let text = emit(PRODUCT, "data=8,micro=3@time", &[(0, 0, "data", 2)]);
    assert!(text.contains(r#"sdy.mesh @mesh = <["data"=8]>"#), "{text}");
    assert!(text.contains(r#"in_shardings=[<@mesh, [{"data":(1)4}, {}]>, <@mesh, [{}, {}]>, <@mesh, []>]"#), "{text}");
}

#[test]
fn a_single_device_needs_no_mesh() {
    let text = emit(PRODUCT, "one=1,micro=2@time", &[]);
    assert!(!text.contains("sdy."), "{text}");
}

#[test]
fn a_result_stored_otherwise_does_not_take_the_place_of_an_argument() {
    // By its name the result is the next value of `b`, so it is stored as that is, whatever `a` says.
    let text = r#"
        func.func public @main(%a: tensor<4x4xf32> {tf.aliasing_output = 0 : i32} loc("a"), %b: tensor<4x4xf32> loc("b"))
            -> (tensor<4x4xf32> {jax.result_info = "result.b"}) {
          %c = stablehlo.transpose %b, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
          return %c : tensor<4x4xf32>
        }"#;
    let text = emit(text, "data=2", &[(0, 0, "data", 1)]);
    assert!(text.contains("jax.buffer_donor = true"), "{text}");
    assert!(!text.contains("tf.aliasing_output"), "{text}");
}
