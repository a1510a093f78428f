//! The one thread that writes to the inbox. Writes that wait together share a
//! transaction, and with it the price of one sync; each is answered only after
//! the commit.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, named_params, params};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::error::InboxError;
use super::model::{About, Accepted, DeliveryKind, Keep, NewDelivery, Replayed, Step};
use super::news::Again;
use super::packing::StoredBody;
use super::prune;
use super::remains::UNKNOWN_EVENT;
use super::steps::{append, put_body, set_about, set_state};
use super::texts;
use crate::base::checkpoint::Checkpoint;
use crate::base::ids::DeliveryId;
use crate::core::outcome::{Reason, State};

/// How many writes may wait. Whoever comes later waits to be let in.
const WAITING: usize = 1024;

/// How many writes share a transaction at most.
const BATCH: usize = 256;

/// What can be written, each with the time at which it was asked for.
#[derive(Debug)]
pub(super) enum Change {
    /// A delivery that arrived, and who is told.
    Accept(Arrived, i64, Option<Arc<Notify>>),
    /// Decisions, all or none.
    Record(Vec<Step>, Vec<About>, i64),
    /// A delivery is to be routed again.
    Replay(DeliveryId, i64),
    /// What is too old or too large goes.
    Prune(Keep, i64),
    /// Nothing that stays: finds out whether writing works.
    Probe,
    /// From now on the file may have this many pages.
    #[cfg(feature = "test-fakes")]
    LimitPages(u32),
}

/// A delivery as it goes into the file.
#[derive(Debug)]
pub(super) struct Arrived {
    id: DeliveryId,
    event: String,
    body: StoredBody,
    kind: DeliveryKind,
}

impl From<NewDelivery> for Arrived {
    fn from(new: NewDelivery) -> Self {
        let NewDelivery { id, event, body, kind } = new;
        Self { id, event, body: StoredBody::pack(body), kind }
    }
}

/// What came of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// A delivery was taken in.
    Delivery(Accepted),
    /// A delivery was, or was not, put up for routing again.
    Replayed(Replayed),
    /// So many rows were dropped.
    Pruned(u64),
    /// Anything else was done.
    Done,
}

type Answer = Result<Written, InboxError>;

#[derive(Debug)]
struct Write {
    change: Change,
    answer: oneshot::Sender<Answer>,
}

/// What the writer tells about itself.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Transactions that were committed.
    pub(super) commits: AtomicU64,
    /// Whether the last one could not be.
    pub(super) failing: AtomicBool,
    /// Changes with each of them, for those who wait for one.
    pub(super) news: watch::Sender<u64>,
    /// What was put up for routing again.
    pub(super) again: Again,
}

/// The handle of the thread. Dropping it lets the thread finish what waits, and
/// waits for its end.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    sender: Option<mpsc::Sender<Write>>,
    thread: Option<JoinHandle<()>>,
    health: Arc<Health>,
}

impl Writer {
    pub(super) fn start(path: &Path, connection: Connection) -> Result<Self, InboxError> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let health = Arc::new(Health::default());
        let work =
            Work { path: path.to_path_buf(), connection, receiver, health: Arc::clone(&health) };
        let thread = std::thread::Builder::new()
            .name("inbox-writer".to_owned())
            .spawn(move || work.run())
            .map_err(|error| InboxError::File {
                path: path.to_path_buf(),
                source: Arc::new(error),
            })?;
        Ok(Self { path: path.to_path_buf(), sender: Some(sender), thread: Some(thread), health })
    }

    /// Writes; when it returns without an error, the change is on the disk.
    pub(super) async fn write(&self, change: Change) -> Answer {
        let ended = || InboxError::Ended { path: self.path.clone() };
        let (answer, written) = oneshot::channel();
        let sender = self.sender.as_ref().ok_or_else(ended)?;
        sender.send(Write { change, answer }).await.map_err(|_| ended())?;
        written.await.map_err(|_| ended())?
    }

    pub(super) fn health(&self) -> &Health {
        &self.health
    }

    pub(super) fn is_alive(&self) -> bool {
        self.sender.as_ref().is_some_and(|sender| !sender.is_closed())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.sender.take());
        if let Some(thread) = self.thread.take() {
            // A panic over there was reported when it happened.
            let _ = thread.join();
        }
    }
}

struct Work {
    path: PathBuf,
    connection: Connection,
    receiver: mpsc::Receiver<Write>,
    health: Arc<Health>,
}

impl Work {
    fn run(mut self) {
        let mut waiting = Vec::with_capacity(BATCH);
        while self.receiver.blocking_recv_many(&mut waiting, BATCH) > 0 {
            self.write_together(&mut waiting);
        }
    }

