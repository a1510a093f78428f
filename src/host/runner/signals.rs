//! What an agent has told about itself: its spool, and its transcript as a
//! second witness.

use std::collections::BTreeSet;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;
use jiff::Timestamp;
use tokio::sync::watch;

use crate::base::ids::{HarnessSessionId, Marker};
use crate::core::harness::{Harness, Signal, Source};
use crate::core::session::SessionRecord;
use crate::state::spool;

/// How much of a transcript's end is searched at first: enough for every record
/// written around a restart.
const TRANSCRIPT_TAIL: u64 = 4 << 20;

/// The signals of one session, read as they come.
#[derive(Debug)]
pub struct SignalLog {
    harness: Harness,
    dir: PathBuf,
    last: Option<String>,
    ready_at: Option<Timestamp>,
    asks: Option<String>,
    /// When the turn began whose end was not told.
    turn_at: Option<Timestamp>,
    conversation: Option<HarnessSessionId>,
    taken: BTreeSet<String>,
    /// What the agent holds back in its own queue, or held back.
    queued: BTreeSet<String>,
    transcript: Option<Transcript>,
}

#[derive(Debug)]
struct Transcript {
    path: PathBuf,
    read_to: Option<u64>,
    /// A line that was not complete at the last look.
    rest: Vec<u8>,
}

impl SignalLog {
    /// The log of the session whose spool is `dir`.
    pub fn new(harness: Harness, dir: &Path) -> Self {
        Self {
            harness,
            dir: dir.to_path_buf(),
            last: None,
            ready_at: None,
            asks: None,
            turn_at: None,
            conversation: None,
            taken: BTreeSet::new(),
            queued: BTreeSet::new(),
            transcript: None,
        }
    }

    /// Reads what is new.
    pub fn refresh(&mut self) -> std::io::Result<()> {
        for entry in spool::read_after(&self.dir, self.last.as_deref())? {
            match self.harness.signal_of(&entry.raw) {
                Some(Signal::Ready { session_id, transcript }) => {
                    self.ready_at = Some(entry.at);
                    self.asks = None;
                    self.turn_at = None;
                    self.follow(Source { conversation: Some(session_id), transcript });
                }
                Some(Signal::Accepted { prompt }) => {
                    let is_ours = markers(&prompt).next().is_some();
                    let all = markers(&prompt).map(str::to_owned);
                    // In a turn it may be told as soon as it is in the agent's queue:
                    // there the transcript alone says that it was taken up.
                    if self.turn_at.is_some() && self.queues_in_turns() {
                        self.queued.extend(all);
                    } else {
                        self.taken.extend(all);
                    }
                    self.asks = None;
                    self.turn_at = Some(entry.at);
                    // What we typed tells which conversation the agent is in.
                    if is_ours {
                        self.follow(self.harness.source_of(&entry.raw));
                    }
                }
                Some(Signal::Waiting { what }) => self.asks = Some(what),
                Some(Signal::TurnEnded | Signal::TurnFailed { .. }) => {
                    (self.asks, self.turn_at) = (None, None);
                }
                Some(Signal::Ended { .. }) => (self.ready_at, self.turn_at) = (None, None),
                None => {}
            }
            self.last = Some(entry.name);
        }
        Ok(())
    }

    /// Whether it has a queue of its own and a transcript that tells of it.
    fn queues_in_turns(&self) -> bool {
        matches!(self.harness, Harness::Claude(_)) && self.transcript.is_some()
    }

    /// The agent is in this conversation now.
    fn follow(&mut self, source: Source) {
        let Source { conversation, transcript } = source;
        let named = transcript
            .or_else(|| self.harness.transcript_of(conversation.as_ref().or(self.conversation())?));
        if let Some(path) = named
            && self.transcript.as_ref().is_none_or(|known| known.path != path)
        {
            self.transcript = Some(Transcript { path, read_to: None, rest: Vec::new() });
        }
        self.conversation = conversation.or(self.conversation.take());
    }

    /// Whether the agent said that it is ready at or after this time.
    pub fn is_ready_since(&self, since: Timestamp) -> bool {
        self.ready_at.is_some_and(|at| at >= since)
    }

    /// The conversation's id as the agent named it.
    pub fn conversation(&self) -> Option<&HarnessSessionId> {
        self.conversation.as_ref()
    }

    /// Whether the agent took anything in the conversation it named last.
    pub fn has_begun(&self, conversation: &HarnessSessionId) -> bool {
        self.conversation.as_ref() == Some(conversation) && !self.taken.is_empty()
    }

