//! A git work tree for each item: made before its agent starts, looked at
//! before it is entered again, taken away when all that is in it is elsewhere.
//!
//! `core::workspace` decides; here git is asked and told. Called by
//! `host::runner` around a session's start and its end. What is not ours — a
//! directory that we did not make, a tree of another clone — is never touched.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fs_err as fs;

use crate::base::failure::chain;
use crate::base::files::lock::{LockError, LockFile};
use crate::base::files::private_dir;
use crate::base::runtime::beside;
use crate::core::config::LiveConfig;
use crate::core::session::SessionRecord;
use crate::core::workspace::{Head, Origin, Places, Survey, WorkTree, head_of, url_of};
use crate::doctor::tool::Tool;
use crate::state::registry::Registry;

mod clone;
mod error;
mod git;
mod inner;
mod tree;

use clone::RepoClone;
pub use error::WorkspaceError;
use error::{failed, said};
use git::Git;
use tree::{check, survey};

/// What became of a tree when its session was closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Left {
    /// It was taken away: all that was in it is elsewhere.
    Removed,
    /// It stays, with the reason.
    Kept(String),
    /// None was made.
    Nothing,
    /// Somebody took it away before: nobody knows what was in it.
    Gone,
}

/// The clones that somebody works on.
type Clones = Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>;

/// The trees of all items.
#[derive(Debug)]
pub struct Workspaces {
    git: Git,
    places: Places,
    config: LiveConfig,
    /// One at a time works on a clone; another process is kept out by a file.
    clones: Clones,
}

impl Workspaces {
    /// The trees below one directory, which is made when it is not there.
    pub fn new(git: Tool, root: &Path, config: LiveConfig) -> io::Result<Self> {
        private_dir(root)?;
        // git notes where a tree really is, and is asked for that again.
        let places = Places::below(&fs::canonicalize(root)?);
        Ok(Self { git: Git::new(git), places, config, clones: Mutex::default() })
    }

    /// Where the session of an item works from now on: in the tree that is there,
    /// else in one that is made at its start.
    pub fn settle(&self, record: &mut SessionRecord) {
        let item = &record.work_item.reference;
        let found = [false, true].into_iter().find_map(|foreign| {
            let clone = self.places.clone_of(&item.repo, foreign);
            let path = self.places.tree_of(item, foreign);
            check(&path, &clone).is_ok().then_some((path, foreign))
        });
        let made = found.is_some();
        let (path, foreign) = found.unwrap_or_else(|| (self.places.tree_of(item, false), false));
        record.cwd = path;
        record.work_tree = Some(WorkTree { made, foreign, ..WorkTree::default() });
    }

    /// What is in a session's tree that is nowhere else, as far as is known
    /// without asking the origin; `None` when it is not there.
    pub async fn look(
        &self,
        record: &SessionRecord,
        tree: &WorkTree,
    ) -> Result<Option<Survey>, WorkspaceError> {
        let clone = self.places.clone_of(&record.work_item.reference.repo, tree.foreign);
        match check(&record.cwd, &clone) {
            Err(WorkspaceError::Gone { .. }) => Ok(None),
            Err(error) => Err(error),
            Ok(()) => survey(&self.git, &record.cwd, tree.branch.as_deref()).await.map(Some),
        }
    }

    /// Makes sure that a session's tree is there and is the one that was made
    /// for it. Gives back what the registry has to know from now on: the tree,
    /// and its directory.
    pub async fn prepare(
        &self,
        record: &SessionRecord,
        tree: &WorkTree,
        others: &[SessionRecord],
    ) -> Result<(WorkTree, PathBuf), WorkspaceError> {
        let item = &record.work_item.reference;
        let is_taken = |path: &Path| {
            let taken = |other: &&SessionRecord| {
                other.cwd.starts_with(path)
                    && other.status.is_live()
                    && other.slug() != record.slug()
            };
            others.iter().find(taken).map_or(Ok(()), |other| {
                let (path, other) = (path.to_path_buf(), other.work_item.reference.short());
                Err(WorkspaceError::Taken { path, other })
            })
        };
        if tree.made {
            is_taken(&record.cwd)?;
            return check(&record.cwd, &self.places.clone_of(&item.repo, tree.foreign))
                .map(|()| (WorkTree { kept: None, ..tree.clone() }, record.cwd.clone()));
        }
        let workspace = self.config.get().routing.workspace.clone();
        let url = url_of(&item.repo, workspace.clone);
        let clone = self.places.clone_of(&item.repo, false);
        let _one = self.try_lock(&clone).await?;
        let on = RepoClone { git: &self.git, dir: &clone };
        on.on_demand(&url).await?;
        let refs = self.git.ls_remote(&clone, item.number).await.map_err(|source| {
            failed(format!("could not ask for the refs of {}", item.repo), source)
        })?;
        let origin = Origin::parse(&refs, item.number);
        let (known, told) = (tree.branch.as_deref(), tree.told.as_ref());
        let head = head_of(item, &origin, known, told, workspace.forks)?;
        let foreign = matches!(head, Head::Fork { .. });
        let path = self.places.tree_of(item, foreign);
        is_taken(&path)?;
        if foreign {
            let clone = self.places.clone_of(&item.repo, true);
            let _one = self.try_lock(&clone).await?;
            let on = RepoClone { git: &self.git, dir: &clone };
            on.on_demand(&url).await?;
            on.add_tree(&path, &head).await?;
        } else {
            on.add_tree(&path, &head).await?;
        }
        let branch = Some(head.branch().to_owned());
        let told = tree.told.clone();
        Ok((WorkTree { branch, made: true, foreign, kept: None, lost: false, told }, path))
    }

