//! Reading the inbox: what waits, what became of what, and why. Also from
//! another process, while the daemon writes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Params, Row};

use super::error::InboxError;
use super::model::{
    Counts, DeliveryHistory, DeliveryKind, LogEnd, QueuedDelivery, RecordedStep, RouteAction,
    StoredDelivery, Summary, Waiting,
};
use super::packing::StoredBody;
use super::{open, salvage};
use crate::base::ids::{DeliveryId, Slug, WorkItem};
use crate::core::event::CheckPull;
use crate::core::outcome::{Reason, State};

pub(super) const SUMMARY: &str =
    "SELECT d.seq, d.id, d.kind, d.event, d.received_at, d.state, d.reason,
        d.changed_at, d.attempts, d.item, r.slug, d.url, d.own
    FROM deliveries d LEFT JOIN routes r ON r.seq = d.seq";

const QUEUED: &str = "SELECT d.seq, d.id, d.state, d.reason, r.item, r.slug, r.marker, r.prompt,
        r.start, r.action, r.now, d.attempts
    FROM deliveries d JOIN routes r ON r.seq = d.seq
    WHERE d.state IN ('queued', 'injecting')";

/// How many bytes of bodies are read at a time.
const TOGETHER: i64 = 1 << 20;

/// A reader of an inbox. Its calls are short and do not wait for a writer.
#[derive(Debug)]
pub struct InboxReader {
    path: PathBuf,
    /// Device and number of the file when it was opened.
    file: Option<(u64, u64)>,
    connection: Mutex<Connection>,
}

impl InboxReader {
    /// Opens the inbox for reading. No file: [`InboxError::Missing`].
    pub(super) fn open(path: &Path) -> Result<Self, InboxError> {
        let connection = Mutex::new(open::read_only(path)?);
        Ok(Self { path: path.to_path_buf(), file: identity(path), connection })
    }

    /// Whether the file at the path is still the one that was opened.
    pub fn is_in_place(&self) -> bool {
        self.file == identity(&self.path)
    }

