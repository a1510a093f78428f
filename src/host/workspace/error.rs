//! What can go wrong with a tree, said to the person who reads it.

use std::io;
use std::path::PathBuf;

use crate::base::process::{ExecError, ending};
use crate::base::text::{cap, visible};
use crate::core::workspace::NoHead;

/// What git says behind a cause, whatever that is.
const ADVICE: [&str; 2] =
    ["Please make sure you have the correct access rights", "and the repository exists."];
/// How many lines and characters of git's are told.
const LINES: usize = 3;
const SAID: usize = 400;

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
    /// Another session's tree is being made from the same clone.
    #[error("its clone is in use")]
    Busy,
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
        ExecError::Failed { output, .. } => {
            let complaint = || Some(output.complaint()).filter(|said| !said.is_empty());
            words(&String::from_utf8_lossy(&output.stderr)).or_else(complaint).unwrap_or_else(
                || format!("git ended with {} and said nothing", ending(output.status)),
            )
        }
        other => other.to_string(),
    }
}

/// The lines of git that tell a cause, the last of them; nothing where there is none.
fn words(said: &str) -> Option<String> {
    let tells = |line: &&str| !line.is_empty() && !ADVICE.contains(line);
    let lines: Vec<_> = said.lines().map(str::trim).filter(tells).collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    let last: Vec<_> = last.iter().map(|line| visible(line)).collect();
    (!last.is_empty()).then(|| cap(&last.join(" / "), SAID))
}

impl WorkspaceError {
    /// Whether the same may go well a moment later: the origin was out of reach.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Git { .. } | Self::Io { .. } | Self::Busy => true,
            Self::NoHead(why) => why.may_pass(),
            Self::Gone { .. } | Self::NotOurs { .. } | Self::Taken { .. } => false,
        }
    }
}

/// git failed at this.
pub(super) fn failed(what: impl Into<String>, source: ExecError) -> WorkspaceError {
    WorkspaceError::Git { what: what.into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_with_the_cause_is_told() {
        let said = "git@github.com: Permission denied (publickey).\r\n\
                    fatal: Could not read from remote repository.\n\n\
                    Please make sure you have the correct access rights\n\
                    and the repository exists.\n";
        assert_eq!(
            words(said).unwrap(),
            "git@github.com: Permission denied (publickey). / \
             fatal: Could not read from remote repository."
        );
        assert_eq!(words("\n"), None);
    }
}
