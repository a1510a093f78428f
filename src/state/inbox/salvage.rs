//! A damaged inbox is moved aside, never thrown away, and what can still be
//! read of it goes into a new one: a row that cannot be read costs that row.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};

use super::error::InboxError;
use super::open;

/// The mark in the name of a file that was moved aside.
const DAMAGED: &str = ".damaged-";

/// A file up to this size is looked through when it is opened.
const LOOK_THROUGH: u64 = 256 << 20;

/// How many numbers in a row may hold nothing that can be read.
const GAP: i64 = 20_000;

/// Whether the content is damaged, as far as that is found quickly. What is
/// found later is an error of the read that finds it.
pub(super) fn is_damaged(connection: &Connection, path: &Path) -> bool {
    if fs_err::metadata(path).is_ok_and(|meta| meta.len() > LOOK_THROUGH) {
        return false;
    }
    let check: rusqlite::Result<String> =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0));
    match check {
        Ok(answer) => answer != "ok",
        Err(rusqlite::Error::SqliteFailure(error, _)) => {
            error.code == rusqlite::ErrorCode::DatabaseCorrupt
        }
        Err(_) => false,
    }
}

/// Files that were moved aside beside this inbox.
pub(super) fn aside(path: &Path) -> Vec<PathBuf> {
    let Some((dir, name)) = path.parent().zip(path.file_name().and_then(|name| name.to_str()))
    else {
        return Vec::new();
    };
    let prefix = format!("{name}{DAMAGED}");
    let mut found: Vec<PathBuf> = fs_err::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.starts_with(&prefix) && !name.ends_with("-wal") && !name.ends_with("-shm")
        })
        .collect();
    found.sort();
    found
}

/// Moves the file aside and gives a new inbox with all that could be read.
pub(super) fn salvage(path: &Path, now_ms: i64) -> Result<Connection, InboxError> {
    let file = |error| InboxError::File { path: path.to_path_buf(), source: Arc::new(error) };
    let kept = PathBuf::from(format!("{}{DAMAGED}{now_ms}", path.display()));
    for end in ["-wal", "-shm", ""] {
        let from = PathBuf::from(format!("{}{end}", path.display()));
        if from.exists() {
            fs_err::rename(&from, format!("{}{end}", kept.display())).map_err(file)?;
        }
    }
    let mut new = open::fresh(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let sqlite = |error| InboxError::sqlite(path, "open", error);
    let copied = match Connection::open_with_flags(&kept, flags) {
        Ok(old) => copy(&old, &mut new).map_err(sqlite)?,
        Err(_) => 0,
    };
    let (inbox, kept) = (path.display(), kept.display());
    tracing::error!(%inbox, %kept, deliveries = copied,
        "the inbox was damaged: it was moved aside, and what could be read was taken over");
    Ok(new)
}

fn copy(old: &Connection, new: &mut Connection) -> rusqlite::Result<usize> {
    let transaction = new.transaction()?;
    let (mut copied, mut seq, mut last) = (0, 0, 0);
    while seq < last + GAP {
        seq += 1;
        if copy_row(old, &transaction, "deliveries", seq).unwrap_or(0) == 0 {
            continue;
        }
        last = seq;
        copied += 1;
        for table in ["bodies", "routes", "steps"] {
            // What cannot be read of it is missing from now on.
            let _ = copy_row(old, &transaction, table, seq);
        }
    }
    // Without its body a delivery cannot be routed any more, and says so.
    transaction.execute_batch(
        "UPDATE deliveries SET state = 'failed', reason = 'inbox-damaged'
         WHERE (state = 'received' AND seq NOT IN (SELECT seq FROM bodies))
            OR (state IN ('queued', 'injecting') AND seq NOT IN (SELECT seq FROM routes));",
    )?;
    transaction.commit()?;
    Ok(copied)
}

/// Copies what a table holds of one delivery, column by column as the old file
/// has them: it may be of an older format.
fn copy_row(old: &Connection, new: &Connection, table: &str, seq: i64) -> rusqlite::Result<usize> {
    let mut select = old.prepare_cached(&format!("SELECT * FROM {table} WHERE seq = ?1"))?;
    let columns: Vec<String> = select.column_names().map(str::to_owned).collect();
    let names = columns.join(", ");
    let marks = vec!["?"; columns.len()].join(", ");
    let mut insert =
        new.prepare_cached(&format!("INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})"))?;
    let mut rows = select.query([seq])?;
    let mut copied = 0;
    while let Some(row) = rows.next()? {
        let values = (0..columns.len())
            .map(|column| row.get::<_, rusqlite::types::Value>(column))
            .collect::<rusqlite::Result<Vec<_>>>()?;
        copied += insert.execute(rusqlite::params_from_iter(values))?;
    }
    Ok(copied)
}
