//! One work tree: whether it is ours, and what stands only in it.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use fs_err as fs;
use jiff::Timestamp;

use super::error::{WorkspaceError, failed};
use super::git::Git;
use super::inner;
use crate::core::workspace::Survey;

/// Operations that git has not ended, by what they leave in a tree's own
/// directory.
const UNDER_WAY: &[(&str, &str)] = &[
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("BISECT_LOG", "a bisection"),
];

/// Whether the directory is a tree of the clone, without asking git.
pub(super) fn check(path: &Path, clone: &Path) -> Result<(), WorkspaceError> {
    let path_buf = path.to_path_buf();
    let not_ours =
        |why: &str| Err(WorkspaceError::NotOurs { path: path_buf.clone(), why: why.to_owned() });
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(WorkspaceError::Gone { path: path_buf });
        }
        Err(source) => {
            return Err(WorkspaceError::Io { what: "looking at the work tree".into(), source });
        }
        Ok(metadata) if !metadata.is_dir() => return not_ours("it is no directory"),
        Ok(_) => {}
    }
    let Ok(link) = fs::read_to_string(path.join(".git")) else {
        return not_ours("it is no work tree of git");
    };
    let Some(admin) = link.trim_end().strip_prefix("gitdir: ").map(Path::new) else {
        return not_ours("it is no work tree of git");
    };
    if admin.parent() != Some(&clone.join("worktrees")) || !admin.is_dir() {
        return not_ours("it belongs to another clone");
    }
    // The clone's own note of where the tree is.
    let noted = fs::read_to_string(admin.join("gitdir")).unwrap_or_default();
    if Path::new(noted.trim_end()) != path.join(".git") {
        return not_ours("its clone knows it at another place");
    }
    Ok(())
}

/// Looks at a tree that was just made, before anybody works in it.
pub(super) async fn verify(
    git: &Git,
    path: &Path,
    clone: &Path,
    branch: &str,
) -> Result<(), WorkspaceError> {
    check(path, clone)?;
    let failed = |source| failed("could not look at the new work tree", source);
    let top = git.ask(path, ["rev-parse", "--show-toplevel"]).await.map_err(failed)?;
    let on = git.ask(path, ["symbolic-ref", "--short", "HEAD"]).await.map_err(failed)?;
    let same = |a: &Path, b: &Path| fs::canonicalize(a).ok() == fs::canonicalize(b).ok();
    if !same(Path::new(&top), path) || on != branch {
        let why = format!("git calls it `{top}` on the branch `{on}`, not on `{branch}`");
        return Err(WorkspaceError::NotOurs { path: path.to_path_buf(), why });
    }
    Ok(())
}

/// When something was last fetched into the clone of a tree.
async fn asked(git: &Git, path: &Path) -> Option<Timestamp> {
    let dir = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
    let dir = git.ask(path, dir).await.ok()?;
    let fetched = fs::metadata(Path::new(&dir).join("FETCH_HEAD")).ok()?.modified().ok()?;
    Timestamp::try_from(fetched).ok()
}

/// What is in a tree that is nowhere else, as far as the clone knows. `branch` is the
/// item's own.
pub(super) async fn survey(
    git: &Git,
    path: &Path,
    branch: Option<&str>,
) -> Result<Survey, WorkspaceError> {
    let failed = |source| failed("could not look into the work tree", source);
    let status = ["status", "--porcelain", "--untracked-files=normal", "--ignore-submodules=none"];
    let changed = git.ask(path, status).await.map_err(failed)?.lines().count();
    // What only the operator's own rules hide, or the clone's, which an agent can write,
    // is not known to be of no worth: by `.gitignore` alone it is new.
    let others = ["ls-files", "--others", "--directory", "--no-empty-directory"];
    let by = |rules| others.into_iter().chain([rules]);
    let new = git.ask(path, by("--exclude-per-directory=.gitignore")).await.map_err(failed)?;
    let seen = git.ask(path, by("--exclude-standard")).await.map_err(failed)?;
    let seen: HashSet<&str> = seen.lines().collect();
    let excluded = new.lines().filter(|line| !seen.contains(line)).count();
    let inner = inner::look(path).await;
    // A lower-case tag is `assume-unchanged`, an `S` `skip-worktree`: `git status` does
    // not look at these.
    let flags = git.ask(path, ["ls-files", "-v"]).await.map_err(failed)?;
    let is_hidden = |line: &&str| line.starts_with(|tag: char| tag.is_lowercase() || tag == 'S');
    let hidden = flags.lines().filter(is_hidden).count();
    // What cannot be counted counts as unpushed.
    let count = |said: String| said.parse().unwrap_or(usize::MAX);
    let elsewhere = ["--not", "--remotes=origin", "--glob=refs/the-loop/pull/*"];
    let of_head = ["rev-list", "--count", "HEAD"].into_iter().chain(elsewhere);
    let unpushed = count(git.ask(path, of_head).await.map_err(failed)?);
    let local = branch.map(|branch| format!("refs/heads/{branch}"));
    let aside = match &local {
        Some(local)
            if git
                .holds(path, ["show-ref", "--verify", "--quiet", local])
                .await
                .map_err(failed)? =>
        {
            let of_branch = ["rev-list", "--count", local].into_iter().chain(elsewhere);
            count(git.ask(path, of_branch.chain(["HEAD"])).await.map_err(failed)?)
        }
        _ => 0,
    };
    let admin = git.ask(path, ["rev-parse", "--absolute-git-dir"]).await.map_err(failed)?;
    let admin = Path::new(&admin);
    let under_way = UNDER_WAY
        .iter()
        .find(|(file, _)| admin.join(file).exists())
        .map(|(_, name)| (*name).to_owned());
    let locked = admin.join("locked").exists();
    Ok(Survey {
        changed,
        excluded,
        inner: inner.found.map(|found| found.display().to_string()),
        unseen: inner.unseen,
        unpushed,
        aside,
        hidden,
        under_way,
        locked,
        stale: None,
        asked: asked(git, path).await,
    })
}
