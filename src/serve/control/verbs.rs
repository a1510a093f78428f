//! What a person does to a session's entry: pause, resume, register, link. The
//! receiver applies it when one runs, else the command does: the same function,
//! the same lock.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::base::failure::chain;
use crate::base::ids::{HarnessSessionId, Slug, WorkItem};
use crate::core::session::{SessionRecord, SessionStatus};
use crate::state::registry::{Registry, RegistryError};

/// One change of a session's entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "verb")]
pub enum SessionVerb {
    /// Keep its events back.
    Pause {
        /// The session.
        item: WorkItem,
    },
    /// Let its events go on.
    Resume {
        /// The session.
        item: WorkItem,
    },
    /// Make a session by hand.
    Register {
        /// Its entry.
        record: Box<SessionRecord>,
    },
    /// Let a pull request's events go to it.
    LinkPr {
        /// The session.
        item: WorkItem,
        /// The pull request.
        pull_request: WorkItem,
    },
}

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum VerbError {
    /// The session is over.
    #[error("the session of {} is closed", item.short())]
    Closed {
        /// The session.
        item: WorkItem,
    },
    /// It has nothing to resume.
    #[error("the session of {} is not paused but {status}", item.short())]
    NotPaused {
        /// The session.
        item: WorkItem,
        /// Where it stands.
        status: SessionStatus,
    },
    /// There is one already.
    #[error("{} has a session already", item.short())]
    Exists {
        /// The work item.
        item: WorkItem,
    },
    /// The directory is the work tree of another item.
    #[error("`{}` is the work tree of {}, or overlaps it", cwd.display(), owner.short())]
    InAnothersTree {
        /// The directory.
        cwd: PathBuf,
        /// Whose it is.
        owner: WorkItem,
    },
    /// Another session has the conversation.
    #[error("the session of {} has the conversation `{conversation}`", owner.short())]
    Driven {
        /// The conversation.
        conversation: HarnessSessionId,
        /// Whose it is.
        owner: WorkItem,
    },
    /// The pull request's events go elsewhere.
    #[error("{} belongs to the session `{owner}`", pull_request.short())]
    LinkedElsewhere {
        /// The pull request.
        pull_request: WorkItem,
        /// Whose it is.
        owner: Slug,
    },
    /// The pull request has a session, which its events go to.
    #[error("{} has a session of its own, which its events go to", pull_request.short())]
    OwnSession {
        /// The pull request.
        pull_request: WorkItem,
    },
    /// The registry failed.
    #[error("the session's entry could not be changed")]
    Registry {
        /// Why.
        source: RegistryError,
    },
}

impl VerbError {
    /// What to do next.
    fn hint(&self) -> Option<String> {
        let show = |item: &dyn fmt::Display| format!("`the-loop sessions show '{item}'` shows it");
        Some(match self {
            Self::Closed { item } | Self::NotPaused { item, status: SessionStatus::Closed } => {
                format!(
                    "its next event goes on with it, as `the-loop sessions send '{}' TEXT` does",
                    item.short()
                )
            }
            Self::NotPaused { item, .. } => show(&item.short()),
            Self::Exists { item } => {
                format!("{}; `sessions send` talks to it", show(&item.short()))
            }
            Self::InAnothersTree { .. } => {
                "give a directory of its own with `--cwd DIR`".to_owned()
            }
            Self::Driven { owner, .. } => format!(
                "without `--session-id` a conversation of its own begins; {}",
                show(&owner.short())
            ),
            Self::LinkedElsewhere { owner, .. } => show(owner),
            Self::OwnSession { pull_request } => show(&pull_request.short()),
            Self::Registry { .. } => return None,
        })
    }
}

/// Why a change was not made, as the command that wanted it tells a person: the same
/// whoever tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum NotDone {
    /// It is against the rules.
    Refused {
        /// Which.
        why: String,
        /// What to do next, where the receiver is of a version that says it.
        #[serde(default)]
        hint: Option<String>,
    },
    /// The session's entry cannot be read, and was left as it is.
    Unreadable {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The registry failed.
    Failed {
        /// How.
        why: String,
    },
}

impl From<VerbError> for NotDone {
    fn from(error: VerbError) -> Self {
        match error {
            VerbError::Registry { source: RegistryError::Unreadable { path, why } } => {
                Self::Unreadable { path, why }
            }
            VerbError::Registry { source } => Self::Failed { why: chain(&source) },
            error => Self::Refused { why: error.to_string(), hint: error.hint() },
        }
    }
}

/// Makes the change.
pub fn apply(registry: &Registry, verb: &SessionVerb) -> Result<(), VerbError> {
    let failed = |source| VerbError::Registry { source };
    match verb {
        SessionVerb::Pause { item } => {
            let mut was = SessionStatus::Active;
            let change = |record: &mut SessionRecord| {
                was = record.status;
                if !matches!(was, SessionStatus::Closed | SessionStatus::Paused) {
                    record.pause(None);
                }
            };
            registry.update(&item.slug(), change).map_err(failed)?;
            if was == SessionStatus::Closed {
                return Err(VerbError::Closed { item: item.clone() });
            }
            Ok(())
        }
        SessionVerb::Resume { item } => {
            let mut was = SessionStatus::Paused;
            let change = |record: &mut SessionRecord| {
                was = record.status;
                record.resume();
            };
            registry.update(&item.slug(), change).map_err(failed)?;
            if was.is_live() {
                return Ok(());
            }
            Err(VerbError::NotPaused { item: item.clone(), status: was })
        }
        SessionVerb::Register { record } => {
            if registry.load(&record.slug()).map_err(failed)?.is_some() {
                let item = record.work_item.reference.clone();
                return Err(VerbError::Exists { item });
            }
            let others = registry.load_all().records;
            let drives = |other: &&SessionRecord| {
                let (ours, its) = (&record.harness_session_id, &other.harness_session_id);
                other.harness == record.harness && its.as_str().eq_ignore_ascii_case(ours.as_str())
            };
            // Also one that is closed: its next event revives it.
            if let Some(other) = others.values().find(drives) {
                let owner = other.work_item.reference.clone();
                return Err(VerbError::Driven {
                    conversation: record.harness_session_id.clone(),
                    owner,
                });
            }
            let mut others = others.into_values();
            let in_its_tree = |other: &SessionRecord| {
                other.work_tree.as_ref().is_some_and(|tree| tree.made)
                    && (record.cwd.starts_with(&other.cwd) || other.cwd.starts_with(&record.cwd))
            };
            if let Some(other) = others.find(in_its_tree) {
                let owner = other.work_item.reference;
                return Err(VerbError::InAnothersTree { cwd: record.cwd.clone(), owner });
            }
            registry.save(record).map_err(failed)
        }
        SessionVerb::LinkPr { item, pull_request } => {
            let slug = item.slug();
            if registry.path(&pull_request.slug()).exists() {
                let pull_request = pull_request.clone();
                return Err(VerbError::OwnSession { pull_request });
            }
            let mut records = registry.load_all().records.into_iter();
            let owner = records.find(|(other, record)| {
                *other != slug && record.pull_requests.contains(pull_request)
            });
            if let Some((owner, _)) = owner {
                let pull_request = pull_request.clone();
                return Err(VerbError::LinkedElsewhere { pull_request, owner });
            }
            let link = |record: &mut SessionRecord| {
                if !record.pull_requests.contains(pull_request) {
                    record.pull_requests.push(pull_request.clone());
                }
            };
            registry.update(&slug, link).map(drop).map_err(failed)
        }
    }
}