    /// Looks through the content for damage.
    pub(super) fn look_through(&self) -> Result<(), InboxError> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        salvage::look_through(&connection, &self.path)
    }

    /// The inbox's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Deliveries that nobody has routed yet, in order of arrival: so many, and
    /// no more than `TOGETHER` bytes of them beyond the first.
    pub fn to_route(&self, limit: usize) -> Result<Vec<StoredDelivery>, InboxError> {
        self.rows(
            "WITH next AS (
                 SELECT d.seq, coalesce(b.size, length(b.body)) AS bytes
                 FROM deliveries d JOIN bodies b ON b.seq = d.seq
                 WHERE d.state = 'received' ORDER BY d.seq LIMIT ?1),
             sized AS (SELECT seq, bytes, sum(bytes) OVER (ORDER BY seq) AS total FROM next)
             SELECT d.seq, d.id, d.event, d.received_at, d.kind, b.body, d.reason, b.size,
                    d.changed_at
             FROM sized s JOIN deliveries d ON d.seq = s.seq JOIN bodies b ON b.seq = s.seq
             WHERE s.total <= ?2 OR s.total = s.bytes ORDER BY d.seq",
            [clamp(limit), TOGETHER],
            stored,
        )
    }

    /// Deliveries that are on their way to a session, in order of arrival: so many
    /// of those behind a place in it.
    pub fn pending(&self, after: i64, limit: usize) -> Result<Vec<QueuedDelivery>, InboxError> {
        self.rows(
            &format!("{QUEUED} AND d.seq > ?1 ORDER BY d.seq LIMIT ?2"),
            [after, clamp(limit)],
            queued,
        )
    }

    /// What waits for each session, or is being typed into it.
    pub fn waiting(&self) -> Result<BTreeMap<Slug, Waiting>, InboxError> {
        // With min() SQLite takes the other columns from the row that has it.
        let rows = self.rows(
            "SELECT r.slug, count(*), min(d.seq), d.received_at, d.reason
             FROM deliveries d JOIN routes r ON r.seq = d.seq
             WHERE d.state IN ('queued', 'injecting') AND r.action = 'deliver'
             GROUP BY r.slug",
            [],
            |row| {
                let count: i64 = row.get(1)?;
                let (since, reason) = (time(row, 3)?, reason(row, 4)?);
                Ok((name(row, 0)?, Waiting { count: count.unsigned_abs(), since, reason }))
            },
        )?;
        Ok(rows.into_iter().collect())
    }

    /// One delivery, when it is on its way to a session.
    pub fn queued(&self, id: &DeliveryId) -> Result<Option<QueuedDelivery>, InboxError> {
        self.row(&format!("{QUEUED} AND d.id = ?1"), [id.as_str()], queued)
    }

    /// The body of a delivery, while it is kept.
    pub fn stored(&self, id: &DeliveryId) -> Result<Option<StoredDelivery>, InboxError> {
        self.row(
            "SELECT d.seq, d.id, d.event, d.received_at, d.kind, b.body, d.reason, b.size,
                    d.changed_at
             FROM deliveries d JOIN bodies b ON b.seq = d.seq WHERE d.id = ?1",
            [id.as_str()],
            stored,
        )
    }

    /// How many events from GitHub were meant for a session since then; counts
    /// to `limit` and no further.
    pub fn events_since(
        &self,
        slug: &Slug,
        since: Timestamp,
        limit: u32,
    ) -> Result<u32, InboxError> {
        let count = self.row(
            "SELECT count(*) FROM (
                 SELECT d.received_at AS at FROM routes r JOIN deliveries d ON d.seq = r.seq
                 WHERE r.slug = ?1 AND r.action = 'deliver' AND d.kind = 'github'
                 ORDER BY r.seq DESC LIMIT ?2)
             WHERE at >= ?3",
            rusqlite::params![slug.as_str(), limit, since.as_millisecond()],
            |row| row.get(0),
        )?;
        Ok(count.unwrap_or(0))
    }

    /// The pull requests that a commit is the head of, as deliveries told.
    pub fn heads(&self, sha: &str) -> Result<Vec<CheckPull>, InboxError> {
        self.rows("SELECT pr, branch, own FROM heads WHERE sha = ?1", [sha], |row| {
            Ok(CheckPull { item: name(row, 0)?, branch: row.get(1)?, own_head: row.get(2)? })
        })
    }

    /// Every item that anything was ever routed to, which takes a session, and
    /// whether the last such thing was its end.
    pub fn routed_items(&self) -> Result<Vec<(WorkItem, bool)>, InboxError> {
        self.rows(
            "SELECT item, (SELECT l.action = 'close' FROM routes l WHERE l.slug = r.slug
                           ORDER BY l.seq DESC LIMIT 1)
             FROM routes r GROUP BY slug",
            [],
            |row| Ok((name(row, 0)?, row.get(1)?)),
        )
    }

    /// How far the logs have come of every delivery that is under way, of the
    /// latest, and of these others, in the order of their last change.
    pub fn log_ends(&self, others: &[i64]) -> Result<Vec<LogEnd>, InboxError> {
        const END: &str = "SELECT d.seq, d.id, d.changed_at,
                (SELECT max(step) FROM steps s WHERE s.seq = d.seq),
                d.state IN ('received', 'queued', 'injecting')
            FROM deliveries d";
        let mut found = self.rows(
            &format!(
                "{END} WHERE d.seq IN (
                     SELECT seq FROM deliveries WHERE state IN ('received', 'queued', 'injecting')
                     UNION SELECT seq FROM (SELECT seq FROM deliveries ORDER BY seq DESC LIMIT 1000))"
            ),
            [],
            log_end,
        )?;
        let there: BTreeSet<i64> = found.iter().map(|end| end.seq).collect();
        for seq in others.iter().filter(|seq| !there.contains(seq)) {
            found.extend(self.row(&format!("{END} WHERE d.seq = ?1"), [seq], log_end)?);
        }
        found.sort_by_key(|end| (end.changed_at, end.seq));
        Ok(found)
    }

    /// How many deliveries stand where.
    pub fn counts(&self) -> Result<Counts, InboxError> {
        let rows =
            self.rows("SELECT state, count(*) FROM deliveries GROUP BY state", [], |row| {
                let count: i64 = row.get(1)?;
                Ok((state(row, 0)?, count.unsigned_abs()))
            })?;
        Ok(rows.into_iter().collect())
    }

    /// The delivery that arrived last.
    pub fn last_delivery(&self) -> Result<Option<Summary>, InboxError> {
        Ok(self.recent(1)?.pop())
    }

    /// A delivery and every decision about it.
    pub fn history(&self, id: &DeliveryId) -> Result<Option<DeliveryHistory>, InboxError> {
        let found = self.row(&format!("{SUMMARY} WHERE d.id = ?1"), [id.as_str()], summary)?;
        let Some(delivery) = found else { return Ok(None) };
        let steps = self.rows(
            "SELECT at, state, reason, detail FROM steps WHERE seq = ?1 ORDER BY step",
            [delivery.seq],
            recorded,
        )?;
        Ok(Some(DeliveryHistory { delivery, steps }))
    }

    /// The latest deliveries, in order of arrival.
    pub fn recent(&self, limit: usize) -> Result<Vec<Summary>, InboxError> {
        self.latest("", [], limit)
    }

    /// The latest deliveries that did not arrive or may not have arrived.
    pub fn failed(&self, limit: usize) -> Result<Vec<Summary>, InboxError> {
        self.latest("WHERE d.state IN ('failed', 'unproven')", [], limit)
    }

    /// The latest deliveries about an item or for its session.
    pub fn of_item(&self, item: &WorkItem, limit: usize) -> Result<Vec<Summary>, InboxError> {
        self.of_slug(&item.slug(), limit)
    }

    /// The latest deliveries about an item or for its session, by its slug.
    pub fn of_slug(&self, slug: &Slug, limit: usize) -> Result<Vec<Summary>, InboxError> {
        self.latest(
            "WHERE d.seq IN (SELECT seq FROM deliveries WHERE slug = ?1
                             UNION SELECT seq FROM routes WHERE slug = ?1
                             UNION SELECT seq FROM deliveries WHERE own = ?1)",
            [slug.as_str()],
            limit,
        )
    }

    /// The latest deliveries about a page: a comment's, an issue's.
    pub fn by_url(&self, url: &str) -> Result<Vec<Summary>, InboxError> {
        self.latest("WHERE d.url = ?1", [url], 100)
    }

    fn latest(
        &self,
        condition: &str,
        params: impl Params,
        limit: usize,
    ) -> Result<Vec<Summary>, InboxError> {
        let limit = clamp(limit);
        let sql = format!("{SUMMARY} {condition} ORDER BY d.seq DESC LIMIT {limit}");
        let mut found = self.rows(&sql, params, summary)?;
        found.reverse();
        Ok(found)
    }

    pub(super) fn row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, InboxError> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.query_row(params, read).optional())
            .map_err(|error| self.failed_to_read(error))
    }

    /// Every row that can be read. One that cannot must not hide the others; it
    /// is left out, and the log says so.
    pub(super) fn rows<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, InboxError> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let collect = || -> rusqlite::Result<Vec<T>> {
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query(params)?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                match read(row) {
                    Ok(value) => found.push(value),
                    Err(error @ rusqlite::Error::FromSqlConversionFailure(..)) => {
                        let inbox = self.path.display();
                        tracing::error!(%inbox, %error, "left out an unreadable row");
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(found)
        };
        collect().map_err(|error| self.failed_to_read(error))
    }

    fn failed_to_read(&self, error: rusqlite::Error) -> InboxError {
        InboxError::sqlite(&self.path, "read", error)
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    fs_err::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

fn clamp(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// A stored word was not in its vocabulary.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a word of this column")]
struct UnknownWord(String);

fn unreadable(
    column: usize,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, source.into())
}

pub(super) fn word<T>(
    row: &Row<'_>,
    column: usize,
    parse: fn(&str) -> Option<T>,
) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    parse(&text).ok_or_else(|| unreadable(column, UnknownWord(text)))
}

fn state(row: &Row<'_>, column: usize) -> rusqlite::Result<State> {
    word(row, column, State::parse)
}

fn reason(row: &Row<'_>, column: usize) -> rusqlite::Result<Reason> {
    word(row, column, Reason::parse)
}

pub(super) fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    Timestamp::from_millisecond(row.get(column)?).map_err(|error| unreadable(column, error))
}