    /// Writes all in one transaction. When that fails, one of them may be the
    /// cause (a body for which there is no room), so each gets one of its own.
    fn write_together(&mut self, waiting: &mut Vec<Write>) {
        let changes: Vec<&Change> = waiting.iter().map(|write| &write.change).collect();
        let together = self.transaction(&changes);
        let answers = match together {
            Err(error) if waiting.len() > 1 && !matches!(error, InboxError::Locked { .. }) => {
                let alone = |change| match self.transaction(&[change]) {
                    Ok(mut answers) => answers.pop().expect("one change has one answer"),
                    Err(error) => Err(error),
                };
                changes.into_iter().map(alone).collect()
            }
            Err(error) => changes.iter().map(|_| Err(error.clone())).collect(),
            Ok(answers) => answers,
        };
        for (write, answer) in waiting.drain(..).zip(answers) {
            if let (Change::Accept(.., Some(arrived)), Ok(written)) = (&write.change, &answer)
                && *written != Written::Delivery(Accepted::Repeat)
            {
                arrived.notify_one();
            }
            // Whoever asked may have gone; what is written stays written.
            let _ = write.answer.send(answer);
        }
    }

    /// One transaction. The answers are true only because it was committed.
    fn transaction(&mut self, changes: &[&Change]) -> Result<Vec<Answer>, InboxError> {
        let path = self.path.as_path();
        let result = (|| {
            let transaction =
                self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let answers = changes
                .iter()
                .map(|change| apply(&transaction, path, change))
                .collect::<rusqlite::Result<Vec<_>>>()?;
            transaction.commit()?;
            if changes.iter().any(|change| matches!(change, Change::Accept(..))) {
                Checkpoint::Commit.reached();
            }
            Ok(answers)
        })()
        .map_err(|error| InboxError::sqlite(path, "write to", error));
        self.health.failing.store(result.is_err(), Ordering::Relaxed);
        match &result {
            Ok(answers) => {
                let written = changes.iter().zip(answers);
                self.health.again.note(written.filter_map(|(change, of)| put_up_again(change, of)));
                self.health.commits.fetch_add(1, Ordering::Relaxed);
                self.health.news.send_modify(|commits| *commits = commits.wrapping_add(1));
            }
            Err(error) => {
                let cause = crate::base::failure::chain(error);
                tracing::error!(cause, writes = changes.len(), "a transaction was rolled back");
            }
        }
        result
    }
}

/// The delivery that a change put up for routing again.
fn put_up_again<'a>(change: &'a Change, answer: &Answer) -> Option<&'a DeliveryId> {
    match (change, answer) {
        (Change::Accept(new, ..), Ok(Written::Delivery(Accepted::Requeued))) => Some(&new.id),
        (Change::Replay(id, _), Ok(Written::Replayed(Replayed::Queued))) => Some(id),
        _ => None,
    }
}

fn apply(connection: &Connection, path: &Path, change: &Change) -> rusqlite::Result<Answer> {
    match change {
        Change::Accept(new, now, _) => {
            accept(connection, new, *now).map(|accepted| Ok(Written::Delivery(accepted)))
        }
        Change::Record(steps, about, now) => record(connection, path, steps, about, *now),
        Change::Replay(id, now) => replay(connection, path, id, *now),
        Change::Prune(keep, now) => {
            prune::step(connection, *keep, *now).map(|dropped| Ok(Written::Pruned(dropped)))
        }
        Change::Probe => {
            // Takes pages and gives them back, so that a full disk shows.
            connection.execute_batch(
                "INSERT INTO bodies (seq, body) VALUES (-1, zeroblob(16384));
                 DELETE FROM bodies WHERE seq = -1;",
            )?;
            Ok(Ok(Written::Done))
        }
        #[cfg(feature = "test-fakes")]
        Change::LimitPages(pages) => {
            connection.pragma_update(None, "max_page_count", pages)?;
            Ok(Ok(Written::Done))
        }
    }
}

