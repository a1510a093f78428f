//! `the-loop gh-webhook restart`.

use std::process::ExitCode;

use super::{start, stop};
use crate::base::failure::Failure;
use crate::cli::Context;

/// Stop the receiver when one runs, and start it in the background
///
/// What came in meanwhile is not lost by us: GitHub keeps it under the
/// webhook's Recent Deliveries. Sessions and their agents go on. Whether a
/// start would find what it needs is looked at first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop gh-webhook restart")]
#[group(id = "restart")]
pub(super) struct Args {
    #[command(flatten)]
    start: start::Args,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    // One that could not be started again is not ended.
    start::check_first(context, &args.start)?;
    stop::end(context)?;
    start::run_detached(context, &args.start)
}
