//! A headless turn's output as a person reads it: by the rules of a declaration,
//! or in the form of Claude Code.

use serde_json::Value;

use super::oneshot::{RESULT, SHOWN, rendered, said, summary};
use crate::base::text::visible;
use crate::core::config::{RecordKind, RecordRule};

/// Shows the lines of one output, in their order.
#[derive(Debug, Clone, Default)]
pub struct Rendering {
    rules: Option<Vec<RecordRule>>,
    part: String,
}

impl Rendering {
    /// By these rules; without any, each line as it is. `None`: Claude Code's form.
    pub fn new(rules: Option<Vec<RecordRule>>) -> Self {
        Self { rules, part: String::new() }
    }

    /// What a line shows: nothing where it says nothing to a person, or is a part
    /// of what is shown when it is whole. No control character of the agent's gets
    /// through.
    pub fn line(&mut self, line: &str) -> Vec<String> {
        let Some(rules) = &self.rules else { return rendered(line) };
        let record = match serde_json::from_str::<Value>(line) {
            Ok(record) if record.is_object() => record,
            _ => return [self.end(), said("", line)].concat(),
        };
        let fitting: Vec<_> = rules.iter().filter(|rule| rule.fits(&record)).collect();
        if fitting.is_empty() {
            return [self.end(), said("", line)].concat();
        }
        let mut out = Vec::new();
        let mut parts = String::new();
        for rule in &fitting {
            let name = rule.name.iter().find_map(|at| record.pointer(at)?.as_str());
            for value in rule.texts(&record) {
                let text = match value {
                    Value::String(text) if rule.is == RecordKind::Call => summary_of(text),
                    Value::String(text) => text.clone(),
                    value if rule.is == RecordKind::Call => summary(value),
                    value => words(value),
                };
                match rule.is {
                    _ if text.trim().is_empty() && !rule.part => {}
                    RecordKind::Said if rule.part => parts.push_str(&text),
                    RecordKind::Said => out.extend(said("● ", &text)),
                    RecordKind::Call => {
                        out.extend(said("◆ ", &format!("{} {text}", name.unwrap_or_default())));
                    }
                    RecordKind::Answer => out.extend(said(RESULT, &text)),
                    RecordKind::Failure => out.extend(said("✗ ", &text)),
                    RecordKind::Nothing => {}
                }
            }
        }
        if out.is_empty() {
            // What is long is shown in pieces rather than kept for ever.
            self.part.push_str(&parts);
            return if self.part.len() > SHOWN { self.end() } else { Vec::new() };
        }
        [self.end(), out].concat()
    }

    /// What is left when the output ends.
    pub fn end(&mut self) -> Vec<String> {
        let part = std::mem::take(&mut self.part);
        if part.trim().is_empty() { Vec::new() } else { said("● ", &part) }
    }
}

/// Arguments that are JSON in a text, in one line.
fn summary_of(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(value) if value.is_object() => summary(&value),
        _ => visible(&crate::base::text::cap(text, 200)),
    }
}

/// The text of a list of blocks; another value as it is.
fn words(value: &Value) -> String {
    let blocks = value.as_array().map(|blocks| {
        let texts = blocks.iter().filter_map(|block| block.get("text")?.as_str());
        texts.collect::<Vec<_>>().join("\n")
    });
    blocks.filter(|text| !text.is_empty()).unwrap_or_else(|| value.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::core::harness::Harnesses;

    fn shown(name: &str, lines: &str) -> Vec<String> {
        let harnesses = Harnesses::new(&BTreeMap::new(), None);
        let harness = harnesses.get(&name.parse().unwrap()).unwrap();
        let mut rendering = Rendering::new(harness.shows());
        let mut out: Vec<_> = lines.lines().flat_map(|line| rendering.line(line)).collect();
        out.extend(rendering.end());
        out
    }

    /// Recorded from the real ones, without what is long.
    #[test]
    fn a_turn_of_each_shipped_harness_is_shown_with_its_tools_and_words() {
        let codex = include_str!("../../../tests/fixtures/turns/codex.jsonl");
        let command =
            "◆ command_execution /bin/bash -lc 'gh issue comment 1 --body hello; echo out'";
        let not_found = "/bin/bash: line 1: gh: command not found";
        assert_eq!(
            shown("codex", codex),
            [
                "✗ Model metadata for `mock-model` not found. Defaulting to fallback metadata; \
                 this can degrade performance and cause issues.",
                command,
                &format!("  ⎿ {not_found}"),
                "  │ out",
                "● one two three four",
            ]
        );
        assert_eq!(
            shown("gemini", include_str!("../../../tests/fixtures/turns/gemini.jsonl")),
            [
                "◆ run_shell_command gh issue comment 1 --body hello; echo out",
                "  ⎿ out",
                "  │ /usr/bin/bash: line 4: gh: command not found",
                "● one two three four",
            ]
        );
        assert_eq!(
            shown("copilot", include_str!("../../../tests/fixtures/turns/copilot.jsonl")),
            [
                "◆ bash gh issue comment 1 --body hello; echo out",
                &format!("  ⎿ {not_found}"),
                "  │ out",
                "  │ <shellId: 0 completed with exit code 0>",
                "● one two three four",
            ]
        );
        assert_eq!(
            shown("opencode", include_str!("../../../tests/fixtures/turns/opencode.jsonl")),
            [
                "◆ bash gh issue comment 1 --body hello; echo out",
                "  ⎿ /usr/bin/bash: line 1: gh: command not found",
                "  │ out",
                "● one two three four",
            ]
        );
    }

    #[test]
    fn what_no_rule_is_about_is_shown_as_it_is_and_steers_no_terminal() {
        assert_eq!(shown("codex", "{\"type\":\"new\"}"), ["{\"type\":\"new\"}"]);
        assert_eq!(shown("codex", "plain \u{1b}[2J"), [r"plain \x1b[2J"]);
        let part = r#"{"type":"message","role":"assistant","content":"a ","delta":true}"#;
        assert_eq!(
            shown("gemini", &format!("{part}\n{part}\nnoise\n{part}")),
            ["● a a", "noise", "● a"]
        );
        let failed = r#"{"type":"turn.failed","error":{"message":"no \u001b model"}}"#;
        assert_eq!(shown("codex", failed), [r"✗ no \x1b model"]);
        let mut none = Rendering::new(Some(Vec::new()));
        assert_eq!(none.line("{\"type\":\"assistant\"}"), ["{\"type\":\"assistant\"}"]);
    }
}
