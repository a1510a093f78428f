//! What can go wrong with a tree, said to the person who reads it.

use std::io;
use std::path::PathBuf;

use crate::base::process::ExecError;
use crate::core::workspace::NoHead;

/// Why an item's tree could not be made or entered.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// There is nothing that it could be made from.
    #[error(transparent)]
    NoHead(#[from] NoHead),
    /// git did not do what it was asked.
    #[error("{what}: {}", said(source))]
    Git {
        /// What was tried.
        what: String,
        /// How it failed.
        #[source]
        source: ExecError,
    },
    /// The tree was made, and is not there any more.
    #[error(
        "the work tree `{}` is gone, and no other directory is put in its place; \
         `the-loop sessions close ITEM` forgets it, and the next event makes it again",
        path.display()
    )]
    Gone {
        /// The tree.
        path: PathBuf,
    },
    /// Something else stands where the tree should be.
    #[error("`{}` is not the work tree of this session: {why}; it is left alone", path.display())]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// What it is.
        why: String,
    },
    /// Another session works in the same directory.
    #[error("the session `{other}` works in `{}` already", path.display())]
    Taken {
        /// The directory.
        path: PathBuf,
        /// The other one's item.
        other: String,
    },
    /// The disk did not do what it was asked.
    #[error("{what} failed")]
    Io {
        /// What was tried.
        what: String,
        /// Why.
        source: io::Error,
    },
}

/// What git said, fit for one line.
pub(super) fn said(error: &ExecError) -> String {
    match error {
        ExecError::Failed { output, .. } => output.complaint(),
        other => other.to_string(),
    }
}

impl WorkspaceError {
    /// Whether the same may go well a moment later: the origin was out of reach.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Git { .. } | Self::Io { .. })
    }
}

/// git failed at this.
pub(super) fn failed(what: impl Into<String>, source: ExecError) -> WorkspaceError {
    WorkspaceError::Git { what: what.into(), source }
}
