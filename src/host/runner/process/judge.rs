//! What became of a delivery, from what its turn left: the harness's result, its
//! signals and its transcript, its exit code, its last words.

use std::fmt::Write as _;
use std::process::ExitStatus;
use std::time::Duration;

use serde_json::Value;

use crate::base::ids::{HarnessSessionId, Marker, WorkItem};
use crate::base::text::{cap, gist, visible, without_colours};
use crate::core::harness::{Harness, OneShotResult, Rendering};
use crate::core::outcome::{Reason, State};
use crate::core::routing::prompt::with_rules;
use crate::state::turns::Turn;
use crate::state::turns::output::{self, MAX_OUTPUT};

use super::super::signals::SignalLog;
use super::watch::words;

/// The most of an agent's last words that are kept.
const LAST_WORDS: usize = 600;

/// How a turn came to its end.
#[derive(Debug, Clone, Default)]
pub(super) struct Ending {
    /// Its exit code or signal, where this process is its parent.
    pub(super) status: Option<ExitStatus>,
    /// It ran past this time and was ended.
    pub(super) timed_out: Option<Duration>,
    /// It was ended because its session is closed.
    pub(super) called_off: bool,
    /// Nobody read its prompt, which is proof that the agent did not take it. That
    /// a hook said nothing is none: a hook can be lost.
    pub(super) is_unread: bool,
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
}

/// Whether a turn that ended for this reason has a result of its own to show.
pub(super) fn has_result(reason: Reason) -> bool {
    matches!(reason, Reason::Accepted | Reason::AcceptedByResult)
}

/// Judges a turn.
pub(super) fn judge(
    harness: &Harness,
    turn: &Turn,
    ending: &Ending,
    signals: &mut SignalLog,
    marker: &Marker,
) -> Verdict {
    let stdout = output::newest(&turn.stdout(), MAX_OUTPUT).unwrap_or_default();
    let stderr = output::newest(&turn.stderr(), MAX_OUTPUT).unwrap_or_default();
    let result = harness.parse_result(&stdout);
    let is_taken = signals.has_taken(marker);
    let said =
        if stderr.is_empty() { last_words_of_turn(harness, &stdout) } else { words_of(&stderr, 3) };
    let how = how(ending, &said);
    let ended = |state, reason, detail: String| Verdict::Ended {
        state,
        reason,
        detail: Some(detail).filter(|detail| !detail.is_empty()),
        conversation: None,
    };
    match &result {
        // A result is an answer to the prompt, unless nobody has read that.
        OneShotResult::Ended(end) if !end.is_error && (is_taken || !ending.is_unread) => {
            return Verdict::Ended {
                state: State::Delivered,
                reason: if is_taken { Reason::Accepted } else { Reason::AcceptedByResult },
                detail: Some(end.figures()).filter(|figures| !figures.is_empty()),
                conversation: end.session_id.clone().filter(|id| harness.may_call(id)),
            };
        }
        // One proof against another.
        OneShotResult::Ended(end) if !end.is_error => {
            let text = "the agent printed a result and has read nothing of the text".to_owned();
            return ended(State::Unproven, Reason::NoSignal, text);
        }
        // That it failed says nothing of when: it may have worked before.
        OneShotResult::Ended(end) if is_taken || !ending.called_off => {
            let text = format!("the turn failed: {}", cap(&visible(end.text.trim()), LAST_WORDS));
            return match (is_taken, ending.is_unread) {
                (true, _) => ended(State::Delivered, Reason::AcceptedWithoutResult, text),
                (false, true) => ended(State::Failed, Reason::TurnFailed, text),
                (false, false) => ended(State::Unproven, Reason::NoSignal, text),
            };
        }
        _ => {}
    }
    if is_taken {
        let reason = match ending.timed_out {
            Some(_) => Reason::TurnTimedOut,
            None => Reason::AcceptedWithoutResult,
        };
        return ended(State::Delivered, reason, how);
    }
    let refuses = |is_one: &dyn Fn(&str) -> bool| {
        let stdout = String::from_utf8_lossy(&stdout);
        // What stands in a record was said in a turn, and may be anybody's words.
        let has_record = stdout.lines().any(|line| serde_json::from_str::<Value>(line).is_ok());
        let is_success = ending.status.is_some_and(|status| status.success());
        let said = is_one(&String::from_utf8_lossy(&stderr)) || is_one(&stdout);
        said && !has_record && !is_success
    };
    if refuses(&|said| harness.refuses_resume(said)) {
        return Verdict::NoConversation;
    }
    if refuses(&|said| harness.refuses_start(said)) {
        return Verdict::HasConversation;
    }
    if turn.was_not_started() {
        return ended(State::Failed, Reason::StartFailed, said);
    }
    let reason = match ending.timed_out {
        _ if !ending.is_unread => return ended(State::Unproven, Reason::NoSignal, how),
        _ if ending.called_off => Reason::ClosedBeforeDelivery,
        Some(_) => Reason::TurnTimedOut,
        None => Reason::HarnessExited,
    };
    ended(State::Failed, reason, how)
}

