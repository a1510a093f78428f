//! Locks that the kernel releases when their holder dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::base::text::visible;

/// A lock file that this process holds until the value is dropped. Its content
/// is for messages only; the kernel's lock is the truth.
#[derive(Debug)]
pub struct LockFile {
    file: File,
    path: PathBuf,
}

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("`{}` is held by {holder}", path.display())]
    Held {
        /// The lock file.
        path: PathBuf,
        /// What the holder wrote into it, or "another process".
        holder: String,
    },
    /// The file could not be opened or locked.
    #[error("could not lock `{}`", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl LockFile {
    /// Takes the lock now, or says who holds it.
    pub fn try_acquire(path: &Path) -> Result<Self, LockError> {
        let mut file = open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { file, path: path.to_path_buf() }),
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // The content is only for the message: what cannot be read is not named.
                let _ = file.read_to_string(&mut holder);
                let holder = match visible(holder.trim()) {
                    text if text.is_empty() => "another process".to_owned(),
                    text => text,
                };
                Err(LockError::Held { path: path.to_path_buf(), holder })
            }
            Err(TryLockError::Error(source)) => {
                Err(LockError::Io { path: path.to_path_buf(), source })
            }
        }
    }

    /// Waits for the lock, for as long as its holder lives. For short critical
    /// sections only.
    pub fn acquire(path: &Path) -> Result<Self, LockError> {
        let file = open(path)?;
        file.lock().map_err(|source| LockError::Io { path: path.to_path_buf(), source })?;
        Ok(Self { file, path: path.to_path_buf() })
    }

    /// Writes who holds the lock, for the messages of others.
    pub fn describe(&mut self, holder: &str) -> Result<(), LockError> {
        let io = |source| LockError::Io { path: self.path.clone(), source };
        self.file.set_len(0).map_err(io)?;
        self.file.rewind().map_err(io)?;
        self.file.write_all(holder.as_bytes()).map_err(io)
    }
}

/// Whether a process holds this lock. It is not made where it is not there.
pub fn is_held(path: &Path) -> bool {
    let options = OpenOptions::new().read(true).custom_flags(FLAGS).open(path);
    let Some(file) = options.ok().filter(is_regular) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// No link is followed: it could lead to a file of somebody else's, which would
/// be made there or written over. And nothing that is no file is waited for.
const FLAGS: i32 = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();

fn open(path: &Path) -> Result<File, LockError> {
    let io = |source| LockError::Io { path: path.to_path_buf(), source };
    let refused = |why: &str| io(io::Error::other(why.to_owned()));
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(FLAGS)
        .open(path);
    match opened {
        Ok(file) if is_regular(&file) => Ok(file),
        Ok(_) => Err(refused("it is not a regular file")),
        Err(_) if path.is_symlink() => Err(refused("it is a symbolic link, and none is followed")),
        Err(_) if path.is_dir() => Err(refused("it is a directory")),
        Err(source) => Err(io(source)),
    }
}

fn is_regular(file: &File) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_the_first_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let mut first = LockFile::try_acquire(&path).unwrap();
        first.describe("pid 42").unwrap();
        let error = LockFile::try_acquire(&path).unwrap_err();
        assert!(matches!(&error, LockError::Held { holder, .. } if holder == "pid 42"), "{error}");
        drop(first);
        assert!(!is_held(&path));
        let _third = LockFile::try_acquire(&path).unwrap();
        assert!(is_held(&path));
    }

    #[test]
    fn what_is_no_file_of_its_own_is_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        let (path, target) = (dir.path().join("lock"), dir.path().join("target"));
        std::os::unix::fs::symlink(&target, &path).unwrap();
        let error = crate::base::failure::chain(&LockFile::try_acquire(&path).unwrap_err());
        assert!(error.ends_with("it is a symbolic link, and none is followed"), "{error}");
        assert!(!target.exists() && !is_held(&path));
        fs_err::remove_file(&path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
        let error = crate::base::failure::chain(&LockFile::try_acquire(&path).unwrap_err());
        assert!(error.ends_with("it is not a regular file"), "{error}");
        assert!(!is_held(&path));
    }
}
