//! Ops across processes: who takes part, and what each member makes of what the group brought.

use std::sync::Arc;

use crate::program::{
    AllGather, AllToAll, Collective, CollectivePermute, OpId, Program, ReduceScatter, RegionId, Type,
};

use super::control::Machine;
use super::devices::{Gathered, Process, processes};
use super::reduce::combine;
use super::shape::{concatenate, strides, view};
use super::tensor::Tensor;

type Tensors = Vec<Arc<Tensor>>;

pub(super) fn all_gather(
    machine: &mut Machine<'_>,
    id: OpId,
    gather: &AllGather,
    operands: Tensors,
) -> Result<Tensors, String> {
    let group = own_group(machine, id, &gather.collective, Grouping::CrossReplicaAndPartition)?;
    let group = group.ok_or_else(|| outside(machine, id))?;
    check_parts(machine, id, gather.factor, &group)?;
    let types = result_types(machine.program, id);
    let gathered = exchange(machine, id, &group, operands)?;
    let join = || {
        let whole = |(index, ty): (usize, &&Type)| {
            let parts: Tensors = gathered.parts.iter().map(|part| Arc::clone(&part[index])).collect();
            Arc::new(concatenate(&parts, gather.dim, ty))
        };
        Ok(types.iter().enumerate().map(whole).collect())
    };
    gathered.shared.get_or_init(join).clone()
}

pub(super) fn all_reduce(
    machine: &mut Machine<'_>,
    id: OpId,
    collective: &Collective,
    operands: Tensors,
) -> Result<Tensors, String> {
    let group = own_group(machine, id, collective, Grouping::CrossReplicaAndPartition)?;
    let group = group.ok_or_else(|| outside(machine, id))?;
    let region = machine.program.ops[id].regions[0];
    let gathered = exchange(machine, id, &group, operands)?;
    // Other regions may read values that differ from process to process, or hold collectives, in which
    // nobody can meet those who wait for the shared result.
    if machine.program.applied_binary(region).is_some() {
        gathered.shared.get_or_init(|| sum_up(machine, id, region, &gathered)).clone()
    } else {
        sum_up(machine, id, region, &gathered)
    }
}

/// In the order of the group, so that every member gets the same bits.
fn sum_up(machine: &mut Machine<'_>, id: OpId, region: RegionId, gathered: &Gathered) -> Result<Tensors, String> {
    let mut results = Vec::new();
    for (index, ty) in result_types(machine.program, id).into_iter().enumerate() {
        let parts: Vec<&Arc<Tensor>> = gathered.parts.iter().map(|part| &part[index]).collect();
        results.push(combine(machine, region, &parts, ty)?);
    }
    Ok(results)
}

pub(super) fn reduce_scatter(
    machine: &mut Machine<'_>,
    id: OpId,
    scatter: &ReduceScatter,
    operands: Tensors,
) -> Result<Tensors, String> {
    let group = own_group(machine, id, &scatter.collective, Grouping::CrossReplicaAndPartition)?;
    let group = group.ok_or_else(|| outside(machine, id))?;
    check_parts(machine, id, scatter.factor, &group)?;
    let position = position(&group, machine.process);
    let gathered = exchange(machine, id, &group, operands)?;
    // Elements are reduced one by one, so it is enough to reduce those that this member keeps.
    let own = |part: &Tensors| Arc::new(nth_part(&part[0], scatter.dim, position, scatter.factor));
    let parts: Tensors = gathered.parts.iter().map(own).collect();
    let program = machine.program;
    let parts: Vec<&Arc<Tensor>> = parts.iter().collect();
    Ok(vec![combine(machine, program.ops[id].regions[0], &parts, result_types(program, id)[0])?])
}

pub(super) fn all_to_all(
    machine: &mut Machine<'_>,
    id: OpId,
    op: &AllToAll,
    operands: Tensors,
) -> Result<Tensors, String> {
    let group = own_group(machine, id, &op.collective, Grouping::CrossPartition)?;
    let group = group.ok_or_else(|| outside(machine, id))?;
    check_parts(machine, id, op.split_count, &group)?;
    let position = position(&group, machine.process);
    let gathered = exchange(machine, id, &group, operands)?;
    let received = |(index, ty): (usize, &Type)| {
        let own = |part: &Tensors| Arc::new(nth_part(&part[index], op.split_dim, position, op.split_count));
        let parts: Tensors = gathered.parts.iter().map(own).collect();
        Arc::new(concatenate(&parts, op.concat_dim, ty))
    };
    Ok(result_types(machine.program, id).into_iter().enumerate().map(received).collect())
}

