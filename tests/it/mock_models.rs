//! The other model APIs that the stand-in of `mock_api` speaks: what Codex,
//! Copilot, opencode and Gemini ask.

use std::time::Duration;

use serde_json::{Value, json};

/// One event of a stream: its name, its data, and the wait before it.
pub type Event = (Option<&'static str>, String, Duration);

/// What a request to one of these APIs is answered with.
pub enum Answer {
    Stream(Vec<Event>),
    Whole(Value),
}

/// The conversation that a request brings, as text.
pub fn conversation(request: &Value) -> String {
    let parts = ["input", "messages", "contents"].iter().find_map(|key| request.get(key));
    parts.map(ToString::to_string).unwrap_or_default()
}

/// The answer, where the path is one of these APIs'.
pub fn answer(path: &str, request: &Value) -> Option<Answer> {
    let turn = Turn::of(request);
    if path.ends_with("/responses") {
        return Some(Answer::Stream(responses(&turn, request)));
    }
    if path.ends_with("/chat/completions") {
        return Some(completions(&turn, request));
    }
    if path.contains(":streamGenerateContent") {
        return Some(Answer::Stream(gemini(&turn)));
    }
    if path.contains(":countTokens") {
        return Some(Answer::Whole(json!({ "totalTokens": 1 })));
    }
    if path.contains(":generateContent") {
        // Which model is to be asked.
        let text = json!({ "reasoning": "x", "model_choice": "flash" }).to_string();
        return Some(Answer::Whole(candidate(&json!([{ "text": text }]), true)));
    }
    None
}

/// What the words of the last prompt ask for.
struct Turn {
    slow: Duration,
    bash: Option<String>,
}

impl Turn {
    fn of(request: &Value) -> Self {
        let all = conversation(request);
        let has_tools = request["tools"].as_array().is_some_and(|tools| !tools.is_empty());
        // What the result of a tool follows has been called already.
        let results = ["function_call_output", "\"role\":\"tool\"", "functionResponse"];
        let called = results.iter().filter_map(|sign| all.rfind(sign)).max().unwrap_or(0);
        let word = |name: &str| {
            let sign = format!("{{{{{name}=");
            let at = all.rfind(&sign)?;
            Some((at, all[at + sign.len()..].split_once("}}")?.0.to_owned()))
        };
        let slow = word("slow").and_then(|(_, ms)| ms.parse().ok()).unwrap_or(20);
        let bash = word("bash").filter(|(at, _)| *at > called && has_tools);
        Self { slow: Duration::from_millis(slow), bash: bash.map(|(_, command)| command) }
    }
}

fn responses(turn: &Turn, request: &Value) -> Vec<Event> {
    let at_once = Duration::ZERO;
    let event = |name: &'static str, mut data: Value, wait| {
        data["type"] = json!(name);
        (Some(name), data.to_string(), wait)
    };
    let mut events = vec![event("response.created", json!({ "response": { "id": "r" } }), at_once)];
    let item = if let Some(command) = &turn.bash {
        let names: Vec<_> =
            request["tools"].as_array().into_iter().flatten().map(|tool| &tool["name"]).collect();
        let (name, key) = if names.contains(&&json!("exec_command")) {
            ("exec_command", "cmd")
        } else {
            ("shell_command", "command")
        };
        let arguments = json!({ key: command, "sandbox_permissions": "require_escalated",
            "justification": "because" });
        json!({ "type": "function_call", "id": "f", "call_id": "c", "name": name,
            "arguments": arguments.to_string() })
    } else {
        let item = json!({ "type": "message", "id": "m", "role": "assistant", "content": [] });
        events.push(event(
            "response.output_item.added",
            json!({ "output_index": 0, "item": item }),
            at_once,
        ));
        for word in ["one ", "two ", "three ", "four"] {
            let delta =
                json!({ "item_id": "m", "output_index": 0, "content_index": 0, "delta": word });
            events.push(event("response.output_text.delta", delta, turn.slow / 4));
        }
        json!({ "type": "message", "id": "m", "role": "assistant",
            "content": [{ "type": "output_text", "text": "one two three four" }] })
    };
    events.push(event(
        "response.output_item.done",
        json!({ "output_index": 0, "item": item }),
        at_once,
    ));
    let usage = json!({ "input_tokens": 1, "input_tokens_details": null, "output_tokens": 1,
        "output_tokens_details": null, "total_tokens": 2 });
    events.push(event(
        "response.completed",
        json!({ "response": { "id": "r", "usage": usage } }),
        at_once,
    ));
    events
}

fn completions(turn: &Turn, request: &Value) -> Answer {
    let usage = json!({ "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2 });
    if request["stream"] != true {
        let choice = json!({ "index": 0, "message": { "role": "assistant", "content": "ok" },
            "finish_reason": "stop" });
        return Answer::Whole(json!({ "id": "c", "object": "chat.completion", "created": 1,
            "model": request["model"], "choices": [choice], "usage": usage }));
    }
    let chunk = |delta: Value, end: Option<&str>, wait| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": end });
        let mut data = json!({ "id": "c", "object": "chat.completion.chunk", "created": 1,
            "model": request["model"], "choices": [choice] });
        if end.is_some() {
            data["usage"] = usage.clone();
        }
        (None, data.to_string(), wait)
    };
    let mut events = Vec::new();
    if let Some(command) = &turn.bash {
        let arguments = json!({ "command": command, "description": "x" }).to_string();
        let call = json!({ "index": 0, "id": "call_1", "type": "function",
            "function": { "name": "bash", "arguments": arguments } });
        events.push(chunk(
            json!({ "role": "assistant", "tool_calls": [call] }),
            None,
            Duration::ZERO,
        ));
        events.push(chunk(json!({}), Some("tool_calls"), Duration::ZERO));
    } else {
        for word in ["one ", "two ", "three ", "four"] {
            events.push(chunk(
                json!({ "role": "assistant", "content": word }),
                None,
                turn.slow / 4,
            ));
        }
        events.push(chunk(json!({}), Some("stop"), Duration::ZERO));
    }
    events.push((None, "[DONE]".to_owned(), Duration::ZERO));
    Answer::Stream(events)
}

fn candidate(parts: &Value, is_last: bool) -> Value {
    let mut candidate = json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
    if is_last {
        candidate["finishReason"] = json!("STOP");
    }
    let usage = json!({ "promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2 });
    json!({ "candidates": [candidate], "usageMetadata": usage })
}

fn gemini(turn: &Turn) -> Vec<Event> {
    if let Some(command) = &turn.bash {
        let call = json!({ "name": "run_shell_command",
            "args": { "command": command, "description": "x" } });
        let whole = candidate(&json!([{ "functionCall": call }]), true);
        return vec![(None, whole.to_string(), Duration::ZERO)];
    }
    let words = ["one ", "two ", "three ", "four"];
    let events = words.into_iter().map(|word| {
        let part = candidate(&json!([{ "text": word }]), word == "four");
        (None, part.to_string(), turn.slow / 4)
    });
    events.collect()
}
