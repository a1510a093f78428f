//! `the-loop keep`: the process that ends a ttyd together with the receiver.

use std::process::ExitCode;

use super::Context;
use crate::base::failure::Failure;
use crate::host::ttyd;

/// Run a ttyd until standard input ends
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

/// Runs the command.
pub(super) fn run(context: &Context, _args: &Args) -> Result<ExitCode, Failure> {
    context.block_on(async {
        ttyd::keep().await.map_err(|error| {
            Failure::refused("no ttyd was started")
                .because(error)
                .hint("the receiver starts this; nobody types this command")
        })
    })?;
    Ok(ExitCode::SUCCESS)
}
