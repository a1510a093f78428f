//! The lock that lets one receiver at a time work with a state.

use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use super::control::ask_status;
use crate::base::failure::Failure;
use crate::base::files::lock::{LockError, LockFile};

/// How long a lock is tried for that no receiver answers for.
const LOCK_WITHIN: Duration = Duration::from_secs(1);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Takes the lock of the receiver. One that a receiver holds is refused at once; a
/// command that looks whether it is held has it too, for a moment, and so has a
/// program that a receiver was starting when it was killed.
pub(super) async fn take_lock(lock: &Path, control: &Path) -> Result<LockFile, Failure> {
    let end = Instant::now() + LOCK_WITHIN;
    loop {
        let error = match LockFile::try_acquire(lock) {
            Ok(lock) => return Ok(lock),
            Err(error) => error,
        };
        let LockError::Held { holder, .. } = &error else {
            return Err(Failure::failed("could not take the receiver's lock").because(error));
        };
        let answers = matches!(ask_status(control).await, Ok(Some(_)));
        if answers || Instant::now() > end {
            return Err(Failure::refused(format!(
                "another receiver runs with this configuration ({holder})"
            ))
            .hint("`the-loop gh-webhook status` shows it, `the-loop gh-webhook stop` ends it"));
        }
        tokio::time::sleep(LOCK_PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lock_that_is_only_looked_at_is_waited_for_and_a_held_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (lock, control) = (dir.path().join("lock"), dir.path().join("control"));
        let mut first = LockFile::try_acquire(&lock).unwrap();
        first.describe("pid 1").unwrap();
        let refused = take_lock(&lock, &control).await.unwrap_err().to_string();
        assert_eq!(refused, "another receiver runs with this configuration (pid 1)");
        let look = async {
            tokio::time::sleep(LOCK_WITHIN / 4).await;
            drop(first);
        };
        let (taken, ()) = tokio::join!(take_lock(&lock, &control), look);
        taken.unwrap();
    }
}
