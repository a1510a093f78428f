//! What is on disk: the configuration file, where state is kept, the registry of
//! sessions, the inbox, the signals of the agents.

pub mod config_file;
pub mod paths;
pub mod registry;
