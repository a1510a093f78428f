//! `the-loop sessions close`.

use std::process::ExitCode;

use super::{Context, Failure};

/// End a session's agent; its history stays
///
/// Closing one that is closed already changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop sessions close octo/hello#15")]
pub(super) struct Args {
    /// The session: `15`, `owner/repo#15`, a URL or the slug
    item: String,
}

/// Runs the command.
pub(super) fn run(_context: &Context, _args: &Args) -> Result<ExitCode, Failure> {
    Err(Failure::refused("this command is not built yet"))
}
