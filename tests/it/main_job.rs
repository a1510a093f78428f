//! The main job, end to end: a receiver of its own process, real tmux, signed
//! deliveries over HTTP.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::support::{World, eventually, payload, post};

const DEMO: &str = "defaultHarness: demo";

fn count(texts: &[String], word: &str) -> usize {
    texts.iter().filter(|text| text.contains(word)).count()
}

#[tokio::test]
async fn a_label_starts_a_session_and_a_comment_is_typed_into_it() {
    let mut world = World::new(DEMO);
    world.start().await;
    let labeled = payload::labeled("Octo/Repo.x", 1, "alice");
    assert_eq!(world.post("d-1", "issues", &labeled).await, 202);
    world.reaches("d-1", "delivered").await;
    assert_eq!(world.sessions(), ["loop/octo+repo++x+1"]);
    let comment = payload::comment("octo/repo.x", 1, "alice", "Also fix the typo.");
    assert_eq!(world.post("d-2", "issue_comment", &comment).await, 202);
    assert_eq!(world.post("d-2", "issue_comment", &comment).await, 200);
    world.reaches("d-2", "delivered").await;
    let taken = world.taken("octo+repo++x+1");
    assert_eq!(taken.len(), 2);
    assert!(taken[0].contains("Issue 1") && taken[0].contains("Please do it."));
    assert!(taken[1].contains("Also fix the typo."));
    assert!(taken.iter().all(|prompt| prompt.starts_with("[the-loop event ")));
}

#[tokio::test]
async fn fifty_comments_for_five_live_sessions_arrive_once_each_in_order_and_nowhere_else() {
    let mut world = World::new(DEMO);
    world.start().await;
    for item in 1..=5 {
        let labeled = payload::labeled("o/r", item, "alice");
        world.post(&format!("start-{item}"), "issues", &labeled).await;
    }
    for item in 1..=5 {
        world.reaches(&format!("start-{item}"), "delivered").await;
    }
    // All at once for the sessions, one after the other within each.
    let url = world.url().to_owned();
    let posts = tokio_util::task::TaskTracker::new();
    for item in 1..=5 {
        let url = url.clone();
        posts.spawn(async move {
            for n in 0..10 {
                let text = format!("comment-{item}-{n}.");
                let body = serde_json::to_vec(&payload::comment("o/r", item, "alice", &text));
                let status =
                    post(&url, &format!("c-{item}-{n}"), "issue_comment", body.unwrap()).await;
                assert_eq!(status, 202);
            }
        });
    }
    posts.close();
    posts.wait().await;
    for item in 1..=5 {
        for n in 0..10 {
            world.reaches(&format!("c-{item}-{n}"), "delivered").await;
        }
    }
    for item in 1..=5 {
        let told = world.told(&format!("o+r+{item}"));
        assert_eq!(told.len(), 11, "session {item} took something twice or lost something");
        for (n, prompt) in told[1..].iter().enumerate() {
            assert!(prompt.contains(&format!("comment-{item}-{n}.")), "session {item}: {prompt}");
        }
    }
}

