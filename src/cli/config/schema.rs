//! `the-loop config schema`.

use std::process::ExitCode;

use crate::base::failure::Failure;
use crate::cli::{Context, json};
use crate::core::config;

/// Print the JSON Schema of the configuration, for editors
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop config schema > config.schema.json")]
pub(super) struct Args {}

/// Runs the command.
pub(super) fn run(context: &Context, _args: &Args) -> Result<ExitCode, Failure> {
    context.printer.data(&json::render(&config::json_schema()))?;
    Ok(ExitCode::SUCCESS)
}
