//! The real Codex, Gemini CLI, Copilot CLI and opencode, driven by the program
//! through their shipped declarations, against a stand-in of their models' APIs
//! on loopback. `scripts/fetch-harnesses .tools` installs them; without one its
//! tests say so and pass.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use crate::mock_api::MockApi;
use crate::process::comment;
use crate::support::{World, eventually, payload};

const KEY: &str = "sk-mock-0123456789abcdef";

struct Rig {
    world: World,
    api: MockApi,
}

impl Drop for Rig {
    fn drop(&mut self) {
        // One that does not mind the end of its terminal would outlive the test.
        let panes = self.world.tmux.run(&["list-panes", "-a", "-F", "#{pane_pid}"]);
        for pid in panes.lines().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

/// The real one, where it was installed.
fn installed(name: &str, version: &str) -> Option<PathBuf> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join(".tools");
    let program = tools.join(format!("{name}-{version}/node_modules/.bin/{name}"));
    if program.is_file() {
        return Some(program);
    }
    let say = "`scripts/fetch-harnesses .tools` installs it";
    let _ = writeln!(std::io::stderr(), "SKIPPED: no {name} {version}: {say}");
    None
}

impl Rig {
    async fn new(name: &str, runner: &str, program: &Path) -> Self {
        let api = MockApi::start().await;
        let world = World::new("");
        world.configure_runner(runner, &format!("defaultHarness: {name}"), "");
        let (home, url) = (world.home.display().to_string(), api.url.clone());
        let write = |file: &str, text: &str| {
            let path = world.home.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let project = std::fs::canonicalize(&world.project).unwrap();
        let variables = match name {
            "codex" => {
                write(
                    ".codex/config.toml",
                    &format!(
                        "model = \"mock-model\"\nmodel_provider = \"mock\"\n\
                         [model_providers.mock]\nname = \"mock\"\nbase_url = \"{url}/v1\"\n\
                         wire_api = \"responses\"\nenv_key = \"MOCK_KEY\"\n\
                         supports_websockets = false\n"
                    ),
                );
                format!("MOCK_KEY={KEY}")
            }
            "gemini" => {
                let auth = json!({ "security": { "auth": { "selectedType": "gemini-api-key" } } });
                write(".gemini/settings.json", &auth.to_string());
                format!("GEMINI_API_KEY={KEY} GOOGLE_GEMINI_BASE_URL={url}")
            }
            "copilot" => {
                let trusted = json!({ "trustedFolders": [project] });
                write(".copilot/config.json", &trusted.to_string());
                format!(
                    "COPILOT_OFFLINE=true COPILOT_PROVIDER_BASE_URL={url}/v1 \
                     COPILOT_PROVIDER_API_KEY={KEY} COPILOT_MODEL=m"
                )
            }
            _ => {
                let provider = json!({ "npm": "@ai-sdk/openai-compatible", "name": "mock",
                    "options": { "baseURL": format!("{url}/v1"), "apiKey": KEY },
                    "models": { "m": { "name": "m" } } });
                let config = json!({ "provider": { "mock": provider }, "model": "mock/m",
                    "small_model": "mock/m" });
                format!("OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_CONFIG_CONTENT='{config}'")
            }
        };
        // An agent's environment holds nothing of ours: this brings in what the
        // rig needs, and leaves no other way out than loopback.
        let wrapper = world.home.join(name);
        let script = format!(
            "#!/bin/sh\nexport HTTPS_PROXY=http://127.0.0.1:9 NO_PROXY=127.0.0.1 {variables}\n\
             exec '{}' \"$@\"\n",
            program.display()
        );
        std::fs::write(&wrapper, script).unwrap();
        std::fs::set_permissions(&wrapper, PermissionsExt::from_mode(0o755)).unwrap();
        let config = std::fs::read_to_string(world.config()).unwrap();
        let own = format!("harnesses:\n  {name}: {{ program: {home}/{name} }}\n");
        std::fs::write(world.config(), config + &own).unwrap();
        Self { world, api }
    }

    /// Waits longer than `World::reaches`: a real agent takes its time.
    async fn reaches(&self, id: &str, state: &str) -> String {
        let begin = Instant::now();
        loop {
            let (_, out, _) = self.world.run(&["events", id, "--json"]);
            let value: Value = serde_json::from_str(&out).unwrap_or_default();
            if value["deliveries"][0]["state"] == state {
                return out;
            }
            assert!(
                begin.elapsed() < Duration::from_secs(75),
                "{id} is not {state}: {out}\n{}\n{}",
                self.screen(),
                self.world.receiver_log()
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn screen(&self) -> String {
        self.world.tmux.run(&["capture-pane", "-p", "-t", "=loop/o+r+1:"])
    }

    async fn start(&mut self) {
        self.world.start().await;
        let labeled = payload::labeled("o/r", 1, "alice");
        assert_eq!(self.world.post("s", "issues", &labeled).await, 202);
        self.reaches("s", "delivered").await;
    }

    /// Whether the agent asks something before it takes this: told, not answered.
    async fn asks(&self, id: &str) -> bool {
        let begin = Instant::now();
        loop {
            let (_, out, _) = self.world.run(&["events", id, "--json"]);
            let value: Value = serde_json::from_str(&out).unwrap_or_default();
            let is_taken = value["deliveries"][0]["state"] == "delivered";
            if is_taken || out.contains("agent-asks") {
                return !is_taken;
            }
            assert!(begin.elapsed() < Duration::from_secs(75), "{out}\n{}", self.screen());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn conversation(&self) -> String {
        let (_, out, err) = self.world.run(&["sessions", "show", "o/r#1", "--json"]);
        let shown: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
        shown["harnessSessionId"].as_str().unwrap().to_owned()
    }

    async fn heard(&self, word: &str) {
        eventually(&format!("the model heard {word}"), async || {
            self.api.conversation().contains(word).then_some(())
        })
        .await;
    }
}

/// Events of every form, a dialog, a kill: in a terminal.
async fn in_tmux(name: &str, version: &str) {
    let Some(program) = installed(name, version) else { return };
    let mut rig = Rig::new(name, "tmux", &program).await;
    rig.start().await;
    let first = rig.conversation();
    for n in 0..4 {
        let text = match n {
            0 => "word-0. short".to_owned(),
            1 => "word-1. {{slow=700}}".to_owned(),
            2 => format!("word-2.\n{}", "another line of it\n".repeat(20)),
            _ => "word-3. ÄÖ 漢字 \u{1b}[201~!touch x".to_owned(),
        };
        comment(&rig.world, &format!("c-{n}"), &text).await;
    }
    for n in 0..4 {
        rig.reaches(&format!("c-{n}"), "delivered").await;
    }
    rig.heard("word-3.").await;
    let told = rig.api.conversation();
    let places: Vec<_> = (0..4)
        .map(|n| told.match_indices(&format!("word-{n}.")).map(|(at, _)| at).collect())
        .collect::<Vec<Vec<_>>>();
    assert!(places.iter().all(|found| found.len() == 1), "{places:?}\n{told}");
    assert!(places.is_sorted(), "{places:?}");
    // A dialog is not answered, and what comes meanwhile waits.
    let file = rig.world.project.join("touched");
    comment(&rig.world, "d-1", &format!("{{{{bash=touch '{}'}}}}", file.display())).await;
    rig.reaches("d-1", "delivered").await;
    comment(&rig.world, "d-2", "meanwhile.").await;
    let begin = Instant::now();
    loop {
        let (_, out, _) = rig.world.run(&["events", "d-2", "--json"]);
        if out.contains("agent-asks") {
            break;
        }
        assert!(
            begin.elapsed() < Duration::from_secs(40),
            "it does not wait: {out}\n{}",
            rig.screen()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(!file.exists(), "the dialog was answered");
    rig.world.tmux.run(&["send-keys", "-t", "=loop/o+r+1:", "Escape"]);
    rig.reaches("d-2", "delivered").await;
    assert!(!file.exists(), "the dialog was answered");
    // After a kill it goes on with the same conversation.
    let pid = rig.world.tmux.run(&["display-message", "-p", "-t", "=loop/o+r+1:", "#{pane_pid}"]);
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    kill_process_group(pid, Signal::KILL).unwrap();
    comment(&rig.world, "k-1", "after the kill.").await;
    if name == "copilot" && rig.asks("k-1").await {
        // Whether its conversation is in use elsewhere is a person's to answer.
        return;
    }
    rig.reaches("k-1", "delivered").await;
    rig.heard("after the kill.").await;
    assert_eq!(rig.conversation(), first);
    assert!(rig.api.conversation().contains("word-0."), "it remembers nothing");
}

/// Turns of one conversation, headless.
async fn headless(name: &str, version: &str) {
    let Some(program) = installed(name, version) else { return };
    let mut rig = Rig::new(name, "process", &program).await;
    rig.start().await;
    let first = rig.conversation();
    comment(&rig.world, "c-1", "word-1.").await;
    rig.reaches("c-1", "delivered").await;
    assert_eq!(rig.conversation(), first);
    let told = rig.api.conversation();
    assert!(told.contains("Please do it") && told.contains("word-1."), "{told}");
    let (_, out, _) = rig.world.run(&["events", "c-1", "--json"]);
    // It keeps no record that we read: its result is the proof.
    let proof = if name == "opencode" { "accepted-by-result" } else { "accepted" };
    assert!(out.contains(&format!("\"{proof}\"")), "{out}");
}

#[tokio::test]
async fn the_real_codex_has_each_event_once_and_in_order() {
    in_tmux("codex", "0.171.0").await;
}

#[tokio::test]
async fn the_real_codex_has_headless_turns() {
    headless("codex", "0.171.0").await;
}

#[tokio::test]
async fn the_real_gemini_has_each_event_once_and_in_order() {
    in_tmux("gemini", "0.61.0").await;
}

#[tokio::test]
async fn the_real_gemini_has_headless_turns() {
    headless("gemini", "0.61.0").await;
}

#[tokio::test]
async fn the_real_copilot_has_each_event_once_and_in_order() {
    in_tmux("copilot", "1.0.102").await;
}

#[tokio::test]
async fn the_real_copilot_has_headless_turns() {
    headless("copilot", "1.0.102").await;
}

#[tokio::test]
async fn the_real_opencode_has_headless_turns() {
    headless("opencode", "1.18.33").await;
}
