//! Reshards: their ways lead where they should, cost no more than they must, and move the right data.

use std::collections::BTreeMap;

use meshwright::interpret::{Options, Tensor, evaluate, evaluate_partitioned};
use meshwright::lower::{Haste, Move, Movement, Reason, Step, Ways, estimate, lower, reshard};
use meshwright::program::{Binary, Builder, DType, Op, OpId, Program, Type};
use meshwright::shard::{Layout, Mesh, Piece, PieceSet, Pieces, Reduction, Sharding};

use crate::random::Random;

const MESHES: [&str; 8] = ["a=2", "a=4", "a=6", "a=8", "a=2,b=2", "a=2,b=3", "a=2,b=2,c=2", "a=4,b=2"];

#[test]
fn ways_lead_from_one_sharding_to_the_other() {
    for seed in 0..4000 {
        let (mesh, ty, from, to) = pair(&mut Random::new(seed), &MESHES);
        let (moves, price) = way(&mesh, &ty, &from, &to);
        let mut at = from.clone();
        let mut sum = 0.0;
        for Move { step, to } in &moves {
            sum += price_of(&mesh, &ty, &at, step, to);
            at = after(&at, step, to);
            assert_eq!(at, *to, "seed {seed}: {step:?}");
        }
        assert_eq!(at, to, "seed {seed}");
        assert!((sum - price).abs() <= 1e-9 * price, "seed {seed}: {price} is not the sum {sum}");
        let plain = plainest(&mesh, &ty, &from, &to);
        assert!(price <= plain * (1.0 + 1e-9), "seed {seed}: {price} is dearer than {plain} for {moves:?}");
    }
}

#[test]
fn ways_are_the_shortest_there_are() {
    for seed in 0..4000 {
        let meshes = ["a=2", "a=2,b=2", "a=2,b=3", "a=6", "a=2,b=2,c=2"];
        let (mesh, ty, from, to) = pair(&mut Random::new(seed), &meshes);
        if ty.rank() > 2 {
            continue;
        }
        let (moves, price) = way(&mesh, &ty, &from, &to);
        let shortest = shortest(&mesh, &ty, &from, &to);
        assert!(
            price <= shortest * (1.0 + 1e-9),
            "seed {seed}: from {} to {} of {ty} on {mesh} costs {price}, the shortest way {shortest}: {moves:?}",
            from.describe(&mesh),
            to.describe(&mesh),
        );
    }
}

#[test]
fn ways_move_the_right_data() {
    let mut reshards = 0;
    for seed in 0..1500 {
        let mut random = Random::new(seed);
        let (mesh, mut ty, from, mut to) = pair(&mut random, &MESHES);
        // Large tensors would only take long.
        for size in &mut ty.shape {
            *size = if *size > 8 { *size >> size.trailing_zeros().saturating_sub(3) } else { *size };
        }
        if ty.elements() > 600 {
            continue;
        }
        // What arrives is stored, so it is finished and divides.
        to = to.finished();
        for (dim, &size) in ty.shape.iter().enumerate() {
            if to.is_padded(&mesh, dim, size) {
                to.dims[dim].clear();
            }
        }
        if from == to {
            continue;
        }
        let program = program(&mesh, &ty, &from);
        let local = lower(&layout(&program, &mesh, &from, &to), &mut Ways::new(&mesh, &estimate));
        let local = local.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let made = local.reshards.iter().filter(|reshard| matches!(reshard.reason, Reason::Made { .. }));
        let stored = local.reshards.iter().filter(|reshard| matches!(reshard.reason, Reason::Stored { .. }));
        for found in made.chain(stored).filter(|found| found.from == from) {
            reshards += 1;
            let last = found.moves.last().map(|last| &last.to);
            assert_eq!(last, Some(&to), "seed {seed}");
            assert_eq!(found.moves, way(&mesh, &ty, &from, &to).0, "seed {seed}");
        }
        let types = program.body().arguments.iter().map(|&argument| program.ty(argument));
        let arguments: Vec<Tensor> = types.map(|ty| random.tensor(ty)).collect();
        let options = Options { wide: true };
        let expected = evaluate(&program, &arguments, options).expect("the program can be evaluated").results;
        let found = evaluate_partitioned(&local, &arguments, options);
        let found = found.unwrap_or_else(|error| panic!("seed {seed}: {}", error.message));
        assert_eq!(found, expected, "seed {seed}:\n{}", local.program);
    }
    assert!(reshards > 500, "only {reshards} reshards were looked at");
}

