//! What the dispatcher decides, by example; `any_order`: under any interleaving.

use super::*;
use crate::base::ids::DeliveryId;

mod any_order;

fn slug(number: u64) -> Slug {
    format!("o+r+{number}").parse().unwrap()
}

fn id(text: &str) -> DeliveryId {
    text.parse().unwrap()
}

fn deliver(text: &str, number: u64) -> Input {
    Input::Enqueued(Job::new(id(text), slug(number), Task::Deliver))
}

fn close(text: &str, number: u64) -> Input {
    Input::Enqueued(Job::new(id(text), slug(number), Task::Close(Reason::ItemClosed)))
}

fn urgent(text: &str, number: u64) -> Input {
    let job = Job::new(id(text), slug(number), Task::Deliver);
    Input::Enqueued(Job { now: true, ..job })
}

fn delivers(number: u64, texts: &[&str]) -> Command {
    let deliveries = texts.iter().map(|text| id(text)).collect();
    Command::Deliver(slug(number), Batch { deliveries, now: false, released: false })
}

fn live(number: u64) -> Input {
    Input::Started(slug(number), Ok(Hosting::Live))
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
    let started = dispatcher.handle(live(1));
    assert_eq!(started, [delivers(1, &["a"])]);
    let second = dispatcher.handle(deliver("b", 1));
    assert_eq!(state_of(&second, "b"), Some((State::Queued, Reason::Waiting)));
    let next = dispatcher.handle(accepted(1));
    assert_eq!(state_of(&next, "a"), Some((State::Delivered, Reason::Accepted)));
    assert!(next.contains(&Command::Start(slug(1))));
}

#[test]
fn an_event_for_an_agent_that_is_there_waits_for_no_start() {
    let mut dispatcher = Dispatcher::new(1);
    assert_eq!(dispatcher.handle(deliver("a", 1)), [Command::Start(slug(1))]);
    for number in [2, 3] {
        let waits = dispatcher.handle(deliver(&format!("b{number}"), number));
        assert!(waits.contains(&Command::Look(slug(number))), "{waits:?}");
    }
    assert_eq!(dispatcher.handle(Input::Looked(slug(3), false)), []);
    assert_eq!(dispatcher.handle(Input::Looked(slug(2), true)), [Command::Start(slug(2))]);
    assert_eq!(dispatcher.handle(live(2)), [delivers(2, &["b2"])]);
    assert!(!dispatcher.handle(accepted(2)).contains(&Command::Start(slug(3))));
    // The one start is free only now.
    assert!(dispatcher.handle(live(1)).contains(&Command::Start(slug(3))));
    // An answer that comes too late changes nothing.
    assert_eq!(dispatcher.handle(Input::Looked(slug(3), true)), []);
}

#[test]
fn a_session_that_a_limit_holds_back_is_revived_when_there_is_room() {
    for (reason, comes_back) in [(Reason::MemoryLow, true), (Reason::SessionPaused, false)] {
        let mut dispatcher = Dispatcher::new(1);
        dispatcher.handle(Input::Revive(slug(1)));
        let held = dispatcher.handle(Input::Started(slug(1), Ok(Hosting::Held(reason))));
        assert_eq!(held, [Command::AwaitRelease(slug(1))]);
        let woke = dispatcher.handle(Input::Woke(slug(1)));
        assert_eq!(woke.contains(&Command::Start(slug(1))), comes_back, "{woke:?}");
        dispatcher.handle(live(1));
        assert_eq!(dispatcher.waiting().count(), 0);
    }
}

#[test]
fn a_session_is_revived_without_an_event_and_an_event_meanwhile_waits() {
    let mut dispatcher = Dispatcher::new(1);
    assert_eq!(dispatcher.handle(Input::Revive(slug(1))), [Command::Start(slug(1))]);
    assert_eq!(dispatcher.handle(Input::Revive(slug(1))), []);
    assert_eq!(dispatcher.handle(Input::Revive(slug(2))), []);
    let waits = dispatcher.handle(deliver("a", 1));
    assert_eq!(state_of(&waits, "a"), Some((State::Queued, Reason::Waiting)));
    let started = dispatcher.handle(live(1));
    assert!(started.contains(&delivers(1, &["a"])), "{started:?}");
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
    assert_eq!(commands, [delivers(1, &["a"])]);
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
    assert_eq!(commands, [delivers(1, &["a", "b"])]);
}

