//! `the-loop sessions`: look at sessions and talk to them.

mod attach;
mod close;
mod drive;
mod list;
mod logs;
mod send;
mod show;
mod trees;
mod verbs;

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::Subcommand;
use jiff::Timestamp;

use super::Context;
use super::setup::Loaded;
use super::tools;
use crate::base::failure::Failure;
use crate::base::ids::Slug;
use crate::base::terminal::fit;
use crate::base::text::visible;
use crate::core::harness::Harnesses;
use crate::core::inject::screen::{Activity, InputBox, Reading, Screen};
use crate::core::session::{SessionRecord, SessionStatus, find_item};
use crate::host::tmux::{Pane, PaneState, Tmux, pane_of};
use crate::state::drive::Drive;
use crate::state::registry::{self, Broken, Registry, RegistryError};
use crate::state::turns::Turns;

/// Look at sessions and talk to them
///
/// A session is one conversation with an agent about one issue or pull request.
/// ITEM is `15` or `#15` where only one session has that number,
/// `owner/repo#15`, the item's URL, or the session's slug. A pull request means
/// the session that it is linked to. (In a shell, `#15` needs quotes.)
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop sessions show octo/hello#15")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::Args),
    Show(show::Args),
    Attach(attach::Args),
    Send(send::Args),
    Close(close::Args),
    Pause(verbs::PauseArgs),
    Resume(verbs::ResumeArgs),
    Register(verbs::RegisterArgs),
    #[command(name = "link-pr")]
    LinkPr(verbs::LinkArgs),
    Logs(logs::Args),
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    match &args.command {
        Command::List(args) => list::run(context, args),
        Command::Show(args) => show::run(context, args),
        Command::Attach(args) => attach::run(context, args),
        Command::Send(args) => send::run(context, args),
        Command::Close(args) => close::run(context, args),
        Command::Pause(args) => verbs::pause(context, args),
        Command::Resume(args) => verbs::resume(context, args),
        Command::Register(args) => verbs::register(context, args),
        Command::LinkPr(args) => verbs::link(context, args),
        Command::Logs(args) => logs::run(context, args),
    }
}

/// What is known of the sessions beyond the registry: the state in which each
/// one's agent is now. Without it the recorded status is shown.
#[derive(Debug, Default)]
struct Live {
    states: BTreeMap<Slug, String>,
}

impl Live {
    /// Looks at the agents of these sessions. Where tmux cannot be asked, the
    /// recorded status is all there is.
    fn look(context: &Context, loaded: &Loaded, sessions: &registry::Loaded) -> Self {
        // One that is closed has no agent to look at.
        let hosted: Vec<_> = sessions
            .records
            .iter()
            .filter(|(_, record)| !record.is_headless() && record.status != SessionStatus::Closed)
            .collect();
        // Two directories are read, not a few files for each of many sessions.
        // One that cannot be read rules nothing out.
        let driven = Drive::named(&loaded.paths).ok();
        let turned = Turns::named(&loaded.paths).ok();
        let may_be = |named: &Option<HashSet<OsString>>, slug: &Slug| {
            named.as_ref().is_none_or(|named| named.contains(OsStr::new(slug.as_str())))
        };
        let headless: BTreeMap<_, _> = sessions
            .records
            .iter()
            .filter(|(_, record)| record.is_headless())
            .filter_map(|(slug, record)| {
                let state = if may_be(&driven, slug) || may_be(&turned, slug) {
                    headless(loaded, slug, record)
                } else {
                    at_rest(record)
                };
                Some((slug.clone(), state?))
            })
            .collect();
        if hosted.is_empty() {
            return Self { states: headless };
        }
        let states = context.block_on(async {
            let tmux = tools::tmux(context, loaded).await?;
            let panes = tmux.panes().await.map_err(|error| {
                Failure::failed("tmux could not be asked for its sessions").because(error)
            })?;
            let mut states = BTreeMap::new();
            let harnesses = Harnesses::new(&loaded.config.harnesses, context.env.home());
            for (slug, record) in hosted {
                let pane = pane_of(&panes, slug);
                if let Some(state) = state_of(&tmux, &harnesses, pane, record).await {
                    states.insert(slug.clone(), state);
                }
            }
            Ok(states)
        });
        match states {
            Ok(states) => Self { states: states.into_iter().chain(headless).collect() },
            Err(failure) => {
                context.printer.note(&format!("warning: {failure}"));
                Self { states: headless }
            }
        }
    }