fn name<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T: FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    let text: String = row.get(column)?;
    text.parse().map_err(|error: T::Err| unreadable(column, error))
}

fn optional_name<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>>
where
    T: FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    let text: Option<String> = row.get(column)?;
    text.map(|text| text.parse().map_err(|error: T::Err| unreadable(column, error))).transpose()
}

pub(super) fn stored(row: &Row<'_>) -> rusqlite::Result<StoredDelivery> {
    Ok(StoredDelivery {
        seq: row.get(0)?,
        id: name(row, 1)?,
        event: row.get(2)?,
        received_at: time(row, 3)?,
        kind: word(row, 4, DeliveryKind::parse)?,
        body: body(row, 5, 7)?,
        // What is decided about for the first time was stored, and no more.
        again: reason(row, 6)? != Reason::Stored,
        asked_at: time(row, 8)?,
    })
}

/// A body, byte for byte; empty where it is damaged, which no body that was taken
/// in is.
pub(super) fn body(row: &Row<'_>, bytes: usize, size: usize) -> rusqlite::Result<Vec<u8>> {
    let packed = StoredBody { bytes: row.get(bytes)?, size: row.get(size)? };
    Ok(packed.unpack().unwrap_or_else(|error| {
        tracing::error!(%error, "the inbox is damaged");
        Vec::new()
    }))
}

