//! The real Codex, Gemini CLI, Copilot CLI and opencode, driven by the program
//! through their shipped declarations, and the real Claude Code, against a stand-in
//! of their models' APIs on loopback. `scripts/fetch-harnesses .tools` and
//! `scripts/fetch-claude .tools` install them; without one its tests say so and pass.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use crate::mock_api::MockApi;
use crate::process::{comment, put_into_the_queue};
use crate::support::{World, eventually, payload};

use self::faults::{
    a_start_that_cannot_be_is_told_and_the_next_goes_on,
    what_takes_too_long_is_told_and_not_sent_again,
};

mod faults;

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
    let script = if name == "claude" { "fetch-claude" } else { "fetch-harnesses" };
    let say = format!("`scripts/{script} .tools` installs it");
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
            "claude" => {
                let state = json!({
                    "hasCompletedOnboarding": true,
                    "customApiKeyResponses":
                        { "approved": [&KEY[KEY.len() - 20..]], "rejected": [] },
                    "projects": { project.to_str().unwrap(): { "hasTrustDialogAccepted": true } },
                });
                write(".claude.json", &state.to_string());
                format!(
                    "ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY={KEY} IS_SANDBOX=1 \
                     CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_AUTOUPDATER=1"
                )
            }
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
        let config = if name == "claude" {
            let tools = format!("tools:\n  claude: {{ path: {home}/claude }}\n");
            config.replacen("tools:\n", &tools, 1)
        } else {
            format!("{config}harnesses:\n  {name}: {{ program: {home}/{name} }}\n")
        };
        std::fs::write(world.config(), config).unwrap();
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

    /// The process of the agent, where one lives.
    fn agent(&self, row: Row) -> Option<String> {
        if row.in_tmux() {
            let format = "#{pane_pid}";
            let pid = self.world.tmux.run(&["display-message", "-p", "-t", "=loop/o+r+1:", format]);
            return Some(pid.trim().to_owned());
        }
        let turns = std::fs::read_dir(self.world.state_dir().join("turns/o+r+1")).ok()?;
        let last = turns.map(|turn| turn.unwrap().path()).max()?;
        let claim = std::fs::read(last.join("claim.json")).ok()?;
        Some(serde_json::from_slice::<Value>(&claim).ok()?["pid"].to_string())
    }

    /// Kills the agent in its pane, and what it has started.
    fn kill_agent(&self) {
        let pid = self.world.tmux.run(&["list-panes", "-a", "-F", "#{pane_pid}"]);
        let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        kill_process_group(pid, Signal::KILL).unwrap();
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
    rig.kill_agent();
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

/// In a home in which it never ran it draws its input before it asks how to sign in.
#[tokio::test]
async fn the_real_codex_without_a_log_in_is_typed_nothing() {
    let Some(program) = installed("codex", "0.171.0") else { return };
    let mut rig = Rig::new("codex", "tmux", &program).await;
    std::fs::remove_dir_all(rig.world.home.join(".codex")).unwrap();
    let (_, out, _) = rig.world.run(&["doctor", "--only", "agent.first-run"]);
    assert!(out.contains("how to sign in"), "{out}");
    rig.world.start().await;
    rig.world.post("s", "issues", &payload::labeled("o/r", 1, "alice")).await;
    assert!(rig.asks("s").await, "{}", rig.screen());
    let (_, out, _) = rig.world.run(&["events", "s", "--json"]);
    assert!(out.contains("first run: sign in with"), "{out}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(rig.screen().contains("1. Sign in with ChatGPT"), "{}", rig.screen());
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

/// A real agent in a runner.
#[derive(Clone, Copy)]
struct Row {
    name: &'static str,
    version: &'static str,
    runner: &'static str,
}

impl Row {
    async fn rig(self) -> Option<Rig> {
        let program = installed(self.name, self.version)?;
        Some(Rig::new(self.name, self.runner, &program).await)
    }

    fn in_tmux(self) -> bool {
        self.runner == "tmux"
    }

    /// Where it keeps its conversations.
    fn conversations(self) -> &'static str {
        match self.name {
            "claude" => ".claude/projects",
            "codex" => ".codex/sessions",
            "gemini" => ".gemini/tmp",
            "copilot" => ".copilot/session-state",
            _ => ".local/share/opencode",
        }
    }
}

async fn it_survives_every_kill_with_its_conversation(row: Row) {
    let Some(mut rig) = row.rig().await else { return };
    rig.start().await;
    let first = rig.conversation();
    for what in ["tmux", "receiver", "all"] {
        // Not in the middle of writing down what was said.
        tokio::time::sleep(Duration::from_secs(1)).await;
        if what == "all" && row.in_tmux() {
            rig.kill_agent();
        }
        if what != "receiver" {
            rig.world.tmux.run(&["kill-server"]);
        }
        if what != "tmux" {
            rig.world.end(Signal::KILL);
            rig.world.start().await;
        }
        let id = format!("k-{what}");
        comment(&rig.world, &id, &format!("after-{what}.")).await;
        // Whether its conversation is in use elsewhere is a person's to answer.
        if row.name == "copilot" && rig.asks(&id).await {
            return;
        }
        rig.reaches(&id, "delivered").await;
        rig.heard(&format!("after-{what}.")).await;
        assert_eq!(rig.conversation(), first, "after the kill of {what}");
    }
    assert!(rig.api.conversation().contains("Please do it"), "it remembers nothing");
}

async fn its_environment_is_made_from_nothing(row: Row) {
    let Some(mut rig) = row.rig().await else { return };
    // The server is older than the receiver, and has another environment.
    rig.world.tmux.run(&["new-session", "-d", "-s", "old"]);
    rig.world.tmux.run(&["set-environment", "-g", "STALE", "1"]);
    let secret = std::ffi::OsStr::new("hunter2");
    let none = std::ffi::OsStr::new("");
    rig.world.start_with(&[("GITHUB_TOKEN", secret), ("LANG", none)]).await;
    // Letters that a terminal without a locale would not take.
    let mut labeled = payload::labeled("o/r", 1, "alice");
    labeled["issue"]["body"] = json!("word-1. ÄÖ 漢字");
    assert_eq!(rig.world.post("s", "issues", &labeled).await, 202);
    if row.in_tmux() {
        rig.reaches("s", "delivered").await;
    }
    let pid = eventually("the agent lives", async || {
        let pid = rig.agent(row)?;
        let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        // Before it became the agent it was this program.
        String::from_utf8_lossy(&environment).contains("HTTPS_PROXY").then_some(pid)
    })
    .await;
    let read = |file: &str| {
        let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (environment, arguments) = (read("environ"), read("cmdline"));
    assert!(environment.contains("THE_LOOP_WORK_ITEM=github:o/r#1"), "{environment}");
    for secret in ["hunter2", crate::support::SECRET, "STALE"] {
        assert!(!environment.contains(secret), "{environment}");
        assert!(!arguments.contains(secret), "{arguments}");
    }
    assert!(!arguments.contains("word-1."), "a text of an event is in {arguments}");
    let is_utf8 = |entry: &str| entry.to_lowercase().ends_with("utf-8");
    assert!(environment.split('\0').any(is_utf8), "{environment}");
    rig.reaches("s", "delivered").await;
    rig.heard("ÄÖ 漢字").await;
}

async fn a_hundred_kilobytes_arrive_whole(row: Row) {
    let Some(mut rig) = row.rig().await else { return };
    // It puts a paste of this length into a file of its own, and shows something that
    // is not read: so it gets what everybody gets, a beginning that names our file.
    let in_part = row.name == "copilot" && row.in_tmux();
    if !in_part {
        let config = std::fs::read_to_string(rig.world.config()).unwrap();
        let typed = config.replace("readyTimeoutSeconds: 20", "typeMax: 1MB");
        assert_ne!(typed, config);
        std::fs::write(rig.world.config(), typed).unwrap();
    }
    rig.start().await;
    rig.world.end(Signal::TERM);
    let line = |n: usize| format!("line {n:05} of forty letters, more or less\n");
    let lines: String = (0..2500).map(line).collect();
    put_into_the_queue(&rig.world, "long-1", &lines).await;
    rig.world.start().await;
    rig.reaches("long-1", "delivered").await;
    rig.heard(if in_part { "/texts/" } else { "line 02499" }).await;
    let told = rig.api.conversation();
    let heard = (0..2500).filter(|n| told.contains(line(*n).trim_end())).count();
    assert_eq!(heard == 2500, !in_part, "{heard} lines");
}

async fn a_lost_conversation_is_begun_anew_and_the_agent_is_told(row: Row) {
    let Some(mut rig) = row.rig().await else { return };
    rig.start().await;
    let first = rig.conversation();
    tokio::time::sleep(Duration::from_secs(1)).await;
    if row.in_tmux() {
        rig.kill_agent();
    }
    std::fs::remove_dir_all(rig.world.home.join(row.conversations())).unwrap();
    comment(&rig.world, "c-1", "word-1.").await;
    rig.reaches("c-1", "delivered").await;
    rig.heard("word-1.").await;
    // In a terminal Claude's is looked for before it is asked for: the id is free.
    let is_free = row.name == "claude" && row.in_tmux();
    assert_eq!(rig.conversation() == first, is_free);
    let told = rig.api.conversation();
    assert!(told.contains("the earlier conversation about this item is lost"), "{told}");
}

/// Scenes that each real agent plays in each runner that it has.
macro_rules! scenes {
    ($($row:ident: $name:literal, $version:literal, $runner:literal;)+) => {$(
        mod $row {
            use super::Row;

            const ROW: Row = Row { name: $name, version: $version, runner: $runner };

            scenes!(@ it_survives_every_kill_with_its_conversation);
            scenes!(@ its_environment_is_made_from_nothing);
            scenes!(@ a_hundred_kilobytes_arrive_whole);
            scenes!(@ a_lost_conversation_is_begun_anew_and_the_agent_is_told);
            scenes!(@ a_start_that_cannot_be_is_told_and_the_next_goes_on);
            scenes!(@ what_takes_too_long_is_told_and_not_sent_again);
        }
    )+};
    (@ $scene:ident) => {
        #[tokio::test]
        async fn $scene() {
            super::$scene(ROW).await;
        }
    };
}

scenes! {
    claude_in_tmux: "claude", "2.1.332", "tmux";
    claude_headless: "claude", "2.1.332", "process";
    codex_in_tmux: "codex", "0.171.0", "tmux";
    codex_headless: "codex", "0.171.0", "process";
    gemini_in_tmux: "gemini", "0.61.0", "tmux";
    gemini_headless: "gemini", "0.61.0", "process";
    copilot_in_tmux: "copilot", "1.0.102", "tmux";
    copilot_headless: "copilot", "1.0.102", "process";
    opencode_headless: "opencode", "1.18.33", "process";
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
