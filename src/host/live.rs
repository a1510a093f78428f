//! What the agents do now: a look at each session's pane, or at its turns.
//!
//! The commands and the web pages show it; the registry knows only what was
//! recorded.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, stream};

use crate::base::ids::Slug;
use crate::base::process::Process;
use crate::base::text::visible;
use crate::core::harness::{AgentStatus, Harnesses};
use crate::core::inject::screen::{Activity, InputBox, Reading, Screen};
use crate::core::session::{SessionRecord, SessionStatus};
use crate::host::status;
use crate::host::tmux::{Look, Pane, PaneState, Tmux, TmuxError, pane_of};
use crate::state::drive::Drive;
use crate::state::paths::StatePaths;
use crate::state::turns::Turns;

/// What a question begins with that an agent asks before it is ready.
const FIRST_RUN: &str = "first run: ";

/// How long a program may take to draw its screen.
const DRAWS_WITHIN: Duration = Duration::from_millis(100);
/// How many sessions are looked at side by side.
const AT_ONCE: usize = 8;

/// What a look at a session showed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// What its agent does now, in one word.
    pub state: String,
    /// What it asks a person, on one line.
    pub asks: Option<String>,
    /// How many terminals look at it.
    pub clients: u32,
    /// Its visible screen with colours, where it has one.
    pub screen: Option<String>,
}

impl From<&str> for Seen {
    fn from(state: &str) -> Self {
        Self { state: state.to_owned(), ..Self::default() }
    }
}

/// What the headless sessions among these do; one that is left out is as it is
/// recorded.
pub fn headless(
    paths: &StatePaths,
    records: &BTreeMap<Slug, SessionRecord>,
) -> BTreeMap<Slug, Seen> {
    // Two directories are read, not a few files for each of many sessions.
    // One that cannot be read rules nothing out.
    let driven = Drive::named(paths).ok();
    let turned = Turns::named(paths).ok();
    let may_be = |named: &Option<HashSet<OsString>>, slug: &Slug| {
        named.as_ref().is_none_or(|named| named.contains(OsStr::new(slug.as_str())))
    };
    records
        .iter()
        .filter(|(_, record)| record.is_headless())
        .filter_map(|(slug, record)| {
            let state = if may_be(&driven, slug) || may_be(&turned, slug) {
                one_headless(paths, slug, record)
            } else {
                at_rest(record)
            };
            Some((slug.clone(), state?))
        })
        .collect()
}

/// Whether a session has a pane to look at: one that is closed has no agent.
pub fn is_hosted(record: &SessionRecord) -> bool {
    !record.is_headless() && record.status != SessionStatus::Closed
}

/// What the agents of the sessions in tmux among these do; one that is left out
/// is as it is recorded.
pub async fn hosted(
    tmux: &Tmux,
    harnesses: &Harnesses,
    home: Option<&Path>,
    records: &BTreeMap<Slug, SessionRecord>,
) -> Result<BTreeMap<Slug, Seen>, TmuxError> {
    let panes = tmux.panes().await?;
    // A second source beside the screen; without it the screen is all there is.
    let pids = tmux.pids().await.unwrap_or_default();
    let stopped = stopped();
    let mut looks: Vec<BoxFuture<'_, _>> = Vec::new();
    for (slug, record) in records.iter().filter(|(_, record)| is_hosted(record)) {
        let pane = pane_of(&panes, slug);
        let says = pane.zip(home).and_then(|(pane, home)| {
            let pid = *pids.get(&pane.pane_id)?;
            let harness = harnesses.get(&record.harness).ok()?;
            status::read(&harness, home, pid, &record.harness_session_id)
        });
        let is_stopped =
            pane.and_then(|pane| pids.get(&pane.pane_id)).is_some_and(|pid| stopped.contains(pid));
        looks.push(Box::pin(async move {
            let mut state = state_of(tmux, harnesses, pane, record, says).await?;
            // Its screen stays as it was.
            if is_stopped && !matches!(&*state.state, "dead" | "foreign") {
                (state.state, state.asks) = ("stopped".to_owned(), None);
            }
            Some((slug.clone(), state))
        }));
    }
    let mut looks = stream::iter(looks).buffer_unordered(AT_ONCE);
    let mut seen = BTreeMap::new();
    while let Some(one) = looks.next().await {
        seen.extend(one);
    }
    Ok(seen)
}

