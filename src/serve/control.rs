//! The control socket: how commands on this host talk to the running receiver.
//!
//! A unix socket that only its user can open, in the state directory. Nothing
//! of it can be reached from the network.

use std::path::Path;
use std::sync::Arc;

use axum::extract::State as AxumState;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::net::UnixListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::github::{self, GithubStatus};
use super::receiver::{Refusals, Refused};
use super::reload::{Refusal, Reloaded, Reloader};
use crate::base::failure::{Failure, chain};
use crate::base::files;
use crate::base::http::{RequestError, request_unix};
use crate::base::ids::{DeliveryId, WorkItem};
use crate::base::random;
use crate::core::config::Config;
use crate::host::dispatch::DispatchHandle;
use crate::host::runner::{Gate, HeldStarts};
use crate::state::inbox::{Inbox, InboxError, LocalMessage, Replayed};
use crate::state::registry::Registry;

mod verbs;

pub use verbs::{NotDone, SessionVerb, VerbError, apply};

/// What the receiver says about itself.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The version of this format.
    pub schema: u32,
    /// The program's version.
    pub version: String,
    /// The receiver's process id.
    pub pid: u32,
    /// Where deliveries are posted to.
    pub url: String,
    /// Where the web terminal is, when it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web_url: Option<String>,
    /// The socket of the tmux server that it works with, when that is not the
    /// user's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmux_socket: Option<String>,
    /// How a person speaks to that server, when plain `tmux` is not enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmux_command: Option<String>,
    /// The configuration file it runs with.
    pub config: String,
    /// Whether that file is another one now than was read.
    #[serde(default)]
    pub changed_on_disk: bool,
    /// When and why it was refused, when it was read again last.
    #[serde(default)]
    pub reload_refused: Option<Refusal>,
    /// The runner of new sessions.
    pub runner: String,
    /// Since when it runs.
    pub started_at: Timestamp,
    /// When GitHub last sent a ping.
    pub last_ping: Option<Timestamp>,
    /// When the last delivery came in.
    pub last_delivery: Option<Timestamp>,
    /// How many deliveries are in each state.
    pub deliveries: std::collections::BTreeMap<String, u64>,
    /// Why nothing can be stored now; GitHub is answered 503 then.
    #[serde(default)]
    pub cannot_store: Option<String>,
    /// Requests that were refused since the start.
    #[serde(default)]
    pub refused: Vec<Refused>,
    /// The limits that hold starts back.
    #[serde(default)]
    pub held: Vec<HeldStarts>,
    /// The webhooks, and what was missed.
    #[serde(default)]
    pub github: GithubStatus,
}

