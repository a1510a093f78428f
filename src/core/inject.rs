//! One injection: typing a delivery into a live agent and proving that it was
//! taken. A synchronous machine: an observation goes in, an action comes out.
//!
//! The protocol (measured in docs/injection.md):
//!
//! ```text
//! gate ─▶ paste ─▶ seen in the box, alone ─▶ submit ─▶ accepted by the agent's own signal
//!   │        ▲                │                 │
//!   └ hold   └ proven absent ─┘                 └ repeat the key, never the text
//! ```
//!
//! Called by `host::runner`, which looks and acts. Knows nothing of tmux and of
//! no clock: the time since the injection began is part of the observation.

use std::time::Duration;

use super::outcome::Reason;

pub mod screen;

/// How long a pasted text may take to show in the input box.
const SEEN_WITHIN: Duration = Duration::from_secs(3);
/// How often the text may be pasted. A second time only when it is proven that
/// the first did not arrive.
const MAX_PASTES: u8 = 3;
/// How often to look while something is expected to happen at once.
const LOOK: Duration = Duration::from_millis(25);
/// How often to look while a person or the agent is in the way.
const LOOK_HELD: Duration = Duration::from_secs(1);

/// What one look at the session showed.
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
    /// Something else, alone or beside our text.
    Foreign,
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
    /// Put down on disk that pasting begins, then paste the text.
    Paste,
    /// Put down on disk that submitting begins, then press the submit key.
    Submit,
    /// It is over.
    Finish(Outcome),
}

/// How an injection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The agent's own signal proves that it took the text.
    Accepted,
    /// The agent is gone, and its record does not hold the text: it was not
    /// taken and may be offered again.
    Gone,
    /// It was given up before anything was submitted.
    Failed(Reason),
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
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            submit_gap: Duration::ZERO,
            retry_gap: Duration::from_millis(800),
            max_submits: 5,
            ack_timeout: Duration::from_secs(5),
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

/// One injection under way.
#[derive(Debug, Clone)]
pub struct Injection {
    pace: Pace,
    stage: Stage,
    pastes: u8,
    submits: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing of ours is in the box.
    Gate,
    /// The text was pasted at this time.
    Pasted { at: Duration },
    /// The text was seen, alone, first at this time.
    Seen { since: Duration },
    /// The submit key was pressed at this time.
    Submitted { at: Duration },
    /// The submit key was pressed, and the box has been without the text since.
    Taken { since: Duration },
}

impl Injection {
    /// Begins an injection, or takes up one that a restart interrupted.
    pub fn new(pace: Pace, progress: Progress) -> Self {
        let at = Duration::ZERO;
        let (stage, pastes, submits) = match progress {
            Progress::None => (Stage::Gate, 0, 0),
            Progress::Pasted => (Stage::Pasted { at }, 1, 0),
            Progress::Submitted => (Stage::Submitted { at }, 1, 1),
        };
        Self { pace, stage, pastes, submits }
    }

    /// Whether text of ours may be in the box: from the paste to the end.
    pub fn is_under_way(&self) -> bool {
        self.stage != Stage::Gate
    }

    /// The next action after an observation.
    pub fn next(&mut self, seen: &Observation) -> Action {
        if seen.accepted {
            return Action::Finish(Outcome::Accepted);
        }
        if matches!(seen.pane, Pane::Dead | Pane::Absent) {
            return Action::Finish(Outcome::Gone);
        }
        match self.stage {
            Stage::Gate => self.gate(seen),
            Stage::Pasted { at } => self.pasted(at, seen),
            Stage::Seen { since } => self.seen(since, seen),
            Stage::Submitted { at } => self.submitted(at, seen),
            Stage::Taken { since } => self.taken(since, seen),
        }
    }

    fn gate(&mut self, seen: &Observation) -> Action {
        if let Some(reason) = obstacle(seen) {
            return Action::Hold(reason, LOOK_HELD);
        }
        match seen.input {
            Input::Empty if self.pastes == MAX_PASTES => {
                Action::Finish(Outcome::Failed(Reason::NeverSeen))
            }
            Input::Empty => {
                self.pastes += 1;
                self.stage = Stage::Pasted { at: seen.elapsed };
                Action::Paste
            }
            // A text of ours that a crash left in the box is taken up, not pasted again.
            Input::Ours => {
                self.stage = Stage::Seen { since: seen.elapsed };
                Action::Look(LOOK)
            }
            Input::Foreign => Action::Hold(Reason::HumanDraft, LOOK_HELD),
            Input::Absent => Action::Hold(Reason::UnknownScreen, LOOK_HELD),
        }
    }

