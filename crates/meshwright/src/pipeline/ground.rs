//! What stages lie on: all on one mesh, or some on a mesh that lacks axes of it.

use crate::shard::{Layout, Mesh, Sharding};

/// How the program lies on the mesh of every stage.
pub(super) struct Grounds<'p> {
    /// The first is that of the mesh with all axes, whether a stage has it or not. The others are of meshes that lack
    /// some, each once.
    pub(super) layouts: Vec<Layout<'p>>,
    /// Of every stage, the number of its layout.
    of: Vec<usize>,
}

impl<'p> Grounds<'p> {
    /// So many stages, each of which lacks some axes.
    pub(super) fn new(layout: Layout<'p>, stages: usize, lacks: &[Vec<usize>]) -> Grounds<'p> {
        let (whole, mut layouts) = (layout.mesh.clone(), vec![layout]);
        let number = |stage: usize| {
            let mesh = lacks.get(stage).map_or_else(|| whole.clone(), |axes| whole.lacking(axes));
            layouts.iter().position(|known: &Layout<'_>| known.mesh == mesh).unwrap_or_else(|| {
                layouts.push(layouts[0].within(mesh));
                layouts.len() - 1
            })
        };
        let of = (0..stages).map(number).collect();
        Grounds { layouts, of }
    }

    pub(super) fn stages(&self) -> usize {
        self.of.len()
    }

    pub(super) fn stage(&self, chunk: usize) -> usize {
        chunk % self.of.len()
    }

    /// The number of the layout that a chunk has.
    pub(super) fn number(&self, chunk: usize) -> usize {
        self.of[self.stage(chunk)]
    }

    pub(super) fn layout(&self, chunk: usize) -> &Layout<'p> {
        &self.layouts[self.number(chunk)]
    }

    /// The mesh of every stage.
    pub(super) fn meshes(&self) -> Vec<Mesh> {
        self.of.iter().map(|&number| self.layouts[number].mesh.clone()).collect()
    }

    /// A form that a value may have on the stages of two chunks, so that it can be sent from one to the other.
    pub(super) fn common(&self, from: usize, to: usize, lies: &Sharding) -> Sharding {
        match self.number(from) == self.number(to) {
            true => lies.clone(),
            false => lies.within(&self.layout(from).mesh).within(&self.layout(to).mesh),
        }
    }
}
