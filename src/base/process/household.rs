//! The processes that come of what we start: also those that left their process
//! group, and those whose parent has ended. On Linux a command can adopt them
//! all, and end what is left of them with itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};

use super::Process;

/// How long the end of what is left may take.
const LIMIT: Duration = Duration::from_secs(2);

/// Whoever holds this is the parent of every orphan below it, and ends with
/// what came since. Only for a command that leaves nothing running: a tmux
/// server that a session lives in is an orphan too. Elsewhere than on Linux it
/// does nothing.
#[derive(Debug)]
pub struct Household {
    /// What was there before; a shell may have become us beside its jobs.
    before: BTreeSet<i32>,
    is_head: bool,
}

impl Household {
    /// Begins.
    pub fn enter() -> Self {
        Self { before: descendants(&BTreeSet::new()), is_head: adopt(Some(getpid())) }
    }
}

#[cfg(target_os = "linux")]
fn adopt(head: Option<Pid>) -> bool {
    // The first process has every orphan of its system: they are not all ours.
    !getpid().is_init() && rustix::process::set_child_subreaper(head).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn adopt(_: Option<Pid>) -> bool {
    false
}

impl Drop for Household {
    fn drop(&mut self) {
        if !self.is_head {
            return;
        }
        let start = Instant::now();
        // Again and again: one that was just killed may have started another.
        loop {
            let left = descendants(&self.before);
            if left.is_empty() || start.elapsed() > LIMIT {
                break;
            }
            for pid in left.into_iter().filter_map(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
                let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            }
            std::thread::yield_now();
        }
        adopt(None);
    }
}

/// The processes below this one, but for some and what is below them.
fn descendants(but: &BTreeSet<i32>) -> BTreeSet<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for process in Process::all().unwrap_or_default() {
        children.entry(process.parent).or_default().push(process.pid);
    }
    let mut found = BTreeSet::new();
    let mut todo = vec![getpid().as_raw_pid()];
    while let Some(pid) = todo.pop() {
        for child in children.get(&pid).into_iter().flatten().filter(|child| !but.contains(child)) {
            if found.insert(*child) {
                todo.push(*child);
            }
        }
    }
    found
}
