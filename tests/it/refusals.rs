//! What stops a start, and what does not: each says what, on what, why and what
//! to do, and nothing is lost.

use rustix::process::Signal;

use crate::support::{World, payload, tmux_path};

const DEMO: &str = "defaultHarness: demo";

/// Runs `gh-webhook start` to its refusal and gives what it said.
fn refused(command: &mut std::process::Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("error: "), "{said}");
    assert!(output.stdout.is_empty());
    said
}

fn start(world: &World) -> std::process::Command {
    world.command(&["gh-webhook", "start"])
}

/// A port that nobody listens on at this moment.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn set_port(world: &World, port: u16) {
    let text = std::fs::read_to_string(world.config()).unwrap();
    std::fs::write(world.config(), text.replace("port: 0", &format!("port: {port}"))).unwrap();
}

#[test]
fn without_a_secret_nothing_starts() {
    let world = World::new(DEMO);
    let said = refused(start(&world).env_remove("THE_LOOP_GH_WEBHOOK_SECRET"));
    assert!(said.contains("THE_LOOP_GH_WEBHOOK_SECRET"), "{said}");
    let make =
        "export THE_LOOP_GH_WEBHOOK_SECRET=\"$(od -An -tx1 -N32 /dev/urandom | tr -d ' \\n')\"";
    assert!(said.contains(&format!("run: {make}\n")), "{said}");
    let said = refused(start(&world).env("THE_LOOP_GH_WEBHOOK_SECRET", ""));
    assert!(said.contains("no secret"), "{said}");
    // Asking for it is possible on loopback alone.
    let text = std::fs::read_to_string(world.config()).unwrap();
    std::fs::write(world.config(), text.replace("port: 0", "port: 0\n    host: 0.0.0.0")).unwrap();
    let mut command = world.command(&["gh-webhook", "start", "--insecure-no-secret"]);
    let said = refused(command.env_remove("THE_LOOP_GH_WEBHOOK_SECRET"));
    assert!(said.contains("loopback"), "{said}");
}

