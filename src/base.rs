//! The ground everything stands on: environment, time, files, processes, text.
//!
//! Used by every layer. Knows nothing of GitHub, tmux or agents.

pub mod accounts;
pub mod checkpoint;
pub mod clock;
pub mod dirs;
pub mod env;
pub mod failure;
pub mod files;
pub mod http;
pub mod https;
pub mod ids;
pub mod process;
pub mod random;
pub mod runtime;
pub mod terminal;
pub mod text;
