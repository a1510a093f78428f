//! Which entries of `PATH` are looked into, and which programs in them are run.
//! What is relative, what somebody else can put a program into or replace, or
//! what lies in the work tree in which agents write, is ignored; the report says
//! so. Directories above, and links on the way, count as much as the place itself.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use fs_err as fs;

use super::whose::Whose;
use crate::base::env::Env;
use crate::base::process::shell_word;
use crate::base::text::path_text;
use crate::core::platform::Remedy;

/// How many links are followed, as on Linux.
const LINKS: usize = 40;

/// Why an entry, or a program, is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ignored {
    /// It depends on where the program is started.
    Relative,
    /// Others can write to it.
    Writable(String),
    /// It is in the work tree with this root.
    InWorkTree(PathBuf),
}

impl std::fmt::Display for Ignored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Relative => f.write_str("it is relative"),
            Self::Writable(who) => f.write_str(who),
            Self::InWorkTree(root) => {
                write!(f, "it is in the work tree {}", path_text(root))
            }
        }
    }
}

/// The entries that are looked into, in order.
pub(super) fn usable(env: &Env) -> Vec<PathBuf> {
    judged(env).into_iter().filter(|(_, why)| why.is_none()).map(|(dir, _)| dir).collect()
}

/// Every entry, with the reason when it is ignored.
pub(super) fn judged(env: &Env) -> Vec<(PathBuf, Option<Ignored>)> {
    let judge = Judge::new(env);
    let entries = env.var_os("PATH").map(std::env::split_paths).into_iter().flatten();
    entries
        .map(|dir| {
            let why = judge.judge(&dir);
            (dir, why)
        })
        .collect()
}

/// Something by which others could change or replace what is at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Open {
    /// What they may write to.
    pub(super) path: PathBuf,
    /// Who, and to what. The text continues a line that names the place.
    pub(super) why: String,
    /// Whether this user can take that right from them.
    pub(super) is_own: bool,
}

impl Open {
    /// The same where it is told among others: with its path.
    pub(super) fn why_of(&self, place: &Path) -> String {
        match self.why.strip_suffix(" it") {
            Some(who) if self.path == place => format!("{who} {}", path_text(place)),
            _ => self.why.clone(),
        }
    }
}

/// What this user can close himself.
pub(super) fn closable(open: &[Open]) -> Vec<PathBuf> {
    open.iter().filter(|open| open.is_own).map(|open| open.path.clone()).collect()
}

/// What to do about such places.
pub(super) fn remedy(open: &[Open]) -> Remedy {
    let words = |is_own: bool| -> Vec<String> {
        let paths = open.iter().filter(|open| open.is_own == is_own);
        paths.map(|open| shell_word(&open.path.to_string_lossy())).collect()
    };
    let (own, other) = (words(true), words(false));
    let mut remedy = Remedy::default();
    if !own.is_empty() {
        remedy.commands.push(format!("chmod go-w {}", own.join(" ")));
    }
    if !other.is_empty() && rustix::process::geteuid().is_root() {
        remedy.commands.push(format!("chown -h root {}", other.join(" ")));
    } else if !other.is_empty() {
        remedy.note = Some(format!(
            "only their owner or root can close {}: or name another place, in the configuration \
             or by THE_LOOP_HOME, that only you may write to",
            other.join(" and ")
        ));
    }
    remedy
}

/// Says whom a path depends on.
#[derive(Debug)]
pub(super) struct Judge {
    tree: Option<PathBuf>,
    whose: Whose,
}

impl Judge {
    /// For what is started from here.
    pub(super) fn new(env: &Env) -> Self {
        Self { tree: work_tree(env), whose: Whose::here() }
    }

    /// For places that the user, or this program, chose: a work tree is as good as
    /// any other.
    pub(super) fn of_places() -> Self {
        Self { tree: None, whose: Whose::here() }
    }

