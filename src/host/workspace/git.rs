//! git, as we run it: without hooks, prompts, submodules or the `ext`
//! protocol, each run with a deadline. The only room that knows git's syntax.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::base::process::{ExecError, Invocation, Output};
use crate::doctor::tool::Tool;

/// How long a question to the disk may take.
const LOCAL: Duration = Duration::from_mins(1);
/// How long the origin may take to say which refs it has.
const ASK: Duration = Duration::from_mins(1);
/// How long a fetch may take that only brings a clone up to date.
const REFRESH: Duration = Duration::from_mins(2);
/// How long a clone, the fetch before a checkout, or the checkout may take.
const TRANSFER: Duration = Duration::from_mins(30);
/// How much of what git says is kept: the refs of a large repository.
const OUTPUT: usize = 32 << 20;

/// Settings that hold for every run, whatever a repository or a home says.
const SETTINGS: &[&str] = &[
    // No hook and no file system monitor: both are programs that a clone names.
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    // Our clones are bare, and we name them ourselves: an operator's `explicit` is
    // about those that are come upon.
    "safe.bareRepository=all",
    // A transport that is a command line.
    "protocol.ext.allow=never",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "advice.detachedHead=false",
    "gc.auto=0",
    "maintenance.auto=false",
    // A branch name is one line, as it is.
    "core.quotePath=false",
];

/// A git to ask.
#[derive(Debug, Clone)]
pub(super) struct Git {
    tool: Tool,
    /// The operator's own way to ssh, or ours that asks nobody.
    ssh: Arc<OnceCell<String>>,
}

impl Git {
    /// The git of the doctor.
    pub(super) fn new(tool: Tool) -> Self {
        Self { tool, ssh: Arc::default() }
    }

    /// A run in a directory.
    fn at(&self, dir: &Path) -> Invocation {
        let mut invocation = self.tool.invocation();
        for setting in SETTINGS {
            invocation = invocation.arg("-c").arg(setting);
        }
        invocation
            .arg("-C")
            .arg(dir)
            .cwd("/")
            .env("LC_ALL", "C.UTF-8")
            // Nobody sits there to be asked: what needs a password fails.
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ASKPASS", "true")
            .env("SSH_ASKPASS", "true")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .output_limit(OUTPUT)
            .deadline(LOCAL)
    }

    /// A run that may talk to the origin, by ssh too.
    async fn remote(&self, dir: &Path) -> Invocation {
        let ssh = self.ssh.get_or_init(|| async {
            let own = self.ask(Path::new("/"), ["config", "--get", "core.sshCommand"]).await;
            // No such setting is exit code 1.
            own.ok().filter(|own| !own.is_empty()).unwrap_or_else(|| "ssh -oBatchMode=yes".into())
        });
        self.at(dir).env("GIT_SSH_COMMAND", ssh.await)
    }

    /// A question to the disk.
    pub(super) async fn ask<A: AsRef<std::ffi::OsStr>>(
        &self,
        dir: &Path,
        args: impl IntoIterator<Item = A>,
    ) -> Result<String, ExecError> {
        Ok(said(&self.at(dir).args(args).run_ok().await?))
    }

    /// A question whose answer is the exit code: 0 or 1.
    pub(super) async fn holds<A: AsRef<std::ffi::OsStr>>(
        &self,
        dir: &Path,
        args: impl IntoIterator<Item = A>,
    ) -> Result<bool, ExecError> {
        let invocation = self.at(dir).args(args);
        let output = invocation.run().await?;
        match output.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(ExecError::Failed { command: invocation.display(), output }),
        }
    }

    /// What the origin has: its `HEAD`, its branches and one pull request.
    pub(super) async fn ls_remote(&self, clone: &Path, number: u64) -> Result<String, ExecError> {
        let pull = format!("refs/pull/{number}/head");
        let args = ["ls-remote", "--symref", "origin", "HEAD", "refs/heads/*", &pull];
        let invocation = self.remote(clone).await.deadline(ASK).args(args);
        Ok(said(&invocation.run_ok().await?))
    }

    /// A fetch that brings little.
    pub(super) async fn refresh<A: AsRef<std::ffi::OsStr>>(
        &self,
        clone: &Path,
        args: impl IntoIterator<Item = A>,
    ) -> Result<(), ExecError> {
        self.remote(clone).await.deadline(REFRESH).args(args).run_ok().await.map(drop)
    }

    /// A run that moves much: a fetch, a checkout.
    pub(super) async fn transfer<A: AsRef<std::ffi::OsStr>>(
        &self,
        dir: &Path,
        args: impl IntoIterator<Item = A>,
    ) -> Result<(), ExecError> {
        self.remote(dir).await.deadline(TRANSFER).args(args).run_ok().await.map(drop)
    }
}

fn said(output: &Output) -> String {
    output.stdout_text().trim_end_matches('\n').to_owned()
}
