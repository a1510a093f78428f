//! The process runner on the real thing: a receiver of its own process, signed
//! deliveries, and an agent that runs one headless turn for each.

use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};
use the_loop::base::clock::Clock;
use the_loop::core::outcome::{Reason, State};
use the_loop::state::inbox::{Inbox, LocalMessage, Route, RouteAction, Step};

use crate::support::{World, eventually, payload};

const FAKE: &str = env!("CARGO_BIN_EXE_fake-harness");

/// A world with the process runner and the fake in Claude's place.
pub fn world(routing: &str) -> World {
    let world = World::new("");
    configure(&world, "process", routing);
    world
}

/// Writes the configuration of such a world.
pub fn configure(world: &World, runner: &str, routing: &str) {
    let claude = format!("  claude:\n    path: {FAKE}\n");
    world.configure_runner(runner, routing, &claude);
}

/// Tells the fake what to do.
pub fn script(world: &World, mut script: Value) {
    script["prompts"] = json!(world.home.join("prompts"));
    std::fs::write(world.project.join("fake-harness.json"), script.to_string()).unwrap();
}

/// Lets a session have its first turn, `d-1`, and ends the receiver politely.
pub async fn had_a_turn(world: &mut World) {
    script(world, json!({}));
    world.start().await;
    label(world, "d-1").await;
    world.reaches("d-1", "delivered").await;
    world.end(Signal::TERM);
}

/// Lets a session be in its first turn, `d-1`, until the file whose path is given is
/// there.
pub async fn in_a_turn(world: &mut World) -> PathBuf {
    let end = world.home.join("end");
    script(world, json!({ "endsAt": end }));
    world.start().await;
    label(world, "d-1").await;
    eventually("the turn runs", async || (prompts(world).len() == 1).then_some(())).await;
    end
}

/// The prompts that the fake took, in order.
pub fn prompts(world: &World) -> Vec<String> {
    let text = std::fs::read_to_string(world.home.join("prompts")).unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            serde_json::from_str::<Value>(line).ok()?["prompt"].as_str().map(str::to_owned)
        })
        .collect()
}

/// The records of every transcript of the fake, by file.
pub fn transcripts(world: &World) -> Vec<(PathBuf, Vec<Value>)> {
    let root = world.project.join(".fake-claude/projects");
    let mut found = Vec::new();
    for dir in std::fs::read_dir(root).into_iter().flatten().flatten() {
        for file in std::fs::read_dir(dir.path()).unwrap().flatten() {
            let text = std::fs::read_to_string(file.path()).unwrap();
            let records =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<_>>();
            found.push((file.path(), records));
        }
    }
    found
}

/// Whether no two prompts of a transcript follow the same one.
pub fn has_one_branch(records: &[Value]) -> bool {
    let mut parents: Vec<_> = records
        .iter()
        .filter(|record| record["type"] == "user")
        .map(|record| record["parentUuid"].to_string())
        .collect();
    let all = parents.len();
    parents.sort();
    parents.dedup();
    all == parents.len()
}

pub async fn label(world: &World, id: &str) {
    assert_eq!(world.post(id, "issues", &payload::labeled("o/r", 1, "alice")).await, 202);
}

pub async fn comment(world: &World, id: &str, text: &str) {
    let comment = payload::comment("o/r", 1, "alice", text);
    assert_eq!(world.post(id, "issue_comment", &comment).await, 202);
}

/// The last step of a delivery: state, reason, detail.
pub async fn ends(world: &World, id: &str) -> (String, String, String) {
    eventually(&format!("{id} ends"), async || {
        let (_, out, _) = world.run(&["events", id, "--json"]);
        let value: Value = serde_json::from_str(&out).ok()?;
        let delivery = &value["deliveries"][0];
        let state = delivery["state"].as_str()?.to_owned();
        let is_over = !["received", "queued", "injecting"].contains(&state.as_str());
        let step = delivery["steps"].as_array()?.last()?.clone();
        let text = |key: &str| step[key].as_str().unwrap_or_default().to_owned();
        is_over.then(|| (state, text("reason"), text("detail")))
    })
    .await
}

