//! One table of behaviours that every harness has, in each runner that can host
//! it: a row of `table!` is one harness in one runner. The agents are doubles;
//! `real_agents` and `real_claude` run the real ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use crate::process::{comment, label, put_into_the_queue};
use crate::support::eventually;

use self::homes::the_users_files_stay_as_they_are;
use self::rig::{Rig, Row};

mod cursor;
mod homes;
mod rig;

/// A line of the notice that a fresh conversation begins with.
const LOST: &str = "the earlier conversation about this item is lost";

/// A line of the notice of an agent that was started again with its conversation.
const RESUMED: &str = "was started again with this conversation";

async fn each_event_reaches_one_conversation(row: Row) {
    let mut rig = Rig::new(row, "");
    rig.world.start().await;
    label(&rig.world, "d-1").await;
    rig.is_delivered("d-1").await;
    let first = rig.conversation();
    for n in 0..2 {
        let id = format!("c-{n}");
        comment(&rig.world, &id, &format!("word {n}.\n{}", "and more\n".repeat(n * 20))).await;
        rig.is_delivered(&id).await;
    }
    let prompts = rig.prompts();
    assert_eq!(prompts.len(), 3, "{prompts:?}");
    assert!(prompts[1].contains("word 0.") && prompts[2].contains("word 1."), "{prompts:?}");
    assert_eq!(rig.conversation(), first, "one conversation");
    let told: Vec<_> =
        rig.notes().iter().filter_map(|n| n["session"].as_str().map(str::to_owned)).collect();
    assert!(told.iter().all(|id| *id == first), "{told:?} {first}");
    rig.no_hook_was_felt();
}

async fn it_survives_every_kill_with_its_conversation(row: Row) {
    let mut rig = Rig::new(row, "");
    rig.world.start().await;
    label(&rig.world, "d-1").await;
    rig.is_delivered("d-1").await;
    let first = rig.conversation();
    for (n, what) in ["harness", "tmux", "receiver", "all"].into_iter().enumerate() {
        if matches!(what, "harness" | "all") {
            rig.kill_agent().await;
        }
        if matches!(what, "tmux" | "all") {
            rig.world.tmux.run(&["kill-server"]);
        }
        if matches!(what, "receiver" | "all") {
            rig.world.end(Signal::KILL);
            rig.world.start().await;
        }
        let id = format!("c-{n}");
        comment(&rig.world, &id, &format!("after {what}.")).await;
        rig.is_delivered(&id).await;
        assert_eq!(rig.conversation(), first, "after the kill of {what}");
    }
    let prompts = rig.prompts();
    assert_eq!(prompts.len(), 5, "{prompts:?}");
    assert!(!prompts.iter().any(|prompt| prompt.contains(LOST)), "{prompts:?}");
    // One in a terminal is told that it was started again, once; a headless one is
    // started for each event.
    let told: Vec<_> = prompts.iter().map(|prompt| prompt.contains(RESUMED)).collect();
    let is_in_tmux = rig.is_in_tmux();
    assert_eq!(told, [false, is_in_tmux, is_in_tmux, false, is_in_tmux], "{prompts:#?}");
    for (id, is_told) in ["d-1", "c-0", "c-1", "c-2", "c-3"].into_iter().zip(told) {
        let (_, out, _) = rig.world.run(&["events", id, "--json"]);
        assert_eq!(out.contains("\"resumed\""), is_told, "{out}");
    }
    assert_eq!(rig.show()["resumedAt"].is_string(), is_in_tmux);
}

