//! All ways to cut the ops of small programs, each lowered and priced.

use meshwright::lower::Price;
use meshwright::plan::{OpRecipe, Recipe};
use meshwright::program::{OpId, Program, ValueId};
use meshwright::shard::{FactorId, Layout, Mesh, Sharding, Strategy};

use crate::frontier::strategies;
use crate::price::Prices;

/// The least that moving values costs over all ways to cut the ops of a program by whole axes. Products are cut as far
/// as they can be, arguments lie as their first reader wants them, and parts of sums are brought anywhere at once.
pub(crate) fn cheapest(program: &Program, mesh: &Mesh, prices: &Prices) -> f64 {
    let layout = Layout::new(program, mesh.clone());
    let ops: Vec<OpId> = layout
        .ops()
        .iter()
        .copied()
        .filter(|&op| !program.ops[op].results.iter().any(|&r| layout.is_free(r)))
        .collect();
    let ways: Vec<Vec<OpRecipe>> = ops.iter().map(|&op| ways(&layout, op)).collect();
    let price = |mesh: &Mesh, movement: &meshwright::lower::Movement<'_>| prices.cost(mesh, movement);
    let mut chosen = vec![0; ops.len()];
    let mut least = f64::INFINITY;
    loop {
        let recipes: Vec<OpRecipe> = ways.iter().zip(&chosen).map(|(ways, &way)| ways[way].clone()).collect();
        if let Some(cost) = cost(&layout, recipes, prices, &price) {
            least = least.min(cost);
        }
        // The next of all combinations.
        let Some(place) = (0..ops.len()).find(|&place| chosen[place] + 1 < ways[place].len()) else { return least };
        chosen[place] += 1;
        chosen[..place].fill(0);
    }
}

fn cost(layout: &Layout<'_>, ops: Vec<OpRecipe>, prices: &Prices, price: Price<'_>) -> Option<f64> {
    let program = layout.program;
    let argument = |&value: &ValueId| {
        let reader = ops.iter().find(|recipe| program.ops[recipe.op].operands.contains(&value));
        let whole = Sharding::whole(program.shape(value).len());
        reader.map_or(whole, |recipe| {
            let operand = program.ops[recipe.op].operands.iter().position(|&operand| operand == value);
            let rule = layout.rule(recipe.op);
            strategy(layout, recipe.op, &recipe.factors).sharding(
                rule,
                &layout.mesh,
                &rule.operands[operand.unwrap_or(0)],
            )
        })
    };
    let arguments = program.body().arguments.iter().map(argument).collect();
    let recipe = Recipe {
        mesh: layout.mesh.clone(),
        microbatches: 1,
        is_eager: false,
        arguments,
        ops,
        again: Vec::new(),
        splits: Vec::new(),
        held: Vec::new(),
        staging: None,
    };
    recipe.partition(program, price).ok().map(|partitioned| prices.objective(&partitioned))
}

fn strategy(layout: &Layout<'_>, op: OpId, factors: &[(FactorId, meshwright::shard::Pieces)]) -> Strategy {
    let mut strategy = Strategy::whole(layout.rule(op));
    for (factor, pieces) in factors {
        strategy.factors[usize::from(*factor)].clone_from(pieces);
    }
    strategy
}

/// Every axis cuts one of the factors, or none; what comes out as parts of sums is finished whole, or cut.
fn ways(layout: &Layout<'_>, op: OpId) -> Vec<OpRecipe> {
    let (mesh, rule) = (&layout.mesh, layout.rule(op));
    let strategies = strategies(layout, op);
    let recipes = strategies.iter().flat_map(|strategy| {
        let factors = strategy.factors.iter().enumerate().filter(|(_, pieces)| !pieces.is_empty());
        let factors: Vec<_> = factors.map(|(factor, pieces)| (factor as FactorId, *pieces)).collect();
        let made = strategy.result(rule, mesh, &rule.results[0]);
        finished(layout, layout.program.ops[op].results[0], &made).into_iter().map(move |lies| OpRecipe {
            op,
            factors: factors.clone(),
            results: vec![lies],
        })
    });
    recipes.collect()
}

/// Where parts of a sum can be brought: every axis of them to a dimension, or to all.
fn finished(layout: &Layout<'_>, value: ValueId, made: &Sharding) -> Vec<Sharding> {
    let (mesh, shape) = (&layout.mesh, layout.program.shape(value));
    let mut found = vec![Sharding { partial: Default::default(), reduction: Default::default(), ..made.clone() }];
    for axis in 0..mesh.axes.len() {
        let pieces = mesh.pieces(axis);
        if pieces.is_empty() || !made.partial.contains(&pieces[0]) {
            continue;
        }
        for index in 0..found.len() {
            for (dim, size) in shape.iter().enumerate() {
                let mut lies = found[index].clone();
                lies.dims[dim].extend(pieces.iter().copied());
                lies.dims[dim].sort_unstable();
                if size.is_multiple_of(mesh.product(&lies.dims[dim])) {
                    found.push(lies);
                }
            }
        }
    }
    found
}
