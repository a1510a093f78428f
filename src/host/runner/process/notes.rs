//! What the registry is told of a headless session.

use crate::base::failure::chain;
use crate::base::ids::{DeliveryId, HarnessSessionId, Slug};
use crate::core::outcome::{Reason, State};
use crate::core::session::{SessionRecord, SessionStatus};

use super::ProcessRunner;
use super::judge::has_result;

impl ProcessRunner {
    /// A turn ended for these deliveries.
    pub(super) fn note_end(
        &self,
        slug: &Slug,
        ids: &[DeliveryId],
        state: State,
        reason: Reason,
        detail: Option<&str>,
        conversation: Option<(HarnessSessionId, bool)>,
    ) {
        let now = self.parts.clock.now();
        let has_arrived = state == State::Delivered;
        self.note(slug, |record| {
            if has_arrived {
                record.conversation_lost = false;
                for id in ids {
                    record.note_delivery(id, now);
                }
            }
            // What a turn took or lacked is one thing, a session that failed another.
            let explained = || detail.unwrap_or_else(|| reason.explain()).to_owned();
            let failed = state == State::Failed;
            record.failure = failed.then(explained);
            record.last_turn =
                if has_result(reason) { detail.map(str::to_owned) } else { Some(explained()) };
            if let Some((conversation, says_nothing)) = conversation {
                record.goes_on_in(conversation, says_nothing);
            }
            record.conversation_started |= has_arrived;
            // One that was closed while no receiver ran stays so: its turn was taken up
            // for its outcome.
            if record.status != SessionStatus::Closed {
                record.be(if failed { SessionStatus::Failed } else { SessionStatus::Active });
            }
        });
    }

    /// No turn could be begun.
    pub(in crate::host::runner) fn note_failed(&self, slug: &Slug, why: &str) {
        self.note(slug, |record| {
            record.failure = Some(why.to_owned());
            record.be(SessionStatus::Failed);
        });
    }

    pub(super) fn load(&self, slug: &Slug) -> Result<SessionRecord, String> {
        match self.parts.registry.load(slug) {
            Ok(Some(record)) => Ok(record),
            Ok(None) => Err(format!("the registry has no session `{slug}`")),
            Err(error) => Err(chain(&error)),
        }
    }

    pub(super) fn note(&self, slug: &Slug, change: impl FnOnce(&mut SessionRecord)) {
        if let Err(error) = self.parts.registry.update(slug, change) {
            tracing::warn!(%slug, error = %chain(&error), "could not update the registry");
        }
    }
}
