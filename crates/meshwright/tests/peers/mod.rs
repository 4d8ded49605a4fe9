//! What automatic planning is measured against: plans that people choose without it. They go through the same tactics,
//! lowering and simulation, but nothing of the planner is asked, and the planner cannot ask them.

pub(crate) mod cases;
pub(crate) mod grid;
pub(crate) mod ladders;
pub(crate) mod osdp;