#[test]
fn a_cut_that_changes_its_dimension_is_one_exchange() {
    let (mesh, ty) = (mesh("a=4"), Type::new(DType::F32, &[1024, 1024]));
    let [from, to] = [[vec![0, 1], vec![]], [vec![], vec![0, 1]]].map(|dims| cut(&dims));
    let (moves, _) = way(&mesh, &ty, &from, &to);
    let pieces = Pieces::from_slice(&[Piece(0), Piece(1)]);
    assert_eq!(moves, [Move { step: Step::AllToAll { from: 0, to: 1, pieces }, to }]);
}

#[test]
fn a_sum_that_is_cut_is_one_scattered_reduction() {
    let (mesh, ty) = (mesh("a=4"), Type::new(DType::F32, &[1024, 1024]));
    let pieces = Pieces::from_slice(&[Piece(0), Piece(1)]);
    let from = Sharding { partial: pieces, ..Sharding::whole(2) };
    let to = cut(&[vec![0, 1], vec![]]);
    let (moves, _) = way(&mesh, &ty, &from, &to);
    let step = Step::ReduceScatter { dim: 0, pieces, reduction: Reduction::Sum };
    assert_eq!(moves, [Move { step, to }]);
}

#[test]
fn axes_that_change_places_are_one_permutation() {
    let (mesh, ty) = (mesh("a=2,b=2"), Type::new(DType::F32, &[1024, 1024]));
    let [from, to] = [[vec![0], vec![1]], [vec![1], vec![0]]].map(|dims| cut(&dims));
    let (moves, _) = way(&mesh, &ty, &from, &to);
    assert_eq!(moves, [Move { step: Step::Permute, to }]);
}

#[test]
fn pieces_that_come_in_the_wrong_order_are_permuted() {
    let (mesh, ty) = (mesh("a=4,b=4"), Type::new(DType::F32, &[1024, 1024]));
    let partial = Pieces::from_slice(&[Piece(0), Piece(1)]);
    let from = Sharding { partial, ..cut(&[vec![2, 3], vec![]]) };
    let to = cut(&[vec![0, 1, 2, 3], vec![]]);
    let (moves, _) = way(&mesh, &ty, &from, &to);
    assert!(matches!(moves[..], [Move { step: Step::ReduceScatter { .. }, .. }, Move { step: Step::Permute, .. }]));
}

#[test]
fn pieces_between_others_leave_after_a_permutation() {
    let (mesh, ty) = (mesh("a=4,b=4"), Type::new(DType::F32, &[1 << 14, 1 << 14]));
    let [from, to] = [[vec![0, 1, 2, 3], vec![]], [vec![2, 3], vec![0, 1]]].map(|dims| cut(&dims));
    let (moves, _) = way(&mesh, &ty, &from, &to);
    assert!(matches!(moves[..], [Move { step: Step::Permute, .. }, Move { step: Step::AllToAll { .. }, .. }]));
}

fn mesh(text: &str) -> Mesh {
    Mesh::parse(text).expect("the mesh is sound")
}

fn cut(dims: &[Vec<u8>]) -> Sharding {
    let dims = dims.iter().map(|pieces| pieces.iter().copied().map(Piece).collect()).collect();
    Sharding { dims, ..Sharding::default() }
}

fn way(mesh: &Mesh, ty: &Type, from: &Sharding, to: &Sharding) -> (Vec<Move>, f64) {
    reshard(mesh, ty, from, to, Haste::Awaited, &estimate).expect("without tiles in time there is always a way")
}

