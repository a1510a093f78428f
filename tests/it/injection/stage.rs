//! What a way of `injection` plays on: a receiver, a fake agent with a script, and
//! a person who gets in the way, at a terminal of their own.

use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{TmuxServer, World, eventually};

pub const SESSION: &str = "=loop/o+r+1";
pub const SESSION_PANE: &str = "=loop/o+r+1:";

/// What a person does meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Person {
    Away,
    /// Types a line and rests, again and again.
    Drafts,
    /// The same in vi's ways: between two lines letters are commands.
    VimDrafts,
    /// Says no to each dialog, after a while.
    SaysNo,
    /// Opens something over the box, and closes it again.
    Opens,
    /// Begins a slash command, and takes it back.
    Commands,
    /// Scrolls, and leaves the copy mode again.
    Scrolls,
    /// Begins a shell command, and takes it back.
    Shell,
}

pub struct Random(u64);

impl Random {
    pub fn new() -> Self {
        let seed = std::env::var("THE_LOOP_SEED").ok().and_then(|seed| seed.parse().ok());
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos();
        let seed = seed.unwrap_or_else(|| u64::try_from(now % (1 << 62)).unwrap());
        let _ = writeln!(std::io::stderr(), "THE_LOOP_SEED={seed}");
        Self(seed | 1)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    pub fn millis(&mut self, limit: u64) -> Duration {
        Duration::from_millis(self.below(limit))
    }
}

pub struct Stage {
    pub world: World,
    client: Client,
}

/// A person's terminal, a pane of another tmux server, that shows a session.
pub struct Client {
    terminal: TmuxServer,
    size: (u16, u16),
}

impl Client {
    pub fn new(columns: u16, rows: u16) -> Self {
        Self { terminal: TmuxServer::new(), size: (columns, rows) }
    }

    /// Runs a tmux command in it that attaches it to the world's server. Within the
    /// second in which it does, a key would not count: tmux tells whole seconds.
    pub async fn attach(&self, world: &World, command: &[&str]) {
        let clients = || world.tmux.run(&["list-clients"]).lines().count();
        let before = clients();
        let tmux = crate::support::tmux_path();
        let socket = world.tmux.socket.to_str().unwrap();
        let tmux = tmux.to_str().unwrap();
        let (columns, rows) = (self.size.0.to_string(), self.size.1.to_string());
        let new = ["new-session", "-d", "-s", "p", "-x", &columns, "-y", &rows, "--"];
        let attach = ["env", "-u", "TMUX", tmux, "-u", "-S", socket];
        self.terminal.run(&[&new[..], &attach, command].concat());
        eventually("the person is there", async || (clients() > before).then_some(())).await;
        tokio::time::sleep(Duration::from_millis(1_050)).await;
    }

    /// Presses keys.
    pub fn keys(&self, keys: &[&str]) {
        self.terminal.run(&[&["send-keys", "-t", "p"], keys].concat());
    }

    /// Closes the terminal.
    pub fn close(&self) {
        self.terminal.run(&["kill-session", "-t", "p"]);
    }
}

impl Stage {
    pub fn new(script: &Value) -> Self {
        let world = World::new("defaultHarness: claude\nrateLimit: 0");
        let config = std::fs::read_to_string(world.config()).unwrap();
        let fake = env!("CARGO_BIN_EXE_fake-harness");
        let tools = format!("tools:\n  claude:\n    path: {fake}\n");
        let config = config.replacen("tools:\n", &tools, 1);
        std::fs::write(world.config(), config.replace("Seconds: 20", "Seconds: 5")).unwrap();
        let mut script = script.clone();
        script["prompts"] = json!(world.home.join("prompts"));
        std::fs::write(world.project.join("fake-harness.json"), script.to_string()).unwrap();
        Self { world, client: Client::new(120, 40) }
    }

