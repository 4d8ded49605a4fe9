//! Instances of the contest on intra-operator parallelism, in their JSON form.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

pub use crate::json::ReadError;

use crate::json::Scanner;
use crate::problem::{Alternative, Cost, Edge, FORBIDDEN, Malformed, Node, Part, Problem, Resource, Use};

/// Costs from here on mark what must not be chosen.
const INFINITE: Cost = 1_000_000_000_000_000_000;

/// Reads an instance.
pub fn read(text: &[u8]) -> Result<Problem, ReadError> {
    let mut scanner = Scanner::new(text);
    let mut instance = None;
    scanner.object(|scanner, key| {
        if key != "problem" {
            return scanner.skip();
        }
        let offset = scanner.offset();
        if instance.is_some() {
            return Err(scanner.error(offset, "`problem` is given twice"));
        }
        instance = Some(Instance::read(scanner)?);
        Ok(())
    })?;
    scanner.finish()?;
    let Some(instance) = instance else {
        return Err(scanner.error(0, "there is no `problem`"));
    };
    instance.build(text)
}

/// The lists of an instance as they stand, each element with its place in the text.
#[derive(Debug, Default)]
struct Instance {
    name: String,
    node_costs: Option<Lists<Cost>>,
    usages: Option<Lists<u64>>,
    intervals: Option<Lists<u64>>,
    edge_nodes: Option<Lists<u64>>,
    edge_costs: Option<Lists<Cost>>,
    limit: Option<u64>,
    offset: usize,
}

/// A list of lists, end to end.
#[derive(Debug, Default)]
struct Lists<T> {
    elements: Vec<T>,
    /// Where each list ends among the elements.
    ends: Vec<usize>,
    /// Where each list begins in the text.
    offsets: Vec<usize>,
}

impl<T> Lists<T> {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, index: usize) -> &[T] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.elements[start..self.ends[index]]
    }
}

impl Instance {
    fn read(scanner: &mut Scanner<'_>) -> Result<Instance, ReadError> {
        let mut instance = Instance { offset: scanner.offset(), ..Instance::default() };
        scanner.object(|scanner, key| match key {
            "name" => {
                instance.name = scanner.string()?;
                Ok(())
            }
            "nodes" => scanner.object(|scanner, key| match key {
                "costs" => read_lists(scanner, &mut instance.node_costs, Scanner::integer),
                "usages" => read_lists(scanner, &mut instance.usages, natural),
                "intervals" => read_lists(scanner, &mut instance.intervals, natural),
                _ => scanner.skip(),
            }),
            "edges" => scanner.object(|scanner, key| match key {
                "nodes" => read_lists(scanner, &mut instance.edge_nodes, natural),
                "costs" => read_lists(scanner, &mut instance.edge_costs, Scanner::integer),
                _ => scanner.skip(),
            }),
            "usage_limit" if scanner.peek() != Some(b'n') => {
                instance.limit = Some(natural(scanner)?);
                Ok(())
            }
            _ => scanner.skip(),
        })?;
        Ok(instance)
    }

    fn build(self, text: &[u8]) -> Result<Problem, ReadError> {
        let missing = |what| ReadError::new(text, self.offset, format!("the problem has no `{what}`"));
        let node_costs = self.node_costs.as_ref().ok_or_else(|| missing("nodes.costs"))?;
        let usages = self.usages.as_ref().ok_or_else(|| missing("nodes.usages"))?;
        let intervals = self.intervals.as_ref().ok_or_else(|| missing("nodes.intervals"))?;
        let empty = (Lists::default(), Lists::default());
        let (edge_nodes, edge_costs) = match (&self.edge_nodes, &self.edge_costs) {
            (None, None) => (&empty.0, &empty.1),
            (Some(nodes), Some(costs)) => (nodes, costs),
            (None, Some(_)) => return Err(missing("edges.nodes")),
            (Some(_), None) => return Err(missing("edges.costs")),
        };
        for (what, count) in [("nodes.usages", usages.len()), ("nodes.intervals", intervals.len())] {
            same_count(text, self.offset, ("nodes.costs", node_costs.len()), (what, count))?;
        }
        same_count(text, self.offset, ("edges.nodes", edge_nodes.len()), ("edges.costs", edge_costs.len()))?;

        let nodes = (0..node_costs.len()).map(|index| build_node(text, index, node_costs, usages, intervals));
        let nodes = nodes.collect::<Result<_, _>>()?;
        let mut shared = FxHashMap::default();
        let edges = (0..edge_nodes.len()).map(|index| build_edge(text, index, edge_nodes, edge_costs, &mut shared));
        let edges = edges.collect::<Result<_, _>>()?;
        let resources = vec![Resource { name: "usage".to_owned(), limit: self.limit }];
        let problem = Problem { name: self.name, resources, nodes, edges };
        problem.check().map_err(|Malformed { part, message }| match part {
            Part::Node(index) => ReadError::new(text, node_costs.offsets[index], format!("node {index} {message}")),
            Part::Edge(index) => ReadError::new(text, edge_costs.offsets[index], format!("edge {index} {message}")),
            Part::Resource(_) => ReadError::new(text, self.offset, message),
        })?;
        Ok(problem)
    }
}