fn accept(connection: &Connection, new: &Arrived, now: i64) -> rusqlite::Result<Accepted> {
    let inserted = connection
        .prepare_cached(
            "INSERT INTO deliveries (id, kind, event, received_at, state, reason, changed_at)
             VALUES (:id, :kind, :event, :now, :state, :reason, :now)
             ON CONFLICT (id) DO NOTHING",
        )?
        .execute(named_params! {
            ":id": new.id.as_str(),
            ":kind": new.kind.as_str(),
            ":event": new.event,
            ":now": now,
            ":state": State::Received.as_str(),
            ":reason": Reason::Stored.as_str(),
        })?;
    if inserted == 1 {
        let seq = connection.last_insert_rowid();
        put_body(connection, seq, &new.body)?;
        append(connection, seq, now, State::Received, Reason::Stored, None)?;
        return Ok(Accepted::New);
    }
    let (seq, state): (i64, String) = connection
        .prepare_cached("SELECT seq, state FROM deliveries WHERE id = ?1")?
        .query_row([new.id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    // What a person sent goes through `send` again, under another id.
    if state != State::Failed.as_str() || new.kind != DeliveryKind::Github {
        // A body that was dropped comes back, for `replay`.
        let has_ended = State::parse(&state).is_some_and(State::is_final);
        if has_ended && new.kind == DeliveryKind::Github {
            put_body(connection, seq, &new.body)?;
        }
        return Ok(Accepted::Repeat);
    }
    // The stored body stays: what was authorised is what is delivered. It may
    // only have been dropped for its age.
    put_body(connection, seq, &new.body)?;
    // What a damaged inbox lost is told again with it.
    connection
        .prepare_cached("UPDATE deliveries SET event = ?2 WHERE seq = ?1 AND event = ?3")?
        .execute(params![seq, new.event, UNKNOWN_EVENT])?;
    route_again(connection, seq, now, Reason::Redelivered)?;
    Ok(Accepted::Requeued)
}

fn replay(
    connection: &Connection,
    path: &Path,
    id: &DeliveryId,
    now: i64,
) -> rusqlite::Result<Answer> {
    let found: Option<(i64, String, bool)> = connection
        .prepare_cached(
            "SELECT seq, state, EXISTS (SELECT 1 FROM bodies b WHERE b.seq = d.seq)
             FROM deliveries d WHERE id = ?1",
        )?
        .query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((seq, state, has_body)) = found else {
        let path = path.to_path_buf();
        return Ok(Err(InboxError::UnknownDelivery { path, id: id.clone() }));
    };
    let answer = |replayed| Ok(Ok(Written::Replayed(replayed)));
    if !State::parse(&state).is_some_and(State::is_final) {
        return answer(Replayed::UnderWay);
    }
    if !has_body {
        return answer(Replayed::NoBody);
    }
    route_again(connection, seq, now, Reason::Replayed)?;
    answer(Replayed::Queued)
}

/// Forgets what was decided about a delivery, except in the log.
fn route_again(
    connection: &Connection,
    seq: i64,
    now: i64,
    reason: Reason,
) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM routes WHERE seq = ?1", [seq])?;
    connection.execute("UPDATE deliveries SET attempts = 0 WHERE seq = ?1", [seq])?;
    set_state(connection, seq, now, State::Received, reason, None, None)
}

fn record(
    connection: &Connection,
    path: &Path,
    steps: &[Step],
    about: &[About],
    now: i64,
) -> rusqlite::Result<Answer> {
    // Every delivery is looked up before anything is written: the others in
    // this transaction must not suffer from one that is unknown.
    let mut seqs: HashMap<&DeliveryId, i64> = HashMap::new();
    for id in steps.iter().map(|step| &step.delivery).chain(about.iter().map(|a| &a.delivery)) {
        if seqs.contains_key(id) {
            continue;
        }
        let seq: Option<i64> = connection
            .prepare_cached("SELECT seq FROM deliveries WHERE id = ?1")?
            .query_row([id.as_str()], |row| row.get(0))
            .optional()?;
        let Some(seq) = seq else {
            let path = path.to_path_buf();
            return Ok(Err(InboxError::UnknownDelivery { path, id: id.clone() }));
        };
        seqs.insert(id, seq);
    }
    let mut with_a_step: HashMap<&DeliveryId, &About> =
        about.iter().map(|about| (&about.delivery, about)).collect();
    for step in steps {
        let seq = seqs[&step.delivery];
        if let Some(route) = &step.route {
            connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO routes (seq, item, slug, marker, prompt, start, action, now)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                )?
                .execute(params![
                    seq,
                    route.item.to_string(),
                    route.slug.as_str(),
                    route.marker.as_str(),
                    route.prompt,
                    route.start,
                    route.action.as_str(),
                    route.now,
                ])?;
            if let Some(url) = &route.url {
                connection
                    .prepare_cached("UPDATE deliveries SET url = ?2 WHERE seq = ?1")?
                    .execute(params![seq, url])?;
            }
        }
        let about = with_a_step.remove(&step.delivery);
        set_state(connection, seq, now, step.state, step.reason, step.detail.as_deref(), about)?;
    }
    for (id, about) in with_a_step {
        set_about(connection, seqs[id], about)?;
    }
    for about in about {
        if let Some((sha, pull)) = &about.head {
            connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO heads (sha, pr, branch, own, at)
                     VALUES (?1, ?2, ?3, ?4, ?5)",
                )?
                .execute(params![sha, pull.item.to_string(), pull.branch, pull.own_head, now])?;
        }
        if let Some((slug, edits)) = &about.edits {
            texts::remember(connection, slug, edits, now)?;
        }
    }
    Ok(Ok(Written::Done))
}
