//! When an event is told, when it starts a session, when it ends one: one
//! function for each kind of thing that people do on GitHub.

use super::control::{self, Order};
use super::message::{self, Kind, Message};
use super::texts::is_arming;
use super::which::Place;
use super::{Action, Desk, Ruling, Verdict};
use crate::core::config::SpawnPolicy;
use crate::core::event::{Actor, Change, DiffPlace, Post, PostChange, Pull, ReviewState, Thread};
use crate::core::outcome::Reason;
use crate::core::session::SessionStatus;

/// An issue itself.
pub(super) fn issue(desk: &Desk<'_>, place: &Place, change: &Change, issue: &Thread) -> Ruling {
    match change {
        Change::Labeled(label) => armed(desk, place, label, issue),
        Change::Opened => {
            written(desk, place, desk.body(issue), &issue.author)?;
            let arms = desk.carries_label(issue);
            let sender = &desk.event.sender;
            admit(desk, place, issue, arms, |_| desk.teller().thread(Kind::Opened, issue, sender))
        }
        Change::Edited(_) => {
            written(desk, place, desk.body(issue), &issue.author)?;
            let sender = &desk.event.sender;
            admit(desk, place, issue, false, |_| desk.teller().thread(Kind::Edited, issue, sender))
        }
        Change::Closed => close(desk, place),
        Change::Reopened => {
            desk.view.sessions.get(&place.target).ok_or(Reason::NoSession)?;
            Err(Reason::Reopened)
        }
        Change::Other => Err(Reason::ActionNotRouted),
    }
}

/// A pull request itself. What its agent does with it comes back as events too:
/// of those nothing is told.
pub(super) fn pull(desk: &Desk<'_>, place: &Place, change: &Change, pull: &Pull) -> Ruling {
    let thread = &pull.thread;
    match change {
        Change::Labeled(label) => armed(desk, place, label, thread),
        Change::Opened => {
            written(desk, place, desk.body(thread), &thread.author)?;
            if place.is_linked() && desk.view.sessions.contains_key(&place.target) {
                return Err(Reason::LinkedToIssue);
            }
            let arms = desk.carries_label(thread);
            let sender = &desk.event.sender;
            admit(desk, place, thread, arms, |_| desk.teller().thread(Kind::Opened, thread, sender))
        }
        Change::Closed => pull_closed(desk, place, pull),
        Change::Reopened => {
            desk.view.sessions.get(&place.target).ok_or(Reason::NoSession)?;
            Err(Reason::Reopened)
        }
        Change::Edited(_) | Change::Other => Err(Reason::ActionNotRouted),
    }
}

/// A comment below an issue or a pull request.
pub(super) fn comment(
    desk: &Desk<'_>,
    place: &Place,
    change: PostChange,
    thread: &Thread,
    post: &Post,
) -> Ruling {
    let kind = match change {
        PostChange::Created => Kind::Comment,
        PostChange::Edited => Kind::CommentEdited,
        PostChange::Other => return Err(Reason::ActionNotRouted),
    };
    spoken(desk, place, post)?;
    // Turned off by `routing.control`.
    if change == PostChange::Created
        && desk.config.control
        && let Some(order) = control::order(&post.body)
    {
        return ordered(desk, place, thread, post, order);
    }
    let arms = change == PostChange::Created && desk.carries_label(thread);
    admit(desk, place, thread, arms, |first| desk.teller().comment(kind, thread, post, first))
}

/// A listed user's control line.
fn ordered(desk: &Desk<'_>, place: &Place, thread: &Thread, post: &Post, order: Order) -> Ruling {
    let session = desk.view.sessions.get(&place.target).map(|session| session.status);
    let act = |action, reason| Ok(Verdict::new(place.target.clone(), action, reason));
    match (order, session) {
        (Order::Now, _) => {
            let arms = desk.carries_label(thread);
            admit(desk, place, thread, arms, |first| {
                let message = desk.teller().comment(Kind::Comment, thread, post, first);
                Message { now: true, ..message }
            })
        }
        // What was to start it did not arrive.
        (Order::Start, Some(_)) if desk.view.again => {
            Ok(Verdict::deliver(place, message::started(thread, post, &desk.event.sender)))
        }
        (Order::Start, Some(status)) if status.is_live() => Err(Reason::AlreadyArmed),
        (Order::Start, Some(_)) => {
            Ok(Verdict::deliver(place, desk.teller().comment(Kind::Comment, thread, post, false)))
        }
        (Order::Start, None) if thread.closed => Err(Reason::ItemIsClosed),
        // As with the label: whoever arms an item authorises its text as it is.
        (Order::Start, None) => Ok(Verdict::start(
            &Place::itself(&place.own),
            Reason::StartedByHand,
            message::started(thread, post, &desk.event.sender),
        )),
        (_, None) => Err(Reason::NoSession),
        (_, Some(SessionStatus::Closed)) => Err(Reason::SessionClosed),
        (Order::Stop, Some(_)) => act(Action::Close, Reason::StoppedByHand),
        (Order::Pause, Some(_)) => act(Action::Pause, Reason::PausedByHand),
        (Order::Resume, Some(SessionStatus::Paused)) => act(Action::Resume, Reason::ResumedByHand),
        (Order::Resume, Some(_)) => Err(Reason::NotPaused),
    }
}

