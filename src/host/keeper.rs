//! Programs that never run longer than this process: beside each stands a keeper,
//! this program again, that holds one end of a socket. When the other end is closed,
//! by whatever death, the keeper ends the program and itself. What the program reads
//! and writes goes past the keeper: a key has one process less on its way.
//!
//! Called by `host::ttyd` and by the web terminal. A signal at the parent's end
//! would be shorter, and is Linux's alone.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use fs_err as fs;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::base::process::{ExecError, StoredInvocation};
use crate::doctor::tool::Tool;

mod side;

pub use side::{KeepError, keep};

/// How long the keeper may take to end once its pipe is closed.
const ENDS_WITHIN: Duration = Duration::from_secs(3);

/// What the keeper is told when this process ends the program itself.
const BYE: &[u8] = b"bye\n";

/// What a keeper is told, in one line.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// The program.
    pub command: StoredInvocation,
    /// Where what it says goes; without one its standard output is ours.
    pub log: Option<PathBuf>,
    /// A file of it that is removed with it.
    pub socket: Option<PathBuf>,
    /// What is run when this process has ended without a word.
    pub farewell: Option<StoredInvocation>,
}

/// Why a keeper was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It could not be started.
    #[error("the keeper was not started")]
    Start(#[from] ExecError),
    /// It ended before it had taken its order.
    #[error("the keeper took no order")]
    Order(#[source] io::Error),
}

/// A program that is kept; it ends when this is dropped.
#[derive(Debug)]
pub struct Kept {
    gone: CancellationToken,
    drop: CancellationToken,
    stdin: KeptStdin,
    stdout: Option<ChildStdout>,
}

/// The standard input of a program that is kept and has no log.
#[derive(Debug, Clone)]
pub struct KeptStdin(Arc<Mutex<Option<ChildStdin>>>);

impl KeptStdin {
    /// Writes lines, each with its end.
    pub async fn say(&self, lines: &[u8]) -> io::Result<()> {
        match &mut *self.0.lock().await {
            Some(pipe) => pipe.write_all(lines).await,
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl Kept {
    /// Starts a program under a keeper, which is `program`. The task that waits for
    /// its end goes to `tasks`.
    pub async fn start(
        program: &Tool,
        order: &Order,
        tasks: &TaskTracker,
    ) -> Result<Self, StartError> {
        let mut line =
            serde_json::to_vec(order).map_err(|error| StartError::Order(error.into()))?;
        line.push(b'\n');
        let (life, theirs) = StdStream::pair().map_err(StartError::Order)?;
        life.set_nonblocking(true).map_err(StartError::Order)?;
        let mut life = UnixStream::from_std(life).map_err(StartError::Order)?;
        let (stdin, stdout) = match order.log {
            Some(_) => (Stdio::null(), Stdio::null()),
            None => (Stdio::piped(), Stdio::piped()),
        };
        let keeper = program.invocation().arg("keep").cwd("/");
        let mut child = keeper.start(stdin, stdout, Stdio::from(OwnedFd::from(theirs)))?;
        let (gone, drop) = (CancellationToken::new(), CancellationToken::new());
        let stdout = child.stdout.take();
        let stdin = KeptStdin(Arc::new(Mutex::new(child.stdin.take())));
        let told = life.write_all(&line).await;
        let this = Self { gone: gone.clone(), drop: drop.clone(), stdin, stdout };
        let (group, socket) = (child.id(), order.socket.clone());
        tasks.spawn(async move {
            tokio::select! {
                _ = child.wait() => {
                    // One that was killed left its program, which is of its group.
                    kill_group(group);
                    if let Some(socket) = socket {
                        let _ = fs::remove_file(socket);
                    }
                }
                () = drop.cancelled() => {
                    let ends = async {
                        let _ = life.write_all(BYE).await;
                        child.wait().await
                    };
                    if tokio::time::timeout(ENDS_WITHIN, ends).await.is_err() {
                        kill_group(child.id());
                        let _ = child.wait().await;
                    }
                }
            }
            gone.cancel();
        });
        told.map_err(StartError::Order)?;
        Ok(this)
    }

    /// What the program reads.
    pub fn stdin(&self) -> KeptStdin {
        self.stdin.clone()
    }

    /// What the program writes; once.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// Whether it has ended.
    pub fn is_gone(&self) -> bool {
        self.gone.is_cancelled()
    }

    /// Waits for its end.
    pub async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Ends it, and waits for that.
    pub async fn end(self) {
        self.drop.cancel();
        self.gone().await;
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.drop.cancel();
    }
}

fn kill_group(pid: Option<u32>) {
    if let Some(group) = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}
