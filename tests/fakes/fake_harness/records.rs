//! What it tells of itself: hooks, its transcript, and notes for the test.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::Fake;
use crate::script::Mode;
use crate::streams::append;

/// The id of the last prompt in a transcript.
pub(crate) fn last_uuid(transcript: &Path) -> Option<String> {
    let text = fs::read_to_string(transcript).ok()?;
    text.lines().rev().find_map(|line| {
        let record: Value = serde_json::from_str(line).ok()?;
        Some(record["uuid"].as_str()?.to_owned())
    })
}

pub(crate) fn uuid() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    format!("{:x}-{}-fake", now.as_nanos(), std::process::id())
}

impl Fake {
    /// Runs the commands of a hook as Claude does: through a shell, with the
    /// event on standard input.
    pub(crate) fn hook(&self, name: &str, event: Value) {
        let is_silent = self.script.mode == Mode::Mute || self.script.no_hook;
        if is_silent && name == "UserPromptSubmit" {
            return;
        }
        for child in self.hook_children(name, event) {
            let output = child.wait_with_output().unwrap();
            if !output.status.success() || !output.stdout.is_empty() || !output.stderr.is_empty() {
                self.note(&json!({ "hook": name, "status": output.status.code(),
                    "said": String::from_utf8_lossy(&[output.stdout, output.stderr].concat()) }));
            }
        }
    }

    /// The commands of a hook, begun and told what happened.
    pub(crate) fn hook_children(&self, name: &str, mut event: Value) -> Vec<std::process::Child> {
        event["hook_event_name"] = json!(name);
        event["session_id"] = json!(self.args.session);
        event["transcript_path"] = json!(self.transcript);
        event["cwd"] = json!(std::env::current_dir().unwrap());
        event["permission_mode"] = json!(self.args.permission_mode);
        let groups = self.args.settings["hooks"][name].as_array().into_iter().flatten();
        let hooks = groups.flat_map(|group| group["hooks"].as_array().into_iter().flatten());
        let begun = hooks.map(|hook| {
            let mut child = Command::new("/bin/sh")
                .args(["-c", hook["command"].as_str().unwrap()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let _ = child.stdin.take().unwrap().write_all(event.to_string().as_bytes());
            child
        });
        begun.collect()
    }

    pub(crate) fn record(&self, record: &Value) {
        if self.script.mode != Mode::Mute && !self.script.no_transcript {
            fs::create_dir_all(self.transcript.parent().unwrap()).unwrap();
            let mut record = record.clone();
            record["sessionId"] = json!(self.args.session);
            append(&self.transcript, &record);
        }
    }

    pub(crate) fn log(&self, entry: &Value) {
        self.stamped(self.log.as_deref(), entry);
    }

    pub(crate) fn note(&self, entry: &Value) {
        self.stamped(self.prompts.as_deref(), entry);
    }

    pub(crate) fn stamped(&self, path: Option<&Path>, entry: &Value) {
        let Some(path) = path else { return };
        let mut entry = entry.clone();
        entry["t"] = json!(self.start.elapsed().as_secs_f64());
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        entry["wall"] = json!(wall.as_secs_f64());
        append(path, &entry);
    }
}