fn show(world: &World) -> Value {
    let (_, out, err) = world.run(&["sessions", "show", "o/r#1", "--json"]);
    serde_json::from_str(&out).unwrap_or_else(|_| unreachable!("{out}{err}"))
}

#[tokio::test]
async fn each_event_is_a_turn_of_one_conversation_and_says_what_it_cost() {
    let mut world = world("");
    script(&world, json!({}));
    world.start().await;
    label(&world, "d-1").await;
    let (state, reason, detail) = ends(&world, "d-1").await;
    assert_eq!((state.as_str(), reason.as_str()), ("delivered", "accepted"), "{detail}");
    assert_eq!(detail, "1.2 s, $0.0125");
    for n in 0..3 {
        comment(&world, &format!("c-{n}"), &format!("comment {n}.")).await;
        world.reaches(&format!("c-{n}"), "delivered").await;
    }
    let prompts = prompts(&world);
    assert_eq!(prompts.len(), 4);
    assert!((0..3).all(|n| prompts[n + 1].contains(&format!("comment {n}."))));
    let transcripts = transcripts(&world);
    assert_eq!(transcripts.len(), 1, "one conversation");
    assert!(has_one_branch(&transcripts[0].1));
    let shown = show(&world);
    assert_eq!(shown["runner"], "process");
    assert_eq!(shown["lastTurn"], "1.2 s, $0.0125");
    assert!(world.sessions().is_empty(), "no tmux session is made");
}

#[tokio::test]
async fn with_no_runner_set_and_no_agent_installed_the_demo_answers_headless() {
    let mut world = World::new("");
    world.configure_runner("process", "defaultHarness: demo", "");
    let text = std::fs::read_to_string(world.config()).unwrap();
    std::fs::write(world.config(), text.replace("  runner: process\n", "")).unwrap();
    world.start().await;
    label(&world, "d-1").await;
    world.reaches("d-1", "delivered").await;
    comment(&world, "c-1", "more.").await;
    world.reaches("c-1", "delivered").await;
    assert_eq!(world.taken("o+r+1").len(), 2);
    assert_eq!(show(&world)["runner"], "process");
}

#[tokio::test]
async fn a_kill_of_the_receiver_during_a_turn_runs_no_turn_twice_and_loses_none() {
    let mut world = world("");
    script(&world, json!({ "turnMs": 1500 }));
    world.start().await;
    label(&world, "d-1").await;
    eventually("the first turn runs", async || (prompts(&world).len() == 1).then_some(())).await;
    // Not before: what waits for a start is told together.
    comment(&world, "c-1", "second.").await;
    world.end(Signal::KILL);
    world.start().await;
    world.reaches("d-1", "delivered").await;
    eventually("the second turn runs", async || (prompts(&world).len() == 2).then_some(())).await;
    world.end(Signal::KILL);
    // Its end is not seen by anybody: its result is read at the next start.
    eventually("the turn ended", async || {
        let (_, records) = transcripts(&world).pop()?;
        let ended = records.iter().filter(|record| record["type"] == "assistant").count();
        (ended == 2).then_some(())
    })
    .await;
    world.start().await;
    let (state, reason, detail) = ends(&world, "c-1").await;
    assert_eq!((state.as_str(), reason.as_str()), ("delivered", "accepted"), "{detail}");
    assert_eq!(prompts(&world).len(), 2);
    assert!(has_one_branch(&transcripts(&world)[0].1));
}

#[tokio::test]
async fn what_cannot_be_proven_after_a_restart_is_reported_and_not_sent_again() {
    let mut world = world("");
    script(&world, json!({ "mode": "mute", "turnMs": 60000 }));
    world.start().await;
    label(&world, "d-1").await;
    eventually("the turn runs", async || (prompts(&world).len() == 1).then_some(())).await;
    world.end(Signal::KILL);
    let turns = world.state_dir().join("turns/o+r+1");
    let turn = std::fs::read_dir(&turns).unwrap().next().unwrap().unwrap().path();
    // The agent dies with no receiver there, and its signals were lost.
    let claim: Value =
        serde_json::from_slice(&std::fs::read(turn.join("claim.json")).unwrap()).unwrap();
    let pid = i32::try_from(claim["pid"].as_i64().unwrap()).unwrap();
    let group = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process_group(group, Signal::KILL).unwrap();
    std::fs::remove_dir_all(world.state_dir().join("spool/o+r+1")).unwrap();
    world.start().await;
    let (state, reason, _) = ends(&world, "d-1").await;
    assert_eq!((state.as_str(), reason.as_str()), ("unproven", "no-signal"));
    assert_eq!(prompts(&world).len(), 1);
}

