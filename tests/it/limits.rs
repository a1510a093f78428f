//! How many agents there are: `maxSessions` and `memoryFloor` keep starts back,
//! and after everything was killed the sessions come back with their ids.

use serde_json::Value;

use crate::support::{World, eventually, payload};

async fn arm(world: &World, number: u64) {
    let id = format!("arm-{number}");
    world.post(&id, "issues", &payload::labeled("o/r", number, "alice")).await;
}

fn reason(events: &str) -> String {
    let value: Value = serde_json::from_str(events).unwrap();
    value["deliveries"][0]["reason"].as_str().unwrap_or_default().to_owned()
}

async fn waits_for(world: &World, id: &str, why: &str) {
    eventually(&format!("{id} waits: {why}"), async || {
        let (_, out, _) = world.run(&["events", id, "--json"]);
        (reason(&out) == why).then_some(())
    })
    .await;
}

fn conversation(world: &World, number: u64) -> String {
    let (_, out, _) = world.run(&["sessions", "show", &format!("o/r#{number}"), "--json"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    value["harnessSessionId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn above_the_most_sessions_a_start_waits_until_one_is_closed() {
    for runner in ["tmux", "process"] {
        let mut world = World::new("");
        world.configure_runner(runner, "defaultHarness: demo\nmaxSessions: 2\n", "");
        world.start().await;
        for number in 1..=2 {
            arm(&world, number).await;
            world.reaches(&format!("arm-{number}"), "delivered").await;
        }
        arm(&world, 3).await;
        waits_for(&world, "arm-3", "sessions-full").await;
        arm(&world, 4).await;
        waits_for(&world, "arm-4", "sessions-full").await;
        let (_, _, err) = world.run(&["sessions", "list"]);
        let held = "`routing.maxSessions` (2) holds back the start of 2 sessions";
        assert!(err.contains(held), "{err}");
        let (_, out, _) = world.run(&["gh-webhook", "status"]);
        assert!(out.contains(&format!("starts         {held}")), "{out}");
        // Those that are open go on.
        let comment = payload::comment("o/r", 1, "alice", "Go on.");
        world.post("on", "issue_comment", &comment).await;
        world.reaches("on", "delivered").await;
        world.post("end", "issues", &payload::closed("o/r", 2, "alice")).await;
        world.reaches("end", "done").await;
        // The one that has waited longest is next, and the other one still waits.
        world.reaches("arm-3", "delivered").await;
        waits_for(&world, "arm-4", "sessions-full").await;
        // Who waits can be closed as well.
        world.post("end-4", "issues", &payload::closed("o/r", 4, "alice")).await;
        world.reaches("end-4", "done").await;
    }
}

#[tokio::test]
async fn with_too_little_memory_nothing_starts_until_the_floor_is_lower() {
    let mut world = World::new("defaultHarness: demo\nmemoryFloor: 1000000GB\n");
    world.start().await;
    arm(&world, 1).await;
    waits_for(&world, "arm-1", "memory-low").await;
    assert!(world.sessions().is_empty());
    world.configure("defaultHarness: demo\nmemoryFloor: 1MB\n", "");
    assert_eq!(world.run(&["gh-webhook", "reload"]).0, 0);
    world.reaches("arm-1", "delivered").await;
}

#[tokio::test]
async fn which_limit_holds_a_start_back_is_judged_anew_after_a_reload() {
    let mut world = World::new("defaultHarness: demo\nmaxSessions: 1\n");
    world.start().await;
    for number in 1..=2 {
        arm(&world, number).await;
        let id = format!("arm-{number}");
        if number == 1 {
            world.reaches(&id, "delivered").await;
        } else {
            waits_for(&world, &id, "sessions-full").await;
        }
    }
    world.configure("defaultHarness: demo\nmemoryFloor: 1000000GB\n", "");
    assert_eq!(world.run(&["gh-webhook", "reload"]).0, 0);
    waits_for(&world, "arm-2", "memory-low").await;
    let held = "`routing.memoryFloor` (1000000GB) holds back the start of 1 session";
    let (_, _, err) = world.run(&["sessions", "list"]);
    assert!(err.contains(held) && !err.contains("maxSessions"), "{err}");
}

#[tokio::test]
async fn what_is_to_be_resumed_at_once_waits_for_memory_and_says_so() {
    const SESSIONS: u64 = 3;
    let mut world = World::new("defaultHarness: demo");
    world.start().await;
    for number in 1..=SESSIONS {
        arm(&world, number).await;
        world.reaches(&format!("arm-{number}"), "delivered").await;
    }
    world.end(rustix::process::Signal::KILL);
    world.tmux.run(&["kill-server"]);
    world.configure("defaultHarness: demo\nmemoryFloor: 1000000GB\n", "");
    world.start_resuming().await;
    let held = "`routing.memoryFloor` (1000000GB) holds back the start of 3 sessions";
    eventually("it is told", async || {
        let (_, _, err) = world.run(&["sessions", "list"]);
        let (_, out, _) = world.run(&["gh-webhook", "status"]);
        (err.contains(held) && out.contains(held)).then_some(())
    })
    .await;
    assert!(world.sessions().is_empty());
    world.configure("defaultHarness: demo\nmemoryFloor: 1MB\n", "");
    assert_eq!(world.run(&["gh-webhook", "reload"]).0, 0);
    eventually("all are back", async || (world.sessions().len() as u64 == SESSIONS).then_some(()))
        .await;
    for number in 1..=SESSIONS {
        let comment = payload::comment("o/r", number, "alice", "Go on.");
        world.post(&format!("on-{number}"), "issue_comment", &comment).await;
        world.reaches(&format!("on-{number}"), "delivered").await;
    }
    // Of more than may be open those with the latest events come back.
    world.end(rustix::process::Signal::KILL);
    world.tmux.run(&["kill-server"]);
    eventually("the server is gone", async || world.sessions().is_empty().then_some(())).await;
    world.configure("defaultHarness: demo\nmaxSessions: 2\n", "");
    world.start_resuming().await;
    eventually("two are back", async || {
        (world.sessions() == ["loop/o+r+2", "loop/o+r+3"]).then_some(())
    })
    .await;
    assert!(world.receiver_log().contains("above `routing.maxSessions`"));
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(world.sessions().len(), 2);
}

#[tokio::test]
async fn ten_sessions_come_back_with_their_ids_after_everything_was_killed() {
    const SESSIONS: u64 = 10;
    let mut world = World::new("defaultHarness: demo");
    world.start().await;
    for number in 1..=SESSIONS {
        arm(&world, number).await;
    }
    for number in 1..=SESSIONS {
        world.reaches(&format!("arm-{number}"), "delivered").await;
    }
    let ids: Vec<_> = (1..=SESSIONS).map(|number| conversation(&world, number)).collect();
    // From inside a pane, as a person may do it by mistake.
    let kill = format!("tmux -S {} kill-server", world.tmux.socket.display());
    world.tmux.run(&["new-window", "-t", "=loop/o+r+1:", &kill]);
    eventually("the server is gone", async || world.sessions().is_empty().then_some(())).await;
    for number in 1..=SESSIONS {
        let comment = payload::comment("o/r", number, "alice", "Still there?");
        world.post(&format!("on-{number}"), "issue_comment", &comment).await;
    }
    for number in 1..=SESSIONS {
        world.reaches(&format!("on-{number}"), "delivered").await;
    }
    assert_eq!(world.sessions().len() as u64, SESSIONS);
    let again: Vec<_> = (1..=SESSIONS).map(|number| conversation(&world, number)).collect();
    assert_eq!(again, ids);

    // A reboot: the receiver, the server and its socket are gone.
    world.end(rustix::process::Signal::KILL);
    world.tmux.run(&["kill-server"]);
    let _ = std::fs::remove_file(&world.tmux.socket);
    world.start_resuming().await;
    eventually("all are back", async || (world.sessions().len() as u64 == SESSIONS).then_some(()))
        .await;
    let again: Vec<_> = (1..=SESSIONS).map(|number| conversation(&world, number)).collect();
    assert_eq!(again, ids);
    let comment = payload::comment("o/r", 3, "alice", "And now?");
    world.post("now", "issue_comment", &comment).await;
    world.reaches("now", "delivered").await;
    assert_eq!(world.sessions().len() as u64, SESSIONS);
}