#[tokio::test]
async fn what_is_for_one_never_reaches_ten_and_a_closed_one_is_revived() {
    let mut world = World::new(DEMO);
    world.start().await;
    for item in [1, 10] {
        let labeled = payload::labeled("o/r", item, "alice");
        world.post(&format!("s-{item}"), "issues", &labeled).await;
        world.reaches(&format!("s-{item}"), "delivered").await;
    }
    // Gone behind our back: the next event starts it again.
    world.tmux.run(&["kill-session", "-t", "=loop/o+r+1"]);
    assert_eq!(world.sessions(), ["loop/o+r+10"]);
    let comment = payload::comment("o/r", 1, "alice", "are you there?");
    world.post("c-1", "issue_comment", &comment).await;
    world.reaches("c-1", "delivered").await;
    assert_eq!(count(&world.taken("o+r+1"), "are you there?"), 1);
    assert_eq!(world.taken("o+r+10").len(), 1);
    // Closed: only it, and the next event brings the same conversation back.
    let (_, before, _) = world.run(&["sessions", "show", "o/r#1", "--json"]);
    world.post("x-1", "issues", &payload::closed("o/r", 1, "alice")).await;
    world.reaches("x-1", "done").await;
    assert_eq!(world.sessions(), ["loop/o+r+10"]);
    let comment = payload::comment("o/r", 1, "alice", "one more thing");
    world.post("c-2", "issue_comment", &comment).await;
    world.reaches("c-2", "delivered").await;
    let (_, after, _) = world.run(&["sessions", "show", "o/r#1", "--json"]);
    let id = |text: &str| {
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        value["harnessSessionId"].as_str().unwrap().to_owned()
    };
    assert_eq!(id(&before), id(&after));
    assert_eq!(world.sessions().len(), 2);
}

#[tokio::test]
async fn names_that_look_alike_have_sessions_of_their_own_and_case_makes_none() {
    let mut world = World::new(DEMO);
    world.start().await;
    for (id, repo) in [("a", "octo-a/b"), ("b", "octo/a-b"), ("c", "octo/a.b")] {
        world.post(id, "issues", &payload::labeled(repo, 1, "alice")).await;
        world.reaches(id, "delivered").await;
    }
    let comment = payload::comment("OCTO/A-B", 1, "Alice", "for a-b alone");
    world.post("d", "issue_comment", &comment).await;
    world.reaches("d", "delivered").await;
    let mut sessions = world.sessions();
    sessions.sort();
    assert_eq!(sessions, ["loop/octo+a++b+1", "loop/octo+a-b+1", "loop/octo-a+b+1"]);
    assert_eq!(count(&world.taken("octo+a-b+1"), "for a-b alone"), 1);
    assert_eq!(world.taken("octo+a++b+1").len() + world.taken("octo-a+b+1").len(), 2);
}

#[tokio::test]
async fn a_restart_keeps_the_sessions_and_delivers_what_waited_once() {
    let mut world = World::new(DEMO);
    world.start().await;
    world.post("s", "issues", &payload::labeled("o/r", 1, "alice")).await;
    world.reaches("s", "delivered").await;
    // A burst, and an end in the middle of it: nobody waits for its delivery.
    for n in 0..8 {
        let comment = payload::comment("o/r", 1, "alice", &format!("word-{n}."));
        assert_eq!(world.post(&format!("w-{n}"), "issue_comment", &comment).await, 202);
    }
    world.reaches("w-0", "delivered").await;
    world.end(Signal::KILL);
    assert_eq!(world.sessions(), ["loop/o+r+1"]);
    world.start().await;
    for n in 0..8 {
        world.reaches(&format!("w-{n}"), "delivered").await;
    }
    let told = world.told("o+r+1");
    assert_eq!(told.len(), 9, "{told:#?}");
    for n in 0..8 {
        assert!(told[n + 1].contains(&format!("word-{n}.")));
    }
    // A repeat is known across the restart.
    let comment = payload::comment("o/r", 1, "alice", "word-0.");
    assert_eq!(world.post("w-0", "issue_comment", &comment).await, 200);
}

#[tokio::test]
async fn sigterm_ends_the_receiver_within_five_seconds_with_the_port_free() {
    let mut world = World::new(DEMO);
    world.start().await;
    world.post("s", "issues", &payload::labeled("o/r", 1, "alice")).await;
    let address = world.url().trim_start_matches("http://").split('/').next().unwrap().to_owned();
    // A connection that says nothing must not hold it up.
    let silent = std::net::TcpStream::connect(&address).unwrap();
    let begin = Instant::now();
    assert!(world.end(Signal::TERM).success());
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    drop(silent);
    let port = address.rsplit(':').next().unwrap();
    world.configure(DEMO, "");
    let text = std::fs::read_to_string(world.config()).unwrap();
    std::fs::write(world.config(), text.replace("port: 0", &format!("port: {port}"))).unwrap();
    world.start().await;
    world.reaches("s", "delivered").await;
    assert_eq!(world.taken("o+r+1").len(), 1);
}

