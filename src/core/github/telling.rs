//! What is said on GitHub of events and sessions, and when: each thing once, within
//! a budget, to nobody who may not act, and nothing of the time before it was
//! switched on.
//!
//! `serve::github` follows the inbox, says it, and writes this down before and after
//! it does; after a crash it goes on from there.

mod model;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::base::ids::{DeliveryId, Slug, WorkItem};
use crate::core::config::Routing;
use crate::core::event::{Change, Event, What};
use crate::core::outcome::{Reason, State};
use crate::core::routing::is_of_listed;

pub use model::{End, Moved, Next, Pace, Reaction, Saying, Target, TheSession, Words};

/// How many requests there are in a minute and in an hour. GitHub itself allows 80
/// and 500 that make something.
const PER_MINUTE: usize = 20;
const PER_HOUR: usize = 150;
/// How many events of one item, in an hour, that were given up get a comment each;
/// the others get their reaction only.
const GIVEN_UP_PER_HOUR: usize = 5;
/// What could not be said for so long is said no more.
const LATE: SignedDuration = SignedDuration::from_hours(1);
/// How much waits to be said.
const WAITING: usize = 500;
/// How many sessions, and events that were given up, are remembered as told.
const REMEMBERED: usize = 1000;

/// What is remembered of what was said and is to be said.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Telling {
    /// The version of this format.
    pub schema: u32,
    /// Since when there are reactions; `None`: there are none.
    reactions: Option<Timestamp>,
    /// Since when there are comments.
    comments: Option<Timestamp>,
    /// Deliveries up to this place were looked at.
    pub latest: i64,
    /// Those of them that had not come to their end.
    pub open: BTreeSet<i64>,
    /// Those of these whose being taken was said.
    taken: BTreeSet<i64>,
    /// What is to be said.
    waiting: Vec<Saying>,
    /// The sessions whose start was told, with when each was made.
    started: BTreeMap<Slug, Timestamp>,
    /// The deliveries that were told as given up, the latest last.
    given_up: Vec<DeliveryId>,
    /// The latest of them, by item.
    given_up_lately: Vec<(Slug, Timestamp)>,
    /// The requests of the last hour.
    spent: Vec<Timestamp>,
    /// The hosts for which the receiver has no token.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub mute: BTreeSet<String>,
    /// What keeps anything from being said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

impl Telling {
    /// Whether anything is to be told.
    pub fn is_on(&self) -> bool {
        self.reactions.is_some() || self.comments.is_some()
    }

    /// How much waits to be said.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Does what the configuration says now. Says whether it was off altogether and
    /// is on: then it begins with [`Self::begin_at`].
    pub fn turn(&mut self, reactions: bool, comments: bool, now: Timestamp) -> bool {
        let was_on = self.is_on();
        self.reactions = reactions.then(|| self.reactions.unwrap_or(now));
        self.comments = comments.then(|| self.comments.unwrap_or(now));
        self.waiting.retain(|of| if of.is_comment() { comments } else { reactions });
        if !self.is_on() {
            self.trouble = None;
        }
        !was_on && self.is_on()
    }

    /// Nothing up to this place is told, but for what is on its way.
    pub fn begin_at(&mut self, latest: i64, open: BTreeSet<i64>) {
        (self.latest, self.open) = (latest, open);
        self.taken.clear();
    }

    /// Whether it was said that the delivery at a place was taken, which has not come
    /// to its end.
    pub fn is_taken(&self, place: i64) -> bool {
        self.taken.contains(&place)
    }

