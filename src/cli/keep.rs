//! `the-loop keep`: the process that ends a program together with the receiver.

use std::process::ExitCode;

use super::Context;
use crate::base::failure::Failure;
use crate::host::keeper;

/// Run a program until the receiver ends
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

/// Runs the command.
pub(super) fn run(context: &Context, _args: &Args) -> Result<ExitCode, Failure> {
    context.block_on(async {
        keeper::keep().await.map_err(|error| {
            Failure::refused("nothing was started")
                .because(error)
                .hint("the receiver starts this; nobody types this command")
        })
    })?;
    Ok(ExitCode::SUCCESS)
}
