//! The registry: one JSON file for each session, beside the configuration.
//!
//! People and other programs may read these files, and an agent can write them.
//! So each is judged alone: one that cannot be read is reported and left as it
//! is, and the others work. Every change happens under one lock and is written
//! as a whole. `host` and `cli` use it; it knows nothing of tmux.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fs_err as fs;

use crate::base::files::lock::{LockError, LockFile};
use crate::base::files::stamp::Stamp;
use crate::base::files::{atomic, private_dir};
use crate::base::ids::Slug;
use crate::core::session::Known;
use crate::state::in_use;
use crate::state::paths::StatePaths;

use self::entry::{io_reason, read};
use self::memory::Memory;

mod copies;
mod entry;
mod memory;

pub use crate::core::session::{RecordedItem, SessionRecord, SessionStatus};

/// The file whose lock every change is made under.
const LOCK: &str = ".lock";

/// The sessions in one directory.
#[derive(Debug, Clone)]
pub struct Registry {
    dir: PathBuf,
    /// Every entry as it was last seen; only where that was asked for.
    memory: Option<Arc<Mutex<Memory>>>,
    /// Where copies of what is written go; only where that was asked for.
    copies: Option<PathBuf>,
}

/// How long a sweep may take: for so long an entry that is missing beside a lock
/// file is looked for again, and one that goes after a sweep was seen is written
/// again.
const SWEEP: Duration = Duration::from_millis(100);
const SWEPT: Duration = Duration::from_secs(2);

/// Every entry of a registry.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// Those that can be read.
    pub records: BTreeMap<Slug, SessionRecord>,
    /// Those that cannot.
    pub broken: Vec<Broken>,
}

/// An entry that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Its file.
    pub path: PathBuf,
    /// The session it would be by its file's name.
    pub slug: Option<Slug>,
    /// What is wrong with it.
    pub why: String,
}

