//! Titles and bodies that somebody edited who may not act: withheld, and no link,
//! until somebody who may act approves them anew.

use serde_json::{Value as Json, json};
use the_loop::core::config::{Routing, SpawnPolicy};
use the_loop::core::event;
use the_loop::core::routing::{
    Decision, SessionView, TextEdit, TextField, Value, View, Withheld, decide,
};
use the_loop::core::session::SessionStatus;

use super::{config, item, line, said, value, voice};

/// What somebody does at a minute of an hour.
struct Act {
    minute: u32,
    event: &'static str,
    body: Json,
}

fn at(minute: u32) -> String {
    format!("2026-11-30T10:{minute:02}:00Z")
}

/// An event on issue 1 of a listed user's, with this title and body, in a minute.
fn act(minute: u32, by: &str, texts: [&str; 2], event: &'static str, more: &Json) -> Act {
    let user = |login: &str| json!({ "login": login, "type": "User" });
    let thread = json!({
        "number": 1, "title": texts[0], "body": texts[1], "user": user("Codertocat"),
        "html_url": "https://github.com/Codertocat/Hello-World/issues/1",
        "labels": [{ "name": "bug" }], "state": "open", "updated_at": at(minute),
    });
    let mut body = json!({
        "sender": user(by),
        "repository": { "html_url": "https://github.com/Codertocat/Hello-World" },
    });
    let name = if event == "pull_request" { "pull_request" } else { "issue" };
    body[name] = thread;
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    Act { minute, event, body }
}

fn edit(minute: u32, by: &str, texts: [&str; 2], changed: &[&str]) -> Act {
    let changes: Json =
        changed.iter().map(|name| ((*name).to_owned(), json!({ "from": "x" }))).collect();
    act(minute, by, texts, "issues", &json!({ "action": "edited", "changes": changes }))
}

fn say(minute: u32, by: &str, texts: [&str; 2], text: &str) -> Act {
    let comment = json!({ "id": 1, "body": text, "user": { "login": by, "type": "User" } });
    act(minute, by, texts, "issue_comment", &json!({ "action": "created", "comment": comment }))
}

fn label(minute: u32, by: &str, texts: [&str; 2]) -> Act {
    let label = json!({ "action": "labeled", "label": { "name": "bug" } });
    act(minute, by, texts, "issues", &label)
}

/// Decides about one after another, as the intake does: of each person the last
/// edit of a text is known to the next.
struct Desk {
    view: View,
    config: Routing,
}

impl Desk {
    fn new() -> Self {
        let session = SessionView { status: SessionStatus::Active, begins: true };
        let view = View { sessions: [(item(1), session)].into(), ..View::default() };
        let config = Routing { repositories: Vec::new(), ..config() };
        Self { view, config }
    }

    fn takes(&mut self, act: &Act) -> Decision {
        let event = event::parse(act.event, act.body.to_string().as_bytes()).unwrap();
        let decision = decide(&event, &self.config, &self.view, &voice());
        for new in &decision.edits {
            let key = |edit: &TextEdit| (edit.field, edit.login.clone(), edit.armed);
            match self.view.edits.iter_mut().find(|old| key(old) == key(new)) {
                Some(old) => old.at = old.at.max(new.at),
                None => self.view.edits.push(new.clone()),
            }
        }
        decision
    }

    /// What a comment of a listed user's is told with, of title and description.
    fn told(&mut self, minute: u32, texts: [&str; 2]) -> [bool; 2] {
        let decision = self.takes(&say(minute, "Codertocat", texts, "Go on."));
        assert_eq!(line(&decision), "deliver matched 1");
        ["title", "description"].map(|label| match value(&decision, label) {
            Value::Withheld(why) => {
                assert_eq!(*why, Withheld::Editor);
                assert!(said(&decision).contains("[withheld: edited by somebody who is not"));
                false
            }
            _ => true,
        })
    }
}

const OURS: [&str; 2] = ["Title", "Text"];
const TITLE: [&str; 2] = ["EVIL", "Text"];
const BODY: [&str; 2] = ["Title", "EVIL"];
const BOTH: [&str; 2] = ["EVIL", "EVIL"];

