//! What is said on GitHub, against a stand-in of its API: each thing once, to nobody
//! who may not act, within a budget; and no delivery is harmed, whatever GitHub
//! answers.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use the_loop::base::checkpoint::Checkpoint;

use crate::github_api::{GithubApi, Mood, TOKEN};
use crate::support::{World, eventually, payload};

/// Apart, settles, deadline, pause.
const TIMES: &str = "0,300,1500,200";

fn world(github: &str) -> World {
    let world = World::new("defaultHarness: demo\nrateLimit: 0");
    configure(&world, "", github);
    world
}

/// Replaces `github` in the configuration, or adds it.
fn configure(world: &World, old: &str, new: &str) {
    let text = std::fs::read_to_string(world.config()).unwrap();
    let text = text.replace(&format!("github: {{{old}}}\n"), "");
    std::fs::write(world.config(), format!("{text}github: {{{new}}}\n")).unwrap();
}

async fn start(world: &mut World, api: &GithubApi, more: &[(&str, &OsStr)]) {
    let mut variables: Vec<(&str, &OsStr)> = vec![
        ("THE_LOOP_GITHUB_API", api.url.as_ref()),
        ("THE_LOOP_TELL_TIMES", TIMES.as_ref()),
        ("GH_TOKEN", TOKEN.as_ref()),
    ];
    variables.extend(more);
    world.start_with(&variables).await;
}

fn telling(world: &World) -> Value {
    let (_, out, _) = world.run(&["gh-webhook", "status", "--json"]);
    let status: Value = serde_json::from_str(&out).unwrap_or_default();
    status["github"]["telling"].clone()
}

