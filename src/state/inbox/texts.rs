//! Who edited or armed the texts of items: what must be known as long as the item
//! may be told of, so retention leaves it alone.

use jiff::Timestamp;
use rusqlite::{Connection, params};

use super::error::InboxError;
use super::reader::{InboxReader, time, word};
use crate::base::ids::Slug;
use crate::base::text::cap;
use crate::core::routing::{TextEdit, TextField};

/// How much of a login is kept: GitHub allows no longer one.
const LOGIN_CHARS: usize = 100;

/// Remembers edits; of each person the latest, in whatever order they come.
pub(super) fn remember(
    connection: &Connection,
    slug: &Slug,
    edits: &[TextEdit],
    now: i64,
) -> rusqlite::Result<()> {
    for TextEdit { field, login, at, by_author, armed } in edits {
        let (login, at) = (cap(login, LOGIN_CHARS), at.as_millisecond());
        connection
            .prepare_cached(
                "INSERT INTO edits (slug, field, login, armed, by_author, at, seen)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                 ON CONFLICT DO UPDATE SET at = max(at, excluded.at), seen = excluded.seen",
            )?
            .execute(params![slug.as_str(), field.as_str(), login, armed, by_author, at, now])?;
    }
    Ok(())
}

/// Forgets what authors did to their own texts where nobody else touched them: it
/// says no more than that they are the authors.
pub(super) fn forget(connection: &Connection, before: i64, limit: i64) -> rusqlite::Result<usize> {
    connection.execute(
        "DELETE FROM edits WHERE (slug, field, login, armed) IN (
             SELECT slug, field, login, armed FROM edits e WHERE by_author AND seen < ?1
             AND NOT EXISTS (SELECT 1 FROM edits o WHERE o.slug = e.slug AND NOT o.by_author)
             LIMIT ?2)",
        [before, limit],
    )
}

impl InboxReader {
    /// Who edited or armed the texts of an item.
    pub fn edits(&self, slug: &Slug) -> Result<Vec<TextEdit>, InboxError> {
        self.rows(
            "SELECT field, login, at, by_author, armed FROM edits WHERE slug = ?1",
            [slug.as_str()],
            |row| {
                Ok(TextEdit {
                    field: word(row, 0, TextField::parse)?,
                    login: row.get(1)?,
                    at: time(row, 2).unwrap_or(Timestamp::MAX),
                    by_author: row.get(3)?,
                    armed: row.get(4)?,
                })
            },
        )
    }
}
