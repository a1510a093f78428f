//! The machine under every order of what may be seen.

use proptest::prelude::*;

use super::*;

fn idle(input: Input, ms: u64) -> Observation {
    Observation {
        pane: Pane::Live,
        agent: Agent::Idle,
        input,
        accepted: false,
        queued: false,
        typing: false,
        stashed: false,
        removable: true,
        reads: true,
        called_off: false,
        elapsed: Duration::from_millis(ms),
    }
}

fn begin() -> Injection {
    Injection::new(Pace::default(), Progress::None)
}

#[test]
fn what_the_agent_holds_back_is_waited_for_until_it_is_taken_or_the_agent_is_gone() {
    let mut injection = begin();
    assert_eq!(injection.next(&idle(Input::Empty, 0)), Action::Paste);
    assert_eq!(injection.next(&idle(Input::Ours, 20)), Action::Submit);
    let held = |ms| Observation { queued: true, ..idle(Input::Empty, ms) };
    assert_eq!(injection.next(&held(40)), Action::Look(LOOK));
    for minute in 1..60 {
        assert_eq!(injection.next(&held(minute * 60_000)), Action::Look(LOOK_HELD));
    }
    let mut lost = injection.clone();
    let gone = Observation { pane: Pane::Dead, ..held(3_600_000) };
    assert_eq!(lost.next(&gone), Action::Finish(Outcome::Gone));
    let taken = Observation { accepted: true, ..held(3_600_000) };
    assert_eq!(injection.next(&taken), Action::Finish(Outcome::Accepted));
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
        let stay = |reason| Action::Stay(reason, LOOK_MIXED);
        assert_eq!(injection.next(&typing), stay(Reason::HumanTyping));
        let elsewhere = Observation { removable: false, ..idle(Input::Mixed, ms) };
        assert_eq!(injection.next(&elsewhere), stay(Reason::HumanDraft));
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
    assert_eq!(injection.next(&dialog), Action::Stay(Reason::AgentAsks, LOOK_MIXED));
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
fn a_text_that_a_stopped_program_has_not_read_is_not_pasted_again() {
    let mut injection = begin();
    assert_eq!(injection.next(&idle(Input::Empty, 0)), Action::Paste);
    for ms in [3_000, 60_000, 600_000] {
        let stopped = Observation { reads: false, ..idle(Input::Empty, ms) };
        assert_eq!(injection.next(&stopped), Action::Stay(Reason::NotReading, LOOK_HELD));
    }
    assert_eq!(injection.next(&idle(Input::Ours, 600_100)), Action::Submit);
    // Nor is anything typed into one that does not read at all.
    let stopped = Observation { reads: false, ..idle(Input::Empty, 0) };
    assert_eq!(begin().next(&stopped), Action::Hold(Reason::NotReading, LOOK_HELD));
}

/// An injection that has put a draft aside and pasted.
fn with_a_draft_aside() -> Injection {
    let mut injection = Injection::new(Pace { stashes: true, ..Pace::default() }, Progress::None);
    assert_eq!(injection.next(&idle(Input::Foreign, 0)), Action::Stash);
    let aside = Observation { stashed: true, ..idle(Input::Empty, 10) };
    assert_eq!(injection.next(&aside), Action::Paste);
    injection
}

#[test]
fn a_delivery_that_is_called_off_takes_its_text_out_and_brings_the_draft_back() {
    let mut injection = with_a_draft_aside();
    let at = |input, stashed, ms| Observation { called_off: true, stashed, ..idle(input, ms) };
    assert_eq!(injection.next(&at(Input::Ours, true, 20)), Action::Remove);
    assert_eq!(injection.next(&at(Input::Ours, true, 30)), Action::Look(LOOK));
    let mut ms = 40;
    while injection.next(&at(Input::Empty, true, ms)) != Action::Unstash {
        ms += 50;
        assert!(ms < 2_000, "the draft stays away");
    }
    let end = injection.next(&at(Input::Foreign, false, ms + 20));
    assert_eq!(end, Action::Finish(Outcome::CalledOff));
}

#[test]
fn a_delivery_that_fails_brings_the_draft_back() {
    let mut injection = with_a_draft_aside();
    let empty = |ms| Observation { stashed: true, ..idle(Input::Empty, ms) };
    let mut ms = 20;
    while injection.next(&empty(ms)) != Action::Unstash {
        ms += 100;
        assert!(ms < 30_000, "the draft stays away");
    }
    let end = injection.next(&idle(Input::Foreign, ms + 20));
    assert_eq!(end, Action::Finish(Outcome::Failed(Reason::NeverSeen)));
}

#[test]
fn what_was_submitted_and_called_off_is_waited_for_but_not_for_ever() {
    let mut injection = begin();
    injection.next(&idle(Input::Empty, 0));
    assert_eq!(injection.next(&idle(Input::Ours, 10)), Action::Submit);
    let off = |ms| Observation { called_off: true, ..idle(Input::Empty, ms) };
    assert!(matches!(injection.next(&off(20)), Action::Look(_)));
    assert!(matches!(injection.next(&off(4_000)), Action::Look(_)));
    assert_eq!(injection.next(&off(11_000)), Action::Finish(Outcome::Unproven));
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
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.8),
        prop::bool::weighted(0.9),
        prop::bool::weighted(0.05),
    );
    (pane, agent, input, flags, 0..2_000_u64).prop_map(
        |(
            pane,
            agent,
            input,
            (accepted, queued, typing, stashed, removable, reads, called_off),
            ms,
        )| {
            Observation {
                pane,
                agent,
                input,
                accepted,
                queued,
                typing,
                stashed,
                removable,
                reads,
                called_off,
                elapsed: Duration::from_millis(ms),
            }
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
        let mut stashed = false;
        let mut submitted = progress == Progress::Submitted;
        for mut seen in steps {
            elapsed += seen.elapsed;
            seen.elapsed = elapsed;
            // No dialog, no copy mode, nobody who types.
            let clear = seen.pane == Pane::Live
                && (seen.agent == Agent::Idle || into_turns && seen.agent == Agent::Busy)
                && !seen.typing
                && seen.reads;
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
                    stashed = true;
                }
                // Only what this injection put aside, and never over another text.
                Action::Unstash => {
                    prop_assert!(clear && stashed && seen.stashed && seen.input == Input::Empty);
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
                Action::Look(_) | Action::Stay(..) => {}
            }
        }
    }
}
