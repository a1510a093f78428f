//! Stands in for the agents other than Claude: it plays the one by whose name it
//! is called (`codex`, `gemini`, `copilot`, `opencode`, `cursor-agent`), with
//! that one's arguments, hooks, screen and traps. Of the real ones it knows only
//! what was recorded or is documented.
//!
//! Its script is `fake-agent.json` in its working directory, with the keys of
//! the other fake that it knows; docs/harnesses.md lists them.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::format_push_string,
    clippy::panic,
    clippy::struct_excessive_bools,
    clippy::match_same_arms,
    reason = "a program of the tests: it stops at the first surprise"
)]

mod args;
mod draw;
mod keys;
mod printed;
#[path = "../streams.rs"]
mod streams;

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, exit};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use serde::Deserialize;
use serde_json::{Value, json};

use args::{Args, Kind};
use streams::{append, print, read_keys};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Script {
    /// `exit-at-start`, `refuses-resume`, `mute`, `never-ends`, `never-ready`,
    /// `first-run`.
    mode: String,
    turn_ms: Option<u64>,
    exit_code: Option<i32>,
    say: Option<String>,
    dialog_after_ms: Option<u64>,
    version: Option<String>,
    /// Whether it posts a comment in each turn.
    words: bool,
    creates: Option<String>,
    prompts: Option<PathBuf>,
}

struct Fake {
    kind: Kind,
    args: Args,
    script: Script,
    home: PathBuf,
    id: Option<String>,
    text: Vec<Result<char, String>>,
    pastes: usize,
    told: Vec<String>,
    turn_ends: Option<Instant>,
    dialog_opens: Option<Instant>,
    in_dialog: bool,
    paste: Option<Vec<u8>>,
    sequence: Option<Vec<u8>>,
    pasted_at: Option<Instant>,
    begun: bool,
}

fn main() {
    let name = std::env::args().next().unwrap();
    let kind = match Path::new(&name).file_name().unwrap().to_str().unwrap() {
        "codex" => Kind::Codex,
        "gemini" => Kind::Gemini,
        "copilot" => Kind::Copilot,
        "opencode" => Kind::Opencode,
        "cursor-agent" => Kind::Cursor,
        other => panic!("nobody is called {other}"),
    };
    let script: Script = match fs::read("fake-agent.json") {
        Ok(text) => serde_json::from_slice(&text).unwrap(),
        Err(_) => Script::default(),
    };
    let version = script.version.clone().unwrap_or_else(|| kind.version().to_owned());
    if std::env::args().nth(1).is_some_and(|word| word == "--version") {
        println!("{version}");
        return;
    }
    let args = args::args(kind);
    if args.create {
        println!("{}", script.creates.unwrap_or_else(new_id));
        return;
    }
    if kind == Kind::Cursor && args.trust && !args.headless && *version < *"2026.07.20" {
        eprintln!("error: --trust can only be used with --print");
        exit(1);
    }
    let home = PathBuf::from(std::env::var_os("HOME").unwrap());
    let mut fake = Fake {
        kind,
        id: args.id.clone(),
        args,
        script,
        home,
        text: Vec::new(),
        pastes: 0,
        told: Vec::new(),
        turn_ends: None,
        dialog_opens: None,
        in_dialog: false,
        paste: None,
        sequence: None,
        pasted_at: None,
        begun: false,
    };
    fake.begin();
    if fake.args.headless { fake.headless() } else { fake.run() }
}

fn new_id() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
    let hex = format!("{:032x}", now ^ (u128::from(std::process::id()) << 64));
    format!("{}-{}-7{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
}

impl Fake {
    fn begin(&mut self) {
        if self.script.mode == "exit-at-start" {
            self.end(
                self.script.say.clone().unwrap_or_default(),
                self.script.exit_code.unwrap_or(1),
            );
        }
        let is_there = self.id.as_ref().is_some_and(|id| self.record_of(id).exists());
        let refuses = self.script.mode == "refuses-resume";
        let id = self.id.clone().unwrap_or_default();
        match self.kind {
            Kind::Codex if self.args.resume && (!is_there || refuses) => {
                let said = if self.args.headless {
                    format!("Error: thread/resume failed: no rollout found for thread id {id}")
                } else {
                    format!("ERROR: No saved session found with ID {id}. Run `codex resume`.")
                };
                self.end(said, 1);
            }
            Kind::Gemini if self.args.resume && (!is_there || refuses) => {
                self.end(format!("Error resuming session: Invalid session identifier \"{id}\"."), 42);
            }
            Kind::Gemini if !self.args.resume && is_there => self.end(
                format!("Error starting session: Session ID \"{id}\" already exists. Use --resume to resume it, or provide a different ID."),
                42,
            ),
            Kind::Copilot if self.args.resume && (!is_there || refuses) => {
                self.end(format!("Error: No session, task, or name matched '{id}'."), 1);
            }
            Kind::Opencode if self.args.resume && (!is_there || refuses) => {
                self.end("Error: Session not found".to_owned(), 1);
            }
            // An id that it has not made starts an empty chat of another.
            Kind::Cursor if refuses => self.id = Some(new_id()),
            _ => {}
        }
    }

