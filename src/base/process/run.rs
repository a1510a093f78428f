//! The one place that starts a process.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use super::{Group, Invocation, StoredInvocation};
use crate::base::text::{cap, visible};

/// How long a program that was asked to end may take before it is killed, and
/// its output may stay open after it has ended.
const GRACE: Duration = Duration::from_millis(500);

/// What a finished program left.
#[derive(Debug, Clone)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to its standard output, up to the limit.
    pub stdout: Vec<u8>,
    /// What it wrote to its standard error, up to the limit.
    pub stderr: Vec<u8>,
}

impl Output {
    /// The standard output as text.
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The last lines of what it said, fit for a message.
    pub fn complaint(&self) -> String {
        let said = if self.stderr.is_empty() { &self.stdout } else { &self.stderr };
        let text = String::from_utf8_lossy(said);
        let tail: Vec<_> =
            text.lines().rev().filter(|line| !line.trim().is_empty()).take(3).collect();
        let tail = tail.into_iter().rev().map(visible).collect::<Vec<_>>().join(" / ");
        cap(&tail, 400)
    }
}

/// Why a program did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// It could not be started at all.
    #[error("could not start `{command}`")]
    NotStarted {
        /// The command line.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// It did not end in time and was killed.
    #[error("`{command}` did not end within {} ms", after.as_millis())]
    TimedOut {
        /// The command line.
        command: String,
        /// The deadline.
        after: Duration,
    },
    /// It ended with a failure.
    #[error("`{command}` ended with {}: {}", ending(output.status), output.complaint())]
    Failed {
        /// The command line.
        command: String,
        /// What it left.
        output: Output,
    },
    /// Its input or output broke.
    #[error("lost the connection to `{command}`")]
    Io {
        /// The command line.
        command: String,
        /// Why.
        source: io::Error,
    },
}

/// How a process ended, in words.
pub(crate) fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => match signal_name(signal) {
            Some(name) => format!("signal {signal} ({name})"),
            None => format!("signal {signal}"),
        },
        (None, None) => "an unknown status".to_owned(),
    }
}

/// The name of a signal that ends programs; its number differs by platform.
fn signal_name(number: i32) -> Option<&'static str> {
    let named = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::VTALARM, "SIGVTALRM"),
        (Signal::PROF, "SIGPROF"),
        (Signal::SYS, "SIGSYS"),
    ];
    named.into_iter().find(|(signal, _)| signal.as_raw() == number).map(|(_, name)| name)
}

impl Invocation {
    /// Runs the program to its end in a process group of its own and gives what
    /// it left, whatever its exit code. Past the deadline the group is asked to
    /// end, then killed.
    pub async fn run(&self) -> Result<Output, ExecError> {
        let mut child = self.start(Stdio::piped(), Stdio::piped(), Stdio::piped())?;
        let group = Group::led_by(&child);
        let stdin = child.stdin.take();
        let stdout = child.stdout.take();
        let stderr = child.stderr.take();
        let io_error = |source| ExecError::Io { command: self.display(), source };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let talk = async {
            let write = async {
                if let Some(mut pipe) = stdin {
                    // A program that does not read all of its input has a reason to.
                    let _ = pipe.write_all(&self.stdin).await;
                }
            };
            let ((), stdout, stderr) = tokio::join!(
                write,
                read_bounded(stdout, self.output_limit, &mut out),
                read_bounded(stderr, self.output_limit, &mut err)
            );
            stdout.and(stderr)
        };
        let mut guard = GroupGuard { group: group.filter(|_| self.own_group) };
        let finished = tokio::time::timeout(self.deadline, async {
            let mut talk = std::pin::pin!(talk);
            tokio::select! {
                said = &mut talk => {
                    said?;
                    child.wait().await
                }
                status = child.wait() => {
                    // One that it left behind may hold its output for ever.
                    if let Ok(said) = tokio::time::timeout(GRACE, talk).await {
                        said?;
                    }
                    status
                }
            }
        })
        .await;
        if let Ok(result) = finished {
            guard.group = None;
            let status = result.map_err(io_error)?;
            return Ok(Output { status, stdout: out, stderr: err });
        }
        // The group is signalled while the child is unreaped, so its id is still ours.
        let ends = async {
            if let Some(group) = group {
                group.end(GRACE).await;
            }
        };
        let (_, ()) = tokio::join!(child.wait(), ends);
        guard.group = None;
        Err(ExecError::TimedOut { command: self.display(), after: self.deadline })
    }

