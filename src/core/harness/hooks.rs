//! Signals in the form of Claude Code's hooks. The demo agent speaks it too.

use std::path::PathBuf;

use serde_json::Value;

use super::{Signal, Source};
use crate::base::text::{cap, visible};

/// What one hook's input means.
pub(super) fn signal_of(raw: &Value) -> Option<Signal> {
    let text = |key: &str| raw.get(key).and_then(Value::as_str);
    match text("hook_event_name")? {
        "SessionStart" => Some(Signal::Ready {
            session_id: text("session_id")?.parse().ok()?,
            transcript: text("transcript_path").filter(|path| !path.is_empty()).map(PathBuf::from),
        }),
        "UserPromptSubmit" => Some(Signal::Accepted { prompt: text("prompt")?.to_owned() }),
        "Stop" => Some(Signal::TurnEnded),
        "StopFailure" => {
            let why = text("error").or(text("last_assistant_message")).unwrap_or("no reason given");
            Some(Signal::TurnFailed { why: one_line(why) })
        }
        "PermissionRequest" => Some(Signal::Waiting { what: request(raw) }),
        // "Nobody has typed for a minute" is a notification as well.
        "Notification" => match text("notification_type") {
            Some("permission_prompt" | "elicitation_dialog") => {
                Some(Signal::Waiting { what: one_line(text("message").unwrap_or("permission")) })
            }
            _ => None,
        },
        // After these two the same process goes on with a `SessionStart`.
        "SessionEnd" => match text("reason").unwrap_or("other") {
            "clear" | "resume" => None,
            reason => Some(Signal::Ended { reason: one_line(reason) }),
        },
        _ => None,
    }
}

/// Which conversation a record is of.
pub(super) fn source_of(raw: &Value) -> Source {
    let text = |key: &str| raw.get(key).and_then(Value::as_str);
    Source {
        conversation: text("session_id").and_then(|id| id.parse().ok()),
        transcript: text("transcript_path").filter(|path| !path.is_empty()).map(PathBuf::from),
    }
}

/// What a tool asks permission for: its name, and what a person would look at.
fn request(raw: &Value) -> String {
    let tool = raw.get("tool_name").and_then(Value::as_str).unwrap_or("a tool");
    let input = raw.get("tool_input");
    let detail = input
        .and_then(|input| {
            ["command", "file_path", "notebook_path", "url", "query", "pattern", "description"]
                .iter()
                .find_map(|key| input.get(key))
                .or_else(|| input.pointer("/questions/0/question"))
        })
        .and_then(Value::as_str);
    match detail {
        Some(detail) => one_line(&format!("{tool}: {detail}")),
        None => one_line(tool),
    }
}

fn one_line(text: &str) -> String {
    cap(&visible(text), 200)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_hook_we_ask_for_has_its_meaning() {
        let waiting = |what: &str| Some(Signal::Waiting { what: what.into() });
        let ended = |reason: &str| Some(Signal::Ended { reason: reason.into() });
        let id = "0d4f3c8e-6d6c-4d6e-9d9a-1f2e3d4c5b6a";
        for (raw, meaning) in [
            (
                json!({"hook_event_name": "SessionStart", "session_id": id, "source": "startup",
                       "transcript_path": "/h/t.jsonl"}),
                Some(Signal::Ready {
                    session_id: id.parse().unwrap(),
                    transcript: Some("/h/t.jsonl".into()),
                }),
            ),
            (
                json!({"hook_event_name": "UserPromptSubmit", "prompt": "a\nb"}),
                Some(Signal::Accepted { prompt: "a\nb".into() }),
            ),
            (json!({"hook_event_name": "Stop"}), Some(Signal::TurnEnded)),
            (
                json!({"hook_event_name": "StopFailure", "error": "x\u{1b}"}),
                Some(Signal::TurnFailed { why: "x\\x1b".into() }),
            ),
            (
                json!({"hook_event_name": "PermissionRequest", "tool_name": "Bash",
                       "tool_input": {"command": "touch x\n\u{1b}[2J"}}),
                waiting("Bash: touch x\\n\\x1b[2J"),
            ),
            (
                json!({"hook_event_name": "PermissionRequest", "tool_name": "AskUserQuestion",
                       "tool_input": {"questions": [{"question": "Which one?"}]}}),
                waiting("AskUserQuestion: Which one?"),
            ),
            (
                json!({"hook_event_name": "Notification", "notification_type": "permission_prompt",
                       "message": "Claude needs your permission"}),
                waiting("Claude needs your permission"),
            ),
            (json!({"hook_event_name": "Notification", "notification_type": "idle_prompt"}), None),
            (json!({"hook_event_name": "SessionEnd", "reason": "other"}), ended("other")),
            (
                json!({"hook_event_name": "SessionEnd", "reason": "prompt_input_exit"}),
                ended("prompt_input_exit"),
            ),
            (json!({"hook_event_name": "SessionEnd", "reason": "clear"}), None),
            (json!({"hook_event_name": "SessionStart", "session_id": "../../x y"}), None),
            (json!({"hook_event_name": 7}), None),
            (json!([]), None),
        ] {
            assert_eq!(signal_of(&raw), meaning, "{raw}");
        }
    }
}
