//! The programs of Alpa's tests, where no preset is one.

use meshwright::models::Model;
use meshwright::models::gradient::gradients;
use meshwright::program::{
    Attention, Binary, Builder, Convolution, DType, Dims, Direction, Op, Program, Type, Unary, ValueId, Window,
};
use smallvec::smallvec;

/// A preset with other settings, of `f32`.
pub(crate) fn preset(name: &str, settings: &[(&str, usize)]) -> Model {
    let mut model = Model::preset(name).expect("a preset");
    model.set("dtype", "f32").expect("a type");
    for (key, value) in settings {
        model.set(key, &value.to_string()).expect("a setting");
    }
    model
}

pub(crate) const MLP_LAYERS: usize = 6;

/// Dense layers with biases, and Adam.
pub(crate) fn mlp(batch: usize, hidden: usize) -> Program {
    preset("mlp", &[("layers", MLP_LAYERS), ("batch", batch), ("hidden", hidden)]).build().expect("a program")
}

#[derive(Clone, Copy)]
pub(crate) struct Transformer {
    pub(crate) batch: usize,
    pub(crate) seq: usize,
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
}

pub(crate) const BERT_LAYERS: usize = 2;

/// BERT's layers alone, from hidden states to hidden states.
pub(crate) fn bert_layers(sizes: Transformer) -> Program {
    let mut net = Net::new("bert");
    let (x, targets) = net.inputs(&[sizes.batch, sizes.seq, sizes.hidden]);
    let x = net.layers(x, sizes);
    let loss = net.squared_error(x, targets);
    net.finish(loss, Update::Adam)
}

/// The same between an embedding and a head that is tied to it.
pub(crate) fn masked_model(sizes: Transformer, vocab: usize) -> Program {
    let mut net = Net::new("masked");
    let (tokens, targets) = net.tokens(sizes.batch, sizes.seq);
    let table = net.parameter("embedding", &[vocab, sizes.hidden]);
    let x = net.builder.take_rows(table, tokens);
    let x = net.layers(x, sizes);
    let transformed = net.dense("head.transform", x, sizes.hidden);
    let bent = net.builder.unary(Unary::Tanh, transformed);
    let x = net.norm("head.norm", bent);
    let loss = net.cross_entropy(x, table, targets);
    net.finish(loss, Update::Adam)
}

/// Attention with its four projections, forward only.
pub(crate) fn attention_forward(sizes: Transformer) -> Program {
    let mut net = Net::new("attention");
    let x = net.input("x", &[sizes.batch, sizes.seq, sizes.hidden]);
    let out = net.attention("attn", x, sizes.heads);
    net.builder.result("out", out);
    net.builder.finish().expect("a program")
}

/// A table of tokens, looked up and multiplied with again, under a softmax.
pub(crate) fn tied_embedding(batch: usize, seq: usize, hidden: usize, vocab: usize) -> Program {
    let mut net = Net::new("embedding");
    let (tokens, targets) = net.tokens(batch, seq);
    let table = net.parameter("embedding", &[vocab, hidden]);
    let x = net.builder.take_rows(table, tokens);
    let loss = net.cross_entropy(x, table, targets);
    net.finish(loss, Update::Descent)
}

/// Convolutions of 3x3, each with a norm over the batch as flax has it, a rectifier and a pool of 2x2.
pub(crate) fn convolutions(batch: usize, image: usize, channels: usize, layers: usize) -> Program {
    let mut net = Net::new("convolutions");
    let mut x = net.input("images", &[batch, image, image, channels]);
    for layer in 0..layers {
        let name = format!("layers.{layer}");
        x = net.convolution(&name, x, channels, 3, 1);
        x = net.batch_norm(&name, x);
        x = net.rectified(x);
        x = net.pool(x);
    }
    let shape = net.builder.shape(x);
    let targets = net.input("targets", &shape);
    let loss = net.squared_error(x, targets);
    net.finish(loss, Update::Momentum)
}

