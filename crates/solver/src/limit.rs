//! When to stop: after some work, or at some time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long to search. Searching ends earlier when the best assignment is proven to be that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    Time(Duration),
    /// Table entries to compute, about. The same work gives the same answer, whatever the machine and
    /// the number of threads.
    Work(f64),
}

/// Tells whether the time is over. Without a limit of time it never looks at a clock.
#[derive(Debug)]
pub(crate) struct Deadline {
    end: Option<Instant>,
    is_over: AtomicBool,
}

impl Deadline {
    pub(crate) fn new(limit: Limit) -> Deadline {
        let end = match limit {
            Limit::Time(time) => Instant::now().checked_add(time),
            Limit::Work(_) => None,
        };
        Deadline { end, is_over: AtomicBool::new(false) }
    }

    pub(crate) fn is_over(&self) -> bool {
        if self.is_over.load(Ordering::Relaxed) {
            return true;
        }
        let over = self.end.is_some_and(|end| Instant::now() >= end);
        if over {
            self.is_over.store(true, Ordering::Relaxed);
        }
        over
    }
}

/// Work done against what is allowed.
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    pub(crate) done: f64,
    allowed: f64,
    deadline: &'a Deadline,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(allowed: f64, deadline: &'a Deadline) -> Meter<'a> {
        Meter { done: 0.0, allowed, deadline }
    }

    pub(crate) fn add(&mut self, work: f64) {
        self.done += work;
    }

    pub(crate) fn allowed(&self) -> f64 {
        self.allowed
    }

    pub(crate) fn is_over(&self) -> bool {
        self.done >= self.allowed || self.deadline.is_over()
    }
}
