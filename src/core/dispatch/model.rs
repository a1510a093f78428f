//! What goes into the dispatcher's machine and what comes out of it.

use std::time::Duration;

use crate::base::ids::{DeliveryId, Slug};
use crate::core::inject::Outcome;
use crate::core::outcome::{Reason, State};

/// One thing to do for a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The delivery that asks for it.
    pub delivery: DeliveryId,
    /// The session it is for.
    pub slug: Slug,
    /// What to do.
    pub task: Task,
    /// It waits for no turn's end, and goes before what does.
    pub now: bool,
    /// Others that belong to it may still come: it waits a moment for them.
    pub gathers: bool,
    /// How long its prompt is.
    pub bytes: usize,
    /// Typing it had begun when an earlier receiver ended.
    pub begun: bool,
}

impl Job {
    /// A job without anything special about it.
    pub fn new(delivery: DeliveryId, slug: Slug, task: Task) -> Self {
        Self { delivery, slug, task, now: false, gathers: false, bytes: 0, begun: false }
    }
}

/// Deliveries that are told together, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The deliveries, at least one.
    pub deliveries: Vec<DeliveryId>,
    /// They wait for no turn's end.
    pub now: bool,
    /// A person let them in: what that person typed before is no reason to wait.
    pub released: bool,
}

/// What a job asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Type the delivery's prompt into the session.
    Deliver,
    /// End the session, for this reason.
    Close(Reason),
}

impl Task {
    /// Whether it ends the session.
    pub fn is_close(self) -> bool {
        matches!(self, Self::Close(_))
    }
}

/// Something happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A delivery was routed to a session.
    Enqueued(Job),
    /// A session is to be live, though nothing waits for it.
    Revive(Slug),
    /// Whether a session's agent is there already.
    Looked(Slug, bool),
    /// A session can be delivered to, must wait, or could not be started.
    Started(Slug, Result<Hosting, StartFailure>),
    /// A delivery's injection ended.
    Delivered(Slug, Delivered),
    /// A session was closed, or could not be.
    Closed(Slug, Result<(), String>),
    /// A pause is over.
    Woke(Slug),
    /// The time for what belongs to a delivery to come is over.
    Gathered(Slug, DeliveryId),
    /// A person lets in what waits for a session.
    Released(Slug),
    /// A person paused a session.
    Paused(Slug),
}

/// What came of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hosting {
    /// The agent is live: its start is over.
    Live,
    /// Each delivery is a headless turn, which counts as a start until its end.
    Headless,
    /// Not now, for this reason: a person has paused it or drives it.
    Held(Reason),
}

/// Why a session could not be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartFailure {
    /// The reason.
    pub reason: Reason,
    /// What a person should see: the agent's last lines, or tmux's complaint.
    pub detail: String,
    /// Whether trying again may help.
    pub transient: bool,
}

/// How a delivery's injection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivered {
    /// The injection came to an end.
    Ended(Outcome),
    /// A headless turn came to its end.
    Turn {
        /// Where the delivery stands.
        state: State,
        /// Why.
        reason: Reason,
        /// What the turn cost and took, or what went wrong.
        detail: Option<String>,
    },
    /// The agent of a headless turn ended before it took anything, and nobody can
    /// take it any more.
    NeverBegan {
        /// Why.
        reason: Reason,
        /// How it ended, and its last words.
        detail: String,
    },
    /// It was called off before anything was typed.
    CalledOff,
    /// It gave way before anything was typed or begun.
    GaveWay,
    /// tmux or the disk did not do what it was asked.
    Broken(String),
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Make sure that the session is live; answer with [`Input::Started`].
    Start(Slug),
    /// Take up what an earlier receiver began, where its agent goes on without one:
    /// nothing holds that back. Else the same as [`Command::Start`].
    TakeUp(Slug),
    /// See whether the session's agent is there, so that no start is needed; answer
    /// with [`Input::Looked`].
    Look(Slug),
    /// Inject the deliveries as one text; answer with [`Input::Delivered`].
    Deliver(Slug, Batch),
    /// Give the deliveries back, when nothing of them was typed yet.
    GiveWay(Slug),
    /// Answer with [`Input::Gathered`] after this time.
    Gather(Slug, DeliveryId, Duration),
    /// Call the running injection off if nothing was typed yet.
    CallOff(Slug),
    /// End the session; answer with [`Input::Closed`].
    Close(Slug),
    /// Answer with [`Input::Woke`] when the session is held no longer.
    AwaitRelease(Slug),
    /// Answer with [`Input::Woke`] after this time.
    Pause(Slug, Duration),
    /// Put down what became of a delivery.
    Record {
        /// The delivery.
        delivery: DeliveryId,
        /// Its state from now on.
        state: State,
        /// Why.
        reason: Reason,
        /// More for a person.
        detail: Option<String>,
    },
}
