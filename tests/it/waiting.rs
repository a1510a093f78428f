//! Events that wait: what is urgent, what is told together, what a person lets
//! in, and what people can see of it.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{World, eventually, payload};

/// A world with an item's session, whose agent is the fake that `script` tells
/// what to do. `tmux` goes below `routing.tmux`.
fn world(script: &Value, tmux: &str) -> World {
    let world = World::new("defaultHarness: claude");
    let text = std::fs::read_to_string(world.config()).unwrap();
    let fake = env!("CARGO_BIN_EXE_fake-harness");
    let text = text.replacen("tools:\n", &format!("tools:\n  claude:\n    path: {fake}\n"), 1);
    let text = text.replace("    readyTimeoutSeconds", &format!("{tmux}    readyTimeoutSeconds"));
    std::fs::write(world.config(), text).unwrap();
    let mut script = script.clone();
    script["prompts"] = json!(world.home.join("prompts"));
    std::fs::write(world.project.join("fake-harness.json"), script.to_string()).unwrap();
    world
}

/// The prompts that the fake took, in order.
fn prompts(world: &World) -> Vec<String> {
    let text = std::fs::read_to_string(world.home.join("prompts")).unwrap_or_default();
    let notes = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    notes.filter_map(|note| Some(note["prompt"].as_str()?.to_owned())).collect()
}

async fn label(world: &World) {
    assert_eq!(world.post("s", "issues", &payload::labeled("o/r", 1, "alice")).await, 202);
    world.reaches("s", "delivered").await;
}

async fn says(world: &World, id: &str, text: &str) {
    let comment = payload::comment("o/r", 1, "alice", text);
    assert_eq!(world.post(id, "issue_comment", &comment).await, 202);
}

async fn waits(world: &World, id: &str, reason: &str) {
    eventually(&format!("{id} waits: {reason}"), async || {
        let (_, out, _) = world.run(&["events", id, "--json"]);
        let value: Value = serde_json::from_str(&out).ok()?;
        (value["deliveries"][0]["reason"] == reason).then_some(())
    })
    .await;
}

