//! The files that `init` writes: whole, and none that a link leads to.

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use fs_err as fs;
use fs_err::os::unix::fs::OpenOptionsExt as _;

use crate::base::failure::Failure;
use crate::base::text::visible;
use crate::state::config_file::is_there;

/// Refuses a folder for the configuration that is a link out of the project: what
/// is written there would be another project's, and its sessions with it.
pub(super) fn stays_in(root: &Path, file: &Path) -> Result<(), Failure> {
    let Some(dir) = file.parent().filter(|dir| dir.is_symlink()) else { return Ok(()) };
    let target = fs::canonicalize(dir).or_else(|_| fs::read_link(dir)).unwrap_or_default();
    let root = fs::canonicalize(root).unwrap_or_else(|_| root.to_path_buf());
    if target.is_dir() && target.starts_with(&root) {
        return Ok(());
    }
    let text = format!(
        "`{}` is a link that leads out of the project:\n  `{}`",
        visible(&dir.display().to_string()),
        visible(&target.display().to_string())
    );
    Err(Failure::refused(text).hint("remove the link; or name the file with `--config FILE`"))
}

/// Refuses a folder at the place of the configuration.
pub(super) fn is_no_folder(file: &Path) -> Result<(), Failure> {
    if !file.is_dir() {
        return Ok(());
    }
    let shown = visible(&file.display().to_string());
    Err(Failure::refused(format!("`{shown}` is a folder, and no configuration"))
        .hint("move it away, and `init` writes one"))
}

/// Writes the configuration; `false` when one is there. By force it is written over,
/// and what was there is kept beside it.
pub(super) fn write(file: &Path, text: &str, force: bool) -> Result<bool, Failure> {
    let dir = file.parent().map_or_else(|| PathBuf::from("/"), Path::to_path_buf);
    let failed = |error: std::io::Error| {
        let failure =
            Failure::failed(format!("could not write the configuration `{}`", file.display()));
        let shown = visible(&dir.display().to_string());
        let hint = match error.kind() {
            _ if dir.exists() && !dir.is_dir() => {
                format!("`{shown}` is no folder: move it away, and `init` makes one")
            }
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                "run it where you may write, or name a file with `--config FILE`".to_owned()
            }
            _ => return failure.because(error),
        };
        failure.because(error).hint(hint)
    };
    if file.is_symlink() {
        // It would be replaced by a file, and what it leads to would stay as it is.
        let target = fs::read_link(file).map_err(failed)?;
        let text = format!(
            "the configuration is a link, which is not written over:\n  `{}`\n  leads to `{}`",
            visible(&file.display().to_string()),
            visible(&target.display().to_string())
        );
        return Err(Failure::refused(text).hint("remove the link, or write the file it leads to"));
    }
    if !dir.is_dir() {
        std::fs::DirBuilder::new().recursive(true).mode(0o755).create(&dir).map_err(failed)?;
    }
    if force && is_there(file) {
        let kept = (0_u8..=255)
            .map(|number| file.with_extension(format!("yaml.old{number}")))
            // A link that leads nowhere is there too: what it names would be written.
            .find(|kept| !is_there(kept));
        if let Some(kept) = kept {
            fs::copy(file, kept).map_err(failed)?;
        }
    }
    // Whole or not at all; and readable by others, for it goes into the repository.
    let fresh = dir.join(format!(".config.{}.tmp", std::process::id()));
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&fresh)
        .and_then(|mut handle| {
            handle.write_all(text.as_bytes())?;
            handle.sync_all()
        })
        // Several may write at once: only the first finds the place free.
        .and_then(|()| if force { fs::rename(&fresh, file) } else { fs::hard_link(&fresh, file) });
    let _ = fs::remove_file(&fresh);
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists && !force => Ok(false),
        // The name of the file that was to become it says nothing to anybody.
        Err(error) => Err(failed(error.kind().into())),
    }
}
