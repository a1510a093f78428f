//! The inbox on a real file: what is promised about crashes, other processes,
//! full disks and foreign files.

mod damage;
mod foreign;
mod formats;
mod retention;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::Connection;
use tempfile::TempDir;
use the_loop::base::clock::Clock;
use the_loop::base::ids::{DeliveryId, Marker, WorkItem};
use the_loop::core::outcome::{Reason, State};
use the_loop::state::inbox::{
    About, Accepted, DeliveryKind, Inbox, InboxError, Keep, NewDelivery, Replayed, Route,
    RouteAction, Step,
};

use crate::support::noise;

struct Home {
    dir: TempDir,
    clock: Clock,
}

impl Home {
    fn new() -> Self {
        let clock = Clock::manual("2026-11-29T12:00:00Z".parse().unwrap());
        Self { dir: tempfile::tempdir().unwrap(), clock }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("inbox.db")
    }

    fn open(&self) -> Inbox {
        Inbox::open(&self.path(), self.clock.clone()).unwrap()
    }

    fn at(&self, time: &str) -> Timestamp {
        let time = time.parse().unwrap();
        self.clock.set(time);
        time
    }
}

fn id(text: &str) -> DeliveryId {
    text.parse().unwrap()
}

fn item(text: &str) -> WorkItem {
    text.parse().unwrap()
}

fn new(name: &str) -> NewDelivery {
    NewDelivery {
        id: id(name),
        event: "issues".to_owned(),
        body: br#"{"action":"opened"}"#.to_vec(),
        kind: DeliveryKind::Github,
    }
}

fn step(name: &str, state: State, reason: Reason) -> Step {
    Step { delivery: id(name), state, reason, detail: None, route: None }
}

fn route(to: &str) -> Route {
    Route {
        item: item(to),
        slug: item(to).slug(),
        marker: Marker::new([7; 16]),
        prompt: "read this".to_owned(),
        start: true,
        url: Some(format!("https://github.com/{}", to.replace('#', "/issues/"))),
        action: RouteAction::Deliver,
        now: false,
    }
}

fn queue(name: &str, to: &str) -> Step {
    Step { route: Some(route(to)), ..step(name, State::Queued, Reason::Armed) }
}

#[tokio::test]
async fn a_delivery_is_stored_byte_for_byte_and_once() {
    let home = Home::new();
    let inbox = home.open();
    let body: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let delivery = NewDelivery { body: body.clone(), ..new("a") };
    assert_eq!(inbox.accept(delivery.clone()).await.unwrap(), Accepted::New);
    assert_eq!(inbox.accept(delivery).await.unwrap(), Accepted::Repeat);
    let stored = inbox.to_route(10).unwrap();
    assert_eq!(stored.len(), 1);
    assert_eq!(stored[0].body, body);
    assert_eq!(stored[0].received_at, "2026-11-29T12:00:00Z".parse::<Timestamp>().unwrap());
    assert_eq!((stored[0].kind, stored[0].event.as_str()), (DeliveryKind::Github, "issues"));
}

#[tokio::test]
async fn a_repeat_is_known_after_a_restart_and_only_a_failed_one_comes_again() {
    let home = Home::new();
    let inbox = home.open();
    for name in ["done", "failed", "unproven"] {
        inbox.accept(new(name)).await.unwrap();
    }
    inbox
        .record(vec![
            queue("failed", "o/r#1"),
            step("failed", State::Injecting, Reason::Pasted),
            step("failed", State::Failed, Reason::NeverSeen),
            step("done", State::Done, Reason::Ping),
            step("unproven", State::Unproven, Reason::NoSignal),
        ])
        .await
        .unwrap();
    inbox.close();

    let inbox = home.open();
    assert_eq!(inbox.accept(new("done")).await.unwrap(), Accepted::Repeat);
    assert_eq!(inbox.accept(new("unproven")).await.unwrap(), Accepted::Repeat);
    assert_eq!(inbox.accept(new("failed")).await.unwrap(), Accepted::Requeued);
    assert_eq!(inbox.accept(new("failed")).await.unwrap(), Accepted::Repeat);
    let waiting = inbox.to_route(10).unwrap();
    assert_eq!(waiting.iter().map(|d| d.id.as_str()).collect::<Vec<_>>(), ["failed"]);
    let history = inbox.history(&id("failed")).unwrap().unwrap();
    assert_eq!(history.delivery.attempts, 0);
    assert_eq!(history.steps.last().unwrap().reason, Reason::Redelivered);
}