#[tokio::test]
async fn a_prompt_of_a_megabyte_arrives_whole() {
    let mut world = world("");
    had_a_turn(&mut world).await;
    // Longer than routing makes one.
    let prompt = put_into_the_queue(&world, "long-1", &"ab c".repeat(1 << 18)).await;
    world.start().await;
    world.reaches("long-1", "delivered").await;
    assert!(prompts(&world)[1] == prompt);
}

/// Puts a prompt of any length into the queue of the session, by hand, while no
/// receiver runs; gives the prompt.
pub async fn put_into_the_queue(world: &World, id: &str, text: &str) -> String {
    let item: the_loop::base::ids::WorkItem = "o/r#1".parse().unwrap();
    let marker = the_loop::base::ids::Marker::new([7; 16]);
    let prompt = format!("[the-loop event {marker}]\n{text}\nend");
    let inbox = Inbox::open(&world.state_dir().join("inbox.db"), Clock::System).unwrap();
    let message = LocalMessage { item: item.clone(), text: Some("long".to_owned()), now: false };
    let id: the_loop::base::ids::DeliveryId = id.parse().unwrap();
    inbox.accept(message.into_delivery(id.clone())).await.unwrap();
    let route = Route {
        slug: item.slug(),
        item,
        marker,
        prompt: prompt.clone(),
        start: false,
        url: None,
        action: RouteAction::Deliver,
        now: false,
    };
    let (state, reason) = (State::Queued, Reason::SentByHand);
    let step = Step { delivery: id, state, reason, detail: None, route: Some(route) };
    inbox.record(vec![step]).await.unwrap();
    inbox.close();
    prompt
}

#[tokio::test]
async fn a_turn_that_never_ends_is_ended_with_all_that_it_started() {
    let mut world = world("dispatchTimeoutSeconds: 1");
    script(&world, json!({ "mode": "never-ends" }));
    world.start().await;
    label(&world, "d-1").await;
    let (state, reason, detail) = ends(&world, "d-1").await;
    assert_eq!((state.as_str(), reason.as_str()), ("delivered", "turn-timed-out"));
    assert!(detail.starts_with("the turn did not end within 1 s"), "{detail}");
    let output = std::process::Command::new("ps").args(["-eo", "args"]).output().unwrap();
    let all = String::from_utf8_lossy(&output.stdout).into_owned();
    let home = world.home.to_str().unwrap();
    assert!(!all.lines().any(|line| line.contains("launch --claim") && line.contains(home)));
    // Later events are not blocked.
    script(&world, json!({}));
    comment(&world, "c-1", "next.").await;
    world.reaches("c-1", "delivered").await;
}

#[tokio::test]
async fn what_a_finished_turn_left_running_ends_with_it_also_after_a_restart() {
    let mut world = world("");
    script(&world, json!({ "mode": "leaves-child" }));
    let left = world.project.join("left");
    world.start().await;
    label(&world, "d-1").await;
    let (state, reason, _) = ends(&world, "d-1").await;
    assert_eq!((state.as_str(), reason.as_str()), ("delivered", "accepted"));
    assert_eq!(std::fs::read_to_string(&left).unwrap(), "bye\n");
    // The next turn ends while no receiver runs.
    script(&world, json!({ "mode": "leaves-child", "turnMs": 1000 }));
    comment(&world, "c-1", "more.").await;
    eventually("the turn runs", async || {
        (std::fs::read_to_string(&left).unwrap() == "here\n").then_some(())
    })
    .await;
    world.end(Signal::KILL);
    eventually("the turn ended", async || {
        let (_, records) = transcripts(&world).pop()?;
        let ended = records.iter().filter(|record| record["type"] == "assistant").count();
        (ended == 2).then_some(())
    })
    .await;
    assert_eq!(std::fs::read_to_string(&left).unwrap(), "here\n", "nobody was there to end it");
    world.start().await;
    let (state, _, _) = ends(&world, "c-1").await;
    assert_eq!(state, "delivered");
    assert_eq!(std::fs::read_to_string(&left).unwrap(), "bye\n");
}

