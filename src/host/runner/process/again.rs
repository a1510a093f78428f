//! A headless turn whose agent ended before it took anything: it may be begun
//! again, as an agent in tmux that ended before it was ready.

use crate::core::outcome::{Reason, State};
use crate::state::turns::Turn;

/// Takes the text of a turn back that no agent had begun to read. Gives where its
/// delivery stands then, and whether nobody took the text and nobody can any more:
/// what an agent left running may hold it open still.
pub(super) fn take_back(
    turn: &Turn,
    prompt: &str,
    state: State,
    reason: Reason,
) -> (State, Reason, bool) {
    match (state, reason) {
        // Nobody became its agent.
        (State::Failed, Reason::StartFailed) => (state, reason, true),
        (State::Failed, Reason::HarnessExited) => match turn.take_back(prompt) {
            Ok(true) => (state, reason, true),
            // Somebody read it a moment ago.
            Ok(false) => (State::Unproven, Reason::NoSignal, false),
            Err(error) => {
                tracing::warn!(%error, "could not take a turn's text back");
                (state, reason, false)
            }
        },
        _ => (state, reason, false),
    }
}
