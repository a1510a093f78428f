//! Repositories and work trees that stand inside a tree. git sees none of them where
//! an ignore rule names their directory, and takes them away with it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fs_err as fs;

/// How long a tree is looked through. What cannot be looked at in time stays.
const AT_MOST: Duration = Duration::from_secs(10);

/// What a look through a tree came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Inner {
    /// The first that was found, below the tree.
    pub(super) found: Option<PathBuf>,
    /// Why not all could be looked at.
    pub(super) unseen: Option<String>,
}

/// Looks through a tree for repositories and work trees of their own.
pub(super) async fn look(tree: &Path) -> Inner {
    let tree = tree.to_path_buf();
    let looked = tokio::task::spawn_blocking(move || walk(&tree, Instant::now() + AT_MOST));
    looked.await.unwrap_or_else(|error| Inner { unseen: Some(error.to_string()), found: None })
}

fn walk(tree: &Path, until: Instant) -> Inner {
    let mut inner = Inner::default();
    let mut todo = vec![tree.to_path_buf()];
    while let Some(dir) = todo.pop() {
        if Instant::now() > until {
            inner.unseen = Some(format!("it took longer than {} s", AT_MOST.as_secs()));
            return inner;
        }
        match is_one(&dir, dir == tree, &mut todo) {
            Ok(false) => {}
            Ok(true) => {
                let below = dir.strip_prefix(tree).unwrap_or(&dir);
                inner.found = Some(below.to_path_buf());
                return inner;
            }
            // Somebody takes away what they built while we look.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => inner.unseen = Some(error.to_string()),
        }
    }
    inner
}

/// Whether a directory is a repository or a work tree; else what is in it is looked at
/// later. The tree's own `.git` is a file, and is its own.
fn is_one(dir: &Path, is_tree: bool, todo: &mut Vec<PathBuf>) -> io::Result<bool> {
    let mut bare = 0;
    let first = todo.len();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == ".git" && !is_tree {
            return Ok(true);
        }
        bare += usize::from(name == "HEAD" || name == "objects" || name == "refs");
        // A link is taken away, and not what it leads to.
        if entry.file_type()?.is_dir() {
            todo.push(entry.path());
        }
    }
    if bare == 3 {
        todo.truncate(first);
    }
    Ok(bare == 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_that_takes_too_long_is_not_known_to_hold_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(walk(dir.path(), Instant::now() + AT_MOST), Inner::default());
        let late = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        assert!(walk(dir.path(), late).unseen.is_some());
    }
}
