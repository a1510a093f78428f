//! What a headless turn prints, in the form of Claude Code's `--output-format`
//! `json` and `stream-json`. The demo agent speaks it too.
//!
//! The runner asks how a turn ended, the viewer and `sessions logs` for lines
//! that a person can read.

use serde_json::Value;

use crate::base::ids::HarnessSessionId;
use crate::base::text::{cap, visible, visible_lines};

/// The most characters of one tool's result that are shown.
pub(super) const SHOWN: usize = 2000;

/// What a headless turn's standard output says about its end.
#[derive(Debug, Clone, PartialEq)]
pub enum OneShotResult {
    /// The harness's own word on the turn.
    Ended(TurnEnd),
    /// It printed something that has no whole result at its end.
    Cut,
    /// It printed nothing.
    Nothing,
}

/// The harness's own word on a turn that came to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnEnd {
    /// The conversation, by the harness's own id.
    pub session_id: Option<HarnessSessionId>,
    /// Whether the harness calls it a failure.
    pub is_error: bool,
    /// The last words.
    pub text: String,
    /// What it cost, in US dollars.
    pub cost_usd: Option<f64>,
    /// How long it took.
    pub duration_ms: Option<u64>,
}

impl TurnEnd {
    /// Duration and cost, for a line: `3.2 s, $0.0123`.
    pub fn figures(&self) -> String {
        let took = self.duration_ms.map(|ms| format!("{}.{} s", ms / 1000, ms % 1000 / 100));
        // The agent's word: what nobody pays is not printed as a price.
        let cost = self.cost_usd.map(|cost| match cost {
            0.0..=1e6 => format!("${cost:.4}"),
            _ => "cost unknown".to_owned(),
        });
        took.into_iter().chain(cost).collect::<Vec<_>>().join(", ")
    }
}

/// The result that a turn printed: the last line that is one.
pub(super) fn parse(stdout: &[u8]) -> OneShotResult {
    let text = String::from_utf8_lossy(stdout);
    let mut said = false;
    for line in text.lines().rev().filter(|line| !line.trim().is_empty()) {
        said = true;
        let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
        if value.get("type").and_then(Value::as_str) == Some("result") {
            return OneShotResult::Ended(TurnEnd {
                session_id: value
                    .get("session_id")
                    .and_then(Value::as_str)
                    .and_then(|id| id.parse().ok()),
                is_error: value.get("is_error").and_then(Value::as_bool) == Some(true),
                text: value.get("result").and_then(Value::as_str).unwrap_or_default().to_owned(),
                cost_usd: value.get("total_cost_usd").and_then(Value::as_f64),
                duration_ms: value.get("duration_ms").and_then(Value::as_u64),
            });
        }
    }
    if said { OneShotResult::Cut } else { OneShotResult::Nothing }
}

/// What stands in front of a tool's result, and of one that is a failure.
pub(super) const RESULT: &str = "  ⎿ ";
const FAILED: &str = "  ✗ ";

/// Text with a mark in front of its first line; what a tool gave is set apart from the
/// agent's own words in each. No control character of the agent's gets through.
pub(super) fn said(mark: &str, text: &str) -> Vec<String> {
    let text = visible_lines(&cap(text.trim_end(), SHOWN));
    let indent = match mark {
        "" => "",
        RESULT | FAILED => "  │ ",
        _ => "  ",
    };
    let lines = text.lines().enumerate();
    lines
        .map(|(number, line)| format!("{}{line}", if number == 0 { mark } else { indent }))
        .collect()
}

