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

#[tokio::test]
async fn a_delivery_is_routed_again_on_request_and_explained_without_acting() {
    let mut world = World::new(DEMO);
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
    assert!(out.contains("already-armed") && out.contains("loop/o+r+1"), "{out}");
    let (code, _, err) = world.run(&["gh-webhook", "replay", "nobody", "--dry-run"]);
    assert_eq!((code, err.contains("no delivery `nobody`")), (1, true), "{err}");

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
async fn ten_deliveries_for_a_new_item_at_once_make_one_session_that_hears_them_in_order() {
    let mut world = World::new(DEMO);
    world.start().await;
    let labeled = payload::labeled("o/r", 1, "alice");
    assert_eq!(world.post("n-0", "issues", &labeled).await, 202);
    let bodies: Vec<_> =
        (1..10).map(|n| payload::comment("o/r", 1, "alice", &format!("word-{n}."))).collect();
    for (n, body) in bodies.iter().enumerate() {
        assert_eq!(world.post(&format!("n-{}", n + 1), "issue_comment", body).await, 202);
    }
    for n in 0..10 {
        world.reaches(&format!("n-{n}"), "delivered").await;
    }
    assert_eq!(world.sessions(), ["loop/o+r+1"]);
    let taken = world.told(SLUG);
    assert!(taken[0].contains("start of work"));
    let order: Vec<_> = (1..10)
        .map(|n| taken.iter().position(|text| text.contains(&format!("word-{n}."))))
        .collect();
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{taken:#?}");
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
async fn events_can_be_followed_and_bounded_in_time() {
    use std::io::{BufRead as _, BufReader};
    let mut world = World::new(DEMO);
    started(&mut world).await;
    let (code, out, _) = world.run(&["events", "--since", "1h"]);
    assert_eq!((code, out.contains("  s  issues")), (0, true), "{out}");
    let (_, out, _) = world.run(&["events", "--since", "2199-01-01T00:00:00Z"]);
    assert_eq!(out, "");
    assert_eq!(world.run(&["events", "--since", "soon"]).0, 2);
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