#[tokio::test]
async fn a_restart_goes_on_with_the_stored_route() {
    let home = Home::new();
    let inbox = home.open();
    for name in ["one", "two", "three"] {
        inbox.accept(new(name)).await.unwrap();
    }
    inbox.record(vec![queue("two", "o/r#2"), queue("one", "o/r#1")]).await.unwrap();
    inbox.record(vec![step("two", State::Injecting, Reason::Pasted)]).await.unwrap();
    inbox.record(vec![step("two", State::Injecting, Reason::Submitted)]).await.unwrap();
    inbox.record(vec![step("three", State::Ignored, Reason::NotArmed)]).await.unwrap();
    inbox.close();

    let inbox = home.open();
    let pending = inbox.pending(0, 9).unwrap();
    assert_eq!(pending.iter().map(|d| d.id.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(inbox.pending(pending[0].seq, 9).unwrap(), pending[1..]);
    assert_eq!(inbox.pending(0, 1).unwrap(), pending[..1]);
    let two = &pending[1];
    assert_eq!((two.state, two.reason), (State::Injecting, Reason::Submitted));
    assert_eq!(two.attempts, 1);
    assert_eq!(two.item, item("o/r#2"));
    assert_eq!(two.slug, item("o/r#2").slug());
    assert_eq!(two.marker, Marker::new([7; 16]));
    assert_eq!((two.prompt.as_str(), two.start), ("read this", true));
    assert_eq!(two.action, RouteAction::Deliver);
    assert_eq!(inbox.queued(&id("two")).unwrap().as_ref(), Some(two));
    assert_eq!(inbox.queued(&id("three")).unwrap(), None);
    assert!(inbox.to_route(10).unwrap().is_empty());
}

#[tokio::test]
async fn large_bodies_are_read_one_at_a_time() {
    let home = Home::new();
    let inbox = home.open();
    for (number, length) in [3 << 20, 2 << 20, 5, 700 << 10, 700 << 10].into_iter().enumerate() {
        let body = noise(length).into_bytes();
        inbox.accept(NewDelivery { body, ..new(&format!("d-{number}")) }).await.unwrap();
    }
    let mut read = Vec::new();
    loop {
        let batch = inbox.to_route(64).unwrap();
        if batch.is_empty() {
            break;
        }
        read.push(batch.iter().map(|d| d.id.to_string()).collect::<Vec<_>>().join(" "));
        for delivery in batch {
            let step = step(delivery.id.as_str(), State::Ignored, Reason::NotArmed);
            inbox.record(vec![step]).await.unwrap();
        }
    }
    assert_eq!(read, ["d-0", "d-1", "d-2 d-3", "d-4"]);
}

#[tokio::test]
async fn waiting_for_long_does_not_grow_the_log() {
    let home = Home::new();
    let inbox = home.open();
    inbox.accept(new("a")).await.unwrap();
    let busy = || step("a", State::Queued, Reason::AgentBusy);
    inbox.record(vec![queue("a", "o/r#1")]).await.unwrap();
    let since = home.at("2026-11-29T13:00:00Z");
    for _ in 0..100 {
        inbox.record(vec![busy()]).await.unwrap();
        home.at("2026-11-29T14:00:00Z");
    }
    let detailed = Step { detail: Some("since noon".to_owned()), ..busy() };
    inbox.record(vec![detailed.clone(), detailed]).await.unwrap();
    let history = inbox.history(&id("a")).unwrap().unwrap();
    let reasons: Vec<_> = history.steps.iter().map(|step| step.reason).collect();
    assert_eq!(reasons, [Reason::Stored, Reason::Armed, Reason::AgentBusy, Reason::AgentBusy]);
    assert_eq!(history.steps[2].at, since);
    assert_eq!(history.steps[3].detail.as_deref(), Some("since noon"));
}

#[tokio::test]
async fn reasons_that_take_turns_for_days_do_not_grow_the_log_for_ever() {
    let home = Home::new();
    let inbox = home.open();
    inbox.accept(new("a")).await.unwrap();
    for _ in 0..300 {
        let busy = step("a", State::Queued, Reason::AgentBusy);
        let draft = step("a", State::Queued, Reason::HumanDraft);
        inbox.record(vec![busy, draft]).await.unwrap();
    }
    inbox.record(vec![step("a", State::Failed, Reason::NeverSeen)]).await.unwrap();
    let steps = inbox.history(&id("a")).unwrap().unwrap().steps;
    assert_eq!(steps.len(), 201);
    assert_eq!(steps[0].reason, Reason::Stored);
    assert_eq!(steps[199].reason, Reason::HumanDraft);
    assert_eq!(steps[200].reason, Reason::NeverSeen);
}

#[tokio::test]
async fn people_find_a_delivery_by_item_by_session_and_by_page() {
    let home = Home::new();
    let inbox = home.open();
    for name in ["comment", "stranger", "other"] {
        inbox.accept(new(name)).await.unwrap();
    }
    // A comment on pull request 12 goes to the session of issue 10.
    let url = "https://github.com/o/r/pull/12#issuecomment-5";
    let about = |name: &str| About {
        delivery: id(name),
        own: None,
        item: Some(item("O/R#12")),
        url: Some(url.to_owned()),
        edits: None,
        head: None,
    };
    let ignored = step("stranger", State::Ignored, Reason::SenderNotAuthorized);
    inbox
        .record_about(
            vec![queue("comment", "o/r#10"), ignored],
            vec![about("comment"), About { url: None, ..about("stranger") }],
        )
        .await
        .unwrap();
    let names = |found: Vec<the_loop::state::inbox::Summary>| {
        found.into_iter().map(|found| found.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(inbox.of_item(&item("o/r#12"), 9).unwrap()), ["comment", "stranger"]);
    assert_eq!(names(inbox.of_item(&item("o/r#10"), 9).unwrap()), ["comment"]);
    assert_eq!(names(inbox.of_slug(&item("o/r#10").slug(), 9).unwrap()), ["comment"]);
    assert_eq!(names(inbox.by_url(url).unwrap()), ["comment"]);
    assert_eq!(names(inbox.recent(2).unwrap()), ["stranger", "other"]);
    assert_eq!(inbox.last_delivery().unwrap().unwrap().id, id("other"));
    assert_eq!(
        inbox.counts().unwrap().into_iter().collect::<Vec<_>>(),
        [(State::Received, 1), (State::Queued, 1), (State::Ignored, 1)]
    );
}

#[tokio::test]
async fn the_last_ping_is_remembered() {
    let home = Home::new();
    let inbox = home.open();
    assert_eq!(inbox.last_ping().unwrap(), None);
    let at = home.at("2026-11-29T15:00:00Z");
    inbox.accept(NewDelivery { event: "ping".to_owned(), ..new("p") }).await.unwrap();
    home.at("2026-11-29T16:00:00Z");
    inbox.accept(new("a")).await.unwrap();
    assert_eq!(inbox.last_ping().unwrap(), Some(at));
}

#[tokio::test]
async fn a_step_for_nobody_is_refused_whole_and_harms_no_other() {
    let home = Home::new();
    let inbox = home.open();
    inbox.accept(new("a")).await.unwrap();
    let steps =
        vec![step("a", State::Done, Reason::Ping), step("nobody", State::Done, Reason::Ping)];
    let (wrong, right) = tokio::join!(inbox.record(steps), inbox.accept(new("b")));
    let error = wrong.unwrap_err();
    assert!(error.to_string().contains("`nobody`"), "{error}");
    assert_eq!(right.unwrap(), Accepted::New);
    assert_eq!(inbox.counts().unwrap().into_iter().collect::<Vec<_>>(), [(State::Received, 2)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_wait_together_share_a_commit() {
    let home = Home::new();
    let inbox = home.open();
    let before = inbox.commits();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..200 {
        let inbox = inbox.clone();
        tasks.spawn(async move { inbox.accept(new(&format!("d-{number}"))).await });
    }
    while let Some(done) = tasks.join_next().await {
        assert_eq!(done.unwrap().unwrap(), Accepted::New);
    }
    let commits = inbox.commits() - before;
    assert!(commits < 100, "{commits} commits for 200 deliveries");
    assert_eq!(inbox.to_route(1000).unwrap().len(), 200);
}

#[tokio::test]
async fn another_connection_reads_while_it_is_written_to() {
    let home = Home::new();
    assert!(matches!(Inbox::read_only(&home.path()), Err(InboxError::Missing { .. })));
    let inbox = home.open();
    let reader = Inbox::read_only(&home.path()).unwrap();
    for number in 0..20 {
        inbox.accept(new(&format!("d-{number}"))).await.unwrap();
        assert_eq!(reader.recent(1).unwrap()[0].id, id(&format!("d-{number}")));
    }
    inbox.close();
    assert_eq!(reader.recent(100).unwrap().len(), 20);
    // And when nobody has it open.
    drop(reader);
    assert_eq!(Inbox::read_only(&home.path()).unwrap().recent(100).unwrap().len(), 20);
}

#[tokio::test]
async fn nobody_else_can_read_its_files() {
    let home = Home::new();
    std::fs::write(home.path(), "").unwrap();
    std::fs::set_permissions(home.path(), PermissionsExt::from_mode(0o644)).unwrap();
    let inbox = home.open();
    inbox.accept(new("a")).await.unwrap();
    for entry in std::fs::read_dir(home.dir.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", entry.file_name());
    }
}

#[tokio::test]
async fn a_full_disk_is_an_error_that_passes_and_a_small_write_is_not_its_victim() {
    let home = Home::new();
    let inbox = home.open();
    inbox.accept(new("before")).await.unwrap();
    let pages: u32 = Connection::open(home.path())
        .unwrap()
        .query_row("PRAGMA page_count", [], |row| row.get(0))
        .unwrap();
    inbox.limit_pages(pages + 2).await.unwrap();
    let body = noise(1 << 20).into_bytes();
    let large = || NewDelivery { body: body.clone(), ..new("large") };
    // While the writer waits for the lock, the others gather for one commit.
    let lock = Connection::open(home.path()).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let unlock = async { lock.execute_batch("ROLLBACK").unwrap() };
    let (_, full, small, ()) = tokio::join!(
        inbox.accept(new("first")),
        inbox.accept(large()),
        inbox.accept(new("small")),
        unlock,
    );
    let error = full.unwrap_err();
    assert!(matches!(error, InboxError::Full { .. }), "{error:?}");
    assert_eq!(small.unwrap(), Accepted::New);
    assert!(matches!(inbox.accept(large()).await, Err(InboxError::Full { .. })));
    assert!(!inbox.can_write().await);
    inbox.limit_pages(1 << 20).await.unwrap();
    assert!(inbox.can_write().await);
    assert_eq!(inbox.accept(large()).await.unwrap(), Accepted::New);
}

#[tokio::test]
async fn a_lock_that_another_process_holds_is_an_error_that_passes() {
    let home = Home::new();
    let inbox = home.open();
    let other = Connection::open(home.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = inbox.accept(new("a")).await.unwrap_err();
    assert!(matches!(error, InboxError::Locked { .. }), "{error:?}");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(inbox.accept(new("a")).await.unwrap(), Accepted::New);
}

const CHILD: &str = "THE_LOOP_TEST_INBOX";

/// Not a test: what the next one runs, and kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn takes_deliveries_in_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let inbox = Arc::new(Inbox::open(Path::new(&path), Clock::System).unwrap());
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..16 {
        let inbox = Arc::clone(&inbox);
        tasks.spawn(async move {
            for number in 0.. {
                let name = format!("{}-{task}-{number}", std::process::id());
                inbox.accept(new(&name)).await.unwrap();
                println!("\nacknowledged {name}");
            }
        });
    }
    tasks.join_next().await;
}

#[test]
fn what_was_acknowledged_survives_sigkill() {
    let home = Home::new();
    let mut acknowledged = Vec::new();
    for round in 1..=5 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["inbox::takes_deliveries_in_until_it_is_killed", "--exact", "--nocapture"])
            .env(CHILD, home.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut seen = 0;
        for line in lines {
            let Ok(line) = line else { break };
            if let Some(name) = line.strip_prefix("acknowledged ") {
                acknowledged.push(id(name));
                seen += 1;
                if seen == 40 * round {
                    child.kill().unwrap();
                }
            }
        }
        assert!(!child.wait().unwrap().success());
        assert!(seen >= 40 * round, "{seen} in round {round}");
        let inbox = home.open();
        for id in &acknowledged {
            assert!(inbox.history(id).unwrap().is_some(), "{id} was acknowledged and is lost");
        }
    }
}

const DAY: Duration = Duration::from_hours(24);

fn at(ms: i64) -> Clock {
    Clock::manual(Timestamp::from_millisecond(ms).unwrap())
}

#[tokio::test]
async fn a_damaged_inbox_is_kept_aside_and_the_rest_of_it_goes_on() {
    let home = Home::new();
    let inbox = home.open();
    for number in 0..400 {
        let body = format!("{{\"n\":\"{}\"}}", noise(1000)).into_bytes();
        inbox.accept(NewDelivery { body, ..new(&format!("d-{number}")) }).await.unwrap();
    }
    inbox.close();
    // A few pages in the middle are not what they were.
    let mut bytes = std::fs::read(home.path()).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 3 * 4096].fill(0xa5);
    std::fs::write(home.path(), &bytes).unwrap();
    let inbox = home.open();
    let aside = Inbox::damaged_files(&home.path());
    assert_eq!(aside.len(), 1, "{aside:?}");
    assert_eq!(std::fs::read(&aside[0]).unwrap(), bytes);
    let read = inbox.to_route(1000).unwrap().len();
    assert!((300..400).contains(&read), "{read}");
    assert_eq!(inbox.accept(new("later")).await.unwrap(), Accepted::New);
    assert_eq!(inbox.accept(new("d-0")).await.unwrap(), Accepted::Repeat);
    drop(inbox);
    drop(home.open());
    assert_eq!(Inbox::damaged_files(&home.path()).len(), 1);
}

#[tokio::test]
async fn a_file_that_is_replaced_under_a_running_inbox_is_noticed() {
    let home = Home::new();
    let inbox = home.open();
    inbox.accept(new("a")).await.unwrap();
    assert!(inbox.can_write().await);
    std::fs::rename(home.path(), home.path().with_extension("moved")).unwrap();
    assert!(matches!(inbox.accept(new("b")).await, Err(InboxError::Replaced { .. })));
    assert!(!inbox.can_write().await);
    std::fs::write(home.path(), "").unwrap();
    assert!(matches!(inbox.accept(new("b")).await, Err(InboxError::Replaced { .. })));
}

#[tokio::test]
async fn a_clock_that_jumps_back_changes_no_order() {
    let home = Home::new();
    for (name, ms) in [("a", 9_000_000), ("b", 1_000_000), ("c", 5_000_000)] {
        let inbox = Inbox::open(&home.path(), at(ms)).unwrap();
        inbox.accept(new(name)).await.unwrap();
        inbox.close();
    }
    let inbox = Inbox::open(&home.path(), at(2_000_000)).unwrap();
    let order: Vec<_> =
        inbox.to_route(9).unwrap().into_iter().map(|delivery| delivery.id.to_string()).collect();
    assert_eq!(order, ["a", "b", "c"]);
    inbox.record(vec![queue("a", "o/r#1")]).await.unwrap();
    let steps = inbox.history(&id("a")).unwrap().unwrap().steps;
    assert_eq!(
        steps.iter().map(|step| step.state).collect::<Vec<_>>(),
        [State::Received, State::Queued]
    );
}

#[tokio::test]
async fn events_of_an_hour_are_counted_for_one_session_alone() {
    let home = Home::new();
    let inbox = home.open();
    for number in 0..5 {
        let name = format!("d-{number}");
        inbox.accept(new(&name)).await.unwrap();
        let to = if number == 4 { "o/r#2" } else { "o/r#1" };
        inbox.record(vec![queue(&name, to)]).await.unwrap();
    }
    let count =
        |since: Timestamp, limit| inbox.events_since(&item("o/r#1").slug(), since, limit).unwrap();
    assert_eq!(count(Timestamp::UNIX_EPOCH, 30), 4);
    assert_eq!(count(Timestamp::UNIX_EPOCH, 3), 3);
    assert_eq!(count(Timestamp::MAX, 30), 0);
}
