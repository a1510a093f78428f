//! Work trees, decided: which branch an item is worked on, and when a tree may
//! be taken away. Functions of what git said; `host::workspace` asks it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::config::{CloneBy, Forks};
use crate::base::ids::{Repo, WorkItem};
use crate::base::text::visible;

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
    /// Whether it was gone already when the session was last closed: nobody knows
    /// what was in it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
    /// What a delivery said of the item, where that is a pull request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub told: Option<ToldPull>,
}

/// What a delivery said of a pull request. The origin has the last word: this is
/// one more condition, and never trusted alone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToldPull {
    /// Its head, where the delivery said so much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<ToldHead>,
}

/// The head of a pull request, as a delivery told it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToldHead {
    /// The name of its branch.
    pub branch: String,
    /// Whether that is a branch of the pull request's own repository.
    pub own: bool,
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

    /// The clone that the trees of a repository belong to. What forks sent has one of
    /// its own: an agent that is told to trust a clone trusts every tree of it.
    pub fn clone_of(&self, repo: &Repo, foreign: bool) -> PathBuf {
        let slug = repo.item(1).slug();
        let name = slug.as_str().strip_suffix("+1").unwrap_or(slug.as_str());
        let clones = if foreign { self.clones().join("forks") } else { self.clones() };
        clones.join(format!("{name}.git"))
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
    /// A delivery said that it is a pull request, and the origin has no head of it.
    #[error("the origin has no `refs/pull/{number}/head`, though #{number} is a pull request")]
    NoPull {
        /// Its number.
        number: u64,
    },
    /// It would be the branch that everything is merged into.
    #[error(
        "the branch would be `{branch}`, the repository's default branch: no agent is put on that"
    )]
    Default {
        /// The branch.
        branch: String,
    },
    /// The branch of the pull request is at another commit than its head.
    #[error("the branch `{branch}` is not at the head of its pull request yet")]
    Moving {
        /// The branch.
        branch: String,
    },
}

impl NoHead {
    /// Whether it may be another a moment later: what was pushed is being taken up.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Moving { .. })
    }
}

/// The branch of an item that has none of its own yet.
pub fn branch_of(item: &WorkItem) -> String {
    format!("the-loop/{}", item.number)
}

/// What the tree of an item is made from. `known` is the branch that the item was on
/// before, `told` what a delivery said of it: that a commit is at a branch's head does
/// not make the branch the pull request's.
pub fn head_of(
    item: &WorkItem,
    origin: &Origin,
    known: Option<&str>,
    told: Option<&ToldPull>,
    forks: Forks,
) -> Result<Head, NoHead> {
    let default = origin.default_branch.as_deref();
    let own = |branch: &str| {
        let branch = branch.to_owned();
        if default == Some(branch.as_str()) {
            Err(NoHead::Default { branch })
        } else {
            Ok(Head::Own { branch })
        }
    };
    let Some(pull_head) = &origin.pull_head else {
        if told.is_some() {
            return Err(NoHead::NoPull { number: item.number });
        }
        let branch = branch_of(item);
        if origin.branches.contains_key(&branch) {
            return own(&branch);
        }
        let head = origin.default_branch.clone().unwrap_or_default();
        if !origin.branches.contains_key(&head) {
            return Err(NoHead::Empty { head });
        }
        return Ok(Head::New { branch, from: head });
    };
    let fork = || match forks {
        Forks::Allow => {
            Ok(Head::Fork { branch: format!("the-loop/pr-{}", item.number), pull: item.number })
        }
        Forks::Deny => Err(NoHead::Fork),
    };
    if let Some(head) = told.and_then(|told| told.head.as_ref()) {
        let at = origin.branches.get(&head.branch).filter(|_| head.own);
        return match at {
            None => fork(),
            Some(at) if at == pull_head => own(&head.branch),
            Some(_) => Err(NoHead::Moving { branch: head.branch.clone() }),
        };
    }
    // Nobody said which branch it is: the commit has to do, and is not enough for the
    // branch that everything is merged into.
    let at_head = origin.branches.iter().filter(|(_, at)| *at == pull_head);
    let at_head: Vec<&str> = at_head.map(|(name, _)| name.as_str()).collect();
    let others: Vec<&str> = at_head.iter().copied().filter(|name| default != Some(*name)).collect();
    if let Some(branch) = others.iter().find(|name| known == Some(**name)) {
        return own(branch);
    }
    match others[..] {
        [branch] => own(branch),
        [] => match at_head.first() {
            Some(branch) if forks == Forks::Deny => {
                Err(NoHead::Default { branch: (*branch).to_owned() })
            }
            _ => fork(),
        },
        [..] => {
            let first: Vec<_> = others.iter().take(3).map(|name| format!("`{name}`")).collect();
            Err(NoHead::Ambiguous { count: others.len(), names: first.join(", ") })
        }
    }
}

