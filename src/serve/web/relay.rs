//! Between a browser's WebSocket and a ttyd: frame by frame, each way.
//!
//! The browser's side is subprotocol `tty`, binary frames. From the browser:
//! `0` and bytes are keys, `2` and `3` hold the output and let it go on. To the
//! browser: `0` and bytes are output. What else ttyd has is neither asked for nor
//! passed on; the size is always the agent's own. Beside that there are text
//! frames, each a [`Notice`] in JSON.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use serde::Serialize;
use tokio::sync::{Mutex, watch};

use super::Web;
use super::stage::{Place, StageError};
use crate::base::failure::chain;
use crate::base::ids::Slug;
use crate::core::session::SessionStatus;
use crate::host::tmux::Sight;

mod pace;
mod upstream;

use pace::Pace;
use upstream::{Input, Output, Upstream};

/// How long a frame and a message of a browser may be.
const MAX_MESSAGE: usize = 64 << 10;
/// How much is read at once, and kept in memory for each viewer.
const READ_BUFFER: usize = 4 << 10;
/// How much may wait to be written to a browser.
const WRITE_BUFFER: usize = 1 << 20;

/// How often a browser is asked whether it is there, and how long it may say
/// nothing at all.
const PING_EVERY: Duration = Duration::from_secs(20);
const SILENT_FOR: Duration = Duration::from_mins(1);
/// How long a browser may take nothing that was written for it.
const TAKES_WITHIN: Duration = Duration::from_secs(30);
/// How long a good-bye may take.
const CLOSES_WITHIN: Duration = Duration::from_secs(1);
/// How long the last words of a program that has ended are waited for.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// How often a ttyd that ended is replaced in a row, and what counts as a row.
const TRIES: u32 = 5;
const TRY_PAUSE: Duration = Duration::from_millis(100);
const IN_A_ROW: Duration = Duration::from_secs(10);

/// What a terminal's page is told beside the terminal itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Notice {
    /// The size of the agent's window, first and whenever it changes.
    Size {
        /// Columns.
        columns: u16,
        /// Lines.
        lines: u16,
    },
    /// Whether keys are dropped because the pane is in a mode of tmux, or another
    /// pane is in front of the agent's.
    Mode {
        /// Whether they are dropped.
        in_mode: bool,
    },
    /// The session has ended; nothing more comes.
    Ended {
        /// How.
        how: String,
    },
}

/// The routes of the terminals.
pub(super) fn routes(web: Arc<Web>) -> Router {
    Router::new()
        .route("/s/{slug}/ws", get(to_type))
        .route("/v/{slug}/ws", get(to_watch))
        .with_state(web)
}

async fn to_type(
    State(web): State<Arc<Web>>,
    Path(slug): Path<String>,
    upgrade: WebSocketUpgrade,
) -> Response {
    open(web, &slug, true, upgrade)
}

async fn to_watch(
    State(web): State<Arc<Web>>,
    Path(slug): Path<String>,
    upgrade: WebSocketUpgrade,
) -> Response {
    open(web, &slug, false, upgrade)
}

fn open(web: Arc<Web>, slug: &str, may_type: bool, upgrade: WebSocketUpgrade) -> Response {
    let refused = |status: StatusCode, why: &str| (status, format!("{why}\n")).into_response();
    let known = slug.parse::<Slug>().ok();
    let known = known.filter(|slug| web.parts.registry.load(slug).is_ok_and(|one| one.is_some()));
    let Some(slug) = known else { return refused(StatusCode::NOT_FOUND, "no such session") };
    let upgrade = upgrade.protocols(["tty"]);
    if upgrade.selected_protocol().is_none() {
        return refused(StatusCode::BAD_REQUEST, "the subprotocol is `tty`");
    }
    let Ok(seat) = Arc::clone(&web.seats).try_acquire_owned() else {
        return refused(StatusCode::SERVICE_UNAVAILABLE, "too many look on already");
    };
    upgrade
        .max_message_size(MAX_MESSAGE)
        .max_frame_size(MAX_MESSAGE)
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(0)
        .max_write_buffer_size(WRITE_BUFFER)
        .on_upgrade(move |socket| {
            let tasks = web.parts.tasks.clone();
            tasks.track_future(async move {
                relay(&web, &slug, may_type, socket).await;
                drop(seat);
            })
        })
}

