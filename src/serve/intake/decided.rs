//! What was decided about one delivery, until it is on disk and carried out.

use std::time::Duration;

use crate::base::ids::{DeliveryId, Slug, WorkItem};
use crate::core::dispatch::{Job, Task};
use crate::core::outcome::{Reason, State};
use crate::core::routing::{Action, Decision};
use crate::core::session::SessionRecord;
use crate::state::inbox::{About, QueuedDelivery, Route, RouteAction, Step, StoredDelivery};

/// The session of a delivery could not be recorded.
pub(super) fn failed_to_start(delivery: DeliveryId, why: String) -> Step {
    let (state, reason) = (State::Failed, Reason::StartFailed);
    Step { delivery, state, reason, detail: Some(why), route: None }
}

/// Whether the session was closed after the delivery came in.
pub(super) fn is_behind(session: &SessionRecord, delivery: &StoredDelivery) -> bool {
    session.closed_behind(delivery.asked_at)
}

/// Its session was closed before it was decided about.
pub(super) fn closed_before(delivery: &StoredDelivery, item: &WorkItem) -> Decided {
    let short = Some(item.short());
    Decided::ended(delivery, State::Failed, Reason::ClosedBeforeDelivery, short)
}

fn task(action: RouteAction, reason: Reason) -> Task {
    match (action, reason) {
        (RouteAction::Deliver, _) => Task::Deliver,
        (RouteAction::Close, Reason::StoppedByHand | Reason::ClosedByHand) => Task::Close(reason),
        // An earlier run may have put down why it failed to.
        (RouteAction::Close, _) => Task::Close(Reason::ItemClosed),
    }
}

/// What an earlier run left in the queue.
pub(super) fn left_over(delivery: QueuedDelivery) -> Job {
    let job = Job::new(delivery.id, delivery.slug, task(delivery.action, delivery.reason));
    let begun = delivery.state == State::Injecting;
    Job { now: delivery.now, bytes: delivery.prompt.len(), begun, ..job }
}

/// So many deliveries at once are a burst.
const BURST: usize = 4;

/// How long what comes in a burst is gathered, which no agent notices.
const GATHER: Duration = Duration::from_millis(5);

/// Lets deliveries gather in a burst: deciding about many together leaves the
/// inbox's writer to those that arrive. `count` were decided about, of `most`.
pub(super) async fn gather(count: usize, most: usize) {
    if (BURST..most).contains(&count) {
        tokio::time::sleep(GATHER).await;
    }
}

/// What was decided about one delivery.
pub(super) struct Decided {
    pub(super) step: Step,
    pub(super) about: Vec<About>,
    pub(super) job: Option<Job>,
    pub(super) keep: Option<(WorkItem, Decision)>,
    /// The session that was paused.
    pub(super) paused: Option<Slug>,
}

impl Decided {
    /// Whether what is decided next may depend on it: on the session, the link,
    /// the check, the head or the edit that it makes known.
    pub(super) fn bears_on_the_next(&self) -> bool {
        let has_told = self.keep.as_ref().is_some_and(|(_, decision)| {
            let is_start = matches!(decision.action, Action::Start(_));
            is_start || decision.link.is_some() || decision.told_check.is_some()
        });
        has_told || self.about.iter().any(|about| about.head.is_some() || about.edits.is_some())
    }

    /// Whether it tells a session of something that came from GitHub.
    pub(super) fn tells(&self, slug: &Slug) -> bool {
        let route = self.step.route.as_ref();
        let told = route.is_some_and(|r| r.slug == *slug && r.action == RouteAction::Deliver);
        told && self.keep.is_some()
    }

    pub(super) fn ended(
        delivery: &StoredDelivery,
        state: State,
        reason: Reason,
        detail: Option<String>,
    ) -> Self {
        let step = Step { delivery: delivery.id.clone(), state, reason, detail, route: None };
        Self { step, about: Vec::new(), job: None, keep: None, paused: None }
    }

    /// Its body cannot be read any more.
    pub(super) fn damaged(delivery: &StoredDelivery) -> Self {
        Self::ended(delivery, State::Failed, Reason::InboxDamaged, None)
    }

    pub(super) fn unreadable(delivery: &StoredDelivery, why: &str) -> Self {
        Self::ended(delivery, State::Failed, Reason::RegistryUnreadable, Some(why.to_owned()))
    }

    pub(super) fn queued(delivery: &StoredDelivery, reason: Reason, route: Route) -> Self {
        let (now, bytes) = (route.now, route.prompt.len());
        let job = Job::new(delivery.id.clone(), route.slug.clone(), task(route.action, reason));
        let job = Job { now, bytes, ..job };
        let step = Step {
            delivery: delivery.id.clone(),
            state: State::Queued,
            reason,
            detail: Some(route.item.short()),
            route: Some(route),
        };
        Self { step, about: Vec::new(), job: Some(job), keep: None, paused: None }
    }
}
