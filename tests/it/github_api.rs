//! A stand-in for GitHub's API, on loopback: a repository with a webhook, its
//! deliveries, and what was asked. A delivery that is asked for again it posts to
//! the receiver, as GitHub does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::support::try_post;

pub const TOKEN: &str = "gho_atokenofthetests";

/// How it behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    Fine,
    /// Every request is answered with this.
    Status(u16),
    /// The limit of requests is used up for so many seconds.
    Limited(u64),
    Garbage,
    /// No request is answered.
    Mute,
    /// The API answers, and the receiver cannot be reached.
    WayClosed,
    /// Too much is made at a time, which no header tells.
    TooMuch,
    /// What is asked is done, and no answer comes.
    Lost,
    /// The lists are answered; whoever has something sent again gets a page.
    AskedGarbage,
    /// A list of deliveries that are none.
    Useless,
}

#[derive(Debug, Clone)]
struct Delivery {
    id: u64,
    guid: String,
    event: String,
    body: Vec<u8>,
    at: Timestamp,
    code: u16,
}

#[derive(Debug)]
struct Inner {
    mood: Mood,
    receiver: Option<String>,
    deliveries: Vec<Delivery>,
    hook: Value,
    events: Value,
    page: usize,
    requests: Vec<String>,
    /// The deliveries that were asked for, in order.
    asked: Vec<String>,
    /// The comments: the number of what each stands on, and its text.
    comments: Vec<(u64, String)>,
    /// The reactions: what each stands on, and which.
    reactions: Vec<String>,
}

type Shared = Arc<Mutex<Inner>>;

/// The stand-in; it ends when this is dropped.
pub struct GithubApi {
    pub url: String,
    inner: Shared,
    _stop: DropGuard,
}

impl GithubApi {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/api", listener.local_addr().unwrap());
        let inner = Arc::new(Mutex::new(Inner {
            mood: Mood::Fine,
            receiver: None,
            deliveries: Vec::new(),
            hook: hook(&["*"]),
            events: json!([]),
            page: 7,
            requests: Vec::new(),
            asked: Vec::new(),
            comments: Vec::new(),
            reactions: Vec::new(),
        }));
        let stop = CancellationToken::new();
        let app = Router::new().fallback(answer).with_state(Arc::clone(&inner));
        let stopped = stop.clone();
        tokio_util::task::TaskTracker::new().spawn(async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                served = async { axum::serve(listener, app).await } => served.unwrap(),
            }
        });
        Self { url, inner, _stop: stop.drop_guard() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    pub fn be(&self, mood: Mood) {
        self.inner().mood = mood;
    }

    /// Where the receiver is.
    pub fn posts_to(&self, url: Option<&str>) {
        self.inner().receiver = url.map(str::to_owned);
    }

    /// A delivery so many seconds ago, which was answered with `code`.
    pub fn delivered(&self, guid: &str, event: &str, body: &Value, ago: i64, code: u16) {
        let mut inner = self.inner();
        let id = 9_000_000_000 + inner.deliveries.len() as u64;
        let at = Timestamp::now() - SignedDuration::from_secs(ago);
        let body = serde_json::to_vec(body).unwrap();
        let (guid, event) = (guid.to_owned(), event.to_owned());
        inner.deliveries.push(Delivery { id, guid, event, body, at, code });
    }

    pub fn has_hook(&self, hook: Value) {
        self.inner().hook = hook;
    }

    /// What happened in the repository.
    pub fn has_events(&self, events: Value) {
        self.inner().events = events;
    }

    /// The deliveries that were asked for, in order.
    pub fn asked(&self) -> Vec<String> {
        self.inner().asked.clone()
    }

    /// The comments: the number of what each stands on, and its text.
    pub fn comments(&self) -> Vec<(u64, String)> {
        self.inner().comments.clone()
    }

    /// So many comments of others.
    pub fn others_comment(&self, number: u64, count: usize) {
        let all = std::iter::repeat_n((number, "word".to_owned()), count);
        self.inner().comments.extend(all);
    }

    /// The reactions, as `issues/1 eyes`.
    pub fn reactions(&self) -> Vec<String> {
        self.inner().reactions.clone()
    }

    pub fn requests(&self) -> Vec<String> {
        self.inner().requests.clone()
    }
}

