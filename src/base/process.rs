//! Running another program: a command line as a value, a deadline for every
//! run, and errors that say what was run.
//!
//! Only `doctor::tool` makes an [`Invocation`]; this module knows how to run one.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

mod group;
mod household;
mod run;
mod table;

pub use group::Group;
pub use household::Household;
pub(crate) use run::ending;
pub use run::{ExecError, Output};
pub use table::{Process, process_text};

/// A command line that has not been run yet. The program's environment is
/// exactly `env`: nothing is inherited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    program: PathBuf,
    args: Vec<OsString>,
    env: BTreeMap<OsString, OsString>,
    cwd: Option<PathBuf>,
    stdin: Vec<u8>,
    deadline: Duration,
    output_limit: usize,
    own_group: bool,
}

impl Invocation {
    /// A command line without arguments: 10 seconds, 1 MiB of output. Called by
    /// `doctor::tool` alone (a test holds that).
    pub(crate) fn new(program: &Path, env: BTreeMap<OsString, OsString>) -> Self {
        Self {
            program: program.to_path_buf(),
            args: Vec::new(),
            env,
            cwd: None,
            stdin: Vec::new(),
            deadline: Duration::from_secs(10),
            output_limit: 1 << 20,
            own_group: true,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable of the program's environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Takes a variable out of the program's environment.
    #[must_use]
    pub fn without_env(mut self, name: &str) -> Self {
        self.env.remove(OsStr::new(name));
        self
    }

    /// The directory to run in; else ours.
    #[must_use]
    pub fn cwd(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cwd = Some(dir.into());
        self
    }

    /// What the program reads on its standard input; else nothing.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// How long the run may take.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How many bytes of each output stream are kept.
    #[must_use]
    pub fn output_limit(mut self, bytes: usize) -> Self {
        self.output_limit = bytes;
        self
    }

    /// Leaves the program in our process group: for one that makes a session of
    /// its own, which the leader of a group cannot.
    #[must_use]
    pub fn in_our_group(mut self) -> Self {
        self.own_group = false;
        self
    }

    /// The program's path.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The program and its arguments, for another command line that runs this one.
    pub fn words(&self) -> impl Iterator<Item = &OsStr> {
        std::iter::once(self.program.as_os_str()).chain(self.args.iter().map(OsString::as_os_str))
    }

    /// The command line for a message, arguments quoted where needed.
    pub fn display(&self) -> String {
        std::iter::once(self.program.as_os_str())
            .chain(self.args.iter().map(OsString::as_os_str))
            .map(|word| shell_word(&word.to_string_lossy()))
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The same command line in a form that can be stored and read back.
    pub fn stored(&self) -> StoredInvocation {
        StoredInvocation {
            program: self.program.clone(),
            args: self.args.clone(),
            env: self.env.clone().into_iter().collect(),
            cwd: self.cwd.clone(),
        }
    }
}

/// A command line on its way to the pane that will become it, in a private file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredInvocation {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    cwd: Option<PathBuf>,
}

impl StoredInvocation {
    /// The program's path.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The directory to run in; none keeps the caller's.
    pub fn cwd(&self) -> Option<&Path> {
        self.cwd.as_deref()
    }
}

/// A word as a shell would need it, for messages only: no shell of ours reads it.
pub fn shell_word(word: &str) -> String {
    let plain = !word.is_empty()
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=+,@%".contains(c));
    if plain {
        word.to_owned()
    } else {
        format!("'{}'", super::text::visible(word).replace('\'', r"'\''"))
    }
}
