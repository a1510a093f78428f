//! Between a browser's WebSocket and a ttyd: frame by frame, each way.
//!
//! The browser's side is subprotocol `tty`, binary frames. From the browser:
//! `0` and bytes are keys, `2` and `3` hold the output and let it go on. To the
//! browser: `0` and bytes are output. What else ttyd has is neither asked for nor
//! passed on; the size is always the agent's own. Beside that there are text
//! frames, each a [`Notice`] in JSON.
//!
//! Keys are not for ttyd, which takes none: they are read here, and the follower of
//! `stage` types them into the agent's pane.

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
use tokio::sync::{Mutex, mpsc, watch};

use super::stage::{Place, StageError};
use super::{MAX_VIEWERS, Web};
use crate::base::failure::chain;
use crate::base::ids::Slug;
use crate::core::session::SessionStatus;
use crate::core::typed::{Reader, Typed};
use crate::host::tmux::{Cover, Sight};

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
/// How long whoever ended a session may take to write down why, and how often is
/// looked.
const WRITTEN_DOWN_WITHIN: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);

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
    /// Whether keys are dropped, and why.
    Mode {
        /// The pane is in a mode of tmux.
        in_mode: bool,
        /// Another pane, or another window, is in front of the agent's.
        behind: bool,
    },
    /// It cannot be shown now; it is tried again.
    Failed {
        /// Why, and what to do.
        why: String,
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
        let why = format!("{MAX_VIEWERS} look on already, and no more can: close a page");
        return refused(StatusCode::SERVICE_UNAVAILABLE, &why);
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

/// What comes from a browser.
struct FromBrowser {
    stream: SplitStream<WebSocket>,
    may_type: bool,
    pace: Pace,
    reader: Reader,
}

async fn relay(web: &Arc<Web>, slug: &Slug, may_type: bool, socket: WebSocket) {
    let (mut to_browser, stream) = socket.split();
    let mut from_browser =
        FromBrowser { stream, may_type, pace: Pace::new(), reader: Reader::default() };
    let place = web.take_place(slug, may_type);
    let work = async {
        let mut tries = 0;
        loop {
            let since = tokio::time::Instant::now();
            match stretch(web, &place, &mut to_browser, &mut from_browser).await {
                Ok(End::Ttyd) => {}
                Ok(end) => return end,
                Err(StageError::NoSession) => return End::Session(how_it_went(web, slug).await),
                Err(error) => {
                    let why = chain(&error);
                    let notice = Notice::Failed { why: why.clone() }.message();
                    // A page that waits comes back for ever.
                    if web.stages.is_news(slug, &why) {
                        tracing::warn!(%slug, error = %why, "a terminal was not opened");
                    }
                    if say(&mut to_browser, notice).await.is_err() {
                        return End::Browser;
                    }
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
        while let Some(Ok(_)) = from_browser.stream.next().await {}
    };
    let _ = tokio::time::timeout(CLOSES_WITHIN, goodbye).await;
}

/// How a session ended whose tmux session is gone. Whoever closes one writes it down
/// when its agent has ended: until then the cause is waited for.
async fn how_it_went(web: &Web, slug: &Slug) -> String {
    let end = tokio::time::Instant::now() + WRITTEN_DOWN_WITHIN;
    loop {
        let record = web.parts.registry.load(slug).ok().flatten();
        return match record {
            Some(record) if record.status == SessionStatus::Closed => {
                "the session was closed".into()
            }
            Some(record) if record.is_headless() => "the session has no terminal".into(),
            Some(record) => match record.failure {
                Some(failure) => failure,
                None if tokio::time::Instant::now() < end => {
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
                None => "its tmux session is gone".into(),
            },
            None => "the session was removed".into(),
        };
    }
}

/// Relays until one side ends.
async fn stretch(
    web: &Web,
    place: &Place,
    to_browser: &mut ToBrowser,
    from_browser: &mut FromBrowser,
) -> Result<End, StageError> {
    let mut view = web.view(place).await?;
    let first = view.sight.borrow_and_update().clone();
    let Ok(upstream) = Upstream::open(&view.socket, first.size).await else {
        return Ok(End::Ttyd);
    };
    let (input, output) = upstream.split();
    let ttyd = Mutex::new(input);
    let sight = view.sight.clone();
    Ok(tokio::select! {
        end = up(from_browser, &ttyd, &view.keys, &sight) => end,
        end = down(output, &ttyd, to_browser, view.sight, first) => end,
    })
}

/// From the browser to ttyd, and to the pane.
async fn up(
    browser: &mut FromBrowser,
    ttyd: &Mutex<Input>,
    keys: &mpsc::Sender<Vec<Typed>>,
    sight: &watch::Receiver<Sight>,
) -> End {
    loop {
        let next = tokio::time::timeout(SILENT_FOR, browser.stream.next()).await;
        // Silent for too long, closed, or a frame that is too large.
        let Ok(Some(Ok(message))) = next else { return End::Browser };
        let data = match message {
            Message::Binary(data) => data,
            Message::Text(text) => text.into(),
            Message::Ping(_) | Message::Pong(_) => continue,
            Message::Close(_) => return End::Browser,
        };
        browser.pace.keep(data.len()).await;
        match data.split_first() {
            Some((b'0', typed)) if browser.may_type => {
                let typed = browser.reader.read(typed);
                let is_open = sight.borrow().cover == Cover::Open;
                if is_open && !typed.is_empty() && keys.send(typed).await.is_err() {
                    return End::Ttyd;
                }
            }
            Some((b'2' | b'3', [])) => {
                if ttyd.lock().await.pass(data).await.is_err() {
                    return End::Ttyd;
                }
            }
            // A hello, a size, or nothing that we know; and an empty frame, which ends
            // ttyd 1.7.7 and with it every viewer.
            Some(_) | None => {}
        }
    }
}

/// From ttyd, and of the session, to the browser.
async fn down(
    mut ttyd: Output,
    to_ttyd: &Mutex<Input>,
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
                    if say(browser, Message::Binary(data)).await.is_err() {
                        return End::Browser;
                    }
                }
                None => return match told.ended {
                    Some(how) => End::Session(how),
                    None => End::Ttyd,
                },
            },
            changed = sight.changed(), if ends.is_none() => {
                if changed.is_err() {
                    return End::Ttyd;
                }
                let new = sight.borrow_and_update().clone();
                if new.size != told.size {
                    if to_ttyd.lock().await.resize(new.size).await.is_err() {
                        return End::Ttyd;
                    }
                    if say(browser, Notice::size(&new).message()).await.is_err() {
                        return End::Browser;
                    }
                }
                if new.cover != told.cover
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
        Self::Mode { in_mode: sight.cover == Cover::Mode, behind: sight.cover == Cover::Behind }
    }

    fn message(&self) -> Message {
        Message::Text(serde_json::to_string(self).unwrap_or_default().into())
    }
}
