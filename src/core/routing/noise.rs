//! Continuous integration: of all that it says only a failure reaches an agent,
//! once for each check and commit, and only for heads that nobody without write
//! access could have pushed.

use sha2::{Digest as _, Sha256};

use super::message;
use super::references::branch_issue;
use super::which::Place;
use super::{Desk, Ruling, Verdict};
use crate::base::ids::Repo;
use crate::core::event::{Check, CheckPull, Conclusion};
use crate::core::outcome::Reason;
use crate::core::session::SessionStatus;

/// Where a check belongs, as far as that can be known.
pub(super) fn place(desk: &Desk<'_>, check: &Check, repo: &Repo) -> Option<Place> {
    let pulls = pulls(desk, check, repo)
        .filter(|pull| pull.own_head)
        .map(|pull| Place::of_check(pull, desk.view));
    let branches = check
        .branches
        .iter()
        .filter(|_| !check.foreign_head)
        .filter_map(|branch| branch_issue(branch))
        .map(|number| Place::itself(&repo.item(number)));
    let places: Vec<Place> = pulls.chain(branches).collect();
    let with_session = |place: &&Place| desk.view.has_session(&place.target);
    places.iter().find(with_session).or(places.first()).cloned()
}

/// The pull requests of a check: those that it names, else those that had its
/// commit at their head when a delivery last told of them.
fn pulls<'a>(
    desk: &Desk<'a>,
    check: &'a Check,
    repo: &'a Repo,
) -> impl Iterator<Item = &'a CheckPull> {
    let known = desk.view.heads.get(&check.sha).filter(|_| check.pulls.is_empty());
    let known = known.into_iter().flatten().filter(|pull| pull.item.repo == *repo);
    check.pulls.iter().chain(known)
}

/// What becomes of a check.
pub(super) fn check(desk: &Desk<'_>, check: &Check, repo: &Repo, place: Option<&Place>) -> Ruling {
    let conclusion = match check.conclusion {
        None | Some(Conclusion::NotFailed) => return Err(Reason::CheckNotFailed),
        Some(conclusion) => conclusion,
    };
    let mut pulls = pulls(desk, check, repo).peekable();
    let foreign = pulls.peek().is_some() && pulls.all(|pull| !pull.own_head);
    if check.foreign_head || foreign {
        return Err(Reason::ForeignHead);
    }
    let place = place.ok_or(Reason::NoWorkItem)?;
    // A fork's branch may have any name.
    if !check.own_branches && self::pulls(desk, check, repo).next().is_none() {
        return Err(Reason::UnknownHead);
    }
    let session = desk.view.sessions.get(&place.target).ok_or(Reason::NoSession)?;
    if session.status == SessionStatus::Closed {
        return Err(Reason::SessionClosed);
    }
    let key = key(check, repo);
    if desk.view.told_checks.contains(&key) && !desk.view.again {
        return Err(Reason::CheckAlreadyTold);
    }
    let mut verdict = Verdict::deliver(place, message::check(check, conclusion));
    verdict.told_check = Some(key);
    Ok(verdict)
}

/// The key under which a told failure is remembered. The name is hashed: it is
/// of any length and by anybody.
fn key(check: &Check, repo: &Repo) -> String {
    let name = Sha256::digest(check.name.as_bytes());
    format!("{repo}@{}:{}", check.sha, hex::encode(&name[..16]))
}