async fn a_death_at_the_start_is_told_with_its_last_words(row: Row) {
    let mut rig = Rig::new(row, "");
    // The double of Claude says it where a result is awaited.
    let say =
        if (row.harness, row.runner) == ("claude", "process") { "" } else { "no licence here" };
    rig.script(json!({ "mode": "exit-at-start", "exitCode": 3, "say": say }));
    rig.world.start().await;
    label(&rig.world, "d-1").await;
    let (state, reason, detail) = rig.ends("d-1").await;
    assert_eq!((state.as_str(), reason.as_str()), ("failed", "harness-exited"), "{detail}");
    assert!(detail.contains(say), "{detail}");
    let shown = rig.show();
    assert_eq!(shown["status"], "failed", "{shown}");
    // Once it can start again, it does.
    rig.script(json!({}));
    comment(&rig.world, "c-1", "again.").await;
    rig.is_delivered("c-1").await;
}

async fn a_lost_conversation_is_begun_anew_and_the_agent_is_told(row: Row) {
    if !row.can_refuse() {
        return;
    }
    let mut rig = Rig::new(row, "");
    rig.world.start().await;
    label(&rig.world, "d-1").await;
    rig.is_delivered("d-1").await;
    let first = rig.conversation();
    rig.script(json!({ "mode": "refuses-resume" }));
    rig.kill_agent().await;
    comment(&rig.world, "c-1", "go on.").await;
    rig.is_delivered("c-1").await;
    let second = rig.conversation();
    assert_ne!(second, first);
    rig.script(json!({}));
    comment(&rig.world, "c-2", "and on.").await;
    rig.is_delivered("c-2").await;
    assert_eq!(rig.conversation(), second);
    let told: Vec<_> = rig.prompts().iter().map(|prompt| prompt.contains(LOST)).collect();
    for prompt in rig.prompts().iter().filter(|prompt| prompt.contains(LOST)) {
        assert!(prompt.contains("You work on o/r#1 in this directory"), "{prompt}");
    }
    assert_eq!(told, [false, true, false]);
    let (_, out, _) = rig.world.run(&["events", "c-1", "--json"]);
    assert!(out.contains("fresh-conversation"), "{out}");
}

async fn a_conversation_that_exists_already_is_gone_on_with(row: Row) {
    if !row.minds_a_repeat() {
        return;
    }
    let mut rig = Rig::new(row, "");
    rig.world.start().await;
    label(&rig.world, "d-1").await;
    rig.is_delivered("d-1").await;
    let first = rig.conversation();
    rig.kill_agent().await;
    rig.world.end(Signal::TERM);
    // As if the receiver had died before it noted that the prompt was taken.
    let file = rig.world.project.join(".the-loop/sessions/o+r+1.json");
    let mut entry: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    entry["conversationStarted"] = json!(false);
    std::fs::write(&file, entry.to_string()).unwrap();
    rig.world.start().await;
    comment(&rig.world, "c-1", "go on.").await;
    rig.is_delivered("c-1").await;
    assert_eq!(rig.conversation(), first);
    assert!(!rig.prompts()[1].contains(LOST));
}

async fn what_is_never_proven_is_told_and_not_sent_again(row: Row) {
    let mut rig = Rig::new(row, "dispatchTimeoutSeconds: 1");
    let script = if rig.is_in_tmux() { "mute" } else { "never-ends" };
    rig.script(json!({ "mode": script }));
    rig.world.start().await;
    label(&rig.world, "d-1").await;
    let (state, reason, detail) = rig.ends("d-1").await;
    let wanted = match (rig.is_in_tmux(), row.tells_headless()) {
        (true, _) | (false, false) => ("unproven", "no-signal"),
        (false, true) => ("delivered", "turn-timed-out"),
    };
    assert_eq!((state.as_str(), reason.as_str()), wanted, "{detail}");
    assert_eq!(rig.prompts().len(), 1);
}

