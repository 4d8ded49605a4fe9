//! What is to be solved: nodes with alternatives, edges with cost tables, resources with limits.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

/// Choose one alternative per node so that costs of nodes and edges add up to as little as possible,
/// while at no time the alternatives chosen use more of a resource than its limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    pub name: String,
    pub resources: Vec<Resource>,
    pub nodes: Vec<Node>,
    pub edges: Vec<Edge>,
}

/// Something of which there is only so much at any one time, such as the memory of a device. A limit
/// that changes over time is a node whose one alternative uses the difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub name: String,
    /// Use is only counted where there is no limit.
    pub limit: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub alternatives: Vec<Alternative>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alternative {
    pub cost: Cost,
    /// Intervals may overlap: what they use adds up.
    pub uses: SmallVec<[Use; 1]>,
}

/// An amount of a resource at all times `t` with `start <= t < end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Index into the resources of the problem.
    pub resource: u32,
    pub start: u64,
    pub end: u64,
    pub amount: u64,
}

/// A cost for every combination of alternatives of some nodes, different from each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    pub nodes: SmallVec<[u32; 2]>,
    /// The alternative of the last node changes fastest. Edges alike share one table.
    pub costs: Arc<[Cost]>,
}

/// Exact. Floats are scaled to integers by [`scaled`]; sums are taken in 128 bits.
pub type Cost = i64;

/// The cost of what must not be chosen.
pub const FORBIDDEN: Cost = Cost::MAX;

/// A cost given as a float, in steps of `unit`. Infinite and out of range is forbidden.
pub fn scaled(cost: f64, unit: f64) -> Cost {
    let steps = (cost / unit).round();
    // The comparison is false for NaN as well.
    if steps.abs() < 9e18 { steps as Cost } else { FORBIDDEN }
}

/// Why something is not a problem that can be solved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub part: Part,
    pub message: String,
}

/// The part of a problem that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Node(usize),
    Edge(usize),
    Resource(usize),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            Part::Node(index) => write!(f, "node {index}: {}", self.message),
            Part::Edge(index) => write!(f, "edge {index}: {}", self.message),
            Part::Resource(index) => write!(f, "resource {index}: {}", self.message),
        }
    }
}

impl std::error::Error for Malformed {}

impl Problem {
    /// Checks what the types do not say: indices in range, tables of the right size, amounts whose
    /// sums can be computed.
    pub fn check(&self) -> Result<(), Malformed> {
        self.nodes.iter().enumerate().try_for_each(|(index, node)| {
            self.check_node(node).map_err(|message| Malformed { part: Part::Node(index), message })
        })?;
        self.edges.iter().enumerate().try_for_each(|(index, edge)| {
            self.check_edge(edge).map_err(|message| Malformed { part: Part::Edge(index), message })
        })?;
        (0..self.resources.len()).try_for_each(|index| {
            self.check_amounts(index).map_err(|message| Malformed { part: Part::Resource(index), message })
        })
    }

    fn check_node(&self, node: &Node) -> Result<(), String> {
        if node.alternatives.is_empty() {
            return Err("has no alternative".to_owned());
        }
        let unknown = node.alternatives.iter().flat_map(|alternative| &alternative.uses);
        match unknown.map(|used| used.resource).find(|resource| *resource as usize >= self.resources.len()) {
            Some(resource) => Err(format!("uses resource {resource}, of which there are {}", self.resources.len())),
            None => Ok(()),
        }
    }

    fn check_edge(&self, edge: &Edge) -> Result<(), String> {
        let mut size = 1_usize;
        for (index, node) in edge.nodes.iter().enumerate() {
            if edge.nodes[..index].contains(node) {
                return Err(format!("names node {node} twice"));
            }
            let Some(info) = self.nodes.get(*node as usize) else {
                return Err(format!("names node {node}, of which there are {}", self.nodes.len()));
            };
            size = size.saturating_mul(info.alternatives.len());
        }
        if edge.costs.len() != size {
            return Err(format!("has {} costs, its nodes have {size} combinations", edge.costs.len()));
        }
        Ok(())
    }

    /// What is used at a time is added up in 63 bits.
    fn check_amounts(&self, resource: usize) -> Result<(), String> {
        let most = |alternative: &Alternative| {
            let uses = alternative.uses.iter().filter(|used| used.resource as usize == resource);
            uses.map(|used| u128::from(used.amount)).sum::<u128>()
        };
        let total: u128 = self.nodes.iter().map(|node| node.alternatives.iter().map(most).max().unwrap_or(0)).sum();
        if total > i64::MAX as u128 {
            return Err("the amounts used add up to more than 2^63".to_owned());
        }
        Ok(())
    }
}

impl Use {
    pub fn is_empty(&self) -> bool {
        self.start >= self.end || self.amount == 0
    }
}