#[test]
fn what_somebody_edited_who_may_not_act_is_told_only_when_approved_anew() {
    let own = "Codertocat";
    // What happened, what a comment in minute 30 shows, and whether title and
    // description are told with it.
    for (name, acts, texts, told) in [
        ("nothing", vec![], OURS, [true, true]),
        ("title", vec![edit(5, "eve", TITLE, &["title"])], TITLE, [false, true]),
        ("body", vec![edit(5, "eve", BODY, &["body"])], BODY, [true, false]),
        ("both", vec![edit(5, "eve", BOTH, &["title", "body"])], BOTH, [false, false]),
        (
            "of an edit that does not say what it changed both may be hers",
            vec![act(5, "eve", BOTH, "issues", &json!({ "action": "edited" }))],
            BOTH,
            [false, false],
        ),
        (
            "a pull request's",
            vec![act(
                5,
                "eve",
                TITLE,
                "pull_request",
                &json!({ "action": "edited", "changes": { "title": { "from": "x" } } }),
            )],
            TITLE,
            [false, true],
        ),
        ("by the author", vec![edit(5, own, OURS, &["title", "body"])], OURS, [true, true]),
        (
            "mended by the author",
            vec![edit(5, "eve", BODY, &["body"]), edit(6, own, OURS, &["body"])],
            OURS,
            [true, true],
        ),
        (
            "another text was mended",
            vec![edit(5, "eve", BODY, &["body"]), edit(6, own, BODY, &["title"])],
            BODY,
            [true, false],
        ),
        (
            "armed as it is",
            vec![edit(5, "eve", BOTH, &["title", "body"]), label(6, own, BOTH)],
            BOTH,
            [true, true],
        ),
        (
            "labelled by her",
            vec![edit(5, "eve", BODY, &["body"]), label(6, "eve", BODY)],
            BODY,
            [true, false],
        ),
        (
            "armed by hand",
            vec![edit(5, "eve", BODY, &["body"]), say(6, own, BODY, "the-loop start")],
            BODY,
            [true, true],
        ),
        (
            "armed by hand by her",
            vec![edit(5, "eve", BODY, &["body"]), say(6, "eve", BODY, "the-loop start")],
            BODY,
            [true, false],
        ),
        (
            "armed, then edited",
            vec![label(4, own, OURS), edit(5, "eve", BODY, &["body"])],
            BODY,
            [true, false],
        ),
        (
            "her edit comes late",
            vec![label(4, own, OURS), say(7, own, BODY, "x"), edit(5, "eve", BODY, &["body"])],
            BODY,
            [true, false],
        ),
        (
            "her edit comes after what put it right",
            vec![edit(6, own, OURS, &["body"]), edit(5, "eve", BODY, &["body"])],
            OURS,
            [true, true],
        ),
        (
            "her edit comes again after it was put right",
            vec![
                edit(5, "eve", BODY, &["body"]),
                edit(6, own, OURS, &["body"]),
                edit(5, "eve", BODY, &["body"]),
            ],
            OURS,
            [true, true],
        ),
        (
            "in the same moment: nobody knows whose it is",
            vec![edit(5, own, OURS, &["body"]), edit(5, "eve", BODY, &["body"])],
            BODY,
            [true, false],
        ),
    ] {
        let mut desk = Desk::new();
        for act in &acts {
            assert!(act.minute < 30);
            desk.takes(act);
        }
        assert_eq!(desk.told(30, texts), told, "{name}");
    }
}

#[test]
fn an_edit_of_a_listed_user_tells_what_that_edit_changed_and_no_more() {
    let mut desk = Desk::new();
    desk.takes(&edit(5, "eve", BODY, &["body"]));
    let decision = desk.takes(&edit(6, "Codertocat", ["Better", "EVIL"], &["title"]));
    assert_eq!(line(&decision), "deliver matched 1");
    assert_eq!(value(&decision, "title"), &Value::Line("Better".to_owned()));
    assert_eq!(value(&decision, "body"), &Value::Withheld(Withheld::Editor));
    assert!(!said(&decision).contains("EVIL"));
}