/// What git said about a tree that is about to be taken away.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Survey {
    /// Files that were changed, staged or are new, as `git status` counts them.
    pub changed: usize,
    /// New files that no `.gitignore` names: only the operator's own rules hide them,
    /// or the clone's.
    pub excluded: usize,
    /// A repository or a work tree of its own that stands in it.
    pub inner: Option<String>,
    /// Why not all of it could be looked through for such.
    pub unseen: Option<String>,
    /// Commits that no ref of the origin has.
    pub unpushed: usize,
    /// Commits of the item's own branch that no ref of the origin has, while something
    /// else is checked out.
    pub aside: usize,
    /// Files whose changes git was told not to look at (`assume-unchanged`,
    /// `skip-worktree`).
    pub hidden: usize,
    /// An operation that git has not ended: a merge, a rebase, a bisection.
    pub under_way: Option<String>,
    /// Whether somebody told git not to take it away (`git worktree lock`).
    pub locked: bool,
    /// Why the origin's refs may be older than now.
    pub stale: Option<String>,
    /// When the origin was last asked, where that is known.
    pub asked: Option<Timestamp>,
}

impl Survey {
    /// Why the tree must stay; nothing when all that is in it is elsewhere.
    pub fn keeps(&self) -> Option<String> {
        let Self { changed, excluded, inner, unseen, unpushed, aside, .. } = self;
        let Self { hidden, under_way, locked, stale, .. } = self;
        let mut why = Vec::new();
        if *locked {
            why.push("it is locked (`git worktree lock`)".to_owned());
        }
        if let Some(operation) = under_way {
            why.push(format!("{operation} is under way"));
        }
        if *changed > 0 {
            why.push(format!("{changed} changed or new file{}", plural(*changed)));
        }
        if *excluded > 0 {
            let files = format!("{excluded} new file{}", plural(*excluded));
            why.push(format!("{files} that no `.gitignore` names"));
        }
        if let Some(inner) = inner {
            why.push(format!("a repository or work tree of its own in `{}`", visible(inner)));
        }
        if let Some(unseen) = unseen {
            why.push(format!("not all of it could be looked through ({unseen})"));
        }
        if *unpushed > 0 {
            why.push(format!("{unpushed} unpushed commit{}", plural(*unpushed)));
        }
        if *aside > 0 {
            let commits = format!("{aside} unpushed commit{}", plural(*aside));
            why.push(format!("{commits} on its branch, which is not checked out"));
        }
        if *hidden > 0 {
            why.push(format!("{hidden} file{} that git does not look at", plural(*hidden)));
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
            head_of(&item("o/r#7"), &fresh, None, None, Forks::Deny).unwrap(),
            Head::New { branch: "the-loop/7".into(), from: "main".into() }
        );
        let known = origin(&[("refs/heads/main", '1'), ("refs/heads/the-loop/7", '2')]);
        assert_eq!(
            head_of(&item("o/r#7"), &known, None, None, Forks::Deny).unwrap(),
            Head::Own { branch: "the-loop/7".into() }
        );
        assert_eq!(
            head_of(&item("o/r#7"), &Origin::default(), None, None, Forks::Deny).unwrap_err(),
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
            head_of(&item("o/r#7"), &own, None, None, Forks::Deny).unwrap(),
            Head::Own { branch: "feature".into() }
        );
        let two = origin(&[
            ("refs/heads/a", '2'),
            ("refs/heads/b", '2'),
            ("refs/heads/main", '1'),
            ("refs/pull/7/head", '2'),
        ]);
        assert_eq!(
            head_of(&item("o/r#7"), &two, Some("b"), None, Forks::Deny).unwrap(),
            Head::Own { branch: "b".into() }
        );
        for known in [None, Some("main"), Some("gone")] {
            assert!(matches!(
                head_of(&item("o/r#7"), &two, known, None, Forks::Deny),
                Err(NoHead::Ambiguous { count: 2, .. })
            ));
        }
    }

    #[test]
    fn what_a_fork_sent_is_worked_on_only_where_that_is_allowed() {
        let fork = origin(&[("refs/heads/main", '1'), ("refs/pull/7/head", '3')]);
        assert_eq!(head_of(&item("o/r#7"), &fork, None, None, Forks::Deny), Err(NoHead::Fork));
        assert_eq!(
            head_of(&item("o/r#7"), &fork, Some("main"), None, Forks::Allow).unwrap(),
            Head::Fork { branch: "the-loop/pr-7".into(), pull: 7 }
        );
    }

