//! The words of an injection: what was seen, what to do, how it ended.

use std::time::Duration;

use crate::core::outcome::Reason;

/// What one look at the session showed.
#[expect(clippy::struct_excessive_bools, reason = "facts that hold or do not, each by itself")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The pane that the agent lives in.
    pub pane: Pane,
    /// What the agent is doing, as its screen shows it.
    pub agent: Agent,
    /// What stands in the agent's input box.
    pub input: Input,
    /// Whether the agent's own record holds this delivery's marker.
    pub accepted: bool,
    /// Whether the agent holds it back until it takes it up in its turn or after it:
    /// no proof, for an agent that ends before that forgets it.
    pub queued: bool,
    /// Whether a person pressed a key a moment ago.
    pub typing: bool,
    /// Whether a draft was put aside and has not come back yet.
    pub stashed: bool,
    /// Whether it is known how to take exactly our text out of the box.
    pub removable: bool,
    /// Whether the agent's program has read all that was typed, and reads key by
    /// key. One that is stopped, hangs or reads whole lines does not.
    pub reads: bool,
    /// Whether nobody waits for the delivery any more.
    pub called_off: bool,
    /// The time since the injection began.
    pub elapsed: Duration,
}

/// The state of the pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pane {
    /// Its program runs and gets what is typed.
    Live,
    /// A person scrolls in it: keys go to tmux.
    CopyMode,
    /// Its program has ended.
    Dead,
    /// There is no such pane.
    Absent,
}

/// What the agent is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Agent {
    /// It waits for a prompt.
    Idle,
    /// It is in the middle of a turn.
    Busy,
    /// It asks something, or shows something over its input box.
    Asks(String),
    /// Its screen shows nothing known.
    Unknown,
}

/// What stands in the input box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Nothing.
    Empty,
    /// Our text, and nothing else.
    Ours,
    /// Something else, and no trace of our text.
    Foreign,
    /// Our text, or a part of it, beside something else.
    Mixed,
    /// There is no input box.
    Absent,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Look again after this time, or when a signal comes.
    Look(Duration),
    /// Something is in the way: say why, and look again after this time or when
    /// a signal comes. Nothing of ours is in the box, so it may be given up.
    Hold(Reason, Duration),
    /// The same while text of ours is in the box.
    Stay(Reason, Duration),
    /// Put down on disk that pasting begins, then paste the text.
    Paste,
    /// Put down on disk that submitting begins, then press the submit key.
    Submit,
    /// Put the person's draft aside.
    Stash,
    /// Bring the draft back that was put aside, into the empty box.
    Unstash,
    /// Take exactly our text out of the box.
    Remove,
    /// It is over.
    Finish(Outcome),
}

impl Action {
    /// Whether a key reaches the pane.
    pub fn types(&self) -> bool {
        matches!(self, Self::Paste | Self::Submit | Self::Stash | Self::Unstash | Self::Remove)
    }
}

/// How an injection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The agent's own signal proves that it took the text.
    Accepted,
    /// The agent is gone, and its record does not hold the text: it was not
    /// taken and may be offered again.
    Gone,
    /// It was given up before anything was submitted.
    Failed(Reason),
    /// It was called off before anything was submitted.
    CalledOff,
    /// It was submitted, and nothing proves what became of it. Never sent again
    /// by itself.
    Unproven,
}

/// The figures of a harness that the machine needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Between the text being seen and the first submit key.
    pub submit_gap: Duration,
    /// Between two submit keys.
    pub retry_gap: Duration,
    /// How often the submit key is pressed at most.
    pub max_submits: u8,
    /// How long a signal may take once the box is empty.
    pub ack_timeout: Duration,
    /// Whether the harness can put a draft aside and brings it back by itself.
    pub stashes: bool,
    /// Whether the text may go in while a turn runs.
    pub into_turns: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            submit_gap: Duration::ZERO,
            retry_gap: Duration::from_millis(800),
            max_submits: 5,
            ack_timeout: Duration::from_secs(5),
            stashes: false,
            into_turns: false,
        }
    }
}

/// How far an injection had come when the receiver ended, as the inbox tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Nothing was typed.
    None,
    /// Pasting had begun, submitting had not.
    Pasted,
    /// The submit key may have been pressed.
    Submitted,
}
