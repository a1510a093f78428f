//! Holds the agent's tools back while keys of ours are under way.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use crate::state::spool;

/// How long tools are held back at once, and how often that is tried. A hook waits
/// no longer than two seconds.
const TOOLS_HELD: Duration = Duration::from_millis(1800);
const TOOLS_TRIES: u32 = 10;
/// How long a tool that was let go may take to open its dialog: on a busy machine
/// half a second was seen.
const TOOL_OPENS: Duration = Duration::from_secs(1);
/// After how long it is looked for that dialog again.
const LOOK: Duration = Duration::from_millis(50);
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

    /// Takes the lock, where it is not held, and waits for the dialog of a tool that
    /// came before it. `false`: neither is to be waited for, or the lock cannot be
    /// had, and that must not keep a delivery.
    pub(super) async fn must_be_held(&mut self) -> bool {
        match self.held {
            Some(_) if spool::last_tool(&self.spool).is_some_and(|ago| ago < TOOL_OPENS) => {
                tokio::time::sleep(LOOK).await;
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
