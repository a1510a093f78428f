//! A person takes a headless conversation over, on a real terminal: a pane of a
//! private tmux server.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::process::{
    comment, configure, had_a_turn, has_one_branch, label, prompts, script, transcripts, world,
};
use crate::support::{TmuxServer, World, eventually, payload};

/// A person's own terminal: a pane of another tmux server.
struct Person {
    server: TmuxServer,
}

impl Person {
    fn new() -> Self {
        Self { server: TmuxServer::new() }
    }

    /// Runs the program in a terminal of the world's environment.
    fn types(&self, world: &World, name: &str, args: &str) {
        self.types_in(world, name, "", args);
    }

    /// Attaches in the environment of somebody else's shell.
    fn types_with(&self, world: &World, name: &str, variables: &str) {
        self.types_in(world, name, variables, "sessions attach 1");
    }

    fn types_in(&self, world: &World, name: &str, variables: &str, args: &str) {
        let home = world.home.display();
        let line = format!(
            "cd {}; HOME={home} PATH={} THE_LOOP_GH_WEBHOOK_SECRET=x {variables} {} {args}; echo ended=$?; exec cat",
            world.project.display(),
            world.path,
            env!("CARGO_BIN_EXE_the-loop"),
        );
        self.server.run(&[
            "new-session",
            "-d",
            "-s",
            name,
            "-x",
            "100",
            "-y",
            "30",
            "/bin/sh",
            "-c",
            &line,
        ]);
    }

    fn sees(&self, name: &str) -> String {
        self.server.run(&["capture-pane", "-p", "-S", "-200", "-t", name])
    }

    async fn awaits(&self, name: &str, text: &str) {
        eventually(&format!("{name} shows {text}"), async || {
            self.sees(name).contains(text).then_some(())
        })
        .await;
    }

    fn keys(&self, name: &str, keys: &[&str]) {
        self.server.run(&[&["send-keys", "-t", name], keys].concat());
    }
}

pub async fn stands(world: &World, id: &str, state: &str, reason: &str) {
    eventually(&format!("{id} is {state}, {reason}"), async || {
        let (_, out, _) = world.run(&["events", id, "--json"]);
        let value: Value = serde_json::from_str(&out).ok()?;
        let delivery = &value["deliveries"][0];
        (delivery["state"] == state && delivery["reason"] == reason).then_some(())
    })
    .await;
}

async fn three_events_wait_for_the_person(runner: &str) {
    let mut world = world("");
    if runner == "stream" {
        stream(&world);
    }
    script(&world, json!({}));
    world.start().await;
    label(&world, "d-1").await;
    world.reaches("d-1", "delivered").await;
    let person = Person::new();
    person.types(&world, "p", "sessions attach 1");
    person.awaits("p", "? for shortcuts").await;
    person.keys("p", &["-l", "by hand"]);
    person.awaits("p", "by hand").await;
    person.keys("p", &["Enter"]);
    eventually("it is taken", async || (prompts(&world).len() == 2).then_some(())).await;
    comment(&world, "c-0", "comment 0.").await;
    // Who comes before it is known to be held waits for it.
    stands(&world, "c-0", "queued", "attached").await;
    for n in 1..3 {
        comment(&world, &format!("c-{n}"), &format!("comment {n}.")).await;
    }
    stands(&world, "c-2", "queued", "attached").await;
    let (code, _, err) = world.run(&["sessions", "attach", "1"]);
    assert_eq!(code, 1, "{err}");
    assert_eq!(prompts(&world).len(), 2, "something was dispatched beside the person");
    person.keys("p", &["-l", "/exit"]);
    person.awaits("p", "/exit").await;
    person.keys("p", &["Enter"]);
    person.awaits("p", "ended=0").await;
    for n in 0..3 {
        world.reaches(&format!("c-{n}"), "delivered").await;
    }
    // They waited together, so they are told together.
    let prompts = prompts(&world);
    assert_eq!(prompts.len(), 3);
    let at: Vec<_> = (0..3).map(|n| prompts[2].find(&format!("comment {n}.")).unwrap()).collect();
    assert!(at.is_sorted(), "{prompts:?}");
    let transcripts = transcripts(&world);
    assert_eq!(transcripts.len(), 1);
    assert!(has_one_branch(&transcripts[0].1));
}

