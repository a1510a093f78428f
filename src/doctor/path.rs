//! Which entries of `PATH` are looked into. An entry that is relative, that
//! somebody else can put a program into, or that lies in the work tree in which
//! agents write, is ignored; the report says so.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::base::env::Env;

/// Users and groups below this number are the system's own.
const FIRST_PERSON: u32 = if cfg!(target_os = "macos") { 500 } else { 1000 };

/// Why an entry is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ignored {
    /// It depends on where the program is started.
    Relative,
    /// Others can write to it.
    Writable(String),
    /// It is in the work tree with this root.
    InWorkTree(PathBuf),
}

/// The entries that are looked into, in order.
pub(super) fn usable(env: &Env) -> Vec<PathBuf> {
    judged(env).into_iter().filter(|(_, why)| why.is_none()).map(|(dir, _)| dir).collect()
}

/// Every entry, with the reason when it is ignored.
pub(super) fn judged(env: &Env) -> Vec<(PathBuf, Option<Ignored>)> {
    let tree = work_tree(env);
    let entries = env.var_os("PATH").map(std::env::split_paths).into_iter().flatten();
    entries
        .map(|dir| {
            let why = judge(&dir, tree.as_deref());
            (dir, why)
        })
        .collect()
}

fn judge(dir: &Path, tree: Option<&Path>) -> Option<Ignored> {
    if !dir.is_absolute() {
        return Some(Ignored::Relative);
    }
    // What is not there has no program in it.
    let real = fs::canonicalize(dir).ok()?;
    if let Some(tree) = tree.filter(|tree| real.starts_with(tree)) {
        return Some(Ignored::InWorkTree(tree.to_path_buf()));
    }
    let meta = fs::metadata(&real).ok()?;
    others_may_write(&meta).map(Ignored::Writable)
}

/// Who but this user and the system may write to what has this metadata.
fn others_may_write(meta: &std::fs::Metadata) -> Option<String> {
    let own = rustix::process::geteuid().as_raw();
    let is_foreign = |id: u32, own: u32| id != own && id >= FIRST_PERSON;
    let (user, group) = (meta.uid(), meta.gid());
    if meta.mode() & 0o002 != 0 {
        Some("everybody may write to it".to_owned())
    } else if is_foreign(user, own) {
        Some(format!("it belongs to the user {user}"))
    } else if meta.mode() & 0o020 != 0 && is_foreign(group, rustix::process::getegid().as_raw()) {
        Some(format!("the group {group} may write to it"))
    } else {
        None
    }
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
}
