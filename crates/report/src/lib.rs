//! What there is to tell about plans and steps: tables, texts and JSON, and the form of a plan as a file.
//!
//! The command and the Python package show the same: both get it here. What they show it on, and where files lie, is
//! theirs.

pub mod simulate;

pub mod plan;

pub mod page;

pub mod axes;
pub mod diagnostics;
pub mod names;
pub mod picture;
pub mod place;
pub mod problem;
pub mod table;