    /// Whether the session's conversation exists, so that it is resumed rather than
    /// begun: what Claude said of its transcript counts more than what we noted.
    /// Other agents say it when they are asked to resume.
    pub fn has_conversation(harness: Harness, dir: &Path, record: &SessionRecord) -> bool {
        if !matches!(harness, Harness::Claude(_)) {
            return record.conversation_started;
        }
        let mut said = Self::new(harness, dir);
        if let Err(error) = said.refresh() {
            tracing::warn!(%error, "could not read the spool");
        }
        match (&said.transcript, &said.conversation) {
            (Some(transcript), Some(id)) if *id == record.harness_session_id => {
                transcript.path.exists()
            }
            _ => record.conversation_started,
        }
    }

    /// Whether a turn began a moment ago that the screen may not show yet.
    pub(super) fn settles(&self, now: Timestamp) -> bool {
        let within = self.harness.profile().settles_within;
        self.turn_at.is_some_and(|at| {
            Duration::try_from(now.duration_since(at)).is_ok_and(|since| since < within)
        })
    }

    /// What the agent last said that it waits for.
    pub fn asks(&self) -> Option<&str> {
        self.asks.as_deref()
    }

    /// Whether the agent took the delivery with this marker: it told so, or its
    /// transcript holds it.
    pub fn has_taken(&mut self, marker: &Marker) -> bool {
        self.has_taken_all(&[marker])
    }

    /// The same for all of these. Each line of the transcript is read once.
    pub fn has_taken_all(&mut self, markers: &[&Marker]) -> bool {
        let missing: Vec<_> =
            markers.iter().filter(|marker| !self.taken.contains(marker.as_str())).collect();
        if missing.is_empty() {
            return true;
        }
        let harness = &self.harness;
        // An unreadable transcript is no proof either way; the hook may still tell.
        let lines = self.transcript.as_mut().map(|t| t.new_lines().unwrap_or_default());
        for line in lines.iter().flatten() {
            for marker in &missing {
                if harness.transcript_has(line, marker) {
                    self.taken.insert(marker.as_str().to_owned());
                } else if harness.transcript_queues(line, marker) {
                    self.queued.insert(marker.as_str().to_owned());
                }
            }
        }
        markers.iter().all(|marker| self.taken.contains(marker.as_str()))
    }

    /// Whether the agent holds any of these back: it is in its queue, and not taken.
    pub fn holds_back_any(&self, markers: &[&Marker]) -> bool {
        let is_held = |marker: &&Marker| {
            self.queued.contains(marker.as_str()) && !self.taken.contains(marker.as_str())
        };
        markers.iter().any(is_held)
    }

    /// Starts the search of the transcript over, for another marker.
    pub fn search_again(&mut self) {
        if let Some(transcript) = &mut self.transcript {
            transcript.read_to = None;
            transcript.rest.clear();
        }
    }
}

impl Transcript {
    fn new_lines(&mut self) -> std::io::Result<Vec<String>> {
        let mut file = fs::File::open(&self.path)?;
        let length = file.metadata()?.len();
        let from = self.read_to.unwrap_or(length.saturating_sub(TRANSCRIPT_TAIL));
        if length <= from {
            return Ok(Vec::new());
        }
        file.seek(SeekFrom::Start(from))?;
        let mut new = std::mem::take(&mut self.rest);
        let read = file.take(length - from).read_to_end(&mut new)?;
        self.read_to = Some(from + read as u64);
        let complete = new.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        self.rest = new.split_off(complete);
        Ok(String::from_utf8_lossy(&new).lines().map(str::to_owned).collect())
    }
}

/// Every marker in a text that stands where ours stand.
fn markers(text: &str) -> impl Iterator<Item = &str> {
    const BEFORE: &str = "[the-loop event ";
    text.match_indices(BEFORE).filter_map(|(at, _)| {
        let marker = text.get(at + BEFORE.len()..at + BEFORE.len() + 32)?;
        marker.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(marker)
    })
}

/// Waits until the agent says something. Without a watch it waits for ever, and
/// the caller looks at its own pace.
pub(super) async fn news(watch: &mut Option<watch::Receiver<u64>>) {
    if let Some(receiver) = watch
        && receiver.changed().await.is_ok()
    {
        return;
    }
    *watch = None;
    std::future::pending::<()>().await;
}
