//! Ops that read or write at computed positions, and ops that order elements.

use meshwright::program::{Binary, DType, Dims, Direction, Gather, Op, RegionId, Scatter, Shape, Type};

use crate::generator::{Entry, Generator, Quality};
use crate::random::Random;
use crate::reducing::push_reduced;

/// How the dimensions of a tensor that is indexed take part.
#[derive(Debug)]
struct Roles {
    shape: Vec<usize>,
    slice_sizes: Vec<usize>,
    batching: Vec<usize>,
    collapsed: Vec<usize>,
    indexed: Vec<usize>,
}

impl Roles {
    fn new(random: &mut Random) -> Roles {
        let rank = 1 + random.below(4);
        let mut roles =
            Roles { shape: Vec::new(), slice_sizes: Vec::new(), batching: vec![], collapsed: vec![], indexed: vec![] };
        for dim in 0..rank {
            let size = random.pick(&[1, 2, 2, 3, 4, 4, 5, 6]);
            let slice = match random.below(7) {
                0 => {
                    roles.batching.push(dim);
                    1
                }
                1 | 2 => {
                    roles.collapsed.push(dim);
                    roles.indexed.push(dim);
                    1
                }
                3 => {
                    roles.indexed.push(dim);
                    1 + random.below(size)
                }
                4 => {
                    roles.indexed.push(dim);
                    size
                }
                5 if random.chance(20) => {
                    roles.collapsed.push(dim);
                    1
                }
                5 => 1 + random.below(size),
                _ => size,
            };
            roles.shape.push(size);
            roles.slice_sizes.push(slice);
        }
        random.shuffle(&mut roles.indexed);
        roles
    }

    /// Sizes of the slices that are in the result.
    fn windows(&self) -> Vec<usize> {
        let is_kept = |dim: &usize| !self.collapsed.contains(dim) && !self.batching.contains(dim);
        (0..self.shape.len()).filter(is_kept).map(|dim| self.slice_sizes[dim]).collect()
    }
}

/// Where the index vectors stand.
#[derive(Debug)]
struct Indices {
    shape: Vec<usize>,
    vector_dim: usize,
    batching: Vec<usize>,
    /// Sizes but that of the vectors.
    counted: Vec<usize>,
}

impl Indices {
    fn new(random: &mut Random, roles: &Roles) -> Indices {
        let extra = random.below(3);
        let mut counted: Vec<(Option<usize>, usize)> =
            roles.batching.iter().map(|&dim| (Some(dim), roles.shape[dim])).collect();
        counted.extend((0..extra).map(|_| (None, random.pick(&[1, 2, 3, 4, 6]))));
        random.shuffle(&mut counted);
        let components = roles.indexed.len();
        let is_implicit = components == 1 && random.chance(50);
        let vector_dim = if is_implicit { counted.len() } else { random.below(counted.len() + 1) };
        let mut shape: Vec<usize> = counted.iter().map(|&(_, size)| size).collect();
        if !is_implicit {
            shape.insert(vector_dim, components);
        }
        let batching = roles.batching.iter().map(|&dim| {
            let place = counted.iter().position(|&(of, _)| of == Some(dim)).unwrap_or(0);
            if !is_implicit && place >= vector_dim { place + 1 } else { place }
        });
        let batching = batching.collect();
        Indices { shape, vector_dim, batching, counted: counted.into_iter().map(|(_, size)| size).collect() }
    }
}

/// A shape of counted sizes and windows, and where the windows are in it.
fn mix(random: &mut Random, counted: &[usize], windows: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let rank = counted.len() + windows.len();
    let mut places: Vec<usize> = random.permutation(rank).into_iter().take(windows.len()).collect();
    places.sort_unstable();
    let (mut counted, mut windows) = (counted.iter(), windows.iter());
    let shape = (0..rank).filter_map(|dim| if places.contains(&dim) { windows.next() } else { counted.next() });
    (shape.copied().collect(), places)
}

fn index_values(generator: &mut Generator, shape: &[usize]) -> Entry {
    let dtype = generator.random.pick(&[DType::I32, DType::I32, DType::I64, DType::U32, DType::I8]);
    generator.value(dtype, shape)
}

pub(crate) fn gather(generator: &mut Generator, _: usize) {
    let roles = Roles::new(&mut generator.random);
    let indices = Indices::new(&mut generator.random, &roles);
    let (_, offset_dims) = mix(&mut generator.random, &indices.counted, &roles.windows());
    let dtype = generator.random.pick(&[DType::F32, DType::F32, DType::I32, DType::Bool]);
    let operand = generator.value(dtype, &roles.shape);
    let positions = index_values(generator, &indices.shape);
    let gather = Gather {
        offset_dims: Dims::from_slice(&offset_dims),
        collapsed_slice_dims: Dims::from_slice(&roles.collapsed),
        operand_batching_dims: Dims::from_slice(&roles.batching),
        start_indices_batching_dims: Dims::from_slice(&indices.batching),
        start_index_map: Dims::from_slice(&roles.indexed),
        index_vector_dim: indices.vector_dim,
        slice_sizes: Shape::from_slice(&roles.slice_sizes),
        indices_are_sorted: false,
    };
    let value = generator.builder.gather(operand.value, positions.value, gather);
    // Lookups in parts are sums of parts.
    let quality = if operand.quality == Quality::Grid { Quality::Grid } else { Quality::Rough };
    generator.push(value, quality, operand.bound);
}

