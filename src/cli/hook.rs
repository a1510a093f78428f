//! `the-loop hook`.

use std::process::ExitCode;

use super::Context;
use crate::base::failure::Failure;

/// Record a harness's signal
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

/// Runs the command.
pub(super) fn run(_context: &Context, _args: &Args) -> Result<ExitCode, Failure> {
    Err(Failure::refused("this command is not built yet"))
}
