//! `the-loop sessions attach`.

use std::process::ExitCode;

use super::{Context, Failure};

/// Look at a session's agent, and type to it
///
/// Leave with tmux's own key (`C-b d`); the agent goes on. Without ITEM, the
/// only session there is.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  the-loop sessions attach 15\n  \
                        the-loop sessions attach 15 --read-only")]
pub(super) struct Args {
    /// The session: `15`, `owner/repo#15`, a URL or the slug
    item: Option<String>,

    /// Only look: keys do nothing, and the agent's window keeps its size
    #[arg(long)]
    read_only: bool,
}

/// Runs the command.
pub(super) fn run(_context: &Context, _args: &Args) -> Result<ExitCode, Failure> {
    Err(Failure::refused("this command is not built yet"))
}
