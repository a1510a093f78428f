//! Random injections into a fake agent that falls for everything, through the
//! whole receiver, while a person and the agent get in the way at random
//! moments. Nothing may be lost, doubled, mixed, typed into a dialog or run.
//!
//! `THE_LOOP_INJECTIONS` sets how many there are in all (200), `THE_LOOP_SEED`
//! repeats a run; the seed is printed. The same ways, blind: paste and Enter,
//! must fail in every one of them, or the test would prove nothing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{eventually, payload};

mod faults;
mod people;
mod sizes;
pub mod stage;

use stage::{Person, Random, Stage};

/// The table of ways in which an agent or a person gets in the way.
const WAYS: usize = 28;

/// What must become of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Delivered,
    /// In this state, with this reason.
    Told(&'static str, &'static str),
    /// The first is delivered, the next told so.
    ThenTold(&'static str, &'static str),
}

/// How many events each way gets.
fn each() -> usize {
    let all = std::env::var("THE_LOOP_INJECTIONS").ok().and_then(|all| all.parse().ok());
    all.unwrap_or(200_usize).div_ceil(WAYS)
}

/// How long a person rests at most, until all that waited for them is told.
const RESTS_FOR: Duration = Duration::from_secs(90);

/// A recorded screen.
fn screen(name: &str) -> String {
    format!("{}/tests/fixtures/screens/claude-{name}.txt", env!("CARGO_MANIFEST_DIR"))
}