#[tokio::test]
async fn a_hundred_megabytes_of_output_are_drained_and_bounded() {
    let mut world = world("");
    script(&world, json!({ "mode": "huge" }));
    world.start().await;
    label(&world, "d-1").await;
    let (state, reason, _) = ends(&world, "d-1").await;
    assert_eq!((state.as_str(), reason.as_str()), ("delivered", "accepted"));
    let stdout = world.state_dir().join("turns/o+r+1/0000000001/stdout");
    let on_disk = std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(stdout).unwrap()) * 512;
    assert!((15 << 20..17 << 20).contains(&on_disk), "{on_disk}");
    // The newest is what is kept.
    assert_eq!(show(&world)["lastTurn"], "1.2 s, $0.0125");
    let (_, logs, _) = world.run(&["sessions", "logs", "1"]);
    assert!((15 << 20..17 << 20).contains(&logs.len()), "{}", logs.len());
    assert!(logs.trim_end().ends_with("(1.2 s, $0.0125)"));
}

#[tokio::test]
async fn every_end_of_a_turn_has_a_clear_state() {
    let mut world = world("");
    script(&world, json!({}));
    world.start().await;
    label(&world, "d-1").await;
    world.reaches("d-1", "delivered").await;
    let cases = [
        (json!({ "mode": "cut-json" }), "exit code 0 and no result"),
        (json!({ "mode": "exit-after", "exitCode": 0 }), "exit code 0 and no result"),
        (json!({ "mode": "exit-after", "exitCode": 1 }), "exit code 1 "),
        (json!({ "mode": "exit-after", "exitCode": 127 }), "exit code 127 "),
        (json!({ "mode": "exit-after", "exitCode": 255 }), "exit code 255 "),
        (json!({ "mode": "killed-after" }), "signal 9 "),
    ];
    for (n, (what, said)) in cases.into_iter().enumerate() {
        script(&world, what);
        let id = format!("c-{n}");
        comment(&world, &id, "go on.").await;
        let (state, reason, detail) = ends(&world, &id).await;
        assert_eq!((state.as_str(), reason.as_str()), ("delivered", "accepted-without-result"));
        assert!(detail.contains(said), "{detail}");
        // The session is well: what its turn lacked is the turn's.
        let shown = show(&world);
        assert_eq!((&shown["status"], &shown["failure"]), (&json!("active"), &Value::Null));
        assert_eq!(shown["lastTurn"], detail);
    }
    // One that ends before it took anything.
    script(&world, json!({ "mode": "exit-at-start", "exitCode": 3, "say": "" }));
    comment(&world, "e-1", "go on.").await;
    let (state, reason, detail) = ends(&world, "e-1").await;
    assert_eq!((state.as_str(), reason.as_str()), ("failed", "harness-exited"), "{detail}");
    assert!(detail.contains("exit code 3"), "{detail}");
    let shown = show(&world);
    assert_eq!(shown["status"], "failed");
    assert!(shown["failure"].as_str().unwrap().contains("exit code 3"), "{shown}");
    // A turn that succeeds takes the failure away.
    script(&world, json!({}));
    comment(&world, "e-2", "again.").await;
    world.reaches("e-2", "delivered").await;
    let shown = show(&world);
    assert_eq!((&shown["status"], &shown["failure"]), (&json!("active"), &Value::Null));
}

