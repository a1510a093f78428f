//! The page of one session: a terminal to type into or to watch, or, where there
//! is none to look at, how it ended.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Redirect, Response};

use super::Pages;
use super::board::is_web_address;
use super::html::{Page, escape};
use crate::base::failure::chain;
use crate::base::ids::Slug;
use crate::base::text::cap;
use crate::core::session::{SessionRecord, SessionStatus};
use crate::host::tmux::{Pane, PaneState, pane_of};

/// What a page lets a person do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Type,
    Watch,
}

/// `GET /s/{slug}/`.
pub(super) async fn type_to(pages: State<Arc<Pages>>, slug: Path<String>) -> Response {
    page(pages, slug, Mode::Type).await
}

/// `GET /v/{slug}/`.
pub(super) async fn watch(pages: State<Arc<Pages>>, slug: Path<String>) -> Response {
    page(pages, slug, Mode::Watch).await
}

/// `GET /s/{slug}` and `GET /v/{slug}`: the page is at the same with a `/`.
pub(super) async fn with_slash(
    State(pages): State<Arc<Pages>>,
    Path(slug): Path<String>,
    uri: Uri,
) -> Response {
    match pages.record(&slug) {
        // As it was asked for, which is a path of ours and no address.
        Ok(_) => Redirect::permanent(&format!("{}/", uri.path())).into_response(),
        Err(answer) => *answer,
    }
}

async fn page(State(pages): State<Arc<Pages>>, Path(slug): Path<String>, mode: Mode) -> Response {
    let record = match pages.record(&slug) {
        Ok(record) => record,
        Err(answer) => return *answer,
    };
    match pages.look_at(&record).await {
        Standing::Live(_) => terminal(&pages, &record, mode),
        Standing::Ended(how) => pages.past(&record, Some(&how)).await,
        Standing::Headless => {
            let how = "It runs without a terminal: each event is a turn of its own. \
                       `the-loop sessions attach` takes it over in a terminal.";
            pages.past(&record, Some(how)).await
        }
    }
}

/// `POST /s/{slug}/leave-mode`.
pub(super) async fn leave_mode(
    State(pages): State<Arc<Pages>>,
    Path(slug): Path<String>,
) -> Response {
    let record = match pages.record(&slug) {
        Ok(record) => record,
        Err(answer) => return *answer,
    };
    let Standing::Live(pane) = pages.look_at(&record).await else {
        return pages.say(StatusCode::CONFLICT, "The session has no terminal", "");
    };
    match pages.web.parts.tmux.leave_mode(&pane).await {
        Ok(()) => Response::builder()
            .status(StatusCode::NO_CONTENT)
            .body(axum::body::Body::empty())
            .unwrap_or_default(),
        Err(error) => pages.failed("tmux did not end the mode", &error),
    }
}

/// Whether there is a terminal to show.
#[derive(Debug)]
pub(super) enum Standing {
    /// There is.
    Live(Pane),
    /// There is none any more, or not yet.
    Ended(String),
    /// There never is one.
    Headless,
}

impl Pages {
    /// The entry of the session that an address names, or what to answer.
    pub(super) fn record(&self, slug: &str) -> Result<SessionRecord, Box<Response>> {
        let unknown = || Box::new(self.say(StatusCode::NOT_FOUND, "There is no such session", ""));
        let slug: Slug = slug.parse().map_err(|_| unknown())?;
        match self.web.parts.registry.load(&slug) {
            Ok(Some(record)) => Ok(record),
            Ok(None) => Err(unknown()),
            Err(error) => Err(Box::new(self.failed("The session's entry cannot be read", &error))),
        }
    }

