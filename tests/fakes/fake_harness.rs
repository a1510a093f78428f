//! Stands in for an agent in tests.
fn main() {}