    #[test]
    fn a_branch_is_not_the_pull_requests_because_it_stands_at_its_commit() {
        let at = |refs: &[(&str, char)]| {
            let ours = [("refs/heads/main", '1'), ("refs/pull/7/head", '2')];
            origin(&[&ours[..], refs].concat())
        };
        let told = |branch: &str, own| {
            Some(ToldPull { head: Some(ToldHead { branch: branch.to_owned(), own }) })
        };
        let of = |origin: &Origin, told: Option<ToldPull>, forks| {
            head_of(&item("o/r#7"), origin, None, told.as_ref(), forks)
        };
        let own = |branch: &str| Ok(Head::Own { branch: branch.to_owned() });
        // A fork's head, at which a branch of the origin happens to stand.
        let one = at(&[("refs/heads/develop", '2')]);
        assert_eq!(of(&one, told("develop", false), Forks::Deny), Err(NoHead::Fork));
        assert!(matches!(of(&one, told("x", false), Forks::Allow), Ok(Head::Fork { .. })));
        assert_eq!(of(&one, told("develop", true), Forks::Deny), own("develop"));
        assert_eq!(of(&one, told("gone", true), Forks::Deny), Err(NoHead::Fork));
        assert_eq!(of(&one, Some(ToldPull::default()), Forks::Deny), own("develop"));
        // Two of them: the delivery says which.
        let two = at(&[("refs/heads/a", '2'), ("refs/heads/b", '2')]);
        assert_eq!(of(&two, told("b", true), Forks::Deny), own("b"));
        assert!(matches!(of(&two, None, Forks::Deny), Err(NoHead::Ambiguous { count: 2, .. })));
        // What was just pushed is not in the pull request yet.
        let moving = of(&at(&[("refs/heads/a", '3')]), told("a", true), Forks::Deny);
        assert!(moving.unwrap_err().may_pass());
    }

    #[test]
    fn no_agent_is_put_on_the_default_branch() {
        let main = || NoHead::Default { branch: "main".to_owned() };
        let told = ToldPull { head: Some(ToldHead { branch: "main".to_owned(), own: true }) };
        let equal = origin(&[("refs/heads/main", '1'), ("refs/pull/7/head", '1')]);
        for told in [None, Some(&told)] {
            let head = head_of(&item("o/r#7"), &equal, Some("main"), told, Forks::Deny);
            assert_eq!(head, Err(main()));
        }
        let mut ours = origin(&[("refs/heads/the-loop/7", '1')]);
        ours.default_branch = Some("the-loop/7".to_owned());
        assert!(matches!(
            head_of(&item("o/r#7"), &ours, None, None, Forks::Deny),
            Err(NoHead::Default { .. })
        ));
    }

    #[test]
    fn a_pull_request_without_a_head_is_no_issue() {
        let none = origin(&[("refs/heads/main", '1')]);
        let told = ToldPull::default();
        assert_eq!(
            head_of(&item("o/r#7"), &none, None, Some(&told), Forks::Allow),
            Err(NoHead::NoPull { number: 7 })
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
                Survey { aside: 1, hidden: 2, ..Survey::default() },
                "1 unpushed commit on its branch, which is not checked out, \
                 2 files that git does not look at",
            ),
            (
                Survey { locked: true, excluded: 2, ..Survey::default() },
                "it is locked (`git worktree lock`), 2 new files that no `.gitignore` names",
            ),
            (
                Survey { inner: Some("target/wt".into()), ..Survey::default() },
                "a repository or work tree of its own in `target/wt`",
            ),
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
        assert_eq!(places.clone_of(&one.repo, false), Path::new("/w/clones/o+1.git"));
        let item = item("github:ghe.example:8443/O/R.js#7");
        assert_eq!(
            places.clone_of(&item.repo, false),
            Path::new("/w/clones/ghe++example_8443+o+r++js.git")
        );
        assert_eq!(places.clone_of(&one.repo, true), Path::new("/w/clones/forks/o+1.git"));
        assert_eq!(places.tree_of(&item, false), Path::new("/w/items/ghe++example_8443+o+r++js+7"));
        assert_eq!(places.tree_of(&item, true), Path::new("/w/forks/ghe++example_8443+o+r++js+7"));
        assert_eq!(url_of(&item.repo, CloneBy::Https), "https://ghe.example:8443/o/r.js.git");
        assert_eq!(url_of(&item.repo, CloneBy::Ssh), "ssh://git@ghe.example/o/r.js.git");
    }
}
