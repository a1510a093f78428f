//! Which state directory a registry is used with. The registry lies beside the
//! configuration; the locks on who receives and who drives lie in the state
//! directory, and there may be several of those over one registry: two
//! configuration files in one directory, or a shell and a service that differ in
//! `THE_LOOP_HOME` or `XDG_STATE_HOME`. Two receivers, or two drivers of one
//! conversation, must see each other all the same.
//!
//! So the registry's directory names the state directory that it is used with,
//! and whoever comes with another one looks there first. A receiver also holds a
//! kernel lock on the directory around the registry: that one outlives a
//! `git clean` that takes the registry and its note away.

use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fs_err as fs;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::drive::Drive;
use super::paths::StatePaths;
use super::turns::Turns;
use crate::base::dirs::Dirs;
use crate::base::failure::Failure;
use crate::base::files::lock::{DirLock, LockError, LockFile, holder};
use crate::base::files::{atomic, private_dir};
use crate::base::ids::Slug;
use crate::core::config::Config;

/// The file in the registry's directory that names the state directory.
const NOTE: &str = ".state.json";
/// Who is about to write the note holds this file's lock. Not the registry's own: by
/// its absence a registry that was swept is known.
const CLAIM: &str = ".state.lock";
/// Bytes of a note that are read.
const MAX_BYTES: u64 = 64 * 1024;
/// Whoever only looks at the lock holds it for a moment.
const SETTLES_WITHIN: Duration = Duration::from_secs(1);

#[derive(Debug, Serialize, Deserialize)]
struct Note {
    /// The registry that it is about: a copy of the directory is another one.
    registry: PathBuf,
    /// The state directory.
    dir: PathBuf,
}

/// The state that a registry is in use with, when it is not one's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// Its places.
    pub paths: StatePaths,
    /// What goes on there, as the subject of a sentence.
    pub what: String,
    /// Whether it is a receiver.
    pub is_receiver: bool,
}

/// Who uses a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum User {
    /// Nobody, or whoever has the same state.
    Own,
    /// Somebody with another state.
    Other(Elsewhere),
    /// A receiver that left no word of where its state is.
    Unknown,
}

