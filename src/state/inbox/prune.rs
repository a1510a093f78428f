//! What the inbox forgets, and when: bodies and prompts after a time or for want
//! of room, ids and outcomes after thirty days. Never anything of a delivery
//! that has not come to its end.

use rusqlite::{Connection, params};

use super::model::Keep;
use super::texts;

/// How long ids and outcomes stay at least. GitHub can send a delivery again for
/// some days, and it must be known then.
const OUTCOMES_STAY_MS: i64 = 30 * 24 * 60 * 60 * 1000;

/// How many rows one step drops, so that no writer waits for long.
const AT_A_TIME: i64 = 200;

/// The states in which a delivery has come to its end.
const ENDED: &str = "('delivered', 'done', 'ignored', 'failed', 'unproven')";

/// Drops some of what is to go; 0 when nothing is left to drop.
pub(super) fn step(connection: &Connection, keep: Keep, now: i64) -> rusqlite::Result<u64> {
    let age = i64::try_from(keep.age.as_millis()).unwrap_or(i64::MAX);
    let old = now.saturating_sub(age);
    let very_old = now.saturating_sub(age.max(OUTCOMES_STAY_MS));
    let mut dropped = 0;
    for table in ["steps", "routes", "bodies"] {
        dropped += connection.execute(
            &format!(
                "DELETE FROM {table} WHERE seq IN (
                     SELECT seq FROM deliveries WHERE received_at < ?1 AND state IN {ENDED}
                     ORDER BY received_at LIMIT ?2)"
            ),
            params![very_old, AT_A_TIME],
        )?;
    }
    dropped += connection.execute(
        &format!(
            "DELETE FROM deliveries WHERE seq IN (
                 SELECT seq FROM deliveries WHERE received_at < ?1 AND state IN {ENDED}
                 ORDER BY received_at LIMIT ?2)"
        ),
        params![very_old, AT_A_TIME],
    )?;
    dropped += connection.execute("DELETE FROM heads WHERE at < ?1", [very_old])?;
    dropped += texts::forget(connection, very_old, AT_A_TIME)?;
    dropped += bodies(connection, "AND d.received_at < ?2", &[&AT_A_TIME, &old], u64::MAX)?;
    let excess = used(connection)?.saturating_sub(keep.size);
    if excess > 0 {
        dropped += bodies(connection, "", &[&AT_A_TIME], excess)?;
    }
    Ok(dropped as u64)
}

/// Drops the oldest bodies, and the prompts beside them, until so many bytes are
/// free.
fn bodies(
    connection: &Connection,
    condition: &str,
    params: &[&dyn rusqlite::ToSql],
    enough: u64,
) -> rusqlite::Result<usize> {
    let oldest: Vec<(i64, i64)> = connection
        .prepare_cached(&format!(
            "SELECT b.seq, length(b.body) FROM bodies b JOIN deliveries d ON d.seq = b.seq
             WHERE d.state IN {ENDED} {condition} ORDER BY b.seq LIMIT ?1"
        ))?
        .query_map(params, |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut freed = 0_u64;
    let mut dropped = 0;
    for (seq, bytes) in &oldest {
        if freed >= enough {
            break;
        }
        freed = freed.saturating_add(bytes.unsigned_abs());
        dropped += 1;
        connection.prepare_cached("DELETE FROM bodies WHERE seq = ?1")?.execute([seq])?;
        connection
            .prepare_cached("UPDATE routes SET prompt = '' WHERE seq = ?1")?
            .execute([seq])?;
    }
    Ok(dropped)
}

/// How many bytes of the file are in use. A file does not shrink: what is free
/// in it is used again.
fn used(connection: &Connection) -> rusqlite::Result<u64> {
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let pages = number("PRAGMA page_count")? - number("PRAGMA freelist_count")?;
    Ok((pages * number("PRAGMA page_size")?).unsigned_abs())
}