/// A review.
pub(super) fn review(
    desk: &Desk<'_>,
    place: &Place,
    change: PostChange,
    pull: &Pull,
    post: &Post,
    (state, review): (ReviewState, Option<u64>),
) -> Ruling {
    if change != PostChange::Created {
        return Err(Reason::ActionNotRouted);
    }
    let says = matches!(state, ReviewState::Approved | ReviewState::ChangesRequested);
    if says && post.body.trim().is_empty() {
        desk.who.text_of(&post.author, &desk.event.sender)?;
    } else {
        spoken(desk, place, post)?;
    }
    let arms = desk.carries_label(&pull.thread);
    admit(desk, place, &pull.thread, arms, |first| {
        desk.teller().review(pull, post, state, review, first)
    })
}

/// A comment on lines of a pull request.
pub(super) fn review_comment(
    desk: &Desk<'_>,
    place: &Place,
    change: PostChange,
    pull: &Pull,
    post: &Post,
    (lines, review): (&DiffPlace, Option<u64>),
) -> Ruling {
    if change != PostChange::Created {
        return Err(Reason::ActionNotRouted);
    }
    spoken(desk, place, post)?;
    let arms = desk.carries_label(&pull.thread);
    admit(desk, place, &pull.thread, arms, |first| {
        desk.teller().review_comment(pull, post, lines, review, first)
    })
}

/// A label was put on an item. The listed user who arms it authorises its text
/// as it stands in this delivery, whoever wrote it.
fn armed(desk: &Desk<'_>, place: &Place, label: &str, thread: &Thread) -> Ruling {
    if !is_arming(desk.config, label) {
        return Err(Reason::OtherLabel);
    }
    let sender = &desk.event.sender;
    desk.who.sender(sender)?;
    let session = desk.view.sessions.get(&place.target);
    let is_live = session.is_some_and(|session| session.status.is_live());
    if !place.is_linked() && is_live && !desk.view.again {
        return Err(Reason::AlreadyArmed);
    }
    admit(desk, place, thread, true, |_| message::armed(thread, sender))
}

/// Refuses a text that is our own, empty, or by somebody who is not listed.
pub(super) fn spoken(desk: &Desk<'_>, place: &Place, post: &Post) -> Result<(), Reason> {
    written(desk, place, &post.body, &post.author)?;
    if post.body.trim().is_empty() { Err(Reason::EmptyText) } else { Ok(()) }
}

/// Refuses a text that is our own or by somebody who is not listed. Our own
/// voice comes first: it speaks with the login of a listed user.
fn written(desk: &Desk<'_>, place: &Place, text: &str, author: &Actor) -> Result<(), Reason> {
    let items = [&place.own, &place.target].into_iter().chain(desk.view.sessions.keys());
    if desk.voice.is_own_of_any(text, items) {
        return Err(Reason::OwnVoice);
    }
    if desk.view.said_by_agent {
        return Err(Reason::AgentsOwnWords);
    }
    desk.who.text_of(author, &desk.event.sender)
}

/// Tells an authorised event to the session it belongs to, or starts one. The
/// message is made for the first that an agent hears, or for a later one.
fn admit(
    desk: &Desk<'_>,
    place: &Place,
    thread: &Thread,
    arms: bool,
    message: impl FnOnce(bool) -> Message,
) -> Ruling {
    if let Some(session) = desk.view.sessions.get(&place.target) {
        // Of one that started the session nothing may have arrived.
        let first = session.begins || (desk.view.again && arms);
        return Ok(Verdict::deliver(place, message(first)));
    }
    match desk.config.spawn_on_unmatched {
        SpawnPolicy::Never => Err(Reason::NoSession),
        SpawnPolicy::Labeled if !arms => Err(Reason::NotArmed),
        // As with the comment that a person closes an item with.
        _ if thread.closed => Err(Reason::ItemIsClosed),
        // The label stands on the item itself, so that is what is armed.
        SpawnPolicy::Labeled | SpawnPolicy::Always if arms => {
            Ok(Verdict::start(&Place::itself(&place.own), Reason::Armed, message(true)))
        }
        SpawnPolicy::Labeled | SpawnPolicy::Always => {
            Ok(Verdict::start(place, Reason::SpawnAlways, message(true)))
        }
    }
}

/// The item was closed, by whomever: its session ends, and nothing is typed.
fn close(desk: &Desk<'_>, place: &Place) -> Ruling {
    match desk.view.sessions.get(&place.own).ok_or(Reason::NoSession)?.status {
        SessionStatus::Closed => Err(Reason::SessionClosed),
        _ => Ok(Verdict::new(place.own.clone(), Action::Close, Reason::ItemClosed)),
    }
}

fn pull_closed(desk: &Desk<'_>, place: &Place, pull: &Pull) -> Ruling {
    if desk.view.sessions.contains_key(&place.own) {
        return close(desk, place);
    }
    let session = desk.view.sessions.get(&place.target).ok_or(Reason::NoSession)?;
    if !pull.merged {
        return Err(Reason::NotTheSessionsItem);
    }
    desk.who.sender(&desk.event.sender)?;
    if !session.status.is_live() {
        return Err(Reason::SessionClosed);
    }
    Ok(Verdict::deliver(place, message::merged(pull, &desk.event.sender)))
}
