//! The demo agent without a terminal: one prompt on standard input, one result
//! on standard output, in the form of Claude Code's `--output-format`.

use std::io::{self, Read as _, Write as _};

use serde_json::{Value, json};

use super::Options;
use crate::state::spool;

/// The longest prompt that it reads.
const MAX_PROMPT: u64 = 32 << 20;

/// Answers the prompt on standard input.
pub fn answer(options: &Options, stream: bool) -> io::Result<()> {
    let signal = |mut signal: Value| {
        signal["session_id"] = json!(options.session_id);
        signal["cwd"] = json!(options.cwd);
        options.spool.as_ref().map_or(Ok(()), |dir| spool::write(dir, &signal).map(drop))
    };
    let mut prompt = String::new();
    io::stdin().lock().take(MAX_PROMPT).read_to_string(&mut prompt)?;
    let source = if options.resume { "resume" } else { "startup" };
    signal(json!({ "hook_event_name": "SessionStart", "source": source }))?;
    signal(json!({ "hook_event_name": "UserPromptSubmit", "prompt": prompt }))?;
    let lines = prompt.lines().count();
    let said = format!("You said {lines} lines. I am only a demo, so I leave it at that.");
    let mut out = io::stdout().lock();
    if stream {
        let content = json!([{ "type": "text", "text": said }]);
        writeln!(out, "{}", json!({ "type": "assistant", "message": { "content": content } }))?;
    }
    signal(json!({ "hook_event_name": "Stop", "last_assistant_message": said }))?;
    signal(json!({ "hook_event_name": "SessionEnd", "reason": "other" }))?;
    writeln!(
        out,
        "{}",
        json!({ "type": "result", "subtype": "success", "is_error": false, "result": said,
            "session_id": options.session_id, "duration_ms": 0, "total_cost_usd": 0.0 })
    )
}
