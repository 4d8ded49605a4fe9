//! The cheapest of all ways to cut the ops of a program, op by op from its rule, under the additive cost: what every value
//! takes to be finished, and to be brought to whoever wants it otherwise.
//!
//! Ops are gone through in order. Of all beginnings that leave the values read later in the same places only the cheapest
//! is kept, so nothing is left out. None of it knows of bundles, classes, labels or a solver.

use std::collections::BTreeMap;

use meshwright::lower::{Haste, Price, Ways};
use meshwright::plan::{OpRecipe, Recipe};
use meshwright::program::{Op, OpId, Program, ValueId};
use meshwright::shard::{FactorId, Kind, Layout, Mesh, Piece, Reduction, Sharding, Strategy};

/// What is cheapest.
#[derive(Clone, Debug)]
pub(crate) struct Cheapest {
    pub(crate) cost: f64,
    pub(crate) recipe: Recipe,
}

/// The least that moving values costs over all ways to cut the ops of a program by whole axes, and how; `None` where
/// every way costs more than `most`. Products are cut as far as they can be, arguments that are no state lie as their
/// first reader wants them, and state lies as its next value.
pub(crate) fn cheapest(program: &Program, mesh: &Mesh, price: Price<'_>, most: f64) -> Option<Cheapest> {
    let layout = Layout::new(program, mesh.clone());
    let mut search = Search::new(&layout, price, most);
    let ops: Vec<OpId> = layout.ops().iter().copied().filter(|&op| search.is_cut(op)).collect();
    let ways: Vec<Vec<Way>> = ops.iter().map(|&op| search.ways(op)).collect();
    let mut beginnings = search.arguments();
    for (&op, ways) in ops.iter().zip(&ways) {
        let mut next: BTreeMap<Frontier, Beginning> = BTreeMap::new();
        for (frontier, &beginning) in &beginnings {
            for way in ways.iter().enumerate() {
                search.extend(op, way, frontier.clone(), beginning, &mut next);
            }
        }
        beginnings = next;
    }
    let best = beginnings.into_values().min_by(|left, right| left.cost.total_cmp(&right.cost))?;
    Some(Cheapest { cost: best.cost, recipe: search.recipe(&ops, &ways, best.last) })
}

/// The number of a sharding among all that were met.
type Place = u16;

/// An argument that nobody has read.
const NOWHERE: Place = Place::MAX;

/// A value that is read later: where it lies, and where else it has been brought in each pass.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Live {
    value: ValueId,
    lies: Place,
    brought: Vec<(bool, Place)>,
}

type Frontier = Vec<Live>;

/// What was decided so far: what it costs, and the number of the last step.
#[derive(Clone, Copy, Debug)]
struct Beginning {
    cost: f64,
    last: usize,
}

/// One more thing that was decided.
#[derive(Clone, Copy, Debug)]
enum Step {
    Start,
    /// An argument of state lies somewhere.
    Stored {
        before: usize,
        value: ValueId,
        lies: Place,
    },
    /// The next op runs in one way, and its result was brought somewhere.
    Ran {
        before: usize,
        way: usize,
        lies: Place,
    },
}

/// One way to run an op.
struct Way {
    strategy: Strategy,
    /// `None` for what is there wherever it is used.
    wanted: Vec<Option<Place>>,
    made: Place,
}

struct Search<'s, 'p> {
    layout: &'s Layout<'p>,
    prices: Ways<'s>,
    /// What costs more is left.
    most: f64,
    known: BTreeMap<(ValueId, Place, Place), f64>,
    places: Vec<Sharding>,
    steps: Vec<Step>,
    /// Of each value the ops that read it, in order.
    readers: BTreeMap<ValueId, Vec<OpId>>,
    /// The argument that a value is the next value of.
    argument_of: BTreeMap<ValueId, ValueId>,
}

impl<'s, 'p> Search<'s, 'p> {
    fn new(layout: &'s Layout<'p>, price: Price<'s>, most: f64) -> Search<'s, 'p> {
        let body = layout.program.body();
        let mut readers: BTreeMap<ValueId, Vec<OpId>> = BTreeMap::new();
        for &op in layout.ops() {
            for &operand in &layout.program.ops[op].operands {
                readers.entry(operand).or_default().push(op);
            }
        }
        let next = body.arguments.iter().zip(&layout.anatomy.next);
        let argument_of = next.filter_map(|(&argument, next)| Some((body.results[(*next)?], argument))).collect();
        let prices = Ways::new(&layout.mesh, price);
        Search {
            layout,
            prices,
            most,
            known: BTreeMap::new(),
            places: Vec::new(),
            steps: vec![Step::Start],
            readers,
            argument_of,
        }
    }

