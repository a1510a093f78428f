//! Work trees, decided: which branch an item is worked on, and when a tree may
//! be taken away. Functions of what git said; `host::workspace` asks it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::config::{CloneBy, Forks};
use crate::base::ids::{Repo, WorkItem};

/// The work tree of a session, as its registry entry records it. Its directory
/// is the session's own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkTree {
    /// The branch that was checked out in it; nothing before it was first made.
    pub branch: Option<String>,
    /// Whether we made the directory and have not taken it away since. One that
    /// is gone although it was made is never made again unasked.
    pub made: bool,
    /// Whether its head came from another repository than the item's.
    pub foreign: bool,
    /// Why it stayed when the session was last closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

/// What in a clone says that it is ours: a configuration file inside one of its
/// trees is somebody else's, and is not read.
pub const MANAGED: &str = "the-loop-clone";

/// Where clones and work trees are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    root: PathBuf,
}

impl Places {
    /// Everything below one directory.
    pub fn below(root: &Path) -> Self {
        Self { root: root.to_path_buf() }
    }

    /// The directory whose trees have heads in their items' own repositories: an
    /// agent may be told once to trust everything below it.
    pub fn own(&self) -> PathBuf {
        self.root.join("items")
    }

    /// The directory whose trees hold what forks sent. Never trusted.
    pub fn forks(&self) -> PathBuf {
        self.root.join("forks")
    }

    /// The directory of the clones.
    pub fn clones(&self) -> PathBuf {
        self.root.join("clones")
    }

    /// The clone that the trees of a repository belong to.
    pub fn clone_of(&self, repo: &Repo) -> PathBuf {
        let slug = repo.item(1).slug();
        let name = slug.as_str().strip_suffix("+1").unwrap_or(slug.as_str());
        self.clones().join(format!("{name}.git"))
    }

    /// The tree of an item.
    pub fn tree_of(&self, item: &WorkItem, foreign: bool) -> PathBuf {
        let kind = if foreign { self.forks() } else { self.own() };
        kind.join(item.slug().as_str())
    }
}

/// Where a repository is cloned from. No part of it is an event's text: the
/// names were parsed, and hold nothing that a URL or a shell reads as syntax.
pub fn url_of(repo: &Repo, by: CloneBy) -> String {
    let (owner, name) = (repo.owner(), repo.name());
    match by {
        CloneBy::Https => format!("https://{}/{owner}/{name}.git", repo.host()),
        CloneBy::Ssh => {
            let host = repo.host().split(':').next().unwrap_or_default();
            format!("ssh://git@{host}/{owner}/{name}.git")
        }
    }
}

/// What the origin has, as far as one item needs it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// The branch that the repository's `HEAD` names.
    pub default_branch: Option<String>,
    /// The commits at the heads of its branches.
    pub branches: BTreeMap<String, String>,
    /// The commit at the head of the item, when the item is a pull request.
    pub pull_head: Option<String>,
}

impl Origin {
    /// Reads what `git ls-remote --symref` said about `HEAD`, the branches and
    /// the pull request of this number. Lines of another form are left out.
    pub fn parse(said: &str, number: u64) -> Self {
        let pull = format!("refs/pull/{number}/head");
        let mut origin = Self::default();
        for line in said.lines() {
            let Some((value, name)) = line.split_once('\t') else { continue };
            if let Some(target) = value.strip_prefix("ref: ") {
                if name == "HEAD" {
                    origin.default_branch = target.strip_prefix("refs/heads/").map(str::to_owned);
                }
            } else if !is_commit(value) {
            } else if name == pull {
                origin.pull_head = Some(value.to_owned());
            } else if let Some(branch) = name.strip_prefix("refs/heads/") {
                origin.branches.insert(branch.to_owned(), value.to_owned());
            }
        }
        origin
    }
}

fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// What an item's tree is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// A branch of its own that does not exist yet, from the default branch.
    New {
        /// The branch.
        branch: String,
        /// The branch of the origin that it starts from.
        from: String,
    },
    /// A branch that the origin has.
    Own {
        /// The branch.
        branch: String,
    },
    /// What a fork sent, on a branch that only we have.
    Fork {
        /// The branch.
        branch: String,
        /// The number of the pull request.
        pull: u64,
    },
}

