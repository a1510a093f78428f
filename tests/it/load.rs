//! Many deliveries: at once, in a long queue, for one item while others flow, and
//! more than one item may have in an hour. Nothing is lost, order holds, nobody
//! waits for somebody else's queue.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;
use the_loop::base::clock::Clock;
use the_loop::base::ids::{DeliveryId, Marker, WorkItem};
use the_loop::core::outcome::{Reason, State};
use the_loop::core::routing::prompt;
use the_loop::state::inbox::{DeliveryKind, Inbox, NewDelivery, Route, RouteAction, Step};

use crate::support::{World, eventually, payload, sign};

const UNLIMITED: &str = "defaultHarness: demo\nrateLimit: 0";

fn comment(item: u64, text: &str) -> Value {
    payload::comment("o/r", item, "alice", text)
}

/// Connections on which each request is sent but for its last byte.
fn all_but_sent(world: &World, requests: &[(String, &str, Value)]) -> Vec<(TcpStream, u8)> {
    let rest = world.url().strip_prefix("http://").unwrap();
    let (address, path) = rest.split_at(rest.find('/').unwrap());
    let send = |(id, event, body): &(String, &str, Value)| {
        let body = serde_json::to_vec(body).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nx-github-event: {event}\r\n\
             x-github-delivery: {id}\r\nx-hub-signature-256: {}\r\n\r\n",
            body.len(),
            sign(&body)
        );
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let (last, most) = body.split_last().unwrap();
        stream.write_all(&[head.as_bytes(), most].concat()).unwrap();
        (stream, *last)
    };
    requests.iter().map(send).collect()
}

/// Sends them all before the first answer is read; gives how long that took.
fn at_once(streams: Vec<(TcpStream, u8)>) -> Duration {
    let begin = Instant::now();
    let mut sent = Vec::new();
    for (mut stream, last) in streams {
        stream.write_all(&[last]).unwrap();
        sent.push(stream);
    }
    let took = begin.elapsed();
    for mut stream in sent {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
    }
    took
}

/// Every delivery of an item in the order in which it was stored.
fn of_item(world: &World, item: &str) -> Vec<Value> {
    let (code, out, err) = world.run(&["events", item, "--json", "--limit", "20000"]);
    assert_eq!(code, 0, "{err}");
    let value: Value = serde_json::from_str(&out).unwrap();
    value["deliveries"].as_array().unwrap().clone()
}

#[tokio::test]
async fn ten_at_once_for_a_new_item_make_one_session_that_hears_the_rest_in_order() {
    let mut world = World::new(UNLIMITED);
    world.start().await;
    // Whatever comes first starts it: each names an item that carries the label.
    for item in 1..=3 {
        let mut requests =
            vec![(format!("{item}-0"), "issues", payload::labeled("o/r", item, "alice"))];
        for n in 1..10 {
            let body = comment(item, &format!("word-{n}."));
            requests.push((format!("{item}-{n}"), "issue_comment", body));
        }
        let streams = all_but_sent(&world, &requests);
        let took = tokio::task::spawn_blocking(move || at_once(streams)).await.unwrap();
        assert!(took < Duration::from_millis(10), "they were not at once: {took:?}");
    }
    for item in 1..=3 {
        let told = eventually("each has come to its end", async || {
            let all = of_item(&world, &format!("o/r#{item}"));
            let is_over = |d: &Value| d["state"] == "delivered" || d["state"] == "ignored";
            (all.len() == 10 && all.iter().all(is_over)).then_some(all)
        })
        .await;
        let taken = world.taken(&format!("o+r+{item}"));
        let mut words = Vec::new();
        for delivery in &told {
            let id = delivery["id"].as_str().unwrap();
            match id.strip_prefix(&format!("{item}-")).unwrap() {
                // The label starts it, or finds it started.
                "0" if delivery["state"] == "ignored" => {
                    assert_eq!(delivery["reason"], "already-armed");
                }
                "0" => words.push("Please do it.".to_owned()),
                n => {
                    assert_eq!(delivery["state"], "delivered", "{delivery}");
                    words.push(format!("word-{n}."));
                }
            }
        }
        assert_eq!(taken.len(), words.len(), "{taken:#?}");
        for (text, word) in taken.iter().zip(&words) {
            assert!(text.contains(word.as_str()), "{word} is not next in {taken:#?}");
        }
    }
    let mut sessions = world.sessions();
    sessions.sort();
    assert_eq!(sessions, ["loop/o+r+1", "loop/o+r+2", "loop/o+r+3"]);
}