/// A convolution of every channel alone, then one of single positions over all channels.
pub(crate) fn depthwise_convolution(batch: usize, image: usize, channels: usize) -> Program {
    let mut net = Net::new("depthwise");
    let x = net.input("images", &[batch, image, image, channels]);
    let x = net.convolution("depth", x, channels, 3, channels);
    let x = net.rectified(x);
    let x = net.convolution("point", x, channels, 1, 1);
    let shape = net.builder.shape(x);
    let targets = net.input("targets", &shape);
    let loss = net.squared_error(x, targets);
    net.finish(loss, Update::Momentum)
}

#[derive(Clone, Copy)]
pub(crate) struct Mixture {
    pub(crate) group: usize,
    pub(crate) experts: usize,
}

/// Attention and a mixture of experts with GShard's tensors, both added to their inputs and normalized. A token goes
/// to the expert with the largest gate; its place there is its number, which costs the same and is shorter to write.
pub(crate) fn mixture_layer(sizes: Transformer, mixture: Mixture) -> Program {
    let Transformer { batch, seq, hidden, heads } = sizes;
    let mut net = Net::new("mixture");
    let (x, targets) = net.inputs(&[batch, seq, hidden]);
    let x = net.attend("layer", x, heads);
    let groups = batch * seq / mixture.group;
    let tokens = net.builder.reshape(x, &[groups, mixture.group, hidden]);
    let (dispatch, combine) = net.route(tokens, mixture);
    let b = &mut net.builder;
    let sent = b.dot(dispatch, tokens, [&[0], &[0]], [&[1], &[1]], DType::F32);
    let sent = b.transpose(sent, &[1, 0, 2, 3]);
    let inner = net.expert_dense("up", sent, 4 * hidden);
    let inner = net.rectified(inner);
    let made = net.expert_dense("down", inner, hidden);
    let b = &mut net.builder;
    let back = b.transpose(made, &[1, 0, 2, 3]);
    let fed = b.dot(combine, back, [&[0], &[0]], [&[2, 3], &[1, 2]], DType::F32);
    let fed = b.reshape(fed, &[batch, seq, hidden]);
    let sum = b.plus(x, fed);
    let out = net.norm("norm", sum);
    let loss = net.squared_error(out, targets);
    net.finish(loss, Update::Adam)
}

/// How parameters are updated.
#[derive(Clone, Copy)]
enum Update {
    Adam,
    Descent,
    Momentum,
}

/// A step under construction, of `f32`.
struct Net {
    builder: Builder,
    parameters: Vec<(String, ValueId)>,
}

impl Net {
    fn new(name: &str) -> Net {
        Net { builder: Builder::new(name), parameters: Vec::new() }
    }

    fn parameter(&mut self, name: &str, shape: &[usize]) -> ValueId {
        let value = self.builder.argument(format!("params.{name}"), Type::new(DType::F32, shape));
        self.parameters.push((name.to_owned(), value));
        value
    }

    fn input(&mut self, name: &str, shape: &[usize]) -> ValueId {
        self.builder.argument(format!("batch.{name}"), Type::new(DType::F32, shape))
    }

    fn inputs(&mut self, shape: &[usize]) -> (ValueId, ValueId) {
        (self.input("x", shape), self.input("targets", shape))
    }

    fn tokens(&mut self, batch: usize, seq: usize) -> (ValueId, ValueId) {
        let ty = Type::new(DType::I32, &[batch, seq]);
        let [tokens, targets] = ["batch.tokens", "batch.targets"].map(|name| self.builder.argument(name, ty.clone()));
        (tokens, targets)
    }

