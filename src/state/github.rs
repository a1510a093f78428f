//! What is remembered of GitHub between two looks and two starts: the webhook of
//! each repository, which missed deliveries were asked for, what went wrong; and, in
//! a file of its own, what was said there.
//!
//! Two files, each replaced as a whole by the one task of `serve::github` that writes
//! it; the control socket and the doctor read them.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::inbox::{InboxError, InboxReader};
use crate::base::files::atomic;
use crate::base::ids::{DeliveryId, Repo};
use crate::core::github::{Asked, Hook, KEPT, Telling, ping};

/// What is remembered of one repository.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OfRepo {
    /// Its webhook, by its last ping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook: Option<Hook>,
    /// When it pinged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinged_at: Option<Timestamp>,
    /// When GitHub was last asked what it could not deliver, and answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub looked_at: Option<Timestamp>,
    /// Nothing before this need be looked at again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled: Option<Timestamp>,
    /// How many deliveries were missed and have not come yet.
    pub open: usize,
    /// What was asked for again.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub asked: BTreeMap<DeliveryId, Asked>,
    /// What will not come.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<DeliveryId>,
    /// Why GitHub could not be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// That the webhook says nothing though there is news.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent: Option<String>,
}

impl OfRepo {
    /// Forgets what GitHub itself has forgotten.
    pub fn forget(&mut self, now: Timestamp) {
        let age = KEPT + SignedDuration::from_hours(24);
        self.asked.retain(|_, asked| now.duration_since(asked.at) < age);
    }
}

/// What is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    /// The version of this format.
    schema: u32,
    /// Each repository.
    pub repositories: BTreeMap<Repo, OfRepo>,
}

impl Memory {
    /// Reads what is remembered; nothing where there is no file yet.
    pub fn read(path: &Path) -> io::Result<Self> {
        read(path)
    }

    /// The same for whoever will write it: a file that cannot be understood is moved
    /// aside, and the second value says where to.
    pub fn open(path: &Path) -> io::Result<(Self, Option<PathBuf>)> {
        open(path)
    }

    /// Writes it down: it is on the disk when this returns.
    pub fn save(&mut self, path: &Path) -> io::Result<()> {
        self.schema = 1;
        save(path, self)
    }

    /// Takes over the pings that the inbox still has: they are newer than what is
    /// remembered, and are forgotten there.
    pub fn learn(&mut self, inbox: &InboxReader) -> Result<(), InboxError> {
        for (received_at, body) in inbox.pings()? {
            let Some((repo, hook)) = ping(&body) else { continue };
            let of = self.repositories.entry(repo).or_default();
            if of.pinged_at.is_none_or(|known| known <= received_at) {
                (of.hook, of.pinged_at) = (Some(hook), Some(received_at));
            }
        }
        Ok(())
    }
}

/// Reads what was said on GitHub; nothing where there is no file yet.
pub fn read_telling(path: &Path) -> io::Result<Telling> {
    read(path)
}

/// The same for whoever will write it, as [`Memory::open`].
pub fn open_telling(path: &Path) -> io::Result<(Telling, Option<PathBuf>)> {
    open(path)
}

/// Writes it down: it is on the disk when this returns.
pub fn save_telling(path: &Path, telling: &mut Telling) -> io::Result<()> {
    telling.schema = 1;
    save(path, telling)
}

fn read<T: Default + DeserializeOwned>(path: &Path) -> io::Result<T> {
    match fs::read(path) {
        Ok(text) => serde_json::from_slice(&text).map_err(|error| {
            let text = format!("`{}` cannot be understood: {error}", path.display());
            io::Error::new(io::ErrorKind::InvalidData, text)
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(error),
    }
}

fn open<T: Default + DeserializeOwned>(path: &Path) -> io::Result<(T, Option<PathBuf>)> {
    match read(path) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            let aside = path.with_extension("json.damaged");
            fs::rename(path, &aside)?;
            Ok((T::default(), Some(aside)))
        }
        read => read.map(|known| (known, None)),
    }
}

fn save(path: &Path, known: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(known).map_err(io::Error::other)?;
    atomic::write(path, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_read_again_and_what_is_damaged_is_moved_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("github.json");
        assert_eq!(Memory::open(&path).unwrap(), (Memory::default(), None));
        let mut memory = Memory::default();
        let at: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let asked = Asked { at, taken: true, seen: 1, times: 1, given_up: false };
        let of = OfRepo {
            asked: [("d-1".parse().unwrap(), asked)].into(),
            trouble: Some("no".to_owned()),
            ..OfRepo::default()
        };
        memory.repositories.insert("o/r".parse().unwrap(), of);
        memory.save(&path).unwrap();
        assert_eq!(Memory::read(&path).unwrap(), memory);
        let of = memory.repositories.values_mut().next().unwrap();
        of.forget(at + SignedDuration::from_hours(95));
        assert_eq!(of.asked.len(), 1);
        of.forget(at + SignedDuration::from_hours(96));
        assert!(of.asked.is_empty());
        for damaged in ["", "{\"repositories\": 3}", "{\"repositories\": {\"no repo\": {}}}"] {
            fs::write(&path, damaged).unwrap();
            assert!(Memory::read(&path).is_err(), "{damaged}");
            let (memory, aside) = Memory::open(&path).unwrap();
            assert_eq!(memory, Memory::default());
            assert_eq!(fs::read_to_string(aside.unwrap()).unwrap(), damaged);
            assert!(!path.exists());
        }
    }
}
