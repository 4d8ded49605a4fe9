//! Recipes: those that do not fit a program are refused with the reason, and all others compute what it does.

use meshwright::cluster::parse;
use meshwright::interpret::{Options, Tensor, difference, evaluate, evaluate_partitioned, generate_arguments};
use meshwright::lower::estimate;
use meshwright::models::Model;
use meshwright::plan::{Again, Recipe, Request, Split, check, plan};
use meshwright::program::{OpId, Program, ValueId};
use meshwright::shard::{Mesh, Piece, Pieces, Sharding};
use meshwright::simulate::{Engine, engine};

fn program() -> Program {
    let mut model = Model::preset("gpt2").expect("a preset");
    for setting in ["layers=2", "hidden=16", "heads=2", "vocab=32", "seq=8", "batch=8"] {
        let (key, value) = setting.split_once('=').expect("a setting");
        model.set(key, value).expect("a setting of the preset");
    }
    model.build().expect("a model")
}

/// A recipe that cuts in several ways and in time.
fn recipe(program: &Program) -> Recipe {
    let cluster = parse("2x2xv100-16g").expect("a cluster");
    let engine = Engine { reserved_bytes: 0, ..engine("xla").expect("an engine").clone() };
    let request = Request {
        program,
        cluster: &cluster,
        engine: &engine,
        limit_bytes: 1 << 30,
        microbatches: Some(2),
        told: None,
        mesh: None,
    };
    let free = plan(&request).expect("a plan");
    // Little memory makes small steps worth cutting.
    let limit_bytes = free.peak_bytes * 3 / 5;
    let mut recipe = plan(&Request { limit_bytes, ..request }).expect("a smaller plan").recipe;
    // The first op that others read late is made again.
    let anatomy = program.anatomy();
    let is_forward = |op: &&OpId| anatomy.is_forward(**op) && program.ops[**op].operands.len() > 1;
    let op = *program.body().ops.iter().find(is_forward).expect("an op of the forward pass");
    recipe.again.push(Again { ops: vec![op], reads: program.ops[op].results.to_vec() });
    recipe
}

#[test]
fn recipes_that_do_not_fit_are_refused_with_the_reason() {
    let program = program();
    let good = recipe(&program);
    assert!(good.lower(&program, &estimate).is_ok());
    let late = OpId(program.body().ops.len() as u32 - 1);
    let check = |expected: &str, change: &dyn Fn(&mut Recipe)| {
        let mut recipe = good.clone();
        change(&mut recipe);
        let refusal = recipe.lower(&program, &estimate).map(|_| ()).expect_err(expected);
        assert!(refusal.contains(expected), "`{refusal}` for `{expected}`");
    };
    let nothing: Pieces = Pieces::new();
    let beyond: Pieces = [Piece(9)].into_iter().collect();
    check("there is no op", &|recipe| recipe.ops.last_mut().expect("an op").op = OpId(1 << 30));
    check("twice", &|recipe| recipe.ops[1] = recipe.ops[0].clone());
    check("has no factor `n1`", &|recipe| recipe.ops[0].factors.push((31, nothing)));
    check("which the mesh does not have", &|recipe| recipe.ops[0].factors.push((0, beyond)));
    check("the mesh has none such", &|recipe| recipe.arguments[0].dims[0] = beyond);
    check("is cut by what cuts another factor", &|recipe| {
        let cut = recipe.ops.iter_mut().find(|op| !op.factors.is_empty()).expect("an op that is cut");
        let pieces = cut.factors[0].1;
        let other = if cut.factors[0].0 == 0 { 1 } else { 0 };
        cut.factors.push((other, pieces));
    });
    check("dimensions, 9 are told", &|recipe| recipe.arguments[0] = Sharding::whole(9));
    check("dimensions, 9 are told", &|recipe| recipe.ops[0].results[0] = Sharding::whole(9));
    check("results, 0 are told", &|recipe| recipe.ops[0].results.clear());
    check("arguments are told", &|recipe| _ = recipe.arguments.pop());
    check("parts of a sum", &|recipe| recipe.arguments[0].partial.push(Piece(0)));
    check("is not cut into 3 microbatches", &|recipe| recipe.microbatches = 3);
    check("is not cut into 0 microbatches", &|recipe| recipe.microbatches = 0);
    check("is in time", &|recipe| recipe.mesh.axes[0].temporal = true);
    check("to make again", &|recipe| recipe.again[0].ops.push(OpId(1 << 30)));
    check("to make again", &|recipe| recipe.again[0].reads.push(ValueId(1 << 30)));
    check("of the backward pass", &|recipe| recipe.again[0].ops = vec![backward(&program, late)]);
    let split = |slices: usize, ops: &[OpId]| Split { slices, ops: ops.iter().map(|&op| (op, 0)).collect() };
    let (first, second) = (good.ops[0].op, good.ops[1].op);
    check("1 slices are none", &|recipe| recipe.splits = vec![split(1, &[first])]);
    check("to cut into slices", &|recipe| recipe.splits = vec![split(2, &[OpId(1 << 30)])]);
    check("twice, or out of order", &|recipe| recipe.splits = vec![split(2, &[second, first])]);
    check("is not cut into 97 slices", &|recipe| recipe.splits = vec![split(97, &[first])]);
    check("made again twice", &|recipe| {
        let first = recipe.again[0].ops[0];
        recipe.again[0].ops.push(first);
    });
}

