//! Probes run the thing. The first asks for the version; those of tmux and ttyd
//! then let it do, on a private socket, what it will be needed for.

mod scratch;
mod tmux;
mod ttyd;

use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use super::program;
use super::tool::{Tool, ToolId};
use super::trouble::Trouble;
use crate::base::process::{ExecError, Output};
use crate::base::text::{cap, visible};
use crate::core::platform::Version;

/// How much is shown of what a program said: with the mark behind it, it fits on a
/// line of its own.
const SHOWN: usize = 34;

/// How long a tool may take to tell its version.
const VERSION_DEADLINE: Duration = Duration::from_secs(5);
/// The same for an agent, which may be a large script that starts slowly.
const HARNESS_DEADLINE: Duration = Duration::from_secs(10);
/// How long a binary that was just written may be held open for writing by a
/// process that was forked at that moment.
const BUSY_RETRIES: u32 = 50;
const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// How a shell ends that found no program of the name that it was to run.
const NOT_FOUND: i32 = 127;
/// How macOS ends a program that it does not let run, and how it marks one.
const KILL: i32 = 9;
pub(super) const QUARANTINE: &str = "com.apple.quarantine";

/// A binary that passed.
#[derive(Debug)]
pub(super) struct Passed {
    /// The binary, with its version.
    pub(super) tool: Tool,
    /// What could not be found out, and why.
    pub(super) unchecked: Vec<Unchecked>,
}

/// A check that could not be made.
#[derive(Debug, Clone)]
pub(super) struct Unchecked {
    /// The second part of the check's id.
    pub(super) check: &'static str,
    /// Why it could not be made.
    pub(super) why: String,
}

/// Runs every probe of this tool on a candidate.
pub(super) async fn probe(id: ToolId, candidate: Tool) -> Result<Passed, Trouble> {
    let tool = new_enough(id, candidate).await?;
    let unchecked = match id {
        ToolId::Tmux => tmux::probe(&tool).await?,
        ToolId::Ttyd => ttyd::probe(&tool).await?,
        ToolId::Git | ToolId::Claude => None,
    };
    Ok(Passed { tool, unchecked: unchecked.into_iter().collect() })
}

/// A candidate with the version that it tells, when that is new enough.
pub(super) async fn new_enough(id: ToolId, candidate: Tool) -> Result<Tool, Trouble> {
    let version = version(id, &candidate).await?;
    if let Some(needed) = id.data().minimum().filter(|needed| version < *needed) {
        return Err(Trouble::TooOld { found: version, needed });
    }
    Ok(candidate.with_version(version))
}

/// Asks a binary for its version. Also the last step before an install counts.
pub(super) async fn version(id: ToolId, tool: &Tool) -> Result<Version, Trouble> {
    program::inspect(tool.path())?;
    let (flag, deadline) = match id {
        ToolId::Tmux => ("-V", VERSION_DEADLINE),
        ToolId::Ttyd | ToolId::Git => ("--version", VERSION_DEADLINE),
        ToolId::Claude => ("--version", HARNESS_DEADLINE),
    };
    // Many a program answers `-V` with some version: tmux says its name first.
    let named = (id == ToolId::Tmux).then_some("tmux ");
    told_version(tool, &[flag], deadline, named).await
}

/// The version that a binary tells when it is run with these arguments, where
/// what it says begins as it must.
pub(super) async fn told_version(
    tool: &Tool,
    args: &[&str],
    deadline: Duration,
    begins: Option<&str>,
) -> Result<Version, Trouble> {
    let invocation = tool.invocation().args(args).deadline(deadline).output_limit(4096);
    let mut tries = 0;
    let output = loop {
        match invocation.run_ok().await {
            Err(ExecError::NotStarted { source, .. })
                if source.kind() == io::ErrorKind::ExecutableFileBusy && tries < BUSY_RETRIES =>
            {
                tries += 1;
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            result => break result.map_err(|error| trouble(error, tool.path()))?,
        }
    };
    let said = output.stdout_text();
    let is_named = begins.is_none_or(|begins| said.trim_start().starts_with(begins));
    let version = Version::find(&said).filter(|_| is_named);
    version.ok_or_else(|| Trouble::NoVersion { said: cap(&visible(said.trim()), SHOWN) })
}

/// What a failed run says about the binary.
fn trouble(error: ExecError, program: &Path) -> Trouble {
    match error {
        ExecError::NotStarted { source, .. } => match source.kind() {
            io::ErrorKind::PermissionDenied => Trouble::Denied,
            io::ErrorKind::ExecutableFileBusy => Trouble::Busy,
            // Of a file that is there, this means what would load it.
            io::ErrorKind::NotFound => Trouble::LoaderMissing { loader: "its loader".into() },
            _ if source.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
                Trouble::WrongFormat
            }
            _ => Trouble::Unreadable { source },
        },
        ExecError::TimedOut { command, after } => Trouble::Hung { command, after },
        ExecError::Failed { ref output, .. } if is_library_missing(output) => {
            Trouble::LibraryMissing { said: output.complaint() }
        }
        ExecError::Failed { ref output, .. }
            if output.status.signal() == Some(KILL) && is_quarantined(program) =>
        {
            Trouble::Quarantined
        }
        ExecError::Failed { ref output, .. }
            if output.status.code() == Some(NOT_FOUND) && is_script(program) =>
        {
            Trouble::Failed {
                what: format!(
                    "it is a script, and what it runs is not there: {}",
                    output.complaint()
                ),
            }
        }
        ExecError::Failed { .. } => {
            Trouble::Failed { what: error.to_string().trim_end_matches([':', ' ']).to_owned() }
        }
        ExecError::Io { source, .. } => Trouble::Unreadable { source },
    }
}

fn is_script(program: &Path) -> bool {
    let mut head = [0; 2];
    let read = fs_err::File::open(program).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == *b"#!"
}

/// Whether macOS marked it as something from elsewhere that nobody allowed yet.
fn is_quarantined(program: &Path) -> bool {
    let mut none: [u8; 0] = [];
    rustix::fs::getxattr(program, QUARANTINE, &mut none[..]).is_ok()
}

fn is_library_missing(output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr);
    ["error while loading shared libraries", "Error loading shared library", "Library not loaded"]
        .iter()
        .any(|text| said.contains(text))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::base::env::Env;
    use crate::doctor::tool::Origin;

    #[tokio::test]
    async fn a_script_with_nothing_behind_it_is_told_as_that() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tmux");
        fs_err::write(&path, "#!/bin/sh\nexec /nope/tmux \"$@\"\n").unwrap();
        fs_err::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
        let env = Env::fixed([("PATH", "/usr/bin:/bin")], "/", "/bin/the-loop");
        let tool = Tool::candidate("tmux", &path, Origin::System, &env);
        let why = version(ToolId::Tmux, &tool).await.unwrap_err().to_string();
        assert!(why.starts_with("fails: it is a script, and what it runs is not there: "), "{why}");
        assert!(why.contains("/nope/tmux"), "{why}");
    }
}
