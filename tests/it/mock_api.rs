//! A stand-in for the Messages API, on loopback: what a real Claude Code needs
//! to have turns, and a record of what it was asked.
//!
//! Words in a prompt steer the turn: `{{slow=MS}}` streams it for that long,
//! `{{bash=COMMAND}}` answers with a call of the Bash tool, `{{wait=MS}}` so much later.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::mock_models::{self, Answer, Event};

/// The mock; it ends when this is dropped.
pub struct MockApi {
    pub url: String,
    requests: Arc<Mutex<Vec<Value>>>,
    _stop: DropGuard,
}

impl MockApi {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<Value>>> = Arc::default();
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        let (seen, stopped, inner) = (Arc::clone(&requests), stop.clone(), tasks.clone());
        tasks.spawn(async move {
            loop {
                let stream = tokio::select! {
                    () = stopped.cancelled() => return,
                    accepted = listener.accept() => accepted.unwrap().0,
                };
                let (seen, stopped) = (Arc::clone(&seen), stopped.clone());
                inner.spawn(async move {
                    tokio::select! {
                        () = stopped.cancelled() => {}
                        // A client that goes away in the middle is its own affair.
                        _ = answer(stream, &seen) => {}
                    }
                });
            }
        });
        Self { url, requests, _stop: stop.drop_guard() }
    }

    /// The texts of people in the last request of the conversation, in order.
    pub fn told(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        let Some(last) = requests.iter().rfind(|request| is_main(request)) else {
            return Vec::new();
        };
        let users = last["messages"].as_array().unwrap();
        users.iter().filter(|message| message["role"] != "assistant").flat_map(texts).collect()
    }
}

impl MockApi {
    /// The whole of the last request of the conversation, as text.
    pub fn conversation(&self) -> String {
        let requests = self.requests.lock().unwrap();
        let last = requests.iter().rfind(|request| is_main(request));
        last.map(mock_models::conversation).unwrap_or_default()
    }
}

/// Requests for titles and the like bring no tools.
fn is_main(request: &Value) -> bool {
    request["tools"].as_array().is_some_and(|tools| !tools.is_empty())
}

fn texts(message: &Value) -> Vec<String> {
    match &message["content"] {
        Value::String(text) => vec![text.clone()],
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| Some(block["text"].as_str()?.to_owned())).collect()
        }
        _ => Vec::new(),
    }
}

async fn answer(stream: TcpStream, seen: &Mutex<Vec<Value>>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let length = head
        .lines()
        .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await?;
    let request: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let mut words = head.split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let plain = match (method, path.split('?').next().unwrap()) {
        ("POST", "/v1/messages") => None,
        ("POST", path) if path.ends_with("/responses") || path.ends_with("/completions") => None,
        ("POST", path) if path.contains("GenerateContent") || path.contains(":count") => None,
        ("POST", path) if path.contains(":generateContent") => None,
        ("POST", "/v1/messages/count_tokens") => Some(json!({ "input_tokens": 10 })),
        _ => Some(json!({ "data": [], "has_more": false })),
    };
    if let Some(value) = plain {
        return reply(&mut stream, &value).await;
    }
    seen.lock().unwrap().push(request.clone());
    match mock_models::answer(path, &request) {
        Some(Answer::Whole(value)) => return reply(&mut stream, &value).await,
        Some(Answer::Stream(events)) => return play(&mut stream, events).await,
        None => {}
    }
    let (block, slow) = turn(&request);
    let stop = if block["type"] == "tool_use" { "tool_use" } else { "end_turn" };
    let usage = json!({ "input_tokens": 10, "output_tokens": 5 });
    let mut message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": request["model"],
        "content": [block], "stop_reason": stop, "stop_sequence": null, "usage": usage,
    });
    if request["stream"] != true {
        return reply(&mut stream, &message).await;
    }
    stream
        .write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
        )
        .await?;
    message["content"] = json!([]);
    message["stop_reason"] = Value::Null;
    event(&mut stream, json!({ "type": "message_start", "message": message })).await?;
    if block["type"] == "tool_use" {
        tokio::time::sleep(slow).await;
        let mut empty = block.clone();
        empty["input"] = json!({});
        let input = block["input"].to_string();
        event(
            &mut stream,
            json!({ "type": "content_block_start", "index": 0, "content_block": empty }),
        )
        .await?;
        let delta = json!({ "type": "input_json_delta", "partial_json": input });
        event(&mut stream, json!({ "type": "content_block_delta", "index": 0, "delta": delta }))
            .await?;
    } else {
        let empty = json!({ "type": "text", "text": "" });
        event(
            &mut stream,
            json!({ "type": "content_block_start", "index": 0, "content_block": empty }),
        )
        .await?;
        for word in ["one ", "two ", "three ", "four "] {
            tokio::time::sleep(slow / 4).await;
            let delta = json!({ "type": "text_delta", "text": word });
            event(
                &mut stream,
                json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
            )
            .await?;
        }
    }
    event(&mut stream, json!({ "type": "content_block_stop", "index": 0 })).await?;
    let delta = json!({ "stop_reason": stop, "stop_sequence": null });
    event(&mut stream, json!({ "type": "message_delta", "delta": delta, "usage": usage })).await?;
    event(&mut stream, json!({ "type": "message_stop" })).await?;
    stream.shutdown().await
}

/// What a request is answered with, and for how long.
fn turn(request: &Value) -> (Value, Duration) {
    let text = json!({ "type": "text", "text": "ok" });
    let short = Duration::from_millis(20);
    // An agent reminds itself of things behind what it was told.
    let is_told = |message: &&Value| message["role"] != "system";
    let last = request["messages"].as_array().and_then(|all| all.iter().rfind(is_told));
    let Some(last) = last.filter(|_| is_main(request)) else { return (text, short) };
    // What was interrupted before comes along in the same message.
    let texts = texts(last);
    let newest = texts.iter().rev().find(|text| text.contains("[the-loop event "));
    let prompt = newest.or(texts.last()).cloned().unwrap_or_default();
    let word = |name: &str| {
        let (_, rest) = prompt.split_once(&format!("{{{{{name}="))?;
        Some(rest.split_once("}}")?.0.to_owned())
    };
    let millis =
        |name: &str| word(name).map_or(short, |ms| Duration::from_millis(ms.parse().unwrap()));
    if let Some(command) = word("bash") {
        let id = format!("toolu_{:016x}", prompt.len());
        let input = json!({ "command": command, "description": "a command" });
        return (
            json!({ "type": "tool_use", "id": id, "name": "Bash", "input": input }),
            millis("wait"),
        );
    }
    (text, millis("slow"))
}

async fn play(stream: &mut BufReader<TcpStream>, events: Vec<Event>) -> std::io::Result<()> {
    stream
        .write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
        )
        .await?;
    for (name, data, wait) in events {
        tokio::time::sleep(wait).await;
        let name = name.map(|name| format!("event: {name}\n")).unwrap_or_default();
        stream.write_all(format!("{name}data: {data}\n\n").as_bytes()).await?;
        stream.flush().await?;
    }
    stream.shutdown().await
}

async fn reply(stream: &mut BufReader<TcpStream>, value: &Value) -> std::io::Result<()> {
    let body = value.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

async fn event(stream: &mut BufReader<TcpStream>, data: Value) -> std::io::Result<()> {
    let name = data["type"].as_str().unwrap();
    stream.write_all(format!("event: {name}\ndata: {data}\n\n").as_bytes()).await
}
