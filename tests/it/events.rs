//! `the-loop events`, run as people run it.

use std::path::Path;

use the_loop::base::clock::Clock;
use the_loop::base::ids::WorkItem;
use the_loop::core::outcome::{Reason, State};
use the_loop::state::inbox::{About, DeliveryKind, Inbox, NewDelivery, Step};

use crate::support::unbroken;

const PAGE: &str = "https://github.com/octo/repo/issues/12#issuecomment-1";

fn events(home: &Path, args: &[&str]) -> (i32, String, String) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_the-loop"))
        .arg("events")
        .args(args)
        .env_clear()
        .env("THE_LOOP_CONFIG", configured(home))
        .env("HOME", home)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), unbroken(&text(output.stderr)))
}

/// A configuration whose state is in `state/` beside it.
fn configured(home: &Path) -> std::path::PathBuf {
    let file = home.join("config.yaml");
    std::fs::write(&file, "state:\n  dir: state\n").unwrap();
    file
}

/// An inbox that stays open, as the daemon keeps it.
async fn filled(home: &Path) -> Inbox {
    std::fs::create_dir_all(home.join("state")).unwrap();
    let clock = Clock::manual("2026-11-29T12:00:00Z".parse().unwrap());
    let inbox = Inbox::open(&home.join("state/inbox.db"), clock).unwrap();
    for (id, event) in [("aaaa-1", "issue_comment"), ("bbbb-2", "ping"), ("cccc-3", "issues")] {
        let (id, event) = (id.parse().unwrap(), event.to_owned());
        let new = NewDelivery { id, event, body: b"{}".to_vec(), kind: DeliveryKind::Github };
        inbox.accept(new).await.unwrap();
    }
    let step = |id: &str, state, reason, detail: Option<&str>| Step {
        delivery: id.parse().unwrap(),
        state,
        reason,
        detail: detail.map(str::to_owned),
        route: None,
    };
    let about = About {
        delivery: "aaaa-1".parse().unwrap(),
        own: None,
        item: Some("octo/repo#12".parse::<WorkItem>().unwrap()),
        url: Some(PAGE.to_owned()),
        edits: None,
        head: None,
    };
    inbox
        .record_about(
            vec![
                step("aaaa-1", State::Ignored, Reason::SenderNotAuthorized, Some("mallory")),
                step("bbbb-2", State::Done, Reason::Ping, None),
                step("cccc-3", State::Failed, Reason::StartFailed, Some("no such\x1b[2J file")),
            ],
            vec![about],
        )
        .await
        .unwrap();
    inbox
}

#[tokio::test]
async fn the_reason_why_nothing_happened_is_found_by_id_item_and_page() {
    let home = tempfile::tempdir().unwrap();
    let _inbox = filled(home.path()).await;
    let history = "\
delivery  aaaa-1
event     issue_comment
item      octo/repo#12
page      https://github.com/octo/repo/issues/12#issuecomment-1
2026-11-29 12:00:00Z  received   stored
  Stored before it was answered.
2026-11-29 12:00:00Z  ignored    sender-not-authorized
  The sender is not in `routing.authorizedUsers`.
  mallory
  To change it: add the sender to `routing.authorizedUsers`, reload, then
  `the-loop gh-webhook replay aaaa-1`
";
    let bare = PAGE.strip_prefix("https://").unwrap();
    for id in ["aaaa-1", "octo/repo#12", "Octo/Repo#12", "octo+repo+12", "#12", "12", PAGE, bare] {
        assert_eq!(events(home.path(), &[id]), (0, history.to_owned(), String::new()), "{id}");
    }
    let (code, out, err) =
        events(home.path(), &["https://github.com/octo/repo/issues/12#issuecomment-9"]);
    assert_eq!((code, out.as_str()), (0, history));
    assert!(err.contains("these are of octo/repo#12"), "{err}");
}

#[tokio::test]
async fn a_pull_requests_events_are_found_by_its_own_name_and_by_its_sessions() {
    let home = tempfile::tempdir().unwrap();
    let inbox = filled(home.path()).await;
    let about = About {
        delivery: "cccc-3".parse().unwrap(),
        own: Some("octo/repo#40".parse().unwrap()),
        item: Some("octo/repo#13".parse().unwrap()),
        url: Some("https://github.com/octo/repo/issues/40#issuecomment-7".to_owned()),
        edits: None,
        head: None,
    };
    inbox.record_about(Vec::new(), vec![about]).await.unwrap();
    for id in [
        "#40",
        "40",
        "octo/repo#40",
        "octo+repo+40",
        "loop/octo+repo+40",
        "https://github.com/octo/repo/pull/40",
        "https://github.com/octo/repo/pull/40#issuecomment-7",
        "octo/repo#13",
        "loop/octo+repo+13",
    ] {
        let (code, out, err) = events(home.path(), &[id]);
        assert!(
            code == 0 && out.starts_with("delivery  cccc-3\n") && err.is_empty(),
            "{id}: {err}"
        );
    }
    let (code, ..) = events(home.path(), &["octo/repo#4"]);
    assert_eq!(code, 1);
}