impl Head {
    /// The branch that the tree is on.
    pub fn branch(&self) -> &str {
        match self {
            Self::New { branch, .. } | Self::Own { branch } | Self::Fork { branch, .. } => branch,
        }
    }
}

/// Why an item gets no tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoHead {
    /// The repository has no default branch that could be started from.
    #[error("the repository has no branch to start from: its HEAD names `{head}`")]
    Empty {
        /// What its `HEAD` names.
        head: String,
    },
    /// The head of the pull request is not in its repository.
    #[error(
        "the head of the pull request is not on a branch of its repository: it comes from a fork, \
         or its branch was deleted; `routing.workspace.forks: allow` lets the agent work on it"
    )]
    Fork,
    /// Several branches stand at the head, and none is known to be the one.
    #[error("{count} branches stand at the pull request's head, {names}: which one is not told")]
    Ambiguous {
        /// How many.
        count: usize,
        /// The first of them.
        names: String,
    },
}

/// The branch of an item that has none of its own yet.
pub fn branch_of(item: &WorkItem) -> String {
    format!("the-loop/{}", item.number)
}

/// What the tree of an item is made from. `known` is the branch that the item
/// was on before, or that a delivery told.
pub fn head_of(
    item: &WorkItem,
    origin: &Origin,
    known: Option<&str>,
    forks: Forks,
) -> Result<Head, NoHead> {
    let Some(pull_head) = &origin.pull_head else {
        let branch = branch_of(item);
        if origin.branches.contains_key(&branch) {
            return Ok(Head::Own { branch });
        }
        let head = origin.default_branch.clone().unwrap_or_default();
        if !origin.branches.contains_key(&head) {
            return Err(NoHead::Empty { head });
        }
        return Ok(Head::New { branch, from: head });
    };
    let at_head: Vec<&String> =
        origin.branches.iter().filter(|(_, at)| *at == pull_head).map(|(name, _)| name).collect();
    if let Some(branch) = at_head.iter().find(|name| known == Some(name.as_str())) {
        return Ok(Head::Own { branch: (*branch).clone() });
    }
    match at_head[..] {
        [branch] => Ok(Head::Own { branch: branch.clone() }),
        [] if forks == Forks::Allow => {
            Ok(Head::Fork { branch: format!("the-loop/pr-{}", item.number), pull: item.number })
        }
        [] => Err(NoHead::Fork),
        [..] => {
            let first: Vec<_> = at_head.iter().take(3).map(|name| format!("`{name}`")).collect();
            Err(NoHead::Ambiguous { count: at_head.len(), names: first.join(", ") })
        }
    }
}

/// What git said about a tree that is about to be taken away.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Survey {
    /// Files that were changed, staged or are new, as `git status` counts them.
    pub changed: usize,
    /// Commits that no ref of the origin has.
    pub unpushed: usize,
    /// An operation that git has not ended: a merge, a rebase, a bisection.
    pub under_way: Option<String>,
    /// Why the origin's refs may be older than now.
    pub stale: Option<String>,
}