/// The first of a group sends to all of it. Who is in no group gets zeros.
pub(super) fn broadcast(
    machine: &mut Machine<'_>,
    id: OpId,
    collective: &Collective,
    operands: Tensors,
) -> Result<Tensors, String> {
    match own_group(machine, id, collective, Grouping::CrossPartition)? {
        Some(group) => Ok(exchange(machine, id, &group, operands)?.parts[0].clone()),
        None => Ok(zeros(machine, id)),
    }
}

/// Pairs that share a process meet together. Who receives nothing gets zeros.
pub(super) fn permute(
    machine: &mut Machine<'_>,
    id: OpId,
    op: &CollectivePermute,
    operands: Tensors,
) -> Result<Tensors, String> {
    let grouping = if op.channel > 0 { Grouping::CrossPartition } else { Grouping::CrossReplica };
    check_all_run(machine, id)?;
    let own = grouping.own_id(machine.program, machine.process) as i64;
    let chain = chain(&op.pairs, own);
    if chain.is_empty() {
        return Ok(zeros(machine, id));
    }
    let group = grouping.processes(machine, id, &chain)?;
    let gathered = exchange(machine, id, &group, operands)?;
    let source = op.pairs.iter().find(|(_, target)| *target == own);
    match source.and_then(|(source, _)| chain.iter().position(|id| id == source)) {
        Some(source) => Ok(gathered.parts[source].clone()),
        None => Ok(zeros(machine, id)),
    }
}

/// Everyone that an id is paired with, directly or through others, in ascending order; nobody if it is
/// in no pair.
fn chain(pairs: &[(i64, i64)], id: i64) -> Vec<i64> {
    if !pairs.iter().any(|&(source, target)| source == id || target == id) {
        return Vec::new();
    }
    let mut chain = vec![id];
    let mut next = 0;
    while let Some(&id) = chain.get(next) {
        for &(source, target) in pairs {
            let partner = if source == id { target } else { source };
            if (source == id || target == id) && !chain.contains(&partner) {
                chain.push(partner);
            }
        }
        next += 1;
    }
    chain.sort_unstable();
    chain
}

/// What the ids in groups name, and which processes they stand for: the strategies of the StableHLO
/// specification, by its names.
#[derive(Clone, Copy)]
enum Grouping {
    CrossReplica,
    CrossPartition,
    CrossReplicaAndPartition,
    FlattenedIds,
}

impl Grouping {
    /// A collective without a channel is across replicas; one with a channel is as its op says.
    fn of(collective: &Collective, with_channel: Grouping) -> Grouping {
        if collective.global_ids {
            Grouping::FlattenedIds
        } else if collective.channel > 0 {
            with_channel
        } else {
            Grouping::CrossReplica
        }
    }

    /// How many ids there are, and what they name.
    fn ids(self, program: &Program) -> (usize, &'static str) {
        match self {
            Grouping::CrossReplica | Grouping::CrossReplicaAndPartition => (program.replicas, "replica"),
            Grouping::CrossPartition => (program.partitions, "partition"),
            Grouping::FlattenedIds => (processes(program), "process"),
        }
    }

    fn own_id(self, program: &Program, process: Process<'_>) -> usize {
        match self {
            Grouping::CrossReplica | Grouping::CrossReplicaAndPartition => process.replica(program),
            Grouping::CrossPartition => process.partition(program),
            Grouping::FlattenedIds => process.id,
        }
    }

