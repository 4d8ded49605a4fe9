//! A model reduced again and again, with the way back to the first.

use std::sync::Arc;

use crate::model::Model;
use crate::reduce::{Reduced, Wipeout, reduce};

#[derive(Debug)]
pub(crate) struct Chain {
    model: Model,
    way: Arc<Way>,
}

/// The way back over one reduction, and on. Models in between are not kept.
#[derive(Debug)]
struct Way {
    reduced: Reduced,
    parent: Option<Arc<Way>>,
}

impl Chain {
    pub(crate) fn new(model: Model) -> Result<Chain, Wipeout> {
        let (model, reduced) = reduce(model)?;
        Ok(Chain { model, way: Arc::new(Way { reduced, parent: None }) })
    }

    /// A model with the same costs, without some labels, reduced further.
    pub(crate) fn without(&self, mut model: Model, gone: impl Iterator<Item = (u32, u32)>) -> Result<Chain, Wipeout> {
        for (node, label) in gone {
            model.nodes[node as usize].costs[label as usize] = f64::INFINITY;
        }
        let (model, reduced) = reduce(model)?;
        Ok(Chain { model, way: Arc::new(Way { reduced, parent: Some(self.way.clone()) }) })
    }

    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// What an assignment means for the model that was reduced first.
    pub(crate) fn expand(&self, labels: &[u32]) -> Vec<u32> {
        let mut labels = self.way.reduced.expand(labels);
        let mut way = &self.way;
        while let Some(parent) = &way.parent {
            labels = parent.reduced.expand(&labels);
            way = parent;
        }
        labels
    }

    /// See [`Reduced::restrict`].
    pub(crate) fn restrict(&self, labels: &[u32]) -> Vec<u32> {
        self.way.restrict(labels)
    }

    /// Prices for this model, from prices for the one it was reduced from.
    pub(crate) fn carry_prices(&self, prices: &[f64]) -> Vec<f64> {
        self.way.reduced.carry_prices(prices)
    }

    /// The slot of the model that was reduced first.
    pub(crate) fn first_slot(&self, slot: usize) -> usize {
        let mut slot = self.way.reduced.first_slot(slot);
        let mut way = &self.way;
        while let Some(parent) = &way.parent {
            slot = parent.reduced.first_slot(slot);
            way = parent;
        }
        slot
    }
}

impl Way {
    fn restrict(&self, labels: &[u32]) -> Vec<u32> {
        match &self.parent {
            Some(parent) => self.reduced.restrict(&parent.restrict(labels)),
            None => self.reduced.restrict(labels),
        }
    }
}