/// Puts comments for an item into the inbox, `decided` about or not yet.
async fn fill(inbox: &Inbox, item: u64, numbers: std::ops::Range<usize>, decided: bool) {
    let reference: WorkItem = format!("o/r#{item}").parse().unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    let mut steps = Vec::new();
    for n in numbers {
        let id: DeliveryId = format!("fill-{item}-{n}").parse().unwrap();
        let text = format!("fill-{n}.");
        let new = NewDelivery {
            id: id.clone(),
            event: "issue_comment".to_owned(),
            body: serde_json::to_vec(&comment(item, &text)).unwrap(),
            kind: DeliveryKind::Github,
        };
        let inbox = inbox.clone();
        // Those who wait are let in in their order.
        tasks.spawn(async move { inbox.accept(new).await.unwrap() });
        let marker = Marker::new([u8::try_from(n % 251).unwrap(); 16]);
        let route = Route {
            item: reference.clone(),
            slug: reference.slug(),
            prompt: prompt::render_local(&text, &reference, &marker),
            marker,
            start: false,
            url: None,
            action: RouteAction::Deliver,
            now: false,
        };
        let (state, reason) = (State::Queued, Reason::Matched);
        steps.push(Step { delivery: id, state, reason, detail: None, route: Some(route) });
    }
    tasks.join_all().await;
    if decided {
        inbox.record(steps).await.unwrap();
    }
}

