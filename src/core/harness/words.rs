//! Whether a text is an agent's own: an agent that forgets the marker line still
//! wrote its comment in its transcript, as something that it said or as a call
//! of a tool. What we typed stands there too, in records of the user's, and
//! those are never looked at.

use jiff::Timestamp;
use serde_json::Value;

use crate::core::config::{RecordKind, RecordRule};

/// A part that is shorter than this stands in too many texts to mean anything.
const LONG: usize = 60;

/// What makes a command line one that posts on GitHub.
const POSTS: &[&str] = &["gh ", "hub ", "api.github", "/api/v3", "curl ", "glab "];

/// Whether one record of a transcript, at `since` or later, holds the whole of
/// `text` as the agent's own words.
pub(super) fn says(record: &str, text: &str, since: Timestamp) -> bool {
    // Cheap first: most records are the user's, or results of tools.
    if text.trim().is_empty() || !record.contains("\"assistant\"") {
        return false;
    }
    let Ok(record) = serde_json::from_str::<Value>(record) else { return false };
    if record.get("type").and_then(Value::as_str) != Some("assistant") {
        return false;
    }
    let at = record.get("timestamp").and_then(Value::as_str);
    if at.and_then(|at| at.parse::<Timestamp>().ok()).is_none_or(|at| at < since) {
        return false;
    }
    let text = plain(text);
    match record.pointer("/message/content") {
        Some(Value::String(said)) => said_so(said, &text),
        Some(Value::Array(blocks)) => blocks.iter().any(|block| {
            let kind = block.get("type").and_then(Value::as_str);
            match (kind, block.get("text"), block.get("input")) {
                (Some("text"), Some(Value::String(said)), _) => said_so(said, &text),
                (Some("tool_use"), _, Some(input)) => called_with(input, &text),
                _ => false,
            }
        }),
        _ => false,
    }
}

/// The same of a record of a declared harness. Without a place for its time it
/// counts whenever it was: whoever asks knows how old the whole is.
pub(super) fn declared(
    rules: &[RecordRule],
    time_at: &[String],
    record: &str,
    text: &str,
    since: Timestamp,
) -> bool {
    if rules.is_empty() || text.trim().is_empty() {
        return false;
    }
    let Ok(record) = serde_json::from_str::<Value>(record) else { return false };
    let at = time_at.iter().find_map(|pointer| time(record.pointer(pointer)?));
    if !time_at.is_empty() && at.is_none_or(|at| at < since) {
        return false;
    }
    let text = plain(text);
    rules.iter().filter(|rule| rule.fits(&record)).any(|rule| {
        rule.texts(&record).into_iter().any(|value| match (rule.is, value) {
            (RecordKind::Said, Value::String(said)) => said_so(said, &text),
            (RecordKind::Said, Value::Array(blocks)) => {
                let said = blocks.iter().filter_map(|block| block.get("text")?.as_str());
                said_so(&said.collect::<Vec<_>>().join("\n"), &text)
            }
            // Arguments may be JSON in a text.
            (RecordKind::Call, Value::String(call)) => match serde_json::from_str(call) {
                Ok(input @ Value::Object(_)) => called_with(&input, &text),
                _ => called_with(value, &text),
            },
            (RecordKind::Call, input) => called_with(input, &text),
            _ => false,
        })
    })
}

fn time(value: &Value) -> Option<Timestamp> {
    match value {
        Value::String(text) => text.parse().ok(),
        value => Timestamp::from_millisecond(value.as_i64()?).ok(),
    }
}

/// What it said is the text, or holds it as whole lines when it is long: an
/// agent also quotes people.
fn said_so(said: &str, text: &str) -> bool {
    let said = plain(said);
    said == text || (text.len() >= LONG && format!("\n{said}\n").contains(&format!("\n{text}\n")))
}

/// A tool was given the text, as a value of its own or in a command that posts.
fn called_with(input: &Value, text: &str) -> bool {
    match input {
        Value::String(value) => {
            let value = plain(value);
            value == text
                || (POSTS.iter().any(|word| value.contains(word)) && is_part(&value, text))
        }
        Value::Array(values) => values.iter().any(|value| called_with(value, text)),
        Value::Object(fields) => fields.values().any(|value| called_with(value, text)),
        _ => false,
    }
}

/// Whether the text stands in the command as words of its own.
fn is_part(command: &str, text: &str) -> bool {
    command.match_indices(text).any(|(at, _)| {
        let before = command[..at].chars().next_back();
        let after = command[at + text.len()..].chars().next();
        let quotes = |c: Option<char>| c.is_none_or(|c| matches!(c, '"' | '\'' | '\n' | '='));
        quotes(before) && quotes(after)
    })
}

