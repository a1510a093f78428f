//! From an event to a decision, with a reason for every outcome: who may act
//! (`who`), whose session it is (`which`), when it is told or starts one
//! (`when`), what is noise (`noise`), what is told (`message`, `prompt`).
//!
//! Called by the dispatcher's driver for each delivery, in order of arrival,
//! and by `replay --dry-run`. It knows of the registry only the [`View`], and
//! never asks GitHub: what was signed in the delivery is all there is.
//! docs/routing.md has the table.

mod control;
mod markdown;
mod message;
mod noise;
pub mod prompt;
mod references;
mod sanitise;
mod texts;
mod voice;
mod when;
mod which;
mod who;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

pub use message::{Field, Kind, Message, Value, Withheld};
pub use sanitise::{Sanitised, sanitise};
pub use voice::OwnVoice;

use self::message::Teller;
use self::texts::Approved;
pub use self::texts::{TextEdit, TextField};
use self::which::Place;
pub use self::who::is_of_listed;
use self::who::{Who, unlisted};
use crate::base::ids::{Slug, WorkItem};
use crate::base::text::cap;
use crate::core::config;
use crate::core::event::{CheckPull, Event, Thread, What};
use crate::core::outcome::Reason;
use crate::core::session::SessionStatus;
use crate::core::workspace::{ToldHead, ToldPull};

/// How much of a branch's name is kept: git allows no longer one.
const BRANCH_CHARS: usize = 300;

/// What routing knows of the registry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View {
    /// The sessions, by the item that they work on.
    pub sessions: BTreeMap<WorkItem, SessionView>,
    /// Pull requests, with the item whose session they belong to.
    pub links: BTreeMap<WorkItem, WorkItem>,
    /// The keys of failed checks that were told ([`Decision::told_check`]).
    pub told_checks: BTreeSet<String>,
    /// Pull requests by the commit at their head, as deliveries told: a check of
    /// such a commit belongs to them.
    pub heads: BTreeMap<String, Vec<CheckPull>>,
    /// Whether the event's own text stands in an agent's transcript as the
    /// agent's words ([`Event::spoken`]).
    pub said_by_agent: bool,
    /// Sessions whose entries cannot be read. What would be done about their items
    /// depends on what stands there.
    pub broken: BTreeSet<Slug>,
    /// No entry at all can be read.
    pub is_blind: bool,
    /// The delivery was decided about before, and is to be told now: a person or
    /// GitHub asked for it again.
    pub again: bool,
    /// Who edited or armed the texts of the event's item, as deliveries told.
    pub edits: Vec<TextEdit>,
    /// When the delivery came in: for one that does not tell its item's time.
    pub received_at: Option<Timestamp>,
}

impl View {
    /// Whether the item has a session, also one whose entry cannot be read.
    fn has_session(&self, item: &WorkItem) -> bool {
        self.sessions.contains_key(item) || self.is_broken(item)
    }

    fn is_broken(&self, item: &WorkItem) -> bool {
        !self.broken.is_empty() && self.broken.contains(&item.slug())
    }
}

/// What routing knows of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionView {
    /// Whether what is told next is the first that its agent hears: it took nothing
    /// yet, and nothing waits for it.
    pub begins: bool,
    /// Where it stands.
    pub status: SessionStatus,
}

/// What becomes of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The item whose session it belongs to.
    pub item: Option<WorkItem>,
    /// The pull request that the event is of, where that is another one.
    pub own: Option<WorkItem>,
    /// Why.
    pub reason: Reason,
    /// Whose login it was that is not listed, where that is why.
    pub unlisted: Option<String>,
    /// What is done.
    pub action: Action,
    /// A link to be stored on the item's session, seen for the first time.
    pub link: Option<Link>,
    /// The key of a failed check, to be remembered as told.
    pub told_check: Option<String>,
    /// The page of the event.
    pub url: Option<String>,
    /// What the event says that the item is called, and where its page is.
    pub named: Named,
    /// What the event says of the item, where that is a pull request.
    pub pull: Option<ToldPull>,
    /// Whether it is the first that the item's agent hears: it gets the standing
    /// instructions with it.
    pub first: bool,
    /// Who edited or armed the texts of its item by it, to be remembered.
    pub edits: Vec<TextEdit>,
}

/// What people know an item by.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Named {
    /// Its title, whoever wrote it.
    pub title: Option<String>,
    /// Its page.
    pub url: Option<String>,
}

/// A pull request belongs to the session of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The pull request.
    pub pr: WorkItem,
    /// The item.
    pub item: WorkItem,
}

