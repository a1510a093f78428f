//! What a process that lives on knows of the entries: so that they can be
//! written again after a sweep, and need not be read again while their files are
//! as they were. Routing looks at all of them for every delivery.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::base::files::stamp::Stamp;
use crate::base::ids::Slug;
use crate::core::session::SessionRecord;

/// Every entry as it was last seen.
#[derive(Debug, Default)]
pub(super) struct Memory {
    entries: BTreeMap<Slug, Entry>,
    /// When the directory was last found swept.
    pub(super) swept_at: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    record: SessionRecord,
    /// Its file when it was read, where that tells the next change.
    stamp: Option<Stamp>,
}

impl Memory {
    pub(super) fn records(&self) -> Vec<SessionRecord> {
        self.entries.values().map(|entry| entry.record.clone()).collect()
    }

    pub(super) fn slugs(&self) -> impl Iterator<Item = &Slug> {
        self.entries.keys()
    }

    pub(super) fn knows(&self, slug: &Slug) -> bool {
        self.entries.contains_key(slug)
    }

    pub(super) fn remember(&mut self, slug: Slug, record: SessionRecord, stamp: Option<Stamp>) {
        self.entries.insert(slug, Entry { record, stamp });
    }

    pub(super) fn forget(&mut self, slugs: &[Slug]) {
        self.entries.retain(|slug, _| !slugs.contains(slug));
    }

    /// The entry, when its file is the one it was read from.
    pub(super) fn unchanged(&self, slug: &Slug, stamp: &Stamp) -> Option<SessionRecord> {
        let entry = self.entries.get(slug)?;
        (entry.stamp.as_ref() == Some(stamp)).then(|| entry.record.clone())
    }
}