fn same_count(text: &[u8], offset: usize, first: (&str, usize), second: (&str, usize)) -> Result<(), ReadError> {
    if first.1 == second.1 {
        return Ok(());
    }
    let message = format!("`{}` has {} elements, `{}` has {}", first.0, first.1, second.0, second.1);
    Err(ReadError::new(text, offset, message))
}

fn build_node(
    text: &[u8],
    index: usize,
    costs: &Lists<Cost>,
    usages: &Lists<u64>,
    intervals: &Lists<u64>,
) -> Result<Node, ReadError> {
    let &[start, end] = intervals.get(index) else {
        let message = format!("the interval of node {index} has {} ends instead of 2", intervals.get(index).len());
        return Err(ReadError::new(text, intervals.offsets[index], message));
    };
    let (costs, amounts) = (costs.get(index), usages.get(index));
    if costs.len() != amounts.len() {
        let message = format!("node {index} has {} costs and {} usages", costs.len(), amounts.len());
        return Err(ReadError::new(text, usages.offsets[index], message));
    }
    let alternatives = costs.iter().zip(amounts).map(|(&cost, &amount)| {
        let used = Use { resource: 0, start, end, amount };
        let uses = if used.is_empty() { SmallVec::new() } else { smallvec![used] };
        Alternative { cost: finite_or_forbidden(cost), uses }
    });
    Ok(Node { alternatives: alternatives.collect() })
}

/// Many edges have equal tables; they share one.
fn build_edge<'a>(
    text: &[u8],
    index: usize,
    nodes: &Lists<u64>,
    costs: &'a Lists<Cost>,
    shared: &mut FxHashMap<&'a [Cost], Arc<[Cost]>>,
) -> Result<Edge, ReadError> {
    let table = costs.get(index);
    let table = shared.entry(table).or_insert_with(|| table.iter().map(|cost| finite_or_forbidden(*cost)).collect());
    let nodes = nodes.get(index).iter().map(|node| u32::try_from(*node)).collect::<Result<_, _>>();
    let nodes = nodes.map_err(|_| {
        let message = format!("edge {index} names a node that there is not");
        ReadError::new(text, costs.offsets[index], message)
    })?;
    Ok(Edge { nodes, costs: table.clone() })
}

fn finite_or_forbidden(cost: Cost) -> Cost {
    if cost >= INFINITE { FORBIDDEN } else { cost }
}

fn read_lists<'a, T>(
    scanner: &mut Scanner<'a>,
    into: &mut Option<Lists<T>>,
    element: impl Fn(&mut Scanner<'a>) -> Result<T, ReadError>,
) -> Result<(), ReadError> {
    let offset = scanner.offset();
    if into.is_some() {
        return Err(scanner.error(offset, "this list is given twice"));
    }
    let mut lists = Lists { elements: Vec::new(), ends: Vec::new(), offsets: Vec::new() };
    scanner.list(|scanner| {
        lists.offsets.push(scanner.offset());
        scanner.list(|scanner| {
            lists.elements.push(element(scanner)?);
            Ok(())
        })?;
        lists.ends.push(lists.elements.len());
        Ok(())
    })?;
    *into = Some(lists);
    Ok(())
}

fn natural(scanner: &mut Scanner<'_>) -> Result<u64, ReadError> {
    let offset = scanner.offset();
    let value = scanner.integer()?;
    u64::try_from(value).map_err(|_| scanner.error(offset, format!("`{value}` is negative")))
}