    /// BERT's layers.
    fn layers(&mut self, mut x: ValueId, sizes: Transformer) -> ValueId {
        for layer in 0..BERT_LAYERS {
            let name = format!("layers.{layer}");
            let outer = self.builder.enter(&name);
            x = self.attend(&name, x, sizes.heads);
            let up = self.dense(&format!("{name}.up"), x, 4 * sizes.hidden);
            let bent = self.builder.unary(Unary::Tanh, up);
            let down = self.dense(&format!("{name}.down"), bent, sizes.hidden);
            let sum = self.builder.plus(x, down);
            x = self.norm(&format!("{name}.norm2"), sum);
            self.builder.leave(outer);
        }
        x
    }

    /// `x w + b`.
    fn dense(&mut self, name: &str, x: ValueId, outputs: usize) -> ValueId {
        let shape = self.builder.shape(x);
        let weight = self.parameter(&format!("{name}.weight"), &[shape[shape.len() - 1], outputs]);
        let product = self.builder.matmul(x, weight);
        let bias = self.parameter(&format!("{name}.bias"), &[outputs]);
        let shape = self.builder.shape(product);
        let bias = self.builder.broadcast_last(bias, &shape);
        self.builder.plus(product, bias)
    }

    /// The same with weights of each expert: (experts, groups, places, inputs) to outputs, without a bias.
    fn expert_dense(&mut self, name: &str, x: ValueId, outputs: usize) -> ValueId {
        let shape = self.builder.shape(x);
        let weight = self.parameter(&format!("experts.{name}"), &[shape[0], shape[3], outputs]);
        self.builder.dot(x, weight, [&[0], &[0]], [&[3], &[1]], DType::F32)
    }

    fn attention(&mut self, name: &str, x: ValueId, heads: usize) -> ValueId {
        let shape = self.builder.shape(x);
        let (batch, seq, hidden) = (shape[0], shape[1], shape[2]);
        let parts = ["query", "key", "value"].map(|part| {
            let part = self.dense(&format!("{name}.{part}"), x, hidden);
            let split = self.builder.reshape(part, &[batch, seq, heads, hidden / heads]);
            self.builder.transpose(split, &[0, 2, 1, 3])
        });
        let scale = 1.0 / ((hidden / heads) as f64).sqrt();
        let attention = Attention { scale, causal: false, bias: false, statistics: true };
        let mixed = self.builder.attention(&parts, attention)[0];
        let mixed = self.builder.transpose(mixed, &[0, 2, 1, 3]);
        let mixed = self.builder.reshape(mixed, &[batch, seq, hidden]);
        self.dense(&format!("{name}.out"), mixed, hidden)
    }

    /// Attention added to its input, normalized after.
    fn attend(&mut self, name: &str, x: ValueId, heads: usize) -> ValueId {
        let attended = self.attention(&format!("{name}.attn"), x, heads);
        let sum = self.builder.plus(x, attended);
        self.norm(&format!("{name}.norm1"), sum)
    }

    fn norm(&mut self, name: &str, x: ValueId) -> ValueId {
        let shape = self.builder.shape(x);
        let last = shape.len() - 1;
        let normal = self.normalized(x, &[last], &(0..last).collect::<Vec<usize>>());
        self.scaled(name, normal)
    }

    /// A norm over all but the channels.
    fn batch_norm(&mut self, name: &str, x: ValueId) -> ValueId {
        let normal = self.normalized(x, &[0, 1, 2], &[3]);
        self.scaled(&format!("{name}.norm"), normal)
    }

    /// Mean and variance over some dimensions taken out, the variance as flax has it: the mean of squares less the
    /// square of the mean, so that both sums can be had at once.
    fn normalized(&mut self, x: ValueId, over: &[usize], rest: &[usize]) -> ValueId {
        let b = &mut self.builder;
        let shape = b.shape(x);
        let mean = b.mean(x, over);
        let square = b.times(x, x);
        let square = b.mean(square, over);
        let squared = b.times(mean, mean);
        let variance = b.minus(square, squared);
        let variance = b.plus_number(variance, 1e-5);
        let factor = b.unary(Unary::Rsqrt, variance);
        let [mean, factor] = [mean, factor].map(|value| b.broadcast(value, &shape, rest));
        let centered = b.minus(x, mean);
        b.times(centered, factor)
    }