    fn place(&mut self, sharding: &Sharding) -> Place {
        let known = self.places.iter().position(|place| place == sharding);
        known.unwrap_or_else(|| {
            self.places.push(sharding.clone());
            self.places.len() - 1
        }) as Place
    }

    fn finished(&mut self, place: Place) -> Place {
        let finished = self.places[usize::from(place)].finished();
        self.place(&finished)
    }

    /// Numbers cost nothing to move, and what is made of constants is made anew.
    fn is_cut(&self, op: OpId) -> bool {
        self.layout.program.ops[op].results.iter().all(|&result| !self.is_anywhere(result))
    }

    fn is_anywhere(&self, value: ValueId) -> bool {
        self.layout.is_free(value) || self.layout.program.ty(value).elements() == 1
    }

    fn price(&mut self, value: ValueId, from: Place, to: Place) -> f64 {
        if from == to {
            return 0.0;
        }
        let (prices, places, ty) = (&mut self.prices, &self.places, self.layout.program.ty(value));
        let place = |place: Place| &places[usize::from(place)];
        let find = || prices.price(ty, place(from), place(to), Haste::Awaited).unwrap_or(f64::INFINITY);
        *self.known.entry((value, from, to)).or_insert_with(find)
    }

    /// State lies anywhere; other arguments nowhere yet.
    fn arguments(&mut self) -> BTreeMap<Frontier, Beginning> {
        let mut beginnings = BTreeMap::from([(Frontier::new(), Beginning { cost: 0.0, last: 0 })]);
        for &value in &self.layout.program.body().arguments {
            let is_state = self.argument_of.values().any(|&argument| argument == value);
            let places = if is_state { self.everywhere(value) } else { vec![NOWHERE] };
            let mut next = BTreeMap::new();
            for (frontier, Beginning { cost, last }) in beginnings {
                for &lies in &places {
                    let live = Live { value, lies, brought: Vec::new() };
                    self.steps.push(Step::Stored { before: last, value, lies });
                    let last = self.steps.len() - 1;
                    next.insert([&frontier[..], &[live]].concat(), Beginning { cost, last });
                }
            }
            beginnings = next;
        }
        beginnings
    }

    /// All ways to cut a value by whole axes into equal parts.
    fn everywhere(&mut self, value: ValueId) -> Vec<Place> {
        let (mesh, shape) = (&self.layout.mesh, self.layout.program.shape(value));
        let mut found = vec![Sharding::whole(shape.len())];
        for axis in (0..mesh.axes.len()).filter(|&axis| mesh.axes[axis].size > 1) {
            for index in 0..found.len() {
                for (dim, size) in shape.iter().enumerate() {
                    let mut lies = found[index].clone();
                    lies.dims[dim].extend(mesh.pieces(axis));
                    if size.is_multiple_of(mesh.product(&lies.dims[dim])) {
                        found.push(lies);
                    }
                }
            }
        }
        found.iter().map(|sharding| self.place(sharding)).collect()
    }

