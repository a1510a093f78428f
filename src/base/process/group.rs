//! A process group: a program that was started in one of its own, and what it
//! started in turn. It is ended as a whole.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::time::Instant;

use super::Process;

/// How often a group is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How long the kernel may take to end what was killed.
const KILLED: Duration = Duration::from_secs(2);

/// A group, by the number of its leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group(Pid);

impl Group {
    /// The group that the process of this number leads; nothing for a number that no
    /// process can have.
    pub fn of(leader: i32) -> Option<Self> {
        Pid::from_raw(leader).filter(|pid| pid.as_raw_nonzero().get() > 0).map(Self)
    }

    /// The group of a program that was started in one of its own; nothing when its end
    /// was told already.
    pub fn led_by(child: &tokio::process::Child) -> Option<Self> {
        Self::of(i32::try_from(child.id()?).ok()?)
    }

    /// Sends it a signal. One that is gone needs none.
    pub fn signal(self, signal: Signal) {
        let _ = kill_process_group(self.0, signal);
    }

    /// Its processes that have not ended; nothing where none can be seen.
    pub fn members(self) -> Option<Vec<Process>> {
        let wanted = self.0.as_raw_nonzero().get();
        let mut all = Process::all()?;
        all.retain(|process| process.group == wanted && !process.has_ended);
        Some(all)
    }

    /// Waits until nobody of it is left; `false` when somebody is after `limit`.
    /// Where none can be seen, a leader that has ended counts until it is waited for.
    pub async fn is_empty_within(self, limit: Duration) -> bool {
        let begin = Instant::now();
        loop {
            let is_gone = test_kill_process_group(self.0).is_err();
            if is_gone || self.members().is_some_and(|all| all.is_empty()) {
                return true;
            }
            if begin.elapsed() >= limit {
                return false;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Asks it to end, and kills what is left of it after `grace`: also what outlives
    /// its leader has that long. Whoever is its leader's parent waits for the leader
    /// meanwhile.
    pub async fn end(self, grace: Duration) {
        self.signal(Signal::TERM);
        if !self.is_empty_within(grace).await {
            self.signal(Signal::KILL);
            self.is_empty_within(KILLED).await;
        }
    }
}