    fn scaled(&mut self, name: &str, x: ValueId) -> ValueId {
        let shape = self.builder.shape(x);
        let [scale, bias] = ["scale", "bias"].map(|part| {
            let parameter = self.parameter(&format!("{name}.{part}"), &[shape[shape.len() - 1]]);
            self.builder.broadcast_last(parameter, &shape)
        });
        let scaled = self.builder.times(x, scale);
        self.builder.plus(scaled, bias)
    }

    fn rectified(&mut self, x: ValueId) -> ValueId {
        let zero = self.builder.full_like(x, 0.0);
        self.builder.binary(Binary::Maximum, x, zero)
    }

    /// Convolves (batch, height, width, channels) by windows of odd size around every position.
    fn convolution(&mut self, name: &str, x: ValueId, outputs: usize, size: usize, groups: usize) -> ValueId {
        let inputs = self.builder.shape(x)[3] / groups;
        let weight = self.parameter(&format!("{name}.weight"), &[size, size, inputs, outputs]);
        let padding = (size / 2) as i64;
        let convolution = Convolution {
            strides: smallvec![1; 2],
            padding: smallvec![(padding, padding); 2],
            lhs_dilation: smallvec![1; 2],
            rhs_dilation: smallvec![1; 2],
            reversal: smallvec![false; 2],
            input_batch: 0,
            input_feature: 3,
            input_spatial: Dims::from_slice(&[1, 2]),
            kernel_input_feature: 2,
            kernel_output_feature: 3,
            kernel_spatial: Dims::from_slice(&[0, 1]),
            output_batch: 0,
            output_feature: 3,
            output_spatial: Dims::from_slice(&[1, 2]),
            feature_groups: groups,
            batch_groups: 1,
            precision: smallvec![],
            dtype: DType::F32,
        };
        self.builder.convolution(x, weight, convolution)
    }

    /// The largest of every 2x2.
    fn pool(&mut self, x: ValueId) -> ValueId {
        let window = Window {
            sizes: smallvec![1, 2, 2, 1],
            strides: smallvec![1, 2, 2, 1],
            base_dilation: smallvec![1; 4],
            window_dilation: smallvec![1; 4],
            padding: smallvec![(0, 0); 4],
        };
        let lowest = self.builder.scalar(DType::F32, f64::NEG_INFINITY);
        let region = self.builder.reducer(Binary::Maximum, DType::F32);
        self.builder.op(Op::ReduceWindow(Box::new(window)), &[x, lowest], &[region])[0]
    }

    /// (groups, tokens, experts, places): where tokens go, and with which weight they come back.
    fn route(&mut self, tokens: ValueId, mixture: Mixture) -> (ValueId, ValueId) {
        let shape = self.builder.shape(tokens);
        let weight = self.parameter("gate.weight", &[shape[2], mixture.experts]);
        let b = &mut self.builder;
        let scores = b.matmul(tokens, weight);
        let by_expert = b.shape(scores);
        let exponentials = b.unary(Unary::Exponential, scores);
        let sum = b.sum(exponentials, &[2]);
        let sum = b.broadcast_along(sum, &by_expert, 2);
        let gates = b.over(exponentials, sum);
        let largest = b.maximum(gates, &[2]);
        let largest = b.broadcast_along(largest, &by_expert, 2);
        let is_chosen = b.compare(Direction::GreaterOrEqual, gates, largest);
        let zero = b.full_like(gates, 0.0);
        let gates = b.select(is_chosen, gates, zero);
        // Twice the room of even shares.
        let places = 2 * mixture.group / mixture.experts;
        let shape = [by_expert[0], by_expert[1], by_expert[2], places];
        let number = b.iota(&Type::new(DType::I32, &shape), 1);
        let room = b.full(&Type::new(DType::I32, &shape), places as f64);
        let number = b.binary(Binary::Remainder, number, room);
        let place = b.iota(&Type::new(DType::I32, &shape), 3);
        let is_place = b.compare(Direction::Equal, number, place);
        let gates = b.broadcast_along(gates, &shape, 3);
        let zero = b.full_like(gates, 0.0);
        let combine = b.select(is_place, gates, zero);
        let stands = b.compare(Direction::Greater, combine, zero);
        (b.convert(stands, DType::F32), combine)
    }

