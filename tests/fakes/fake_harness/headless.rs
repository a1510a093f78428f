//! The fake's headless form: one turn whose prompt comes on standard input, with
//! every way in which such a turn can end.

use std::io::{self, Read as _, Write as _};
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::Fake;
use crate::records::uuid;
use crate::script::Mode;
use crate::streams::print;

impl Fake {
    /// One turn whose prompt comes on standard input.
    pub(crate) fn headless(&mut self) {
        let mut prompt = String::new();
        io::stdin().read_to_string(&mut prompt).unwrap();
        let source = if self.args.resume { "resume" } else { "startup" };
        self.hook("SessionStart", json!({ "source": source, "model": "fake" }));
        std::thread::sleep(self.script.millis(self.script.start_ms, Mode::SlowStart, 2000, 0));
        self.note(&json!({ "prompt": prompt, "headless": true, "session": self.args.session }));
        self.hook("UserPromptSubmit", json!({ "prompt": prompt }));
        let uuid = uuid();
        let parent = self.head.replace(uuid.clone());
        self.record(&json!({
            "parentUuid": parent, "isSidechain": false, "userType": "external", "type": "user",
            "message": { "role": "user", "content": prompt }, "uuid": uuid,
        }));
        let session = &self.args.session;
        if self.args.stream {
            println!("{}", json!({ "type": "system", "subtype": "init", "session_id": session }));
            let said = json!([{ "type": "text", "text": "On it.\u{1b}[2J" },
                { "type": "tool_use", "name": "Bash", "input": { "command": "ls -l" } }]);
            println!("{}", json!({ "type": "assistant", "message": { "content": said } }));
            let result = json!([{ "type": "tool_result", "content": "total 0" }]);
            println!("{}", json!({ "type": "user", "message": { "content": result } }));
        }
        while self.script.ends_at.as_ref().is_some_and(|path| !path.exists()) {
            std::thread::sleep(Duration::from_millis(10));
        }
        match self.script.mode {
            Mode::NeverEnds => {
                let mut trap = Command::new("/bin/sh");
                trap.args(["-c", "trap '' TERM; while :; do sleep 1; done"]);
                let _ = trap.status();
                std::thread::sleep(Duration::from_hours(1));
            }
            Mode::Huge => {
                let line = format!("{}\n", "x".repeat(999));
                for _ in 0..100_000 {
                    io::stdout().write_all(line.as_bytes()).unwrap();
                }
            }
            Mode::CutJson => {
                print("{\"type\":\"result\",\"subtype\":\"succ");
                std::process::exit(0);
            }
            Mode::FailedTurn => {
                let session = &self.args.session;
                println!(
                    "{}",
                    json!({
                        "type": "result", "subtype": "success", "is_error": true,
                        "result": "API Error: Overloaded", "session_id": session,
                    })
                );
                std::process::exit(1);
            }
            Mode::ExitAfter => std::process::exit(self.script.exit_code.unwrap_or(1)),
            Mode::KilledAfter => {
                let own = rustix::process::getpid();
                rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
            }
            Mode::LeavesChild => {
                let left = "trap 'echo bye > left; exit' TERM; echo here > left; \
                            while :; do sleep 0.02; done";
                let left = Command::new("/bin/sh").args(["-c", left]).spawn().unwrap();
                while std::fs::read_to_string("left").unwrap_or_default() != "here\n" {
                    std::thread::sleep(Duration::from_millis(5));
                }
                // It is nobody's: this program ends before it.
                std::mem::forget(left);
            }
            _ => {}
        }
        std::thread::sleep(self.script.millis(self.script.turn_ms, Mode::Busy, 2000, 50));
        self.record(&json!({
            "type": "assistant", "message": { "role": "assistant",
            "content": [{ "type": "text", "text": "done" }] },
        }));
        self.hook("Stop", json!({ "stop_hook_active": false, "last_assistant_message": "done" }));
        self.hook("SessionEnd", json!({ "reason": "other" }));
        let session = self.script.says_session.as_ref().unwrap_or(&self.args.session);
        let cost = self.script.says_cost.unwrap_or(0.0125);
        println!(
            "{}",
            json!({
                "type": "result", "subtype": "success", "is_error": false, "duration_ms": 1234,
                "num_turns": 1, "result": "done", "session_id": session, "total_cost_usd": cost,
            })
        );
    }
}