#[tokio::test]
async fn a_person_with_another_state_waits_for_the_turn_that_runs_and_holds_events_back() {
    let mut world = world("");
    script(&world, json!({ "turnMs": 2500 }));
    world.start().await;
    label(&world, "d-1").await;
    eventually("the turn runs", async || (prompts(&world).len() == 1).then_some(())).await;
    let person = Person::new();
    let elsewhere = world.home.join("elsewhere");
    person.types_with(&world, "p", &format!("XDG_STATE_HOME={}", elsewhere.display()));
    person.awaits("p", "a turn runs: waiting for its end").await;
    person.awaits("p", "? for shortcuts").await;
    comment(&world, "c-1", "waits.").await;
    stands(&world, "c-1", "queued", "attached").await;
    person.keys("p", &["C-d"]);
    person.awaits("p", "ended=0").await;
    world.reaches("c-1", "delivered").await;
    assert!(has_one_branch(&transcripts(&world)[0].1));
}

#[tokio::test]
async fn a_person_who_attached_while_no_receiver_ran_keeps_one_with_another_state_away() {
    let mut world = world("");
    had_a_turn(&mut world).await;
    let person = Person::new();
    let elsewhere = world.home.join("elsewhere");
    person.types_with(&world, "p", &format!("XDG_STATE_HOME={}", elsewhere.display()));
    person.awaits("p", "? for shortcuts").await;
    let (code, _, err) = world.run(&["gh-webhook", "start"]);
    assert!(code == 1 && err.contains("a person at `o+r+1`"), "{err}");
    person.keys("p", &["C-d"]);
    person.awaits("p", "ended=0").await;
    world.start().await;
}

/// Makes new sessions of the world show their turns in tmux.
pub fn stream(world: &World) {
    configure(world, "tmux", "");
    let text = std::fs::read_to_string(world.config()).unwrap();
    let text = text.replace("    readyTimeoutSeconds", "    view: stream\n    readyTimeoutSeconds");
    std::fs::write(world.config(), text).unwrap();
}

#[tokio::test]
async fn three_events_wait_for_a_person_at_a_process_session_and_follow_in_order() {
    three_events_wait_for_the_person("process").await;
}

#[tokio::test]
async fn three_events_wait_for_a_person_at_a_stream_session_and_follow_in_order() {
    three_events_wait_for_the_person("stream").await;
}

#[tokio::test]
async fn a_person_waits_for_the_turn_that_runs_also_when_its_receiver_was_killed() {
    let mut world = world("");
    script(&world, json!({ "turnMs": 1500 }));
    world.start().await;
    label(&world, "d-1").await;
    eventually("the turn runs", async || (prompts(&world).len() == 1).then_some(())).await;
    world.end(Signal::KILL);
    let person = Person::new();
    person.types(&world, "p", "sessions attach 1");
    person.awaits("p", "a turn runs: waiting for its end").await;
    let turns = || {
        let (_, records) = transcripts(&world).pop().unwrap();
        records.iter().filter(|record| record["type"] == "assistant").count()
    };
    assert_eq!(turns(), 0);
    person.awaits("p", "? for shortcuts").await;
    assert_eq!(turns(), 1);
    person.keys("p", &["C-d"]);
    person.awaits("p", "ended=0").await;
}