/// Why the registry could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The entry cannot be read. It was left as it is.
    #[error(
        "the entry `{}` cannot be read ({why}): put it right, or move it away and its session \
         starts anew",
        path.display()
    )]
    Unreadable {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// There is no entry to change.
    #[error("there is no entry `{}`", path.display())]
    Missing {
        /// The file that was looked for.
        path: PathBuf,
    },
    /// The entry cannot be put into words that a file can hold.
    #[error("cannot write down the session in `{}`", path.display())]
    Unwritable {
        /// Its file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// The directory or a file failed.
    #[error("the registry `{}` failed", dir.display())]
    Io {
        /// The directory of the registry.
        dir: PathBuf,
        /// Why, with the path.
        source: io::Error,
    },
    /// The lock could not be taken.
    #[error("the registry `{}` cannot be locked", dir.display())]
    Lock {
        /// The directory of the registry.
        dir: PathBuf,
        /// Why.
        source: LockError,
    },
}

impl Loaded {
    /// The sessions that an ITEM can mean, those that cannot be read among them.
    pub fn known(&self) -> Vec<Known> {
        let readable = self.records.iter().map(|(slug, record)| Known {
            slug: slug.clone(),
            item: Some(record.work_item.reference.clone()),
            pull_requests: record.pull_requests.clone(),
        });
        let broken = self.broken.iter().filter_map(|broken| {
            let slug = broken.slug.clone()?;
            Some(Known { slug, item: None, pull_requests: Vec::new() })
        });
        readable.chain(broken).collect()
    }
}

impl Registry {
    /// The registry in a directory, which need not be there yet.
    pub fn open(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), memory: None, copies: None }
    }

    /// The registry of a configuration, with the copies in its state.
    pub fn of(paths: &StatePaths) -> Self {
        Self::open(&paths.registry).with_copies(paths.copies())
    }

    /// The same, for a process that lives on: when the directory vanishes (a
    /// `git clean -fdx`), every entry that it knew is written again. One entry
    /// that is removed stays removed.
    #[must_use]
    pub fn remembering(self) -> Self {
        let this = Self { memory: Some(Arc::default()), ..self };
        this.load_all();
        this
    }

    /// Whether the directory is not there, or was swept: every directory that
    /// holds or held an entry has a lock file.
    pub fn is_swept(&self) -> bool {
        !self.dir.join(LOCK).exists()
    }

    /// Writes back what is known when the directory was swept.
    fn recall(&self) {
        if self.memory.is_some() && self.is_swept() {
            in_use::note_again(&self.dir, self.copies.as_deref());
            if let Some(mut memory) = self.memory() {
                memory.swept_at = Some(Instant::now());
            }
            self.write_again();
        }
    }

    fn write_again(&self) {
        let Some(known) = self.memory().map(|memory| memory.records()) else { return };
        if known.is_empty() {
            return;
        }
        let again = self.lock().and_then(|_lock| {
            for record in known.iter().filter(|record| !self.path(&record.slug()).exists()) {
                self.write(record)?;
            }
            Ok(())
        });
        let dir = self.dir.display();
        match again {
            Ok(()) => {
                tracing::warn!(%dir, sessions = known.len(), "the registry had vanished and was written again");
            }
            Err(error) => {
                let error = crate::base::failure::chain(&error);
                tracing::error!(%dir, error, "the registry has vanished");
            }
        }
    }

    /// Entries that are known are not there, and the lock file is: either somebody
    /// removed them, or a sweep has come so far, or was written into. Waits until
    /// that is told apart; `true` when it is worth looking again.
    #[expect(
        clippy::disallowed_methods,
        reason = "nobody tells how far somebody else's sweep has come"
    )]
    fn settle(&self, missing: &[Slug]) -> bool {
        let began = Instant::now();
        loop {
            let swept_at = self.memory().and_then(|memory| memory.swept_at);
            if self.is_swept() {
                self.recall();
                return true;
            }
            if swept_at.is_some_and(|at| at.elapsed() < SWEPT) {
                self.write_again();
                return true;
            }
            if missing.iter().all(|slug| self.path(slug).exists()) {
                return true;
            }
            if began.elapsed() > SWEEP {
                break;
            }
            std::thread::sleep(SWEEP / 10);
        }
        if let Some(mut memory) = self.memory() {
            memory.forget(missing);
        }
        false
    }

    fn memory(&self) -> Option<MutexGuard<'_, Memory>> {
        let memory = self.memory.as_ref()?;
        Some(memory.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn remember(&self, record: &SessionRecord, stamp: Option<Stamp>) {
        if let Some(mut memory) = self.memory() {
            memory.remember(record.slug(), record.clone(), stamp);
        }
    }

    /// The entry as it was read before, when its file has not been touched since.
    fn unchanged(&self, slug: &Slug, stamp: Option<&Stamp>) -> Option<SessionRecord> {
        self.memory()?.unchanged(slug, stamp?)
    }

    /// The directory of the entries.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file of a session's entry.
    pub fn path(&self, slug: &Slug) -> PathBuf {
        self.dir.join(format!("{slug}.json"))
    }

    /// Reads every entry. No directory is no sessions; one that cannot be read is
    /// a broken entry itself.
    pub fn load_all(&self) -> Loaded {
        self.recall();
        let loaded = self.read_all();
        let is_there = |slug: &Slug| {
            let is_broken = |broken: &Broken| broken.slug.as_ref() == Some(slug);
            loaded.records.contains_key(slug) || loaded.broken.iter().any(is_broken)
        };
        let missing: Vec<Slug> = self.memory().map_or_else(Vec::new, |memory| {
            memory.slugs().filter(|slug| !is_there(slug)).cloned().collect()
        });
        if !missing.is_empty() && self.settle(&missing) { self.read_all() } else { loaded }
    }

    fn read_all(&self) -> Loaded {
        // Whoever may have to write them again keeps what this version does not know.
        let parse = match self.memory {
            Some(_) => SessionRecord::from_json,
            None => SessionRecord::known_from_json,
        };
        let mut loaded = Loaded::default();
        let entries = fs::read_dir(&self.dir).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return loaded,
            Err(error) => {
                let why = io_reason(&error);
                loaded.broken.push(Broken { path: self.dir.clone(), slug: None, why });
                return loaded;
            }
        };
        for entry in entries {
            let path = entry.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let Some(stem) = name.strip_suffix(".json").filter(|stem| !stem.starts_with('.'))
            else {
                continue;
            };
            let Ok(slug) = stem.parse::<Slug>() else {
                let why = "its name is not that of a session".to_owned();
                loaded.broken.push(Broken { path, slug: None, why });
                continue;
            };
            // Before it is read: a change in between is then seen the next time.
            let stamp = self.memory.as_ref().and_then(|_| Stamp::of(&path));
            if let Some(record) = self.unchanged(&slug, stamp.as_ref()) {
                loaded.records.insert(slug, record);
                continue;
            }
            match read(&path, &slug, parse) {
                Ok(Some(record)) => {
                    self.remember(&record, stamp);
                    loaded.records.insert(slug, record);
                }
                // Removed since the directory was read.
                Ok(None) => {}
                Err(why) => loaded.broken.push(Broken { path, slug: Some(slug), why }),
            }
        }
        loaded.broken.sort_by(|a, b| a.path.cmp(&b.path));
        loaded
    }

    /// Reads a session's entry; `None` when it has none.
    pub fn load(&self, slug: &Slug) -> Result<Option<SessionRecord>, RegistryError> {
        self.recall();
        match self.read(slug)? {
            None if self.knows(slug) && self.settle(std::slice::from_ref(slug)) => self.read(slug),
            found => Ok(found),
        }
    }

    fn knows(&self, slug: &Slug) -> bool {
        self.memory().is_some_and(|memory| memory.knows(slug))
    }

    fn read(&self, slug: &Slug) -> Result<Option<SessionRecord>, RegistryError> {
        let path = self.path(slug);
        read(&path, slug, SessionRecord::from_json)
            .map_err(|why| RegistryError::Unreadable { path, why })
    }

    /// Writes a session's entry as a whole. Fields of the file that are not
    /// known here stay; one that cannot be read is not overwritten.
    pub fn save(&self, record: &SessionRecord) -> Result<(), RegistryError> {
        let slug = record.slug();
        self.recall();
        let _lock = self.lock()?;
        let unknown = match self.read(&slug)? {
            Some(stored) => stored.unknown,
            None => record.unknown.clone(),
        };
        self.write(&SessionRecord { unknown, ..record.clone() })
    }

    /// Changes a session's entry and gives it back as it is now. What others
    /// changed in the meantime is seen by `change`, and kept.
    pub fn update(
        &self,
        slug: &Slug,
        change: impl FnOnce(&mut SessionRecord),
    ) -> Result<SessionRecord, RegistryError> {
        let missing = || RegistryError::Missing { path: self.path(slug) };
        if self.knows(slug) {
            // Brings it back when a sweep has just taken it.
            self.load(slug)?;
        }
        self.recall();
        if !self.dir.is_dir() {
            return Err(missing());
        }
        let _lock = self.lock()?;
        let mut record = self.read(slug)?.ok_or_else(missing)?;
        let reference = record.work_item.reference.clone();
        change(&mut record);
        // An entry never becomes another item's: its file's name would lie.
        record.work_item.reference = reference;
        self.write(&record)?;
        Ok(record)
    }

    fn write(&self, record: &SessionRecord) -> Result<(), RegistryError> {
        let path = self.path(&record.slug());
        let bytes = record
            .to_json()
            .map_err(|source| RegistryError::Unwritable { path: path.clone(), source })?;
        atomic::write(&path, &bytes).map_err(|error| self.io(error))?;
        self.remember(record, None);
        self.copy(record);
        Ok(())
    }

    fn lock(&self) -> Result<LockFile, RegistryError> {
        private_dir(&self.dir).map_err(|error| self.io(error))?;
        LockFile::acquire(&self.dir.join(LOCK))
            .map_err(|source| RegistryError::Lock { dir: self.dir.clone(), source })
    }

    fn io(&self, source: io::Error) -> RegistryError {
        RegistryError::Io { dir: self.dir.clone(), source }
    }
}
