//! `the-loop gh-webhook reload`.

use std::process::ExitCode;

use crate::base::failure::Failure;
use crate::base::text::{visible, visible_lines};
use crate::cli::{Context, json};
use crate::serve::control;

/// Have the running receiver read its configuration again
///
/// Shows what is different and takes it up. What it cannot change while it runs
/// (its port, the runner, where state is kept) is named and left for the next
/// start. A broken file is refused, and the receiver goes on with what it has.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop gh-webhook reload")]
pub(super) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    let (_, paths) = context.paths()?;
    context.block_on(async {
        let Some(reloaded) = control::ask_to_reload(&paths.control()).await? else {
            return Err(Failure::refused("no receiver runs with this configuration"));
        };
        if args.json {
            let value = serde_json::to_value(&reloaded).unwrap_or_default();
            context.printer.data(&json::render(&value))?;
            return Ok(ExitCode::from(u8::from(reloaded.refused.is_some())));
        }
        if let Some(why) = &reloaded.refused {
            return Err(Failure::refused(visible_lines(why))
                .hint("the receiver goes on with the configuration that it has"));
        }
        if reloaded.changes.is_empty() {
            context.printer.note("Nothing in the configuration has changed.");
        }
        for line in reloaded.lines() {
            context.printer.data(&visible(&line))?;
        }
        for why in &reloaded.warnings {
            context.printer.note(&format!("warning: {}", visible(why)));
        }
        Ok(ExitCode::SUCCESS)
    })
}
