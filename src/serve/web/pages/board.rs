//! What the pages show of the sessions, looked at once for all who look.
//!
//! Nobody looks: nothing is done. Somebody does: a change of the registry is a
//! reason to look again, and so is a second gone by, because a pane's lines and
//! an agent's state change without a word.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;

use super::paint::strip;
use crate::base::failure::chain;
use crate::base::ids::Slug;
use crate::base::text::{cap, visible};
use crate::core::session::{SessionRecord, SessionStatus};
use crate::host::live::{self, Seen};
use crate::serve::web::Web;
use crate::state::changes::Changes;
use crate::state::spool;

/// How long after a look the next one begins where nothing told of a change; a
/// look that took long is followed by a rest of some times its length.
const EVERY: Duration = Duration::from_secs(1);
const REST: u32 = 4;

/// How soon after a look the next one may begin.
const AT_LEAST: Duration = Duration::from_millis(150);

/// How many lines of a pane are shown, and how long one may be.
const LINES: usize = 6;
const LINE: usize = 200;

/// How long a title may be.
const TITLE: usize = 300;

/// What is shown of one session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown {
    /// Its name in addresses.
    pub(super) slug: Slug,
    /// `OWNER/REPO#N`.
    pub(super) item: String,
    /// The item's title.
    pub(super) title: Option<String>,
    /// The item's page.
    pub(super) url: Option<String>,
    /// The agent.
    pub(super) harness: String,
    /// What the agent does, in one word.
    pub(super) state: String,
    /// Since when it does that, in milliseconds of Unix time, as far as is known.
    pub(super) since: Option<i64>,
    /// What it asks a person.
    pub(super) asks: Option<String>,
    /// How many events wait for it.
    pub(super) waiting: u64,
    /// How many terminals of this machine look at it.
    pub(super) terminals: u32,
    /// How many browsers may type to it.
    pub(super) typing: u32,
    /// How many browsers watch it.
    pub(super) watching: u32,
    /// The last lines of its screen.
    pub(super) lines: Vec<String>,
    /// When it last changed, in milliseconds of Unix time.
    pub(super) last: i64,
    /// Whether there is a terminal to look at.
    pub(super) live: bool,
    /// Whether nobody has looked yet, and this is what is recorded.
    #[serde(skip)]
    is_recorded: bool,
}

/// All sessions, as they were seen together.
pub(super) type Sessions = BTreeMap<Slug, Arc<Shown>>;

/// Looks for those who look.
#[derive(Debug)]
pub(super) struct Board {
    web: Arc<Web>,
    /// Where what was seen goes, while somebody looks.
    sender: Mutex<Option<watch::Sender<Option<Arc<Sessions>>>>>,
}

impl Board {
    pub(super) fn new(web: Arc<Web>) -> Arc<Self> {
        Arc::new(Self { web, sender: Mutex::default() })
    }

    /// What is seen from now on, as long as the receiver is kept.
    pub(super) fn watch(self: &Arc<Self>) -> watch::Receiver<Option<Arc<Sessions>>> {
        let mut sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*sender {
            return sender.subscribe();
        }
        let (new, receiver) = watch::channel(None);
        *sender = Some(new.clone());
        self.web.parts.tasks.spawn(Arc::clone(self).run(new));
        receiver
    }

