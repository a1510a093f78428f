//! Tells who looks at a directory of state, such as a session's turns or the
//! registry, that there is something new. It is only ever a reason to look: where
//! nothing can be watched, or a change is missed, the look comes by itself a little
//! later.

use std::path::Path;
use std::time::Duration;

use notify::{EventKind, RecursiveMode, Watcher as _};
use tokio::sync::watch;

/// How often is looked where changes are told.
const SELDOM: Duration = Duration::from_secs(5);
/// How often is looked where they are not.
const OFTEN: Duration = Duration::from_millis(250);
/// The least time between two looks: an agent may print without end.
const APART: Duration = Duration::from_millis(50);

/// Changes below one directory.
#[derive(Debug)]
pub struct Changes {
    news: watch::Receiver<u64>,
    /// Ends the watch when it is dropped; nothing where none could be had.
    watcher: Option<notify::RecommendedWatcher>,
}

impl Changes {
    /// Watches a directory and those in it.
    pub fn of(dir: &Path) -> Self {
        let (told, news) = watch::channel(0_u64);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading is an event too, and no news.
            if !event.is_ok_and(|event| matches!(event.kind, EventKind::Access(_))) {
                told.send_modify(|n| *n = n.wrapping_add(1));
            }
        });
        let watcher = watcher
            .and_then(|mut watcher| watcher.watch(dir, RecursiveMode::Recursive).map(|()| watcher));
        Self { news, watcher: watcher.ok() }
    }

    /// Waits until something may be new.
    pub async fn next(&mut self) {
        tokio::time::sleep(APART).await;
        let limit = if self.watcher.is_some() { SELDOM } else { OFTEN };
        // That the time is over is a reason to look as well.
        let _ = tokio::time::timeout(limit, self.news.changed()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn what_is_written_anywhere_below_is_told_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut changes = Changes::of(dir.path());
        let below = dir.path().join("0000000001");
        for n in 0..3 {
            let begin = Instant::now();
            if n == 0 {
                fs_err::create_dir(&below).unwrap();
            } else {
                fs_err::write(below.join("stdout"), "x".repeat(n)).unwrap();
            }
            changes.next().await;
            assert!(begin.elapsed() < SELDOM, "{n}");
        }
    }

    #[tokio::test]
    async fn without_a_change_a_look_comes_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let mut changes = Changes::of(&dir.path().join("none"));
        assert!(changes.watcher.is_none());
        tokio::time::timeout(Duration::from_secs(1), changes.next()).await.unwrap();
    }
}
