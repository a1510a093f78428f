//! The dispatcher's decisions: one queue for each session in order of arrival,
//! sessions side by side, a cap on starts, bounded retries. What waits together
//! is told together; what is urgent goes first. A synchronous machine: an input
//! goes in, commands come out.
//!
//! Driven by `host::dispatch`, which runs the commands and reports back. Knows
//! nothing of disks, tmux or clocks; what it holds in memory is on disk too.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::base::ids::Slug;

use super::inject::Outcome;
use super::outcome::{Reason, State};

mod gate;
mod model;
mod queue;
mod starts;

pub use model::{Batch, Command, Delivered, Hosting, Input, Job, StartFailure, Task};
use queue::{Queue, Queued};

/// How often a delivery is offered before it counts as failed.
const MAX_ATTEMPTS: u8 = 3;
/// The pause before the first retry; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// How long a review waits for its comments, each of which is an event.
const GATHER: Duration = Duration::from_secs(3);

/// The queues of all sessions that have something waiting.
#[derive(Debug)]
pub struct Dispatcher {
    max_starts: usize,
    sessions: BTreeMap<Slug, Session>,
    /// Sessions that wait for a free start, oldest first.
    waiting: VecDeque<Slug>,
    starts: usize,
}

#[derive(Debug, Default)]
struct Session {
    queue: Queue,
    doing: Doing,
    /// How many of the first are being delivered.
    group: usize,
    /// Whether it takes up one of the starts that may be under way.
    holds_start: bool,
    /// It is to be live, though nothing waits for it.
    revives: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Doing {
    #[default]
    Nothing,
    Gathering,
    WaitingForStart,
    Starting,
    Delivering,
    Closing,
    Pausing,
    Held(Reason),
}

impl Dispatcher {
    /// A dispatcher without work that starts at most `max_starts` sessions at a
    /// time.
    pub fn new(max_starts: usize) -> Self {
        Self {
            max_starts: max_starts.max(1),
            sessions: BTreeMap::new(),
            waiting: VecDeque::new(),
            starts: 0,
        }
    }

    /// How many deliveries wait for each session, the running one included.
    pub fn waiting(&self) -> impl Iterator<Item = (&Slug, usize)> {
        self.sessions.iter().map(|(slug, session)| (slug, session.queue.len()))
    }

    /// What to do after something happened.
    pub fn handle(&mut self, input: Input) -> Vec<Command> {
        let mut out = Vec::new();
        match input {
            Input::Enqueued(job) => self.enqueued(job, &mut out),
            Input::Revive(slug) => {
                self.sessions.entry(slug.clone()).or_default().revives = true;
                self.advance(&slug, &mut out);
            }
            Input::Looked(slug, is_live) => {
                if is_live && self.doing(&slug) == Doing::WaitingForStart {
                    self.begin(slug, &mut out);
                }
            }
            Input::Started(slug, result) => self.started(&slug, result, &mut out),
            Input::Delivered(slug, delivered) => self.delivered(&slug, delivered, &mut out),
            Input::Closed(slug, result) => self.closed(&slug, result, &mut out),
            Input::Woke(slug) => {
                if matches!(self.doing(&slug), Doing::Pausing | Doing::Held(_)) {
                    self.set(&slug, Doing::Nothing);
                }
                self.advance(&slug, &mut out);
            }
            Input::Gathered(slug, delivery) => self.gathered(&slug, &delivery, &mut out),
            Input::Released(slug) => self.released(&slug, &mut out),
            Input::Paused(slug) => self.paused(&slug, &mut out),
        }
        out
    }

    fn enqueued(&mut self, job: Job, out: &mut Vec<Command>) {
        let (delivery, slug) = (job.delivery.clone(), job.slug.clone());
        let session = self.sessions.entry(slug.clone()).or_default();
        if session.queue.holds(&delivery) {
            return;
        }
        if job.task.is_close() {
            session.revives = false;
            // Closing ends the agent: what waits for it cannot be delivered any more.
            let running = match session.doing {
                Doing::Delivering => session.group,
                Doing::Starting | Doing::Closing => 1,
                _ => 0,
            };
            for dropped in session.queue.drop_behind(running) {
                out.push(dropped.closed_before());
            }
            match session.doing {
                Doing::Delivering => out.push(Command::CallOff(slug.clone())),
                Doing::Pausing | Doing::Held(_) | Doing::WaitingForStart | Doing::Gathering => {
                    session.doing = Doing::Nothing;
                }
                _ => {}
            }
        } else if session.doing != Doing::Nothing && !job.begun {
            let reason = match session.doing {
                Doing::Held(reason) => reason,
                _ => Reason::Waiting,
            };
            out.push(Command::Record {
                delivery: delivery.clone(),
                state: State::Queued,
                reason,
                detail: None,
            });
        }
        if job.gathers {
            out.push(Command::Gather(slug.clone(), delivery, GATHER));
        }
        session.queue.push(job);
        self.reconsider(&slug, out);
        self.advance(&slug, out);
    }

