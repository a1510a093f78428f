//! Which session an event belongs to: the issue that a pull request is for,
//! else the pull request itself.

use super::references::{branch_issue, closed_by};
use super::{Link, View};
use crate::base::ids::WorkItem;
use crate::core::event::{CheckPull, Pull, Thread};

/// Where an event happened, and whose session it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The issue or pull request of the event.
    pub(super) own: WorkItem,
    /// The item whose session it belongs to: the same, or its issue.
    pub(super) target: WorkItem,
    /// Whether the link between the two was found just now.
    fresh: bool,
}

impl Place {
    /// An event of the item itself.
    pub(super) fn itself(item: &WorkItem) -> Self {
        Self { own: item.clone(), target: item.clone(), fresh: false }
    }

    /// Whether it belongs to another item than the one it happened on.
    pub(super) fn is_linked(&self) -> bool {
        self.own != self.target
    }

    /// The link, when it is not stored yet.
    pub(super) fn fresh_link(&self) -> Option<Link> {
        self.fresh.then(|| Link { pr: self.own.clone(), item: self.target.clone() })
    }

    fn linked(own: &WorkItem, target: WorkItem, fresh: bool) -> Self {
        Self { own: own.clone(), target, fresh }
    }

    /// The place of a pull request that is seen as an issue: its branch is not
    /// known then. Its `body` is empty where it may choose no session.
    pub(super) fn of_thread(thread: &Thread, body: &str, view: &View) -> Self {
        Self::find(&thread.item, view, body, None)
    }

    /// The place of a pull request. A branch of another repository counts only
    /// when `trusted`: when its author is listed.
    pub(super) fn of_pull(pull: &Pull, body: &str, view: &View, trusted: bool) -> Self {
        let branch = (pull.own_head || trusted).then_some(pull.branch.as_str());
        Self::find(&pull.thread.item, view, body, branch)
    }

    /// The place of a pull request that a check ran for.
    pub(super) fn of_check(pull: &CheckPull, view: &View) -> Self {
        Self::find(&pull.item, view, "", Some(&pull.branch))
    }

    fn find(own: &WorkItem, view: &View, body: &str, branch: Option<&str>) -> Self {
        if let Some(target) = view.links.get(own) {
            return Self::linked(own, target.clone(), false);
        }
        // A session of its own was there before anything that the text says now.
        if view.has_session(own) {
            return Self::itself(own);
        }
        let closed = closed_by(body, &own.repo);
        let mut issues = closed.iter().filter(|item| *item != own);
        let first = issues.clone().next();
        if let Some(issue) = issues.find(|item| view.has_session(item)).or(first) {
            return Self::linked(own, issue.clone(), true);
        }
        match branch.and_then(branch_issue).map(|number| own.repo.item(number)) {
            Some(issue) if issue != *own => Self::linked(own, issue, true),
            _ => Self::itself(own),
        }
    }
}