#[tokio::test]
async fn a_session_that_cannot_be_started_says_so_and_why() {
    let mut world = world("");
    script(&world, json!({}));
    let gone = world.home.join("gone");
    std::fs::create_dir(&gone).unwrap();
    let cwd = gone.to_str().unwrap();
    let (code, _, err) = world.run(&["sessions", "register", "o/r#1", "--cwd", cwd]);
    assert_eq!(code, 0, "{err}");
    std::fs::remove_dir(&gone).unwrap();
    world.start().await;
    comment(&world, "c-1", "hello.").await;
    let (state, reason, detail) = ends(&world, "c-1").await;
    assert_eq!((state.as_str(), reason.as_str()), ("failed", "start-failed"), "{detail}");
    let shown = show(&world);
    assert_eq!(shown["status"], "failed");
    assert_eq!(shown["failure"], detail);
    assert!(detail.contains("gone` is not there"), "{detail}");
}

#[tokio::test]
async fn a_session_whose_agent_is_not_found_says_so() {
    let mut world = world("");
    script(&world, json!({}));
    world.start().await;
    label(&world, "d-1").await;
    world.reaches("d-1", "delivered").await;
    let config = std::fs::read_to_string(world.config()).unwrap();
    let link = world.home.join("agent");
    let fake = env!("CARGO_BIN_EXE_fake-harness");
    std::os::unix::fs::symlink(fake, &link).unwrap();
    assert!(config.contains(fake), "{config}");
    std::fs::write(world.config(), config.replace(fake, link.to_str().unwrap())).unwrap();
    world.end(Signal::TERM);
    world.start().await;
    std::fs::remove_file(&link).unwrap();
    comment(&world, "c-1", "hello.").await;
    let (state, reason, detail) = ends(&world, "c-1").await;
    assert_eq!((state.as_str(), reason.as_str()), ("failed", "start-failed"), "{detail}");
    let shown = show(&world);
    assert_eq!((&shown["status"], &shown["failure"]), (&json!("failed"), &json!(detail)));
}

#[tokio::test]
async fn a_result_names_no_conversation_and_no_price_that_cannot_be() {
    let mut world = world("");
    script(&world, json!({ "saysSession": "--continue.x", "saysCost": -3.5 }));
    world.start().await;
    label(&world, "d-1").await;
    world.reaches("d-1", "delivered").await;
    let before = show(&world);
    assert_eq!(before["lastTurn"], "1.2 s, cost unknown");
    script(&world, json!({ "saysSession": "not-a-uuid", "saysCost": 1e300 }));
    comment(&world, "c-1", "go on.").await;
    world.reaches("c-1", "delivered").await;
    let after = show(&world);
    assert_eq!(after["lastTurn"], "1.2 s, cost unknown");
    assert_eq!(after["harnessSessionId"], before["harnessSessionId"]);
    assert_eq!(transcripts(&world).len(), 1, "one conversation");
}

#[tokio::test]
async fn the_reason_of_a_pause_is_not_a_failure() {
    let mut world = world("rateLimit: 2");
    script(&world, json!({}));
    world.start().await;
    label(&world, "d-1").await;
    for n in 0..3 {
        comment(&world, &format!("c-{n}"), "more.").await;
    }
    let shown = eventually("it is paused", async || {
        let shown = show(&world);
        (shown["status"] == "paused").then_some(shown)
    })
    .await;
    assert_eq!(shown["failure"], Value::Null);
    assert!(shown["pausedWhy"].as_str().unwrap().contains("`routing.rateLimit`"), "{shown}");
    let (_, text, _) = world.run(&["sessions", "show", "o/r#1"]);
    assert!(text.contains("  paused         more than 2 events"), "{text}");
    assert!(!text.contains("failed"), "{text}");
    assert!(text.contains("sessions resume o/r#1` goes on"), "{text}");
    assert!(text.contains("  state          paused"), "{text}");
    let (_, list, _) = world.run(&["sessions", "list"]);
    assert!(list.contains("o/r#1  paused"), "{list}");
    // What waited for something else before waits for this now.
    let (_, waits, _) = world.run(&["events", "c-2"]);
    assert!(waits.contains("sessions resume o/r#1`"), "{waits}");
    assert_eq!(world.run(&["sessions", "resume", "1"]).0, 0);
    assert_eq!(show(&world)["pausedWhy"], Value::Null);
}