#[test]
fn what_an_earlier_receiver_began_is_taken_up_and_what_gave_way_is_held_back() {
    let mut dispatcher = Dispatcher::new(1);
    let begun = Job { begun: true, ..Job::new(id("a"), slug(1), Task::Deliver) };
    assert_eq!(dispatcher.handle(Input::Enqueued(begun)), [Command::TakeUp(slug(1))]);
    assert_eq!(dispatcher.handle(deliver("b", 1)).len(), 1);
    let commands = dispatcher.handle(Input::Started(slug(1), Ok(Hosting::Headless)));
    assert_eq!(commands, [delivers(1, &["a"])]);
    // Nobody had begun it after all: it is as every other, and told with others.
    let commands = dispatcher.handle(Input::Delivered(slug(1), Delivered::GaveWay));
    assert_eq!(state_of(&commands, "a"), Some((State::Queued, Reason::Waiting)));
    assert!(commands.contains(&Command::Start(slug(1))), "{commands:?}");
    let held = Ok(Hosting::Held(Reason::SessionPaused));
    let commands = dispatcher.handle(Input::Started(slug(1), held));
    assert_eq!(state_of(&commands, "a"), Some((State::Queued, Reason::SessionPaused)));
    dispatcher.handle(Input::Woke(slug(1)));
    let commands = dispatcher.handle(Input::Started(slug(1), Ok(Hosting::Headless)));
    assert_eq!(commands, [delivers(1, &["a", "b"])]);
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
    let failure =
        StartFailure { reason: Reason::TmuxFailed, detail: "no server".into(), transient: true };
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
fn a_headless_turn_that_never_began_is_tried_again_and_then_reported() {
    let mut dispatcher = Dispatcher::new(1);
    dispatcher.handle(deliver("a", 1));
    let never = || Delivered::NeverBegan {
        reason: Reason::HarnessExited,
        detail: "the agent ended with exit code 3 and no result".to_owned(),
    };
    for attempt in 1..=2 {
        dispatcher.handle(Input::Started(slug(1), Ok(Hosting::Headless)));
        let commands = dispatcher.handle(Input::Delivered(slug(1), never()));
        assert_eq!(state_of(&commands, "a"), Some((State::Queued, Reason::HarnessExited)));
        assert!(commands.contains(&Command::Pause(slug(1), FIRST_PAUSE * attempt)));
        // What comes meanwhile is told after it, not with it.
        dispatcher.handle(deliver(&format!("b-{attempt}"), 1));
        assert_eq!(dispatcher.handle(Input::Woke(slug(1))), [Command::Start(slug(1))]);
    }
    let again = dispatcher.handle(Input::Started(slug(1), Ok(Hosting::Headless)));
    assert_eq!(again, [delivers(1, &["a"])]);
    let last = dispatcher.handle(Input::Delivered(slug(1), never()));
    assert_eq!(state_of(&last, "a"), Some((State::Failed, Reason::HarnessExited)));
    assert!(last.contains(&Command::Start(slug(1))));
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
fn what_ends_a_session_is_done_for_its_own_reason() {
    for reason in [Reason::StoppedByHand, Reason::ClosedByHand, Reason::ItemClosed] {
        let mut dispatcher = Dispatcher::new(1);
        let end = Job::new(id("c"), slug(1), Task::Close(reason));
        dispatcher.handle(Input::Enqueued(end));
        let commands = dispatcher.handle(Input::Closed(slug(1), Ok(())));
        assert_eq!(state_of(&commands, "c"), Some((State::Done, reason)));
    }
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

#[test]
fn what_waits_together_is_told_together() {
    let mut dispatcher = Dispatcher::new(4);
    dispatcher.handle(deliver("a", 1));
    dispatcher.handle(live(1));
    // The agent is busy, so the first stands at the gate: the others join it.
    assert!(dispatcher.handle(deliver("b", 1)).contains(&Command::GiveWay(slug(1))));
    dispatcher.handle(deliver("c", 1));
    let commands = dispatcher.handle(Input::Delivered(slug(1), Delivered::GaveWay));
    assert!(commands.contains(&Command::Start(slug(1))), "{commands:?}");
    assert_eq!(dispatcher.handle(live(1)), [delivers(1, &["a", "b", "c"])]);
    let commands = dispatcher.handle(accepted(1));
    for each in ["a", "b", "c"] {
        assert_eq!(state_of(&commands, each), Some((State::Delivered, Reason::Accepted)));
    }
}

#[test]
fn an_urgent_one_makes_what_waits_at_the_gate_give_way_and_waits_for_no_turn() {
    let mut dispatcher = Dispatcher::new(4);
    dispatcher.handle(deliver("a", 1));
    dispatcher.handle(live(1));
    assert!(dispatcher.handle(urgent("b", 1)).contains(&Command::GiveWay(slug(1))));
    dispatcher.handle(Input::Delivered(slug(1), Delivered::GaveWay));
    let commands = dispatcher.handle(live(1));
    let batch = Batch { deliveries: vec![id("b")], now: true, released: false };
    assert_eq!(commands, [Command::Deliver(slug(1), batch)]);
    dispatcher.handle(accepted(1));
    assert_eq!(dispatcher.handle(live(1)), [delivers(1, &["a"])]);
}

#[test]
fn a_person_lets_in_what_waits() {
    let mut dispatcher = Dispatcher::new(4);
    dispatcher.handle(deliver("a", 1));
    dispatcher.handle(live(1));
    assert_eq!(dispatcher.handle(Input::Released(slug(1))), [Command::GiveWay(slug(1))]);
    dispatcher.handle(Input::Delivered(slug(1), Delivered::GaveWay));
    let batch = Batch { deliveries: vec![id("a")], now: true, released: true };
    assert_eq!(dispatcher.handle(live(1)), [Command::Deliver(slug(1), batch)]);
    assert_eq!(dispatcher.handle(Input::Released(slug(2))), []);
}

#[test]
fn a_review_waits_for_its_comments_and_for_nothing_else() {
    let review = |text: &str, number| {
        Input::Enqueued(Job { gathers: true, ..Job::new(id(text), slug(number), Task::Deliver) })
    };
    let mut dispatcher = Dispatcher::new(4);
    assert_eq!(
        dispatcher.handle(review("a", 1)),
        [Command::Gather(slug(1), id("a"), Duration::from_secs(3))]
    );
    dispatcher.handle(review("b", 1));
    let commands = dispatcher.handle(Input::Gathered(slug(1), id("a")));
    assert!(commands.contains(&Command::Start(slug(1))));
    assert_eq!(dispatcher.handle(live(1)), [delivers(1, &["a", "b"])]);
    // An urgent event does not wait for a review.
    dispatcher.handle(review("c", 2));
    assert!(dispatcher.handle(urgent("d", 2)).contains(&Command::Start(slug(2))));
    // The session's end does not either.
    dispatcher.handle(review("e", 3));
    let commands = dispatcher.handle(close("x", 3));
    assert_eq!(state_of(&commands, "e"), Some((State::Failed, Reason::ClosedBeforeDelivery)));
    assert!(commands.contains(&Command::Close(slug(3))));
}

/// A delivery that an earlier receiver had begun.
fn begun(text: &str) -> Input {
    Input::Enqueued(Job { begun: true, ..Job::new(id(text), slug(1), Task::Deliver) })
}

#[test]
fn what_an_earlier_receiver_began_is_not_put_down_as_waiting() {
    // Whatever keeps it: another that starts, a pause, a person who drives.
    let mut dispatcher = Dispatcher::new(1);
    dispatcher.handle(deliver("x", 2));
    let mut commands = Vec::new();
    for each in ["a", "b", "c"] {
        commands.extend(dispatcher.handle(begun(each)));
    }
    commands.extend(dispatcher.handle(Input::Started(slug(2), Ok(Hosting::Live))));
    let held = Input::Started(slug(1), Ok(Hosting::Held(Reason::SessionPaused)));
    commands.extend(dispatcher.handle(held));
    for each in ["a", "b", "c"] {
        assert_eq!(state_of(&commands, each), None, "{commands:?}");
    }
    dispatcher.handle(deliver("d", 1));
    dispatcher.handle(Input::Woke(slug(1)));
    assert_eq!(dispatcher.handle(live(1)), [delivers(1, &["a", "b", "c"])]);
    // Nothing of them is in the box after all: now the inbox must say so.
    let commands = dispatcher.handle(Input::Delivered(slug(1), Delivered::GaveWay));
    for each in ["a", "b", "c"] {
        assert_eq!(state_of(&commands, each), Some((State::Queued, Reason::Waiting)));
    }
    assert_eq!(dispatcher.handle(live(1)), [delivers(1, &["a", "b", "c", "d"])]);
}