/// An op of the backward pass at or before another.
fn backward(program: &Program, from: OpId) -> OpId {
    let anatomy = program.anatomy();
    let mut ops = program.body().ops.iter().rev().skip_while(|op| **op > from);
    *ops.find(|op| anatomy.phase(**op) == meshwright::program::Phase::Backward).expect("a backward pass")
}

#[test]
fn a_factor_that_does_not_divide_or_must_be_whole_is_refused() {
    let program = program();
    let mut recipe = recipe(&program);
    // So many devices that nothing of the model divides.
    recipe.mesh = Mesh::parse("a=97").expect("a mesh");
    let (mut uneven, mut count) = (0, 0);
    for index in 0..recipe.ops.len() {
        let mut changed = recipe.clone();
        changed.ops.iter_mut().for_each(|op| op.factors.clear());
        let shardings = changed.ops.iter_mut().flat_map(|op| &mut op.results).chain(&mut changed.arguments);
        shardings.for_each(|lies| lies.dims.iter_mut().for_each(Pieces::clear));
        assert!(index > 0 || changed.lower(&program, &estimate).is_ok());
        changed.ops[index].factors.push((0, [Piece(0)].into_iter().collect()));
        let refusal = changed.lower(&program, &estimate).map(|_| ()).expect_err("nothing divides by 97");
        uneven += usize::from(refusal.contains("does not divide so"));
        count += 1;
    }
    assert!(uneven * 2 > count, "{uneven} of {count}");
}

#[test]
fn a_plan_of_other_devices_or_too_little_memory_is_refused() {
    let program = program();
    let (recipe, engine) = (recipe(&program), engine("xla").expect("an engine"));
    let faults = |cluster: &str, limit_bytes: u64| {
        let cluster = parse(cluster).expect("a cluster");
        check(&program, &recipe, &cluster, engine, limit_bytes).map(|_| ()).expect_err("a fault").join("\n")
    };
    assert!(faults("8xh100", 16 << 30).contains("the mesh has 4 devices, `8xh100` has 8"));
    assert!(faults("2x2xv100-16g", 1 << 20).contains("bytes are in memory at the peak, 1048576 may be"));
}

/// A small generator, so that every run tries the same.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % bound
    }
}

/// Whatever is changed in a recipe, it is refused or computes the same.
#[test]
fn recipes_that_are_changed_at_random_compute_the_same_or_are_refused() {
    let program = program();
    let good = recipe(&program);
    assert!(good.ops.iter().filter(|op| !op.factors.is_empty()).count() > 20);
    let arguments = generate_arguments(&program, 1);
    let whole = evaluate(&program, &arguments, Options { wide: true }).expect("the whole step").results;
    let cases = if std::env::var_os("LONG").is_some() { 2000 } else { 60 };
    let (mut random, mut lowered) = (Random(7), 0);
    for case in 0..cases {
        let mut recipe = good.clone();
        for _ in 0..1 + random.below(6) {
            change(&program, &mut recipe, &mut random);
        }
        let Ok((local, _)) = recipe.lower(&program, &estimate) else { continue };
        lowered += 1;
        let parts: Vec<Tensor> = evaluate_partitioned(&local, &arguments, Options { wide: true })
            .unwrap_or_else(|error| panic!("case {case}: {error:?}"));
        let difference = difference(&whole, &parts);
        assert!(difference.relative < 1e-9, "case {case}: {difference:?}");
    }
    assert!(lowered * 5 > cases, "only {lowered} of {cases} could be lowered");
}

