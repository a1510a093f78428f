//! Agents in real panes: what is typed into them, what their screens and their
//! spools say. The server is private to each test.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use the_loop::base::ids::{HarnessSessionId, Marker};
use the_loop::core::config::HarnessName;
use the_loop::core::harness::{Harness, Harnesses, Signal, StartSpec};
use the_loop::core::inject::screen::{Activity, InputBox, Reading, Screen};
use the_loop::state::spool;

const SELF: &str = env!("CARGO_BIN_EXE_the-loop");
const FAKE: &str = env!("CARGO_BIN_EXE_fake-harness");
const PATIENCE: Duration = Duration::from_secs(10);

/// A tmux server with one pane that runs `the-loop launch`.
struct Pane {
    dir: tempfile::TempDir,
    harness: Harness,
    session: HarnessSessionId,
    resume: bool,
}

impl Drop for Pane {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
        // The agent may write its last signal now; afterwards nothing can.
        let start = Instant::now();
        while self.dir.path().exists() && start.elapsed() < PATIENCE {
            let _ = std::fs::remove_dir_all(self.dir.path());
        }
    }
}

impl Pane {
    fn new(harness: &HarnessName) -> Self {
        let dir = tempfile::Builder::new().prefix("agents-").tempdir_in("/tmp").unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        let session = HarnessSessionId::uuid([1; 16]);
        Self {
            dir,
            harness: Harnesses::new(&BTreeMap::new(), None).get(harness).unwrap(),
            session,
            resume: false,
        }
    }

    fn demo() -> Self {
        let pane = Self::new(&HarnessName::Demo);
        pane.launch(Path::new(SELF));
        pane.wait_until_ready();
        pane
    }

    /// The fake in Claude's place, with this script.
    fn fake(script: &Value) -> Self {
        let pane = Self::new(&HarnessName::Claude);
        pane.script(script);
        pane.launch(Path::new(FAKE));
        pane
    }

    fn script(&self, script: &Value) {
        let mut script = script.clone();
        script["log"] = json!(self.dir.path().join("log"));
        script["prompts"] = json!(self.dir.path().join("prompts"));
        std::fs::write(self.work().join("fake-harness.json"), script.to_string()).unwrap();
    }

    fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    fn spool(&self) -> PathBuf {
        self.dir.path().join("spool")
    }

    /// Writes what `the-loop launch` reads.
    fn store(&self, program: &Path) -> PathBuf {
        let hook = format!("'{SELF}' hook");
        let plan = self.harness.start(&StartSpec {
            session_id: &self.session,
            resume: self.resume,
            hook_command: &hook,
            extra_args: &[],
            cwd: &self.work(),
            trusted: true,
            version: None,
        });
        let mut env = plan.env;
        env.push((spool::DIR_VAR.into(), self.spool().to_str().unwrap().into()));
        env.push(("TERM".into(), "tmux-256color".into()));
        let os = |text: &str| json!({ "Unix": text.as_bytes() });
        let stored = json!({
            "program": program,
            "args": plan.args.iter().map(|arg| os(arg)).collect::<Vec<_>>(),
            "env": env.iter().map(|(name, value)| (os(name), os(value))).collect::<Vec<_>>(),
            "cwd": self.work(),
        });
        let file = self.dir.path().join("launch.json");
        let mut options = std::fs::OpenOptions::new();
        let mut open = options.write(true).create(true).truncate(true).mode(0o600).open(&file);
        open.as_mut().unwrap().write_all(stored.to_string().as_bytes()).unwrap();
        file
    }