#[tokio::test]
async fn a_killed_attach_holds_nothing_back_for_longer_than_its_agent_lives() {
    let mut world = world("");
    script(&world, json!({}));
    world.start().await;
    label(&world, "d-1").await;
    world.reaches("d-1", "delivered").await;
    let person = Person::new();
    person.types(&world, "p", "sessions attach 1");
    person.awaits("p", "? for shortcuts").await;
    // While somebody is with the agent it is nobody's left-over.
    let (_, out, _) = world.run(&["sessions", "show", "1"]);
    assert!(out.contains("human") && !out.contains("left behind"), "{out}");
    let drive = world.state_dir().join("drive");
    let lock = std::fs::read_to_string(drive.join("o+r+1.attach")).unwrap();
    let attach: i32 = lock.trim().strip_prefix("pid ").unwrap().parse().unwrap();
    let mark: Value =
        serde_json::from_slice(&std::fs::read(drive.join("o+r+1.agent.json")).unwrap()).unwrap();
    let agent = i32::try_from(mark["pid"].as_i64().unwrap()).unwrap();
    kill_process(Pid::from_raw(attach).unwrap(), Signal::KILL).unwrap();
    comment(&world, "c-1", "waits.").await;
    // The agent of the killed one still has the conversation.
    stands(&world, "c-1", "queued", "attached").await;
    // Nobody else gets it meanwhile, and nobody ends it behind the person's back.
    person.types(&world, "q", "sessions attach 1");
    person.awaits("q", &format!("still runs (pid {agent})")).await;
    person.awaits("q", "ended=1").await;
    let (code, _, err) = world.run(&["sessions", "close", "1"]);
    assert_eq!(code, 1);
    assert!(err.contains(&format!("still runs (pid {agent})")), "{err}");
    assert!(err.contains(&format!("hint: end it with `kill {agent}`, then close")), "{err}");
    let (_, out, _) = world.run(&["sessions", "show", "1"]);
    let said = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("left behind the agent of somebody who attached still runs"), "{out}");
    assert!(said.contains(&format!("(pid {agent}), and events wait for its end; `kill {agent}`")));
    assert!(drive.join("o+r+1.agent.json").exists());
    kill_process(Pid::from_raw(agent).unwrap(), Signal::KILL).unwrap();
    world.reaches("c-1", "delivered").await;
    assert!(has_one_branch(&transcripts(&world)[0].1));
}

