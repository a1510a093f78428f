//! ttyd, which gives a program a terminal behind a WebSocket: one process on a
//! private socket for each session that is looked at, and for each way to look.
//!
//! It never runs longer than this process: between the two stands a keeper, this
//! program again, that holds one end of a pipe. When the other end is closed, by
//! whatever death, the keeper ends ttyd and itself. ttyd 1.7.7 has faults that
//! docs/web.md lists; nothing but our relay may talk to it.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use fs_err as fs;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::base::files::{make_private, private_dir};
use crate::base::process::{ExecError, Invocation, StoredInvocation};
use crate::doctor::tool::Tool;

mod keeper;

pub use keeper::keep;

/// How long it may take until it accepts a connection.
const READY_WITHIN: Duration = Duration::from_secs(5);
/// How often it is tried until then.
const TRY_EVERY: Duration = Duration::from_millis(5);
/// How long the keeper may take to end once its pipe is closed.
const ENDS_WITHIN: Duration = Duration::from_secs(3);

/// What the keeper is told, in one line.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    command: StoredInvocation,
    socket: PathBuf,
    log: PathBuf,
}

/// Why there is no ttyd.
#[derive(Debug, thiserror::Error)]
pub enum TtydError {
    /// Its socket has no place.
    #[error("there is no place for the socket `{}`", path.display())]
    Place {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It could not be started.
    #[error("ttyd was not started")]
    Start(#[from] ExecError),
    /// The keeper ended before it had taken its order.
    #[error("ttyd's keeper took no order")]
    Order(#[source] io::Error),
    /// It accepts no connection.
    #[error("ttyd accepted no connection on `{}`; its log is `{}`", path.display(), log.display())]
    NotReady {
        /// The socket.
        path: PathBuf,
        /// What it said.
        log: PathBuf,
    },
}

/// What a ttyd is started with.
#[derive(Debug)]
pub struct NewTtyd<'a> {
    /// The program that the doctor found.
    pub ttyd: &'a Tool,
    /// This program.
    pub program: &'a Tool,
    /// Where it listens.
    pub socket: &'a Path,
    /// Where its output goes.
    pub log: &'a Path,
    /// What each of its terminals runs.
    pub command: &'a Invocation,
    /// Whether what is typed reaches the command.
    pub may_type: bool,
    /// Where the task goes that waits for its end.
    pub tasks: &'a TaskTracker,
}

/// A ttyd that runs; it ends when this is dropped.
#[derive(Debug)]
pub struct Ttyd {
    socket: PathBuf,
    gone: CancellationToken,
    /// Ends it.
    drop: CancellationToken,
}

impl Ttyd {
    /// Starts one and waits until it accepts connections.
    pub async fn start(new: NewTtyd<'_>) -> Result<Self, TtydError> {
        let place = |source| TtydError::Place { path: new.socket.to_owned(), source };
        for dir in [new.socket, new.log].into_iter().filter_map(Path::parent) {
            private_dir(dir).map_err(place)?;
        }
        // ttyd would take the place of a socket that is there; nobody listens on it,
        // for there is one receiver and its ttyds end with it.
        match fs::remove_file(new.socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(place(error)),
            _ => {}
        }
        let mut ttyd = new.ttyd.invocation().cwd("/").arg("-i").arg(new.socket);
        // Its own page is never served, and nobody but the relay connects.
        ttyd = ttyd.args(["-O", "-P", "300"]);
        if new.may_type {
            ttyd = ttyd.arg("-W");
        }
        // Without the `--` ttyd takes the command's options for its own.
        ttyd = ttyd.arg("--").args(new.command.words());
        let order = Order {
            command: ttyd.stored(),
            socket: new.socket.to_owned(),
            log: new.log.to_owned(),
        };
        let mut line = serde_json::to_vec(&order).map_err(|e| TtydError::Order(e.into()))?;
        line.push(b'\n');
        let keeper = new.program.invocation().arg("keep").cwd("/");
        let mut child = keeper.start(Stdio::piped(), Stdio::null(), Stdio::null())?;
        let (gone, drop) = (CancellationToken::new(), CancellationToken::new());
        let mut pipe = child.stdin.take();
        let told = match &mut pipe {
            Some(pipe) => pipe.write_all(&line).await,
            None => Ok(()),
        };
        let (its_gone, its_drop) = (gone.clone(), drop.clone());
        new.tasks.spawn(async move {
            tokio::select! {
                _ = child.wait() => {}
                () = its_drop.cancelled() => {
                    std::mem::drop(pipe);
                    if tokio::time::timeout(ENDS_WITHIN, child.wait()).await.is_err() {
                        kill_group(child.id());
                        let _ = child.wait().await;
                    }
                }
            }
            its_gone.cancel();
        });
        let this = Self { socket: new.socket.to_owned(), gone, drop };
        told.map_err(TtydError::Order)?;
        this.ready(new.log).await?;
        make_private(new.socket).map_err(place)?;
        Ok(this)
    }

    /// Its log says that it listens also when it does not: only a connection counts.
    async fn ready(&self, log: &Path) -> Result<(), TtydError> {
        let connects = async {
            while UnixStream::connect(&self.socket).await.is_err() {
                tokio::time::sleep(TRY_EVERY).await;
            }
        };
        tokio::select! {
            () = connects => return Ok(()),
            () = self.gone.cancelled() => {}
            () = tokio::time::sleep(READY_WITHIN) => {}
        }
        Err(TtydError::NotReady { path: self.socket.clone(), log: log.to_owned() })
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Whether it has ended.
    pub fn is_gone(&self) -> bool {
        self.gone.is_cancelled()
    }
}

impl Drop for Ttyd {
    fn drop(&mut self) {
        self.drop.cancel();
    }
}

fn kill_group(pid: Option<u32>) {
    if let Some(group) = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}
