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
//! A person wins: their keys hold everything back, their resting draft is put
//! aside where the harness brings it back, and where ours got mixed with theirs,
//! ours is taken out again.
//!
//! Called by `host::runner`, which looks and acts. Knows nothing of tmux and of
//! no clock: the time since the injection began is part of the observation.

use std::time::Duration;

use super::outcome::Reason;

mod model;
pub mod screen;

pub use model::{Action, Agent, Input, Observation, Outcome, Pace, Pane, Progress};

/// How long a pasted text may take to show in the input box.
const SEEN_WITHIN: Duration = Duration::from_secs(3);
/// How often the text may be pasted. A second time only when it is proven that
/// the first did not arrive.
const MAX_PASTES: u8 = 3;
/// How often a person's draft may be put aside, and ours taken out of theirs.
const MAX_ROOM_MADE: u8 = 5;
/// How long the box may take to show what a key of ours did to it.
const KEY_SHOWS_WITHIN: Duration = Duration::from_secs(2);
/// How long the box must be without our text until it is believed to be out.
const IS_OUT_AFTER: Duration = Duration::from_millis(300);
/// How long a delivery that was called off may take to leave no trace; one that
/// was submitted, to be proven.
const CALLED_OFF_WITHIN: Duration = Duration::from_secs(2);
const PROVEN_WITHIN: Duration = Duration::from_secs(10);
/// How long after keys that did nothing they are tried again.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// How often to look while something is expected to happen at once.
const LOOK: Duration = Duration::from_millis(25);
/// How often to look while a person or the agent is in the way.
const LOOK_HELD: Duration = Duration::from_secs(1);
/// How often to look while our text waits in the box for a person to rest.
const LOOK_MIXED: Duration = Duration::from_millis(200);

