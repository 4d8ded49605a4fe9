//! Programs as they are found in models.

use super::{SmallProgram, Writer};

type Write = fn(&mut Writer, usize);

/// One for each shape of program that planning has to do with.
pub(super) fn written(unit: usize) -> Vec<SmallProgram> {
    let named: [(&str, Write); 9] = [
        ("a chain of products", chain),
        ("a residual", residual),
        ("a softmax", softmax),
        ("a normalization", normalization),
        ("a bias", bias),
        ("products of one value", products_of_one_value),
        ("transposed and reshaped", moved),
        ("a training step", training_step),
        ("a training step of two layers", two_layers),
    ];
    let write = |(name, write): (&str, Write)| {
        let mut writer = Writer::default();
        write(&mut writer, unit);
        writer.finish(name)
    };
    named.into_iter().map(write).collect()
}

fn chain(writer: &mut Writer, unit: usize) {
    let mut value = writer.argument(&[4 * unit, 2 * unit]);
    for (from, to) in [(2, 8), (8, 1), (1, 4), (4, 2), (2, 2)] {
        let weight = writer.argument(&[from * unit, to * unit]);
        value = writer.product(value, weight, [1, 0]);
        value = writer.alike("tanh", &[value]);
    }
}

fn residual(writer: &mut Writer, unit: usize) {
    let mut value = writer.argument(&[2 * unit, 4 * unit]);
    for _ in 0..2 {
        let up = writer.argument(&[4 * unit, 8 * unit]);
        let down = writer.argument(&[8 * unit, 4 * unit]);
        let inner = writer.product(value, up, [1, 0]);
        let inner = writer.alike("tanh", &[inner]);
        let back = writer.product(inner, down, [1, 0]);
        value = writer.alike("add", &[value, back]);
    }
}

fn softmax(writer: &mut Writer, unit: usize) {
    let [query, key, value] = [[2, 1], [4, 1], [4, 2]].map(|[rows, columns]| [rows * unit, columns * unit]);
    let [query, key, value] = [query, key, value].map(|shape| writer.argument(&shape));
    let scores = writer.product(query, key, [1, 1]);
    let shape = [2 * unit, 4 * unit];
    let most = writer.reduce(scores, "maximum", 1);
    let most = writer.broadcast(most, &shape, &[0]);
    let scores = writer.alike("subtract", &[scores, most]);
    let powers = writer.alike("exponential", &[scores]);
    let sum = writer.reduce(powers, "add", 1);
    let sum = writer.broadcast(sum, &shape, &[0]);
    let shares = writer.alike("divide", &[powers, sum]);
    writer.product(shares, value, [1, 0]);
}

fn normalization(writer: &mut Writer, unit: usize) {
    let shape = [8 * unit, 2 * unit];
    let value = writer.argument(&[8 * unit, unit]);
    let [weight, scale] = [[unit, 2 * unit], [2 * unit, unit]].map(|shape| writer.argument(&shape));
    let value = writer.product(value, weight, [1, 0]);
    let squares = writer.alike("multiply", &[value, value]);
    let sum = writer.reduce(squares, "add", 1);
    let root = writer.alike("rsqrt", &[sum]);
    let root = writer.broadcast(root, &shape, &[0]);
    let value = writer.alike("multiply", &[value, root]);
    writer.product(value, scale, [1, 0]);
}

fn bias(writer: &mut Writer, unit: usize) {
    let value = writer.argument(&[4 * unit, 8 * unit]);
    let [weight, second] = [[8 * unit, 4 * unit], [4 * unit, 8 * unit]].map(|shape| writer.argument(&shape));
    let bias = writer.argument(&[4 * unit]);
    let value = writer.product(value, weight, [1, 0]);
    let bias = writer.broadcast(bias, &[4 * unit, 4 * unit], &[1]);
    let value = writer.alike("add", &[value, bias]);
    let value = writer.alike("tanh", &[value]);
    writer.product(value, second, [1, 0]);
}

/// As query, key and value are made, and summed up.
fn products_of_one_value(writer: &mut Writer, unit: usize) {
    let value = writer.argument(&[4 * unit, 4 * unit]);
    let first = writer.argument(&[4 * unit, 4 * unit]);
    let value = writer.product(value, first, [1, 0]);
    let parts = [2, 2, 2].map(|columns| {
        let weight = writer.argument(&[4 * unit, columns * unit]);
        writer.product(value, weight, [1, 0])
    });
    let sum = writer.alike("add", &[parts[0], parts[1]]);
    let sum = writer.alike("add", &[sum, parts[2]]);
    let last = writer.argument(&[2 * unit, unit]);
    writer.product(sum, last, [1, 0]);
}

fn moved(writer: &mut Writer, unit: usize) {
    let value = writer.argument(&[4 * unit, 2 * unit]);
    let [weight, second] = [[2 * unit, 4 * unit], [4 * unit, 2 * unit]].map(|shape| writer.argument(&shape));
    let value = writer.product(value, weight, [1, 0]);
    let value = writer.reshape(value, &[4, unit, 4 * unit]);
    let value = writer.transpose(value);
    let value = writer.alike("tanh", &[value]);
    let value = writer.reshape(value, &[4 * unit, 4 * unit]);
    writer.product(value, second, [1, 0]);
}

/// One layer, its gradient and its update.
fn training_step(writer: &mut Writer, unit: usize) {
    let weight = writer.argument(&[2 * unit, 4 * unit]);
    let [input, wanted] = [[8 * unit, 2 * unit], [8 * unit, 4 * unit]].map(|shape| writer.argument(&shape));
    let made = writer.product(input, weight, [1, 0]);
    let made = writer.alike("tanh", &[made]);
    let error = writer.alike("subtract", &[made, wanted]);
    let squares = writer.alike("multiply", &[made, made]);
    let slope = writer.alike("multiply", &[error, squares]);
    let gradient = writer.product(input, slope, [0, 0]);
    let next = writer.alike("subtract", &[weight, gradient]);
    writer.state.push((weight, next));
}

/// The gradient of the second layer's input is the first layer's.
fn two_layers(writer: &mut Writer, unit: usize) {
    let [first, second] = [[2 * unit, 4 * unit], [4 * unit, unit]].map(|shape| writer.argument(&shape));
    let [input, wanted] = [[8 * unit, 2 * unit], [8 * unit, unit]].map(|shape| writer.argument(&shape));
    let inner = writer.product(input, first, [1, 0]);
    let inner = writer.alike("tanh", &[inner]);
    let made = writer.product(inner, second, [1, 0]);
    let error = writer.alike("subtract", &[made, wanted]);
    let of_second = writer.product(inner, error, [0, 0]);
    let of_inner = writer.product(error, second, [1, 1]);
    let of_inner = writer.alike("multiply", &[of_inner, inner]);
    let of_first = writer.product(input, of_inner, [0, 0]);
    for (weight, gradient) in [(first, of_first), (second, of_second)] {
        let next = writer.alike("subtract", &[weight, gradient]);
        writer.state.push((weight, next));
    }
}
