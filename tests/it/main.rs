//! Every integration test, in one program.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "tests drive the real thing from outside, and may stop at the first surprise"
)]

mod agents;
mod cli;
mod config;
mod config_commands;
mod doctor;
mod events;
mod inbox;
mod init;
mod install;
mod main_job;
mod receiver;
mod registry;
mod reload;
mod routing;
mod support;
mod tidy;
mod tmux;
