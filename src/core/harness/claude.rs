//! Claude Code as a harness: how it is started, what its hooks, its transcript
//! and its screen say.
//!
//! Everything goes through the command line of the one start (`--settings`
//! inline): no file of the user is read or written.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{
    AgentStatus, DeliverProfile, HarnessAdapter, OneShotSpec, Program, Signal, Source, StartPlan,
    StartSpec, hooks, status,
};
use crate::base::ids::{HarnessSessionId, Marker};
use crate::core::config::{HarnessName, SubmitKey};
use crate::core::inject::screen::{Reading, Screen};

pub(super) mod screen;

/// The hooks that we listen to. The user's own run beside them.
const HOOKS: [&str; 8] = [
    "SessionStart",
    "UserPromptSubmit",
    "Stop",
    "StopFailure",
    // Says nothing: a tool waits here while a submit key is under way, so that its
    // dialog does not open between our last look and the key.
    "PreToolUse",
    "PermissionRequest",
    "Notification",
    "SessionEnd",
];

/// Arguments that decide about permissions, so that ours would be in the way.
const PERMISSION_ARGS: [&str; 3] =
    ["--permission-mode", "--dangerously-skip-permissions", "--allow-dangerously-skip-permissions"];

/// Claude Code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claude;

impl HarnessAdapter for Claude {
    fn name(&self) -> HarnessName {
        HarnessName::Claude
    }

    fn program(&self) -> Program {
        Program::Known("claude")
    }

    fn start(&self, spec: &StartSpec<'_>) -> StartPlan {
        let identity = if spec.resume { "--resume" } else { "--session-id" };
        let mut args = vec![identity.to_owned(), spec.session_id.as_str().to_owned()];
        if !spec.extra_args.iter().any(|arg| decides_permissions(arg)) {
            // Newer versions run tools without asking unless they are told to ask.
            args.extend(["--permission-mode", "default"].map(str::to_owned));
        }
        args.extend(["--settings".to_owned(), settings(spec.hook_command)]);
        args.extend(spec.extra_args.iter().cloned());
        StartPlan {
            args,
            // A left arrow in an empty box opens the agents' view: typing there
            // starts a new background session, with a daemon that outlives tmux.
            env: vec![("CLAUDE_CODE_DISABLE_AGENT_VIEW".to_owned(), "1".to_owned())],
        }
    }

    fn oneshot(&self, spec: &OneShotSpec<'_>) -> StartPlan {
        let form = if spec.stream {
            ["-p", "--output-format", "stream-json", "--verbose"].as_slice()
        } else {
            ["-p", "--output-format", "json"].as_slice()
        };
        let StartPlan { args, env } = self.start(&spec.start);
        StartPlan { args: form.iter().map(|arg| (*arg).to_owned()).chain(args).collect(), env }
    }

    fn refuses_resume(&self, said: &str) -> bool {
        said.contains("No conversation found")
    }

    fn refuses_start(&self, said: &str) -> bool {
        said.contains("is already in use")
    }

    /// It takes UUIDs only.
    fn may_call(&self, conversation: &HarnessSessionId) -> bool {
        conversation.is_uuid()
    }

    fn read_screen(&self, screen: &Screen<'_>) -> Reading {
        screen::read(screen)
    }

    /// The figures of the measured protocol: the first submit key sufficed
    /// whenever the text had been seen in the box before.
    fn profile(&self) -> DeliverProfile {
        DeliverProfile {
            submit: SubmitKey::Enter,
            submit_gap: Duration::from_millis(80),
            submit_retries: 5,
            retry_gap: Duration::from_millis(800),
            ack_timeout: Duration::from_secs(5),
            gives_proof: true,
            stashes: true,
            settles_within: Duration::ZERO,
            ready_by_screen: false,
        }
    }

    fn signal_of(&self, raw: &Value) -> Option<Signal> {
        hooks::signal_of(raw)
    }

    fn source_of(&self, raw: &Value) -> Source {
        hooks::source_of(raw)
    }

    fn status_file(&self, home: &Path, pid: u32) -> Option<PathBuf> {
        Some(status::file(home, pid))
    }

    fn status_of(
        &self,
        raw: &Value,
        pid: u32,
        conversation: &HarnessSessionId,
    ) -> Option<AgentStatus> {
        status::read(raw, pid, conversation)
    }

    /// A user record, or a prompt that a running turn took up. What a tool printed,
    /// what a sub-agent was asked and what the model said is no proof: our text can
    /// stand there without having been taken. Nor is one that was put into the queue.
    fn transcript_has(&self, transcript_line: &str, marker: &Marker) -> bool {
        if !transcript_line.contains(marker.as_str()) {
            return false;
        }
        let Ok(record) = serde_json::from_str::<Value>(transcript_line) else { return false };
        let is = |key: &str, value: &str| record.get(key).and_then(Value::as_str) == Some(value);
        let is_set = |key: &str| record.get(key).and_then(Value::as_bool) == Some(true);
        let has = |value: Option<&Value>| value.is_some_and(|value| prompt_has(value, marker));
        if is_set("isSidechain") || is_set("isMeta") {
            false
        } else if is("type", "user") {
            has(record.pointer("/message/content"))
        } else if is("type", "attachment") {
            record.pointer("/attachment/type").and_then(Value::as_str) == Some("queued_command")
                && has(record.pointer("/attachment/prompt"))
        } else {
            false
        }
    }

