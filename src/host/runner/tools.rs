//! Holds the agent's tools back while keys of ours are under way.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use crate::core::inject::Action;
use crate::state::spool;

/// How long tools are held back at once, and how often that is tried.
const TOOLS_HELD: Duration = Duration::from_secs(1);
const TOOLS_TRIES: u32 = 10;
/// How long a tool that came before the lock may take to open its dialog.
const TOOLS_SETTLE: Duration = Duration::from_millis(150);
/// How long after a lock that somebody else held it is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(15);

/// The lock that holds the agent's tools back, so that no dialog of theirs opens
/// between our look and our key.
pub(super) struct Tools {
    spool: PathBuf,
    held: Option<(std::fs::File, Instant)>,
    tries: u32,
}

impl Tools {
    pub(super) fn free(spool: &Path) -> Self {
        Self { spool: spool.to_owned(), held: None, tries: 0 }
    }

    /// Lets the tools go, unless the lock is needed and young.
    pub(super) fn let_go(&mut self, is_needed: bool) {
        self.held.take_if(|(_, since)| !is_needed || since.elapsed() > TOOLS_HELD);
    }

    /// Takes the lock, where it is not held. `false`: it is held since long before
    /// the last look, or cannot be had, and that must not keep a delivery.
    pub(super) async fn must_be_held(&mut self, action: &Action) -> bool {
        // The submit key comes a good while after the paste anyway.
        let is_hasty = matches!(action, Action::Stash | Action::Unstash | Action::Remove);
        match self.held {
            Some((_, since)) if is_hasty && since.elapsed() < TOOLS_SETTLE => {
                tokio::time::sleep(TOOLS_SETTLE.saturating_sub(since.elapsed())).await;
                return true;
            }
            Some(_) => return false,
            None if self.tries > TOOLS_TRIES => {
                self.tries = 0;
                return false;
            }
            None => {}
        }
        match spool::hold_tools(&self.spool) {
            Ok(lock) => {
                self.held = Some((lock, Instant::now()));
                self.tries = 0;
            }
            Err(error) => {
                tracing::debug!(%error, "tools are not held back");
                self.tries += 1;
                tokio::time::sleep(TRY_AGAIN).await;
            }
        }
        true
    }
}