    fn pasted(&mut self, at: Duration, seen: &Observation) -> Action {
        match seen.input {
            Input::Ours => {
                self.stage = Stage::Seen { since: seen.elapsed };
                self.seen(seen.elapsed, seen)
            }
            Input::Empty | Input::Absent if seen.elapsed.saturating_sub(at) < SEEN_WITHIN => {
                Action::Look(LOOK)
            }
            // An empty box of an idle agent proves that the text is not there, and
            // no submit key was pressed since: it may be pasted again.
            Input::Empty if seen.agent == Agent::Idle && seen.pane == Pane::Live => {
                self.stage = Stage::Gate;
                Action::Look(LOOK)
            }
            // Mixed with what a person types: theirs to finish. When they submit it,
            // the marker comes back; when they empty the box, ours is proven absent.
            Input::Foreign | Input::Empty | Input::Absent => Action::Look(LOOK_HELD),
        }
    }

    fn seen(&mut self, since: Duration, seen: &Observation) -> Action {
        match seen.input {
            Input::Ours if seen.agent != Agent::Idle || seen.pane != Pane::Live => {
                Action::Look(LOOK_HELD)
            }
            Input::Ours if seen.elapsed.saturating_sub(since) >= self.pace.submit_gap => {
                self.submits += 1;
                self.stage = Stage::Submitted { at: seen.elapsed };
                Action::Submit
            }
            Input::Ours => Action::Look(LOOK),
            Input::Empty | Input::Foreign | Input::Absent => {
                self.stage = Stage::Pasted { at: seen.elapsed };
                Action::Look(LOOK)
            }
        }
    }

    fn submitted(&mut self, at: Duration, seen: &Observation) -> Action {
        match seen.input {
            // The key was swallowed: the text still stands there, so pressing it
            // again cannot send it twice.
            Input::Ours
                if seen.agent == Agent::Idle
                    && seen.pane == Pane::Live
                    && seen.elapsed.saturating_sub(at) >= self.pace.retry_gap =>
            {
                if self.submits >= self.pace.max_submits {
                    return Action::Look(LOOK_HELD);
                }
                self.submits += 1;
                self.stage = Stage::Submitted { at: seen.elapsed };
                Action::Submit
            }
            Input::Ours => Action::Look(LOOK),
            Input::Empty | Input::Foreign | Input::Absent => {
                self.stage = Stage::Taken { since: seen.elapsed };
                Action::Look(LOOK)
            }
        }
    }

    fn taken(&mut self, since: Duration, seen: &Observation) -> Action {
        if seen.input == Input::Ours {
            // It had only been hidden, by a redraw or a dialog.
            self.stage = Stage::Submitted { at: seen.elapsed };
            return Action::Look(LOOK);
        }
        if seen.elapsed.saturating_sub(since) >= self.pace.ack_timeout {
            return Action::Finish(Outcome::Unproven);
        }
        Action::Look(LOOK)
    }
}

