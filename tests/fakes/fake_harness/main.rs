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
    reason = "a program of the tests: it stops at the first surprise"
)]

use std::collections::VecDeque;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use rustix::termios::{OptionalActions, tcgetattr, tcgetwinsize, tcsetattr};
use serde_json::{Value, json};

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
        raw.make_raw();
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
        print("\x1b[?2004h\x1b[?1049h");
        self.text = self.script.draft.iter().flat_map(|text| text.chars()).map(Ok).collect();
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
        let next = [turn_ends, self.dialog_opens].into_iter().flatten().min();
        let wait =
            next.map_or(Duration::from_hours(1), |at| at.saturating_duration_since(Instant::now()));
        match keys.recv_timeout(wait) {
            Ok(bytes) => {
                self.log(&json!({ "hex": hex::encode(&bytes) }));
                for byte in bytes {
                    if self.take(byte) {
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
            if sequence[0] != b'[' || is_long {
                if sequence == b"[200~" {
                    self.paste = Some(Vec::new());
                }
                self.sequence = None;
            }
            return false;
        }
        if byte == 0x1b {
            self.sequence = Some(Vec::new());
            if self.focus == Focus::Overlay {
                self.focus = Focus::Box;
            }
            return false;
        }
        match self.focus {
            Focus::Box => self.key(byte),
            Focus::Overlay => false,
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

    fn key(&mut self, byte: u8) -> bool {
        let was_leaving = std::mem::take(&mut self.leaving);
        match byte {
            b'\r' => return self.enter(),
            0x03 if was_leaving => return true,
            0x03 => {
                self.text.clear();
                self.leaving = true;
            }
            0x04 if self.text.is_empty() => return true,
            // Puts the draft aside, over an older one; on an empty box it comes back.
            0x13 if self.text.is_empty() => self.text = self.stash.take().unwrap_or_default(),
            0x13 => self.stash = Some(std::mem::take(&mut self.text)),
            0x15 => self.text.clear(),
            0x7f if self.text.is_empty() => self.shell_mode = false,
            0x7f => drop(self.text.pop()),
            b'\n' => self.text.push(Ok('\n')),
            b'!' if self.text.is_empty() => self.shell_mode = true,
            byte if byte >= 0x20 => self.text.push(Ok(char::from(byte))),
            _ => {}
        }
        false
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
        if text.lines().count() > 3 || text.chars().count() > 800 {
            self.pastes += 1;
            self.text.push(Err(text));
        } else {
            self.text.extend(text.chars().map(Ok));
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
            self.text.push(Ok('\n'));
            return false;
        }
        self.text.clear();
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
        self.text = self.stash.take().unwrap_or_default();
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
            print("\x1b[?1049l\r\n");
            println!("{}\r", self.script.say.as_deref().unwrap_or("fake-harness: out of luck"));
            std::process::exit(self.script.exit_code.unwrap_or(1));
        }
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
    fn hook(&self, name: &str, mut event: Value) {
        if self.script.mode == Mode::Mute && name == "UserPromptSubmit" {
            return;
        }
        event["hook_event_name"] = json!(name);
        event["session_id"] = json!(self.args.session);
        event["transcript_path"] = json!(self.transcript);
        event["cwd"] = json!(std::env::current_dir().unwrap());
        event["permission_mode"] = json!(self.args.permission_mode);
        let groups = self.args.settings["hooks"][name].as_array().into_iter().flatten();
        for hook in groups.flat_map(|group| group["hooks"].as_array().into_iter().flatten()) {
            let mut child = Command::new("/bin/sh")
                .args(["-c", hook["command"].as_str().unwrap()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let _ = child.stdin.take().unwrap().write_all(event.to_string().as_bytes());
            let output = child.wait_with_output().unwrap();
            if !output.status.success() || !output.stdout.is_empty() || !output.stderr.is_empty() {
                self.note(&json!({ "hook": name, "status": output.status.code(),
                    "said": String::from_utf8_lossy(&[output.stdout, output.stderr].concat()) }));
            }
        }
    }

    fn record(&self, record: &Value) {
        if self.script.mode != Mode::Mute {
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

    fn draw(&self) {
        let size = tcgetwinsize(io::stdout()).unwrap();
        let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
        let mut out = String::from("\x1b[2J\x1b[H");
        match self.focus {
            Focus::Dialog => out.push_str(&self.dialog(columns)),
            Focus::Overlay => {
                let line = "▔".repeat(columns);
                out.push_str(&format!("{line}\r\n  Help\r\n\r\n  Esc to cancel\r\n"));
            }
            Focus::Box => self.draw_box(columns, rows, &mut out),
        }
        let sign = if self.turn_ends.is_some() { '⠂' } else { '✳' };
        print(&format!("\x1b]2;{sign} Fake\x07{out}"));
    }

    fn dialog(&self, columns: usize) -> String {
        match &self.script.screen {
            Some(path) => fs::read_to_string(path).unwrap().trim_end().replace('\n', "\r\n"),
            None => format!(
                "{}\r\n Bash command\r\n\r\n   touch x\r\n\r\n Do you want to proceed?\r\n \
                 ❯ 1. Yes\r\n   2. No\r\n\r\n Esc to cancel · Tab to amend",
                "─".repeat(columns)
            ),
        }
    }

    fn draw_box(&self, columns: usize, rows: usize, out: &mut String) {
        let content = self.content(columns - 3);
        let busy = self.turn_ends.is_some();
        let top = rows.saturating_sub(content.len() + 3).max(4);
        let room = top.saturating_sub(4);
        let lines: Vec<&str> = self.told.iter().flat_map(|told| told.lines()).collect();
        for line in &lines[lines.len().saturating_sub(room)..] {
            let line: String = line.chars().filter(|c| !c.is_control()).take(columns - 1).collect();
            out.push_str(&format!("{line}\r\n"));
        }
        if busy {
            out.push_str(&format!("\x1b[{};1H✶ Cultivating… (1s)", top - 1));
        }
        let rule = "─".repeat(columns);
        let sign = match (self.shell_mode, busy) {
            (true, _) => "! ",
            (false, true) => "\x1b[38;5;246m❯\x1b[m ",
            (false, false) => "❯ ",
        };
        out.push_str(&format!("\x1b[{};1H{rule}\r\n{sign}", top + 1));
        out.push_str(&content.join("\r\n  "));
        let bottom = top + 2 + content.len();
        let footer = match (self.leaving, busy) {
            (true, _) => "Press Ctrl-C again to exit",
            (_, true) => "esc to interrupt",
            _ if self.stash.is_some() => "› stashed",
            _ => "? for shortcuts",
        };
        let column = 3 + content.last().unwrap().chars().count();
        out.push_str(&format!(
            "\x1b[7m \x1b[m\x1b[{bottom};1H{rule}\r\n  {footer}\x1b[{};{column}H",
            bottom - 1
        ));
    }

    fn content(&self, width: usize) -> Vec<String> {
        if self.script.mode == Mode::NoEcho {
            return vec![String::new()];
        }
        let mut rows = vec![String::new()];
        let mut number = self.pastes - self.text.iter().filter(|piece| piece.is_err()).count();
        for piece in &self.text {
            let shown = match piece {
                Ok('\n') => {
                    rows.push(String::new());
                    continue;
                }
                Ok(c) => c.to_string(),
                Err(paste) => {
                    number += 1;
                    format!("[Pasted text #{number} +{} lines]", paste.matches('\n').count())
                }
            };
            if rows.last().unwrap().chars().count() + shown.chars().count() > width {
                rows.push(String::new());
            }
            rows.last_mut().unwrap().extend(shown.chars().filter(|c| !c.is_control()));
        }
        rows
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
