//! `the-loop sessions resize`.

use std::process::ExitCode;

use super::{Context, Failure, resolve, tools};
use crate::base::terminal;
use crate::core::config::WindowSize;

/// Give a session's window its size
///
/// The agent's window keeps its size whoever looks at it. Without an option it
/// gets the configured one (`routing.tmux.size`).
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  the-loop sessions resize octo/hello#15 --fit\n  \
                        the-loop sessions resize octo/hello#15")]
pub(super) struct Args {
    /// The session: `15`, `owner/repo#15`, a URL or the slug
    item: String,

    /// As large as the attached terminal that was used last; else as this one
    #[arg(long)]
    fit: bool,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    let (slug, record) = resolve(&loaded, &args.item)?;
    let short = record.work_item.reference.short();
    if record.tmux_target.is_none() {
        return Err(Failure::refused(format!("{short} has no window: it is not in tmux")));
    }
    let size = context.block_on(async {
        let tmux = tools::tmux(context, &loaded).await?;
        let failed = |error| Failure::failed("the window could not be resized").because(error);
        let pane = tmux.find_of(&slug).await.map_err(failed)?;
        let Some(pane) = pane.filter(|pane| pane.is_of(&slug)) else {
            return Err(Failure::refused(format!("no agent of `{slug}` runs now"))
                .hint("its next event starts it again, with the configured size"));
        };
        let WindowSize { columns, lines } = loaded.config.routing.tmux.size;
        let mut size = (columns, lines);
        if args.fit {
            let room = tmux.room(&pane).await.map_err(failed)?;
            size = room.or_else(own_room).map(bounded).ok_or_else(|| {
                Failure::refused("there is no terminal to fit: nobody is attached")
                    .hint("without `--fit` it gets the configured size")
            })?;
        }
        tmux.resize(&pane, size).await.map_err(failed)?;
        Ok(size)
    })?;
    context.printer.note(&format!("the window of {short} has {}x{} cells now", size.0, size.1));
    Ok(ExitCode::SUCCESS)
}

/// What this terminal has, less the line of tmux's status.
fn own_room() -> Option<(u16, u16)> {
    terminal::size().map(|(columns, lines)| (columns, lines.saturating_sub(1)))
}

/// What the agents can draw in, as for `routing.tmux.size`.
fn bounded((columns, lines): (u16, u16)) -> (u16, u16) {
    (columns.clamp(40, 500), lines.clamp(10, 200))
}
