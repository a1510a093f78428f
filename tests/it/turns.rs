//! No headless turn is run again without proof that its prompt was not taken,
//! whenever its receiver is killed, however its agent ends, whatever it tells.

use std::ffi::OsStr;

use rustix::process::Signal;
use serde_json::{Value, json};
use the_loop::base::checkpoint::Checkpoint;
use the_loop::base::clock::Clock;
use the_loop::state::inbox::{DeliveryKind, Inbox, NewDelivery};

use crate::attach::stands;
use crate::process::{comment, ends, had_a_turn, in_a_turn, label, prompts, script, world};
use crate::support::{World, eventually, payload};

/// When the receiver is killed, if it is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kill {
    Never,
    /// The agents end before the next receiver starts.
    TheyEndAlone,
    /// The next receiver finds them alive.
    TheyLiveOn,
    /// The first agent was started a moment ago.
    AtTheSpawn,
    /// The claim of who became the agent is unreadable afterwards.
    ClaimIsLost,
}

/// How an agent ends, and what it leaves: its script, and whether that has a
/// result.
const ENDINGS: [(&str, i32, bool); 6] = [
    ("idle", 0, true),
    ("exit-after", 0, false),
    ("exit-after", 1, false),
    ("killed-after", 0, false),
    ("cut-json", 0, false),
    ("failed-turn", 0, false),
];

/// What an agent tells of the prompt that it took: hook, transcript.
const TELLS: [(bool, bool); 4] = [(true, true), (true, false), (false, true), (false, false)];

struct Case {
    item: u64,
    has_result: bool,
    has_proof: bool,
    what: String,
}

/// One session for each ending and each proof, in a directory of its own.
fn cases(world: &World) -> Vec<Case> {
    let each = ENDINGS.iter().flat_map(|ending| TELLS.iter().map(move |tells| (ending, tells)));
    let mut cases = Vec::new();
    for (item, ((mode, code, has_result), (hook, transcript))) in (1..).zip(each) {
        let dir = world.home.join(format!("work-{item}"));
        std::fs::create_dir(&dir).unwrap();
        let script = json!({
            "mode": mode, "exitCode": code, "noHook": !hook, "noTranscript": !transcript,
            "prompts": world.home.join("prompts"), "endsAt": world.home.join("end"),
        });
        std::fs::write(dir.join("fake-harness.json"), script.to_string()).unwrap();
        let name = format!("o/r#{item}");
        let args = ["sessions", "register", &name, "--cwd", dir.to_str().unwrap()];
        let (code, _, err) = world.run(&args);
        assert_eq!(code, 0, "{err}");
        let what = format!("{mode} {code}, hook {hook}, transcript {transcript}");
        let has_proof = *hook || *transcript;
        cases.push(Case { item, has_result: *has_result, has_proof, what });
    }
    cases
}

fn claims(world: &World) -> Vec<std::path::PathBuf> {
    let turns = std::fs::read_dir(world.state_dir().join("turns")).into_iter().flatten();
    let claim = |slug: std::io::Result<std::fs::DirEntry>| {
        slug.unwrap().path().join("0000000001/claim.json")
    };
    turns.map(claim).filter(|path| path.exists()).collect()
}

/// Lets every agent end that was told to wait for it, and sees that it has.
pub async fn they_end(world: &World) {
    std::fs::write(world.home.join("end"), "").unwrap();
    for claim in claims(world) {
        let mark: Value = serde_json::from_slice(&std::fs::read(&claim).unwrap()).unwrap();
        eventually("the agent ends", async || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", mark["pid"]));
            stat.map_or(true, |stat| stat.contains(") Z ")).then_some(())
        })
        .await;
    }
}

