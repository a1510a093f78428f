//! Where managed tools live: `<data>/tools/TOOL/VERSION/TOOL`, with a receipt
//! beside it. A version is made in a work directory of the same folder and
//! becomes active by one rename.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use fs_err as fs;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::{InstallError, Progress, SIZE_LIMIT, digest_of, file_error};
use crate::base::dirs::Dirs;
use crate::base::files;
use crate::base::files::lock::{LockError, LockFile};
use crate::core::platform::{Pin, Version};
use crate::doctor::tool::ToolId;

const RECEIPT: &str = "receipt.json";
/// How long another install of the same tool is waited for: longer than a
/// download may take.
const LOCK_DEADLINE: Duration = Duration::from_mins(15);
const LOCK_PAUSE: Duration = Duration::from_millis(50);
const WORK_PREFIX: &str = ".work-";

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
    /// Where the download goes.
    pub(super) fn download(&self) -> PathBuf {
        self.dir.path().join("download")
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

    /// The versions of a tool that are there, newest first.
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
        found.sort_by(|(one, _), (other, _)| other.cmp(one));
        found.into_iter().map(|(_, installed)| installed).collect()
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

    /// Takes the lock of a tool's folder, and says whom it waits for.
    pub(super) async fn lock(
        &self,
        id: ToolId,
        progress: &dyn Progress,
    ) -> Result<LockFile, InstallError> {
        let dir = self.tool_dir(id);
        files::private_dir(&dir).map_err(file_error(&dir))?;
        let path = dir.join(".lock");
        let failed = |source| InstallError::Lock { tool: id.as_str(), source };
        let start = Instant::now();
        let mut is_told = false;
        // Asked again and again, and not waited for in the kernel: an interrupt ends it.
        let mut lock = loop {
            match LockFile::try_acquire(&path) {
                Err(LockError::Held { holder, .. }) if start.elapsed() < LOCK_DEADLINE => {
                    if !is_told {
                        let name = id.as_str();
                        progress.say(&format!("waiting for {holder}, which is installing {name}"));
                        is_told = true;
                    }
                    tokio::time::sleep(LOCK_PAUSE).await;
                }
                result => break result.map_err(failed)?,
            }
        };
        lock.describe(&format!("pid {}", std::process::id())).map_err(failed)?;
        Ok(lock)
    }

    /// Makes a work directory, and clears away those of installs that died.
    pub(super) fn work_dir(&self, id: ToolId, lock: LockFile) -> Result<WorkDir, InstallError> {
        let dir = self.tool_dir(id);
        for entry in fs::read_dir(&dir).map_err(file_error(&dir))?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(WORK_PREFIX) {
                fs::remove_dir_all(entry.path()).map_err(file_error(entry.path()))?;
            }
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
    pub(super) fn activate(
        &self,
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
            fs::rename(&place, work.dir.path().join("replaced")).map_err(file_error(&place))?;
        }
        fs::rename(&prepared, &place).map_err(file_error(&place))?;
        let dir = self.tool_dir(id);
        fs::File::open(&dir).and_then(|dir| dir.sync_all()).map_err(file_error(&dir))?;
        Ok(Installed { version: receipt.version.clone(), path: place.join(id.as_str()) })
    }

    fn tool_dir(&self, id: ToolId) -> PathBuf {
        self.root.join(id.as_str())
    }
}
