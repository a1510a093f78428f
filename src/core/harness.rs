//! The agents we can drive, each behind the same contract.
//!
//! Three adapters are part of this program, each a struct in a file of its own;
//! a fourth drives whatever is declared as data ([`Declared`]). [`Harnesses`]
//! finds one by its name. The runner asks for a [`StartPlan`], the injection for
//! a [`Reading`] of the screen and a [`DeliverProfile`], the spool's reader for
//! [`Signal`]s. Nothing here runs, reads or waits. docs/harnesses.md is the
//! contract in prose.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::base::ids::{HarnessSessionId, Marker};
use crate::core::config::{FirstRun, HarnessName, Identity, RecordRule, RunnerKind, SubmitKey};
use crate::core::inject::screen::{Reading, Screen};
use crate::core::platform::Version;

mod catalogue;
mod claude;
mod cursor;
mod declared;
mod demo;
mod hooks;
mod oneshot;
mod shown;
mod status;
mod words;

pub use catalogue::{Harnesses, UnknownHarness};
pub use claude::Claude;
pub use cursor::Cursor;
pub use declared::Declared;
pub use demo::Demo;
pub use oneshot::{OneShotResult, TurnEnd};
pub use shown::Rendering;
pub use status::AgentStatus;

/// How long an agent may take from a prompt to a screen that shows its turn.
const SETTLES_WITHIN: Duration = Duration::from_secs(3);

/// An agent that we can drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Harness {
    /// Claude Code.
    Claude(Claude),
    /// Cursor's agent.
    Cursor(Cursor),
    /// The agent that is part of this program and only echoes.
    Demo(Demo),
    /// One that is declared.
    Declared(Arc<Declared>),
}

/// Which program a harness is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// This one.
    ThisProgram,
    /// One that the doctor knows by this name.
    Known(&'static str),
    /// One that is looked for.
    Looked(Probe),
}

/// How a program is found and asked for its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// A name on `PATH`, or an absolute path.
    pub program: String,
    /// The arguments that make it tell its version.
    pub args: Vec<String>,
    /// The oldest version that is known to work.
    pub minimum: Option<Version>,
    /// The command that installs it, for people.
    pub install: Option<String>,
}

/// A file that a harness reads and that must be there before it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seed {
    /// The file; `~/` in front of what is in the user's home.
    pub path: String,
    /// What it must hold: objects are joined with what is there, and what is in
    /// a list is added to it.
    pub content: Value,
}

/// Where a signal comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Source {
    /// The conversation, by the harness's own id.
    pub conversation: Option<HarnessSessionId>,
    /// Where it writes its transcript.
    pub transcript: Option<PathBuf>,
}

/// What a start needs to know.
#[derive(Debug, Clone, Copy)]
pub struct StartSpec<'a> {
    /// The conversation's id, chosen by us.
    pub session_id: &'a HarnessSessionId,
    /// Whether the conversation exists already.
    pub resume: bool,
    /// The command that harnesses run for their signals: the shell-quoted path
    /// of this program, and ` hook`.
    pub hook_command: &'a str,
    /// Arguments from `routing.harnessArgs`.
    pub extra_args: &'a [String],
    /// The directory the agent works in.
    pub cwd: &'a Path,
    /// Whether that directory may be trusted: what a fork sent may not.
    pub trusted: bool,
    /// The version of its program, where it was told.
    pub version: Option<&'a Version>,
}

/// What a headless turn needs to know. The prompt comes on standard input.
#[derive(Debug, Clone, Copy)]
pub struct OneShotSpec<'a> {
    /// What every start needs to know.
    pub start: StartSpec<'a>,
    /// Whether each step is told as it happens, for a viewer.
    pub stream: bool,
}

/// How to start a harness: what goes behind its program's name (the resolved
/// tool; this program for `demo`), and what its environment needs besides what
/// every agent is given. The arguments hold only fixed text of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartPlan {
    /// The arguments.
    pub args: Vec<String>,
    /// Variables to set.
    pub env: Vec<(String, String)>,
}

/// How a prompt is typed into a harness, and what it gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliverProfile {
    /// The key that submits.
    pub submit: SubmitKey,
    /// The least time between seeing the text in the box and the submit key.
    pub submit_gap: Duration,
    /// How often the submit key may be repeated while the text is still there.
    pub submit_retries: u8,
    /// The time between two submit keys.
    pub retry_gap: Duration,
    /// How long after the box became empty the proof may still come.
    pub ack_timeout: Duration,
    /// Whether a signal proves that the harness took the prompt.
    pub gives_proof: bool,
    /// Whether `^S` puts a draft aside until the next prompt was submitted.
    pub stashes: bool,
    /// How long after it took a prompt its screen is not believed when it shows no
    /// turn, unless the turn's end was told.
    pub settles_within: Duration,
    /// Whether it gives its first signal only at its first prompt: then an empty
    /// input box says that it is ready.
    pub ready_by_screen: bool,
}

