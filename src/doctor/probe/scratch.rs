//! What the probes of tmux and ttyd share: a private directory with a path short
//! enough for a socket, a server in it that is ended whatever happens, and
//! waiting for a condition.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fs_err as fs;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;

use crate::doctor::tool::Tool;

/// The longest path of a socket that every system takes.
const SOCKET_PATH_MAX: usize = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// Makes a private directory in which a socket of the given name fits.
pub(super) fn dir(tool: &Tool, socket: &str) -> Result<TempDir, String> {
    let preferred = tool.var("TMPDIR").map(PathBuf::from);
    let mut why = String::from("no directory for temporary files is short enough for a socket");
    for parent in preferred.into_iter().chain([PathBuf::from("/tmp")]) {
        let made = tempfile::Builder::new()
            .prefix("tl-")
            .rand_bytes(8)
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .tempdir_in(&parent);
        match made {
            Ok(dir) if fits(&dir.path().join(socket)) => return Ok(dir),
            Ok(_) => {}
            Err(error) => {
                why = format!("no directory can be made in `{}`: {error}", parent.display());
            }
        }
    }
    Err(why)
}

fn fits(socket: &Path) -> bool {
    AsRef::<OsStr>::as_ref(socket).len() <= SOCKET_PATH_MAX
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
    let stat = format!("/proc/{}/stat", pid.as_raw_pid());
    test_kill_process(pid).is_err()
        || fs::read_to_string(stat).is_ok_and(|stat| stat.contains(") Z "))
}

impl Drop for Doomed {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}
