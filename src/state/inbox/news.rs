//! Reading what became of deliveries since a look before: those that came in after
//! it, those that were on their way then, and those that were routed again since.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use super::error::InboxError;
use super::model::{StoredDelivery, Summary};
use super::reader::{InboxReader, SUMMARY, stored, summary};
use crate::base::ids::DeliveryId;

/// How many are remembered that were put up for routing again.
const REMEMBERED: usize = 1000;

/// What was put up for routing again, the latest last: such a one may come to its end
/// between two looks, as it had before.
#[derive(Debug, Default)]
pub(super) struct Again(Mutex<VecDeque<DeliveryId>>);

impl Again {
    pub(super) fn note<'a>(&self, ids: impl Iterator<Item = &'a DeliveryId>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(ids.cloned());
        // Nobody may look.
        let surplus = all.len().saturating_sub(REMEMBERED);
        all.drain(..surplus);
    }

    /// All since this was last asked.
    pub(super) fn take(&self) -> VecDeque<DeliveryId> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl InboxReader {
    /// The place of the delivery that arrived last; 0 where there is none.
    pub fn last_place(&self) -> Result<i64, InboxError> {
        let found =
            self.row("SELECT max(seq) FROM deliveries", [], |row| row.get::<_, Option<i64>>(0))?;
        Ok(found.flatten().unwrap_or(0))
    }

    /// The deliveries behind a place in the order of arrival: so many of them.
    pub fn behind(&self, place: i64, limit: u32) -> Result<Vec<Summary>, InboxError> {
        self.rows(
            &format!("{SUMMARY} WHERE d.seq > ?1 ORDER BY d.seq LIMIT ?2"),
            [place, limit.into()],
            summary,
        )
    }

    /// The delivery at a place in the order of arrival; nothing where it cannot be
    /// read.
    pub fn at(&self, place: i64) -> Result<Option<Summary>, InboxError> {
        let found = self.rows(&format!("{SUMMARY} WHERE d.seq = ?1"), [place], summary)?;
        Ok(found.into_iter().next())
    }

    /// The place of a delivery.
    pub fn place_of(&self, id: &DeliveryId) -> Result<Option<i64>, InboxError> {
        self.row("SELECT seq FROM deliveries WHERE id = ?1", [id.as_str()], |row| row.get(0))
    }

    /// The places of the deliveries that have not come to their end.
    pub fn under_way(&self) -> Result<BTreeSet<i64>, InboxError> {
        let all = self.rows(
            "SELECT seq FROM deliveries WHERE state IN ('received', 'queued', 'injecting')",
            [],
            |row| row.get(0),
        )?;
        Ok(all.into_iter().collect())
    }

    /// What persons sent and nobody has routed yet.
    pub fn sent(&self) -> Result<Vec<StoredDelivery>, InboxError> {
        self.rows(
            "SELECT d.seq, d.id, d.event, d.received_at, d.kind, b.body, d.reason, b.size,
                    d.changed_at
             FROM deliveries d JOIN bodies b ON b.seq = d.seq
             WHERE d.state = 'received' AND d.kind = 'local'",
            [],
            stored,
        )
    }

    /// The deliveries that an agent was started with and whose headless turn runs.
    pub fn turns(&self) -> Result<Vec<Summary>, InboxError> {
        self.rows(
            &format!("{SUMMARY} WHERE d.state = 'injecting' AND d.reason = 'turn-running'"),
            [],
            summary,
        )
    }
}
