//! Where temporaries lie for as long as they are there, and what is lost between them.

use std::cmp::Reverse;
use std::ops::Range;

/// A piece of memory that stays where it is for some time.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub(super) bytes: usize,
    pub(super) life: Range<usize>,
}

/// Where XLA lets buffers begin on a CPU.
const ALIGNMENT: usize = 64;

/// The bytes in which XLA lays chunks out: those that are there at the same time side by side, each in the smallest gap
/// that has room for it. It tries the largest first and the longest first, and takes what needs less.
pub(super) fn packed_bytes(chunks: &[Chunk]) -> usize {
    let mut chunks: Vec<Chunk> = chunks.iter().filter(|chunk| chunk.bytes > 0).cloned().collect();
    chunks.iter_mut().for_each(|chunk| chunk.bytes = chunk.bytes.next_multiple_of(ALIGNMENT));
    chunks.sort_by_key(|chunk| (Reverse(chunk.bytes), Reverse(chunk.life.len()), chunk.life.start));
    let largest_first = laid_out(&chunks);
    chunks.sort_by_key(|chunk| (Reverse(chunk.life.len()), Reverse(chunk.bytes), chunk.life.start));
    largest_first.min(laid_out(&chunks))
}

/// The bytes that chunks take when each is put into the best gap, in this order.
fn laid_out(chunks: &[Chunk]) -> usize {
    let mut placed: Vec<(Range<usize>, &Range<usize>)> = Vec::with_capacity(chunks.len());
    let mut top = 0;
    for chunk in chunks {
        let start = best_gap(&placed, chunk);
        let place = start..start + chunk.bytes;
        top = top.max(place.end);
        // What lies lower comes first.
        let index = placed.partition_point(|(other, _)| other.start <= place.start);
        placed.insert(index, (place, &chunk.life));
    }
    top
}

/// Where the smallest gap begins that has room for a chunk among those that are there at its time, or where all of them
/// end.
fn best_gap(placed: &[(Range<usize>, &Range<usize>)], chunk: &Chunk) -> usize {
    let (mut end, mut best) = (0, None);
    for (place, life) in placed {
        if life.start >= chunk.life.end || chunk.life.start >= life.end {
            continue;
        }
        let gap = place.start.saturating_sub(end);
        if gap >= chunk.bytes && best.is_none_or(|(least, _)| gap < least) {
            best = Some((gap, end));
        }
        end = end.max(place.end);
    }
    best.map_or(end, |(_, start)| start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(chunks: &[(usize, Range<usize>)], expected: usize) {
        let chunks: Vec<Chunk> =
            chunks.iter().map(|(bytes, life)| Chunk { bytes: *bytes, life: life.clone() }).collect();
        assert_eq!(packed_bytes(&chunks), expected);
    }

    #[test]
    fn chunks_lie_side_by_side_while_they_are_there() {
        check(&[], 0);
        check(&[(1, 0..1)], 64);
        check(&[(128, 0..2), (64, 2..4)], 128);
        check(&[(128, 0..2), (64, 1..4)], 192);
        check(&[(64, 0..2), (64, 1..4), (128, 3..4)], 192);
    }

    #[test]
    fn gaps_may_be_too_small() {
        // There are never more than 384 bytes at a time, but what is behind the first piece stays where that ended.
        check(&[(192, 1..5), (128, 1..3), (128, 4..6), (128, 5..7), (128, 5..6)], 448);
    }
}
