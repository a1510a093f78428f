//! What tells that a file is the one it was, without reading it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};

use crate::base::clock::Clock;

/// A file system's clock may stand still for so long: a file that was changed
/// just before it was looked at may change again and look the same.
const TICK: SignedDuration = SignedDuration::from_millis(100);

/// What tells one state of a file from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    /// Set by every write, and by nobody at will. Seconds and nanoseconds.
    changed: (i64, i64),
}

impl Stamp {
    /// The stamp of a plain file that has been as it is for a while; `None` for
    /// anything else.
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        let at = Timestamp::new(changed.0, changed.1.try_into().ok()?).ok()?;
        // Negative when the clock was set back meanwhile.
        let rested = Clock::System.now().duration_since(at);
        (rested > TICK).then(|| Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            changed,
        })
    }
}

#[cfg(test)]
mod tests {
    use fs_err as fs;

    use super::*;

    /// Awaits that the file counts as settled.
    fn settled(path: &Path) -> Stamp {
        loop {
            if let Some(stamp) = Stamp::of(path) {
                return stamp;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_stamp_tells_a_change_that_keeps_size_and_time_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("entry");
        fs::write(&path, "one").unwrap();
        assert_eq!(Stamp::of(&path), None, "it may change again within the same tick");
        let first = settled(&path);
        assert_eq!(first, settled(&path));
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, "two").unwrap();
        fs::File::options().write(true).open(&path).unwrap().file().set_modified(time).unwrap();
        assert_ne!(first, settled(&path));
        assert_eq!(Stamp::of(dir.path()), None, "a directory is no entry");
        assert_eq!(Stamp::of(&dir.path().join("missing")), None);
    }
}
