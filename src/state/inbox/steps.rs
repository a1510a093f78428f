//! Where a delivery stands, and the log of how it came there.

use rusqlite::{Connection, OptionalExtension, params};

use super::model::About;
use super::packing::StoredBody;
use crate::core::outcome::{Reason, State};

/// How many steps a delivery that is still under way may have. One that waits
/// for days while its reasons take turns must not fill the disk.
const MAX_STEPS: i64 = 200;

/// Sets where a delivery stands and appends it to the log. The same decision
/// again changes nothing: a delivery may wait for days, and is asked about
/// every second. After [`MAX_STEPS`] the last step is replaced, except by one
/// that ends it. What the delivery is about is put down with it, because writing to
/// a row once costs half of writing to it twice.
pub(super) fn set_state(
    connection: &Connection,
    seq: i64,
    now: i64,
    state: State,
    reason: Reason,
    detail: Option<&str>,
    about: Option<&About>,
) -> rusqlite::Result<()> {
    let last: Option<(i64, String, String, Option<String>)> = connection
        .prepare_cached(
            "SELECT step, state, reason, detail FROM steps
             WHERE seq = ?1 ORDER BY step DESC LIMIT 1",
        )?
        .query_row([seq], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .optional()?;
    let mut was_injecting = false;
    if let Some((step, last_state, last_reason, last_detail)) = last {
        was_injecting = last_state == State::Injecting.as_str();
        if last_state == state.as_str()
            && last_reason == reason.as_str()
            && last_detail.as_deref() == detail
        {
            return about.map_or(Ok(()), |about| set_about(connection, seq, about));
        }
        if step >= MAX_STEPS && !state.is_final() {
            connection
                .prepare_cached("DELETE FROM steps WHERE seq = ?1 AND step = ?2")?
                .execute(params![seq, step])?;
        }
    }
    let begun = state == State::Injecting && !was_injecting;
    let (state_text, reason_text) = (state.as_str(), reason.as_str());
    match about {
        None => connection
            .prepare_cached(
                "UPDATE deliveries SET state = ?2, reason = ?3, changed_at = ?4,
                     attempts = attempts + ?5
                 WHERE seq = ?1",
            )?
            .execute(params![seq, state_text, reason_text, now, begun])?,
        Some(about) => {
            let About { item, own, url, .. } = about;
            connection
                .prepare_cached(
                    "UPDATE deliveries SET state = ?2, reason = ?3, changed_at = ?4,
                         attempts = attempts + ?5, item = coalesce(?6, item),
                         slug = coalesce(?7, slug), url = coalesce(?8, url), own = ?9
                     WHERE seq = ?1",
                )?
                .execute(params![
                    seq,
                    state_text,
                    reason_text,
                    now,
                    begun,
                    item.as_ref().map(ToString::to_string),
                    item.as_ref().map(|item| item.slug().to_string()),
                    url,
                    own.as_ref().map(|own| own.slug().to_string()),
                ])?
        }
    };
    append(connection, seq, now, state, reason, detail)
}

/// Sets what a delivery is about.
pub(super) fn set_about(connection: &Connection, seq: i64, about: &About) -> rusqlite::Result<()> {
    let About { item, own, url, .. } = about;
    connection
        .prepare_cached(
            "UPDATE deliveries SET item = coalesce(?2, item), slug = coalesce(?3, slug),
                 url = coalesce(?4, url), own = ?5
             WHERE seq = ?1",
        )?
        .execute(params![
            seq,
            item.as_ref().map(ToString::to_string),
            item.as_ref().map(|item| item.slug().to_string()),
            url,
            own.as_ref().map(|own| own.slug().to_string()),
        ])
        .map(drop)
}

/// Appends a step to the log.
pub(super) fn append(
    connection: &Connection,
    seq: i64,
    now: i64,
    state: State,
    reason: Reason,
    detail: Option<&str>,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO steps (seq, step, at, state, reason, detail)
             SELECT ?1, coalesce(max(step), 0) + 1, ?2, ?3, ?4, ?5 FROM steps WHERE seq = ?1",
        )?
        .execute(params![seq, now, state.as_str(), reason.as_str(), detail])
        .map(drop)
}

/// Keeps a body that is not there yet.
pub(super) fn put_body(
    connection: &Connection,
    seq: i64,
    body: &StoredBody,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR IGNORE INTO bodies (seq, body, size) VALUES (?1, ?2, ?3)")?
        .execute(params![seq, body.bytes, body.size])
        .map(drop)
}