    fn end(&self, said: impl std::fmt::Display, code: i32) -> ! {
        if self.args.headless {
            eprintln!("{said}");
        } else {
            println!("{said}");
        }
        exit(code);
    }

    fn record_of(&self, id: &str) -> PathBuf {
        let dir = std::env::current_dir().unwrap().join(".fake-agents");
        dir.join(format!("{:?}", self.kind)).join(format!("{id}.jsonl"))
    }

    /// The conversation takes a prompt.
    fn accept(&mut self, prompt: &str) {
        let id = self.id.get_or_insert_with(new_id).clone();
        let file = self.record_of(&id);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        append(&file, &json!({ "prompt": prompt }));
        if let Some(record) = printed::record(self.kind).filter(|_| self.script.words) {
            let file = match self.kind {
                Kind::Copilot => {
                    self.home.join(".copilot/session-state").join(&id).join("events.jsonl")
                }
                _ => file,
            };
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            append(&file, &record);
        }
        self.note(&json!({ "prompt": prompt, "session": id, "headless": self.args.headless }));
        if !self.begun {
            self.begun = true;
            match self.kind {
                Kind::Codex => self.hook("SessionStart", json!({ "source": "startup" })),
                Kind::Copilot => self.hook("sessionStart", json!({ "source": "new" })),
                _ => {}
            }
        }
        let event = match self.kind {
            Kind::Codex => "UserPromptSubmit",
            Kind::Gemini => "BeforeAgent",
            Kind::Copilot => "userPromptSubmitted",
            Kind::Cursor => "beforeSubmitPrompt",
            Kind::Opencode => return,
        };
        if self.script.mode != "mute" {
            self.hook(event, json!({ "prompt": prompt }));
        }
    }

    fn end_turn(&mut self) {
        self.turn_ends = None;
        self.told.push("• done".to_owned());
        match self.kind {
            Kind::Codex => self.hook("Stop", json!({})),
            Kind::Gemini => self.hook("AfterAgent", json!({})),
            Kind::Copilot => self.hook("agentStop", json!({ "stopReason": "end_turn" })),
            Kind::Cursor => self.hook("stop", json!({ "status": "completed" })),
            Kind::Opencode => {}
        }
    }

    fn turn(&self) -> Duration {
        Duration::from_millis(self.script.turn_ms.unwrap_or(50))
    }

    fn headless(&mut self) {
        let mut prompt = String::new();
        io::stdin().read_to_string(&mut prompt).unwrap();
        if self.kind == Kind::Gemini {
            self.hook("SessionStart", json!({ "source": "startup" }));
        }
        self.accept(&prompt);
        let id = self.id.clone().unwrap();
        if self.kind == Kind::Codex {
            println!("{}", json!({ "type": "thread.started", "thread_id": id }));
        }
        if self.script.mode == "never-ends" {
            std::thread::sleep(Duration::from_hours(1));
        }
        std::thread::sleep(self.turn());
        for record in printed::turn(self.kind, &id, self.script.words) {
            println!("{record}");
        }
        // Without a terminal Cursor's runs no hook of a prompt.
        self.end_turn();
    }

    /// Runs an event's hooks as this agent does, where its files name them.
    fn hook(&self, event: &str, mut record: Value) {
        if self.kind == Kind::Cursor && self.args.headless {
            return;
        }
        let id = self.id.clone().unwrap_or_default();
        match self.kind {
            Kind::Codex | Kind::Gemini => {
                record["hook_event_name"] = json!(event);
                record["session_id"] = json!(id);
                record["transcript_path"] = json!(self.record_of(&id));
            }
            Kind::Cursor => {
                record["hook_event_name"] = json!(event);
                record["conversation_id"] = json!(id);
            }
            // Its records do not name their hook.
            Kind::Copilot => record["sessionId"] = json!(id),
            Kind::Opencode => return,
        }
        for command in self.commands(event) {
            let mut child = Command::new("/bin/sh")
                .args(["-c", &command])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let _ = child.stdin.take().unwrap().write_all(record.to_string().as_bytes());
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            let wanted = if self.kind == Kind::Cursor { "{}" } else { "" };
            if !output.status.success() || said != wanted || !output.stderr.is_empty() {
                self.note(&json!({ "hook": event, "said": said,
                    "stderr": String::from_utf8_lossy(&output.stderr) }));
            }
        }
    }

