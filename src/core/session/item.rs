//! ITEM on the command line: which session a person means by `15`, `#15`,
//! `owner/repo#15`, a URL, or the slug.

use crate::base::ids::{Slug, WorkItem};
use crate::base::text::{cap, visible};
use crate::core::config::distance;

/// A session that can be meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its name.
    pub slug: Slug,
    /// Its item; `None` when its entry cannot be read.
    pub item: Option<WorkItem>,
    /// The pull requests that belong to it.
    pub pull_requests: Vec<WorkItem>,
}

impl Known {
    /// As people write it.
    fn name(&self) -> String {
        self.item.as_ref().map_or_else(|| self.slug.to_string(), WorkItem::short)
    }
}

/// Why a text names no session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ItemError {
    /// It is written in none of the forms.
    #[error("`{text}` is not a work item")]
    Invalid {
        /// What was typed.
        text: String,
    },
    /// More than one session has this number.
    #[error("`{text}` can be {}", .candidates.join(" or "))]
    Ambiguous {
        /// What was typed.
        text: String,
        /// The sessions it can be.
        candidates: Vec<String>,
    },
    /// No session is bound to it.
    #[error("there is no session for `{text}`")]
    Unknown {
        /// What was typed.
        text: String,
        /// The sessions there are, nearest first.
        nearest: Vec<String>,
    },
}

/// How many sessions an error names.
const NAMED: usize = 5;

impl ItemError {
    /// What to do next.
    pub fn hint(&self) -> String {
        match self {
            Self::Invalid { .. } => {
                "write it as `15`, `owner/repo#15`, its URL or the session's slug".to_owned()
            }
            Self::Ambiguous { .. } => "write the repository too, as in `owner/repo#15`".to_owned(),
            Self::Unknown { nearest, .. } if nearest.is_empty() => {
                "there are no sessions".to_owned()
            }
            Self::Unknown { nearest, .. } => {
                let more = if nearest.len() > NAMED { ", …" } else { "" };
                let named: Vec<_> = nearest.iter().take(NAMED).map(String::as_str).collect();
                format!("there is {}{more}", named.join(", "))
            }
        }
    }
}

/// The session that `text` means. An item's own session wins over one that the
/// pull request is linked to.
pub fn find_item(text: &str, known: &[Known]) -> Result<Slug, ItemError> {
    let typed = text.trim();
    let shown = visible(&cap(typed, 120));
    let wanted = Wanted::parse(typed).ok_or_else(|| ItemError::Invalid { text: shown.clone() })?;
    let own: Vec<_> = known.iter().filter(|session| wanted.is(&session.slug)).collect();
    let found = if own.is_empty() {
        known.iter().filter(|session| wanted.is_one_of(&session.pull_requests)).collect()
    } else {
        own
    };
    match found[..] {
        [one] => Ok(one.slug.clone()),
        [] => Err(ItemError::Unknown { nearest: by_nearness(&wanted.text(), known), text: shown }),
        _ => {
            let candidates = found.iter().map(|session| format!("`{}`", session.name()));
            Err(ItemError::Ambiguous { text: shown, candidates: candidates.collect() })
        }
    }
}

enum Wanted {
    Number(u64),
    Slug(Slug),
}

impl Wanted {
    fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('#').unwrap_or(text);
        if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
            return digits.parse().ok().filter(|number| *number > 0).map(Self::Number);
        }
        if let Ok(item) = text.parse::<WorkItem>() {
            return Some(Self::Slug(item.slug()));
        }
        let slug = text.strip_prefix("loop/").unwrap_or(text).to_ascii_lowercase();
        slug.parse().ok().map(Self::Slug)
    }

    fn is(&self, slug: &Slug) -> bool {
        match self {
            Self::Slug(wanted) => wanted == slug,
            Self::Number(number) => {
                slug.as_str().rsplit('+').next() == Some(number.to_string().as_str())
            }
        }
    }

    fn is_one_of(&self, items: &[WorkItem]) -> bool {
        items.iter().any(|item| self.is(&item.slug()))
    }

    fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Slug(slug) => slug.to_string(),
        }
    }
}

/// The names of all sessions: the most similar first, then in order.
fn by_nearness(wanted: &str, known: &[Known]) -> Vec<String> {
    let mut sessions: Vec<_> = known
        .iter()
        .map(|session| {
            let slug = session.slug.as_str();
            let number = slug.rsplit('+').next().unwrap_or(slug);
            let other = if wanted.contains('+') { slug } else { number };
            (distance(wanted, other), session)
        })
        .collect();
    sessions.sort_by_key(|(distance, session)| (*distance, session.slug.clone()));
    sessions.into_iter().map(|(_, session)| session.name()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(items: &[&str]) -> Vec<Known> {
        items
            .iter()
            .map(|text| {
                let item: WorkItem = text.parse().unwrap();
                Known { slug: item.slug(), item: Some(item), pull_requests: Vec::new() }
            })
            .collect()
    }

    #[test]
    fn every_form_means_the_same_session() {
        let known = known(&["Octo/Repo.js#15", "octo/other#1"]);
        for text in [
            "15",
            "#15",
            " 15 ",
            "octo/repo.js#15",
            "Octo/Repo.js#15",
            "github:octo/repo.js#15",
            "https://github.com/octo/repo.js/issues/15#issuecomment-1",
            "https://github.com/Octo/Repo.js/pull/15/files",
            "octo+repo++js+15",
            "loop/octo+repo++js+15",
        ] {
            assert_eq!(find_item(text, &known).unwrap().as_str(), "octo+repo++js+15", "{text}");
        }
    }

    #[test]
    fn one_is_not_ten() {
        let known = known(&["o/r#10", "o/r#1", "o/r#11"]);
        assert_eq!(find_item("1", &known).unwrap().as_str(), "o+r+1");
        assert!(matches!(find_item("0", &known), Err(ItemError::Invalid { .. })));
    }

    #[test]
    fn a_number_of_two_repositories_is_not_guessed() {
        let error = find_item("#1", &known(&["a/b#1", "a/c#1"])).unwrap_err();
        assert_eq!(error.to_string(), "`#1` can be `a/b#1` or `a/c#1`");
        assert_eq!(error.hint(), "write the repository too, as in `owner/repo#15`");
    }

    #[test]
    fn a_pull_request_means_the_session_it_is_linked_to() {
        let mut known = known(&["o/r#1", "o/r#2"]);
        known[0].pull_requests = vec!["o/r#2".parse().unwrap(), "o/r#3".parse().unwrap()];
        assert_eq!(find_item("3", &known).unwrap().as_str(), "o+r+1");
        assert_eq!(find_item("2", &known).unwrap().as_str(), "o+r+2");
    }

    #[test]
    fn what_is_there_is_named_nearest_first() {
        let known = known(&["a/x#7", "octo/hello#3", "octo/hello#14", "z/z#9", "z/z#8", "z/z#7"]);
        let error = find_item("octo/helo#14", &known).unwrap_err();
        assert_eq!(error.to_string(), "there is no session for `octo/helo#14`");
        assert_eq!(error.hint(), "there is octo/hello#14, octo/hello#3, a/x#7, z/z#7, z/z#8, …");
        assert_eq!(find_item("1", &[]).unwrap_err().hint(), "there are no sessions");
        let error = find_item("no\x1b[31m", &known).unwrap_err();
        assert_eq!(error.to_string(), "`no\\x1b[31m` is not a work item");
    }
}
