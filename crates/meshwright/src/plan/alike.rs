//! Bundles of layers alike, which share their decisions.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};

use super::bundle::{Bundle, Bundles};
use super::fixed::Fixed;
use super::told::Rewriting;
use crate::program::{OpId, Phase, Program, stretches};
use crate::shard::Layout;

/// Bundles by what they share.
#[derive(Clone, Debug)]
pub(super) struct Classes {
    /// The bundles of each class, in program order. Their ops are alike, one by one.
    pub(super) members: Vec<Vec<usize>>,
    /// Whether each class is of the forward pass.
    pub(super) is_forward: Vec<bool>,
    /// The class of each bundle.
    pub(super) of: Vec<usize>,
    /// Where each bundle stands in what repeats.
    pub(super) places: Vec<Option<Place>>,
}

/// A bundle of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The number of the stretch that repeats.
    pub(super) stretch: usize,
    pub(super) layer: usize,
    pub(super) layers: usize,
}

impl Classes {
    /// Layers are split into at most so many runs, each with classes of its own.
    /// What was decided differently before is not alike.
    pub(super) fn new(
        layout: &Layout<'_>,
        bundles: &Bundles,
        runs: usize,
        fixed: Option<&Fixed<'_>>,
        rewriting: &Rewriting,
    ) -> Classes {
        let key = |(number, bundle): (usize, &Bundle)| signature(layout, bundle, fixed, rewriting.is_again(number));
        let keys: Vec<u64> = bundles.list.iter().enumerate().map(key).collect();
        let count = keys.len();
        let mut classes = Classes {
            members: Vec::new(),
            is_forward: Vec::new(),
            of: vec![usize::MAX; count],
            places: vec![None; count],
        };
        for (number, stretch) in stretches(&keys).into_iter().enumerate() {
            let runs = runs.min(stretch.count);
            for position in 0..stretch.length {
                let first = classes.members.len();
                classes.members.resize(first + runs, Vec::new());
                for layer in 0..stretch.count {
                    let bundle = stretch.start + layer * stretch.length + position;
                    let class = first + layer * runs / stretch.count;
                    classes.members[class].push(bundle);
                    classes.of[bundle] = class;
                    classes.places[bundle] = Some(Place { stretch: number, layer, layers: stretch.count });
                }
            }
        }
        for bundle in 0..count {
            if classes.of[bundle] == usize::MAX {
                classes.of[bundle] = classes.members.len();
                classes.members.push(vec![bundle]);
            }
        }
        let is_forward = |members: &Vec<usize>| bundles.list[members[0]].phase == Phase::Forward;
        classes.is_forward = classes.members.iter().map(is_forward).collect();
        classes
    }
}

/// What is made again together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Together {
    /// A scope of which that was said, by its number.
    Scope(usize),
    /// A layer, by its stretch and its number there.
    Layer(usize, usize),
    /// A part of the model that is like no other.
    Part(u32),
    /// A bundle of no part.
    Alone(usize),
}

/// Equal for bundles whose ops are cut in the same ways and read each other in the same places.
fn signature(layout: &Layout<'_>, bundle: &Bundle, fixed: Option<&Fixed<'_>>, is_again: bool) -> u64 {
    let program = layout.program;
    let places: FxHashMap<OpId, usize> = bundle.ops.iter().enumerate().map(|(place, &op)| (op, place)).collect();
    let mut hasher = FxHasher::default();
    (bundle.phase, is_again).hash(&mut hasher);
    for &op in &bundle.ops {
        layout.rule(op).hash(&mut hasher);
        sign(program, op, &mut hasher);
        if let Some(fixed) = fixed {
            fixed.sign(op, &mut hasher);
        }
        for &operand in &program.ops[op].operands {
            program.producer(operand).and_then(|maker| places.get(&maker)).hash(&mut hasher);
        }
    }
    hasher.finish()
}

fn sign(program: &Program, op: OpId, hasher: &mut FxHasher) {
    let operation = &program.ops[op];
    operation.op.name().hash(hasher);
    for &value in operation.operands.iter().chain(&operation.results) {
        program.ty(value).hash(hasher);
    }
}
