//! `view: stream` on real tmux: the pane shows what headless turns say, and no
//! key of anybody reaches the agent.

use rustix::process::Signal;
use serde_json::json;

use crate::attach::stream;
use crate::process::{comment, has_one_branch, label, prompts, script, transcripts, world};
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