    /// Looks until nobody does any more.
    async fn run(self: Arc<Self>, sender: watch::Sender<Option<Arc<Sessions>>>) {
        let stop = self.web.parts.stop.clone();
        let mut changes = Changes::of(self.web.parts.registry.dir());
        let mut before = Sessions::new();
        loop {
            let began = Instant::now();
            // A look may take its time; that there is a new session is told at once.
            if sender.borrow().is_some()
                && let Some(more) = self.newcomers(&before)
            {
                before = more;
                sender.send_replace(Some(Arc::new(before.clone())));
            }
            let now = self.look(&before).await;
            if now != before || sender.borrow().is_none() {
                before = now;
                sender.send_replace(Some(Arc::new(before.clone())));
            }
            let took = began.elapsed();
            let next = Instant::now() + EVERY.saturating_sub(took).max(took * REST);
            tokio::select! {
                () = stop.cancelled() => return,
                () = sender.closed() => {
                    // Somebody may have come since.
                    let mut shared = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
                    if sender.receiver_count() == 0 {
                        *shared = None;
                        return;
                    }
                }
                () = changes.next() => {
                    // However much changes, half of the time nobody is asked anything.
                    tokio::time::sleep_until(began + AT_LEAST.max(took * 2)).await;
                }
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// All that was seen before with those that are new, as they are recorded;
    /// nothing where none is new.
    fn newcomers(&self, before: &Sessions) -> Option<Sessions> {
        let records = self.web.parts.registry.load_all().records;
        let new: Vec<_> = records.iter().filter(|(slug, _)| !before.contains_key(*slug)).collect();
        let new = new.into_iter().map(|(slug, record)| {
            let since = self.known_since(slug, record);
            (slug.clone(), Arc::new(Shown { since, is_recorded: true, ..shown(record, None, 0) }))
        });
        let all: Sessions = before.clone().into_iter().chain(new).collect();
        (all.len() > before.len()).then_some(all)
    }

    /// Since when a session that was not seen before does what it does.
    fn known_since(&self, slug: &Slug, record: &SessionRecord) -> Option<i64> {
        let spool = self.web.parts.paths.spool().join(slug.as_str());
        let last = record.last_event_at.unwrap_or(record.created_at);
        last_word(&spool).or(Some(last.as_millisecond()))
    }

    async fn look(&self, before: &Sessions) -> Sessions {
        let parts = &self.web.parts;
        let records = parts.registry.load_all().records;
        let waiting = parts.inbox.waiting().unwrap_or_else(|error| {
            tracing::warn!(error = %chain(&error), "what waits cannot be read");
            BTreeMap::new()
        });
        let mut seen = live::headless(&parts.paths, &records);
        if records.values().any(live::is_hosted) {
            let home = parts.home.as_deref();
            match live::hosted(&parts.tmux, parts.agents.harnesses(), home, &records).await {
                Ok(hosted) => seen.extend(hosted),
                Err(error) => tracing::warn!(error = %chain(&error), "tmux cannot be asked"),
            }
        }
        records
            .iter()
            .map(|(slug, record)| {
                let waiting = waiting.get(slug).map_or(0, |waiting| waiting.count);
                let before = before.get(slug);
                let mut shown = shown(record, seen.remove(slug), waiting);
                let browsers = self.web.audience(slug);
                (shown.typing, shown.watching) = (browsers.typing, browsers.watching);
                shown.since = match before {
                    Some(before) if before.state == shown.state || before.is_recorded => {
                        before.since
                    }
                    Some(_) => Some(parts.clock.now().as_millisecond()),
                    None => self.known_since(slug, record),
                };
                let shown = match before {
                    Some(before) if **before == shown => Arc::clone(before),
                    _ => Arc::new(shown),
                };
                (slug.clone(), shown)
            })
            .collect()
    }
}

/// When the agent last said what it does.
fn last_word(spool: &Path) -> Option<i64> {
    let newest = spool::read_after(spool, None).ok()?.pop()?;
    Some(newest.at.as_millisecond())
}

fn shown(record: &SessionRecord, seen: Option<Seen>, waiting: u64) -> Shown {
    let item = &record.work_item;
    let is_there = seen.as_ref().is_some_and(|seen| seen.screen.is_some() && seen.state != "dead");
    let seen = seen.unwrap_or_else(|| record.status.as_str().into());
    Shown {
        slug: record.slug(),
        item: item.reference.short(),
        title: item.title.as_deref().map(|title| visible(&cap(title, TITLE))),
        url: item.url.as_deref().filter(|url| is_web_address(url)).map(str::to_owned),
        harness: record.harness.as_str().to_owned(),
        state: seen.state,
        since: None,
        asks: seen.asks.as_deref().map(|asks| visible(&cap(asks, TITLE))),
        waiting,
        terminals: seen.clients,
        typing: 0,
        watching: 0,
        lines: seen.screen.as_deref().map(last_lines).unwrap_or_default(),
        last: record.last_event_at.unwrap_or(record.created_at).as_millisecond(),
        live: is_there && record.status != SessionStatus::Closed,
        is_recorded: false,
    }
}

/// Whether a text is the address of a page, and nothing that runs.
pub(super) fn is_web_address(url: &str) -> bool {
    (url.starts_with("https://") || url.starts_with("http://"))
        && url.len() <= 2000
        && url.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The last lines of a screen that say something.
fn last_lines(screen: &str) -> Vec<String> {
    let text = strip(screen);
    let said: Vec<_> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let begin = said.len().saturating_sub(LINES);
    said[begin..].iter().map(|line| visible(line).chars().take(LINE).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_runs_something_is_no_link() {
        assert!(is_web_address("https://github.com/o/r/issues/1"));
        for url in ["javascript:alert(1)", "data:text/html,x", "//evil.example", "https://a b", ""]
        {
            assert!(!is_web_address(url), "{url}");
        }
    }

    #[test]
    fn the_last_lines_are_those_that_say_something_without_colours() {
        let screen = "one\n\n\u{1b}[31mtwo\u{1b}[0m   \n<b>\u{202e}\n\n\n";
        assert_eq!(last_lines(screen), ["one", "two", "<b>\\u{202e}"]);
        let many = (0..50).fold(String::new(), |text, n| format!("{text}line {n}\n"));
        assert_eq!(last_lines(&many).len(), LINES);
        assert_eq!(last_lines(&many).last().unwrap(), "line 49");
    }
}