#[tokio::test]
async fn a_lost_conversation_begins_anew_and_the_agent_is_told() {
    let mut world = world("");
    script(&world, json!({}));
    world.start().await;
    label(&world, "d-1").await;
    world.reaches("d-1", "delivered").await;
    let before = show(&world)["harnessSessionId"].clone();
    script(&world, json!({ "mode": "refuses-resume" }));
    comment(&world, "c-1", "still there?").await;
    let out = world.reaches("c-1", "delivered").await;
    assert!(out.contains("fresh-conversation"), "{out}");
    assert_ne!(show(&world)["harnessSessionId"], before);
    let prompts = prompts(&world);
    assert_eq!(prompts.len(), 2);
    let second: Vec<_> = prompts[1].lines().collect();
    assert!(second[0].starts_with("[the-loop event "), "{}", second[0]);
    assert!(second[1].contains("this is a fresh one"), "{}", second[1]);
}

#[tokio::test]
async fn flipping_the_runner_touches_no_session_and_both_kinds_live_side_by_side() {
    let mut world = World::new("defaultHarness: demo");
    world.start().await;
    label(&world, "d-1").await;
    world.reaches("d-1", "delivered").await;
    world.end(Signal::TERM);
    world.configure_runner("process", "defaultHarness: demo", "");
    world.start().await;
    comment(&world, "c-1", "still in tmux.").await;
    world.reaches("c-1", "delivered").await;
    let other = payload::labeled("o/r", 2, "alice");
    world.post("d-2", "issues", &other).await;
    world.reaches("d-2", "delivered").await;
    assert_eq!(world.sessions(), ["loop/o+r+1"]);
    assert_eq!(world.taken("o+r+1").len(), 2);
    assert_eq!(show(&world)["runner"], "tmux");
    // And with no usable tmux its events fail with the reason: no fallback.
    world.end(Signal::TERM);
    let text = std::fs::read_to_string(world.config()).unwrap();
    let real = crate::support::tmux_path();
    let text =
        text.replace(&format!("  tmux:\n    path: {}\n", real.display()), "  prefer: system\n");
    std::fs::write(world.config(), text).unwrap();
    world.path = "/nowhere".to_owned();
    world.start().await;
    comment(&world, "c-2", "and now?").await;
    let (state, reason, _) = ends(&world, "c-2").await;
    assert_eq!((state.as_str(), reason.as_str()), ("failed", "no-tmux"));
    assert_eq!(world.taken("o+r+1").len(), 2);
}

#[tokio::test]
async fn an_entry_that_names_no_runner_is_headless_whatever_new_sessions_are() {
    let mut world = world("");
    script(&world, json!({}));
    let cases: [&[&str]; 3] = [&["runner"], &["tmuxTarget"], &["runner", "tmuxTarget", "view"]];
    for (item, without) in (1..).zip(cases) {
        assert_eq!(world.run(&["sessions", "register", &format!("o/r#{item}")]).0, 0);
        let path = world.project.join(format!(".the-loop/sessions/o+r+{item}.json"));
        let mut entry: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        for key in without {
            assert!(entry.as_object_mut().unwrap().remove(*key).is_some(), "{key}");
        }
        std::fs::write(&path, entry.to_string()).unwrap();
    }
    configure(&world, "tmux", "");
    world.start().await;
    for item in 1..=cases.len() {
        let id = format!("c-{item}");
        let comment = payload::comment("o/r", u64::try_from(item).unwrap(), "alice", "go on.");
        assert_eq!(world.post(&id, "issue_comment", &comment).await, 202);
        world.reaches(&id, "delivered").await;
    }
    assert_eq!(prompts(&world).len(), cases.len());
    assert!(world.sessions().is_empty(), "no tmux session is made");
    let (_, out, _) = world.run(&["sessions", "list", "--json"]);
    let listed: Value = serde_json::from_str(&out).unwrap();
    let listed = listed["sessions"].as_array().unwrap();
    assert!(listed.iter().all(|session| session["runner"] == "process"), "{out}");
}