    /// An answer for what went wrong here. What exactly is for the log alone.
    pub(super) fn failed(&self, what: &str, error: &(dyn std::error::Error + 'static)) -> Response {
        tracing::warn!(error = %chain(error), what, "a page cannot be shown");
        let more = "<p>The receiver's log says why.</p>";
        self.say(StatusCode::INTERNAL_SERVER_ERROR, what, more)
    }

    /// Looks whether a session has a terminal now.
    pub(super) async fn look_at(&self, record: &SessionRecord) -> Standing {
        if record.is_headless() {
            return Standing::Headless;
        }
        let slug = record.slug();
        let panes = match self.web.parts.tmux.panes().await {
            Ok(panes) => panes,
            Err(error) => {
                tracing::warn!(error = %chain(&error), "tmux cannot be asked");
                return Standing::Ended("tmux cannot be asked for its terminal now.".to_owned());
            }
        };
        match pane_of(&panes, &slug).filter(|pane| pane.is_of(&slug)) {
            Some(Pane { state: PaneState::Dead(status), .. }) => {
                Standing::Ended(how(record, Some(status)))
            }
            Some(_) if record.status == SessionStatus::Closed => Standing::Ended(how(record, None)),
            Some(pane) => Standing::Live(pane.clone()),
            None => Standing::Ended(how(record, None)),
        }
    }
}

/// How a session came to have no terminal.
fn how(record: &SessionRecord, status: Option<&str>) -> String {
    let next = "The next event starts it again.";
    match (record.status, status) {
        (SessionStatus::Closed, _) => "The session was closed.".to_owned(),
        (_, Some(status)) => format!("The agent has ended: {status}. {next}"),
        (SessionStatus::Failed, None) => {
            let why = record.failure.as_deref().and_then(|why| why.lines().last());
            let why = why.map_or_else(String::new, |why| format!(": {}", cap(why.trim(), 300)));
            format!("The session has failed{why}")
        }
        (SessionStatus::Starting, None) => "The agent is being started.".to_owned(),
        (_, None) => format!("Its terminal is gone. {next}"),
    }
}

/// The markup that every page of a session begins with.
pub(super) fn head(record: &SessionRecord, links: &[(&str, &str)]) -> String {
    let item = &record.work_item;
    let slug = record.slug();
    let name = escape(&item.reference.short());
    let title = item.title.as_deref().map(|title| escape(&cap(title, 300))).unwrap_or_default();
    let mut nav = String::new();
    for (text, path) in links {
        let path = path.replace("{slug}", slug.as_str());
        let _ = writeln!(nav, "<a href=\"{path}\">{text}</a>");
    }
    if let Some(url) = item.url.as_deref().filter(|url| is_web_address(url)) {
        let url = escape(url);
        let _ = writeln!(
            nav,
            "<a href=\"{url}\" target=\"_blank\" rel=\"noopener noreferrer\">Issue</a>"
        );
    }
    format!(
        "<header class=\"bar\">\n<p><a href=\"/\">All sessions</a></p>\n\
         <h1><span class=\"item\">{name}</span> <bdi class=\"title\">{title}</bdi></h1>\n\
         <p class=\"facts\"><span id=\"state\" class=\"state\"></span> \
         <span id=\"facts\"></span> <span id=\"connection\" role=\"status\"></span></p>\n\
         <nav aria-label=\"This session\">{nav}</nav>\n</header>\n"
    )
}

/// The keys that a phone's keyboard has not: what they are called, what a reader
/// says, what the script knows them by.
const KEYS: &[(&str, &str, &str)] = &[
    ("Esc", "Escape", "escape"),
    ("Tab", "Tab", "tab"),
    ("⇧Tab", "Shift Tab", "backtab"),
    ("Ctrl", "Control, for the next key", "control"),
    ("←", "Left", "left"),
    ("↑", "Up", "up"),
    ("↓", "Down", "down"),
    ("→", "Right", "right"),
    ("⏎", "Enter", "enter"),
];

fn terminal(pages: &Pages, record: &SessionRecord, mode: Mode) -> Response {
    let name = escape(&record.work_item.reference.short());
    let slug = record.slug();
    let (links, class, place, what) = match mode {
        Mode::Type => (
            [("Watch", "/v/{slug}/"), ("History", "/v/{slug}/history")],
            "terminal types",
            "s",
            "Type to",
        ),
        Mode::Watch => (
            [("Type", "/s/{slug}/"), ("History", "/v/{slug}/history")],
            "terminal watches",
            "v",
            "Watch",
        ),
    };
    let mut body = head(record, &links);
    let leave = match mode {
        Mode::Type => "<button type=\"button\" id=\"leave\">Leave it</button>",
        Mode::Watch => "",
    };
    let _ = writeln!(
        body,
        "<p id=\"mode\" class=\"notice\" role=\"status\" hidden>Somebody scrolls in this \
         terminal: keys do not reach the agent. {leave}</p>\n\
         <p id=\"behind\" class=\"notice\" role=\"status\" hidden>Another pane or window is \
         shown: keys do not reach the agent until somebody at a terminal shows its own \
         again.</p>\n\
         <p id=\"ended\" class=\"notice\" role=\"alert\" hidden><span id=\"how\"></span> \
         <a href=\"/v/{slug}/history\">What it has shown</a></p>\n\
         <main id=\"frame\" data-slug=\"{slug}\" data-place=\"{place}\" \
         aria-label=\"Terminal of {name}\"><div id=\"terminal\"></div></main>"
    );
    if mode == Mode::Type {
        let mut keys = String::new();
        for (text, label, key) in KEYS {
            let pressed = if *key == "control" { " aria-pressed=\"false\"" } else { "" };
            let _ = writeln!(
                keys,
                "<button type=\"button\" data-key=\"{key}\" aria-label=\"{label}\"{pressed}>\
                 {text}</button>"
            );
        }
        let _ = writeln!(
            body,
            "<div id=\"keys\" role=\"toolbar\" aria-label=\"Keys\">\n{keys}</div>\n\
             <p class=\"help\"><kbd>Shift</kbd>+<kbd>F6</kbd> leaves the terminal</p>"
        );
    }
    let title = format!("{what} {} · the-loop", record.work_item.reference.short());
    Page {
        version: pages.assets.version(),
        title: &title,
        class,
        styles: &["vendor/xterm.css"],
        script: Some("terminal.mjs"),
        body: &body,
    }
    .answer(StatusCode::OK)
}