/// Events at random moments, and a person in between.
async fn injections(script: Value, person: Person, end: End) {
    let mut random = Random::new();
    let mut stage = Stage::new(&script);
    stage.start().await;
    let labeled = payload::labeled("o/r", 1, "alice");
    assert_eq!(stage.world.post("e-0", "issues", &labeled).await, 202);
    if !matches!(person, Person::Away | Person::SaysNo) {
        eventually("the session is there", async || {
            (!stage.world.sessions().is_empty()).then_some(())
        })
        .await;
        stage.attach().await;
    }
    let events = if end == End::Delivered { each() } else { each().min(3) };
    if matches!(end, End::ThenTold(..)) {
        // Else those behind it may be told together with it.
        eventually("the start is told", async || {
            (stage.state("e-0").0 == "delivered").then_some(())
        })
        .await;
    }
    let mut sent = BTreeMap::new();
    let mut acted = Vec::new();
    for n in 1..events {
        tokio::time::sleep(random.millis(400)).await;
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
        sent.insert(id.clone(), format!("word-{n}."));
        tokio::time::sleep(random.millis(300)).await;
        // Each key of a person holds everything back for three seconds.
        if random.below(2) == 0 {
            stage.act(person, &mut random, n).await;
            acted.push(n);
            // What grows to a second row behind ours waits for the person, and is
            // told as that (docs/injection.md): this one rests before.
            if matches!(person, Person::Drafts | Person::VimDrafts) && acted.len() % 10 == 0 {
                let begin = Instant::now();
                while stage.state(&id).0 != "delivered" {
                    if begin.elapsed() >= RESTS_FOR {
                        let (_, waiting, _) = stage.world.run(&["events"]);
                        panic!("{id}: {waiting}\n{}\n{}", stage.screen(), stage.said());
                    }
                    // What holds the queue is told of the first of it.
                    let mut states = sent.keys().map(|id| stage.state(id));
                    let held = states.find(|(_, why, _)| why == "human-draft");
                    let (state, reason, _) = held.unwrap_or_default();
                    stage.settle(person, &state, &reason);
                    tokio::time::sleep(random.millis(60)).await;
                }
            }
        }
    }
    let begin = Instant::now();
    let patience =
        Duration::from_secs(40) + Duration::from_secs(5) * u32::try_from(events).unwrap();
    for id in std::iter::once("e-0").chain(sent.keys().map(String::as_str)) {
        loop {
            let (state, reason, out) = stage.state(id);
            let told = |s: &str, r: &str| {
                // Those behind one that waits wait for it.
                (state == s && reason == r) || (s != "failed" && reason == "waiting")
            };
            let is_end = match end {
                End::ThenTold(s, r) if id != "e-0" => told(s, r),
                End::Delivered | End::ThenTold(..) => state == "delivered",
                End::Told(s, r) => told(s, r),
            };
            if is_end {
                break;
            }
            let (screen, said) = (stage.screen(), stage.said());
            assert!(begin.elapsed() < patience, "{id}: {out}\n{screen}\n{said}");
            stage.settle(person, &state, &reason);
            tokio::time::sleep(random.millis(60)).await;
        }
    }
    stage.check_notes(person);
    if end != End::Delivered {
        assert!(!stage.screen().contains("[the-loop event "), "{}", stage.screen());
        return;
    }
    if matches!(person, Person::Drafts | Person::VimDrafts) {
        stage.send_drafts(&acted).await;
    }
    let prompts = stage.prompts();
    for word in sent.values() {
        let with: Vec<_> = prompts.iter().filter(|prompt| prompt.contains(word)).collect();
        assert_eq!(with.len(), 1, "{word} arrived {} times", with.len());
    }
    for prompt in prompts.iter().filter(|prompt| prompt.contains("[the-loop event ")) {
        // Events that waited together are told together, the last one at the end.
        let marker = &prompt.rsplit("[the-loop event ").next().unwrap()[..32];
        let whole = prompt.starts_with("[the-loop event ")
            && prompt.trim_end().ends_with(&format!("[end of event {marker}]"));
        assert!(whole && !prompt.contains("(draft"), "mixed: {prompt}\n{}", stage.said());
    }
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
    if !matches!(person, Person::Away | Person::SaysNo) {
        stage.attach().await;
    }
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
        { "swallowEnterMs": 150 }, Away, End::Delivered;
    a_submit_key_that_is_swallowed_longer, blind_swallowed_longer:
        { "swallowEnterMs": 400 }, Away, End::Delivered;
    a_submit_key_that_is_swallowed_long, blind_swallowed_long:
        { "swallowEnterMs": 900 }, Away, End::Delivered;
    a_submit_key_that_is_swallowed_for_ever, blind_swallowed_for_ever:
        { "swallowEnterMs": 10_000_000 }, Away, End::Told("failed", "submit-ignored");
    a_submit_key_that_must_come_alone, blind_enter_alone:
        { "enterAlone": true }, Away, End::Delivered;
    a_submit_key_that_must_come_by_its_name, blind_named_key:
        { "mode": "named-key" }, Away, End::Told("failed", "submit-ignored");
    a_dialog_that_opens_in_the_turn, blind_dialog:
        { "turnMs": 100, "dialogAfterMs": 30 }, SaysNo, End::Delivered;
    an_older_agents_dialog, blind_older_dialog:
        { "turnMs": 100, "dialogAfterMs": 30, "screen": screen("2.1.197/dialog-permission-bash") },
        SaysNo, End::Delivered;
    a_question_that_opens_in_the_turn, blind_question:
        { "turnMs": 100, "dialogAfterMs": 30, "screen": screen("2.1.332/dialog-question") },
        SaysNo, End::Delivered;
    a_dialog_that_opens_around_the_submit, blind_dialog_around_the_submit:
        { "toolsAfterPasteMs": around_the_submit() }, SaysNo, End::Delivered;
    a_busy_agent, blind_busy:
        { "turnMs": 700, "exitInTurnMs": 690 }, Away, End::Delivered;
    an_agent_that_dies_in_its_turn, blind_dead:
        { "mode": "exit-in-turn" }, Away, End::Delivered;
    a_person_who_drafts, blind_drafts: { "turnMs": 100 }, Drafts, End::Delivered;
    a_person_who_drafts_in_vi, blind_vim: { "vim": true }, VimDrafts, End::Delivered;
    a_draft_at_the_start, blind_draft_at_the_start:
        { "draft": "(draft 0)" }, Drafts, End::Delivered;
    a_slash_command_begun, blind_command: {}, Commands, End::Delivered;
    a_shell_command_begun, blind_shell: {}, Shell, End::Delivered;
    a_viewer_over_the_box, blind_viewer: {}, Opens, End::Delivered;
    a_menu_over_the_box, blind_menu:
        { "overlays": [
            screen("2.1.332/overlay-transcript"), screen("2.1.332/overlay-search"),
            screen("2.1.332/overlay-rewind"), screen("2.1.332/overlay-model"),
            screen("2.1.332/overlay-help"),
        ] }, Opens, End::Delivered;
    an_older_agents_menu_over_the_box, blind_older_menu:
        { "overlays": [
            screen("2.1.197/overlay-transcript"), screen("2.1.197/overlay-search"),
            screen("2.1.197/overlay-rewind"), screen("2.1.197/overlay-model"),
            screen("2.1.197/overlay-help"),
        ] }, Opens, End::Delivered;
    a_person_who_scrolls, blind_scrolling: {}, Scrolls, End::Delivered;
    a_slow_start, blind_slow_start: { "mode": "slow-start" }, Away, End::Delivered;
    a_first_run_dialog, blind_first_run:
        { "mode": "never-ready" }, Away, End::Told("queued", "agent-asks");
    a_first_run_that_asks_for_trust, blind_trust:
        { "mode": "never-ready", "screen": screen("2.1.332/dialog-trust") },
        Away, End::Told("queued", "agent-asks");
    a_first_run_that_asks_about_a_key, blind_api_key:
        { "mode": "never-ready", "screen": screen("2.1.197/dialog-api-key") },
        Away, End::Told("queued", "agent-asks");
    an_agent_that_shows_nothing, blind_unseen:
        { "mode": "no-echo", "startMs": 700 }, Away, End::Told("failed", "never-seen");
    an_agent_that_reads_whole_lines, blind_canonical:
        { "mode": "canonical" }, Away, End::Told("queued", "not-reading");
    an_agent_that_leaves_a_shell, blind_left_shell:
        { "shellAfterPaste": 2 }, Away, End::ThenTold("injecting", "unknown-screen");
}

/// From at once to long after the submit key; the longer the list, the longer.
fn around_the_submit() -> Vec<u64> {
    (0..500).map(|n| n * 37 % 300).collect()
}
