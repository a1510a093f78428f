//! What the probes of tmux and ttyd share: a private directory with a path short
//! enough for a socket, a server in it that is ended whatever happens, and
//! waiting for a condition.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fs_err as fs;
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::Unchecked;
use crate::base::failure::bare;
use crate::base::files::SOCKET_PATH;
use crate::base::process::Process;
use crate::base::text::path_text;
use crate::doctor::lack;
use crate::doctor::listener::listener;
use crate::doctor::tool::Tool;
use crate::doctor::trouble::Trouble;

/// How the names of the directories begin, and how much of them is random.
const PREFIX: &str = "tl-probe-";
const RANDOM: usize = 8;

const PAUSE: Duration = Duration::from_millis(10);
/// As many processes as a probe may start beside the tool.
const PROCESSES: usize = 8;
/// More than a probe writes.
const ROOM: usize = 64 * 1024;

/// A private directory, locked for as long as this value lives and removed with
/// it. The kernel lets the lock go when we are killed: then the next one that is
/// made beside it ends what is left.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
    _lock: File,
}

impl Scratch {
    /// Makes one in which a socket of the given name fits.
    pub(super) fn new(tool: &Tool, socket: &str) -> Result<Self, String> {
        let preferred = tool.var("TMPDIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
        let mut parents: Vec<_> = preferred.into_iter().chain([PathBuf::from("/tmp")]).collect();
        parents.dedup();
        let mut why = Vec::new();
        for parent in parents {
            sweep(&parent);
            let shown = path_text(&parent);
            match Self::make(&parent).and_then(|made| made.has_room().map(|()| made)) {
                Ok(made) if fits(&made.path.join(socket)) => return Ok(made),
                Ok(_) => why.push(format!("the path of {shown} is too long for a socket")),
                Err(error) => {
                    let cause = bare(&error);
                    why.push(format!("no temporary file can be kept in {shown}: {cause}"));
                }
            }
        }
        Err(why.join("; "))
    }

    /// Whether what a probe writes fits: one that finds no room says nothing of
    /// the tool.
    pub(super) fn has_room(&self) -> io::Result<()> {
        let path = self.path.join("room");
        let written = fs::write(&path, vec![b'x'; ROOM]);
        let _ = fs::remove_file(&path);
        written
    }

    /// What a probe found, unless there was no room for it meanwhile.
    pub(super) fn judged(
        &self,
        check: &'static str,
        found: Result<(), Trouble>,
    ) -> Result<Option<Unchecked>, Trouble> {
        match (found, self.has_room()) {
            (Ok(()), _) => Ok(None),
            // A tool that could not start what it needs is not to blame.
            (Err(found), Ok(())) => match lack::processes_below(PROCESSES) {
                Some(why) => Ok(Some(Unchecked { check, why })),
                None => Err(found),
            },
            (Err(_), Err(error)) => {
                let parent = self.path.parent().unwrap_or(&self.path);
                let shown = path_text(parent);
                let why = format!("no temporary file can be kept in {shown}: {}", bare(&error));
                Ok(Some(Unchecked { check, why }))
            }
        }
    }

    /// Locked before it has the name by which others find it.
    fn make(parent: &Path) -> io::Result<Self> {
        let made = tempfile::Builder::new()
            .prefix(&format!(".{PREFIX}"))
            .rand_bytes(RANDOM)
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .tempdir_in(parent)?;
        let lock = open_dir(made.path())?;
        lock.try_lock()?;
        let name = made.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = parent.join(name.trim_start_matches('.'));
        fs::rename(made.path(), &path)?;
        let _ = made.keep();
        Ok(Self { path, _lock: lock })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn open_dir(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW.union(OFlags::DIRECTORY).bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

fn fits(socket: &Path) -> bool {
    AsRef::<OsStr>::as_ref(socket).len() <= SOCKET_PATH
}

/// Ends what a doctor left that was killed: the servers on its sockets, and its
/// directory. Only of this user, and only what nobody holds.
fn sweep(parent: &Path) {
    let own = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_scratch =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)).is_some_and(|random| {
                random.len() == RANDOM && random.chars().all(char::is_alphanumeric)
            });
        if !is_scratch {
            continue;
        }
        let Ok(dir) = open_dir(&entry.path()) else { continue };
        let is_ours = dir.metadata().is_ok_and(|meta| meta.uid() == own);
        if !is_ours || dir.try_lock().is_err() {
            continue;
        }
        for socket in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
            // Nobody else can have put one there.
            let pid = listener(&socket.path()).and_then(|pid| i32::try_from(pid).ok());
            drop(Doomed::new(pid));
        }
        let _ = fs::remove_dir_all(entry.path());
    }
}

/// Asks a condition again and again until it gives a value or time is up.
pub(super) async fn wait_for<T>(
    limit: Duration,
    mut condition: impl AsyncFnMut() -> Option<T>,
) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(value) = condition().await {
            return Some(value);
        }
        if start.elapsed() > limit {
            return None;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// A process of ours that must not outlive us, also when the probe is given up
/// half way.
#[derive(Debug)]
pub(super) struct Doomed(Option<Pid>);

impl Doomed {
    /// The process with this id, if it is one.
    pub(super) fn new(pid: Option<i32>) -> Self {
        Self(pid.filter(|pid| *pid > 1).and_then(Pid::from_raw))
    }

    /// Waits until the process is gone, and kills it when that takes too long.
    pub(super) async fn wait(mut self, limit: Duration) {
        let Some(pid) = self.0.take() else { return };
        let gone = async || is_over(pid).then_some(());
        if wait_for(limit, gone).await.is_none() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Whether a process has ended. An init that is slow to reap keeps its entry for
/// a while; in a container there may be none that does.
fn is_over(pid: Pid) -> bool {
    test_kill_process(pid).is_err()
        || Process::read(pid.as_raw_pid()).is_some_and(|process| process.has_ended)
}

impl Drop for Doomed {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}