#[tokio::test]
async fn a_ping_is_answered_and_shown_in_the_status() {
    let mut world = World::new(DEMO);
    world.start().await;
    let (_, out, _) = world.run(&["gh-webhook", "status"]);
    assert!(out.contains("last ping      never"), "{out}");
    let ping = json!({ "zen": "Keep it simple.", "hook_id": 1 });
    assert_eq!(world.post("p", "ping", &ping).await, 202);
    world.reaches("p", "done").await;
    let (code, out, _) = world.run(&["gh-webhook", "status"]);
    assert_eq!(code, 0);
    assert!(out.contains("last ping      2"), "{out}");
    assert!(out.contains("1 done"), "{out}");
}

#[tokio::test]
async fn a_strangers_label_and_a_strangers_comment_reach_no_agent() {
    let mut world = World::new(DEMO);
    world.start().await;
    world.post("l", "issues", &payload::labeled("o/r", 1, "mallory")).await;
    let events = world.reaches("l", "ignored").await;
    assert!(events.contains("sender-not-authorized"), "{events}");
    assert_eq!(world.sessions(), Vec::<String>::new());
    world.post("s", "issues", &payload::labeled("o/r", 1, "alice")).await;
    world.reaches("s", "delivered").await;
    let comment = payload::comment("o/r", 1, "mallory", "rm -rf everything");
    world.post("c", "issue_comment", &comment).await;
    world.reaches("c", "ignored").await;
    assert_eq!(world.taken("o+r+1").len(), 1);
}

#[tokio::test]
async fn a_person_sends_and_closes_through_the_same_queue() {
    let mut world = World::new(DEMO);
    world.start().await;
    world.post("s", "issues", &payload::labeled("o/r", 1, "alice")).await;
    world.reaches("s", "delivered").await;
    let (code, out, err) = world.run(&["sessions", "send", "#1", "hello from the host"]);
    assert_eq!(code, 0, "{out}{err}");
    eventually("it was typed", async || {
        (count(&world.taken("o+r+1"), "hello from the host") == 1).then_some(())
    })
    .await;
    let out = eventually("the agent is idle", async || {
        let (code, out, _) = world.run(&["sessions", "list"]);
        assert_eq!(code, 0);
        (out.contains("o/r#1") && out.contains("idle")).then_some(out)
    })
    .await;
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    for _ in 0..2 {
        assert_eq!(world.run(&["sessions", "close", "o/r#1"]).0, 0);
        eventually("it is closed", async || world.sessions().is_empty().then_some(())).await;
    }
    let (_, out, _) = world.run(&["sessions", "list"]);
    assert!(out.contains("closed"), "{out}");
}

