//! What is on disk.

pub mod spool;
