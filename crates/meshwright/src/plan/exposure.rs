//! How much of computing and of moving values is waited for, where each runs beside the other.

use super::graph::{Flow, Kind};

/// What labels come to, in seconds, by the pass in which it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Loads {
    pub(super) forward: Load,
    /// With the update.
    pub(super) backward: Load,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    pub(super) computing: f64,
    /// Moving values that may run beside computing.
    pub(super) moving: f64,
    /// Moving values that nothing runs beside.
    pub(super) waiting: f64,
}

impl Loads {
    pub(super) fn of(&mut self, is_forward: bool) -> &mut Load {
        if is_forward { &mut self.forward } else { &mut self.backward }
    }

    /// Adds what it takes to bring a flow somewhere.
    pub(super) fn add(&mut self, flow: &Flow, kind: Kind, is_forward: bool, seconds: f64) {
        let load = self.of(is_forward);
        if is_awaited(flow, kind) { load.waiting += seconds } else { load.moving += seconds }
    }

    pub(super) fn add_all(&mut self, other: &Loads) {
        for (own, other) in [(&mut self.forward, other.forward), (&mut self.backward, other.backward)] {
            own.computing += other.computing;
            own.moving += other.moving;
            own.waiting += other.waiting;
        }
    }
}

/// What a second of each costs in either pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Exposure {
    pub(super) forward: Rates,
    pub(super) backward: Rates,
}

/// What another second of each costs. Computing and moving values run beside each other, so that it costs less than a
/// second: the less, the more there is of the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rates {
    pub(super) computing: f64,
    pub(super) moving: f64,
}

impl Exposure {
    /// All of computing is waited for, and such a share of what values take to be moved.
    pub(super) const fn all(moving: f64) -> Exposure {
        let rates = Rates { computing: 1.0, moving };
        Exposure { forward: rates, backward: rates }
    }

    /// What is so where as much is hidden as mostly is.
    pub(super) fn likely(loads: &Loads) -> Exposure {
        let rates = |load: Load| Rates::new(load.computing, load.moving, LIKELY);
        Exposure { forward: rates(loads.forward), backward: rates(loads.backward) }
    }

    /// Halfway to another.
    pub(super) fn between(self, other: Exposure) -> Exposure {
        let rates = |own: Rates, other: Rates| Rates {
            computing: 0.5 * (own.computing + other.computing),
            moving: 0.5 * (own.moving + other.moving),
        };
        Exposure { forward: rates(self.forward, other.forward), backward: rates(self.backward, other.backward) }
    }

    pub(super) fn of(&self, is_forward: bool) -> Rates {
        if is_forward { self.forward } else { self.backward }
    }

    /// What a second of moving a flow costs in a pass.
    pub(super) fn moving(&self, flow: &Flow, kind: Kind, is_forward: bool) -> f64 {
        if is_awaited(flow, kind) { 1.0 } else { self.of(is_forward).moving }
    }

    /// What everything costs.
    pub(super) fn seconds(&self, loads: &Loads) -> f64 {
        let of_pass =
            |rates: Rates, load: Load| rates.computing * load.computing + rates.moving * load.moving + load.waiting;
        of_pass(self.forward, loads.forward) + of_pass(self.backward, loads.backward)
    }
}

impl Rates {
    /// By how long computing and moving took, and both together; what was not moved tells nothing of moving.
    pub(super) fn measured(computing: f64, moving: f64, both: f64, before: Rates) -> Rates {
        if moving <= 0.0 {
            return Rates { computing: 1.0, ..before };
        }
        let (mut less, mut more) = (1.0, MOST);
        for _ in 0..HALVINGS {
            let middle = 0.5 * (less + more);
            if together(computing, moving, middle) > both { less = middle } else { more = middle }
        }
        Rates::new(computing, moving, more)
    }

    fn new(computing: f64, moving: f64, power: f64) -> Rates {
        let both = together(computing, moving, power).max(1e-12);
        let rate = |one: f64| (one / both).powf(power - 1.0).clamp(LEAST, 1.0);
        Rates { computing: rate(computing), moving: rate(moving) }
    }
}

/// What two take beside each other, each of which is waited for by the other now and then: to some power, the sum of both.
/// With 1 one runs after the other; the greater it is, the closer to the longer of both.
fn together(left: f64, right: f64, power: f64) -> f64 {
    let longer = left.max(right).max(1e-12);
    longer * (1.0 + (left.min(right) / longer).powf(power)).powf(1.0 / power)
}

/// The power before anything was simulated, and the greatest.
const LIKELY: f64 = 1.65;
const MOST: f64 = 32.0;
/// So often is the interval halved in which the power lies.
const HALVINGS: usize = 40;
/// Nothing is taken to be hidden altogether.
const LEAST: f64 = 0.05;

/// Weights are known long before they are read, and gradients long before updates; all else is waited for, and what
/// nothing runs beside.
fn is_awaited(flow: &Flow, kind: Kind) -> bool {
    flow.is_alone || kind == Kind::Activation
}
