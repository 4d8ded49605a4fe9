//! A model reduced again and again, with the way back to the first.

use std::sync::Arc;

use crate::model::Model;
use crate::reduce::{Reduced, Wipeout, reduce};

#[derive(Debug)]
pub(crate) struct Chain {
    reduced: Reduced,
    parent: Option<Arc<Chain>>,
}

impl Chain {
    pub(crate) fn new(model: Model) -> Result<Chain, Wipeout> {
        Ok(Chain { reduced: reduce(model)?, parent: None })
    }

    /// A model with the same costs, without some labels, reduced further.
    pub(crate) fn without(
        self: &Arc<Chain>,
        mut model: Model,
        gone: impl Iterator<Item = (u32, u32)>,
    ) -> Result<Chain, Wipeout> {
        for (node, label) in gone {
            model.nodes[node as usize].costs[label as usize] = f64::INFINITY;
        }
        Ok(Chain { reduced: reduce(model)?, parent: Some(self.clone()) })
    }

    pub(crate) fn model(&self) -> &Model {
        &self.reduced.model
    }

    /// What an assignment means for the model that was reduced first.
    pub(crate) fn expand(&self, labels: &[u32]) -> Vec<u32> {
        let labels = self.reduced.expand(labels);
        match &self.parent {
            Some(parent) => parent.expand(&labels),
            None => labels,
        }
    }

    /// See [`Reduced::restrict`].
    pub(crate) fn restrict(&self, labels: &[u32]) -> Vec<u32> {
        match &self.parent {
            Some(parent) => self.reduced.restrict(&parent.restrict(labels)),
            None => self.reduced.restrict(labels),
        }
    }

    /// Prices for this model, from prices for the one it was reduced from.
    pub(crate) fn carry_prices(&self, prices: &[f64]) -> Vec<f64> {
        self.reduced.carry_prices(prices)
    }

    /// The slot of the model that was reduced first.
    pub(crate) fn first_slot(&self, slot: usize) -> usize {
        let slot = self.reduced.first_slot(slot);
        match &self.parent {
            Some(parent) => parent.first_slot(slot),
            None => slot,
        }
    }
}