/// A mesh, a type and two shardings of it.
fn pair(random: &mut Random, meshes: &[&str]) -> (Mesh, Type, Sharding, Sharding) {
    let mesh = mesh(random.pick(meshes));
    let rank = 1 + random.below(3);
    // Large tensors for what bandwidth decides, small ones for what the number of steps decides.
    let scale = random.pick(&[1, 1, 1 << 8, 1 << 12]);
    let shape: Vec<usize> = (0..rank).map(|_| random.pick(&[2, 3, 4, 5, 6, 8]) * scale).collect();
    let ty = Type::new(DType::F32, &shape);
    let reduction = random.pick(&[Reduction::Sum, Reduction::Max]);
    let from = sharding(random, &mesh, &ty, reduction, 30);
    let to = sharding(random, &mesh, &ty, reduction, 10);
    (mesh, ty, from, to)
}

fn sharding(random: &mut Random, mesh: &Mesh, ty: &Type, reduction: Reduction, partial: usize) -> Sharding {
    let mut sharding = Sharding::whole(ty.rank());
    let pieces: Vec<Piece> = mesh.all_pieces().collect();
    for index in random.permutation(pieces.len()) {
        let piece = pieces[index];
        let dim = random.below(ty.rank());
        let parts = mesh.product(&sharding.dims[dim]) * mesh.size(piece);
        if random.chance(partial) {
            sharding.partial.push(piece);
            sharding.reduction = reduction;
        } else if random.chance(65) && parts <= ty.shape[dim] {
            sharding.dims[dim].push(piece);
        }
    }
    sharding.partial.sort_unstable();
    sharding
}

fn price_of(mesh: &Mesh, ty: &Type, from: &Sharding, step: &Step, to: &Sharding) -> f64 {
    let bytes = |sharding: &Sharding| sharding.local_type(mesh, ty).bytes();
    estimate(
        mesh,
        &Movement { step, pieces: step.pieces(), before: bytes(from), after: bytes(to), haste: Haste::Awaited },
    )
}

/// What a step makes of a sharding. A permutation may lead anywhere.
fn after(from: &Sharding, step: &Step, target: &Sharding) -> Sharding {
    let mut to = from.clone();
    let without = |partial: &mut Pieces, pieces: &Pieces| partial.retain(|piece| !pieces.contains(piece));
    match step {
        Step::AllGather { dim, pieces } => {
            assert!(to.dims[*dim].ends_with(pieces));
            let keep = to.dims[*dim].len() - pieces.len();
            to.dims[*dim].truncate(keep);
        }
        Step::AllReduce { pieces, reduction } => {
            assert_eq!(*reduction, from.reduction);
            without(&mut to.partial, pieces);
        }
        Step::AllToAll { from: gathered, to: split, pieces } => {
            assert!(to.dims[*gathered].ends_with(pieces));
            let keep = to.dims[*gathered].len() - pieces.len();
            to.dims[*gathered].truncate(keep);
            to.dims[*split].extend(pieces.iter().copied());
        }
        Step::Permute => to = target.clone(),
        Step::ReduceScatter { dim, pieces, reduction } => {
            assert_eq!(*reduction, from.reduction);
            without(&mut to.partial, pieces);
            to.dims[*dim].extend(pieces.iter().copied());
        }
        Step::Slice { dim, pieces } => to.dims[*dim].extend(pieces.iter().copied()),
        Step::Spread { pieces, reduction } => {
            to.partial.extend(pieces.iter().copied());
            to.partial.sort_unstable();
            to.reduction = *reduction;
        }
    }
    if to.partial.is_empty() {
        to.reduction = Reduction::default();
    }
    to
}

/// The price of putting everything together and taking it apart again.
fn plainest(mesh: &Mesh, ty: &Type, from: &Sharding, to: &Sharding) -> f64 {
    if from == to {
        return 0.0;
    }
    let mut steps = Vec::new();
    for (dim, pieces) in from.dims.iter().enumerate().filter(|(_, pieces)| !pieces.is_empty()) {
        steps.push(Step::AllGather { dim, pieces: *pieces });
    }
    if !from.partial.is_empty() {
        steps.push(Step::AllReduce { pieces: from.partial, reduction: from.reduction });
    }
    if !to.partial.is_empty() {
        steps.push(Step::Spread { pieces: to.partial, reduction: to.reduction });
    }
    for (dim, pieces) in to.dims.iter().enumerate().filter(|(_, pieces)| !pieces.is_empty()) {
        steps.push(Step::Slice { dim, pieces: *pieces });
    }
    let (mut at, mut price) = (from.clone(), 0.0);
    for step in &steps {
        let next = after(&at, step, to);
        price += price_of(mesh, ty, &at, step, &next);
        at = next;
    }
    price
}

