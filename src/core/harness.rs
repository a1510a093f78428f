//! The agents we can drive, each behind the same contract.
//!
//! The set is closed: an enum whose arms are structs in files of their own, so
//! that a new one makes the compiler name every place that must know it. The
//! runner asks for a [`StartPlan`], the injection for a [`Reading`] of the
//! screen and a [`DeliverProfile`], the spool's reader for [`Signal`]s. Nothing
//! here runs, reads or waits. docs/harnesses.md is the contract in prose.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::base::ids::{HarnessSessionId, Marker};
use crate::core::config::HarnessName;
use crate::core::inject::screen::{Reading, Screen};

mod claude;
mod demo;
mod hooks;
mod oneshot;
mod status;
mod words;

pub use claude::Claude;
pub use demo::Demo;
pub use oneshot::{OneShotResult, TurnEnd, rendered};
pub use status::AgentStatus;

/// An agent that we can drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harness {
    /// Claude Code.
    Claude(Claude),
    /// The agent that is part of this program and only echoes.
    Demo(Demo),
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

    /// How to start it, for a person to watch, with no prompt.
    fn start(&self, spec: &StartSpec<'_>) -> StartPlan;

    /// How to run one headless turn whose prompt comes on standard input.
    fn oneshot(&self, spec: &OneShotSpec<'_>) -> StartPlan;

    /// What a headless turn's standard output says about its end.
    fn parse_result(&self, stdout: &[u8]) -> OneShotResult {
        oneshot::parse(stdout)
    }

    /// Whether this is how it says that it has no such conversation.
    fn refuses_resume(&self, said: &str) -> bool;

    /// Whether this is how it says that the conversation exists already.
    fn refuses_start(&self, said: &str) -> bool;

    /// What its screen says.
    fn read_screen(&self, screen: &Screen<'_>) -> Reading;

    /// How a prompt is typed into it.
    fn profile(&self) -> DeliverProfile;

    /// What one record of its spool means; `None` when it means nothing to us.
    fn signal_of(&self, raw: &Value) -> Option<Signal>;

    /// Whether a line of its transcript proves that the prompt with this marker
    /// was taken.
    fn transcript_has(&self, transcript_line: &str, marker: &Marker) -> bool;
}

impl Harness {
    /// The harness of this name.
    pub fn named(name: HarnessName) -> Self {
        match name {
            HarnessName::Claude => Self::Claude(Claude),
            HarnessName::Demo => Self::Demo(Demo),
        }
    }

    fn adapter(&self) -> &dyn HarnessAdapter {
        match self {
            Self::Claude(claude) => claude,
            Self::Demo(demo) => demo,
        }
    }

    /// Its name.
    pub fn name(&self) -> HarnessName {
        self.adapter().name()
    }

    /// How to start it, for a person to watch, with no prompt.
    pub fn start(&self, spec: &StartSpec<'_>) -> StartPlan {
        self.adapter().start(spec)
    }

    /// How to run one headless turn whose prompt comes on standard input.
    pub fn oneshot(&self, spec: &OneShotSpec<'_>) -> StartPlan {
        self.adapter().oneshot(spec)
    }

    /// What a headless turn's standard output says about its end.
    pub fn parse_result(&self, stdout: &[u8]) -> OneShotResult {
        self.adapter().parse_result(stdout)
    }

    /// Whether this is how it says that it has no such conversation.
    pub fn refuses_resume(&self, said: &str) -> bool {
        self.adapter().refuses_resume(said)
    }

    /// Whether this is how it says that the conversation exists already.
    pub fn refuses_start(&self, said: &str) -> bool {
        self.adapter().refuses_start(said)
    }

    /// What its screen says.
    pub fn read_screen(&self, screen: &Screen<'_>) -> Reading {
        self.adapter().read_screen(screen)
    }

    /// Whether it could call a conversation so: Claude Code takes UUIDs only.
    pub fn may_call(&self, conversation: &HarnessSessionId) -> bool {
        match self {
            Self::Claude(_) => conversation.is_uuid(),
            Self::Demo(_) => true,
        }
    }

    /// How a prompt is typed into it.
    pub fn profile(&self) -> DeliverProfile {
        self.adapter().profile()
    }

    /// What one record of its spool means; `None` when it means nothing to us.
    pub fn signal_of(&self, raw: &Value) -> Option<Signal> {
        self.adapter().signal_of(raw)
    }

    /// Whether a line of its transcript proves that the prompt with this marker
    /// was taken.
    pub fn transcript_has(&self, transcript_line: &str, marker: &Marker) -> bool {
        self.adapter().transcript_has(transcript_line, marker)
    }

    /// Where its process with this number says what it does; nothing where it does
    /// not.
    pub fn status_file(&self, home: &Path, pid: u32) -> Option<PathBuf> {
        match self {
            Self::Claude(_) => Some(status::file(home, pid)),
            Self::Demo(_) => None,
        }
    }

    /// What that file says of this process and conversation.
    pub fn status_of(
        &self,
        raw: &Value,
        pid: u32,
        conversation: &HarnessSessionId,
    ) -> Option<AgentStatus> {
        match self {
            Self::Claude(_) => status::read(raw, pid, conversation),
            Self::Demo(_) => None,
        }
    }

    /// Whether a line of its transcript, at `since` or later, holds the whole of
    /// `text` as the agent's own words.
    pub fn transcript_says(
        &self,
        transcript_line: &str,
        text: &str,
        since: jiff::Timestamp,
    ) -> bool {
        words::says(transcript_line, text, since)
    }
}

impl Signal {
    /// Whether this signal proves that the prompt with this marker was taken.
    /// "Contains", never "equals": a harness may trim, join or normalise.
    pub fn accepts(&self, marker: &Marker) -> bool {
        matches!(self, Self::Accepted { prompt } if prompt.contains(marker.as_str()))
    }
}
