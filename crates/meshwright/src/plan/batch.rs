//! The batch that the most samples a second go through with.

use super::search::Refusal;

/// A batch that was tried.
#[derive(Clone, Debug)]
pub struct Tried<P> {
    pub batch: usize,
    /// The plan with the seconds of its step, or why there is none.
    pub outcome: Result<(P, f64), Refusal>,
}

/// Batches are doubled as long as throughput rises by more than this share.
const LEAST_RISE: f64 = 0.01;
/// Nobody trains with a batch that is doubled more often.
const MOST_DOUBLED: usize = 12;

/// Tries batches for the largest throughput: powers of two times the number of devices until it stops to rise, then
/// those halfway beside the best. `plan` plans for a batch and tells the seconds of a step. Gives all that were tried,
/// in order of size, and the number of the best among them.
pub fn best_batch<P>(
    devices: usize,
    plan: impl FnMut(usize) -> Result<(P, f64), Refusal>,
) -> (Vec<Tried<P>>, Option<usize>) {
    let mut trials = Trials { plan, tried: Vec::new() };
    let mut batch = devices.max(1);
    // It may be that not even a sample for every device fits.
    while batch > 1 && trials.rate(batch) == 0.0 {
        batch /= 2;
    }
    for _ in 0..MOST_DOUBLED {
        let rate = trials.rate(batch);
        if rate == 0.0 || trials.rate(2 * batch) <= rate * (1.0 + LEAST_RISE) {
            break;
        }
        batch *= 2;
    }
    if trials.rate(batch) > 0.0 {
        let below = batch.is_multiple_of(4).then_some(batch / 4 * 3);
        let above = batch.is_multiple_of(2).then_some(batch / 2 * 3);
        for halfway in [below, above].into_iter().flatten() {
            trials.rate(halfway);
        }
    }
    let mut tried = trials.tried;
    tried.sort_by_key(|tried| tried.batch);
    let fitting = (0..tried.len()).filter(|&number| tried[number].outcome.is_ok());
    let best = fitting.max_by(|&left, &right| tried[left].rate().total_cmp(&tried[right].rate()));
    (tried, best)
}

impl<P> Tried<P> {
    /// Samples a second; none where there is no plan.
    pub fn rate(&self) -> f64 {
        self.outcome.as_ref().map_or(0.0, |(_, seconds)| self.batch as f64 / seconds)
    }
}

struct Trials<P, F> {
    plan: F,
    tried: Vec<Tried<P>>,
}

impl<P, F: FnMut(usize) -> Result<(P, f64), Refusal>> Trials<P, F> {
    /// The throughput of a batch, planned once.
    fn rate(&mut self, batch: usize) -> f64 {
        if let Some(known) = self.tried.iter().find(|tried| tried.batch == batch) {
            return known.rate();
        }
        let tried = Tried { batch, outcome: (self.plan)(batch) };
        let rate = tried.rate();
        self.tried.push(tried);
        rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps that take a second and so much for each sample, of which at most so many fit.
    #[track_caller]
    fn check(devices: usize, seconds: f64, most: usize, tried: &[usize], best: Option<usize>) {
        let (found, number) = best_batch(devices, |batch| match batch <= most {
            true => Ok(((), 1.0 + seconds * batch as f64)),
            false => Err(Refusal::Unplannable("too large".to_owned())),
        });
        assert_eq!(found.iter().map(|tried| tried.batch).collect::<Vec<_>>(), tried);
        assert_eq!(number.map(|number| found[number].batch), best);
    }

    #[test]
    fn batches_double_until_they_no_longer_fit() {
        check(8, 0.0, 70, &[8, 16, 32, 48, 64, 96, 128], Some(64));
        check(8, 0.0, 100, &[8, 16, 32, 48, 64, 96, 128], Some(96));
    }

    #[test]
    fn batches_double_until_nothing_is_gained() {
        check(4, 1.0, 1000, &[4, 8, 16, 32, 48, 64, 96, 128], Some(128));
    }

    #[test]
    fn fewer_samples_than_devices_are_tried_where_no_more_fit() {
        check(8, 0.1, 3, &[2, 3, 4, 8], Some(3));
        check(8, 0.1, 0, &[1, 2, 4, 8], None);
    }
}