    /// Like [`Invocation::run`], but a failing exit code is an error.
    pub async fn run_ok(&self) -> Result<Output, ExecError> {
        let output = self.run().await?;
        if output.status.success() {
            Ok(output)
        } else {
            Err(ExecError::Failed { command: self.display(), output })
        }
    }

    /// Starts the program, in a process group of its own unless the invocation
    /// says otherwise, and leaves it to the caller. It is not killed when the
    /// handle is dropped.
    pub fn start(
        &self,
        stdin: Stdio,
        stdout: Stdio,
        stderr: Stdio,
    ) -> Result<tokio::process::Child, ExecError> {
        let mut command = self.command();
        if self.own_group {
            command.process_group(0);
        }
        tokio::process::Command::from(command)
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .map_err(|source| ExecError::NotStarted { command: self.display(), source })
    }

    /// Starts the program on our own terminal and waits for it, without a
    /// deadline: a person sits in front of it.
    pub async fn run_on_terminal(&self) -> Result<ExitStatus, ExecError> {
        let not_started = |source| ExecError::NotStarted { command: self.display(), source };
        let mut child =
            tokio::process::Command::from(self.command()).spawn().map_err(not_started)?;
        child.wait().await.map_err(|source| ExecError::Io { command: self.display(), source })
    }

    /// Becomes the program. Comes back only when that failed.
    pub fn exec(&self) -> ExecError {
        let source = self.command().exec();
        ExecError::NotStarted { command: self.display(), source }
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that starts a process")]
    fn command(&self) -> std::process::Command {
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.args).env_clear().envs(&self.env);
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        command
    }
}

impl StoredInvocation {
    /// Starts the stored program in our own process group, and leaves it to the
    /// caller.
    pub fn start(
        self,
        stdin: Stdio,
        stdout: Stdio,
        stderr: Stdio,
    ) -> Result<tokio::process::Child, ExecError> {
        self.invocation().in_our_group().start(stdin, stdout, stderr)
    }

    /// Becomes the stored program. Comes back only when that failed.
    pub fn exec(self) -> ExecError {
        self.invocation().exec()
    }

    fn invocation(self) -> Invocation {
        let mut invocation = Invocation::new(&self.program, self.env.into_iter().collect());
        invocation.args = self.args;
        invocation.cwd = self.cwd;
        invocation
    }
}

/// Kills the process group of a run that is given up before its end, so that no
/// child outlives whoever asked for it.
struct GroupGuard {
    group: Option<Group>,
}

impl Drop for GroupGuard {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            group.signal(Signal::KILL);
        }
    }
}

