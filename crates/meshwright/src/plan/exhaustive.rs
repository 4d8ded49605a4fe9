//! A test: under every limit the labelling of a small program is the cheapest of all labels that fit.
//!
//! Costs and memory are added up here from choices, flows and lives, at every time. Nothing is shared with what makes a
//! problem of them, reduces it, looks at memory at some times alone and solves it. Whether choices are all that there
//! should be is no matter of this test: `tests/alpa` holds that with ways taken from rules, where nothing limits memory.
//! So few ops have no layers alike, without which nothing is made again.

use meshwright_solver::problem::{Cost, FORBIDDEN, scaled};

use super::choices::Choice;
use super::graph::{Flow, Kind, Origin, Reader};
use super::label::{Effort, Label, Until};
use super::lives::Mode;
use super::moves::{Moves, Place};
use super::parts::Parts;
use super::search::Request;
use super::sketch::Sketch;
use super::space::{FIRST_EXPOSURE, Space};
use crate::cluster::parse;
use crate::import::import;
use crate::lower::Haste;
use crate::simulate::{Engine, engine};

#[path = "../../tests/small_programs/mod.rs"]
mod small_programs;

const FREE: u64 = u64::MAX / 4;

/// What became of all cases.
#[derive(Debug, Default)]
struct Counts {
    cases: usize,
    /// Memory made it dearer.
    bound: usize,
    /// Nothing fits.
    refused: usize,
}

#[test]
fn labels_are_the_cheapest_of_all_that_fit() {
    let is_long = option_env!("LONG").is_some();
    let generated = if is_long { 40 } else { 4 };
    let cluster = parse("4xa100-80g").expect("a cluster");
    let engine = Engine { reserved_bytes: 0, fragmentation: 0.0, ..engine("xla").expect("an engine").clone() };
    let mut counts = Counts::default();
    for small in small_programs::small_programs(512, generated) {
        let imported = import(&small.text.clone().into());
        let program = imported.program.unwrap_or_else(|| panic!("{}: {:?}", small.name, imported.diagnostics));
        let has_state = program.anatomy().next.iter().any(Option::is_some);
        for microbatches in [1, 2].into_iter().filter(|&count| count == 1 || has_state || is_long) {
            let request = Request {
                program: &program,
                cluster: &cluster,
                engine: &engine,
                limit_bytes: FREE,
                microbatches: Some(microbatches),
                told: None,
                mesh: None,
            };
            request.in_space(|space| check(&small.name, space, &mut counts)).expect("a space");
        }
    }
    let Counts { cases, bound, refused } = counts;
    assert!(bound > cases / 10 && refused > cases / 10, "{counts:?}");
}

/// All meshes, both ways to gather and reduce, under limits from what binds nothing to what nothing fits.
fn check(name: &str, space: &Space<'_>, counts: &mut Counts) {
    for sketched in space.within().chain(space.across()).flat_map(|mesh| space.sketches(mesh, 0)) {
        let sketch = &sketched.sketch;
        let free =
            sketch.label(FREE, FIRST_EXPOSURE, None, Until::spent(Effort::Much)).expect("what has no limit fits");
        for share in [1.0, 0.9, 0.7, 0.5, 0.3] {
            let limit_bytes = (free.peak_bytes as f64 * share) as u64;
            let labelled = sketch.label(limit_bytes, FIRST_EXPOSURE, None, Until::spent(Effort::Much));
            let case = format!("{name} on {} with {share} of its memory", sketch.frame.mesh);
            let told = labelled.as_ref().map_or(FORBIDDEN, |it| scaled(it.seconds, sketch.ground.costs.unit));
            if let Some(labelled) = &labelled {
                let own = Search::new(sketch, limit_bytes, Some(&labelled.labels)).cheapest(FORBIDDEN);
                assert_eq!(own, told, "{case}: labels do not cost what is told");
            }
            // Were it one more, what was found would have to be found here too.
            let least = Search::new(sketch, limit_bytes, None).cheapest(told.saturating_add(1));
            assert_eq!(least, told, "{case}: other labels fit and are cheaper");
            counts.cases += 1;
            counts.bound += usize::from(labelled.as_ref().is_some_and(|labelled| labelled.seconds > free.seconds));
            counts.refused += usize::from(labelled.is_none());
        }
    }
}