/// Whichever ops run in slices, together or apart, the step computes the same.
#[test]
fn ops_in_slices_compute_the_same() {
    let program = program();
    let good = recipe(&program);
    let arguments = generate_arguments(&program, 1);
    let whole = evaluate(&program, &arguments, Options { wide: true }).expect("the whole step").results;
    let cases = if std::env::var_os("LONG").is_some() { 1000 } else { 40 };
    let (mut random, mut looped) = (Random(11), 0);
    for case in 0..cases {
        let mut recipe = good.clone();
        if random.below(2) == 0 {
            recipe.microbatches = 1;
        }
        for _ in 0..1 + random.below(2) {
            slice_at_random(&program, &mut recipe, &mut random);
        }
        let (local, _) = recipe.lower(&program, &estimate).unwrap_or_else(|error| panic!("case {case}: {error}"));
        looped += usize::from(!recipe.splits.is_empty());
        let parts: Vec<Tensor> = evaluate_partitioned(&local, &arguments, Options { wide: true })
            .unwrap_or_else(|error| panic!("case {case}: {error:?}"));
        let difference = difference(&whole, &parts);
        assert!(difference.relative < 1e-9, "case {case}: {difference:?}");
    }
    assert!(looped * 2 > cases, "only {looped} of {cases} have slices");
}

/// Adds ops in slices, one by one, as long as they can be lowered.
fn slice_at_random(program: &Program, recipe: &mut Recipe, random: &mut Random) {
    recipe.splits.push(Split { slices: 2, ops: Vec::new() });
    let first = random.below(recipe.ops.len());
    let stride = 1 + random.below(20);
    for index in (first..recipe.ops.len()).step_by(stride).take(1 + random.below(8)) {
        let op = recipe.ops[index].op;
        let before = recipe.splits.clone();
        if let Some(split) = recipe.splits.last_mut() {
            split.ops.push((op, random.below(4) as u16));
        }
        if recipe.lower(program, &estimate).is_err() {
            recipe.splits = before;
        }
    }
    recipe.splits.pop_if(|split| split.ops.is_empty());
}

/// Changes one thing.
fn change(program: &Program, recipe: &mut Recipe, random: &mut Random) {
    let (count, axes) = (recipe.ops.len(), recipe.mesh.axes.len());
    let op = random.below(count);
    let pieces = recipe.mesh.pieces(random.below(axes));
    let lay = |lies: &mut Sharding, random: &mut Random| {
        lies.dims.iter_mut().for_each(|dim| dim.retain(|piece| !pieces.contains(piece)));
        if !lies.dims.is_empty() && random.below(3) > 0 {
            let dim = random.below(lies.dims.len());
            lies.dims[dim].extend(pieces.iter().copied());
        }
    };
    match random.below(5) {
        0 => {
            let argument = random.below(recipe.arguments.len());
            lay(&mut recipe.arguments[argument], random);
        }
        1 => recipe.ops[op].results.iter_mut().for_each(|lies| lay(lies, random)),
        2 => {
            let factors = &mut recipe.ops[op].factors;
            factors.iter_mut().for_each(|(_, cut)| cut.retain(|piece| !pieces.contains(piece)));
            factors.push((random.below(4) as u16, pieces));
        }
        3 => {
            recipe.ops.remove(op);
        }
        _ => {
            let anatomy = program.anatomy();
            let made = recipe.ops[op].op;
            if anatomy.is_forward(made) {
                let reads = program.ops[made].results.to_vec();
                recipe.again.push(Again { ops: vec![made], reads });
            }
        }
    }
}
