//! Shardings: how values lie on a mesh, and what one op's sharding says about its neighbours'.

mod attention;
mod custom;
mod expand;
mod free;
mod layout;
mod mesh;
mod propagate;
mod reshape;
mod rule;
mod rules;
mod sharding;
mod strategy;

pub use custom::parse as parse_rule;
pub use expand::expand;
pub use layout::Layout;
pub use mesh::{Axis, Mesh, Piece, PieceSet, Pieces};
pub use rule::{Carry, Factor, FactorId, Kind, Labels, Rule};
pub use rules::rule;
pub use sharding::{Reduction, Sharding};
pub use strategy::{Refusal, Strategy};
