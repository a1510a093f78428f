//! What happens to deliveries that were offered and of which nothing was typed:
//! they may have to give way.

use super::{Command, Dispatcher, Doing};
use crate::base::ids::{DeliveryId, Slug};

impl Dispatcher {
    /// What belongs to a delivery had time to come.
    pub(super) fn gathered(&mut self, slug: &Slug, delivery: &DeliveryId, out: &mut Vec<Command>) {
        if let Some(session) = self.sessions.get_mut(slug) {
            session.queue.gathered(delivery);
        }
        self.reconsider(slug, out);
    }

    /// A person lets in what waits.
    pub(super) fn released(&mut self, slug: &Slug, out: &mut Vec<Command>) {
        let Some(session) = self.sessions.get_mut(slug) else { return };
        session.queue.release();
        if session.doing == Doing::Delivering && !session.holds_start {
            out.push(Command::GiveWay(slug.clone()));
        }
        self.reconsider(slug, out);
    }

    /// A person paused the session: at its next start it is found so.
    pub(super) fn paused(&mut self, slug: &Slug, out: &mut Vec<Command>) {
        if self.doing(slug) == Doing::Delivering {
            out.push(Command::GiveWay(slug.clone()));
        }
    }

    /// Something about the queue is different: what waited for others may begin,
    /// what is at the gate may not be what goes first.
    pub(super) fn reconsider(&mut self, slug: &Slug, out: &mut Vec<Command>) {
        let Some(session) = self.sessions.get_mut(slug) else { return };
        match session.doing {
            Doing::Gathering => {
                session.doing = Doing::Nothing;
                self.advance(slug, out);
            }
            Doing::Delivering
                if !session.holds_start && session.queue.wants_back(session.group) =>
            {
                out.push(Command::GiveWay(slug.clone()));
            }
            _ => {}
        }
    }
}
