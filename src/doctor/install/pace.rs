//! How fast a server must be. One that sends a byte now and then is neither
//! silent nor of any use, and others wait for the same lock meanwhile.

use std::time::{Duration, Instant};

/// What a server must send in a second.
const LEAST: u64 = 1024;

/// Looks at what came, a while at a time.
#[derive(Debug)]
pub(super) struct Pace {
    window: Duration,
    since: Instant,
    at: u64,
}

impl Pace {
    /// From so many bytes on. `window` is how long it may be slow.
    pub(super) fn new(window: Duration, now: Instant, here: u64) -> Self {
        Self { window, since: now, at: here }
    }

    /// What came in the last while, and how long that was, when it was too little.
    pub(super) fn too_slow(&mut self, now: Instant, here: u64) -> Option<(u64, Duration)> {
        let passed = now.duration_since(self.since);
        if passed < self.window {
            return None;
        }
        let came = here.saturating_sub(self.at);
        (self.since, self.at) = (now, here);
        (came < least(passed)).then_some((came, passed))
    }
}

/// What must come in such a time.
pub(super) fn least(time: Duration) -> u64 {
    LEAST.saturating_mul(time.as_secs().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_be_slow_for_a_while_and_not_for_longer() {
        let begin = Instant::now();
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        let mut pace = Pace::new(Duration::from_secs(30), begin, 500);
        for (second, here, slow) in [
            (10, 501, None),
            (29, 502, None),
            (30, 503, Some((3, Duration::from_secs(30)))),
            // The next while begins anew.
            (59, 503, None),
            (60, 503 + 30 * LEAST, None),
            (
                100,
                503 + 30 * LEAST + 40 * LEAST - 1,
                Some((40 * LEAST - 1, Duration::from_secs(40))),
            ),
        ] {
            assert_eq!(pace.too_slow(at(second), here), slow, "at {second} s");
        }
    }
}