    /// The same, and browsers can come.
    pub fn with_web(script: &Value) -> Self {
        let stage = Self::new(script);
        let config = std::fs::read_to_string(stage.world.config()).unwrap();
        let ttyd = crate::web_client::ttyd_path();
        let tools = format!("tools:\n  ttyd:\n    path: {}\n", ttyd.display());
        let web = "rateLimit: 0\n  webTerminal:\n    enabled: true\n    port: 0\n";
        let config = config.replacen("tools:\n", &tools, 1).replacen("rateLimit: 0\n", web, 1);
        std::fs::write(stage.world.config(), config).unwrap();
        stage
    }

    /// Starts the receiver; `THE_LOOP_LOG` reaches it, for the one who looks for a
    /// fault: `the_loop=trace` tells each look and each step.
    pub async fn start(&mut self) {
        let log = std::env::var_os("THE_LOOP_LOG");
        let variables: Vec<_> = log.iter().map(|log| ("THE_LOOP_LOG", log.as_os_str())).collect();
        self.world.start_with(&variables).await;
    }

    /// What the agent did, one record each.
    pub fn notes(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.world.home.join("prompts")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    pub fn prompts(&self) -> Vec<String> {
        let notes = self.notes().into_iter();
        notes.filter_map(|note| Some(note["prompt"].as_str()?.to_owned())).collect()
    }

    /// The events that the agent took: those that waited together came in one.
    pub fn events(&self) -> Vec<String> {
        crate::support::events(&self.prompts())
    }

    /// The person attaches to the session.
    pub async fn attach(&self) {
        // An Escape and the letter after it are two keys.
        self.world.tmux.run(&["set-option", "-s", "escape-time", "0"]);
        self.client.attach(&self.world, &["attach", "-t", SESSION]).await;
    }

    /// The person presses keys.
    pub fn keys(&self, keys: &[&str]) {
        self.client.keys(keys);
    }

    /// The end of what the receiver said, and all that the agent did.
    pub fn said(&self) -> String {
        let log = self.world.receiver_log();
        let lines: Vec<_> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(60)..].join("\n");
        let notes: Vec<_> = self.notes().iter().map(|note| format!("{note:.200}")).collect();
        format!("{last}\n{}", notes.join("\n"))
    }

    pub fn screen(&self) -> String {
        self.world.tmux.run(&["capture-pane", "-p", "-t", SESSION_PANE])
    }

    /// What stands in the box; nothing where there is none.
    fn typed(&self) -> Option<String> {
        let screen = self.screen();
        let row = screen.lines().rfind(|line| line.starts_with('❯'))?;
        // A dialog points at its choices.
        (!screen.contains("to cancel") && !screen.contains("1. Yes"))
            .then(|| row.trim_start_matches('❯').trim().to_owned())
    }

