//! Where managed tools live: `<data>/tools/TOOL/VERSION/TOOL`, with a receipt
//! beside it. A version is made in a work directory of the same folder, comes
//! to its place by one rename, and is taken into use by the link `current`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fs_err as fs;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::{InstallError, Progress, SIZE_LIMIT, checkpoint, digest_of, file_error, versions};
use crate::base::dirs::Dirs;
use crate::base::env::Env;
use crate::base::files;
use crate::base::files::lock::{LockError, LockFile};
use crate::base::text::visible;
use crate::core::platform::{Pin, Remedy, Version};
use crate::doctor::path::{self, Judge};
use crate::doctor::resolve::by_others;
use crate::doctor::tool::{Origin, ToolId};

pub(in crate::doctor) const RECEIPT: &str = "receipt.json";
/// The link to the version in use.
const CURRENT: &str = "current";
const PARTIAL_PREFIX: &str = ".partial-";
/// How long another install of the same tool is waited for: longer than a
/// download may take.
const LOCK_DEADLINE: Duration = Duration::from_mins(15);
/// How often a person is told that it is still waited for.
const LOCK_AGAIN: Duration = Duration::from_secs(30);
const LOCK_PAUSE: Duration = Duration::from_millis(50);
const LOCK: &str = ".lock";
const WORK_PREFIX: &str = ".work-";
/// The room, and the files, that an install takes at least.
const ROOM: u64 = 4 * 1024 * 1024;
const FILES: u64 = 10;

/// The folder of all managed tools.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

/// A managed tool that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// Its version.
    pub version: String,
    /// The binary.
    pub path: PathBuf,
}

/// What was installed, written beside it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Receipt {
    pub(super) tool: String,
    pub(super) version: String,
    pub(super) url: String,
    pub(super) sha256: String,
    pub(super) binary_sha256: String,
}

/// A directory in which one install is prepared. It goes with the value, and
/// the lock of the tool's folder after it.
#[derive(Debug)]
pub(super) struct WorkDir {
    dir: TempDir,
    _lock: LockFile,
}

impl WorkDir {
    /// Where something is moved that goes with this directory.
    pub(super) fn aside(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("gone-{name}"))
    }

    /// Makes the folder of the version to be.
    pub(super) fn prepare(&self, version: &str) -> Result<(), InstallError> {
        let dir = self.version_dir(version);
        files::private_dir(&dir).map_err(file_error(&dir))
    }

    /// Where the program is put.
    pub(super) fn binary(&self, id: ToolId, version: &str) -> PathBuf {
        self.version_dir(version).join(id.as_str())
    }

    fn version_dir(&self, version: &str) -> PathBuf {
        self.dir.path().join(version)
    }
}

impl Store {
    /// The store below the user's data directory.
    pub fn new(dirs: &Dirs) -> Self {
        Self { root: dirs.data.join("tools") }
    }

    /// Where the folders of all tools are.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The versions of a tool that are there: the one in use, then newest first.
    pub fn installed(&self, id: ToolId) -> Vec<Installed> {
        let Ok(entries) = fs::read_dir(self.tool_dir(id)) else { return Vec::new() };
        let mut found: Vec<(Version, Installed)> = entries
            .filter_map(|entry| {
                let name = entry.ok()?.file_name().into_string().ok()?;
                let path = self.tool_dir(id).join(&name).join(id.as_str());
                let version = Version::parse(&name).filter(|_| path.is_file())?;
                Some((version, Installed { version: name, path }))
            })
            .collect();
        let current = self.current(id);
        found.sort_by(|(one, own), (other, others)| {
            let is_current = |installed: &Installed| Some(&installed.version) == current.as_ref();
            is_current(others).cmp(&is_current(own)).then(other.cmp(one))
        });
        found.into_iter().map(|(_, installed)| installed).collect()
    }

