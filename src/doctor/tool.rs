//! A binary that was found and works. There is no other way to a command line:
//! only this module makes an [`Invocation`], and only the doctor makes a [`Tool`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::install::versions::{self, Hold};
use super::{path, terminfo};
use crate::base::env::Env;
use crate::base::process::{Invocation, shell_word};
use crate::core::config::{ToolConfig, Tools};
use crate::core::platform::{ToolData, Version, tool_data};

/// Where programs are looked for when `PATH` names no usable directory.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A tool that the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ToolId {
    /// The terminal multiplexer.
    Tmux,
    /// The terminal in a browser.
    Ttyd,
    /// Version control.
    Git,
    /// Claude Code.
    Claude,
}

impl ToolId {
    /// Every tool, in the order of the report.
    pub const ALL: [Self; 4] = [Self::Tmux, Self::Ttyd, Self::Git, Self::Claude];

    /// The name, which is also the binary's.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tmux => "tmux",
            Self::Ttyd => "ttyd",
            Self::Git => "git",
            Self::Claude => "claude",
        }
    }

    /// The tool of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|id| id.as_str() == name)
    }

    /// What the configuration says about it.
    pub fn config(self, tools: &Tools) -> &ToolConfig {
        match self {
            Self::Tmux => &tools.tmux,
            Self::Ttyd => &tools.ttyd,
            Self::Git => &tools.git,
            Self::Claude => &tools.claude,
        }
    }

    /// What is known about it on every platform.
    ///
    /// # Panics
    /// Never in a tested build: every tool has its compiled-in file.
    pub fn data(self) -> &'static ToolData {
        tool_data(self.as_str()).expect("every tool has its file in platforms/")
    }
}

/// Where a binary comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Origin {
    /// Its path stands in the configuration.
    Configured,
    /// It was found on `PATH`.
    System,
    /// This program installed it.
    Managed,
    /// It is this program itself.
    ThisProgram,
}

impl Origin {
    /// The word for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::System => "system",
            Self::Managed => "managed",
            Self::ThisProgram => "this program",
        }
    }
}

/// A binary that can be run.
#[derive(Debug, Clone)]
pub struct Tool {
    name: Cow<'static, str>,
    path: PathBuf,
    version: Option<Version>,
    origin: Origin,
    env: BTreeMap<OsString, OsString>,
    /// Keeps a managed binary from being pruned while somebody may run it.
    _hold: Option<Hold>,
}

impl Tool {
    /// A binary that is still to be probed.
    pub(super) fn candidate(
        name: impl Into<Cow<'static, str>>,
        path: &Path,
        origin: Origin,
        env: &Env,
    ) -> Self {
        let hold = (origin == Origin::Managed).then(|| versions::hold(path)).flatten();
        let path = path.to_path_buf();
        let env = scrubbed(env);
        Self { name: name.into(), path, version: None, origin, env, _hold: hold }
    }

    /// The same binary with the version that it told.
    pub(super) fn with_version(self, version: Version) -> Self {
        Self { version: Some(version), ..self }
    }

    /// The `the-loop` binary that is running now.
    pub fn this_program(env: &Env) -> Self {
        let version = Version::parse(env!("CARGO_PKG_VERSION"));
        let program = Self::candidate("the-loop", env.program(), Origin::ThisProgram, env);
        Self { version, ..program }
    }

    /// A variable that the tool will see.
    pub(super) fn var(&self, name: &str) -> Option<&OsStr> {
        self.env.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// The tool's name.
    pub fn id_name(&self) -> &str {
        &self.name
    }

    /// The binary.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The version it told.
    pub fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }

    /// Where it comes from.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// How a person types it: its name, where `PATH` leads to just this one.
    pub fn typed(&self) -> String {
        let path = self.var("PATH").unwrap_or_default();
        let first = std::env::split_paths(path)
            .map(|dir| dir.join(self.name.as_ref()))
            .find(|path| path.is_file());
        let real = |path: &Path| fs_err::canonicalize(path).ok();
        let is_first = first.is_some_and(|first| real(&first) == real(&self.path));
        if is_first { self.name.to_string() } else { shell_word(&self.path.to_string_lossy()) }
    }

    /// A command line without arguments. Its environment holds what a started
    /// program may see and nothing else: no secret of ours, no enclosing tmux.
    pub fn invocation(&self) -> Invocation {
        Invocation::new(&self.path, self.env.clone())
    }

    /// The same for an agent, which runs tools itself: at the end of its `PATH`
    /// are the directories in which the doctor found ours.
    pub fn invocation_finding(&self, tools: &[Self]) -> Invocation {
        let path = self.var("PATH").unwrap_or_default().to_owned();
        let mut dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
        for tool in tools {
            let is_named = tool.path.file_name() == Some(OsStr::new(tool.name.as_ref()));
            let dir = tool.path.parent().filter(|_| is_named);
            dirs.extend(dir.filter(|dir| !dirs.iter().any(|d| d == dir)).map(Path::to_path_buf));
        }
        match std::env::join_paths(&dirs) {
            Ok(path) => self.invocation().env("PATH", path),
            Err(_) => self.invocation(),
        }
    }
}

/// The variables a tool may see, with only the entries of `PATH` that nobody
/// else may write to, and our own terminal descriptions where there are some.
fn scrubbed(env: &Env) -> BTreeMap<OsString, OsString> {
    let mut vars = env.passed_on();
    if let Some(own) = terminfo::own_dir(env).filter(|dir| dir.is_dir()) {
        // An empty entry stands for the places that the system knows.
        let mut dirs = env.var_os("TERMINFO_DIRS").unwrap_or_default().to_owned();
        dirs.push(":");
        dirs.push(own);
        vars.insert("TERMINFO_DIRS".into(), dirs);
    }
    let dirs = path::usable(env);
    let path = std::env::join_paths(&dirs)
        .ok()
        .filter(|_| !dirs.is_empty())
        .unwrap_or_else(|| DEFAULT_PATH.into());
    vars.insert("PATH".into(), path);
    vars
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_its_data_and_reads_back() {
        for id in ToolId::ALL {
            assert_eq!(id.data().tool, id.as_str());
            assert_eq!(ToolId::parse(id.as_str()), Some(id));
        }
        assert_eq!(ToolId::parse("sh"), None);
    }

    #[test]
    fn a_person_types_the_name_only_where_it_leads_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a b/sh");
        fs_err::create_dir(dir.path().join("a b")).unwrap();
        fs_err::write(&path, "").unwrap();
        let env = Env::fixed([("PATH", "/usr/bin:/bin")], "/", "/bin/the-loop");
        let typed = |path: &Path| Tool::candidate("sh", path, Origin::System, &env).typed();
        assert_eq!(typed(Path::new("/bin/sh")), "sh");
        assert_eq!(typed(&path), format!("'{}'", path.display()));
    }

    #[tokio::test]
    async fn a_tool_sees_no_secret_and_no_relative_path_entry() {
        let env = Env::fixed(
            [
                ("PATH", ".:/usr/bin:bin:/bin"),
                ("THE_LOOP_GH_WEBHOOK_SECRET", "s3cret"),
                ("TMUX", "/tmp/x,1,2"),
            ],
            "/",
            "/bin/the-loop",
        );
        let shell = Tool::candidate("sh", Path::new("/bin/sh"), Origin::System, &env);
        let output = shell.invocation().args(["-c", "env"]).run_ok().await.unwrap();
        let said = output.stdout_text();
        assert!(said.contains("PATH=/usr/bin:/bin\n"), "{said}");
        assert!(!said.contains("s3cret") && !said.contains("TMUX"), "{said}");
    }
}
