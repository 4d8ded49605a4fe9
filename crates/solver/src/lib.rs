//! Labelling with memory.
//!
//! [`solve`] chooses one alternative for every node of a [`Problem`]: costs of nodes and edges add up to
//! as little as possible, while the alternatives chosen never use more of a resource than there is.
//!
//! Modules stand in the order in which a problem passes through them.

pub mod problem;

pub mod contest;
pub mod evaluate;

mod slots;

mod model;

mod reduce;

mod chain;

mod relax;

mod prices;

mod tree;

mod order;

mod eliminate;

mod state;

mod neighborhood;

mod infeasible;
mod solve;

mod json;
mod limit;
mod parallel;
mod random;

pub use infeasible::Infeasible;
pub use limit::Limit;
pub use problem::Problem;
pub use solve::{Answer, Options, Price, Progress, Solution, Start, solve};

#[doc(hidden)]
pub fn probe_ascent(problem: &Problem) {
    let slots = slots::Slots::new(problem);
    let chain = chain::Chain::new(model::Model::new(problem, &slots)).unwrap();
    let m = chain.model();
    let m = &permuted(m);
    let n: usize = std::env::var("STEPS").ok().and_then(|s| s.parse().ok()).unwrap_or(400);
    let mut a = prices::Ascent::new(m, vec![0.0; m.limits.len()], None);
    let t = std::time::Instant::now();
    let mut ub = m.most();
    for i in 0..n {
        let (p, excess) = a.step(m, Some(ub).filter(|u| *u < m.most()));
        if excess == 0 && p.cost < ub { ub = p.cost; eprintln!("   {i} feasible {ub:.0}"); }
        if i % (n / 8) == n / 8 - 1 { eprintln!("{i} {:.2} bound {:.5e} now {:.5e} {}", cpu(), a.bound, p.bound, a.debug()); }
    }

    a.relaxation.prices.clone_from(&a.best_prices); a.relaxation.reprice(m);
    for i in 0..100 { a.relaxation.pass(m, relax::Direction::Forward); let p = a.relaxation.pass(m, relax::Direction::Backward); if i % 10 == 0 || i < 5 { eprintln!("fixed {i} {:.5e}", p.bound); } }
}

fn permuted(m: &model::Model) -> model::Model {
    let kind = std::env::var("ORDER").unwrap_or_default();
    let n = m.nodes.len();
    let mut order: Vec<u32> = (0..n as u32).collect();
    if kind == "elim" || kind == "deg" {
        let links = eliminate::Links::new(m);
        let largest: f64 = std::env::var("LARGEST").ok().and_then(|s| s.parse().ok()).unwrap_or(1e5);
        let o = if kind == "elim" { order::smallest_first(|v| m.nodes[v as usize].costs.len(), &order, links.neighbors.clone(), largest) } else { order::smallest_first(|_| 2, &order, links.neighbors.clone(), largest) };
        let mut seen = vec![false; n];
        let mut list: Vec<u32> = o.steps.iter().map(|s| s.node).collect();
        for v in &list { seen[*v as usize] = true; }
        list.extend((0..n as u32).filter(|v| !seen[*v as usize]));
        order = list;
    } else if kind == "degree" {
        let links = eliminate::Links::new(m);
        order.sort_by_key(|v| links.neighbors[*v as usize].len());
    }
    let mut place = vec![0u32; n];
    for (i, v) in order.iter().enumerate() { place[*v as usize] = i as u32; }
    let mut out = m.clone();
    out.nodes = order.iter().map(|v| m.nodes[*v as usize].clone()).collect();
    for (f, g) in out.factors.iter_mut().zip(&m.factors) {
        if g.nodes.len() == 2 {
            let (a, b) = (place[g.nodes[0] as usize], place[g.nodes[1] as usize]);
            let (ka, kb) = (m.nodes[g.nodes[0] as usize].costs.len(), m.nodes[g.nodes[1] as usize].costs.len());
            if a < b { f.nodes = [a, b].into_iter().collect(); } else {
                f.nodes = [b, a].into_iter().collect();
                for i in 0..ka { for j in 0..kb { f.table[j * ka + i] = g.table[i * kb + j]; } }
            }
        } else { panic!() }
    }
    out
}

#[doc(hidden)]
pub fn cpu() -> f64 { let s = std::fs::read_to_string("/proc/self/stat").unwrap(); let f: Vec<&str> = s.rsplit(')').next().unwrap().split_whitespace().collect(); (f[11].parse::<f64>().unwrap() + f[12].parse::<f64>().unwrap()) / 100.0 }