fn queued(row: &Row<'_>) -> rusqlite::Result<QueuedDelivery> {
    Ok(QueuedDelivery {
        seq: row.get(0)?,
        id: name(row, 1)?,
        state: state(row, 2)?,
        reason: reason(row, 3)?,
        item: name(row, 4)?,
        slug: name(row, 5)?,
        marker: name(row, 6)?,
        prompt: row.get(7)?,
        start: row.get(8)?,
        action: word(row, 9, RouteAction::parse)?,
        now: row.get(10)?,
        attempts: row.get(11)?,
    })
}

pub(super) fn summary(row: &Row<'_>) -> rusqlite::Result<Summary> {
    Ok(Summary {
        seq: row.get(0)?,
        id: name(row, 1)?,
        kind: word(row, 2, DeliveryKind::parse)?,
        event: row.get(3)?,
        received_at: time(row, 4)?,
        state: state(row, 5)?,
        reason: reason(row, 6)?,
        changed_at: time(row, 7)?,
        attempts: row.get(8)?,
        item: optional_name(row, 9)?,
        session: optional_name(row, 10)?,
        url: row.get(11)?,
        own: optional_name(row, 12)?,
    })
}

fn log_end(row: &Row<'_>) -> rusqlite::Result<LogEnd> {
    Ok(LogEnd {
        seq: row.get(0)?,
        id: name(row, 1)?,
        changed_at: row.get(2)?,
        steps: row.get::<_, Option<i64>>(3)?.unwrap_or(0),
        is_under_way: row.get(4)?,
    })
}

fn recorded(row: &Row<'_>) -> rusqlite::Result<RecordedStep> {
    Ok(RecordedStep {
        at: time(row, 0)?,
        state: state(row, 1)?,
        reason: reason(row, 2)?,
        detail: row.get(3)?,
    })
}
