//! What was done to type into a session, step by step: for people who ask what
//! happened in the last hour. Nothing depends on it; the inbox has what counts.

use std::io::{self, Write as _};
use std::path::PathBuf;

use fs_err as fs;
use fs_err::os::unix::fs::OpenOptionsExt as _;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::paths::StatePaths;
use crate::base::files::{atomic, private_dir};
use crate::base::ids::{DeliveryId, Slug};

/// How far back a trace is shown.
const SHOWN: SignedDuration = SignedDuration::from_hours(1);
/// A file that is larger keeps what is shown, and of that the end.
const MAX_BYTES: u64 = 512 * 1024;
const KEPT_BYTES: usize = 256 * 1024;

/// The trace of one session.
#[derive(Debug, Clone)]
pub struct Trace {
    path: PathBuf,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceStep {
    /// When.
    pub at: Timestamp,
    /// The delivery, or the first of those that were told together.
    pub delivery: DeliveryId,
    /// The others that were told together with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<DeliveryId>,
    /// What was seen.
    pub saw: String,
    /// What was done.
    pub did: String,
}

impl Trace {
    /// The trace of a session.
    pub fn of(paths: &StatePaths, slug: &Slug) -> Self {
        Self { path: paths.traces().join(format!("{slug}.jsonl")) }
    }

    /// Adds a step.
    pub fn add(&self, step: &TraceStep) -> io::Result<()> {
        if let Some(dir) = self.path.parent() {
            private_dir(dir)?;
        }
        if fs::metadata(&self.path).is_ok_and(|meta| meta.len() > MAX_BYTES) {
            self.shorten(step.at)?;
        }
        let mut line = serde_json::to_vec(step)?;
        line.push(b'\n');
        let mut options = fs::OpenOptions::new();
        options.append(true).create(true).mode(0o600);
        options.open(&self.path)?.write_all(&line)
    }

    /// The steps of the last hour, in order. Lines that cannot be read are left
    /// out: a crash may have cut one.
    pub fn last_hour(&self, now: Timestamp) -> io::Result<Vec<TraceStep>> {
        let since = now.checked_sub(SHOWN).unwrap_or(now);
        let text = match fs::read(&self.path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let steps = text.lines().filter_map(|line| serde_json::from_str::<TraceStep>(line).ok());
        Ok(steps.filter(|step| step.at >= since).collect())
    }

    fn shorten(&self, now: Timestamp) -> io::Result<()> {
        let mut lines = Vec::new();
        let mut size = 0;
        for step in self.last_hour(now)?.iter().rev() {
            let line = serde_json::to_string(step)?;
            size += line.len() + 1;
            if size > KEPT_BYTES {
                break;
            }
            lines.push(line);
        }
        lines.reverse();
        lines.push(String::new());
        atomic::write_unsynced(&self.path, lines.join("\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(at: i64, did: &str) -> TraceStep {
        TraceStep {
            at: Timestamp::from_second(at).unwrap(),
            delivery: "d-1".parse().unwrap(),
            with: Vec::new(),
            saw: "idle".to_owned(),
            did: did.to_owned(),
        }
    }

    #[test]
    fn the_last_hour_is_shown_in_order_and_the_file_stays_small() {
        let dir = tempfile::tempdir().unwrap();
        let trace = Trace { path: dir.path().join("t/x.jsonl") };
        assert_eq!(trace.last_hour(Timestamp::UNIX_EPOCH).unwrap(), []);
        trace.add(&step(1000, "old")).unwrap();
        let now = 10_000;
        let long = "x".repeat(1000);
        for n in 0..1200 {
            trace.add(&step(now, &format!("{n} {long}"))).unwrap();
        }
        let mut file = fs::OpenOptions::new().append(true).open(&trace.path).unwrap();
        file.write_all(b"{\"at\": cut").unwrap();
        let steps = trace.last_hour(Timestamp::from_second(now).unwrap()).unwrap();
        assert!(fs::metadata(&trace.path).unwrap().len() < 2 * MAX_BYTES);
        assert!(steps.last().unwrap().did.starts_with("1199 "));
        assert!(steps.len() > 200 && steps.iter().all(|step| step.did != "old"));
        let numbers =
            steps.iter().map(|s| s.did.split(' ').next().unwrap().parse::<u32>().unwrap());
        assert!(numbers.is_sorted());
    }
}
