//! The homes that agents run in: what stands there stays, and what an agent would
//! ask in a fresh one is told.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::rig::{Rig, Row};
use crate::process::label;
use crate::support::eventually;

/// Every file below a directory, with what is in it.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(files(&entry.path()));
        } else if kind.is_file() {
            found.insert(entry.path(), std::fs::read(entry.path()).unwrap());
        }
    }
    found
}

pub async fn the_users_files_stay_as_they_are(row: Row) {
    let mut rig = Rig::new(row, "");
    for (file, text) in [
        (".claude.json", "{ \"hasCompletedOnboarding\": true }"),
        (".claude/settings.json", "{ \"hooks\": {} }\n"),
        (".codex/config.toml", "model = \"m\"\n"),
        (".gemini/settings.json", "{\"hooks\":{}}"),
        (".copilot/config.json", "// Theirs.\n{}"),
        (".copilot/hooks/mine.json", "{\"version\": 1}"),
        (".config/opencode/opencode.json", "{ }"),
        (".cursor/cli-config.json", "{}"),
    ] {
        let path = rig.world.home.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let before = files(&rig.world.home);
    rig.world.start().await;
    label(&rig.world, "d-1").await;
    rig.is_delivered("d-1").await;
    let after = files(&rig.world.home);
    let changed: Vec<_> =
        before.iter().filter(|(path, text)| after.get(*path) != Some(*text)).collect();
    assert!(changed.is_empty(), "{changed:?}");
    // What is new is the agent's own, or has our name.
    let is_known = |path: &Path| {
        let parts = path.strip_prefix(&rig.world.home).unwrap().to_string_lossy().into_owned();
        ["the-loop", ".fake-agents", "prompts", "session-state", ".fake-claude", "receiver.log"]
            .iter()
            .any(|part| parts.contains(part))
    };
    let new: Vec<_> =
        after.keys().filter(|path| !before.contains_key(*path) && !is_known(path)).collect();
    assert!(new.is_empty(), "{new:?}");
}

#[test]
fn what_an_agent_would_ask_in_a_fresh_home_is_told_with_its_remedy() {
    let rig = Rig::new(Row { harness: "gemini", runner: "tmux" }, "");
    let doctor = |rig: &Rig, args: &[&str]| {
        let args = [&["doctor", "--only", "agent.first-run"], args].concat();
        let (code, out, err) = rig.world.run(&args);
        // As one line: where a path ends one is not known.
        (code, format!("{out}{err}").split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let (code, told) = doctor(&rig, &[]);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("gemini would begin by asking how to authenticate, and wait"), "{told}");
    assert!(told.contains("once by hand and answer what it asks"), "{told}");
    let settings = rig.world.home.join(".gemini/settings.json");
    assert!(!settings.exists(), "nothing is answered");
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    std::fs::write(&settings, "{\"security\": {\"auth\": {\"selectedType\": \"x\"}}}").unwrap();
    let (_, told) = doctor(&rig, &[]);
    assert!(!told.contains("would begin"), "{told}");

    let rig = Rig::new(Row { harness: "copilot", runner: "tmux" }, "");
    let file = rig.world.home.join(".copilot/config.json");
    let before = "// This file is managed automatically.\n{\"x\": 1}";
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, before).unwrap();
    let (_, told) = doctor(&rig, &["--fix", "--dry-run"]);
    assert!(told.contains("trustedFolders"), "what would be added is shown: {told}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    let (code, told) = doctor(&rig, &["--fix"]);
    assert_eq!(code, 0, "{told}");
    let after = std::fs::read_to_string(&file).unwrap();
    let (head, json) = after.split_once('\n').unwrap();
    assert_eq!(head, "// This file is managed automatically.");
    let after: Value = serde_json::from_str(json).unwrap();
    let project = std::fs::canonicalize(&rig.world.project).unwrap();
    assert_eq!(after, json!({ "x": 1, "trustedFolders": [project] }));
    // A directory above it is enough.
    let above = json!({ "trustedFolders": [project.parent().unwrap()] });
    std::fs::write(&file, above.to_string()).unwrap();
    let (_, told) = doctor(&rig, &[]);
    assert!(!told.contains("would begin"), "{told}");
}

#[test]
fn that_codex_would_ask_how_to_sign_in_is_told_until_something_settles_it() {
    for (file, text) in [
        (".codex/auth.json", "{\"auth_mode\": \"apikey\"}"),
        (".codex/config.toml", "# Ours.\nmodel_provider = \"mine\"\n"),
    ] {
        let rig = Rig::new(Row { harness: "codex", runner: "tmux" }, "");
        let path = rig.world.home.join(file);
        let told = || rig.world.run(&["doctor", "--only", "agent.first-run"]).1;
        let asks = "codex would begin by asking how to sign in";
        assert!(told().contains(asks), "{}", told());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // What only looks like it is none.
        std::fs::write(&path, "[model_providers.mine]\nmodel_provider_x = 1\n").unwrap();
        assert!(told().contains(asks), "{}", told());
        std::fs::write(&path, text).unwrap();
        assert!(!told().contains(asks), "{file}: {}", told());
    }
}

#[tokio::test]
async fn nothing_is_typed_into_an_input_that_a_question_takes_the_place_of() {
    let mut rig = Rig::new(Row { harness: "codex", runner: "tmux" }, "");
    rig.script(json!({ "mode": "first-run", "dialogAfterMs": 1500 }));
    rig.world.start().await;
    label(&rig.world, "d-1").await;
    eventually("it is told", async || {
        let (_, out, _) = rig.world.run(&["events", "d-1", "--json"]);
        (out.contains("agent-asks") && out.contains("first run: sign in with")).then_some(())
    })
    .await;
    let (_, out, _) = rig.world.run(&["sessions", "list"]);
    assert!(out.contains("asks: first run: sign in"), "{out}");
    assert!(rig.notes().is_empty(), "{:?}", rig.notes());
}

#[tokio::test]
async fn a_question_of_a_first_run_is_told_with_the_screen_and_not_answered() {
    let mut rig = Rig::new(Row { harness: "gemini", runner: "tmux" }, "");
    rig.script(json!({ "mode": "first-run" }));
    rig.world.start().await;
    label(&rig.world, "d-1").await;
    let asks = "first run: How would you like to authenticate for this project?";
    eventually("it is told", async || {
        let (_, out, _) = rig.world.run(&["events", "d-1", "--json"]);
        (out.contains("agent-asks") && out.contains(asks)).then_some(())
    })
    .await;
    let (_, out, _) = rig.world.run(&["sessions", "show", "o/r#1"]);
    assert!(out.contains("first run: How would"), "{out}");
    assert!(rig.notes().is_empty(), "{:?}", rig.notes());
}
