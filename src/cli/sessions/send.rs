//! `the-loop sessions send`.

use std::path::PathBuf;
use std::process::ExitCode;

use super::{Context, Failure};

/// Send a text to a session, through its queue
///
/// The text waits for its turn like any event and is typed when the agent is
/// ready for it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  the-loop sessions send 15 'Please also update the docs'\n  \
                        git diff | the-loop sessions send 15 -")]
pub(super) struct Args {
    /// The session: `15`, `owner/repo#15`, a URL or the slug
    item: String,

    /// The text; `-` reads it from standard input
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    text: Option<String>,

    /// Read the text from a file
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(_context: &Context, _args: &Args) -> Result<ExitCode, Failure> {
    Err(Failure::refused("this command is not built yet"))
}
