//! Whether a text that came from GitHub is an agent's own, though it ends with
//! no marker line: looked up in the transcripts of the sessions, where an agent
//! names one, and in what its headless turns printed.
//!
//! The intake asks for comments and reviews of listed users alone. A transcript
//! that cannot be read is no proof, and the text counts as a person's.

use std::collections::HashMap;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

use crate::base::ids::Slug;
use crate::core::config::HarnessName;
use crate::core::harness::{Harness, Harnesses, Signal, Source};
use crate::state::paths::StatePaths;
use crate::state::spool;
use crate::state::turns::{Turn, Turns};

/// How long after an agent wrote something it may come back from GitHub.
const WITHIN: SignedDuration = SignedDuration::from_mins(10);

/// How much of a transcript's end is searched.
const TAIL: u64 = 8 << 20;

/// How many of the last headless turns are searched.
const TURNS: usize = 3;

/// Where the agents of the sessions write their transcripts.
#[derive(Debug)]
pub(super) struct AgentsWords {
    paths: StatePaths,
    harnesses: Harnesses,
    known: HashMap<Slug, Known>,
}

#[derive(Debug, Default)]
struct Known {
    last: Option<String>,
    transcript: Option<PathBuf>,
}

impl AgentsWords {
    /// Reads the spools and the turns of this state.
    pub(super) fn new(paths: StatePaths, harnesses: Harnesses) -> Self {
        Self { paths, harnesses, known: HashMap::new() }
    }

    /// Whether an agent of one of these sessions wrote the whole of `text` in
    /// the ten minutes before `at`.
    pub(super) fn hold<'a>(
        &mut self,
        text: &str,
        at: Timestamp,
        sessions: impl IntoIterator<Item = (&'a Slug, &'a HarnessName)>,
    ) -> bool {
        let since = at.checked_sub(WITHIN).unwrap_or(Timestamp::MIN);
        sessions.into_iter().any(|(slug, name)| {
            // Of one that is no longer declared nothing is known.
            let Ok(harness) = self.harnesses.get(name) else { return false };
            self.transcript(slug, &harness).is_some_and(|path| {
                tail(&path, since).lines().any(|line| harness.transcript_says(line, text, since))
            }) || self.outputs(slug, &harness).iter().any(|path| {
                tail(path, since).lines().any(|line| harness.output_says(line, text, since))
            })
        })
    }

    /// What the session's last headless turns printed, where that says something.
    fn outputs(&self, slug: &Slug, harness: &Harness) -> Vec<PathBuf> {
        if harness.shows().is_none() {
            return Vec::new();
        }
        let turns = Turns::of(&self.paths, slug).list().unwrap_or_default();
        turns.iter().rev().take(TURNS).map(Turn::stdout).collect()
    }

    /// The transcript that the session's agent named last.
    fn transcript(&mut self, slug: &Slug, harness: &Harness) -> Option<PathBuf> {
        let known = self.known.entry(slug.clone()).or_default();
        let dir = self.paths.spool().join(slug.as_str());
        for entry in spool::read_after(&dir, known.last.as_deref()).unwrap_or_default() {
            let named = match harness.signal_of(&entry.raw) {
                Some(Signal::Ready { session_id, transcript }) => {
                    transcript.or_else(|| harness.transcript_of(&session_id))
                }
                // One that was not there yet when it began.
                Some(Signal::Accepted { .. }) if known.transcript.is_none() => {
                    let Source { conversation, transcript } = harness.source_of(&entry.raw);
                    transcript.or_else(|| harness.transcript_of(&conversation?))
                }
                _ => None,
            };
            known.transcript = named.or(known.transcript.take());
            known.last = Some(entry.name);
        }
        known.transcript.clone()
    }
}

/// The end of a file that was written to since then.
fn tail(path: &Path, since: Timestamp) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = fs_err::File::open(path)?;
        let meta = file.metadata()?;
        let is_recent = Timestamp::try_from(meta.modified()?).is_ok_and(|at| at >= since);
        if !meta.is_file() || !is_recent {
            return Ok(Vec::new());
        }
        file.seek(SeekFrom::Start(meta.len().saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}
