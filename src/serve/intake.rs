//! From the inbox to the dispatcher: every stored delivery is routed once, in
//! order of arrival, and what was decided is on disk before anything is done.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::base::checkpoint::Checkpoint;
use crate::base::clock::Clock;
use crate::base::failure::chain;
use crate::base::ids::{Marker, WorkItem};
use crate::base::random;
use crate::base::text::{cap, visible};
use crate::core::config::LiveConfig;
use crate::core::event;
use crate::core::outcome::{Reason, State};
use crate::core::routing::{self, Action, Decision, Named, OwnVoice, prompt};
use crate::core::session::{SessionRecord, SessionStatus};
use crate::host::dispatch::DispatchHandle;
use crate::host::workspace::Workspaces;
use crate::state::inbox::{
    About, DeliveryKind, Inbox, InboxError, LocalMessage, Route, RouteAction, StoredDelivery,
};
use crate::state::registry::Registry;

use super::sight::Sight;

mod decided;
mod keep;

use decided::{Decided, closed_before, failed_to_start, gather, is_behind, left_over};

/// How long after a failure of the inbox it is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// How many deliveries are read from the inbox at a time.
pub(super) const BATCH: usize = 64;

/// Routes deliveries.
#[derive(Debug)]
pub struct Intake {
    /// The deliveries.
    pub inbox: Inbox,
    /// The sessions.
    pub registry: Registry,
    /// The configuration.
    pub config: LiveConfig,
    /// The directory that holds `.the-loop`.
    pub project: PathBuf,
    /// The work trees, when each item has one.
    pub workspaces: Option<Arc<Workspaces>>,
    /// The words of prompts.
    pub templates: prompt::Templates,
    /// How we know our own words.
    pub own_voice: OwnVoice,
    /// Where jobs go.
    pub dispatcher: DispatchHandle,
    /// Told when a delivery came in.
    pub arrived: Arc<Notify>,
    /// What routing may know.
    pub sight: Sight,
    /// The time.
    pub clock: Clock,
    /// How many deliveries are decided about together.
    pub together: usize,
}

