//! The dispatcher's decisions: one queue for each session in order of arrival,
//! sessions side by side, a cap on starts, bounded retries. A synchronous
//! machine: an input goes in, commands come out.
//!
//! Driven by `host::dispatch`, which runs the commands and reports back. Knows
//! nothing of disks, tmux or clocks; what it holds in memory is on disk too.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::base::ids::{DeliveryId, Slug};

use super::inject::Outcome;
use super::outcome::{Reason, State};

mod model;

pub use model::{Command, Delivered, Hosting, Input, Job, StartFailure, Task};

/// How often a delivery is offered before it counts as failed.
const MAX_ATTEMPTS: u8 = 3;
/// The pause before the first retry; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

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
    queue: VecDeque<Queued>,
    doing: Doing,
    /// Whether it takes up one of the starts that may be under way.
    holds_start: bool,
}

#[derive(Debug)]
struct Queued {
    delivery: DeliveryId,
    task: Task,
    attempts: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Doing {
    #[default]
    Nothing,
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

    /// How many headless turns run.
    #[cfg(test)]
    fn headless(&self) -> usize {
        let delivers = |session: &&Session| session.doing == Doing::Delivering;
        self.sessions.values().filter(delivers).filter(|session| session.holds_start).count()
    }

    /// What to do after something happened.
    pub fn handle(&mut self, input: Input) -> Vec<Command> {
        let mut out = Vec::new();
        match input {
            Input::Enqueued(job) => self.enqueued(job, &mut out),
            Input::Revive(slug) => {
                self.sessions.entry(slug.clone()).or_default();
                if self.doing(&slug) == Doing::Nothing {
                    self.set(&slug, Doing::WaitingForStart);
                    self.waiting.push_back(slug);
                    self.start_waiting(&mut out);
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
        }
        out
    }

    fn enqueued(&mut self, job: Job, out: &mut Vec<Command>) {
        let Job { delivery, slug, task } = job;
        let session = self.sessions.entry(slug.clone()).or_default();
        if session.queue.iter().any(|queued| queued.delivery == delivery) {
            return;
        }
        if task == Task::Close {
            // Closing ends the agent: what waits for it cannot be delivered any more.
            let running = usize::from(matches!(
                session.doing,
                Doing::Starting | Doing::Delivering | Doing::Closing
            ));
            for dropped in session.queue.drain(running.min(session.queue.len())..) {
                out.push(closed_before(dropped.delivery, dropped.task));
            }
            if session.doing == Doing::Delivering {
                out.push(Command::CallOff(slug.clone()));
            }
            if matches!(session.doing, Doing::Pausing | Doing::Held(_) | Doing::WaitingForStart) {
                session.doing = Doing::Nothing;
            }
        } else if session.doing != Doing::Nothing {
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
        session.queue.push_back(Queued { delivery, task, attempts: 0 });
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
        match result {
            Ok(Hosting::Held(reason)) => self.hold(slug, reason, out),
            Ok(_) => match self.head(slug) {
                Some(Queued { delivery, task: Task::Deliver, .. }) => {
                    let delivery = delivery.clone();
                    out.push(Command::Deliver(slug.clone(), delivery));
                    self.set(slug, Doing::Delivering);
                    // A close that came in meanwhile waits behind it.
                    if self.close_is_waiting(slug) {
                        out.push(Command::CallOff(slug.clone()));
                    }
                }
                _ => self.set(slug, Doing::Nothing),
            },
            Err(failure) => {
                self.set(slug, Doing::Nothing);
                let StartFailure { reason, detail, transient } = failure;
                self.offer_again(slug, reason, &detail, transient, out);
            }
        }
        self.advance(slug, out);
        self.start_waiting(out);
    }

    /// Keeps the session's queue until it is released.
    fn hold(&mut self, slug: &Slug, reason: Reason, out: &mut Vec<Command>) {
        if let Some(head) = self.head(slug) {
            out.push(Command::Record {
                delivery: head.delivery.clone(),
                state: State::Queued,
                reason,
                detail: None,
            });
        }
        if self.close_is_waiting(slug) {
            // Nobody waits for a session that ends: what was first is not delivered.
            if let Some(queued) = self.pop(slug) {
                out.push(closed_before(queued.delivery, queued.task));
            }
            self.set(slug, Doing::Nothing);
            return;
        }
        self.set(slug, Doing::Held(reason));
        out.push(Command::AwaitRelease(slug.clone()));
    }

    fn free_start(&mut self, slug: &Slug) {
        if let Some(session) = self.sessions.get_mut(slug)
            && std::mem::take(&mut session.holds_start)
        {
            self.starts = self.starts.saturating_sub(1);
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
                self.finish(slug, state, reason, detail, out);
            }
            Delivered::CalledOff | Delivered::Ended(Outcome::CalledOff) => {
                if let Some(queued) = self.pop(slug) {
                    out.push(closed_before(queued.delivery, queued.task));
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
            Ok(()) => self.finish(slug, State::Done, Reason::ItemClosed, None, out),
            Err(detail) => self.offer_again(slug, Reason::TmuxFailed, &detail, true, out),
        }
        self.advance(slug, out);
    }

    /// The head's attempt failed: it is offered again after a pause, or given up.
    fn offer_again(
        &mut self,
        slug: &Slug,
        reason: Reason,
        detail: &str,
        transient: bool,
        out: &mut Vec<Command>,
    ) {
        let closing = self.close_is_waiting(slug);
        let Some(head) = self.sessions.get_mut(slug).and_then(|session| session.queue.front_mut())
        else {
            return;
        };
        head.attempts += 1;
        if !transient || closing || head.attempts >= MAX_ATTEMPTS {
            self.finish(slug, State::Failed, reason, Some(detail.to_owned()), out);
            return;
        }
        let pause = FIRST_PAUSE * 2_u32.pow(u32::from(head.attempts) - 1);
        out.push(Command::Record {
            delivery: head.delivery.clone(),
            state: State::Queued,
            reason,
            detail: Some(detail.to_owned()),
        });
        out.push(Command::Pause(slug.clone(), pause));
        self.set(slug, Doing::Pausing);
    }

    fn finish(
        &mut self,
        slug: &Slug,
        state: State,
        reason: Reason,
        detail: Option<String>,
        out: &mut Vec<Command>,
    ) {
        if let Some(Queued { delivery, .. }) = self.pop(slug) {
            out.push(Command::Record { delivery, state, reason, detail });
        }
    }

    /// Begins the next job of a session that does nothing.
    fn advance(&mut self, slug: &Slug, out: &mut Vec<Command>) {
        if self.doing(slug) != Doing::Nothing {
            return;
        }
        match self.head(slug).map(|head| head.task) {
            None => {
                self.sessions.remove(slug);
            }
            Some(Task::Close) => {
                self.set(slug, Doing::Closing);
                out.push(Command::Close(slug.clone()));
            }
            Some(Task::Deliver) => {
                self.set(slug, Doing::WaitingForStart);
                self.waiting.push_back(slug.clone());
                self.start_waiting(out);
                if self.doing(slug) == Doing::WaitingForStart
                    && let Some(head) = self.head(slug)
                {
                    out.push(Command::Record {
                        delivery: head.delivery.clone(),
                        state: State::Queued,
                        reason: Reason::WaitingForStart,
                        detail: None,
                    });
                }
            }
        }
    }

    /// Starts sessions that wait for it, oldest first, while there is room.
    fn start_waiting(&mut self, out: &mut Vec<Command>) {
        while self.starts < self.max_starts {
            let Some(slug) = self.waiting.pop_front() else { return };
            if self.doing(&slug) != Doing::WaitingForStart {
                continue;
            }
            self.starts += 1;
            self.set(&slug, Doing::Starting);
            if let Some(session) = self.sessions.get_mut(&slug) {
                session.holds_start = true;
            }
            out.push(Command::Start(slug));
        }
    }

    fn head(&self, slug: &Slug) -> Option<&Queued> {
        self.sessions.get(slug)?.queue.front()
    }

    fn pop(&mut self, slug: &Slug) -> Option<Queued> {
        self.sessions.get_mut(slug)?.queue.pop_front()
    }

    fn close_is_waiting(&self, slug: &Slug) -> bool {
        self.sessions
            .get(slug)
            .is_some_and(|session| session.queue.iter().skip(1).any(|q| q.task == Task::Close))
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

fn closed_before(delivery: DeliveryId, task: Task) -> Command {
    let (state, reason) = match task {
        Task::Deliver => (State::Failed, Reason::ClosedBeforeDelivery),
        Task::Close => (State::Done, Reason::ItemClosed),
    };
    Command::Record { delivery, state, reason, detail: None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slug(number: u64) -> Slug {
        format!("o+r+{number}").parse().unwrap()
    }

    fn id(text: &str) -> DeliveryId {
        text.parse().unwrap()
    }

    fn deliver(text: &str, number: u64) -> Input {
        Input::Enqueued(Job { delivery: id(text), slug: slug(number), task: Task::Deliver })
    }

    fn close(text: &str, number: u64) -> Input {
        Input::Enqueued(Job { delivery: id(text), slug: slug(number), task: Task::Close })
    }

    fn accepted(number: u64) -> Input {
        Input::Delivered(slug(number), Delivered::Ended(Outcome::Accepted))
    }

    fn state_of(commands: &[Command], text: &str) -> Option<(State, Reason)> {
        commands.iter().rev().find_map(|command| match command {
            Command::Record { delivery, state, reason, .. } if *delivery == id(text) => {
                Some((*state, *reason))
            }
            _ => None,
        })
    }

    #[test]
    fn one_session_takes_its_deliveries_one_after_the_other() {
        let mut dispatcher = Dispatcher::new(4);
        assert_eq!(dispatcher.handle(deliver("a", 1)), [Command::Start(slug(1))]);
        let second = dispatcher.handle(deliver("b", 1));
        assert_eq!(state_of(&second, "b"), Some((State::Queued, Reason::Waiting)));
        let started = dispatcher.handle(Input::Started(slug(1), Ok(Hosting::Live)));
        assert_eq!(started, [Command::Deliver(slug(1), id("a"))]);
        let next = dispatcher.handle(accepted(1));
        assert_eq!(state_of(&next, "a"), Some((State::Delivered, Reason::Accepted)));
        assert!(next.contains(&Command::Start(slug(1))));
    }

    #[test]
    fn a_session_is_revived_without_an_event_and_an_event_meanwhile_waits() {
        let mut dispatcher = Dispatcher::new(1);
        assert_eq!(dispatcher.handle(Input::Revive(slug(1))), [Command::Start(slug(1))]);
        assert_eq!(dispatcher.handle(Input::Revive(slug(1))), []);
        assert_eq!(dispatcher.handle(Input::Revive(slug(2))), []);
        let waits = dispatcher.handle(deliver("a", 1));
        assert_eq!(state_of(&waits, "a"), Some((State::Queued, Reason::Waiting)));
        let started = dispatcher.handle(Input::Started(slug(1), Ok(Hosting::Live)));
        assert!(started.contains(&Command::Deliver(slug(1), id("a"))), "{started:?}");
        assert!(started.contains(&Command::Start(slug(2))), "{started:?}");
        let failed =
            StartFailure { reason: Reason::HarnessExited, detail: String::new(), transient: true };
        // Nobody waits for it, so it is not tried again.
        assert_eq!(dispatcher.handle(Input::Started(slug(2), Err(failed))), []);
        dispatcher.handle(accepted(1));
        assert_eq!(dispatcher.waiting().count(), 0);
    }

    #[test]
    fn sessions_do_not_wait_for_each_other_but_starts_are_capped() {
        let mut dispatcher = Dispatcher::new(2);
        assert_eq!(dispatcher.handle(deliver("a", 1)), [Command::Start(slug(1))]);
        assert_eq!(dispatcher.handle(deliver("b", 2)), [Command::Start(slug(2))]);
        let third = dispatcher.handle(deliver("c", 3));
        assert_eq!(state_of(&third, "c"), Some((State::Queued, Reason::WaitingForStart)));
        let commands = dispatcher.handle(Input::Started(slug(2), Ok(Hosting::Live)));
        assert!(commands.contains(&Command::Start(slug(3))));
    }

    #[test]
    fn a_headless_turn_takes_up_a_start_until_its_end() {
        let mut dispatcher = Dispatcher::new(1);
        dispatcher.handle(deliver("a", 1));
        dispatcher.handle(deliver("b", 2));
        let commands = dispatcher.handle(Input::Started(slug(1), Ok(Hosting::Headless)));
        assert_eq!(commands, [Command::Deliver(slug(1), id("a"))]);
        let turn = Delivered::Turn {
            state: State::Delivered,
            reason: Reason::Accepted,
            detail: Some("2 s".to_owned()),
        };
        let commands = dispatcher.handle(Input::Delivered(slug(1), turn));
        assert_eq!(state_of(&commands, "a"), Some((State::Delivered, Reason::Accepted)));
        assert!(commands.contains(&Command::Start(slug(2))));
    }

    #[test]
    fn a_held_session_takes_up_no_start_and_keeps_its_order() {
        let mut dispatcher = Dispatcher::new(1);
        dispatcher.handle(deliver("a", 1));
        dispatcher.handle(deliver("b", 1));
        dispatcher.handle(deliver("c", 2));
        let held = Input::Started(slug(1), Ok(Hosting::Held(Reason::SessionPaused)));
        let commands = dispatcher.handle(held);
        assert_eq!(state_of(&commands, "a"), Some((State::Queued, Reason::SessionPaused)));
        assert!(commands.contains(&Command::AwaitRelease(slug(1))));
        assert!(commands.contains(&Command::Start(slug(2))));
        dispatcher.handle(Input::Started(slug(2), Ok(Hosting::Live)));
        let commands = dispatcher.handle(Input::Woke(slug(1)));
        assert!(commands.contains(&Command::Start(slug(1))));
        let commands = dispatcher.handle(Input::Started(slug(1), Ok(Hosting::Headless)));
        assert_eq!(commands, [Command::Deliver(slug(1), id("a"))]);
    }

    #[test]
    fn closing_a_held_session_does_not_wait_for_its_release() {
        let mut dispatcher = Dispatcher::new(1);
        dispatcher.handle(deliver("a", 1));
        dispatcher.handle(Input::Started(slug(1), Ok(Hosting::Held(Reason::Attached))));
        let commands = dispatcher.handle(close("b", 1));
        assert_eq!(state_of(&commands, "a"), Some((State::Failed, Reason::ClosedBeforeDelivery)));
        assert!(commands.contains(&Command::Close(slug(1))));
    }

    #[test]
    fn a_transient_failure_is_tried_again_and_then_reported() {
        let mut dispatcher = Dispatcher::new(1);
        dispatcher.handle(deliver("a", 1));
        let failure = StartFailure {
            reason: Reason::TmuxFailed,
            detail: "no server".into(),
            transient: true,
        };
        for attempt in 1..=2 {
            let commands = dispatcher.handle(Input::Started(slug(1), Err(failure.clone())));
            assert_eq!(state_of(&commands, "a"), Some((State::Queued, Reason::TmuxFailed)));
            assert!(commands.contains(&Command::Pause(slug(1), FIRST_PAUSE * attempt)));
            assert_eq!(dispatcher.handle(Input::Woke(slug(1))), [Command::Start(slug(1))]);
        }
        let last = dispatcher.handle(Input::Started(slug(1), Err(failure)));
        assert_eq!(state_of(&last, "a"), Some((State::Failed, Reason::TmuxFailed)));
        assert_eq!(dispatcher.waiting().count(), 0);
    }

    #[test]
    fn a_failed_delivery_does_not_block_the_next() {
        let mut dispatcher = Dispatcher::new(1);
        dispatcher.handle(deliver("a", 1));
        dispatcher.handle(deliver("b", 1));
        let failure =
            StartFailure { reason: Reason::HarnessExited, detail: "boom".into(), transient: false };
        let commands = dispatcher.handle(Input::Started(slug(1), Err(failure)));
        assert_eq!(state_of(&commands, "a"), Some((State::Failed, Reason::HarnessExited)));
        assert!(commands.contains(&Command::Start(slug(1))));
    }

    #[test]
    fn closing_reports_what_waits_and_calls_off_what_runs() {
        let mut dispatcher = Dispatcher::new(1);
        dispatcher.handle(deliver("a", 1));
        dispatcher.handle(Input::Started(slug(1), Ok(Hosting::Live)));
        dispatcher.handle(deliver("b", 1));
        let commands = dispatcher.handle(close("c", 1));
        assert_eq!(state_of(&commands, "b"), Some((State::Failed, Reason::ClosedBeforeDelivery)));
        assert!(commands.contains(&Command::CallOff(slug(1))));
        let commands = dispatcher.handle(Input::Delivered(slug(1), Delivered::CalledOff));
        assert_eq!(state_of(&commands, "a"), Some((State::Failed, Reason::ClosedBeforeDelivery)));
        assert!(commands.contains(&Command::Close(slug(1))));
        let commands = dispatcher.handle(Input::Closed(slug(1), Ok(())));
        assert_eq!(state_of(&commands, "c"), Some((State::Done, Reason::ItemClosed)));
    }

    #[test]
    fn closing_a_session_that_waits_for_its_start_does_not_start_it() {
        let mut dispatcher = Dispatcher::new(1);
        dispatcher.handle(deliver("a", 1));
        dispatcher.handle(deliver("b", 2));
        let commands = dispatcher.handle(close("c", 2));
        assert_eq!(state_of(&commands, "b"), Some((State::Failed, Reason::ClosedBeforeDelivery)));
        assert!(commands.contains(&Command::Close(slug(2))));
        let commands = dispatcher.handle(Input::Started(slug(1), Ok(Hosting::Live)));
        assert!(!commands.contains(&Command::Start(slug(2))));
    }

    #[test]
    fn a_delivery_that_is_queued_twice_is_delivered_once() {
        let mut dispatcher = Dispatcher::new(1);
        dispatcher.handle(deliver("a", 1));
        assert_eq!(dispatcher.handle(deliver("a", 1)), []);
    }

    /// What a driver may do next, chosen by the property test.
    fn answer(command: &Command, roll: u8) -> Option<Input> {
        let failure = StartFailure {
            reason: Reason::TmuxFailed,
            detail: String::new(),
            transient: roll < 60,
        };
        match command {
            Command::Start(slug) if roll < 40 => Some(Input::Started(slug.clone(), Err(failure))),
            Command::Start(slug) if roll < 60 => {
                Some(Input::Started(slug.clone(), Ok(Hosting::Held(Reason::SessionPaused))))
            }
            Command::Start(slug) => {
                let hosting =
                    if roll.is_multiple_of(2) { Hosting::Live } else { Hosting::Headless };
                Some(Input::Started(slug.clone(), Ok(hosting)))
            }
            Command::Deliver(slug, _) => {
                let ended = match roll {
                    0..20 => Delivered::Ended(Outcome::Gone),
                    20..30 => Delivered::Broken(String::new()),
                    30..40 => Delivered::Ended(Outcome::Unproven),
                    _ => Delivered::Ended(Outcome::Accepted),
                };
                Some(Input::Delivered(slug.clone(), ended))
            }
            Command::Close(slug) => Some(Input::Closed(slug.clone(), Ok(()))),
            Command::AwaitRelease(slug) | Command::Pause(slug, _) => {
                Some(Input::Woke(slug.clone()))
            }
            Command::CallOff(_) | Command::Record { .. } => None,
        }
    }

    proptest! {
        #[test]
        fn under_any_interleaving_order_holds_and_everything_ends(
            jobs in prop::collection::vec((1_u64..4, prop::bool::weighted(0.1)), 1..30),
            rolls in prop::collection::vec((any::<u8>(), any::<prop::sample::Index>()), 400),
        ) {
            let mut dispatcher = Dispatcher::new(2);
            let mut pending: Vec<Command> = Vec::new();
            let mut delivered: BTreeMap<Slug, Vec<usize>> = BTreeMap::new();
            let mut ended: BTreeMap<DeliveryId, State> = BTreeMap::new();
            let mut jobs_in = jobs.iter().enumerate();
            let mut rolls = rolls.iter().cycle();
            for _ in 0..10_000 {
                let (roll, index) = rolls.next().unwrap();
                let input = if *roll % 3 == 0 && let Some((number, (session, closes))) = jobs_in.next() {
                    let task = if *closes { Task::Close } else { Task::Deliver };
                    Input::Enqueued(Job { delivery: id(&number.to_string()), slug: slug(*session), task })
                } else if pending.is_empty() {
                    if jobs_in.len() == 0 { break }
                    continue;
                } else {
                    let command = pending.remove(index.index(pending.len()));
                    match answer(&command, *roll) { Some(input) => input, None => continue }
                };
                for command in dispatcher.handle(input) {
                    match &command {
                        Command::Record { delivery, state, .. } if state.is_final() => {
                            prop_assert!(ended.insert(delivery.clone(), *state).is_none(), "ended twice");
                        }
                        Command::Deliver(slug, delivery) => {
                            prop_assert!(!ended.contains_key(delivery));
                            let order = delivered.entry(slug.clone()).or_default();
                            order.push(delivery.as_str().parse().unwrap());
                            prop_assert!(order.is_sorted(), "order was lost: {order:?}");
                        }
                        _ => {}
                    }
                    pending.push(command);
                }
                let running = pending.iter().filter(|c| matches!(c, Command::Start(_))).count()
                    + dispatcher.headless();
                prop_assert!(running <= 2, "more starts than allowed");
            }
            prop_assert_eq!(ended.len(), jobs.len(), "some deliveries never ended");
            prop_assert_eq!(dispatcher.waiting().count(), 0);
        }
    }
}
