//! The pages of the web terminal in a real Chromium, on real ttyd and tmux.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::support::{World, eventually, payload};

const TTYD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/.tools/ttyd");

/// A world that serves the web terminal, whose agent is the fake that `script`
/// tells what to do; `None` where there is no browser.
async fn world(script: &Value) -> Option<(World, Browser)> {
    let browser = Browser::start().await?;
    let mut world = World::new("");
    configure(&world, script, 0);
    world.start().await;
    Some((world, browser))
}

fn configure(world: &World, script: &Value, port: u16) {
    let fake = env!("CARGO_BIN_EXE_fake-harness");
    world.configure(
        &format!("defaultHarness: claude\nwebTerminal:\n  enabled: true\n  port: {port}"),
        &format!("  claude:\n    path: {fake}\n  ttyd:\n    path: {TTYD}\n"),
    );
    let mut script = script.clone();
    script["prompts"] = json!(world.home.join("prompts"));
    std::fs::write(world.project.join("fake-harness.json"), script.to_string()).unwrap();
}

/// The prompts that the fake took, in order.
fn prompts(world: &World) -> Vec<String> {
    let text = std::fs::read_to_string(world.home.join("prompts")).unwrap_or_default();
    let notes = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    notes.filter_map(|note| Some(note["prompt"].as_str()?.to_owned())).collect()
}

/// The address of a page.
fn at(world: &World, path: &str) -> String {
    let (_, out, _) = world.run(&["gh-webhook", "status", "--json"]);
    let status: Value = serde_json::from_str(&out).unwrap();
    format!("{}{path}", status["webUrl"].as_str().expect("the web terminal is served"))
}

async fn session(world: &World, number: u64) {
    let id = format!("s-{number}");
    let labeled = payload::labeled("o/r", number, "alice");
    assert_eq!(world.post(&id, "issues", &labeled).await, 202);
    world.reaches(&id, "delivered").await;
}

/// What the page's terminal shows.
const SCREEN: &str = ".xterm-rows";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_shows_a_session_within_a_second_of_its_start() {
    let Some((world, browser)) = world(&json!({})).await else { return };
    browser.open(&at(&world, "")).await;
    browser.shows("#empty", "no sessions").await;
    // The entry is what a start begins with.
    let labeled = payload::labeled("o/r", 1, "alice");
    assert_eq!(world.post("s-1", "issues", &labeled).await, 202);
    let entry = world.project.join(".the-loop/sessions/o+r+1.json");
    eventually("the session is recorded", async || entry.exists().then_some(())).await;
    let began = Instant::now();
    browser.until("document.querySelector('[data-slug=\"o+r+1\"]') !== null").await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    browser.shows("[data-slug] .item", "o/r#1").await;
    browser.shows("[data-slug] .title", "Issue 1").await;
    world.reaches("s-1", "delivered").await;
    browser.shows("[data-slug] .state", "idle").await;
    browser.shows("[data-slug] .lines", "? for shortcuts").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    world.run(&["sessions", "close", "1"]);
    browser.shows("[data-slug] .state", "closed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_typed_reaches_the_agent_and_an_event_meanwhile_is_seen() {
    let Some((world, browser)) = world(&json!({})).await else { return };
    session(&world, 1).await;
    browser.open(&at(&world, "s/o+r+1/")).await;
    browser.shows(SCREEN, "? for shortcuts").await;
    browser.keys("from the page").await;
    browser.shows(SCREEN, "from the page").await;
    browser.keys("\u{e007}").await;
    eventually("the agent took it", async || {
        prompts(&world).iter().any(|prompt| prompt == "from the page").then_some(())
    })
    .await;
    let comment = payload::comment("o/r", 1, "alice", "An event meanwhile.");
    assert_eq!(world.post("c-1", "issue_comment", &comment).await, 202);
    browser.shows(SCREEN, "An event meanwhile.").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}