fn doctor(world: &World) -> String {
    let (_, out, _) = world.run(&["doctor", "-v", "--only", "github.telling"]);
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A comment of alice's with a number of its own.
fn comment(item: u64, number: usize) -> Value {
    let mut body = payload::comment("o/r", item, "alice", &format!("word-{number}."));
    body["comment"]["id"] = number.into();
    body
}

async fn arm(world: &World, id: &str, item: u64) {
    assert_eq!(world.post(id, "issues", &payload::labeled("o/r", item, "alice")).await, 202);
    world.reaches(id, "delivered").await;
}

async fn has_reactions(api: &GithubApi, expected: &[&str]) {
    eventually(&format!("{expected:?}"), async || (api.reactions() == expected).then_some(()))
        .await;
}

/// Waits until nothing more is to be said.
async fn is_quiet(world: &World) {
    eventually("nothing waits to be said", async || (telling(world)["waiting"] == 0).then_some(()))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_gets_eyes_once_and_a_session_one_comment_that_no_agent_is_told() {
    let api = GithubApi::start().await;
    let mut world = world("reactions: true, comments: true");
    start(&mut world, &api, &[]).await;
    arm(&world, "first", 1).await;
    has_reactions(&api, &["issues/1 eyes"]).await;
    let comments = api.comments();
    let [(1, text)] = &comments[..] else { unreachable!("{comments:?}") };
    assert!(text.contains("\n    the-loop sessions attach o/r#1\n"), "{text}");
    for kept in [world.home.to_str().unwrap(), "http", TOKEN, crate::support::SECRET] {
        assert!(!text.contains(kept), "{text}");
    }
    // It comes back as an event of the operator's.
    let back = payload::comment("o/r", 1, "alice", text);
    assert_eq!(world.post("back", "issue_comment", &back).await, 202);
    let out = world.reaches("back", "ignored").await;
    assert!(out.contains("own-voice"), "{out}");
    // A stranger learns nothing; a listed user does.
    let stranger = payload::comment("o/r", 1, "mallory", "word-2.");
    world.post("stranger", "issue_comment", &stranger).await;
    world.post("listed", "issue_comment", &comment(1, 41)).await;
    world.reaches("listed", "delivered").await;
    has_reactions(&api, &["issues/1 eyes", "issues/comments/41 eyes"]).await;
    assert_eq!(world.told("o+r+1").len(), 2);
    // Nothing is said again, by this receiver or by the next.
    is_quiet(&world).await;
    let requests = api.requests();
    assert_eq!(requests.len(), 3, "{requests:?}");
    world.end(Signal::KILL);
    start(&mut world, &api, &[]).await;
    world.post("more", "issue_comment", &comment(1, 42)).await;
    world.reaches("more", "delivered").await;
    eventually("it is said", async || (api.reactions().len() == 3).then_some(())).await;
    is_quiet(&world).await;
    assert_eq!((api.requests().len(), api.comments().len()), (4, 1));
    let memory = std::fs::read_to_string(world.state_dir().join("github-telling.json")).unwrap();
    let said = [world.receiver_log(), telling(&world).to_string(), doctor(&world), memory].concat();
    assert!(!said.contains(TOKEN), "{said}");
    assert!(doctor(&world).contains("what becomes of events is said on GitHub"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_is_told_once_with_its_reason() {
    let api = GithubApi::start().await;
    let mut world = world("reactions: true, comments: true");
    start(&mut world, &api, &[]).await;
    arm(&world, "first", 1).await;
    has_reactions(&api, &["issues/1 eyes"]).await;
    let entry = world.project.join(".the-loop/sessions/o+r+1.json");
    std::fs::write(&entry, "{").unwrap();
    world.post("bad", "issue_comment", &comment(1, 5)).await;
    world.reaches("bad", "failed").await;
    has_reactions(&api, &["issues/1 eyes", "issues/comments/5 confused"]).await;
    is_quiet(&world).await;
    let comments = api.comments();
    let [_, (1, text)] = &comments[..] else { unreachable!("{comments:?}") };
    for said in ["`registry-unreadable`", "`bad`", "`the-loop gh-webhook replay bad`"] {
        assert!(text.contains(said), "{said} in {text}");
    }
    assert!(!text.contains(world.home.to_str().unwrap()), "{text}");
    // A stranger's event that fails of the same is told to nobody.
    let closed = payload::closed("o/r", 1, "mallory");
    world.post("closed", "issues", &closed).await;
    world.reaches("closed", "failed").await;
    // It fails again: that was told.
    let (code, _, err) = world.run(&["gh-webhook", "replay", "bad"]);
    assert_eq!(code, 0, "{err}");
    eventually("it failed again", async || {
        let (_, out, _) = world.run(&["events", "bad", "--json"]);
        (out.matches("\"registry-unreadable\"").count() > 2).then_some(())
    })
    .await;
    is_quiet(&world).await;
    assert_eq!((api.comments().len(), api.reactions().len()), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_and_reached_its_session_when_it_was_routed_again_is_told_as_taken() {
    let api = GithubApi::start().await;
    let mut world = world("reactions: true, comments: true");
    start(&mut world, &api, &[]).await;
    let entry = world.project.join(".the-loop/sessions/o+r+1.json");
    std::fs::create_dir_all(entry.parent().unwrap()).unwrap();
    std::fs::write(&entry, "{").unwrap();
    world.post("first", "issues", &payload::labeled("o/r", 1, "alice")).await;
    world.reaches("first", "failed").await;
    has_reactions(&api, &["issues/1 confused"]).await;
    is_quiet(&world).await;
    std::fs::remove_file(&entry).unwrap();
    let (code, _, err) = world.run(&["gh-webhook", "replay", "first"]);
    assert_eq!(code, 0, "{err}");
    world.reaches("first", "delivered").await;
    has_reactions(&api, &["issues/1 confused", "issues/1 eyes"]).await;
    is_quiet(&world).await;
    let comments = api.comments();
    let [_, (1, text)] = &comments[..] else { unreachable!("{comments:?}") };
    assert!(text.contains("the-loop sessions attach o/r#1"), "{text}");
    // One that ends between two looks, in either way: GitHub's button, and `replay`.
    world.end(Signal::TERM);
    let seldom = OsStr::new("0,300,1500,200,2500");
    start(&mut world, &api, &[("THE_LOOP_TELL_TIMES", seldom)]).await;
    let mut reactions = vec!["issues/1 confused", "issues/1 eyes"];
    for (id, number, again) in [("quick-1", 5, true), ("quick-2", 6, false)] {
        let kept = std::fs::read(&entry).unwrap();
        std::fs::write(&entry, "{").unwrap();
        world.post(id, "issue_comment", &comment(1, number)).await;
        world.reaches(id, "failed").await;
        reactions.extend(match number {
            5 => ["issues/comments/5 confused", "issues/comments/5 eyes"],
            _ => ["issues/comments/6 confused", "issues/comments/6 eyes"],
        });
        has_reactions(&api, &reactions[..reactions.len() - 1]).await;
        std::fs::write(&entry, kept).unwrap();
        is_quiet(&world).await;
        if again {
            world.post(id, "issue_comment", &comment(1, number)).await;
        } else {
            assert_eq!(world.run(&["gh-webhook", "replay", id]).0, 0);
        }
        has_reactions(&api, &reactions).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_a_token_of_its_own_is_told() {
    let api = GithubApi::start().await;
    let mut world = World::new("defaultHarness: demo\nrepositories: [o/r, ghe.example.com/o/r]");
    configure(&world, "", "comments: true");
    start(&mut world, &api, &[]).await;
    let lack = "no token for ghe.example.com is set for the receiver";
    eventually("it is told", async || doctor(&world).contains(lack).then_some(())).await;
    world.end(Signal::TERM);
    start(&mut world, &api, &[("GH_ENTERPRISE_TOKEN", OsStr::new("another"))]).await;
    let well = "what becomes of events is said on GitHub";
    eventually("it is well", async || doctor(&world).contains(well).then_some(())).await;
}

async fn killed_at(checkpoint: Checkpoint) {
    let api = GithubApi::start().await;
    // Ours is on the second page of them.
    let others = 100;
    api.others_comment(1, others);
    let mut world = world("comments: true");
    let mark = world.home.join("frozen");
    let freezing: [(&str, &OsStr); 2] = [
        ("THE_LOOP_FREEZE_AT", checkpoint.as_str().as_ref()),
        ("THE_LOOP_FREEZE_MARK", mark.as_os_str()),
    ];
    start(&mut world, &api, &freezing).await;
    let labeled = payload::labeled("o/r", 1, "alice");
    assert_eq!(world.post("first", "issues", &labeled).await, 202);
    eventually("it froze", async || {
        (std::fs::read_to_string(&mark).ok()? == checkpoint.as_str()).then_some(())
    })
    .await;
    let posted = usize::from(checkpoint == Checkpoint::Said);
    assert_eq!(api.comments().len(), others + posted);
    world.end(Signal::KILL);
    start(&mut world, &api, &[]).await;
    is_quiet(&world).await;
    assert_eq!(api.comments().len(), others + 1, "{checkpoint:?}");
    let looks = api.requests().iter().filter(|asked| asked.starts_with("GET ")).count();
    assert_eq!(looks, 2, "{:?}", api.requests());
    world.reaches("first", "delivered").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_it_was_posted_a_comment_is_posted_once() {
    killed_at(Checkpoint::Say).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_after_it_was_posted_a_comment_is_not_posted_again() {
    killed_at(Checkpoint::Said).await;
}

/// Two events while GitHub is in a mood, and then it is fine.
async fn harms_nothing(mood: Mood, said: &str) {
    let api = GithubApi::start().await;
    let mut world = world("reactions: true, comments: true");
    start(&mut world, &api, &[]).await;
    api.be(mood);
    arm(&world, "first", 1).await;
    eventually(&format!("{mood:?} is told"), async || {
        telling(&world)["trouble"].as_str()?.contains(said).then_some(())
    })
    .await;
    assert!(doctor(&world).contains("nothing can be said on GitHub"), "{mood:?}");
    let begin = Instant::now();
    assert_eq!(world.post("second", "issue_comment", &comment(1, 5)).await, 202);
    world.reaches("second", "delivered").await;
    assert!(begin.elapsed() < Duration::from_secs(5), "{mood:?}: {:?}", begin.elapsed());
    api.be(Mood::Fine);
    eventually(&format!("it is said after {mood:?}"), async || {
        let now = telling(&world);
        (now["waiting"] == 0 && now["trouble"].is_null()).then_some(())
    })
    .await;
    // Once each, also what was done without an answer.
    let comments = api.comments();
    assert_eq!(comments.len(), 1, "{mood:?}: {comments:#?}");
    // The second's end may not have been looked at yet when the first is said.
    let all = ["issues/1 eyes", "issues/comments/5 eyes"];
    eventually(&format!("both are said after {mood:?}"), async || {
        let mut reactions = api.reactions();
        reactions.sort();
        (reactions == all).then_some(())
    })
    .await;
    is_quiet(&world).await;
    assert_eq!((api.reactions().len(), api.comments().len()), (2, 1), "{mood:?}");
    let log = world.receiver_log();
    assert_eq!(log.matches(said).count(), 1, "{mood:?}: {log}");
    assert!(log.contains("what is said on GitHub arrives again"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_github_fails_every_delivery_comes_in_time_and_it_is_said_later() {
    harms_nothing(Mood::Status(500), "GitHub answered 500 to POST repos/o/r/issues/1/comments")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_githubs_limit_is_reached_every_delivery_comes_in_time_and_it_is_said_later() {
    harms_nothing(Mood::Limited(4), "GitHub's rate limit is reached").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_github_talks_garbage_every_delivery_comes_in_time_and_it_is_said_later() {
    harms_nothing(Mood::Garbage, "cannot be understood").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_github_is_mute_every_delivery_comes_in_time_and_it_is_said_later() {
    harms_nothing(Mood::Mute, "it did not answer").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_github_did_without_an_answer_is_not_done_again() {
    harms_nothing(Mood::Lost, "it did not answer").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_github_refuses_is_given_up_and_too_much_at_a_time_is_rested_from() {
    let api = GithubApi::start().await;
    let mut world = world("reactions: true");
    start(&mut world, &api, &[]).await;
    arm(&world, "first", 1).await;
    has_reactions(&api, &["issues/1 eyes"]).await;
    // Not there, or not allowed, which is tried twice.
    for (code, times) in [(404, 1), (403, 2)] {
        let (id, before) = (format!("refused-{code}"), api.requests().len());
        api.be(Mood::Status(code));
        world.post(&id, "issue_comment", &comment(1, code.into())).await;
        world.reaches(&id, "delivered").await;
        eventually(&format!("{code} is given up"), async || {
            let now = telling(&world);
            let is_told = now["trouble"].as_str()?.contains(&code.to_string());
            (now["waiting"] == 0 && is_told).then_some(())
        })
        .await;
        assert_eq!(api.requests().len(), before + times, "{code}");
    }
    api.be(Mood::TooMuch);
    world.post("much", "issue_comment", &comment(1, 201)).await;
    eventually("it rests", async || {
        telling(&world)["trouble"].as_str()?.contains("rate limit is reached").then_some(())
    })
    .await;
    let asked = api.requests().len();
    world.post("rests", "issue_comment", &comment(1, 202)).await;
    world.reaches("rests", "delivered").await;
    eventually("both wait", async || (telling(&world)["waiting"] == 2).then_some(())).await;
    assert_eq!(api.requests().len(), asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_a_hundred_events_stays_within_the_budget_and_all_arrive() {
    let api = GithubApi::start().await;
    let mut world = world("reactions: true, comments: true");
    start(&mut world, &api, &[]).await;
    arm(&world, "first", 1).await;
    let begin = Instant::now();
    for n in 1..=100 {
        assert_eq!(world.post(&format!("flood-{n}"), "issue_comment", &comment(1, n)).await, 202);
    }
    for n in 1..=100 {
        world.reaches(&format!("flood-{n}"), "delivered").await;
    }
    eventually("all is decided", async || {
        let waiting = telling(&world)["waiting"].as_u64()?;
        (waiting + api.requests().len() as u64 >= 102).then_some(())
    })
    .await;
    assert!(begin.elapsed() < Duration::from_secs(50), "the minute is nearly over");
    assert_eq!(api.requests().len(), 20, "as many as a minute may have");
    assert_eq!(api.comments().len(), 1);
    // A restart is no way around it.
    world.end(Signal::KILL);
    start(&mut world, &api, &[]).await;
    let (_, out, _) = world.run(&["gh-webhook", "status"]);
    assert!(out.contains("\nsaid there     reactions and comments, 82 waiting\n"), "{out}");
    assert_eq!(api.requests().len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_said_by_default_without_a_token_or_of_the_past() {
    let api = GithubApi::start().await;
    let mut world = world("");
    start(&mut world, &api, &[]).await;
    arm(&world, "first", 1).await;
    assert!(!world.state_dir().join("github-telling.json").exists());
    assert!(doctor(&world).contains("nothing is said on GitHub"));
    // Without a token.
    configure(&world, "", "reactions: true, comments: true");
    let said = doctor(&world);
    assert!(said.contains("no token is set here") && said.contains("nobody learns"), "{said}");
    world.end(Signal::TERM);
    start(&mut world, &api, &[("GH_TOKEN", OsStr::new(""))]).await;
    arm(&world, "second", 2).await;
    let trouble = telling(&world)["trouble"].clone();
    assert!(trouble.as_str().unwrap().contains("no token is set for the receiver"), "{trouble}");
    world.end(Signal::TERM);
    assert!(api.requests().is_empty(), "{:?}", api.requests());
    // With one, and switched on while it runs: what comes from then on.
    configure(&world, "reactions: true, comments: true", "");
    start(&mut world, &api, &[]).await;
    configure(&world, "", "reactions: true, comments: true");
    let (code, _, err) = world.run(&["gh-webhook", "reload"]);
    assert_eq!(code, 0, "{err}");
    world.post("old-session", "issue_comment", &comment(1, 7)).await;
    world.reaches("old-session", "delivered").await;
    has_reactions(&api, &["issues/comments/7 eyes"]).await;
    arm(&world, "third", 3).await;
    has_reactions(&api, &["issues/comments/7 eyes", "issues/3 eyes"]).await;
    is_quiet(&world).await;
    assert_eq!(api.comments().len(), 1);
    assert_eq!(api.comments()[0].0, 3);
    // And off again.
    configure(&world, "reactions: true, comments: true", "");
    let (code, _, err) = world.run(&["gh-webhook", "reload"]);
    assert_eq!(code, 0, "{err}");
    let asked = api.requests().len();
    arm(&world, "fourth", 4).await;
    assert_eq!(api.requests().len(), asked);
}
