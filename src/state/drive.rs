//! Who drives a headless conversation: two drivers at once destroy its history,
//! so there are two kernel locks for each session. A person who attaches holds
//! the first from then on, and takes the second when no turn runs; a turn holds
//! the second, and is not begun while the first is held.
//!
//! A killed holder holds nothing. The agent that a killed `attach` left behind
//! still counts: its number and its start are written down.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use crate::base::files::lock::{LockError, LockFile};
use crate::base::ids::Slug;

use super::paths::StatePaths;
use super::turns::Mark;

/// The locks of one session.
#[derive(Debug, Clone)]
pub struct Drive {
    attach: PathBuf,
    turn: PathBuf,
    agent: PathBuf,
}

impl Drive {
    /// The locks of a session.
    pub fn of(paths: &StatePaths, slug: &Slug) -> Self {
        let file = |kind: &str| paths.drive().join(format!("{slug}.{kind}"));
        Self { attach: file("attach"), turn: file("turn"), agent: file("agent.json") }
    }

    /// The sessions that a file here names: no other one is, or was, driven.
    pub fn named(paths: &StatePaths) -> io::Result<HashSet<OsString>> {
        let kinds = [".attach", ".turn", ".agent.json"];
        let name = |entry: io::Result<fs_err::DirEntry>| {
            let name = entry?.file_name();
            let text = name.to_string_lossy();
            let slug = kinds.iter().find_map(|kind| text.strip_suffix(kind)).map(OsString::from);
            Ok(slug.unwrap_or(name))
        };
        match fs_err::read_dir(paths.drive()) {
            Ok(entries) => entries.map(name).collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(HashSet::new()),
            Err(error) => Err(error),
        }
    }

    /// The lock of a person who attaches.
    pub fn try_attach(&self) -> Result<LockFile, LockError> {
        LockFile::try_acquire(&self.attach)
    }

    /// The lock of a turn, or of the attached agent while it lives.
    pub fn try_turn(&self) -> Result<LockFile, LockError> {
        LockFile::try_acquire(&self.turn)
    }

    /// The file that names the process of the attached agent.
    pub fn agent(&self) -> &PathBuf {
        &self.agent
    }

    /// Whether a person is attached, or the agent of one still lives.
    pub fn is_attached(&self) -> bool {
        // Whoever can take the lock is the only one: nobody is attached.
        let is_held =
            self.attach.exists() && matches!(self.try_attach(), Err(LockError::Held { .. }));
        is_held || self.left_behind().is_some()
    }

    /// The agent that somebody left behind whose `attach` was killed.
    pub fn orphan(&self) -> Option<Mark> {
        let agent = self.left_behind()?;
        // Who holds the lock is with the agent.
        self.try_attach().is_ok().then_some(agent)
    }

    /// Whether a turn runs that holds its lock.
    pub fn is_in_turn(&self) -> bool {
        self.turn.exists() && matches!(self.try_turn(), Err(LockError::Held { .. }))
    }

    /// The agent of a person who attached, while it lives: also when whoever
    /// attached was killed.
    pub fn left_behind(&self) -> Option<Mark> {
        fs_err::read(&self.agent)
            .ok()
            .and_then(|bytes| serde_json::from_slice::<Mark>(&bytes).ok())
            .filter(Mark::is_alive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::dirs::Dirs;
    use crate::core::config::Config;

    #[test]
    fn one_look_names_every_session_that_may_be_driven() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_path_buf();
        let dirs = Dirs { config: root.clone(), data: root.clone(), state: root };
        let paths = StatePaths::new(&dir.path().join("config.yaml"), &Config::default(), &dirs);
        assert_eq!(Drive::named(&paths).unwrap(), HashSet::new(), "no directory yet");
        fs_err::create_dir_all(paths.drive()).unwrap();
        let slugs: Vec<Slug> =
            ["o+r+1", "o+turn+2", "o+r+3"].map(|slug| slug.parse().unwrap()).into();
        let drives: Vec<_> = slugs.iter().map(|slug| Drive::of(&paths, slug)).collect();
        let _locks = (drives[0].try_attach().unwrap(), drives[1].try_turn().unwrap());
        fs_err::write(drives[2].agent(), "").unwrap();
        let named = Drive::named(&paths).unwrap();
        assert_eq!(named, slugs.iter().map(|slug| slug.as_str().into()).collect());
    }
}