/// The price of the shortest way, by looking at all of them.
fn shortest(mesh: &Mesh, ty: &Type, from: &Sharding, to: &Sharding) -> f64 {
    let key = |sharding: &Sharding| sharding.describe(mesh);
    let mut open: BTreeMap<String, (f64, Sharding)> = BTreeMap::from([(key(from), (0.0, from.clone()))]);
    let mut done: BTreeMap<String, f64> = BTreeMap::new();
    while let Some(nearest) =
        open.iter().min_by(|left, right| left.1.0.total_cmp(&right.1.0)).map(|(key, _)| key.clone())
    {
        let Some((price, at)) = open.remove(&nearest) else { break };
        if at == *to {
            return price;
        }
        done.insert(nearest, price);
        for (step, next) in steps(mesh, ty, &at, to) {
            let name = key(&next);
            let price = price + price_of(mesh, ty, &at, &step, &next);
            if !done.contains_key(&name) && open.get(&name).is_none_or(|(known, _)| price < *known) {
                open.insert(name, (price, next));
            }
        }
    }
    f64::INFINITY
}

/// All steps from a sharding, whether they lead to the target or not.
fn steps(mesh: &Mesh, ty: &Type, at: &Sharding, to: &Sharding) -> Vec<(Step, Sharding)> {
    let mut steps = Vec::new();
    let unused: Vec<Piece> = to.dims.iter().flatten().copied().filter(|&piece| !at.used().contains(piece)).collect();
    for dim in 0..ty.rank() {
        let pieces = &at.dims[dim];
        for keep in 0..pieces.len() {
            let pieces = Pieces::from_slice(&pieces[keep..]);
            let others = (0..ty.rank()).filter(|&other| other != dim);
            steps.extend(others.map(|to| Step::AllToAll { from: dim, to, pieces }));
            steps.push(Step::AllGather { dim, pieces });
        }
        steps.extend(lists(&unused).into_iter().map(|pieces| Step::Slice { dim, pieces }));
        let reduction = at.reduction;
        let scatter = |pieces| Step::ReduceScatter { dim, pieces, reduction };
        steps.extend(lists(&at.partial).into_iter().map(scatter));
    }
    let sorted = |pieces: &Pieces| pieces.windows(2).all(|pair| pair[0] < pair[1]);
    let reduction = at.reduction;
    let sums = lists(&at.partial).into_iter().filter(sorted);
    steps.extend(sums.map(|pieces| Step::AllReduce { pieces, reduction }));
    if at.partial.is_empty() || at.reduction == to.reduction {
        let reduction = to.reduction;
        let open: Vec<Piece> = to.partial.iter().copied().filter(|&piece| !at.used().contains(piece)).collect();
        let spreads = lists(&open).into_iter().filter(sorted);
        steps.extend(spreads.map(|pieces| Step::Spread { pieces, reduction }));
    }
    let parts = |pieces: &Pieces| mesh.product(pieces);
    if at.partial == to.partial && at.dims != to.dims && at.dims.iter().map(parts).eq(to.dims.iter().map(parts)) {
        steps.push(Step::Permute);
    }
    let lead = steps.into_iter().map(|step| {
        let next = after(at, &step, to);
        (step, next)
    });
    lead.filter(|(_, next)| is_possible(mesh, ty, at, next)).collect()
}

/// Parts that are padded have nothing to do with parts of another number, and there are no more parts
/// than elements.
fn is_possible(mesh: &Mesh, ty: &Type, from: &Sharding, to: &Sharding) -> bool {
    ty.shape.iter().enumerate().all(|(dim, &size)| {
        let is_padded = from.is_padded(mesh, dim, size) || to.is_padded(mesh, dim, size);
        let is_same = mesh.product(&from.dims[dim]) == mesh.product(&to.dims[dim]);
        let fits = mesh.product(&to.dims[dim]) <= size;
        fits && (!is_padded || is_same || from.dims[dim].is_empty() || to.dims[dim].is_empty())
    })
}