/// Reads a stream to its end and keeps its first `limit` bytes, so that a
/// program which writes without end is drained and not believed.
async fn read_bounded(
    stream: Option<impl AsyncRead + Unpin>,
    limit: usize,
    kept: &mut Vec<u8>,
) -> io::Result<()> {
    let Some(mut stream) = stream else { return Ok(()) };
    let mut buffer = vec![0; 8192];
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        let room = limit.saturating_sub(kept.len()).min(read);
        kept.extend_from_slice(&buffer[..room]);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::Not as _;
    use std::path::Path;

    use super::*;

    fn shell(script: &str) -> Invocation {
        Invocation::new(Path::new("/bin/sh"), BTreeMap::new()).arg("-c").arg(script)
    }

    /// Waits until the process whose id is in the file has ended. Its entry may
    /// stand a moment longer, until init reaps it.
    async fn is_gone(pid_file: &Path) {
        let pid: i32 = fs_err::read_to_string(pid_file).unwrap().trim().parse().unwrap();
        for _ in 0..500 {
            let state = fs_err::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            if state.is_empty() || state.contains(") Z ") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        unreachable!("the process {pid} is still alive");
    }

    #[tokio::test]
    async fn nothing_is_inherited_and_both_streams_come_back() {
        let output =
            shell("env | grep -c CARGO; cat; echo no >&2").stdin("in").run().await.unwrap();
        assert_eq!(output.stdout_text(), "0\nin");
        assert_eq!(output.complaint(), "no");
    }

    #[tokio::test]
    async fn a_child_that_keeps_the_output_keeps_no_one_waiting() {
        let output = shell("sleep 3 & echo told").run().await.unwrap();
        assert_eq!(output.stdout_text(), "told\n");
        assert!(output.status.success());
    }

    #[tokio::test]
    async fn past_the_deadline_the_whole_group_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let pid_file = dir.path().join("pid");
        let script =
            format!("trap '' TERM; sleep 60 & echo $! > '{}'; wait; wait", pid_file.display());
        let error = shell(&script).deadline(Duration::from_millis(300)).run().await.unwrap_err();
        assert!(matches!(error, ExecError::TimedOut { .. }), "{error}");
        is_gone(&pid_file).await;
    }

    #[tokio::test]
    async fn past_the_deadline_nothing_outlives_a_program_that_ends_when_it_is_asked() {
        let dir = tempfile::tempdir().unwrap();
        let pid_file = dir.path().join("pid");
        let script = format!(
            "( trap '' TERM; while :; do sleep 0.01; done ) & echo $! > '{}'; wait",
            pid_file.display()
        );
        let error = shell(&script).deadline(Duration::from_millis(300)).run().await.unwrap_err();
        assert!(matches!(error, ExecError::TimedOut { .. }), "{error}");
        is_gone(&pid_file).await;
    }

    #[tokio::test]
    async fn a_run_that_is_given_up_leaves_no_child() {
        let dir = tempfile::tempdir().unwrap();
        let pid_file = dir.path().join("pid");
        let script = format!("echo $$ > '{}'; exec sleep 60", pid_file.display());
        let invocation = shell(&script);
        let started = async {
            while fs_err::read_to_string(&pid_file).is_ok_and(|pid| pid.ends_with('\n')).not() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            _ = invocation.run() => unreachable!("it sleeps for a minute"),
            () = started => {}
        }
        is_gone(&pid_file).await;
    }

    #[tokio::test]
    async fn input_that_is_not_read_stops_nobody() {
        // More than a pipe holds, to one that ends, closes it, or is slow.
        for (script, said) in [
            ("exit 3", ""),
            ("exec <&-; sleep 0.1; echo on; exit 3", "on\n"),
            ("head -c 5; exit 3", "xxxxx"),
            ("sleep 0.1; wc -c | tr -d ' '; exit 3", "1048576\n"),
        ] {
            let output = shell(script).stdin(vec![b'x'; 1 << 20]).run().await.unwrap();
            assert_eq!((output.status.code(), output.stdout_text().as_str()), (Some(3), said));
        }
    }

    #[tokio::test]
    async fn endless_output_is_drained_and_bounded() {
        let output = shell("yes | head -c 3000000").output_limit(1000).run().await.unwrap();
        assert_eq!(output.stdout.len(), 1000);
        assert!(output.status.success());
    }

    #[tokio::test]
    async fn a_missing_program_is_named() {
        let error =
            Invocation::new(Path::new("/nowhere/x"), BTreeMap::new()).run().await.unwrap_err();
        assert_eq!(error.to_string(), "could not start `/nowhere/x`");
    }
}