/// One injection under way.
#[derive(Debug, Clone)]
pub struct Injection {
    pace: Pace,
    stage: Stage,
    pastes: u8,
    submits: u8,
    stashes: u8,
    removals: u8,
    /// Before this time nothing is taken out: the keys did nothing.
    removes_at: Duration,
    called_off: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing of ours is in the box.
    Gate,
    /// A draft is being put aside since this time.
    Stashing { at: Duration },
    /// The text was pasted, or last seen beside another, at this time.
    Pasted { at: Duration },
    /// The text was seen, alone, first at this time.
    Seen { since: Duration },
    /// Our text is being taken out of the box since this time.
    Removing { at: Duration },
    /// The box has been without our text since this time.
    Removed { since: Duration },
    /// The submit key was pressed at this time.
    Submitted { at: Duration },
    /// The submit key was pressed, and the box has been without the text since.
    Taken { since: Duration },
    /// No submit key helped: the text is being taken out since this time.
    Withdrawing { at: Duration },
    /// It is over but for the draft that was put aside: it comes back.
    Restoring { at: Duration, pressed: bool, outcome: Outcome },
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
        Self {
            pace,
            stage,
            pastes,
            submits,
            stashes: 0,
            removals: 0,
            removes_at: at,
            called_off: None,
        }
    }

    /// Whether text of ours may be in the box: from the paste to the end.
    pub fn is_under_way(&self) -> bool {
        !matches!(self.stage, Stage::Gate | Stage::Stashing { .. })
    }

    /// Whether something is likely to be typed as soon as the box shows what the
    /// last keys did.
    pub fn is_about_to_type(&self) -> bool {
        !matches!(self.stage, Stage::Gate | Stage::Submitted { .. } | Stage::Taken { .. })
    }

    /// Whether nothing was done yet, so that it may be given up for another.
    pub fn is_at_gate(&self) -> bool {
        self.stage == Stage::Gate
    }

    /// The next action after an observation.
    pub fn next(&mut self, seen: &Observation) -> Action {
        if seen.accepted {
            return Action::Finish(Outcome::Accepted);
        }
        if matches!(seen.pane, Pane::Dead | Pane::Absent) {
            return Action::Finish(Outcome::Gone);
        }
        if seen.called_off
            && !matches!(self.stage, Stage::Restoring { .. })
            && let Some(action) = self.call_off(seen)
        {
            return action;
        }
        match self.stage {
            Stage::Gate => self.gate(seen),
            Stage::Stashing { at } => self.stashing(at, seen),
            Stage::Pasted { at } => self.pasted(at, seen),
            Stage::Seen { since } => self.seen(since, seen),
            Stage::Removing { at } => self.removing(at, seen),
            Stage::Removed { since } => self.removed(since, seen),
            Stage::Submitted { at } => self.submitted(at, seen),
            Stage::Taken { since } => self.taken(since, seen),
            Stage::Withdrawing { at } => self.withdrawing(at, seen),
            Stage::Restoring { at, pressed, outcome } => self.restoring(at, pressed, outcome, seen),
        }
    }

    /// The end, after the draft that was put aside is back: claude brings it back
    /// by itself only when it takes a prompt.
    fn finish(&mut self, outcome: Outcome, seen: &Observation) -> Action {
        self.restoring(seen.elapsed, false, outcome, seen)
    }

    fn restoring(
        &mut self,
        at: Duration,
        pressed: bool,
        outcome: Outcome,
        seen: &Observation,
    ) -> Action {
        let is_late = seen.elapsed.saturating_sub(at) >= KEY_SHOWS_WITHIN;
        // On anything but an empty box the key would put that aside instead, over
        // the first draft.
        if self.stashes == 0 || !seen.stashed || seen.input != Input::Empty || is_late {
            return Action::Finish(outcome);
        }
        let press = !pressed && self.is_free(seen);
        self.stage = Stage::Restoring { at, pressed: pressed || press, outcome };
        if press { Action::Unstash } else { Action::Look(LOOK) }
    }

    /// Leaves no trace of a delivery that nobody waits for; `None` where the usual
    /// way goes on.
    fn call_off(&mut self, seen: &Observation) -> Option<Action> {
        let passed = seen.elapsed.saturating_sub(*self.called_off.get_or_insert(seen.elapsed));
        if self.submits > 0 {
            // It may have been taken: the proof is waited for, but not for ever.
            return (passed >= PROVEN_WITHIN).then(|| self.finish(Outcome::Unproven, seen));
        }
        let is_late = passed >= CALLED_OFF_WITHIN;
        match (self.stage, seen.input) {
            (Stage::Gate | Stage::Removed { .. }, _) => Some(self.finish(Outcome::CalledOff, seen)),
            _ if is_late => Some(self.finish(Outcome::CalledOff, seen)),
            (Stage::Removing { .. } | Stage::Stashing { .. }, _) => None,
            (_, Input::Ours | Input::Mixed) if seen.removable && self.is_free(seen) => {
                self.stage = Stage::Removing { at: seen.elapsed };
                Some(Action::Remove)
            }
            // Our text may still be on its way into the box.
            _ => Some(Action::Look(LOOK)),
        }
    }

    /// Whether a key of ours would reach the input box, and disturb nobody.
    fn is_free(&self, seen: &Observation) -> bool {
        self.obstacle(seen).is_none()
    }

    /// What stands between us and the input box, apart from what is in it.
    fn obstacle(&self, seen: &Observation) -> Option<Reason> {
        if seen.pane == Pane::CopyMode {
            return Some(Reason::CopyMode);
        }
        match seen.agent {
            Agent::Busy if !self.pace.into_turns => Some(Reason::AgentBusy),
            Agent::Asks(_) => Some(Reason::AgentAsks),
            Agent::Unknown => Some(Reason::UnknownScreen),
            Agent::Idle | Agent::Busy if seen.typing => Some(Reason::HumanTyping),
            Agent::Idle | Agent::Busy => (!seen.reads).then_some(Reason::NotReading),
        }
    }

    fn gate(&mut self, seen: &Observation) -> Action {
        if let Some(reason) = self.obstacle(seen) {
            return Action::Hold(reason, LOOK_HELD);
        }
        match seen.input {
            Input::Empty if self.pastes == MAX_PASTES => {
                self.finish(Outcome::Failed(Reason::NeverSeen), seen)
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
            // A second draft that is put aside would overwrite the first.
            Input::Foreign
                if self.pace.stashes && !seen.stashed && self.stashes < MAX_ROOM_MADE =>
            {
                self.stashes += 1;
                self.stage = Stage::Stashing { at: seen.elapsed };
                Action::Stash
            }
            Input::Foreign | Input::Mixed => Action::Hold(Reason::HumanDraft, LOOK_HELD),
            Input::Absent => Action::Hold(Reason::UnknownScreen, LOOK_HELD),
        }
    }

    fn stashing(&mut self, at: Duration, seen: &Observation) -> Action {
        if seen.input == Input::Empty || seen.elapsed.saturating_sub(at) >= KEY_SHOWS_WITHIN {
            self.stage = Stage::Gate;
            return self.gate(seen);
        }
        Action::Look(LOOK)
    }

    fn pasted(&mut self, at: Duration, seen: &Observation) -> Action {
        match seen.input {
            Input::Ours => {
                self.stage = Stage::Seen { since: seen.elapsed };
                self.seen(seen.elapsed, seen)
            }
            // Mixed with what a person types: ours comes out again when they rest.
            // Until then it is theirs: when they submit it, the marker comes back.
            Input::Mixed => {
                self.stage = Stage::Pasted { at: seen.elapsed };
                if seen.removable
                    && self.removals < MAX_ROOM_MADE
                    && seen.elapsed >= self.removes_at
                    && self.is_free(seen)
                {
                    self.removals += 1;
                    self.stage = Stage::Removing { at: seen.elapsed };
                    return Action::Remove;
                }
                Action::Stay(self.obstacle(seen).unwrap_or(Reason::HumanDraft), LOOK_MIXED)
            }
            _ if seen.elapsed.saturating_sub(at) < SEEN_WITHIN => Action::Look(LOOK),
            // A program that has not read it yet shows it later.
            _ if !seen.reads => Action::Stay(Reason::NotReading, LOOK_HELD),
            // A box without a trace of our text proves that it is not there, and no
            // submit key was pressed since: it may be pasted again.
            Input::Empty | Input::Foreign
                if seen.agent == Agent::Idle && seen.pane == Pane::Live =>
            {
                self.stage = Stage::Gate;
                Action::Look(LOOK)
            }
            Input::Foreign | Input::Empty | Input::Absent => {
                Action::Stay(self.obstacle(seen).unwrap_or(Reason::UnknownScreen), LOOK_HELD)
            }
        }
    }

    fn removing(&mut self, at: Duration, seen: &Observation) -> Action {
        match seen.input {
            Input::Empty | Input::Foreign => {
                self.stage = Stage::Removed { since: seen.elapsed };
            }
            // What was beside it is gone. Of one that is called off all goes.
            Input::Ours if self.called_off.is_none() => {
                self.stage = Stage::Pasted { at: seen.elapsed };
            }
            // In a mode of the agent in which keys are not letters.
            _ if seen.elapsed.saturating_sub(at) >= KEY_SHOWS_WITHIN => {
                self.stage = Stage::Pasted { at: seen.elapsed };
                self.removes_at = seen.elapsed + TRIED_AGAIN_AFTER;
            }
            Input::Ours | Input::Mixed | Input::Absent => {}
        }
        Action::Look(LOOK)
    }

    fn removed(&mut self, since: Duration, seen: &Observation) -> Action {
        match seen.input {
            Input::Empty | Input::Foreign => {
                if seen.elapsed.saturating_sub(since) >= IS_OUT_AFTER {
                    self.stage = Stage::Gate;
                }
            }
            Input::Ours | Input::Mixed => self.stage = Stage::Pasted { at: seen.elapsed },
            Input::Absent => self.stage = Stage::Removing { at: seen.elapsed },
        }
        Action::Look(LOOK)
    }

    fn seen(&mut self, since: Duration, seen: &Observation) -> Action {
        match seen.input {
            Input::Ours if let Some(reason) = self.obstacle(seen) => {
                Action::Stay(reason, LOOK_MIXED)
            }
            Input::Ours => {
                // No longer than the gap: what is left of it is what a delivery waits.
                let passed = seen.elapsed.saturating_sub(since);
                let left = self.pace.submit_gap.saturating_sub(passed);
                if !left.is_zero() {
                    return Action::Look(left.min(LOOK));
                }
                self.submits += 1;
                self.stage = Stage::Submitted { at: seen.elapsed };
                Action::Submit
            }
            Input::Empty | Input::Foreign | Input::Mixed | Input::Absent => {
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
                if self.is_free(seen) && seen.elapsed.saturating_sub(at) >= self.pace.retry_gap =>
            {
                if self.submits < self.pace.max_submits {
                    self.submits += 1;
                    self.stage = Stage::Submitted { at: seen.elapsed };
                    return Action::Submit;
                }
                if !seen.removable {
                    return self.finish(Outcome::Unproven, seen);
                }
                self.stage = Stage::Withdrawing { at: seen.elapsed };
                Action::Remove
            }
            Input::Ours => match self.obstacle(seen) {
                Some(reason) => Action::Stay(reason, LOOK_MIXED),
                None => Action::Look(LOOK),
            },
            // A person typed into it meanwhile: theirs to finish.
            Input::Mixed => {
                Action::Stay(self.obstacle(seen).unwrap_or(Reason::HumanDraft), LOOK_MIXED)
            }
            Input::Empty | Input::Foreign | Input::Absent => {
                self.stage = Stage::Taken { since: seen.elapsed };
                Action::Look(LOOK)
            }
        }
    }

    fn taken(&mut self, since: Duration, seen: &Observation) -> Action {
        if matches!(seen.input, Input::Ours | Input::Mixed) {
            // It had only been hidden, by a redraw or a dialog.
            self.stage = Stage::Submitted { at: seen.elapsed };
            return Action::Look(LOOK);
        }
        // However long the turn is: the agent takes it up, or ends and has lost it.
        if seen.queued {
            self.stage = Stage::Taken { since: seen.elapsed };
            return Action::Look(LOOK_HELD);
        }
        if seen.elapsed.saturating_sub(since) >= self.pace.ack_timeout {
            return self.finish(Outcome::Unproven, seen);
        }
        Action::Look(LOOK)
    }

    /// Gone from the box by our own keys, after it had stood there through every
    /// submit key: it was not taken. A signal all the same would have come by now.
    fn withdrawing(&mut self, at: Duration, seen: &Observation) -> Action {
        let passed = seen.elapsed.saturating_sub(at);
        match seen.input {
            Input::Empty | Input::Foreign if passed >= IS_OUT_AFTER => {
                self.finish(Outcome::Failed(Reason::SubmitIgnored), seen)
            }
            _ if passed >= KEY_SHOWS_WITHIN => self.finish(Outcome::Unproven, seen),
            _ => Action::Look(LOOK),
        }
    }
}

#[cfg(test)]
mod tests;
