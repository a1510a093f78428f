//! Reading what is told of GitHub's own: the pings of webhooks, and whether a
//! delivery was ever taken in.

use jiff::Timestamp;

use super::error::InboxError;
use super::reader::{InboxReader, body, time};
use crate::base::ids::DeliveryId;

/// How many pings are read: a webhook pings when it is made, and when a person asks
/// it to.
const PINGS: i64 = 200;

impl InboxReader {
    /// When GitHub last greeted the webhook.
    pub fn last_ping(&self) -> Result<Option<Timestamp>, InboxError> {
        self.row(
            "SELECT received_at FROM deliveries WHERE event = 'ping' ORDER BY seq DESC LIMIT 1",
            [],
            |row| time(row, 0),
        )
    }

    /// The latest pings whose bodies are kept, oldest first: when each came in, and
    /// its JSON.
    pub fn pings(&self) -> Result<Vec<(Timestamp, Vec<u8>)>, InboxError> {
        let mut found = self.rows(
            "SELECT d.received_at, b.body, b.size FROM deliveries d JOIN bodies b ON b.seq = d.seq
             WHERE d.event = 'ping' ORDER BY d.seq DESC LIMIT ?1",
            [PINGS],
            |row| Ok((time(row, 0)?, body(row, 1, 2)?)),
        )?;
        found.reverse();
        Ok(found)
    }

    /// Whether a delivery was taken in, whatever became of it.
    pub fn knows(&self, id: &DeliveryId) -> Result<bool, InboxError> {
        let found =
            self.row("SELECT 1 FROM deliveries WHERE id = ?1", [id.as_str()], |row| row.get(0))?;
        Ok(found.is_some_and(|one: i64| one == 1))
    }

    /// When the last delivery from GitHub was taken in.
    pub fn last_from_github(&self) -> Result<Option<Timestamp>, InboxError> {
        self.row(
            "SELECT received_at FROM deliveries WHERE kind = 'github' ORDER BY seq DESC LIMIT 1",
            [],
            |row| time(row, 0),
        )
    }
}
