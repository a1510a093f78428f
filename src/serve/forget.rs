//! What need not be kept: deliveries by their age and size, signals that every
//! reader has read, files for long texts, traces of what was typed.

use std::path::Path;
use std::time::Duration;

use fs_err as fs;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::base::clock::Clock;
use crate::base::failure::chain;
use crate::core::config::{Identity, Retention};
use crate::core::harness::{Harness, Harnesses, Signal};
use crate::state::inbox::{Inbox, Keep};
use crate::state::paths::StatePaths;
use crate::state::spool;

/// How often it is looked through.
const EVERY: Duration = Duration::from_hours(1);
/// How old a signal gets. What an agent took is in the inbox long before.
const SIGNALS: SignedDuration = SignedDuration::from_hours(24);
/// How old the file of a long text gets.
const TEXTS: SignedDuration = SignedDuration::from_hours(30 * 24);
/// How old a trace gets: only an hour of it is ever shown.
const TRACES: SignedDuration = SignedDuration::from_hours(24);

/// How long and how much is kept.
pub(super) fn keep_of(retention: &Retention) -> Keep {
    let size = Some(retention.size.bytes()).filter(|size| *size > 0).unwrap_or(u64::MAX);
    Keep { age: retention.age.duration(), size }
}

/// Drops what is too old or too large, every hour: of the inbox at once, of what
/// agents told only when it must have been read.
pub(super) async fn forget(
    inbox: Inbox,
    paths: StatePaths,
    keep: Keep,
    harnesses: Harnesses,
    clock: Clock,
    stop: CancellationToken,
) {
    loop {
        match inbox.prune(keep).await {
            Ok(0) => {}
            Ok(rows) => tracing::info!(rows, "dropped what the inbox need not keep"),
            Err(error) => {
                tracing::warn!(error = %chain(&error), "could not drop what the inbox need not keep");
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        tidy(&paths, &harnesses, clock.now());
    }
}

/// Removes files that nobody needs any more.
fn tidy(paths: &StatePaths, harnesses: &Harnesses, now: Timestamp) {
    let known: Vec<_> =
        harnesses.names().iter().filter_map(|name| harnesses.get(name).ok()).collect();
    let tells = |raw: &Value| known.iter().any(|harness| tells_conversation(harness, raw));
    let before = |age| now.checked_sub(age).unwrap_or(now);
    let spools = fs::read_dir(paths.spool()).into_iter().flatten().filter_map(Result::ok);
    for dir in spools.filter(|entry| entry.path().is_dir()) {
        report(spool::prune(&dir.path(), before(SIGNALS), tells).map(drop));
    }
    report(remove_old(&paths.texts(), before(TEXTS)));
    report(remove_old(&paths.traces(), before(TRACES)));
}

/// A receiver that adopts an agent learns from the last of these which
/// conversation it is and where its transcript is.
fn tells_conversation(harness: &Harness, raw: &Value) -> bool {
    match harness.signal_of(raw) {
        Some(Signal::Ready { .. }) => true,
        // Some tell it with each prompt that they take.
        Some(Signal::Accepted { .. }) => {
            harness.identity() != Identity::Preassigned
                && harness.source_of(raw).conversation.is_some()
        }
        _ => false,
    }
}

fn remove_old(dir: &Path, before: Timestamp) -> std::io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let changed = Timestamp::try_from(entry.metadata()?.modified()?);
        if changed.is_ok_and(|changed| changed < before) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn report(result: std::io::Result<()>) {
    if let Err(error) = result {
        tracing::warn!(%error, "could not remove an old file");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_old_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        remove_old(&dir.path().join("none"), Timestamp::UNIX_EPOCH).unwrap();
        fs::write(dir.path().join("a"), "a").unwrap();
        let now = Clock::System.now();
        remove_old(dir.path(), now - SignedDuration::from_hours(1)).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        remove_old(dir.path(), now + SignedDuration::from_hours(1)).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
