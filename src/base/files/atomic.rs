//! Writing a file so that a reader, or the next start after a crash, sees the
//! whole old content or the whole new one.

use std::fs::Permissions;
use std::io::{self, Write};
use std::path::Path;

use fs_err as fs;

/// Replaces `path` with `content`: a temporary file in the same directory,
/// synced, renamed over it, the directory synced. The file's mode is 0600.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    write_with(path, content, None)
}

fn write_with(path: &Path, content: &[u8], mode: Option<Permissions>) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".tmp-").tempfile_in(dir)?;
    file.write_all(content)?;
    if let Some(mode) = mode {
        file.as_file().set_permissions(mode)?;
    }
    file.as_file().sync_all()?;
    persist(file, path)?;
    fs::File::open(dir)?.sync_all()
}

/// The same for a file of the user's own: one that is there keeps its mode.
pub fn write_anew(path: &Path, content: &[u8]) -> io::Result<()> {
    let mode = fs::metadata(path).ok().map(|meta| meta.permissions());
    write_with(path, content, mode)
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
        fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        write_anew(&path, b"three").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        write_anew(&dir.path().join("y"), b"four").unwrap();
        let mode = fs::metadata(dir.path().join("y")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
