//! Tells a waiting task that a session's spool has something new.
//!
//! It is only ever a reason to look: what counts is what the directory holds. A
//! machine without watches (none left, a file system without them) gets no
//! hints, and the readers look at their own pace.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use notify::{EventKind, RecursiveMode, Watcher as _};
use tokio::sync::watch;

use super::is_signal;
use crate::base::failure::chain;
use crate::base::files::private_dir;
use crate::base::ids::Slug;

type Sessions = Arc<Mutex<HashMap<PathBuf, watch::Sender<u64>>>>;

/// Watches the directories of sessions below one root.
#[derive(Debug)]
pub struct Watcher {
    root: PathBuf,
    sessions: Sessions,
    watches: Mutex<Option<notify::RecommendedWatcher>>,
    problem: Mutex<Option<String>>,
}

impl Watcher {
    /// Gets ready to watch directories below `root`. Where that does not work,
    /// [`Watcher::problem`] says why and no hint will ever come.
    pub fn start(root: &Path) -> Self {
        let sessions = Sessions::default();
        let told = Arc::clone(&sessions);
        let watches = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            tell(&told, event);
        });
        let (watches, problem) = match watches {
            Ok(watches) => (Some(watches), None),
            Err(error) => (None, Some(chain(&error))),
        };
        Self {
            // The kernel names files by the path that was watched.
            root: root.to_path_buf(),
            sessions,
            watches: Mutex::new(watches),
            problem: Mutex::new(problem),
        }
    }

    /// The directory of a session.
    pub fn dir(&self, slug: &Slug) -> PathBuf {
        self.root.join(slug.as_str())
    }

    /// Makes the session's directory, watches it, and gives a number that
    /// changes with every new signal. Subscribe before the first look, and each
    /// later signal is seen.
    pub fn subscribe(&self, slug: &Slug) -> std::io::Result<watch::Receiver<u64>> {
        let dir = self.dir(slug);
        private_dir(&dir)?;
        {
            let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(sender) = sessions.get(&dir) {
                return Ok(sender.subscribe());
            }
            sessions.insert(dir.clone(), watch::Sender::new(0));
        }
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watches) = watches.as_mut()
            && let Err(error) = watches.watch(&dir, RecursiveMode::NonRecursive)
        {
            let mut problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
            *problem = Some(format!("`{}`: {}", dir.display(), chain(&error)));
        }
        drop(watches);
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(sessions.get(&dir).map_or_else(|| watch::channel(0).1, watch::Sender::subscribe))
    }

    /// Stops watching a session.
    pub fn forget(&self, slug: &Slug) {
        let dir = self.dir(slug);
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(&dir);
        if let Some(watches) = self.watches.lock().unwrap_or_else(PoisonError::into_inner).as_mut()
        {
            // The directory may be gone, and its watch with it.
            let _ = watches.unwatch(&dir);
        }
    }

    /// Why hints do not come, when they do not.
    pub fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Called on the watcher's own thread.
fn tell(sessions: &Sessions, event: notify::Result<notify::Event>) {
    let sessions = sessions.lock().unwrap_or_else(PoisonError::into_inner);
    let bump = |sender: &watch::Sender<u64>| sender.send_modify(|n| *n = n.wrapping_add(1));
    match event {
        // Reading a signal is an event too, and no news.
        Ok(event) if matches!(event.kind, EventKind::Access(_) | EventKind::Remove(_)) => {}
        Ok(event) if !event.need_rescan() => {
            for path in &event.paths {
                let name = path.file_name().and_then(|name| name.to_str());
                if name.is_some_and(is_signal)
                    && let Some(sender) = path.parent().and_then(|dir| sessions.get(dir))
                {
                    bump(sender);
                }
            }
        }
        // Events were lost: each may have been one of theirs.
        Ok(_) | Err(_) => sessions.values().for_each(bump),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::state::spool::{read_after, write};

    fn slug(text: &str) -> Slug {
        text.parse().unwrap()
    }

    #[tokio::test]
    async fn a_new_signal_wakes_its_session_and_no_other() {
        let root = tempfile::tempdir().unwrap();
        let watcher = Watcher::start(root.path());
        assert_eq!(watcher.problem(), None);
        let mut one = watcher.subscribe(&slug("o+r+1")).unwrap();
        let mut two = watcher.subscribe(&slug("o+r+2")).unwrap();
        for n in 0..3 {
            write(&watcher.dir(&slug("o+r+1")), &json!({ "n": n })).unwrap();
            tokio::time::timeout(Duration::from_secs(5), one.changed()).await.unwrap().unwrap();
            one.borrow_and_update();
            let read = read_after(&watcher.dir(&slug("o+r+1")), None).unwrap();
            assert_eq!(read.len(), n + 1);
        }
        assert!(!two.has_changed().unwrap());
        write(&watcher.dir(&slug("o+r+2")), &json!({})).unwrap();
        tokio::time::timeout(Duration::from_secs(5), two.changed()).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_forgotten_session_is_not_watched_and_can_come_back() {
        let root = tempfile::tempdir().unwrap();
        let watcher = Watcher::start(root.path());
        let mut old = watcher.subscribe(&slug("o+r+1")).unwrap();
        watcher.forget(&slug("o+r+1"));
        assert!(old.changed().await.is_err(), "the sender is gone");
        let mut new = watcher.subscribe(&slug("o+r+1")).unwrap();
        write(&watcher.dir(&slug("o+r+1")), &json!({})).unwrap();
        tokio::time::timeout(Duration::from_secs(5), new.changed()).await.unwrap().unwrap();
    }
}
