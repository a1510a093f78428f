//! The deliveries of the demo, as GitHub would make them.

use serde_json::{Value, json};

/// The user that the demo listens to.
pub(super) const USER: &str = "octocat";
/// The label that arms the demo's issue.
pub(super) const LABEL: &str = "the-loop: auto-execute";
/// The demo's issue.
pub(super) const ITEM: &str = "octocat/hello-world#1";

fn user() -> Value {
    json!({ "login": USER, "type": "User" })
}

fn repository() -> Value {
    json!({
        "name": "hello-world",
        "full_name": "octocat/hello-world",
        "owner": user(),
        "html_url": "https://github.com/octocat/hello-world",
    })
}

fn issue() -> Value {
    json!({
        "number": 1,
        "title": "Say hello",
        "body": "The program should greet its user by name.",
        "html_url": "https://github.com/octocat/hello-world/issues/1",
        "user": user(),
        "labels": [{ "name": LABEL }],
        "state": "open",
    })
}

/// The arming label is put on the issue.
pub(super) fn labeled() -> Value {
    json!({
        "action": "labeled",
        "label": { "name": LABEL },
        "issue": issue(),
        "repository": repository(),
        "sender": user(),
    })
}

/// A comment on the issue.
pub(super) fn comment() -> Value {
    json!({
        "action": "created",
        "issue": issue(),
        "comment": {
            "id": 1,
            "html_url": "https://github.com/octocat/hello-world/issues/1#issuecomment-1",
            "user": user(),
            "body": "Please greet in the user's own language.",
        },
        "repository": repository(),
        "sender": user(),
    })
}
