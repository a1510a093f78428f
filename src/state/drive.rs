//! Who drives a headless conversation: two drivers at once destroy its history,
//! so there are two kernel locks for each session. A person who attaches holds
//! the first from then on, and takes the second when no turn runs; a turn holds
//! the second, and is not begun while the first is held.
//!
//! A killed holder holds nothing. The agent that a killed `attach` left behind
//! still counts: its number and its start are written down.

use std::path::PathBuf;

use crate::base::files::lock::{LockError, LockFile};
use crate::base::ids::Slug;

use super::paths::StatePaths;
use super::turns::Mark;

/// The locks of one session.
#[derive(Debug, Clone)]
pub struct Drive {
    attach: PathBuf,
    turn: PathBuf,
    agent: PathBuf,
}

impl Drive {
    /// The locks of a session.
    pub fn of(paths: &StatePaths, slug: &Slug) -> Self {
        let file = |kind: &str| paths.drive().join(format!("{slug}.{kind}"));
        Self { attach: file("attach"), turn: file("turn"), agent: file("agent.json") }
    }

    /// The lock of a person who attaches.
    pub fn try_attach(&self) -> Result<LockFile, LockError> {
        LockFile::try_acquire(&self.attach)
    }

    /// The lock of a turn, or of the attached agent while it lives.
    pub fn try_turn(&self) -> Result<LockFile, LockError> {
        LockFile::try_acquire(&self.turn)
    }

    /// The file that names the process of the attached agent.
    pub fn agent(&self) -> &PathBuf {
        &self.agent
    }

    /// Whether a person is attached, or the agent of one still lives.
    pub fn is_attached(&self) -> bool {
        // Whoever can take the lock is the only one: nobody is attached.
        let is_held =
            self.attach.exists() && matches!(self.try_attach(), Err(LockError::Held { .. }));
        is_held || self.left_behind().is_some()
    }

    /// Whether a turn runs that holds its lock.
    pub fn is_in_turn(&self) -> bool {
        self.turn.exists() && matches!(self.try_turn(), Err(LockError::Held { .. }))
    }

    /// The agent of a person who attached, while it lives: also when whoever
    /// attached was killed.
    pub fn left_behind(&self) -> Option<Mark> {
        fs_err::read(&self.agent)
            .ok()
            .and_then(|bytes| serde_json::from_slice::<Mark>(&bytes).ok())
            .filter(Mark::is_alive)
    }
}
