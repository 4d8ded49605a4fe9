//! Programs written by hand: what does not fit is an error at the end, with the place where it began.

use meshwright::models::gradient::gradients;
use meshwright::program::{Binary, Builder, DType, Type, Unary, ValueId};

fn float(builder: &mut Builder, name: &str, shape: &[usize]) -> ValueId {
    builder.argument(name, Type::new(DType::F32, shape))
}

#[test]
fn the_first_error_is_told_with_its_scope() {
    let mut builder = Builder::new("broken");
    let left = float(&mut builder, "left", &[2, 3]);
    let right = float(&mut builder, "right", &[3, 2]);
    let sum = builder.scoped("layers.0", |b| b.scoped("mlp", |b| b.plus(left, right)));
    let later = builder.scoped("head", |b| b.matmul(sum, sum));
    builder.result("sum", later);
    let problem = builder.finish().expect_err("the shapes differ");
    assert!(problem.contains("tensor<2x3xf32>") && problem.ends_with("(in `layers.0/mlp`)"), "{problem}");
}

#[test]
fn gradients_of_what_does_not_fit_are_refused() {
    let mut builder = Builder::new("broken");
    let x = float(&mut builder, "x", &[2, 3]);
    let product = builder.scoped("layer", |b| b.matmul(x, x));
    let loss = builder.sum(product, &[0, 1]);
    let problem = gradients(&mut builder, loss, &[x]).expect_err("the shapes differ");
    assert!(problem.ends_with("(in `layer`)"), "{problem}");
    assert_eq!(builder.finish().expect_err("the same"), problem);
}

#[test]
fn arguments_that_nobody_can_count_are_refused() {
    let mut builder = Builder::new("large");
    for index in 0..9 {
        float(&mut builder, &format!("x.{index}"), &[1 << 30, 1 << 25]);
    }
    let problem = builder.finish().expect_err("nine of 2^60 bits");
    let expected = "with `x.7` of type `tensor<1073741824x33554432xf32>`, arguments are more than 63 bits can count";
    assert_eq!(problem, expected);
}

/// Values of any shapes in any methods: whatever happens, there is a sound program or an error.
#[test]
fn no_misuse_panics() {
    let rounds = if std::env::var_os("LONG").is_some() { 200_000 } else { 5_000 };
    let (mut built, mut refused) = (0, 0);
    for seed in 0..rounds {
        let mut random = Random(seed);
        let mut builder = Builder::new("misuse");
        let mut values: Vec<ValueId> = (0..3)
            .map(|index| {
                let shape: Vec<usize> = (0..random.below(4)).map(|_| random.below(3)).collect();
                let dtype = [DType::F32, DType::I32][random.below(4) / 3];
                builder.argument(format!("x.{index}"), Type::new(dtype, &shape))
            })
            .collect();
        let inputs = values.clone();
        for _ in 0..1 + random.below(4) {
            let value = misuse(&mut builder, &values, &mut random);
            values.push(value);
        }
        let last = values[values.len() - 1];
        let dims: Vec<usize> = (0..builder.shape(last).len()).collect();
        let loss = builder.sum(last, &dims);
        // Whether there are gradients is another question; asking does no harm.
        if random.below(2) == 0 && builder.dtype(loss).is_float() {
            let _ = gradients(&mut builder, loss, &inputs);
        }
        builder.result("loss", loss);
        match builder.finish() {
            Ok(program) => {
                program.compact().verify().unwrap_or_else(|problem| panic!("{seed}: {problem}"));
                built += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(built > 100 && refused > 100, "{built} built, {refused} refused");
}

fn misuse(b: &mut Builder, values: &[ValueId], random: &mut Random) -> ValueId {
    let mut any = || values[random.below(values.len())];
    let (x, y, z) = (any(), any(), any());
    let shape: Vec<usize> = (0..random.below(4)).map(|_| random.below(3)).collect();
    let dims: Vec<usize> = (0..random.below(3)).map(|_| random.below(3)).collect();
    let (first, second) = (random.below(4), random.below(4));
    match random.below(16) {
        0 => b.plus(x, y),
        1 => b.unary(Unary::Tanh, x),
        2 => b.matmul(x, y),
        3 => b.take_rows(x, y),
        4 => b.broadcast(x, &shape, &dims),
        5 => b.broadcast_last(x, &shape),
        6 => b.broadcast_along(x, &shape, first),
        7 => b.reshape(x, &shape),
        8 => b.transpose(x, &dims),
        9 => b.slice_dim(x, first, second, random.below(4)),
        10 => b.concatenate(&[x, y], first),
        11 => b.mean(x, &dims),
        12 => b.reduce(Binary::Maximum, x, 0.0, &dims),
        13 => b.select(x, y, z),
        14 => b.dot(x, y, [&dims, &dims], [&[first], &[second]], DType::F32),
        _ => b.barrier(&[x, y])[1],
    }
}

/// A small sequence of numbers that is the same on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}
