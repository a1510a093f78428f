//! `the-loop config`: what is set, whether it is right, what can be set.

mod check;
mod schema;
mod show;

use std::process::ExitCode;

use clap::Subcommand;

use super::Context;
use crate::base::failure::Failure;

/// Show and check the configuration
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop config show")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(show::Args),
    Check(check::Args),
    Schema(schema::Args),
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    match &args.command {
        Command::Show(args) => show::run(context, args),
        Command::Check(args) => check::run(context, args),
        Command::Schema(args) => schema::run(context, args),
    }
}
