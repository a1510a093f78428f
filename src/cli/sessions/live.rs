//! What is known of the sessions beyond the registry: what their agents do now,
//! who looks at them, what waits for them.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use super::{Context, Failure, Loaded, SessionRecord, SessionStatus, Slug, registry, tools};
use crate::base::text::visible;
use crate::core::harness::{AgentStatus, Harnesses};
use crate::core::inject::screen::{Activity, InputBox, Reading, Screen};
use crate::host::status;
use crate::host::tmux::{Look, Pane, PaneState, Tmux, pane_of};
use crate::state::drive::Drive;
use crate::state::inbox::{Inbox, InboxError, Waiting};
use crate::state::turns::Turns;

/// How long a program may take to draw its screen.
const DRAWS_WITHIN: Duration = Duration::from_millis(100);

/// What is known of the sessions beyond the registry: the state in which each
/// one's agent is now. Without it the recorded status is shown.
#[derive(Debug, Default)]
pub(super) struct Live {
    seen: BTreeMap<Slug, Seen>,
    waiting: BTreeMap<Slug, Waiting>,
}

/// What a look at a session showed.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// What its agent does now, in one word.
    state: String,
    /// What it asks a person, on one line.
    asks: Option<String>,
    /// How many terminals look at it.
    clients: u32,
}

impl From<&str> for Seen {
    fn from(state: &str) -> Self {
        Self { state: state.to_owned(), ..Self::default() }
    }
}

impl Live {
    /// Looks at the agents of these sessions. Where tmux cannot be asked, the
    /// recorded status is all there is.
    pub(super) fn look(context: &Context, loaded: &Loaded, sessions: &registry::Loaded) -> Self {
        let seen = Self::seen(context, loaded, sessions);
        let waiting = match Inbox::read_only(&loaded.paths.inbox()) {
            Ok(inbox) => inbox.waiting(),
            Err(InboxError::Missing { .. }) => Ok(BTreeMap::new()),
            Err(error) => Err(error),
        };
        let waiting = waiting.unwrap_or_else(|error| {
            let error = crate::base::failure::chain(&error);
            context.printer.note(&format!("warning: what waits cannot be read: {error}"));
            BTreeMap::new()
        });
        Self { seen, waiting }
    }

    fn seen(
        context: &Context,
        loaded: &Loaded,
        sessions: &registry::Loaded,
    ) -> BTreeMap<Slug, Seen> {
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
            return headless;
        }
        let seen = context.block_on(async {
            let tmux = tools::tmux(context, loaded).await?;
            let panes = tmux.panes().await.map_err(|error| {
                Failure::failed("tmux could not be asked for its sessions").because(error)
            })?;
            // A second source beside the screen; without it the screen is all there is.
            let pids = tmux.pids().await.unwrap_or_default();
            let home = context.env.var_os("HOME").map(Path::new);
            let mut seen = BTreeMap::new();
            let harnesses = Harnesses::new(&loaded.config.harnesses, context.env.home());
            for (slug, record) in hosted {
                let pane = pane_of(&panes, slug);
                let says = pane.zip(home).and_then(|(pane, home)| {
                    let pid = *pids.get(&pane.pane_id)?;
                    let harness = harnesses.get(&record.harness).ok()?;
                    status::read(&harness, home, pid, &record.harness_session_id)
                });
                if let Some(state) = state_of(&tmux, &harnesses, pane, record, says).await {
                    seen.insert(slug.clone(), state);
                }
            }
            Ok(seen)
        });
        match seen {
            Ok(seen) => seen.into_iter().chain(headless).collect(),
            Err(failure) => {
                context.printer.note(&format!("warning: {failure}"));
                headless
            }
        }
    }

    /// The state of a session, as people and programs read it.
    pub(super) fn state(&self, slug: &Slug, record: &SessionRecord) -> String {
        self.seen.get(slug).map_or_else(|| record.status.to_string(), |seen| seen.state.clone())
    }

    /// What a session's agent asks a person.
    pub(super) fn asks(&self, slug: &Slug) -> Option<&str> {
        self.seen.get(slug)?.asks.as_deref()
    }

    /// How many terminals look at a session.
    pub(super) fn clients(&self, slug: &Slug) -> u32 {
        self.seen.get(slug).map_or(0, |seen| seen.clients)
    }

    /// What waits for a session.
    pub(super) fn waiting(&self, slug: &Slug) -> Option<&Waiting> {
        self.waiting.get(slug)
    }
}

/// What a headless session does now, in one word; `None` leaves the recorded
/// status.
fn headless(loaded: &Loaded, slug: &Slug, record: &SessionRecord) -> Option<Seen> {
    if Drive::of(&loaded.paths, slug).is_attached() {
        return Some("human".into());
    }
    if let Ok(Some(_)) = Turns::of(&loaded.paths, slug).live() {
        return Some("busy".into());
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
                    asks = Some(format!("first run: {}", visible(&what)));
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
                    asks = Some("first run: it did not say that it is ready".to_owned());
                    "blocked"
                }
                (Activity::Unknown, _) if record.status == SessionStatus::Starting => "starting",
                (Activity::Unknown, _) if says == Some(AgentStatus::Busy) => "busy",
                (Activity::Idle, InputBox::Absent) | (Activity::Unknown, _) => "unknown",
                (Activity::Idle, _) => "human",
            }
        }
    };
    Some(Seen { state: word.to_owned(), asks, clients: pane.clients })
}
