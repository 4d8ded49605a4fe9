//! The search as a whole: rounds in which a tree proves and walkers improve.

use std::sync::Arc;

use crate::chain::Chain;
use crate::components::{components, solve_parts};
use crate::eliminate::Links;
use crate::evaluate::{Evaluation, evaluate};
use crate::infeasible::{Infeasible, explain_limits, explain_wipeout};
use crate::limit::{Deadline, Limit, Meter};
use crate::model::Model;
use crate::neighborhood::{Relabeling, Walker};
use crate::opening::Opening;
use crate::parallel::run_all;
use crate::prices::label_prices;
use crate::problem::{Malformed, Node, Problem};
use crate::scale::Scale;
use crate::slots::Slots;
use crate::state::{Difference, State};
use crate::tree::Tree;

/// How to search.
#[derive(Clone, Debug)]
pub struct Options {
    pub limit: Limit,
    /// How many threads to use. They change how long it takes, not what is found for some work.
    pub threads: usize,
    pub seed: u64,
    /// What is known from before.
    pub start: Start,
    pub enough: Enough,
}

/// When less than a proof is enough.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Enough {
    /// The assignment is known to cost no more than this share above the least.
    pub gap: f64,
    /// No assignment costs as little: then it does not matter which is the best.
    pub least_cost: Option<i128>,
}

/// What an earlier answer knew, of this problem or of one with other costs.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// Those that break no rule are the first that are known. The search goes on from the best, or from the one that
    /// is nearest to breaking none.
    pub assignments: Vec<Vec<u32>>,
    pub prices: Vec<Price>,
}

/// What a unit of a resource is worth at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    pub resource: u32,
    pub time: u64,
    pub price: f64,
}

#[derive(Clone, Debug)]
pub enum Answer {
    Solved(Solution),
    /// There is no assignment that breaks no rule.
    Infeasible(Infeasible),
    /// The search ended before one was found.
    Unknown,
}

#[derive(Clone, Debug)]
pub struct Solution {
    pub assignment: Vec<u32>,
    pub evaluation: Evaluation,
    /// No assignment costs less.
    pub lower_bound: i128,
    /// What limits cost: prices with which to start again.
    pub prices: Vec<Price>,
}

impl Solution {
    pub fn is_optimal(&self) -> bool {
        self.lower_bound >= self.evaluation.cost
    }
}

/// How far the search is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub cost: Option<i128>,
    pub lower_bound: Option<i128>,
}

/// How many walkers there are, whatever the number of threads.
const WALKERS: usize = 6;
/// Work of one walker in the first round, and at most.
const FIRST_WORK: f64 = 1e6;
const MOST_WORK: f64 = 2e7;
/// Work of the tree before anybody walks.
const ALONE: f64 = 2e6;
/// The share of the work of walkers that the tree has where it works on parts of the problem.
const ROOTLESS: f64 = 0.3;

/// Searches for the cheapest assignment. `progress` is told after each round.
pub fn solve(problem: &Problem, options: &Options, mut progress: impl FnMut(Progress)) -> Result<Answer, Malformed> {
    problem.check()?;
    let parts = components(problem, &Slots::new(problem));
    Ok(match parts.len() {
        0 | 1 => solve_connected(problem, options, &mut progress).0,
        _ => solve_parts(problem, &parts, options, &mut progress),
    })
}

/// Searches for the cheapest assignment of a problem that does not fall into parts. Tells the work too.
pub(crate) fn solve_connected(
    problem: &Problem,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> (Answer, f64) {
    let deadline = Deadline::new(options.limit);
    let slots = Slots::new(problem);
    let scale = Scale::new(problem);
    let original = Model::new(problem, &slots, scale);
    let chain = match Chain::new(original.clone()) {
        Ok(chain) => Arc::new(chain),
        Err(wipeout) => return (Answer::Infeasible(explain_wipeout(wipeout)), 0.0),
    };
    let mut search = Search::new(problem, &slots, scale, (original, chain), options);
    let mut work = 0.0;
    let most_work = match options.limit {
        Limit::Work(work) => work,
        Limit::Time(_) => f64::INFINITY,
    };
    search.open(&deadline, most_work, &mut work, progress);
    if work < most_work {
        work += search.prove(&deadline);
    }
    search.aim(options.enough.gap);
    while !search.tree.is_done() && !search.tree.is_enough() && work < most_work && !deadline.is_over() {
        work += search.round(options, &deadline);
        search.aim(options.enough.gap);
        progress(search.progress());
    }
    (search.answer(problem, &slots), work)
}

struct Search<'a> {
    problem: &'a Problem,
    scale: Scale,
    /// The problem as it was reduced first.
    first: Arc<Chain>,
    tree: Tree,
    best: Option<(Vec<u32>, Evaluation)>,
    /// Where walkers walk: the model, its links, and the assignment they start from.
    stage: Arc<Chain>,
    links: Arc<Links>,
    /// See [`Model::exchange_rate`].
    rate: f64,
    state: State,
    rounds: u64,
    /// What walkers may compute in the next round.
    walk: f64,
}

