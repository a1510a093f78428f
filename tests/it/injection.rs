//! Random injections into a fake agent that falls for everything, through the
//! whole receiver, while a person and the agent get in the way at random
//! moments. Nothing may be lost, doubled, mixed, typed into a dialog or run.
//!
//! `THE_LOOP_INJECTIONS` sets how many there are in all (200), `THE_LOOP_SEED`
//! repeats a run; the seed is printed. The same ways, blind: paste and Enter,
//! must fail in every one of them, or the test would prove nothing.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{World, eventually, payload};

/// The table of ways in which an agent or a person gets in the way.
const WAYS: usize = 11;

/// What a person does meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Person {
    Away,
    /// Types a line and rests, again and again.
    Drafts,
    /// Says no to each dialog, after a while.
    SaysNo,
    /// Opens something over the box, and closes it again.
    Opens,
    /// Scrolls, and leaves the copy mode again.
    Scrolls,
    /// Begins a shell command, and takes it back.
    Shell,
}

/// What must become of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Delivered,
    /// In this state, with this reason.
    Told(&'static str, &'static str),
}

struct Random(u64);

impl Random {
    fn new() -> Self {
        let seed = std::env::var("THE_LOOP_SEED").ok().and_then(|seed| seed.parse().ok());
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos();
        let seed = seed.unwrap_or_else(|| u64::try_from(now % (1 << 62)).unwrap());
        let _ = writeln!(std::io::stderr(), "THE_LOOP_SEED={seed}");
        Self(seed | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// How many events each way gets.
fn each() -> usize {
    let all = std::env::var("THE_LOOP_INJECTIONS").ok().and_then(|all| all.parse().ok());
    all.unwrap_or(200_usize).div_ceil(WAYS)
}

struct Stage {
    world: World,
}

impl Stage {
    fn new(script: &Value) -> Self {
        let world = World::new("defaultHarness: claude");
        let config = std::fs::read_to_string(world.config()).unwrap();
        let fake = env!("CARGO_BIN_EXE_fake-harness");
        let tools = format!("tools:\n  claude:\n    path: {fake}\n");
        let config = config.replacen("tools:\n", &tools, 1);
        std::fs::write(world.config(), config.replace("Seconds: 20", "Seconds: 5")).unwrap();
        let mut script = script.clone();
        script["prompts"] = json!(world.home.join("prompts"));
        std::fs::write(world.project.join("fake-harness.json"), script.to_string()).unwrap();
        Self { world }
    }

    /// What the agent did, one record each.
    fn notes(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.world.home.join("prompts")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn prompts(&self) -> Vec<String> {
        let notes = self.notes().into_iter();
        notes.filter_map(|note| Some(note["prompt"].as_str()?.to_owned())).collect()
    }

    fn keys(&self, keys: &[&str]) {
        let mut args = vec!["send-keys", "-t", "=loop/o+r+1:"];
        args.extend(keys);
        self.world.tmux.run(&args);
    }

    fn screen(&self) -> String {
        self.world.tmux.run(&["capture-pane", "-p", "-t", "=loop/o+r+1:"])
    }

    /// One thing that the person does now.
    async fn act(&self, person: Person, random: &mut Random, n: usize) {
        let pause = Duration::from_millis(random.below(150));
        match person {
            Person::Away => {}
            Person::Drafts => self.keys(&["-l", &format!("(draft {n})")]),
            Person::SaysNo => {
                if self.screen().contains("Do you want to proceed?") {
                    tokio::time::sleep(pause).await;
                    self.keys(&["-l", "n"]);
                    // Once: a second one would be a letter in the box.
                    eventually("the dialog is gone", async || {
                        (!self.screen().contains("Do you want to proceed?")).then_some(())
                    })
                    .await;
                }
            }
            Person::Opens => {
                if box_of(&self.screen()).is_empty() {
                    self.keys(&["-l", "/help"]);
                    self.keys(&["Enter"]);
                    tokio::time::sleep(pause).await;
                    self.keys(&["Escape"]);
                }
            }
            Person::Scrolls => {
                self.world.tmux.run(&["copy-mode", "-t", "=loop/o+r+1:"]);
                tokio::time::sleep(pause).await;
                self.keys(&["-X", "cancel"]);
            }
            Person::Shell => {
                if box_of(&self.screen()).is_empty() {
                    self.keys(&["-l", "!"]);
                    tokio::time::sleep(pause).await;
                    self.keys(&["BSpace"]);
                }
            }
        }
    }

    /// Takes the letters behind a text of ours away, and types them again.
    async fn take_back(&self, id: &str) {
        let screen = self.screen();
        let shown = screen.lines().rfind(|line| line.starts_with('❯')).unwrap_or_default();
        let Some((_, letters)) = shown.split_once("lines](draft") else { return };
        let letters = format!("(draft{}", letters.trim_end());
        let keys = vec!["BSpace"; letters.chars().count()];
        self.keys(&keys);
        eventually("the event is gone", async || {
            let (state, reason, _) = self.state(id);
            (state != "injecting" || reason == "submitted").then_some(())
        })
        .await;
        self.keys(&["-l", &letters]);
    }

    fn state(&self, id: &str) -> (String, String, String) {
        let (_, out, _) = self.world.run(&["events", id, "--json"]);
        let value: Value = serde_json::from_str(&out).unwrap_or_default();
        let of = |key: &str| value["deliveries"][0][key].as_str().unwrap_or("").to_owned();
        (of("state"), of("reason"), out)
    }

    /// Nothing was answered, and nothing was run.
    fn check_notes(&self, person: Person) {
        for note in self.notes() {
            for never in ["ranInShell", "lostPaste"] {
                assert!(note.get(never).is_none(), "{note}");
            }
            assert_ne!(note["dialog"], "approved", "{note}");
            let no = note["dialogKey"].as_str().is_none_or(|key| key == "6e");
            assert!(no, "typed into a dialog: {note}");
            let command = note["command"].as_str();
            assert!(command.is_none_or(|text| text == "/help"), "{note}");
            assert!(command.is_none() || person == Person::Opens, "{note}");
            assert!(note.get("hook").is_none(), "a hook was felt: {note}");
        }
    }
}

/// What stands in the box of a screen.
fn box_of(screen: &str) -> String {
    let row = screen.lines().rfind(|line| line.starts_with('❯')).unwrap_or("❯ ?");
    row.trim_start_matches('❯').trim().to_owned()
}

/// Events at random moments, and a person in between.
async fn injections(script: Value, person: Person, end: End) {
    let mut random = Random::new();
    let mut stage = Stage::new(&script);
    stage.world.start().await;
    let labeled = payload::labeled("o/r", 1, "alice");
    assert_eq!(stage.world.post("e-0", "issues", &labeled).await, 202);
    let events = if end == End::Delivered { each() } else { each().min(3) };
    let mut sent = BTreeMap::new();
    for n in 1..events {
        let pause = Duration::from_millis(random.below(400));
        tokio::time::sleep(pause).await;
        let text = match random.below(4) {
            0 => format!("word-{n}."),
            1 => format!(
                "word-{n}.\n{}",
                "a line\n".repeat(usize::try_from(random.below(60)).unwrap())
            ),
            2 => format!("!touch word-{n}. \u{1b}[201~\u{15}/exit\r"),
            _ => format!("/exit word-{n}. ÄÖ 漢字 👨\u{200d}👩\u{200d}👧 \\"),
        };
        let comment = payload::comment("o/r", 1, "alice", &text);
        let id = format!("e-{n}");
        assert_eq!(stage.world.post(&id, "issue_comment", &comment).await, 202);
        sent.insert(id, format!("word-{n}."));
        tokio::time::sleep(Duration::from_millis(random.below(60))).await;
        stage.act(person, &mut random, n).await;
    }
    let ids: Vec<_> = std::iter::once("e-0".to_owned()).chain(sent.keys().cloned()).collect();
    let begin = Instant::now();
    for id in &ids {
        loop {
            let (state, reason, out) = stage.state(id);
            let is_end = match end {
                End::Delivered => state == "delivered",
                // Those behind one that waits wait for it.
                End::Told(s, r) => {
                    (state == s && reason == r) || (s == "queued" && reason == "waiting")
                }
            };
            if is_end {
                break;
            }
            let patience =
                Duration::from_secs(40) + Duration::from_secs(4) * u32::try_from(events).unwrap();
            assert!(begin.elapsed() < patience, "{id}: {out}\n{}", stage.screen());
            match person {
                Person::SaysNo => stage.act(person, &mut random, 0).await,
                // Letters behind our text are the person's to take away: they do, and
                // type them again when the event is gone.
                Person::Drafts if reason == "human-draft" => stage.take_back(id).await,
                _ => {}
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }
    stage.check_notes(person);
    let prompts = stage.prompts();
    if end != End::Delivered {
        return;
    }
    if person == Person::Drafts {
        eventually("the drafts are back", async || {
            (!stage.screen().contains("stashed")).then_some(())
        })
        .await;
        stage.keys(&["Enter"]);
        eventually("the drafts were sent", async || {
            let drafts: String = theirs(&stage.prompts()).concat();
            (1..events).all(|n| drafts.matches(&format!("(draft {n})")).count() == 1).then_some(())
        })
        .await;
    }
    for word in sent.values() {
        let with: Vec<_> = prompts.iter().filter(|prompt| prompt.contains(word)).collect();
        assert_eq!(with.len(), 1, "{word} arrived {} times", with.len());
    }
    for prompt in prompts.iter().filter(|prompt| prompt.contains("[the-loop event ")) {
        // Events that waited together are told together, the last one at the end.
        let marker = &prompt.rsplit("[the-loop event ").next().unwrap()[..32];
        let whole = prompt.starts_with("[the-loop event ")
            && prompt.trim_end().ends_with(&format!("[end of event {marker}]"));
        assert!(whole && !prompt.contains("(draft"), "mixed: {prompt}");
    }
}

/// What the person sent.
fn theirs(prompts: &[String]) -> Vec<String> {
    prompts.iter().filter(|prompt| !prompt.contains("[the-loop event ")).cloned().collect()
}

/// The same without looking: a paste and Enter, as often as there are events.
/// True when something went wrong.
async fn blind(script: Value, person: Person) -> bool {
    let mut random = Random::new();
    let stage = Stage::new(&script);
    let fake = env!("CARGO_BIN_EXE_fake-harness");
    let project = stage.world.project.to_str().unwrap().to_owned();
    let id = "0d4f3c8e-6d6c-4d6e-9d9a-1f2e3d4c5b6a";
    stage.world.tmux.run(&[
        "new-session",
        "-d",
        "-s",
        "loop/o+r+1",
        "-x",
        "160",
        "-y",
        "48",
        "-c",
        &project,
        fake,
        "--session-id",
        id,
    ]);
    let count = 25;
    for n in 0..count {
        let file = stage.world.home.join("text");
        let text = format!("[the-loop event {n:032}] word-{n}.\nb\nc\nd\n[end of event {n:032}]");
        std::fs::write(&file, text).unwrap();
        let delay = Duration::from_millis(random.below(80));
        let paste = async {
            tokio::time::sleep(delay).await;
            stage.world.tmux.run(&[
                "load-buffer",
                "-b",
                "blind",
                file.to_str().unwrap(),
                ";",
                "paste-buffer",
                "-p",
                "-d",
                "-b",
                "blind",
                "-t",
                "=loop/o+r+1:",
                ";",
                "send-keys",
                "-t",
                "=loop/o+r+1:",
                "Enter",
            ]);
        };
        tokio::join!(stage.act(person, &mut random, n), paste);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let prompts = stage.prompts();
    let good = (0..count).all(|n| {
        let marker = format!("{n:032}");
        let exact =
            format!("[the-loop event {marker}] word-{n}.\nb\nc\nd\n[end of event {marker}]");
        prompts.iter().filter(|prompt| prompt.contains(&marker)).eq([&exact])
    });
    !good
        || std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| stage.check_notes(person)))
            .is_err()
}

/// A way, its test, and the test that it is one.
macro_rules! ways {
    ($($(#[$meta:meta])* $name:ident, $blind:ident: $script:tt, $person:ident, $end:expr;)+) => {
        $(
            $(#[$meta])*
            #[tokio::test]
            async fn $name() {
                injections(json!($script), Person::$person, $end).await;
            }

            #[tokio::test]
            async fn $blind() {
                assert!(blind(json!($script), Person::$person).await, "nothing went wrong");
            }
        )+
    };
}

ways! {
    a_submit_key_that_is_swallowed, blind_swallowed:
        { "swallowEnterMs": 400 }, Away, End::Delivered;
    a_submit_key_that_is_swallowed_long, blind_swallowed_long:
        { "swallowEnterMs": 900 }, Away, End::Delivered;
    a_submit_key_that_is_swallowed_for_ever, blind_swallowed_for_ever:
        { "swallowEnterMs": 10_000_000 }, Away, End::Told("failed", "submit-ignored");
    a_dialog_that_opens_in_the_turn, blind_dialog:
        { "turnMs": 100, "dialogAfterMs": 30 }, SaysNo, End::Delivered;
    #[ignore = "a draft typed while another is put aside is not always found again"]
    a_person_who_drafts, blind_drafts: { "turnMs": 100 }, Drafts, End::Delivered;
    #[ignore = "in two of five runs events still waited at its end; not looked into yet"]
    a_menu_over_the_box, blind_menu: {}, Opens, End::Delivered;
    a_person_who_scrolls, blind_scrolling: {}, Scrolls, End::Delivered;
    a_shell_command_begun, blind_shell: {}, Shell, End::Delivered;
    a_slow_start, blind_slow_start: { "mode": "slow-start" }, Away, End::Delivered;
    a_first_run_dialog, blind_first_run:
        { "mode": "never-ready" }, Away, End::Told("queued", "agent-asks");
    an_agent_that_shows_nothing, blind_unseen:
        { "mode": "no-echo", "startMs": 700 }, Away, End::Told("failed", "never-seen");
}
