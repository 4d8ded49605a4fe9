//! Tactics: what presets cost where that is known, how they lay programs out, and what is said of it.

use std::sync::Arc;

use meshwright::import::import;
use meshwright::lower::{CollectiveKind, Measures, estimate};
use meshwright::models::Model;
use meshwright::program::Program;
use meshwright::shard::Mesh;
use meshwright::tactics::{self, Partitioned, batch_dims, parse};

/// All-gathers, all-reduces and reduce-scatters.
type Counts = [usize; 3];

fn build(name: &str, settings: &[(&str, &str)]) -> Program {
    let mut model = Model::preset(name).expect("a preset");
    for (key, value) in settings {
        model.set(key, value).expect("a setting");
    }
    model.build().expect("the model is built")
}

fn partition(program: &Program, mesh: &str, tactics: &str) -> Partitioned {
    let tactics = parse(tactics).expect("tactics");
    let mesh = Mesh::parse(mesh).expect("a mesh");
    tactics::partition(program, &mesh, &tactics, &estimate).expect("the tactics apply")
}

/// Tactics that are presets, each of an axis.
fn presets(list: &[(&str, &str)]) -> String {
    let tactic = |(axis, preset): &(&str, &str)| {
        format!("[[tactic]]\nname = \"{preset}\"\naxis = \"{axis}\"\npreset = \"{preset}\"\n")
    };
    list.iter().map(tactic).collect()
}

/// What a step costs, without the reduction of the loss.
fn counts(measures: &Measures) -> Counts {
    assert_eq!(measures.count(CollectiveKind::AllToAll), 0);
    assert_eq!(measures.count(CollectiveKind::CollectivePermute), 0);
    let reduces = measures.count(CollectiveKind::AllReduce) - measures.scalar_collectives;
    [measures.count(CollectiveKind::AllGather), reduces, measures.count(CollectiveKind::ReduceScatter)]
}

#[track_caller]
fn check_counts(program: &Program, schedule: &[((&str, &str), Counts)]) {
    let tactics: Vec<(&str, &str)> = schedule.iter().map(|(tactic, _)| *tactic).collect();
    let partitioned = partition(program, "data=2,model=4", &presets(&tactics));
    let found: Vec<Counts> = partitioned.feedback.iter().map(|feedback| counts(&feedback.measures)).collect();
    let expected: Vec<Counts> = schedule.iter().map(|(_, counts)| *counts).collect();
    assert_eq!(found, expected);
}

const DATA: (&str, &str) = ("data", "data");
const MEGATRON: (&str, &str) = ("model", "megatron");
const ZERO2: (&str, &str) = ("data", "zero2");
const ZERO3: (&str, &str) = ("data", "zero3");

/// Nine parameters a layer, seven of them matrices, and an embedding, a head and a vector outside: every
/// gradient is reduced, each layer takes four reductions more, and the gradients of matrices are scattered.
/// With ZeRO-3 all matrices but the embedding are gathered twice.
#[test]
fn a_llama_costs_what_its_structure_says() {
    let program = build("llama2-7b", &[("layers", "4")]);
    check_counts(&program, &[(DATA, [0, 39, 0]), (MEGATRON, [0, 55, 0]), (ZERO2, [30, 25, 30])]);
    check_counts(&program, &[(DATA, [0, 39, 0]), (MEGATRON, [0, 55, 0]), (ZERO3, [59, 25, 30])]);
    check_counts(&program, &[(MEGATRON, [0, 16, 0])]);
}

/// Nine parameters a layer, four of them matrices, and an embedding and a vector outside.
#[test]
fn the_transformers_of_partir_cost_what_their_structure_says() {
    let t32 = build("t32", &[]);
    check_counts(&t32, &[(DATA, [0, 290, 0]), (MEGATRON, [0, 418, 0]), (ZERO2, [129, 289, 129])]);
    check_counts(&t32, &[(MEGATRON, [0, 128, 0])]);
    let t48 = build("t48", &[]);
    check_counts(&t48, &[(DATA, [0, 434, 0]), (MEGATRON, [0, 626, 0]), (ZERO2, [193, 433, 193])]);
    check_counts(&t48, &[(MEGATRON, [0, 192, 0])]);
}

/// PartIR gathers once more: here the lookup and the head, which read the same embedding in the forward
/// pass, share what was gathered.
#[test]
fn zero3_gathers_every_matrix_once_a_pass() {
    check_counts(&build("t32", &[]), &[(DATA, [0, 290, 0]), (MEGATRON, [0, 418, 0]), (ZERO3, [258, 289, 129])]);
}

