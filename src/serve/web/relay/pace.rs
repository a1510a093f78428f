//! How fast a browser may send: past that it is read more slowly, and the
//! network holds it back. Nothing is lost.

use std::time::Duration;

use tokio::time::Instant;

/// Frames and bytes that may come at once, and in each second after that. A
/// person's keys and a wheel stay far below; a long paste takes a moment.
const FRAMES_AT_ONCE: f64 = 400.0;
const FRAMES_A_SECOND: f64 = 400.0;
const BYTES_AT_ONCE: f64 = 1_048_576.0;
const BYTES_A_SECOND: f64 = 262_144.0;

/// What a browser has left of its measure.
#[derive(Debug)]
pub(super) struct Pace {
    frames: f64,
    bytes: f64,
    at: Instant,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { frames: FRAMES_AT_ONCE, bytes: BYTES_AT_ONCE, at: Instant::now() }
    }

    /// Takes a frame of this many bytes from the measure, and waits until it is
    /// within it.
    pub(super) async fn keep(&mut self, bytes: usize) {
        let wait = self.take(bytes, Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a frame is far below 2^52 bytes")]
    fn take(&mut self, bytes: usize, now: Instant) -> Duration {
        let passed = now.duration_since(self.at).as_secs_f64();
        self.at = now;
        self.frames = (self.frames + passed * FRAMES_A_SECOND).min(FRAMES_AT_ONCE) - 1.0;
        self.bytes = (self.bytes + passed * BYTES_A_SECOND).min(BYTES_AT_ONCE) - bytes as f64;
        let of_frames = (-self.frames / FRAMES_A_SECOND).max(0.0);
        let of_bytes = (-self.bytes / BYTES_A_SECOND).max(0.0);
        Duration::from_secs_f64(of_frames.max(of_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_a_flood_is_held_to_the_measure() {
        let mut pace = Pace::new();
        let start = pace.at;
        for _ in 0..400 {
            assert_eq!(pace.take(10, start), Duration::ZERO);
        }
        // One after the other, each after the wait that the one before was given.
        let mut now = start;
        for _ in 0..1000 {
            now += pace.take(10, now);
        }
        let took = now.duration_since(start).as_secs_f64();
        assert!((2.4..2.6).contains(&took), "{took}");
        let mut pace = Pace::new();
        let start = pace.at;
        let mut now = start;
        for _ in 0..48 {
            now += pace.take(64 << 10, now);
        }
        let took = now.duration_since(start).as_secs_f64();
        assert!((7.9..8.1).contains(&took), "{took}");
    }
}