    /// Why neither this directory nor this program is used. What is not there
    /// harms nobody.
    pub(super) fn judge(&self, path: &Path) -> Option<Ignored> {
        if !path.is_absolute() {
            return Some(Ignored::Relative);
        }
        let mut way = way(path).ok()?;
        let (real, meta) = way.pop()?;
        if let Some(tree) = &self.tree
            && (real.starts_with(tree) || way.iter().any(|(step, _)| step.starts_with(tree)))
        {
            return Some(Ignored::InWorkTree(tree.clone()));
        }
        way.push((real, meta));
        self.open_in(&way, true).into_iter().next().map(|open| Ignored::Writable(open.why))
    }

    /// Everything by which others could change this place or replace it: itself
    /// first, then what stands above it and each link on the way. Of a place that
    /// is yet to be made, what it will be made in counts.
    pub(super) fn open(&self, path: &Path) -> Vec<Open> {
        let there = path.ancestors().find(|path| fs::symlink_metadata(path).is_ok());
        let way = there.and_then(|there| way(there).ok()).unwrap_or_default();
        let is_end = there == Some(path);
        // Nothing can be made below a file: that is told by whoever tries.
        if !is_end && way.last().is_some_and(|(_, meta)| !meta.is_dir()) {
            return Vec::new();
        }
        self.open_in(&way, is_end)
    }

    /// The same of a way; `is_end` when its last step is the place itself.
    fn open_in(&self, way: &[(PathBuf, Metadata)], is_end: bool) -> Vec<Open> {
        let own = rustix::process::geteuid().as_raw();
        let end = way.len().saturating_sub(1);
        let order = (end..way.len()).chain(0..end);
        let mut found: Vec<Open> = Vec::new();
        for (index, (step, meta)) in order.filter_map(|index| Some((index, way.get(index)?))) {
            let is_it = is_end && index == end;
            // In a directory with this bit, only its owner replaces what is there.
            let is_kept = !is_it && (meta.is_symlink() || meta.mode() & 0o1000 != 0);
            let who = if is_kept {
                self.whose.foreign_owner(meta.uid())
            } else {
                self.whose.others_may_write(meta)
            };
            let Some(who) = who.filter(|_| found.iter().all(|open| open.path != *step)) else {
                continue;
            };
            let why = match path_text(step) {
                _ if is_it => format!("{who} it"),
                step => format!("{who} {step}, on the way to it"),
            };
            let is_own = meta.uid() == own && !meta.is_symlink();
            found.push(Open { path: step.clone(), why, is_own });
        }
        found
    }
}

/// Every directory and every link that a path leads through, and where it ends.
fn way(path: &Path) -> io::Result<Vec<(PathBuf, Metadata)>> {
    let mut todo: VecDeque<OsString> = components(path);
    let mut at = PathBuf::from("/");
    let mut passed = vec![(at.clone(), fs::symlink_metadata(&at)?)];
    let mut links = 0;
    while let Some(name) = todo.pop_front() {
        if name == ".." {
            at.pop();
            passed.push((at.clone(), fs::symlink_metadata(&at)?));
            continue;
        }
        let next = at.join(name);
        let meta = fs::symlink_metadata(&next)?;
        if meta.is_symlink() {
            links += 1;
            if links > LINKS {
                return Err(io::Error::other("too many links"));
            }
            let target = fs::read_link(&next)?;
            for name in components(&target).into_iter().rev() {
                todo.push_front(name);
            }
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
        } else {
            at.clone_from(&next);
        }
        passed.push((next, meta));
    }
    // A link that ends in a `.` or in the root: what it leads to is the end.
    if passed.last().is_some_and(|(_, meta)| meta.is_symlink()) {
        passed.push((at.clone(), fs::symlink_metadata(&at)?));
    }
    Ok(passed)
}

fn components(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}