#[tokio::test]
async fn an_agent_that_refuses_to_resume_is_told_with_what_comes_next() {
    let mut world = world("");
    script(&world, json!({}));
    world.start().await;
    label(&world, "d-1").await;
    world.reaches("d-1", "delivered").await;
    script(&world, json!({ "mode": "refuses-resume" }));
    let person = Person::new();
    person.types(&world, "p", "sessions attach 1");
    person.awaits("p", "ended=1").await;
    let seen = person.sees("p");
    assert!(seen.contains("hint: where it has the conversation no more, the next event"), "{seen}");
    assert!(seen.contains("`the-loop sessions send 'o/r#1' TEXT` is one"), "{seen}");
    // And so it is.
    script(&world, json!({}));
    std::fs::remove_dir_all(world.project.join(".fake-claude")).unwrap();
    assert_eq!(world.run(&["sessions", "send", "1", "again"]).0, 0);
    eventually("it goes on", async || {
        prompts(&world).last().is_some_and(|told| told.contains("again")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_paused_session_keeps_its_events_over_a_restart_and_takes_them_in_order() {
    for runner in ["process", "tmux"] {
        let mut world = world("");
        configure(&world, runner, "");
        script(&world, json!({}));
        world.start().await;
        label(&world, "d-1").await;
        world.reaches("d-1", "delivered").await;
        let (code, _, err) = world.run(&["sessions", "pause", "1"]);
        assert_eq!(code, 0, "{err}");
        assert!(!err.contains("no receiver runs"), "{err}");
        comment(&world, "c-1", "one.").await;
        comment(&world, "c-2", "two.").await;
        stands(&world, "c-1", "queued", "session-paused").await;
        world.end(Signal::TERM);
        world.start().await;
        stands(&world, "c-1", "queued", "session-paused").await;
        assert_eq!(prompts(&world).len(), 1);
        let (code, _, err) = world.run(&["sessions", "resume", "1"]);
        assert_eq!(code, 0, "{err}");
        world.reaches("c-2", "delivered").await;
        let prompts = prompts(&world);
        assert_eq!(prompts.len(), 2, "{prompts:?}");
        assert!(prompts[1].find("one.").unwrap() < prompts[1].find("two.").unwrap());
        let (code, _, err) = world.run(&["sessions", "resume", "1"]);
        assert_eq!(code, 0, "{err}");
        assert!(err.contains("o/r#1 is not paused: its events go on"), "{err}");
        if runner == "tmux" {
            let (_, out, _) = world.run(&["sessions", "show", "1"]);
            assert!(out.contains("\n  view           tui\n"), "{out}");
        }
    }
}

#[tokio::test]
async fn a_session_made_by_hand_takes_the_events_of_its_item_and_of_a_linked_pull_request() {
    let mut world = world("");
    script(&world, json!({}));
    let (code, _, err) = world.run(&["sessions", "register", "o/r#1"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("no receiver runs"), "{err}");
    let (code, _, err) = world.run(&["sessions", "register", "https://github.com/o/r/issues/1"]);
    assert_eq!(code, 1);
    assert!(err.contains("o/r#1 has a session already"), "{err}");
    world.start().await;
    let (code, _, err) = world.run(&["sessions", "link-pr", "1", "7"]);
    assert_eq!(code, 0, "{err}");
    let (_, out, _) = world.run(&["sessions", "show", "7", "--json"]);
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["item"], "o/r#1");
    let mut body = payload::comment("o/r", 7, "alice", "on the pull request.");
    body["issue"]["pull_request"] = json!({ "url": "https://api.github.com/repos/o/r/pulls/7" });
    world.post("c-1", "issue_comment", &body).await;
    world.reaches("c-1", "delivered").await;
    assert!(prompts(&world)[0].contains("on the pull request."));
    // What happened on the pull request does not name the issue.
    let (_, out, _) = world.run(&["sessions", "show", "1", "--json"]);
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&shown["title"], &shown["url"]), (&Value::Null, &Value::Null));
    let said = payload::comment("o/r", 1, "alice", "on the issue.");
    world.post("c-2", "issue_comment", &said).await;
    world.reaches("c-2", "delivered").await;
    let (_, out, _) = world.run(&["sessions", "show", "1", "--json"]);
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["title"], said["issue"]["title"]);
    assert_eq!(shown["url"], said["issue"]["html_url"]);
    let (code, out, _) = world.run(&["sessions", "logs", "1"]);
    assert_eq!(code, 0);
    assert!(out.contains("= done") && out.contains("(1.2 s, $0.0125)"), "{out}");
}

#[test]
fn why_no_session_can_be_registered_is_said_with_what_helps() {
    let world = world("");
    let (code, _, err) = world.run(&["sessions", "register", "o/r#1", "--cwd", "/nonexist"]);
    assert_eq!(code, 1);
    assert!(err.contains("does not exist: `/nonexist`"), "{err}");
    assert!(err.contains("hint: make it, or name another with `--cwd DIR`"), "{err}");
    let (_, _, err) = world.run(&["sessions", "register", "o/r#1", "--cwd", "/etc/passwd"]);
    assert!(err.contains("is a file: `/etc/passwd`") && err.contains("hint: "), "{err}");
    assert_eq!(world.run(&["sessions", "register", "o/r#1"]).0, 0);
    std::fs::write(world.project.join(".the-loop/sessions/o+r+1.json"), "{").unwrap();
    let (code, _, err) = world.run(&["sessions", "register", "o/r#1"]);
    assert_eq!(code, 1);
    assert!(err.contains("entry cannot be read") && err.contains("o+r+1.json"), "{err}");
    assert!(err.contains("move it away"), "{err}");
}

#[tokio::test]
async fn why_a_change_is_not_made_is_said_alike_with_a_receiver_and_without() {
    let mut world = world("");
    let sessions = world.project.join(".the-loop/sessions");
    for item in ["o/r#1", "o/r#2", "o/r#3"] {
        assert_eq!(world.run(&["sessions", "register", item]).0, 0);
    }
    assert_eq!(world.run(&["sessions", "close", "3"]).0, 0);
    std::fs::write(sessions.join("o+r+4.json"), "{").unwrap();
    let entry = std::fs::read_to_string(sessions.join("o+r+1.json")).unwrap();
    let entry: Value = serde_json::from_str(&entry).unwrap();
    let conversation = entry["harnessSessionId"].as_str().unwrap();
    let refused: [&[&str]; 7] = [
        &["register", "o/r#1"],
        &["register", "o/r#4"],
        &["register", "o/r#5", "--session-id", conversation],
        &["pause", "3"],
        &["resume", "3"],
        &["link-pr", "1", "2"],
        &["pause", "4"],
    ];
    let said = |world: &World| refused.map(|args| world.run(&[&["sessions"], args].concat()));
    let without = said(&world);
    for ((code, _, err), args) in without.iter().zip(refused) {
        assert!(*code == 1 && err.starts_with("error: "), "{args:?}: {err}");
        assert!(err.contains("\nhint: "), "{args:?}: {err}");
    }
    world.start().await;
    assert_eq!(said(&world), without);
}

#[test]
fn a_pull_request_with_a_session_of_its_own_is_not_linked_to_another() {
    let world = world("repositories: [o/r]");
    for item in ["o/r#50", "o/r#53"] {
        assert_eq!(world.run(&["sessions", "register", item]).0, 0);
    }
    let (code, _, err) = world.run(&["sessions", "link-pr", "50", "53"]);
    assert_eq!(code, 1);
    assert!(err.contains("o/r#53 has a session of its own"), "{err}");
    let (_, out, _) = world.run(&["sessions", "show", "50", "--json"]);
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["pullRequests"], json!([]));
    let (code, _, err) = world.run(&["sessions", "link-pr", "50", "other/repo#7"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("`other/repo` is not in `routing.repositories`"), "{err}");
    let (_, _, err) = world.run(&["sessions", "link-pr", "50", "7"]);
    assert!(!err.contains("warning"), "{err}");
}

#[test]
fn a_conversation_that_the_agent_could_not_have_is_not_registered() {
    let world = world("");
    let register = |id: &str| world.run(&["sessions", "register", "o/r#1", "--session-id", id]);
    for id in ["abc", "0d4f3c8e-6d6c-4d6e-9d9a-1f2e3d4c5b6", "0d4f3c8e6d6c4d6e9d9a1f2e3d4c5b6a"] {
        let (code, _, err) = register(id);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains("is not a UUID"), "{err}");
    }
    let (code, _, err) = register("0d4f3c8e-6d6c-4d6e-9d9a-1f2e3d4c5b6a");
    assert_eq!(code, 0, "{err}");
}