#[tokio::test]
async fn without_a_receiver_a_message_waits_in_the_inbox() {
    let mut world = World::new(DEMO);
    world.start().await;
    world.post("s", "issues", &payload::labeled("o/r", 1, "alice")).await;
    world.reaches("s", "delivered").await;
    assert!(world.end(Signal::TERM).success());
    let (code, _, err) = world.run(&["sessions", "send", "#1", "for later"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("no receiver runs"), "{err}");
    world.start().await;
    eventually("it was typed", async || {
        (count(&world.taken("o+r+1"), "for later") == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_half_typed_line_of_a_person_is_never_mixed_and_the_event_waits() {
    let mut world = World::new(DEMO);
    world.start().await;
    world.post("s", "issues", &payload::labeled("o/r", 1, "alice")).await;
    world.reaches("s", "delivered").await;
    eventually("the agent is idle", async || {
        world.run(&["sessions", "list"]).1.contains("idle").then_some(())
    })
    .await;
    world.tmux.run(&["send-keys", "-t", "=loop/o+r+1:", "-l", "half a thou"]);
    let comment = payload::comment("o/r", 1, "alice", "an event meanwhile");
    world.post("c", "issue_comment", &comment).await;
    eventually("it waits, and says why", async || {
        world.run(&["events", "c", "--json"]).1.contains("human-draft").then_some(())
    })
    .await;
    assert_eq!(world.taken("o+r+1").len(), 1);
    world.tmux.run(&["send-keys", "-t", "=loop/o+r+1:", "-l", "ght"]);
    world.tmux.run(&["send-keys", "-t", "=loop/o+r+1:", "Enter"]);
    world.reaches("c", "delivered").await;
    let taken = world.taken("o+r+1");
    assert_eq!(taken[1], "half a thought");
    assert_eq!(count(&taken, "an event meanwhile"), 1);
}

#[tokio::test]
async fn two_receivers_for_one_repository_do_not_share_a_session() {
    let mut first = World::new(DEMO);
    first.start().await;
    first.post("s", "issues", &payload::labeled("o/r", 1, "alice")).await;
    first.reaches("s", "delivered").await;
    // Another project on the same host, and the same tmux server.
    let mut second = World::new(DEMO);
    let text = std::fs::read_to_string(second.config()).unwrap();
    let (own, shared) = (second.tmux.socket.display(), first.tmux.socket.display());
    std::fs::write(second.config(), text.replace(&own.to_string(), &shared.to_string())).unwrap();
    second.start().await;
    second.post("t", "issues", &payload::labeled("o/r", 1, "alice")).await;
    let events = second.reaches("t", "failed").await;
    assert!(events.contains("that this receiver did not make"), "{events}");
    let look = format!("-S {shared} attach -r -t '=loop/o+r+1'");
    assert!(events.contains(&look), "{events}");
    assert_eq!(first.taken("o+r+1").len(), 1);
    first.post("c", "issue_comment", &payload::comment("o/r", 1, "alice", "still there?")).await;
    first.reaches("c", "delivered").await;
    assert_eq!(first.taken("o+r+1").len(), 2);
}

#[tokio::test]
async fn a_log_that_cannot_be_written_stops_nothing() {
    let mut world = World::new(DEMO);
    std::os::unix::fs::symlink("/dev/full", world.home.join("receiver.log")).unwrap();
    world.start_with(&[("THE_LOOP_LOG", "trace".as_ref())]).await;
    world.post("s", "issues", &payload::labeled("o/r", 1, "alice")).await;
    world.reaches("s", "delivered").await;
}

#[tokio::test]
async fn a_server_whose_socket_was_taken_away_is_reached_again() {
    let mut world = World::new(DEMO);
    world.start().await;
    world.post("s", "issues", &payload::labeled("o/r", 1, "alice")).await;
    world.reaches("s", "delivered").await;
    let server = world.tmux.run(&["display-message", "-p", "#{pid}"]);
    std::fs::remove_file(&world.tmux.socket).unwrap();
    world.post("c", "issue_comment", &payload::comment("o/r", 1, "alice", "still there?")).await;
    world.reaches("c", "delivered").await;
    assert_eq!(world.taken("o+r+1").len(), 2);
    assert_eq!(world.tmux.run(&["display-message", "-p", "#{pid}"]), server, "a second server");
}

/// The process of the only pane of a session.
fn pane_pid(world: &World, name: &str) -> String {
    let target = format!("={name}:");
    let out = world.tmux.run(&["list-panes", "-s", "-t", &target, "-F", "#{pane_pid}"]);
    assert_eq!(out.lines().count(), 1, "{out}");
    out
}

#[tokio::test]
async fn a_session_that_a_person_renamed_gets_its_events_and_no_second_agent() {
    let mut world = World::new("defaultHarness: demo");
    world.start().await;
    world.post("d-1", "issues", &payload::labeled("o/r", 1, "alice")).await;
    world.reaches("d-1", "delivered").await;
    let agent = pane_pid(&world, "loop/o+r+1");
    let rename = |world: &World, name: &str| {
        world.tmux.run(&["rename-session", "-t", "=loop/o+r+1", name]);
    };
    rename(&world, "mine");
    eventually("it is seen under its new name", async || {
        let (_, out, _) = world.run(&["sessions", "show", "1", "--json"]);
        let state = serde_json::from_str::<serde_json::Value>(&out).unwrap()["state"].clone();
        assert_ne!(state, "absent");
        (state == "idle").then_some(())
    })
    .await;
    assert!(world.run(&["sessions", "logs", "1"]).1.contains("Issue 1"));
    world.post("c-1", "issue_comment", &payload::comment("o/r", 1, "alice", "more.")).await;
    world.reaches("c-1", "delivered").await;
    assert_eq!(world.sessions(), ["loop/o+r+1"], "it has its name back");
    // Also by a receiver that never saw it under its own name.
    rename(&world, "mine");
    world.end(Signal::TERM);
    world.start().await;
    world.post("c-2", "issue_comment", &payload::comment("o/r", 1, "alice", "again.")).await;
    world.reaches("c-2", "delivered").await;
    assert_eq!(world.sessions(), ["loop/o+r+1"]);
    assert_eq!(pane_pid(&world, "loop/o+r+1"), agent);
    // And while somebody else's session has the name, which is left alone.
    rename(&world, "mine");
    world.tmux.run(&["new-session", "-d", "-s", "loop/o+r+1", "sleep", "600"]);
    world.post("c-3", "issue_comment", &payload::comment("o/r", 1, "alice", "once more.")).await;
    world.reaches("c-3", "delivered").await;
    assert_eq!(pane_pid(&world, "mine"), agent);
    assert_eq!(world.taken("o+r+1").len(), 4);
    let (code, _, err) = world.run(&["sessions", "close", "1"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(world.sessions(), ["loop/o+r+1"], "the stranger's");
}

#[tokio::test]
async fn an_agent_that_dies_before_an_event_has_failed_until_it_is_back() {
    let mut world = World::new("defaultHarness: claude");
    let fake = crate::refusals::claude_at(env!("CARGO_BIN_EXE_fake-harness"));
    world.configure("defaultHarness: claude", &fake);
    let file = world.project.join("fake-harness.json");
    let script = |text: &str| std::fs::write(&file, text);
    script(r#"{"turnMs": 60000}"#).unwrap();
    world.start().await;
    world.post("s", "issues", &payload::labeled("o/r", 1, "alice")).await;
    world.reaches("s", "delivered").await;
    world.post("c", "issue_comment", &payload::comment("o/r", 1, "alice", "and then?")).await;
    eventually("it waits for the turn's end", async || {
        world.run(&["events", "c"]).1.contains("agent-busy").then_some(())
    })
    .await;
    let show = || {
        let (_, out, _) = world.run(&["sessions", "show", "1", "--json"]);
        serde_json::from_str::<serde_json::Value>(&out).unwrap()
    };
    script("{}").unwrap();
    let pid: i32 = pane_pid(&world, "loop/o+r+1").trim().parse().unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), Signal::KILL)
        .unwrap();
    let why = eventually("it has failed", async || {
        let shown = show();
        assert!(shown["status"] == "failed" || shown["failure"].is_null(), "{shown}");
        shown["failure"].as_str().map(str::to_owned)
    })
    .await;
    assert!(why.starts_with("the agent ended before it took a text"), "{why}");
    world.reaches("c", "delivered").await;
    let shown = show();
    assert_eq!((&shown["status"], &shown["failure"]), (&"active".into(), &json!(null)));
}
