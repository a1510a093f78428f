//! What the agents print in a turn without a terminal, and write in their own
//! records of one: in the forms that were recorded from the real ones.

use serde_json::{Value, json};

use crate::args::Kind;

/// What posts the comment of a turn.
const POST: &str = "gh issue comment 1 --body 'I have done it all now.'";

/// A turn's record in the agent's own file, where it posts a comment.
pub(crate) fn record(kind: Kind) -> Option<Value> {
    let now = jiff::Timestamp::now().to_string();
    Some(match kind {
        Kind::Codex => json!({ "timestamp": now, "type": "response_item", "payload": {
            "type": "function_call", "name": "exec_command",
            "arguments": json!({ "cmd": POST }).to_string() } }),
        Kind::Gemini => json!({ "timestamp": now, "type": "gemini", "content": "", "toolCalls": [
            { "name": "run_shell_command", "args": { "command": POST }, "result": [] }] }),
        Kind::Copilot => json!({ "timestamp": now, "type": "tool.execution_start",
            "data": { "toolName": "bash", "arguments": { "command": POST } } }),
        Kind::Opencode | Kind::Cursor => return None,
    })
}

/// What a turn prints.
pub(crate) fn turn(kind: Kind, id: &str, posts: bool) -> Vec<Value> {
    match kind {
        Kind::Codex => {
            let item = json!({ "type": "agent_message", "text": "done" });
            vec![
                json!({ "type": "item.completed", "item": item }),
                json!({ "type": "turn.completed", "usage": {} }),
            ]
        }
        Kind::Gemini => {
            let part = |text: &str| json!({ "type": "message", "role": "assistant", "content": text, "delta": true });
            vec![
                json!({ "type": "init", "session_id": id, "model": "m" }),
                part("do"),
                part("ne"),
                json!({ "type": "result", "status": "success", "stats": {} }),
            ]
        }
        Kind::Copilot => vec![
            json!({ "type": "assistant.message", "data": { "content": "done" } }),
            json!({ "type": "result", "sessionId": id, "exitCode": 0 }),
        ],
        Kind::Opencode => {
            let now = jiff::Timestamp::now().as_millisecond();
            let record = |kind: &str, part: Value| json!({ "type": kind, "timestamp": now, "sessionID": id, "part": part });
            let state = json!({ "input": { "command": POST }, "output": "" });
            let call = json!({ "type": "tool", "tool": "bash", "state": state });
            let call = posts.then(|| record("tool_use", call));
            let said = record("text", json!({ "type": "text", "text": "done" }));
            let end = json!({ "type": "step-finish", "reason": "stop", "cost": 0 });
            call.into_iter().chain([said, record("step_finish", end)]).collect()
        }
        Kind::Cursor => vec![json!({ "type": "result", "subtype": "success", "is_error": false,
            "duration_ms": 5, "result": "done", "session_id": id })],
    }
}
