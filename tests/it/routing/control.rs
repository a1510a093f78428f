//! Control lines, the agent's own words, and checks by their commit.

use serde_json::Value as Json;
use the_loop::core::config::{Routing, SpawnPolicy};
use the_loop::core::event::{self, CheckPull, What};
use the_loop::core::outcome::Reason;
use the_loop::core::routing::{Action, Decision, View, decide};
use the_loop::core::session::SessionStatus;

use super::{active, body, config, item, line, message, said, view, voice};

/// A comment by a listed user with this text, on an item that no label arms.
fn comment(text: &str, fixture: &str) -> event::Event {
    let mut json: Json = serde_json::from_str(&body(fixture)).unwrap();
    json["comment"]["body"] = text.into();
    json["issue"]["labels"] = Json::Array(Vec::new());
    event::parse("issue_comment", json.to_string().as_bytes()).unwrap()
}

fn ordered(text: &str, view: &View) -> Decision {
    decide(&comment(text, "issue_comment.created"), &never(), view, &voice())
}

fn never() -> Routing {
    Routing { spawn_on_unmatched: SpawnPolicy::Never, ..config() }
}

#[test]
fn a_control_line_does_what_it_says_in_every_state_of_the_session() {
    use SessionStatus::{Active, Closed, Failed, Paused, Starting};
    for (order, status, expected) in [
        ("start", None, "start started-by-hand 1"),
        ("start", Some(Starting), "ignore already-armed 1"),
        ("start", Some(Active), "ignore already-armed 1"),
        ("start", Some(Paused), "ignore already-armed 1"),
        ("start", Some(Failed), "deliver matched 1"),
        ("start", Some(Closed), "deliver matched 1"),
        ("stop", None, "ignore no-session 1"),
        ("stop", Some(Active), "close stopped-by-hand 1"),
        ("stop", Some(Paused), "close stopped-by-hand 1"),
        ("stop", Some(Failed), "close stopped-by-hand 1"),
        ("stop", Some(Closed), "ignore session-closed 1"),
        ("pause", None, "ignore no-session 1"),
        ("pause", Some(Active), "pause paused-by-hand 1"),
        ("pause", Some(Closed), "ignore session-closed 1"),
        ("resume", Some(Paused), "resume resumed-by-hand 1"),
        ("resume", Some(Active), "ignore not-paused 1"),
        ("resume", Some(Closed), "ignore session-closed 1"),
        ("now: look here", None, "ignore no-session 1"),
        ("now: look here", Some(Active), "deliver matched 1"),
        ("go", Some(Active), "deliver matched 1"),
    ] {
        let sessions: Vec<_> = status.into_iter().map(|status| (1, status)).collect();
        let decision = ordered(&format!("Hello.\n\nthe-loop {order}"), &view(&sessions));
        assert_eq!(line(&decision), expected, "{order} {status:?}");
        let is_now = matches!(&decision.action, Action::Deliver(message) if message.now);
        assert_eq!(is_now, order.starts_with("now") && status.is_some());
    }
}

#[test]
fn control_can_be_turned_off_and_is_not_for_strangers_edits_or_closed_items() {
    let event = comment("the-loop stop", "issue_comment.created");
    let off = Routing { control: false, ..never() };
    assert_eq!(line(&decide(&event, &off, &active(1), &voice())), "deliver matched 1");

    let stranger = comment("the-loop stop", "handmade/issue_comment.created.by-stranger");
    let decision = decide(&stranger, &never(), &active(1), &voice());
    assert_eq!(line(&decision), "ignore sender-not-authorized 1");

    let edited = comment("the-loop stop", "handmade/issue_comment.edited.by-author");
    let decision = decide(&edited, &never(), &active(1), &voice());
    assert_eq!(line(&decision), "deliver matched 1");

    let closed = comment("the-loop start", "handmade/issue_comment.created.on-closed-issue");
    let decision = decide(&closed, &never(), &View::default(), &voice());
    assert_eq!(decision.reason, Reason::ItemIsClosed);
}

#[test]
fn a_start_by_hand_arms_the_text_as_it_is() {
    let fixture = "handmade/issue_comment.created.on-strangers-issue";
    let event = comment("the-loop start\nand be quick", fixture);
    let What::Comment { thread, .. } = &event.what else { unreachable!() };
    let title = thread.title.clone();
    let decision = decide(&event, &never(), &View::default(), &voice());
    assert_eq!(decision.reason, Reason::StartedByHand);
    assert_eq!(message(&decision).title(), Some(title.as_str()));
    let said = said(&decision);
    assert!(said.contains("and be quick") && !said.contains("[withheld"), "{said}");
}

#[test]
fn what_an_agent_wrote_without_a_marker_is_its_own() {
    let mut view = active(1);
    view.said_by_agent = true;
    assert_eq!(line(&ordered("Done.", &view)), "ignore agents-own-words 1");
    view.said_by_agent = false;
    assert_eq!(line(&ordered("Done.", &view)), "deliver matched 1");
}

#[test]
fn a_check_without_pull_requests_belongs_to_the_one_whose_head_it_ran_for() {
    let mut json: Json =
        serde_json::from_str(&body("handmade/check_run.completed.failed")).unwrap();
    json["check_run"]["pull_requests"] = Json::Array(Vec::new());
    json["check_run"]["check_suite"]["head_branch"] = Json::Null;
    let event = event::parse("check_run", json.to_string().as_bytes()).unwrap();
    let What::Check(check) = &event.what else { unreachable!() };
    let mut view = active(1);
    view.links.insert(item(2), item(1));
    let decide = |view: &View| line(&decide(&event, &config(), view, &voice()));
    assert_eq!(decide(&view), "ignore no-work-item -");
    let head = |own_head| CheckPull { item: item(2), branch: "topic".to_owned(), own_head };
    view.heads.insert(check.sha.clone(), vec![head(true)]);
    assert_eq!(decide(&view), "deliver matched-by-link 1");
    view.heads.insert(check.sha.clone(), vec![head(false)]);
    assert_eq!(decide(&view), "ignore foreign-head -");
}

#[test]
fn a_pull_request_tells_which_commit_is_its_head() {
    let event = event::parse("pull_request", body("pull_request.opened").as_bytes()).unwrap();
    let (sha, pull) = event.head().unwrap();
    assert_eq!((sha.len(), pull.item, pull.own_head), (40, item(2), true));
}
