//! Writing a file so that a reader, or the next start after a crash, sees the
//! whole old content or the whole new one.

use std::io::{self, Write};
use std::path::Path;

use fs_err as fs;

/// Replaces `path` with `content`: a temporary file in the same directory,
/// synced, renamed over it, the directory synced. The file's mode is 0600.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".tmp-").tempfile_in(dir)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    persist(file, path)?;
    fs::File::open(dir)?.sync_all()
}

/// Writes a file that must appear whole, without the cost of a sync: for what
/// is worthless after a power cut.
pub fn write_unsynced(path: &Path, content: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".tmp-").tempfile_in(dir)?;
    file.write_all(content)?;
    persist(file, path)
}

fn persist(file: tempfile::NamedTempFile, path: &Path) -> io::Result<()> {
    file.persist(path).map(drop).map_err(|tempfile::PersistError { error, .. }| {
        let text = format!("failed to replace `{}`: {error}", path.display());
        io::Error::new(error.kind(), text)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_new_content_is_private_and_leaves_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