fn state(world: &World, id: &str) -> String {
    let (_, out, _) = world.run(&["events", id, "--json"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    value["deliveries"][0]["state"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_waits_for_the_turns_end_is_told_together_and_what_is_urgent_before() {
    let mut world = world(&json!({ "turnMs": 4000 }), "");
    world.start().await;
    label(&world).await;
    says(&world, "a", "word-a.").await;
    waits(&world, "a", "agent-busy").await;
    says(&world, "b", "word-b.").await;
    says(&world, "n", "the-loop now: word-n.").await;
    world.reaches("n", "delivered").await;
    assert_eq!(state(&world, "a"), "queued", "the turn is over already");
    let (code, _, err) = world.run(&["sessions", "send", "1", "--now", "word-o."]);
    assert_eq!(code, 0, "{err}");
    eventually("it is told in the turn", async || {
        prompts(&world).iter().any(|prompt| prompt.contains("word-o.")).then_some(())
    })
    .await;
    world.reaches("a", "delivered").await;
    world.reaches("b", "delivered").await;
    let prompts = prompts(&world);
    let last = prompts.last().unwrap();
    let at = |word: &str| last.find(word).unwrap_or_else(|| unreachable!("{prompts:#?}"));
    assert!(at("word-a.") < at("word-b."), "{prompts:#?}");
    assert_eq!(prompts.len(), 4, "{prompts:#?}");
}

#[tokio::test]
async fn with_deliver_when_now_nothing_waits_at_our_gate_for_the_turns_end() {
    let mut world = world(&json!({ "turnMs": 4000 }), "    deliverWhen: now\n");
    world.start().await;
    label(&world).await;
    says(&world, "a", "word-a.").await;
    eventually("the agent holds it back", async || {
        prompts(&world).iter().any(|prompt| prompt.contains("word-a.")).then_some(())
    })
    .await;
    // Until its turn takes it up it is not delivered: an agent that ends has lost it.
    waits(&world, "a", "submitted").await;
    says(&world, "b", "word-b.").await;
    for id in ["a", "b"] {
        world.reaches(id, "delivered").await;
    }
}

#[tokio::test]
async fn what_is_too_long_to_be_typed_is_in_a_private_file_that_the_text_names() {
    let mut world = world(&json!({}), "    typeMax: 2KB\n");
    world.start().await;
    label(&world).await;
    let text = format!("beginning. {} the end.", "word ".repeat(1000));
    says(&world, "a", &text).await;
    world.reaches("a", "delivered").await;
    let told = prompts(&world).pop().unwrap();
    assert!(told.len() < 2500 && told.contains("beginning."), "{told}");
    assert!(!told.contains("the end."));
    let file = told.split("is in the file `").nth(1).unwrap().split('`').next().unwrap();
    let whole = std::fs::read_to_string(file).unwrap();
    assert!(whole.contains(&text) && whole.starts_with("[the-loop event "));
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_pause_also_holds_what_waits_at_the_gate() {
    let mut world = world(&json!({ "turnMs": 2000 }), "");
    world.start().await;
    label(&world).await;
    says(&world, "a", "word-a.").await;
    waits(&world, "a", "agent-busy").await;
    assert_eq!(world.run(&["sessions", "pause", "1"]).0, 0);
    waits(&world, "a", "session-paused").await;
    assert_eq!(world.run(&["sessions", "resume", "1"]).0, 0);
    world.reaches("a", "delivered").await;
}

#[tokio::test]
async fn a_group_that_a_crash_left_in_the_box_arrives_once() {
    let mut world = world(&json!({ "turnMs": 1500 }), "");
    world.start().await;
    label(&world).await;
    for id in ["a", "b"] {
        says(&world, id, &format!("word-{id}.")).await;
    }
    waits(&world, "a", "agent-busy").await;
    world.end(Signal::KILL);
    let mark = world.home.join("frozen");
    let (at, mark) = (("THE_LOOP_FREEZE_AT", "before-submit".as_ref()), mark.as_os_str());
    world.start_with(&[at, ("THE_LOOP_FREEZE_MARK", mark)]).await;
    waits(&world, "b", "submitted").await;
    world.end(Signal::KILL);
    // What came meanwhile does not join what stands in the box.
    let (code, _, err) = world.run(&["sessions", "send", "1", "--now", "word-c."]);
    assert_eq!(code, 0, "{err}");
    world.start().await;
    for id in ["a", "b"] {
        world.reaches(id, "delivered").await;
    }
    eventually("all is told", async || (prompts(&world).len() == 3).then_some(())).await;
    let prompts = prompts(&world);
    assert!(prompts[1].contains("word-a.") && prompts[1].contains("word-b."), "{prompts:#?}");
    assert!(prompts[2].contains("word-c."), "{prompts:#?}");
}

fn list(world: &World) -> String {
    let (code, out, err) = world.run(&["sessions", "list"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    out
}

fn show(world: &World) -> Value {
    let (_, out, err) = world.run(&["sessions", "show", "1", "--json"]);
    serde_json::from_str(&out).unwrap_or_else(|_| unreachable!("{out}{err}"))
}

#[tokio::test]
async fn a_person_lets_in_what_waits_and_is_told_what_holds_it_still() {
    let mut world = world(&json!({ "turnMs": 4000 }), "");
    world.start().await;
    let (code, _, err) = world.run(&["sessions", "release", "1"]);
    assert_eq!((code, err.contains("there is no session for `1`")), (1, true), "{err}");
    label(&world).await;
    let (code, _, err) = world.run(&["sessions", "release", "1"]);
    assert_eq!((code, err.as_str()), (0, "nothing waits for o/r#1\n"));
    for id in ["a", "b"] {
        says(&world, id, &format!("word-{id}.")).await;
    }
    waits(&world, "a", "agent-busy").await;
    let (code, _, err) = world.run(&["sessions", "release", "1"]);
    assert_eq!((code, err.as_str()), (0, "2 events let in\n"));
    for id in ["a", "b"] {
        world.reaches(id, "delivered").await;
    }
    // Over the input box nothing is typed, whoever lets it in.
    world.tmux.run(&["copy-mode", "-t", "=loop/o+r+1:"]);
    says(&world, "c", "word-c.").await;
    waits(&world, "c", "copy-mode").await;
    let (code, _, err) = world.run(&["sessions", "release", "1"]);
    assert_eq!(code, 1);
    assert!(
        err.starts_with("error: 1 event still waits: The pane is in tmux's copy mode."),
        "{err}"
    );
    world.tmux.run(&["send-keys", "-t", "=loop/o+r+1:", "-X", "cancel"]);
    world.reaches("c", "delivered").await;
    world.run(&["sessions", "pause", "1"]);
    let (code, _, err) = world.run(&["sessions", "release", "1"]);
    assert_eq!((code, err.contains("o/r#1 is paused")), (1, true), "{err}");
}

#[tokio::test]
async fn a_window_gets_the_size_of_who_looks_or_the_configured_one() {
    let mut world = world(&json!({}), "");
    world.start().await;
    label(&world).await;
    let size = || {
        let format = "#{window_width}x#{window_height}";
        world.tmux.run(&["display-message", "-p", "-t", "=loop/o+r+1:", format])
    };
    assert_eq!(size(), "160x48\n");
    let (code, _, err) = world.run(&["sessions", "resize", "1", "--fit"]);
    assert_eq!((code, err.contains("nobody is attached")), (1, true), "{err}");
    // A person's terminal: a pane of another server.
    let person = crate::support::TmuxServer::new();
    let socket = world.tmux.socket.display();
    let attach = format!("env -u TMUX tmux -S {socket} attach -t '=loop/o+r+1'");
    person.run(&["new-session", "-d", "-x", "101", "-y", "31", "/bin/sh", "-c", &attach]);
    eventually("somebody is attached", async || (show(&world)["clients"] == 1).then_some(())).await;
    assert_eq!(size(), "160x48\n");
    let (code, _, err) = world.run(&["sessions", "resize", "1", "--fit"]);
    assert_eq!((code, err.as_str()), (0, "the window of o/r#1 has 101x30 cells now\n"));
    assert_eq!(size(), "101x30\n");
    assert_eq!(world.run(&["sessions", "resize", "1"]).0, 0);
    assert_eq!(size(), "160x48\n");
}

#[tokio::test]
async fn the_trace_tells_step_by_step_how_events_were_typed() {
    let mut world = world(&json!({ "turnMs": 1500 }), "");
    world.start().await;
    label(&world).await;
    says(&world, "a", "word-a.").await;
    world.reaches("a", "delivered").await;
    let (code, out, err) = world.run(&["sessions", "show", "1", "--trace"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    let trace = out.split("typed in the last hour (UTC):\n").nth(1).unwrap();
    let mine = trace.split("    a\n").nth(1).unwrap();
    let order = ["busy, box empty: waits: agent-busy", ": pastes", "presses the submit key"];
    let at: Vec<_> = order.iter().map(|word| mine.find(word)).collect();
    assert!(at.iter().all(Option::is_some) && at.is_sorted(), "{out}");
    assert!(mine.trim_end().ends_with("the agent has it: delivered"), "{out}");
    let (_, out, _) = world.run(&["sessions", "show", "1", "--trace", "--json"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["trace"].as_array().unwrap().last().unwrap()["delivery"], "a");
}

#[tokio::test]
async fn the_trace_tells_each_of_those_that_were_typed_together() {
    let mut world = world(&json!({ "turnMs": 1500 }), "");
    world.start().await;
    label(&world).await;
    let others: Vec<_> =
        (0..3).map(|n| format!("{n}2d3162e-cc78-11e3-81ab-4c9367dc0958")).collect();
    says(&world, "a", "word-a.").await;
    for id in &others {
        says(&world, id, "more words.").await;
    }
    for id in &others {
        world.reaches(id, "delivered").await;
    }
    assert_eq!(prompts(&world).len(), 2, "they were told together");
    let (_, out, _) = world.run(&["sessions", "show", "1", "--trace"]);
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    let mine = out.rsplit("    a\n").next().unwrap();
    let (with, steps) = mine.split_at(mine.find('.').unwrap());
    assert!(with.trim_start().starts_with("together with "), "{out}");
    assert!(others.iter().all(|id| with.contains(id)), "{out}");
    assert!(steps.trim_end().ends_with("the agent has it: delivered"), "{out}");
    let (_, out, _) = world.run(&["sessions", "show", "1", "--trace", "--json"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    let last = value["trace"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["delivery"], &last["with"]), (&json!("a"), &json!(others)));
}

/// Makes a program that is told of blocked agents, and gives where it writes.
fn told_to_a_program(world: &World) -> std::path::PathBuf {
    let (program, file) = (world.home.join("tell me"), world.home.join("told"));
    let script = format!(
        "#!/bin/sh\n{{ echo \"args $*\"; env | grep THE_LOOP_; echo end; }} >> '{}'\n",
        file.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let text = std::fs::read_to_string(world.config()).unwrap();
    let notify = format!("notify:\n  command: ['{}', --fixed]\n", program.display());
    std::fs::write(world.config(), text + &notify).unwrap();
    file
}

#[tokio::test]
async fn a_blocked_agent_is_shown_with_what_it_asks_and_somebody_is_told_once() {
    let mut world = world(&json!({ "mode": "dialog" }), "");
    let told = told_to_a_program(&world);
    world.start().await;
    label(&world).await;
    let out = eventually("it is blocked", async || {
        let out = list(&world);
        out.contains("blocked").then_some(out)
    })
    .await;
    assert!(out.contains("asks: "), "{out}");
    let shown = show(&world);
    let asks = shown["asks"].as_str().unwrap_or_default();
    assert!(asks.contains("Do you want to proceed?"), "{shown:#}");
    let text = eventually("somebody is told", async || {
        let text = std::fs::read_to_string(&told).ok()?;
        text.ends_with("end\n").then_some(text)
    })
    .await;
    assert!(text.starts_with("args --fixed\n"), "{text}");
    for fact in [
        "THE_LOOP_NOTICE=blocked\n",
        "THE_LOOP_ITEM=o/r#1\n",
        "THE_LOOP_SESSION=o+r+1\n",
        "THE_LOOP_TMUX=loop/o+r+1\n",
        "THE_LOOP_TITLE=Issue 1\n",
        "THE_LOOP_URL=https://github.com/o/r/issues/1\n",
    ] {
        assert!(text.contains(fact), "{fact}\n{text}");
    }
    assert!(text.contains("THE_LOOP_ASKS=Bash"), "{text}");
    assert!(!text.contains("THE_LOOP_GH_WEBHOOK_SECRET") && !text.contains("THE_LOOP_SPOOL"));
    says(&world, "a", "word-a.").await;
    waits(&world, "a", "agent-asks").await;
    let (_, out, _) = world.run(&["events", "a"]);
    assert!(out.contains("agent-asks") && out.contains("To change it: answer it"), "{out}");
    assert_eq!(std::fs::read_to_string(&told).unwrap().matches("end\n").count(), 1);
}

#[tokio::test]
async fn a_start_without_its_ready_signal_is_blocked_with_its_screen_as_evidence() {
    let mut world = world(&json!({ "mode": "never-ready" }), "");
    let told = told_to_a_program(&world);
    world.start().await;
    world.post("s", "issues", &payload::labeled("o/r", 1, "alice")).await;
    eventually("its screen is evidence", async || {
        let (_, out, _) = world.run(&["events", "s", "--json"]);
        let value: Value = serde_json::from_str(&out).ok()?;
        let steps = value["deliveries"][0]["steps"].as_array()?;
        let step = steps.iter().find(|step| step["reason"] == "not-ready")?;
        step["detail"].as_str()?.contains("Do you want to proceed?").then_some(())
    })
    .await;
    let out = list(&world);
    assert!(out.contains("blocked") && out.contains("asks: first run: "), "{out}");
    let (_, out, _) = world.run(&["sessions", "show", "1"]);
    assert!(out.contains("it did not say that it is ready; its screen then:\n"), "{out}");
    eventually("somebody is told", async || {
        std::fs::read_to_string(&told).ok()?.contains("THE_LOOP_ASKS=first run: ").then_some(())
    })
    .await;
}

#[tokio::test]
async fn who_looks_at_a_session_sees_how_many_events_wait_and_no_word_of_them() {
    let mut world = world(&json!({ "turnMs": 5000 }), "    waitNotice: 1s\n");
    world.start().await;
    label(&world).await;
    for id in ["a", "b"] {
        says(&world, id, "SECRET-WORD").await;
    }
    let option = |world: &World, name: &str| {
        world.tmux.run(&["show-options", "-qv", "-t", "=loop/o+r+1:", name])
    };
    eventually("the count is shown", async || {
        option(&world, "status-right").starts_with("[the-loop: 2 waiting] ").then_some(())
    })
    .await;
    assert_eq!(option(&world, "@the_loop_waiting"), "2\n");
    assert!(!world.tmux.run(&["show-options", "-t", "=loop/o+r+1:"]).contains("SECRET"));
    assert_eq!(show(&world)["waiting"], 2);
    let out = list(&world);
    assert!(out.contains("WAIT") && out.contains(" 2     claude "), "{out}");
    // `waitNotice` has passed.
    eventually("it is said to wait", async || {
        world.run(&["events", "a"]).1.contains("It has been waiting for ").then_some(())
    })
    .await;
    let (_, out, _) = world.run(&["events"]);
    assert!(out.contains("  waiting    agent-busy"), "{out}");
    // A receiver that ends leaves a count, and the next one knows better.
    world.end(Signal::KILL);
    world.start().await;
    world.reaches("b", "delivered").await;
    eventually("the count is gone", async || {
        option(&world, "status-right").is_empty().then_some(())
    })
    .await;
    assert_eq!(option(&world, "@the_loop_waiting"), "");
}

#[tokio::test]
async fn what_the_agents_own_file_says_it_waits_for_holds_events_too() {
    let mut world = world(&json!({}), "");
    world.start().await;
    label(&world).await;
    let pid = world.tmux.run(&["display-message", "-p", "-t", "=loop/o+r+1:", "#{pane_pid}"]);
    let pid: u32 = pid.trim().parse().unwrap();
    let conversation = show(&world)["harnessSessionId"].clone();
    let dir = world.home.join(".claude/sessions");
    std::fs::create_dir_all(&dir).unwrap();
    let says = |status: &str| {
        let text = json!({ "pid": pid, "sessionId": conversation, "status": status,
                           "waitingFor": "a question of a later version" });
        std::fs::write(dir.join(format!("{pid}.json")), text.to_string()).unwrap();
    };
    says("waiting");
    let out = list(&world);
    assert!(out.contains("blocked") && out.contains("asks: a question of a"), "{out}");
    self::says(&world, "a", "word-a.").await;
    waits(&world, "a", "agent-asks").await;
    let (_, out, _) = world.run(&["events", "a"]);
    assert!(out.contains("  a question of a later version\n"), "{out}");
    says("idle");
    world.reaches("a", "delivered").await;
}
