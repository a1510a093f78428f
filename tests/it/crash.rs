//! SIGKILL at the worst moments: a receiver that is killed between what is on
//! disk and what has happened neither loses a delivery nor tells it twice.
//! The evidence is the agent's own record of what it took.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use the_loop::base::checkpoint::Checkpoint;

use crate::process;
use crate::support::{World, events, eventually, payload, post, try_post};

/// Who is started, and how.
#[derive(Debug, Clone, Copy)]
struct Cast {
    runner: &'static str,
    is_demo: bool,
}

const DEMO_IN_TMUX: Cast = Cast { runner: "tmux", is_demo: true };
const DEMO_HEADLESS: Cast = Cast { runner: "process", is_demo: true };
const FAKE_IN_TMUX: Cast = Cast { runner: "tmux", is_demo: false };
const FAKE_HEADLESS: Cast = Cast { runner: "process", is_demo: false };

impl Cast {
    fn world(self) -> World {
        let world = World::new("");
        // More than an hour's worth comes in when there are many kills.
        if self.is_demo {
            world.configure_runner(self.runner, "defaultHarness: demo\nrateLimit: 0", "");
        } else {
            process::configure(&world, self.runner, "defaultHarness: claude\nrateLimit: 0");
            process::script(&world, serde_json::json!({ "turnMs": 300 }));
        }
        world
    }

    /// What the agent of an item says it took, in order.
    fn taken(self, world: &World, item: u64) -> Vec<String> {
        if self.is_demo {
            return world.told(&format!("o+r+{item}"));
        }
        let of = |event: &String| {
            event.lines().next().is_some_and(|line| line.ends_with(&format!(" on o/r#{item}")))
        };
        events(&process::prompts(world)).into_iter().filter(of).collect()
    }
}

fn count(texts: &[String], word: &str) -> usize {
    texts.iter().filter(|text| text.contains(word)).count()
}

/// Starts a receiver that freezes at `checkpoint`.
async fn start_frozen_at(world: &mut World, checkpoint: Checkpoint) {
    let mark = world.home.join("frozen");
    world.start_with(&freezing(&mark, checkpoint)).await;
}