/// Something to be decided: the label of a class, or where a flow is brought for all its readers.
struct Decision {
    /// What each label costs by itself, and its bytes at every time.
    costs: Vec<Cost>,
    bytes: Vec<Vec<u64>>,
    /// What it costs besides with each label of a decision before.
    tables: Vec<Table>,
}

struct Table {
    before: usize,
    /// By the label of the decision before, then by the own.
    costs: Vec<Vec<Cost>>,
}

struct Search {
    decisions: Vec<Decision>,
    limit_bytes: u64,
    /// The least that all decisions from one on take at every time, and cost.
    least_bytes: Vec<Vec<u64>>,
    least_costs: Vec<Cost>,
    chosen: Vec<usize>,
    best: Cost,
}

impl Search {
    /// `only` are the labels of classes, where these are given.
    fn new(sketch: &Sketch<'_>, limit_bytes: u64, only: Option<&[Label]>) -> Search {
        let decisions = Making::new(sketch, only).decisions();
        let steps = sketch.lives.steps + 1;
        let (mut least_bytes, mut least_costs) = (vec![vec![0; steps]], vec![0]);
        for decision in decisions.iter().rev() {
            let own = |label: usize| {
                let least = |table: &Table| table.costs.iter().map(|row| row[label]).min();
                decision.tables.iter().filter_map(least).fold(decision.costs[label], added)
            };
            let least = (0..decision.costs.len()).map(own).min().unwrap_or(FORBIDDEN);
            least_costs.push(added(least, least_costs[least_costs.len() - 1]));
            let after = &least_bytes[least_bytes.len() - 1];
            let at = |step: usize| decision.bytes.iter().map(|bytes| bytes[step]).min().unwrap_or(0) + after[step];
            least_bytes.push((0..steps).map(at).collect());
        }
        least_bytes.reverse();
        least_costs.reverse();
        Search { decisions, limit_bytes, least_bytes, least_costs, chosen: Vec::new(), best: FORBIDDEN }
    }

    /// The least that anything costs that fits, or what is known if nothing costs less.
    fn cheapest(mut self, known: Cost) -> Cost {
        self.best = known;
        let nothing = vec![0; self.least_bytes[0].len()];
        self.descend(0, &nothing);
        self.best
    }

    /// Tries all labels of the next decision with those chosen before. What cannot become cheaper than the best, or
    /// cannot fit whatever follows, is left.
    fn descend(&mut self, cost: Cost, bytes: &[u64]) {
        let number = self.chosen.len();
        if number == self.decisions.len() {
            self.best = cost;
            return;
        }
        for label in 0..self.decisions[number].costs.len() {
            let decision = &self.decisions[number];
            let together = decision.tables.iter().map(|table| table.costs[self.chosen[table.before]][label]);
            let cost = added(cost, together.fold(decision.costs[label], added));
            if added(cost, self.least_costs[number + 1]) >= self.best {
                continue;
            }
            let bytes: Vec<u64> = bytes.iter().zip(&decision.bytes[label]).map(|(sum, own)| sum + own).collect();
            let fits = |(sum, least): (&u64, &u64)| sum + least <= self.limit_bytes;
            if bytes.iter().zip(&self.least_bytes[number + 1]).all(fits) {
                self.chosen.push(label);
                self.descend(cost, &bytes);
                self.chosen.pop();
            }
        }
    }
}

/// Where a flow is brought, and whether that is a copy beside what is stored.
#[derive(Clone, Copy)]
struct Brought {
    place: Place,
    is_copy: bool,
}

/// Where a value is under a label of who makes or reads it.
type End = (Place, Mode);

/// Decisions under way.
struct Making<'s, 'g> {
    sketch: &'s Sketch<'g>,
    parts: Parts<'s>,
    awaited: Moves<'s>,
    combined: Moves<'s>,
    labels: Vec<Vec<Label>>,
    /// In the order in which they are made: classes, and flows with several readers after the first who has to do with
    /// them.
    order: Vec<Subject>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Class(usize),
    Flow { after: usize, flow: usize },
}

