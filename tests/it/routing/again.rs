//! Deliveries that are decided about again on request, and sessions whose entries
//! cannot be read.

use serde_json::Value as Json;
use the_loop::core::event;
use the_loop::core::routing::{View, decide};
use the_loop::core::session::SessionStatus;

use super::{active, body, config, hand, item, line, message, said, view, voice};

fn again(view: View) -> View {
    View { again: true, ..view }
}

/// A comment below issue 1 with this text, on an item with or without the label.
fn comment(text: &str, labeled: bool, view: &View) -> the_loop::core::routing::Decision {
    let mut json: Json = serde_json::from_str(&body("issue_comment.created")).unwrap();
    json["comment"]["body"] = text.into();
    if !labeled {
        json["issue"]["labels"] = Json::Array(Vec::new());
    }
    let event = event::parse("issue_comment", json.to_string().as_bytes()).unwrap();
    decide(&event, &config(), view, &voice())
}

fn labels(decision: &the_loop::core::routing::Decision) -> Vec<&'static str> {
    message(decision).fields.iter().map(|field| field.label).collect()
}

#[test]
fn what_started_a_session_is_told_again_with_title_and_body() {
    for status in [SessionStatus::Active, SessionStatus::Failed, SessionStatus::Paused] {
        let view = again(view(&[(1, status)]));
        let armed = hand("issues.labeled.strangers-issue", &view);
        assert_eq!(line(&armed), "deliver matched 1", "{status:?}");
        assert!(labels(&armed).contains(&"body"), "{}", said(&armed));
        let started = comment("the-loop start", false, &view);
        assert_eq!(line(&started), "deliver matched 1", "{status:?}");
        assert!(labels(&started).contains(&"body"), "{}", said(&started));
        // A comment on an item that carries the label, with the item's own text; one
        // that started nothing as it was.
        let (arming, later) = (comment("go on", true, &view), comment("go on", false, &view));
        assert!(labels(&arming).len() > labels(&later).len(), "{}", said(&arming));
    }
    assert_eq!(line(&hand("issues.labeled.strangers-issue", &active(1))), "ignore already-armed 1");
}

#[test]
fn a_failed_check_that_did_not_arrive_is_told_again() {
    let mut view = active(2);
    let told = hand("check_run.completed.failed", &view).told_check.unwrap();
    view.told_checks.insert(told);
    assert_eq!(line(&hand("check_run.completed.failed", &view)), "ignore check-already-told 2");
    assert_eq!(line(&hand("check_run.completed.failed", &again(view))), "deliver matched 2");
}

#[test]
fn what_depends_on_an_entry_that_cannot_be_read_is_not_decided() {
    let broken = View { broken: [item(1).slug()].into(), ..View::default() };
    let blind = View { is_blind: true, ..View::default() };
    for view in [&broken, &blind] {
        let unread = "ignore registry-unreadable 1";
        assert_eq!(line(&comment("go on", true, view)), unread);
        assert_eq!(line(&comment("go on", false, view)), unread);
        for order in ["start", "stop", "pause", "resume", "now: x"] {
            assert_eq!(line(&comment(&format!("the-loop {order}"), false, view)), unread);
        }
        assert_eq!(line(&hand("issues.labeled.strangers-issue", view)), unread);
        assert_eq!(line(&hand("issues.closed.by-stranger", view)), unread);
        assert_eq!(line(&hand("issues.reopened", view)), unread);
        // What is not for any session is not.
        assert_eq!(
            line(&hand("issue_comment.created.by-stranger", view)),
            "ignore sender-not-authorized 1"
        );
        assert_eq!(line(&hand("issues.labeled.other-label", view)), "ignore other-label 1");
    }
    // Of its pull requests too.
    let linked = hand("issue_comment.created.on-linked-pull", &broken);
    assert_eq!(line(&linked), "ignore registry-unreadable 1");
    // Its neighbours are not concerned.
    let other = View { broken: [item(7).slug()].into(), ..View::default() };
    assert_eq!(line(&comment("go on", true, &other)), "start armed 1");
}

#[test]
fn a_check_that_names_a_branch_and_no_repository_is_told_to_nobody() {
    let mut json: Json =
        serde_json::from_str(&body("handmade/check_run.completed.failed")).unwrap();
    json["check_run"]["pull_requests"] = Json::Array(Vec::new());
    json["check_run"]["check_suite"]["head_branch"] = "issue-1".into();
    let event = event::parse("check_run", json.to_string().as_bytes()).unwrap();
    let decision = decide(&event, &config(), &active(1), &voice());
    assert_eq!(line(&decision), "ignore unknown-head 1");
}

#[test]
fn a_text_with_half_a_character_is_heard() {
    let json = body("issue_comment.created").replace("\"body\": \"", "\"body\": \"\\ud800 ");
    let event = event::parse("issue_comment", json.as_bytes()).unwrap();
    assert_eq!(line(&decide(&event, &config(), &active(1), &voice())), "deliver matched 1");
    assert!(json.contains("ud800"));
}