/// The variables with which a receiver freezes, and says so in a file.
fn freezing(mark: &Path, checkpoint: Checkpoint) -> [(&'static str, &OsStr); 2] {
    let _ = std::fs::remove_file(mark);
    [
        ("THE_LOOP_FREEZE_AT", OsStr::new(checkpoint.as_str())),
        ("THE_LOOP_FREEZE_MARK", mark.as_os_str()),
    ]
}

/// Posts in the background: a frozen receiver does not answer.
fn post_to_one_who_may_freeze(world: &World, id: &str, event: &str, body: &serde_json::Value) {
    let (url, id, event) = (world.url().to_owned(), id.to_owned(), event.to_owned());
    let body = serde_json::to_vec(body).unwrap();
    tokio_util::task::TaskTracker::new()
        .spawn(async move { try_post(&url, &id, &event, body).await });
}

async fn kill_when_frozen(world: &mut World, checkpoint: Checkpoint) {
    let mark = world.home.join("frozen");
    eventually(&format!("it froze at {}", checkpoint.as_str()), async || {
        (std::fs::read_to_string(&mark).ok()? == checkpoint.as_str()).then_some(())
    })
    .await;
    world.end(Signal::KILL);
}

/// A comment to a live session, and a label that starts one, each with a
/// receiver that is killed at `checkpoint`: both arrive exactly once.
async fn survives(cast: Cast, checkpoint: Checkpoint) {
    let mut world = cast.world();
    // The first event of a session.
    start_frozen_at(&mut world, checkpoint).await;
    let labeled = payload::labeled("o/r", 1, "alice");
    post_to_one_who_may_freeze(&world, "first", "issues", &labeled);
    kill_when_frozen(&mut world, checkpoint).await;
    world.start().await;
    world.reaches("first", "delivered").await;
    assert_eq!(count(&cast.taken(&world, 1), "Please do it."), 1, "{checkpoint:?}");
    world.end(Signal::KILL);
    if checkpoint == Checkpoint::Spawn && cast.runner == "tmux" {
        return;
    }
    // A later one, with another behind it.
    start_frozen_at(&mut world, checkpoint).await;
    for (id, text) in [("second", "word-two."), ("third", "word-three.")] {
        let comment = payload::comment("o/r", 1, "alice", text);
        post_to_one_who_may_freeze(&world, id, "issue_comment", &comment);
    }
    kill_when_frozen(&mut world, checkpoint).await;
    world.start().await;
    // What was not answered is not ours yet: GitHub would send it again.
    for (id, text) in [("second", "word-two."), ("third", "word-three.")] {
        let comment = payload::comment("o/r", 1, "alice", text);
        assert!(matches!(world.post(id, "issue_comment", &comment).await, 200 | 202));
        world.reaches(id, "delivered").await;
    }
    let taken = cast.taken(&world, 1);
    assert_eq!(taken.len(), 3, "{checkpoint:?}: {taken:#?}");
    for word in ["word-two.", "word-three."] {
        assert_eq!(count(&taken, word), 1, "{checkpoint:?}: {taken:#?}");
    }
}

/// Three comments that waited together, with receivers that are killed one after
/// the other: the first at `checkpoint`, the next ones while they take the group
/// up. Each is told once, whatever the number of restarts.
async fn stays_a_group(cast: Cast, checkpoint: Checkpoint) {
    let mut world = cast.world();
    pause_with_three(&mut world, checkpoint).await;
    for _ in 0..3 {
        // It may have nothing left to do but that.
        let mark = world.home.join("frozen");
        world.start_unanswered(&freezing(&mark, Checkpoint::Acknowledge));
        kill_when_frozen(&mut world, Checkpoint::Acknowledge).await;
    }
    world.start().await;
    are_told_once(cast, &world, checkpoint).await;
}

const WORDS: [&str; 3] = ["word-two.", "word-three.", "word-four."];

/// Lets three comments wait together, then go; kills their receiver at `checkpoint`.
async fn pause_with_three(world: &mut World, checkpoint: Checkpoint) {
    world.start().await;
    assert_eq!(world.post("first", "issues", &payload::labeled("o/r", 1, "alice")).await, 202);
    world.reaches("first", "delivered").await;
    let (code, _, err) = world.run(&["sessions", "pause", "o/r#1"]);
    assert_eq!(code, 0, "{err}");
    world.end(Signal::KILL);
    start_frozen_at(world, checkpoint).await;
    for word in WORDS {
        let comment = payload::comment("o/r", 1, "alice", word);
        let id = word.trim_end_matches('.');
        assert_eq!(world.post(id, "issue_comment", &comment).await, 202);
        world.reaches(id, "queued").await;
    }
    // The answer may not come: it freezes.
    let mut resume = world.command(&["sessions", "resume", "o/r#1"]);
    let resuming = std::thread::spawn(move || resume.output());
    kill_when_frozen(world, checkpoint).await;
    resuming.join().unwrap().unwrap();
    // What comes then is not told with what was begun.
    let (code, _, err) = world.run(&["sessions", "send", "o/r#1", "word-five."]);
    assert_eq!(code, 0, "{err}");
}

async fn are_told_once(cast: Cast, world: &World, checkpoint: Checkpoint) {
    for word in WORDS {
        world.reaches(word.trim_end_matches('.'), "delivered").await;
    }
    let taken = cast.taken(world, 1);
    let order: Vec<_> =
        WORDS.iter().map(|word| taken.iter().position(|text| text.contains(word))).collect();
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{checkpoint:?}: {taken:#?}");
    for word in WORDS {
        assert_eq!(count(&taken, word), 1, "{checkpoint:?}: {taken:#?}");
    }
}

mod groups {
    use super::*;

    const IN_TMUX: &[Checkpoint] =
        &[Checkpoint::BeforePaste, Checkpoint::Paste, Checkpoint::Submit, Checkpoint::Acknowledge];
    const HEADLESS: &[Checkpoint] =
        &[Checkpoint::BeforePaste, Checkpoint::Paste, Checkpoint::Spawn, Checkpoint::Acknowledge];

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn that_many_receivers_take_up_in_tmux_are_told_once() {
        for &checkpoint in IN_TMUX {
            stays_a_group(FAKE_IN_TMUX, checkpoint).await;
        }
        stays_a_group(DEMO_IN_TMUX, Checkpoint::Submit).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn that_many_receivers_take_up_headless_are_told_once() {
        for &checkpoint in HEADLESS {
            stays_a_group(FAKE_HEADLESS, checkpoint).await;
        }
        stays_a_group(DEMO_HEADLESS, Checkpoint::Spawn).await;
    }
}

/// The moments that a headless turn crosses: it has no submit key.
const HEADLESS: &[Checkpoint] = &[
    Checkpoint::Commit,
    Checkpoint::Route,
    Checkpoint::HandOver,
    Checkpoint::BeforePaste,
    Checkpoint::Paste,
    Checkpoint::Spawn,
    Checkpoint::Submit,
    Checkpoint::Acknowledge,
];

macro_rules! survives {
    ($($name:ident: $checkpoint:ident,)+) => {
        mod in_tmux {
            use super::*;
            $(
                #[tokio::test]
                async fn $name() {
                    survives(DEMO_IN_TMUX, Checkpoint::$checkpoint).await;
                    survives(FAKE_IN_TMUX, Checkpoint::$checkpoint).await;
                }
            )+
        }

        mod headless {
            use super::*;
            $(
                #[tokio::test]
                async fn $name() {
                    if HEADLESS.contains(&Checkpoint::$checkpoint) {
                        survives(DEMO_HEADLESS, Checkpoint::$checkpoint).await;
                        survives(FAKE_HEADLESS, Checkpoint::$checkpoint).await;
                    }
                }
            )+
        }

        #[test]
        fn every_checkpoint_is_tried() {
            assert_eq!(Checkpoint::ALL, [$(Checkpoint::$checkpoint),+]);
        }
    };
}

survives! {
    a_crash_after_the_commit_loses_and_repeats_nothing: Commit,
    a_crash_after_routing_loses_and_repeats_nothing: Route,
    a_crash_at_the_hand_over_loses_and_repeats_nothing: HandOver,
    a_crash_after_the_spawn_loses_and_repeats_nothing: Spawn,
    a_crash_before_the_paste_loses_and_repeats_nothing: BeforePaste,
    a_crash_after_the_paste_loses_and_repeats_nothing: Paste,
    a_crash_before_the_submit_key_loses_and_repeats_nothing: BeforeSubmit,
    a_crash_after_the_submit_key_loses_and_repeats_nothing: Submit,
    a_crash_before_the_acknowledgement_is_put_down_loses_and_repeats_nothing: Acknowledge,
}

/// A generator whose seed is printed, so that a run can be had again.
struct Dice(u64);

impl Dice {
    #[expect(clippy::print_stderr, reason = "shown when the test fails")]
    fn new() -> Self {
        let seed = std::env::var("THE_LOOP_TEST_SEED")
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or_else(|| u64::from(std::process::id()) ^ 0x9e37_79b9);
        eprintln!("THE_LOOP_TEST_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        // Knuth's constants; the high bits are the good ones.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// A delivery that was posted.
struct Sent {
    item: u64,
    id: String,
    word: String,
    /// Whether it was answered with 2xx before the kill.
    answered: bool,
}

/// Posts until it is dropped.
async fn load(url: &str, round: u64, dice: &mut Dice, sent: &mut Vec<Sent>) {
    for n in 0..9 {
        let (item, event, word) = match (round, n) {
            (0, 0..3) => (n + 1, "issues", "Please do it.".to_owned()),
            _ => (1 + dice.below(3), "issue_comment", format!("word-{round}-{n}.")),
        };
        let body = match event {
            "issues" => payload::labeled("o/r", item, "alice"),
            _ => payload::comment("o/r", item, "alice", &word),
        };
        let body = serde_json::to_vec(&body).unwrap();
        sent.push(Sent { item, id: format!("d-{round}-{n}"), word, answered: false });
        let last = sent.last_mut().unwrap();
        let status = post(url, &last.id, event, body).await;
        assert_eq!(status, 202);
        last.answered = true;
        // Some come in bursts, so that there are groups.
        if n % 3 == 0 {
            tokio::time::sleep(Duration::from_millis(dice.below(400))).await;
        }
    }
    std::future::pending::<()>().await;
}

/// `THE_LOOP_TEST_KILLS` says how often: a few times here, fifty by
/// `scripts/kill-test`.
async fn kills_at_random_moments(cast: Cast) {
    let kills = std::env::var("THE_LOOP_TEST_KILLS").ok().and_then(|text| text.parse().ok());
    let mut dice = Dice::new();
    let mut world = cast.world();
    let mut sent = Vec::new();
    for round in 0..kills.unwrap_or(2_u64) {
        world.start().await;
        let url = world.url().to_owned();
        // The first round makes the sessions.
        let least = if round == 0 { 600 } else { 20 };
        let until = Duration::from_millis(least + dice.below(1500));
        let _ = tokio::time::timeout(until, load(&url, round, &mut dice, &mut sent)).await;
        world.end(Signal::KILL);
        // And while the next ones take up what is left.
        for _ in 0..dice.below(3) {
            world.start_unanswered(&[]);
            tokio::time::sleep(Duration::from_millis(dice.below(600))).await;
            world.end(Signal::KILL);
        }
    }
    world.start().await;
    for Sent { id, .. } in sent.iter().filter(|sent| sent.answered) {
        world.reaches(id, "delivered").await;
    }
    for Sent { item, id, word, answered } in &sent {
        let taken = cast.taken(&world, *item);
        let times = count(&taken, word);
        assert!(times <= 1 && (!answered || times == 1), "{id}: {times} times in {taken:#?}");
    }
    let order = |item| {
        let taken = cast.taken(&world, item);
        let mine = sent.iter().filter(move |sent| sent.item == item);
        mine.filter_map(|sent| taken.iter().position(|text| text.contains(&sent.word)))
            .collect::<Vec<_>>()
    };
    for item in 1..=3 {
        assert!(order(item).is_sorted(), "the order of {item}");
    }
}

/// The module's name is what `scripts/kill-test` asks for.
mod kills {
    use super::*;

    #[tokio::test]
    async fn of_the_demo_in_tmux_lose_and_repeat_nothing() {
        kills_at_random_moments(DEMO_IN_TMUX).await;
    }

    #[tokio::test]
    async fn of_the_demo_headless_lose_and_repeat_nothing() {
        kills_at_random_moments(DEMO_HEADLESS).await;
    }

    #[tokio::test]
    async fn of_a_fake_claude_in_tmux_lose_and_repeat_nothing() {
        kills_at_random_moments(FAKE_IN_TMUX).await;
    }

    #[tokio::test]
    async fn of_a_fake_claude_headless_lose_and_repeat_nothing() {
        kills_at_random_moments(FAKE_HEADLESS).await;
    }
}
