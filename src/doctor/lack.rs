//! What a host lacks that every program needs. A tool that fails for want of it
//! is sound, and installing it again would change nothing.

use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

use crate::base::runtime::{more, startable};

/// So few open files are not enough for a server with one pane.
const DESCRIPTORS: u64 = 64;
/// So few more processes neither.
const PROCESSES: usize = 32;

/// What is missing here, and what helps.
pub(super) fn of_host() -> Option<String> {
    of(Path::new("/dev"), getrlimit(Resource::Nofile).current).or_else(processes)
}

fn processes() -> Option<String> {
    processes_below(PROCESSES)
}

/// Whether the system starts fewer more processes than these, and what helps.
pub(super) fn processes_below(wanted: usize) -> Option<String> {
    let (started, why) = startable(wanted);
    let helps = why.as_ref().and_then(more)?;
    Some(format!("only {started} more processes or threads can be started: {helps}"))
}

fn of(dev: &Path, descriptors: Option<u64>) -> Option<String> {
    let is_device = |name: &str| {
        fs_err::metadata(dev.join(name)).is_ok_and(|it| it.file_type().is_char_device())
    };
    if !is_device("null") {
        return Some("this host has no /dev/null: mount a /dev".to_owned());
    }
    if !is_device("ptmx") {
        return Some("this host has no /dev/ptmx, so no terminals: mount /dev/pts".to_owned());
    }
    if cfg!(target_os = "linux") && fs_err::metadata(dev.join("pts/ptmx")).is_err() {
        return Some("no terminal can be made: mount /dev/pts (devpts)".to_owned());
    }
    let few = descriptors.filter(|limit| *limit < DESCRIPTORS)?;
    Some(format!("only {few} files can be open at once: raise that (ulimit -n 4096)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(of(Path::new("/dev"), None), None);
        assert!(of(Path::new("/dev"), Some(20)).unwrap().contains("only 20 files"));
        let empty = tempfile::tempdir().unwrap();
        assert!(of(empty.path(), None).unwrap().contains("/dev/null"));
        std::os::unix::fs::symlink("/dev/null", empty.path().join("null")).unwrap();
        assert!(of(empty.path(), None).unwrap().contains("/dev/ptmx"));
        std::os::unix::fs::symlink("/dev/ptmx", empty.path().join("ptmx")).unwrap();
        if cfg!(target_os = "linux") {
            assert!(of(empty.path(), None).unwrap().contains("/dev/pts"));
        }
    }
}
