//! A session as it is recorded: one harness conversation bound to one work item.
//!
//! `state::registry` keeps it on disk, `host` and `cli` look at it and change
//! it. Fields of the file that this version does not know survive a rewrite.

use std::fmt;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::config::{HarnessName, RunnerKind, TmuxView};
use super::workspace::WorkTree;
use crate::base::ids::{DeliveryId, HarnessSessionId, Slug, WorkItem};

mod item;

pub use item::{ItemError, Known, find_item};

/// Deliveries that an entry remembers.
pub const RECENT_DELIVERIES: usize = 50;

/// Failed checks that an entry remembers as told.
pub const TOLD_CHECKS: usize = 200;

/// Where a session stands, as the registry knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionStatus {
    /// Its agent is being started.
    Starting,
    /// Events go to it.
    Active,
    /// Events are kept back.
    Paused,
    /// Its agent could not be started or died.
    Failed,
    /// It is over; its history stays.
    Closed,
}

impl SessionStatus {
    /// Whether an agent works on it, or may at any time.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Starting | Self::Active | Self::Paused)
    }

    /// The word as it is stored and printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Failed => "failed",
            Self::Closed => "closed",
        }
    }
}

impl fmt::Display for SessionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The work item of a session, with what was known of it when it was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedItem {
    /// Which issue or pull request it is.
    #[serde(rename = "ref")]
    pub reference: WorkItem,
    /// Its title. Written by somebody else: show it with `base::text::visible`.
    #[serde(default)]
    pub title: Option<String>,
    /// Its page.
    #[serde(default)]
    pub url: Option<String>,
}

/// One entry of the registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionRecord {
    /// The work item.
    pub work_item: RecordedItem,
    /// The agent.
    pub harness: HarnessName,
    /// The agent's own id of the conversation.
    pub harness_session_id: HarnessSessionId,
    /// The directory that the agent works in.
    pub cwd: PathBuf,
    /// The git work tree of the item, when `cwd` is one of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_tree: Option<WorkTree>,
    /// Where the session stands.
    pub status: SessionStatus,
    /// How its process is hosted; an entry that does not say is `process`.
    #[serde(default)]
    pub runner: RunnerKind,
    /// What its tmux window shows; an entry that does not say is `tui`.
    #[serde(default)]
    pub view: TmuxView,
    /// The name of its tmux session, `loop/<slug>`.
    #[serde(default)]
    pub tmux_target: Option<String>,
    /// The socket of the tmux server; absent for the user's own.
    #[serde(default)]
    pub tmux_socket: Option<PathBuf>,
    /// The pull requests whose events belong to it.
    #[serde(default)]
    pub pull_requests: Vec<WorkItem>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When the last event reached it.
    #[serde(default)]
    pub last_event_at: Option<Timestamp>,
    /// The deliveries that reached it last, oldest first, at most
    /// [`RECENT_DELIVERIES`].
    #[serde(default)]
    pub recent_deliveries: Vec<DeliveryId>,
    /// Why it failed: the agent's last lines, or what kept it from starting.
    #[serde(default)]
    pub failure: Option<String>,
    /// Its agent was started and has not said that it is ready: what it asks, or
    /// what its screen shows instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<String>,
    /// Why it is paused, where no person did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_why: Option<String>,
    /// When a person closed it while no receiver ran: what had come in until then, and
    /// was not decided about, does not revive it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
    /// The failed checks that it was told of, oldest first, at most
    /// [`TOLD_CHECKS`].
    #[serde(default)]
    pub told_checks: Vec<String>,
    /// Events before this do not count against `routing.rateLimit`: it paused
    /// the session then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_from: Option<Timestamp>,
    /// What the last headless turn took and cost, or what went wrong.
    #[serde(default)]
    pub last_turn: Option<String>,
    /// Whether the agent ever accepted a prompt: then the conversation is
    /// resumed, else it is started anew.
    #[serde(default)]
    pub conversation_started: bool,
    /// Whether the agent lost an earlier conversation, and has not been told yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub conversation_lost: bool,
    /// When its agent was last started again with the conversation that it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_at: Option<Timestamp>,
    /// Whether the agent was, and has not been told yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub conversation_resumed: bool,
    /// What the file holds that this version does not know.
    #[serde(skip)]
    pub(crate) unknown: Map<String, Value>,
}

