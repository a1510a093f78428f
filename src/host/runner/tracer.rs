//! An injection in words, as it happens: `sessions show --trace` prints them.

use crate::base::clock::Clock;
use crate::base::ids::DeliveryId;
use crate::core::inject::{Action, Agent, Input, Observation, Outcome, Pane};
use crate::state::paths::StatePaths;
use crate::state::trace::{Trace, TraceStep};

use super::told::Told;

/// Writes down what an injection sees and does, when it is something new.
#[derive(Debug)]
pub(super) struct Tracer {
    trace: Trace,
    clock: Clock,
    delivery: DeliveryId,
    with: Vec<DeliveryId>,
    last: Option<(String, String)>,
}

impl Tracer {
    /// A tracer of one injection.
    pub(super) fn new(paths: &StatePaths, clock: &Clock, told: &Told) -> Self {
        let first = &told.whole;
        let with = told.each.iter().map(|delivery| delivery.id.clone());
        Self {
            trace: Trace::of(paths, &first.slug),
            clock: clock.clone(),
            delivery: first.id.clone(),
            with: with.filter(|id| *id != first.id).collect(),
            last: None,
        }
    }

    /// Notes what was seen and what is done about it.
    pub(super) fn note(&mut self, seen: &Observation, action: &Action) {
        self.say(saw(seen), did(action));
    }

    /// Notes something else.
    pub(super) fn say(&mut self, saw: String, did: String) {
        if self.last.as_ref().is_some_and(|last| (&last.0, &last.1) == (&saw, &did)) {
            return;
        }
        let step = TraceStep {
            at: self.clock.now(),
            delivery: self.delivery.clone(),
            with: self.with.clone(),
            saw: saw.clone(),
            did: did.clone(),
        };
        self.last = Some((saw, did));
        if let Err(error) = self.trace.add(&step) {
            tracing::debug!(%error, "could not write down a step of an injection");
        }
    }
}

fn saw(seen: &Observation) -> String {
    let mut words = match seen.pane {
        Pane::Absent => return "no such pane".to_owned(),
        Pane::Dead => return "a dead pane".to_owned(),
        Pane::CopyMode => vec!["copy mode"],
        Pane::Live => Vec::new(),
    };
    let asks;
    words.push(match &seen.agent {
        Agent::Idle => "idle",
        Agent::Busy => "busy",
        Agent::Unknown => "an unknown screen",
        Agent::Asks(what) => {
            asks = format!("asks `{}`", crate::base::text::visible(what));
            &asks
        }
    });
    words.push(match seen.input {
        Input::Empty => "box empty",
        Input::Ours => "box: our text",
        Input::Foreign => "box: another text",
        Input::Mixed => "box: our text and another",
        Input::Absent => "no box",
    });
    if seen.typing {
        words.push("a person types");
    }
    if seen.stashed {
        words.push("a draft is put aside");
    }
    if !seen.reads {
        words.push("does not read its keys");
    }
    if seen.queued && !seen.accepted {
        words.push("the agent holds it back");
    }
    if seen.accepted {
        words.push("the agent has it");
    }
    words.join(", ")
}

fn did(action: &Action) -> String {
    match action {
        Action::Look(_) => "looks".to_owned(),
        Action::Hold(reason, _) => format!("waits: {reason}"),
        Action::Stay(reason, _) => format!("waits with its text in the box: {reason}"),
        Action::Paste => "pastes".to_owned(),
        Action::Submit => "presses the submit key".to_owned(),
        Action::Stash => "puts the draft aside".to_owned(),
        Action::Unstash => "brings the draft back".to_owned(),
        Action::Remove => "takes its text out".to_owned(),
        Action::Finish(Outcome::Accepted) => "delivered".to_owned(),
        Action::Finish(Outcome::Gone) => "the agent is gone".to_owned(),
        Action::Finish(Outcome::CalledOff) => "called off".to_owned(),
        Action::Finish(Outcome::Unproven) => "unproven".to_owned(),
        Action::Finish(Outcome::Failed(reason)) => format!("failed: {reason}"),
    }
}
