//! What a damaged inbox still tells of its deliveries. A row of `deliveries` that
//! cannot be read is put together from what names it elsewhere: its indexes, and the
//! tables beside it. What was taken in and cannot be told any more is `failed`, so
//! that its owner sees it and GitHub can send it again.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Params, params};

use super::model::{DeliveryKind, LocalMessage};
use super::steps::set_state;
use crate::core::outcome::{Reason, State};

/// The name of an event that is not known any more.
pub(super) const UNKNOWN_EVENT: &str = "unknown";

/// How many numbers in a row may hold nothing that can be read.
const GAP: i64 = 20_000;

/// How much was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Deliveries whose rows were read.
    pub(super) copied: usize,
    /// Those whose rows were put together.
    pub(super) rebuilt: usize,
    /// Numbers at which there may have been one of which nothing is known.
    pub(super) missing: u64,
}

/// What the indexes tell of the deliveries, by their places.
#[derive(Debug, Default)]
struct Indexes {
    ids: BTreeMap<i64, String>,
    states: BTreeMap<i64, String>,
    times: BTreeMap<i64, i64>,
    slugs: BTreeMap<i64, String>,
    urls: BTreeMap<i64, String>,
    /// Every place that anything names.
    all: BTreeSet<i64>,
}

/// Takes over what can be read.
pub(super) fn take(old: &Connection, new: &Connection, now: i64) -> rusqlite::Result<Found> {
    let known = Indexes::read(old);
    let (first, last) = (known.all.first().copied(), known.all.last().copied());
    let (mut found, mut seq, mut end) = (Found::default(), 0, last.unwrap_or(0));
    while seq < end + GAP {
        seq += 1;
        let row = copy_row(old, new, "deliveries", seq);
        let is_there = row.as_ref().is_ok_and(|rows| *rows > 0);
        if !is_there && !known.all.contains(&seq) {
            let is_within = first.is_some_and(|first| seq > first) && seq < end;
            found.missing += u64::from(row.is_err() && is_within);
            continue;
        }
        end = end.max(seq);
        for table in ["bodies", "routes", "steps"] {
            // What cannot be read of it is missing from now on.
            let _ = copy_row(old, new, table, seq);
        }
        if is_there {
            found.copied += 1;
        } else {
            known.rebuild(new, seq, now)?;
            found.rebuilt += 1;
        }
    }
    // From both ends, up to what cannot be read. The next deliveries tell what is
    // lost of heads.
    for order in ["ASC", "DESC"] {
        let _ = copy_rows(old, new, "heads", &format!("ORDER BY sha {order}"), []);
        let _ = copy_rows(old, new, "edits", &format!("ORDER BY slug {order}"), []);
    }
    give_up_what_is_lost(new, now)?;
    Ok(found)
}

impl Indexes {
    fn read(old: &Connection) -> Self {
        let mut known = Self::default();
        let by = |name: &str| format!("FROM deliveries INDEXED BY {name}");
        known.ids = scan(old, "id", &by("sqlite_autoindex_deliveries_1"), "id");
        known.states = scan(old, "state", &by("deliveries_by_state"), "state");
        known.times = scan(old, "received_at", &by("deliveries_by_time"), "received_at");
        let slugs = format!("{} WHERE slug IS NOT NULL", by("deliveries_by_slug"));
        known.slugs = scan(old, "slug", &slugs, "slug");
        let urls = format!("{} WHERE url IS NOT NULL", by("deliveries_by_url"));
        known.urls = scan(old, "url", &urls, "url");
        let by_rows: [BTreeMap<i64, i64>; 3] = ["bodies", "routes", "steps"]
            .map(|table| scan(old, "1", &format!("FROM {table}"), "seq"));
        let mut all: BTreeSet<i64> = by_rows.iter().flat_map(|rows| rows.keys()).copied().collect();
        for places in [&known.ids, &known.states, &known.slugs, &known.urls] {
            all.extend(places.keys());
        }
        all.extend(known.times.keys());
        // The probe for a full disk uses a place of its own.
        all.retain(|seq| *seq > 0);
        known.all = all;
        known
    }

