//! What is said of which event, how often, and within which budget.

use proptest::prelude::*;

use super::model::TRIES;
use super::*;
use crate::core::event::parse;

fn time(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn pace() -> Pace {
    Pace { apart: SignedDuration::from_secs(1), settles: SignedDuration::from_secs(10) }
}

fn routing() -> Routing {
    let repositories = vec!["o/r".parse().unwrap()];
    Routing { authorized_users: vec!["alice".to_owned()], repositories, ..Routing::default() }
}

fn name(n: usize) -> DeliveryId {
    format!("d-{n}").parse().unwrap()
}

fn event(kind: &str, sender: &str, more: &str) -> Event {
    let text = format!(
        r#"{{"sender": {{"login": "{sender}"}},
             "repository": {{"html_url": "https://github.com/o/r"}}, {more}}}"#
    );
    parse(kind, text.as_bytes()).unwrap()
}

const ISSUE: &str = r#""issue": {"number": 7, "user": {"login": "alice"},
    "html_url": "https://github.com/o/r/issues/7"}"#;

fn labeled(sender: &str) -> Event {
    event("issues", sender, &format!(r#""action": "labeled", "label": {{"name": "x"}}, {ISSUE}"#))
}

fn comment(sender: &str, author: &str, id: usize) -> Event {
    let comment = format!(
        r#""action": "created", {ISSUE}, "comment": {{"id": {id}, "body": "b",
           "user": {{"login": "{author}"}},
           "html_url": "https://github.com/o/r/issues/7#issuecomment-{id}"}}"#
    );
    event("issue_comment", sender, &comment)
}

fn session(seconds: i64) -> TheSession {
    let item = "o/r#7".parse().unwrap();
    TheSession { item, created_at: time(seconds), is_headless: false }
}

fn on() -> Telling {
    let mut telling = Telling::default();
    assert!(telling.turn(true, true, time(0)));
    telling.begin_at(10, BTreeSet::from([3]));
    telling
}

#[derive(Clone, Copy)]
struct At(usize, State, Reason);

/// What is told of a delivery that comes to stand there.
fn told(
    telling: &mut Telling,
    event: &Event,
    at: At,
    session: impl Into<Option<TheSession>>,
) -> Vec<Words> {
    let At(n, state, reason) = at;
    let before = telling.waiting.clone();
    let (place, delivery) = (i64::try_from(n).unwrap(), &name(n));
    let moved = Moved { place, delivery, state, reason, event, session: session.into() };
    telling.moved(&moved, &routing(), time(100));
    telling.stands(place, state);
    let is_new = |of: &&Saying| !before.contains(of);
    telling.waiting.iter().filter(is_new).map(|of| of.words.clone()).collect()
}

const ACCEPTED: (State, Reason) = (State::Delivered, Reason::Accepted);
const EXITED: (State, Reason) = (State::Failed, Reason::HarnessExited);

fn at(n: usize, (state, reason): (State, Reason)) -> At {
    At(n, state, reason)
}

fn eyes(on: Target) -> Words {
    Words::React { on, with: Reaction::Eyes }
}

fn confused(on: Target) -> Words {
    Words::React { on, with: Reaction::Confused }
}

