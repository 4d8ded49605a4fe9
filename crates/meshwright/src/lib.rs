//! Meshwright turns a single-device training step into the fastest distributed one that fits the
//! memory of a given cluster.
//!
//! The modules stand in the order of the pipeline.

pub mod codes;

pub mod program;

pub mod import;

pub mod models;

pub mod cluster;

pub mod profile;

pub mod shard;

pub mod tactics;

pub mod plan;

pub mod lower;

pub mod pipeline;

pub mod torch;

pub mod simulate;

pub mod validate;

pub mod interpret;
