//! The server as a process: what it can only be told by a signal.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{Pane, PaneState, Tmux, UNKNOWN_STATUS};
use crate::base::process::Process;

/// How often a server that was asked for its socket is tried, and how far apart.
const CALLS: u32 = 20;
const CALL_PAUSE: Duration = Duration::from_millis(25);
/// How long a server that was reminded of its children takes to look after them.
const LOOKS_WITHIN: Duration = Duration::from_millis(10);

impl Tmux {
    /// Has the server of a pane make its socket again, where it lives on without
    /// one; `true` when it can be reached afterwards.
    pub async fn call_back(&self, pane: &Pane) -> bool {
        // The signal would end any other program that has this id by now.
        if !signal(&pane.server, Signal::USR1) {
            return false;
        }
        for _ in 0..CALLS {
            if self.panes().await.is_ok_and(|panes| panes.iter().any(|p| p.server == pane.server)) {
                return true;
            }
            tokio::time::sleep(CALL_PAUSE).await;
        }
        false
    }
}

/// Reminds a server of a child that has ended and that it does not know of; `true`
/// when it may know more by now.
///
/// Built with utempter, as Debian has it, tmux is deaf to the end of its children
/// while it strikes a pane off the list of logins: as soon as the pane's terminal is
/// closed. The end of its program falls into just that moment now and then, and its
/// status stays unknown until another child ends.
pub(super) async fn remind(server: &str) -> bool {
    let Ok(pid) = server.parse::<i32>() else { return false };
    let is_forgotten = |process: &Process| process.parent == pid && process.has_ended;
    let forgets = Process::all().is_some_and(|all| all.iter().any(is_forgotten));
    if !forgets || !signal(server, Signal::CHILD) {
        return false;
    }
    tokio::time::sleep(LOOKS_WITHIN).await;
    true
}

/// Whether a pane's program has ended, and tmux does not know how.
pub(super) fn is_vague(state: &PaneState) -> bool {
    matches!(state, PaneState::Dead(how) if how == UNKNOWN_STATUS)
}

/// Sends a signal to a server; `false` when that is none any more.
fn signal(server: &str, signal: Signal) -> bool {
    let is_tmux = fs_err::read_to_string(format!("/proc/{server}/comm"))
        .is_ok_and(|name| name.starts_with("tmux"));
    let pid = server.parse().ok().and_then(Pid::from_raw);
    is_tmux && pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
}