async fn no_turn_is_run_twice(kill: Kill) {
    let mut world = world("maxConcurrentDispatches: 24");
    let cases = cases(&world);
    let mark = world.home.join("frozen");
    if kill == Kill::AtTheSpawn {
        let freeze = OsStr::new(Checkpoint::Spawn.as_str());
        world
            .start_with(&[
                ("THE_LOOP_FREEZE_AT", freeze),
                ("THE_LOOP_FREEZE_MARK", mark.as_os_str()),
            ])
            .await;
    } else {
        world.start().await;
    }
    for Case { item, .. } in &cases {
        let comment = payload::comment("o/r", *item, "alice", "go on.");
        let id = format!("c-{item}");
        let sent = world.post(&id, "issue_comment", &comment);
        // One that froze does not answer.
        let sent = tokio::time::timeout(std::time::Duration::from_secs(2), sent).await;
        if mark.exists() {
            break;
        }
        assert_eq!(sent.unwrap(), 202);
    }
    if kill == Kill::AtTheSpawn {
        eventually("it froze", async || mark.exists().then_some(())).await;
    } else {
        eventually("each agent took its prompt", async || {
            (prompts(&world).len() == cases.len()).then_some(())
        })
        .await;
    }
    match kill {
        Kill::Never => they_end(&world).await,
        Kill::TheyLiveOn | Kill::AtTheSpawn => {
            world.end(Signal::KILL);
            world.start().await;
            they_end(&world).await;
        }
        Kill::TheyEndAlone | Kill::ClaimIsLost => {
            world.end(Signal::KILL);
            they_end(&world).await;
            for claim in claims(&world).iter().filter(|_| kill == Kill::ClaimIsLost) {
                std::fs::write(claim, "{").unwrap();
            }
            world.start().await;
        }
    }
    for Case { item, has_result, has_proof, what } in &cases {
        let comment = payload::comment("o/r", *item, "alice", "go on.");
        let id = format!("c-{item}");
        assert!(matches!(world.post(&id, "issue_comment", &comment).await, 200 | 202));
        let (state, reason, detail) = ends(&world, &id).await;
        let wanted = match (has_result, has_proof) {
            (true, true) => ("delivered", "accepted"),
            (true, false) => ("delivered", "accepted-by-result"),
            (false, true) => ("delivered", "accepted-without-result"),
            (false, false) => ("unproven", "no-signal"),
        };
        assert_eq!((state.as_str(), reason.as_str()), wanted, "{kill:?}, {what}: {detail}");
    }
    let of = |item: u64| {
        let line = format!(" on o/r#{item}\n");
        prompts(&world).iter().filter(|prompt| prompt.contains(&line)).count()
    };
    for Case { item, what, .. } in &cases {
        assert_eq!(of(*item), 1, "{kill:?}, {what}");
    }
}

#[tokio::test]
async fn with_a_receiver_that_lives_no_turn_is_run_twice() {
    no_turn_is_run_twice(Kill::Never).await;
}

#[tokio::test]
async fn whose_agents_end_with_no_receiver_there_no_turn_is_run_twice() {
    no_turn_is_run_twice(Kill::TheyEndAlone).await;
}

#[tokio::test]
async fn whose_agents_outlive_the_receiver_no_turn_is_run_twice() {
    no_turn_is_run_twice(Kill::TheyLiveOn).await;
}

#[tokio::test]
async fn whose_receiver_dies_at_the_spawn_no_turn_is_run_twice() {
    no_turn_is_run_twice(Kill::AtTheSpawn).await;
}

#[tokio::test]
async fn whose_claim_cannot_be_read_no_turn_is_run_twice() {
    no_turn_is_run_twice(Kill::ClaimIsLost).await;
}

#[tokio::test]
async fn what_ended_without_a_proof_is_run_again_when_a_person_replays_it() {
    let mut world = world("");
    script(&world, json!({}));
    world.start().await;
    label(&world, "d-1").await;
    world.reaches("d-1", "delivered").await;
    script(&world, json!({ "mode": "exit-after", "noHook": true, "noTranscript": true }));
    comment(&world, "a-1", "go on.").await;
    let (state, _, _) = ends(&world, "a-1").await;
    assert_eq!(state, "unproven");
    script(&world, json!({}));
    let (code, _, err) = world.run(&["gh-webhook", "replay", "a-1"]);
    assert_eq!(code, 0, "{err}");
    world.reaches("a-1", "delivered").await;
    assert_eq!(prompts(&world).len(), 3);
    // One whose agent never began is run when GitHub sends it again.
    script(&world, json!({ "mode": "exit-at-start", "exitCode": 3, "say": "no" }));
    comment(&world, "c-1", "go on.").await;
    let (state, reason, detail) = ends(&world, "c-1").await;
    assert_eq!((state.as_str(), reason.as_str()), ("failed", "harness-exited"), "{detail}");
    script(&world, json!({}));
    comment(&world, "c-1", "go on.").await;
    world.reaches("c-1", "delivered").await;
    assert_eq!(prompts(&world).len(), 4);
}