    /// Every axis cuts one of the factors, or carries parts of sums on, or does nothing.
    fn ways(&mut self, op: OpId) -> Vec<Way> {
        let (layout, mesh, rule) = (self.layout, &self.layout.mesh, self.layout.rule(op));
        let mut ways = Vec::new();
        for strategy in strategies(layout, op) {
            let own = strategy.result(rule, mesh, &rule.results[0]);
            let spare = (0..mesh.axes.len()).filter(|&axis| mesh.axes[axis].size > 1);
            let spare: Vec<usize> = spare.filter(|&axis| !strategy.used().contains(mesh.pieces(axis)[0])).collect();
            // What is carried on, by which operands and as parts of what.
            let mut carried: Vec<(Vec<Piece>, &[u16], Reduction)> = vec![(Vec::new(), &[], Reduction::Sum)];
            for carry in rule.carries.iter().filter(|_| own.partial.is_empty()) {
                let reductions = [Reduction::Sum, Reduction::Max].into_iter();
                for reduction in reductions.filter(|&own| carry.reduction.is_none_or(|allowed| allowed == own)) {
                    for set in 1..1_u32 << spare.len() {
                        let axes = spare.iter().enumerate().filter(|(bit, _)| set >> bit & 1 == 1);
                        let pieces = axes.flat_map(|(_, &axis)| mesh.pieces(axis)).collect();
                        carried.push((pieces, &carry.operands, reduction));
                    }
                }
            }
            for (pieces, operands, reduction) in carried {
                let with_parts = |mut sharding: Sharding, is_carried: bool| {
                    if is_carried && !pieces.is_empty() {
                        (sharding.partial, sharding.reduction) = (pieces.iter().copied().collect(), reduction);
                    }
                    sharding
                };
                let wanted = rule.operands.iter().enumerate().map(|(index, labels)| {
                    let sharding = strategy.sharding(rule, mesh, labels);
                    let is_anywhere = self.is_anywhere(layout.program.ops[op].operands[index]);
                    let sharding = with_parts(sharding, operands.contains(&(index as u16)));
                    (!is_anywhere).then(|| self.place(&sharding))
                });
                let wanted = wanted.collect();
                let made = self.place(&with_parts(own.clone(), true));
                ways.push(Way { strategy: strategy.clone(), wanted, made });
            }
        }
        ways
    }

    /// Adds all that an op run in one way can lead to.
    fn extend(
        &mut self,
        op: OpId,
        (number, way): (usize, &Way),
        mut frontier: Frontier,
        beginning: Beginning,
        next: &mut BTreeMap<Frontier, Beginning>,
    ) {
        let operation = &self.layout.program.ops[op];
        let mut cost = beginning.cost;
        for (&operand, wanted) in operation.operands.iter().zip(&way.wanted) {
            let Some(wanted) = *wanted else { continue };
            cost += self.read(op, operand, wanted, &mut frontier);
            if cost > self.most {
                return;
            }
        }
        let result = operation.results[0];
        let places = self.targets(result, way.made, &frontier);
        frontier.retain(|live| self.is_live(live.value, op));
        for lies in places {
            let cost = cost + self.price(result, way.made, lies);
            let mut frontier = frontier.clone();
            if self.is_live(result, op) {
                frontier.push(Live { value: result, lies, brought: Vec::new() });
            }
            if cost <= self.most && next.get(&frontier).is_none_or(|known| cost < known.cost) {
                self.steps.push(Step::Ran { before: beginning.last, way: number, lies });
                next.insert(frontier, Beginning { cost, last: self.steps.len() - 1 });
            }
        }
    }

    /// Whether a value is read after an op. State has to be known where its next value is made.
    fn is_live(&self, value: ValueId, op: OpId) -> bool {
        let is_read = self.readers.get(&value).is_some_and(|readers| readers.iter().any(|&reader| reader > op));
        let is_later = |next: &ValueId| self.layout.program.producer(*next).is_some_and(|maker| maker > op);
        is_read || self.argument_of.iter().any(|(next, &argument)| argument == value && is_later(next))
    }

    /// What it costs to bring a value to an op from where it lies, or was brought before in the same pass.
    fn read(&mut self, op: OpId, value: ValueId, wanted: Place, frontier: &mut Frontier) -> f64 {
        let live = frontier.iter().position(|live| live.value == value).expect("what is read is kept");
        if frontier[live].lies == NOWHERE {
            frontier[live].lies = self.finished(wanted);
        }
        let (lies, pass) = (frontier[live].lies, self.layout.anatomy.is_forward(op));
        let brought = frontier[live].brought.iter().filter(|(in_pass, _)| *in_pass == pass);
        let sources: Vec<Place> = brought.map(|&(_, place)| place).chain([lies]).collect();
        if sources.contains(&wanted) {
            return 0.0;
        }
        frontier[live].brought.push((pass, wanted));
        frontier[live].brought.sort_unstable();
        sources.into_iter().map(|source| self.price(value, source, wanted)).fold(f64::INFINITY, f64::min)
    }

