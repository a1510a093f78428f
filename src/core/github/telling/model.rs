//! What can be said on GitHub, what it is said of, and how saying it ends.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::base::ids::{DeliveryId, Repo, WorkItem};
use crate::core::event::Event;
use crate::core::outcome::{Reason, State};

/// How often one thing is tried.
pub(super) const TRIES: u32 = 5;

/// What a reaction stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Target {
    /// An issue or a pull request, by its number.
    Item(u64),
    /// A comment on one.
    Comment(u64),
    /// A comment on lines of a pull request.
    ReviewComment(u64),
}

/// A reaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reaction {
    /// The event was taken: it reached its session.
    Eyes,
    /// The event failed.
    Confused,
}

impl Reaction {
    /// GitHub's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Eyes => "eyes",
            Self::Confused => "confused",
        }
    }
}

/// Something that is said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Words {
    /// A reaction.
    React {
        /// On what.
        on: Target,
        /// Which.
        with: Reaction,
    },
    /// A comment: a session was started.
    Started {
        /// Its item, which gets the comment.
        item: WorkItem,
        /// When the session was made.
        created_at: Timestamp,
        /// Whether there is nothing to type into.
        is_headless: bool,
    },
    /// A comment: an event was given up.
    GivenUp {
        /// The issue or pull request that gets the comment.
        on: WorkItem,
        /// The event's delivery.
        delivery: DeliveryId,
        /// Why.
        reason: Reason,
        /// The event's page.
        url: Option<String>,
    },
}

/// Something that is to be said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Saying {
    /// The repository.
    pub repo: Repo,
    /// What.
    pub words: Words,
    /// Since when it is to be said.
    pub at: Timestamp,
    /// When it may have been sent, and is not known to have arrived.
    #[serde(default)]
    pub tried: Option<Timestamp>,
    /// How often it was tried.
    #[serde(default)]
    pub tries: u32,
}

impl Saying {
    /// Whether saying it again would show twice.
    pub fn is_comment(&self) -> bool {
        !matches!(self.words, Words::React { .. })
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.repo == other.repo && self.words == other.words
    }
}

/// A delivery that has come to a new place.
#[derive(Debug)]
pub struct Moved<'a> {
    /// Its place in the order of arrival.
    pub place: i64,
    /// Its id.
    pub delivery: &'a DeliveryId,
    /// Where it stands.
    pub state: State,
    /// Why.
    pub reason: Reason,
    /// What happened.
    pub event: &'a Event,
    /// The session that it was told to.
    pub session: Option<TheSession>,
}

/// A session that something was told to.
#[derive(Debug, Clone)]
pub struct TheSession {
    /// Its item.
    pub item: WorkItem,
    /// When it was made.
    pub created_at: Timestamp,
    /// Whether there is nothing to type into.
    pub is_headless: bool,
}

/// How long things take.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The least time between two requests.
    pub apart: SignedDuration,
    /// How long something that was sent may take to show.
    pub settles: SignedDuration,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Say this.
    Say(Box<Saying>),
    /// Look again then.
    At(Timestamp),
    /// Nothing waits to be said.
    Nothing,
}

/// How an attempt to say something ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It was said.
    Said,
    /// It was certainly not, and GitHub wants fewer requests.
    NotNow,
    /// It may have been said; it is tried so often and no more.
    Unsure(u32),
    /// It will not be said.
    Refused,
}

impl End {
    /// It may have been said, and the fault may pass.
    pub const AGAIN: Self = Self::Unsure(TRIES);
}
