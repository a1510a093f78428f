//! Acts on this machine.

pub mod demo_agent;
