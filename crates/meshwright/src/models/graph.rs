//! A graph network simulator: rounds of messages along the edges of one graph.

use super::layers::{layer_norm, linear, relu};
use super::loss::distance;
use super::settings::Settings;
use super::step::Step;
use crate::program::{DType, Dims, Program, Scatter, Type, ValueId};

/// Features of particles in three dimensions: five past velocities, distances to six walls, and an
/// embedding of the kind; for an edge, displacement and distance.
const NODE_FEATURES: usize = 37;
const EDGE_FEATURES: usize = 4;
/// An acceleration.
const OUTPUTS: usize = 3;

pub(super) fn build(settings: &Settings) -> Result<Program, String> {
    let mut step = Step::new("graph", settings);
    let node_features = step.input("nodes", Type::new(settings.dtype, &[settings.nodes, NODE_FEATURES]));
    let edge_features = step.input("edges", Type::new(settings.dtype, &[settings.edges, EDGE_FEATURES]));
    let ends = Type::new(DType::I32, &[settings.edges]);
    let senders = step.input("senders", ends.clone());
    let receivers = step.input("receivers", ends);
    let targets = step.input("targets", Type::new(settings.dtype, &[settings.nodes, OUTPUTS]));
    let (mut nodes, mut edges) = step.layer("encoder", |step| {
        let nodes = normal_mlp(step, "encoder.nodes", node_features);
        (nodes, normal_mlp(step, "encoder.edges", edge_features))
    });
    for round in 0..settings.steps {
        let name = format!("rounds.{round}");
        (nodes, edges) = step.layer(&name, |step| pass_messages(step, &name, nodes, edges, [senders, receivers]));
    }
    let loss = step.scoped("decoder", |step| {
        let found = mlp(step, "decoder", nodes, OUTPUTS);
        distance(step, found, targets)
    });
    step.finish(loss)
}

/// One round: each edge looks at both its ends, each node at the sum of the edges that it receives.
fn pass_messages(
    step: &mut Step<'_>,
    name: &str,
    nodes: ValueId,
    edges: ValueId,
    [senders, receivers]: [ValueId; 2],
) -> (ValueId, ValueId) {
    let messages = step.scoped("edges", |step| {
        let sent = step.builder.take_rows(nodes, senders);
        let received = step.builder.take_rows(nodes, receivers);
        let joint = step.builder.concatenate(&[edges, sent, received], 1);
        normal_mlp(step, &format!("{name}.edges"), joint)
    });
    let change = step.scoped("nodes", |step| {
        let received = sum_by_receiver(step, messages, receivers);
        let joint = step.builder.concatenate(&[nodes, received], 1);
        normal_mlp(step, &format!("{name}.nodes"), joint)
    });
    (step.builder.plus(nodes, change), step.builder.plus(edges, messages))
}

fn sum_by_receiver(step: &mut Step<'_>, messages: ValueId, receivers: ValueId) -> ValueId {
    let settings = step.settings;
    let dtype = step.builder.dtype(messages);
    let zeros = step.builder.full(&Type::new(dtype, &[settings.nodes, settings.hidden]), 0.0);
    let indices = step.builder.reshape(receivers, &[settings.edges, 1]);
    let scatter = Scatter {
        update_window_dims: Dims::from_slice(&[1]),
        inserted_window_dims: Dims::from_slice(&[0]),
        input_batching_dims: Dims::new(),
        scatter_indices_batching_dims: Dims::new(),
        scatter_dims_to_operand_dims: Dims::from_slice(&[0]),
        index_vector_dim: 1,
        indices_are_sorted: false,
        unique_indices: false,
    };
    step.builder.scatter_add(zeros, indices, messages, scatter)
}

/// Dense layers to the width of the model, with a norm behind them.
fn normal_mlp(step: &mut Step<'_>, name: &str, x: ValueId) -> ValueId {
    let y = mlp(step, name, x, step.settings.hidden);
    layer_norm(step, &format!("{name}.norm"), y, true)
}

/// As many hidden layers as `layers` says, of width `ffn`, then one to `outputs`.
fn mlp(step: &mut Step<'_>, name: &str, x: ValueId, outputs: usize) -> ValueId {
    let mut x = x;
    for layer in 0..step.settings.layers {
        let y = linear(step, &format!("{name}.{layer}"), x, step.settings.ffn, true);
        x = relu(step, y);
    }
    linear(step, &format!("{name}.{}", step.settings.layers), x, outputs, true)
}