async fn a_hundred_kilobytes_arrive_whole(row: Row) {
    let mut rig = Rig::new(row, "");
    let config = std::fs::read_to_string(rig.world.config()).unwrap();
    let typed = config.replace("readyTimeoutSeconds: 20", "typeMax: 1MB");
    assert_ne!(typed, config);
    std::fs::write(rig.world.config(), typed).unwrap();
    rig.world.start().await;
    label(&rig.world, "d-1").await;
    rig.is_delivered("d-1").await;
    rig.world.end(Signal::TERM);
    // Longer than routing makes one: put into the queue by hand.
    let lines = "a line of forty letters, more or less..\n".repeat(2500);
    let prompt = put_into_the_queue(&rig.world, "long-1", &lines).await;
    rig.world.start().await;
    rig.is_delivered("long-1").await;
    assert_eq!(rig.prompts().len(), 2);
    assert!(rig.prompts()[1] == prompt, "not whole");
}

async fn a_directory_that_is_gone_is_named(row: Row) {
    let mut rig = Rig::new(row, "");
    let gone = rig.world.home.join("gone");
    std::fs::create_dir(&gone).unwrap();
    let (code, _, err) =
        rig.world.run(&["sessions", "register", "o/r#1", "--cwd", gone.to_str().unwrap()]);
    assert_eq!(code, 0, "{err}");
    std::fs::remove_dir(&gone).unwrap();
    rig.world.start().await;
    comment(&rig.world, "c-1", "hello.").await;
    let (state, reason, detail) = rig.ends("c-1").await;
    assert_eq!((state.as_str(), reason.as_str()), ("failed", "start-failed"), "{detail}");
    assert!(detail.contains("gone` is not there"), "{detail}");
    // An id that an agent would read as a flag does not get that far.
    for id in ["--help", "-x"] {
        let flag = format!("--session-id={id}");
        let (code, _, err) = rig.world.run(&["sessions", "register", "o/r#2", &flag]);
        assert_eq!(code, 2, "{id}: {err}");
    }
}