/// What a harness tells about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signal {
    /// It is up and takes prompts.
    Ready {
        /// The conversation, by the harness's own id.
        session_id: HarnessSessionId,
        /// Where it writes its transcript.
        transcript: Option<PathBuf>,
    },
    /// It took a prompt.
    Accepted {
        /// The prompt, as the harness has it.
        prompt: String,
    },
    /// A turn ended.
    TurnEnded,
    /// A turn ended with an error of the model's service.
    TurnFailed {
        /// What went wrong, on one line.
        why: String,
    },
    /// It waits for a person.
    Waiting {
        /// What for, on one line.
        what: String,
    },
    /// The conversation's process ends.
    Ended {
        /// Why, in the harness's word.
        reason: String,
    },
}

/// What every harness must answer. The written contract: [`Harness`] is what
/// the rest of the program holds.
pub trait HarnessAdapter {
    /// Its name.
    fn name(&self) -> HarnessName;

    /// Which program it is.
    fn program(&self) -> Program;

    /// Whence the id of a conversation comes.
    fn identity(&self) -> Identity {
        Identity::Preassigned
    }

    /// Whether it can be hosted so.
    fn can_be(&self, _runner: RunnerKind) -> bool {
        true
    }

    /// Files that must be there before it starts in a terminal.
    fn seeds(&self, _hook_command: &str) -> Vec<Seed> {
        Vec::new()
    }

    /// What it would ask in a home in which it never ran.
    fn first_run(&self) -> &[FirstRun] {
        &[]
    }

    /// How a conversation is made whose identity is `created`: the command
    /// prints the id.
    fn create(&self, _spec: &StartSpec<'_>) -> Option<StartPlan> {
        None
    }

    /// How to start it, for a person to watch, with no prompt.
    fn start(&self, spec: &StartSpec<'_>) -> StartPlan;

    /// How to run one headless turn whose prompt comes on standard input.
    fn oneshot(&self, spec: &OneShotSpec<'_>) -> StartPlan;

    /// What a headless turn's standard output says about its end.
    fn parse_result(&self, stdout: &[u8]) -> OneShotResult {
        oneshot::parse(stdout)
    }

    /// What the records that such a turn prints show to people; `None`: they are in
    /// Claude Code's form.
    fn shows(&self) -> Option<Vec<RecordRule>> {
        None
    }

    /// Whether this is how it says that it has no such conversation.
    fn refuses_resume(&self, said: &str) -> bool;

    /// Whether this is how it says that the conversation exists already.
    fn refuses_start(&self, said: &str) -> bool;

    /// Whether it could call a conversation so.
    fn may_call(&self, _conversation: &HarnessSessionId) -> bool {
        true
    }

    /// What its screen says.
    fn read_screen(&self, screen: &Screen<'_>) -> Reading;

    /// Whether it draws its input already and is not up yet: a question may still
    /// take the place of the input.
    fn is_loading(&self, _screen: &Screen<'_>) -> bool {
        false
    }

    /// How a prompt is typed into it.
    fn profile(&self) -> DeliverProfile;

    /// What one record of its spool means; `None` when it means nothing to us.
    fn signal_of(&self, raw: &Value) -> Option<Signal>;

    /// Which conversation a record that says [`Signal::Accepted`] is of.
    fn source_of(&self, _raw: &Value) -> Source {
        Source::default()
    }

    /// Where the transcript of a conversation is, when no signal says so.
    fn transcript_of(&self, _conversation: &HarnessSessionId) -> Option<PathBuf> {
        None
    }

    /// Whether a line of its transcript proves that the prompt with this marker
    /// was taken.
    fn transcript_has(&self, transcript_line: &str, marker: &Marker) -> bool;

    /// Whether such a line says that the prompt waits in the agent's own queue, which
    /// is lost when the agent ends before it takes it up.
    fn transcript_queues(&self, _transcript_line: &str, _marker: &Marker) -> bool {
        false
    }

    /// Where its process with this number says what it does; nothing where it does
    /// not.
    fn status_file(&self, _home: &Path, _pid: u32) -> Option<PathBuf> {
        None
    }

    /// What that file says of this process and conversation.
    fn status_of(
        &self,
        _raw: &Value,
        _pid: u32,
        _conversation: &HarnessSessionId,
    ) -> Option<AgentStatus> {
        None
    }

    /// Whether a line of its transcript, at `since` or later, holds the whole of
    /// `text` as the agent's own words.
    fn transcript_says(&self, line: &str, text: &str, since: jiff::Timestamp) -> bool {
        words::says(line, text, since)
    }

    /// The same of a line that a headless turn printed.
    fn output_says(&self, _line: &str, _text: &str, _since: jiff::Timestamp) -> bool {
        false
    }
}

impl std::ops::Deref for Harness {
    type Target = dyn HarnessAdapter + Send + Sync;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Claude(claude) => claude,
            Self::Cursor(cursor) => cursor,
            Self::Demo(demo) => demo,
            Self::Declared(declared) => &**declared,
        }
    }
}

impl Signal {
    /// Whether this signal proves that the prompt with this marker was taken.
    /// "Contains", never "equals": a harness may trim, join or normalise.
    pub fn accepts(&self, marker: &Marker) -> bool {
        matches!(self, Self::Accepted { prompt } if prompt.contains(marker.as_str()))
    }
}
