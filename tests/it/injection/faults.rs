//! Faults under an injection: a program that is stopped, a tmux that dies or dawdles.
//! The event is held or told with its reason, the other sessions go on, and nothing
//! arrives twice.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::stage::Stage;
use crate::support::{World, eventually, payload, tmux_path};

/// A stage with two sessions that took their first event.
async fn two_sessions(prepare: impl FnOnce(&World)) -> Stage {
    let mut stage = Stage::new(&json!({}));
    prepare(&stage.world);
    stage.start().await;
    for item in [1, 2] {
        let labeled = payload::labeled("o/r", item, "alice");
        let id = format!("start-{item}");
        assert_eq!(stage.world.post(&id, "issues", &labeled).await, 202);
        stage.world.reaches(&id, "delivered").await;
    }
    stage
}

async fn comment(stage: &Stage, item: u64, id: &str) {
    let comment = payload::comment("o/r", item, "alice", &format!("word of {id}."));
    assert_eq!(stage.world.post(id, "issue_comment", &comment).await, 202);
}

async fn stands(stage: &Stage, id: &str, state: &str, reason: &str) {
    eventually(&format!("{id} is {state}, {reason}"), async || {
        let (is, why, _) = stage.state(id);
        (is == state && why == reason).then_some(())
    })
    .await;
}

fn times(stage: &Stage, id: &str) -> usize {
    let word = format!("word of {id}.");
    stage.prompts().iter().filter(|prompt| prompt.contains(&word)).count()
}

fn of_the_first(world: &World, what: &str) -> String {
    let shown = world.tmux.run(&["display-message", "-p", "-t", "=loop/o+r+1:", what]);
    shown.trim().to_owned()
}

fn signal(pid: &str, signal: Signal) {
    kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), signal).unwrap();
}

/// tmux lets a pane's own program go on as soon as it is stopped; not so a child of
/// it.
fn agent_behind_a_shell(world: &World) {
    let wrapper = world.home.join("claude.sh");
    let fake = env!("CARGO_BIN_EXE_fake-harness");
    std::fs::write(&wrapper, format!("#!/bin/sh\n'{fake}' \"$@\"\nexit $?\n")).unwrap();
    std::fs::set_permissions(&wrapper, PermissionsExt::from_mode(0o755)).unwrap();
    let config = std::fs::read_to_string(world.config()).unwrap();
    std::fs::write(world.config(), config.replace(fake, wrapper.to_str().unwrap())).unwrap();
}

#[tokio::test]
async fn a_stopped_program_holds_its_events_and_nobody_elses_and_gets_each_once() {
    let stage = two_sessions(agent_behind_a_shell).await;
    let shell = of_the_first(&stage.world, "#{pane_pid}");
    let agent = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
    let agent = agent.trim();
    let state = || {
        let (_, out, _) = stage.world.run(&["sessions", "show", "1", "--json"]);
        serde_json::from_str::<serde_json::Value>(&out).unwrap()["state"].clone()
    };
    assert_eq!(state(), "idle");
    signal(agent, Signal::STOP);
    eventually("it is shown as stopped", async || (state() == "stopped").then_some(())).await;
    comment(&stage, 1, "e-1").await;
    stands(&stage, "e-1", "injecting", "not-reading").await;
    comment(&stage, 1, "e-2").await;
    comment(&stage, 2, "e-3").await;
    stage.world.reaches("e-3", "delivered").await;
    // Long enough for a text that does not show to be pasted again.
    tokio::time::sleep(Duration::from_secs(4)).await;
    signal(agent, Signal::CONT);
    stage.world.reaches("e-1", "delivered").await;
    stage.world.reaches("e-2", "delivered").await;
    assert_eq!((times(&stage, "e-1"), times(&stage, "e-2")), (1, 1));
}