fn environment(pid: Pid) -> BTreeMap<String, String> {
    let bytes = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    text.split('\0')
        .filter_map(|entry| entry.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

async fn its_environment_is_made_from_nothing(row: Row) {
    let mut rig = Rig::new(row, "");
    // A tmux that stands apart from PATH, as an installed one does.
    let tools = rig.world.home.join("tools");
    std::fs::create_dir(&tools).unwrap();
    std::os::unix::fs::symlink(crate::support::tmux_path(), tools.join("tmux")).unwrap();
    let config = std::fs::read_to_string(rig.world.config()).unwrap();
    let tmux = crate::support::tmux_path();
    let config = config.replace(tmux.to_str().unwrap(), tools.join("tmux").to_str().unwrap());
    std::fs::write(rig.world.config(), config).unwrap();
    // The server is older than the receiver, and has another environment.
    rig.world.tmux.run(&["new-session", "-d", "-s", "old"]);
    rig.world.tmux.run(&["set-environment", "-g", "STALE", "1"]);
    rig.world.tmux.run(&["set-environment", "-g", "PATH", "/nowhere"]);
    rig.script(json!({ "turnMs": 3000 }));
    let secrets = ["GITHUB_TOKEN", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "MY_PASSWORD"];
    let mut variables: Vec<(&str, &std::ffi::OsStr)> =
        secrets.iter().map(|name| (*name, "hunter2".as_ref())).collect();
    variables.push(("LANG", "".as_ref()));
    rig.world.start_with(&variables).await;
    label(&rig.world, "d-1").await;
    eventually("it has the prompt", async || (rig.prompts().len() == 1).then_some(())).await;
    let agent = eventually("the agent lives", async || rig.agent()).await;
    let env = environment(agent);
    let argv = std::fs::read(format!("/proc/{}/cmdline", agent.as_raw_nonzero())).unwrap();
    let argv = String::from_utf8_lossy(&argv).into_owned();
    for secret in ["hunter2", crate::support::SECRET] {
        assert!(!env.values().any(|value| value.contains(secret)), "{env:?}");
        assert!(!argv.contains(secret), "{argv}");
    }
    assert!(!argv.contains("Please do it"), "a text of an event is in {argv}");
    assert!(!env.contains_key("STALE"), "{env:?}");
    assert_eq!(env["THE_LOOP_WORK_ITEM"], "github:o/r#1");
    let locale = env.get("LC_ALL").or(env.get("LC_CTYPE")).or(env.get("LANG")).unwrap();
    assert!(locale.to_lowercase().contains("utf-8"), "{locale}");
    let path: Vec<PathBuf> = std::env::split_paths(&env["PATH"]).collect();
    assert_eq!(path.first(), Some(&rig.world.home.join("bin")), "{path:?}");
    assert_eq!(path.last(), Some(&tools), "{path:?}");
    assert!(
        path.iter().all(|dir| dir.is_absolute())
            && !path.contains(&Path::new("/nowhere").to_path_buf())
    );
    rig.is_delivered("d-1").await;
}

async fn a_dialog_is_never_answered(row: Row) {
    if row.runner != "tmux" {
        return;
    }
    let mut rig = Rig::new(row, "");
    rig.script(json!({ "dialogAfterMs": 50, "turnMs": 60000 }));
    rig.world.start().await;
    label(&rig.world, "d-1").await;
    rig.is_delivered("d-1").await;
    comment(&rig.world, "c-1", "meanwhile.").await;
    eventually("it waits", async || {
        let (_, out, _) = rig.world.run(&["events", "c-1", "--json"]);
        out.contains("agent-asks").then_some(())
    })
    .await;
    let (_, out, _) = rig.world.run(&["sessions", "list"]);
    assert!(out.contains("blocked"), "{out}\n{}", rig.screen());
    assert!(rig.notes().iter().all(|note| note.get("prompt").is_some()), "{:?}", rig.notes());
    assert_eq!(rig.prompts().len(), 1);
}

async fn its_own_unmarked_comment_is_not_answered(row: Row) {
    // What Claude's and the demo's write down, `loops` looks at; Cursor's form is
    // not known.
    if matches!(row.harness, "claude" | "cursor") {
        return;
    }
    let mut rig = Rig::new(row, "");
    rig.script(json!({ "words": true }));
    rig.world.start().await;
    label(&rig.world, "d-1").await;
    rig.is_delivered("d-1").await;
    // It answers with a comment under its operator's login.
    comment(&rig.world, "c-1", "I have done it all now.").await;
    let (state, reason, detail) = rig.ends("c-1").await;
    assert_eq!((state.as_str(), reason.as_str()), ("ignored", "agents-own-words"), "{detail}");
    // A person who writes the same words twice is heard twice.
    for n in 0..2 {
        comment(&rig.world, &format!("p-{n}"), "try again").await;
        rig.is_delivered(&format!("p-{n}")).await;
    }
    assert_eq!(rig.prompts().len(), 3);
}

async fn its_turns_are_shown_as_people_read_them(row: Row) {
    if row.runner != "process" {
        return;
    }
    let mut rig = Rig::new(row, "");
    rig.world.start().await;
    label(&rig.world, "d-1").await;
    rig.is_delivered("d-1").await;
    let (code, out, err) = rig.world.run(&["sessions", "logs", "1"]);
    assert_eq!(code, 0, "{err}");
    let says = |line: &str| out.lines().any(|shown| shown == line);
    assert!(says("● done") || says("= done"), "{out}");
    assert!(!out.contains("{\"type\""), "{out}");
}

macro_rules! table {
    ($($row:ident: $harness:literal in $runner:literal;)+) => {$(
        mod $row {
            use super::Row;

            const ROW: Row = Row { harness: $harness, runner: $runner };

            table!(@ each_event_reaches_one_conversation);
            table!(@ it_survives_every_kill_with_its_conversation);
            table!(@ a_death_at_the_start_is_told_with_its_last_words);
            table!(@ a_lost_conversation_is_begun_anew_and_the_agent_is_told);
            table!(@ a_conversation_that_exists_already_is_gone_on_with);
            table!(@ what_is_never_proven_is_told_and_not_sent_again);
            table!(@ a_hundred_kilobytes_arrive_whole);
            table!(@ a_directory_that_is_gone_is_named);
            table!(@ its_environment_is_made_from_nothing);
            table!(@ a_dialog_is_never_answered);
            table!(@ its_own_unmarked_comment_is_not_answered);
            table!(@ the_users_files_stay_as_they_are);
            table!(@ its_turns_are_shown_as_people_read_them);
        }
    )+};
    (@ $behaviour:ident) => {
        #[tokio::test]
        async fn $behaviour() {
            super::$behaviour(ROW).await;
        }
    };
}

table! {
    claude_in_tmux: "claude" in "tmux";
    claude_headless: "claude" in "process";
    cursor_in_tmux: "cursor" in "tmux";
    cursor_headless: "cursor" in "process";
    codex_in_tmux: "codex" in "tmux";
    codex_headless: "codex" in "process";
    gemini_in_tmux: "gemini" in "tmux";
    gemini_headless: "gemini" in "process";
    copilot_in_tmux: "copilot" in "tmux";
    copilot_headless: "copilot" in "process";
    opencode_headless: "opencode" in "process";
}

#[tokio::test]
async fn a_harness_of_ones_own_is_declared_and_one_that_no_longer_is_is_named() {
    let mut rig = Rig::new(Row { harness: "opencode", runner: "process" }, "");
    let program = rig.world.home.join("bin/opencode");
    let declared = format!(
        "harnesses:\n  mine:\n    program: {}\n    identity: captured\n    \
         oneShot: [run, --format, json]\n    \
         resumeOneShot: [run, --format, json, --session, '{{id}}']\n    \
         result:\n      ended: [/part/reason=stop]\n      conversation: [/sessionID]\n",
        program.display()
    );
    let plain = std::fs::read_to_string(rig.world.config()).unwrap();
    std::fs::write(rig.world.config(), format!("{plain}{declared}")).unwrap();
    let (code, _, err) = rig.world.run(&["sessions", "register", "o/r#1", "--harness", "mine"]);
    assert_eq!(code, 0, "{err}");
    let (code, _, err) = rig.world.run(&["sessions", "register", "o/r#2", "--harness", "yours"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("no harness `yours` is known") && err.contains("mine"), "{err}");
    rig.world.start().await;
    for n in 0..2 {
        comment(&rig.world, &format!("c-{n}"), "hello.").await;
        rig.is_delivered(&format!("c-{n}")).await;
    }
    assert_eq!(rig.show()["harness"], "mine");
    rig.world.end(Signal::TERM);
    std::fs::write(rig.world.config(), plain).unwrap();
    rig.world.start().await;
    comment(&rig.world, "c-2", "hello.").await;
    let (state, reason, detail) = rig.ends("c-2").await;
    assert_eq!((state.as_str(), reason.as_str()), ("failed", "start-failed"), "{detail}");
    assert!(detail.starts_with("no harness `mine` is known any more"), "{detail}");
    let (code, out, err) = rig.world.run(&["sessions", "list"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("mine"), "{out}");
}

#[tokio::test]
async fn a_harness_in_a_runner_that_it_has_not_is_refused_before_the_port_is_bound() {
    let rig = Rig::new(Row { harness: "opencode", runner: "tmux" }, "");
    let (code, _, err) = rig.world.run(&["gh-webhook", "start"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("cannot be hosted by the runner tmux"), "{err}");
    assert!(err.contains("routing.runner: process"), "{err}");
    let mut missing = Rig::new(Row { harness: "codex", runner: "tmux" }, "");
    missing.world.path = "/usr/bin:/bin".to_owned();
    let (code, _, err) = missing.world.run(&["gh-webhook", "start"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("`codex` was not found"), "{err}");
    assert!(err.contains("npm install -g @openai/codex"), "{err}");
}
