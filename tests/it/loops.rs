//! What a person or an agent says on GitHub and what comes of it, end to end:
//! control lines, an agent that answers its own comments, a registry that is
//! swept away, a delivery that is routed again.

use rustix::process::Signal;
use serde_json::json;
use the_loop::state::spool;

use crate::support::{World, eventually, payload};

const DEMO: &str = "defaultHarness: demo";
const SLUG: &str = "o+r+1";

async fn started(world: &mut World) {
    world.start().await;
    world.post("s", "issues", &payload::labeled("o/r", 1, "alice")).await;
    world.reaches("s", "delivered").await;
}

async fn says(world: &World, id: &str, text: &str, state: &str) -> String {
    let comment = payload::comment("o/r", 1, "alice", text);
    assert_eq!(world.post(id, "issue_comment", &comment).await, 202);
    world.reaches(id, state).await
}

fn status(world: &World) -> String {
    let (_, out, _) = world.run(&["sessions", "show", "o/r#1", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    value["status"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_listed_user_starts_pauses_resumes_and_stops_by_comment() {
    let mut world = World::new(DEMO);
    world.start().await;
    let start = payload::comment("o/r", 1, "alice", "the-loop start");
    let mut start = start;
    start["issue"]["labels"] = json!([]);
    world.post("a", "issue_comment", &start).await;
    world.reaches("a", "delivered").await;
    assert_eq!(world.sessions(), ["loop/o+r+1"]);
    says(&world, "b", "the-loop pause", "done").await;
    assert_eq!(status(&world), "paused");
    says(&world, "c", "the-loop resume", "done").await;
    assert_eq!(status(&world), "active");
    says(&world, "d", "the-loop stop", "done").await;
    eventually("it is closed", async || world.sessions().is_empty().then_some(())).await;
    assert_eq!(world.taken(SLUG).len(), 1);
}

/// GitHub's side of an agent that answers every prompt with an unmarked comment
/// under its operator's login, and writes what it does in its transcript.
struct Chatty {
    transcript: std::path::PathBuf,
    answered: usize,
}

impl Chatty {
    fn new(world: &World) -> Self {
        let transcript = world.home.join("transcript.jsonl");
        std::fs::write(&transcript, "").unwrap();
        let spool = world.state_dir().join("spool").join(SLUG);
        let start = json!({
            "hook_event_name": "SessionStart", "source": "resume",
            "session_id": "0b8f6c1e-1111-4222-8333-444455556666", "transcript_path": transcript,
        });
        spool::write(&spool, &start).unwrap();
        Self { transcript, answered: 0 }
    }

    /// Answers every prompt that was not answered yet.
    async fn answer(&mut self, world: &World, writes_it_down: bool) {
        let taken = world.taken(SLUG).len();
        for n in self.answered..taken {
            let text = format!("I have done \"{n}\" of it.");
            if writes_it_down {
                let record = json!({
                    "type": "assistant", "timestamp": jiff::Timestamp::now().to_string(),
                    "message": { "role": "assistant", "content": [{
                        "type": "tool_use", "name": "Bash",
                        "input": { "command": format!("gh issue comment 1 --body {text:?}") },
                    }] },
                });
                let mut file =
                    std::fs::OpenOptions::new().append(true).open(&self.transcript).unwrap();
                std::io::Write::write_all(&mut file, format!("{record}\n").as_bytes()).unwrap();
            }
            let comment = payload::comment("o/r", 1, "alice", &text);
            assert_eq!(world.post(&format!("answer-{n}"), "issue_comment", &comment).await, 202);
        }
        self.answered = taken;
    }
}

#[tokio::test]
async fn an_agent_that_answers_every_event_without_a_marker_stops_after_one() {
    let mut world = World::new(DEMO);
    started(&mut world).await;
    let mut chatty = Chatty::new(&world);
    chatty.answer(&world, true).await;
    let events = world.reaches("answer-0", "ignored").await;
    assert!(events.contains("agents-own-words"), "{events}");
    chatty.answer(&world, true).await;
    assert_eq!((chatty.answered, world.taken(SLUG).len()), (1, 1));
    // A person who writes the same words twice is heard twice: what we typed
    // stands in records of the user's.
    let record = json!({
        "type": "user", "timestamp": jiff::Timestamp::now().to_string(),
        "message": { "role": "user", "content": "try again" },
    });
    std::fs::write(&chatty.transcript, format!("{record}\n")).unwrap();
    says(&world, "x-1", "try again", "delivered").await;
    says(&world, "x-2", "try again", "delivered").await;
    assert_eq!(world.taken(SLUG).len(), 3);
}

#[tokio::test]
async fn a_swept_registry_is_written_again_by_a_running_receiver_and_by_the_next_one() {
    let mut world = World::new(DEMO);
    started(&mut world).await;
    let registry = world.project.join(".the-loop/sessions");
    let conversation = |world: &World| {
        let (_, out, _) = world.run(&["sessions", "show", "o/r#1", "--json"]);
        let value: serde_json::Value = serde_json::from_str(&out).unwrap();
        value["harnessSessionId"].as_str().unwrap().to_owned()
    };
    let before = conversation(&world);
    std::fs::remove_dir_all(&registry).unwrap();
    says(&world, "a", "still there?", "delivered").await;
    assert_eq!(conversation(&world), before);
    // While none runs, and with the agent alive.
    assert!(world.end(Signal::TERM).success());
    std::fs::remove_dir_all(&registry).unwrap();
    world.start().await;
    says(&world, "b", "and now?", "delivered").await;
    assert_eq!(conversation(&world), before);
    assert_eq!(world.taken(SLUG).len(), 3);
    assert_eq!(world.sessions(), ["loop/o+r+1"]);
}

/// Git in the project.
fn git(world: &World, args: &[&str]) {
    assert!(try_git(world, args), "{args:?}");
}

fn try_git(world: &World, args: &[&str]) -> bool {
    let output = std::process::Command::new("git")
        .env_clear()
        .envs([("PATH", world.path.as_ref()), ("HOME", world.home.as_os_str())])
        .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
        .args(args)
        .current_dir(&world.project)
        .output()
        .unwrap();
    output.status.success()
}

#[tokio::test]
async fn git_clean_while_the_receiver_runs_loses_nothing() {
    let mut world = World::new(DEMO);
    git(&world, &["init", "-q"]);
    std::fs::write(world.project.join(".gitignore"), ".the-loop/sessions/\n").unwrap();
    git(&world, &["add", "."]);
    git(&world, &["commit", "-qm", "x"]);
    started(&mut world).await;
    for n in 0..6 {
        let comment = payload::comment("o/r", 1, "alice", &format!("word-{n}."));
        let id = format!("c-{n}");
        // What is written again meanwhile is in its way.
        let clean = async { while !try_git(&world, &["clean", "-qfdx"]) {} };
        let (status, ()) = tokio::join!(world.post(&id, "issue_comment", &comment), clean);
        assert_eq!(status, 202);
    }
    for n in 0..6 {
        world.reaches(&format!("c-{n}"), "delivered").await;
    }
    // The configuration too, which the running receiver has read already.
    git(&world, &["rm", "-q", "--cached", ".the-loop/config.yaml"]);
    git(&world, &["commit", "-qm", "y"]);
    let config = std::fs::read(world.config()).unwrap();
    eventually("it is swept", async || try_git(&world, &["clean", "-qfdx"]).then_some(())).await;
    let comment = payload::comment("o/r", 1, "alice", "word-6.");
    assert_eq!(world.post("c-6", "issue_comment", &comment).await, 202);
    // Those that only talk to the receiver find it all the same.
    world.reaches("c-6", "delivered").await;
    let (code, out, err) = world.run(&["gh-webhook", "status"]);
    assert!(code == 0 && out.contains("running"), "{out}{err}");
    assert!(err.contains("the configuration is gone"), "{err}");
    let (code, _, err) = world.run(&["gh-webhook", "reload"]);
    assert!(code != 0 && err.contains("there is no configuration"), "{err}");
    std::fs::write(world.config(), config).unwrap();
    let taken = world.told(SLUG);
    for n in 0..7 {
        assert!(taken[n + 1].contains(&format!("word-{n}.")), "{taken:#?}");
    }
    assert_eq!(world.sessions(), ["loop/o+r+1"]);
    assert_eq!(status(&world), "active");
}

#[tokio::test]
async fn what_was_registered_and_linked_by_hand_is_there_after_a_sweep() {
    let mut world = World::new(DEMO);
    let registry = world.project.join(".the-loop/sessions");
    world.start().await;
    assert_eq!(world.run(&["sessions", "register", "o/r#1"]).0, 0);
    assert!(world.end(Signal::TERM).success());
    // The second while no receiver runs, as is the link.
    for args in [["register", "o/r#2", ""], ["link-pr", "o/r#1", "o/r#70"], ["pause", "o/r#2", ""]]
    {
        let args: Vec<_> = args.into_iter().filter(|arg| !arg.is_empty()).collect();
        let (code, _, err) = world.run(&[&["sessions"], &args[..]].concat());
        assert_eq!(code, 0, "{err}");
    }
    // One that a person removes stays removed.
    assert_eq!(world.run(&["sessions", "register", "o/r#3"]).0, 0);
    std::fs::remove_file(registry.join("o+r+3.json")).unwrap();
    world.start().await;
    assert!(world.end(Signal::TERM).success());
    let entry = |name: &str| std::fs::read_to_string(registry.join(name)).unwrap();
    let before = (entry("o+r+1.json"), entry("o+r+2.json"));
    std::fs::remove_dir_all(&registry).unwrap();
    world.start().await;
    assert_eq!((entry("o+r+1.json"), entry("o+r+2.json")), before);
    assert!(!registry.join("o+r+3.json").exists());
    says(&world, "a", "go on", "delivered").await;
    assert_eq!(world.sessions(), ["loop/o+r+1"]);
    // Without the copies, what was told once is known by it.
    assert!(world.end(Signal::TERM).success());
    std::fs::remove_dir_all(&registry).unwrap();
    std::fs::remove_dir_all(world.state_dir().join("sessions")).unwrap();
    world.start().await;
    says(&world, "b", "and on", "delivered").await;
    assert_eq!(world.taken(SLUG).len(), 2);
    assert_eq!(world.sessions(), ["loop/o+r+1"]);
}

/// Ends the receiver in the background, whatever happens.
struct Detached<'a>(&'a World);

impl Drop for Detached<'_> {
    fn drop(&mut self) {
        self.0.run(&["gh-webhook", "stop"]);
    }
}

#[tokio::test]
async fn a_restart_takes_over_and_one_that_could_not_start_ends_nothing() {
    let mut world = World::new(DEMO);
    started(&mut world).await;
    let pid = |world: &World| {
        let (_, out, _) = world.run(&["gh-webhook", "status", "--json"]);
        let value: serde_json::Value = serde_json::from_str(&out).unwrap_or_default();
        (value["pid"].as_u64(), value["url"].as_str().unwrap_or_default().to_owned())
    };
    let first = pid(&world).0;
    let config = std::fs::read_to_string(world.config()).unwrap();
    std::fs::write(world.config(), "routing: [").unwrap();
    let (code, _, err) = world.run(&["gh-webhook", "restart"]);
    assert_eq!(code, 1, "{err}");
    std::fs::write(world.config(), config.replace("Harness: demo", "Harness: claude")).unwrap();
    let (code, _, err) = world.run(&["gh-webhook", "restart"]);
    assert!(code == 1 && err.contains("claude"), "{err}");
    std::fs::write(world.config(), config).unwrap();
    assert_eq!(pid(&world).0, first);

    let (code, _, err) = world.run(&["gh-webhook", "restart"]);
    assert_eq!(code, 0, "{err}");
    let guard = Detached(&world);
    // A server that plain `tmux ls` does not show is named, as it is in the foreground.
    let server = format!("tmux -S {}", world.tmux.socket.display());
    assert!(err.contains(&format!("Sessions are in tmux ({server})")), "{err}");
    let (_, status, _) = world.run(&["gh-webhook", "status"]);
    assert!(status.contains(&format!("tmux server    {server}")), "{status}");
    let (second, url) = pid(&world);
    assert!(second.is_some() && second != first, "{second:?}");
    let comment = payload::comment("o/r", 1, "alice", "after it");
    let body = serde_json::to_vec(&comment).unwrap();
    assert_eq!(crate::support::post(&url, "a", "issue_comment", body).await, 202);
    world.reaches("a", "delivered").await;
    assert_eq!(world.sessions(), ["loop/o+r+1"], "the agent went on");
    // Also where none runs.
    assert_eq!(world.run(&["gh-webhook", "stop"]).0, 0);
    assert_eq!(world.run(&["gh-webhook", "restart"]).0, 0);
    let third = pid(&world).0;
    assert!(third.is_some() && third != second, "{third:?}");
    drop(guard);
    assert_eq!(pid(&world).0, None);
    assert!(world.wait_for_end().success());
}

#[tokio::test]
async fn a_delivery_is_routed_again_on_request_and_explained_without_acting() {
    let mut world = World::new(DEMO);
    let (code, _, err) = world.run(&["gh-webhook", "replay", "nobody"]);
    assert_eq!((code, err.contains("no delivery `nobody`")), (1, true), "{err}");
    started(&mut world).await;
    let comment = payload::comment("o/r", 1, "mallory", "let me in");
    world.post("m", "issue_comment", &comment).await;
    let events = world.reaches("m", "ignored").await;
    assert!(events.contains("add the sender to `routing.authorizedUsers`"), "{events}");

    let (code, out, _) = world.run(&["gh-webhook", "replay", "m", "--dry-run"]);
    assert_eq!(code, 0);
    assert!(out.contains("sender-not-authorized") && out.contains("To change it: "), "{out}");
    let (code, out, _) = world.run(&["gh-webhook", "replay", "s", "--dry-run"]);
    assert_eq!(code, 0);
    // What armed it is told with title and body, though the session lives.
    assert!(out.starts_with("deliver  matched") && out.contains("loop/o+r+1"), "{out}");
    assert!(out.contains("Please do it."), "{out}");
    let (code, _, err) = world.run(&["gh-webhook", "replay", "nobody", "--dry-run"]);
    assert_eq!((code, err.contains("no delivery `nobody`")), (1, true), "{err}");

    // Beside a file that says otherwise, or is broken.
    let good = std::fs::read_to_string(world.config()).unwrap();
    std::fs::write(world.config(), good.replace("[alice]", "[alice, mallory]")).unwrap();
    let (code, out, err) = world.run(&["gh-webhook", "replay", "m", "--dry-run"]);
    assert!(code == 0 && out.starts_with("deliver"), "{out}");
    for part in [
        "still runs with another configuration",
        "  ignore sender-not-authorized\n  The sender is not in `routing.authorizedUsers`.\n",
        "  routing.authorizedUsers: [alice] → [alice, mallory]\n",
        "`the-loop gh-webhook reload` lets it apply",
    ] {
        assert!(err.contains(part), "{part}: {err}");
    }
    assert!(err.lines().all(|line| line.chars().count() <= 80), "{err}");
    // Where the difference changes nothing for it, that is said; where only
    // remarks differ, nothing is.
    let (code, _, err) = world.run(&["gh-webhook", "replay", "s", "--dry-run"]);
    assert!(code == 0 && err.contains("would decide the same"), "{err}");
    std::fs::write(world.config(), format!("# A remark.\n{good}")).unwrap();
    let (code, out, err) = world.run(&["gh-webhook", "replay", "m", "--dry-run"]);
    assert!(code == 0 && out.starts_with("ignore") && err.is_empty(), "{err}");
    std::fs::write(world.config(), "routing: [").unwrap();
    let (code, out, err) = world.run(&["events", "m"]);
    assert!(code == 0 && out.contains("sender-not-authorized"), "{err}");
    let (code, _, err) = world.run(&["gh-webhook", "replay", "m"]);
    assert_eq!(code, 0, "{err}");
    world.reaches("m", "ignored").await;
    std::fs::write(world.config(), good).unwrap();

    // With mallory listed: the receiver is started again, and asked again.
    assert!(world.end(Signal::TERM).success());
    world.configure(DEMO, "");
    let text = std::fs::read_to_string(world.config()).unwrap();
    std::fs::write(world.config(), text.replace("[alice]", "[alice, mallory]")).unwrap();
    let (code, _, err) = world.run(&["gh-webhook", "replay", "m"]);
    assert_eq!(code, 0, "{err}");
    world.start().await;
    world.reaches("m", "delivered").await;
    let (code, _, err) = world.run(&["gh-webhook", "replay", "m"]);
    assert_eq!(code, 0, "{err}");
    eventually("it was told once more", async || (world.taken(SLUG).len() == 3).then_some(()))
        .await;
    let (code, _, err) = world.run(&["gh-webhook", "replay", "nobody"]);
    assert_eq!(code, 1, "{err}");
}

#[tokio::test]
async fn the_figures_are_on_the_control_socket_and_where_the_configuration_says() {
    let mut world = World::new(DEMO);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    world.configure(DEMO, &format!("metrics:\n  listen: 127.0.0.1:{port}\n"));
    started(&mut world).await;
    let socket = world.state_dir().join("control.sock");
    let (status, text) =
        the_loop::base::http::request_unix(&socket, "GET", "/metrics", Vec::new()).await.unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(status, 200);
    assert!(text.contains("the_loop_deliveries{state=\"delivered\"} 1\n"), "{text}");
    assert!(text.contains("# TYPE the_loop_commits_total counter\n"), "{text}");
    let get = |port: u16, path: &str| {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let answer = tokio::task::spawn_blocking(move || get(port, "/metrics")).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("the_loop_info"), "{answer}");
    // The public port knows nothing of it.
    let address = world.url().trim_start_matches("http://").split('/').next().unwrap();
    let public: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
    let answer = tokio::task::spawn_blocking(move || get(public, "/metrics")).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
}

#[tokio::test]
async fn what_is_refused_and_that_nothing_can_be_stored_is_said_by_status() {
    let mut world = World::new(DEMO);
    started(&mut world).await;
    let address = world.url().trim_start_matches("http://").split('/').next().unwrap().to_owned();
    for _ in 0..3 {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        write!(
            stream,
            "POST /gh-webhook HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n\
             x-hub-signature-256: sha256={}\r\n\r\n{{}}",
            "0".repeat(64)
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    }
    let (code, out, _) = world.run(&["gh-webhook", "status"]);
    assert_eq!(code, 0);
    assert!(out.contains("refused        3 with 401 (wrong signature), last 20"), "{out}");
    assert!(out.contains("secret"), "{out}");
    assert_eq!(world.receiver_log().matches("a request was refused").count(), 1);
    let socket = world.state_dir().join("control.sock");
    let (_, text) =
        the_loop::base::http::request_unix(&socket, "GET", "/metrics", Vec::new()).await.unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("the_loop_refused_requests_total{status=\"401\"} 3\n"), "{text}");

    std::fs::remove_file(world.state_dir().join("inbox.db")).unwrap();
    let (code, out, _) = world.run(&["gh-webhook", "status"]);
    assert!(code == 1 && out.contains("stores         nothing now"), "{out}");
    let (code, out, err) = world.run(&["events"]);
    assert!(code == 1 && out.is_empty() && err.contains("are gone"), "{err}");
}

#[tokio::test]
async fn events_can_be_followed_and_bounded_in_time() {
    use std::io::{BufRead as _, BufReader};
    let mut world = World::new(DEMO);
    started(&mut world).await;
    let (code, out, _) = world.run(&["events", "--since", "1h"]);
    assert_eq!((code, out.contains("  s  issues")), (0, true), "{out}");
    let (_, out, _) = world.run(&["events", "--since", "2199-01-01T00:00:00Z"]);
    assert_eq!(out, "");
    // As it is printed: `run` joins what was broken.
    let refused = world.command(&["events", "--since", "soon"]).output().unwrap();
    let err = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && err.contains("'soon'"), "{err}");
    assert!(err.lines().all(|line| line.chars().count() <= 80), "{err}");
    let mut child = world
        .command(&["events", "--follow"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    // It shows what happens from now on; when it has begun is not said.
    let mut n = 0;
    let lines =
        std::thread::spawn(move || out.lines().map_while(Result::ok).take(2).collect::<Vec<_>>());
    while !lines.is_finished() {
        n += 1;
        says(&world, &format!("f-{n}"), "hello", "delivered").await;
        assert!(n < 50);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let lines = lines.join().unwrap();
    assert!(lines[0].contains("o/r#1") && lines[1].trim().starts_with("f-"), "{lines:?}");
}

#[tokio::test]
async fn followed_events_are_an_object_in_each_line() {
    use std::io::{BufRead as _, BufReader};
    let mut world = World::new(DEMO);
    started(&mut world).await;
    let mut child = world
        .command(&["events", "--follow", "--json", "github.com/o/r/issues/1"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let ends = |line: &String| line.contains("\"delivered\"");
    let lines = std::thread::spawn(move || {
        let mut lines = Vec::new();
        for line in out.lines().map_while(Result::ok) {
            lines.push(line);
            if lines.iter().any(ends) {
                break;
            }
        }
        lines
    });
    let mut n = 0;
    while !lines.is_finished() {
        n += 1;
        says(&world, &format!("f-{n}"), "two\nlines", "delivered").await;
        assert!(n < 50);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let lines: Vec<serde_json::Value> =
        lines.join().unwrap().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = lines.last().unwrap();
    assert_eq!((&last["schema"], &last["item"]), (&1.into(), &"github:o/r#1".into()));
    assert_eq!((&last["event"], &last["session"]), (&"issue_comment".into(), &SLUG.into()));
    assert!(last["id"].as_str().unwrap().starts_with("f-"), "{last}");
    for name in ["kind", "url", "receivedAt", "at", "reason", "explanation"] {
        assert!(last[name].is_string(), "{name} in {last}");
    }
    assert!(last.get("detail").is_some(), "{last}");
}