impl<'a> Search<'a> {
    fn new(
        problem: &'a Problem,
        slots: &Slots,
        scale: Scale,
        (original, chain): (Model, Arc<Chain>),
        options: &Options,
    ) -> Search<'a> {
        let model = chain.model();
        let prices = chain.carry_prices(&slots.prices(&options.start.prices));
        let mut tree = Tree::new(original, chain.clone(), prices);
        tree.enough = options.enough.least_cost.map_or(f64::INFINITY, |cost| scale.shrink(cost));
        let mut search = Search {
            problem,
            scale,
            tree,
            best: None,
            links: Arc::new(Links::new(model)),
            rate: model.exchange_rate(),
            state: State::new(model, vec![0; model.nodes.len()]),
            stage: chain.clone(),
            first: chain,
            rounds: 0,
            walk: FIRST_WORK,
        };
        let is_label = |(label, node): (&u32, &Node)| (*label as usize) < node.alternatives.len();
        let is_whole = |assignment: &&Vec<u32>| {
            assignment.len() == problem.nodes.len() && assignment.iter().zip(&problem.nodes).all(is_label)
        };
        for assignment in options.start.assignments.iter().filter(is_whole) {
            let state = State::new(search.first.model(), search.first.restrict(assignment));
            if state.is_nearer_than(&search.state) {
                search.state = state;
            }
            search.offer(assignment.clone());
        }
        search
    }

    /// Looks for a first assignment, and for prices to start from.
    fn open(&mut self, deadline: &Deadline, most_work: f64, work: &mut f64, progress: &mut dyn FnMut(Progress)) {
        let first = self.first.clone();
        let model = first.model();
        let mut opening = Opening::new(model, self.tree.stage_prices.clone());
        while !opening.is_done() && *work < most_work && !deadline.is_over() {
            let state = opening.probe(model);
            *work += 3.0 * model.size() as f64;
            if state.is_feasible() {
                self.offer(first.expand(&state.labels));
            }
            if state.is_nearer_than(&self.state) {
                self.state = state;
            }
            progress(self.progress());
        }
        self.tree.start_from(opening.prices);
    }

    /// Lets the tree work alone for a while: what is easily proven needs nobody to improve it.
    fn prove(&mut self, deadline: &Deadline) -> f64 {
        self.tree.drop_dear();
        let mut meter = Meter::new(ALONE, deadline);
        self.tree.advance(&mut meter);
        self.move_to_stage();
        self.join(&[]);
        meter.done
    }

    /// What the tree may compute in the next round.
    fn tree_work(&self) -> f64 {
        if self.tree.is_rooted() { self.walk * WALKERS as f64 } else { ROOTLESS * self.walk * WALKERS as f64 }
    }

    /// Takes an assignment of the problem if it is the best so far.
    fn offer(&mut self, assignment: Vec<u32>) {
        let Ok(evaluation) = evaluate(self.problem, &assignment) else { return };
        if self.best.as_ref().is_none_or(|(_, best)| evaluation.cost < best.cost) {
            self.tree.set_cutoff(self.scale.shrink(evaluation.cost));
            self.best = Some((assignment, evaluation));
        }
    }

    /// Notes how high the bound has to be for an assignment to be good enough. What is easily proven is proven before.
    fn aim(&mut self, gap: f64) {
        let Some((_, Evaluation { cost, .. })) = self.best.as_ref().filter(|_| gap > 0.0) else { return };
        let bound = cost - (gap * cost.unsigned_abs() as f64) as i128;
        self.tree.enough = self.tree.enough.min(self.scale.shrink(bound));
    }

    /// One round. What it does depends on nothing but what was before, unless the time runs out.
    fn round(&mut self, options: &Options, deadline: &Deadline) -> f64 {
        self.tree.drop_dear();
        self.move_to_stage();
        let model = self.stage.model();
        let prices = label_prices(model, &self.walking_prices(model));
        let starts = starts(model);
        let tree_work = self.tree_work();
        let (links, state) = (&*self.links, &self.state);
        let tree = &mut self.tree;
        let (walk, rounds) = (self.walk, self.rounds);
        let mut tasks: Vec<Box<dyn FnOnce() -> Done + Send + '_>> = Vec::new();
        tasks.push(Box::new(move || {
            let mut meter = Meter::new(tree_work, deadline);
            tree.advance(&mut meter);
            Done { work: meter.done, walked: None }
        }));
        for walker in 0..WALKERS as u64 {
            let seed = options.seed ^ ((rounds * WALKERS as u64 + walker) << 20);
            let (prices, starts) = (&prices, &starts);
            tasks.push(Box::new(move || {
                let mut meter = Meter::new(walk, deadline);
                let mut walker = Walker::new(model, links, prices, starts, state.clone(), seed);
                walker.walk(&mut meter);
                Done { work: meter.done, walked: Some((walker.state, walker.changes)) }
            }));
        }
        let done = run_all(options.threads, tasks);
        let work = done.iter().map(|done| done.work).sum();
        let walked: Vec<_> = done.into_iter().filter_map(|done| done.walked).collect();
        self.join(&walked);
        self.rounds += 1;
        self.walk = (1.3 * self.walk).min(MOST_WORK);
        work
    }

    /// Goes where the tree has reduced the problem to, with the best assignment there is.
    fn move_to_stage(&mut self) {
        let moved = !Arc::ptr_eq(&self.stage, &self.tree.stage);
        if moved {
            self.stage = self.tree.stage.clone();
            self.links = Arc::new(Links::new(self.stage.model()));
            self.rate = self.stage.model().exchange_rate();
        }
        let model = self.stage.model();
        if let Some((assignment, _)) = &self.best {
            self.state = State::new(model, self.stage.restrict(assignment));
        } else if let Some((chain, labels)) = self.tree.guess.take() {
            let guess = State::new(model, self.stage.restrict(&chain.expand(&labels)));
            if moved || guess.is_nearer_than(&self.state) {
                self.state = guess;
            }
        }
    }

    /// Prices for walkers. As long as limits are broken, what breaks them costs more every round.
    fn walking_prices(&self, model: &Model) -> Vec<f64> {
        let mut prices = self.tree.stage_prices.clone();
        if self.state.excess > 0 {
            let unit = self.rate * 2_f64.powi(self.rounds.min(40) as i32);
            for ((price, used), limit) in prices.iter_mut().zip(&self.state.usage).zip(&model.limits) {
                if used > limit {
                    *price += unit;
                }
            }
        }
        prices
    }

    /// Takes the best that walkers found, and of the others what can be had besides.
    fn join(&mut self, walked: &[(State, Vec<Relabeling>)]) {
        let model = self.stage.model();
        let mut best = self.state.clone();
        for (state, _) in walked {
            if state.is_nearer_than(&best) {
                best.clone_from(state);
            }
        }
        let mut difference = Difference::default();
        for changes in walked.iter().flat_map(|(_, changes)| changes) {
            let changes: Vec<(u32, u32)> =
                changes.iter().copied().filter(|(node, label)| best.labels[*node as usize] != *label).collect();
            if changes.is_empty() {
                continue;
            }
            let change = best.try_change(model, &self.links, &changes, &mut difference);
            if best.welcomes(change) {
                best.apply(&changes, change, &difference);
            }
        }
        self.state = best;
        for assignment in std::mem::take(&mut self.tree.found) {
            self.offer(assignment);
        }
        if self.state.is_feasible() {
            let assignment = self.stage.expand(&self.state.labels);
            self.offer(assignment);
        }
    }

    fn progress(&self) -> Progress {
        Progress { cost: self.best.as_ref().map(|(_, best)| best.cost), lower_bound: self.lower_bound() }
    }

    /// The bound as an integer: costs are integers.
    fn lower_bound(&self) -> Option<i128> {
        let cost = self.best.as_ref().map(|(_, best)| best.cost);
        if self.tree.is_done() {
            // Where floats round, what is proven is proven up to that.
            let rounded = |cost: i128| if self.scale.is_exact(cost) { 0 } else { cost.abs() >> 40 };
            return cost.map(|cost| cost - rounded(cost));
        }
        let bound = self.tree.bound();
        let bound = bound.is_finite().then(|| self.scale.grow(bound));
        match (bound, cost) {
            (Some(bound), Some(cost)) => Some(bound.min(cost)),
            _ => bound,
        }
    }

    fn answer(self, problem: &Problem, slots: &Slots) -> Answer {
        let lower_bound = self.lower_bound();
        let Some((assignment, evaluation)) = self.best else {
            if self.tree.is_done() {
                return Answer::Infeasible(explain_limits(problem, slots, &self.first));
            }
            return Answer::Unknown;
        };
        let prices = self.tree.stage_prices.iter().enumerate().filter(|(_, price)| **price > 0.0);
        let prices = prices.filter_map(|(slot, price)| {
            let (resource, time) = slots.place(self.tree.stage.first_slot(slot))?;
            Some(Price { resource: resource as u32, time, price: *price })
        });
        Answer::Solved(Solution {
            prices: prices.collect(),
            assignment,
            lower_bound: lower_bound.unwrap_or(i128::MIN),
            evaluation,
        })
    }
}

/// What a task of a round came to.
struct Done {
    work: f64,
    walked: Option<(State, Vec<Relabeling>)>,
}

/// Where the labels of each node begin among those of all.
fn starts(model: &Model) -> Vec<usize> {
    let ends = model.nodes.iter().scan(0, |sum, node| {
        *sum += node.costs.len();
        Some(*sum)
    });
    std::iter::once(0).chain(ends).collect()
}
