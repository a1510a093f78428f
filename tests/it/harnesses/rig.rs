//! One harness in one runner: its double, and what is seen of it.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{World, eventually};

const CLAUDE: &str = env!("CARGO_BIN_EXE_fake-harness");
const OTHERS: &str = env!("CARGO_BIN_EXE_fake-agent");

/// One harness in one runner.
#[derive(Clone, Copy)]
pub struct Row {
    pub harness: &'static str,
    pub runner: &'static str,
}

impl Row {
    /// Whether it can say that it has no such conversation.
    pub fn can_refuse(self) -> bool {
        // Cursor's begins another silently; what the demo's says is not a double's.
        self.harness != "cursor"
    }

    /// Whether it refuses to begin a conversation that it has.
    pub fn minds_a_repeat(self) -> bool {
        matches!(self.harness, "claude" | "gemini" | "copilot")
    }

    /// Whether a headless turn that is cut off has told that it took the prompt.
    pub fn tells_headless(self) -> bool {
        matches!(self.harness, "claude" | "codex" | "gemini" | "copilot")
    }
}

pub struct Rig {
    pub world: World,
    row: Row,
}

impl Rig {
    /// A world in which the harness is a double.
    pub fn new(row: Row, routing: &str) -> Self {
        let mut world = World::new("");
        let bin = world.home.join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        for name in ["codex", "gemini", "copilot", "opencode", "cursor-agent"] {
            std::os::unix::fs::symlink(OTHERS, bin.join(name)).unwrap();
        }
        world.path = format!("{}:{}", bin.display(), world.path);
        let routing = format!("defaultHarness: {}\n{routing}", row.harness);
        let tools = format!("  claude:\n    path: {CLAUDE}\n");
        world.configure_runner(row.runner, &routing, &tools);
        let rig = Self { world, row };
        if (row.harness, row.runner) == ("cursor", "tmux") {
            // Its hooks stand in a file of the user's: only asked for.
            let (code, out, err) = rig.world.run(&["doctor", "--fix", "--only", "agent.files"]);
            assert_eq!(code, 0, "{out}{err}");
        }
        rig.script(json!({}));
        rig
    }

    pub fn script(&self, mut script: Value) {
        script["prompts"] = json!(self.world.home.join("prompts"));
        for file in ["fake-harness.json", "fake-agent.json"] {
            std::fs::write(self.world.project.join(file), script.to_string()).unwrap();
        }
    }

    /// What the double noted, of prompts and else.
    pub fn notes(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.world.home.join("prompts")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    pub fn prompts(&self) -> Vec<String> {
        let text = |note: &Value| note["prompt"].as_str().map(str::to_owned);
        self.notes().iter().filter_map(text).collect()
    }

    pub fn show(&self) -> Value {
        let (_, out, err) = self.world.run(&["sessions", "show", "o/r#1", "--json"]);
        serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"))
    }

    pub fn conversation(&self) -> String {
        self.show()["harnessSessionId"].as_str().unwrap().to_owned()
    }

    /// The last step of a delivery: state, reason, detail.
    pub async fn ends(&self, id: &str) -> (String, String, String) {
        let mut last = String::new();
        let begin = Instant::now();
        loop {
            let (_, out, _) = self.world.run(&["events", id, "--json"]);
            let value: Value = serde_json::from_str(&out).unwrap_or_default();
            let delivery = &value["deliveries"][0];
            let state = delivery["state"].as_str().unwrap_or_default().to_owned();
            if !["", "received", "queued", "injecting"].contains(&state.as_str()) {
                let step = delivery["steps"].as_array().unwrap().last().unwrap().clone();
                let text = |key: &str| step[key].as_str().unwrap_or_default().to_owned();
                return (state, text("reason"), text("detail"));
            }
            assert!(begin.elapsed() < Duration::from_secs(40), "{id} does not end: {last}");
            last = format!("{out}\n{}", self.screen());
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
    }

    pub async fn is_delivered(&self, id: &str) {
        let (state, reason, detail) = self.ends(id).await;
        assert_eq!(state, "delivered", "{id}: {reason}: {detail}\n{}", self.screen());
    }

    pub fn screen(&self) -> String {
        self.world.tmux.run(&["capture-pane", "-p", "-t", "=loop/o+r+1:"])
    }

    pub fn is_in_tmux(&self) -> bool {
        self.row.runner == "tmux"
    }

    /// The process of the agent, where one lives.
    pub fn agent(&self) -> Option<Pid> {
        let pid = if self.is_in_tmux() {
            self.world.tmux.run(&["display-message", "-p", "-t", "=loop/o+r+1:", "#{pane_pid}"])
        } else {
            let turns = std::fs::read_dir(self.world.state_dir().join("turns/o+r+1")).ok()?;
            let last = turns.map(|turn| turn.unwrap().path()).max()?;
            let claim = std::fs::read(last.join("claim.json")).ok()?;
            serde_json::from_slice::<Value>(&claim).ok()?["pid"].to_string()
        };
        Pid::from_raw(pid.trim().parse().ok()?)
    }

    /// Kills the agent and waits until tmux knows.
    pub async fn kill_agent(&self) {
        if !self.is_in_tmux() {
            return;
        }
        kill_process(self.agent().unwrap(), Signal::KILL).unwrap();
        eventually("the pane is dead", async || {
            let dead = self.world.tmux.run(&["list-panes", "-a", "-F", "#{pane_dead}"]);
            dead.contains('1').then_some(())
        })
        .await;
    }

    /// No hook failed, and none said something that the agent did not ask for.
    pub fn no_hook_was_felt(&self) {
        let felt: Vec<_> =
            self.notes().into_iter().filter(|note| note.get("hook").is_some()).collect();
        assert!(felt.is_empty(), "{felt:?}");
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // A headless agent that outlives its receiver would outlive the test.
        let has_started = self.world.home.join(".local").exists();
        if !self.is_in_tmux()
            && has_started
            && let Some(agent) = self.agent()
        {
            let _ = kill_process(agent, Signal::KILL);
        }
    }
}
