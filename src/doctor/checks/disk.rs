//! Whether state and tools can be written, and how much of them fits.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fs_err as fs;
use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};

use super::Scene;
use crate::base::process::shell_word;
use crate::base::text::visible;
use crate::core::platform::Remedy;
use crate::doctor::finding::{Finding, Severity};

const ID: &str = "disk.space";
const MIB: u64 = 1024 * 1024;
/// Below this, nothing can be recorded for long.
const DISK_ERROR: u64 = 50 * MIB;
const DISK_WARNING: u64 = 500 * MIB;
const INODES_WARNING: u64 = 1000;
/// What to do where nothing can be made.
const ELSEWHERE: &str =
    "set HOME, or THE_LOOP_HOME (for state alone: `state.dir`), to a directory of yours";

pub(super) fn disk(scene: &Scene) -> Vec<Finding> {
    let state = scene.project.state.as_deref().unwrap_or(&scene.dirs.state);
    let mut findings: Vec<Finding> = Vec::new();
    for dir in [state, &scene.dirs.data] {
        let finding = room(scene, dir);
        // Most often both are on one file system: that is said once.
        match findings.iter_mut().find(|there| there.what == finding.what) {
            Some(there) if there.evidence != finding.evidence => {
                there.evidence.extend(finding.evidence);
            }
            Some(_) => {}
            None => findings.push(finding),
        }
    }
    findings
}

fn room(scene: &Scene, dir: &Path) -> Finding {
    let there = match base_of(dir) {
        Ok(there) => there,
        Err(Obstacle { at, why }) => {
            let shown = visible(&at.to_string_lossy());
            let what = format!("{shown} {why}: nothing can be kept below it");
            return Finding::new(ID, Severity::Error, what)
                .shown_by(visible(&dir.to_string_lossy()))
                .remedy(Remedy::note(ELSEWHERE));
        }
    };
    let shown = visible(&there.to_string_lossy());
    let stat = match statvfs(&there) {
        Ok(stat) => stat,
        Err(error) => return Finding::unchecked(ID, format!("{shown}: {error}")),
    };
    if stat.f_flag.contains(StatVfsMountFlags::RDONLY) {
        let what = "state and tools are on a read-only file system";
        let note = format!("make it writable, or {ELSEWHERE}");
        return Finding::new(ID, Severity::Error, what).shown_by(shown).remedy(Remedy::note(note));
    }
    if access(&there, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        return refused(scene, &there);
    }
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let few_files = stat.f_files > 0 && stat.f_favail < INODES_WARNING;
    let told = format!("{} MiB are free", free / MIB);
    let remedy = Remedy::command(format!("df -h {}", shell_word(&there.to_string_lossy())));
    let (severity, what) = if free < DISK_ERROR {
        (Severity::Error, format!("only {told} for state and tools"))
    } else if free < DISK_WARNING {
        (Severity::Warning, format!("only {told} for state and tools"))
    } else if few_files {
        (Severity::Warning, format!("only {} more files fit", stat.f_favail))
    } else {
        return Finding::new(ID, Severity::Ok, format!("{told} for state and tools"));
    };
    Finding::new(ID, severity, what).shown_by(shown).remedy(remedy)
}

/// What stands where a directory is needed.
struct Obstacle {
    at: PathBuf,
    why: &'static str,
}

/// The directory in which this one is, or is to be made.
fn base_of(dir: &Path) -> Result<PathBuf, Obstacle> {
    for at in dir.ancestors() {
        let obstacle = |why| Err(Obstacle { at: at.to_path_buf(), why });
        match fs::metadata(at) {
            Ok(meta) if meta.is_dir() => return Ok(at.to_path_buf()),
            Ok(_) => return obstacle("is no directory"),
            Err(_) if at.is_symlink() => return obstacle("is a link that leads nowhere"),
            // Not there, or behind a directory that this user may not enter.
            Err(_) => {}
        }
    }
    Err(Obstacle { at: dir.to_path_buf(), why: "is nowhere" })
}

/// About a directory in which this user may make nothing.
fn refused(scene: &Scene, there: &Path) -> Finding {
    let shown = visible(&there.to_string_lossy());
    let word = shell_word(&there.to_string_lossy());
    let what = format!("this user may not write to {shown}: nothing can be kept there");
    let own = rustix::process::geteuid().as_raw();
    let owner = |dir: &Path| fs::metadata(dir).map(|meta| meta.uid()).ok();
    let remedy = match owner(there) {
        Some(owner) if owner == own => Remedy::command(format!("chmod u+rwx {word}")),
        // What root left in a home that is this user's.
        _ if scene.env.home().is_some_and(|home| {
            there.starts_with(home) && there != home && owner(home) == Some(own)
        }) =>
        {
            let command = format!("chown -R {own} {word}");
            Remedy { commands: vec![scene.host.as_root(&command)], note: None }
        }
        _ => Remedy::note(ELSEWHERE),
    };
    let finding = Finding::new(ID, Severity::Error, what).remedy(remedy);
    match owner(there) {
        Some(owner) => finding.shown_by(format!("{shown} belongs to the user {owner}")),
        None => finding,
    }
}