    /// Starts the program in the pane as the runner does.
    fn launch(&self, program: &Path) {
        let file = self.store(program);
        let file = file.to_str().unwrap();
        let output = self.tmux(&[
            "start-server",
            ";",
            "set",
            "-g",
            "remain-on-exit",
            "on",
            ";",
            "new-session",
            "-d",
            "-x",
            "120",
            "-y",
            "40",
            "-s",
            "s",
            "--",
            SELF,
            "launch",
            file,
        ]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Starts the program again in the dead pane.
    fn relaunch(&self, program: &Path) {
        let file = self.store(program);
        let file = file.to_str().unwrap();
        let output = self.tmux(&["respawn-pane", "-t", "s", "--", SELF, "launch", file]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn tmux(&self, args: &[&str]) -> Output {
        self.tmux_with(args, b"")
    }

    fn tmux_with(&self, args: &[&str], stdin: &[u8]) -> Output {
        let mut child = Command::new("tmux")
            .arg("-S")
            .arg(self.dir.path().join("t"))
            .args(["-f", "/dev/null"])
            .args(args)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin")
            .env("HOME", self.dir.path())
            .env("LC_CTYPE", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(stdin).unwrap();
        child.wait_with_output().unwrap()
    }

    fn paste(&self, text: impl AsRef<[u8]>) {
        assert!(self.tmux_with(&["load-buffer", "-b", "x", "-"], text.as_ref()).status.success());
        let output = self.tmux(&["paste-buffer", "-p", "-r", "-d", "-b", "x", "-t", "s"]);
        assert!(output.status.success());
    }

    fn press(&self, keys: &[&str]) {
        let args: Vec<_> = ["send-keys", "-t", "s"].iter().chain(keys).copied().collect();
        assert!(self.tmux(&args).status.success());
    }

    fn shown(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p", "-e", "-t", "s"]);
        String::from_utf8(output.stdout).unwrap()
    }

    /// What a dead pane holds. tmux scrolls it by one row to say that it is dead,
    /// so that a first line is in the history then.
    fn last_words(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p", "-S", "-", "-t", "s"]);
        String::from_utf8(output.stdout).unwrap()
    }

    fn state(&self, format: &str) -> String {
        let output = self.tmux(&["display-message", "-p", "-t", "s", format]);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn reading(&self) -> Reading {
        let at = self.state("#{cursor_x},#{cursor_y}");
        let (x, y) = at.split_once(',').unwrap_or(("0", "0"));
        let cursor = (x.parse().unwrap_or(0), y.parse().unwrap_or(0));
        self.harness.read_screen(&Screen { text: &self.shown(), cursor, columns: 120, title: "" })
    }

    fn signals(&self) -> Vec<Signal> {
        let entries = spool::read_after(&self.spool(), None).unwrap();
        entries.iter().filter_map(|entry| self.harness.signal_of(&entry.raw)).collect()
    }

    fn accepted(&self) -> Vec<String> {
        let accepted = |signal| match signal {
            Signal::Accepted { prompt } => Some(prompt),
            _ => None,
        };
        self.signals().into_iter().filter_map(accepted).collect()
    }

    /// What the fake wrote down.
    fn noted(&self, file: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.dir.path().join(file)).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn wait(&self, what: &str, is_so: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < PATIENCE, "waited for {what}; on screen:\n{}", self.shown());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn wait_until_ready(&self) {
        self.wait("the ready signal", || {
            self.signals().iter().any(
                |signal| matches!(signal, Signal::Ready { session_id, .. } if *session_id == self.session),
            )
        });
        self.wait("an empty box", || self.reading().is_ready());
    }

    fn wait_until_dead(&self) {
        self.wait("the end of the program", || self.state("#{pane_dead}") == "1");
    }

    /// tmux knows that a pane is dead before it knows how its program ended, and
    /// when the program was its first and very quick, tmux 3.3a never learns it.
    fn ended_with(&self, code: &str) -> bool {
        let start = Instant::now();
        loop {
            let status = self.state("#{pane_dead_status}");
            if !status.is_empty() || start.elapsed() > Duration::from_secs(2) {
                return status == code || status.is_empty();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn marker(n: u8) -> Marker {
    Marker::new([n; 16])
}

fn prompt(n: u8, lines: usize) -> String {
    let mut text = format!("[event {}] number {n}", marker(n));
    for line in 0..lines {
        text.push_str("\näöü 漢字 👍, line ");
        text.push_str(&line.to_string());
    }
    text
}

#[test]
fn the_demo_agent_takes_a_paste_and_says_so() {
    let pane = Pane::demo();
    for (n, lines) in [(1, 0), (2, 2), (3, 40)] {
        let text = prompt(n, lines);
        pane.paste(&text);
        pane.wait("the text in the box", || pane.reading().holds_only(&text, &marker(n)));
        assert_eq!(matches!(pane.reading().input, InputBox::Placeholder { .. }), lines > 2);
        pane.press(&["Enter"]);
        pane.wait("the proof", || pane.signals().iter().any(|signal| signal.accepts(&marker(n))));
        pane.wait("an empty box", || pane.reading().is_ready());
        assert_eq!(pane.accepted().last(), Some(&text));
    }
    let turns = pane.signals().iter().filter(|signal| **signal == Signal::TurnEnded).count();
    assert_eq!(turns, 3);
}

#[test]
fn what_terminals_draw_badly_is_still_known_as_ours() {
    let hard = "👨\u{200d}👩\u{200d}👧\u{200d}👦 🏳\u{fe0f}\u{200d}🌈 🇩🇪 e\u{30b} क्षि ที่ مرحبا 각 ❤\u{fe0f} ﷽ …";
    let mut panes = vec![Pane::demo()];
    panes.push(Pane::fake(&json!({})));
    for pane in panes {
        pane.wait_until_ready();
        let text = format!("[event {}] {hard} {hard}", marker(1));
        pane.paste(&text);
        pane.wait("the text in the box", || pane.reading().holds_only(&text, &marker(1)));
        pane.press(&["Enter"]);
        pane.wait("the proof", || pane.accepted() == std::slice::from_ref(&text));
    }
}

#[test]
fn the_demo_agent_shows_a_draft_and_a_turn() {
    let pane = Pane::demo();
    pane.press(&["-l", "half typed"]);
    let draft = InputBox::Holds { text: "half typed".into() };
    pane.wait("the draft", || {
        let reading = pane.reading();
        (reading.activity, &reading.input) == (Activity::Idle, &draft)
    });
    pane.paste(prompt(1, 0));
    pane.wait("both texts", || pane.reading().shows("", &marker(1)));
    assert!(
        !pane.reading().holds_only(&prompt(1, 0), &marker(1)),
        "a merged draft is not ours alone"
    );
    pane.press(&["C-u"]);
    pane.wait("an empty box", || pane.reading().is_ready());
    pane.press(&["-l", "go"]);
    pane.press(&["Enter"]);
    pane.wait("a turn", || pane.reading().activity == Activity::Busy);
    pane.wait("its end", || pane.reading().is_ready());
    assert_eq!(pane.accepted(), ["go"]);
}

#[test]
fn control_bytes_in_a_paste_do_nothing_to_the_demo_agent() {
    let pane = Pane::demo();
    let hostile = "a\u{3}\u{3}\u{4}\u{15}\u{1b}[A\u{7}\u{1b}]0;x\u{7}b\0c /exit !touch x";
    pane.paste(hostile);
    pane.wait("the text in the box", || {
        matches!(&pane.reading().input, InputBox::Holds { text } if text.contains("\\x03\\x03\\x04"))
    });
    assert_ne!(pane.state("#{pane_title}"), "x");
    pane.press(&["Enter"]);
    pane.wait("the proof", || pane.accepted() == [hostile]);
    pane.wait("an empty box", || pane.reading().is_ready());
}

#[test]
fn the_demo_agent_leaves_the_terminal_as_it_was_and_says_why_it_ended() {
    let pane = Pane::demo();
    pane.press(&["C-c"]);
    pane.wait("the warning", || pane.shown().contains("Press Ctrl-C again"));
    pane.press(&["C-c"]);
    pane.wait_until_dead();
    assert!(pane.ended_with("0"));
    let ended = Signal::Ended { reason: "prompt_input_exit".into() };
    assert_eq!(pane.signals().last(), Some(&ended));
    assert_eq!(pane.reading().input, InputBox::Absent);
}

#[test]
fn the_demo_agent_draws_its_box_again_in_a_window_of_another_size() {
    let pane = Pane::demo();
    pane.press(&["-l", "draft"]);
    pane.tmux(&["resize-window", "-t", "s", "-x", "90", "-y", "30"]);
    pane.wait("the new box", || {
        let at = pane.state("#{cursor_x},#{cursor_y},#{pane_width}");
        let at: Vec<u16> = at.split(',').map(|n| n.parse().unwrap_or(0)).collect();
        let text = pane.shown();
        let screen = Screen { text: &text, cursor: (at[0], at[1]), columns: at[2], title: "" };
        let input = pane.harness.read_screen(&screen).input;
        at[2] == 90 && input == InputBox::Holds { text: "draft".into() }
    });
}

#[test]
fn a_real_hook_brings_the_prompt_and_says_nothing_to_the_agent() {
    let pane = Pane::fake(&json!({}));
    pane.wait_until_ready();
    let text = prompt(1, 40);
    pane.paste(&text);
    pane.wait("the text in the box", || pane.reading().holds_only(&text, &marker(1)));
    pane.press(&["Enter"]);
    pane.wait("the turn's end", || pane.signals().contains(&Signal::TurnEnded));
    let accepted = pane.accepted();
    assert!(accepted.len() == 1 && accepted[0].contains(&text), "{accepted:?}");
    let notes = pane.noted("prompts");
    assert_eq!(notes.len(), 1, "a hook said something: {notes:?}");
    assert_eq!(notes[0]["prompt"], text);
    let Some(Signal::Ready { transcript: Some(transcript), .. }) = pane.signals().first().cloned()
    else {
        unreachable!("the first signal is the ready one")
    };
    let transcript = std::fs::read_to_string(transcript).unwrap();
    assert!(transcript.lines().any(|line| pane.harness.transcript_has(line, &marker(1))));
}

#[test]
fn what_is_said_in_a_turn_is_queued_and_each_is_proven() {
    let pane = Pane::fake(&json!({"mode": "busy", "turnMs": 600}));
    pane.wait_until_ready();
    for n in 1..=3 {
        let text = prompt(n, 0);
        pane.paste(&text);
        pane.wait("the text in the box", || pane.reading().holds_only(&text, &marker(n)));
        pane.press(&["Enter"]);
        pane.wait("an empty box", || pane.reading().input == InputBox::Empty);
    }
    pane.wait("two turns", || {
        pane.signals().iter().filter(|signal| **signal == Signal::TurnEnded).count() == 2
    });
    assert_eq!(pane.accepted(), [prompt(1, 0), prompt(2, 0), prompt(3, 0)]);
}

#[test]
fn a_dialog_is_seen_and_waits_for_a_person() {
    for version in ["2.1.197", "2.1.332"] {
        let root = env!("CARGO_MANIFEST_DIR");
        let screen =
            format!("{root}/tests/fixtures/screens/claude-{version}/dialog-permission-bash.txt");
        let pane = Pane::fake(&json!({"dialogAtStart": true, "screen": screen}));
        pane.wait("the request", || {
            pane.signals().contains(&Signal::Waiting { what: "Bash: touch x".into() })
        });
        pane.wait("the dialog", || {
            matches!(&pane.reading().activity, Activity::Dialog { what } if what.contains("proceed?"))
        });
        assert_eq!(pane.reading().input, InputBox::Absent);
        pane.paste("lost");
        pane.press(&["Enter"]);
        pane.wait("what the keys did", || {
            pane.noted("prompts").iter().any(|note| note["dialog"] == "approved")
        });
    }
}

#[test]
fn a_swallowed_enter_leaves_the_text_where_it_is() {
    let pane = Pane::fake(&json!({"mode": "swallow-enter", "swallowEnterMs": 600}));
    pane.wait_until_ready();
    let text = prompt(1, 0);
    pane.paste(&text);
    pane.press(&["Enter"]);
    pane.wait("both in the log", || {
        let bytes: String = pane
            .noted("log")
            .iter()
            .filter_map(|entry| entry["hex"].as_str().map(str::to_owned))
            .collect();
        bytes.starts_with(&hex::encode("\x1b[200~")) && bytes.ends_with("0d")
    });
    assert!(pane.reading().holds_only(&text, &marker(1)));
    assert!(pane.accepted().is_empty());
    pane.wait("the submit", || {
        pane.press(&["Enter"]);
        !pane.accepted().is_empty()
    });
    assert_eq!(pane.accepted(), [text]);
}

#[test]
fn an_agent_that_dies_at_start_leaves_its_words_in_the_pane() {
    let pane = Pane::fake(&json!({"mode": "exit-at-start", "say": "no licence", "exitCode": 7}));
    pane.wait_until_dead();
    assert!(pane.last_words().contains("no licence"));
    assert!(pane.ended_with("7"));
    assert!(pane.signals().is_empty());
    assert_eq!(pane.reading(), Reading::UNKNOWN);
}

#[test]
fn a_slow_agent_is_not_ready_before_it_says_so() {
    let pane = Pane::fake(&json!({"mode": "slow-start", "startMs": 700}));
    assert_eq!(pane.reading(), Reading::UNKNOWN);
    pane.wait_until_ready();
    let fake = pane.noted("log");
    assert!(fake.is_empty(), "nothing was typed: {fake:?}");
}

#[test]
fn a_conversation_is_resumed_only_when_it_exists() {
    let mut pane = Pane::fake(&json!({}));
    pane.wait_until_ready();
    pane.press(&["-l", "hello"]);
    pane.press(&["Enter"]);
    pane.wait("the turn's end", || pane.signals().contains(&Signal::TurnEnded));
    pane.press(&["C-c", "C-c"]);
    pane.wait_until_dead();
    pane.resume = true;
    pane.relaunch(Path::new(FAKE));
    let ready = |signal: &&Signal| matches!(signal, Signal::Ready { .. });
    pane.wait("the second start", || pane.signals().iter().filter(ready).count() == 2);
}

#[test]
fn a_missing_program_is_named_in_the_pane() {
    let pane = Pane::new(&HarnessName::Claude);
    pane.launch(Path::new("/nowhere/claude"));
    pane.wait_until_dead();
    let shown = pane.last_words();
    let reason = "error: the agent was not started: `/nowhere/claude`: No such file or directory";
    assert!(shown.contains(reason), "{shown}");
    assert!(shown.contains("the-loop doctor"), "{shown}");
    assert!(pane.ended_with("1"));
}

#[test]
fn a_launched_agent_has_exactly_the_stored_environment() {
    let pane = Pane::new(&HarnessName::Demo);
    let file = pane.dir.path().join("launch.json");
    let os = |text: &str| json!({ "Unix": text.as_bytes() });
    let stored = json!({
        "program": "/usr/bin/env", "args": [], "env": [(os("ONLY"), os("this"))], "cwd": null,
    });
    the_loop::base::files::atomic::write(&file, stored.to_string().as_bytes()).unwrap();
    let output = Command::new(SELF).arg("launch").arg(&file).env("SECRET", "x").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ONLY=this\n");
}

/// Runs `the-loop hook` with this input.
fn hook(dir: Option<&Path>, input: &[u8]) -> Output {
    let mut command = Command::new(SELF);
    command.arg("hook").env_clear();
    if let Some(dir) = dir {
        command.env(spool::DIR_VAR, dir.as_os_str());
    }
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_hook_whose_input_is_never_closed_tells_what_it_heard_and_ends() {
    let dir = tempfile::tempdir().unwrap();
    let mut heard = 0;
    for input in ["", "{\"hook_event_name\":", "{\"hook_event_name\":\"Stop\"}"] {
        let began = Instant::now();
        let mut child = Command::new(SELF)
            .arg("hook")
            .env_clear()
            .env(spool::DIR_VAR, dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut held_open = child.stdin.take().unwrap();
        held_open.write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert_eq!(output.status.code(), Some(0), "{input}");
        assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
        heard += usize::from(input.ends_with('}'));
        assert_eq!(spool::read_after(dir.path(), None).unwrap().len(), heard, "{input}");
        drop(held_open);
    }
}

#[test]
fn the_hook_never_fails_the_agent() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let huge = json!({"hook_event_name": "UserPromptSubmit", "prompt": "x".repeat(3 << 20)});
    let huge = huge.to_string();
    let spool = dir.path().join("spool");
    for (dir, input) in [
        (Some(spool.as_path()), b"{\"hook_event_name\":\"Stop\"}".as_slice()),
        (Some(spool.as_path()), b"nonsense".as_slice()),
        (Some(spool.as_path()), b"".as_slice()),
        (Some(spool.as_path()), huge.as_bytes()),
        (None, b"{}".as_slice()),
        (Some(file.as_path()), b"{}".as_slice()),
        (Some(Path::new("/proc/none/x")), b"{}".as_slice()),
    ] {
        let output = hook(dir, input);
        assert_eq!(output.status.code(), Some(0), "{dir:?}");
        assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
    }
    // What another version of this program wrote down as its command line.
    for others in [&["extra"][..], &["--nonsense"], &["--json", "--more=x", "--", "y"]] {
        let output = Command::new(SELF).arg("hook").args(others).env_clear().output().unwrap();
        assert!(output.status.code() == Some(0) && output.stderr.is_empty(), "{output:?}");
    }
    let names: Vec<_> = spool::read_after(&spool, None)
        .unwrap()
        .into_iter()
        .map(|entry| entry.raw["hook_event_name"].clone())
        .collect();
    assert_eq!(names, ["Stop", "UserPromptSubmit"]);
    let mode = std::os::unix::fs::PermissionsExt::mode(&spool.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700);
}
