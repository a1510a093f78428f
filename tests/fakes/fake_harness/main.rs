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
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use serde_json::{Value, json};

mod draw;
mod headless;
mod script;

use script::{Mode, Script};

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
    if script.mode == Mode::ExitAtStart {
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

/// The id of the last prompt in a transcript.
fn last_uuid(transcript: &Path) -> Option<String> {
    let text = fs::read_to_string(transcript).ok()?;
    text.lines().rev().find_map(|line| {
        let record: Value = serde_json::from_str(line).ok()?;
        Some(record["uuid"].as_str()?.to_owned())
    })
}

fn uuid() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    format!("{:x}-{}-fake", now.as_nanos(), std::process::id())
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
        let keys = read_keys();
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
        print("\x1b[?1049h");
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

    fn take(&mut self, byte: u8) -> bool {
        if let Some(paste) = &mut self.paste {
            paste.push(byte);
            if paste.ends_with(b"\x1b[201~") {
                let mut paste = self.paste.take().unwrap();
                paste.truncate(paste.len() - 6);
                self.pasted(&paste);
            }
            return false;
        }
        if let Some(sequence) = &mut self.sequence {
            sequence.push(byte);
            let is_long = sequence.len() > 1 && (0x40..=0x7e).contains(&byte);
            if sequence == b"\x1b" {
                // The first was the key by itself.
                self.sequence = Some(Vec::new());
                self.escape();
            } else if sequence[0] != b'[' || is_long {
                let sequence = self.sequence.take().unwrap();
                match sequence.as_slice() {
                    b"[200~" => self.paste = Some(Vec::new()),
                    b"[D" if self.focus == Focus::Box => self.at = self.at.saturating_sub(1),
                    b"[C" if self.focus == Focus::Box => {
                        self.at = (self.at + 1).min(self.text.len());
                    }
                    b"[13u" if self.script.mode == Mode::NamedKey => return self.enter(),
                    _ => {}
                }
            }
            return false;
        }
        if byte == 0x1b {
            self.sequence = Some(Vec::new());
            return false;
        }
        match self.focus {
            Focus::Box => self.key(byte),
            Focus::Overlay => {
                self.note(&json!({ "overlayKey": hex::encode([byte]) }));
                false
            }
            Focus::Dialog => {
                self.note(&json!({ "dialogKey": hex::encode([byte]) }));
                if byte == b'n' {
                    self.focus = Focus::Box;
                }
                if byte == b'\r' && self.script.mode != Mode::NeverReady {
                    self.note(&json!({ "dialog": "approved" }));
                    self.focus = Focus::Box;
                }
                false
            }
        }
    }

    /// The Escape key by itself.
    fn escape(&mut self) {
        if self.focus == Focus::Overlay {
            self.focus = Focus::Box;
        } else if self.focus == Focus::Box && self.script.vim && !self.vim_normal {
            self.vim_normal = true;
            self.at = self.at.saturating_sub(1);
        }
    }

    fn key(&mut self, byte: u8) -> bool {
        let was_leaving = std::mem::take(&mut self.leaving);
        match byte {
            b'\r' if self.script.mode == Mode::NamedKey => {}
            b'\r' if self.script.enter_alone && !self.is_alone => {}
            b'\r' => return self.enter(),
            b'\n' if self.script.mode == Mode::Canonical => return self.enter(),
            0x03 if was_leaving => return true,
            0x03 => {
                self.put(Vec::new());
                self.leaving = true;
            }
            0x04 if self.text.is_empty() => return true,
            0x0f => {
                self.focus = Focus::Overlay;
                self.overlays += 1;
            }
            // Puts the draft aside, over an older one; on an empty box it comes back.
            0x13 if self.text.is_empty() => {
                let draft = self.stash.take().unwrap_or_default();
                self.put(draft);
            }
            0x13 => {
                self.stash = Some(std::mem::take(&mut self.text));
                self.at = 0;
            }
            0x15 => self.put(Vec::new()),
            0x7f if self.vim_normal => self.at = self.at.saturating_sub(1),
            0x7f if self.text.is_empty() => self.shell_mode = false,
            0x7f if self.at > 0 => {
                self.at -= 1;
                drop(self.text.remove(self.at));
            }
            b'i' if self.vim_normal => self.vim_normal = false,
            b'a' if self.vim_normal => {
                self.vim_normal = false;
                self.at = (self.at + 1).min(self.text.len());
            }
            _ if self.vim_normal => {}
            b'!' if self.text.is_empty() => self.shell_mode = true,
            b'\n' => self.insert(vec![Ok('\n')]),
            byte if byte >= 0x20 => self.insert(vec![Ok(char::from(byte))]),
            _ => {}
        }
        false
    }

    fn insert(&mut self, pieces: Vec<Result<char, String>>) {
        let count = pieces.len();
        self.text.splice(self.at..self.at, pieces);
        self.at += count;
    }

    /// What stands in the box now, the cursor behind it.
    fn put(&mut self, text: Vec<Result<char, String>>) {
        self.at = text.len();
        self.text = text;
    }

    fn pasted(&mut self, bytes: &[u8]) {
        if self.focus != Focus::Box {
            return self.note(&json!({ "lostPaste": bytes.len() }));
        }
        let after = self.script.millis(self.script.swallow_enter_ms, Mode::SwallowEnter, 400, 0);
        self.no_enter_until = Some(Instant::now() + after);
        let text = String::from_utf8_lossy(bytes);
        let mut text = text.replace("\r\n", "\n").replace('\r', "\n").replace('\t', "    ");
        if self.text.is_empty() && text.starts_with('!') {
            self.shell_mode = true;
            text.remove(0);
        }
        self.pastes += 1;
        if text.lines().count() > 3 || text.chars().count() > 800 {
            self.insert(vec![Err(text)]);
        } else {
            self.insert(text.chars().map(Ok).collect());
        }
        if let Some(after) = self.script.tools_after_paste_ms.get(self.tools) {
            self.tool_begins = Some(Instant::now() + Duration::from_millis(*after));
            self.tools += 1;
        }
        if self.script.shell_after_paste == Some(self.pastes) {
            print("\x1b[?2004l\x1b[?1049l\x1b[2J\x1b[H");
            let _ = std::os::unix::process::CommandExt::exec(&mut Command::new("/bin/sh"));
            std::process::exit(127);
        }
    }

    fn enter(&mut self) -> bool {
        if self.no_enter_until.is_some_and(|until| Instant::now() < until) {
            return false;
        }
        let mut text = String::new();
        let mut told = String::new();
        for piece in &self.text {
            match piece {
                Ok(c) => {
                    text.push(*c);
                    told.push(*c);
                }
                Err(paste) => {
                    text.push_str(paste);
                    told.push_str("\n\n<pasted_content id=\"1e54\">\n");
                    told.push_str(paste);
                    told.push_str("\n</pasted_content id=\"1e54\">\n");
                }
            }
        }
        if text.ends_with('\\') {
            self.text.pop();
            self.at = self.text.len();
            self.insert(vec![Ok('\n')]);
            return false;
        }
        self.put(Vec::new());
        let text = text.strip_suffix('\n').unwrap_or(&text).to_owned();
        if std::mem::take(&mut self.shell_mode) {
            self.note(&json!({ "ranInShell": text }));
            return false;
        }
        match text.as_str() {
            "" => return false,
            "/exit" | "exit" | ":q" => {
                self.note(&json!({ "command": text }));
                return true;
            }
            _ if text.starts_with('/') && !text[1..].contains('/') => {
                self.note(&json!({ "command": text }));
                self.focus = Focus::Overlay;
                return false;
            }
            _ => {}
        }
        self.note(&json!({ "prompt": text }));
        let draft = self.stash.take().unwrap_or_default();
        self.put(draft);
        // Hooks, transcript and model get a placeholder's text wrapped.
        if self.turn_ends.is_some() {
            self.record(&json!({
                "type": "queue-operation", "operation": "enqueue", "content": told,
            }));
            self.hook("UserPromptSubmit", json!({ "prompt": told }));
            self.queue.push_back(told);
        } else {
            self.hook("UserPromptSubmit", json!({ "prompt": told }));
            self.begin_turn(&[told]);
        }
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

    /// Runs the commands of a hook as Claude does: through a shell, with the
    /// event on standard input.
    fn hook(&self, name: &str, event: Value) {
        let is_silent = self.script.mode == Mode::Mute || self.script.no_hook;
        if is_silent && name == "UserPromptSubmit" {
            return;
        }
        for child in self.hook_children(name, event) {
            let output = child.wait_with_output().unwrap();
            if !output.status.success() || !output.stdout.is_empty() || !output.stderr.is_empty() {
                self.note(&json!({ "hook": name, "status": output.status.code(),
                    "said": String::from_utf8_lossy(&[output.stdout, output.stderr].concat()) }));
            }
        }
    }

    /// The commands of a hook, begun and told what happened.
    fn hook_children(&self, name: &str, mut event: Value) -> Vec<std::process::Child> {
        event["hook_event_name"] = json!(name);
        event["session_id"] = json!(self.args.session);
        event["transcript_path"] = json!(self.transcript);
        event["cwd"] = json!(std::env::current_dir().unwrap());
        event["permission_mode"] = json!(self.args.permission_mode);
        let groups = self.args.settings["hooks"][name].as_array().into_iter().flatten();
        let hooks = groups.flat_map(|group| group["hooks"].as_array().into_iter().flatten());
        let begun = hooks.map(|hook| {
            let mut child = Command::new("/bin/sh")
                .args(["-c", hook["command"].as_str().unwrap()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let _ = child.stdin.take().unwrap().write_all(event.to_string().as_bytes());
            child
        });
        begun.collect()
    }

    fn record(&self, record: &Value) {
        if self.script.mode != Mode::Mute && !self.script.no_transcript {
            fs::create_dir_all(self.transcript.parent().unwrap()).unwrap();
            let mut record = record.clone();
            record["sessionId"] = json!(self.args.session);
            append(&self.transcript, &record);
        }
    }

    fn log(&self, entry: &Value) {
        self.stamped(self.log.as_deref(), entry);
    }

    fn note(&self, entry: &Value) {
        self.stamped(self.prompts.as_deref(), entry);
    }

    fn stamped(&self, path: Option<&Path>, entry: &Value) {
        let Some(path) = path else { return };
        let mut entry = entry.clone();
        entry["t"] = json!(self.start.elapsed().as_secs_f64());
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        entry["wall"] = json!(wall.as_secs_f64());
        append(path, &entry);
    }
}

fn read_keys() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(read) = io::stdin().lock().read(&mut buffer) {
            if read == 0 || sender.send(buffer[..read].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

fn append(path: &Path, entry: &Value) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(format!("{entry}\n").as_bytes()).unwrap();
}

fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}