/// Why a registry cannot be used with a state.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// It is in use with another.
    #[error("the sessions in `{}` are in use already", registry.display())]
    InUse {
        /// The registry.
        registry: PathBuf,
        /// By whom; nothing where that is not known.
        by: Option<Box<Elsewhere>>,
    },
    /// The note could not be written, or the lock not be taken.
    #[error("could not note who uses `{}`", registry.display())]
    Io {
        /// The registry.
        registry: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl From<ClaimError> for Failure {
    fn from(error: ClaimError) -> Self {
        let said = error.to_string();
        match error {
            ClaimError::InUse { by: Some(by), .. } => {
                let dir = by.paths.dir.display();
                let refused =
                    Self::refused(format!("{said}:\n  {}, with the state in\n  `{dir}`", by.what));
                if by.is_receiver {
                    refused.hint(
                        "`the-loop gh-webhook status` shows it, `the-loop gh-webhook stop` ends it",
                    )
                } else {
                    refused
                        .hint("two drivers of one conversation would destroy its history:")
                        .hint("end that first, or start with that state (`state.dir`)")
                }
            }
            ClaimError::InUse { by: None, .. } => Self::refused(format!(
                "{said}:\n  a receiver holds the directory around them, and no word of where \
                 its state is"
            ))
            .hint("run this with the same `THE_LOOP_HOME` and `XDG_STATE_HOME` as that receiver"),
            ClaimError::Io { source, .. } => Self::failed(said).because(source),
        }
    }
}

impl StatePaths {
    /// Who uses the registry of these places, which belong to the configuration
    /// `file`.
    pub fn user(&self, file: &Path, dirs: &Dirs) -> User {
        if holder(&self.lock()).is_some() {
            return User::Own;
        }
        self.user_beside_own(file, dirs)
    }

    /// Notes that the registry is used with this state from now on, unless it is in
    /// use with another. Whoever asks holds their lock in this state already: so one
    /// of two who ask at once sees the other.
    pub fn claim(&self, file: &Path, dirs: &Dirs) -> Result<(), ClaimError> {
        self.claim_unless(|| match self.user_beside_own(file, dirs) {
            User::Own => None,
            User::Other(found) => Some(Some(found)),
            User::Unknown => Some(None),
        })
    }

    /// The same for a receiver, which holds the registry's kernel lock from then on.
    pub fn claim_as_receiver(&self, file: &Path, dirs: &Dirs) -> Result<DirLock, ClaimError> {
        let until = Instant::now() + SETTLES_WITHIN;
        let lock = loop {
            match DirLock::try_acquire(around(&self.registry)) {
                Ok(lock) => break lock,
                Err(LockError::Held { .. }) if Instant::now() < until => {
                    if let User::Other(found) = self.user_beside_own(file, dirs)
                        && found.is_receiver
                    {
                        return Err(self.in_use(Some(found)));
                    }
                    std::thread::park_timeout(SETTLES_WITHIN / 20);
                }
                Err(LockError::Held { .. }) => return Err(self.in_use(None)),
                Err(error) => return Err(self.io(io::Error::other(error))),
            }
        };
        self.claim_unless(|| match self.user_beside_own(file, dirs) {
            User::Other(found) => Some(Some(found)),
            // The unknown one is this receiver.
            User::Own | User::Unknown => None,
        })?;
        Ok(lock)
    }

    fn claim_unless(
        &self,
        other: impl FnOnce() -> Option<Option<Elsewhere>>,
    ) -> Result<(), ClaimError> {
        private_dir(&self.registry).map_err(|error| self.io(error))?;
        let _lock = LockFile::acquire(&self.registry.join(CLAIM))
            .map_err(|error| self.io(io::Error::other(error)))?;
        match other() {
            Some(found) => Err(self.in_use(found)),
            None => note(&self.registry, &self.dir).map_err(|error| self.io(error)),
        }
    }

    /// Like `user`, for those whose own lock would hide the others.
    fn user_beside_own(&self, file: &Path, dirs: &Dirs) -> User {
        // First by the registry's own word, then by what is known of this file.
        let usual = Self::new(file, &Config::default(), dirs);
        let all = [noted_in(self), Self::noted(file, dirs), Some(usual)];
        let mut others = all.into_iter().flatten().filter(|other| other.dir != self.dir);
        match others.find_map(alive_in) {
            Some(found) => User::Other(found),
            None if holder(&self.lock()).is_some() => User::Own,
            None if DirLock::is_held(around(&self.registry)) => User::Unknown,
            None => User::Own,
        }
    }

    fn in_use(&self, by: Option<Elsewhere>) -> ClaimError {
        ClaimError::InUse { registry: self.registry.clone(), by: by.map(Box::new) }
    }

    fn io(&self, source: io::Error) -> ClaimError {
        ClaimError::Io { registry: self.registry.clone(), source }
    }
}

/// Notes which state directory a registry is used with, unless it says so already.
pub(super) fn note(registry: &Path, dir: &Path) -> io::Result<()> {
    let is_noted = read_note(registry).is_some_and(|noted| noted.dir == *dir);
    if is_noted {
        return Ok(());
    }
    let note = Note { registry: registry.to_path_buf(), dir: dir.to_path_buf() };
    let text = serde_json::to_vec(&note).map_err(io::Error::other)?;
    atomic::write(&registry.join(NOTE), &text)
}

/// Says again with which state a registry is used that was swept. The copies of its
/// entries are in the state directory.
pub(super) fn note_again(registry: &Path, copies: Option<&Path>) {
    let Some(dir) = copies.and_then(Path::parent) else { return };
    if let Err(error) = private_dir(registry).and_then(|()| note(registry, dir)) {
        tracing::warn!(%error, "could not note with which state the registry is used");
    }
}

/// The directory around a registry, which a sweep leaves: the configuration is in it.
fn around(registry: &Path) -> &Path {
    registry.parent().unwrap_or(Path::new("/"))
}

/// The note, when it is about this registry and not about one that was copied.
fn read_note(registry: &Path) -> Option<Note> {
    let flags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).custom_flags(flags).open(registry.join(NOTE)).ok()?;
    if !file.metadata().is_ok_and(|meta| meta.is_file()) {
        return None;
    }
    let note: Note = serde_json::from_reader(io::Read::take(file, MAX_BYTES)).ok()?;
    (note.registry == registry && note.dir.is_absolute()).then_some(note)
}

/// The places that the registry's own note names, when they are this user's.
fn noted_in(own: &StatePaths) -> Option<StatePaths> {
    let dir = read_note(&own.registry)?.dir;
    let user = rustix::process::getuid().as_raw();
    let is_ours = fs::metadata(&dir).is_ok_and(|meta| meta.is_dir() && meta.uid() == user);
    is_ours.then(|| own.at(dir))
}

/// What goes on with a state: a receiver, a turn, a person, or a tmux server that
/// was left.
fn alive_in(paths: StatePaths) -> Option<Elsewhere> {
    let found = |what, is_receiver| Some((what, is_receiver));
    let (what, is_receiver) = if let Some(who) = holder(&paths.lock()) {
        found(format!("a receiver ({who})"), true)
    } else if let Some(what) = driven_in(&paths) {
        found(what, false)
    } else if UnixStream::connect(paths.tmux_socket()).is_ok() {
        let socket = paths.tmux_socket();
        found(format!("agents in the tmux server at `{}`", socket.display()), false)
    } else {
        None
    }?;
    Some(Elsewhere { paths, what, is_receiver })
}

/// The turn or the person that drives a conversation with a state.
fn driven_in(paths: &StatePaths) -> Option<String> {
    let named = [Drive::named(paths), Turns::named(paths)];
    let slugs = named.into_iter().filter_map(Result::ok).flatten();
    let slugs = slugs.filter_map(|name| name.to_str()?.parse::<Slug>().ok());
    for slug in slugs {
        let drive = Drive::of(paths, &slug);
        if drive.is_attached() {
            return Some(format!("a person at `{slug}`"));
        }
        if drive.is_in_turn() || matches!(Turns::of(paths, &slug).live(), Ok(Some(_))) {
            return Some(format!("a turn of `{slug}`"));
        }
    }
    None
}
