//! One case: a random program, a random mesh, random decisions, and whether all devices together
//! compute what one does.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;

use meshwright::interpret::{Options, Tensor, difference, evaluate, evaluate_partitioned};
use meshwright::lower::{LocalProgram, Movement, Price, Ways, defer, estimate, lower, lower_layout};
use meshwright::program::{Op, Program, ValueId, expand_batch_norm};
use meshwright::shard::{Kind, Layout, Mesh, Piece, PieceSet};

use crate::generator::Generator;
use crate::kinds::{op_in_turn, random_op};
use crate::random::Random;

/// For each op by name, in how many cases it was cut.
pub(crate) type Coverage = BTreeMap<String, usize>;

/// What is left out of a case to make it smaller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) ops: usize,
    pub(crate) decisions: usize,
}

pub(crate) const NO_LIMITS: Limits = Limits { ops: usize::MAX, decisions: usize::MAX };

/// At most eight devices, because each is a thread.
const MESHES: [&str; 14] = [
    "a=2",
    "a=3",
    "a=4",
    "a=6",
    "a=8",
    "a=2,b=2",
    "a=2,b=3",
    "a=3,b=2",
    "a=4,b=2",
    "a=2,b=4",
    "a=2,b=2,c=2",
    "a=5",
    "a=1,b=4",
    "a=7",
];

/// With axes in time, which become loops.
const TIME_MESHES: [&str; 6] =
    ["t=2@time", "t=3@time", "a=2,t=2@time", "a=2,b=2,t=3@time", "t=2@time,u=2@time", "a=3,t=2@time,u=3@time"];

/// How far apart numbers may be, relative to the largest of a tensor.
const TOLERANCE: f64 = 1e-9;
/// What is smaller is nothing: a sum that cancels in one order leaves the last bits in another.
const NOTHING: f64 = 1e-12;

pub(crate) fn check(seed: u64, limits: Limits, coverage: &mut Coverage) -> Result<(), String> {
    let program = program(seed, limits);
    let mut random = Random::new(seed ^ 0x5EED);
    let in_time = seed % 5 == 4;
    let mesh = Mesh::parse(if in_time { random.pick(&TIME_MESHES) } else { random.pick(&MESHES) })?;
    let show = |message: String| format!("{message}\non {mesh}:\n{program}");
    program.verify().map_err(|error| show(format!("the program is broken: {error}")))?;
    let types = program.body().arguments.iter().map(|&value| program.ty(value));
    let arguments: Vec<Tensor> = types.map(|ty| random.tensor(ty)).collect();
    let options = Options { wide: true };
    let expected = evaluate(&program, &arguments, options)
        .map_err(|error| show(format!("the program cannot be evaluated: {}", error.message)))?;
    let program = if seed.is_multiple_of(2) { expand_batch_norm(&program).into_owned() } else { program.clone() };
    program.verify().map_err(|error| show(format!("the program written out is broken: {error}")))?;
    let mut layout = Layout::new(&program, mesh.clone());
    decide(&mut layout, &mut random, limits.decisions);
    count(&layout, coverage);
    // Prices that have nothing to do with costs: partial values are carried wherever that is possible
    // at all, and reshards take ways that nobody would.
    let caprice = Mutex::new(Random::new(seed));
    let capricious =
        |_: &Mesh, _: &Movement<'_>| 1.0 + caprice.lock().expect("no thread fails with it").below(1024) as f64;
    let price: Price<'_> = if seed.is_multiple_of(4) { &estimate } else { &capricious };
    if in_time {
        layout.eager = mesh.all_pieces().filter(|_| random.chance(50)).collect();
        let outcome = lower_layout(layout.clone(), price)
            .map_err(|error| format!("lowering fails: {error}"))
            .and_then(|(_, local)| compare(&local, &arguments, &expected.results));
        return outcome.map_err(|message| format!("{message}\non {mesh}:\n{program}\n{}", describe(&layout)));
    }
    for deferred in [false, true] {
        let mut ways = Ways::new(&mesh, price);
        if deferred {
            defer(&mut layout, &mut ways);
            count_carries(&layout, coverage);
        }
        let outcome = lower(&layout, &mut ways)
            .map_err(|error| format!("lowering fails: {error}"))
            .and_then(|local| compare(&local, &arguments, &expected.results));
        outcome.map_err(|message| {
            let when = if deferred { "with" } else { "without" };
            let (summary, details) = message.split_once('\n').unwrap_or((&message, ""));
            format!("{summary}, {when} deferral, on {mesh}:\n{program}\n{}\n{details}", describe(&layout))
        })?;
    }
    Ok(())
}

fn program(seed: u64, limits: Limits) -> Program {
    let mut generator = Generator::new(seed);
    let length = 1 + generator.random.below(7);
    let turn = generator.random.below(length);
    for index in 0..length {
        // The op whose turn it is comes even where the rest is left out.
        if index == turn {
            op_in_turn(&mut generator, seed);
        } else if index < limits.ops {
            random_op(&mut generator);
        }
    }
    generator.finish()
}