    fn transcript_queues(&self, transcript_line: &str, marker: &Marker) -> bool {
        transcript_line.contains(marker.as_str()) && queues(transcript_line, marker)
    }
}

/// Whether a record of the transcript says that a prompt was put into the queue.
fn queues(transcript_line: &str, marker: &Marker) -> bool {
    let Ok(record) = serde_json::from_str::<Value>(transcript_line) else { return false };
    let is = |key: &str, value: &str| record.get(key).and_then(Value::as_str) == Some(value);
    is("type", "queue-operation")
        && is("operation", "enqueue")
        && record.get("content").is_some_and(|prompt| prompt_has(prompt, marker))
}

/// Whether a prompt, as text or as blocks, has the marker in a text of its own.
fn prompt_has(content: &Value, marker: &Marker) -> bool {
    match content {
        Value::String(text) => text.contains(marker.as_str()),
        Value::Array(blocks) => blocks.iter().any(|block| {
            block.get("type").and_then(Value::as_str) == Some("text")
                && block
                    .get("text")
                    .and_then(Value::as_str)
                    .is_some_and(|text| text.contains(marker.as_str()))
        }),
        _ => false,
    }
}

fn decides_permissions(arg: &str) -> bool {
    let name = arg.split_once('=').map_or(arg, |(name, _)| name);
    PERMISSION_ARGS.contains(&name)
}

fn settings(hook_command: &str) -> String {
    let run = json!([{ "hooks": [{ "type": "command", "command": hook_command }] }]);
    let hooks: Map<String, Value> =
        HOOKS.iter().map(|hook| ((*hook).to_owned(), run.clone())).collect();
    json!({ "hooks": hooks }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(resume: bool, extra: &[&str]) -> StartPlan {
        let session_id = "0d4f3c8e-6d6c-4d6e-9d9a-1f2e3d4c5b6a".parse().unwrap();
        let extra_args: Vec<_> = extra.iter().map(ToString::to_string).collect();
        Claude.start(&StartSpec {
            session_id: &session_id,
            resume,
            hook_command: "'/opt/the loop/the-loop' hook",
            extra_args: &extra_args,
            cwd: Path::new("/work"),
            trusted: true,
            version: None,
        })
    }

    #[test]
    fn a_start_names_the_conversation_and_asks_for_permission() {
        let plan = start(false, &["--model", "opus"]);
        assert_eq!(plan.args[..2], ["--session-id", "0d4f3c8e-6d6c-4d6e-9d9a-1f2e3d4c5b6a"]);
        assert_eq!(plan.args[2..5], ["--permission-mode", "default", "--settings"]);
        assert_eq!(plan.args[6..], ["--model", "opus"]);
        let settings: Value = serde_json::from_str(&plan.args[5]).unwrap();
        for hook in HOOKS {
            assert_eq!(
                settings["hooks"][hook][0]["hooks"][0]["command"], "'/opt/the loop/the-loop' hook",
                "{hook}"
            );
        }
        assert!(plan.env.contains(&("CLAUDE_CODE_DISABLE_AGENT_VIEW".into(), "1".into())));
    }

    #[test]
    fn a_chosen_permission_mode_is_left_alone() {
        for extra in [
            &["--permission-mode", "plan"][..],
            &["--permission-mode=plan"],
            &["--dangerously-skip-permissions"],
        ] {
            let plan = start(true, extra);
            assert_eq!(plan.args[0], "--resume");
            assert!(!plan.args.contains(&"default".to_owned()), "{:?}", plan.args);
        }
    }

    #[test]
    fn only_a_prompt_that_was_taken_is_proof() {
        let marker = Marker::new([7; 16]);
        let text = format!("[event {marker}] hello");
        for (record, proof) in [
            (json!({"type": "user", "message": {"role": "user", "content": text}}), true),
            (
                json!({"type": "user", "message": {"content": [{"type": "text", "text": text}]}}),
                true,
            ),
            (json!({"type": "queue-operation", "operation": "enqueue", "content": text}), false),
            (json!({"type": "queue-operation", "operation": "remove", "content": text}), false),
            (
                json!({"type": "attachment",
                       "attachment": {"type": "queued_command", "prompt": text}}),
                true,
            ),
            (
                json!({"type": "user", "message": {"content":
                       [{"type": "tool_result", "content": text}]}, "toolUseResult": text}),
                false,
            ),
            (json!({"type": "user", "isSidechain": true, "message": {"content": text}}), false),
            (
                json!({"type": "assistant", "message": {"content":
                       [{"type": "text", "text": text}]}}),
                false,
            ),
            (json!({"type": "user", "message": {"content": "another"}}), false),
        ] {
            assert_eq!(Claude.transcript_has(&record.to_string(), &marker), proof, "{record}");
        }
        assert!(!Claude.transcript_has(&format!("{{\"type\":\"user\" {marker}"), &marker));
        for (operation, is_queued) in [("enqueue", true), ("remove", false), ("dequeue", false)] {
            let record =
                json!({"type": "queue-operation", "operation": operation, "content": text});
            assert_eq!(Claude.transcript_queues(&record.to_string(), &marker), is_queued);
        }
    }
}