    /// The scores of all tokens by the rows of a table, under a softmax; the right one is found by a mask over all.
    fn cross_entropy(&mut self, x: ValueId, table: ValueId, targets: ValueId) -> ValueId {
        let b = &mut self.builder;
        let scores = b.dot(x, table, [&[], &[]], [&[2], &[1]], DType::F32);
        let shape = b.shape(scores);
        let largest = b.maximum(scores, &[2]);
        let largest = b.without_gradient(largest);
        let spread = b.broadcast_along(largest, &shape, 2);
        let shifted = b.minus(scores, spread);
        let exponentials = b.unary(Unary::Exponential, shifted);
        let sum = b.sum(exponentials, &[2]);
        let logarithm = b.unary(Unary::Log, sum);
        let numbers = b.iota(&Type::new(DType::I32, &shape), 2);
        let targets = b.broadcast_along(targets, &shape, 2);
        let is_right = b.compare(Direction::Equal, numbers, targets);
        let is_right = b.convert(is_right, DType::F32);
        let right = b.times(is_right, shifted);
        let right = b.sum(right, &[0, 1, 2]);
        let logarithm = b.sum(logarithm, &[0, 1]);
        b.minus(logarithm, right)
    }

    fn squared_error(&mut self, x: ValueId, targets: ValueId) -> ValueId {
        let b = &mut self.builder;
        let difference = b.minus(x, targets);
        let square = b.times(difference, difference);
        let dims: Vec<usize> = (0..b.shape(square).len()).collect();
        b.mean(square, &dims)
    }

    /// Gradients and the update of all parameters. Alpa's tests do not return the loss; here it tells parameters from
    /// other state.
    fn finish(mut self, loss: ValueId, update: Update) -> Program {
        let of: Vec<ValueId> = self.parameters.iter().map(|(_, value)| *value).collect();
        let found = gradients(&mut self.builder, loss, &of).expect("gradients");
        for ((name, parameter), gradient) in std::mem::take(&mut self.parameters).into_iter().zip(found) {
            let step = match update {
                Update::Adam => self.adam(&name, gradient),
                Update::Descent => gradient,
                Update::Momentum => self.average("m", &name, gradient, 0.9),
            };
            let step = self.builder.times_number(step, 1e-2);
            let next = self.builder.minus(parameter, step);
            self.builder.result(format!("params.{name}"), next);
        }
        self.builder.result("loss", loss);
        let mut program = self.builder.finish().expect("a program");
        for argument in &mut program.arguments {
            argument.alias = program.results.iter().position(|result| result.name == argument.name);
        }
        program.compact()
    }

    fn adam(&mut self, name: &str, gradient: ValueId) -> ValueId {
        let first = self.average("m", name, gradient, 0.9);
        let square = self.builder.times(gradient, gradient);
        let second = self.average("v", name, square, 0.999);
        let root = self.builder.unary(Unary::Sqrt, second);
        let root = self.builder.plus_number(root, 1e-8);
        self.builder.over(first, root)
    }

    /// A running average that the optimizer keeps.
    fn average(&mut self, kind: &str, name: &str, value: ValueId, decay: f64) -> ValueId {
        let ty = self.builder.ty(value);
        let before = self.builder.argument(format!("opt.{kind}.{name}"), ty);
        let old = self.builder.times_number(before, decay);
        let new = self.builder.times_number(value, 1.0 - decay);
        let next = self.builder.plus(old, new);
        self.builder.result(format!("opt.{kind}.{name}"), next);
        next
    }
}
