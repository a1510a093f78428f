//! Tells whoever shows the sessions that an entry has changed, whoever wrote it.
//!
//! It is only ever a reason to look. A machine without watches gives none, and
//! those who look do it at their own pace.

use std::path::Path;

use notify::{EventKind, RecursiveMode, Watcher as _};
use tokio::sync::watch;

use super::Registry;

/// The changes of a registry's directory, as long as this lives.
#[derive(Debug)]
pub struct Changes {
    number: watch::Receiver<u64>,
    _watcher: Option<notify::RecommendedWatcher>,
}

impl Changes {
    fn of(dir: &Path) -> Self {
        let (sender, number) = watch::channel(0);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading an entry is an event too, and no news.
            if !event.is_ok_and(|event| matches!(event.kind, EventKind::Access(_))) {
                sender.send_modify(|number: &mut u64| *number = number.wrapping_add(1));
            }
        });
        let watcher = watcher.and_then(|mut watcher| {
            watcher.watch(dir, RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        if let Err(error) = &watcher {
            tracing::debug!(%error, "changes of the registry are looked for, not awaited");
        }
        Self { number, _watcher: watcher.ok() }
    }

    /// Waits for the next change; for ever where nothing tells of one.
    pub async fn next(&mut self) {
        if self.number.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Registry {
    /// Watches the entries.
    pub fn changes(&self) -> Changes {
        Changes::of(&self.dir)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn an_entry_that_somebody_writes_is_a_change_and_one_that_is_read_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut changes = Registry::open(dir.path()).changes();
        let file = dir.path().join("o+r+1.json");
        for text in ["one", "two"] {
            fs_err::write(&file, text).unwrap();
            tokio::time::timeout(Duration::from_secs(5), changes.next()).await.unwrap();
        }
        // What the last write still says.
        while tokio::time::timeout(Duration::from_millis(200), changes.next()).await.is_ok() {}
        assert_eq!(fs_err::read_to_string(&file).unwrap(), "two");
        let next = tokio::time::timeout(Duration::from_millis(200), changes.next()).await;
        assert!(next.is_err(), "reading is no change");
    }

    #[tokio::test]
    async fn a_directory_that_is_not_there_tells_nothing_and_ends_nothing() {
        let mut changes = Registry::open("/nonexistent/sessions").changes();
        let next = tokio::time::timeout(Duration::from_millis(50), changes.next()).await;
        assert!(next.is_err());
    }
}
