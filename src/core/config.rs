//! The configuration: what can be set, and its defaults.

mod model;

pub use model::*;
