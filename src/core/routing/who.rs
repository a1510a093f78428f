//! Who may act: the allow-list. A role on GitHub (`MEMBER`, `COLLABORATOR`)
//! means nothing here, and neither does a label by itself.

use crate::base::text::{cap, visible};
use crate::core::config;
use crate::core::event::{Actor, ActorKind, Change, Event, Pull, What};
use crate::core::outcome::Reason;

/// How much of a login is shown: GitHub allows no longer one.
const LOGIN_CHARS: usize = 60;

/// `routing.authorizedUsers`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Who<'a>(pub(super) &'a [String]);

impl Who<'_> {
    /// Whether the login is in the list, compared without case. A bot is in it
    /// by its whole login (`dependabot[bot]`) only.
    pub(super) fn lists(self, actor: &Actor) -> bool {
        self.has(&actor.login)
    }

    /// The same, of a login.
    pub(super) fn has(self, login: &str) -> bool {
        !login.is_empty() && self.0.iter().any(|user| user.eq_ignore_ascii_case(login))
    }

    /// Refuses a sender who is not listed.
    pub(super) fn sender(self, sender: &Actor) -> Result<(), Reason> {
        self.check(sender, Reason::SenderNotAuthorized)
    }

    /// Refuses a text whose author or whose sender is not listed.
    pub(super) fn text_of(self, author: &Actor, sender: &Actor) -> Result<(), Reason> {
        self.sender(sender)?;
        self.check(author, Reason::AuthorNotAuthorized)
    }

    fn check(self, actor: &Actor, otherwise: Reason) -> Result<(), Reason> {
        match actor.kind {
            _ if self.lists(actor) => Ok(()),
            ActorKind::Bot => Err(Reason::BotNotListed),
            ActorKind::User => Err(otherwise),
        }
    }
}

/// Who may not act, where that is why an event is ignored.
pub(super) fn unlisted(event: &Event, who: Who<'_>, reason: Reason) -> Option<String> {
    let actors = [Some(&event.sender), event.author()];
    let actor = match reason {
        Reason::SenderNotAuthorized => actors[0],
        Reason::AuthorNotAuthorized => actors[1],
        Reason::BotNotListed => {
            let is_it = |actor: &&Actor| actor.kind == ActorKind::Bot && !who.lists(actor);
            actors.into_iter().flatten().find(is_it)
        }
        _ => None,
    };
    let login = actor.map(|actor| visible(&cap(&actor.login, LOGIN_CHARS)));
    login.filter(|login| !login.is_empty())
}

/// Whether an event is one of people who may act, in a repository that is worked on:
/// its sender is listed, and so is who wrote what it tells. Nobody else is told what
/// became of an event.
pub fn is_of_listed(event: &Event, config: &config::Routing) -> bool {
    let who = Who(&config.authorized_users);
    let author = match &event.what {
        What::Ping | What::Check(_) | What::Other => return false,
        What::Issue { change: Change::Opened | Change::Edited(_), issue: thread }
        | What::Pull { change: Change::Opened | Change::Edited(_), pull: Pull { thread, .. } } => {
            Some(&thread.author)
        }
        // A listed user who does something to an item need not have written it.
        What::Issue { .. } | What::Pull { .. } => None,
        What::Comment { post, .. }
        | What::Review { post, .. }
        | What::ReviewComment { post, .. } => Some(&post.author),
    };
    let is_worked_on = event
        .repo
        .as_ref()
        .is_some_and(|repo| config.repositories.is_empty() || config.repositories.contains(repo));
    is_worked_on && who.lists(&event.sender) && author.is_none_or(|author| who.lists(author))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actor(login: &str) -> Actor {
        let kind = if login.ends_with("[bot]") { ActorKind::Bot } else { ActorKind::User };
        Actor { login: login.to_owned(), kind }
    }

    #[test]
    fn the_list_is_compared_without_case_and_whole() {
        let users = ["Octocat".to_owned(), "helper[bot]".to_owned()];
        let who = Who(&users);
        for (login, listed) in [
            ("octocat", true),
            ("OCTOCAT", true),
            ("octocat2", false),
            ("octo", false),
            ("", false),
            ("helper[bot]", true),
            ("helper", false),
            ("other[bot]", false),
        ] {
            assert_eq!(who.lists(&actor(login)), listed, "{login}");
        }
    }

    #[test]
    fn an_empty_list_lists_nobody_and_an_empty_login_is_nobody() {
        let blank = [String::new()];
        assert!(!Who(&blank).lists(&actor("")));
        assert!(!Who(&[]).lists(&actor("octocat")));
        assert_eq!(Who(&[]).sender(&actor("x")), Err(Reason::SenderNotAuthorized));
        assert_eq!(Who(&[]).sender(&actor("x[bot]")), Err(Reason::BotNotListed));
    }

    #[test]
    fn both_the_author_and_the_sender_count() {
        let users = ["a".to_owned()];
        let who = Who(&users);
        let text = |author, sender| who.text_of(&actor(author), &actor(sender));
        assert_eq!(text("a", "a"), Ok(()));
        assert_eq!(text("a", "x"), Err(Reason::SenderNotAuthorized));
        assert_eq!(text("x", "a"), Err(Reason::AuthorNotAuthorized));
        assert_eq!(text("x[bot]", "a"), Err(Reason::BotNotListed));
    }
}
