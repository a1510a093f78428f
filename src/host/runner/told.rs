//! What is told at once: one delivery, or several that waited together, as one
//! text in marked blocks.

use std::io;

use crate::base::failure::chain;
use crate::base::files::{self, atomic};
use crate::base::ids::DeliveryId;
use crate::core::outcome::{Reason, State};
use crate::core::routing::prompt;
use crate::state::inbox::{InboxReader, QueuedDelivery, Step};
use crate::state::paths::StatePaths;

/// Deliveries of one session that are told as one text.
#[derive(Debug, Clone)]
pub(super) struct Told {
    /// The first of them, with the text of all.
    pub(super) whole: QueuedDelivery,
    /// Each of them, in the order of the text.
    pub(super) each: Vec<QueuedDelivery>,
}

impl Told {
    /// Reads them from the inbox.
    pub(super) fn load(inbox: &InboxReader, ids: &[DeliveryId]) -> Result<Self, String> {
        let mut each = Vec::with_capacity(ids.len());
        for id in ids {
            match inbox.queued(id) {
                Ok(Some(delivery)) => each.push(delivery),
                Ok(None) => return Err(format!("the inbox has no delivery `{id}`")),
                Err(error) => return Err(chain(&error)),
            }
        }
        let Some(first) = each.first() else { return Err("there is nothing to tell".to_owned()) };
        Ok(Self { whole: QueuedDelivery { prompt: joined(&each), ..first.clone() }, each })
    }

    /// The same in at most about `limit` bytes: what is longer goes into a private
    /// file for each delivery, which its text names. The same every time, so that
    /// a text which a crash left in the box is known again.
    pub(super) fn in_at_most(mut self, limit: usize, paths: &StatePaths) -> io::Result<Self> {
        if self.whole.prompt.len() <= limit {
            return Ok(self);
        }
        let share = limit / self.each.len().max(1);
        for delivery in self.each.iter_mut().filter(|delivery| delivery.prompt.len() > share) {
            let dir = paths.texts();
            files::private_dir(&dir)?;
            let file = dir.join(format!("{}-{}.txt", delivery.slug, delivery.seq));
            atomic::write(&file, delivery.prompt.as_bytes())?;
            delivery.prompt = prompt::shortened(&delivery.prompt, share, &file);
        }
        self.whole.prompt = joined(&self.each);
        Ok(self)
    }

    /// The same step for each of them.
    pub(super) fn steps(&self, state: State, reason: Reason, detail: Option<&str>) -> Vec<Step> {
        let step = |delivery: &QueuedDelivery| Step {
            delivery: delivery.id.clone(),
            state,
            reason,
            detail: detail.map(str::to_owned),
            route: None,
        };
        self.each.iter().map(step).collect()
    }
}

fn joined(each: &[QueuedDelivery]) -> String {
    let prompts: Vec<_> = each.iter().map(|delivery| delivery.prompt.as_str()).collect();
    prompts.join("\n\n")
}