/// A line of a turn's standard output as a person reads it; nothing for what
/// says nothing to one.
pub(super) fn rendered(line: &str) -> Vec<String> {
    let Ok(value) = serde_json::from_str::<Value>(line) else {
        return said("", line);
    };
    let text = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut out = Vec::new();
    let mut say = |mark: &str, text: &str| out.extend(said(mark, text));
    match text(&value, "type").as_str() {
        "assistant" => {
            let blocks = value.pointer("/message/content").and_then(Value::as_array);
            for block in blocks.into_iter().flatten() {
                match text(block, "type").as_str() {
                    "text" => say("● ", &text(block, "text")),
                    "tool_use" => {
                        let input = block.get("input").cloned().unwrap_or_default();
                        say("◆ ", &format!("{} {}", text(block, "name"), summary(&input)));
                    }
                    _ => {}
                }
            }
        }
        "user" => {
            let blocks = value.pointer("/message/content").and_then(Value::as_array);
            for block in blocks.into_iter().flatten() {
                if text(block, "type") == "tool_result" {
                    let is_error = block.get("is_error").and_then(Value::as_bool) == Some(true);
                    let mark = if is_error { FAILED } else { RESULT };
                    say(mark, &words(block.get("content").unwrap_or(&Value::Null)));
                }
            }
        }
        "result" => {
            if let OneShotResult::Ended(end) = parse(line.as_bytes()) {
                if end.is_error {
                    say("✗ ", &end.text);
                } else if value.get("num_turns").is_none() || !end.text.is_empty() {
                    say("= ", &end.text);
                }
                let figures = end.figures();
                if !figures.is_empty() {
                    say("  ", &format!("({figures})"));
                }
            }
        }
        _ => {}
    }
    out
}

/// What a tool is asked, in one line.
pub(super) fn summary(input: &Value) -> String {
    let known = ["command", "cmd", "file_path", "pattern", "url", "query", "description"];
    let found = known.iter().find_map(|key| input.get(key)).and_then(Value::as_str);
    visible(&cap(&found.map_or_else(|| input.to_string(), str::to_owned), 200))
}

fn words(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks
            .iter()
            .filter_map(|block| block.get("text").and_then(Value::as_str))
            .collect::<Vec<_>>()
            .join("\n"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: &str = r#"{"type":"result","subtype":"success","is_error":false,"duration_ms":3210,"result":"all done","session_id":"0d4f3c8e-6d6c-4d6e-9d9a-1f2e3d4c5b6a","total_cost_usd":0.01234}"#;

    #[test]
    fn a_result_is_read_with_its_figures_also_behind_other_lines() {
        for before in ["", "{\"type\":\"system\"}\n", "noise\n\n"] {
            let OneShotResult::Ended(end) = parse(format!("{before}{END}\n").as_bytes()) else {
                unreachable!("{before}")
            };
            assert_eq!((end.text.as_str(), end.is_error), ("all done", false));
            assert_eq!(end.figures(), "3.2 s, $0.0123");
        }
    }

    #[test]
    fn a_price_that_nobody_pays_is_unknown() {
        for (cost, said) in [
            ("0", "$0.0000"),
            ("1000000", "$1000000.0000"),
            ("1000000.1", "cost unknown"),
            ("-1", "cost unknown"),
            ("1e300", "cost unknown"),
        ] {
            let line = format!(r#"{{"type":"result","total_cost_usd":{cost}}}"#);
            let OneShotResult::Ended(end) = parse(line.as_bytes()) else { unreachable!("{line}") };
            assert_eq!(end.figures(), said);
        }
    }

    #[test]
    fn a_result_that_was_cut_anywhere_is_no_result() {
        assert_eq!(parse(b""), OneShotResult::Nothing);
        assert_eq!(parse(b" \n"), OneShotResult::Nothing);
        for end in 1..END.len() {
            assert_eq!(parse(&END.as_bytes()[..end]), OneShotResult::Cut, "{end}");
        }
    }

    #[test]
    fn text_tools_and_results_are_shown_and_nothing_of_theirs_steers_the_terminal() {
        let lines = [
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"Looking\u001b[2J\nhere"},{"type":"tool_use","name":"Bash","input":{"command":"ls"}}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","content":"a\nb"}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","is_error":true,"content":[{"type":"text","text":"no such file\nor directory"}]}]}}"#,
            END,
        ];
        let shown: Vec<_> = lines.iter().flat_map(|line| rendered(line)).collect();
        assert!(shown.iter().all(|line| !line.contains('\x1b')), "{shown:?}");
        assert!(shown[0].starts_with("● Looking") && shown[1] == "  here", "{shown:?}");
        assert!(shown.contains(&"◆ Bash ls".to_owned()), "{shown:?}");
        let of_tools: Vec<_> = shown.iter().filter(|line| line.contains(['⎿', '│', '✗'])).collect();
        assert_eq!(of_tools, ["  ⎿ a", "  │ b", "  ✗ no such file", "  │ or directory"]);
        assert_eq!(shown.last().unwrap(), "  (3.2 s, $0.0123)");
        // What is not known is not shown.
        let bare = rendered(r#"{"type":"result","result":"done"}"#);
        assert_eq!(bare, ["= done"]);
    }
}