    /// One thing that the person does now.
    pub async fn act(&self, person: Person, random: &mut Random, n: usize) {
        let pause = random.millis(150);
        let is_empty = || self.typed().is_some_and(|text| text.is_empty());
        match person {
            Person::Drafts => self.keys(&["-l", &format!("(draft {n})")]),
            Person::VimDrafts => {
                if !self.screen().contains("-- INSERT --") {
                    self.keys(&["-l", "a"]);
                }
                self.keys(&["-l", &format!("(draft {n})")]);
                tokio::time::sleep(pause).await;
                self.keys(&["Escape"]);
                // They look before they type on: an Escape and a key in one breath are
                // another key.
                let begin = Instant::now();
                while self.screen().contains("-- INSERT --")
                    && begin.elapsed() < Duration::from_secs(2)
                {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
            Person::Opens => {
                self.keys(&["C-o"]);
                tokio::time::sleep(pause).await;
                self.keys(&["Escape"]);
            }
            Person::Scrolls => {
                self.keys(&["C-b", "["]);
                tokio::time::sleep(pause).await;
                self.keys(&["q"]);
            }
            Person::Commands if is_empty() => {
                self.keys(&["-l", "/he"]);
                tokio::time::sleep(pause).await;
            }
            Person::Shell if is_empty() => {
                self.keys(&["-l", "!"]);
                tokio::time::sleep(pause).await;
            }
            Person::Away | Person::SaysNo | Person::Commands | Person::Shell => {}
        }
        self.settle(person, "", "");
    }

    /// What the person does about what they see, and about an event that waits.
    pub fn settle(&self, person: Person, state: &str, reason: &str) {
        let screen = self.screen();
        let typed = self.typed();
        match person {
            // Not at a terminal: every key there holds the next event for seconds.
            Person::SaysNo => {
                if typed.is_none() {
                    self.world.tmux.run(&["send-keys", "-t", SESSION_PANE, "-l", "n"]);
                    let begin = Instant::now();
                    while self.typed().is_none() && begin.elapsed() < Duration::from_secs(1) {}
                }
            }
            Person::Opens => {
                if typed.is_none() {
                    self.keys(&["Escape"]);
                }
            }
            Person::Commands => {
                if typed.is_some_and(|text| text.ends_with("/he")) {
                    self.keys(&["-N", "3", "BSpace"]);
                }
            }
            Person::Shell => {
                let shell = screen.lines().any(|line| line == "!" || line.starts_with("! "));
                if shell || typed.is_some_and(|text| text.ends_with('!')) {
                    self.keys(&["BSpace"]);
                }
            }
            Person::Drafts | Person::VimDrafts if reason == "human-draft" => {
                let theirs = typed.filter(|text| !text.is_empty() && !text.contains("lines]"));
                // One draft is put aside, another stands there: they send it.
                if state == "queued" && theirs.is_some() && screen.contains("stashed") {
                    self.keys(&["Enter"]);
                }
                // Ours among their letters: in a mode in which keys are letters it can
                // be taken out.
                if state == "injecting"
                    && person == Person::VimDrafts
                    && !screen.contains("-- INSERT --")
                {
                    self.keys(&["-l", "a"]);
                }
            }
            Person::Away | Person::Scrolls | Person::Drafts | Person::VimDrafts => {}
        }
    }

    pub fn state(&self, id: &str) -> (String, String, String) {
        let (_, out, _) = self.world.run(&["events", id, "--json"]);
        let value: Value = serde_json::from_str(&out).unwrap_or_default();
        let of = |key: &str| value["deliveries"][0][key].as_str().unwrap_or("").to_owned();
        (of("state"), of("reason"), out)
    }

    /// Sends what the person has left, and waits until all of it was sent.
    pub async fn send_drafts(&self, drafts: &[usize]) {
        eventually("the drafts are back", async || {
            (!self.screen().contains("stashed")).then_some(())
        })
        .await;
        self.keys(&["Enter"]);
        let all = || -> String {
            let prompts = self.prompts().into_iter();
            prompts.filter(|prompt| !prompt.contains("[the-loop event ")).collect()
        };
        eventually("the box is empty and the agent idle", async || {
            let is_empty = self.typed().is_some_and(|text| text.is_empty());
            (is_empty && !self.screen().contains("esc to interrupt")).then_some(())
        })
        .await;
        let sent = all();
        for n in drafts {
            let times = sent.matches(&format!("(draft {n})")).count();
            assert_eq!(times, 1, "draft {n} in {sent}\n{}\n{}", self.screen(), self.said());
        }
    }

    /// Nothing was answered, and nothing was run.
    pub fn check_notes(&self, person: Person) {
        for note in self.notes() {
            for never in ["ranInShell", "lostPaste", "command", "overlayKey"] {
                assert!(note.get(never).is_none(), "{note}");
            }
            assert_ne!(note["dialog"], "approved", "{note}");
            let no = note["dialogKey"].as_str().is_none_or(|key| key == "6e");
            assert!(no, "typed into a dialog: {note}");
            assert!(note.get("hook").is_none(), "a hook was felt: {note}");
            assert!(note.get("dialogKey").is_none() || person == Person::SaysNo, "{note}");
        }
    }
}
