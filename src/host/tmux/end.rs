//! Ending a session together with what runs in it. tmux only hangs up: a program
//! that ignores that would live on, without a terminal, in the same directory and
//! on the same conversation.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use tokio::time::Instant;

use super::{Pane, PaneState, Tmux, TmuxError};
use crate::base::process::Process;

/// How long an agent may take to end once its terminal is gone.
const BY_ITSELF: Duration = Duration::from_secs(2);
/// How long it may take once it was asked to.
const ASKED: Duration = Duration::from_secs(3);
/// How long the kernel may take to end what was killed.
const KILLED: Duration = Duration::from_secs(2);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(20);

/// What a session's agents are told they work on: `host::agents` sets it.
const ITEM_VAR: &str = "THE_LOOP_WORK_ITEM";

impl Tmux {
    /// Ends a session of ours, and every process of its terminal: what does not end
    /// with the terminal is asked to, and killed when it does not listen.
    ///
    /// # Errors
    /// [`TmuxError::Survives`] when a process lives on all the same.
    pub async fn end(&self, pane: &Pane) -> Result<(), TmuxError> {
        let pid = self.pids().await?.get(&pane.pane_id).copied();
        let terminal = pid.and_then(|pid| Terminal::of(pid, pane));
        let killed = self.kill(pane).await;
        if let Some(terminal) = terminal {
            terminal.end(&pane.name).await?;
        }
        // With its last session the server goes, and may answer nothing any more.
        let is_there = |panes: Vec<Pane>| panes.iter().any(|other| other.is_the_same_as(pane));
        match killed {
            Err(error) if self.panes().await.map_or(true, is_there) => Err(error),
            _ => Ok(()),
        }
    }
}

impl Terminal {
    async fn end(&self, session: &str) -> Result<(), TmuxError> {
        for (signal, within) in
            [(None, BY_ITSELF), (Some(Signal::TERM), ASKED), (Some(Signal::KILL), KILLED)]
        {
            if let Some(signal) = signal {
                tracing::info!(session, ?signal, "the agent outlives its terminal");
                self.signal(signal);
            }
            if self.is_empty_within(within).await {
                return Ok(());
            }
        }
        Err(TmuxError::Survives { pid: self.leader })
    }
}

/// The processes of a pane: those of the session that its program leads.
#[derive(Debug, Clone, Copy)]
struct Terminal {
    /// The number of the program, of its group and of its session.
    leader: i32,
    /// When the program was started, in the kernel's ticks; nothing when it has ended
    /// already, or where that cannot be learnt.
    start: Option<u64>,
}

impl Terminal {
    /// The pane's, when that is certain: its program is a child of the tmux server,
    /// or it has ended and what it left was told this work item.
    fn of(pid: u32, pane: &Pane) -> Option<Self> {
        let leader = i32::try_from(pid).ok()?;
        let is_live = !matches!(pane.state, PaneState::Dead(_));
        let Some(all) = running() else {
            // Nothing tells when a process was started: a pane that lives says enough.
            return is_live.then_some(Self { leader, start: None });
        };
        if let Some(process) = all.iter().find(|process| process.pid == leader) {
            let is_its = pane.server.parse() == Ok(process.parent) && process.session == leader;
            return is_its.then_some(Self { leader, start: Some(process.start) });
        }
        let item = pane.item.as_deref()?;
        let mut left = all.iter().filter(|process| process.session == leader);
        left.any(|process| process.was_given(ITEM_VAR, item.as_bytes()))
            .then_some(Self { leader, start: None })
    }

    /// What of it runs; nothing where that cannot be learnt.
    fn members(&self) -> Option<Vec<Process>> {
        let all = running()?;
        // While one of them lives the number is not given away; with a leader of its
        // own the session is another one.
        let is_other = |process: &Process| {
            process.pid == self.leader && self.start.is_none_or(|start| start != process.start)
        };
        if all.iter().any(is_other) {
            return Some(Vec::new());
        }
        Some(all.into_iter().filter(|process| process.session == self.leader).collect())
    }

    fn signal(&self, signal: Signal) {
        let Some(members) = self.members() else {
            if let Some(group) = Pid::from_raw(self.leader) {
                let _ = kill_process_group(group, signal);
            }
            return;
        };
        for process in members {
            // Its parent may have ended meanwhile.
            let is_same = Process::read(process.pid).is_some_and(|now| now.start == process.start);
            if let Some(pid) = Pid::from_raw(process.pid).filter(|_| is_same) {
                // One that has ended meanwhile needs none.
                let _ = kill_process(pid, signal);
            }
        }
    }

    async fn is_empty_within(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            let is_empty = match self.members() {
                Some(members) => members.is_empty(),
                None => Pid::from_raw(self.leader)
                    .is_none_or(|group| test_kill_process_group(group).is_err()),
            };
            if is_empty {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Every process that has not ended; nothing where none can be seen.
fn running() -> Option<Vec<Process>> {
    let mut all = Process::all()?;
    all.retain(|process| !process.has_ended);
    Some(all)
}
