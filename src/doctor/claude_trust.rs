//! Which directories Claude Code trusts, as its own file says.
//!
//! In a git repository newer versions (tried: 2.1.332) ask for the repository's own
//! answer: one for a directory above it, which sufficed before (2.1.197), does not. A
//! work tree has the answer of the clone that it belongs to.

use std::path::{Path, PathBuf};

use fs_err as fs;
use serde_json::Value;

use super::checks::claude_state;
use super::repair::trust_in;
use crate::base::env::Env;

/// How often a file is tried that Claude Code writes at the same moment.
const TRIES: u32 = 3;

/// The file in which Claude Code keeps what it was answered. What a session's
/// environment holds counts, not ours.
pub(super) fn file(env: &Env) -> Option<PathBuf> {
    let passed = env.passed_on();
    let dir = passed.get(std::ffi::OsStr::new("CLAUDE_CONFIG_DIR")).map(PathBuf::from);
    let dir = dir.or_else(|| env.home().map(Path::to_path_buf))?;
    Some(dir.join(".claude.json"))
}

/// Whether a directory is trusted by every version.
pub(super) fn trusts(state: &Value, dir: &Path) -> bool {
    match repository(dir) {
        None => dir.ancestors().any(|dir| is_marked(state, dir)),
        Some((top, main)) => {
            is_marked(state, &main)
                || dir
                    .ancestors()
                    .take_while(|at| at.starts_with(&top))
                    .any(|at| is_marked(state, at))
        }
    }
}

/// Has the clone of a work tree trusted too, where a directory above the tree was
/// trusted by the user: that answer was for every tree below. Only for trees whose
/// head is in their item's own repository. Gives the clone when that was needed.
///
/// # Errors
/// The user's file could not be understood or changed; it is as it was.
pub fn trust_clone_of(env: &Env, tree: &Path) -> Result<Option<PathBuf>, String> {
    let tree = fs::canonicalize(tree).map_err(|error| error.to_string())?;
    let (Some(file), Some((_, clone))) = (file(env), repository(&tree)) else { return Ok(None) };
    let mut tries = 0;
    loop {
        let state = claude_state(&file)?;
        let above = tree.ancestors().any(|dir| is_marked(&state, dir));
        if !above || is_marked(&state, &clone) {
            return Ok(None);
        }
        match trust_in(&file, &clone) {
            Ok(()) => return Ok(Some(clone)),
            Err(error) if tries + 1 == TRIES => return Err(error.to_string()),
            Err(_) => tries += 1,
        }
    }
}

fn is_marked(state: &Value, dir: &Path) -> bool {
    state["projects"][dir.to_string_lossy().as_ref()]["hasTrustDialogAccepted"] == true
}

/// The git repository that a directory is in: its top, and where it really is. Of a
/// work tree that is its clone.
fn repository(dir: &Path) -> Option<(PathBuf, PathBuf)> {
    let top = dir.ancestors().find(|dir| fs::symlink_metadata(dir.join(".git")).is_ok())?;
    let link = fs::read_to_string(top.join(".git")).unwrap_or_default();
    let admin = link.trim_end().strip_prefix("gitdir: ").map(Path::new);
    let worktrees = admin.and_then(Path::parent).filter(|dir| dir.ends_with("worktrees"));
    let main = match worktrees.and_then(Path::parent) {
        Some(git) if git.ends_with(".git") => git.parent()?,
        Some(bare) => bare,
        None => top,
    };
    Some((top.to_path_buf(), main.to_path_buf()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A home with a clone and a work tree of it; the tree.
    fn place(dir: &Path) -> PathBuf {
        let tree = dir.join("items/o+r+1");
        fs::create_dir_all(dir.join("clones/o+r.git/worktrees/o+r+1")).unwrap();
        fs::create_dir_all(&tree).unwrap();
        let admin = dir.join("clones/o+r.git/worktrees/o+r+1");
        fs::write(tree.join(".git"), format!("gitdir: {}\n", admin.display())).unwrap();
        tree
    }

    fn marked(dirs: &[&Path]) -> Value {
        let mark = |dir: &&Path| {
            (dir.to_str().unwrap().to_owned(), json!({"hasTrustDialogAccepted": true}))
        };
        json!({ "projects": dirs.iter().map(mark).collect::<serde_json::Map<_, _>>() })
    }

    #[test]
    fn in_a_repository_an_answer_for_a_directory_above_it_is_not_enough() {
        let dir = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(dir.path()).unwrap();
        let tree = place(&dir);
        let clone = dir.join("clones/o+r.git");
        let plain = dir.join("plain/sub");
        assert!(trusts(&marked(&[&dir]), &plain));
        assert!(!trusts(&marked(&[&dir, &dir.join("items")]), &tree));
        assert!(trusts(&marked(&[&clone]), &tree) && trusts(&marked(&[&tree]), &tree.join("src")));
        fs::create_dir_all(plain.join(".git")).unwrap();
        assert!(!trusts(&marked(&[&dir]), &plain) && trusts(&marked(&[&plain]), &plain.join("x")));
    }

    #[test]
    fn a_clone_is_trusted_only_where_its_trees_were() {
        let dir = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(dir.path()).unwrap();
        let (tree, file) = (place(&dir), dir.join(".claude.json"));
        let env = Env::fixed([("HOME", &dir)], "/", "/opt/the-loop");
        assert_eq!(trust_clone_of(&env, &tree), Ok(None));
        assert!(!file.exists());
        fs::write(&file, marked(&[&dir.join("elsewhere")]).to_string()).unwrap();
        assert_eq!(trust_clone_of(&env, &tree), Ok(None));
        fs::write(&file, marked(&[&dir.join("items")]).to_string()).unwrap();
        let clone = dir.join("clones/o+r.git");
        assert_eq!(trust_clone_of(&env, &tree), Ok(Some(clone)));
        assert_eq!(trust_clone_of(&env, &tree), Ok(None));
        let state: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert!(trusts(&state, &tree));
        fs::write(&file, "{broken").unwrap();
        trust_clone_of(&env, &tree).unwrap_err();
        assert_eq!(fs::read_to_string(&file).unwrap(), "{broken");
    }
}