/// Two reductions a layer and step, in a loop of 1,536 steps.
#[test]
fn a_decoding_loop_reduces_in_every_step() {
    check_counts(&build("it32", &[]), &[(MEGATRON, [0, 2 * 32 * 1536, 0])]);
}

/// Of 334 parameters 122 have two dimensions or more. 13 of these are read in the forward pass alone:
/// the biases of 11 joint projections, and the weights of the two layers that nothing trained comes
/// before.
#[test]
fn a_unet_costs_what_its_structure_says() {
    let program = build("unet", &[]);
    let parameters = program.arguments.iter().filter(|argument| argument.name.starts_with("params.")).count();
    assert_eq!(parameters, 334);
    check_counts(&program, &[(DATA, [0, 334, 0]), (ZERO2, [122, 334 - 122, 122])]);
    check_counts(&program, &[(DATA, [0, 334, 0]), (ZERO3, [2 * 122 - 13, 334 - 122, 122])]);
}

/// Edges are cut, nodes are on every device. The 14 parameters of each of 25 functions of edges have
/// their gradients reduced; each of 24 rounds adds up messages, and the gradients of what messages
/// were made of.
#[test]
fn a_graph_network_cut_by_edges_reduces_what_nodes_receive() {
    let program = build("gns", &[]);
    let partitioned = partition(&program, "data=4", &presets(&[DATA]));
    assert_eq!(counts(&partitioned.feedback[0].measures), [0, 25 * 14 + 24 * 2, 0]);
    check_stored(&program, &partitioned, "batch.edges", "[{data}, {}]");
    check_stored(&program, &partitioned, "batch.nodes", "[{}, {}]");
}

/// How an argument is stored.
#[track_caller]
fn check_stored(program: &Program, partitioned: &Partitioned, name: &str, expected: &str) {
    let index = program.arguments.iter().position(|argument| argument.name == name).expect("an argument");
    let local = &partitioned.local;
    assert_eq!(local.arguments[index].describe(&local.mesh), expected, "{name}");
}

#[test]
fn presets_find_tensors_by_what_they_are_for() {
    let small = [("layers", "2"), ("hidden", "16"), ("heads", "4"), ("kv_heads", "4"), ("ffn", "32"), ("seq", "8")];
    let small = [&small[..], &[("vocab", "64"), ("batch", "8")]].concat();
    let program = build("llama2-7b", &small);
    let check_all = |list: &[(&str, &str)], expected: &[(&str, &str)]| {
        let partitioned = partition(&program, "data=2,model=4", &presets(list));
        for (name, sharding) in expected {
            check_stored(&program, &partitioned, name, sharding);
        }
    };
    let check = |preset, expected: &[(&str, &str)]| check_all(&[preset], expected);
    check(DATA, &[("batch.tokens", "[{data}, {}]"), ("params.embedding", "[{}, {}]")]);
    check(("model", "sequence"), &[("batch.tokens", "[{}, {model}]"), ("batch.targets", "[{}, {model}]")]);
    check(
        MEGATRON,
        &[
            ("params.layers.1.attn.query.weight", "[{}, {model}]"),
            ("params.layers.1.attn.out.weight", "[{model}, {}]"),
            ("params.layers.1.mlp.gate.weight", "[{}, {model}]"),
            ("params.layers.1.mlp.down.weight", "[{model}, {}]"),
            ("opt.m.layers.1.mlp.down.weight", "[{model}, {}]"),
            ("params.embedding", "[{}, {}]"),
        ],
    );
    check(("model", "vocab"), &[("params.embedding", "[{model}, {}]"), ("params.head.weight", "[{}, {model}]")]);
    let state = ("opt.m.layers.0.mlp.up.weight", "[{data}, {}]");
    check_all(&[DATA, ("data", "zero1")], &[("params.layers.0.mlp.up.weight", "[{}, {}]"), state]);
    check_all(&[DATA, ZERO2], &[("params.layers.0.mlp.up.weight", "[{}, {}]"), state]);
    check_all(
        &[DATA, ZERO3],
        &[("params.layers.0.mlp.up.weight", "[{data}, {}]"), state, ("params.norm.scale", "[{}]")],
    );
}