/// How a turn ended, in a sentence.
fn how(ending: &Ending, said: &str) -> String {
    let mut text = match (ending.timed_out, ending.status) {
        _ if ending.called_off => "the session was closed during its turn".to_owned(),
        (Some(limit), _) => format!("the turn did not end within {} s", limit.as_secs()),
        (None, Some(status)) => format!("the agent ended with {} and no result", words(status)),
        (None, None) => {
            "its receiver was lost during the turn; the agent ended with no result".to_owned()
        }
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

/// What a turn printed last, as a person reads it.
fn last_words_of_turn(harness: &Harness, stdout: &[u8]) -> String {
    let tail = &stdout[stdout.len().saturating_sub(LAST_WORDS * 16)..];
    let text = String::from_utf8_lossy(tail);
    let mut rendering = Rendering::new(harness.shows());
    let mut lines: Vec<_> = text.lines().flat_map(|line| rendering.line(line)).collect();
    lines.extend(rendering.end());
    words_of(lines.join("\n").as_bytes(), 0)
}

/// The last lines of what was said, behind so many of the first ones.
fn words_of(bytes: &[u8], first: usize) -> String {
    let text = without_colours(&String::from_utf8_lossy(bytes));
    let lines = gist(text.lines(), first, 3).into_iter().map(|line| visible(line.trim_end()));
    cap(&lines.collect::<Vec<_>>().join(" / "), LAST_WORDS)
}

/// The prompt for a fresh conversation, which the agent must know it is in. The
/// notice stands below our first line, where no text of others is, and with it what
/// the first prompt of any conversation has.
pub(in crate::host::runner) fn with_notice(prompt: &str, item: &WorkItem) -> String {
    let prompt = with_rules(prompt, item);
    let notice = "[the-loop: the earlier conversation about this item is lost; this is a fresh \
                  one. Read the item and its branch before you go on.]";
    below_first_line(&prompt, notice)
}

/// The prompt for an agent that was started again with its conversation, which does
/// not show it that.
pub(in crate::host::runner) fn with_resumed(prompt: &str) -> String {
    let notice = "[the-loop: your program had ended and was started again with this \
                  conversation. What it ran beside it is gone, and its last turn may be \
                  unfinished.]";
    below_first_line(prompt, notice)
}

fn below_first_line(prompt: &str, notice: &str) -> String {
    match prompt.split_once('\n') {
        Some((first, rest)) => format!("{first}\n{notice}\n{rest}"),
        None => format!("{prompt}\n{notice}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::process::ExitStatusExt as _;
    use std::path::Path;
    use std::process::Stdio;

    use fs_err as fs;
    use jiff::Timestamp;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::super::watch;
    use super::*;
    use crate::base::process::Invocation;
    use crate::core::harness::Claude;
    use crate::state::spool;
    use crate::state::turns::{About, Turns};

    /// A turn, and what its agent has told.
    struct Case {
        dir: tempfile::TempDir,
        turn: Turn,
        marker: Marker,
    }

    impl Case {
        fn new(prompt: &str) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let about = About {
                delivery: "d-1".parse().unwrap(),
                marker: None,
                what: String::new(),
                began: Timestamp::UNIX_EPOCH,
                shows: None,
            };
            let turn = Turns::in_dir(&dir.path().join("t")).begin(&about, prompt).unwrap();
            for path in [turn.stdout(), turn.stderr()] {
                Turn::open_output(&path).unwrap();
            }
            fs::create_dir(dir.path().join("s")).unwrap();
            Self { dir, turn, marker: Marker::new([7; 16]) }
        }

        fn tells(&self, event: &Value) {
            let mut event = event.clone();
            event["session_id"] = json!("0d4f3c8e-6d6c-4d6e-9d9a-1f2e3d4c5b6a");
            spool::write(&self.dir.path().join("s"), &event).unwrap();
        }

        fn begins(&self) {
            self.tells(&json!({ "hook_event_name": "SessionStart", "source": "startup" }));
        }

        fn takes(&self) {
            let prompt = format!("[the-loop event {}]", self.marker);
            self.tells(&json!({ "hook_event_name": "UserPromptSubmit", "prompt": prompt }));
        }

        fn judged(&self, status: ExitStatus) -> (State, Reason, String) {
            self.judged_after(&Ending { status: Some(status), ..Ending::default() })
        }

        fn verdict(&self, ending: &Ending) -> Verdict {
            let harness = Harness::Claude(Claude);
            let mut signals = SignalLog::new(harness.clone(), &self.dir.path().join("s"));
            signals.refresh().unwrap();
            judge(&harness, &self.turn, ending, &mut signals, &self.marker)
        }

        fn judged_after(&self, ending: &Ending) -> (State, Reason, String) {
            match self.verdict(ending) {
                Verdict::Ended { state, reason, detail, .. } => {
                    (state, reason, detail.unwrap_or_default())
                }
                other => unreachable!("{other:?}"),
            }
        }
    }

    /// Every exit code, every signal that can end a program with its number, and
    /// what is said about it.
    fn every_status() -> Vec<(ExitStatus, String)> {
        let codes =
            (0..=255).map(|code| (ExitStatus::from_raw(code << 8), format!("exit code {code}")));
        let signals = (1..=64).map(|n| (ExitStatus::from_raw(n), format!("signal {n}")));
        // With a core left behind.
        let cores = [(ExitStatus::from_raw(0x8b), "signal 11 (SIGSEGV)".to_owned())];
        codes.chain(signals).chain(cores).collect()
    }

    #[test]
    fn every_exit_status_has_a_clear_state() {
        let (taken, begun, silent, babbling) =
            (Case::new("x"), Case::new("x"), Case::new("x"), Case::new("x"));
        taken.begins();
        taken.takes();
        begun.begins();
        fs::write(babbling.turn.stdout(), "hello\n").unwrap();
        for (status, said) in every_status() {
            let is = |case: &Case, state, reason| {
                let (is_state, is_reason, detail) = case.judged(status);
                assert_eq!((is_state, is_reason), (state, reason), "{said}");
                let rest = detail.strip_prefix("the agent ended with ").unwrap_or(&detail);
                let rest = rest.strip_prefix(said.as_str()).unwrap_or_else(|| panic!("{detail}"));
                assert!(rest.starts_with(' ') && rest.contains(" and no result"), "{detail}");
            };
            // It took the text: it is never sent again, however it ended.
            is(&taken, State::Delivered, Reason::AcceptedWithoutResult);
            // It read the text and told nobody, or printed something: no hook and no
            // exit code proves that it did not take it.
            for case in [&begun, &silent, &babbling] {
                is(case, State::Unproven, Reason::NoSignal);
                let unread = Ending { status: Some(status), is_unread: true, ..Ending::default() };
                let (state, reason, _) = case.judged_after(&unread);
                assert_eq!((state, reason), (State::Failed, Reason::HarnessExited), "{said}");
            }
        }
        for (n, name) in
            [(1, "SIGHUP"), (2, "SIGINT"), (6, "SIGABRT"), (9, "SIGKILL"), (15, "SIGTERM")]
        {
            let (_, _, detail) = taken.judged(ExitStatus::from_raw(n));
            assert_eq!(detail, format!("the agent ended with signal {n} ({name}) and no result"));
        }
    }

    #[test]
    fn a_result_says_what_became_of_the_text_and_no_more_than_is_known() {
        use Reason as R;
        use State as S;
        let result = |is_error: bool| {
            json!({ "type": "result", "is_error": is_error, "result": "Overloaded",
                    "duration_ms": 1200, "total_cost_usd": 0.5 })
            .to_string()
        };
        let failed = "the turn failed: Overloaded";
        let unseen = "the agent printed a result and has read nothing of the text";
        let closed = "the session was closed during its turn";
        let figures = "1.2 s, $0.5000";
        // Whether the result is an error, its text was taken, it is known to be unread,
        // its session was closed.
        for (is_error, took, is_unread, called_off, wanted) in [
            (false, true, false, false, (S::Delivered, R::Accepted, figures)),
            (false, true, false, true, (S::Delivered, R::Accepted, figures)),
            (false, false, false, false, (S::Delivered, R::AcceptedByResult, figures)),
            (false, false, false, true, (S::Delivered, R::AcceptedByResult, figures)),
            (false, false, true, false, (S::Unproven, R::NoSignal, unseen)),
            (false, false, true, true, (S::Unproven, R::NoSignal, unseen)),
            (true, true, false, false, (S::Delivered, R::AcceptedWithoutResult, failed)),
            (true, true, false, true, (S::Delivered, R::AcceptedWithoutResult, failed)),
            (true, false, false, false, (S::Unproven, R::NoSignal, failed)),
            (true, false, false, true, (S::Unproven, R::NoSignal, closed)),
            (true, false, true, false, (S::Failed, R::TurnFailed, failed)),
            (true, false, true, true, (S::Failed, R::ClosedBeforeDelivery, closed)),
        ] {
            let case = Case::new("x");
            case.begins();
            if took {
                case.takes();
            }
            fs::write(case.turn.stdout(), result(is_error)).unwrap();
            for status in [None, Some(0), Some(1 << 8), Some(15)] {
                let status = status.map(ExitStatus::from_raw);
                for timed_out in [None, Some(Duration::from_secs(1))] {
                    let ending = Ending { status, timed_out, called_off, cut: 0, is_unread };
                    let (state, reason, detail) = case.judged_after(&ending);
                    let what = format!("error {is_error}, took {took}, {ending:?}");
                    assert_eq!((state, reason, detail.as_str()), wanted, "{what}");
                    assert_eq!(has_result(reason), wanted.2 == figures, "{what}");
                }
            }
        }
    }

    #[test]
    fn whatever_is_left_a_turn_is_run_again_only_on_the_agents_own_refusal() {
        let refusal = "No conversation found with session ID: 0d4f3c8e";
        let record = json!({ "type": "user", "message": refusal }).to_string();
        let statuses =
            [None, Some(0), Some(1 << 8), Some(9)].map(|raw| raw.map(ExitStatus::from_raw));
        let outputs = [
            ("", ""),
            ("hello", ""),
            (r#"{"type":"res"#, ""),
            ("", "oops"),
            ("", refusal),
            (refusal, ""),
            (record.as_str(), ""),
            (record.as_str(), refusal),
        ];
        for (status, (stdout, stderr), bits) in statuses.iter().flat_map(|status| {
            let each =
                outputs.iter().flat_map(|output| (0..32_u8).map(move |bits| (*output, bits)));
            each.map(move |(output, bits)| (*status, output, bits))
        }) {
            let [began, took, called_off, timed_out, is_unread] =
                std::array::from_fn(|n| bits & (1 << n) != 0);
            if is_unread && took {
                continue;
            }
            let case = Case::new("x");
            if began {
                case.begins();
            }
            if took {
                case.takes();
            }
            fs::write(case.turn.stdout(), stdout).unwrap();
            fs::write(case.turn.stderr(), stderr).unwrap();
            let timed_out = timed_out.then_some(Duration::from_secs(1));
            let ending = Ending { status, timed_out, called_off, cut: 0, is_unread };
            let what = format!("{stdout:?} {stderr:?} {began} {took} {ending:?}");
            let is_refusal = !took
                && (stderr == refusal || stdout == refusal)
                && stdout != record
                && !status.is_some_and(|status| status.success());
            match case.verdict(&ending) {
                Verdict::NoConversation => assert!(is_refusal, "{what}"),
                Verdict::HasConversation => unreachable!("{what}"),
                Verdict::Ended { state, .. } => {
                    let wanted = match (took, is_unread) {
                        (true, _) => State::Delivered,
                        (false, true) => State::Failed,
                        (false, false) => State::Unproven,
                    };
                    assert!(!is_refusal && state == wanted, "{what}: {state:?}");
                }
            }
        }
    }

    /// Runs a shell's script as the turn's agent, as the runner does.
    async fn run(case: &Case, script: &str) -> Ending {
        let open = |path| Stdio::from(Turn::open_output(path).unwrap());
        let stdin = fs::File::open(case.turn.prompt()).unwrap().into_parts().0;
        let child = Invocation::new(Path::new("/bin/sh"), BTreeMap::new())
            .args(["-c", script])
            .env("PATH", "/usr/bin:/bin")
            .start(Stdio::from(stdin), open(&case.turn.stdout()), open(&case.turn.stderr()))
            .unwrap();
        let limit = Duration::from_mins(1);
        watch::child(&case.turn, child, limit, &CancellationToken::new()).await
    }

    #[tokio::test]
    async fn every_exit_code_and_signal_of_a_real_process_is_told() {
        let case = Case::new("x");
        case.takes();
        let codes = (0..=255).map(|code| (format!("exit {code}"), format!("exit code {code} ")));
        let of_linux: &[i32] = if cfg!(target_os = "linux") { &[16, 26, 27, 34, 64] } else { &[] };
        let signals = (1..=15).chain([24, 25, 31]).chain(of_linux.iter().copied());
        let signals =
            signals.map(|n| (format!("ulimit -c 0; kill -{n} $$"), format!("signal {n} ")));
        for (script, said) in codes.chain(signals) {
            let ending = run(&case, &script).await;
            let (state, reason, detail) = case.judged_after(&ending);
            assert_eq!((state, reason), (State::Delivered, Reason::AcceptedWithoutResult));
            assert!(
                detail.starts_with(&format!("the agent ended with {said}")),
                "{script}: {detail}"
            );
        }
    }

    #[tokio::test]
    async fn a_megabyte_on_standard_input_hurts_nobody_whether_it_is_read_or_not() {
        let prompt = "0123456789abcdef".repeat(1 << 16);
        for (script, said) in [
            // Whole, slowly, in part, not at all, with its end closed.
            ("wc -c | tr -d ' '", "1048576"),
            (
                "for n in 1 2 3 4; do head -c 262144 | wc -c | tr -d ' '; sleep 0.02; done",
                "262144\n262144\n262144\n262144",
            ),
            ("head -c 16", "0123456789abcdef"),
            ("exit 3", ""),
            ("exec <&-; sleep 0.05; exit 3", ""),
        ] {
            let case = Case::new(&prompt);
            case.takes();
            let ending = run(&case, script).await;
            let out = fs::read_to_string(case.turn.stdout()).unwrap();
            assert_eq!(out.trim(), said, "{script}");
            let (state, reason, _) = case.judged_after(&ending);
            assert_eq!((state, reason), (State::Delivered, Reason::AcceptedWithoutResult));
            let code = ending.status.unwrap().code();
            assert_eq!(code, Some(if said.is_empty() { 3 } else { 0 }), "{script}");
            assert_eq!(fs::read_to_string(case.turn.prompt()).unwrap(), prompt);
        }
    }
}