/// All lists of some of the pieces, without repetition.
fn lists(pieces: &[Piece]) -> Vec<Pieces> {
    let mut all: Vec<Pieces> = vec![Pieces::new()];
    let mut index = 0;
    while index < all.len() {
        for &piece in pieces {
            if !all[index].contains(&piece) {
                let mut longer = all[index];
                longer.push(piece);
                all.push(longer);
            }
        }
        index += 1;
    }
    all.split_off(1)
}

/// A program whose result comes out as `from` lies: a reduction over what is partial.
fn program(mesh: &Mesh, ty: &Type, from: &Sharding) -> Program {
    let mut builder = Builder::new("reshard");
    let mut shape = ty.shape.to_vec();
    shape.insert(0, mesh.product(&from.partial));
    let argument = builder.argument("argument", Type::new(ty.dtype, &shape));
    let binary = if from.reduction == Reduction::Max { Binary::Maximum } else { Binary::Add };
    let result = builder.reduce(binary, argument, 0.0, &[0]);
    builder.result("result", result);
    builder.program.compact()
}

/// A weight is stored in parts and read whole, of a narrower type.
#[test]
fn what_is_gathered_to_be_made_narrower_is_made_narrower_first() {
    let mesh = mesh("a=4");
    for (dtype, gathered) in [(DType::F16, DType::F16), (DType::F64, DType::F32)] {
        let mut builder = Builder::new("narrow");
        let weight = builder.argument("weight", Type::new(DType::F32, &[8, 2]));
        let converted = builder.convert(weight, dtype);
        builder.result("converted", converted);
        let program = builder.program.compact();
        let mut layout = Layout::new(&program, mesh.clone());
        let (argument, result) = (program.body().arguments[0], program.body().results[0]);
        layout.block(result, mesh.all_pieces().collect());
        layout.block_op(program.body().ops[0], mesh.all_pieces().collect());
        layout.cut(argument, 0, mesh.all_pieces().next().expect("a piece"));
        layout.propagate();
        let local = lower(&layout, &mut Ways::new(&mesh, &estimate)).expect("a local program");
        let is_gather = |op: &&OpId| matches!(local.program.ops[**op].op, Op::AllGather(_));
        let gathers: Vec<&OpId> = local.program.body().ops.iter().filter(is_gather).collect();
        let [&gather] = gathers[..] else { panic!("{}", local.program) };
        assert_eq!(local.program.ty(local.program.ops[gather].results[0]).dtype, gathered);
        let arguments = [Random::new(0).tensor(program.ty(argument))];
        let options = Options { wide: true };
        let expected = evaluate(&program, &arguments, options).expect("the program can be evaluated").results;
        let found = evaluate_partitioned(&local, &arguments, options).expect("devices can");
        assert_eq!(found, expected, "{}", local.program);
    }
}

/// The layout in which the reduction works as `from` says and its result lies as `to` says.
fn layout<'p>(program: &'p Program, mesh: &Mesh, from: &Sharding, to: &Sharding) -> Layout<'p> {
    let mut layout = Layout::new(program, mesh.clone());
    let (argument, result) = (program.body().arguments[0], program.body().results[0]);
    let all: PieceSet = mesh.all_pieces().collect();
    for (dim, pieces) in [&from.partial].into_iter().chain(&from.dims).enumerate() {
        for &piece in pieces {
            layout.cut(argument, dim, piece);
        }
    }
    for (dim, pieces) in to.dims.iter().enumerate() {
        for &piece in pieces {
            layout.cut(result, dim, piece);
        }
    }
    layout.block(argument, all);
    layout.block(result, all);
    let others: PieceSet = mesh.all_pieces().filter(|&piece| !from.used().contains(piece)).collect();
    for op in program.ops.ids() {
        if matches!(program.ops[op].op, Op::Reduce { .. }) {
            layout.block_op(op, others);
        }
    }
    layout.propagate();
    layout
}