impl SessionRecord {
    /// The agent named the conversation that it took a prompt in. One that says
    /// nothing of a lost conversation is known to have lost it by another name: it
    /// is told so with its next prompt.
    pub fn goes_on_in(&mut self, conversation: HarnessSessionId, says_nothing: bool) {
        let is_other = self.harness_session_id != conversation;
        if says_nothing && self.conversation_started && is_other {
            self.conversation_lost = true;
            self.last_turn = Some(
                "the agent had no conversation of this id any more and began another".to_owned(),
            );
        }
        self.harness_session_id = conversation;
    }

    /// A session that is about to be started.
    pub fn new(
        item: RecordedItem,
        harness: HarnessName,
        harness_session_id: HarnessSessionId,
        cwd: PathBuf,
        runner: RunnerKind,
        created_at: Timestamp,
    ) -> Self {
        let tmux_target = match runner {
            RunnerKind::Process => None,
            RunnerKind::Tmux => Some(item.reference.slug().tmux_name()),
        };
        Self {
            work_item: item,
            harness,
            harness_session_id,
            cwd,
            work_tree: None,
            status: SessionStatus::Starting,
            runner,
            view: TmuxView::Tui,
            tmux_target,
            tmux_socket: None,
            pull_requests: Vec::new(),
            created_at,
            last_event_at: None,
            recent_deliveries: Vec::new(),
            failure: None,
            blocked: None,
            paused_why: None,
            closed_at: None,
            told_checks: Vec::new(),
            counted_from: None,
            last_turn: None,
            conversation_started: false,
            conversation_lost: false,
            resumed_at: None,
            conversation_resumed: false,
            unknown: Map::new(),
        }
    }

    /// Reads an entry. A tmux name other than the item's own makes it
    /// unreadable: events would reach another item's session.
    pub fn from_json(bytes: &[u8]) -> Result<Self, String> {
        let (mut record, mut file) = Self::parse(bytes)?;
        let known = serde_json::to_value(&record).map_err(|error| error.to_string())?;
        if let Value::Object(known) = known {
            remove_known(&mut file, &known);
        }
        record.unknown = file;
        Ok(record)
    }

    /// The same without what this version does not know: for looking at many.
    /// Not to be written as it is; the registry's `save` adds what the file has.
    pub fn known_from_json(bytes: &[u8]) -> Result<Self, String> {
        Self::parse(bytes).map(|(record, _)| record)
    }

    fn parse(bytes: &[u8]) -> Result<(Self, Map<String, Value>), String> {
        let text = |error: serde_json::Error| error.to_string();
        let file: Map<String, Value> = serde_json::from_slice(bytes).map_err(text)?;
        let file = Value::Object(file);
        let record = Self::deserialize(&file).map_err(text)?;
        let own = record.slug().tmux_name();
        if let Some(target) = record.tmux_target.as_deref().filter(|target| **target != own) {
            let target = crate::base::text::visible(&crate::base::text::cap(target, 120));
            return Err(format!("its tmuxTarget is `{target}`, not `{own}`"));
        }
        match file {
            Value::Object(file) => Ok((record, file)),
            _ => Err("it is no object".to_owned()),
        }
    }

    /// The entry as it is written: what is known beside what is not.
    /// Fails only for a path that is not UTF-8.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut merged = Value::Object(self.unknown.clone());
        merge(&mut merged, serde_json::to_value(self)?);
        let mut bytes = serde_json::to_vec_pretty(&merged)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Whether each event is a headless turn of its own, and not typed.
    pub fn is_headless(&self) -> bool {
        self.runner == RunnerKind::Process || self.view == TmuxView::Stream
    }

    /// Whether it has a terminal that should be there, and a conversation.
    pub fn is_resumable(&self) -> bool {
        !self.is_headless()
            && matches!(self.status, SessionStatus::Active | SessionStatus::Starting)
            && self.conversation_started
    }

    /// The name of its file and of its tmux session.
    pub fn slug(&self) -> Slug {
        self.work_item.reference.slug()
    }

    /// Keeps its events back; `why` where no person asked for it.
    pub fn pause(&mut self, why: Option<String>) {
        self.status = SessionStatus::Paused;
        self.paused_why = why;
    }

    /// Notes what its agent does. A pause that came meanwhile stays: what a
    /// person, or the rate limit, holds back is not let go by a start.
    pub fn be(&mut self, status: SessionStatus) {
        if self.status != SessionStatus::Paused {
            self.status = status;
        }
    }

    /// Whether it was closed behind an event that came in at `at`.
    pub fn closed_behind(&self, at: Timestamp) -> bool {
        self.status == SessionStatus::Closed && self.closed_at.is_some_and(|closed| at <= closed)
    }

    /// Lets its events go on, when it was paused.
    pub fn resume(&mut self) {
        if self.status == SessionStatus::Paused {
            self.status = SessionStatus::Active;
            self.paused_why = None;
            self.failure = None;
        }
    }

