//! What a test wants of the fake: `fake-harness.json` in its working directory.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

/// What the test wants.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Script {
    pub(crate) mode: Mode,
    pub(crate) start_ms: Option<u64>,
    pub(crate) turn_ms: Option<u64>,
    pub(crate) exit_code: Option<i32>,
    /// Only so many of its starts end with `exit-at-start`.
    pub(crate) fail_starts: Option<usize>,
    pub(crate) say: Option<String>,
    pub(crate) swallow_enter_ms: Option<u64>,
    /// When a dialog opens: at `start`, or so many milliseconds into a turn.
    pub(crate) dialog_at_start: bool,
    pub(crate) dialog_after_ms: Option<u64>,
    /// A tool that a background agent runs: so many milliseconds after each paste,
    /// one after the other, its hook runs and its dialog opens.
    pub(crate) tools_after_paste_ms: Vec<u64>,
    /// A recorded screen that is shown as the dialog.
    pub(crate) screen: Option<PathBuf>,
    /// Recorded screens that `^O` shows over the box, one after the other.
    pub(crate) overlays: Vec<PathBuf>,
    /// The submit key counts only when it comes alone, not with other bytes.
    pub(crate) enter_alone: bool,
    /// The box knows vi's normal mode.
    pub(crate) vim: bool,
    /// It draws on the usual screen, as the real one does, whose lines stay.
    pub(crate) inline: bool,
    /// So many milliseconds into each turn the agent ends; at so many pastes a shell
    /// takes its place.
    pub(crate) exit_in_turn_ms: Option<u64>,
    pub(crate) shell_after_paste: Option<usize>,
    /// What stands in the box at the start, as if a person had typed it.
    pub(crate) draft: Option<String>,
    pub(crate) log: Option<PathBuf>,
    pub(crate) prompts: Option<PathBuf>,
    /// What a headless result says, instead of the truth.
    pub(crate) says_session: Option<String>,
    pub(crate) says_cost: Option<f64>,
    /// What it does not do when it takes a prompt.
    pub(crate) no_hook: bool,
    pub(crate) no_transcript: bool,
    /// A headless turn ends when this file is there.
    pub(crate) ends_at: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
    /// Takes prompts; a turn takes 50 ms.
    #[default]
    Idle,
    /// Takes prompts; a turn takes 2 s.
    Busy,
    /// Needs 2 s until it is ready, and loses what is typed before.
    SlowStart,
    /// Says something and ends.
    ExitAtStart,
    /// Ends in the middle of its first turn.
    ExitInTurn,
    /// Opens a permission dialog 100 ms into a turn.
    Dialog,
    /// Shows a first-run dialog and never says that it is ready.
    NeverReady,
    /// Ignores the submit key for 400 ms after a paste.
    SwallowEnter,
    /// Takes prompts and tells nobody: no hook, no transcript.
    Mute,
    /// Takes what is typed and does not show it.
    NoEcho,
    /// Reads whole lines: the terminal is left as it was.
    Canonical,
    /// Takes an Enter only in the form that newer terminals give that key.
    NamedKey,
    /// A headless turn that never ends, and does not end when asked to.
    NeverEnds,
    /// A headless turn that prints 100 MB.
    Huge,
    /// A headless turn whose result is cut in the middle.
    CutJson,
    /// A headless turn whose result calls it a failure, and whose exit code is 1.
    FailedTurn,
    /// A headless turn that ends with `exitCode` after it took the prompt.
    ExitAfter,
    /// A headless turn that is killed by SIGKILL after it took the prompt.
    KilledAfter,
    /// A headless turn that leaves a program running, which writes `bye` into the
    /// file `left` when it is asked to end.
    LeavesChild,
    /// Has no conversation to go on with.
    RefusesResume,
}

impl Script {
    /// Whether this start is one of those that fail. Each leaves a line.
    pub(crate) fn fails_this_start(&self) -> bool {
        let Some(limit) = self.fail_starts else { return true };
        let starts = fs::read_to_string("starts").unwrap_or_default();
        fs::write("starts", format!("{starts}x\n")).unwrap();
        starts.lines().count() < limit
    }

    pub(crate) fn read() -> Self {
        match fs::read("fake-harness.json") {
            Ok(content) => serde_json::from_slice(&content).unwrap(),
            Err(_) => Self::default(),
        }
    }

    pub(crate) fn millis(
        &self,
        key: Option<u64>,
        mode: Mode,
        in_mode: u64,
        else_: u64,
    ) -> Duration {
        Duration::from_millis(key.unwrap_or(if self.mode == mode { in_mode } else { else_ }))
    }
}
