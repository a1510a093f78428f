//! Watching a turn until its end: its time, its output, the wish to call it off.

use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::Signal;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::state::turns::output::{self, MAX_OUTPUT};
use crate::state::turns::{Mark, Turn};

use super::group::{self, signal};
use super::judge::Ending;

/// How often a turn is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long an agent that was asked to end may take before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// Waits for a turn that this process started, and for the end of what its agent
/// left running.
pub(super) async fn child(
    turn: &Turn,
    mut child: tokio::process::Child,
    limit: Duration,
    call_off: &CancellationToken,
) -> Ending {
    let group = child.id().and_then(|id| i32::try_from(id).ok());
    let deadline = Instant::now() + limit;
    let mut ending = Ending::default();
    loop {
        tokio::select! {
            status = child.wait() => {
                ending.status = status.ok();
                group::end(group, GRACE).await;
                ending.is_unread = turn.is_unread();
                bound(turn, &mut ending.cut);
                return ending;
            }
            () = tokio::time::sleep(LOOK) => bound(turn, &mut ending.cut),
            () = call_off.cancelled() => ending.called_off = true,
            () = tokio::time::sleep_until(deadline) => ending.timed_out = Some(limit),
        }
        if ending.called_off || ending.timed_out.is_some() {
            signal(group, Signal::TERM);
            let status = match tokio::time::timeout(GRACE, child.wait()).await {
                Ok(status) => status.ok(),
                Err(_) => None,
            };
            // What the agent left behind in its group goes too.
            signal(group, Signal::KILL);
            ending.status = match status {
                Some(status) => Some(status),
                None => child.wait().await.ok(),
            };
            ending.is_unread = turn.is_unread();
            bound(turn, &mut ending.cut);
            return ending;
        }
    }
}

/// Waits for a turn that an earlier receiver started. How it ended cannot be
/// learnt; what it left can.
pub(super) async fn adopted(
    turn: &Turn,
    mark: &Mark,
    spool: &Path,
    limit: Duration,
    now: Timestamp,
    call_off: &CancellationToken,
) -> Ending {
    let mut ending = Ending::default();
    let began = turn.about().map_or(now, |about| about.began);
    let spent = Duration::try_from(now.duration_since(began)).unwrap_or_default();
    let deadline = Instant::now() + limit.saturating_sub(spent);
    while mark.is_alive() {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => bound(turn, &mut ending.cut),
            () = call_off.cancelled() => ending.called_off = true,
            () = tokio::time::sleep_until(deadline) => ending.timed_out = Some(limit),
        }
        if ending.called_off || ending.timed_out.is_some() {
            end(mark).await;
            break;
        }
    }
    group::end_adopted(mark, spool, GRACE).await;
    bound(turn, &mut ending.cut);
    ending
}

/// Ends a turn's agent: asked first, then killed.
pub async fn end(mark: &Mark) {
    signal(Some(mark.pid), Signal::TERM);
    let begin = Instant::now();
    while mark.is_alive() && begin.elapsed() < GRACE {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    signal(Some(mark.pid), Signal::KILL);
}

/// Cuts what a turn has written when it is more than one may: the newest stays.
fn bound(turn: &Turn, cut: &mut u64) {
    for path in [turn.stdout(), turn.stderr()] {
        match output::keep_newest(&path, MAX_OUTPUT) {
            Ok(bytes) => *cut += bytes,
            Err(error) => tracing::warn!(%error, "could not cut a turn's output"),
        }
    }
}

/// How a process ended, in words.
pub(super) fn words(status: ExitStatus) -> String {
    crate::base::process::ending(status)
}