#[test]
fn what_was_seen_before_it_was_put_right_stays_withheld() {
    let mut desk = Desk::new();
    desk.takes(&edit(5, "eve", BODY, &["body"]));
    desk.takes(&edit(8, "Codertocat", OURS, &["body"]));
    // A comment from between, that comes late or is replayed, still shows hers.
    assert_eq!(desk.told(6, BODY), [true, false]);
    assert_eq!(desk.told(9, OURS), [true, true]);
}

#[test]
fn the_edits_of_who_is_listed_by_now_count_and_of_who_is_no_more_do_not() {
    let mut desk = Desk::new();
    desk.takes(&edit(5, "eve", BODY, &["body"]));
    desk.config.authorized_users.push("Eve".to_owned());
    assert_eq!(desk.told(6, BODY), [true, true]);
    desk.config.authorized_users.pop();
    assert_eq!(desk.told(7, BODY), [true, false]);
}

#[test]
fn what_armed_a_session_is_told_as_it_is_in_that_delivery() {
    let mut desk = Desk::new();
    desk.view.sessions.clear();
    desk.takes(&edit(5, "eve", BOTH, &["title", "body"]));
    assert_eq!(line(&desk.takes(&label(6, "eve", BOTH))), "ignore sender-not-authorized 1");
    // She put the label there: a comment starts a session, and vouches for nothing.
    let started = desk.takes(&say(7, "Codertocat", BOTH, "Hm."));
    assert_eq!(line(&started), "start armed 1");
    assert!(!said(&started).contains("EVIL"));
    let armed = desk.takes(&label(8, "Codertocat", BOTH));
    assert_eq!(value(&armed, "body"), &Value::Block("EVIL".to_owned()));
}

#[test]
fn a_body_that_somebody_edited_who_may_not_act_chooses_no_session() {
    let pull = |minute, by: &str, action: &Json| {
        let mut act = act(minute, by, ["Pull", "Closes #1"], "pull_request", action);
        act.body["pull_request"]["number"] = 2.into();
        act
    };
    let edited = json!({ "action": "edited", "changes": { "body": { "from": "x" } } });
    let mut desk = Desk::new();
    // Without an edit the author's text is a link, from whatever event of it.
    let synchronized = pull(3, "eve", &json!({ "action": "synchronize" }));
    assert!(desk.takes(&synchronized).link.is_some());
    let decision = desk.takes(&pull(5, "eve", &edited));
    assert_eq!((line(&decision).as_str(), decision.link), ("ignore action-not-routed 2", None));
    let later = pull(6, "eve", &json!({ "action": "synchronize" }));
    assert_eq!(desk.takes(&later).link, None);
    let mut comment = say(7, "Codertocat", ["Pull", "Closes #1"], "Go on.");
    comment.body["issue"]["number"] = 2.into();
    comment.body["issue"]["pull_request"] = json!({});
    desk.config.spawn_on_unmatched = SpawnPolicy::Never;
    assert_eq!(line(&desk.takes(&comment)), "ignore no-session 2");
    // The author says so himself.
    let decision = desk.takes(&pull(8, "Codertocat", &edited));
    assert_eq!(decision.link.map(|link| link.item), Some(item(1)));
    comment.body["issue"]["updated_at"] = at(9).into();
    assert_eq!(line(&desk.takes(&comment)), "deliver matched-by-link 1");
}

#[test]
fn every_edit_is_remembered_with_its_person_and_time() {
    let mut desk = Desk::new();
    let decision = desk.takes(&edit(5, "Eve", BODY, &["body"]));
    let expected = TextEdit {
        field: TextField::Body,
        login: "eve".to_owned(),
        at: at(5).parse().unwrap(),
        by_author: false,
        armed: false,
    };
    assert_eq!(decision.edits, [expected]);
    // A base that was changed is no text.
    let base = json!({ "action": "edited", "changes": { "base": {} } });
    assert_eq!(desk.takes(&act(6, "eve", OURS, "pull_request", &base)).edits, []);
    // What our own agent wrote arms nothing.
    let own = format!("the-loop start\n\n{}", voice().line(&item(1)));
    assert_eq!(desk.takes(&say(7, "Codertocat", OURS, &own)).edits, []);
}
