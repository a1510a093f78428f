//! What only Cursor's agent does.

use serde_json::{Value, json};

use super::LOST;
use super::rig::{Rig, Row};
use crate::process::{comment, label};

const CURSOR: Row = Row { harness: "cursor", runner: "tmux" };

#[tokio::test]
async fn an_older_cursor_is_not_given_what_it_would_refuse() {
    let mut rig = Rig::new(CURSOR, "");
    rig.script(json!({ "version": "2026.06.15-abc" }));
    rig.world.start().await;
    label(&rig.world, "d-1").await;
    rig.is_delivered("d-1").await;
}

async fn a_chat_that_is_lost_silently_is_told_with_the_next_prompt(runner: &'static str) {
    let mut rig = Rig::new(Row { harness: "cursor", runner }, "");
    rig.world.start().await;
    label(&rig.world, "d-1").await;
    rig.is_delivered("d-1").await;
    let first = rig.conversation();
    rig.script(json!({ "mode": "refuses-resume" }));
    rig.kill_agent().await;
    comment(&rig.world, "c-1", "go on.").await;
    rig.is_delivered("c-1").await;
    let second = rig.conversation();
    assert_ne!(second, first);
    let (_, out, _) = rig.world.run(&["sessions", "show", "o/r#1"]);
    let said = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("began another"), "{out}");
    rig.script(json!({}));
    for id in ["c-2", "c-3"] {
        comment(&rig.world, id, "and on.").await;
        rig.is_delivered(id).await;
    }
    assert_eq!(rig.conversation(), second);
    let told: Vec<_> = rig.prompts().iter().map(|prompt| prompt.contains(LOST)).collect();
    for prompt in rig.prompts().iter().filter(|prompt| prompt.contains(LOST)) {
        assert!(prompt.contains("You work on o/r#1 in this directory"), "{prompt}");
    }
    assert_eq!(told, [false, false, true, false]);
}

#[tokio::test]
async fn a_chat_that_cursor_lost_is_told_in_tmux() {
    a_chat_that_is_lost_silently_is_told_with_the_next_prompt("tmux").await;
}

#[tokio::test]
async fn a_chat_that_cursor_lost_is_told_headless() {
    a_chat_that_is_lost_silently_is_told_with_the_next_prompt("process").await;
}

#[tokio::test]
async fn an_id_that_cannot_be_one_starts_nothing() {
    let mut rig = Rig::new(CURSOR, "");
    rig.script(json!({ "creates": "--yolo" }));
    rig.world.start().await;
    label(&rig.world, "d-1").await;
    let (state, reason, detail) = rig.ends("d-1").await;
    assert_eq!((state.as_str(), reason.as_str()), ("failed", "start-failed"), "{detail}");
    assert!(detail.contains("`cursor` named no conversation, but said `--yolo`"), "{detail}");
    assert!(rig.world.sessions().is_empty());
}

#[tokio::test]
async fn a_file_of_the_users_is_changed_only_when_that_is_asked_for_and_shown() {
    let rig = Rig::new(CURSOR, "");
    let file = rig.world.home.join(".cursor/hooks.json");
    let before = "{\"version\": 1, \"hooks\": {\"stop\": [{\"command\": \"mine\"}]}}";
    std::fs::write(&file, before).unwrap();
    // Nothing would be proven without our hooks: said before the port is bound.
    let (code, _, err) = rig.world.run(&["gh-webhook", "start"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("the-loop doctor --fix --only agent.files"), "{err}");
    let (_, out, err) = rig.world.run(&["doctor", "--fix", "--dry-run", "--only", "agent.files"]);
    assert!(format!("{out}{err}").contains("beforeSubmitPrompt"), "{out}{err}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    let (code, out, err) = rig.world.run(&["doctor", "--fix", "--only", "agent.files"]);
    assert_eq!(code, 0, "{out}{err}");
    let after: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(after["hooks"]["stop"][0], json!({ "command": "mine" }));
    assert_eq!(after["hooks"]["stop"].as_array().unwrap().len(), 2);
}
