//! What the agent of a turn started in its process group: it ends with the turn.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, test_kill_process};

use crate::base::process::{Group, Process};
use crate::state::turns::Mark;

/// How long what an agent left behind may take to end by itself: a hook that
/// still writes, say.
const BY_ITSELF: Duration = Duration::from_millis(500);

/// Ends what a turn that this process started left running: it may end by
/// itself, is asked to, and is killed when it does not within `grace`.
pub(super) async fn end_left(group: Group, grace: Duration) {
    if !group.is_empty_within(BY_ITSELF).await {
        group.end(grace).await;
    }
}

/// Ends what a turn of an earlier receiver left running. Its group's number may
/// be another group's by now: only one with a process in it that was given the
/// session's spool is the turn's.
pub(super) async fn end_adopted(mark: &Mark, spool: &Path, grace: Duration) {
    let (Some(pid), Some(group)) = (Pid::from_raw(mark.pid), Group::of(mark.pid)) else { return };
    // The number is not given to a new process while the old group is there.
    let is_reused = test_kill_process(pid).is_ok() && !mark.is_alive() && !is_zombie(mark.pid);
    let spool = spool.as_os_str().as_encoded_bytes();
    let has_spool = |process: &Process| process.was_given("THE_LOOP_SPOOL", spool);
    let is_ours = || group.members().is_some_and(|all| all.iter().any(has_spool));
    if !is_reused && is_ours() {
        end_left(group, grace).await;
    }
}

fn is_zombie(pid: i32) -> bool {
    Process::read(pid).is_some_and(|process| process.has_ended)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::process::Stdio;

    use fs_err as fs;
    use tokio::time::Instant;

    use super::*;
    use crate::base::process::Invocation;

    /// A group whose leader has ended and left this running; the leader's mark.
    async fn left_behind(script: &str, spool: &str) -> Mark {
        let dir = tempfile::tempdir().unwrap();
        let ready = dir.path().join("ready");
        let script =
            format!("( {script} ) & while [ ! -e {r} ]; do sleep 0.01; done", r = ready.display());
        let mut child = Invocation::new(Path::new("/bin/sh"), BTreeMap::new())
            .args(["-c", &script.replace("READY", &format!("> {}", ready.display()))])
            .env("PATH", "/usr/bin:/bin")
            .env("THE_LOOP_SPOOL", spool)
            .start(Stdio::null(), Stdio::null(), Stdio::null())
            .unwrap();
        let pid = i32::try_from(child.id().unwrap()).unwrap();
        child.wait().await.unwrap();
        Mark { pid, start: Some(1) }
    }

    fn group(mark: &Mark) -> Group {
        Group::of(mark.pid).unwrap()
    }

    fn left(mark: &Mark) -> usize {
        group(mark).members().unwrap().len()
    }

    #[tokio::test]
    async fn what_was_left_running_is_asked_and_then_killed() {
        let dir = tempfile::tempdir().unwrap();
        let said = dir.path().join("said");
        let polite = format!(
            "trap 'echo bye > {}; exit' TERM; READY; while :; do sleep 0.01; done",
            said.display()
        );
        let mark = left_behind(&polite, "/s").await;
        assert!(left(&mark) > 0);
        end_left(group(&mark), Duration::from_secs(20)).await;
        assert_eq!((left(&mark), fs::read_to_string(&said).unwrap().as_str()), (0, "bye\n"));
        // One that does not listen.
        let mark = left_behind("trap '' TERM; READY; while :; do sleep 0.01; done", "/s").await;
        end_left(group(&mark), Duration::from_millis(100)).await;
        let begin = Instant::now();
        while left(&mark) > 0 {
            assert!(begin.elapsed() < Duration::from_secs(20), "it lives");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    #[tokio::test]
    async fn what_ends_by_itself_is_not_signalled() {
        let dir = tempfile::tempdir().unwrap();
        let said = dir.path().join("said");
        let script = format!("trap 'exit' TERM; READY; sleep 0.1; echo done > {}", said.display());
        let mark = left_behind(&script, "/s").await;
        end_left(group(&mark), Duration::from_secs(20)).await;
        assert_eq!(fs::read_to_string(&said).unwrap(), "done\n");
    }

    #[tokio::test]
    async fn the_group_of_an_earlier_turn_is_ended_only_when_it_is_known_to_be_it() {
        let mark = left_behind("READY; sleep 60", "/s").await;
        end_adopted(&mark, Path::new("/other"), Duration::from_secs(20)).await;
        assert!(left(&mark) > 0, "another session's");
        end_adopted(&mark, Path::new("/s"), Duration::from_secs(20)).await;
        assert_eq!(left(&mark), 0);
        // One whose number a new process has.
        let mut child = Invocation::new(Path::new("/bin/sleep"), BTreeMap::new())
            .arg("60")
            .env("THE_LOOP_SPOOL", "/s")
            .start(Stdio::null(), Stdio::null(), Stdio::null())
            .unwrap();
        let pid = i32::try_from(child.id().unwrap()).unwrap();
        end_adopted(&Mark { pid, start: Some(1) }, Path::new("/s"), Duration::from_secs(1)).await;
        assert!(child.try_wait().unwrap().is_none());
        child.kill().await.unwrap();
    }
}
