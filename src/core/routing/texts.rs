//! Whether an item's title and body are still what somebody wrote who may act.
//! GitHub names who opened an item and never who edited it since: that is known
//! from the `edited` deliveries, so each is remembered, with the time that it
//! tells itself. Deliveries come in any order, and twice.

use jiff::Timestamp;

use super::control::{self, Order};
use super::which::Place;
use super::{Desk, View, when};
use crate::core::config;
use crate::core::event::{Actor, Change, Edited, Event, PostChange, Thread, What};

/// A text of an item that others may edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TextField {
    /// The title.
    Title,
    /// The body.
    Body,
}

impl TextField {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Title, Self::Body];

    /// The field as it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Body => "body",
        }
    }

    /// The field with this text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.as_str() == text)
    }
}

/// Somebody edited a text of an item, or armed the item with it. Of each person
/// only the last counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextEdit {
    /// Which text.
    pub field: TextField,
    /// Who it was. Whether they may act is looked up when it matters.
    pub login: String,
    /// When, as GitHub tells it.
    pub at: Timestamp,
    /// Whether it was the item's own author.
    pub by_author: bool,
    /// Whether the text was taken as it is, and not edited.
    pub armed: bool,
}

/// Which texts of an item nobody has changed who may not act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Approved {
    pub(super) title: bool,
    pub(super) body: bool,
}

impl Approved {
    pub(super) const ALL: Self = Self { title: true, body: true };
}

/// Which texts of its item an event tells as somebody left them who may act.
pub(super) fn approved(event: &Event, config: &config::Routing, view: &View) -> Approved {
    let Some(thread) = event.thread() else { return Approved::ALL };
    let sender_may = lists(config, &event.sender.login);
    if sender_may && arms(event, config) {
        return Approved::ALL;
    }
    let seen = thread.updated.or(view.received_at).unwrap_or(Timestamp::MAX);
    let is_approved = |field| match changed(event) {
        // What this very event changed, it tells as it was changed.
        Changed::These(edited) if edited.has(field) => sender_may,
        Changed::Unsaid if !sender_may => false,
        _ => stands(field, seen, config, &view.edits),
    };
    Approved { title: is_approved(TextField::Title), body: is_approved(TextField::Body) }
}

/// Whether a text that was seen at a time is one that somebody left who may act.
/// One that was seen before the latest approval may be what that put right, so
/// only what was seen since counts.
fn stands(field: TextField, seen: Timestamp, config: &config::Routing, all: &[TextEdit]) -> bool {
    let of_field = || all.iter().filter(|edit| edit.field == field);
    let by_listed = |edit: &&TextEdit| lists(config, &edit.login);
    let foreign = of_field().filter(|edit| !edit.armed && !by_listed(edit)).map(|e| e.at).max();
    foreign.is_none_or(|foreign| {
        of_field().filter(by_listed).any(|edit| edit.at > foreign && edit.at <= seen)
    })
}

/// What is to be remembered of an event: who edited a text, or armed it.
pub(super) fn edits(desk: &Desk<'_>, place: Option<&Place>) -> Vec<TextEdit> {
    let (event, config) = (desk.event, desk.config);
    let Some(thread) = event.thread() else { return Vec::new() };
    let may = lists(config, &event.sender.login);
    let armed = may && (arms(event, config) || is_started(desk, place));
    let concerns = |field| match changed(event) {
        _ if armed => true,
        Changed::These(edited) => edited.has(field),
        // Anything may be another's then, and nothing is approved.
        Changed::Unsaid => !may,
        Changed::Nothing => false,
    };
    let at = thread.updated.or(desk.view.received_at).unwrap_or(Timestamp::MAX);
    let by_author = same(&event.sender, thread);
    let login = event.sender.login.to_ascii_lowercase();
    let fields = TextField::ALL.into_iter().filter(|field| concerns(*field));
    fields.map(|field| TextEdit { field, login: login.clone(), at, by_author, armed }).collect()
}

/// Whether a listed user's comment arms its item by hand, with its text as it is.
pub(super) fn is_started(desk: &Desk<'_>, place: Option<&Place>) -> bool {
    match (&desk.event.what, place) {
        (What::Comment { change: PostChange::Created, post, .. }, Some(place)) => {
            desk.config.control
                && control::order(&post.body) == Some(Order::Start)
                && when::spoken(desk, place, post).is_ok()
        }
        _ => false,
    }
}

/// Whether the arming label was put on the item.
fn arms(event: &Event, config: &config::Routing) -> bool {
    match &event.what {
        What::Issue { change: Change::Labeled(label), .. }
        | What::Pull { change: Change::Labeled(label), .. } => is_arming(config, label),
        _ => false,
    }
}

/// Whether a label is the arming one.
pub(super) fn is_arming(config: &config::Routing, label: &str) -> bool {
    let arming = &config.auto_execute_label;
    !arming.is_empty() && arming.to_lowercase() == label.to_lowercase()
}

/// What an event changed of its item's texts.
enum Changed {
    Nothing,
    These(Edited),
    /// Something, and it does not say what.
    Unsaid,
}

fn changed(event: &Event) -> Changed {
    match &event.what {
        What::Issue { change: Change::Edited(edited), .. }
        | What::Pull { change: Change::Edited(edited), .. } => {
            edited.map_or(Changed::Unsaid, Changed::These)
        }
        _ => Changed::Nothing,
    }
}

impl Edited {
    fn has(self, field: TextField) -> bool {
        match field {
            TextField::Title => self.title,
            TextField::Body => self.body,
        }
    }
}

fn lists(config: &config::Routing, login: &str) -> bool {
    super::Who(&config.authorized_users).has(login)
}

fn same(actor: &Actor, thread: &Thread) -> bool {
    !actor.login.is_empty() && actor.login.eq_ignore_ascii_case(&thread.author.login)
}
