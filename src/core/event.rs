//! A delivery, parsed: what happened, where, by whom. Routing decides from
//! this alone; nothing here knows who may act or which sessions exist.
//!
//! Every text in it is hostile and whole: routing chooses what may be shown,
//! the prompt cleans and caps it.

mod parse;
mod payload;
mod surrogates;

pub(crate) use parse::repo_of;
pub use parse::{ParseError, parse};

use jiff::Timestamp;

use crate::base::ids::{Repo, WorkItem};

/// A parsed delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// GitHub's name of the event.
    pub name: String,
    /// GitHub's name of the action; empty when the event has none.
    pub action: String,
    /// The repository, with its host. `None` only for [`What::Ping`] and
    /// [`What::Other`], which may come from an organization.
    pub repo: Option<Repo>,
    /// Who caused the event.
    pub sender: Actor,
    /// What happened.
    pub what: What,
}

/// Somebody on GitHub. An account that is gone has the empty login, which no
/// list can hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Actor {
    /// The login.
    pub login: String,
    /// What kind of account it is.
    pub kind: ActorKind,
}

/// A kind of account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ActorKind {
    /// A person, or an organization.
    #[default]
    User,
    /// An app.
    Bot,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// GitHub greets a new webhook.
    Ping,
    /// Something happened to an issue itself.
    Issue {
        /// What happened to it.
        change: Change,
        /// The issue as it is now.
        issue: Thread,
    },
    /// Something happened to a pull request itself.
    Pull {
        /// What happened to it.
        change: Change,
        /// The pull request as it is now.
        pull: Pull,
    },
    /// A comment below an issue or a pull request.
    Comment {
        /// What happened to the comment.
        change: PostChange,
        /// What it stands below.
        thread: Thread,
        /// Whether that is a pull request.
        on_pull: bool,
        /// The comment.
        post: Post,
    },
    /// A review of a pull request.
    Review {
        /// What happened to the review.
        change: PostChange,
        /// The pull request.
        pull: Pull,
        /// The review's own text.
        post: Post,
        /// `approved`, `changes_requested`, `commented`, …
        state: ReviewState,
        /// GitHub's id of the review.
        review: Option<u64>,
    },
    /// A comment on lines of a pull request.
    ReviewComment {
        /// What happened to the comment.
        change: PostChange,
        /// The pull request.
        pull: Pull,
        /// The comment.
        post: Post,
        /// The lines.
        place: DiffPlace,
        /// GitHub's id of the review that it belongs to.
        review: Option<u64>,
    },
    /// A check, a workflow run or a commit status.
    Check(Check),
    /// Any other event: recorded only.
    Other,
}

/// What happened to an issue or a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It was opened, perhaps with labels on it.
    Opened,
    /// Its title or its body was changed; nothing where it does not say which.
    Edited(Option<Edited>),
    /// This label was put on it.
    Labeled(String),
    /// It was closed.
    Closed,
    /// It was opened again.
    Reopened,
    /// Anything else.
    Other,
}

/// What an edit changed of an issue or a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edited {
    /// Whether its title.
    pub title: bool,
    /// Whether its body.
    pub body: bool,
}

/// What happened to a comment or a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostChange {
    /// It was written (a review: submitted).
    Created,
    /// Its text was changed.
    Edited,
    /// Anything else, as its removal.
    Other,
}

/// An issue, or a pull request seen as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Which.
    pub item: WorkItem,
    /// Its title.
    pub title: String,
    /// Its first text.
    pub body: String,
    /// Who opened it.
    pub author: Actor,
    /// The labels on it.
    pub labels: Vec<String>,
    /// Whether it is closed.
    pub closed: bool,
    /// Its page.
    pub url: Option<String>,
    /// When anything of it last changed, as the delivery tells.
    pub updated: Option<Timestamp>,
}

/// A pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pull {
    /// What it shares with an issue.
    pub thread: Thread,
    /// The name of its head branch.
    pub branch: String,
    /// The commit at its head: hexadecimal digits, or nothing.
    pub sha: String,
    /// Whether its head is in the repository of the pull request.
    pub own_head: bool,
    /// Whether it was merged.
    pub merged: bool,
}

/// A comment or a review's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Post {
    /// GitHub's number of it.
    pub id: Option<u64>,
    /// The text.
    pub body: String,
    /// Who wrote it.
    pub author: Actor,
    /// Its page.
    pub url: Option<String>,
}

/// What a review says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewState {
    /// It approves.
    Approved,
    /// It asks for changes.
    ChangesRequested,
    /// It only comments.
    Commented,
    /// A state that this program does not know.
    Other,
}

