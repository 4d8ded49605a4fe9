//! What an assignment costs and uses, computed plainly. It shares no code with the search, and every
//! answer is checked by it before it is returned.

use crate::problem::{FORBIDDEN, Problem};

/// What an assignment comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    pub cost: i128,
    /// The most that is used at any one time, by resource.
    pub peaks: Vec<Peak>,
}

/// The first time at which most is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    pub time: u64,
    pub amount: u128,
}

/// Why an assignment is no solution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// It has another number of choices than there are nodes.
    Length {
        expected: usize,
        found: usize,
    },
    /// There is no such alternative.
    Alternative {
        node: usize,
        alternative: u32,
    },
    ForbiddenNode {
        node: usize,
    },
    ForbiddenEdge {
        edge: usize,
    },
    Limit {
        resource: usize,
        time: u64,
        amount: u128,
        limit: u64,
    },
}

/// Cost and peaks of an assignment that breaks no rule, or the first rule that it breaks.
pub fn evaluate(problem: &Problem, assignment: &[u32]) -> Result<Evaluation, Violation> {
    let cost = cost(problem, assignment)?;
    let peaks: Vec<Peak> = (0..problem.resources.len()).map(|resource| peak(problem, assignment, resource)).collect();
    for (resource, (info, peak)) in problem.resources.iter().zip(&peaks).enumerate() {
        if let Some(limit) = info.limit.filter(|limit| peak.amount > u128::from(*limit)) {
            return Err(Violation::Limit { resource, time: peak.time, amount: peak.amount, limit });
        }
    }
    Ok(Evaluation { cost, peaks })
}

fn cost(problem: &Problem, assignment: &[u32]) -> Result<i128, Violation> {
    if assignment.len() != problem.nodes.len() {
        return Err(Violation::Length { expected: problem.nodes.len(), found: assignment.len() });
    }
    let mut total = 0_i128;
    for (node, (info, &alternative)) in problem.nodes.iter().zip(assignment).enumerate() {
        match info.alternatives.get(alternative as usize) {
            None => return Err(Violation::Alternative { node, alternative }),
            Some(chosen) if chosen.cost == FORBIDDEN => return Err(Violation::ForbiddenNode { node }),
            Some(chosen) => total += i128::from(chosen.cost),
        }
    }
    for (index, edge) in problem.edges.iter().enumerate() {
        let place = edge.nodes.iter().fold(0, |place, &node| {
            let node = node as usize;
            place * problem.nodes[node].alternatives.len() + assignment[node] as usize
        });
        match edge.costs[place] {
            FORBIDDEN => return Err(Violation::ForbiddenEdge { edge: index }),
            cost => total += i128::from(cost),
        }
    }
    Ok(total)
}

fn peak(problem: &Problem, assignment: &[u32], resource: usize) -> Peak {
    let mut changes: Vec<(u64, i128)> = Vec::new();
    for (node, &alternative) in problem.nodes.iter().zip(assignment) {
        for used in &node.alternatives[alternative as usize].uses {
            if used.resource as usize == resource && !used.is_empty() {
                changes.push((used.start, i128::from(used.amount)));
                changes.push((used.end, -i128::from(used.amount)));
            }
        }
    }
    // At one time, what ends comes before what begins.
    changes.sort_unstable();
    let (mut now, mut peak) = (0_i128, Peak::default());
    for (time, change) in changes {
        now += change;
        if now > peak.amount as i128 {
            peak = Peak { time, amount: now as u128 };
        }
    }
    peak
}
