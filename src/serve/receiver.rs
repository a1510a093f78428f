//! The receiver: GitHub's deliveries, checked, stored, and only then answered.
//!
//! The daemon serves its router on the configured address. It decides nothing
//! about a delivery: what is stored is routed elsewhere, after the answer.
//!
//! Everything before the signature check is said by a stranger. The checks run
//! in this order, so that an answer tells a stranger nothing that the checks
//! before it have not allowed: path 404, method 405, size 413, signature 401,
//! id and event name 400, content 400.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::Notify;

use crate::base::failure::chain;
use crate::base::ids::DeliveryId;
use crate::state::inbox::{Accepted, DeliveryKind, Inbox, NewDelivery};

mod body;
mod refusals;
mod secret;
mod signature;

use body::Budget;
pub use body::MAX_BODY;
pub use refusals::{Refusals, Refused};
pub use secret::{Secret, SecretError, secret_in};
use signature::Signature;

/// How long a body may take to arrive.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// How long storing may take. GitHub hangs up after 10 seconds, and an answer
/// that nobody reads helps nobody.
const STORE_TIMEOUT: Duration = Duration::from_secs(9);

/// What the receiver needs.
#[derive(Debug)]
pub struct Receiver {
    /// Where deliveries are stored.
    pub inbox: Inbox,
    /// The webhook's secret. `None` takes everything from everybody: for
    /// `--insecure-no-secret` on loopback alone.
    pub secret: Option<Secret>,
    /// The path that deliveries are posted to.
    pub path: String,
    /// Told when there is something new to route.
    pub arrived: Arc<Notify>,
    /// Counts what is refused.
    pub refused: Arc<Refusals>,
}

impl Receiver {
    /// The receiver as a service: deliveries on its path, and `GET /healthz`.
    pub fn router(self) -> Router {
        self.router_with(BODY_TIMEOUT)
    }

    /// The same with another time-out for bodies.
    pub fn router_with(self, body_timeout: Duration) -> Router {
        let shared = Shared { receiver: self, body_timeout, budget: Budget::default() };
        // One handler for all: the order of the checks is ours, not the router's.
        Router::new().fallback(handle).with_state(Arc::new(shared))
    }
}

struct Shared {
    receiver: Receiver,
    body_timeout: Duration,
    budget: Budget,
}

/// An answer to the outside: a status and a few words about the request, never
/// about us.
#[derive(Debug)]
struct Reply(StatusCode, &'static str);

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let mut response = (self.0, format!("{}\n", self.1)).into_response();
        if self.0 == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("POST"));
        }
        response
    }
}

/// Refuses a request, and counts it.
fn refuse(shared: &Shared, reply: Reply) -> Response {
    shared.receiver.refused.note(reply.0.as_u16(), reply.1);
    reply.into_response()
}

async fn handle(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let path = request.uri().path();
    let method = request.method();
    if path == shared.receiver.path {
        if method == Method::POST {
            return match receive(&shared, request).await {
                Ok(reply) => reply.into_response(),
                Err(reply) => refuse(&shared, reply),
            };
        }
        return refuse(&shared, Reply(StatusCode::METHOD_NOT_ALLOWED, "only POST"));
    }
    if path == "/healthz" && matches!(*method, Method::GET | Method::HEAD) {
        let well = shared.receiver.inbox.can_write().await;
        return if well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }.into_response();
    }
    refuse(&shared, Reply(StatusCode::NOT_FOUND, "nothing here"))
}

async fn receive(shared: &Shared, request: Request<Body>) -> Result<Reply, Reply> {
    let (head, body) = request.into_parts();
    let signature = match &shared.receiver.secret {
        None => Signature::NotNeeded,
        Some(secret) => Signature::claimed(secret, &head.headers),
    };
    let read = body::read(body, &head.headers, signature, &shared.budget);
    let mut body = tokio::time::timeout(shared.body_timeout, read)
        .await
        .map_err(|_| Reply(StatusCode::REQUEST_TIMEOUT, "the body took too long"))??;

    let id: DeliveryId = only(&head.headers, "x-github-delivery")
        .and_then(|text| text.parse().ok())
        .ok_or(Reply(StatusCode::BAD_REQUEST, "no valid X-GitHub-Delivery"))?;
    let event = only(&head.headers, "x-github-event")
        .filter(|name| is_event_name(name))
        .ok_or(Reply(StatusCode::BAD_REQUEST, "no valid X-GitHub-Event"))?
        .to_owned();
    let json = body.take_json(&head.headers)?;

    let new = NewDelivery { id: id.clone(), event, body: json, kind: DeliveryKind::Github };
    // The inbox itself tells of it: this request may have ended by then.
    let arrived = Arc::clone(&shared.receiver.arrived);
    let accept = shared.receiver.inbox.accept_telling(new, arrived);
    let stored = tokio::time::timeout(STORE_TIMEOUT, accept).await;
    match stored {
        Ok(Ok(Accepted::New | Accepted::Requeued)) => Ok(Reply(StatusCode::ACCEPTED, "accepted")),
        Ok(Ok(Accepted::Repeat)) => Ok(Reply(StatusCode::OK, "seen before")),
        Ok(Err(error)) => {
            tracing::error!(delivery = %id, cause = chain(&error), "a delivery was not stored");
            Err(UNAVAILABLE)
        }
        Err(_) => {
            // It may still be stored, and is routed then; the same one posted
            // again is a repeat.
            tracing::error!(delivery = %id, "a delivery was not stored in time");
            Err(UNAVAILABLE)
        }
    }
}

const UNAVAILABLE: Reply = Reply(StatusCode::SERVICE_UNAVAILABLE, "cannot store it now");

/// The value of a header that is there exactly once and is plain text.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    if values.next().is_some() { None } else { first.to_str().ok() }
}

fn is_event_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}