    /// The folder of a tool, or the one of all, that this user may not look into,
    /// and why: then nobody knows what is installed.
    pub fn closed(&self, id: ToolId) -> Option<(PathBuf, io::Error)> {
        for dir in [self.root.clone(), self.tool_dir(id)] {
            let looked = fs::read_dir(&dir).and_then(|_| fs::metadata(dir.join(".")));
            match looked {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Some((dir, error));
                }
                _ => {}
            }
        }
        let versions = fs::read_dir(self.tool_dir(id)).into_iter().flatten().flatten();
        versions.map(|entry| entry.path()).find_map(|dir| {
            Version::parse(dir.file_name()?.to_str()?)?;
            let error = fs::metadata(dir.join(".")).err()?;
            (error.kind() == io::ErrorKind::PermissionDenied).then_some((dir, error))
        })
    }

    /// The build of this pin, when it is there and its bytes are the right ones.
    pub(super) fn intact(&self, id: ToolId, pin: &Pin) -> Option<Installed> {
        let dir = self.tool_dir(id).join(&pin.version);
        let path = dir.join(id.as_str());
        let receipt: Receipt = serde_json::from_slice(&fs::read(dir.join(RECEIPT)).ok()?).ok()?;
        let digest = digest_of(&path, SIZE_LIMIT).ok()??;
        let is_right = receipt.sha256 == pin.sha256
            && receipt.binary_sha256 == digest
            && pin.binary_sha256.as_ref().is_none_or(|pinned| *pinned == digest);
        is_right.then(|| Installed { version: pin.version.clone(), path })
    }

    /// Whether an installed binary is still what was installed, and what the pin
    /// of its version says. Says what is the matter.
    pub(in crate::doctor) fn verify(&self, id: ToolId, binary: &Path) -> Result<(), String> {
        let dir = binary.parent().unwrap_or(&self.root);
        let receipt = fs::read(dir.join(RECEIPT)).map_err(|error| error.to_string())?;
        let receipt: Receipt = serde_json::from_slice(&receipt)
            .map_err(|error| format!("its {RECEIPT} cannot be understood: {error}"))?;
        let folder = dir.file_name().unwrap_or_default();
        if folder != receipt.version.as_str() {
            return Err(format!("its {RECEIPT} is that of version {}", visible(&receipt.version)));
        }
        let mut pins = id.data().pins.iter().filter(|pin| pin.version == receipt.version);
        let Some(pin) = pins.find(|pin| pin.sha256 == receipt.sha256) else {
            return Err(format!("its {RECEIPT} is not of a pinned build"));
        };
        let expected = pin.binary_sha256.as_ref().unwrap_or(&receipt.binary_sha256);
        match digest_of(binary, SIZE_LIMIT) {
            Ok(Some(found)) if found == *expected => Ok(()),
            Ok(Some(found)) => Err(format!("its SHA-256 is {found}, and {expected} was installed")),
            Ok(None) => Err(format!("it is larger than {SIZE_LIMIT} bytes")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// What is the matter with an installed build: why it is not run.
    pub fn fault(&self, id: ToolId, installed: &Installed) -> Option<String> {
        match by_others(&installed.path, Origin::Managed) {
            Some(why) => Some(why.to_string()),
            None => self.verify(id, &installed.path).err().map(|why| format!("is damaged: {why}")),
        }
    }

    /// What closes a build that others could change.
    pub fn closing(&self, installed: &Installed) -> Option<Remedy> {
        let open = Judge::of_places().open(&installed.path);
        (!open.is_empty()).then(|| path::remedy(&open))
    }

    /// Why nothing can be installed where this store is, or is to be, if so.
    pub(in crate::doctor) fn obstacle(&self) -> Option<&'static str> {
        let there = self.root.ancestors().find(|dir| fs::metadata(dir).is_ok())?;
        if !there.is_dir() {
            return Some("a file is in the way");
        }
        let stat = rustix::fs::statvfs(there).ok()?;
        let flags = stat.f_flag;
        let has_no_files = stat.f_files > 0 && stat.f_favail < FILES;
        // What is this user's to close is closed first.
        let open = Judge::of_places().open(&self.root);
        if flags.contains(rustix::fs::StatVfsMountFlags::NOEXEC) {
            Some("nothing can be run (noexec)")
        } else if flags.contains(rustix::fs::StatVfsMountFlags::RDONLY)
            || rustix::fs::access(there, rustix::fs::Access::WRITE_OK).is_err()
        {
            Some("nothing can be written")
        } else if stat.f_bavail.saturating_mul(stat.f_frsize) < ROOM || has_no_files {
            Some("there is no room")
        } else if open.iter().any(|open| !open.is_own) {
            Some("others could change it")
        } else {
            None
        }
    }

    /// Takes the lock of a tool's folder, and says whom it waits for.
    pub(super) async fn lock(
        &self,
        id: ToolId,
        progress: &dyn Progress,
    ) -> Result<LockFile, InstallError> {
        let dir = self.tool_dir(id);
        files::private_dir(&dir).map_err(file_error(&dir))?;
        let path = self.lock_path(id);
        let failed = |source| InstallError::Lock { tool: id.as_str(), source };
        let start = Instant::now();
        let mut told = None;
        // Asked again and again, and not waited for in the kernel: an interrupt ends it.
        let mut lock = loop {
            match LockFile::try_acquire(&path) {
                Err(LockError::Held { holder, .. }) if start.elapsed() < LOCK_DEADLINE => {
                    let name = id.as_str();
                    if told.is_none() {
                        progress
                            .say(&format!("waiting for {holder}, at work in the folder of {name}"));
                        told = Some(start);
                    } else if told.is_some_and(|told| told.elapsed() > LOCK_AGAIN) {
                        let waited = start.elapsed().as_secs();
                        progress.say(&format!(
                            "{holder} has not finished after {waited} s; Ctrl-C ends this wait"
                        ));
                        told = Some(Instant::now());
                    }
                    tokio::time::sleep(LOCK_PAUSE).await;
                }
                result => break result.map_err(failed)?,
            }
        };
        lock.describe(&format!("pid {}", std::process::id())).map_err(failed)?;
        Ok(lock)
    }

    /// The version in use.
    pub fn current(&self, id: ToolId) -> Option<String> {
        let version = fs::read_link(self.tool_dir(id).join(CURRENT)).ok()?;
        let version = version.to_str()?.to_owned();
        Version::parse(&version).map(|_| version)
    }

    /// Where the download of a build goes. Its name carries the digest, so that
    /// only a try for the same bytes goes on with it.
    pub(super) fn partial(&self, id: ToolId, pin: &Pin) -> PathBuf {
        self.tool_dir(id).join(format!("{PARTIAL_PREFIX}{}", pin.sha256))
    }

    /// How much of the download of a build is kept for the next try.
    pub fn kept(&self, id: ToolId, pin: &Pin) -> u64 {
        fs::symlink_metadata(self.partial(id, pin)).map_or(0, |partial| partial.len())
    }

    /// What installs that died left behind.
    pub fn litter(&self, id: ToolId) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.tool_dir(id)) else { return Vec::new() };
        let is_litter =
            |name: &str| name.starts_with(WORK_PREFIX) || name.starts_with(PARTIAL_PREFIX);
        entries
            .flatten()
            .filter(|entry| is_litter(&entry.file_name().to_string_lossy()))
            .map(|entry| entry.path())
            .collect()
    }

    /// What came of a pinned build that is not there yet: the next install goes on
    /// with it. The version and the file.
    pub fn begun(&self, id: ToolId) -> Vec<(&'static str, PathBuf)> {
        let missing = |version: &str| !self.tool_dir(id).join(version).exists();
        let pins = id.data().pins.iter().filter(|pin| missing(&pin.version));
        let partials = pins.map(|pin| (pin.version.as_str(), self.partial(id, pin)));
        let is_file = |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
        partials.filter(|(_, partial)| is_file(partial)).collect()
    }

    /// What of that nobody goes on with.
    pub fn useless_litter(&self, id: ToolId) -> Vec<PathBuf> {
        let begun = self.begun(id);
        let is_begun = |path: &PathBuf| begun.iter().any(|(_, partial)| partial == path);
        self.litter(id).into_iter().filter(|path| !is_begun(path)).collect()
    }

    /// Clears that away, unless an install is under way. Says whether it did.
    pub(in crate::doctor) fn clear_litter(&self, id: ToolId) -> Result<bool, InstallError> {
        match LockFile::try_acquire(&self.lock_path(id)) {
            Err(LockError::Held { .. }) => Ok(false),
            Err(source) => Err(InstallError::Lock { tool: id.as_str(), source }),
            Ok(_lock) => {
                self.useless_litter(id).iter().try_for_each(|path| remove(path)).map(|()| true)
            }
        }
    }

    /// Removes it. Only for whoever has the lock.
    pub(super) fn remove_litter(&self, id: ToolId) -> Result<(), InstallError> {
        self.litter(id).iter().try_for_each(|path| remove(path))
    }

    /// Makes a work directory, and clears away those of installs that died.
    pub(super) fn work_dir(
        &self,
        id: ToolId,
        pin: &Pin,
        lock: LockFile,
    ) -> Result<WorkDir, InstallError> {
        let partial = self.partial(id, pin);
        self.litter(id)
            .iter()
            .filter(|path| **path != partial)
            .try_for_each(|path| remove(path))?;
        self.empty_work_dir(id, lock)
    }

    pub(super) fn empty_work_dir(
        &self,
        id: ToolId,
        lock: LockFile,
    ) -> Result<WorkDir, InstallError> {
        let dir = self.tool_dir(id);
        // Before anything is fetched, and long before anything takes its place.
        let link = dir.join(CURRENT);
        let is_folder = fs::symlink_metadata(&link).is_ok_and(|there| there.is_dir());
        if is_folder && fs::read_dir(&link).is_ok_and(|mut all| all.next().is_some()) {
            let why = "something is in it, and the link to the version in use belongs there";
            let cause = io::Error::new(io::ErrorKind::DirectoryNotEmpty, why);
            return Err(InstallError::File { path: link, cause });
        }
        tempfile::Builder::new()
            .prefix(WORK_PREFIX)
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .tempdir_in(&dir)
            .map(|dir| WorkDir { dir, _lock: lock })
            .map_err(file_error(&dir))
    }

    /// Makes the prepared version the active one. A damaged one that has its
    /// place is moved into the work directory, and goes with it.
    pub(super) async fn activate(
        &self,
        env: &Env,
        id: ToolId,
        receipt: &Receipt,
        work: &WorkDir,
    ) -> Result<Installed, InstallError> {
        let prepared = work.version_dir(&receipt.version);
        let text = serde_json::to_vec_pretty(receipt).expect("a receipt is plain text");
        let file = prepared.join(RECEIPT);
        files::atomic::write(&file, &text).map_err(file_error(&file))?;
        let place = self.tool_dir(id).join(&receipt.version);
        if fs::symlink_metadata(&place).is_ok() {
            let version = receipt.version.clone();
            if let Some(holder) = versions::holder_of(&place, id) {
                return Err(InstallError::InUse { tool: id.as_str(), version, holder });
            }
            fs::rename(&place, work.aside(&version)).map_err(file_error(&place))?;
        }
        checkpoint::reach(env, "made room").await;
        fs::rename(&prepared, &place).map_err(file_error(&place))?;
        checkpoint::reach(env, "placed").await;
        self.switch(id, &receipt.version, work)?;
        checkpoint::reach(env, "switched").await;
        Ok(Installed { version: receipt.version.clone(), path: place.join(id.as_str()) })
    }

    /// Turns the link to the version in use to this one, by a rename.
    pub(super) fn switch(
        &self,
        id: ToolId,
        version: &str,
        work: &WorkDir,
    ) -> Result<(), InstallError> {
        let dir = self.tool_dir(id);
        let link = dir.join(CURRENT);
        if self.current(id).as_deref() == Some(version) {
            return Ok(());
        }
        let made = work.dir.path().join(CURRENT);
        fs_err::os::unix::fs::symlink(version, &made).map_err(file_error(&made))?;
        // Something that is no link cannot be renamed over.
        if fs::symlink_metadata(&link).is_ok_and(|there| there.is_dir()) {
            // Nobody knows whose what is in it is.
            fs::remove_dir(&link).map_err(file_error(&link))?;
        }
        fs::rename(&made, &link).map_err(file_error(&link))?;
        fs::File::open(&dir).and_then(|dir| dir.sync_all()).map_err(file_error(&dir))
    }

    /// Takes the link away.
    pub(super) fn unlink(&self, id: ToolId) -> Result<(), InstallError> {
        let link = self.tool_dir(id).join(CURRENT);
        match fs::symlink_metadata(&link) {
            Ok(_) => fs::remove_file(&link).map_err(file_error(&link)),
            Err(_) => Ok(()),
        }
    }

    /// The lock of a tool's folder.
    pub(in crate::doctor) fn lock_path(&self, id: ToolId) -> PathBuf {
        self.tool_dir(id).join(LOCK)
    }

    pub(in crate::doctor) fn tool_dir(&self, id: ToolId) -> PathBuf {
        self.root.join(id.as_str())
    }
}

