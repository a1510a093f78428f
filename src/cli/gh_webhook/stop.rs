//! `the-loop gh-webhook stop`.

use std::process::ExitCode;
use std::time::Duration;

use tokio::time::Instant;

use crate::base::failure::Failure;
use crate::base::files::lock::LockFile;
use crate::cli::Context;
use crate::serve::control;

/// How long the receiver may take to end.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// Stop the receiver; the sessions and their agents go on
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop gh-webhook stop")]
pub(super) struct Args {}

/// Runs the command.
pub(super) fn run(context: &Context, _args: &Args) -> Result<ExitCode, Failure> {
    let (_, paths) = context.paths()?;
    context.block_on(async {
        if !control::ask_to_stop(&paths.control()).await? {
            context.printer.note("No receiver runs with this configuration.");
            return Ok(ExitCode::SUCCESS);
        }
        let deadline = Instant::now() + ENDS_WITHIN;
        // The kernel gives the lock back when the process is gone.
        while LockFile::try_acquire(&paths.lock()).is_err() {
            if Instant::now() > deadline {
                return Err(Failure::failed("the receiver was asked to end and has not yet")
                    .hint("`the-loop gh-webhook status` shows its process id"));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        context.printer.note("The receiver has ended. Its sessions go on.");
        Ok(ExitCode::SUCCESS)
    })
}
