//! `the-loop gh-webhook status` where the inbox cannot be written to: it says
//! what is wrong, at once, and what GitHub is answered meanwhile.

use std::io::{Read as _, Write as _};

use serde_json::Value;

use crate::support::{World, eventually, payload, sign};

/// What status says of the inbox: its exit code, its text, and why in the JSON.
fn said(world: &World) -> (i32, String, Option<String>) {
    let (code, text, err) = world.run(&["gh-webhook", "status"]);
    assert!(err.is_empty(), "{err}");
    let (_, json, _) = world.run(&["gh-webhook", "status", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    (code, text, json["cannotStore"].as_str().map(str::to_owned))
}

/// Whether every line fits a terminal, but for what is longer by itself: a path.
fn fits(text: &str) -> bool {
    let is_long = |line: &str| line.chars().count() > 80;
    text.lines().all(|line| !is_long(line) || line.split_whitespace().any(|word| word.len() > 60))
}

#[tokio::test]
async fn a_locked_inbox_is_said_and_so_is_that_it_is_free_again() {
    let mut world = World::new("defaultHarness: demo");
    world.start().await;
    let inbox = world.state_dir().join("inbox.db");
    let other = rusqlite::Connection::open(&inbox).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let address = world.url().trim_start_matches("http://").split('/').next().unwrap().to_owned();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /gh-webhook HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n\
         x-github-delivery: t\r\nx-github-event: ping\r\ncontent-type: text/plain\r\n\
         x-hub-signature-256: {}\r\n\r\n{{}}",
        sign(b"{}")
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    let (code, text, why) = said(&world);
    assert_eq!(code, 1, "{text}");
    let refused = "refused        1 with 400 (the content is neither JSON nor a form), last\n";
    assert!(text.contains(refused), "{text}");
    assert!(text.contains("stores         nothing now; GitHub is answered 503:\n"), "{text}");
    assert!(why.unwrap().contains("lock"), "{text}");
    assert!(text.contains("lock") && fits(&text), "{text}");
    // What is running is said all the same.
    assert!(text.starts_with("running        pid ") && text.contains("deliveries     none"));

    other.execute_batch("ROLLBACK").unwrap();
    eventually("it stores again", async || (said(&world).0 == 0).then_some(())).await;
    let comment = payload::comment("o/r", 1, "mallory", "hello");
    assert_eq!(world.post("c-1", "issue_comment", &comment).await, 202);
}
