//! Private directories and files. Everything the program writes is readable by
//! its user alone, whatever the umask.

use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use fs_err as fs;

pub mod atomic;
pub mod lock;
pub mod stamp;

/// Bytes that the path of a socket may have on every system.
pub const SOCKET_PATH: usize = 100;

/// Makes a directory, and those above it, that only its user may enter. One
/// that is there already keeps its mode.
pub fn private_dir(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("failed to make the directory `{}`: {error}", path.display()),
        )
    })
}

/// How many bytes this user may still write to the file system of a path.
pub fn room(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Takes every permission of others away from a file or socket.
pub fn make_private(path: &Path) -> io::Result<()> {
    let mode = fs::metadata(path)?.permissions().mode();
    fs::set_permissions(path, PermissionsExt::from_mode(mode & 0o700))
}
