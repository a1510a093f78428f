//! What must hold for any delivery, from its bytes to the prompt. Shared by the
//! fuzz target and by the test that runs its corpus.

use the_loop::base::ids::{Marker, WorkItem};
use the_loop::core::config::{Routing, SpawnPolicy};
use the_loop::core::event;
use the_loop::core::routing::prompt::{MAX_BYTES, render, render_local};
use the_loop::core::routing::{
    Action, Field, Kind, Message, OwnVoice, SessionView, Value, View, decide,
};
use the_loop::core::session::SessionStatus;

/// Takes the event's name from the first line and the body from the rest, as
/// routing does for each policy and each state of the session.
pub fn check(input: &[u8]) {
    let at = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (name, body) = input.split_at(at);
    let body = body.get(1..).unwrap_or_default();
    let name = String::from_utf8_lossy(name);
    if let Ok(event) = event::parse(&name, body) {
        for policy in [SpawnPolicy::Never, SpawnPolicy::Labeled, SpawnPolicy::Always] {
            for status in [None, Some(SessionStatus::Active), Some(SessionStatus::Closed)] {
                let decision = decide(&event, &routing(policy), &view(status), &voice());
                let (Action::Deliver(message) | Action::Start(message)) = &decision.action else {
                    continue;
                };
                let item = decision.item.as_ref().expect("what is told is told to an item");
                holds(message, item);
            }
        }
    }
    // The same bytes as what people wrote, in every place where they may.
    let text = String::from_utf8_lossy(body).into_owned();
    let message = Message {
        kind: Kind::Comment,
        on: None,
        sentence: None,
        fields: vec![
            Field { label: "title", value: Value::Line(text.clone()) },
            Field { label: "url", value: Value::Url(text.clone()) },
            Field { label: "body", value: Value::Block(text.clone()) },
        ],
        review: None,
        now: false,
    };
    holds(&message, &item());
    let local = render_local(&text, &item(), &marker());
    is_safe(&local);
    assert!(local.starts_with("[the-loop event 0101"));
}

fn holds(message: &Message, item: &WorkItem) {
    for first in [false, true] {
        let prompt = render(message, item, &marker(), &voice(), first);
        is_safe(&prompt);
        let lines: Vec<&str> = prompt.split('\n').collect();
        assert!(lines[0].starts_with(&format!("[the-loop event {}] ", marker())));
        // One fence, which nothing inside can close.
        let is_fence = |line: &&&str| {
            line.len() >= 3 && (line.chars().all(|c| c == '`') || line.chars().all(|c| c == '~'))
        };
        if let Some(open) = lines.iter().position(|line| is_fence(&line)) {
            let fence = lines[open];
            assert_eq!(lines[lines.len() - 2], fence);
            assert!(lines[open + 1..lines.len() - 2].iter().all(|line| !line.contains(fence)));
        }
    }
}

fn is_safe(prompt: &str) {
    assert!(prompt.len() <= MAX_BYTES, "{} bytes", prompt.len());
    assert!(prompt.chars().all(|c| c == '\n' || !c.is_control()));
    assert!(!prompt.contains(['\u{202e}', '\u{2066}', '\u{200b}', '\u{2028}', '\u{e0041}']));
    assert!(unicode_normalization::is_nfc(prompt));
    assert!(prompt.ends_with(&format!("\n[end of event {}]", marker())));
}

fn marker() -> Marker {
    Marker::new([1; 16])
}

fn voice() -> OwnVoice {
    OwnVoice::new([7; 32])
}

fn item() -> WorkItem {
    "codertocat/hello-world#1".parse().expect("an item")
}

fn routing(policy: SpawnPolicy) -> Routing {
    Routing {
        authorized_users: vec!["Codertocat".to_owned()],
        auto_execute_label: "bug".to_owned(),
        spawn_on_unmatched: policy,
        ..Routing::default()
    }
}

fn view(status: Option<SessionStatus>) -> View {
    let mut view = View::default();
    if let Some(status) = status {
        view.sessions
            .insert(item(), SessionView { status, begins: status == SessionStatus::Closed });
    }
    view
}
