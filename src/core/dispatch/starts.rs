//! How many sessions are started at a time.

use super::{Command, Dispatcher, Doing};
use crate::base::ids::Slug;

impl Dispatcher {
    /// Starts sessions that wait for it, oldest first, while there is room.
    pub(super) fn start_waiting(&mut self, out: &mut Vec<Command>) {
        while self.starts < self.max_starts {
            let Some(slug) = self.waiting.pop_front() else { return };
            if self.doing(&slug) != Doing::WaitingForStart {
                continue;
            }
            self.starts += 1;
            if let Some(session) = self.sessions.get_mut(&slug) {
                session.holds_start = true;
            }
            self.begin(slug, out);
        }
    }

    pub(super) fn begin(&mut self, slug: Slug, out: &mut Vec<Command>) {
        self.set(&slug, Doing::Starting);
        let is_begun = self.head(&slug).is_some_and(|head| head.is_stored_begun);
        let begin = if is_begun { Command::TakeUp } else { Command::Start };
        out.push(begin(slug));
    }

    pub(super) fn free_start(&mut self, slug: &Slug) {
        if let Some(session) = self.sessions.get_mut(slug)
            && std::mem::take(&mut session.holds_start)
        {
            self.starts = self.starts.saturating_sub(1);
        }
    }
}
