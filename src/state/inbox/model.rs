//! What goes into the inbox and what comes out of it, as values.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::base::ids::{DeliveryId, Marker, Slug, WorkItem};
use crate::core::event::CheckPull;
use crate::core::outcome::{Reason, State};
use crate::core::routing::TextEdit;

/// Where a delivery came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeliveryKind {
    /// GitHub posted it, and its signature was right.
    Github,
    /// A person on this machine sent it; the body is a [`LocalMessage`].
    Local,
}

impl DeliveryKind {
    /// The kind as it is stored and printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Github => "github",
            Self::Local => "local",
        }
    }

    /// The kind with this text.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Github, Self::Local].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// The body of a delivery of kind [`DeliveryKind::Local`], as JSON.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LocalMessage {
    /// The work item whose session it is for.
    pub item: WorkItem,
    /// What to say; nothing closes the session.
    pub text: Option<String>,
    /// Whether it waits for no turn's end and goes before others.
    #[serde(default)]
    pub now: bool,
}

impl LocalMessage {
    /// The event name of every local message.
    pub const EVENT: &str = "local";

    /// The message as a delivery of its own.
    pub fn into_delivery(self, id: DeliveryId) -> NewDelivery {
        let body = serde_json::to_vec(&self).expect("texts and a flag are always JSON");
        NewDelivery { id, event: Self::EVENT.to_owned(), body, kind: DeliveryKind::Local }
    }
}

/// A delivery that has just arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDelivery {
    /// Its id.
    pub id: DeliveryId,
    /// The name of its event.
    pub event: String,
    /// The JSON, byte for byte.
    pub body: Vec<u8>,
    /// Where it came from.
    pub kind: DeliveryKind,
}

/// What became of a delivery at the door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// It is on disk now.
    New,
    /// It was on disk already; nothing was changed.
    Repeat,
    /// It was on disk already and had failed: it is to be routed again.
    Requeued,
}

/// One decision about a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The delivery.
    pub delivery: DeliveryId,
    /// Where it stands from now on.
    pub state: State,
    /// Why.
    pub reason: Reason,
    /// More, in a few words; made visible already.
    pub detail: Option<String>,
    /// Where it goes. Replaces what was stored before.
    pub route: Option<Route>,
}

/// Where a delivery goes, and with which words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The work item whose session it is for.
    pub item: WorkItem,
    /// That item's slug.
    pub slug: Slug,
    /// The marker that proves its arrival.
    pub marker: Marker,
    /// What is typed.
    pub prompt: String,
    /// Whether it may start a session.
    pub start: bool,
    /// The page of what happened: a comment's, an issue's.
    pub url: Option<String>,
    /// What to do with the session.
    pub action: RouteAction,
    /// Whether it waits for no turn's end and goes before others.
    pub now: bool,
}

/// What a route does with its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RouteAction {
    /// Types the prompt.
    Deliver,
    /// Closes the session; a prompt that is not empty is typed before.
    Close,
}

impl RouteAction {
    /// The action as it is stored and printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deliver => "deliver",
            Self::Close => "close",
        }
    }

    /// The action with this text.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Deliver, Self::Close].into_iter().find(|action| action.as_str() == text)
    }
}

/// What a delivery is about, also where it goes nowhere: by this, people find
/// out why nothing happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The delivery.
    pub delivery: DeliveryId,
    /// The item that it belongs to, whose session is told when there is one.
    pub item: Option<WorkItem>,
    /// The pull request that the event is of, where that is another one.
    pub own: Option<WorkItem>,
    /// The page of what happened: a comment's, an issue's.
    pub url: Option<String>,
    /// A commit, and the pull request that it is the head of.
    pub head: Option<(String, CheckPull)>,
    /// Who edited or armed texts, and of which item, by its slug.
    pub edits: Option<(Slug, Vec<TextEdit>)>,
}

/// What became of the wish to route a delivery again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replayed {
    /// It is to be routed again.
    Queued,
    /// It is still on its way.
    UnderWay,
    /// Its body was dropped for its age or for room.
    NoBody,
}

/// How long and how much the inbox keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// How long bodies and prompts stay.
    pub age: Duration,
    /// How many bytes the file may hold before bodies go earlier.
    pub size: u64,
}

/// A delivery that is to be routed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDelivery {
    /// Its place in the order of arrival.
    pub seq: i64,
    /// Its id.
    pub id: DeliveryId,
    /// The name of its event.
    pub event: String,
    /// When it arrived.
    pub received_at: Timestamp,
    /// When it was last asked for: then it arrived, or a person or GitHub asked again.
    pub asked_at: Timestamp,
    /// The JSON, byte for byte; empty where what is stored of it is damaged.
    pub body: Vec<u8>,
    /// Where it came from.
    pub kind: DeliveryKind,
    /// It was decided about before: a person or GitHub asked for it again.
    pub again: bool,
}

/// A delivery on its way to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedDelivery {
    /// Its place in the order of arrival.
    pub seq: i64,
    /// Its id.
    pub id: DeliveryId,
    /// Where it stands.
    pub state: State,
    /// Why.
    pub reason: Reason,
    /// The work item whose session it is for.
    pub item: WorkItem,
    /// That item's slug.
    pub slug: Slug,
    /// The marker that proves its arrival.
    pub marker: Marker,
    /// What is typed.
    pub prompt: String,
    /// Whether it may start a session.
    pub start: bool,
    /// What to do with the session.
    pub action: RouteAction,
    /// Whether it waits for no turn's end and goes before others.
    pub now: bool,
    /// How often typing was begun.
    pub attempts: u32,
}

/// How far the log of a delivery has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEnd {
    /// The delivery's place in the order of arrival.
    pub seq: i64,
    /// Its id.
    pub id: DeliveryId,
    /// How many steps it has.
    pub steps: i64,
    /// When the last one was recorded.
    pub changed_at: i64,
    /// Whether more will come by itself.
    pub is_under_way: bool,
}

/// The deliveries that wait for one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// How many there are.
    pub count: u64,
    /// When the oldest of them came in.
    pub since: Timestamp,
    /// What the oldest of them waits for.
    pub reason: Reason,
}

/// How many deliveries stand where. States that nobody is in are absent.
pub type Counts = BTreeMap<State, u64>;

/// A delivery as lists show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Its place in the order of arrival.
    pub seq: i64,
    /// Its id.
    pub id: DeliveryId,
    /// Where it came from.
    pub kind: DeliveryKind,
    /// The name of its event.
    pub event: String,
    /// When it arrived.
    pub received_at: Timestamp,
    /// Where it stands.
    pub state: State,
    /// Why.
    pub reason: Reason,
    /// Since when.
    pub changed_at: Timestamp,
    /// How often typing was begun.
    pub attempts: u32,
    /// The item that it belongs to.
    pub item: Option<WorkItem>,
    /// The slug of the session that it is for.
    pub session: Option<Slug>,
    /// The page of what happened.
    pub url: Option<String>,
    /// The slug of the pull request that its event is of, where that is another item.
    pub own: Option<Slug>,
}

/// A delivery with everything that was decided about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryHistory {
    /// The delivery.
    pub delivery: Summary,
    /// The decisions, in order.
    pub steps: Vec<RecordedStep>,
}

/// A decision as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedStep {
    /// When.
    pub at: Timestamp,
    /// Where the delivery stood from then on.
    pub state: State,
    /// Why.
    pub reason: Reason,
    /// More, in a few words.
    pub detail: Option<String>,
}