    /// The state of a session, as people and programs read it.
    fn state(&self, slug: &Slug, record: &SessionRecord) -> String {
        self.states.get(slug).cloned().unwrap_or_else(|| record.status.to_string())
    }
}

/// What a headless session does now, in one word; `None` leaves the recorded
/// status.
fn headless(loaded: &Loaded, slug: &Slug, record: &SessionRecord) -> Option<String> {
    if Drive::of(&loaded.paths, slug).is_attached() {
        return Some("human".to_owned());
    }
    if let Ok(Some(_)) = Turns::of(&loaded.paths, slug).live() {
        return Some("busy".to_owned());
    }
    at_rest(record)
}

/// What a headless session is that nobody drives.
fn at_rest(record: &SessionRecord) -> Option<String> {
    (record.status == SessionStatus::Active).then(|| "idle".to_owned())
}

/// The state of a session's agent, in one word; `None` leaves the recorded one.
async fn state_of(
    tmux: &Tmux,
    harnesses: &Harnesses,
    pane: Option<&Pane>,
    record: &SessionRecord,
) -> Option<String> {
    let Some(pane) = pane else {
        let absent = record.status == SessionStatus::Active;
        return absent.then(|| "absent".to_owned());
    };
    if !pane.is_of(&record.slug()) {
        return Some("foreign".to_owned());
    }
    let look = tmux.look(pane).await.ok()?;
    let word = match look.state {
        PaneState::Dead(_) => "dead",
        PaneState::CopyMode => "copyMode",
        PaneState::Live => {
            let screen = Screen {
                text: &look.screen,
                cursor: look.cursor,
                columns: look.columns,
                title: &look.title,
            };
            // Of one that is no longer declared no screen is known.
            let harness = harnesses.get(&record.harness);
            let reading = harness.map_or(Reading::UNKNOWN, |harness| harness.read_screen(&screen));
            match (reading.activity, reading.input) {
                (Activity::Busy, _) => "busy",
                (Activity::Dialog { .. } | Activity::Overlay, _) => "blocked",
                (Activity::Idle, InputBox::Empty) => "idle",
                (Activity::Idle, InputBox::Absent) | (Activity::Unknown, _) => "unknown",
                (Activity::Idle, _) => "human",
            }
        }
    };
    Some(word.to_owned())
}

/// The session that a person means, with its entry.
fn resolve(loaded: &Loaded, item: &str) -> Result<(Slug, SessionRecord), Failure> {
    let registry = Registry::open(&loaded.paths.registry);
    let slug = find_item(item, &registry.load_all().known())
        .map_err(|error| Failure::refused(error.to_string()).hint(error.hint()))?;
    match registry.load(&slug) {
        Ok(Some(record)) => Ok((slug, record)),
        Ok(None) => Err(Failure::refused(format!("the session `{slug}` was just removed"))),
        Err(RegistryError::Unreadable { path, why }) => Err(Failure::failed(format!(
            "the session's entry cannot be read: {why}\n  `{}`",
            visible(&path.display().to_string())
        ))
        .hint("put it right; or move it away, and the next event starts the session anew")),
        Err(error) => Err(Failure::failed("the session cannot be read").because(error)),
    }
}

/// A broken entry, in a line for people.
fn broken_line(broken: &Broken) -> String {
    let path = visible(&broken.path.display().to_string());
    format!("warning: a session's entry cannot be read: {}\n  `{path}`", broken.why)
}

/// How long ago something was: `5s`, `3m`, `2h`, `9d`.
fn ago(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(then.as_second()).max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_in_its_largest_unit() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (60, "1m"), (7199, "1h"), (86_400, "1d"), (864_000, "10d")]
        {
            assert_eq!(ago(at(1000), at(1000 + seconds)), text);
        }
        assert_eq!(ago(at(1000), at(900)), "0s", "a clock that was set back");
    }
}
