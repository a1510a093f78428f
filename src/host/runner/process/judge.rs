//! What became of a delivery, from what its turn left: the harness's result, its
//! signals and its transcript, its exit code, its last words.

use std::fmt::Write as _;
use std::process::ExitStatus;
use std::time::Duration;

use fs_err as fs;

use crate::base::ids::{HarnessSessionId, Marker};
use crate::base::text::{cap, visible};
use crate::core::harness::{Harness, OneShotResult};
use crate::core::outcome::{Reason, State};
use crate::state::turns::Turn;

use super::super::signals::SignalLog;
use super::watch::words;

/// The most of an agent's last words that are kept.
const LAST_WORDS: usize = 600;

/// How a turn came to its end.
#[derive(Debug, Clone, Default)]
pub(super) struct Ending {
    /// Its exit code or signal, where this process is its parent.
    pub(super) status: Option<ExitStatus>,
    /// An earlier receiver started it.
    pub(super) is_adopted: bool,
    /// It ran past this time and was ended.
    pub(super) timed_out: Option<Duration>,
    /// It was ended because its session is closed.
    pub(super) called_off: bool,
    /// How many bytes of its output were cut.
    pub(super) cut: u64,
}

/// What follows from a turn's end.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    /// The delivery is where it will be.
    Ended {
        state: State,
        reason: Reason,
        detail: Option<String>,
        conversation: Option<HarnessSessionId>,
    },
    /// The agent has no such conversation, and took nothing.
    NoConversation,
    /// The agent has the conversation already, and took nothing.
    HasConversation,
    /// The agent is known to have taken nothing, and its parent was lost: it may
    /// be run again.
    NotTaken,
}

/// Judges a turn.
pub(super) fn judge(
    harness: &Harness,
    turn: &Turn,
    ending: &Ending,
    signals: &mut SignalLog,
    marker: &Marker,
) -> Verdict {
    let stdout = fs::read(turn.stdout()).unwrap_or_default();
    let stderr = fs::read(turn.stderr()).unwrap_or_default();
    let result = harness.parse_result(&stdout);
    let is_taken = signals.has_taken(marker);
    let began = turn.about().is_some_and(|about| signals.began_since(about.began));
    let is_empty = stdout.iter().all(u8::is_ascii_whitespace);
    let said = last_words(if stderr.is_empty() { &stdout } else { &stderr });
    let how = how(ending, &said);
    let ended = |state, reason, detail: String| Verdict::Ended {
        state,
        reason,
        detail: Some(detail).filter(|detail| !detail.is_empty()),
        conversation: None,
    };
    if let OneShotResult::Ended(end) = &result
        && (!ending.called_off || is_taken)
    {
        if !end.is_error {
            return Verdict::Ended {
                state: State::Delivered,
                reason: Reason::Accepted,
                detail: Some(end.figures()).filter(|figures| !figures.is_empty()),
                conversation: end.session_id.clone().filter(|id| harness.may_call(id)),
            };
        }
        let text = format!("the turn failed: {}", cap(&visible(end.text.trim()), LAST_WORDS));
        return if is_taken {
            ended(State::Delivered, Reason::AcceptedWithoutResult, text)
        } else {
            ended(State::Failed, Reason::TurnFailed, text)
        };
    }
    if is_taken {
        let reason = match ending.timed_out {
            Some(_) => Reason::TurnTimedOut,
            None => Reason::AcceptedWithoutResult,
        };
        return ended(State::Delivered, reason, how);
    }
    if harness.refuses_resume(&String::from_utf8_lossy(&stderr))
        || harness.refuses_resume(&String::from_utf8_lossy(&stdout))
    {
        return Verdict::NoConversation;
    }
    if harness.refuses_start(&String::from_utf8_lossy(&stderr))
        || harness.refuses_start(&String::from_utf8_lossy(&stdout))
    {
        return Verdict::HasConversation;
    }
    if turn.was_not_started() {
        return ended(State::Failed, Reason::StartFailed, said);
    }
    let proves_absence = began && harness.profile().gives_proof;
    let ended_early = is_empty && ending.status.is_some_and(|status| status.code() > Some(0));
    match ending.timed_out {
        _ if ending.called_off && proves_absence => {
            ended(State::Failed, Reason::ClosedBeforeDelivery, how)
        }
        Some(_) if proves_absence => ended(State::Failed, Reason::TurnTimedOut, how),
        None if proves_absence && ending.is_adopted => Verdict::NotTaken,
        None if proves_absence || ended_early => ended(State::Failed, Reason::HarnessExited, how),
        _ => ended(State::Unproven, Reason::NoSignal, how),
    }
}

/// How a turn ended, in a sentence.
fn how(ending: &Ending, said: &str) -> String {
    let mut text = match (ending.timed_out, ending.status) {
        _ if ending.called_off => "the session was closed during its turn".to_owned(),
        (Some(limit), _) => format!("the turn did not end within {} s", limit.as_secs()),
        (None, Some(status)) => format!("the agent ended with {} and no result", words(status)),
        (None, None) => "the agent ended while no receiver ran, with no result".to_owned(),
    };
    if ending.cut > 0 {
        let _ = write!(text, "; {} MB of its output were cut", ending.cut >> 20);
    }
    if !said.is_empty() && !ending.called_off {
        text.push_str(": ");
        text.push_str(said);
    }
    text
}

fn last_words(bytes: &[u8]) -> String {
    let tail = &bytes[bytes.len().saturating_sub(LAST_WORDS * 4)..];
    let text = String::from_utf8_lossy(tail);
    let lines: Vec<_> = text.trim().lines().rev().take(3).map(visible).collect();
    cap(&lines.into_iter().rev().collect::<Vec<_>>().join(" / "), LAST_WORDS)
}

/// The prompt for a fresh conversation, which the agent must know it is in. The
/// notice stands below our first line, where no text of others is.
pub(in crate::host::runner) fn with_notice(prompt: &str) -> String {
    let notice = "[the-loop: the earlier conversation about this item is lost; this is a fresh \
                  one. Read the item and its branch before you go on.]";
    match prompt.split_once('\n') {
        Some((first, rest)) => format!("{first}\n{notice}\n{rest}"),
        None => format!("{prompt}\n{notice}"),
    }
}
