//! Until when a host of GitHub is not asked, because it said so: whoever asks it keeps
//! to that, whatever for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

/// The rests of all hosts. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Rests(Arc<Mutex<BTreeMap<String, Timestamp>>>);

impl Rests {
    /// Until when the host is not asked.
    pub(super) fn of(&self, host: &str) -> Option<Timestamp> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(host).copied()
    }

    /// The host is not asked until then.
    pub(super) fn rest(&self, host: &str, until: Timestamp) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(host.to_owned()).or_insert(until);
        *known = until.max(*known);
    }
}
