//! `the-loop sessions attach`.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use super::{Context, Failure, Loaded, Registry, SessionStatus, Slug, resolve, tools};

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
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    let slug = match &args.item {
        Some(item) => resolve(&loaded, item)?.0,
        None => only_session(&loaded)?,
    };
    let (tmux, pane) = context.block_on(async {
        let tmux = tools::tmux(context, &loaded).await?;
        let pane = tmux.find(&slug.tmux_name()).await.map_err(|error| {
            Failure::failed("tmux could not be asked for the session").because(error)
        })?;
        Ok((tmux, pane))
    })?;
    let Some(pane) = pane.filter(|pane| pane.is_of(&slug)) else {
        return Err(Failure::refused(format!("no agent of `{slug}` runs now"))
            .hint("its next event starts it again; `the-loop sessions list` shows what is live"));
    };
    if !std::io::stdin().is_terminal() {
        return Err(Failure::refused("attaching needs a terminal on standard input"));
    }
    // Inside the same server the client moves; a second one inside it would nest.
    let enclosing = context.env.var("TMUX").unwrap_or_default();
    let is_inside = enclosing.split(',').nth(1) == Some(pane.server.as_str());
    let invocation = if is_inside && !args.read_only {
        let pane_id = context.env.var_os("TMUX_PANE").unwrap_or_default();
        tmux.switch(&pane.name).env("TMUX", enclosing).env("TMUX_PANE", pane_id)
    } else {
        tmux.attach(&pane.name, args.read_only)
    };
    Err(Failure::failed("could not attach").because(invocation.exec()))
}

/// The session that is meant when none is named: the only one there is.
fn only_session(loaded: &Loaded) -> Result<Slug, Failure> {
    let sessions = Registry::open(&loaded.paths.registry).load_all();
    let open: Vec<_> = sessions
        .records
        .iter()
        .filter(|(_, record)| record.status != SessionStatus::Closed)
        .collect();
    match open[..] {
        [] => Err(Failure::refused("there is no session to attach to")),
        [(slug, _)] => Ok(slug.clone()),
        _ => {
            let names = open.iter().map(|(_, record)| {
                format!("the-loop sessions attach '{}'", record.work_item.reference.short())
            });
            let failure = Failure::refused(format!("there are {} sessions: say which", open.len()));
            Err(names.fold(failure, Failure::hint))
        }
    }
}
