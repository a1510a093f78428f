//! The clone that the trees of one repository belong to: bare, with the
//! branches of the origin kept apart from ours.

use std::path::Path;

use fs_err as fs;

use super::error::{WorkspaceError, failed};
use super::git::Git;
use super::tree::{check, verify};
use crate::base::files::private_dir;
use crate::base::process::ExecError;
use crate::core::workspace::{Head, MANAGED, Origin};

/// A clone, to be worked on by whoever holds its lock.
#[derive(Debug, Clone, Copy)]
pub(super) struct RepoClone<'a> {
    /// git.
    pub(super) git: &'a Git,
    /// Its directory.
    pub(super) dir: &'a Path,
}

impl RepoClone<'_> {
    /// Makes the clone when it is not there. Cut off at any moment it leaves none.
    pub(super) async fn on_demand(&self, url: &str) -> Result<(), WorkspaceError> {
        let clone = self.dir;
        if clone.exists() {
            let known = self.git.ask(clone, ["config", "--get", "remote.origin.url"]).await;
            let known = known.map_err(|source| failed("could not read the clone", source))?;
            if known != url {
                let why = format!("it is a clone of `{known}`, not of `{url}`");
                return Err(WorkspaceError::NotOurs { path: clone.to_path_buf(), why });
            }
            return Ok(());
        }
        let parent = clone.parent().unwrap_or(Path::new("/"));
        sweep_partial(parent, clone);
        let name = file_name(clone);
        let partial = tempfile::Builder::new()
            .prefix(&format!(".partial-{name}-"))
            .tempdir_in(parent)
            .map_err(|source| WorkspaceError::Io {
                what: "making the clone's directory".into(),
                source,
            })?;
        let dir = partial.path();
        let failed = |source| failed(format!("could not clone `{url}`"), source);
        self.git.ask(dir, ["init", "--bare", "--quiet", "--template="]).await.map_err(failed)?;
        for (key, value) in [
            ("remote.origin.url", url),
            ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
            // So that the agent's `git push` needs no argument.
            ("push.default", "current"),
            ("push.autoSetupRemote", "true"),
        ] {
            self.git.ask(dir, ["config", key, value]).await.map_err(failed)?;
        }
        self.git.transfer(dir, ["fetch", "--quiet", "--prune", "origin"]).await.map_err(failed)?;
        // Only a whole clone has the mark and the name.
        let io = |source| WorkspaceError::Io { what: "keeping the clone".into(), source };
        fs::write(dir.join(MANAGED), "Work trees of the-loop belong to this clone.\n")
            .map_err(io)?;
        fs::rename(dir, clone).map_err(io)?;
        // Its directory has another name now: nothing is left to be removed.
        let _ = partial.keep();
        Ok(())
    }

    /// Makes a tree, and looks at it before anybody works in it.
    pub(super) async fn add_tree(&self, path: &Path, head: &Head) -> Result<(), WorkspaceError> {
        let clone = self.dir;
        if fs::symlink_metadata(path).is_ok() {
            // Made by us before a crash, or somebody's own: the clone knows.
            return check(path, clone);
        }
        let parent = path.parent().unwrap_or(Path::new("/"));
        private_dir(parent).map_err(|source| WorkspaceError::Io {
            what: "making the trees' directory".into(),
            source,
        })?;
        let failed =
            |source| failed(format!("could not make the work tree `{}`", path.display()), source);
        let fetch: Vec<String> = match head {
            Head::Fork { pull, .. } => {
                vec![format!("+refs/pull/{pull}/head:refs/the-loop/pull/{pull}")]
            }
            _ => Vec::new(),
        };
        let args = ["fetch", "--quiet", "--prune", "--no-tags", "origin"].map(str::to_owned);
        self.git.transfer(clone, args.into_iter().chain(fetch)).await.map_err(failed)?;
        let base = match head {
            Head::New { from, .. } => format!("refs/remotes/origin/{from}"),
            Head::Own { branch } => format!("refs/remotes/origin/{branch}"),
            Head::Fork { pull, .. } => format!("refs/the-loop/pull/{pull}"),
        };
        let branch = head.branch();
        let local = format!("refs/heads/{branch}");
        let exists = self
            .git
            .holds(clone, ["show-ref", "--verify", "--quiet", &local])
            .await
            .map_err(failed)?;
        // A tree that was deleted by hand is forgotten, or its branch stays taken.
        self.git.ask(clone, ["worktree", "prune"]).await.map_err(failed)?;
        let at = path.as_os_str();
        if exists {
            // From an earlier tree. What the origin has got meanwhile is taken up
            // where that loses nothing.
            let is_behind = self
                .git
                .holds(clone, ["merge-base", "--is-ancestor", &local, &base])
                .await
                .map_err(failed)?;
            let add =
                ["worktree".as_ref(), "add".as_ref(), "--quiet".as_ref(), at, branch.as_ref()];
            self.git.transfer(clone, add).await.map_err(failed)?;
            if is_behind {
                self.git
                    .transfer(path, ["merge", "--quiet", "--ff-only", &base])
                    .await
                    .map_err(failed)?;
            }
        } else {
            let track = if matches!(head, Head::Own { .. }) { "--track" } else { "--no-track" };
            let add = [
                "worktree".as_ref(),
                "add".as_ref(),
                "--quiet".as_ref(),
                track.as_ref(),
                "-b".as_ref(),
                branch.as_ref(),
                at,
                base.as_ref(),
            ];
            self.git.transfer(clone, add).await.map_err(failed)?;
        }
        verify(self.git, path, clone, branch).await
    }

    /// Brings the origin's refs, and the heads of pull requests that outlive
    /// their branches.
    pub(super) async fn refresh(&self, pulls: &[u64]) -> Result<(), ExecError> {
        let clone = self.dir;
        let fetch = ["fetch", "--quiet", "--prune", "--no-tags", "origin"];
        self.git.refresh(clone, fetch).await?;
        for pull in pulls {
            let theirs = format!("refs/pull/{pull}/head");
            let refs = self.git.ls_remote(clone, *pull).await?;
            let is_there = Origin::parse(&refs, *pull).pull_head.is_some();
            if is_there {
                let spec = format!("+{theirs}:refs/the-loop/pull/{pull}");
                self.git.refresh(clone, ["fetch", "--quiet", "--no-tags", "origin", &spec]).await?;
            }
        }
        Ok(())
    }
}

/// Removes what a clone that was cut off has left. Nobody works on it: the
/// clone's lock is ours.
fn sweep_partial(parent: &Path, clone: &Path) {
    let prefix = format!(".partial-{}-", file_name(clone));
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix)
            && let Err(error) = fs::remove_dir_all(entry.path())
        {
            tracing::warn!(%error, "could not remove what a cut clone has left");
        }
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
