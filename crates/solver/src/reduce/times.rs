//! Slots whose limit can bind, and that no other slot speaks for.

use crate::model::Model;

/// The slots that are left, and for each that was there, the place of the one that speaks for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptSlots {
    pub(crate) slots: Vec<u32>,
    pub(crate) heirs: Vec<Option<u32>>,
}

/// Drops slots that cannot bind, and slots at which no more can be used than at a neighbor whose limit
/// is no higher.
pub(super) fn keep_binding(model: &mut Model) -> KeptSlots {
    let count = model.limits.len();
    // What all nodes together can use at most, and where any span starts or ends.
    let (mut most, mut starts, mut ends) = (vec![0_i64; count + 1], vec![false; count + 1], vec![false; count + 1]);
    for node in &model.nodes {
        for ((start, end), column) in node.uses.columns() {
            let amount = column.iter().copied().max().unwrap_or(0);
            most[start as usize] += amount;
            most[end as usize] -= amount;
            starts[start as usize] = true;
            ends[end as usize] = true;
        }
    }
    let mut kept: Vec<Kept> = Vec::new();
    let mut speakers: Vec<Option<usize>> = vec![None; count];
    let (mut now, mut started, mut ended) = (0, false, false);
    for slot in 0..count {
        now += most[slot];
        started |= starts[slot];
        ended |= ends[slot];
        if now <= model.limits[slot] {
            // A limit below zero is kept for the proof that there is no solution.
            if model.limits[slot] >= 0 {
                continue;
            }
        }
        if push(&mut kept, &mut speakers, Kept { slot, limit: model.limits[slot], started, ended }) {
            (started, ended) = (false, false);
        }
    }
    let slots: Vec<u32> = kept.iter().map(|kept| kept.slot as u32).collect();
    renumber(model, &slots);
    let heirs = (0..count).map(|slot| {
        let mut speaker = speakers[slot]?;
        while let Some(next) = speakers[speaker].filter(|next| *next != speaker) {
            speaker = next;
        }
        slots.binary_search(&(speaker as u32)).ok().map(|place| place as u32)
    });
    KeptSlots { heirs: heirs.collect(), slots }
}

/// A slot, and whether spans start or end between the one kept before it and itself.
#[derive(Clone, Copy, Debug)]
struct Kept {
    slot: usize,
    limit: i64,
    started: bool,
    ended: bool,
}

/// Adds a slot, unless the last one speaks for it; drops those that it speaks for.
fn push(kept: &mut Vec<Kept>, speakers: &mut [Option<usize>], mut next: Kept) -> bool {
    while let Some(last) = kept.last() {
        if !next.started && next.limit >= last.limit {
            speakers[next.slot] = Some(last.slot);
            return false;
        }
        if next.ended || next.limit > last.limit {
            break;
        }
        // Everything alive at the last slot is alive at this one.
        next.started |= last.started;
        next.ended |= last.ended;
        speakers[last.slot] = Some(next.slot);
        kept.pop();
    }
    speakers[next.slot] = Some(next.slot);
    kept.push(next);
    true
}

fn renumber(model: &mut Model, slots: &[u32]) {
    let place = |slot: u32| slots.partition_point(|kept| *kept < slot) as u32;
    model.limits = slots.iter().map(|slot| model.limits[*slot as usize]).collect();
    for node in &mut model.nodes {
        let columns: Vec<((u32, u32), Vec<i64>)> = node
            .uses
            .columns()
            .map(|((start, end), column)| ((place(start), place(end)), column.to_vec()))
            .filter(|((start, end), _)| start < end)
            .collect();
        node.uses.spans = columns.iter().map(|(span, _)| *span).collect();
        node.uses.amounts = columns.into_iter().flat_map(|(_, column)| column).collect();
        let limits = &mut model.limits;
        node.uses.tidy(|(start, end), amount| {
            limits[start as usize..end as usize].iter_mut().for_each(|limit| *limit -= amount);
        });
    }
}