impl Survey {
    /// Why the tree must stay; nothing when all that is in it is elsewhere.
    pub fn keeps(&self) -> Option<String> {
        let Self { changed, unpushed, under_way, stale } = self;
        let mut why = Vec::new();
        if let Some(operation) = under_way {
            why.push(format!("{operation} is under way"));
        }
        if *changed > 0 {
            why.push(format!("{changed} changed or new file{}", plural(*changed)));
        }
        if *unpushed > 0 {
            why.push(format!("{unpushed} unpushed commit{}", plural(*unpushed)));
        }
        if let Some(stale) = stale {
            why.push(format!("what the origin has could not be asked ({stale})"));
        }
        (!why.is_empty()).then(|| why.join(", "))
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(text: &str) -> WorkItem {
        text.parse().unwrap()
    }

    fn commit(digit: char) -> String {
        digit.to_string().repeat(40)
    }

    fn origin(refs: &[(&str, char)]) -> Origin {
        let lines = refs.iter().map(|(name, digit)| format!("{}\t{name}\n", commit(*digit)));
        let head = "ref: refs/heads/main\tHEAD\n".to_owned();
        Origin::parse(&std::iter::once(head).chain(lines).collect::<String>(), 7)
    }

    #[test]
    fn an_issue_starts_from_the_default_branch_or_goes_on_with_its_own() {
        let fresh = origin(&[("HEAD", '1'), ("refs/heads/main", '1'), ("refs/pull/8/head", '2')]);
        assert_eq!(
            head_of(&item("o/r#7"), &fresh, None, Forks::Deny).unwrap(),
            Head::New { branch: "the-loop/7".into(), from: "main".into() }
        );
        let known = origin(&[("refs/heads/main", '1'), ("refs/heads/the-loop/7", '2')]);
        assert_eq!(
            head_of(&item("o/r#7"), &known, None, Forks::Deny).unwrap(),
            Head::Own { branch: "the-loop/7".into() }
        );
        assert_eq!(
            head_of(&item("o/r#7"), &Origin::default(), None, Forks::Deny).unwrap_err(),
            NoHead::Empty { head: String::new() }
        );
    }

    #[test]
    fn a_pull_request_is_on_the_branch_that_stands_at_its_head() {
        let own = origin(&[
            ("refs/heads/main", '1'),
            ("refs/heads/feature", '2'),
            ("refs/pull/7/head", '2'),
        ]);
        assert_eq!(
            head_of(&item("o/r#7"), &own, None, Forks::Deny).unwrap(),
            Head::Own { branch: "feature".into() }
        );
        let two = origin(&[
            ("refs/heads/a", '2'),
            ("refs/heads/b", '2'),
            ("refs/heads/main", '1'),
            ("refs/pull/7/head", '2'),
        ]);
        assert_eq!(
            head_of(&item("o/r#7"), &two, Some("b"), Forks::Deny).unwrap(),
            Head::Own { branch: "b".into() }
        );
        for known in [None, Some("main"), Some("gone")] {
            assert!(matches!(
                head_of(&item("o/r#7"), &two, known, Forks::Deny),
                Err(NoHead::Ambiguous { count: 2, .. })
            ));
        }
    }

    #[test]
    fn what_a_fork_sent_is_worked_on_only_where_that_is_allowed() {
        let fork = origin(&[("refs/heads/main", '1'), ("refs/pull/7/head", '3')]);
        assert_eq!(head_of(&item("o/r#7"), &fork, None, Forks::Deny), Err(NoHead::Fork));
        assert_eq!(
            head_of(&item("o/r#7"), &fork, Some("main"), Forks::Allow).unwrap(),
            Head::Fork { branch: "the-loop/pr-7".into(), pull: 7 }
        );
    }

    #[test]
    fn lines_that_are_no_refs_are_left_out() {
        let said = "warning: x\nzz\trefs/heads/a\n\trefs/heads/b\nref: refs/tags/x\tHEAD\n";
        assert_eq!(Origin::parse(said, 7), Origin::default());
    }

    #[test]
    fn only_what_is_elsewhere_may_go() {
        assert_eq!(Survey::default().keeps(), None);
        for (survey, why) in [
            (Survey { changed: 1, ..Survey::default() }, "1 changed or new file"),
            (Survey { unpushed: 2, ..Survey::default() }, "2 unpushed commits"),
            (
                Survey { under_way: Some("a rebase".into()), changed: 3, ..Survey::default() },
                "a rebase is under way, 3 changed or new files",
            ),
            (
                Survey { stale: Some("no route".into()), ..Survey::default() },
                "what the origin has could not be asked (no route)",
            ),
        ] {
            assert_eq!(survey.keeps().as_deref(), Some(why));
        }
    }

    #[test]
    fn every_repository_and_item_has_a_place_of_its_own() {
        let places = Places::below(Path::new("/w"));
        let one = item("o/1#1");
        assert_eq!(places.clone_of(&one.repo), Path::new("/w/clones/o+1.git"));
        let item = item("github:ghe.example:8443/O/R.js#7");
        assert_eq!(
            places.clone_of(&item.repo),
            Path::new("/w/clones/ghe++example_8443+o+r++js.git")
        );
        assert_eq!(places.tree_of(&item, false), Path::new("/w/items/ghe++example_8443+o+r++js+7"));
        assert_eq!(places.tree_of(&item, true), Path::new("/w/forks/ghe++example_8443+o+r++js+7"));
        assert_eq!(url_of(&item.repo, CloneBy::Https), "https://ghe.example:8443/o/r.js.git");
        assert_eq!(url_of(&item.repo, CloneBy::Ssh), "ssh://git@ghe.example/o/r.js.git");
    }
}
