//! What is said of a session everywhere: its status. The registry writes it,
//! routing and the dispatcher read it.

use serde::{Deserialize, Serialize};

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SessionStatus {
    /// Its agent is being started.
    Starting,
    /// Its agent runs, or can be resumed at its next event.
    Active,
    /// Its events are held until a person resumes it.
    Paused,
    /// Its agent could not be started or ended unexpectedly.
    Failed,
    /// It was closed; a later authorised event resumes its conversation.
    Closed,
}

impl SessionStatus {
    /// Every status.
    pub const ALL: &[Self] =
        &[Self::Starting, Self::Active, Self::Paused, Self::Failed, Self::Closed];

    /// The word as it is stored and printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Failed => "failed",
            Self::Closed => "closed",
        }
    }

    /// Whether its agent runs, is about to, or is held by a person.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Starting | Self::Active | Self::Paused)
    }
}

impl std::fmt::Display for SessionStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_stored_as_it_is_printed() {
        for status in SessionStatus::ALL {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
    }
}
