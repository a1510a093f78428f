//! Requests that were refused: how many of each kind and when last, for `status`
//! and the figures. What is not stored leaves no other trace, and a webhook with
//! another secret would look like silence.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::base::clock::Clock;

/// How long after a line in the log the next one about the same kind may come:
/// anybody can make requests.
const QUIET: SignedDuration = SignedDuration::from_mins(1);

/// Requests of one kind that were refused since the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// The status that they were answered with.
    pub status: u16,
    /// Why, as they were told.
    pub why: String,
    /// How many.
    pub count: u64,
    /// When the last one came.
    pub last: Timestamp,
}

/// So many kinds are told apart at most; what else comes is counted as one.
const MOST: usize = 32;
const OTHERS: &str = "for other causes";

/// Counts what is refused.
#[derive(Debug)]
pub struct Refusals {
    clock: Clock,
    kinds: Mutex<BTreeMap<(u16, String), Kind>>,
}

#[derive(Debug)]
struct Kind {
    refused: Refused,
    said_at: Timestamp,
}

impl Refusals {
    /// Nothing was refused yet.
    pub fn new(clock: Clock) -> Self {
        Self { clock, kinds: Mutex::default() }
    }

    /// One more. The log has the first of a kind, and one a minute at most.
    pub(super) fn note(&self, status: u16, why: &str) {
        let now = self.clock.now();
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = (status, why.to_owned());
        if kinds.len() >= MOST && !kinds.contains_key(&key) {
            OTHERS.clone_into(&mut key.1);
        }
        let is_first = !kinds.contains_key(&key);
        let kind = kinds.entry(key).or_insert_with_key(|(_, why)| Kind {
            refused: Refused { status, why: why.clone(), count: 0, last: now },
            said_at: now,
        });
        kind.refused.count += 1;
        kind.refused.last = now;
        if is_first || now.duration_since(kind.said_at) >= QUIET {
            kind.said_at = now;
            let count = kind.refused.count;
            tracing::warn!(status, why, count, "a request was refused");
        }
    }

    /// Each kind, by its status and its cause.
    pub fn all(&self) -> Vec<Refused> {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.values().map(|kind| kind.refused.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_counted_with_the_time_of_its_last() {
        let refusals = Refusals::new(Clock::System);
        for (status, why) in [(401, "a"), (400, "b"), (401, "c")] {
            refusals.note(status, why);
        }
        let seen: Vec<_> =
            refusals.all().into_iter().map(|one| (one.status, one.why, one.count)).collect();
        let word = str::to_owned;
        assert_eq!(seen, [(400, word("b"), 1), (401, word("a"), 1), (401, word("c"), 1)]);
        // However many causes there are, they have a bound.
        for n in 0..100 {
            refusals.note(400, &format!("cause {n}"));
        }
        let all = refusals.all();
        assert!(all.len() <= MOST + 1, "{}", all.len());
        assert_eq!(all.iter().map(|one| one.count).sum::<u64>(), 103);
    }
}
