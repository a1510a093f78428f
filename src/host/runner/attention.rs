//! What agents tell while nothing is being typed into them: that they wait for a
//! person, that a turn failed. One task for each session, asleep until its spool
//! has something new.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

use crate::base::failure::chain;
use crate::base::ids::Slug;
use crate::core::harness::{Harness, Signal};
use crate::core::session::{SessionRecord, SessionStatus};
use crate::host::tmux::pane_of;
use crate::state::spool;

use super::tmux::TmuxRunner;

/// An agent tells of one question in more than one way, seconds apart.
const SAME_QUESTION: SignedDuration = SignedDuration::from_secs(10);

impl TmuxRunner {
    /// Attends to every session that has an agent, or may have one.
    pub fn attend_all(self: &Arc<Self>) {
        for (slug, record) in self.parts().registry.load_all().records {
            if !record.is_headless() && record.status != SessionStatus::Closed {
                self.attend(&slug, &record);
            }
        }
    }

    /// Attends to a session, once.
    pub(super) fn attend(self: &Arc<Self>, slug: &Slug, record: &SessionRecord) {
        // Of one that is no longer declared nothing can be understood.
        let Ok(harness) = self.parts().agents.of(record) else { return };
        if !self.begin_to_attend(slug) {
            return;
        }
        let told = match self.parts().watcher.subscribe(slug) {
            Ok(told) => told,
            Err(error) => {
                tracing::warn!(%slug, %error, "could not watch the spool");
                self.end_to_attend(slug);
                return;
            }
        };
        let (runner, slug) = (Arc::clone(self), slug.clone());
        self.parts().tasks.spawn(async move {
            let stop = runner.parts().stop.clone();
            tokio::select! {
                () = stop.cancelled() => {}
                () = runner.listen(&slug, harness, told) => {}
            }
            runner.end_to_attend(&slug);
        });
    }

    /// Ends when nobody watches the session any more.
    async fn listen(&self, slug: &Slug, harness: Harness, mut told: watch::Receiver<u64>) {
        let dir = self.parts().watcher.dir(slug);
        let mut last = spool::newest(&dir).unwrap_or_default();
        let mut asked_at: Option<Timestamp> = None;
        while told.changed().await.is_ok() {
            let entries = match spool::read_after(&dir, last.as_deref()) {
                Ok(entries) => entries,
                Err(error) => {
                    tracing::warn!(%slug, %error, "could not read the spool");
                    continue;
                }
            };
            for entry in entries {
                match harness.signal_of(&entry.raw) {
                    Some(Signal::Waiting { what }) => {
                        let is_new =
                            asked_at.is_none_or(|at| entry.at.duration_since(at) > SAME_QUESTION);
                        asked_at = Some(entry.at);
                        if is_new {
                            self.tell(slug, &what);
                        }
                    }
                    Some(Signal::TurnFailed { why }) => {
                        asked_at = None;
                        let why = format!("the turn failed: {why}");
                        self.note(slug, |record| record.last_turn = Some(why));
                    }
                    Some(_) => asked_at = None,
                    None => {}
                }
                last = Some(entry.name);
            }
        }
    }

    /// Shows those who look at these sessions how many events wait for each.
    pub(super) async fn show_waiting(&self, numbers: &BTreeMap<Slug, usize>) {
        let tmux = &self.parts().tmux;
        let panes = match tmux.panes().await {
            Ok(panes) => panes,
            Err(error) => {
                tracing::debug!(error = %chain(&error), "could not show how many wait");
                return;
            }
        };
        for (slug, number) in numbers {
            // Without a pane nobody can look at it.
            let Some(pane) = pane_of(&panes, slug).filter(|pane| pane.is_of(slug)) else {
                continue;
            };
            if let Err(error) = tmux.show_waiting(pane, *number).await {
                tracing::debug!(%slug, error = %chain(&error), "could not show how many wait");
            }
        }
    }

    pub(super) async fn hide_all_waiting(&self) {
        if let Err(error) = self.parts().tmux.hide_all_waiting().await {
            tracing::debug!(error = %chain(&error), "could not hide how many waited");
        }
    }

    /// Tells somebody that a session's agent waits for a person.
    pub(super) fn tell(&self, slug: &Slug, asks: &str) {
        match self.parts().registry.load(slug) {
            Ok(Some(record)) => self.parts().notifier.blocked(&record, asks),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%slug, error = %chain(&error), "could not read the session");
            }
        }
    }
}