impl<'s, 'g> Making<'s, 'g> {
    fn new(sketch: &'s Sketch<'g>, only: Option<&[Label]>) -> Making<'s, 'g> {
        let price = sketch.ground.costs.price;
        let parts = Parts { program: sketch.ground.program, axes: &sketch.axes, time: &sketch.time };
        let all = |(class, choices): (usize, &Vec<Choice>)| -> Vec<Label> {
            let modes = &sketch.lives.modes[class];
            let labels = (0..choices.len()).flat_map(|choice| modes.iter().map(move |&mode| Label { choice, mode }));
            only.map_or_else(|| labels.collect(), |only| vec![only[class]])
        };
        let labels: Vec<Vec<Label>> = sketch.choices.iter().enumerate().map(all).collect();
        let flows = sketch.graph.flows.iter().enumerate().filter_map(|(flow, it)| {
            let readers = readers(it);
            let classes = readers.iter().map(|reader| reader.class).chain([it.origin.class()]);
            let is_brought = readers.len() > usize::from(!it.is_early);
            is_brought.then_some(Subject::Flow { after: classes.min()?, flow })
        });
        let mut order: Vec<Subject> = (0..labels.len()).map(Subject::Class).chain(flows).collect();
        order.sort_by_key(|subject| match *subject {
            Subject::Class(class) => (class, 0),
            Subject::Flow { after, flow } => (after, flow + 1),
        });
        let moves = |haste: Haste| Moves::new(&sketch.frame.mesh, &sketch.axes, price, &sketch.prices, haste);
        let (awaited, combined) = (moves(Haste::Awaited), moves(Haste::Combined));
        Making { sketch, parts, awaited, combined, labels, order }
    }

    fn decisions(mut self) -> Vec<Decision> {
        let mut decisions: Vec<Decision> = Vec::new();
        for subject in self.order.clone() {
            decisions.push(match subject {
                Subject::Class(class) => self.of_class(class),
                Subject::Flow { flow, .. } => self.of_flow(flow),
            });
        }
        for number in 0..self.sketch.graph.flows.len() {
            self.charge(number, &mut decisions);
        }
        decisions
    }

    fn of_class(&self, class: usize) -> Decision {
        let Sketch { choices, classes, lives, ground, .. } = self.sketch;
        let cost = |label: &Label| {
            let choice = &choices[class][label.choice];
            let times = classes.members[class].len() as f64 * if label.mode == Mode::Again { 2.0 } else { 1.0 };
            scaled(times * (choice.compute_seconds + choice.inner_seconds), ground.costs.unit)
        };
        let bytes = |label: &Label| {
            let mut changes = vec![0; lives.steps + 1];
            lives.add(&self.parts, class, &choices[class][label.choice], label.mode, &mut changes);
            let sums = changes.iter().scan(0, |sum, change| {
                *sum += change;
                Some(*sum as u64)
            });
            sums.collect()
        };
        let labels = &self.labels[class];
        Decision {
            costs: labels.iter().map(cost).collect(),
            bytes: labels.iter().map(bytes).collect(),
            tables: Vec::new(),
        }
    }

    /// Where a flow may be brought: where somebody wants it. What is brought before a loop is a copy, which is there
    /// until the loop ends, unless it is stored so.
    fn places(&self, flow: &Flow) -> Vec<Brought> {
        let mut places: Vec<Place> = Vec::new();
        for reader in readers(flow) {
            // All choices count, also where labels are given.
            places.extend(self.sketch.choices[reader.class].iter().map(|choice| reader.place(choice)));
        }
        places.sort_unstable();
        places.dedup();
        let brought = |is_copy: bool| places.iter().map(move |&place| Brought { place, is_copy });
        if flow.is_early { brought(false).chain(brought(true)).collect() } else { brought(false).collect() }
    }

    fn of_flow(&self, flow: usize) -> Decision {
        let (flow, lives) = (&self.sketch.graph.flows[flow], &self.sketch.lives);
        let bytes = |brought: &Brought| {
            let own = flow.count as u64 * self.parts.bytes(flow.value, brought.place);
            (0..=lives.steps).map(|step| if brought.is_copy && step < lives.loop_end { own } else { 0 }).collect()
        };
        let places = self.places(flow);
        Decision { costs: vec![0; places.len()], bytes: places.iter().map(bytes).collect(), tables: Vec::new() }
    }