/// What the socket's server works with.
#[derive(Debug, Clone)]
pub struct Control {
    /// The deliveries.
    pub inbox: Inbox,
    /// The sessions.
    pub registry: Registry,
    /// Where jobs go.
    pub dispatcher: DispatchHandle,
    /// Lets sessions start their agents.
    pub gate: Arc<Gate>,
    /// Told when a local message was put in.
    pub arrived: Arc<Notify>,
    /// What was refused.
    pub refused: Arc<Refusals>,
    /// Reads the configuration again.
    pub reloader: Reloader,
    /// What is known of GitHub.
    pub github: github::Parts,
    /// Ends the receiver.
    pub stop: CancellationToken,
    /// What does not change while the receiver runs.
    pub about: Arc<Status>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Queued {
    id: DeliveryId,
}

/// Binds the socket. A stale one is replaced: the lock is ours, so
/// nobody listens on it.
pub(super) fn bind(path: &Path) -> Result<UnixListener, Failure> {
    let failed = |error: std::io::Error| {
        Failure::failed(format!("could not listen on `{}`", path.display())).because(error)
    };
    match fs_err::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    files::make_private(path).map_err(failed)?;
    Ok(listener)
}

/// The socket's routes.
pub fn router(control: Control) -> Router {
    Router::new()
        .route("/status", get(status))
        .route("/local", post(local))
        .route("/replay", post(replay))
        .route("/config", get(config))
        .route("/reload", post(reload))
        .route("/session", post(session))
        .route("/release", post(release))
        .route("/stop", post(stop))
        .with_state(control)
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Replay {
    Queued,
    UnderWay,
    NoBody,
}

type Reply<T> = Result<Json<T>, (StatusCode, String)>;

async fn status(AxumState(control): AxumState<Control>) -> Reply<Status> {
    let mut status = (*control.about).clone();
    status.cannot_store = control.inbox.store_trouble().await;
    if let Err(error) = fill(&mut status, &control.inbox) {
        status.cannot_store.get_or_insert_with(|| chain(&error));
    }
    status.refused = control.refused.all();
    status.held = control.gate.held();
    status.github = control.github.report();
    status.changed_on_disk = control.reloader.changed_on_disk();
    status.reload_refused = control.reloader.refusal();
    Ok(Json(status))
}

/// Adds what the inbox knows to a status.
pub fn fill(status: &mut Status, inbox: &Inbox) -> Result<(), InboxError> {
    status.last_ping = inbox.last_ping()?;
    status.last_delivery = inbox.last_delivery()?.map(|delivery| delivery.received_at);
    status.deliveries = inbox
        .counts()?
        .into_iter()
        .map(|(state, number)| (state.as_str().to_owned(), number))
        .collect();
    Ok(())
}

async fn local(
    AxumState(control): AxumState<Control>,
    Json(message): Json<LocalMessage>,
) -> Reply<Queued> {
    let id = put_local(&control.inbox, &message).await.map_err(|error| unavailable(&error))?;
    control.arrived.notify_one();
    Ok(Json(Queued { id }))
}

async fn replay(
    AxumState(control): AxumState<Control>,
    Json(Queued { id }): Json<Queued>,
) -> Reply<Replay> {
    let outcome = match control.inbox.replay(id).await {
        Ok(Replayed::Queued) => Replay::Queued,
        Ok(Replayed::UnderWay) => Replay::UnderWay,
        Ok(Replayed::NoBody) => Replay::NoBody,
        Err(error @ InboxError::UnknownDelivery { .. }) => {
            return Err((StatusCode::NOT_FOUND, chain(&error)));
        }
        Err(error) => return Err(unavailable(&error)),
    };
    control.arrived.notify_one();
    Ok(Json(outcome))
}

async fn config(AxumState(control): AxumState<Control>) -> Json<Config> {
    Json(control.reloader.taken())
}

async fn reload(AxumState(control): AxumState<Control>) -> Json<Reloaded> {
    Json(control.reloader.reload())
}

async fn session(
    AxumState(control): AxumState<Control>,
    Json(verb): Json<SessionVerb>,
) -> Result<StatusCode, (StatusCode, Json<NotDone>)> {
    // A short change of a file under its lock.
    apply(&control.registry, &verb).map_err(|error| (StatusCode::CONFLICT, Json(error.into())))?;
    if let SessionVerb::Pause { item } = verb {
        control.dispatcher.paused(item.slug()).await;
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn release(AxumState(control): AxumState<Control>, Json(item): Json<WorkItem>) -> StatusCode {
    control.dispatcher.release(item.slug()).await;
    StatusCode::NO_CONTENT
}

async fn stop(AxumState(control): AxumState<Control>) -> StatusCode {
    control.stop.cancel();
    StatusCode::ACCEPTED
}

fn unavailable(error: &(dyn std::error::Error + 'static)) -> (StatusCode, String) {
    (StatusCode::SERVICE_UNAVAILABLE, chain(error))
}

/// Puts a local message into the inbox, on disk when it returns.
pub async fn put_local(inbox: &Inbox, message: &LocalMessage) -> Result<DeliveryId, InboxError> {
    let id = DeliveryId::local(random::bytes());
    inbox.accept(message.clone().into_delivery(id.clone())).await?;
    Ok(id)
}

/// Asks the receiver behind `socket` for its status; `None` when none runs.
pub async fn ask_status(socket: &Path) -> Result<Option<Status>, Failure> {
    let Some(body) = ask(socket, "GET", "/status", Vec::new()).await? else {
        return Ok(None);
    };
    let status = serde_json::from_slice(&body)
        .map_err(|error| Failure::failed("the receiver's answer cannot be read").because(error))?;
    Ok(Some(status))
}

/// Gives the receiver a local message; `None` when none runs.
pub async fn send_local(
    socket: &Path,
    message: &LocalMessage,
) -> Result<Option<DeliveryId>, Failure> {
    let body = serde_json::to_vec(message).unwrap_or_default();
    let Some(body) = ask(socket, "POST", "/local", body).await? else { return Ok(None) };
    let queued: Queued = serde_json::from_slice(&body)
        .map_err(|error| Failure::failed("the receiver's answer cannot be read").because(error))?;
    Ok(Some(queued.id))
}

/// Asks the receiver to route a delivery again; `None` when none runs.
pub async fn ask_to_replay(socket: &Path, id: &DeliveryId) -> Result<Option<Replayed>, Failure> {
    let body = serde_json::to_vec(&Queued { id: id.clone() }).unwrap_or_default();
    let Some(body) = ask(socket, "POST", "/replay", body).await? else { return Ok(None) };
    let replay: Replay = serde_json::from_slice(&body)
        .map_err(|error| Failure::failed("the receiver's answer cannot be read").because(error))?;
    Ok(Some(match replay {
        Replay::Queued => Replayed::Queued,
        Replay::UnderWay => Replayed::UnderWay,
        Replay::NoBody => Replayed::NoBody,
    }))
}

/// Asks the receiver for the configuration that it runs with; `None` when none runs.
pub async fn ask_config(socket: &Path) -> Result<Option<Config>, Failure> {
    let Some(body) = ask(socket, "GET", "/config", Vec::new()).await? else { return Ok(None) };
    let config = serde_json::from_slice(&body)
        .map_err(|error| Failure::failed("the receiver's answer cannot be read").because(error))?;
    Ok(Some(config))
}

/// Asks the receiver to read its configuration again; `None` when none runs.
pub async fn ask_to_reload(socket: &Path) -> Result<Option<Reloaded>, Failure> {
    let Some(body) = ask(socket, "POST", "/reload", Vec::new()).await? else { return Ok(None) };
    let reloaded = serde_json::from_slice(&body)
        .map_err(|error| Failure::failed("the receiver's answer cannot be read").because(error))?;
    Ok(Some(reloaded))
}

/// Asks the receiver for a change of a session, and gives what came of it; `None`
/// when none runs.
pub async fn ask_verb(
    socket: &Path,
    verb: &SessionVerb,
) -> Result<Option<Result<(), NotDone>>, Failure> {
    let body = serde_json::to_vec(verb)
        .map_err(|error| Failure::failed("cannot put the change into words").because(error))?;
    match answer_of(socket, "POST", "/session", body).await? {
        None => Ok(None),
        Some((409, body)) => {
            serde_json::from_slice(&body).map(|not_done| Some(Err(not_done))).map_err(|error| {
                Failure::failed("the receiver's answer cannot be read").because(error)
            })
        }
        Some((status, body)) => done(status, body).map(|_| Some(Ok(()))),
    }
}

/// Asks the receiver to let in what waits for an item's session; `false` when
/// none runs.
pub async fn ask_to_release(socket: &Path, item: &WorkItem) -> Result<bool, Failure> {
    let body = serde_json::to_vec(item)
        .map_err(|error| Failure::failed("cannot put the wish into words").because(error))?;
    Ok(ask(socket, "POST", "/release", body).await?.is_some())
}

/// Asks the receiver to end; `false` when none runs.
pub async fn ask_to_stop(socket: &Path) -> Result<bool, Failure> {
    Ok(ask(socket, "POST", "/stop", Vec::new()).await?.is_some())
}

async fn ask(
    socket: &Path,
    method: &str,
    path: &str,
    body: Vec<u8>,
) -> Result<Option<Vec<u8>>, Failure> {
    match answer_of(socket, method, path, body).await? {
        None => Ok(None),
        Some((status, body)) => done(status, body).map(Some),
    }
}

/// The receiver's answer; `None` when none runs.
async fn answer_of(
    socket: &Path,
    method: &str,
    path: &str,
    body: Vec<u8>,
) -> Result<Option<(u16, Vec<u8>)>, Failure> {
    match request_unix(socket, method, path, body).await {
        Ok(answer) => Ok(Some(answer)),
        Err(RequestError::Connect { source, .. }) if nobody_listens(&source) => Ok(None),
        Err(error) => {
            Err(Failure::failed("the receiver does not answer on its socket").because(error))
        }
    }
}

/// What it says when it did what it was asked.
fn done(status: u16, body: Vec<u8>) -> Result<Vec<u8>, Failure> {
    if (200..=299).contains(&status) {
        return Ok(body);
    }
    let said = crate::base::text::visible(String::from_utf8_lossy(&body).trim());
    Err(Failure::failed(format!("the receiver answered {status}: {said}")))
}

fn nobody_listens(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused)
}
