//! Which issues a pull request says it is for: GitHub's closing keywords in its
//! text, and this program's own convention for branch names.

use super::markdown::own_lines;
use crate::base::ids::{Repo, WorkItem};

const KEYWORDS: &[&str] =
    &["close", "closes", "closed", "fix", "fixes", "fixed", "resolve", "resolves", "resolved"];

const MAX_REFERENCE: usize = 500;

/// The issues of `repo` that the text closes, in order. A reference to another
/// repository is none, and neither is one in a quote, in code or in a hidden
/// comment (templates have examples there).
pub(super) fn closed_by(text: &str, repo: &Repo) -> Vec<WorkItem> {
    let mut found = Vec::new();
    for line in own_lines(text) {
        let mut rest = line.text.as_str();
        let mut before = None;
        while let Some(c) = rest.chars().next() {
            if !before.is_some_and(joins)
                && let Some(number) = closing(rest, repo)
            {
                let item = repo.item(number);
                if !found.contains(&item) {
                    found.push(item);
                }
            }
            before = Some(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    found
}

/// The issue number in a branch name `issue-<n>`, at word boundaries.
pub(super) fn branch_issue(branch: &str) -> Option<u64> {
    let lower = branch.to_ascii_lowercase();
    lower.match_indices("issue-").find_map(|(at, word)| {
        let starts = !lower[..at].ends_with(is_word);
        starts.then(|| number(&lower[at + word.len()..])).flatten()
    })
}

/// The number when a keyword and its reference stand at the start.
fn closing(text: &str, repo: &Repo) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    if !KEYWORDS.iter().any(|word| word.eq_ignore_ascii_case(&text[..end])) {
        return None;
    }
    let rest = text[end..].trim_start();
    let (colon, rest) = match rest.strip_prefix(':') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let reference = rest.trim_start();
    let apart = colon || reference.len() < text[end..].len();
    apart.then(|| referenced(reference, repo)).flatten()
}

/// The number when a reference to an issue of `repo` stands at the start. Only
/// as much is read as the longest reference has, or a text of many keywords
/// would be read as many times.
fn referenced(text: &str, repo: &Repo) -> Option<u64> {
    let end = text.char_indices().nth(MAX_REFERENCE).map_or(text.len(), |(at, _)| at);
    let text = &text[..end];
    if let Some(rest) = text.strip_prefix('#') {
        return number(rest);
    }
    if text.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("gh-")) {
        return number(&text[3..]);
    }
    let scheme = |scheme: &str| {
        text.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            .then(|| &text[scheme.len()..])
    };
    if let Some(rest) = scheme("https://").or_else(|| scheme("http://")) {
        let mut parts = rest.splitn(5, '/');
        let named = Repo::new(parts.next()?, parts.next()?, parts.next()?).ok()?;
        return (named == *repo && parts.next()? == "issues").then(|| number(parts.next()?))?;
    }
    let (name, rest) = text.split_once('#')?;
    let (owner, name) = name.split_once('/')?;
    let named = Repo::new(repo.host(), owner, name).ok()?;
    (named == *repo).then(|| number(rest)).flatten()
}

/// The digits at the start, when the word ends with them.
fn number(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let ends = !text[end..].starts_with(is_word);
    text[..end].parse().ok().filter(|number| ends && *number > 0)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether a word behind this character is part of a longer name.
fn joins(c: char) -> bool {
    is_word(c) || matches!(c, '-' | '/' | '#' | '@' | '.')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers(text: &str) -> Vec<u64> {
        let repo: Repo = "octo/repo".parse().unwrap();
        closed_by(text, &repo).into_iter().map(|item| item.number).collect()
    }

    #[test]
    fn every_form_of_a_closing_keyword() {
        for word in KEYWORDS {
            assert_eq!(numbers(&format!("{word} #7")), [7], "{word}");
            assert_eq!(numbers(&format!("This {}: #7.", word.to_uppercase())), [7], "{word}");
        }
        for text in [
            "Closes #7",
            "closes:#7",
            "closes :  #7",
            "Closes\t#7",
            "Closes GH-7",
            "closes gh-7",
            "Closes octo/repo#7",
            "Closes OCTO/Repo#7",
            "Closes https://github.com/octo/repo/issues/7",
            "Closes: HTTPS://github.com/Octo/Repo/issues/7#issuecomment-1",
            "Closes https://github.com/octo/repo/issues/7.",
            "(closes #7)",
            "**Closes #7**",
            "feat: x, closes #7, thanks",
            "a\n\nCloses #7\n",
            "`code` closes #7",
        ] {
            assert_eq!(numbers(text), [7], "{text}");
        }
        assert_eq!(numbers("Closes #7, fixes #8 and closes #7"), [7, 8]);
    }

    #[test]
    fn what_closes_nothing_here() {
        for text in [
            "",
            "#7",
            "see #7",
            "closes",
            "closes #",
            "closes #0",
            "closes #x",
            "closes #7a",
            "closes #7_",
            "closes#7",
            "encloses #7",
            "un-closes #7",
            "closes_ #7",
            "closing #7",
            "closes issue #7",
            "Closes other/repo#7",
            "Closes octo/other#7",
            "Closes octo/repo/x#7",
            "Closes https://github.com/other/repo/issues/7",
            "Closes https://ghe.example/octo/repo/issues/7",
            "Closes https://github.com/octo/repo/pull/7",
            "Closes https://github.com/octo/repo/issues/7x",
            "Closes https://github.com/octo/repo/issues/",
            "Closes https://github.com",
            "Closes #99999999999999999999999",
            "> Closes #7",
            "`Closes #7`",
            "``x ` Closes #7``",
            "```\nCloses #7\n```",
            "<!-- Closes #7 -->",
            "<!-- \nCloses #7",
            "Closes\n#7",
            "Closes ＃7",
            "Closes #７",
        ] {
            assert_eq!(numbers(text), [0; 0], "{text}");
        }
    }

    #[test]
    fn a_branch_counts_at_word_boundaries_only() {
        for (branch, number) in [
            ("issue-9", Some(9)),
            ("fix/issue-9", Some(9)),
            ("Issue-9-readme", Some(9)),
            ("issue-9/readme", Some(9)),
            ("fix_issue-9", None),
            ("the-loop/issue-20", Some(20)),
            ("reissue-9", None),
            ("issue-9x", None),
            ("issue-", None),
            ("issue-0", None),
            ("issues-9", None),
            ("tissue-1-issue-2", Some(2)),
            ("", None),
        ] {
            assert_eq!(branch_issue(branch), number, "{branch}");
        }
    }

    proptest! {
        #[test]
        fn any_text_can_be_searched(text in "([a-zA-Z#/:`~> <!é\n-]|closes|#[0-9]|GH-|https://){0,60}") {
            let _ = numbers(&text);
            let _ = branch_issue(&text);
        }
    }
}
