//! A damaged inbox is moved aside, never thrown away, and what can still be
//! read of it goes into a new one: a row that cannot be read costs that row.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};

use super::error::InboxError;
use super::open;
use super::remains::{self, Found};
use crate::base::files::atomic;

/// The mark in the name of a file that was moved aside.
const DAMAGED: &str = ".damaged-";

/// A file up to this size is looked through when it is opened.
const LOOK_THROUGH: u64 = 256 << 20;

/// The size of a page.
const PAGE: usize = 4096;

/// Beside a file that was moved aside: how many deliveries nothing names any more.
const MISSING: &str = ".missing";

/// Whether the content is damaged, as far as that is found quickly. What is
/// found later is an error of the read that finds it.
pub(super) fn is_damaged(connection: &Connection, path: &Path) -> bool {
    matches!(look_through(connection, path), Err(InboxError::Damaged { .. }))
}

/// The same; the error says what was found.
pub(super) fn look_through(connection: &Connection, path: &Path) -> Result<(), InboxError> {
    if fs_err::metadata(path).is_ok_and(|meta| meta.len() > LOOK_THROUGH) {
        return Ok(());
    }
    let sqlite = |error| InboxError::sqlite(path, "read", error);
    let answer: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(sqlite)?;
    if answer == "ok" {
        return Ok(());
    }
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    Err(sqlite(rusqlite::Error::SqliteFailure(code, Some(answer))))
}

/// Whether a log with content lies beside a file that is empty or gone. SQLite takes
/// such a log away as soon as the file is opened, even to be read.
pub(super) fn is_its_log_alone(path: &Path) -> bool {
    is_empty(path) && !is_empty(&beside(path, "-wal"))
}

/// Whether there is nothing in a file, or no file.
fn is_empty(path: &Path) -> bool {
    fs_err::metadata(path).map_or(true, |meta| meta.len() == 0)
}

fn beside(path: &Path, end: &str) -> PathBuf {
    PathBuf::from(format!("{}{end}", path.display()))
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
            name.starts_with(&prefix)
                && !["-wal", "-shm", MISSING].iter().any(|end| name.ends_with(end))
        })
        .collect();
    found.sort();
    found
}

/// How many deliveries may have been in a file that was moved aside, of which nothing
/// else is known.
pub(super) fn missing(kept: &Path) -> u64 {
    let note = fs_err::read_to_string(format!("{}{MISSING}", kept.display()));
    note.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Moves the file aside and gives a new inbox with all that could be read.
pub(super) fn salvage(path: &Path, now_ms: i64) -> Result<Connection, InboxError> {
    if is_its_log_alone(path) {
        return match salvage_headless(path, now_ms)? {
            Some(taken) => Ok(taken),
            None => take_over(path, None, now_ms),
        };
    }
    // Where it does not say which tables it has, nothing of it is found.
    let tables = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .and_then(|old| old.prepare("SELECT seq FROM deliveries").map(drop));
    if tables.is_err()
        && fs_err::metadata(path).is_ok_and(|meta| meta.len() > 0)
        && let Some(taken) = salvage_headless(path, now_ms)?
    {
        return Ok(taken);
    }
    take_over(path, None, now_ms)
}

/// The same for a file that SQLite does not take for a database, when it is an
/// inbox whose first page was destroyed; else nothing, and nothing is changed.
///
/// The first page says where the tables begin, and every inbox has them in the
/// same places: a copy with the first page of a new one can be read, with what its log
/// holds.
pub(super) fn salvage_headless(path: &Path, now_ms: i64) -> Result<Option<Connection>, InboxError> {
    let file = |error| InboxError::File { path: path.to_path_buf(), source: Arc::new(error) };
    let dir = path.parent().unwrap_or(Path::new("."));
    let scratch = tempfile::Builder::new().prefix(".salvage-").tempdir_in(dir).map_err(file)?;
    let new = scratch.path().join("new.db");
    drop(open::fresh(&new)?);
    let mut page = fs_err::read(&new).map_err(file)?;
    page.truncate(PAGE);
    let copy = scratch.path().join("copy.db");
    let length = if path.exists() { fs_err::copy(path, &copy).map_err(file)? } else { 0 };
    let log = beside(path, "-wal");
    if log.exists() {
        fs_err::copy(&log, beside(&copy, "-wal")).map_err(file)?;
    }
    // Bytes 28 to 31 say how many pages there are.
    let pages = u32::try_from(length / PAGE as u64).unwrap_or(u32::MAX).max(1);
    if let Some(size) = page.get_mut(28..32) {
        size.copy_from_slice(&pages.to_be_bytes());
    }
    let mut options = fs_err::OpenOptions::new();
    options
        .write(true)
        .create(true)
        .open(&copy)
        .and_then(|mut copy| copy.write_all(&page))
        .map_err(file)?;
    let readable = Connection::open(&copy).and_then(|connection| {
        connection.query_row(
            "SELECT count(*) FROM (SELECT 1 FROM deliveries
             WHERE kind IN ('github', 'local') AND received_at > 0 LIMIT 1)",
            [],
            |row| row.get::<_, i64>(0),
        )
    });
    if readable != Ok(1) {
        return Ok(None);
    }
    take_over(path, Some(&copy), now_ms).map(Some)
}

/// Moves the file aside; what is read is `copy`, where there is one.
fn take_over(path: &Path, copy: Option<&Path>, now_ms: i64) -> Result<Connection, InboxError> {
    let file = |error| InboxError::File { path: path.to_path_buf(), source: Arc::new(error) };
    let kept = PathBuf::from(format!("{}{DAMAGED}{now_ms}", path.display()));
    for end in ["-wal", "-shm", ""] {
        let from = beside(path, end);
        if from.exists() {
            fs_err::rename(&from, beside(&kept, end)).map_err(file)?;
        }
    }
    if !kept.exists() {
        atomic::write(&kept, b"").map_err(file)?;
    }
    let mut new = open::fresh(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let sqlite = |error| InboxError::sqlite(path, "open", error);
    let source = copy.or_else(|| (!is_empty(&kept)).then_some(kept.as_path()));
    let Found { copied, rebuilt, missing } =
        match source.map(|source| Connection::open_with_flags(source, flags)) {
            Some(Ok(old)) => {
                let transaction = new.transaction().map_err(sqlite)?;
                let found = remains::take(&old, &transaction, now_ms).map_err(sqlite)?;
                transaction.commit().map_err(sqlite)?;
                found
            }
            Some(Err(_)) | None => Found::default(),
        };
    if missing > 0 {
        let note = beside(&kept, MISSING);
        atomic::write(&note, missing.to_string().as_bytes()).map_err(file)?;
    }
    let (inbox, kept) = (path.display(), kept.display());
    tracing::error!(%inbox, %kept, deliveries = copied + rebuilt, rebuilt, missing,
        "the inbox was damaged: it was moved aside, and what could be read was taken over");
    Ok(new)
}
