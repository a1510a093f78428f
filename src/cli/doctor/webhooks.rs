//! What the doctor is told of a project's webhooks: by what the receiver wrote down,
//! and by the pings in the inbox.

use crate::cli::setup::Loaded;
use crate::doctor::{Webhook, Webhooks};
use crate::serve::github::TOKENS;
use crate::state::github::Memory;
use crate::state::inbox::Inbox;

/// What is known of them.
pub(super) fn webhooks(loaded: &Loaded) -> Webhooks {
    let Loaded { config, paths, .. } = loaded;
    // What is wrong with the inbox is `state.inbox`'s to say.
    let mut memory = Memory::read(&paths.github()).unwrap_or_default();
    if let Ok(inbox) = Inbox::read_only(&paths.inbox())
        && let Err(error) = memory.learn(&inbox)
    {
        tracing::debug!(%error, "the pings cannot be read");
    }
    for repo in &config.routing.repositories {
        memory.repositories.entry(repo.clone()).or_default();
    }
    let repositories = memory.repositories.into_iter().map(|(repository, of)| Webhook {
        repository,
        hook: of.hook,
        was_asked: of.looked_at.is_some(),
        trouble: of.trouble,
        silent: of.silent,
        lost: of.lost.len(),
    });
    Webhooks {
        repositories: repositories.collect(),
        wanted: config.webhooks.gh_webhook.events.clone(),
        redeliver: config.github.redeliver,
        tokens: TOKENS,
    }
}
