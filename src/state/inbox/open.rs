//! Opening the inbox's file: whose it is, how it is written, which format it
//! has. Nothing is ever changed in a file that is not an inbox.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::error::{InboxError, NO_DATABASE};
use super::salvage;
use crate::base::files;

/// "loop", so that `file` and we can tell an inbox from any other database.
const APPLICATION_ID: i64 = 0x6c6f_6f70;

/// What makes each format out of the one before it.
const MIGRATIONS: &[&str] = &[
    include_str!("schema.sql"),
    include_str!("heads.sql"),
    include_str!("urgent.sql"),
    include_str!("own.sql"),
    include_str!("packed.sql"),
    include_str!("edits.sql"),
];

/// How long a reader or writer waits for another process that holds the lock.
const BUSY: Duration = Duration::from_secs(5);

/// Opens the inbox to be written to, and makes it when there is none. One that
/// is damaged is moved aside, and what can be read of it is taken over.
pub(super) fn read_write(path: &Path, now_ms: i64) -> Result<Connection, InboxError> {
    if is_emptied(path) || salvage::is_its_log_alone(path) {
        return salvage::salvage(path, now_ms);
    }
    let opened = fresh(path);
    match opened {
        Ok(connection) if salvage::is_damaged(&connection, path) => {
            drop(connection);
            salvage::salvage(path, now_ms)
        }
        Err(InboxError::Damaged { .. }) => salvage::salvage(path, now_ms),
        Err(foreign @ InboxError::NotAnInbox { found: NO_DATABASE, .. }) => {
            salvage::salvage_headless(path, now_ms)?.ok_or(foreign)
        }
        opened => opened,
    }
}

/// Whether the file is empty beside state that no new inbox has: what was in it is
/// lost, and that must be said.
fn is_emptied(path: &Path) -> bool {
    let is_empty = fs_err::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() == 0);
    is_empty && was_used(path)
}

/// Whether the state beside an inbox shows that there were sessions.
pub(super) fn was_used(path: &Path) -> bool {
    let dir = path.parent().unwrap_or(Path::new("."));
    ["sessions", "turns", "spool"].iter().any(|name| {
        fs_err::read_dir(dir.join(name)).is_ok_and(|mut entries| entries.next().is_some())
    })
}

/// Opens a file that is an inbox or empty.
pub(super) fn fresh(path: &Path) -> Result<Connection, InboxError> {
    make_file(path)
        .map_err(|error| InboxError::File { path: path.to_path_buf(), source: Arc::new(error) })?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let sqlite = |error| InboxError::sqlite(path, "open", error);
    let mut connection = Connection::open_with_flags(path, flags).map_err(sqlite)?;
    connection.busy_timeout(BUSY).map_err(sqlite)?;
    check(&connection, path)?;
    // FULL: a commit is on the disk when it returns, not only with the kernel.
    // fullfsync is what that takes on macOS; elsewhere it means nothing.
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA fullfsync = ON;
             PRAGMA checkpoint_fullfsync = ON;
             PRAGMA journal_size_limit = 67108864;
             PRAGMA trusted_schema = OFF;",
        )
        .map_err(sqlite)?;
    migrate(&mut connection, path)?;
    Ok(connection)
}

/// Opens the inbox to look at it, also while another process writes to it.
pub(super) fn read_only(path: &Path) -> Result<Connection, InboxError> {
    if !path.exists() {
        return Err(InboxError::Missing { path: path.to_path_buf() });
    }
    if let Some(trouble) = log_alone(path) {
        return Err(trouble);
    }
    let sqlite = |error| InboxError::sqlite(path, "open", error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(sqlite)?;
    connection.busy_timeout(BUSY).map_err(sqlite)?;
    let found = check(&connection, path)?;
    if found == 0 {
        // Made and never filled: its owner was killed at its first start.
        return Err(InboxError::Missing { path: path.to_path_buf() });
    }
    if found < known() {
        return Err(InboxError::Older { path: path.to_path_buf(), found, known: known() });
    }
    connection.execute_batch("PRAGMA trusted_schema = OFF;").map_err(sqlite)?;
    Ok(connection)
}

/// What is wrong where only the log is left of an inbox.
pub(super) fn log_alone(path: &Path) -> Option<InboxError> {
    salvage::is_its_log_alone(path).then(|| {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
        let what = "the file is empty or gone, and its log is there".to_owned();
        let error = rusqlite::Error::SqliteFailure(code, Some(what));
        InboxError::sqlite(path, "open", error)
    })
}

/// Makes the file before SQLite would: private from its first moment. SQLite
/// gives the files beside it the same mode.
fn make_file(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => fs_err::File::open(dir)?.sync_all(),
            _ => Ok(()),
        },
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => files::make_private(path),
        Err(error) => Err(error),
    }
}

/// The format of the file, 0 for an empty one; an error when it is not ours.
fn check(connection: &Connection, path: &Path) -> Result<i64, InboxError> {
    let number = |sql: &str| -> Result<i64, InboxError> {
        connection
            .query_row(sql, [], |row| row.get(0))
            .map_err(|error| InboxError::sqlite(path, "open", error))
    };
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    let application = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    match application {
        0 if tables == 0 && version == 0 => Ok(0),
        APPLICATION_ID if version > known() => {
            Err(InboxError::Newer { path: path.to_path_buf(), found: version, known: known() })
        }
        APPLICATION_ID => Ok(version),
        _ => Err(InboxError::NotAnInbox {
            path: path.to_path_buf(),
            found: "a database of another program",
        }),
    }
}

fn known() -> i64 {
    i64::try_from(MIGRATIONS.len()).expect("a handful")
}

/// Brings the file to the newest format, each step whole or not at all.
fn migrate(connection: &mut Connection, path: &Path) -> Result<(), InboxError> {
    let sqlite = |error| InboxError::sqlite(path, "open", error);
    for (version, sql) in (1_i64..).zip(MIGRATIONS) {
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sqlite)?;
        // Looked at inside the transaction: another process may have been first.
        let found: i64 =
            transaction.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(sqlite)?;
        if found >= version {
            continue;
        }
        transaction
            .execute_batch(&format!(
                "{sql}
                 PRAGMA application_id = {APPLICATION_ID};
                 PRAGMA user_version = {version};"
            ))
            .and_then(|()| transaction.commit())
            .map_err(sqlite)?;
    }
    Ok(())
}
