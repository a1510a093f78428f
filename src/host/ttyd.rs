//! ttyd, which gives a program a terminal behind a WebSocket: one process on a
//! private socket for each session that is looked at. It takes no keys.
//!
//! It runs under a keeper, so that it never runs longer than this process. ttyd
//! 1.7.7 has faults that docs/web.md lists; nothing but our relay may talk to it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;
use rustix::fs::{Access, access};
use tokio::net::UnixStream;
use tokio_util::task::TaskTracker;

use super::keeper::{Kept, Order, StartError};
use crate::base::files::{make_private, private_dir};
use crate::base::process::Invocation;
use crate::doctor::tool::Tool;

/// How long it may take until it accepts a connection.
const READY_WITHIN: Duration = Duration::from_secs(5);
/// How often it is tried until then.
const TRY_EVERY: Duration = Duration::from_millis(5);

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
    Start(#[from] StartError),
    /// Its program is gone, or may not be run any more.
    #[error("`{}` cannot be run any more: `the-loop doctor --only ttyd` says why", path.display())]
    Unusable {
        /// The program.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
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
    /// Where the task goes that waits for its end.
    pub tasks: &'a TaskTracker,
}

/// A ttyd that runs; it ends when this is dropped.
#[derive(Debug)]
pub struct Ttyd {
    socket: PathBuf,
    kept: Kept,
}

impl Ttyd {
    /// Starts one and waits until it accepts connections.
    pub async fn start(new: NewTtyd<'_>) -> Result<Self, TtydError> {
        let place = |source| TtydError::Place { path: new.socket.to_owned(), source };
        let program = new.ttyd.path();
        access(program, Access::EXEC_OK).map_err(|error| TtydError::Unusable {
            path: program.to_owned(),
            source: error.into(),
        })?;
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
        // It asks rarely whether its only client, the relay, is there: one that waits
        // for a slow browser does not answer.
        ttyd = ttyd.args(["-O", "-P", "300"]);
        // Without the `--` ttyd takes the command's options for its own.
        ttyd = ttyd.arg("--").args(new.command.words());
        let order = Order {
            command: ttyd.stored(),
            socket: Some(new.socket.to_owned()),
            log: Some(new.log.to_owned()),
            farewell: None,
        };
        let kept = Kept::start(new.program, &order, new.tasks).await?;
        let this = Self { socket: new.socket.to_owned(), kept };
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
            () = self.kept.gone() => {}
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
        self.kept.is_gone()
    }
}
