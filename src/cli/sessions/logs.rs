//! `the-loop sessions logs`.

use std::process::ExitCode;

use super::{Context, Failure, Loaded, Slug, resolve, tools};
use crate::base::text::visible;
use crate::cli::view::{ending, heading};
use crate::core::harness::Rendering;
use crate::host::pane_log;
use crate::state::turns::Turns;
use crate::state::turns::output::{self, MAX_OUTPUT};

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
        of_turns(&loaded, &slug)?
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

fn of_turns(loaded: &Loaded, slug: &Slug) -> Result<Vec<String>, Failure> {
    let failed = |error| Failure::failed("could not read the session's turns").because(error);
    let mut lines = Vec::new();
    for turn in Turns::of(&loaded.paths, slug).list().map_err(failed)? {
        lines.extend(heading(&turn));
        let mut rendering = Rendering::new(turn.about().and_then(|about| about.shows));
        for path in [turn.stdout(), turn.stderr()] {
            let bytes = match output::newest(&path, MAX_OUTPUT) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            let text = String::from_utf8_lossy(&bytes);
            lines.extend(text.lines().flat_map(|line| rendering.line(line)));
            lines.extend(rendering.end());
        }
        lines.extend(ending(&turn));
    }
    Ok(lines)
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