/// The text as it can be compared: one kind of line end, no blanks at the ends
/// of lines, none of the backslashes and quotes that a shell needs.
fn plain(text: &str) -> String {
    let lines: Vec<_> = text.trim().lines().map(str::trim_end).collect();
    // How a shell is given a quote within quotes.
    let text = lines.join("\n").replace(r"'\''", "'").replace(r#"'"'"'"#, "'");
    text.replace('\\', "")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const AT: &str = "2026-11-29T12:00:00.123Z";

    fn since(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn record(kind: &str, content: &Value) -> String {
        json!({ "type": kind, "timestamp": AT, "message": { "role": kind, "content": content } })
            .to_string()
    }

    fn is_own(content: &Value, text: &str) -> bool {
        says(&record("assistant", content), text, since("2026-11-29T11:50:01Z"))
    }

    #[test]
    fn a_comment_is_found_in_what_was_said_and_in_calls_of_tools() {
        let call = |input: Value| json!([{ "type": "tool_use", "name": "x", "input": input }]);
        let long = "I looked at the failing test and mended the parser, which now takes both.";
        for (content, text, own) in [
            (json!("Done."), "Done.\r\n", true),
            (json!([{ "type": "text", "text": "Done." }]), "Done.", true),
            (json!([{ "type": "text", "text": "I say: Done." }]), "Done.", false),
            (
                json!([{ "type": "text", "text": format!("I post:\n\n{long}\n\nThere.") }]),
                long,
                true,
            ),
            (json!([{ "type": "text", "text": format!("You wrote: {long}") }]), long, false),
            (json!([{ "type": "thinking", "thinking": "Done." }]), "Done.", false),
            (call(json!({ "body": "Done." })), "Done.", true),
            (call(json!({ "command": "gh issue comment 1 --body \"Done.\"" })), "Done.", true),
            (call(json!({ "command": "gh issue comment 1 -b \"a \\\"b\\\"\"" })), "a \"b\"", true),
            (
                call(json!({ "command": "gh pr comment 1 -F - <<'E'\nOne\nTwo\nE" })),
                "One\r\nTwo",
                true,
            ),
            (
                call(json!({ "command": r"gh api x -f body='It'\''s done now'" })),
                "It's done now",
                true,
            ),
            (call(json!({ "command": "grep -r 'ok' src" })), "ok", false),
            (call(json!({ "command": "gh issue comment 1 --body \"token\"" })), "ok", false),
        ] {
            assert_eq!(is_own(&content, text), own, "{text:?} in {content}");
        }
    }

    #[test]
    fn a_declared_harness_is_known_by_its_own_records_and_by_no_answer_of_a_tool() {
        use crate::core::harness::Harnesses;
        let harnesses = Harnesses::new(&std::collections::BTreeMap::new(), None);
        let says = |name: &str, record: &Value, text: &str| {
            let harness = harnesses.get(&name.parse().unwrap()).unwrap();
            let at = since("2026-11-29T11:50:01Z");
            harness.transcript_says(&record.to_string(), text, at)
                || harness.output_says(&record.to_string(), text, at)
        };
        let post = "gh issue comment 1 --body 'Done it.'";
        let codex = |payload: Value| json!({ "timestamp": AT, "payload": payload });
        let arguments = json!({ "cmd": post }).to_string();
        let gemini = |args: Value, result: Value| {
            json!({ "timestamp": AT, "type": "gemini", "content": "",
                "toolCalls": [{ "args": args, "result": result }] })
        };
        let copilot =
            |kind: &str, data: Value| json!({ "timestamp": AT, "type": kind, "data": data });
        let opencode = |at: i64| {
            json!({ "timestamp": at, "type": "tool_use",
                "part": { "state": { "input": { "command": post }, "output": "tool's" } } })
        };
        let words = json!([{ "type": "output_text", "text": "Done it." }]);
        let old = json!({ "timestamp": "2026-11-29T11:00:00Z",
            "payload": { "type": "function_call", "arguments": arguments } });
        for (name, record, text, own) in [
            (
                "codex",
                codex(json!({ "type": "function_call", "arguments": arguments })),
                "Done it.",
                true,
            ),
            (
                "codex",
                codex(json!({ "type": "message", "role": "assistant", "content": words })),
                "Done it.",
                true,
            ),
            (
                "codex",
                codex(json!({ "type": "message", "role": "user", "content": words })),
                "Done it.",
                false,
            ),
            (
                "codex",
                codex(json!({ "type": "function_call_output", "output": post })),
                "Done it.",
                false,
            ),
            ("codex", old, "Done it.", false),
            ("gemini", gemini(json!({ "command": post }), json!([])), "Done it.", true),
            ("gemini", gemini(json!({}), json!([{ "x": "Done it." }])), "Done it.", false),
            (
                "gemini",
                json!({ "timestamp": AT, "type": "user", "content": [{ "text": "Done it." }] }),
                "Done it.",
                false,
            ),
            (
                "copilot",
                copilot("tool.execution_start", json!({ "arguments": { "command": post } })),
                "Done it.",
                true,
            ),
            (
                "copilot",
                copilot("assistant.message", json!({ "content": "Done it." })),
                "Done it.",
                true,
            ),
            (
                "copilot",
                copilot("user.message", json!({ "content": "Done it." })),
                "Done it.",
                false,
            ),
            ("opencode", opencode(1_795_953_600_000), "Done it.", true),
            ("opencode", opencode(1_795_953_600_000), "tool's", false),
            ("opencode", opencode(1_700_000_000_000), "Done it.", false),
        ] {
            assert_eq!(says(name, &record, text), own, "{name}: {text:?} in {record}");
        }
    }

    #[test]
    fn what_the_user_said_what_is_old_and_what_is_no_record_are_not_the_agents() {
        let since = since("2026-11-29T11:50:01Z");
        assert!(!says(&record("user", &json!("Done.")), "Done.", since));
        let result = json!([{ "type": "tool_result", "content": "Done. \"assistant\"" }]);
        assert!(!says(&record("user", &result), "Done.", since));
        let later: Timestamp = "2026-11-29T12:00:01Z".parse().unwrap();
        assert!(!says(&record("assistant", &json!("Done.")), "Done.", later));
        assert!(!says("{\"assistant\"", "Done.", since));
        assert!(!says(&record("assistant", &json!(" ")), "  ", since));
    }
}
