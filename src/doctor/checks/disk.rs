//! Whether state, tools and temporary files can be written, and how much of them
//! fits.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fs_err as fs;
use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};

use super::Scene;
use crate::base::dirs::MissingHome;
use crate::base::process::shell_word;
use crate::base::text::path_text;
use crate::core::platform::Remedy;
use crate::doctor::finding::{Finding, Severity};
use crate::doctor::install::store::Store;
use crate::doctor::tool::ToolId;

const ID: &str = "disk.space";
const MIB: u64 = 1024 * 1024;
const INODES_ERROR: u64 = 20;
const INODES_WARNING: u64 = 1000;
/// What to do where nothing can be made.
pub(super) const ELSEWHERE: &str =
    "set HOME, or THE_LOOP_HOME (for state alone: `state.dir`), to a directory of yours";

pub(super) fn disk(scene: &Scene) -> Vec<Finding> {
    let state = scene.project.state.as_deref().unwrap_or(&scene.dirs.state);
    let store = Store::new(&scene.dirs);
    let root = store.root();
    // Only what stands in the way there is of interest: the room is that of all.
    let in_the_way = |dir: &PathBuf| {
        let rights = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
        base_of(dir).is_err() || (dir.is_dir() && access(dir, rights).is_err())
    };
    // What is kept there is what can be installed; where there is no place for any of
    // it, that of each is none of its own.
    let tools: Vec<_> = ToolId::ALL
        .into_iter()
        .filter(|id| root.is_dir() && !id.data().pins.is_empty())
        .map(|id| store.tool_dir(id))
        .filter(in_the_way)
        .collect();
    let mut findings: Vec<Finding> = Vec::new();
    for dir in [state, root].into_iter().chain(tools.iter().map(PathBuf::as_path)) {
        let finding = room(scene, dir, &OURS);
        // Most often both are on one file system: that is said once.
        match findings.iter_mut().find(|there| there.what == finding.what) {
            Some(there) => {
                let more = finding.evidence.into_iter();
                let more: Vec<_> = more.filter(|it| !there.evidence.contains(it)).collect();
                there.evidence.extend(more);
            }
            None => findings.push(finding),
        }
    }
    findings.push(temporary(scene));
    findings
}

/// What is kept in a place, and how much room that needs.
struct Use {
    what: &'static str,
    error: u64,
    warning: u64,
    elsewhere: &'static str,
    rights: Access,
}

const OURS: Use = Use {
    what: "state and tools",
    error: 50 * MIB,
    warning: 500 * MIB,
    elsewhere: ELSEWHERE,
    rights: Access::READ_OK.union(Access::WRITE_OK).union(Access::EXEC_OK),
};
const TEMPORARY: Use = Use {
    what: "temporary files",
    error: MIB,
    warning: 50 * MIB,
    elsewhere: "set TMPDIR to a directory of yours",
    rights: Access::WRITE_OK.union(Access::EXEC_OK),
};

/// The directory for temporary files of whatever is started.
fn temporary(scene: &Scene) -> Finding {
    let asked = scene.env.var_os("TMPDIR").map(PathBuf::from);
    let dir = match asked {
        Some(dir) if dir.is_absolute() && dir.is_dir() => dir,
        Some(dir) => {
            let shown = path_text(&dir);
            let what = format!("TMPDIR is {shown}, which is no directory for temporary files");
            return Finding::new(ID, Severity::Warning, what)
                .remedy(Remedy::command("unset TMPDIR"));
        }
        None => "/tmp".into(),
    };
    // Nobody makes this one: what is above it says nothing.
    if !dir.is_dir() {
        let what = format!("{} is no directory: no temporary file can be kept", path_text(&dir));
        return Finding::new(ID, Severity::Error, what).remedy(Remedy::note(TEMPORARY.elsewhere));
    }
    room(scene, &dir, &TEMPORARY)
}