    fn commands(&self, event: &str) -> Vec<String> {
        let read = |path: &str| -> Value {
            let text = fs::read(self.home.join(path)).unwrap_or_default();
            serde_json::from_slice(&text).unwrap_or_default()
        };
        let texts = |value: &Value, key: &str| -> Vec<String> {
            let list = value.as_array().into_iter().flatten();
            list.filter_map(|item| Some(item[key].as_str()?.to_owned())).collect()
        };
        match self.kind {
            Kind::Codex => {
                let ours = self.args.hooks.iter().filter(|(name, _)| name == event);
                ours.map(|(_, command)| command.clone()).collect()
            }
            Kind::Gemini => {
                let file = read(".gemini/extensions/the-loop/hooks/hooks.json");
                assert!(
                    self.home.join(".gemini/extensions/the-loop/gemini-extension.json").exists()
                );
                let groups = file["hooks"][event].as_array().cloned().unwrap_or_default();
                groups.iter().flat_map(|group| texts(&group["hooks"], "command")).collect()
            }
            Kind::Copilot => texts(&read(".copilot/hooks/the-loop.json")["hooks"][event], "bash"),
            Kind::Cursor => {
                let file = read(".cursor/hooks.json");
                let known = ["beforeSubmitPrompt", "stop", "afterAgentResponse"];
                let hooks = file["hooks"].as_object().cloned().unwrap_or_default();
                let all: Vec<_> = hooks.values().flat_map(|list| texts(list, "command")).collect();
                // One unknown name, or one address, voids the whole file.
                let is_void = hooks.keys().any(|key| !known.contains(&key.as_str()))
                    || all.iter().any(|command| command.contains("://"));
                if is_void { Vec::new() } else { texts(&file["hooks"][event], "command") }
            }
            Kind::Opencode => Vec::new(),
        }
    }

    fn run(&mut self) {
        let stdin = io::stdin();
        let before = tcgetattr(&stdin).unwrap();
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&stdin, OptionalActions::Now, &raw).unwrap();
        let keys = read_keys(16384);
        print("\x1b[?2004h\x1b[?1049h");
        let asks = ["never-ready", "first-run"].contains(&self.script.mode.as_str());
        let later = self.script.dialog_after_ms.filter(|_| asks).map(Duration::from_millis);
        self.in_dialog = asks && later.is_none();
        self.dialog_opens = later.map(|time| Instant::now() + time);
        self.draw();
        if self.kind == Kind::Gemini && !self.in_dialog {
            self.hook("SessionStart", json!({ "source": "startup" }));
        }
        while !self.step(&keys) {}
        tcsetattr(&stdin, OptionalActions::Now, &before).unwrap();
    }

    fn step(&mut self, keys: &mpsc::Receiver<Vec<u8>>) -> bool {
        let turn_ends = self.turn_ends.filter(|_| !self.in_dialog);
        let next = [turn_ends, self.dialog_opens].into_iter().flatten().min();
        let wait =
            next.map_or(Duration::from_hours(1), |at| at.saturating_duration_since(Instant::now()));
        match keys.recv_timeout(wait) {
            Ok(bytes) => {
                let holds_paste = bytes.windows(6).any(|part| part == b"\x1b[201~");
                for byte in bytes {
                    if self.take(byte, holds_paste) {
                        return true;
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return true,
        }
        let now = Instant::now();
        if self.dialog_opens.is_some_and(|at| at <= now) {
            self.dialog_opens = None;
            self.in_dialog = true;
            match self.kind {
                _ if self.script.mode == "first-run" => {}
                Kind::Codex => self
                    .hook("PermissionRequest", json!({ "tool_input": { "command": "touch x" } })),
                Kind::Gemini => self.hook(
                    "Notification",
                    json!({ "notification_type": "ToolPermission", "message": "touch x" }),
                ),
                Kind::Copilot => self.hook(
                    "notification",
                    json!({ "notification_type": "permission_prompt", "message": "touch x" }),
                ),
                _ => {}
            }
        }
        if !self.in_dialog && self.turn_ends.is_some_and(|at| at <= now) {
            self.end_turn();
        }
        self.draw();
        false
    }

    fn note(&self, entry: &Value) {
        if let Some(path) = &self.script.prompts {
            append(path, entry);
        }
    }
}
