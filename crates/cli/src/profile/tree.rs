//! Modules as rows of a table: repeated layers are one row.

use meshwright::profile::{Module, Work};
use meshwright::program::Phase;

/// A module, or several that are alike, each with these numbers.
#[derive(Debug)]
pub(super) struct Row {
    /// How deep it stands.
    pub(super) level: usize,
    pub(super) name: String,
    /// How many it stands for inside of the row above it.
    pub(super) count: usize,
    pub(super) parameters: Spread,
    pub(super) forward: Spread,
    pub(super) backward: Spread,
    pub(super) update: Spread,
    pub(super) flops: Spread,
    pub(super) saved_activation_bytes: Spread,
}

/// From the least to the most of modules that are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Row {
    /// Whether there is nothing to tell of it.
    pub(super) fn is_empty(&self) -> bool {
        let spreads = [self.parameters, self.flops, self.saved_activation_bytes];
        spreads.iter().all(|spread| spread.most == 0.0)
    }
}

/// The tree down to some depth, in the order of the program, and what is in none of the outermost modules.
pub(super) fn rows(root: &Module, depth: usize, flops: &dyn Fn(Work) -> f64) -> Vec<Row> {
    let mut rows = Vec::new();
    let whole = Slot { name: "total".to_owned(), count: 1, modules: vec![Some(root)] };
    add(&whole, 0, depth, flops, &mut rows);
    if rows.len() > 1 {
        let outside = outside(root);
        let slot = Slot { name: "(elsewhere)".to_owned(), count: 1, modules: vec![Some(&outside)] };
        add(&slot, 1, depth, flops, &mut rows);
    }
    rows
}

/// What stands in no module, and parameters that several of them read.
fn outside(root: &Module) -> Module {
    let mut rest = Module { modules: Vec::new(), ..root.clone() };
    for inner in &root.modules {
        rest.ops -= inner.ops;
        rest.parameters -= inner.parameters;
        rest.saved_activation_bytes -= inner.saved_activation_bytes;
        // Sums of floats in another order may differ in their last digits.
        let less = |sum: f64, part: f64| if sum - part > 1e-9 * sum { sum - part } else { 0.0 };
        for (sum, work) in rest.work.iter_mut().zip(inner.work) {
            sum.matrix = less(sum.matrix, work.matrix);
            sum.padded_matrix = less(sum.padded_matrix, work.padded_matrix);
            sum.elementwise = less(sum.elementwise, work.elementwise);
        }
    }
    rest
}

/// A place in the tree. Where the modules around it are one row, it has a module for each of them, if
/// that one has such a place.
struct Slot<'m> {
    name: String,
    count: usize,
    modules: Vec<Option<&'m Module>>,
}

fn add(slot: &Slot<'_>, level: usize, depth: usize, flops: &dyn Fn(Work) -> f64, rows: &mut Vec<Row>) {
    let spread = |number: &dyn Fn(&Module) -> f64| {
        let numbers = || slot.modules.iter().map(|module| module.map_or(0.0, number));
        Spread { least: numbers().fold(f64::INFINITY, f64::min), most: numbers().fold(0.0, f64::max) }
    };
    rows.push(Row {
        level,
        name: slot.name.clone(),
        count: slot.count,
        parameters: spread(&|module| module.parameters as f64),
        forward: spread(&|module| flops(module.work(Phase::Forward))),
        backward: spread(&|module| flops(module.work(Phase::Backward))),
        update: spread(&|module| flops(module.work(Phase::Update))),
        flops: spread(&|module| flops(module.total_work())),
        saved_activation_bytes: spread(&|module| module.saved_activation_bytes as f64),
    });
    if level < depth {
        folded(inner(&slot.modules)).iter().for_each(|slot| add(slot, level + 1, depth, flops, rows));
    }
}

/// The places inside of modules, in the order in which they first appear.
fn inner<'m>(outer: &[Option<&'m Module>]) -> Vec<Slot<'m>> {
    let mut slots: Vec<Slot<'m>> = Vec::new();
    for (index, module) in outer.iter().enumerate() {
        for inner in module.iter().flat_map(|module| &module.modules) {
            let place = slots.iter().position(|slot| slot.name == inner.name).unwrap_or_else(|| {
                slots.push(Slot { name: inner.name.clone(), count: 1, modules: vec![None; outer.len()] });
                slots.len() - 1
            });
            slots[place].modules[index] = Some(inner);
        }
    }
    slots
}

/// Puts numbered places together whose modules are alike.
fn folded(slots: Vec<Slot<'_>>) -> Vec<Slot<'_>> {
    let mut folded: Vec<Slot<'_>> = Vec::new();
    // The numbers that each of the folded places stands for.
    let mut numbers: Vec<Vec<usize>> = Vec::new();
    for slot in slots {
        let (stem, number) = numbered(&slot.name);
        let is_like = |other: &Slot<'_>| {
            let (other_stem, other_number) = numbered(&other.name);
            other_number.is_some() && other_stem == stem && are_alike(&other.modules, &slot.modules)
        };
        match number.and_then(|_| folded.iter().position(is_like)) {
            Some(place) => {
                numbers[place].extend(number);
                folded[place].count += 1;
                folded[place].modules.extend(slot.modules);
            }
            None => {
                numbers.push(number.into_iter().collect());
                folded.push(slot);
            }
        }
    }
    for (slot, numbers) in folded.iter_mut().zip(numbers).filter(|(slot, _)| slot.count > 1) {
        slot.name = format!("{}{}", numbered(&slot.name).0, list(numbers));
    }
    folded
}

