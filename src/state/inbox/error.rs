//! What can go wrong with the inbox. Every variant names the file.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::ErrorCode;

use crate::base::failure::{Failure, chain};
use crate::base::ids::DeliveryId;
use crate::doctor::inbox_remedy;

/// What a file is that SQLite does not take for a database.
pub(super) const NO_DATABASE: &str = "no SQLite database";

/// Why the inbox could not be opened, read or written. It can be cloned,
/// because one failed commit is the failure of everyone who waited for it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum InboxError {
    /// There is no file yet.
    #[error("there is no inbox at `{}` yet", path.display())]
    Missing {
        /// The inbox.
        path: PathBuf,
    },
    /// The file could not be made, or not be made private.
    #[error("could not open the inbox `{}`", path.display())]
    File {
        /// The inbox.
        path: PathBuf,
        /// Why.
        source: Arc<io::Error>,
    },
    /// The file is something else. It is left as it is.
    #[error("`{}` is not an inbox: {found}; it was left as it is", path.display())]
    NotAnInbox {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        found: &'static str,
    },
    /// A newer version of this program wrote it.
    #[error(
        "the inbox `{}` was written by a newer version of the-loop \
         (its format is {found}, this one knows {known})",
        path.display()
    )]
    Newer {
        /// The inbox.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format that this program knows.
        known: i64,
    },
    /// An older version of this program wrote it, and it is only being read.
    #[error(
        "the inbox `{}` was written by an older version of the-loop \
         (its format is {found}, this one reads {known}); `the-loop gh-webhook start` converts it",
        path.display()
    )]
    Older {
        /// The inbox.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The format that this program reads.
        known: i64,
    },
    /// The file at its path is another one than was opened.
    #[error(
        "the inbox `{}` was replaced or removed while it was in use: restart the receiver",
        path.display()
    )]
    Replaced {
        /// The inbox.
        path: PathBuf,
    },
    /// Its content is damaged.
    #[error("the inbox `{}` is damaged", path.display())]
    Damaged {
        /// The inbox.
        path: PathBuf,
        /// What SQLite says.
        source: Arc<rusqlite::Error>,
    },
    /// There is no room for it to grow.
    #[error("no room for the inbox `{}` to grow", path.display())]
    Full {
        /// The inbox.
        path: PathBuf,
        /// What SQLite says.
        source: Arc<rusqlite::Error>,
    },
    /// Another process kept it locked.
    #[error("another process keeps the inbox `{}` locked", path.display())]
    Locked {
        /// The inbox.
        path: PathBuf,
        /// What SQLite says.
        source: Arc<rusqlite::Error>,
    },
    /// Anything else that SQLite may say.
    #[error("could not {doing} the inbox `{}`", path.display())]
    Database {
        /// The inbox.
        path: PathBuf,
        /// `open`, `read` or `write to`.
        doing: &'static str,
        /// What SQLite says.
        source: Arc<rusqlite::Error>,
    },
    /// A step was recorded for a delivery that is not there.
    #[error("the inbox `{}` holds no delivery `{id}`", path.display())]
    UnknownDelivery {
        /// The inbox.
        path: PathBuf,
        /// The delivery.
        id: DeliveryId,
    },
    /// The writer is gone.
    #[error("the writer of the inbox `{}` has ended", path.display())]
    Ended {
        /// The inbox.
        path: PathBuf,
    },
}

impl InboxError {
    /// The failure of what needed the inbox, with what to do about the file.
    pub fn failure(self, what: &str) -> Failure {
        let hint = match &self {
            Self::Newer { .. } | Self::NotAnInbox { .. } | Self::Damaged { .. } => {
                Some(inbox_remedy(&chain(&self)))
            }
            _ => None,
        };
        let failure = Failure::failed(what).because(self);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }

    /// Whether the same may work a moment later: the disk is full, the file is
    /// locked, or the database had another trouble of its own.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::Locked { .. } | Self::Database { .. })
    }

    pub(super) fn sqlite(
        path: &std::path::Path,
        doing: &'static str,
        source: rusqlite::Error,
    ) -> Self {
        let path = path.to_path_buf();
        let code = source.sqlite_error_code();
        let source = Arc::new(source);
        match code {
            Some(ErrorCode::NotADatabase) => Self::NotAnInbox { path, found: NO_DATABASE },
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged { path, source },
            Some(ErrorCode::DiskFull) => Self::Full { path, source },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Locked { path, source }
            }
            _ => Self::Database { path, doing, source },
        }
    }
}