/// The root of the work tree in which the program stands. A home directory that
/// is one (people keep their settings so) does not count.
fn work_tree(env: &Env) -> Option<PathBuf> {
    let cwd = fs::canonicalize(env.cwd()).ok()?;
    let is_root = |dir: &Path| match fs::symlink_metadata(dir.join(".git")) {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    };
    let root = cwd.ancestors().find(|dir| is_root(dir))?;
    let home = env.home().and_then(|home| fs::canonicalize(home).ok());
    (!home.is_some_and(|home| home.starts_with(root))).then(|| root.to_path_buf())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_entry_that_others_control_is_ignored_and_the_reason_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let make = |name: &str, mode: u32| {
            let path = root.join(name);
            std::fs::DirBuilder::new().recursive(true).create(&path).unwrap();
            fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            path
        };
        let (good, open) = (make("good", 0o755), make("open", 0o777));
        make("tree/.git", 0o755);
        let inside = make("tree/node_modules/.bin", 0o755);
        let path = std::env::join_paths([&good, &open, &inside, Path::new("bin")]).unwrap();
        let env = |cwd: &str| Env::fixed([("PATH", path.clone())], root.join(cwd), "/bin/the-loop");
        let told: Vec<_> =
            judged(&env("tree/node_modules")).into_iter().map(|(_, why)| why).collect();
        let writable = Ignored::Writable("everybody may write to it".to_owned());
        let tree = Ignored::InWorkTree(root.join("tree"));
        assert_eq!(told, [None, Some(writable), Some(tree), Some(Ignored::Relative)]);
        assert_eq!(usable(&env("tree")), std::slice::from_ref(&good));
        assert_eq!(usable(&env("good")), [good, inside]);
    }

    #[test]
    fn a_home_under_version_control_hides_no_program() {
        let dir = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(dir.path()).unwrap();
        for name in [".git", "bin"] {
            std::fs::DirBuilder::new().create(home.join(name)).unwrap();
        }
        let bin = home.join("bin");
        let vars = [("PATH", bin.clone().into_os_string()), ("HOME", home.clone().into())];
        assert_eq!(usable(&Env::fixed(vars, home, "/bin/the-loop")), [bin]);
    }

    #[test]
    fn what_stands_above_and_on_the_way_counts_too() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let make = |name: &str, mode: u32| {
            let path = root.join(name);
            std::fs::DirBuilder::new().recursive(true).create(&path).unwrap();
            fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            path
        };
        let link = |name: &str, target: &Path| {
            std::os::unix::fs::symlink(target, root.join(name)).unwrap();
            root.join(name)
        };
        let program = |name: &str, mode: u32| {
            fs::write(root.join(name), "").unwrap();
            fs::set_permissions(root.join(name), PermissionsExt::from_mode(mode)).unwrap();
            root.join(name)
        };
        let (safe, open) = (make("safe", 0o755), make("open", 0o777));
        let sticky = make("sticky", 0o1777);
        make("tree/.git", 0o755);
        program("tree/tmux", 0o755);
        let judge = Judge::new(&Env::fixed([("PATH", "")], root.join("tree"), "/bin/the-loop"));
        let said = |path: &Path| judge.judge(path).map(|why| why.to_string());
        let above = format!("everybody may write to {}, on the way to it", open.display());
        let tree = format!("it is in the work tree {}", root.join("tree").display());
        for (path, expected) in [
            (make("open/bin", 0o755), Some(above.as_str())),
            (make("sticky/bin", 0o755), None),
            (link("safe/in-open", &open.join("bin")), Some(&above)),
            (link("open/out", &safe), Some(&above)),
            (link("safe/through", Path::new("../open/out")), Some(&above)),
            (link("sticky/own", &safe), None),
            (link("safe/tmux", &root.join("tree/tmux")), Some(&tree)),
            (link("tree/out", &safe), Some(&tree)),
            (program("safe/bad", 0o777), Some("everybody may write to it")),
            (program("safe/good", 0o755), None),
            (link("safe/gone", Path::new("/nowhere")), None),
            (link("safe/round", &root.join("safe/round")), None),
            (link("safe/up", Path::new("..")), None),
            (sticky, Some("everybody may write to it")),
        ] {
            assert_eq!(said(&path).as_deref(), expected, "{}", path.display());
        }
    }
}
