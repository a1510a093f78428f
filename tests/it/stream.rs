//! `view: stream` on real tmux: the pane shows what headless turns say, and no
//! key of anybody reaches the agent.

use rustix::process::Signal;
use serde_json::json;

use crate::attach::stream;
use crate::process::{comment, ends, has_one_branch, label, prompts, script, transcripts, world};
use crate::support::{World, eventually};

fn screen(world: &World) -> String {
    world.tmux.run(&["capture-pane", "-p", "-S", "-", "-t", "=loop/o+r+1:"])
}

#[tokio::test]
async fn the_pane_shows_text_tools_and_results_and_keeps_earlier_turns() {
    let mut world = world("");
    stream(&world);
    script(&world, json!({}));
    world.start().await;
    label(&world, "d-1").await;
    world.reaches("d-1", "delivered").await;
    comment(&world, "c-1", "and then?").await;
    world.reaches("c-1", "delivered").await;
    let seen = eventually("both turns are shown", async || {
        let seen = screen(&world);
        (seen.matches("(1.2 s, $0.0125)").count() == 2).then_some(seen)
    })
    .await;
    for text in ["● On it.", "◆ Bash ls -l", "⎿ total 0", "d-1", "c-1"] {
        assert!(seen.contains(text), "{text} is missing:\n{seen}");
    }
    assert_eq!(world.sessions(), ["loop/o+r+1"]);
    assert!(has_one_branch(&transcripts(&world)[0].1));
}

#[tokio::test]
async fn keys_go_nowhere_and_show_nothing() {
    let mut world = world("");
    stream(&world);
    script(&world, json!({}));
    world.start().await;
    label(&world, "d-1").await;
    world.reaches("d-1", "delivered").await;
    eventually("it is shown", async || screen(&world).contains("$0.0125").then_some(())).await;
    world.tmux.run(&["send-keys", "-t", "=loop/o+r+1:", "-l", "rm -rf typed"]);
    world.tmux.run(&["send-keys", "-t", "=loop/o+r+1:", "Enter", "C-c", "C-z", "C-d"]);
    comment(&world, "c-1", "next.").await;
    world.reaches("c-1", "delivered").await;
    eventually("the viewer still lives", async || {
        (screen(&world).matches("$0.0125").count() == 2).then_some(())
    })
    .await;
    assert!(!screen(&world).contains("typed"), "{}", screen(&world));
    assert_eq!(prompts(&world).len(), 2);
}

#[tokio::test]
async fn a_killed_viewer_or_receiver_runs_no_turn_twice() {
    let mut world = world("");
    stream(&world);
    script(&world, json!({ "turnMs": 1000 }));
    world.start().await;
    label(&world, "d-1").await;
    eventually("the turn runs", async || (prompts(&world).len() == 1).then_some(())).await;
    world.tmux.run(&["kill-session", "-t", "=loop/o+r+1"]);
    world.end(Signal::KILL);
    world.start().await;
    world.reaches("d-1", "delivered").await;
    comment(&world, "c-1", "next.").await;
    world.reaches("c-1", "delivered").await;
    assert_eq!(prompts(&world).len(), 2);
    let seen = eventually("the new viewer shows both", async || {
        let seen = screen(&world);
        (seen.matches("$0.0125").count() == 2).then_some(seen)
    })
    .await;
    assert!(seen.contains("d-1") && seen.contains("c-1"), "{seen}");
}

#[tokio::test]
async fn a_turn_without_a_result_says_in_the_pane_and_in_the_log_how_it_ended() {
    let mut world = world("");
    stream(&world);
    let text = std::fs::read_to_string(world.config()).unwrap();
    let text = text.replace("  runner: tmux\n", "  runner: tmux\n  dispatchTimeoutSeconds: 1\n");
    std::fs::write(world.config(), text).unwrap();
    script(&world, json!({ "mode": "never-ends" }));
    world.start().await;
    label(&world, "d-1").await;
    assert_eq!(ends(&world, "d-1").await.1, "turn-timed-out");
    script(&world, json!({ "mode": "cut-json" }));
    comment(&world, "c-1", "and now?").await;
    world.reaches("c-1", "delivered").await;
    let said = [
        "start of work on o/r#1 ──",
        "   d-1",
        "✗ turn-timed-out: the turn did not end within 1 s",
        "comment on o/r#1 ──",
        "   c-1",
        "✗ accepted-without-result: the agent ended with exit code 0 and no result",
    ];
    let is_said = |text: &str| {
        let mut from = 0;
        said.iter().all(|part| {
            let found = text[from..].find(part);
            from += found.unwrap_or(0);
            found.is_some()
        })
    };
    let (_, logs, _) = world.run(&["sessions", "logs", "1"]);
    assert!(is_said(&logs), "{logs}");
    eventually("the pane tells both ends", async || is_said(&screen(&world)).then_some(())).await;
}