/// Cuts and forbids at random, in several rounds.
pub(crate) fn decide(layout: &mut Layout<'_>, random: &mut Random, limit: usize) {
    let program = layout.program;
    let dims = |value: ValueId| (0..program.shape(value).len()).map(move |dim| (value, dim));
    let values: Vec<_> = program.values.ids().flat_map(dims).collect();
    let arguments: Vec<_> = program.body().arguments.iter().copied().flat_map(dims).collect();
    let reduced = reduced_dims(layout);
    let pieces: Vec<Piece> = layout.mesh.all_pieces().collect();
    if pieces.is_empty() {
        return;
    }
    let mut left = limit;
    for _ in 0..1 + random.below(4) {
        for _ in 0..1 + random.below(5) {
            let (value, dim) = match random.below(10) {
                0..3 if !reduced.is_empty() => random.pick(&reduced),
                3..6 if !arguments.is_empty() => random.pick(&arguments),
                _ if values.is_empty() => continue,
                _ => random.pick(&values),
            };
            let piece = random.pick(&pieces);
            if left > 0 && layout.may_cut(value, dim, piece) {
                layout.cut(value, dim, piece);
                left -= 1;
            }
        }
        forbid(layout, random, &pieces);
        layout.propagate();
    }
}

/// Dimensions that are summed, or reduced otherwise: cutting them leaves results partial.
fn reduced_dims(layout: &Layout<'_>) -> Vec<(ValueId, usize)> {
    let mut dims = Vec::new();
    for &op in layout.ops() {
        let (rule, operands) = (layout.rule(op), &layout.program.ops[op].operands);
        for (&operand, labels) in operands.iter().zip(&rule.operands) {
            for (dim, factors) in labels.iter().enumerate() {
                let is_reduced = |&factor: &u16| matches!(rule.factors[usize::from(factor)].kind, Kind::Reduced(_));
                if factors.iter().any(is_reduced) {
                    dims.push((operand, dim));
                }
            }
        }
    }
    dims
}

fn forbid(layout: &mut Layout<'_>, random: &mut Random, pieces: &[Piece]) {
    let forbidden: PieceSet = pieces.iter().copied().filter(|_| random.chance(50)).collect();
    if random.chance(15) {
        let values: Vec<_> = layout.program.values.ids().collect();
        layout.block(random.pick(&values), forbidden);
    }
    if random.chance(15) && !layout.ops().is_empty() {
        let op = random.pick(layout.ops());
        layout.block_op(op, forbidden);
    }
}

pub(crate) fn compare(local: &LocalProgram, arguments: &[Tensor], expected: &[Tensor]) -> Result<(), String> {
    let broken = |what: &str| format!("{what}\nin the local program:\n{}", local.program);
    local.program.verify().map_err(|error| broken(&format!("the local program is broken: {error}")))?;
    let found = evaluate_partitioned(local, arguments, Options { wide: true })
        .map_err(|error| broken(&format!("the local program cannot be evaluated: {}", error.message)))?;
    for (index, (expected, found)) in expected.iter().zip(&found).enumerate() {
        if expected.ty != found.ty {
            return Err(broken(&format!("result {index} is `{}`, not `{}`", found.ty, expected.ty)));
        }
        let apart = difference(std::slice::from_ref(expected), std::slice::from_ref(found));
        let is_float = expected.ty.dtype.is_float();
        let is_close = is_float && (apart.relative <= TOLERANCE || apart.absolute <= NOTHING);
        if apart.absolute > 0.0 && !is_close {
            let (expected, found) = (&expected.data, &found.data);
            let numbers = format!("expected {expected:?}\n   found {found:?}");
            return Err(broken(&format!("result {index} is {:e} off\n{numbers}", apart.relative)));
        }
    }
    Ok(())
}

/// Counts the ops that were cut.
fn count(layout: &Layout<'_>, coverage: &mut Coverage) {
    let program = layout.program;
    for &op in layout.ops() {
        let operation = &program.ops[op];
        let is_tie = matches!(operation.op, Op::Case | Op::If | Op::OptimizationBarrier | Op::While);
        let is_cut = match is_tie {
            true => operation.results.iter().any(|&result| !layout.sharding(result).is_whole()),
            false => !layout.strategy(op).used().is_empty(),
        };
        *coverage.entry(operation.op.name().to_owned()).or_default() += usize::from(is_cut);
        if is_tie || !is_cut {
            continue;
        }
        // What is made anew for each use is cut where the use is.
        let (rule, strategy) = (layout.rule(op), layout.strategy(op));
        for (&operand, labels) in operation.operands.iter().zip(&rule.operands) {
            if let Some(maker) = program.producer(operand).filter(|_| layout.is_free(operand)) {
                let is_cut = !strategy.sharding(rule, &layout.mesh, labels).is_whole();
                *coverage.entry(program.ops[maker].op.name().to_owned()).or_default() += usize::from(is_cut);
            }
        }
    }
}

/// Counts the ops that read what is still partial and carry it on.
fn count_carries(layout: &Layout<'_>, coverage: &mut Coverage) {
    for &op in layout.ops() {
        let operation = &layout.program.ops[op];
        if operation.operands.iter().any(|&operand| !layout.sharding(operand).partial.is_empty()) {
            *coverage.entry(format!("{} of partial values", operation.op.name())).or_default() += 1;
        }
    }
}

/// The layout, op by op.
fn describe(layout: &Layout<'_>) -> String {
    let (program, mesh) = (layout.program, &layout.mesh);
    let mut text = String::new();
    for (&value, argument) in program.body().arguments.iter().zip(&program.arguments) {
        let _ = writeln!(text, "{}: {}", argument.name, layout.sharding(value).describe(mesh));
    }
    for &op in layout.ops() {
        let operation = &program.ops[op];
        let lies: Vec<String> =
            operation.results.iter().map(|&result| layout.sharding(result).describe(mesh)).collect();
        let cuts: Vec<String> =
            layout.strategy(op).factors.iter().map(|pieces| format!("{{{}}}", mesh.describe(pieces))).collect();
        let (name, rule) = (operation.op.name(), layout.rule(op));
        let _ = writeln!(text, "{name}: {rule} cut {} gives {}", cuts.join(" "), lies.join(" "));
    }
    text
}