    /// The processes that a group of ids stands for, for the machine's process in particular.
    fn processes(self, machine: &Machine<'_>, id: OpId, ids: &[i64]) -> Result<Vec<usize>, String> {
        let program = machine.program;
        let (count, noun) = self.ids(program);
        let in_range = |&id: &i64| usize::try_from(id).ok().filter(|&index| index < count).ok_or(id);
        let ids: Result<Vec<usize>, i64> = ids.iter().map(in_range).collect();
        let ids = ids.map_err(|outside| {
            let name = program.ops[id].op.name();
            format!("a group of `{name}` has {noun} {outside}, which is not below {count}")
        })?;
        let (own, partitions) = (machine.process, program.partitions);
        Ok(match self {
            Grouping::CrossReplica => {
                ids.into_iter().map(|replica| replica * partitions + own.partition(program)).collect()
            }
            Grouping::CrossPartition => {
                ids.into_iter().map(|partition| own.replica(program) * partitions + partition).collect()
            }
            // All replicas of the first partition come first.
            Grouping::CrossReplicaAndPartition => {
                let of_partition = |partition| ids.iter().map(move |replica| replica * partitions + partition);
                (0..partitions).flat_map(of_partition).collect()
            }
            Grouping::FlattenedIds => ids,
        })
    }
}

/// The group of this machine's process, or `None` if it is in none. Without groups, all take part;
/// negative ids only fill groups up to a common size.
fn own_group(
    machine: &Machine<'_>,
    id: OpId,
    collective: &Collective,
    with_channel: Grouping,
) -> Result<Option<Vec<usize>>, String> {
    check_all_run(machine, id)?;
    let grouping = Grouping::of(collective, with_channel);
    let program = machine.program;
    let own = grouping.own_id(program, machine.process) as i64;
    let ids: Vec<i64> = if collective.groups.is_empty() {
        (0..grouping.ids(program).0 as i64).collect()
    } else {
        let Some(group) = collective.groups.iter().find(|group| group.contains(&own)) else { return Ok(None) };
        group.iter().copied().filter(|&id| id >= 0).collect()
    };
    grouping.processes(machine, id, &ids).map(Some)
}

/// A process that is evaluated alone has nobody to meet.
fn check_all_run(machine: &Machine<'_>, id: OpId) -> Result<(), String> {
    let count = processes(machine.program);
    if machine.process.meeting.is_none() && count > 1 {
        let name = machine.program.ops[id].op.name();
        return Err(format!("`{name}` is across {count} processes, and only one is evaluated"));
    }
    Ok(())
}

/// Shapes say how many parts there are; the number of processes must agree.
fn check_parts(machine: &Machine<'_>, id: OpId, parts: usize, group: &[usize]) -> Result<(), String> {
    if parts == group.len() {
        return Ok(());
    }
    let (name, members) = (machine.program.ops[id].op.name(), group.len());
    Err(format!("`{name}` has shapes for a group of {parts}, but the group has {members}"))
}

fn outside(machine: &Machine<'_>, id: OpId) -> String {
    format!("no group of `{}` has this process", machine.program.ops[id].op.name())
}

fn exchange(machine: &Machine<'_>, id: OpId, group: &[usize], operands: Tensors) -> Result<Arc<Gathered>, String> {
    let process = machine.process;
    match process.meeting {
        Some(meeting) if group.len() > 1 => {
            meeting.meet(process.id, id, group, operands).ok_or_else(|| "other processes never came".to_owned())
        }
        _ => Ok(Arc::new(Gathered { parts: vec![operands], ..Gathered::default() })),
    }
}

fn position(group: &[usize], process: Process<'_>) -> usize {
    group.iter().position(|&member| member == process.id).unwrap_or(0)
}

fn result_types(program: &Program, id: OpId) -> Vec<&Type> {
    program.ops[id].results.iter().map(|&value| program.ty(value)).collect()
}

fn zeros(machine: &Machine<'_>, id: OpId) -> Tensors {
    result_types(machine.program, id).into_iter().map(|ty| Arc::new(Tensor::zeros(ty))).collect()
}

/// One of equal parts of a tensor along a dimension.
fn nth_part(tensor: &Tensor, dim: usize, index: usize, parts: usize) -> Tensor {
    let steps = strides(&tensor.ty.shape);
    let mut ty = tensor.ty.clone();
    ty.shape[dim] /= parts;
    let offset = steps[dim] * (index * ty.shape[dim]) as isize;
    view(tensor, &ty, &steps, offset)
}
