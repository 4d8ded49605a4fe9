//! Collectives that engines combine into fewer, larger ones.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::kernels::{Kernel, Task};
use crate::cluster::Collective;

/// Kernels in which collectives of the same kind and group are one where nobody needs the first before the last
/// is made, up to so many bytes. It runs where the last stood.
pub(super) fn combine(kernels: &[Kernel], bucket_bytes: usize) -> Vec<Kernel> {
    let first_readers = first_readers(kernels);
    // For each kernel, the one that it becomes part of.
    let mut becomes: Vec<usize> = (0..kernels.len()).collect();
    let mut open: FxHashMap<Kind<'_>, Bucket> = FxHashMap::default();
    for (index, kernel) in kernels.iter().enumerate() {
        let Task::Collective { collective, pieces, bytes } = &kernel.task else { continue };
        let is_summed = matches!(collective, Collective::AllReduce | Collective::ReduceScatter | Collective::AllGather);
        if !is_summed {
            continue;
        }
        let bucket = open.entry((*collective, pieces)).or_default();
        if bucket.bytes + bytes > bucket_bytes || bucket.first_reader <= index {
            *bucket = Bucket::default();
        }
        bucket.members.push(index);
        bucket.bytes += bytes;
        bucket.first_reader = bucket.first_reader.min(first_readers[index]);
        bucket.members.iter().for_each(|&member| becomes[member] = index);
    }
    rewrite(kernels, &becomes)
}

/// What collectives have in common that can be one: what they do, and the levels of the group that does it.
type Kind<'k> = (Collective, &'k [(usize, usize)]);

struct Bucket {
    members: Vec<usize>,
    bytes: usize,
    first_reader: usize,
}

impl Default for Bucket {
    fn default() -> Bucket {
        Bucket { members: Vec::new(), bytes: 0, first_reader: usize::MAX }
    }
}

fn first_readers(kernels: &[Kernel]) -> Vec<usize> {
    let mut first = vec![usize::MAX; kernels.len()];
    for (index, kernel) in kernels.iter().enumerate() {
        for &maker in &kernel.after {
            first[maker as usize] = first[maker as usize].min(index);
        }
    }
    first
}

fn rewrite(kernels: &[Kernel], becomes: &[usize]) -> Vec<Kernel> {
    let mut extra: FxHashMap<usize, (usize, SmallVec<[u32; 4]>)> = FxHashMap::default();
    for (index, kernel) in kernels.iter().enumerate().filter(|(index, _)| becomes[*index] != *index) {
        if let Task::Collective { bytes, .. } = &kernel.task {
            let (more_bytes, more_after) = extra.entry(becomes[index]).or_default();
            *more_bytes += bytes;
            more_after.extend(kernel.after.iter().copied());
        }
    }
    let mut numbers = vec![0u32; kernels.len()];
    let mut combined: Vec<Kernel> = Vec::with_capacity(kernels.len());
    for (index, kernel) in kernels.iter().enumerate().filter(|(index, _)| becomes[*index] == *index) {
        numbers[index] = combined.len() as u32;
        let mut kernel = kernel.clone();
        if let (Task::Collective { bytes, .. }, Some((more_bytes, more_after))) =
            (&mut kernel.task, extra.remove(&index))
        {
            *bytes += more_bytes;
            kernel.after.extend(more_after);
        }
        // What it waits for stands before it, also after combining: nobody read it in between.
        kernel.after = kernel.after.iter().map(|&maker| numbers[becomes[maker as usize]]).collect();
        kernel.after.sort_unstable();
        kernel.after.dedup();
        combined.push(kernel);
    }
    combined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::OpId;

    fn kernel(task: Task, after: &[u32]) -> Kernel {
        Kernel { op: OpId(0), task, after: after.iter().copied().collect(), bytes: 0.0, is_late: false }
    }

    fn collective(collective: Collective, devices: usize, after: &[u32]) -> Kernel {
        let pieces = SmallVec::from_slice(&[(devices, 1)]);
        kernel(Task::Collective { collective, pieces, bytes: 10 }, after)
    }

    fn sum(after: &[u32]) -> Kernel {
        collective(Collective::AllReduce, 4, after)
    }

    fn chain(after: &[u32]) -> Kernel {
        kernel(Task::Chain, after)
    }

    /// What is left of kernels: bytes of collectives, nothing of others, and what each waits for.
    #[track_caller]
    fn check(kernels: &[Kernel], bucket_bytes: usize, expected: &[(usize, &[u32])]) {
        let combined = combine(kernels, bucket_bytes);
        let bytes = |kernel: &Kernel| match &kernel.task {
            Task::Collective { bytes, .. } => *bytes,
            _ => 0,
        };
        let found: Vec<(usize, &[u32])> = combined.iter().map(|kernel| (bytes(kernel), &*kernel.after)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn sums_that_nobody_reads_in_between_become_one() {
        let list = [chain(&[]), sum(&[0]), chain(&[]), sum(&[2]), chain(&[1, 3])];
        check(&list, 100, &[(0, &[]), (0, &[]), (20, &[0, 1]), (0, &[2])]);
    }

    #[test]
    fn a_sum_that_is_read_before_the_next_stays_apart() {
        let list = [sum(&[]), chain(&[0]), sum(&[1]), chain(&[2])];
        check(&list, 100, &[(10, &[]), (0, &[0]), (10, &[1]), (0, &[2])]);
    }

    #[test]
    fn a_bucket_holds_so_many_bytes() {
        let list = [sum(&[]), sum(&[]), sum(&[]), chain(&[0, 1, 2])];
        check(&list, 20, &[(20, &[]), (10, &[]), (0, &[0, 1])]);
        check(&list, 5, &[(10, &[]), (10, &[]), (10, &[]), (0, &[0, 1, 2])]);
    }

    #[test]
    fn other_kinds_and_other_groups_stay_apart() {
        let list = [sum(&[]), collective(Collective::ReduceScatter, 4, &[]), collective(Collective::AllReduce, 2, &[])];
        check(&list, 100, &[(10, &[]), (10, &[]), (10, &[])]);
        let exchange = || collective(Collective::AllToAll, 4, &[]);
        check(&[exchange(), exchange()], 100, &[(10, &[]), (10, &[])]);
    }
}
