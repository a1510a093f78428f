//! State on disk: what survives a crash, a restart, a reboot.

pub mod changes;
pub mod config_file;
pub mod drive;
pub mod github;
pub mod in_use;
pub mod inbox;
pub mod paths;
pub mod registry;
pub mod spool;
pub mod trace;
pub mod turns;