#[test]
fn experts_before_data_work_where_they_are_and_after_it_are_gathered() {
    let small = [("layers", "2"), ("hidden", "16"), ("heads", "4"), ("ffn", "32"), ("seq", "16"), ("vocab", "64")];
    let small = [&small[..], &[("batch", "8"), ("experts", "8"), ("expert_group", "32")]].concat();
    let program = build("moe-380m", &small);
    let expert = ("data", "expert");
    let gathers_weights = |order: &[(&str, &str)]| {
        let partitioned = partition(&program, "data=4", &presets(order));
        check_stored(&program, &partitioned, "params.layers.1.moe.up.weight", "[{data}, {}, {}]");
        partitioned.explanations.iter().any(|explanation| explanation.reason.starts_with("stored cut by `data`"))
    };
    assert!(!gathers_weights(&[expert, DATA]));
    assert!(gathers_weights(&[DATA, expert]));
}

/// Tokens go to their experts and back, and so do their gradients; one exchange more brings the
/// gradient of the weights of the combination.
#[test]
fn tokens_are_exchanged_with_experts_and_never_gathered() {
    for (name, layers) in [("moe-380m", 4), ("mixtral-8x7b", 32)] {
        let partitioned = partition(&build(name, &[]), "data=8", &presets(&[("data", "expert"), DATA]));
        let measures = &partitioned.feedback[1].measures;
        let found = [CollectiveKind::AllToAll, CollectiveKind::AllGather].map(|kind| measures.count(kind));
        assert_eq!(found, [5 * layers, 0], "{name}");
    }
}

#[test]
fn reshards_are_explained_and_their_bytes_add_up() {
    let program = build("llama2-7b", &[("layers", "1")]);
    let partitioned = partition(&program, "data=2,model=4", &presets(&[DATA, MEGATRON, ZERO3]));
    let moved = partitioned.feedback[2].measures.bytes_moved;
    let explained: f64 = partitioned.explanations.iter().map(|explanation| explanation.bytes).sum();
    assert!((moved - explained).abs() < 1e-9 * moved, "{moved} is not {explained}");
    let reasons: Vec<&str> = partitioned.explanations.iter().map(|explanation| explanation.reason.as_str()).collect();
    for expected in [
        "stored cut by `data` (zero3), used whole in dot_general",
        "dot_general sums over `data`, which cuts the batch (data)",
        "dot_general sums over `model`, which cuts `params.layers.0.mlp.down.weight` (megatron)",
        "add joins parts of a sum over `model`, which cuts `params.layers.0.mlp.up.weight` (megatron)",
    ] {
        assert!(reasons.contains(&expected), "{expected} is none of {reasons:#?}");
    }
}

#[test]
fn reshards_in_loops_count_once_a_trip() {
    let text = "
        func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<8x8xf32>
            cond {
              %five = stablehlo.constant dense<5> : tensor<i32>
              %1 = stablehlo.compare LT, %i, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
              stablehlo.return %1 : tensor<i1>
            } do {
              %one = stablehlo.constant dense<1> : tensor<i32>
              %1 = stablehlo.add %i, %one : tensor<i32>
              %2 = stablehlo.dot_general %y, %y, contracting_dims = [1] x [0]
                : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
              stablehlo.return %1, %2 : tensor<i32>, tensor<8x8xf32>
            }
          return %0#1 : tensor<8x8xf32>
        }";
    let program = meshwright::import::import(&text.into()).program.expect("a program");
    let tactics = "[[tactic]]\naxis = \"data\"\ntile = { \"**\" = 0 }\n";
    let named = {
        let mut program = program;
        program.arguments[0].name = "x".to_owned();
        program
    };
    let partitioned = partition(&named, "data=2", tactics);
    let explained: Vec<f64> = partitioned.explanations.iter().map(|explanation| explanation.bytes).collect();
    assert_eq!(explained, [5.0 * 128.0]);
    assert_eq!(partitioned.feedback[0].measures.bytes_moved, 5.0 * 128.0);
}

#[test]
fn reshards_in_loops_over_time_count_once_a_step() {
    let small = [("layers", "2"), ("hidden", "16"), ("heads", "4"), ("kv_heads", "4"), ("ffn", "32"), ("seq", "8")];
    let program = build("llama2-7b", &[&small[..], &[("vocab", "64"), ("batch", "8")]].concat());
    let schedule = presets(&[DATA, ("micro", "data"), ZERO3]);
    let partitioned = partition(&program, "data=2,micro=2@time", &schedule);
    let explained: f64 = partitioned.explanations.iter().map(|explanation| explanation.bytes).sum();
    assert_eq!(explained, partitioned.feedback[2].measures.bytes_moved);
}

