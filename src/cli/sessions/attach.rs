//! `the-loop sessions attach`.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use super::{Context, Failure, Loaded, Registry, SessionStatus, Slug, drive, fit, resolve, tools};
use crate::base::process::shell_word;
use crate::base::text::{cap, visible};
use crate::core::config::RunnerKind;

/// Look at a session's agent, and type to it
///
/// Leave with tmux's own key (`C-b d`); the agent goes on. A headless session is
/// taken over with the agent's own program: its events wait until that ends.
/// Without ITEM, pick one; where there is only one, it is that one, and is named.
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
        None => pick(context, &loaded)?,
    };
    let (_, record) = resolve(&loaded, slug.as_str())?;
    let is_shown = record.runner == RunnerKind::Tmux;
    if record.is_headless() && !(is_shown && args.read_only) {
        if args.read_only {
            return Err(Failure::refused("a headless session has no screen to look at")
                .hint(format!("`the-loop sessions logs {slug}` shows its turns")));
        }
        needs_terminal()?;
        return drive::run(context, &loaded, &slug, &record);
    }
    let (tmux, pane) = context.block_on(async {
        let tmux = tools::tmux(context, &loaded).await?;
        let pane = tmux.find_of(&slug).await.map_err(|error| {
            Failure::failed("tmux could not be asked for the session").because(error)
        })?;
        Ok((tmux, pane))
    })?;
    let Some(pane) = pane.filter(|pane| pane.is_of(&slug)) else {
        return Err(Failure::refused(format!("no agent of `{slug}` runs now"))
            .hint("its next event starts it again; `the-loop sessions list` shows what is live"));
    };
    needs_terminal()?;
    // Inside the same server the client moves; a second one inside it would nest.
    let enclosing = context.env.var("TMUX").unwrap_or_default();
    let is_inside = enclosing.split(',').nth(1) == Some(pane.server.as_str());
    let invocation = if is_inside && !args.read_only {
        let pane_id = context.env.var_os("TMUX_PANE").unwrap_or_default();
        tmux.switch(&pane).env("TMUX", enclosing).env("TMUX_PANE", pane_id)
    } else {
        if let Some(command) = tmux.typed() {
            let name = shell_word(&format!("={}", slug.tmux_name()));
            context.printer.note(&format!("{} attach -t {name}", visible(&command)));
        }
        tmux.attach(&pane, args.read_only)
    };
    Err(Failure::failed("could not attach").because(invocation.exec()))
}

fn needs_terminal() -> Result<(), Failure> {
    if std::io::stdin().is_terminal() {
        return Ok(());
    }
    Err(Failure::refused("attaching needs a terminal on standard input"))
}

/// Asks for a number from 1 to `most` until one is given. The end of the input
/// (C-d) picks none.
fn ask_number(context: &Context, most: usize) -> Result<usize, Failure> {
    loop {
        context.printer.note(&format!("which one? 1-{most} and Enter:"));
        let mut answer = String::new();
        let length = std::io::stdin()
            .read_line(&mut answer)
            .map_err(|error| Failure::failed("could not read the answer").because(error))?;
        if length == 0 {
            return Err(Failure::refused("none was picked"));
        }
        let answer = answer.trim();
        match answer.parse() {
            Ok(number) if (1..=most).contains(&number) => return Ok(number),
            _ if answer.is_empty() => {}
            _ => context.printer.note(&format!(
                "`{}` is not a number from 1 to {most} (C-d picks none)",
                visible(&cap(answer, 40))
            )),
        }
    }
}

/// How many sessions a hint names: those with the latest events.
const NAMED: usize = 5;

/// The session that is meant when none is named: the only one there is, or the
/// one that a person picks.
fn pick(context: &Context, loaded: &Loaded) -> Result<Slug, Failure> {
    let sessions = Registry::open(&loaded.paths.registry).load_all();
    let mut open: Vec<_> = sessions
        .records
        .iter()
        .filter(|(_, record)| record.status != SessionStatus::Closed)
        .collect();
    open.sort_by_key(|(_, record)| {
        std::cmp::Reverse(record.last_event_at.unwrap_or(record.created_at))
    });
    match open[..] {
        [] => Err(Failure::refused("there is no session to attach to")),
        [(slug, record)] => {
            let title = record.work_item.title.as_deref().map(visible).unwrap_or_default();
            let item = record.work_item.reference.short();
            context.printer.note(&fit(format!("the only session: {item}  {title}").trim_end(), 80));
            Ok(slug.clone())
        }
        _ if std::io::stdin().is_terminal() => {
            for (number, (_, record)) in open.iter().enumerate() {
                let title = record.work_item.title.as_deref().map(visible).unwrap_or_default();
                let item = record.work_item.reference.short();
                let line = format!("{:>3}  {item}  {title}", number + 1);
                context.printer.note(&fit(line.trim_end(), 80));
            }
            let number = ask_number(context, open.len())?;
            Ok(open[number - 1].0.clone())
        }
        _ => {
            let names = open.iter().take(NAMED).map(|(_, record)| {
                format!("the-loop sessions attach '{}'", record.work_item.reference.short())
            });
            let failure = Failure::refused(format!("there are {} sessions: say which", open.len()));
            let failure = names.fold(failure, Failure::hint);
            Err(if open.len() > NAMED {
                failure.hint("`the-loop sessions list` shows all of them")
            } else {
                failure
            })
        }
    }
}
