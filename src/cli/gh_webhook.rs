//! `the-loop gh-webhook`: the receiver's life.

mod hooks;
mod reload;
mod replay;
mod restart;
mod start;
mod status;
mod stop;

use std::process::ExitCode;

use clap::Subcommand;

use super::Context;
use crate::base::failure::Failure;

/// Receive GitHub's webhook: start, stop, status, replay, …
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Start(start::Args),
    Stop(stop::Args),
    Restart(restart::Args),
    Replay(replay::Args),
    Status(status::Args),
    Reload(reload::Args),
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    match &args.command {
        Command::Start(args) => start::run(context, args),
        Command::Stop(args) => stop::run(context, args),
        Command::Restart(args) => restart::run(context, args),
        Command::Replay(args) => replay::run(context, args),
        Command::Status(args) => status::run(context, args),
        Command::Reload(args) => reload::run(context, args),
    }
}
