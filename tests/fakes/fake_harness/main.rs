//! Stands in for Claude Code in tests: a terminal program in raw mode that takes
//! Claude's arguments, runs the hooks of `--settings` through a shell, writes a
//! transcript, draws Claude's box and falls for everything Claude falls for.
//!
//! It is a double of its own on purpose: nothing of the program under test is
//! used here. Its script is `fake-harness.json` in its working directory, since
//! its environment is scrubbed; docs/harnesses.md lists the keys. What it reads
//! goes byte by byte to `log`, what it submits to `prompts`, one JSON object a
//! line.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::format_push_string,
    clippy::struct_excessive_bools,
    reason = "a program of the tests: it stops at the first surprise"
)]

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use serde_json::{Value, json};

mod draw;
mod headless;
mod keys;
mod records;
mod script;
#[path = "../streams.rs"]
mod streams;

use records::{last_uuid, uuid};
use script::{Mode, Script};
use streams::{print, read_keys};

/// The command line, as Claude reads it.
#[derive(Debug, Default)]
struct Args {
    session: String,
    resume: bool,
    settings: Value,
    permission_mode: String,
    print: bool,
    stream: bool,
}

impl Args {
    fn read() -> Self {
        let mut args = Self { permission_mode: "auto".to_owned(), ..Self::default() };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--version" | "-v" => {
                    println!("2.1.332 (Claude Code)");
                    std::process::exit(0);
                }
                "--session-id" => args.session = words.next().unwrap(),
                "--resume" => {
                    args.session = words.next().unwrap();
                    args.resume = true;
                }
                "--settings" => {
                    args.settings = serde_json::from_str(&words.next().unwrap()).unwrap();
                }
                "-p" | "--print" => args.print = true,
                "--output-format" => args.stream = words.next().unwrap() == "stream-json",
                "--permission-mode" => args.permission_mode = words.next().unwrap(),
                _ => {}
            }
        }
        args
    }
}

/// Where keys go.
#[derive(Debug, PartialEq, Eq)]
enum Focus {
    Box,
    Dialog,
    Overlay,
}

struct Fake {
    args: Args,
    script: Script,
    start: Instant,
    log: Option<PathBuf>,
    prompts: Option<PathBuf>,
    transcript: PathBuf,
    focus: Focus,
    shell_mode: bool,
    /// Typed text, and pastes that are shown as placeholders.
    text: Vec<Result<char, String>>,
    /// How many pieces of it stand before the cursor.
    at: usize,
    /// vi's normal mode, in which letters are commands.
    vim_normal: bool,
    /// The hook of a tool that is about to ask, and when the next one begins.
    tool: Option<std::process::Child>,
    tool_begins: Option<Instant>,
    tools: usize,
    overlays: usize,
    exits: Option<Instant>,
    is_alone: bool,
    /// A draft that was put aside.
    stash: Option<Vec<Result<char, String>>>,
    pastes: usize,
    told: Vec<String>,
    turn_ends: Option<Instant>,
    dialog_opens: Option<Instant>,
    no_enter_until: Option<Instant>,
    queue: VecDeque<String>,
    leaving: bool,
    paste: Option<Vec<u8>>,
    sequence: Option<Vec<u8>>,
    /// The record that the next prompt follows.
    head: Option<String>,
}

fn main() {
    let args = Args::read();
    let script = Script::read();
    let from_env = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cwd = std::env::current_dir().unwrap();
    if script.mode == Mode::ExitAtStart && script.fails_this_start() {
        println!("{}", script.say.as_deref().unwrap_or("fake-harness: cannot start"));
        std::process::exit(script.exit_code.unwrap_or(1));
    }
    let config = from_env("CLAUDE_CONFIG_DIR").unwrap_or_else(|| cwd.join(".fake-claude"));
    let project: String = cwd
        .to_string_lossy()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let transcript = config.join("projects").join(project).join(format!("{}.jsonl", args.session));
    if args.resume && (!transcript.exists() || script.mode == Mode::RefusesResume) {
        if args.print {
            let said = format!("No conversation found with session ID: {}\n", args.session);
            io::stderr().write_all(said.as_bytes()).unwrap();
            std::process::exit(1);
        }
        println!("No conversation found with session ID: {}", args.session);
        std::process::exit(1);
    }
    if !args.resume && transcript.exists() {
        println!("Error: Session ID {} is already in use.", args.session);
        std::process::exit(1);
    }
    let head = last_uuid(&transcript);
    let mut fake = Fake {
        log: script.log.clone().or_else(|| from_env("FAKE_HARNESS_LOG")),
        prompts: script.prompts.clone().or_else(|| from_env("FAKE_HARNESS_PROMPTS")),
        args,
        script,
        start: Instant::now(),
        transcript,
        focus: Focus::Box,
        shell_mode: false,
        text: Vec::new(),
        at: 0,
        vim_normal: false,
        tool: None,
        tool_begins: None,
        tools: 0,
        overlays: 0,
        exits: None,
        is_alone: true,
        stash: None,
        pastes: 0,
        told: Vec::new(),
        turn_ends: None,
        dialog_opens: None,
        no_enter_until: None,
        queue: VecDeque::new(),
        leaving: false,
        paste: None,
        sequence: None,
        head,
    };
    if fake.args.print { fake.headless() } else { fake.run() }
}

impl Fake {
    fn run(&mut self) {
        let stdin = io::stdin();
        let before = tcgetattr(&stdin).unwrap();
        let mut raw = before.clone();
        if self.script.mode != Mode::Canonical {
            raw.make_raw();
        }
        tcsetattr(&stdin, OptionalActions::Now, &raw).unwrap();
        let keys = read_keys(4096);
        self.get_ready(&keys);
        while !self.step(&keys) {}
        self.hook("SessionEnd", json!({ "reason": "prompt_input_exit" }));
        print(&format!(
            "\x1b[?2004l\x1b[2J\x1b[HResume this session with:\r\nclaude --resume {}\r\n",
            self.args.session
        ));
        tcsetattr(&stdin, OptionalActions::Now, &before).unwrap();
    }

