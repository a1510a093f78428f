//! Copies of the entries in the state directory: the registry lies in the
//! project, where a `git clean -fdx` takes it away while no receiver runs.
//!
//! The entries are the truth. A copy is looked at only when all of them are
//! gone, and one that cannot be written costs nothing but itself.

use std::path::PathBuf;

use fs_err as fs;

use super::{Registry, SessionRecord};
use crate::base::failure::chain;
use crate::base::files::{atomic, private_dir};
use crate::base::ids::Slug;

impl Registry {
    /// The same, with a copy of every entry that is written in this directory.
    #[must_use]
    pub fn with_copies(self, dir: impl Into<PathBuf>) -> Self {
        Self { copies: Some(dir.into()), ..self }
    }

    /// Makes the copies what the entries are: for those that somebody else wrote
    /// or removed. Not when all are gone.
    pub fn renew_copies(&self) {
        let Some(dir) = self.copies.clone().filter(|_| !self.is_swept()) else { return };
        let entries = self.load_all();
        for record in entries.records.values() {
            self.copy(record);
        }
        for (slug, record) in Self::open(dir).load_all().records {
            if !self.path(&slug).exists() {
                self.drop_copy(&record);
            }
        }
    }

    /// Writes the entries again of which there is a copy, when all are gone;
    /// gives how many.
    pub fn bring_back(&self) -> usize {
        let Some(dir) = self.copies.clone().filter(|_| self.is_swept()) else { return 0 };
        let mut made = 0;
        for record in Self::open(dir).remembering().load_all().records.into_values() {
            match self.save(&record) {
                Ok(()) => made += 1,
                Err(error) => {
                    let item = &record.work_item.reference;
                    tracing::error!(%item, error = %chain(&error), "could not record a session again");
                }
            }
        }
        made
    }

    /// Writes the copy of an entry.
    pub(super) fn copy(&self, record: &SessionRecord) {
        let Some(dir) = &self.copies else { return };
        let path = dir.join(format!("{}.json", record.slug()));
        let written = match record.to_json() {
            Ok(bytes) => private_dir(dir)
                .and_then(|()| atomic::write_unsynced(&path, &bytes))
                .map_err(|e| chain(&e)),
            Err(error) => Err(chain(&error)),
        };
        if let Err(error) = written {
            tracing::warn!(path = %path.display(), error, "could not copy a session's entry");
        }
    }

    /// The copy of a session's entry, where there is one that can be read.
    pub fn copy_of(&self, slug: &Slug) -> Option<SessionRecord> {
        Self::open(self.copies.clone()?).load(slug).ok().flatten()
    }

    fn drop_copy(&self, record: &SessionRecord) {
        let Some(dir) = &self.copies else { return };
        // One that stays is in nobody's way.
        let _ = fs::remove_file(dir.join(format!("{}.json", record.slug())));
    }
}