/// The repository's webhook with these events.
pub fn hook(events: &[&str]) -> Value {
    json!({
        "type": "Repository", "id": 77, "name": "web", "active": true, "events": events,
        "config": {
            "content_type": "json", "insecure_ssl": "0", "url": "https://h.example/gh-webhook",
        },
    })
}

async fn answer(State(shared): State<Shared>, request: Request) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let authorized = request
        .headers()
        .get(header::AUTHORIZATION)
        .is_some_and(|value| value == &format!("Bearer {TOKEN}"));
    let mood = {
        let mut inner = shared.lock().unwrap();
        inner.requests.push(format!("{method} {}", uri.path()));
        inner.mood
    };
    match mood {
        Mood::Mute => std::future::pending().await,
        Mood::Status(code) => {
            let body = json!({ "message": "Server\u{1b}[31m Error" }).to_string();
            return (StatusCode::from_u16(code).unwrap(), body).into_response();
        }
        Mood::Limited(seconds) => {
            let reset = Timestamp::now().as_second() + i64::try_from(seconds).unwrap();
            let headers = [
                ("x-ratelimit-remaining", "0".to_owned()),
                ("x-ratelimit-reset", reset.to_string()),
            ];
            let body = json!({ "message": "API rate limit exceeded" }).to_string();
            return (StatusCode::FORBIDDEN, headers, body).into_response();
        }
        Mood::Garbage => return (StatusCode::OK, "<!doctype html>\u{0}").into_response(),
        Mood::TooMuch => {
            let message = "You have exceeded a secondary rate limit. Please wait a few minutes";
            return (StatusCode::FORBIDDEN, json!({ "message": message }).to_string())
                .into_response();
        }
        Mood::AskedGarbage if method == "POST" => {
            return (StatusCode::OK, "<!doctype html>").into_response();
        }
        Mood::Useless if uri.path().ends_with("/deliveries") => {
            return (StatusCode::OK, "[null, 1, {\"id\": null}]").into_response();
        }
        Mood::Fine | Mood::WayClosed | Mood::Lost | Mood::AskedGarbage | Mood::Useless => {}
    }
    if !authorized {
        return (StatusCode::UNAUTHORIZED, "{\"message\": \"Bad credentials\"}").into_response();
    }
    let path: Vec<_> = uri.path().split('/').skip(2).collect();
    if let ["repos", "o", "r", on @ .., what @ ("comments" | "reactions")] = &path[..] {
        let query = uri.query().unwrap_or_default().to_owned();
        let (on, what, is_post) = (on.join("/"), (*what).to_owned(), method == "POST");
        let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let answer = said(&shared, &on, &what, &query, is_post.then_some(&body));
        if mood == Mood::Lost {
            std::future::pending::<()>().await;
        }
        return answer;
    }
    match (method.as_str(), &path[..]) {
        ("GET", ["repos", "o", "r", "hooks"]) => {
            let hook = shared.lock().unwrap().hook.clone();
            json!([{ "id": 1, "config": { "url": "https://h.example/other" } }, hook])
                .to_string()
                .into_response()
        }
        ("GET", ["repos", "o", "r", "events"]) => {
            shared.lock().unwrap().events.to_string().into_response()
        }
        ("GET", ["repos", "o", "r", "hooks", "77", "deliveries"]) => {
            list(&shared.lock().unwrap(), uri.query().unwrap_or_default())
        }
        ("POST", ["repos", "o", "r", "hooks", "77", "deliveries", id, "attempts"]) => {
            let status = redeliver(&shared, id, mood).await;
            (status, Bytes::from_static(b"{}")).into_response()
        }
        _ => (StatusCode::NOT_FOUND, "{\"message\": \"Not Found\"}").into_response(),
    }
}

