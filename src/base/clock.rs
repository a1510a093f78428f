//! The one place that asks what time it is.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

/// Wall-clock time, passed in as a value so that a test can choose it.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The machine's clock.
    #[default]
    System,
    /// A clock that only a test moves.
    Manual(Arc<Mutex<Timestamp>>),
}

impl Clock {
    /// A clock that stands still at `at`.
    pub fn manual(at: Timestamp) -> Self {
        Self::Manual(Arc::new(Mutex::new(at)))
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => system_now(),
            Self::Manual(at) => *at.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// The time now in milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        self.now().as_millisecond()
    }

    /// Moves a manual clock; the system's clock is left alone.
    pub fn set(&self, to: Timestamp) {
        if let Self::Manual(at) = self {
            *at.lock().unwrap_or_else(PoisonError::into_inner) = to;
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the clock")]
fn system_now() -> Timestamp {
    Timestamp::now()
}
