//! Labelling with memory.
//!
//! [`solve`] chooses one alternative for every node of a [`Problem`]: costs of nodes and edges add up to
//! as little as possible, while the alternatives chosen never use more of a resource than there is.

pub mod contest;
pub mod evaluate;
pub mod problem;

mod eliminate;
mod model;
mod neighborhood;
mod order;
mod reduce;
mod random;
mod relax;
mod slots;
mod state;

mod json;

pub use problem::Problem;

#[doc(hidden)]
pub fn probe(problem: &Problem) {
    let t = std::time::Instant::now();
    let slots = slots::Slots::new(problem);
    let model = model::Model::new(problem, &slots);
    eprintln!("slots {} in {:?}", model.limits.len(), t.elapsed());
    let red = reduce::reduce(model).unwrap();
    let m = &red.model;
    eprintln!("reduced {:?}: nodes {} labels {} factors {} entries {} spans {}", t.elapsed(), m.nodes.len(), m.nodes.iter().map(|n| n.costs.len()).sum::<usize>(), m.factors.len(), m.factors.iter().map(|f| f.table.len()).sum::<usize>(), m.nodes.iter().map(|n| n.uses.amounts.len()).sum::<usize>());
    let mut deg = vec![0; m.nodes.len()];
    for f in &m.factors { for n in &f.nodes { deg[*n as usize] += 1; } }
    let mut h = std::collections::BTreeMap::new();
    for d in &deg { *h.entry(*d).or_insert(0) += 1; }
    eprintln!("degrees {h:?}");
    let sizes: Vec<usize> = m.nodes.iter().map(|n| n.costs.len()).collect();
    let _ = sizes;
    eprintln!("slots left {}", m.limits.len());
    let mut r = relax::Relaxation::new(m);
    let iters: usize = std::env::var("ITERS").ok().and_then(|s| s.parse().ok()).unwrap_or(200);
    let t = std::time::Instant::now();
    let mut best = f64::NEG_INFINITY;
    let mut avg = vec![0.0; m.limits.len()];
    let mut alpha = std::env::var("ALPHA").ok().and_then(|s| s.parse().ok()).unwrap_or(0.1f64);
    let ub: f64 = std::env::var("UB").ok().and_then(|s| s.parse().ok()).unwrap_or(0.0);
    let mut fail = 0; let mut inc = (f64::INFINITY, Vec::new());
    for i in 0..iters {
        r.pass(relax::Direction::Forward);
        let p = r.pass(relax::Direction::Backward);
        let mut diff = vec![0i64; m.limits.len() + 1];
        let mut cost = m.constant;
        for (n, l) in m.nodes.iter().zip(&p.labels) { cost += n.costs[*l as usize]; for ((a, b), u) in n.uses.of(*l as usize) { diff[a as usize] += u; diff[b as usize] -= u; } }
        for f in &m.factors { let mut at = 0; for n in &f.nodes { at = at * m.nodes[*n as usize].costs.len() + p.labels[*n as usize] as usize; } cost += f.table[at]; }
        let mut now = 0; let mut over = 0i64; let mut nover = 0; let mut norm = 0.0; let mut worst = 0.0f64;
        for t in 0..m.limits.len() { now += diff[t]; let g = now - m.limits[t]; if g > 0 { nover += 1; over = over.max(g); worst = worst.max(g as f64 / m.limits[t] as f64); }
            avg[t] = 0.9 * avg[t] + 0.1 * g as f64; }
        let mut nz = 0;
        for t in 0..m.limits.len() { let g = avg[t]; if g > 0.0 || r.prices[t] > 0.0 { norm += g * g; } if r.prices[t] > 0.0 { nz += 1; } }
        if best == f64::NEG_INFINITY || p.bound > best + 1e-5 * best.abs() { best = p.bound; fail = 0; } else { fail += 1; if fail > 30 { alpha *= 0.7; fail = 0; } }
        if now == now && nover == 0 && cost < inc.0 { inc = (cost, p.labels.clone()); eprintln!("{i} {:?} feasible {cost}", t.elapsed()); }
        if nover == 0 || i == 0 {} 
        if i % (iters / 20).max(1) == 0 { eprintln!("{i} {:?} bound {:e} best {:e} decoded {:e} over {nover} worst {worst:.3} alpha {alpha:.4} priced {nz}", t.elapsed(), p.bound, best, cost); }
        let step = alpha * (ub - p.bound).max(1e-4 * ub) / norm.max(1.0);
        for t in 0..m.limits.len() { r.prices[t] = (r.prices[t] + step * avg[t]).max(0.0); }
        r.reprice();
    }
    eprintln!("best {best:.0} gap to ub {:.4}%", 100.0 * (ub - best) / ub);
    let links = eliminate::Links::new(m);
    let sums: Vec<f64> = std::iter::once(0.0).chain(r.prices.iter().scan(0.0, |a, b| { *a += b; Some(*a) })).collect();
    let prices: Vec<Vec<f64>> = m.nodes.iter().map(|n| { let mut v = vec![0.0; n.costs.len()]; for ((a, b), c) in n.uses.columns() { let p = sums[b as usize] - sums[a as usize]; for (v, c) in v.iter_mut().zip(c) { *v += p * *c as f64; } } v }).collect();
    let t = std::time::Instant::now();
    let mut w = neighborhood::Walker::new(m, &links, &prices, state::State::new(m, inc.1), 1);
    let secs: f64 = std::env::var("SECS").ok().and_then(|s| s.parse().ok()).unwrap_or(10.0);
    let mut next = 0.0;
    while t.elapsed().as_secs_f64() < secs {
        w.step();
        if t.elapsed().as_secs_f64() > next { next += secs / 20.0; eprintln!("{:.1} cost {} excess {} tries {} changes {} work {:e} gap {:.4}%", t.elapsed().as_secs_f64(), w.state.cost, w.state.excess, w.tries, w.changes.len(), w.work, 100.0 * (w.state.cost - ub) / ub); }
    }
}