#[tokio::test]
async fn a_conversation_is_resumed_only_while_its_transcript_is_there() {
    let stage = two_sessions(|_| ()).await;
    let transcripts = || {
        let dir = stage.world.project.join(".fake-claude/projects");
        let projects = std::fs::read_dir(dir).unwrap();
        let files = projects.flat_map(|dir| std::fs::read_dir(dir.unwrap().path()).unwrap());
        files.map(|file| file.unwrap().path()).collect::<Vec<_>>()
    };
    assert_eq!(transcripts().len(), 2);
    for (id, is_there) in [("e-1", true), ("e-2", false)] {
        if !is_there {
            for file in transcripts() {
                std::fs::remove_file(file).unwrap();
            }
        }
        signal(&of_the_first(&stage.world, "#{pane_pid}"), Signal::KILL);
        comment(&stage, 1, id).await;
        stage.world.reaches(id, "delivered").await;
        assert_eq!(times(&stage, id), 1);
    }
    assert_eq!(transcripts().len(), 1);
}

#[tokio::test]
async fn a_server_that_is_killed_in_the_middle_costs_no_event() {
    let stage = two_sessions(|_| ()).await;
    let server = of_the_first(&stage.world, "#{pid}");
    for n in 0..4 {
        comment(&stage, 1 + n % 2, &format!("e-{n}")).await;
    }
    signal(&server, Signal::KILL);
    for n in 0..4 {
        stage.world.reaches(&format!("e-{n}"), "delivered").await;
        assert_eq!(times(&stage, &format!("e-{n}")), 1);
    }
}

/// A tmux that takes as long as the file says for what concerns one pane.
fn dawdling_tmux(world: &World) {
    let (wrapper, slow) = (world.home.join("tmux.sh"), world.home.join("slow"));
    let tmux = tmux_path();
    let script = format!(
        "#!/bin/sh\nif [ -e '{0}' ]; then\n  case \"$*\" in *\"$(cat '{0}')\"*) sleep 11;; esac\nfi\n\
         exec '{1}' \"$@\"\n",
        slow.display(),
        tmux.display()
    );
    std::fs::write(&wrapper, script).unwrap();
    std::fs::set_permissions(&wrapper, PermissionsExt::from_mode(0o755)).unwrap();
    let config = std::fs::read_to_string(world.config()).unwrap();
    let config = config.replace(tmux.to_str().unwrap(), wrapper.to_str().unwrap());
    std::fs::write(world.config(), config).unwrap();
}

#[tokio::test]
async fn a_tmux_that_answers_after_ten_seconds_holds_one_session_with_the_reason() {
    let stage = two_sessions(dawdling_tmux).await;
    let pane = of_the_first(&stage.world, "#{pane_id}");
    std::fs::write(stage.world.home.join("slow"), format!("-t {pane}")).unwrap();
    comment(&stage, 1, "e-1").await;
    comment(&stage, 2, "e-2").await;
    stage.world.reaches("e-2", "delivered").await;
    stands(&stage, "e-1", "queued", "tmux-failed").await;
    let (_, _, out) = stage.state("e-1");
    assert!(out.contains("tmux failed to show a pane"), "{out}");
    std::fs::remove_file(stage.world.home.join("slow")).unwrap();
    stage.world.reaches("e-1", "delivered").await;
    assert_eq!(times(&stage, "e-1"), 1);
}

#[tokio::test]
async fn what_the_agent_held_back_when_it_died_is_told_to_the_next_one_once() {
    let mut stage = Stage::new(&json!({ "turnMs": 60_000 }));
    stage.start().await;
    let labeled = payload::labeled("o/r", 1, "alice");
    assert_eq!(stage.world.post("start", "issues", &labeled).await, 202);
    stage.world.reaches("start", "delivered").await;
    let text = "the-loop now: word of held.";
    let held = payload::comment("o/r", 1, "alice", text);
    assert_eq!(stage.world.post("held", "issue_comment", &held).await, 202);
    eventually("the agent holds it back", async || (times(&stage, "held") == 1).then_some(()))
        .await;
    // Its transcript says that it is in the queue, and its hook tells of it.
    eventually("that is known", async || {
        let (_, trace, _) = stage.world.run(&["sessions", "show", "1", "--trace"]);
        trace.contains("the agent holds it back").then_some(())
    })
    .await;
    stands(&stage, "held", "injecting", "submitted").await;
    signal(&of_the_first(&stage.world, "#{pane_pid}"), Signal::KILL);
    stage.world.reaches("held", "delivered").await;
    // The killed agent had taken up nothing; the next one has it.
    assert_eq!(times(&stage, "held"), 2);
    let (_, out, _) = stage.world.run(&["events", "held"]);
    assert_eq!(out.matches(" pasted").count(), 2, "{out}");
}
