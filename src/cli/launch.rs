//! `the-loop launch FILE`: what a pane runs. It becomes the harness, with the
//! environment and the arguments from a private file: nothing of either shows in
//! `ps` or in tmux, and no shell stands between.

use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::fs::OFlags;

use super::Context;
use crate::base::failure::{Failure, chain};
use crate::base::process::{ExecError, StoredInvocation};
use crate::state::turns::{self, Mark};

/// The most that a stored command line may take.
const MAX_FILE: u64 = 1 << 20;

/// Become the harness whose command line is stored in a file
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The private file that holds the command line
    file: PathBuf,

    /// Write down there which process this is; refuse when another has
    #[arg(long, value_name = "FILE")]
    claim: Option<PathBuf>,
}

/// Why a stored command line was not used.
#[derive(Debug, thiserror::Error)]
enum LoadError {
    #[error("could not read `{}`", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("`{}` is no regular file", path.display())]
    NotAFile { path: PathBuf },
    #[error("`{}` belongs to another user (uid {owner})", path.display())]
    Foreign { path: PathBuf, owner: u32 },
    #[error("`{}` can be used by others (mode {mode:04o})", path.display())]
    Open { path: PathBuf, mode: u32 },
    #[error("`{}` is no stored command line", path.display())]
    Invalid { path: PathBuf, source: serde_json::Error },
}

/// Runs the command. Comes back only when it could not.
pub(super) fn run(_context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    let stored = load(&args.file).map_err(|error| {
        Failure::refused("the agent was not started")
            .because(error)
            .hint("the receiver writes this file for each start; nobody types this command")
    })?;
    if let Some(path) = &args.claim {
        let claimed = turns::claim(path, &Mark::own())
            .map_err(|error| Failure::failed("the turn cannot be claimed").because(error))?;
        if !claimed {
            return Err(Failure::refused("the turn was called off before its agent began"));
        }
    }
    let program = stored.program().display().to_string();
    // A missing directory fails like a missing program does: say which it is.
    let subject = match stored.cwd() {
        Some(cwd) if !cwd.is_dir() => format!("its directory `{}`", cwd.display()),
        _ => format!("`{program}`"),
    };
    // The whole command line would fill the pane, and the reason with it.
    let error = stored.exec();
    if let Some(path) = &args.claim {
        turns::note_not_started(path);
    }
    let reason = match error {
        ExecError::NotStarted { source, .. } => source,
        error => io::Error::other(chain(&error)),
    };
    Err(Failure::failed(format!("the agent was not started: {subject}"))
        .because(reason)
        .hint("`the-loop doctor` says what is missing, and how to get it"))
}

/// Reads the command line, when nobody else can have written or read it. The
/// checks are made on the open file: it cannot be exchanged in between.
fn load(path: &Path) -> Result<StoredInvocation, LoadError> {
    let io = |source| LoadError::Io { path: path.to_path_buf(), source };
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .map_err(io)?;
    let metadata = file.metadata().map_err(io)?;
    if !metadata.is_file() {
        return Err(LoadError::NotAFile { path: path.to_path_buf() });
    }
    let owner = metadata.uid();
    if owner != rustix::process::geteuid().as_raw() {
        return Err(LoadError::Foreign { path: path.to_path_buf(), owner });
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(LoadError::Open { path: path.to_path_buf(), mode });
    }
    let mut content = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut content).map_err(io)?;
    serde_json::from_slice(&content)
        .map_err(|source| LoadError::Invalid { path: path.to_path_buf(), source })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::base::files::atomic;

    fn stored() -> Vec<u8> {
        let args = BTreeMap::<String, String>::new();
        let stored = serde_json::json!({
            "program": "/bin/true", "args": [], "env": args.into_iter().collect::<Vec<_>>(),
            "cwd": null,
        });
        serde_json::to_vec(&stored).unwrap()
    }

    #[test]
    fn a_private_file_is_read_and_one_that_others_can_use_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("launch.json");
        atomic::write(&path, &stored()).unwrap();
        load(&path).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o601] {
            fs_err::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let error = load(&path).unwrap_err();
            assert!(matches!(error, LoadError::Open { .. }), "{error}");
        }
    }

    #[test]
    fn a_link_a_directory_and_nonsense_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("launch.json");
        atomic::write(&path, b"{}").unwrap();
        assert!(matches!(load(&path).unwrap_err(), LoadError::Invalid { .. }));
        let link = dir.path().join("link");
        fs_err::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(matches!(load(&link).unwrap_err(), LoadError::Io { .. }));
        assert!(matches!(load(dir.path()).unwrap_err(), LoadError::NotAFile { .. }));
        let missing = load(&dir.path().join("none")).unwrap_err();
        assert!(matches!(missing, LoadError::Io { .. }));
    }
}
