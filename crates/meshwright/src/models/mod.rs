//! Well-known training steps, built straight into a Program at any size.

pub mod builder;
pub mod gradient;