#[test]
fn what_was_taken_and_what_failed_is_told_where_github_lets_one_react() {
    let mut all = on();
    let of = |all: &mut Telling, event: &Event, place| told(all, event, place, None);
    let (label, said) = (labeled("alice"), comment("alice", "alice", 5));
    assert_eq!(of(&mut all, &label, at(11, ACCEPTED)), [eyes(Target::Item(7))]);
    assert_eq!(of(&mut all, &said, at(12, ACCEPTED)), [eyes(Target::Comment(5))]);
    let given_up = Words::GivenUp {
        on: "o/r#7".parse().unwrap(),
        delivery: name(13),
        reason: Reason::HarnessExited,
        url: Some("https://github.com/o/r/issues/7#issuecomment-6".to_owned()),
    };
    let said = comment("alice", "alice", 6);
    assert_eq!(of(&mut all, &said, at(13, EXITED)), [confused(Target::Comment(6)), given_up]);
    let on_lines = event(
        "pull_request_review_comment",
        "alice",
        r#""action": "created", "pull_request": {"number": 9, "user": {"login": "alice"}},
           "comment": {"id": 8, "body": "b", "user": {"login": "alice"}}"#,
    );
    assert_eq!(of(&mut all, &on_lines, at(14, ACCEPTED)), [eyes(Target::ReviewComment(8))]);
    let review = event(
        "pull_request_review",
        "alice",
        r#""action": "submitted", "pull_request": {"number": 9, "user": {"login": "alice"}},
           "review": {"id": 4, "state": "approved", "body": "b", "user": {"login": "alice"}}"#,
    );
    assert_eq!(of(&mut all, &review, at(15, ACCEPTED)), []);
    let check = event(
        "check_run",
        "alice",
        r#""action": "completed", "check_run": {"name": "t", "conclusion": "failure",
           "head_sha": "0123456789"}"#,
    );
    for place in [at(16, ACCEPTED), at(17, EXITED)] {
        assert_eq!(of(&mut all, &check, place), []);
    }
    // Anything else that can become of one, and the end of a session.
    for (n, state, reason) in [
        (18, State::Received, Reason::Stored),
        (19, State::Queued, Reason::Waiting),
        (20, State::Injecting, Reason::Pasted),
        (21, State::Done, Reason::PausedByHand),
        (22, State::Ignored, Reason::OwnVoice),
        (23, State::Unproven, Reason::NoSignal),
    ] {
        assert_eq!(of(&mut all, &comment("alice", "alice", n), At(n, state, reason)), []);
    }
    let closed = event("issues", "alice", &format!(r#""action": "closed", {ISSUE}"#));
    assert_eq!(of(&mut all, &closed, at(24, EXITED)), []);
    assert_eq!(all.open, BTreeSet::from([3, 18, 19, 20]));
    assert_eq!(all.latest, 24);
    // The person who closed the session knows that.
    let behind = At(25, State::Failed, Reason::ClosedBeforeDelivery);
    let said = comment("alice", "alice", 25);
    assert_eq!(of(&mut all, &said, behind), [confused(Target::Comment(25))]);
}

#[test]
fn a_stranger_is_told_nothing() {
    for event in [
        labeled("mallory"),
        comment("mallory", "mallory", 5),
        comment("alice", "mallory", 5),
        comment("mallory", "alice", 5),
        comment("", "alice", 5),
    ] {
        for place in [at(11, ACCEPTED), at(12, EXITED)] {
            assert_eq!(told(&mut on(), &event, place, session(50)), [], "{event:?}");
        }
    }
    // Another repository than those that are worked on.
    let listed = Routing { repositories: vec!["o/other".parse().unwrap()], ..routing() };
    let mut all = on();
    let event = labeled("alice");
    let moved = Moved {
        place: 11,
        delivery: &name(11),
        state: State::Failed,
        reason: Reason::HarnessExited,
        event: &event,
        session: None,
    };
    all.moved(&moved, &listed, time(100));
    assert_eq!(all.waiting(), 0);
}

#[test]
fn a_headless_turn_is_taken_when_it_begins_and_that_is_said_once() {
    let mut all = on();
    let said = comment("alice", "alice", 5);
    let runs = || At(11, State::Injecting, Reason::TurnRunning);
    assert_eq!(told(&mut all, &said, runs(), None), [eyes(Target::Comment(5))]);
    let first = all.waiting[0].clone();
    all.ended(&first, End::Said);
    assert_eq!(told(&mut all, &said, runs(), None), []);
    assert_eq!(told(&mut all, &said, at(11, ACCEPTED), None), []);
    // What it fails of is said.
    let runs = At(12, State::Injecting, Reason::TurnRunning);
    let said = comment("alice", "alice", 6);
    assert_eq!(told(&mut all, &said, runs, None), [eyes(Target::Comment(6))]);
    assert_eq!(told(&mut all, &said, at(12, EXITED), None)[0], confused(Target::Comment(6)));
    assert!(all.taken.is_empty() && all.open == BTreeSet::from([3]));
}

#[test]
fn the_start_of_a_session_is_told_once_and_none_of_the_past() {
    let mut all = on();
    let item = || "o/r#7".parse().unwrap();
    let started = |at| Words::Started { item: item(), created_at: time(at), is_headless: false };
    let label = labeled("alice");
    assert_eq!(told(&mut all, &label, at(11, ACCEPTED), session(-1)).len(), 1, "made before");
    assert_eq!(told(&mut all, &label, at(12, EXITED), session(5)).len(), 2, "none began");
    assert!(told(&mut all, &label, at(13, ACCEPTED), session(5)).contains(&started(5)));
    let first = all.waiting.iter().find(|of| of.words == started(5)).unwrap().clone();
    all.ended(&first, End::Said);
    assert_eq!(told(&mut all, &label, at(14, ACCEPTED), session(5)), []);
    // Another session of the item.
    assert_eq!(told(&mut all, &label, at(15, ACCEPTED), session(9)), [started(9)]);
    // Nor is anything said in a repository that is not worked on.
    let elsewhere = TheSession { item: "x/y#7".parse().unwrap(), ..session(9) };
    assert_eq!(told(&mut all, &label, at(16, ACCEPTED), elsewhere), []);
    // A check may not speak for its author.
    let mut all = on();
    assert_eq!(told(&mut all, &comment("alice", "bob", 1), at(11, ACCEPTED), session(5)), []);
    // What was off has no past when it is on again.
    all.turn(true, false, time(10));
    assert_eq!(told(&mut all, &label, at(12, ACCEPTED), session(20)).len(), 1);
    assert!(!all.turn(true, true, time(30)));
    assert_eq!(told(&mut all, &label, at(13, ACCEPTED), session(20)), []);
    assert!(told(&mut all, &label, at(14, ACCEPTED), session(31)).contains(&started(31)));
}

#[test]
fn what_is_switched_off_is_said_no_more() {
    let mut all = on();
    told(&mut all, &labeled("alice"), at(11, ACCEPTED), session(5));
    assert_eq!(all.waiting(), 2);
    all.trouble = Some("no".to_owned());
    all.turn(false, true, time(50));
    assert!(all.waiting.iter().all(Saying::is_comment) && all.waiting() == 1);
    all.turn(false, false, time(51));
    assert!(!all.is_on() && all.waiting() == 0 && all.trouble.is_none());
    assert_eq!(told(&mut all, &labeled("alice"), at(12, EXITED), session(60)), []);
    assert!(all.turn(true, false, time(70)));
}

#[test]
fn an_event_that_is_given_up_again_gets_no_second_comment_and_an_item_not_too_many() {
    let mut all = on();
    let of = |all: &mut Telling, n: usize| {
        told(all, &comment("alice", "alice", n), at(n, EXITED), None).len()
    };
    assert_eq!((of(&mut all, 11), of(&mut all, 11)), (2, 0));
    all.waiting.clear();
    assert_eq!(of(&mut all, 11), 1, "the reaction, which GitHub makes once");
    for n in 12..16 {
        assert_eq!(of(&mut all, n), 2);
    }
    assert_eq!(of(&mut all, 16), 1, "too many of one item in an hour");
    all.given_up_lately[0].1 = time(100 - 3600);
    assert_eq!(of(&mut all, 17), 2);
}

#[test]
fn requests_are_apart_and_comments_come_first() {
    let mut all = on();
    for n in 11..15 {
        told(&mut all, &comment("alice", "alice", n), at(n, ACCEPTED), None);
    }
    told(&mut all, &labeled("alice"), at(15, ACCEPTED), session(5));
    let never = |_: &str| None;
    let Next::Say(first) = all.next(time(100), pace(), never) else { unreachable!() };
    assert!(first.is_comment());
    all.begin(&first, time(100));
    all.ended(&first, End::Said);
    assert_eq!(all.next(time(100), pace(), never), Next::At(time(101)));
    let rests = |host: &str| (host == "github.com").then(|| time(500));
    assert_eq!(all.next(time(101), pace(), rests), Next::At(time(500)));
    let Next::Say(second) = all.next(time(101), pace(), never) else { unreachable!() };
    assert_eq!(second.words, eyes(Target::Comment(11)));
    assert_eq!(all.drop_late(time(100 + 3600)), 5);
    assert_eq!(all.next(time(101), pace(), never), Next::Nothing);
}

#[test]
fn what_may_have_been_said_is_tried_so_often_and_looked_for_when_it_shows() {
    let mut all = on();
    let started = |of: &Saying| matches!(of.words, Words::Started { .. });
    told(&mut all, &labeled("alice"), at(11, ACCEPTED), session(5));
    let comment = all.waiting.iter().find(|of| started(of)).unwrap().clone();
    all.waiting.retain(started);
    let never = |_: &str| None;
    all.begin(&comment, time(200));
    // As a receiver that was killed here finds it.
    let text = serde_json::to_string(&all).unwrap();
    let mut all: Telling = serde_json::from_str(&text).unwrap();
    assert_eq!(all.next(time(205), pace(), never), Next::At(time(210)));
    let Next::Say(again) = all.next(time(210), pace(), never) else { unreachable!() };
    assert_eq!((again.tried, again.tries), (Some(time(200)), 1));
    all.begin(&again, time(210));
    assert_eq!(all.spent.len(), 3, "the look for it is a request, too");
    all.ended(&again, End::NotNow);
    assert_eq!((all.waiting[0].tried, all.waiting[0].tries), (Some(time(200)), 1));
    for n in 2..=TRIES {
        let Next::Say(again) = all.next(time(1000), pace(), never) else { unreachable!() };
        all.spent.clear();
        all.begin(&again, time(200));
        assert_eq!(all.waiting[0].tries, n);
        all.ended(&again, End::AGAIN);
    }
    assert_eq!(all.waiting(), 0);
    // A time that is yet to come holds nothing up.
    told(&mut all, &labeled("alice"), at(12, ACCEPTED), session(6));
    let comment = all.waiting.iter().find(|of| started(of)).unwrap().clone();
    all.begin(&comment, time(90_000));
    assert!(matches!(all.next(time(1000), pace(), never), Next::Say(_)));
}

#[test]
fn an_address_that_is_more_than_one_is_left_out() {
    assert!(is_plain("https://github.com/o/r/pull/1#discussion_r2"));
    for url in ["http://a/", "https://a/ b", "https://a/\n@all", "https://a/)[x](y", "javascript:1"]
    {
        assert!(!is_plain(url), "{url}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn however_much_happens_the_budget_holds(
        steps in prop::collection::vec((0_i64..60, 0_usize..60, 0_u8..6), 1..60),
    ) {
        let (mut all, event) = (on(), comment("alice", "alice", 1));
        let mut requests: Vec<i64> = Vec::new();
        let (mut now, mut n) = (100, 10);
        for (wait, events, end) in steps {
            now += wait;
            for _ in 0..events {
                n += 1;
                let is_comment = n % 7 == 0;
                let (repo, at) = ("o/r".parse().unwrap(), time(now));
                let words = if is_comment {
                    let item = format!("o/r#{n}").parse().unwrap();
                    Words::Started { item, created_at: at, is_headless: false }
                } else {
                    eyes(Target::Comment(n))
                };
                all.push(Saying { repo, words, at, tried: None, tries: 0 });
            }
            told(&mut all, &event, At(usize::try_from(n).unwrap(), EXITED.0, EXITED.1), None);
            while let Next::Say(saying) = all.next(time(now), pace(), |_| None) {
                all.begin(&saying, time(now));
                requests.push(now);
                all.ended(&saying, match end {
                    0 => End::NotNow,
                    1 => End::AGAIN,
                    2 => End::Refused,
                    _ => End::Said,
                });
            }
            all.drop_late(time(now));
            prop_assert!(all.waiting() <= WAITING);
        }
        for (first, at) in requests.iter().enumerate() {
            let in_span = |span: i64| {
                requests[first..].iter().take_while(|later| **later - at < span).count()
            };
            prop_assert!(in_span(1) <= 1);
            prop_assert!(in_span(60) <= PER_MINUTE);
            prop_assert!(in_span(3600) <= PER_HOUR);
        }
    }
}

#[test]
fn in_an_hour_there_are_no_more_requests_than_the_budget_has() {
    let mut all = on();
    let mut requests = 0;
    for second in 0..3600 {
        let (repo, at) = ("o/r".parse().unwrap(), time(second));
        let words = eyes(Target::Comment(second.unsigned_abs()));
        all.push(Saying { repo, words, at, tried: None, tries: 0 });
        while let Next::Say(saying) = all.next(time(second), pace(), |_| None) {
            all.begin(&saying, time(second));
            all.ended(&saying, End::Said);
            requests += 1;
        }
        if second == 59 {
            assert_eq!(requests, PER_MINUTE);
        }
    }
    assert_eq!((requests, all.waiting()), (PER_HOUR, WAITING));
    let Next::At(at) = all.next(time(3599), pace(), |_| None) else { unreachable!() };
    assert_eq!(at, time(3600));
}