fn resident(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

#[tokio::test]
async fn ten_thousand_that_wait_for_one_session_hold_up_no_other_and_survive_a_restart() {
    const MANY: usize = 10_000;
    let mut world = World::new(UNLIMITED);
    world.start().await;
    for item in [1, 2] {
        let id = format!("start-{item}");
        world.post(&id, "issues", &payload::labeled("o/r", item, "alice")).await;
        world.reaches(&id, "delivered").await;
    }
    assert_eq!(world.run(&["sessions", "pause", "o/r#1"]).0, 0);
    assert!(world.end(rustix::process::Signal::TERM).success());
    let inbox = Inbox::open(&world.state_dir().join("inbox.db"), Clock::System).unwrap();
    fill(&inbox, 1, 0..MANY - 500, true).await;
    fill(&inbox, 1, MANY - 500..MANY, false).await;
    inbox.close();

    // They are taken up, and the last ones routed, while others come in and are told.
    world.start().await;
    world.post("early", "issue_comment", &comment(2, "early.")).await;
    world.reaches("early", "delivered").await;
    let reader = Inbox::read_only(&world.state_dir().join("inbox.db")).unwrap();
    let waiting = || reader.counts().unwrap().get(&State::Queued).copied().unwrap_or(0);
    eventually("all are queued", async || (waiting() == MANY as u64).then_some(())).await;

    // The next one finds them queued, and goes on with them.
    world.end(rustix::process::Signal::KILL);
    world.start().await;
    world.post("late", "issue_comment", &comment(2, "late.")).await;
    world.reaches("late", "delivered").await;
    assert_eq!(waiting(), MANY as u64);
    let resident = resident(world.pid());
    assert!(resident < 100, "{resident} MB with {MANY} queued (a debug build)");
    // What becomes of the oldest is seen by whoever follows the item, and no other.
    let mut follow = world
        .command(&["events", "--follow", "o/r#1"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(world.run(&["sessions", "resume", "o/r#1"]).0, 0);
    world.post("other", "issue_comment", &comment(2, "other.")).await;
    let out = BufReader::new(follow.stdout.take().unwrap());
    let lines = tokio::task::spawn_blocking(move || {
        out.lines().map_while(Result::ok).take(8).collect::<Vec<_>>()
    });
    let lines = lines.await.unwrap();
    follow.kill().unwrap();
    follow.wait().unwrap();
    for pair in lines.chunks(2) {
        assert!(pair[1].starts_with("  fill-1-"), "{lines:#?}");
    }
    eventually("the queue moves", async || (world.taken("o+r+1").len() >= 4).then_some(())).await;
    let taken = world.taken("o+r+1");
    for (n, text) in taken.iter().skip(1).enumerate() {
        assert!(text.contains(&format!("fill-{n}.")), "{n} in {text}");
    }
    // A close ends what waits, and each of them says so.
    let mut closed = payload::closed("o/r", 1, "alice");
    closed["issue"]["state"] = "closed".into();
    world.post("close", "issues", &closed).await;
    eventually("nothing waits", async || (waiting() == 0).then_some(())).await;
    let counts = reader.counts().unwrap();
    let ended = counts[&State::Failed] + counts[&State::Delivered];
    // The two labels, and three words to the other.
    assert_eq!(ended, MANY as u64 + 5, "{counts:?}");
}

#[tokio::test]
async fn an_item_with_a_thousand_events_does_not_hold_up_the_others() {
    let mut world = World::new(UNLIMITED);
    world.start().await;
    for item in [1, 2] {
        let id = format!("start-{item}");
        world.post(&id, "issues", &payload::labeled("o/r", item, "alice")).await;
        world.reaches(&id, "delivered").await;
    }
    let reader = Inbox::read_only(&world.state_dir().join("inbox.db")).unwrap();
    for n in 0..1000 {
        let status =
            world.post(&format!("m-{n}"), "issue_comment", &comment(1, &format!("m-{n}."))).await;
        assert_eq!(status, 202);
        if n % 250 == 0 {
            let body = comment(2, &format!("other-{n}."));
            world.post(&format!("other-{n}"), "issue_comment", &body).await;
        }
    }
    for n in [0, 250, 500, 750] {
        world.reaches(&format!("other-{n}"), "delivered").await;
    }
    let waiting = reader.counts().unwrap()[&State::Queued];
    assert!(waiting > 500, "the others waited for it: {waiting} are left");
    assert_eq!(world.taken("o+r+2").len(), 5);
    let taken = world.taken("o+r+1");
    assert!(taken.len() > 2, "it is told meanwhile");
    for (n, text) in taken.iter().skip(1).enumerate() {
        assert!(text.contains(&format!("m-{n}.")), "{n} in {text}");
    }
}

/// Six events, of which three may come: posted one after the other, or together.
async fn too_many(at_once: bool) {
    let mut world = World::new("defaultHarness: demo\nrateLimit: 3");
    world.start().await;
    world.post("s", "issues", &payload::labeled("o/r", 1, "alice")).await;
    for n in 1..=5 {
        let body = comment(1, &format!("word-{n}."));
        world.post(&format!("c-{n}"), "issue_comment", &body).await;
        if n == 2 && !at_once {
            for id in ["s", "c-1", "c-2"] {
                world.reaches(id, "delivered").await;
            }
        }
    }
    // Another item's are not counted, and not held.
    world.post("other", "issues", &payload::labeled("o/r", 2, "alice")).await;
    world.reaches("other", "delivered").await;
    let shown = |world: &World| {
        let (_, out, _) = world.run(&["sessions", "show", "o/r#1", "--json"]);
        serde_json::from_str::<Value>(&out).unwrap()
    };
    // Also when it comes while the agent is being started.
    let before = shown(&world);
    assert_eq!(before["status"], "paused");
    assert!(before.to_string().contains("routing.rateLimit"), "{before}");
    assert!(world.receiver_log().contains("too many events within an hour"));
    let (_, out, _) = world.run(&["events", "c-3"]);
    assert!(out.contains("rate-limited"), "{out}");
    assert!(world.taken("o+r+1").len() <= 3);
    // The pause outlives the receiver; a person lets them in, and they count anew.
    world.end(rustix::process::Signal::KILL);
    world.start().await;
    assert_eq!(shown(&world)["status"], "paused");
    assert_eq!(world.run(&["sessions", "resume", "o/r#1"]).0, 0);
    for n in 3..=5 {
        world.reaches(&format!("c-{n}"), "delivered").await;
    }
    let taken = world.taken("o+r+1");
    assert_eq!(taken.len(), 6);
    for n in 1..=5 {
        assert!(taken[n].contains(&format!("word-{n}.")), "{taken:#?}");
    }
}

#[tokio::test]
async fn more_events_than_an_hour_may_have_pause_the_session_and_are_kept() {
    too_many(false).await;
}

#[tokio::test]
async fn a_pause_for_too_many_events_stays_while_the_agent_starts() {
    too_many(true).await;
}

/// How often the threads of a process have gone to sleep.
fn switches(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |task: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let line = text.lines().find(|line| line.starts_with("voluntary_ctxt_switches:"));
        line.unwrap().split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    tasks.map(of).sum()
}

#[tokio::test]
async fn a_receiver_with_live_sessions_and_nothing_to_do_sleeps() {
    if !std::path::Path::new("/proc/self/task").exists() {
        return;
    }
    let mut world = World::new(UNLIMITED);
    world.start().await;
    for item in [1, 2] {
        let id = format!("start-{item}");
        world.post(&id, "issues", &payload::labeled("o/r", item, "alice")).await;
        world.reaches(&id, "delivered").await;
    }
    let quiet = async || {
        let before = switches(world.pid());
        tokio::time::sleep(Duration::from_secs(3)).await;
        (switches(world.pid()) - before <= 3).then_some(())
    };
    eventually("it wakes at most once a second", quiet).await;
}
