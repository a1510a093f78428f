//! The keeper's own side: a process that lives as long as both the receiver and
//! the program it keeps do.

use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use fs_err as fs;
use rustix::fs::FileType;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::net::UnixStream;

use super::{BYE, Order};
use crate::base::files::make_private;
use crate::base::process::ExecError;

/// How long the program may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(1);
/// How long the farewell may take.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long a line with an order may be.
const MAX_ORDER: u64 = 256 << 10;
/// How much of what it says is kept.
const MAX_LOG: u64 = 128 << 10;

/// Why a keeper kept nothing.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// Its standard error held no order.
    #[error("no order came on standard error")]
    NoOrder(#[source] io::Error),
    /// The log cannot be written.
    #[error("could not open its log")]
    Log(#[source] io::Error),
    /// Standard input and output were not let go.
    #[error("could not let go of the program's pipes")]
    Pipes(#[source] io::Error),
    /// the program was not started.
    #[error("the program was not started")]
    Start(#[from] ExecError),
}

/// Takes an order from the socket that is its standard error, runs the program of it
/// on its own standard input and output, and ends when the program ends or the other
/// end of the socket does, whichever is first.
pub async fn keep() -> Result<(), KeepError> {
    let mut line_of_life = BufReader::new(line_of_life().map_err(KeepError::NoOrder)?);
    let mut line = Vec::new();
    let order = (&mut line_of_life).take(MAX_ORDER).read_until(b'\n', &mut line).await;
    order.map_err(KeepError::NoOrder)?;
    let order: Order =
        serde_json::from_slice(&line).map_err(|error| KeepError::NoOrder(error.into()))?;
    let Order { command, log, socket, farewell } = order;
    let log = log.map(|path| Log::open(&path)).transpose().map_err(KeepError::Log)?;
    let (out, err) = match &log {
        Some(_) => (Stdio::piped(), Stdio::piped()),
        None => (Stdio::inherit(), Stdio::null()),
    };
    let mut child = command.start(Stdio::inherit(), out, err)?;
    // The end of the program is then the end of its pipes.
    forget_pipes().map_err(KeepError::Pipes)?;
    let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    let (said, complained) = (child.stdout.take(), child.stderr.take());
    let end = async move {
        let mut line = Vec::new();
        line_of_life.read_until(b'\n', &mut line).await.is_ok() && line == BYE
    };
    let work = async {
        // With the receiver the pipe ends that the program reads: it may be the first
        // to see it, and what it left behind is there all the same.
        let is_bidden = tokio::select! {
            is_bidden = end => {
                if let Some(pid) = pid {
                    let _ = kill_process(pid, Signal::TERM);
                }
                if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
                    let _ = child.kill().await;
                }
                is_bidden
            }
            _ = child.wait() => false,
        };
        if !is_bidden && let Some(farewell) = farewell {
            let (no, none, nothing) = (Stdio::null(), Stdio::null(), Stdio::null());
            if let Ok(mut child) = farewell.start(no, none, nothing) {
                let _ = tokio::time::timeout(FAREWELL, child.wait()).await;
            }
        }
    };
    let listen = async {
        if let Some(log) = log {
            log.take(said, complained).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = work => {}
        () = listen => {}
    }
    // One that was killed leaves its socket.
    if let Some(socket) = socket {
        let _ = fs::remove_file(socket);
    }
    Ok(())
}

fn line_of_life() -> io::Result<UnixStream> {
    let given = rustix::io::dup(io::stderr())?;
    if !FileType::from_raw_mode(rustix::fs::fstat(&given)?.st_mode).is_socket() {
        return Err(io::Error::other("it is no socket"));
    }
    let socket = std::os::unix::net::UnixStream::from(given);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

/// Lets go of standard input and output, which are the program's.
fn forget_pipes() -> io::Result<()> {
    let nothing = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    Ok(())
}

/// A file that begins again when it is full.
struct Log {
    file: fs::File,
    written: u64,
}

impl Log {
    fn open(path: &Path) -> io::Result<Self> {
        let file = fs::File::create(path)?;
        make_private(path)?;
        Ok(Self { file, written: 0 })
    }

    /// Takes what is said until both have ended. ttyd stands still when nobody
    /// reads what it says.
    async fn take(
        mut self,
        out: Option<impl AsyncRead + Unpin>,
        err: Option<impl AsyncRead + Unpin>,
    ) {
        let (Some(mut out), Some(mut err)) = (out, err) else { return };
        let (mut of_out, mut of_err) = ([0; 2048], [0; 2048]);
        let (mut out_ended, mut err_ended) = (false, false);
        while !(out_ended && err_ended) {
            tokio::select! {
                read = out.read(&mut of_out), if !out_ended => match read {
                    Ok(0) | Err(_) => out_ended = true,
                    Ok(read) => self.write(&of_out[..read]),
                },
                read = err.read(&mut of_err), if !err_ended => match read {
                    Ok(0) | Err(_) => err_ended = true,
                    Ok(read) => self.write(&of_err[..read]),
                },
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.written > MAX_LOG {
            let _ = self.file.set_len(0);
            let _ = self.file.seek(SeekFrom::Start(0));
            self.written = 0;
        }
        // A log that cannot be written must not end the program.
        let _ = self.file.write_all(bytes);
        self.written += bytes.len() as u64;
    }
}
