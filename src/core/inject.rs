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
        Self { pace, stage, pastes, submits, stashes: 0, removals: 0 }
    }

    /// Whether text of ours may be in the box: from the paste to the end.
    pub fn is_under_way(&self) -> bool {
        !matches!(self.stage, Stage::Gate | Stage::Stashing { .. })
    }

    /// Whether nothing was done yet, so that it may be given up for another.
    pub fn is_at_gate(&self) -> bool {
        self.stage == Stage::Gate
    }

    /// Whether the text stands in the box, ours alone, and the submit key comes
    /// next.
    pub fn is_about_to_submit(&self) -> bool {
        matches!(self.stage, Stage::Seen { .. })
    }

    /// Whether a person's draft was put aside by this injection.
    pub fn has_stashed(&self) -> bool {
        self.stashes > 0
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
            Stage::Stashing { at } => self.stashing(at, seen),
            Stage::Pasted { at } => self.pasted(at, seen),
            Stage::Seen { since } => self.seen(since, seen),
            Stage::Removing { at } => self.removing(at, seen),
            Stage::Removed { since } => self.removed(since, seen),
            Stage::Submitted { at } => self.submitted(at, seen),
            Stage::Taken { since } => self.taken(since, seen),
            Stage::Withdrawing { at } => Self::withdrawing(at, seen),
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
            Agent::Idle | Agent::Busy => seen.typing.then_some(Reason::HumanTyping),
        }
    }

    fn gate(&mut self, seen: &Observation) -> Action {
        if let Some(reason) = self.obstacle(seen) {
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
                if seen.removable && self.removals < MAX_ROOM_MADE && self.is_free(seen) {
                    self.removals += 1;
                    self.stage = Stage::Removing { at: seen.elapsed };
                    return Action::Remove;
                }
                Action::Look(LOOK_MIXED)
            }
            _ if seen.elapsed.saturating_sub(at) < SEEN_WITHIN => Action::Look(LOOK),
            // A box without a trace of our text proves that it is not there, and no
            // submit key was pressed since: it may be pasted again.
            Input::Empty | Input::Foreign
                if seen.agent == Agent::Idle && seen.pane == Pane::Live =>
            {
                self.stage = Stage::Gate;
                Action::Look(LOOK)
            }
            Input::Foreign | Input::Empty | Input::Absent => Action::Look(LOOK_HELD),
        }
    }

    fn removing(&mut self, at: Duration, seen: &Observation) -> Action {
        match seen.input {
            Input::Empty | Input::Foreign => {
                self.stage = Stage::Removed { since: seen.elapsed };
            }
            Input::Ours => self.stage = Stage::Pasted { at: seen.elapsed },
            _ if seen.elapsed.saturating_sub(at) >= KEY_SHOWS_WITHIN => {
                self.stage = Stage::Pasted { at: seen.elapsed };
            }
            Input::Mixed | Input::Absent => {}
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
            Input::Ours if !self.is_free(seen) => Action::Look(LOOK_MIXED),
            Input::Ours if seen.elapsed.saturating_sub(since) >= self.pace.submit_gap => {
                self.submits += 1;
                self.stage = Stage::Submitted { at: seen.elapsed };
                Action::Submit
            }
            Input::Ours => Action::Look(LOOK),
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
                    return Action::Finish(Outcome::Unproven);
                }
                self.stage = Stage::Withdrawing { at: seen.elapsed };
                Action::Remove
            }
            Input::Ours => Action::Look(LOOK),
            // A person typed into it meanwhile: theirs to finish.
            Input::Mixed => Action::Look(LOOK_MIXED),
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
        if seen.elapsed.saturating_sub(since) >= self.pace.ack_timeout {
            return Action::Finish(Outcome::Unproven);
        }
        Action::Look(LOOK)
    }

    /// Gone from the box by our own keys, after it had stood there through every
    /// submit key: it was not taken. A signal all the same would have come by now.
    fn withdrawing(at: Duration, seen: &Observation) -> Action {
        let passed = seen.elapsed.saturating_sub(at);
        match seen.input {
            Input::Empty | Input::Foreign if passed >= IS_OUT_AFTER => {
                Action::Finish(Outcome::Failed(Reason::SubmitIgnored))
            }
            _ if passed >= KEY_SHOWS_WITHIN => Action::Finish(Outcome::Unproven),
            _ => Action::Look(LOOK),
        }
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
            typing: false,
            stashed: false,
            removable: true,
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
        assert_eq!(at(|seen| seen.typing = true), hold(Reason::HumanTyping));
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
    fn a_text_mixed_with_a_draft_is_not_submitted_but_taken_out_once_the_person_rests() {
        let mut injection = begin();
        injection.next(&idle(Input::Empty, 0));
        for ms in [10, 1_000, 60_000] {
            let typing = Observation { typing: true, ..idle(Input::Mixed, ms) };
            assert_eq!(injection.next(&typing), Action::Look(LOOK_MIXED));
            let elsewhere = Observation { removable: false, ..idle(Input::Mixed, ms) };
            assert_eq!(injection.next(&elsewhere), Action::Look(LOOK_MIXED));
        }
        assert_eq!(injection.next(&idle(Input::Mixed, 61_000)), Action::Remove);
        assert_eq!(injection.next(&idle(Input::Mixed, 61_010)), Action::Look(LOOK));
        assert_eq!(injection.next(&idle(Input::Foreign, 61_020)), Action::Look(LOOK));
        assert_eq!(injection.next(&idle(Input::Foreign, 61_400)), Action::Look(LOOK));
        let held = Action::Hold(Reason::HumanDraft, LOOK_HELD);
        assert_eq!(injection.next(&idle(Input::Foreign, 61_500)), held);
        assert_eq!(injection.next(&idle(Input::Empty, 62_000)), Action::Paste);
    }

    #[test]
    fn a_resting_draft_is_put_aside_where_the_harness_brings_it_back() {
        let stashes = || Injection::new(Pace { stashes: true, ..Pace::default() }, Progress::None);
        let mut injection = stashes();
        let typing = Observation { typing: true, ..idle(Input::Foreign, 0) };
        assert_eq!(injection.next(&typing), Action::Hold(Reason::HumanTyping, LOOK_HELD));
        assert_eq!(injection.next(&idle(Input::Foreign, 4_000)), Action::Stash);
        assert_eq!(injection.next(&idle(Input::Foreign, 4_010)), Action::Look(LOOK));
        let aside = Observation { stashed: true, ..idle(Input::Empty, 4_050) };
        assert_eq!(injection.next(&aside), Action::Paste);
        assert!(injection.has_stashed());
        // One is put aside already: a second would overwrite it.
        let second = Observation { stashed: true, ..idle(Input::Foreign, 0) };
        assert_eq!(stashes().next(&second), Action::Hold(Reason::HumanDraft, LOOK_HELD));
    }

    #[test]
    fn a_submit_key_that_is_swallowed_for_ever_ends_with_the_text_out_and_a_reason() {
        let mut injection = begin();
        injection.next(&idle(Input::Empty, 0));
        let mut ms = 10;
        let mut keys = 0;
        while injection.next(&idle(Input::Ours, ms)) != Action::Remove {
            ms += 100;
            keys += 1;
            assert!(keys < 100, "it never ends");
        }
        assert_eq!(injection.next(&idle(Input::Empty, ms + 10)), Action::Look(LOOK));
        let end = injection.next(&idle(Input::Empty, ms + 400));
        assert_eq!(end, Action::Finish(Outcome::Failed(Reason::SubmitIgnored)));
    }

    #[test]
    fn into_a_running_turn_only_when_it_is_asked_for() {
        let busy = Observation { agent: Agent::Busy, ..idle(Input::Empty, 0) };
        assert_eq!(begin().next(&busy), Action::Hold(Reason::AgentBusy, LOOK_HELD));
        let pace = Pace { into_turns: true, ..Pace::default() };
        assert_eq!(Injection::new(pace, Progress::None).next(&busy), Action::Paste);
    }

    #[test]
    fn a_dialog_after_the_paste_is_not_answered() {
        let mut injection = begin();
        injection.next(&idle(Input::Empty, 0));
        let dialog = Observation { agent: Agent::Asks("Proceed?".into()), ..idle(Input::Ours, 10) };
        assert_eq!(injection.next(&dialog), Action::Look(LOOK_MIXED));
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
            Just(Input::Mixed),
            Just(Input::Absent)
        ];
        let flags = (
            prop::bool::weighted(0.02),
            prop::bool::weighted(0.1),
            prop::bool::weighted(0.3),
            prop::bool::weighted(0.8),
        );
        (pane, agent, input, flags, 0..2_000_u64).prop_map(
            |(pane, agent, input, (accepted, typing, stashed, removable), ms)| Observation {
                pane,
                agent,
                input,
                accepted,
                typing,
                stashed,
                removable,
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
            stashes in any::<bool>(),
            into_turns in any::<bool>(),
        ) {
            let pace = Pace { stashes, into_turns, ..Pace::default() };
            let mut injection = Injection::new(pace, progress);
            let mut elapsed = Duration::ZERO;
            let mut submitted = progress == Progress::Submitted;
            for mut seen in steps {
                elapsed += seen.elapsed;
                seen.elapsed = elapsed;
                // No dialog, no copy mode, nobody who types.
                let clear = seen.pane == Pane::Live
                    && (seen.agent == Agent::Idle || into_turns && seen.agent == Agent::Busy)
                    && !seen.typing;
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
                    // Only a draft, and never a second one.
                    Action::Stash => {
                        prop_assert!(clear && stashes);
                        prop_assert!(seen.input == Input::Foreign && !seen.stashed && !submitted);
                    }
                    // Only what is known to be ours.
                    Action::Remove => {
                        prop_assert!(clear && seen.removable);
                        prop_assert!(matches!(seen.input, Input::Mixed | Input::Ours));
                    }
                    Action::Finish(Outcome::Failed(_)) => {
                        prop_assert!(!matches!(seen.input, Input::Ours | Input::Mixed));
                        break;
                    }
                    Action::Finish(_) => break,
                    Action::Hold(..) => prop_assert!(!submitted),
                    Action::Look(_) => {}
                }
            }
        }
    }
}
