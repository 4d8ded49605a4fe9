//! Shardings: how values lie on a mesh, and what one op's sharding says about its neighbours'.

mod attention;
mod conflict;
mod custom;
mod free;
mod layout;
mod mesh;
mod pieces;
mod propagate;
mod reshape;
mod rule;
mod rules;
mod sharding;
mod strategy;

pub use conflict::Conflict;
pub use custom::parse as parse_rule;
pub(crate) use layout::is_tie;
pub use layout::{Carried, Layout};
pub use mesh::{Axis, Mesh, Part};
pub use pieces::{Piece, PieceSet, Pieces};
pub use rule::{Carry, Factor, FactorId, Kind, Labels, Rule, factor_name};
pub use rules::rule;
pub use sharding::{Reduction, Sharding};
pub use strategy::{Refusal, Strategy};