/// The programs of panes whose terminal is read by one that was stopped: by
/// themselves, or by what they started. What reads from elsewhere, as an agent's tool,
/// is not the agent.
fn stopped() -> HashSet<u32> {
    let all = Process::all().unwrap_or_default();
    let stopped = all.iter().filter(|process| process.is_stopped);
    let reads = |process: &&Process| {
        let terminal = Process::reads_from(process.session);
        terminal.is_some() && Process::reads_from(process.pid) == terminal
    };
    stopped.filter(reads).filter_map(|process| process.session.try_into().ok()).collect()
}

/// What a headless session does now, in one word; `None` leaves the recorded
/// status.
fn one_headless(paths: &StatePaths, slug: &Slug, record: &SessionRecord) -> Option<Seen> {
    if Drive::of(paths, slug).is_attached() {
        return Some("human".into());
    }
    if let Ok(Some(turn)) = Turns::of(paths, slug).live() {
        let agent = turn.mark().and_then(|mark| Process::read(mark.pid));
        let is_stopped = agent.is_some_and(|agent| agent.is_stopped);
        return Some(if is_stopped { "stopped" } else { "busy" }.into());
    }
    at_rest(record)
}

/// What a headless session is that nobody drives.
fn at_rest(record: &SessionRecord) -> Option<Seen> {
    (record.status == SessionStatus::Active).then(|| "idle".into())
}

/// What a session's agent does; `None` leaves the recorded status.
async fn state_of(
    tmux: &Tmux,
    harnesses: &Harnesses,
    pane: Option<&Pane>,
    record: &SessionRecord,
    says: Option<AgentStatus>,
) -> Option<Seen> {
    let Some(pane) = pane else {
        let absent = record.status == SessionStatus::Active;
        return absent.then(|| "absent".into());
    };
    if !pane.is_of(&record.slug()) {
        return Some("foreign".into());
    }
    let harness = harnesses.get(&record.harness).ok();
    let read = |look: &Look| {
        let Look { screen: text, cursor, columns, title, .. } = look;
        let screen = Screen { text, cursor: *cursor, columns: *columns, title };
        // Of one that is no longer declared no screen is known.
        harness.as_ref().map_or(Reading::UNKNOWN, |harness| harness.read_screen(&screen))
    };
    let mut look = tmux.look(pane).await.ok()?;
    if look.state == PaneState::Live && read(&look).activity == Activity::Unknown {
        // It may have been in the middle of drawing.
        tokio::time::sleep(DRAWS_WITHIN).await;
        look = tmux.look(pane).await.ok()?;
    }
    let mut asks = None;
    let word = match look.state {
        PaneState::Dead(_) => "dead",
        PaneState::CopyMode => "copyMode",
        PaneState::Live => {
            let reading = read(&look);
            // Until its word that it is ready, what it asks are first-run questions.
            let is_first = record.status == SessionStatus::Starting || record.blocked.is_some();
            match (reading.activity, reading.input) {
                (Activity::Busy, _) => "busy",
                (Activity::Dialog { what }, _) if is_first => {
                    asks = Some(first_run(Some(&what)));
                    "blocked"
                }
                (Activity::Dialog { what }, _) => {
                    asks = Some(visible(&what));
                    "blocked"
                }
                (Activity::Idle | Activity::Unknown, _)
                    if let Some(AgentStatus::Waiting(what)) = &says =>
                {
                    asks = Some(what.clone());
                    "blocked"
                }
                (Activity::Overlay, _) => {
                    asks = Some("something is open over the input box".to_owned());
                    "blocked"
                }
                (Activity::Idle, InputBox::Empty) => "idle",
                (Activity::Unknown, _) if record.blocked.is_some() => {
                    asks = Some(first_run(None));
                    "blocked"
                }
                (Activity::Unknown, _) if record.status == SessionStatus::Starting => "starting",
                (Activity::Unknown, _) if says == Some(AgentStatus::Busy) => "busy",
                (Activity::Idle, InputBox::Absent) | (Activity::Unknown, _) => "unknown",
                (Activity::Idle, _) => "human",
            }
        }
    };
    Some(Seen { state: word.to_owned(), asks, clients: pane.clients, screen: Some(look.screen) })
}

/// What an agent asks that has not said yet that it is ready.
pub(super) fn first_run(what: Option<&str>) -> String {
    let what = what.map_or_else(|| "it did not say that it is ready".to_owned(), visible);
    if what.starts_with(FIRST_RUN) { what } else { format!("{FIRST_RUN}{what}") }
}