/// What is done about an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Nothing; the reason is recorded.
    Ignore,
    /// Nothing; it is recorded as done.
    Note,
    /// Tell the item's session, which exists; resume it when its agent is gone.
    Deliver(Message),
    /// Start a session for the item with this; when there is one by now, tell
    /// it.
    Start(Message),
    /// Close the item's session.
    Close,
    /// Keep the events of the item's session from now on.
    Pause,
    /// Tell the item's session what was kept.
    Resume,
}

impl Action {
    /// One word for it, for logs and `--json`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Ignore => "ignore",
            Self::Note => "note",
            Self::Deliver(_) => "deliver",
            Self::Start(_) => "start",
            Self::Close => "close",
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }
}

/// Decides what becomes of an event.
pub fn decide(
    event: &Event,
    config: &config::Routing,
    view: &View,
    own_voice: &OwnVoice,
) -> Decision {
    let who = Who(&config.authorized_users);
    let texts = texts::approved(event, config, view);
    let mut desk = Desk { event, config, view, voice: own_voice, who, texts };
    let place = desk.place();
    if texts::is_started(&desk, place.as_ref()) {
        desk.texts = Approved::ALL;
    }
    let ruling = match (desk.rule(place.as_ref()), &place) {
        (ruling, Some(place)) if desk.must_be_read(place, &ruling) => {
            Err(Reason::RegistryUnreadable)
        }
        (ruling, _) => ruling,
    };
    let mut decision = Decision {
        item: place.as_ref().map(|place| place.target.clone()),
        own: place.as_ref().filter(|place| place.is_linked()).map(|place| place.own.clone()),
        reason: Reason::Ping,
        unlisted: None,
        action: Action::Ignore,
        link: None,
        told_check: None,
        url: event.url().cloned(),
        named: Named::default(),
        pull: None,
        first: false,
        edits: texts::edits(&desk, place.as_ref()),
    };
    match ruling {
        Ok(verdict) => {
            decision.item = verdict.item;
            decision.reason = verdict.reason;
            decision.action = verdict.action;
            decision.link = verdict.link;
            decision.told_check = verdict.told_check;
        }
        Err(reason) => {
            decision.reason = reason;
            decision.unlisted = unlisted(event, who, reason);
            decision.link =
                place.filter(|_| keeps_link(reason)).and_then(|place| desk.seen(&place));
        }
    }
    let begins = |item| view.sessions.get(item).is_none_or(|session| session.begins);
    decision.first = decision.item.as_ref().is_some_and(begins);
    if let Some(thread) = decision.item.as_ref().and_then(|item| event.thread_of(item)) {
        let title = Some(thread.title.clone()).filter(|title| !title.is_empty());
        decision.named = Named { title, url: thread.url.clone() };
    }
    decision.pull = decision.item.as_ref().and_then(|item| told_of(event, item));
    decision
}

/// What an event says of an item, where that is a pull request.
fn told_of(event: &Event, item: &WorkItem) -> Option<ToldPull> {
    match &event.what {
        What::Pull { pull, .. } | What::Review { pull, .. } | What::ReviewComment { pull, .. }
            if pull.thread.item == *item =>
        {
            let head = ToldHead { branch: cap(&pull.branch, BRANCH_CHARS), own: pull.own_head };
            // A pull request always has a branch: without one it was not told.
            Some(ToldPull { head: Some(head).filter(|head| !head.branch.is_empty()) })
        }
        What::Comment { thread, on_pull: true, .. } if thread.item == *item => {
            Some(ToldPull::default())
        }
        _ => None,
    }
}

/// Whether an event that is ignored for this reason may still show for the
/// first time which issue a pull request is for.
fn keeps_link(reason: Reason) -> bool {
    !matches!(reason, Reason::RoutingDisabled | Reason::RepositoryNotListed)
}

/// A decision that is more than a reason to do nothing.
#[derive(Debug)]
struct Verdict {
    item: Option<WorkItem>,
    reason: Reason,
    action: Action,
    link: Option<Link>,
    told_check: Option<String>,
}

/// `Err`: nothing is done, for this reason.
type Ruling = Result<Verdict, Reason>;

impl Verdict {
    fn new(item: WorkItem, action: Action, reason: Reason) -> Self {
        Self { item: Some(item), reason, action, link: None, told_check: None }
    }

    fn deliver(place: &Place, message: Message) -> Self {
        let reason = if place.is_linked() { Reason::MatchedByLink } else { Reason::Matched };
        Self::at(place, reason, message, Action::Deliver)
    }

