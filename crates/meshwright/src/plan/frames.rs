//! The meshes and numbers of microbatches that are tried.

use crate::cluster::Cluster;
use crate::program::{ArgumentClass, Program};
use crate::shard::{Axis, Mesh};

/// More axes than these make more ways to cut than can be looked at.
const MOST_AXES: usize = 2;

/// All ways to cut the levels of a cluster into axes that lie within a level each, the coarsest first.
pub(super) fn frames(cluster: &Cluster) -> Result<Vec<Mesh>, String> {
    frames_of(cluster.node_count(), cluster.devices_per_node())
}

/// The same for so many nodes of so many devices each.
pub(super) fn frames_of(node_count: usize, device_count: usize) -> Result<Vec<Mesh>, String> {
    let mut meshes = Vec::new();
    for nodes in factorizations(node_count, MOST_AXES) {
        for devices in factorizations(device_count, MOST_AXES) {
            if nodes.len() + devices.len() > MOST_AXES {
                continue;
            }
            let names = |prefix: &'static str, sizes: &[usize]| {
                let name = |index: usize| if sizes.len() == 1 { prefix.to_owned() } else { format!("{prefix}{index}") };
                let axis = |(index, &size): (usize, &usize)| Axis { name: name(index), size, temporal: false };
                sizes.iter().enumerate().map(axis).collect::<Vec<_>>()
            };
            let axes = names("node", &nodes).into_iter().chain(names("device", &devices));
            meshes.push(Mesh::new(axes.collect())?);
        }
    }
    meshes.sort_by_key(|mesh| mesh.axes.len());
    Ok(meshes)
}

/// The ways to cut a cluster into groups within its nodes beside all the rest, which is one axis across its levels.
pub(super) fn spanning_frames(cluster: &Cluster) -> Result<Vec<Mesh>, String> {
    let (nodes, devices) = (cluster.node_count(), cluster.devices_per_node());
    let parts = (2..devices).rev().filter(|part| nodes > 1 && devices.is_multiple_of(*part));
    let axis = |name: &str, size: usize| Axis { name: name.to_owned(), size, temporal: false };
    parts.map(|part| Mesh::new(vec![axis("group", nodes * devices / part), axis("device", part)])).collect()
}

/// All ways to cut so many devices into axes with these names, in their order; those with equal parts first. The last
/// axis runs over neighbours.
pub(super) fn named_frames(names: &[&String], devices: usize) -> Result<Vec<Mesh>, String> {
    fn extend(names: &[&String], rest: usize, axes: &mut Vec<Axis>, found: &mut Vec<Vec<Axis>>) {
        let Some((name, later)) = names.split_first() else {
            if rest == 1 {
                found.push(axes.clone());
            }
            return;
        };
        for size in (1..=rest).filter(|size| rest.is_multiple_of(*size)) {
            axes.push(Axis { name: (*name).clone(), size, temporal: false });
            extend(later, rest / size, axes, found);
            axes.pop();
        }
    }
    let mut found = Vec::new();
    extend(names, devices, &mut Vec::new(), &mut found);
    found.sort_by_key(|axes| axes.iter().map(|axis| axis.size).max());
    found.into_iter().map(Mesh::new).collect()
}

/// All ways to write a number as a product of factors greater than one, the largest first, each once.
fn factorizations(number: usize, most: usize) -> Vec<Vec<usize>> {
    fn extend(rest: usize, largest: usize, most: usize, factors: &mut Vec<usize>, found: &mut Vec<Vec<usize>>) {
        if rest == 1 {
            found.push(factors.clone());
            return;
        }
        if most == 0 {
            return;
        }
        for factor in (2..=rest.min(largest)).rev().filter(|factor| rest.is_multiple_of(*factor)) {
            factors.push(factor);
            extend(rest / factor, factor, most - 1, factors, found);
            factors.pop();
        }
    }
    let mut found = Vec::new();
    extend(number, number, most, &mut Vec::new(), &mut found);
    found
}

/// Powers of two, as far as the batch divides into more than single samples.
pub(super) fn microbatch_counts(program: &Program, classes: &[ArgumentClass]) -> Vec<usize> {
    let batch = batch(program, classes);
    let is_possible = |&count: &usize| count == 1 || batch.is_multiple_of(count) && count < batch;
    (0..10).map(|power| 1 << power).take_while(is_possible).collect()
}

/// How many samples a step has.
pub(super) fn batch(program: &Program, classes: &[ArgumentClass]) -> usize {
    let inputs = program.body().arguments.iter().zip(classes).filter(|(_, class)| **class == ArgumentClass::Input);
    inputs.filter_map(|(&value, _)| program.shape(value).first().copied()).max().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_with_names_have_all_sizes() {
        let names = ["data".to_owned(), "model".to_owned()];
        let meshes = named_frames(&names.iter().collect::<Vec<_>>(), 4).expect("meshes");
        let meshes: Vec<String> = meshes.iter().map(Mesh::to_string).collect();
        assert_eq!(meshes, ["data=2,model=2", "data=1,model=4", "data=4,model=1"]);
    }

    #[test]
    fn groups_within_nodes_lie_beside_an_axis_across_levels() {
        let meshes = |cluster: &str| -> Vec<String> {
            let cluster = crate::cluster::parse(cluster).expect("a cluster");
            spanning_frames(&cluster).expect("meshes").iter().map(Mesh::to_string).collect()
        };
        assert_eq!(meshes("4x8xh100"), ["group=8,device=4", "group=16,device=2"]);
        assert_eq!(meshes("8xh100"), [""; 0]);
        assert_eq!(meshes("2x3xh100"), [""; 0]);
    }

    #[test]
    fn every_factorization_is_there_once() {
        assert_eq!(factorizations(8, 3), [vec![8], vec![4, 2], vec![2, 2, 2]]);
        assert_eq!(factorizations(1, 3), [Vec::<usize>::new()]);
        assert_eq!(factorizations(12, 2), [vec![12], vec![6, 2], vec![4, 3]]);
    }
}