    /// Adds what a flow costs to the decisions that it is between.
    fn charge(&mut self, number: usize, decisions: &mut [Decision]) {
        let (sketch, flow) = (self.sketch, &self.sketch.graph.flows[number]);
        let froms = self.ends(flow.origin.class(), |choice| match flow.origin.place(choice) {
            place if flow.is_finished => place.finished(sketch.axes.len()),
            place => place,
        });
        let is_own = |subject: &Subject| matches!(subject, Subject::Flow { flow, .. } if *flow == number);
        let brought = self.order.iter().position(is_own).map(|own| (own, self.places(flow)));
        let origin = self.at(flow.origin.class());
        if let Some((own, places)) = &brought {
            let mut cost = |&(from, _): &End, to: &Brought| {
                let is_there = !flow.is_early || to.is_copy || from == to.place;
                if is_there { self.price(flow, flow.kind, from, to.place, Mode::Kept) } else { FORBIDDEN }
            };
            add(decisions, origin, *own, table(&froms, places, &mut cost));
        }
        for reader in readers(flow) {
            let (number, tos) = (self.at(reader.class), self.ends(reader.class, |choice| reader.place(choice)));
            let is_made = matches!(flow.origin, Origin::Made { .. });
            let mut cost = |&(from, made): &End, &(to, read): &End| match (made, read) {
                // What is made again finds what it reads.
                (Mode::Gone, Mode::Again) if is_made => FORBIDDEN,
                _ if brought.is_some() => 0,
                _ => self.price(flow, flow.kind, from, to, read),
            };
            add(decisions, origin, number, table(&froms, &tos, &mut cost));
            if let Some((own, places)) = &brought {
                let mut cost = |from: &Brought, &(to, read): &End| {
                    let is_there = !flow.is_early || from.place.holds(to, sketch.axes.len());
                    if is_there { self.price(flow, flow.kind.onward(), from.place, to, read) } else { FORBIDDEN }
                };
                add(decisions, *own, number, table(places, &tos, &mut cost));
            }
        }
    }

    /// Where the decision about a class is.
    fn at(&self, class: usize) -> usize {
        self.order.iter().take_while(|&&subject| subject != Subject::Class(class)).count()
    }

    fn ends(&self, class: usize, place: impl Fn(&Choice) -> Place) -> Vec<End> {
        let end = |label: &Label| (place(&self.sketch.choices[class][label.choice]), label.mode);
        self.labels[class].iter().map(end).collect()
    }

    /// What it costs to bring a flow somewhere, once more where it is read again.
    fn price(&mut self, flow: &Flow, kind: Kind, from: Place, to: Place, mode: Mode) -> Cost {
        if !self.parts.may_move(flow.value, from, to) {
            return FORBIDDEN;
        }
        let is_combined = kind == Kind::Gradient && flow.is_combined || kind == Kind::Weight && flow.is_early;
        let moves = if is_combined { &mut self.combined } else { &mut self.awaited };
        let is_hidden = !flow.is_alone && kind != Kind::Activation;
        let exposed = if is_hidden { FIRST_EXPOSURE.forward.moving } else { 1.0 };
        let times = (flow.count * flow.times) as f64 * exposed * if mode == Mode::Again { 2.0 } else { 1.0 };
        scaled(times * moves.seconds(self.parts.moved(flow).ty(from, to), from, to), self.sketch.ground.costs.unit)
    }
}

/// Those who read a flow, but for the one that says how it lies.
fn readers(flow: &Flow) -> Vec<Reader> {
    let is_itself = |reader: &Reader| matches!(flow.origin, Origin::Read { class, .. } if class == reader.class);
    flow.readers.iter().copied().filter(|reader| !is_itself(reader)).collect()
}

fn table<F, T>(froms: &[F], tos: &[T], cost: &mut dyn FnMut(&F, &T) -> Cost) -> Vec<Vec<Cost>> {
    froms.iter().map(|from| tos.iter().map(|to| cost(from, to)).collect()).collect()
}

/// Adds a table between two decisions, by the labels of the first and then of the second.
fn add(decisions: &mut [Decision], first: usize, second: usize, table: Vec<Vec<Cost>>) {
    if first == second {
        for (label, cost) in decisions[first].costs.iter_mut().enumerate() {
            *cost = added(*cost, table[label][label]);
        }
        return;
    }
    let turned = |column: usize| table.iter().map(|row| row[column]).collect();
    let (before, later) = (first.min(second), first.max(second));
    let costs = if first < second { table } else { (0..table[0].len()).map(turned).collect() };
    decisions[later].tables.push(Table { before, costs });
}

fn added(left: Cost, right: Cost) -> Cost {
    if left == FORBIDDEN || right == FORBIDDEN { FORBIDDEN } else { left.saturating_add(right) }
}
