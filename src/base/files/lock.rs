//! Locks that the kernel releases when their holder dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

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

fn open(path: &Path) -> Result<File, LockError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|source| LockError::Io { path: path.to_path_buf(), source })
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
        LockFile::try_acquire(&path).unwrap();
    }
}