    fn get_ready(&mut self, keys: &mpsc::Receiver<Vec<u8>>) {
        let needs = self.script.millis(self.script.start_ms, Mode::SlowStart, 2000, 0);
        let ready = self.start + needs;
        // What is typed too early is read, logged and lost.
        while let Some(left) = ready.checked_duration_since(Instant::now()) {
            if let Ok(bytes) = keys.recv_timeout(left) {
                self.log(&json!({ "hex": hex::encode(&bytes), "lost": true }));
            }
        }
        if self.script.mode != Mode::Canonical {
            print("\x1b[?2004h");
        }
        if !self.script.inline {
            print("\x1b[?1049h");
        }
        let draft = self.script.draft.iter().flat_map(|text| text.chars()).map(Ok).collect();
        self.put(draft);
        if self.script.mode == Mode::NeverReady {
            self.focus = Focus::Dialog;
            return self.draw();
        }
        self.draw();
        let source = if self.args.resume { "resume" } else { "startup" };
        self.hook("SessionStart", json!({ "source": source, "model": "fake" }));
        if self.script.dialog_at_start {
            self.open_dialog();
        }
    }

    /// Waits for one thing and does it. Gives whether that was the end.
    fn step(&mut self, keys: &mpsc::Receiver<Vec<u8>>) -> bool {
        // Below a dialog a turn does not end.
        let turn_ends = self.turn_ends.filter(|_| self.focus != Focus::Dialog);
        let next = [turn_ends, self.dialog_opens, self.tool_begins, self.exits];
        let next = next.into_iter().flatten().min();
        let mut wait =
            next.map_or(Duration::from_hours(1), |at| at.saturating_duration_since(Instant::now()));
        if self.tool.is_some() {
            wait = wait.min(Duration::from_millis(2));
        }
        match keys.recv_timeout(wait) {
            Ok(bytes) => {
                self.log(&json!({ "hex": hex::encode(&bytes) }));
                self.is_alone = bytes.len() == 1;
                let is_whole = bytes.len() < 4096;
                for byte in bytes {
                    if self.take(byte) {
                        return true;
                    }
                }
                if is_whole && self.sequence.as_ref().is_some_and(Vec::is_empty) {
                    self.sequence = None;
                    self.escape();
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return true,
        }
        let now = Instant::now();
        if self.exits.is_some_and(|at| at <= now) {
            self.exit_in_turn();
        }
        if self.tool_begins.is_some_and(|at| at <= now) && self.tool.is_none() {
            self.tool_begins = None;
            let event = json!({ "tool_name": "Bash", "tool_input": { "command": "touch x" } });
            self.tool = self.hook_children("PreToolUse", event).pop();
            if self.tool.is_none() {
                self.open_dialog();
            }
        }
        if self.tool.as_mut().is_some_and(|hook| hook.try_wait().unwrap().is_some()) {
            self.tool = None;
            self.open_dialog();
        }
        if self.dialog_opens.is_some_and(|at| at <= now) {
            self.dialog_opens = None;
            self.open_dialog();
        }
        if self.focus != Focus::Dialog && self.turn_ends.is_some_and(|at| at <= now) {
            self.end_turn();
        }
        self.draw();
        false
    }

    /// Prompts that waited go out in one turn.
    fn begin_turn(&mut self, prompts: &[String]) {
        for prompt in prompts {
            let uuid = uuid();
            let parent = self.head.replace(uuid.clone());
            self.record(&json!({
                "parentUuid": parent, "isSidechain": false, "userType": "external", "type": "user",
                "message": { "role": "user", "content": prompt }, "uuid": uuid,
            }));
            self.told.push(format!("❯ {prompt}"));
        }
        let now = Instant::now();
        let takes = self.script.millis(self.script.turn_ms, Mode::Busy, 2000, 50);
        self.turn_ends = Some(now + takes);
        let dialog = (self.script.mode == Mode::Dialog).then_some(100);
        self.dialog_opens =
            self.script.dialog_after_ms.or(dialog).map(|ms| now + Duration::from_millis(ms));
        if self.dialog_opens.is_some() {
            self.turn_ends = self.turn_ends.max(self.dialog_opens);
        }
        if self.script.mode == Mode::ExitInTurn {
            self.exit_in_turn();
        }
        self.exits = self.script.exit_in_turn_ms.map(|ms| now + Duration::from_millis(ms));
    }

    fn exit_in_turn(&self) -> ! {
        print("\x1b[?1049l\r\n");
        println!("{}\r", self.script.say.as_deref().unwrap_or("fake-harness: out of luck"));
        std::process::exit(self.script.exit_code.unwrap_or(1));
    }

    fn end_turn(&mut self) {
        self.turn_ends = None;
        self.told.push("● done".to_owned());
        self.record(&json!({
            "type": "assistant", "message": { "role": "assistant",
            "content": [{ "type": "text", "text": "done" }] },
        }));
        self.hook("Stop", json!({ "stop_hook_active": false, "last_assistant_message": "done" }));
        let queued: Vec<String> = self.queue.drain(..).collect();
        if !queued.is_empty() {
            self.begin_turn(&queued);
        }
    }

    fn open_dialog(&mut self) {
        self.focus = Focus::Dialog;
        self.draw();
        self.hook(
            "PermissionRequest",
            json!({ "tool_name": "Bash", "tool_input": { "command": "touch x" } }),
        );
    }
}