#[tokio::test]
async fn the_latest_come_last_and_the_failed_ones_alone_when_asked() {
    let home = tempfile::tempdir().unwrap();
    let _inbox = filled(home.path()).await;
    let (code, out, _) = events(home.path(), &["--limit", "2"]);
    let list = "\
2026-11-29 12:00:00Z  done       ping
  bbbb-2  ping
2026-11-29 12:00:00Z  failed     start-failed
  cccc-3  issues
";
    assert_eq!((code, out.as_str()), (0, list));
    let (code, out, _) = events(home.path(), &["--failed"]);
    assert_eq!(code, 0);
    assert!(out.contains("cccc-3") && !out.contains("bbbb-2"), "{out}");
    let (_, out, _) = events(home.path(), &["cccc-3"]);
    assert!(out.contains("  no such\\x1b[2J file\n"), "{out}");
}

#[tokio::test]
async fn that_nothing_is_so_new_is_said_and_no_error() {
    let home = tempfile::tempdir().unwrap();
    let _inbox = filled(home.path()).await;
    for args in [&["--since", "1s"][..], &["#12", "--since", "1s"]] {
        let (code, out, err) = events(home.path(), args);
        assert_eq!((code, out.as_str()), (0, ""), "{err}");
        assert!(err.contains("no delivery came in since then"), "{err}");
    }
    let (code, _, err) = events(home.path(), &["--failed", "--since", "1s"]);
    assert!(code == 0 && err.contains("nothing failed since then"), "{err}");
    assert_eq!(events(home.path(), &["#99", "--since", "1s"]).0, 1);
}

#[tokio::test]
async fn what_cannot_be_read_is_said_with_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path()).await.close();
    let file = home.path().join("state/inbox.db");
    let raw = rusqlite::Connection::open(&file).unwrap();
    raw.execute_batch("PRAGMA user_version = 99").unwrap();
    drop(raw);
    let (code, _, err) = events(home.path(), &[]);
    let next = "hint: take the version of the-loop that wrote it, or a later one";
    assert!(code == 1 && err.contains(next), "{err}");
    std::fs::write(&file, "junk").unwrap();
    let (_, _, err) = events(home.path(), &[]);
    assert!(err.contains("hint: the next start of the receiver keeps the file aside"), "{err}");
    // Of a damaged one that was taken over it is said where it is, and what is missing.
    let kept = home.path().join("state/inbox.db.damaged-1");
    std::fs::rename(&file, &kept).unwrap();
    std::fs::write(home.path().join("state/inbox.db.damaged-1.missing"), "7").unwrap();
    let _inbox = filled(home.path()).await;
    let (code, _, err) = events(home.path(), &[]);
    assert_eq!(code, 0);
    assert!(err.contains(kept.to_str().unwrap()) && err.contains("Of up to 7 deliveries"), "{err}");
}

#[tokio::test]
async fn json_has_the_same_and_a_schema_number() {
    let home = tempfile::tempdir().unwrap();
    let _inbox = filled(home.path()).await;
    let (code, out, _) = events(home.path(), &["aaaa-1", "--json"]);
    assert_eq!(code, 0);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["schema"], 1);
    let delivery = &json["deliveries"][0];
    assert_eq!(delivery["item"], "github:octo/repo#12");
    assert_eq!(delivery["receivedAt"], "2026-11-29T12:00:00Z");
    assert_eq!(delivery["steps"][1]["reason"], "sender-not-authorized");
    assert_eq!(delivery["steps"][1]["detail"], "mallory");
}

#[tokio::test]
async fn what_is_not_there_is_said() {
    let home = tempfile::tempdir().unwrap();
    let (code, out, err) = events(home.path(), &[]);
    assert_eq!((code, out.as_str()), (0, ""));
    assert!(err.contains("nothing was received yet"), "{err}");
    let (code, out, _) = events(home.path(), &["--json"]);
    assert_eq!(code, 0);
    assert!(out.contains("\"deliveries\": []"), "{out}");
    assert_eq!(events(home.path(), &["aaaa-1"]).0, 1);
    assert_eq!(events(home.path(), &["no such thing"]).0, 2);
    // Looking makes nothing.
    assert!(!home.path().join("state").exists());

    let _inbox = filled(home.path()).await;
    let (code, _, err) = events(home.path(), &["dddd-4"]);
    assert_eq!(code, 1);
    assert!(err.contains("`dddd-4`") && err.contains("hint: "), "{err}");
    let other = tempfile::tempdir().unwrap();
    std::fs::create_dir(other.path().join("state")).unwrap();
    std::fs::write(other.path().join("state/inbox.db"), "junk").unwrap();
    let (code, _, err) = events(other.path(), &[]);
    assert_eq!(code, 1);
    assert!(err.contains("is not an inbox"), "{err}");
}

#[tokio::test]
async fn a_headless_session_is_not_called_by_a_name_in_tmux_and_a_close_is_called_one() {
    let mut world = crate::process::world("");
    crate::process::script(&world, serde_json::json!({}));
    world.start().await;
    crate::process::label(&world, "d-1").await;
    world.reaches("d-1", "delivered").await;
    let (_, out, _) = world.run(&["events", "d-1"]);
    assert!(out.contains("\nsession   o+r+1 (headless)\n") && !out.contains("loop/"), "{out}");
    let (code, _, err) = world.run(&["sessions", "close", "1"]);
    assert_eq!(code, 0, "{err}");
    let (_, out, _) = world.run(&["events", "#1"]);
    assert!(out.contains("closed-by-hand") && !out.contains("sent-by-hand"), "{out}");
    assert!(out.contains("A person closed the session with `sessions close`."), "{out}");
}