/// The steps of a delivery, each as its state and its reason.
fn steps(world: &World, id: &str) -> Vec<String> {
    let (_, out, _) = world.run(&["events", id, "--json"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    let steps = value["deliveries"][0]["steps"].as_array().unwrap().clone();
    let text = |step: &Value, key: &str| step[key].as_str().unwrap_or_default().to_owned();
    steps.iter().map(|step| format!("{} {}", text(step, "state"), text(step, "reason"))).collect()
}

fn turns(world: &World) -> Vec<std::path::PathBuf> {
    let dir = world.state_dir().join("turns/o+r+1");
    let mut turns: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    turns.sort();
    turns
}

#[tokio::test]
async fn an_agent_that_ends_before_it_reads_its_prompt_is_started_three_times() {
    let mut world = world("");
    script(&world, json!({ "mode": "exit-at-start", "say": "oops", "failStarts": 2 }));
    world.start().await;
    label(&world, "d-1").await;
    let (state, reason, detail) = ends(&world, "d-1").await;
    assert_eq!((state.as_str(), reason.as_str()), ("delivered", "accepted"), "{detail}");
    let failed =
        |id: &str| steps(&world, id).iter().filter(|step| *step == "queued harness-exited").count();
    assert_eq!(failed("d-1"), 2, "{:?}", steps(&world, "d-1"));
    assert_eq!(prompts(&world).len(), 1, "it is taken once");
    // Each is a turn of its own, with its prompt for those who look.
    let each = turns(&world);
    assert_eq!(each.len(), 3);
    for turn in &each {
        let prompt = std::fs::read_to_string(turn.join("prompt")).unwrap();
        assert_eq!(prompt, prompts(&world)[0]);
    }
    let (_, logs, _) = world.run(&["sessions", "logs", "1"]);
    assert_eq!(logs.matches("harness-exited").count(), 2, "{logs}");
    assert_eq!(status(&world), "active");
    // One that never starts has failed after as many.
    script(&world, json!({ "mode": "exit-at-start", "exitCode": 3, "say": "oops" }));
    comment(&world, "c-1", "go on.").await;
    assert_eq!(ends(&world, "c-1").await.0, "failed");
    assert_eq!((failed("c-1"), turns(&world).len()), (2, 6));
    // One that may have read its prompt is not started again.
    script(&world, json!({ "mode": "exit-after", "noHook": true, "noTranscript": true }));
    comment(&world, "c-2", "and on.").await;
    assert_eq!(ends(&world, "c-2").await.0, "unproven");
    assert_eq!(turns(&world).len(), 7);
}

#[tokio::test]
async fn a_start_that_failed_is_tried_again_by_the_next_receiver() {
    let mut world = world("");
    script(&world, json!({ "mode": "exit-at-start", "say": "oops" }));
    let (freeze, mark) = (OsStr::new(Checkpoint::Acknowledge.as_str()), world.home.join("frozen"));
    world
        .start_with(&[("THE_LOOP_FREEZE_AT", freeze), ("THE_LOOP_FREEZE_MARK", mark.as_os_str())])
        .await;
    // Before it is noted that nobody took it, nothing proves that.
    label(&world, "d-1").await;
    eventually("it froze", async || mark.exists().then_some(())).await;
    world.end(Signal::KILL);
    world.start().await;
    let (state, reason, _) = ends(&world, "d-1").await;
    assert_eq!((state.as_str(), reason.as_str()), ("unproven", "no-signal"));
    // Afterwards it is known.
    comment(&world, "c-1", "go on.").await;
    eventually("a start failed", async || {
        steps(&world, "c-1").contains(&"queued harness-exited".to_owned()).then_some(())
    })
    .await;
    world.end(Signal::KILL);
    script(&world, json!({}));
    world.start().await;
    world.reaches("c-1", "delivered").await;
    assert_eq!(prompts(&world).len(), 1);
}

#[tokio::test]
async fn an_arming_that_ended_without_a_proof_is_told_when_a_person_replays_it() {
    let mut world = world("");
    script(&world, json!({ "mode": "exit-after", "noHook": true, "noTranscript": true }));
    world.start().await;
    label(&world, "d-1").await;
    assert_eq!(ends(&world, "d-1").await.0, "unproven");
    script(&world, json!({}));
    let before = prompts(&world).len();
    let (code, _, err) = world.run(&["gh-webhook", "replay", "d-1"]);
    assert_eq!(code, 0, "{err}");
    world.reaches("d-1", "delivered").await;
    let prompts = prompts(&world);
    assert_eq!(prompts.len(), before + 1);
    assert!(prompts.last().unwrap().contains("Please do it."), "{prompts:#?}");
}

#[tokio::test]
async fn a_session_that_is_closed_while_no_receiver_runs_stays_so_and_what_waited_ends() {
    let mut world = world("");
    let end = world.home.join("end");
    script(&world, json!({ "mode": "exit-after", "endsAt": end }));
    world.start().await;
    label(&world, "d-1").await;
    eventually("the turn runs", async || (prompts(&world).len() == 1).then_some(())).await;
    comment(&world, "c-1", "waits.").await;
    world.reaches("c-1", "queued").await;
    world.end(Signal::KILL);
    let (code, _, err) = world.run(&["sessions", "close", "1"]);
    assert_eq!(code, 0, "{err}");
    script(&world, json!({}));
    world.start().await;
    let (state, reason, _) = ends(&world, "d-1").await;
    assert_eq!((state.as_str(), reason.as_str()), ("delivered", "accepted-without-result"));
    let (state, reason, _) = ends(&world, "c-1").await;
    assert_eq!((state.as_str(), reason.as_str()), ("failed", "closed-before-delivery"));
    assert_eq!(status(&world), "closed");
    assert_eq!(prompts(&world).len(), 1);
    // What comes after the close revives it.
    does(&world, &["sessions", "send", "1", "hello again"]);
    eventually("it is revived", async || (prompts(&world).len() == 2).then_some(())).await;
    eventually("it is active", async || (status(&world) == "active").then_some(())).await;
}

/// Runs a command that must succeed; gives what it says beside its data.
fn does(world: &World, args: &[&str]) -> String {
    let (code, _, err) = world.run(args);
    assert_eq!(code, 0, "{args:?}: {err}");
    err
}

fn status(world: &World) -> Value {
    let (_, out, _) = world.run(&["sessions", "show", "1", "--json"]);
    serde_json::from_str::<Value>(&out).unwrap()["status"].clone()
}

#[tokio::test]
async fn a_turn_that_runs_is_taken_up_although_its_session_was_paused_meanwhile() {
    let mut world = world("");
    let end = in_a_turn(&mut world).await;
    comment(&world, "c-1", "waits.").await;
    world.reaches("c-1", "queued").await;
    world.end(Signal::KILL);
    does(&world, &["sessions", "pause", "1"]);
    world.start().await;
    stands(&world, "d-1", "injecting", "turn-running").await;
    std::fs::write(&end, "").unwrap();
    let (state, reason, detail) = ends(&world, "d-1").await;
    assert_eq!((state.as_str(), reason.as_str()), ("delivered", "accepted"), "{detail}");
    stands(&world, "c-1", "queued", "session-paused").await;
    assert_eq!((status(&world), prompts(&world).len()), (json!("paused"), 1));
    does(&world, &["sessions", "resume", "1"]);
    world.reaches("c-1", "delivered").await;
    assert_eq!(prompts(&world).len(), 2);
}

#[tokio::test]
async fn a_turn_that_nobody_had_begun_waits_for_the_end_of_a_pause() {
    let mut world = world("");
    script(&world, json!({}));
    let mark = world.home.join("frozen");
    let freeze = OsStr::new(Checkpoint::Paste.as_str());
    world
        .start_with(&[("THE_LOOP_FREEZE_AT", freeze), ("THE_LOOP_FREEZE_MARK", mark.as_os_str())])
        .await;
    let arm = payload::labeled("o/r", 1, "alice");
    // One that froze does not answer.
    let sent = world.post("d-1", "issues", &arm);
    let _ = tokio::time::timeout(std::time::Duration::from_secs(2), sent).await;
    eventually("it froze", async || mark.exists().then_some(())).await;
    world.end(Signal::KILL);
    does(&world, &["sessions", "pause", "1"]);
    world.start().await;
    stands(&world, "d-1", "queued", "session-paused").await;
    assert_eq!((status(&world), prompts(&world).len()), (json!("paused"), 0));
    does(&world, &["sessions", "resume", "1"]);
    world.reaches("d-1", "delivered").await;
    assert_eq!(prompts(&world).len(), 1);
}

#[tokio::test]
async fn what_was_not_decided_about_when_its_session_was_closed_does_not_revive_it() {
    let mut world = world("");
    had_a_turn(&mut world).await;
    // What a person sent, and what a receiver took in its last moment.
    let err = does(&world, &["sessions", "send", "1", "one more thing"]);
    let sent = err.split('`').nth(1).unwrap().rsplit(' ').next().unwrap().to_owned();
    let inbox = Inbox::open(&world.state_dir().join("inbox.db"), Clock::System).unwrap();
    let comment_of = |text: &str| payload::comment("o/r", 1, "alice", text).to_string();
    let new = NewDelivery {
        id: "c-1".parse().unwrap(),
        kind: DeliveryKind::Github,
        event: "issue_comment".to_owned(),
        body: comment_of("too late.").into_bytes(),
    };
    inbox.accept(new).await.unwrap();
    inbox.close();
    let (code, _, err) = world.run(&["sessions", "close", "1"]);
    assert_eq!(code, 0, "{err}");
    world.start().await;
    for id in [sent.as_str(), "c-1"] {
        let (state, reason, _) = ends(&world, id).await;
        assert_eq!((state.as_str(), reason.as_str()), ("failed", "closed-before-delivery"));
    }
    assert_eq!((status(&world), prompts(&world).len()), (json!("closed"), 1));
    // What a person asks for again comes after the close.
    let (code, _, err) = world.run(&["gh-webhook", "replay", "c-1"]);
    assert_eq!(code, 0, "{err}");
    world.reaches("c-1", "delivered").await;
    assert_eq!((status(&world), prompts(&world).len()), (json!("active"), 2));
}