/// Why a stretch of relaying ended.
enum End {
    /// The browser went away, or did what it must not.
    Browser,
    /// The ttyd went away.
    Ttyd,
    /// The session ended.
    Session(String),
    /// This process ends.
    Stop,
}

type ToBrowser = SplitSink<WebSocket, Message>;
type FromBrowser = SplitStream<WebSocket>;

async fn relay(web: &Arc<Web>, slug: &Slug, may_type: bool, socket: WebSocket) {
    let (mut to_browser, mut from_browser) = socket.split();
    let place = web.take_place(slug).await;
    let work = async {
        let mut pace = Pace::new();
        let mut tries = 0;
        loop {
            let since = tokio::time::Instant::now();
            let end =
                stretch(web, &place, may_type, &mut to_browser, &mut from_browser, &mut pace).await;
            match end {
                Ok(End::Ttyd) => {}
                Ok(end) => return end,
                Err(StageError::NoSession) => return End::Session(how_it_went(web, slug)),
                Err(error) => {
                    tracing::warn!(%slug, error = %chain(&error), "a terminal was not opened");
                }
            }
            tries = if since.elapsed() > IN_A_ROW { 0 } else { tries + 1 };
            if tries > TRIES {
                return End::Ttyd;
            }
            tokio::time::sleep(TRY_PAUSE * tries).await;
        }
    };
    let end = tokio::select! {
        end = work => end,
        () = web.parts.stop.cancelled() => End::Stop,
    };
    drop(place);
    let (code, reason) = match &end {
        End::Browser => (1008, "not taken"),
        End::Ttyd => (1011, "the terminal cannot be shown now"),
        End::Session(_) => (1000, "the session has ended"),
        End::Stop => (1012, "the receiver ends"),
    };
    let goodbye = async {
        if let End::Session(how) = end {
            let _ = to_browser.send(Notice::Ended { how }.message()).await;
        }
        let frame = CloseFrame { code, reason: reason.into() };
        let _ = to_browser.send(Message::Close(Some(frame))).await;
        // Until its own good-bye, or its end.
        while let Some(Ok(_)) = from_browser.next().await {}
    };
    let _ = tokio::time::timeout(CLOSES_WITHIN, goodbye).await;
}

/// How a session ended whose tmux session is gone.
fn how_it_went(web: &Web, slug: &Slug) -> String {
    let record = web.parts.registry.load(slug).ok().flatten();
    match record {
        Some(record) if record.status == SessionStatus::Closed => "the session was closed".into(),
        Some(record) if record.is_headless() => "the session has no terminal".into(),
        Some(record) => match record.failure {
            Some(failure) => failure,
            None => "its tmux session is gone".into(),
        },
        None => "the session was removed".into(),
    }
}

/// Relays until one side ends.
async fn stretch(
    web: &Web,
    place: &Place,
    may_type: bool,
    to_browser: &mut ToBrowser,
    from_browser: &mut FromBrowser,
    pace: &mut Pace,
) -> Result<End, StageError> {
    let mut view = web.view(place, may_type).await?;
    let first = view.sight.borrow_and_update().clone();
    let Ok(upstream) = Upstream::open(&view.socket, first.size).await else {
        return Ok(End::Ttyd);
    };
    let (input, output) = upstream.split();
    let ttyd = Ttyd { input: Mutex::new(input), draws: watch::Sender::new(false) };
    let keys = view.sight.clone();
    Ok(tokio::select! {
        end = up(from_browser, &ttyd, may_type, &keys, pace) => end,
        end = down(output, &ttyd, to_browser, view.sight, first) => end,
    })
}

/// What both directions have of ttyd.
struct Ttyd {
    input: Mutex<Input>,
    /// Whether it has written anything. Before that tmux has not taken the terminal,
    /// and a key would go to nobody.
    draws: watch::Sender<bool>,
}