#[test]
fn mistakes_in_files_are_told_with_their_place() {
    #[track_caller]
    fn check(text: &str, place: &str, message: &str) {
        let error = parse(text).unwrap_err();
        assert_eq!((&text[error.span.clone()], error.message.as_str()), (place, message));
    }
    check("[[tactic]]\npreset = \"zero4\"", "\"zero4\"", "there is no preset `zero4`");
    check("[[tactic]]\ntile = { a = -1 }", "{ a = -1 }", "`-1` is no dimension of `a`");
    check("[[tactic]]\nsplit = { a = 0 }", "{ a = 0 }", "`0` is no number of slices of `a`");
    check("[[tactic]]\nname = \"A\"", "[[tactic]]", "the tactic does nothing");
    check("[[tactic]]\nauto = true\naxis = \"data\"", "true", "`auto` is not about one `axis`");
    check("[[tactic]]\nauto = true\nonly = [\"magic\"]", "[\"magic\"]", "`magic` is nothing that `auto` may do");
    check("[[tactic]]\nauto = true\nmemory = \"much\"", "\"much\"", "cannot read `much`");
    check("[[tactic]]\naxes = [\"data\"]", "[\"data\"]", "`axes` belongs to `auto`");
}

/// The page on tactics has every key and every preset.
#[test]
fn the_reference_is_complete() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/tactics.md");
    let page = std::fs::read_to_string(path).expect("the page");
    // The reader of files knows its keys and lists them for whoever gets one wrong.
    let keys = parse("[[tactic]]\nnothing = 1").unwrap_err().message;
    let keys: Vec<&str> = keys.split('`').skip(3).step_by(2).collect();
    assert!(keys.len() > 10, "{keys:?}");
    let presets = tactics::Preset::ALL.iter().map(|(name, _)| *name);
    for name in keys.into_iter().chain(presets) {
        assert!(page.contains(&format!("\n| `{name}` |")), "`{name}` has no row in docs/reference/tactics.md");
    }
}

/// A step that mixes what lies along the first dimension of a sequence, and has a target for every sample.
const SEQUENCE_FIRST: &str = r#"
func.func @main(%w: tensor<4x4xf32> loc("params.w"), %x: tensor<6x8x4xf32> loc("batch.x"), %y: tensor<8x4xf32> loc("batch.y")) -> (tensor<4x4xf32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<6x8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  %m = stablehlo.broadcast_in_dim %s, dims = [1, 2] : (tensor<8x4xf32>) -> tensor<6x8x4xf32>
  %c = stablehlo.multiply %x, %m : tensor<6x8x4xf32>
  %p = stablehlo.dot_general %c, %w, contracting_dims = [2] x [0] : (tensor<6x8x4xf32>, tensor<4x4xf32>) -> tensor<6x8x4xf32>
  %t = stablehlo.broadcast_in_dim %y, dims = [1, 2] : (tensor<8x4xf32>) -> tensor<6x8x4xf32>
  %e = stablehlo.subtract %p, %t : tensor<6x8x4xf32>
  %q = stablehlo.multiply %e, %e : tensor<6x8x4xf32>
  %loss = stablehlo.reduce(%q init: %zero) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<6x8x4xf32>, tensor<f32>) -> tensor<f32>
  %g = stablehlo.dot_general %c, %e, contracting_dims = [0, 1] x [0, 1] : (tensor<6x8x4xf32>, tensor<6x8x4xf32>) -> tensor<4x4xf32>
  %u = stablehlo.subtract %w, %g : tensor<4x4xf32>
  return %u, %loss : tensor<4x4xf32>, tensor<f32>
}
"#;

#[test]
fn samples_lie_along_the_dimension_that_they_share_nothing_along() {
    let dims = |text: &str| batch_dims(&import(&Arc::from(text)).program.expect("a program"));
    assert_eq!(dims(SEQUENCE_FIRST), [0, 1, 0]);
    let mixed = |from: &str, to: &str| SEQUENCE_FIRST.replace(from, to);
    // The sum is over the second dimension, and the first is that of samples.
    let first = mixed(
        "%x init: %zero) applies stablehlo.add across dimensions = [0]",
        "%x init: %zero) applies stablehlo.add across dimensions = [1]",
    )
    .replace("tensor<6x8x4xf32>", "tensor<8x6x4xf32>")
    .replace("dims = [1, 2]", "dims = [0, 2]");
    assert_eq!(dims(&first), [0, 0, 0]);
    // Where everything depends on everything, no dimension is better than the first.
    let all = mixed(
        "%m = stablehlo.broadcast_in_dim %s, dims = [1, 2] : (tensor<8x4xf32>)",
        "%a = stablehlo.dot_general %y, %s, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>\n  %b = stablehlo.dot_general %s, %a, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>\n  %m = stablehlo.broadcast_in_dim %b, dims = [1, 2] : (tensor<8x4xf32>)",
    );
    assert_eq!(dims(&all), [0, 0, 0]);
}