fn room(scene: &Scene, dir: &Path, of: &Use) -> Finding {
    let there = match base_of(dir) {
        Ok(there) => there,
        Err(Obstacle { at, why }) => {
            let shown = path_text(&at);
            let what = format!("{shown} {why}: nothing can be kept below it");
            let mut remedy = Remedy::note(of.elsewhere);
            if at.starts_with(&scene.dirs.data) || at.starts_with(&scene.dirs.state) {
                remedy.commands.push(away(&at));
                remedy.note = None;
            }
            return Finding::new(ID, Severity::Error, what).shown_by(path_text(dir)).remedy(remedy);
        }
    };
    let shown = path_text(&there);
    let stat = match statvfs(&there) {
        Ok(stat) => stat,
        Err(error) => return Finding::unchecked(ID, format!("{shown}: {error}")),
    };
    let is_read_only = stat.f_flag.contains(StatVfsMountFlags::RDONLY);
    if (is_read_only || access(&there, of.rights).is_err())
        && let Some(home) = MissingHome::of(&scene.env, dir)
    {
        let why = match owner(&there) {
            Some(owner) if !is_read_only => format!("{shown} belongs to the user {owner}"),
            _ => format!("{shown} cannot be written to"),
        };
        return Finding::new(ID, Severity::Error, home.to_string())
            .shown_by(why)
            .shown_by(format!("{} is to be made in it", path_text(dir)))
            .remedy(Remedy::note(of.elsewhere));
    }
    if is_read_only {
        let what = format!("{} are on a read-only file system", of.what);
        let note = format!("make it writable, or {}", of.elsewhere);
        return Finding::new(ID, Severity::Error, what).shown_by(shown).remedy(Remedy::note(note));
    }
    if access(&there, of.rights).is_err() {
        return refused(scene, &there, of);
    }
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let files = Some(stat.f_favail).filter(|_| stat.f_files > 0).unwrap_or(u64::MAX);
    let told = format!("{} MiB are free for {}", free / MIB, of.what);
    let few = format!("only {files} more files fit for {}", of.what);
    let word = shell_word(&there.to_string_lossy());
    let (severity, what, command) = if files < INODES_ERROR {
        (Severity::Error, few, format!("df -i {word}"))
    } else if free < of.error {
        (Severity::Error, format!("only {told}"), format!("df -h {word}"))
    } else if free < of.warning {
        (Severity::Warning, format!("only {told}"), format!("df -h {word}"))
    } else if files < INODES_WARNING {
        (Severity::Warning, few, format!("df -i {word}"))
    } else {
        return Finding::new(ID, Severity::Ok, told);
    };
    let note =
        (severity == Severity::Error).then(|| format!("make room there, or {}", of.elsewhere));
    let remedy = Remedy { commands: vec![command], note };
    Finding::new(ID, severity, what).shown_by(shown).remedy(remedy)
}

/// The command that moves what stands in the way out of it.
pub(in crate::doctor) fn away(at: &Path) -> String {
    let beside = |number: u32| {
        let mut name = at.as_os_str().to_owned();
        name.push(if number == 0 { ".away".to_owned() } else { format!(".away{number}") });
        PathBuf::from(name)
    };
    let to = (0..100).map(beside).find(|to| fs::symlink_metadata(to).is_err()).unwrap_or_default();
    format!("mv {} {}", shell_word(&at.to_string_lossy()), shell_word(&to.to_string_lossy()))
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

fn owner(path: &Path) -> Option<u32> {
    fs::metadata(path).map(|meta| meta.uid()).ok()
}

/// Whether this is in a home that is this user's, so that it is to be, too.
pub(super) fn is_in_own_home(scene: &Scene, path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    scene
        .env
        .home()
        .is_some_and(|home| path.starts_with(home) && path != home && owner(home) == Some(own))
}

/// About a directory in which this user may make nothing.
fn refused(scene: &Scene, there: &Path, of: &Use) -> Finding {
    let shown = path_text(there);
    let word = shell_word(&there.to_string_lossy());
    let what = format!("this user may not write to {shown}: nothing can be kept there");
    let own = rustix::process::geteuid().as_raw();
    let remedy = match owner(there) {
        Some(owner) if owner == own => Remedy::command(format!("chmod u+rwx {word}")),
        // What root left there.
        _ if is_in_own_home(scene, there) => {
            let command = format!("chown -R {own} {word}");
            Remedy { commands: vec![scene.host.as_root(&command)], note: None }
        }
        _ => Remedy::note(of.elsewhere),
    };
    let finding = Finding::new(ID, Severity::Error, what).remedy(remedy);
    match owner(there) {
        Some(owner) => finding.shown_by(format!("{shown} belongs to the user {owner}")),
        None => finding,
    }
}
