//! Watching a turn until its end: its time, its output, the wish to call it off.

use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::base::process::Group;
use crate::state::turns::output::{self, MAX_OUTPUT};
use crate::state::turns::{Mark, Turn};

use super::group;
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
    let group = Group::led_by(&child);
    let deadline = Instant::now() + limit;
    let mut ending = Ending::default();
    loop {
        tokio::select! {
            status = child.wait() => {
                ending.status = status.ok();
                if let Some(group) = group {
                    group::end_left(group, GRACE).await;
                }
                ending.is_unread = turn.is_unread();
                bound(turn, &mut ending.cut);
                return ending;
            }
            () = tokio::time::sleep(LOOK) => bound(turn, &mut ending.cut),
            () = call_off.cancelled() => ending.called_off = true,
            () = tokio::time::sleep_until(deadline) => ending.timed_out = Some(limit),
        }
        if ending.called_off || ending.timed_out.is_some() {
            // What the agent started has as long as itself.
            let ends = async {
                if let Some(group) = group {
                    group.end(GRACE).await;
                }
            };
            let (status, ()) = tokio::join!(child.wait(), ends);
            ending.status = status.ok();
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

/// Ends a turn's agent with what it started: asked first, then killed.
pub async fn end(mark: &Mark) {
    // The number of one that has ended may be another's.
    if let Some(group) = Group::of(mark.pid).filter(|_| mark.is_alive()) {
        group.end(GRACE).await;
    }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::process::Stdio;

    use fs_err as fs;

    use super::*;
    use crate::base::process::{Invocation, Process};
    use crate::state::turns::{About, Turns};

    /// A turn whose agent ends when it is asked to, and whose child needs a moment.
    struct Case {
        dir: tempfile::TempDir,
        turn: Turn,
        child: tokio::process::Child,
    }

    impl Case {
        async fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let about = About {
                delivery: "d-1".parse().unwrap(),
                marker: None,
                what: String::new(),
                began: Timestamp::UNIX_EPOCH,
                shows: None,
            };
            let turn = Turns::in_dir(&dir.path().join("t")).begin(&about, "x").unwrap();
            let (ready, saved) = (dir.path().join("ready"), dir.path().join("saved"));
            let script = format!(
                "( trap 'sleep 0.3; echo saved > {}; exit' TERM; > {}; \
                 while :; do sleep 0.01; done ) & wait",
                saved.display(),
                ready.display()
            );
            let child = Invocation::new(Path::new("/bin/sh"), BTreeMap::new())
                .args(["-c", &script])
                .env("PATH", "/usr/bin:/bin")
                .env("THE_LOOP_SPOOL", "/s")
                .start(Stdio::null(), Stdio::null(), Stdio::null())
                .unwrap();
            while !ready.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Self { dir, turn, child }
        }

        fn mark(&self) -> Mark {
            let pid = i32::try_from(self.child.id().unwrap()).unwrap();
            Mark { pid, start: Process::read(pid).map(|process| process.start) }
        }
    }

    fn is_saved(dir: &Path) -> bool {
        fs::read_to_string(dir.join("saved")).is_ok_and(|text| text == "saved\n")
    }

    #[tokio::test]
    async fn what_an_agent_started_ends_as_politely_as_the_agent() {
        let never = CancellationToken::new();
        let closed = CancellationToken::new();
        closed.cancel();
        let minute = Duration::from_mins(1);
        for (limit, call_off) in [(Duration::from_millis(1), &never), (minute, &closed)] {
            let Case { dir, turn, child: agent } = Case::new().await;
            let ending = child(&turn, agent, limit, call_off).await;
            assert_eq!(ending.timed_out.is_some(), limit < minute);
            assert!(is_saved(dir.path()), "{ending:?}");
        }
        let (now, spool) = (Timestamp::UNIX_EPOCH, Path::new("/s"));
        for (limit, call_off) in [(Duration::from_millis(1), &never), (minute, &closed)] {
            let case = Case::new().await;
            let ending = adopted(&case.turn, &case.mark(), spool, limit, now, call_off).await;
            assert!(is_saved(case.dir.path()), "{ending:?}");
        }
        let case = Case::new().await;
        end(&case.mark()).await;
        assert!(is_saved(case.dir.path()));
    }
}
