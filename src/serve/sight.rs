//! What routing may know when it decides about an event: the registry, what
//! deliveries told before, what agents wrote. Gathered here, for the intake and
//! for `replay --dry-run`, so that `core::routing` stays a pure function.

use jiff::Timestamp;

use crate::base::failure::chain;
use crate::core::config::Routing;
use crate::core::event::{Event, Thread, What};
use crate::core::harness::Harnesses;
use crate::core::routing::{SessionView, TextEdit, TextField, View};
use crate::state::inbox::{InboxReader, StoredDelivery};
use crate::state::paths::StatePaths;
use crate::state::registry::{Loaded, Registry};

use super::agents_words::AgentsWords;

/// Gathers what routing may know.
#[derive(Debug)]
pub struct Sight {
    registry: Registry,
    agents_words: AgentsWords,
}

impl Sight {
    /// Looks at the sessions of this registry and at the spools beside the state.
    pub fn new(registry: Registry, harnesses: Harnesses, paths: &StatePaths) -> Self {
        Self { registry, agents_words: AgentsWords::new(paths.clone(), harnesses) }
    }

    /// What is known when an event is decided about.
    pub fn view(
        &mut self,
        inbox: &InboxReader,
        routing: &Routing,
        event: &Event,
        delivery: &StoredDelivery,
    ) -> View {
        let mut view = View {
            again: delivery.again,
            received_at: Some(delivery.received_at),
            ..View::default()
        };
        if let Some(thread) = event.thread() {
            view.edits = edits_of(inbox, thread);
        }
        let Loaded { records, broken } = self.registry.load_all();
        for entry in broken {
            match entry.slug {
                Some(slug) => {
                    // Which pull requests it was for is known from before.
                    if let Some(record) = self.registry.copy_of(&slug) {
                        let item = record.work_item.reference;
                        let links = record.pull_requests.into_iter();
                        view.links.extend(links.map(|pr| (pr, item.clone())));
                    }
                    view.broken.insert(slug);
                }
                None => view.is_blind |= entry.path == self.registry.dir(),
            }
        }
        let is_listed = routing
            .authorized_users
            .iter()
            .any(|user| user.eq_ignore_ascii_case(&event.sender.login));
        if let Some(text) = event.spoken().filter(|_| is_listed) {
            let sessions = records.iter().map(|(slug, record)| (slug, &record.harness));
            view.said_by_agent = self.agents_words.hold(text, delivery.received_at, sessions);
        }
        if let What::Check(check) = &event.what {
            let heads = inbox.heads(&check.sha).unwrap_or_else(|error| {
                tracing::error!(error = %chain(&error), "could not look a commit up");
                Vec::new()
            });
            view.heads.insert(check.sha.clone(), heads);
        }
        let mut waiting = None;
        for (slug, record) in records {
            let begins = !record.conversation_started
                && !waiting
                    .get_or_insert_with(|| inbox.waiting().unwrap_or_default())
                    .contains_key(&slug);
            let item = record.work_item.reference;
            for pr in record.pull_requests {
                view.links.insert(pr, item.clone());
            }
            view.told_checks.extend(record.told_checks);
            view.sessions.insert(item, SessionView { status: record.status, begins });
        }
        view
    }
}

/// Who edited the texts of an item. What cannot be looked up may have been edited by
/// anybody.
fn edits_of(inbox: &InboxReader, thread: &Thread) -> Vec<TextEdit> {
    inbox.edits(&thread.item.slug()).unwrap_or_else(|error| {
        tracing::error!(error = %chain(&error), "could not look up who edited an item");
        let by_anybody = |field| TextEdit {
            field,
            login: String::new(),
            at: Timestamp::MAX,
            by_author: false,
            armed: false,
        };
        TextField::ALL.into_iter().map(by_anybody).collect()
    })
}
