//! What is known of the sessions beyond the registry: what their agents do now,
//! who looks at them, what waits for them.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Context, Failure, Loaded, SessionRecord, Slug, registry, tools};
use crate::cli::web;
use crate::core::harness::Harnesses;
use crate::core::outcome::Reason;
use crate::core::session::SessionStatus;
use crate::host::live::{self, Seen};
use crate::state::inbox::{Inbox, InboxError, InboxReader, LocalMessage, Waiting};

/// What is known of the sessions beyond the registry: the state in which each
/// one's agent is now. Without it the recorded status is shown.
#[derive(Debug, Default)]
pub(super) struct Live {
    seen: BTreeMap<Slug, Seen>,
    waiting: BTreeMap<Slug, Waiting>,
    /// The web terminal's address.
    web: Option<String>,
    /// How a person speaks to their tmux server, when plain `tmux` is not enough.
    tmux: Option<String>,
}

impl Live {
    /// Looks at the agents of these sessions. Where tmux cannot be asked, the
    /// recorded status is all there is.
    pub(super) fn look(context: &Context, loaded: &Loaded, sessions: &registry::Loaded) -> Self {
        let (seen, tmux) = Self::seen(context, loaded, sessions);
        let waiting = match Inbox::read_only(&loaded.paths.inbox()) {
            Ok(inbox) => inbox.waiting().and_then(|waiting| with_sent(&inbox, waiting)),
            Err(InboxError::Missing { .. }) => Ok(BTreeMap::new()),
            Err(error) => Err(error),
        };
        let waiting = waiting.unwrap_or_else(|error| {
            let error = crate::base::failure::chain(&error);
            context.printer.note(&format!("warning: what waits cannot be read: {error}"));
            BTreeMap::new()
        });
        Self { seen, waiting, web: web::base(context, loaded), tmux }
    }

    fn seen(
        context: &Context,
        loaded: &Loaded,
        sessions: &registry::Loaded,
    ) -> (BTreeMap<Slug, Seen>, Option<String>) {
        let headless = live::headless(&loaded.paths, &sessions.records);
        if !sessions.records.values().any(live::is_hosted) {
            return (headless, None);
        }
        let seen = context.block_on(async {
            let tmux = tools::tmux(context, loaded).await?;
            let home = context.env.var_os("HOME").map(Path::new);
            let harnesses = Harnesses::new(&loaded.config.harnesses, context.env.home());
            let seen = live::hosted(&tmux, &harnesses, home, &sessions.records).await;
            let seen = seen.map_err(|error| {
                Failure::failed("tmux could not be asked for its sessions").because(error)
            })?;
            Ok((seen, tmux.typed()))
        });
        match seen {
            Ok((seen, tmux)) => (seen.into_iter().chain(headless).collect(), tmux),
            Err(failure) => {
                context.printer.note(&format!("warning: {failure}"));
                (headless, None)
            }
        }
    }

    /// The state of a session, as people and programs read it.
    pub(super) fn state(&self, slug: &Slug, record: &SessionRecord) -> String {
        self.seen.get(slug).map_or_else(|| record.status.to_string(), |seen| seen.state.clone())
    }

    /// The state of a session in a word for people: a pause is what matters most.
    pub(super) fn shown(&self, slug: &Slug, record: &SessionRecord) -> String {
        match record.status {
            SessionStatus::Paused => record.status.to_string(),
            _ => self.state(slug, record),
        }
    }

    /// What a session's agent asks a person.
    pub(super) fn asks(&self, slug: &Slug) -> Option<&str> {
        self.seen.get(slug)?.asks.as_deref()
    }

    /// How many terminals look at a session.
    pub(super) fn clients(&self, slug: &Slug) -> u32 {
        self.seen.get(slug).map_or(0, |seen| seen.clients)
    }

    /// Where a session can be seen in a browser.
    pub(super) fn web_url(&self, record: &SessionRecord) -> Option<String> {
        web::url_of(self.web.as_deref(), record)
    }

    /// How a person speaks to the tmux server, when plain `tmux` is not enough.
    pub(super) fn tmux(&self) -> Option<&str> {
        self.tmux.as_deref()
    }

    /// What waits for a session.
    pub(super) fn waiting(&self, slug: &Slug) -> Option<&Waiting> {
        self.waiting.get(slug)
    }
}

/// Also what a person sent while no receiver runs: nobody has decided about it yet.
fn with_sent(
    inbox: &InboxReader,
    mut waiting: BTreeMap<Slug, Waiting>,
) -> Result<BTreeMap<Slug, Waiting>, InboxError> {
    for delivery in inbox.sent()? {
        let Ok(message) = serde_json::from_slice::<LocalMessage>(&delivery.body) else { continue };
        if message.text.is_none() {
            continue;
        }
        let (since, reason) = (delivery.received_at, Reason::Stored);
        let new = Waiting { count: 0, since, reason };
        waiting.entry(message.item.slug()).or_insert(new).count += 1;
    }
    Ok(waiting)
}