    /// Where a value that was just made may be brought. Parts of sums are finished anywhere, unless one op alone reads
    /// them, which may carry them on; the next value of an argument lies as that does; all else stays where it is.
    fn targets(&mut self, value: ValueId, made: Place, frontier: &Frontier) -> Vec<Place> {
        if let Some(argument) = self.argument_of.get(&value) {
            let stored = frontier.iter().find(|live| live.value == *argument);
            return vec![stored.expect("state is kept until its next value").lies];
        }
        let is_given = self.layout.program.body().results.contains(&value);
        let has_one_reader = self.readers.get(&value).is_some_and(|readers| readers.len() == 1);
        let is_partial = !self.places[usize::from(made)].partial.is_empty();
        if is_partial && (is_given || !has_one_reader) { self.everywhere(value) } else { vec![made] }
    }

    /// What was decided, for lowering to run. Where parts of sums are carried on it decides itself.
    fn recipe(&self, ops: &[OpId], ways: &[Vec<Way>], last: usize) -> Recipe {
        let program = self.layout.program;
        let (mut stored, mut ran, mut step) = (BTreeMap::new(), Vec::new(), self.steps[last]);
        loop {
            let before = match step {
                Step::Start => break,
                Step::Stored { before, value, lies } => {
                    stored.insert(value, lies);
                    before
                }
                Step::Ran { before, way, lies } => {
                    ran.push((&ways[ops.len() - 1 - ran.len()][way], lies));
                    before
                }
            };
            step = self.steps[before];
        }
        ran.reverse();
        let sharding = |place: Place| self.places[usize::from(place)].finished();
        let wanted = |value: ValueId| {
            let mut readers = ops.iter().zip(&ran).filter_map(|(&op, (way, _))| {
                let operand = program.ops[op].operands.iter().position(|&operand| operand == value)?;
                way.wanted[operand]
            });
            readers.next()
        };
        let op_recipe = |(&op, &(way, lies)): (&OpId, &(&Way, Place))| {
            let factors = way.strategy.factors.iter().enumerate().filter(|(_, pieces)| !pieces.is_empty());
            let factors = factors.map(|(factor, pieces)| (factor as FactorId, *pieces)).collect();
            // What is left in parts is brought where its reader wants it.
            let is_partial = !self.places[usize::from(lies)].partial.is_empty();
            let reader = if is_partial { wanted(program.ops[op].results[0]) } else { None };
            OpRecipe { op, factors, results: vec![sharding(reader.unwrap_or(lies))] }
        };
        let argument = |value: &ValueId| {
            let lies = stored.get(value).copied().filter(|&lies| lies != NOWHERE).or_else(|| wanted(*value));
            lies.map_or(Sharding::whole(program.shape(*value).len()), sharding)
        };
        Recipe {
            mesh: self.layout.mesh.clone(),
            microbatches: 1,
            is_eager: false,
            arguments: program.body().arguments.iter().map(argument).collect(),
            ops: ops.iter().zip(&ran).map(op_recipe).collect(),
            again: Vec::new(),
            splits: Vec::new(),
            held: Vec::new(),
            staging: None,
        }
    }
}

/// Every axis cuts one of the factors, or none; products are cut as far as they can be.
pub(crate) fn strategies(layout: &Layout<'_>, op: OpId) -> Vec<Strategy> {
    let (mesh, rule) = (&layout.mesh, layout.rule(op));
    let mut strategies = vec![Strategy::whole(rule)];
    for axis in (0..mesh.axes.len()).filter(|&axis| mesh.axes[axis].size > 1) {
        for index in 0..strategies.len() {
            for factor in (0..rule.factors.len()).filter(|&factor| rule.factors[factor].kind != Kind::Whole) {
                let mut strategy = strategies[index].clone();
                let add = |&piece: &Piece| {
                    let is_fine = strategy.may_add(rule, mesh, factor as FactorId, piece).is_ok();
                    if is_fine {
                        strategy.factors[factor].push(piece);
                    }
                    is_fine
                };
                let divides = mesh.pieces(axis).iter().all(add)
                    && rule.factors[factor].size.is_multiple_of(mesh.product(&strategy.factors[factor]));
                if divides {
                    strategies.push(strategy);
                }
            }
        }
    }
    if matches!(layout.program.ops[op].op, Op::DotGeneral(_)) {
        let parts = |strategy: &Strategy| strategy.factors.iter().map(|pieces| mesh.product(pieces)).product::<usize>();
        let most = strategies.iter().map(parts).max();
        strategies.retain(|strategy| Some(parts(strategy)) == most);
    }
    strategies
}