    fn started(
        &mut self,
        slug: &Slug,
        result: Result<Hosting, StartFailure>,
        out: &mut Vec<Command>,
    ) {
        let delivers = self.head(slug).is_some_and(|head| matches!(head.task, Task::Deliver));
        if !(delivers && result == Ok(Hosting::Headless)) {
            self.free_start(slug);
        }
        // Only what holds every start back is waited for: who paused a session did not
        // want it live.
        if let Some(session) = self.sessions.get_mut(slug)
            && !matches!(
                result,
                Ok(Hosting::Held(
                    Reason::SessionsFull | Reason::MemoryLow | Reason::WaitingForStart
                ))
            )
        {
            session.revives = false;
        }
        match result {
            Ok(Hosting::Held(reason)) => self.hold(slug, reason, out),
            Ok(_) => self.deliver(slug, out),
            Err(failure) => {
                self.set(slug, Doing::Nothing);
                let StartFailure { reason, detail, transient } = failure;
                self.offer_again(slug, reason, &detail, transient, out);
            }
        }
        self.advance(slug, out);
        self.start_waiting(out);
    }

    /// Delivers what waits together at the head of the queue.
    fn deliver(&mut self, slug: &Slug, out: &mut Vec<Command>) {
        let Some(session) = self.sessions.get_mut(slug) else { return };
        session.group = session.queue.together();
        if session.group == 0 {
            session.doing = Doing::Nothing;
            return;
        }
        session.doing = Doing::Delivering;
        let batch = session.queue.begin(session.group);
        out.push(Command::Deliver(slug.clone(), batch));
        // A close that came in meanwhile waits behind it.
        if session.queue.close_is_waiting() {
            out.push(Command::CallOff(slug.clone()));
        }
    }

    /// Keeps the session's queue until it is released.
    fn hold(&mut self, slug: &Slug, reason: Reason, out: &mut Vec<Command>) {
        self.head_waits(slug, reason, out);
        if self.close_is_waiting(slug) {
            // Nobody waits for a session that ends: what was first is not delivered.
            out.extend(self.end_first(slug, 1).map(Queued::closed_before));
            self.set(slug, Doing::Nothing);
            return;
        }
        self.set(slug, Doing::Held(reason));
        out.push(Command::AwaitRelease(slug.clone()));
    }

    /// Puts down that the first one waits. Of one that an earlier receiver began the
    /// inbox goes on to say so: by that, and by nothing else, the next receiver
    /// knows what began together with it.
    fn head_waits(&self, slug: &Slug, reason: Reason, out: &mut Vec<Command>) {
        if let Some(head) = self.head(slug).filter(|head| !head.is_stored_begun) {
            out.push(Command::Record {
                delivery: head.delivery.clone(),
                state: State::Queued,
                reason,
                detail: None,
            });
        }
    }

    fn delivered(&mut self, slug: &Slug, delivered: Delivered, out: &mut Vec<Command>) {
        self.free_start(slug);
        self.set(slug, Doing::Nothing);
        match delivered {
            Delivered::Ended(Outcome::Accepted) => {
                self.finish(slug, State::Delivered, Reason::Accepted, None, out);
            }
            Delivered::Ended(Outcome::Unproven) => {
                self.finish(slug, State::Unproven, Reason::NoSignal, None, out);
            }
            Delivered::Ended(Outcome::Failed(reason)) => {
                self.finish(slug, State::Failed, reason, None, out);
            }
            Delivered::Ended(Outcome::Gone) => {
                let detail = "the agent ended before it took the text";
                self.offer_again(slug, Reason::HarnessExited, detail, true, out);
            }
            Delivered::Turn { state, reason, detail } => {
                self.finish(slug, state, reason, detail.as_deref(), out);
            }
            Delivered::NeverBegan { reason, detail } => {
                self.offer_again(slug, reason, &detail, true, out);
            }
            Delivered::CalledOff | Delivered::Ended(Outcome::CalledOff) => {
                let group = self.group(slug);
                out.extend(self.end_first(slug, group).map(Queued::closed_before));
            }
            Delivered::GaveWay => {
                if let Some(session) = self.sessions.get_mut(slug) {
                    let of_an_earlier_run = session.queue.step_back(session.group);
                    out.extend(of_an_earlier_run.into_iter().map(|delivery| Command::Record {
                        delivery,
                        state: State::Queued,
                        reason: Reason::Waiting,
                        detail: None,
                    }));
                    session.group = 0;
                }
            }
            Delivered::Broken(detail) => {
                self.offer_again(slug, Reason::TmuxFailed, &detail, true, out);
            }
        }
        self.advance(slug, out);
        self.start_waiting(out);
    }