/// What stands between us and the input box, apart from what is in it.
fn obstacle(seen: &Observation) -> Option<Reason> {
    if seen.pane == Pane::CopyMode {
        return Some(Reason::CopyMode);
    }
    match seen.agent {
        Agent::Idle => None,
        Agent::Busy => Some(Reason::AgentBusy),
        Agent::Asks(_) => Some(Reason::AgentAsks),
        Agent::Unknown => Some(Reason::UnknownScreen),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn idle(input: Input, ms: u64) -> Observation {
        Observation {
            pane: Pane::Live,
            agent: Agent::Idle,
            input,
            accepted: false,
            elapsed: Duration::from_millis(ms),
        }
    }

    fn begin() -> Injection {
        Injection::new(Pace::default(), Progress::None)
    }

    #[test]
    fn the_usual_way() {
        let mut injection = begin();
        assert_eq!(injection.next(&idle(Input::Empty, 0)), Action::Paste);
        assert_eq!(injection.next(&idle(Input::Empty, 10)), Action::Look(LOOK));
        assert_eq!(injection.next(&idle(Input::Ours, 40)), Action::Submit);
        assert_eq!(injection.next(&idle(Input::Empty, 60)), Action::Look(LOOK));
        let accepted = Observation { accepted: true, ..idle(Input::Empty, 90) };
        assert_eq!(injection.next(&accepted), Action::Finish(Outcome::Accepted));
    }

    #[test]
    fn a_busy_agent_a_dialog_a_draft_and_copy_mode_hold_it() {
        let at = |change: fn(&mut Observation)| {
            let mut seen = idle(Input::Empty, 0);
            change(&mut seen);
            begin().next(&seen)
        };
        let hold = |reason| Action::Hold(reason, LOOK_HELD);
        assert_eq!(at(|seen| seen.agent = Agent::Busy), hold(Reason::AgentBusy));
        assert_eq!(at(|seen| seen.agent = Agent::Asks("?".into())), hold(Reason::AgentAsks));
        assert_eq!(at(|seen| seen.input = Input::Foreign), hold(Reason::HumanDraft));
        assert_eq!(at(|seen| seen.pane = Pane::CopyMode), hold(Reason::CopyMode));
        assert_eq!(at(|seen| seen.agent = Agent::Unknown), hold(Reason::UnknownScreen));
    }

    #[test]
    fn a_swallowed_submit_key_is_pressed_again_and_the_text_is_not_pasted_again() {
        let mut injection = begin();
        injection.next(&idle(Input::Empty, 0));
        assert_eq!(injection.next(&idle(Input::Ours, 10)), Action::Submit);
        assert_eq!(injection.next(&idle(Input::Ours, 500)), Action::Look(LOOK));
        assert_eq!(injection.next(&idle(Input::Ours, 900)), Action::Submit);
    }

    #[test]
    fn a_text_mixed_with_a_draft_is_not_submitted() {
        let mut injection = begin();
        injection.next(&idle(Input::Empty, 0));
        for ms in [10, 1_000, 60_000] {
            assert_eq!(injection.next(&idle(Input::Foreign, ms)), Action::Look(LOOK_HELD));
        }
    }

    #[test]
    fn a_dialog_after_the_paste_is_not_answered() {
        let mut injection = begin();
        injection.next(&idle(Input::Empty, 0));
        let dialog = Observation { agent: Agent::Asks("Proceed?".into()), ..idle(Input::Ours, 10) };
        assert_eq!(injection.next(&dialog), Action::Look(LOOK_HELD));
    }

    #[test]
    fn a_text_that_never_shows_is_reported() {
        let mut injection = begin();
        let mut ms = 0;
        let outcome = loop {
            match injection.next(&idle(Input::Empty, ms)) {
                Action::Finish(outcome) => break outcome,
                _ => ms += 100,
            }
        };
        assert_eq!(outcome, Outcome::Failed(Reason::NeverSeen));
    }

    #[test]
    fn after_a_restart_a_submitted_text_without_a_signal_is_not_sent_again() {
        let mut injection = Injection::new(Pace::default(), Progress::Submitted);
        assert_eq!(injection.next(&idle(Input::Empty, 0)), Action::Look(LOOK));
        let late = injection.next(&idle(Input::Empty, 6_000));
        assert_eq!(late, Action::Finish(Outcome::Unproven));
    }

    #[test]
    fn after_a_restart_a_pasted_text_that_still_stands_there_is_submitted() {
        let mut injection = Injection::new(Pace::default(), Progress::Pasted);
        assert_eq!(injection.next(&idle(Input::Ours, 0)), Action::Submit);
    }

    fn observation() -> impl Strategy<Value = Observation> {
        let pane = prop_oneof![
            8 => Just(Pane::Live), 1 => Just(Pane::CopyMode), 1 => Just(Pane::Dead)
        ];
        let agent = prop_oneof![
            6 => Just(Agent::Idle), 1 => Just(Agent::Busy),
            1 => Just(Agent::Asks("?".into())), 1 => Just(Agent::Unknown)
        ];
        let input = prop_oneof![
            Just(Input::Empty),
            Just(Input::Ours),
            Just(Input::Foreign),
            Just(Input::Absent)
        ];
        (pane, agent, input, prop::bool::weighted(0.02), 0..2_000_u64).prop_map(
            |(pane, agent, input, accepted, ms)| Observation {
                pane,
                agent,
                input,
                accepted,
                elapsed: Duration::from_millis(ms),
            },
        )
    }

    proptest! {
        #[test]
        fn under_any_interleaving_it_types_only_where_it_may(
            steps in prop::collection::vec(observation(), 1..80),
            progress in prop_oneof![
                Just(Progress::None), Just(Progress::Pasted), Just(Progress::Submitted)
            ],
        ) {
            let mut injection = Injection::new(Pace::default(), progress);
            let mut elapsed = Duration::ZERO;
            let mut submitted = progress == Progress::Submitted;
            for mut seen in steps {
                elapsed += seen.elapsed;
                seen.elapsed = elapsed;
                let clear = seen.pane == Pane::Live && seen.agent == Agent::Idle;
                match injection.next(&seen) {
                    Action::Paste => {
                        prop_assert!(clear && seen.input == Input::Empty);
                        prop_assert!(!submitted, "a text that may have been taken was pasted again");
                    }
                    Action::Submit => {
                        // Never into a dialog, never a draft, never anything but ours alone;
                        // a second key only while the text still stands there.
                        prop_assert!(clear && seen.input == Input::Ours);
                        submitted = true;
                    }
                    Action::Finish(_) => break,
                    Action::Hold(..) => prop_assert!(!submitted),
                    Action::Look(_) => {}
                }
            }
        }
    }
}
