//! The life of installed versions after their install: who uses one, which are
//! taken away. What runs, or is held by a running the-loop, is never touched.

use std::fs::TryLockError;
use std::path::Path;
use std::sync::Arc;

use fs_err as fs;

use super::store::{Installed, RECEIPT, Store, WorkDir};
use super::{InstallError, Progress, file_error};
use crate::base::process::process_text;
use crate::doctor::tool::ToolId;

/// Who uses a version that nobody runs just now.
pub const A_THE_LOOP: &str = "a running the-loop";

/// Keeps a version from being pruned or removed while this value lives. The
/// kernel lets it go with the process.
pub(in crate::doctor) type Hold = Arc<std::fs::File>;

/// Holds the version that this managed binary is of.
pub(in crate::doctor) fn hold(binary: &Path) -> Option<Hold> {
    let receipt = binary.parent()?.join(RECEIPT);
    let (file, _) = fs::File::open(receipt).ok()?.into_parts();
    file.try_lock_shared().ok()?;
    Some(Arc::new(file))
}

/// Who uses the version in this folder: a process that runs it, or a the-loop
/// that may run it at any time.
pub(super) fn holder_of(dir: &Path, id: ToolId) -> Option<String> {
    if let Some(pid) = runner_of(&dir.join(id.as_str())) {
        return Some(process_text(pid));
    }
    let (receipt, _) = fs::File::open(dir.join(RECEIPT)).ok()?.into_parts();
    match receipt.try_lock() {
        Err(TryLockError::WouldBlock) => Some(A_THE_LOOP.to_owned()),
        _ => None,
    }
}

/// A process that runs this file. Only Linux tells.
fn runner_of(binary: &Path) -> Option<u32> {
    let binary = fs::canonicalize(binary).ok()?;
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        // The other processes of other users do not tell, and do not run ours.
        (std::fs::read_link(entry.path().join("exe")).ok()? == binary).then_some(pid)
    })
}

impl Store {
    /// Whether somebody uses this version.
    pub fn holder(&self, id: ToolId, installed: &Installed) -> Option<String> {
        holder_of(&self.tool_dir(id).join(&installed.version), id)
    }

    /// Takes the versions away that are neither kept nor used. One that cannot
    /// be taken away stays: that is no fault of the install.
    pub(super) fn prune(&self, id: ToolId, keep: &[Option<String>], work: &WorkDir) {
        // Where the system does not tell who runs what, nothing is guessed.
        if !Path::new("/proc/self/exe").exists() {
            return;
        }
        for old in self.installed(id) {
            let dir = self.tool_dir(id).join(&old.version);
            if !keep.contains(&Some(old.version.clone())) && holder_of(&dir, id).is_none() {
                let _ = fs::rename(&dir, work.aside(&old.version));
            }
        }
    }

    /// Takes one version, or all of them, away. Gives those that were there.
    pub async fn uninstall(
        &self,
        id: ToolId,
        version: Option<&str>,
        progress: &dyn Progress,
    ) -> Result<Vec<Installed>, InstallError> {
        let wanted = |installed: &Installed| version.is_none_or(|v| installed.version == v);
        let tool = id.as_str();
        let missing =
            || InstallError::NotInstalled { tool, version: version.unwrap_or_default().to_owned() };
        if !self.installed(id).iter().any(wanted) {
            if let Some((dir, error)) = self.closed(id) {
                return Err(file_error(dir)(error));
            }
            return Err(missing());
        }
        let lock = self.lock(id, progress).await?;
        self.remove_litter(id)?;
        let work = self.empty_work_dir(id, lock)?;
        let doomed: Vec<_> = self.installed(id).into_iter().filter(wanted).collect();
        if doomed.is_empty() {
            return Err(missing());
        }
        // macOS never tells who runs what; a Linux without /proc hides a server.
        if cfg!(target_os = "linux") && !Path::new("/proc/self/exe").exists() {
            return Err(InstallError::UseUnknown { tool });
        }
        for installed in &doomed {
            if let Some(holder) = self.holder(id, installed) {
                let version = installed.version.clone();
                return Err(InstallError::InUse { tool, version, holder });
            }
        }
        for installed in &doomed {
            let dir = self.tool_dir(id).join(&installed.version);
            fs::rename(&dir, work.aside(&installed.version)).map_err(file_error(&dir))?;
        }
        match self.installed(id).first() {
            Some(left) => self.switch(id, &left.version, &work)?,
            None => self.unlink(id)?,
        }
        Ok(doomed)
    }
}
