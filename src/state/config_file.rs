//! The configuration file on disk: which one it is, whose it is, what is in it.
//!
//! `cli::setup` uses it for every command, and a reload uses it again.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::base::env::Env;
use crate::core::config::{Config, ConfigError, MAX_BYTES, parse_bytes};

mod owner;

pub use owner::Foreign;

/// A configuration that was read.
#[derive(Debug, Clone)]
pub struct Read {
    /// The values; every path in them is absolute.
    pub config: Config,
    /// The file, by its canonical path.
    pub file: PathBuf,
    /// The project: the directory that holds `.the-loop`, or the file's.
    pub project: PathBuf,
    /// What stands in the file.
    pub text: String,
}

/// Why a configuration could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file is not there.
    #[error("there is no configuration `{}`", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// It, or the directory it is in, is a link that leads to nothing.
    #[error("the configuration `{}` is a link that leads to nothing", path.display())]
    Dangling {
        /// The file.
        path: PathBuf,
    },
    /// It is a directory, a pipe or the like.
    #[error("the configuration `{}` is not a file", path.display())]
    NotAFile {
        /// What is there.
        path: PathBuf,
    },
    /// Somebody else could have written it.
    #[error(transparent)]
    Foreign(#[from] Foreign),
    /// The file could not be read.
    #[error("the configuration `{}` cannot be read", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is a fault in it.
    #[error("{}", .0.pointed())]
    Fault(ConfigError),
}

/// The file below a directory.
const BELOW: &str = ".the-loop/config.yaml";

/// The configuration file of `dir` or of the nearest directory above it. One
/// inside a work tree of ours is passed by: whoever may push could have written
/// it.
pub fn search(dir: &Path) -> Option<PathBuf> {
    searched(dir).find(|path| is_there(path))
}

/// Where the configuration of `dir` is looked for, the nearest first.
pub fn searched(dir: &Path) -> impl Iterator<Item = PathBuf> {
    dir.ancestors().filter(|dir| !is_in_managed_tree(dir)).map(|dir| dir.join(BELOW))
}

/// The canonical path that a file had before it was gone, perhaps with the directory
/// around it.
pub fn canonical(path: &Path) -> Option<PathBuf> {
    let at = path.ancestors().find(|at| at.exists())?;
    Some(fs::canonicalize(at).ok()?.join(path.strip_prefix(at).ok()?))
}

/// Whether a directory belongs to a work tree that this program made.
fn is_in_managed_tree(dir: &Path) -> bool {
    let Some(link) = dir.ancestors().map(|dir| dir.join(".git")).find(|git| git.exists()) else {
        return false;
    };
    // Only a work tree has a file there; a clone of its own has a directory.
    let Ok(link) = fs::read_to_string(link) else { return false };
    let admin = link.strip_prefix("gitdir: ").map(|admin| Path::new(admin.trim_end()));
    admin
        .and_then(|admin| admin.ancestors().nth(2))
        .is_some_and(|clone| clone.join(crate::core::workspace::MANAGED).is_file())
}

/// Whether something stands at the path, be it unreadable or a link that leads to
/// nothing: that is an error to show, not a reason to take another file.
pub fn is_there(path: &Path) -> bool {
    match fs::metadata(path) {
        _ if dangles(path) => true,
        Ok(_) => true,
        Err(error) => {
            !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        }
    }
}

/// Whether the path, or the directory it is in, is a link that leads to nothing.
pub fn dangles(path: &Path) -> bool {
    let dangles = |path: &Path| path.is_symlink() && !path.exists();
    dangles(path) || path.parent().is_some_and(dangles)
}

/// Reads the configuration in `path`, when it is this user's alone.
pub fn read(path: &Path, env: &Env) -> Result<Read, ReadError> {
    let io = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound if dangles(path) => {
            ReadError::Dangling { path: path.to_path_buf() }
        }
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            ReadError::Missing { path: path.to_path_buf() }
        }
        _ => ReadError::Io { path: path.to_path_buf(), source },
    };
    let file = fs::canonicalize(path).map_err(io)?;
    // Before it is opened, for a pipe would be waited for.
    if !fs::metadata(&file).map_err(io)?.is_file() {
        return Err(ReadError::NotAFile { path: path.to_path_buf() });
    }
    let dir = file.parent().unwrap_or(Path::new("/"));
    let handle = fs::File::open(&file).map_err(io)?;
    owner::check(&file, &handle.metadata().map_err(io)?, env)?;
    owner::check_dir(dir, &fs::metadata(dir).map_err(io)?, env)?;

    let mut bytes = Vec::new();
    handle.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(io)?;
    let mut config = parse_bytes(&bytes, &file).map_err(ReadError::Fault)?;
    let project = match dir.file_name() {
        Some(name) if name == ".the-loop" => dir.parent().unwrap_or(dir),
        _ => dir,
    };
    config.resolve_paths(project, env.home());
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // Where its paths lead is known only now.
    if let Some(fault) = config.long_socket(&file, &text) {
        return Err(ReadError::Fault(fault));
    }
    Ok(Read { config, project: project.to_path_buf(), file, text })
}
