//! A receiver that was started to go on without us.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use fs_err::os::unix::fs::OpenOptionsExt as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;
use tokio::time::Instant;

use crate::base::env::Env;
use crate::base::failure::Failure;
use crate::base::process::Invocation;
use crate::base::text::visible_lines;
use crate::serve::control::{self, Status};
use crate::state::paths::StatePaths;

/// How long it may take until it answers.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How often it is asked.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// How long it may take to end.
const ENDS_WITHIN: Duration = Duration::from_secs(8);

/// A receiver in the background.
#[derive(Debug)]
pub(crate) struct Background {
    child: Child,
    control: PathBuf,
    log: PathBuf,
    /// Where in the log its own words begin.
    said_from: usize,
}

impl Background {
    /// Starts `invocation` with this configuration, its output in the log.
    pub(crate) fn start(
        env: &Env,
        invocation: Invocation,
        config: &Path,
        paths: &StatePaths,
    ) -> Result<Self, Failure> {
        paths.make(env)?;
        let log = paths.log();
        let said_from =
            fs_err::metadata(&log).map_or(0, |meta| usize::try_from(meta.len()).unwrap_or(0));
        let (out, err) = (open_log(&log)?, open_log(&log)?);
        let child = invocation
            .in_our_group()
            .arg("--config")
            .arg(config)
            .start(Stdio::null(), Stdio::from(out), Stdio::from(err))
            .map_err(|error| Failure::failed("could not start the receiver").because(error))?;
        Ok(Self { child, control: paths.control(), log, said_from })
    }

    /// Waits until it answers; says what it said when it ended instead.
    pub(crate) async fn ready(&mut self) -> Result<Status, Failure> {
        let pid = self.child.id();
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            if let Some(status) = control::ask_status(&self.control).await.unwrap_or_default()
                && Some(status.pid) == pid
            {
                return Ok(status);
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                let said = self.said();
                return Err(if said.trim().is_empty() {
                    // As on a full disk, where its words found no room.
                    Failure::failed(format!("the receiver ended with {status} and left no word"))
                        .hint(format!("its log is `{}`; is there room?", self.log.display()))
                        .hint("`the-loop gh-webhook start` without `--detach` says it here")
                } else {
                    Failure::rendered(&visible_lines(&said))
                });
            }
            if Instant::now() > deadline {
                self.end().await;
                return Err(Failure::failed("the receiver did not answer in time and was ended")
                    .hint(format!("its log is `{}`", self.log.display())));
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    /// Ends it: politely, then for certain.
    pub(crate) async fn end(&mut self) {
        if let Some(pid) = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
            // It is our child and unreaped, so the id is still its own.
            let _ = kill_process(pid, Signal::TERM);
        }
        if tokio::time::timeout(ENDS_WITHIN, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }

    /// Why it ended, in its own words. What it logged before stays in the log.
    fn said(&self) -> String {
        let bytes = fs_err::read(&self.log).unwrap_or_default();
        let said = String::from_utf8_lossy(bytes.get(self.said_from..).unwrap_or_default());
        let at = said.find("\nerror: ").filter(|_| !said.starts_with("error: "));
        said[at.map_or(0, |at| at + 1)..].to_owned()
    }
}

fn open_log(path: &Path) -> Result<std::fs::File, Failure> {
    fs_err::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .map(|file| file.into_parts().0)
        .map_err(|error| Failure::failed("could not open the receiver's log").because(error))
}