pub(crate) fn scatter(generator: &mut Generator, variant: usize) {
    let choices = [
        (Some(Binary::Add), DType::F32),
        (Some(Binary::Maximum), DType::F32),
        (Some(Binary::Add), DType::I32),
        (Some(Binary::Or), DType::Bool),
        (Some(Binary::Subtract), DType::F32),
        (None, DType::F32),
    ];
    let (binary, dtype) = choices[variant % choices.len()];
    let roles = Roles::new(&mut generator.random);
    let indices = Indices::new(&mut generator.random, &roles);
    let (updates, update_window_dims) = mix(&mut generator.random, &indices.counted, &roles.windows());
    let positions = index_values(generator, &indices.shape);
    let count = if generator.random.chance(15) { 2 } else { 1 };
    let inputs: Vec<Entry> = (0..count).map(|_| generator.value(dtype, &roles.shape)).collect();
    let updates: Vec<Entry> = (0..count).map(|_| generator.value(dtype, &updates)).collect();
    let scatter = Scatter {
        update_window_dims: Dims::from_slice(&update_window_dims),
        inserted_window_dims: Dims::from_slice(&roles.collapsed),
        input_batching_dims: Dims::from_slice(&roles.batching),
        scatter_indices_batching_dims: Dims::from_slice(&indices.batching),
        scatter_dims_to_operand_dims: Dims::from_slice(&roles.indexed),
        index_vector_dim: indices.vector_dim,
        indices_are_sorted: false,
        unique_indices: false,
    };
    let region = update_region(generator, binary, dtype, count);
    let operands: Vec<_> = inputs.iter().chain([&positions]).chain(&updates).map(|entry| entry.value).collect();
    let results = generator.builder.op(Op::Scatter(Box::new(scatter)), &operands, &[region]);
    for index in 0..count {
        let from = [inputs[index], updates[index]];
        match binary {
            Some(binary) => push_reduced(generator, results[index], binary, &from, 150),
            None => {
                generator.push_moved(results[index], &from);
            }
        }
    }
}

/// What a scatter does with an element and its update; without an op the update replaces it.
fn update_region(generator: &mut Generator, binary: Option<Binary>, dtype: DType, count: usize) -> RegionId {
    let region = generator.builder.program.add_region();
    let arguments: Vec<_> =
        (0..2 * count).map(|_| generator.builder.program.add_region_argument(region, Type::scalar(dtype))).collect();
    let results = (0..count)
        .map(|index| match binary {
            Some(binary) => generator
                .builder
                .inside(region, |builder| builder.binary(binary, arguments[index], arguments[count + index])),
            None => arguments[count + index],
        })
        .collect();
    generator.builder.program.regions[region].results = results;
    region
}

pub(crate) fn sort(generator: &mut Generator, _: usize) {
    let key = generator.any(DType::F32, 1);
    let dims = generator.dims(key);
    let key = if key.quality == Quality::Rough { generator.exact(DType::F32, &dims) } else { key };
    let payload = generator.value(DType::I32, &dims);
    let direction = generator.random.pick(&[Direction::Less, Direction::Greater]);
    let region = generator.builder.program.add_region();
    let types = [DType::F32, DType::F32, DType::I32, DType::I32];
    let arguments = types.map(|dtype| generator.builder.program.add_region_argument(region, Type::scalar(dtype)));
    let verdict = generator.builder.inside(region, |builder| builder.compare(direction, arguments[0], arguments[1]));
    generator.builder.program.regions[region].results = vec![verdict];
    let op = Op::Sort { dim: generator.random.below(dims.len()), stable: true };
    let results = generator.builder.op(op, &[key.value, payload.value], &[region]);
    generator.push(results[0], key.quality, key.bound);
    generator.push(results[1], Quality::Grid, 1.0);
}

pub(crate) fn top_k(generator: &mut Generator, _: usize) {
    let entry = generator.any(DType::F32, 2);
    let dims = generator.dims(entry);
    let entry = if entry.quality == Quality::Rough { generator.exact(DType::F32, &dims) } else { entry };
    let k = 1 + generator.random.below(dims[dims.len() - 1]);
    let results = generator.builder.op(Op::TopK { k }, &[entry.value], &[]);
    generator.push(results[0], entry.quality, entry.bound);
    generator.push(results[1], Quality::Grid, 1.0);
}
