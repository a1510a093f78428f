//! `the-loop sessions logs`.

use std::process::ExitCode;

use super::{Context, Failure, Loaded, Slug, resolve, tools};
use crate::base::text::visible;
use crate::host::{history, pane_log};
use crate::state::turns::output::MAX_OUTPUT;

/// Print what a session's agent has shown, also after it ended
///
/// For a session in tmux the history of its pane; for a headless one the output
/// of its last turns.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop sessions logs octo/hello#15 | less")]
pub(super) struct Args {
    /// The session: `15`, `owner/repo#15`, a URL or the slug
    item: String,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    let (slug, record) = resolve(&loaded, &args.item)?;
    let lines = if record.is_headless() {
        let failed = |error| Failure::failed("could not read the session's turns").because(error);
        history::of_turns(&loaded.paths, &slug, MAX_OUTPUT).map_err(failed)?
    } else {
        context.block_on(of_pane(context, &loaded, &slug))?
    };
    if lines.is_empty() {
        context.printer.note("nothing was shown yet");
    } else {
        context.printer.data(&lines.join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The pane's history: what was kept when earlier ones ended, and the live one.
async fn of_pane(context: &Context, loaded: &Loaded, slug: &Slug) -> Result<Vec<String>, Failure> {
    let mut lines = pane_log::read(&loaded.paths, slug)
        .map_err(|error| Failure::failed("could not read the session's log").because(error))?;
    let live = async {
        let tmux = tools::tmux(context, loaded).await?;
        let failed = |error| Failure::failed("tmux could not be asked").because(error);
        match tmux.find_of(slug).await.map_err(failed)? {
            Some(pane) if pane.is_of(slug) => {
                tmux.last_lines(&pane, pane_log::LINES).await.map_err(failed)
            }
            _ => Ok(Vec::new()),
        }
    };
    match live.await {
        Ok(live) => lines.extend(live),
        Err(failure) if lines.is_empty() => return Err(failure),
        Err(failure) => context.printer.note(&format!("warning: {failure}")),
    }
    Ok(lines.iter().map(|line| visible(line)).collect())
}
