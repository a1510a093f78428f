//! Agents that do not do as they should: that ignore every wish to end, or take long
//! to say who they are.

use std::os::unix::fs::PermissionsExt;

use crate::support::{World, eventually, payload};

/// An agent that ignores that its terminal is gone and that it is asked to end, with
/// a child that ignores it too.
const DEAF: &str = "#!/bin/sh\n\
    case \"$1\" in --version) echo 1.0.0; exit;; esac\n\
    trap '' HUP TERM\n\
    sleep 120 &\n\
    printf '> '\n\
    sleep 120\n";

/// A world with this agent.
fn world(routing: &str, script: &str) -> World {
    let world = World::new(routing);
    let program = world.home.join("deaf");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let plain = std::fs::read_to_string(world.config()).unwrap();
    let declared = format!(
        "harnesses:\n  deaf:\n    program: {}\n    spawn: ['{{id}}']\n    resume: ['{{id}}']\n    \
         screen: {{prompt: '>', saysReady: true}}\n",
        program.display()
    );
    std::fs::write(world.config(), format!("{plain}{declared}")).unwrap();
    world
}

/// The processes of a terminal, by the number of the one that leads it.
fn of_terminal(leader: &str) -> Vec<String> {
    let stats = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        (fields[3] == leader && fields[0] != "Z").then_some(stat)
    });
    stats.collect()
}

/// Starts the agent of an item, and gives the process that it is.
async fn started(world: &World, number: u64) -> String {
    let id = format!("arm-{number}");
    world.post(&id, "issues", &payload::labeled("o/r", number, "alice")).await;
    runs(world, number).await
}

/// Waits until the agent of an item and its child run.
async fn runs(world: &World, number: u64) -> String {
    eventually("the agent and its child run", async || {
        let pane = format!("=loop/o+r+{number}:");
        let pid = world.tmux.run(&["display-message", "-p", "-t", &pane, "#{pane_pid}"]);
        let pid = pid.trim().to_owned();
        (!pid.is_empty() && of_terminal(&pid).len() == 3).then_some(pid)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_ignores_every_wish_ends_with_its_session() {
    let mut world = world("defaultHarness: deaf\n", DEAF);
    world.start().await;
    let (by_hand, by_event, alone) =
        (started(&world, 1).await, started(&world, 2).await, started(&world, 3).await);
    let (code, _, err) = world.run(&["sessions", "close", "o/r#1"]);
    assert_eq!((code, of_terminal(&by_hand)), (0, vec![]), "{err}");
    world.post("closed", "issues", &payload::closed("o/r", 2, "alice")).await;
    world.reaches("closed", "done").await;
    assert_eq!(of_terminal(&by_event), [""; 0]);
    // No other session's process is touched.
    assert_eq!(of_terminal(&alone).len(), 3);
    world.end(rustix::process::Signal::TERM);
    let (code, _, err) = world.run(&["sessions", "close", "o/r#3"]);
    assert_eq!((code, of_terminal(&alone)), (0, vec![]), "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_agent_left_ends_with_its_session() {
    let mut world = world("defaultHarness: deaf\n", DEAF);
    world.start().await;
    let leader = started(&world, 1).await;
    let pid = rustix::process::Pid::from_raw(leader.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    eventually("only what it left runs", async || (of_terminal(&leader).len() == 2).then_some(()))
        .await;
    let (code, _, err) = world.run(&["sessions", "close", "o/r#1"]);
    assert_eq!((code, of_terminal(&leader)), (0, vec![]), "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_slow_to_tell_its_version_is_asked_again() {
    let once = "case \"$1\" in --version) [ -e \"$0.asked\" ] || { : >\"$0.asked\"; exec sleep 120; }; esac";
    let script = DEAF.replacen('\n', &format!("\n{once}\n"), 1);
    let mut world = world("defaultHarness: demo\n", &script);
    let (code, _, err) = world.run(&["sessions", "register", "o/r#1", "--harness", "deaf"]);
    assert_eq!(code, 0, "{err}");
    world.start().await;
    let comment = payload::comment("o/r", 1, "alice", "Begin.");
    world.post("slow", "issue_comment", &comment).await;
    let asked = world.home.join("deaf.asked");
    eventually("it was asked", async || asked.exists().then_some(())).await;
    let begin = std::time::Instant::now();
    let said = loop {
        let (_, said, _) = world.run(&["events", "slow"]);
        if said.contains("did not answer") {
            break said;
        }
        assert!(begin.elapsed().as_secs() < 60, "{said}");
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    };
    assert!(said.contains("queued     start-failed") && !said.contains("install"), "{said}");
    runs(&world, 1).await;
    assert_eq!(world.run(&["sessions", "close", "o/r#1"]).0, 0);
}
