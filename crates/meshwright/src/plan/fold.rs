//! Values of layers alike, treated alike.
//!
//! A tape repeats its layers. Values at the same place of neighboring layers form a class and share their label,
//! so that a step of many layers is not harder to plan than one of a few. Layers are split into a few runs, each
//! with classes of its own: that is fine enough to come close to a limit, since every value has its own.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

use super::clock::Clock;
use super::labels::Label;
use super::tape::Tape;
use crate::program::stretches;

/// Tapes on which fewer values can be made again are not folded.
const FEW: usize = 150;
/// How many runs the layers are split into at most.
const RUNS: usize = 4;

/// For each value, the number of its class. Values of a class have labels that mean the same.
pub(super) fn classes(tape: &Tape, clock: &Clock, labels: &[Vec<Label>]) -> Vec<usize> {
    if tape.values.iter().filter(|value| value.cost.is_some()).count() < FEW {
        return (0..tape.values.len()).collect();
    }
    let places = places(tape);
    let mut numbers: BTreeMap<(Class, Vec<Meaning>), usize> = BTreeMap::new();
    let mut classes = Vec::with_capacity(labels.len());
    for (index, labels) in labels.iter().enumerate() {
        let value = &tape.values[index];
        let relative = |step: usize| match clock.owners.get(&step) {
            _ if value.late.last() == Some(&step) => Relative::Own,
            Some(&owner) => places[index].to(places[owner], owner),
            None => Relative::Absolute(step),
        };
        let meaning = |label: &Label| [label.again, label.until].map(|step| step.map(relative));
        let key = (places[index].class(index), labels.iter().map(meaning).collect());
        let next = numbers.len();
        classes.push(*numbers.entry(key).or_insert(next));
    }
    classes
}

/// Where a value stands in what repeats.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The number of the stretch that repeats, `None` for what stands outside of all.
    stretch: Option<usize>,
    /// The layer, and the place in it.
    layer: usize,
    position: usize,
    run: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Single(usize),
    Run { stretch: usize, run: usize, position: usize },
}

/// A step as seen from a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Relative {
    /// Its own last reader.
    Own,
    Absolute(usize),
    Layers {
        stretch: usize,
        position: usize,
        distance: isize,
    },
}

/// When a value is made again, and until when it lives, as seen from it.
type Meaning = [Option<Relative>; 2];

impl Place {
    fn class(self, index: usize) -> Class {
        match self.stretch {
            Some(stretch) => Class::Run { stretch, run: self.run, position: self.position },
            None => Class::Single(index),
        }
    }

    fn to(self, other: Place, index: usize) -> Relative {
        match (self.stretch, other.stretch) {
            (Some(_), Some(stretch)) => {
                let distance = other.layer as isize - self.layer as isize;
                Relative::Layers { stretch, position: other.position, distance }
            }
            _ => Relative::Absolute(index),
        }
    }
}

fn places(tape: &Tape) -> Vec<Place> {
    let keys: Vec<u64> = (0..tape.values.len()).map(|index| look(tape, index)).collect();
    let nowhere = Place { stretch: None, layer: 0, position: 0, run: 0 };
    let mut places = vec![nowhere; keys.len()];
    for (number, stretch) in stretches(&keys).into_iter().enumerate() {
        let runs = stretch.count.min(RUNS);
        for layer in 0..stretch.count {
            for position in 0..stretch.length {
                let run = layer * runs / stretch.count;
                let index = stretch.start + layer * stretch.length + position;
                places[index] = Place { stretch: Some(number), layer, position, run };
            }
        }
    }
    places
}

/// Equal for values that look the same.
fn look(tape: &Tape, index: usize) -> u64 {
    let value = &tape.values[index];
    let mut hasher = FxHasher::default();
    (value.bytes, value.cost, value.reads.len(), value.late.len()).hash(&mut hasher);
    (value.is_copy, value.early.is_some(), value.is_taken_late).hash(&mut hasher);
    hasher.finish()
}