    /// Notes that a delivery reached the session at `at`.
    pub fn note_delivery(&mut self, id: &DeliveryId, at: Timestamp) {
        self.recent_deliveries.retain(|known| known != id);
        push_bounded(&mut self.recent_deliveries, id.clone(), RECENT_DELIVERIES);
        self.last_event_at = Some(at);
    }

    /// Notes that the session was told of a failed check. `false` when it was
    /// told before.
    pub fn note_check(&mut self, check: &str) -> bool {
        if self.told_checks.iter().any(|told| told == check) {
            return false;
        }
        push_bounded(&mut self.told_checks, check.to_owned(), TOLD_CHECKS);
        true
    }
}

fn push_bounded<T>(list: &mut Vec<T>, value: T, limit: usize) {
    list.push(value);
    let surplus = list.len().saturating_sub(limit);
    list.drain(..surplus);
}

/// Leaves in `file` only what is not in `known`.
fn remove_known(file: &mut Map<String, Value>, known: &Map<String, Value>) {
    file.retain(|key, value| match (value, known.get(key)) {
        (_, None) => true,
        (Value::Object(value), Some(Value::Object(known))) => {
            remove_known(value, known);
            !value.is_empty()
        }
        (_, Some(_)) => false,
    });
}

/// Lays `over` on `under`: objects key by key, everything else as a whole.
fn merge(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                merge(under.entry(key).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> SessionRecord {
        SessionRecord::new(
            RecordedItem { reference: "o/r#1".parse().unwrap(), title: None, url: None },
            HarnessName::Demo,
            HarnessSessionId::uuid([7; 16]),
            PathBuf::from("/work"),
            RunnerKind::Tmux,
            Timestamp::UNIX_EPOCH,
        )
    }

    #[test]
    fn an_entry_reads_back_as_it_was_written() {
        let record = record();
        let read = SessionRecord::from_json(&record.to_json().unwrap()).unwrap();
        assert_eq!(read.tmux_target.as_deref(), Some("loop/o+r+1"));
        assert_eq!(read, record);
    }

    #[test]
    fn what_is_not_known_survives_and_what_was_cleared_does_not() {
        let mut file: Value = serde_json::from_slice(&record().to_json().unwrap()).unwrap();
        file["later"] = "x".into();
        file["workItem"]["labels"] = Value::from(vec!["a"]);
        file["failure"] = "old".into();
        let mut read = SessionRecord::from_json(file.to_string().as_bytes()).unwrap();
        read.failure = None;
        read.work_item.title = Some("new".to_owned());
        let again: Value = serde_json::from_slice(&read.to_json().unwrap()).unwrap();
        assert_eq!(again["later"], "x");
        assert_eq!(again["workItem"]["labels"], Value::from(vec!["a"]));
        assert_eq!(again["workItem"]["title"], "new");
        assert_eq!(again["failure"], Value::Null);
    }

    #[test]
    fn an_entry_with_only_what_must_be_there_is_a_process() {
        let text = r#"{"workItem": {"ref": "github:o/r#1"}, "harness": "claude",
            "harnessSessionId": "abc", "cwd": "/w", "status": "active",
            "createdAt": "2026-01-02T03:04:05Z"}"#;
        let read = SessionRecord::from_json(text.as_bytes()).unwrap();
        assert_eq!(read.runner, RunnerKind::Process);
        assert_eq!(read.tmux_target, None);
    }

    #[test]
    fn another_items_tmux_session_is_not_believed() {
        let text = String::from_utf8(record().to_json().unwrap()).unwrap();
        let text = text.replace("loop/o+r+1", "loop/o+r+10");
        assert_eq!(
            SessionRecord::from_json(text.as_bytes()).unwrap_err(),
            "its tmuxTarget is `loop/o+r+10`, not `loop/o+r+1`"
        );
    }

    #[test]
    fn the_memory_of_deliveries_and_checks_is_bounded() {
        let mut record = record();
        for number in 0..300 {
            let id: DeliveryId = format!("d-{}", number % 60).parse().unwrap();
            record.note_delivery(&id, Timestamp::UNIX_EPOCH);
            assert!(record.note_check(&format!("check {number}")));
        }
        assert_eq!(record.recent_deliveries.len(), RECENT_DELIVERIES);
        assert_eq!(record.recent_deliveries.last().unwrap().as_str(), "d-59");
        assert_eq!(record.told_checks.len(), TOLD_CHECKS);
        assert!(!record.note_check("check 299"));
    }
}