    /// Puts a delivery's row together.
    fn rebuild(&self, new: &Connection, seq: i64, now: i64) -> rusqlite::Result<()> {
        let last: Option<(String, String, i64)> = new
            .prepare_cached(
                "SELECT state, reason, at FROM steps WHERE seq = ?1 ORDER BY step DESC LIMIT 1",
            )?
            .query_row([seq], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        let first: Option<i64> = new
            .prepare_cached("SELECT min(at) FROM steps WHERE seq = ?1")?
            .query_row([seq], |row| row.get(0))?;
        let told = self.states.get(&seq).or(last.as_ref().map(|(state, ..)| state));
        let state = told.and_then(|state| State::parse(state)).unwrap_or(State::Received);
        let reason = last
            .as_ref()
            .filter(|(last, ..)| last == state.as_str())
            .and_then(|(_, reason, _)| Reason::parse(reason))
            .unwrap_or(Reason::InboxDamaged);
        let id = self.ids.get(&seq).cloned();
        let is_local = id.as_ref().is_some_and(|id| id.starts_with("local-"));
        let (kind, event) = if is_local {
            (DeliveryKind::Local, LocalMessage::EVENT)
        } else {
            (DeliveryKind::Github, UNKNOWN_EVENT)
        };
        let received = self.times.get(&seq).copied().or(first).unwrap_or(now);
        let item: Option<String> = new
            .prepare_cached("SELECT item FROM routes WHERE seq = ?1")?
            .query_row([seq], |row| row.get(0))
            .optional()?;
        new.prepare_cached(
            "INSERT OR IGNORE INTO deliveries (seq, id, kind, event, received_at, state, reason,
                 changed_at, item, slug, url)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            seq,
            // GitHub may send one again whose name is lost: that is another one then.
            id.clone().unwrap_or_else(|| format!("lost-{seq}")),
            kind.as_str(),
            event,
            received,
            state.as_str(),
            reason.as_str(),
            last.as_ref().map_or(received, |(_, _, at)| *at),
            item,
            self.slugs.get(&seq),
            self.urls.get(&seq),
        ])?;
        // What is not decided about needs the name of its event; what would be told
        // under another name would be told twice when it is sent again.
        let is_lost = match state {
            State::Received => !is_local,
            State::Queued | State::Injecting => id.is_none(),
            _ => false,
        };
        if is_lost { give_up(new, seq, now) } else { Ok(()) }
    }
}

/// Of every row that can be read, its place and a column: from both ends, up to what
/// cannot be read.
fn scan<T: rusqlite::types::FromSql>(
    old: &Connection,
    column: &str,
    from: &str,
    order: &str,
) -> BTreeMap<i64, T> {
    let mut found = BTreeMap::new();
    for direction in ["ASC", "DESC"] {
        let sql = format!("SELECT seq, {column} {from} ORDER BY {order} {direction}");
        let Ok(mut statement) = old.prepare(&sql) else { continue };
        let Ok(mut rows) = statement.query([]) else { continue };
        while let Ok(Some(row)) = rows.next() {
            if let (Ok(seq), Ok(value)) = (row.get(0), row.get(1)) {
                found.insert(seq, value);
            }
        }
    }
    found
}

/// Without its body a delivery cannot be routed any more, without its route not be
/// told, and says so.
fn give_up_what_is_lost(new: &Connection, now: i64) -> rusqlite::Result<()> {
    let lost: Vec<i64> = new
        .prepare(
            "SELECT seq FROM deliveries
             WHERE (state = 'received' AND seq NOT IN (SELECT seq FROM bodies))
                OR (state IN ('queued', 'injecting') AND seq NOT IN (SELECT seq FROM routes))",
        )?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    lost.into_iter().try_for_each(|seq| give_up(new, seq, now))
}

fn give_up(new: &Connection, seq: i64, now: i64) -> rusqlite::Result<()> {
    set_state(new, seq, now, State::Failed, Reason::InboxDamaged, None, None)
}

/// Copies what a table holds of one delivery, column by column as the old file
/// has them: it may be of an older format.
fn copy_row(old: &Connection, new: &Connection, table: &str, seq: i64) -> rusqlite::Result<usize> {
    copy_rows(old, new, table, "WHERE seq = ?1", [seq])
}

fn copy_rows(
    old: &Connection,
    new: &Connection,
    table: &str,
    which: &str,
    params: impl Params,
) -> rusqlite::Result<usize> {
    let mut select = old.prepare_cached(&format!("SELECT * FROM {table} {which}"))?;
    let columns: Vec<String> = select.column_names().map(str::to_owned).collect();
    let names = columns.join(", ");
    let marks = vec!["?"; columns.len()].join(", ");
    let mut insert =
        new.prepare_cached(&format!("INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})"))?;
    let mut rows = select.query(params)?;
    let mut copied = 0;
    while let Some(row) = rows.next()? {
        let values = (0..columns.len())
            .map(|column| row.get::<_, Value>(column))
            .collect::<rusqlite::Result<Vec<_>>>()?;
        copied += insert.execute(rusqlite::params_from_iter(values))?;
    }
    Ok(copied)
}
