//! The pages: the list of the sessions, and for each one a page to type, one to
//! watch and one that shows what was.
//!
//! Pages are markup made here and scripts from `assets`; what changes while a
//! page is open comes as server-sent events, or through the terminal's socket.
//! All texts of items, agents and panes are foreign, and shown as text.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};

use self::assets::Assets;
use self::board::Board;
use self::html::Page;
use super::Web;

mod assets;
mod board;
mod colours;
mod events;
mod html;
mod paint;
mod past;
mod session;

/// What the pages are made of.
#[derive(Debug)]
struct Pages {
    web: Arc<Web>,
    assets: Assets,
    board: Arc<Board>,
}

/// The routes of the pages.
pub(super) fn routes(web: Arc<Web>) -> Router {
    let pages = Pages { board: Board::new(Arc::clone(&web)), assets: Assets::new(), web };
    Router::new()
        .route("/", get(list))
        .route("/events", get(events::events))
        .route("/assets/{*path}", get(asset))
        .route("/s/{slug}", get(session::with_slash))
        .route("/v/{slug}", get(session::with_slash))
        .route("/s/{slug}/", get(session::type_to))
        .route("/s/{slug}/leave-mode", post(session::leave_mode))
        .route("/v/{slug}/", get(session::watch))
        .route("/v/{slug}/history", get(past::history))
        .fallback(nothing)
        .with_state(Arc::new(pages))
}

const LIST: &str = r#"<header class="bar">
<h1>Sessions</h1>
<p class="facts"><span id="connection" role="status">connecting…</span></p>
</header>
<main>
<noscript><p class="notice">This page needs JavaScript: it shows what changes as it changes.</p></noscript>
<p id="empty" hidden>There are no sessions. A labelled issue starts one.</p>
<ul id="sessions" aria-label="Sessions"></ul>
<p id="news" class="unseen" role="status" aria-live="polite"></p>
</main>"#;

async fn list(State(pages): State<Arc<Pages>>) -> Response {
    Page {
        version: pages.assets.version(),
        title: "Sessions · the-loop",
        class: "list",
        script: Some("list.mjs"),
        body: LIST,
        ..Page::default()
    }
    .answer(StatusCode::OK)
}

async fn asset(
    State(pages): State<Arc<Pages>>,
    Path(path): Path<String>,
    headers: HeaderMap,
) -> Response {
    pages.assets.answer(&path, &headers)
}

async fn nothing(State(pages): State<Arc<Pages>>) -> Response {
    pages.say(StatusCode::NOT_FOUND, "There is no such page", "")
}

impl Pages {
    /// A page that only says something; `more` is markup.
    fn say(&self, status: StatusCode, what: &str, more: &str) -> Response {
        let text = html::escape(what);
        let body = format!(
            "<header class=\"bar\"><p><a href=\"/\">All sessions</a></p></header>\n\
             <main><h1>{text}</h1>\n{more}</main>"
        );
        let version = self.assets.version();
        let page = Page { version, title: what, class: "said", body: &body, ..Page::default() };
        page.answer(status).into_response()
    }
}