/// The lines that a review comment is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffPlace {
    /// The file.
    pub path: String,
    /// The first line, when there is more than one.
    pub start_line: Option<u64>,
    /// The last or only line.
    pub line: Option<u64>,
    /// Which side of the diff.
    pub side: Option<DiffSide>,
    /// The part of the diff.
    pub hunk: String,
}

/// A side of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffSide {
    /// Before the change.
    Left,
    /// After the change.
    Right,
}

/// A result of continuous integration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Its name: written by whoever wrote the workflow.
    pub name: String,
    /// The app that ran it, when it says so.
    pub app: Option<String>,
    /// How it ended; `None` while it runs.
    pub conclusion: Option<Conclusion>,
    /// The commit: hexadecimal digits.
    pub sha: String,
    /// Its page.
    pub url: Option<String>,
    /// Whether its head is known to be in another repository.
    pub foreign_head: bool,
    /// Whether the branches are known to be branches of this repository.
    pub own_branches: bool,
    /// The pull requests of this repository that it ran for.
    pub pulls: Vec<CheckPull>,
    /// The branches that its commit is the head of.
    pub branches: Vec<String>,
}

/// A pull request that a check ran for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckPull {
    /// Which.
    pub item: WorkItem,
    /// The name of its head branch.
    pub branch: String,
    /// Whether its head is in the repository of the pull request.
    pub own_head: bool,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    /// It failed.
    Failure,
    /// It took too long.
    TimedOut,
    /// It could not be started.
    StartupFailure,
    /// A commit status says that it could not be run.
    Error,
    /// It passed, was skipped, was cancelled: nothing to be mended.
    NotFailed,
}

impl Conclusion {
    /// GitHub's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failure => "failure",
            Self::TimedOut => "timed_out",
            Self::StartupFailure => "startup_failure",
            Self::Error => "error",
            Self::NotFailed => "not failed",
        }
    }
}

impl Event {
    /// Who wrote the text that the event is about, where that is a person's.
    pub fn author(&self) -> Option<&Actor> {
        match &self.what {
            What::Comment { post, .. }
            | What::Review { post, .. }
            | What::ReviewComment { post, .. } => Some(&post.author),
            What::Issue { issue, .. } => Some(&issue.author),
            What::Pull { pull, .. } => Some(&pull.thread.author),
            What::Ping | What::Check(_) | What::Other => None,
        }
    }

    /// The text of a comment or a review that was written just now.
    pub fn spoken(&self) -> Option<&str> {
        match &self.what {
            What::Comment { change: PostChange::Created, post, .. }
            | What::Review { change: PostChange::Created, post, .. }
            | What::ReviewComment { change: PostChange::Created, post, .. } => {
                Some(post.body.as_str()).filter(|text| !text.trim().is_empty())
            }
            _ => None,
        }
    }

    /// The pull request whose head it tells, with the commit there.
    pub fn head(&self) -> Option<(&str, CheckPull)> {
        match &self.what {
            What::Pull { pull, .. }
            | What::Review { pull, .. }
            | What::ReviewComment { pull, .. }
                if !pull.sha.is_empty() =>
            {
                let item = pull.thread.item.clone();
                let (branch, own_head) = (pull.branch.clone(), pull.own_head);
                Some((pull.sha.as_str(), CheckPull { item, branch, own_head }))
            }
            _ => None,
        }
    }

    /// What the event tells of the issue or pull request that it happened on.
    pub fn thread(&self) -> Option<&Thread> {
        match &self.what {
            What::Issue { issue, .. } => Some(issue),
            What::Comment { thread, .. } => Some(thread),
            What::Pull { pull, .. }
            | What::Review { pull, .. }
            | What::ReviewComment { pull, .. } => Some(&pull.thread),
            What::Ping | What::Check(_) | What::Other => None,
        }
    }

    /// What the event tells of this issue or pull request, where it happened there.
    pub fn thread_of(&self, item: &WorkItem) -> Option<&Thread> {
        self.thread().filter(|thread| thread.item == *item)
    }

    /// The page of what happened, or of what it happened to.
    pub fn url(&self) -> Option<&String> {
        match &self.what {
            What::Ping | What::Other => None,
            What::Issue { issue, .. } => issue.url.as_ref(),
            What::Pull { pull, .. } => pull.thread.url.as_ref(),
            What::Comment { thread, post, .. } => post.url.as_ref().or(thread.url.as_ref()),
            What::Review { pull, post, .. } | What::ReviewComment { pull, post, .. } => {
                post.url.as_ref().or(pull.thread.url.as_ref())
            }
            What::Check(check) => check.url.as_ref(),
        }
    }
}