impl Intake {
    /// Takes up what an earlier run left, then routes deliveries as they come,
    /// until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        self.take_up(&stop).await;
        loop {
            let routed = self.route_all().await;
            if let Err(error) = &routed {
                tracing::error!(error = %chain(error), "could not route what came in");
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.arrived.notified() => {}
                // A full disk or a lock passes, and nobody tells when.
                () = tokio::time::sleep(TRY_AGAIN), if routed.is_err() => {}
            }
        }
    }

    /// Hands over what an earlier run decided and did not carry out, a few at a
    /// time: the queue is on disk, and may be long.
    async fn take_up(&self, stop: &CancellationToken) {
        let mut after = 0;
        loop {
            let batch = match self.inbox.pending(after, BATCH) {
                Ok(batch) => batch,
                Err(error) => {
                    tracing::error!(error = %chain(&error), "could not read the queue");
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = tokio::time::sleep(TRY_AGAIN) => continue,
                    }
                }
            };
            let Some(last) = batch.last() else { return };
            after = last.seq;
            for delivery in batch {
                // It may have been decided, and no more, when the end came.
                if delivery.start
                    && let Err(error) =
                        self.ensure(&delivery.item, Named::default(), &self.config.routing())
                {
                    tracing::error!(item = %delivery.item, error, "could not record a session");
                }
                self.dispatcher.enqueue(left_over(delivery)).await;
            }
        }
    }

    async fn route_all(&mut self) -> Result<(), InboxError> {
        loop {
            let batch = self.inbox.to_route(self.together)?;
            if batch.is_empty() {
                return Ok(());
            }
            let count = batch.len();
            let mut run = Vec::new();
            for delivery in batch {
                let decided = self.route(&delivery, &run);
                Checkpoint::Route.reached();
                let bears_on_the_next = decided.bears_on_the_next();
                run.push(decided);
                if bears_on_the_next {
                    self.carry_out(std::mem::take(&mut run)).await?;
                }
            }
            self.carry_out(run).await?;
            gather(count, self.together).await;
        }
    }

    /// Puts decisions on disk, with one commit for all, then does what they ask.
    async fn carry_out(&mut self, mut run: Vec<Decided>) -> Result<(), InboxError> {
        let steps = run.iter().map(|decided| decided.step.clone()).collect();
        let about = run.iter_mut().flat_map(|decided| decided.about.drain(..)).collect();
        // Where there is no room for all, there may be for one.
        self.together = 1;
        self.inbox.record_about(steps, about).await?;
        self.together = BATCH;
        Checkpoint::HandOver.reached();
        for decided in run {
            if let Some((item, keep)) = decided.keep
                && let Err(why) = self.keep(&item, keep)
            {
                let step = failed_to_start(decided.step.delivery, why);
                match self.inbox.record(vec![step]).await {
                    Ok(()) => continue,
                    // The dispatcher will find no session, and says so in its time.
                    Err(error) => tracing::error!(error = %chain(&error), "could not record it"),
                }
            }
            if let Some(slug) = decided.paused {
                self.dispatcher.paused(slug).await;
            }
            if let Some(job) = decided.job {
                self.dispatcher.enqueue(job).await;
            }
        }
        Ok(())
    }

    /// Decides about a delivery, `before` which others were decided that are not
    /// on disk yet.
    fn route(&mut self, delivery: &StoredDelivery, before: &[Decided]) -> Decided {
        match delivery.kind {
            _ if delivery.body.is_empty() => Decided::damaged(delivery),
            DeliveryKind::Local => self.route_local(delivery),
            DeliveryKind::Github => self.route_github(delivery, before),
        }
    }

    fn route_local(&self, delivery: &StoredDelivery) -> Decided {
        let message: LocalMessage = match serde_json::from_slice(&delivery.body) {
            Ok(message) => message,
            Err(error) => {
                let detail = Some(visible(&error.to_string()));
                return Decided::ended(delivery, State::Ignored, Reason::Unreadable, detail);
            }
        };
        let item = message.item;
        let session = match self.registry.load(&item.slug()) {
            Ok(Some(session)) if message.text.is_some() && is_behind(&session, delivery) => {
                return closed_before(delivery, &item);
            }
            Ok(Some(session)) => session,
            Ok(None) => {
                let detail = Some(item.short());
                return Decided::ended(delivery, State::Ignored, Reason::NoSession, detail);
            }
            Err(error) => return Decided::unreadable(delivery, &chain(&error)),
        };
        let marker = Marker::new(random::bytes());
        let (prompt, action) = match &message.text {
            Some(text) => {
                let text = prompt::render_local(text, &item, &marker);
                // Whatever an agent hears first comes with the standing instructions.
                let begins = !session.conversation_started;
                let text = if begins { prompt::with_rules(&text, &item) } else { text };
                (text, RouteAction::Deliver)
            }
            None => (String::new(), RouteAction::Close),
        };
        let (slug, now) = (item.slug(), message.now);
        let route = Route { slug, item, marker, prompt, start: false, url: None, action, now };
        let reason = match action {
            RouteAction::Deliver => Reason::SentByHand,
            RouteAction::Close => Reason::ClosedByHand,
        };
        Decided::queued(delivery, reason, route)
    }

    fn route_github(&mut self, delivery: &StoredDelivery, before: &[Decided]) -> Decided {
        let event = match event::parse(&delivery.event, &delivery.body) {
            Ok(event) => event,
            Err(error) => {
                let detail = Some(cap(&visible(&chain(&error)), 300));
                return Decided::ended(delivery, State::Ignored, Reason::Unreadable, detail);
            }
        };
        let routing = self.config.routing();
        let mut view = self.sight.view(&self.inbox, &routing, &event, delivery);
        for (item, session) in view.sessions.iter_mut().filter(|(_, session)| session.begins) {
            let slug = item.slug();
            session.begins = !before.iter().any(|decided| decided.tells(&slug));
        }
        let decision = routing::decide(&event, &routing, &view, &self.own_voice);
        let about = About {
            delivery: delivery.id.clone(),
            item: decision.item.clone(),
            own: decision.own.clone().filter(|own| decision.item.as_ref() != Some(own)),
            url: decision.url.clone(),
            head: event.head().map(|(sha, pull)| (sha.to_owned(), pull)),
            edits: event
                .thread()
                .map(|thread| (thread.item.slug(), decision.edits.clone()))
                .filter(|(_, edits)| !edits.is_empty()),
        };
        let mut decided = self.act_on(delivery, decision, before);
        decided.about.push(about);
        decided
    }

    fn act_on(&self, delivery: &StoredDelivery, decision: Decision, before: &[Decided]) -> Decided {
        let Decision { item, reason, action, .. } = &decision;
        let short = item.as_ref().map(WorkItem::short);
        if let (Some(item), Action::Pause | Action::Resume) = (item, action) {
            let pauses = *action == Action::Pause;
            return match self.set_paused(item, pauses) {
                Ok(()) => {
                    let mut decided = Decided::ended(delivery, State::Done, *reason, short);
                    decided.paused = pauses.then(|| item.slug());
                    decided
                }
                Err(error) => Decided::unreadable(delivery, &error),
            };
        }
        let (Some(item), Action::Deliver(_) | Action::Start(_) | Action::Close) = (item, action)
        else {
            // What would be done depends on what stands in an entry that cannot be read.
            if let (Reason::RegistryUnreadable, Some(item)) = (reason, item) {
                let why = self.registry.load(&item.slug()).err();
                let why = why.map_or_else(|| reason.explain().to_owned(), |error| chain(&error));
                return Decided::unreadable(delivery, &why);
            }
            let state = if *action == Action::Note { State::Done } else { State::Ignored };
            let who = decision.unlisted.as_ref().map(|login| format!("`{login}` is not listed"));
            let detail: Vec<_> = short.into_iter().chain(who).collect();
            let detail = Some(detail.join(": ")).filter(|detail| !detail.is_empty());
            let mut decided = Decided::ended(delivery, state, *reason, detail);
            // A link is remembered also where nothing is told.
            if let (Some(item), Some(_)) = (item, &decision.link) {
                decided.keep = Some((item.clone(), decision));
            }
            return decided;
        };
        let session = match self.registry.load(&item.slug()) {
            Ok(session) => session,
            Err(error) => return Decided::unreadable(delivery, &chain(&error)),
        };
        let (message, is_start) = match action {
            Action::Start(message) => (Some(message), true),
            Action::Deliver(message) => (Some(message), false),
            _ => (None, false),
        };
        // What comes after the close revives it; what was there before does not.
        if message.is_some() && session.as_ref().is_some_and(|s| is_behind(s, delivery)) {
            return closed_before(delivery, item);
        }
        let is_first = decision.first;
        let marker = Marker::new(random::bytes());
        let prompt = message.map_or_else(String::new, |message| {
            prompt::render_with(&self.templates, message, item, &marker, &self.own_voice, is_first)
        });
        let route = Route {
            slug: item.slug(),
            item: item.clone(),
            marker,
            prompt,
            start: is_start,
            url: decision.url.clone(),
            action: if message.is_some() { RouteAction::Deliver } else { RouteAction::Close },
            now: message.is_some_and(|message| message.now),
        };
        let limited = message.is_some() && self.is_too_much(item, session.as_ref(), before);
        let reason = if limited { Reason::RateLimited } else { *reason };
        let mut decided = Decided::queued(delivery, reason, route);
        if let Some(job) = &mut decided.job {
            job.gathers = message.is_some_and(|message| message.review.is_some()) && !job.now;
        }
        // What waits already is not told together with what is kept.
        decided.paused = limited.then(|| item.slug());
        decided.keep = Some((item.clone(), decision));
        decided
    }

    /// Whether one more event of an item is more than may come in an hour. Then
    /// its session is paused, so that two agents who answer each other end.
    fn is_too_much(
        &self,
        item: &WorkItem,
        session: Option<&SessionRecord>,
        before: &[Decided],
    ) -> bool {
        let limit = self.config.routing().rate_limit;
        let Some(session) = session.filter(|_| limit > 0) else { return false };
        if session.status == SessionStatus::Paused {
            return false;
        }
        let now = self.clock.now();
        let hour_ago = now.checked_sub(jiff::SignedDuration::from_hours(1)).unwrap_or(now);
        let since = session.counted_from.map_or(hour_ago, |from| from.max(hour_ago));
        let slug = item.slug();
        let just_now = before.iter().filter(|decided| decided.tells(&slug)).count();
        let just_now = u32::try_from(just_now).unwrap_or(u32::MAX);
        match self.inbox.events_since(&slug, since, limit) {
            Ok(count) if count.saturating_add(just_now) < limit => return false,
            Ok(_) => {}
            Err(error) => {
                tracing::error!(%item, error = %chain(&error), "could not count the events");
                return false;
            }
        }
        let why = format!(
            "more than {limit} event{} within an hour (`routing.rateLimit`); what comes is \
             kept until it is resumed",
            if limit == 1 { "" } else { "s" }
        );
        tracing::warn!(%item, limit, "too many events within an hour: the session is paused");
        let paused = self.registry.update(&slug, |record| {
            record.pause(Some(why));
            record.counted_from = Some(now);
        });
        if let Err(error) = paused {
            tracing::error!(%item, error = %chain(&error), "could not pause the session");
        }
        true
    }
}