    /// Decides what a delivery that has moved gives to say.
    pub fn moved(&mut self, moved: &Moved<'_>, routing: &Routing, now: Timestamp) {
        let is_taken = moved.state == State::Delivered
            || (moved.state, moved.reason) == (State::Injecting, Reason::TurnRunning);
        let is_failed = moved.state == State::Failed;
        let of = moved.event;
        if !(is_taken || is_failed) || !is_of_listed(of, routing) || is_close(of) {
            return;
        }
        let Some(repo) = &of.repo else { return };
        let mut say = Vec::new();
        let with = if is_failed { Reaction::Confused } else { Reaction::Eyes };
        let is_told = is_taken && self.is_taken(moved.place);
        if self.reactions.is_some() && !is_told {
            say.extend(target(of).map(|on| Words::React { on, with }));
        }
        if let (true, Some(since), Some(session)) = (is_taken, self.comments, &moved.session) {
            say.extend(self.start_of(session, since, routing));
        }
        // Whoever closed the session knows that what waited for it is not told.
        let is_given_up = is_failed && moved.reason != Reason::ClosedBeforeDelivery;
        if let (true, Some(_), Some(on)) = (is_given_up, self.comments, item_of(of)) {
            say.extend(self.giving_up(moved, on, now));
        }
        if is_taken && !moved.state.is_final() {
            self.taken.insert(moved.place);
        }
        for words in say {
            let repo = match &words {
                Words::Started { item, .. } => item.repo.clone(),
                _ => repo.clone(),
            };
            self.push(Saying { repo, words, at: now, tried: None, tries: 0 });
        }
    }

    /// The comment on the start of a session: one for each.
    fn start_of(
        &mut self,
        session: &TheSession,
        since: Timestamp,
        routing: &Routing,
    ) -> Option<Words> {
        let TheSession { item, created_at, is_headless } = session.clone();
        let listed = &routing.repositories;
        let is_worked_on = listed.is_empty() || listed.contains(&item.repo);
        let slug = item.slug();
        if created_at < since || !is_worked_on || self.started.get(&slug) == Some(&created_at) {
            return None;
        }
        self.started.insert(slug, created_at);
        while self.started.len() > REMEMBERED {
            let oldest = self.started.iter().min_by_key(|(_, at)| **at)?.0.clone();
            self.started.remove(&oldest);
        }
        Some(Words::Started { item, created_at, is_headless })
    }

    /// The comment on an event that was given up: one for each, and not too many of
    /// one item.
    fn giving_up(&mut self, moved: &Moved<'_>, on: &WorkItem, now: Timestamp) -> Option<Words> {
        let (delivery, slug) = (moved.delivery, on.slug());
        self.given_up_lately.retain(|(_, at)| within(*at, now, SignedDuration::from_hours(1)));
        let lately = self.given_up_lately.iter().filter(|(of, _)| *of == slug).count();
        if self.given_up.contains(delivery) || lately >= GIVEN_UP_PER_HOUR {
            return None;
        }
        self.given_up.push(delivery.clone());
        let surplus = self.given_up.len().saturating_sub(REMEMBERED);
        self.given_up.drain(..surplus);
        self.given_up_lately.push((slug, now));
        Some(Words::GivenUp {
            on: on.clone(),
            delivery: delivery.clone(),
            reason: moved.reason,
            url: moved.event.url().filter(|url| is_plain(url)).cloned(),
        })
    }

    fn push(&mut self, saying: Saying) {
        if self.waiting.iter().any(|known| known.is_same(&saying)) {
            return;
        }
        if self.waiting.len() >= WAITING {
            // Who comments on so much at once sees that it is much.
            let Some(oldest) = self.waiting.iter().position(|known| !known.is_comment()) else {
                return;
            };
            self.waiting.remove(oldest);
        }
        self.waiting.push(saying);
    }

    /// Drops what is said too late. Gives how much that was.
    pub fn drop_late(&mut self, now: Timestamp) -> usize {
        let before = self.waiting.len();
        self.waiting.retain(|of| now.duration_since(of.at) < LATE);
        before - self.waiting.len()
    }

    /// What to say now: comments before reactions, of which there are many.
    /// `rests` gives until when a host is not asked.
    pub fn next(
        &self,
        now: Timestamp,
        pace: Pace,
        rests: impl Fn(&str) -> Option<Timestamp>,
    ) -> Next {
        let free = self.free_at(now, pace.apart);
        let due = |of: &Saying| {
            // It is looked for then. A time that is yet to come is no time.
            let sent = of.tried.filter(|tried| of.is_comment() && *tried <= now);
            let shown = sent.and_then(|sent| sent.checked_add(pace.settles).ok());
            [Some(free), shown, rests(of.repo.host())].into_iter().flatten().max().unwrap_or(now)
        };
        let ready = self.waiting.iter().filter(|of| due(of) <= now);
        if let Some(first) = ready.min_by_key(|of| (!of.is_comment(), of.at)) {
            return Next::Say(Box::new(first.clone()));
        }
        self.waiting.iter().map(due).min().map_or(Next::Nothing, Next::At)
    }