/// Makes a comment or a reaction, the latter once; or lists comments.
fn said(shared: &Shared, on: &str, what: &str, query: &str, post: Option<&Value>) -> Response {
    let mut inner = shared.lock().unwrap();
    let number = on.strip_prefix("issues/").and_then(|number| number.parse().ok());
    match (what, post) {
        ("comments", Some(body)) => {
            let text = body["body"].as_str().unwrap().to_owned();
            inner.comments.push((number.unwrap(), text));
            let made = json!({ "id": inner.comments.len() }).to_string();
            (StatusCode::CREATED, made).into_response()
        }
        ("comments", None) => {
            assert!(query.contains("per_page=100") && query.contains("since=20"), "{query}");
            let of = inner.comments.iter().filter(|(of, _)| Some(*of) == number);
            let page = query.split('&').find_map(|pair| pair.strip_prefix("page=")).unwrap();
            let of = of.skip((page.parse::<usize>().unwrap() - 1) * 100).take(100);
            let all: Vec<_> = of.map(|(_, body)| json!({ "id": 1, "body": body })).collect();
            Value::Array(all).to_string().into_response()
        }
        (_, Some(body)) => {
            let made = format!("{on} {}", body["content"].as_str().unwrap());
            let is_new = !inner.reactions.contains(&made);
            if is_new {
                inner.reactions.push(made);
            }
            let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
            (status, json!({ "id": 1 }).to_string()).into_response()
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// A page of the deliveries, newest first.
fn list(inner: &Inner, query: &str) -> Response {
    let query: HashMap<_, _> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
    let from: usize = query.get("cursor").map_or(0, |cursor| cursor.parse().unwrap());
    let mut all: Vec<_> = inner.deliveries.iter().collect();
    all.sort_by_key(|delivery| std::cmp::Reverse((delivery.at, delivery.id)));
    let page = all.iter().skip(from).take(inner.page).map(|delivery| {
        json!({
            "id": delivery.id, "guid": delivery.guid, "delivered_at": delivery.at.to_string(),
            "redelivery": false, "duration": 0.1, "status": "x", "status_code": delivery.code,
            "event": delivery.event, "action": null,
        })
    });
    let body = Value::Array(page.collect()).to_string();
    let mut headers = HeaderMap::new();
    if all.len() > from + inner.page {
        let next = format!(
            "<https://api.github.invalid/x?per_page=100&cursor={}>; rel=\"next\"",
            from + inner.page
        );
        headers.insert(header::LINK, next.parse().unwrap());
    }
    (headers, body).into_response()
}

/// Posts a delivery to the receiver, which may not be there yet.
async fn redeliver(shared: &Shared, id: &str, mood: Mood) -> StatusCode {
    let found = {
        let mut inner = shared.lock().unwrap();
        let found = inner.deliveries.iter().find(|delivery| delivery.id.to_string() == id).cloned();
        inner.asked.extend(found.as_ref().map(|delivery| delivery.guid.clone()));
        found
    };
    let Some(delivery) = found else { return StatusCode::NOT_FOUND };
    let mut code = 0;
    for _ in 0..500 {
        let url = shared.lock().unwrap().receiver.clone();
        let Some(url) = url.filter(|_| mood != Mood::WayClosed) else {
            if mood == Mood::WayClosed {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let body = delivery.body.clone();
        let answer = try_post(&url, &delivery.guid, &delivery.event, body).await;
        code = answer.ok().flatten().unwrap_or(0);
        break;
    }
    let mut inner = shared.lock().unwrap();
    let id = 9_000_000_000 + inner.deliveries.len() as u64;
    inner.deliveries.push(Delivery { id, at: Timestamp::now(), code, ..delivery });
    StatusCode::ACCEPTED
}