#[test]
fn an_unknown_key_and_an_unknown_runner_name_the_nearest() {
    let world = World::new("spawnOnUnmached: labeled");
    let said = refused(&mut start(&world));
    assert!(said.contains("config.yaml:") && said.contains("`spawnOnUnmatched`"), "{said}");
    let world = World::new(DEMO);
    let text = std::fs::read_to_string(world.config()).unwrap();
    std::fs::write(world.config(), text.replace("runner: tmux", "runner: tmx")).unwrap();
    let said = refused(&mut start(&world));
    assert!(said.contains("`tmx`") && said.contains("did you mean `tmux`?"), "{said}");
    // The command line is checked too, as usage.
    let output = world.command(&["gh-webhook", "start", "--runner", "tmx"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_missing_harness_is_said_before_the_port_is_bound() {
    let world = World::new("defaultHarness: claude");
    let port = free_port();
    set_port(&world, port);
    // The port is taken: whoever bound it first would be told that instead.
    let _taken = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let bin = world.home.join("bin");
    std::fs::create_dir(&bin).unwrap();
    let said = refused(start(&world).env("PATH", &bin));
    assert!(said.contains("claude was not found"), "{said}");
    assert!(said.contains("npm install -g @anthropic-ai/claude-code"), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
}

#[test]
fn a_missing_tmux_is_said_with_the_command_for_this_platform() {
    let world = World::new(DEMO);
    let text = std::fs::read_to_string(world.config()).unwrap();
    let path = format!("    path: {}\n", tmux_path().display());
    std::fs::write(world.config(), text.replace(&path, "    path: null\n")).unwrap();
    let bin = world.home.join("bin");
    std::fs::create_dir(&bin).unwrap();
    let said = refused(start(&world).env("PATH", &bin));
    assert!(said.contains("tmux was not found"), "{said}");
    assert!(said.contains("install tmux") || said.contains("--install tmux"), "{said}");
    // One that is configured and is not there is no reason to take another.
    std::fs::write(world.config(), text.replace(&path, "    path: /nowhere/tmux\n")).unwrap();
    let said = refused(&mut start(&world));
    assert!(said.contains("/nowhere/tmux"), "{said}");
}

#[test]
fn a_port_in_use_is_named() {
    let world = World::new(DEMO);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    set_port(&world, port);
    let said = refused(&mut start(&world));
    let own = std::process::id();
    let what = format!("the receiver cannot listen on 127.0.0.1:{port}: process {own} (");
    let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains(&what) && said.contains("this host is not ready"), "{said}");
    assert!(said.contains(&format!("`kill {own}`")), "{said}");
    assert!(said.contains("webhooks.ghWebhook.port"), "{said}");
}

#[tokio::test]
async fn a_second_instance_is_refused_and_the_first_is_named() {
    let mut world = World::new(DEMO);
    world.start().await;
    let (_, out, _) = world.run(&["gh-webhook", "status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&out).unwrap();
    let said = refused(&mut start(&world));
    assert!(said.contains(&format!("pid {}", status["pid"])), "{said}");
    assert!(said.contains("gh-webhook stop"), "{said}");
    // The first is unharmed.
    world.post("s", "issues", &payload::labeled("o/r", 1, "alice")).await;
    world.reaches("s", "delivered").await;
    // Stopping it twice is fine.
    assert_eq!(world.run(&["gh-webhook", "stop"]).0, 0);
    assert!(world.wait_for_end().success());
    let (code, _, err) = world.run(&["gh-webhook", "stop"]);
    assert_eq!(code, 0);
    assert!(err.contains("No receiver runs"), "{err}");
    assert_eq!(world.run(&["gh-webhook", "status"]).0, 1);
}

#[tokio::test]
async fn an_unreadable_session_is_said_and_its_events_are_kept() {
    let mut world = World::new(DEMO);
    world.start().await;
    for item in [1, 2] {
        let id = format!("s-{item}");
        world.post(&id, "issues", &payload::labeled("o/r", item, "alice")).await;
        world.reaches(&id, "delivered").await;
    }
    world.end(Signal::TERM);
    let entry = world.project.join(".the-loop/sessions/o+r+1.json");
    let good = std::fs::read(&entry).unwrap();
    std::fs::write(&entry, &good[..good.len() / 2]).unwrap();
    world.start().await;
    assert!(world.receiver_log().contains("o+r+1.json"), "{}", world.receiver_log());
    let comment = payload::comment("o/r", 1, "alice", "do you hear me?");
    world.post("c", "issue_comment", &comment).await;
    let events = world.reaches("c", "failed").await;
    assert!(events.contains("registry-unreadable") && events.contains("o+r+1.json"), "{events}");
    assert_eq!(std::fs::read(&entry).unwrap(), &good[..good.len() / 2], "it was written over");
    // Also one that would start nothing: nobody knows what it depends on.
    let mut bare = payload::comment("o/r", 1, "alice", "and now?");
    bare["issue"]["labels"] = serde_json::json!([]);
    let closed = payload::closed("o/r", 1, "alice");
    for (id, event, body) in [("b", "issue_comment", &bare), ("x", "issues", &closed)] {
        assert_eq!(world.post(id, event, body).await, 202);
        let events = world.reaches(id, "failed").await;
        assert!(
            events.contains("registry-unreadable") && events.contains("o+r+1.json"),
            "{events}"
        );
    }
    // Its neighbour goes on.
    world.post("d", "issue_comment", &payload::comment("o/r", 2, "alice", "and you?")).await;
    world.reaches("d", "delivered").await;
    // Mended, and sent again by GitHub: it arrives.
    std::fs::write(&entry, &good).unwrap();
    assert_eq!(world.post("c", "issue_comment", &comment).await, 202);
    world.reaches("c", "delivered").await;
    assert_eq!(world.taken("o+r+1").len(), 2);
    let (code, _, err) = world.run(&["gh-webhook", "replay", "b"]);
    assert_eq!(code, 0, "{err}");
    world.reaches("b", "delivered").await;
    assert_eq!(world.taken("o+r+1").len(), 3);
    world.end(Signal::TERM);
    let (code, _, err) = world.run(&["gh-webhook", "replay", "b"]);
    assert!(code == 0 && err.contains("no receiver runs: it waits in the inbox"), "{err}");
}

#[tokio::test]
async fn an_agent_that_dies_at_its_start_is_told_with_its_last_lines() {
    let fake = env!("CARGO_BIN_EXE_fake-harness");
    let mut world = World::new("defaultHarness: claude");
    world.configure("defaultHarness: claude", &claude_at(fake));
    let script = r#"{"mode": "exit-at-start", "say": "cannot find my brain", "exitCode": 7}"#;
    std::fs::write(world.project.join("fake-harness.json"), script).unwrap();
    world.start().await;
    world.post("s", "issues", &payload::labeled("o/r", 1, "alice")).await;
    let events = world.reaches("s", "failed").await;
    assert!(events.contains("harness-exited"), "{events}");
    assert!(events.contains("cannot find my brain"), "{events}");
    // Nothing was typed, so it was tried again before it was given up.
    let json: serde_json::Value = serde_json::from_str(&events).unwrap();
    let steps = json["deliveries"][0]["steps"].as_array().unwrap();
    let retried =
        |step: &&serde_json::Value| step["state"] == "queued" && step["reason"] == "harness-exited";
    assert!(steps.iter().any(|step| retried(&step)), "{events}");
    let (_, out, _) = world.run(&["sessions", "show", "#1"]);
    assert!(out.contains("cannot find my brain"), "{out}");
    let (_, out, _) = world.run(&["sessions", "show", "#1", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["status"], "failed");
    // Once it can start, the next event is its first.
    std::fs::write(world.project.join("fake-harness.json"), r#"{"mode": "idle"}"#).unwrap();
    world.post("c", "issue_comment", &payload::comment("o/r", 1, "alice", "again?")).await;
    world.reaches("c", "delivered").await;
    assert_eq!(world.taken("o+r+1").len(), 1);
}

/// A program that plays Claude, with its real hooks and its transcript.
#[tokio::test]
async fn claude_is_started_told_of_events_and_resumed_through_its_own_interface() {
    let fake = env!("CARGO_BIN_EXE_fake-harness");
    let mut world = World::new("defaultHarness: claude");
    world.configure("defaultHarness: claude", &claude_at(fake));
    std::fs::write(world.project.join("fake-harness.json"), r#"{"mode": "busy", "turnMs": 200}"#)
        .unwrap();
    world.start().await;
    world.post("s", "issues", &payload::labeled("o/r", 1, "alice")).await;
    world.reaches("s", "delivered").await;
    let long = "a long story\n".repeat(60);
    world.post("c", "issue_comment", &payload::comment("o/r", 1, "alice", &long)).await;
    world.reaches("c", "delivered").await;
    world.tmux.run(&["kill-session", "-t", "=loop/o+r+1"]);
    world.post("d", "issue_comment", &payload::comment("o/r", 1, "alice", "go on")).await;
    world.reaches("d", "delivered").await;
    assert_eq!(world.taken("o+r+1").len(), 3);
    // Fixed text of ours alone is in the arguments.
    let arguments = world.tmux.run(&["list-panes", "-a", "-F", "#{pane_pid}"]);
    let arguments = std::fs::read(format!("/proc/{}/cmdline", arguments.trim())).unwrap();
    let arguments = String::from_utf8_lossy(&arguments).into_owned();
    assert!(arguments.contains("--resume") && !arguments.contains("long story"), "{arguments}");
}

pub fn claude_at(path: &str) -> String {
    format!("  claude:\n    path: {path}\n")
}
