//! Plans under many limits, and time against memory.

use super::considered::{Considered, by_time};
use super::recipe::Recipe;
use super::search::{Otherwise, Refusal, Request, Searched, TooLarge, nothing_found, refusal, search, smallest};
use super::space::Space;

/// A plan in few numbers, and all that was decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    pub figures: Considered,
    pub recipe: Recipe,
}

/// The fastest plan under a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Rung {
    pub limit_bytes: u64,
    pub planned: Planned,
}

/// The fastest plans found that fit each of some limits; that of the request is not looked at. What is found under one
/// limit counts under all that it fits, so that more memory is never slower.
pub fn plan_limits(request: &Request<'_>, limits: &[u64]) -> Vec<Result<Planned, Refusal>> {
    match request.in_space(|space| plan_in(request, space, limits)) {
        Ok(planned) => planned,
        Err(refusal) => limits.iter().map(|_| Err(refusal.clone())).collect(),
    }
}

fn plan_in(request: &Request<'_>, space: &Space<'_>, limits: &[u64]) -> Vec<Result<Planned, Refusal>> {
    let mut pool = Pool::default();
    // From the most down: what memory has nothing to do with is labelled once, and where nothing fits, nothing fits
    // into less.
    let mut sorted = limits.to_vec();
    sorted.sort_unstable_by(|left, right| right.cmp(left));
    let mut refused = None;
    for limit_bytes in sorted {
        let request = Request { limit_bytes, ..*request };
        let searched = search(&request, space, Otherwise::FindLeast);
        pool.add(&searched);
        if pool.best(limit_bytes).is_none() {
            refused = Some(refusal(&request, searched));
            break;
        }
    }
    let of_limit = |&limit_bytes: &u64| match (pool.best(limit_bytes), &refused) {
        (Some(planned), _) => Ok(planned.clone()),
        (None, Some(refusal)) => Err(under(refusal, limit_bytes)),
        (None, None) => Err(Refusal::Unplannable(nothing_found(request))),
    };
    limits.iter().map(of_limit).collect()
}

/// Time against memory: the fastest plans found under about so many limits, from what the fastest of all takes down to
/// the least that any does, the largest limit first.
pub fn plan_ladder(request: &Request<'_>, count: usize) -> Result<Vec<Rung>, Refusal> {
    request.in_space(|space| climb(request, space, count))?
}

fn climb(request: &Request<'_>, space: &Space<'_>, count: usize) -> Result<Vec<Rung>, Refusal> {
    let mut pool = Pool::default();
    let searched = search(request, space, Otherwise::FindLeast);
    pool.add(&searched);
    let Some(fastest) = pool.best(request.limit_bytes) else { return Err(refusal(request, searched)) };
    let most_bytes = fastest.figures.peak_bytes;
    pool.add(&smallest(request, space));
    let limits = rungs(most_bytes, pool.least_bytes().unwrap_or(most_bytes), count);
    // The ends are known.
    for &limit_bytes in limits.iter().skip(1).take(limits.len().saturating_sub(2)) {
        let request = Request { limit_bytes, ..*request };
        pool.add(&search(&request, space, Otherwise::GiveUp));
    }
    let rung = |limit_bytes: u64| Some(Rung { limit_bytes, planned: pool.best(limit_bytes)?.clone() });
    Ok(limits.into_iter().filter_map(rung).collect())
}

/// Limits between the most and the least, both among them, each smaller than the last by the same factor.
fn rungs(most_bytes: u64, least_bytes: u64, count: usize) -> Vec<u64> {
    let steps = count.saturating_sub(1).max(1);
    let factor = (least_bytes as f64 / most_bytes.max(1) as f64).powf(1.0 / steps as f64);
    let between = (1..steps).map(|step| (most_bytes as f64 * factor.powi(step as i32)) as u64);
    let mut limits: Vec<u64> = [most_bytes].into_iter().chain(between).chain([least_bytes]).collect();
    limits.dedup();
    limits
}

/// Everything that was found under any limit.
#[derive(Default)]
struct Pool {
    planned: Vec<Planned>,
}

impl Pool {
    fn add(&mut self, searched: &Searched<'_>) {
        let planned = searched.found.iter().map(|(sketch, outcome)| Planned {
            figures: Considered::new(&sketch.frame, outcome),
            recipe: outcome.recipe.clone(),
        });
        self.planned.extend(planned);
    }

    /// The fastest that fits; of equals the smallest.
    fn best(&self, limit_bytes: u64) -> Option<&Planned> {
        let fitting = self.planned.iter().filter(|planned| planned.figures.peak_bytes <= limit_bytes);
        fitting.min_by(|left, right| by_time(&left.figures, &right.figures))
    }

    fn least_bytes(&self) -> Option<u64> {
        self.planned.iter().map(|planned| planned.figures.peak_bytes).min()
    }
}

/// A refusal under a smaller limit.
fn under(refusal: &Refusal, limit_bytes: u64) -> Refusal {
    match refusal {
        Refusal::TooLarge(large) => {
            let missing_bytes = large.least_bytes.saturating_sub(limit_bytes);
            Refusal::TooLarge(Box::new(TooLarge { missing_bytes, ..(**large).clone() }))
        }
        Refusal::Unplannable(_) => refusal.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::rungs;

    #[test]
    fn rungs_are_apart_by_the_same_factor() {
        assert_eq!(rungs(16_000, 1_000, 5), [16_000, 8_000, 4_000, 2_000, 1_000]);
        assert_eq!(rungs(500, 500, 5), [500]);
        assert_eq!(rungs(500, 400, 2), [500, 400]);
        assert_eq!(rungs(500, 400, 0), [500, 400]);
    }
}
