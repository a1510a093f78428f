//! The live list as server-sent events: first all that is seen, then what
//! changes. One who does not read is told only the latest when he does.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Pages;
use super::board::{Sessions, Shown};
use crate::base::ids::Slug;

/// How soon a browser tries again when the server went away.
const RETRY: Duration = Duration::from_millis(500);

/// How often a stream without news shows that it is alive.
const ALIVE: Duration = Duration::from_secs(15);

/// Which sessions somebody looks at.
#[derive(Debug, Deserialize)]
pub(super) struct Which {
    /// One of them; else all.
    session: Option<Slug>,
}

#[derive(Debug, Serialize)]
struct Hello<'a> {
    version: &'a str,
    now: i64,
}

#[derive(Debug, Serialize)]
struct Changes<'a> {
    /// Whether there are no others.
    all: bool,
    changed: Vec<&'a Shown>,
    gone: Vec<&'a Slug>,
}

/// What one browser was told.
struct Told {
    hello: Option<Event>,
    seen: watch::Receiver<Option<Arc<Sessions>>>,
    last: Option<Arc<Sessions>>,
    only: Option<Slug>,
    stop: CancellationToken,
}

/// `GET /events`.
pub(super) async fn events(
    State(pages): State<Arc<Pages>>,
    Query(Which { session }): Query<Which>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let parts = &pages.web.parts;
    let now = parts.clock.now().as_millisecond();
    let hello = Hello { version: pages.assets.version(), now };
    let told = Told {
        hello: event("hello", &hello).map(|event| event.retry(RETRY)),
        seen: pages.board.watch(),
        last: None,
        only: session,
        stop: parts.stop.clone(),
    };
    Sse::new(stream::unfold(told, next)).keep_alive(KeepAlive::new().interval(ALIVE))
}

async fn next(mut told: Told) -> Option<(Result<Event, Infallible>, Told)> {
    if let Some(hello) = told.hello.take() {
        return Some((Ok(hello), told));
    }
    loop {
        let now = told.seen.borrow_and_update().clone();
        if let Some(now) = now
            && let Some(event) = difference(told.last.as_deref(), &now, told.only.as_ref())
        {
            told.last = Some(now);
            return Some((Ok(event), told));
        }
        tokio::select! {
            // A stream that went on would hold up the end.
            () = told.stop.cancelled() => return None,
            changed = told.seen.changed() => changed.ok()?,
        }
    }
}

/// What is new in `now`; `None` where nothing is.
fn difference(before: Option<&Sessions>, now: &Sessions, only: Option<&Slug>) -> Option<Event> {
    let is_meant = |slug: &Slug| only.is_none_or(|only| only == slug);
    let same = |slug: &Slug, shown: &Arc<Shown>| {
        before.and_then(|before| before.get(slug)).is_some_and(|old| Arc::ptr_eq(old, shown))
    };
    let changed: Vec<_> = now
        .iter()
        .filter(|(slug, shown)| is_meant(slug) && !same(slug, shown))
        .map(|(_, shown)| &**shown)
        .collect();
    let known: HashSet<_> = now.keys().collect();
    let gone: Vec<_> = before
        .into_iter()
        .flat_map(Sessions::keys)
        .filter(|slug| is_meant(slug) && !known.contains(slug))
        .collect();
    let all = before.is_none();
    (all || !changed.is_empty() || !gone.is_empty())
        .then(|| event("changes", &Changes { all, changed, gone }))
        .flatten()
}

fn event(name: &str, data: &impl Serialize) -> Option<Event> {
    Event::default().event(name).json_data(data).ok()
}
