//! State on disk: what survives a crash, a restart, a reboot.

pub mod inbox;
pub mod spool;