    fn closed(&mut self, slug: &Slug, result: Result<(), String>, out: &mut Vec<Command>) {
        self.set(slug, Doing::Nothing);
        match result {
            Ok(()) => out.extend(self.end_first(slug, 1).map(Queued::closed_before)),
            Err(detail) => self.offer_again(slug, Reason::TmuxFailed, &detail, true, out),
        }
        self.advance(slug, out);
    }

    /// An attempt failed: it is offered again after a pause, or given up.
    fn offer_again(
        &mut self,
        slug: &Slug,
        reason: Reason,
        detail: &str,
        transient: bool,
        out: &mut Vec<Command>,
    ) {
        let closing = self.close_is_waiting(slug);
        let group = self.group(slug);
        // One that nobody waits for is not tried again.
        let Some(session) = self.sessions.get_mut(slug).filter(|s| s.queue.head().is_some()) else {
            return;
        };
        let mut attempts = 0;
        for queued in session.queue.first_mut(group) {
            queued.attempts += 1;
            attempts = attempts.max(queued.attempts);
        }
        if !transient || closing || attempts >= MAX_ATTEMPTS {
            self.finish(slug, State::Failed, reason, Some(detail), out);
            return;
        }
        for queued in session.queue.first_mut(group) {
            queued.is_stored_begun = false;
            out.push(Command::Record {
                delivery: queued.delivery.clone(),
                state: State::Queued,
                reason,
                detail: Some(detail.to_owned()),
            });
        }
        session.group = 0;
        let pause = FIRST_PAUSE * 2_u32.pow(u32::from(attempts.max(1)) - 1);
        out.push(Command::Pause(slug.clone(), pause));
        self.set(slug, Doing::Pausing);
    }

    fn finish(
        &mut self,
        slug: &Slug,
        state: State,
        reason: Reason,
        detail: Option<&str>,
        out: &mut Vec<Command>,
    ) {
        let group = self.group(slug);
        out.extend(self.end_first(slug, group).map(|queued| Command::Record {
            delivery: queued.delivery,
            state,
            reason,
            detail: detail.map(str::to_owned),
        }));
    }

    /// Begins the next job of a session that does nothing.
    fn advance(&mut self, slug: &Slug, out: &mut Vec<Command>) {
        if self.doing(slug) != Doing::Nothing {
            return;
        }
        match self.head(slug).map(|head| head.task) {
            None if self.sessions.get(slug).is_some_and(|session| session.revives) => {
                self.set(slug, Doing::WaitingForStart);
                self.waiting.push_back(slug.clone());
                self.start_waiting(out);
            }
            None => {
                self.sessions.remove(slug);
            }
            Some(Task::Deliver) if self.sessions.get(slug).is_some_and(|s| s.queue.gathers()) => {
                self.set(slug, Doing::Gathering);
            }
            Some(Task::Close(_)) => {
                self.set(slug, Doing::Closing);
                out.push(Command::Close(slug.clone()));
            }
            Some(Task::Deliver) => {
                self.set(slug, Doing::WaitingForStart);
                self.waiting.push_back(slug.clone());
                self.start_waiting(out);
                if self.doing(slug) == Doing::WaitingForStart {
                    self.head_waits(slug, Reason::WaitingForStart, out);
                    // One whose agent is there needs no start.
                    out.push(Command::Look(slug.clone()));
                }
            }
        }
    }

    fn head(&self, slug: &Slug) -> Option<&Queued> {
        self.sessions.get(slug)?.queue.head()
    }

    /// How many of the first the last answer was about.
    fn group(&self, slug: &Slug) -> usize {
        self.sessions.get(slug).map_or(0, |session| session.group.max(1))
    }

    /// Takes the first out of the queue.
    fn end_first(&mut self, slug: &Slug, number: usize) -> impl Iterator<Item = Queued> {
        self.sessions.get_mut(slug).into_iter().flat_map(move |session| {
            session.group = 0;
            session.queue.drop_first(number)
        })
    }

    fn close_is_waiting(&self, slug: &Slug) -> bool {
        self.sessions.get(slug).is_some_and(|session| session.queue.close_is_waiting())
    }

    fn doing(&self, slug: &Slug) -> Doing {
        self.sessions.get(slug).map(|session| session.doing).unwrap_or_default()
    }

    fn set(&mut self, slug: &Slug, doing: Doing) {
        if let Some(session) = self.sessions.get_mut(slug) {
            session.doing = doing;
        }
    }
}

#[cfg(test)]
mod tests;