    /// When the budget has room for a request.
    fn free_at(&self, now: Timestamp, apart: SignedDuration) -> Timestamp {
        let after = |count: usize, span: SignedDuration| {
            let oldest = self.spent.len().checked_sub(count)?;
            self.spent.get(oldest).filter(|at| **at <= now)?.checked_add(span).ok()
        };
        let bounds = [
            after(1, apart),
            after(PER_MINUTE, SignedDuration::from_mins(1)),
            after(PER_HOUR, SignedDuration::from_hours(1)),
        ];
        bounds.into_iter().flatten().max().unwrap_or(now)
    }

    /// Something is about to be said. To be put down before it is.
    pub fn begin(&mut self, saying: &Saying, now: Timestamp) {
        self.spent.retain(|at| within(*at, now, SignedDuration::from_hours(1)));
        self.spent.push(now);
        if saying.is_comment() && saying.tried.is_some() {
            // It is looked for first.
            self.spent.push(now);
        }
        if let Some(of) = self.waiting.iter_mut().find(|of| of.is_same(saying)) {
            of.tried = Some(now);
            of.tries += 1;
        }
    }

    /// Saying something came to an end.
    pub fn ended(&mut self, saying: &Saying, end: End) {
        let Some(n) = self.waiting.iter().position(|of| of.is_same(saying)) else { return };
        let of = &mut self.waiting[n];
        match end {
            // What an earlier attempt left in doubt is in doubt as before.
            End::NotNow => (of.tried, of.tries) = (saying.tried, saying.tries),
            End::Unsure(most) if of.tries < most => {}
            End::Said | End::Unsure(_) | End::Refused => drop(self.waiting.remove(n)),
        }
    }

    /// Notes that a delivery is routed again.
    pub fn again(&mut self, place: i64) {
        if place <= self.latest {
            self.open.insert(place);
            self.taken.remove(&place);
        }
    }

    /// Notes that a delivery has come to its end, or that it has not.
    pub fn stands(&mut self, place: i64, state: State) {
        self.latest = self.latest.max(place);
        if state.is_final() {
            self.open.remove(&place);
            self.taken.remove(&place);
        } else {
            self.open.insert(place);
        }
    }
}

fn within(at: Timestamp, now: Timestamp, span: SignedDuration) -> bool {
    at <= now && now.duration_since(at) < span
}

/// Whether it closes an item: that ends a session, and is told to nobody.
fn is_close(event: &Event) -> bool {
    matches!(&event.what, What::Issue { change: Change::Closed, .. })
        || matches!(&event.what, What::Pull { change: Change::Closed, pull } if !pull.merged)
}

/// What GitHub lets one react to: not a review, and no check.
fn target(event: &Event) -> Option<Target> {
    match &event.what {
        What::Issue { issue, .. } => Some(Target::Item(issue.item.number)),
        What::Pull { pull, .. } => Some(Target::Item(pull.thread.item.number)),
        What::Comment { post, .. } => post.id.map(Target::Comment),
        What::ReviewComment { post, .. } => post.id.map(Target::ReviewComment),
        What::Review { .. } | What::Check(_) | What::Ping | What::Other => None,
    }
}

/// The issue or pull request that it happened on.
fn item_of(event: &Event) -> Option<&WorkItem> {
    match &event.what {
        What::Issue { issue: thread, .. } | What::Comment { thread, .. } => Some(&thread.item),
        What::Pull { pull, .. } | What::Review { pull, .. } | What::ReviewComment { pull, .. } => {
            Some(&pull.thread.item)
        }
        What::Check(_) | What::Ping | What::Other => None,
    }
}

/// Whether an address can stand in a comment as it is.
fn is_plain(url: &str) -> bool {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || "-._~:/?#=&%+".contains(c);
    url.starts_with("https://") && url.len() <= 300 && url.chars().all(is_fit)
}

#[cfg(test)]
mod tests;
