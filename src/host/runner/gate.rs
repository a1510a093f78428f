//! Keeps starts back while as many sessions are open as may be, or memory is
//! short. `core::admission` decides.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::base::ids::Slug;
use crate::base::text::count;
use crate::core::admission::{Admission, Load};
use crate::core::config::LiveConfig;
use crate::core::outcome::Reason;
use crate::core::session::SessionStatus;
use crate::state::registry::Registry;

/// How often it is looked whether there is room: nobody tells when memory is
/// given back, or when another process closed a session.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

/// A limit that holds starts back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldStarts {
    /// What their events wait for.
    pub reason: Reason,
    /// How many sessions wait.
    pub sessions: usize,
    /// The setting with its value, for people.
    pub limit: String,
}

impl fmt::Display for HeldStarts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = count(self.sessions, "session");
        write!(f, "{} holds back the start of {held}", self.limit)
    }
}

/// Lets sessions start their agents.
#[derive(Debug)]
pub struct Gate {
    admission: Mutex<Admission>,
    registry: Registry,
    config: LiveConfig,
    /// Told when a place may be free.
    changed: Notify,
}

impl Gate {
    /// A gate for the sessions of a registry.
    pub fn new(registry: Registry, config: LiveConfig) -> Self {
        Self { admission: Mutex::default(), registry, config, changed: Notify::new() }
    }

    /// Lets a session start its agent, or says why it has to wait.
    pub(super) fn admit(&self, slug: &Slug) -> Option<Reason> {
        let refused = self.ask(|admission, routing, load| admission.admit(slug, routing, load));
        if let Some(reason) = refused {
            tracing::warn!(%slug, %reason, "the start waits");
        }
        refused
    }

    /// What holds starts back now.
    pub fn held(&self) -> Vec<HeldStarts> {
        let held = self.ask(|admission, routing, load| admission.held(routing, load));
        let routing = self.config.routing();
        let limit = |reason| match reason {
            Reason::SessionsFull => format!("`routing.maxSessions` ({})", routing.max_sessions),
            _ => format!("`routing.memoryFloor` ({})", routing.memory_floor),
        };
        let of = |(reason, sessions)| HeldStarts { reason, sessions, limit: limit(reason) };
        held.into_iter().map(of).collect()
    }

    /// The session's start is over, however it ended.
    pub(super) fn entered(&self, slug: &Slug) {
        self.lock().entered(slug);
        self.changed.notify_waiters();
    }

    /// The session is closed.
    pub(super) fn left(&self, slug: &Slug) {
        self.lock().left(slug);
        self.changed.notify_waiters();
    }

    /// Waits until a session that was refused would be let in, or would be told
    /// something else.
    pub(super) async fn room(&self, slug: &Slug) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.ask(|admission, routing, load| admission.has_news(slug, routing, load)) {
                return;
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }

    fn ask<T>(
        &self,
        question: impl FnOnce(&mut Admission, &crate::core::config::Routing, &Load<'_>) -> T,
    ) -> T {
        let routing = self.config.routing();
        // Both cost reads of files, which nobody needs who set no limit.
        let open = if routing.max_sessions > 0 { self.open() } else { BTreeSet::new() };
        let free_memory = if routing.memory_floor.bytes() > 0 { free_memory() } else { None };
        question(&mut self.lock(), &routing, &Load { open: &open, free_memory })
    }

    fn open(&self) -> BTreeSet<Slug> {
        let records = self.registry.load_all().records.into_iter();
        let is_open = |status| matches!(status, SessionStatus::Active | SessionStatus::Paused);
        records.filter(|(_, record)| is_open(record.status)).map(|(slug, _)| slug).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Admission> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that a new process can have without swapping, as Linux tells; `None`
/// elsewhere.
fn free_memory() -> Option<u64> {
    parse_meminfo(&fs_err::read_to_string("/proc/meminfo").ok()?)
}

fn parse_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_as_linux_tells_it() {
        let told = "MemTotal:       24000000 kB\nMemAvailable:   12345 kB\n";
        assert_eq!(parse_meminfo(told), Some(12_345 * 1024));
        assert_eq!(parse_meminfo("MemTotal: 1 kB\n"), None);
        assert_eq!(parse_meminfo("MemAvailable: much\n"), None);
    }
}