    fn start(place: &Place, reason: Reason, message: Message) -> Self {
        Self::at(place, reason, message, Action::Start)
    }

    fn at(
        place: &Place,
        reason: Reason,
        mut message: Message,
        action: fn(Message) -> Action,
    ) -> Self {
        message.on = place.is_linked().then(|| place.own.clone());
        let verdict = Self::new(place.target.clone(), action(message), reason);
        Self { link: place.fresh_link(), ..verdict }
    }
}

/// Everything a decision is made from.
struct Desk<'a> {
    event: &'a Event,
    config: &'a config::Routing,
    view: &'a View,
    voice: &'a OwnVoice,
    who: Who<'a>,
    texts: Approved,
}

impl<'a> Desk<'a> {
    fn place(&self) -> Option<Place> {
        match &self.event.what {
            What::Ping | What::Other => None,
            What::Issue { issue, .. } => Some(Place::itself(&issue.item)),
            What::Comment { thread, on_pull: false, .. } => Some(Place::itself(&thread.item)),
            What::Comment { thread, .. } => {
                Some(Place::of_thread(thread, self.body(thread), self.view))
            }
            What::Pull { pull, .. }
            | What::Review { pull, .. }
            | What::ReviewComment { pull, .. } => {
                let trusted = self.who.lists(&pull.thread.author);
                Some(Place::of_pull(pull, self.body(&pull.thread), self.view, trusted))
            }
            What::Check(check) => {
                self.event.repo.as_ref().and_then(|repo| noise::place(self, check, repo))
            }
        }
    }

    fn rule(&self, place: Option<&Place>) -> Ruling {
        if self.event.what == What::Ping {
            return Ok(Verdict {
                item: None,
                reason: Reason::Ping,
                action: Action::Note,
                link: None,
                told_check: None,
            });
        }
        if !self.config.enabled {
            return Err(Reason::RoutingDisabled);
        }
        if self.event.what == What::Other {
            return Err(Reason::EventNotRouted);
        }
        let repo = self.event.repo.as_ref().ok_or(Reason::NoWorkItem)?;
        if !self.config.repositories.is_empty() && !self.config.repositories.contains(repo) {
            return Err(Reason::RepositoryNotListed);
        }
        if let What::Check(check) = &self.event.what {
            return noise::check(self, check, repo, place);
        }
        let place = place.ok_or(Reason::NoWorkItem)?;
        match &self.event.what {
            What::Issue { change, issue } => when::issue(self, place, change, issue),
            What::Pull { change, pull } => when::pull(self, place, change, pull),
            What::Comment { change, thread, post, .. } => {
                when::comment(self, place, *change, thread, post)
            }
            What::Review { change, pull, post, state, review } => {
                when::review(self, place, *change, pull, post, (*state, *review))
            }
            What::ReviewComment { change, pull, post, place: lines, review } => {
                when::review_comment(self, place, *change, pull, post, (lines, *review))
            }
            What::Ping | What::Check(_) | What::Other => Err(Reason::EventNotRouted),
        }
    }

    /// The link that an ignored event shows, when its pull request is by a
    /// listed user and its issue has a session.
    fn seen(&self, place: &Place) -> Option<Link> {
        let author = match &self.event.what {
            What::Pull { pull, .. }
            | What::Review { pull, .. }
            | What::ReviewComment { pull, .. } => &pull.thread.author,
            What::Comment { thread, .. } => &thread.author,
            _ => return None,
        };
        let kept = self.who.lists(author) && self.view.sessions.contains_key(&place.target);
        place.fresh_link().filter(|_| kept)
    }

    /// Whether the ruling says something about a session whose entry cannot be read.
    fn must_be_read(&self, place: &Place, ruling: &Ruling) -> bool {
        let is_unread = |item| self.view.is_broken(item) || self.view.is_blind;
        match ruling {
            Ok(verdict) => verdict.item.as_ref().is_some_and(is_unread),
            Err(Reason::NoSession | Reason::NotArmed | Reason::ItemIsClosed) => {
                is_unread(&place.target) || is_unread(&place.own)
            }
            Err(_) => false,
        }
    }

    fn teller(&self) -> Teller<'a> {
        Teller { who: self.who, texts: self.texts }
    }

    /// The body of the event's item; nothing where somebody changed it who may not
    /// act, for such a text chooses no session and is nobody's voice.
    fn body<'b>(&self, thread: &'b Thread) -> &'b str {
        if self.texts.body { &thread.body } else { "" }
    }

    fn carries_label(&self, thread: &Thread) -> bool {
        thread.labels.iter().any(|label| texts::is_arming(self.config, label))
    }
}
