//! the-loop: a coding agent on every labelled issue, in a tmux session that
//! every later event is typed into.
//!
//! The rooms of this house, in the order in which they may use each other:
//!
//! | room | what happens there |
//! | --- | --- |
//! | [`base`] | environment, time, files, processes, text |
//! | [`core`] | pure decisions: configuration, events, routing, injection, queues |
//! | [`doctor`] | finds, checks, installs and makes every tool that is run |
//! | [`state`] | the inbox, the registry, the signals of the agents: on disk |
//! | [`host`] | acts on this machine: tmux, runners, the dispatcher's driver |
//! | [`serve`] | faces to others: the receiver, the daemon, its control socket |
//! | [`cli`] | one file for each command |
//!
//! A delivery walks `serve::receiver` → `state::inbox` → `core::routing` →
//! `core::dispatch` → `host::runner` → `host::tmux`, and comes back only as an
//! acknowledgement. docs/ARCHITECTURE.md tells the rest.

pub mod base;
pub mod cli;
pub mod core;
pub mod doctor;
pub mod host;
pub mod serve;
pub mod state;

use std::process::ExitCode;

/// Runs the program with the process's own arguments and surroundings.
pub fn main() -> ExitCode {
    cli::main(base::env::Env::from_os())
}