/// The name before its number, and the number.
fn numbered(name: &str) -> (&str, Option<usize>) {
    let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    (stem, name[stem.len()..].parse().ok())
}

/// Modules that are alike do about the same work.
const SAME_WORK: f64 = 1.1;

fn are_alike(left: &[Option<&Module>], right: &[Option<&Module>]) -> bool {
    match (left.iter().flatten().next(), right.iter().flatten().next()) {
        (Some(left), Some(right)) => is_like(left, right),
        _ => false,
    }
}

/// Whether two modules have the same parameters in the same places and do about the same work. What is kept
/// of them may differ: of the first and the last layer it often does.
fn is_like(left: &Module, right: &Module) -> bool {
    let with_parameters = |module: &Module| module.modules.iter().filter(|inner| inner.parameters > 0).count();
    let works = [left, right].map(|module| module.total_work().total());
    let is_inside = |inner: &Module| {
        let twin = right.modules.iter().find(|other| other.name == inner.name);
        twin.is_some_and(|twin| is_like(inner, twin))
    };
    left.parameters == right.parameters
        && works[0].max(works[1]) <= SAME_WORK * works[0].min(works[1])
        && with_parameters(left) == with_parameters(right)
        && left.modules.iter().filter(|inner| inner.parameters > 0).all(is_inside)
}

/// Runs of numbers: `0..11`, or `0,2,…,10` in steps of two.
fn list(mut numbers: Vec<usize>) -> String {
    numbers.sort_unstable();
    let step = numbers[1] - numbers[0];
    let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
    let is_even = numbers.windows(2).all(|pair| pair[1] - pair[0] == step);
    match (is_even, step) {
        (true, 1) => format!("{first}..{last}"),
        (true, _) if numbers.len() > 2 => format!("{first},{},…,{last}", numbers[1]),
        _ => {
            let runs = numbers.chunk_by(|left, right| left + 1 == *right);
            let run = |run: &[usize]| match run {
                [one] => one.to_string(),
                [first, .., last] => format!("{first}..{last}"),
                [] => String::new(),
            };
            runs.map(run).collect::<Vec<_>>().join(",")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(name: &str, parameters: usize, matrix: f64, modules: Vec<Module>) -> Module {
        let work = Work { matrix, padded_matrix: matrix, elementwise: 0.0 };
        let work = [work, Work::default(), Work::default()];
        Module { name: name.to_owned(), parameters, work, modules, ..Module::default() }
    }

    #[track_caller]
    fn check(modules: Vec<Module>, expected: &[&str]) {
        let parameters = modules.iter().map(|module| module.parameters).sum();
        let matrix = modules.iter().map(|module| module.total_work().matrix).sum();
        let root = module("", parameters, matrix, modules);
        let shown = |row: &Row| {
            format!("{}{} x{} {}-{}", " ".repeat(row.level), row.name, row.count, row.forward.least, row.forward.most)
        };
        let rows: Vec<String> = rows(&root, 9, &|work| work.total()).iter().map(shown).collect();
        let expected: Vec<&str> = [expected, &[" (elsewhere) x1 0-0"]].concat();
        assert_eq!(rows[1..], expected);
    }

    #[test]
    fn layers_alike_are_one_row_with_what_they_have() {
        let layer = |name: &str, matrix| module(name, 8, matrix, vec![module("attn", 8, matrix, Vec::new())]);
        check(
            vec![layer("0", 100.0), layer("1", 100.0), layer("2", 105.0)],
            &[" 0..2 x3 100-105", "  attn x1 100-105"],
        );
    }

    #[test]
    fn layers_that_differ_stay_apart() {
        let of = |parameters| move |name: &str| module(name, parameters, 10.0, Vec::new());
        let (dense, experts) = (of(8), of(64));
        let layers = vec![dense("layer_0"), experts("layer_1"), dense("layer_2"), experts("layer_3"), dense("layer_4")];
        check(layers, &[" layer_0,2,…,4 x3 10-10", " layer_1,3 x2 10-10"]);
        check(vec![of(8)("up"), of(8)("down")], &[" up x1 10-10", " down x1 10-10"]);
    }

    #[test]
    fn what_only_some_layers_have_counts_as_nothing_in_the_others() {
        let mask = module("mask", 0, 5.0, Vec::new());
        let layers = vec![module("0", 8, 100.0, vec![mask]), module("1", 8, 95.0, Vec::new())];
        check(layers, &[" 0..1 x2 95-100", "  mask x1 0-5"]);
    }

    #[test]
    fn numbers_become_runs() {
        assert_eq!(list(vec![0, 1, 2]), "0..2");
        assert_eq!(list(vec![4, 0, 2]), "0,2,…,4");
        assert_eq!(list(vec![0, 1, 2, 5, 7, 8]), "0..2,5,7..8");
        assert_eq!(list(vec![1, 3]), "1,3");
    }
}
