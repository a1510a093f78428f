//! Following the inbox: which deliveries have moved since the last look, and to which
//! session.

use std::time::Duration;

use tokio::time::Instant;

use super::Tell;
use crate::base::failure::chain;
use crate::core::event;
use crate::core::github::{Moved, TheSession};
use crate::core::outcome::{Reason, State};
use crate::core::session::SessionStatus;
use crate::state::inbox::{DeliveryKind, Inbox, InboxError, InboxReader, Summary};

/// How many deliveries are read at a time.
const TOGETHER: u32 = 256;
/// How long after a look what it found to say is put down, for those who ask; and how
/// long after it, where it found nothing, how far it came.
const PUT_DOWN: Duration = Duration::from_secs(1);
const PUT_DOWN_ALL: Duration = Duration::from_mins(1);

impl Tell {
    pub(super) fn reader(&mut self) -> Result<&InboxReader, InboxError> {
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => Inbox::read_only(self.parts.inbox.path())?,
        };
        Ok(self.reader.insert(reader))
    }

    /// Looks what became of deliveries. Says whether to look again though there is no
    /// news.
    pub(super) fn look_or_again(&mut self) -> bool {
        if !self.telling.is_on() {
            return false;
        }
        let waited = self.telling.waiting();
        match self.look() {
            Ok(()) => {
                let is_new = self.telling.waiting() != waited;
                let by = Instant::now() + if is_new { PUT_DOWN } else { PUT_DOWN_ALL };
                self.save_by = self.save_by.into_iter().chain([by]).min();
                false
            }
            Err(error) => {
                self.trouble(Some(format!("what to tell cannot be read: {}", chain(&error))));
                true
            }
        }
    }

    fn look(&mut self) -> Result<(), InboxError> {
        // Such a one had come to its end, and may have come to it again.
        self.again.extend(self.parts.inbox.routed_again());
        while let Some(id) = self.again.last().cloned() {
            if let Some(place) = self.reader()?.place_of(&id)? {
                self.telling.again(place);
            }
            self.again.pop();
        }
        // Read first: what ends after this is seen by the next look.
        let under_way = self.reader()?.under_way()?;
        let ended: Vec<i64> = self.telling.open.difference(&under_way).copied().collect();
        for place in ended {
            match readable(self.reader()?.at(place))? {
                Some(delivery) => self.moved(&delivery)?,
                None => drop(self.telling.open.remove(&place)),
            }
        }
        // Another receiver may have put it up for routing again.
        let known = self.telling.latest;
        self.telling.open.extend(under_way.into_iter().filter(|place| *place <= known));
        loop {
            let latest = self.telling.latest;
            let found = self.reader()?.behind(latest, TOGETHER)?;
            for delivery in &found {
                self.moved(delivery)?;
            }
            if found.len() < TOGETHER as usize {
                break;
            }
        }
        for turn in self.reader()?.turns()? {
            if !self.telling.is_taken(turn.seq) {
                self.moved(&turn)?;
            }
        }
        Ok(())
    }

    /// A delivery that stands somewhere else than it did, or may.
    fn moved(&mut self, delivery: &Summary) -> Result<(), InboxError> {
        let Summary { seq, id, state, reason, .. } = delivery;
        let is_taken = *state == State::Delivered || *reason == Reason::TurnRunning;
        if delivery.kind == DeliveryKind::Github && (is_taken || *state == State::Failed) {
            let stored = readable(self.reader()?.stored(id))?;
            // One that says nothing that can be read is nobody's.
            let event = stored.and_then(|stored| event::parse(&stored.event, &stored.body).ok());
            if let Some(event) = event {
                let session = self.session_of(delivery);
                let (place, state, reason) = (*seq, *state, *reason);
                let moved = Moved { place, delivery: id, state, reason, event: &event, session };
                let (routing, now) = (self.parts.config.routing(), self.parts.clock.now());
                self.telling.moved(&moved, &routing, now);
            }
        }
        self.telling.stands(*seq, *state);
        Ok(())
    }

    /// The session that a delivery was told to, as long as it is one.
    fn session_of(&self, delivery: &Summary) -> Option<TheSession> {
        let record = self.registry.load(delivery.session.as_ref()?).ok().flatten()?;
        (record.status != SessionStatus::Closed).then(|| TheSession {
            is_headless: record.is_headless(),
            created_at: record.created_at,
            item: record.work_item.reference,
        })
    }
}

/// What is damaged is left out; what may be read later is an error.
fn readable<T>(found: Result<Option<T>, InboxError>) -> Result<Option<T>, InboxError> {
    match found {
        Err(error) if !error.may_pass() => {
            tracing::warn!(error = %chain(&error), "a delivery cannot be read; nothing is told of it");
            Ok(None)
        }
        found => found,
    }
}