#[test]
fn without_a_terminal_a_few_sessions_are_named_and_not_all() {
    let world = world("");
    for item in 1..=9 {
        assert_eq!(world.run(&["sessions", "register", &format!("o/r#{item}")]).0, 0);
    }
    let (code, out, err) = world.run(&["sessions", "attach"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.starts_with("error: there are 9 sessions: say which\n"), "{err}");
    assert_eq!(err.matches("hint: the-loop sessions attach 'o/r#").count(), 5, "{err}");
    assert!(err.ends_with("hint: `the-loop sessions list` shows all of them\n"), "{err}");
    // A hint with many names fits the terminal.
    let (_, _, err) = world.run(&["sessions", "show", "some-owner/some-repository#77"]);
    assert!(err.contains("hint: there is o/r#"), "{err}");
    assert!(err.lines().all(|line| line.chars().count() <= 80), "{err}");
}

#[tokio::test]
async fn no_session_is_made_with_the_conversation_of_another() {
    let mut world = world("repositories: [o/r]");
    let id = "0d4f3c8e-6d6c-4d6e-9d9a-1f2e3d4c5b6a";
    let upper = id.to_uppercase();
    let register = |world: &World, item: &str, id: &str, harness: &str| {
        let args = ["sessions", "register", item, "--session-id", id, "--harness", harness];
        let (code, _, err) = world.run(&args);
        (code, err)
    };
    let (code, err) = register(&world, "o/r#1", id, "claude");
    assert!(code == 0 && !err.contains("warning"), "{err}");
    let refused = |(code, err): (i32, String)| {
        let said = "error: the session of o/r#1 has the conversation `";
        assert!(code == 1 && err.to_lowercase().starts_with(&format!("{said}{id}`")), "{err}");
    };
    refused(register(&world, "o/r#2", id, "claude"));
    refused(register(&world, "o/r#2", &upper, "claude"));
    // Also while a receiver runs, and when that session is closed.
    world.start().await;
    assert_eq!(world.run(&["sessions", "close", "1"]).0, 0);
    refused(register(&world, "o/r#2", id, "claude"));
    // Another agent's conversation of the same name is another one. Nobody hears
    // of its repository.
    let (code, err) = register(&world, "o/other#2", id, "demo");
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("warning: `o/other` is not in `routing.repositories`"), "{err}");
}