    /// Takes a closed session's tree away when all that is in it is elsewhere.
    pub async fn release(&self, record: &SessionRecord, tree: &WorkTree) -> Left {
        let clone = self.places.clone_of(&record.work_item.reference.repo, tree.foreign);
        let path = &record.cwd;
        if !tree.made {
            return Left::Nothing;
        }
        match check(path, &clone) {
            Err(WorkspaceError::Gone { .. }) => return Left::Gone,
            Err(error) => return Left::Kept(error.to_string()),
            Ok(()) => {}
        }
        match self.take_away(record, tree, &clone).await {
            Ok(left) => left,
            Err(error) => Left::Kept(error.to_string()),
        }
    }

    /// The same, and notes in the registry what became of it.
    pub async fn release_of(&self, registry: &Registry, record: &SessionRecord) {
        let Some(tree) = &record.work_tree else { return };
        let left = self.release(record, tree).await;
        let item = &record.work_item.reference;
        match &left {
            Left::Removed => tracing::info!(%item, "the work tree was taken away"),
            Left::Kept(why) => tracing::info!(%item, why, "the work tree stays"),
            Left::Gone => tracing::warn!(%item, "the work tree was gone already"),
            Left::Nothing => return,
        }
        let noted = registry.update(&record.slug(), |record| {
            let Some(tree) = &mut record.work_tree else { return };
            tree.lost = left == Left::Gone;
            (tree.made, tree.kept) = match left {
                Left::Kept(why) => (true, Some(why)),
                Left::Removed | Left::Gone | Left::Nothing => (false, None),
            };
        });
        if let Err(error) = noted {
            tracing::warn!(%item, error = %chain(&error), "could not note what became of the tree");
        }
    }

    /// Waits until nobody of this process works on the clone that a session needs.
    pub async fn is_free(&self, record: &SessionRecord) {
        if record.work_tree.as_ref().is_none_or(|tree| tree.made) {
            return;
        }
        for foreign in [false, true] {
            let clone = self.places.clone_of(&record.work_item.reference.repo, foreign);
            drop(self.mutex_of(&clone).lock_owned().await);
        }
    }

    fn mutex_of(&self, clone: &Path) -> Arc<tokio::sync::Mutex<()>> {
        let mut clones = self.clones.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(clones.entry(clone.to_path_buf()).or_default())
    }

    /// Whoever would have to wait for a clone may be starting, and keeps no other start
    /// waiting.
    async fn try_lock(&self, clone: &Path) -> Result<Lock, WorkspaceError> {
        let guard = self.mutex_of(clone).try_lock_owned();
        lock_file(guard.map_err(|_| WorkspaceError::Busy)?, clone).await
    }

    async fn take_away(
        &self,
        record: &SessionRecord,
        tree: &WorkTree,
        clone: &Path,
    ) -> Result<Left, WorkspaceError> {
        let path = record.cwd.as_path();
        let guard = self.mutex_of(clone).lock_owned().await;
        let _one = lock_file(guard, clone).await?;
        let mut pulls: Vec<u64> = record
            .pull_requests
            .iter()
            .filter(|pull| pull.repo == record.work_item.reference.repo)
            .map(|pull| pull.number)
            .collect();
        pulls.push(record.work_item.reference.number);
        let stale = RepoClone { git: &self.git, dir: clone }.refresh(&pulls).await.err();
        let mut found = survey(&self.git, path, tree.branch.as_deref()).await?;
        found.stale = stale.map(|error| said(&error));
        if let Some(why) = found.keeps() {
            return Ok(Left::Kept(why));
        }
        // Without `--force`: what came in since the look makes git refuse, whatever the
        // operator's own rules hide.
        let remove = ["-c", "core.excludesFile=/dev/null", "worktree", "remove"];
        let remove = remove.into_iter().map(std::ffi::OsStr::new).chain([path.as_os_str()]);
        self.git
            .transfer(clone, remove)
            .await
            .map_err(|source| failed("git kept the work tree", source))?;
        Ok(Left::Removed)
    }
}

/// A clone that nobody else works on: nobody of this process, and by the file nobody
/// of another.
type Lock = (tokio::sync::OwnedMutexGuard<()>, LockFile);

async fn lock_file(
    guard: tokio::sync::OwnedMutexGuard<()>,
    clone: &Path,
) -> Result<Lock, WorkspaceError> {
    let io = |source| WorkspaceError::Io { what: "making the clones' directory".into(), source };
    private_dir(clone.parent().unwrap_or(Path::new("/"))).map_err(io)?;
    let path = clone.with_extension("lock");
    let file = beside(move || LockFile::acquire(&path)).map_err(io)?;
    let taken = file.await.map_err(io)?;
    taken.map(|file| (guard, file)).map_err(|error| match error {
        LockError::Io { source, .. } => io(source),
        held @ LockError::Held { .. } => io(io::Error::other(held)),
    })
}