/// From the browser to ttyd.
async fn up(
    browser: &mut FromBrowser,
    ttyd: &Ttyd,
    may_type: bool,
    sight: &watch::Receiver<Sight>,
    pace: &mut Pace,
) -> End {
    loop {
        let next = tokio::time::timeout(SILENT_FOR, browser.next()).await;
        // Silent for too long, closed, or a frame that is too large.
        let Ok(Some(Ok(message))) = next else { return End::Browser };
        let data = match message {
            Message::Binary(data) => data,
            Message::Text(text) => text.into(),
            Message::Ping(_) | Message::Pong(_) => continue,
            Message::Close(_) => return End::Browser,
        };
        pace.keep(data.len()).await;
        let is_passed = match data.first() {
            Some(b'0') => may_type && data.len() > 1 && !sight.borrow().is_covered,
            Some(b'2' | b'3') => data.len() == 1,
            // A hello, a size, or nothing that we know; and an empty frame, which ends
            // ttyd 1.7.7 and with it every viewer.
            Some(_) | None => false,
        };
        if !is_passed {
            continue;
        }
        let is_open = ttyd.draws.subscribe().wait_for(|draws| *draws).await.is_ok();
        if !is_open || ttyd.input.lock().await.pass(data).await.is_err() {
            return End::Ttyd;
        }
    }
}

/// From ttyd, and of the session, to the browser.
async fn down(
    mut ttyd: Output,
    to_ttyd: &Ttyd,
    browser: &mut ToBrowser,
    mut sight: watch::Receiver<Sight>,
    first: Sight,
) -> End {
    let mut ping = tokio::time::interval(PING_EVERY);
    ping.reset();
    let mut told = first;
    if say(browser, Notice::size(&told).message()).await.is_err()
        || say(browser, Notice::mode(&told).message()).await.is_err()
    {
        return End::Browser;
    }
    let mut ends: Option<tokio::time::Instant> = None;
    let mut is_followed = true;
    loop {
        if let Some(how) = &told.ended
            && ends.is_none()
        {
            tracing::debug!(how, "a session that is looked at has ended");
            ends = Some(tokio::time::Instant::now() + LAST_WORDS);
        }
        let last_words = async {
            match ends {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            data = ttyd.next() => match data {
                Some(data) => {
                    to_ttyd.draws.send_if_modified(|draws| !std::mem::replace(draws, true));
                    if say(browser, Message::Binary(data)).await.is_err() {
                        return End::Browser;
                    }
                }
                None => return match told.ended {
                    Some(how) => End::Session(how),
                    None => End::Ttyd,
                },
            },
            changed = sight.changed(), if is_followed => {
                is_followed = changed.is_ok();
                let new = sight.borrow_and_update().clone();
                if new.size != told.size {
                    if to_ttyd.input.lock().await.resize(new.size).await.is_err() {
                        return End::Ttyd;
                    }
                    if say(browser, Notice::size(&new).message()).await.is_err() {
                        return End::Browser;
                    }
                }
                if new.is_covered != told.is_covered
                    && say(browser, Notice::mode(&new).message()).await.is_err()
                {
                    return End::Browser;
                }
                told = new;
            }
            _ = ping.tick() => {
                if say(browser, Message::Ping(bytes::Bytes::new())).await.is_err() {
                    return End::Browser;
                }
            }
            () = last_words => return End::Session(told.ended.unwrap_or_default()),
        }
    }
}

/// Sends a frame to a browser that must take it in time.
async fn say(browser: &mut ToBrowser, message: Message) -> Result<(), ()> {
    match tokio::time::timeout(TAKES_WITHIN, browser.send(message)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(()),
    }
}

impl Notice {
    fn size(sight: &Sight) -> Self {
        Self::Size { columns: sight.size.0, lines: sight.size.1 }
    }

    fn mode(sight: &Sight) -> Self {
        Self::Mode { in_mode: sight.is_covered }
    }

    fn message(&self) -> Message {
        Message::Text(serde_json::to_string(self).unwrap_or_default().into())
    }
}