#[tokio::test]
async fn a_number_picks_a_session_and_another_tmux_around_it_is_no_obstacle() {
    let mut world = World::new("defaultHarness: demo");
    world.start().await;
    for item in [1, 2] {
        let id = format!("d-{item}");
        world.post(&id, "issues", &payload::labeled("o/r", item, "alice")).await;
        world.reaches(&id, "delivered").await;
    }
    let person = Person::new();
    person.types(&world, "p", "sessions attach");
    person.awaits("p", "which one? 1-2").await;
    // A wrong key is said to be one, and it asks again.
    for wrong in ["7", "0", "x", "1x"] {
        person.keys("p", &[wrong, "Enter"]);
        let said = format!("`{wrong}` is not a number from 1 to 2 (C-d picks none)");
        person.awaits("p", &said).await;
    }
    person.types(&world, "q", "sessions attach");
    person.awaits("q", "which one? 1-2").await;
    person.keys("q", &["C-d"]);
    person.awaits("q", "error: none was picked").await;
    person.keys("p", &["2", "Enter"]);
    let clients = async |session: &str| {
        eventually("the client is there", async || {
            let out = world.tmux.run(&["list-clients", "-F", "#{session_name}"]);
            out.contains(session).then_some(())
        })
        .await;
    };
    clients("loop/o+r+1").await;
}

#[tokio::test]
async fn inside_the_same_server_the_client_moves() {
    let mut world = World::new("defaultHarness: demo");
    world.start().await;
    label(&world, "d-1").await;
    world.reaches("d-1", "delivered").await;
    // The person's own session on the agents' server, seen through another one.
    let program = env!("CARGO_BIN_EXE_the-loop");
    world.tmux.run(&["new-session", "-d", "-s", "own", "-x", "90", "-y", "20", "/bin/sh"]);
    let person = Person::new();
    let socket = world.tmux.socket.display();
    let line = format!("{} -u -S {socket} attach -t own", crate::support::tmux_path().display());
    person.server.run(&[
        "new-session",
        "-d",
        "-s",
        "p",
        "/bin/sh",
        "-c",
        &format!("unset TMUX; {line}"),
    ]);
    let client = async |name: &str| {
        eventually(&format!("the client is at {name}"), async || {
            let out = world.tmux.run(&["list-clients", "-F", "#{session_name}"]);
            (out.trim() == name).then_some(())
        })
        .await;
    };
    client("own").await;
    let command = format!(
        "cd {} && HOME={} {program} sessions attach 1",
        world.project.display(),
        world.home.display()
    );
    world.tmux.run(&["send-keys", "-t", "own", "-l", &command]);
    world.tmux.run(&["send-keys", "-t", "own", "Enter"]);
    client("loop/o+r+1").await;
}

#[tokio::test]
async fn what_a_pane_has_shown_is_there_after_its_end() {
    let mut world = World::new("defaultHarness: demo");
    world.start().await;
    label(&world, "d-1").await;
    world.reaches("d-1", "delivered").await;
    let (_, live, _) = world.run(&["sessions", "logs", "1"]);
    assert!(live.contains("Issue 1"), "{live}");
    world.run(&["sessions", "close", "1"]);
    assert!(world.sessions().is_empty());
    let (code, out, _) = world.run(&["sessions", "logs", "1"]);
    assert_eq!(code, 0);
    assert!(out.contains("Issue 1"), "{out}");
}