/// Removes a file or a directory with all that is in it.
fn remove(path: &Path) -> Result<(), InstallError> {
    let is_dir = fs::symlink_metadata(path).is_ok_and(|there| there.is_dir());
    let removed = if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.map_err(file_error(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_download_that_an_install_goes_on_with_is_no_litter() {
        let home = tempfile::tempdir().unwrap();
        let env = Env::fixed([("THE_LOOP_HOME", home.path())], "/", "/bin/the-loop");
        let store = Store::new(&Dirs::new(&env).unwrap());
        let (id, pin) = (ToolId::Ttyd, &ToolId::Ttyd.data().pins[0]);
        let dir = store.tool_dir(id);
        let kept = store.partial(id, pin);
        let stale = dir.join(format!("{PARTIAL_PREFIX}{}", "0".repeat(64)));
        fs::create_dir_all(dir.join(".work-x")).unwrap();
        fs::write(&kept, "half").unwrap();
        fs::write(&stale, "half").unwrap();
        assert_eq!(store.begun(id), [(pin.version.as_str(), kept.clone())]);
        assert!(store.clear_litter(id).unwrap());
        assert!(kept.exists() && !stale.exists() && !dir.join(".work-x").exists());
        // Whoever has that version goes on with nothing.
        fs::create_dir(dir.join(&pin.version)).unwrap();
        assert_eq!(store.begun(id), []);
        assert_eq!(store.useless_litter(id), [kept]);
    }
}
