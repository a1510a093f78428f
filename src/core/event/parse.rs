//! From the bytes of a delivery to an [`Event`]. Tolerant of all that it does
//! not need; what it needs and does not find is an error that names the field.

use jiff::Timestamp;
use serde::de::DeserializeOwned;

use super::{
    Actor, ActorKind, Change, Check, CheckPull, Conclusion, DiffPlace, DiffSide, Edited, Event,
    Post, PostChange, Pull, ReviewState, Thread, What,
};
use super::{payload as raw, surrogates};
use crate::base::ids::{InvalidId, Repo, WorkItem};

/// A delivery's body is not what its event should be.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// Not JSON, or a field has another type than GitHub gives it.
    #[error("the body of the `{event}` delivery cannot be read as JSON of its kind")]
    Json {
        /// The event's name.
        event: String,
        /// What the reader stumbled over.
        #[source]
        source: serde_json::Error,
    },
    /// JSON, but an array, a number or a text.
    #[error("the body of the `{event}` delivery is not a JSON object")]
    NotAnObject {
        /// The event's name.
        event: String,
    },
    /// A field that the event cannot be understood without is missing.
    #[error("the body of the `{event}` delivery has no usable `{field}`")]
    Missing {
        /// The event's name.
        event: String,
        /// The field's path.
        field: &'static str,
    },
    /// The repository has a name that GitHub would not give.
    #[error("`repository.html_url` of the `{event}` delivery names no repository")]
    Repository {
        /// The event's name.
        event: String,
        /// What is wrong with it.
        #[source]
        source: InvalidId,
    },
}

/// Parses the body of the delivery whose `X-GitHub-Event` is `event`.
pub fn parse(event: &str, body: &[u8]) -> Result<Event, ParseError> {
    let body = &surrogates::paired(body);
    Reader { event, body }.event()
}

struct Reader<'a> {
    event: &'a str,
    body: &'a [u8],
}

impl Reader<'_> {
    fn event(&self) -> Result<Event, ParseError> {
        // A derived reader would take an array for an object's fields in order.
        let first = self.body.iter().find(|byte| !byte.is_ascii_whitespace());
        if first.is_some_and(|byte| *byte != b'{') && self.json::<serde::de::IgnoredAny>().is_ok() {
            return Err(ParseError::NotAnObject { event: self.name() });
        }
        let head: raw::Head = self.json()?;
        let action = head.action.unwrap_or_default();
        let repo_id = head.repository.as_ref().and_then(|repository| repository.id);
        let url = head.repository.and_then(|repository| repository.html_url);
        let routed = matches!(
            self.event,
            "issues"
                | "issue_comment"
                | "pull_request"
                | "pull_request_review"
                | "pull_request_review_comment"
                | "check_run"
                | "workflow_run"
                | "status"
        );
        let (repo, what) = if routed {
            let url = url.ok_or_else(|| self.missing("repository.html_url"))?;
            let repo = repo_of(&url)
                .map_err(|source| ParseError::Repository { event: self.name(), source })?;
            let what = Parts { reader: self, action: &action, repo: &repo, repo_id }.what()?;
            (Some(repo), what)
        } else {
            let repo = url.and_then(|url| repo_of(&url).ok());
            (repo, if self.event == "ping" { What::Ping } else { What::Other })
        };
        Ok(Event { name: self.name(), action, repo, sender: actor(head.sender), what })
    }

    fn json<T: DeserializeOwned>(&self) -> Result<T, ParseError> {
        serde_json::from_slice(self.body)
            .map_err(|source| ParseError::Json { event: self.name(), source })
    }

    fn name(&self) -> String {
        crate::base::text::visible(&crate::base::text::cap(self.event, 100))
    }

    fn missing(&self, field: &'static str) -> ParseError {
        ParseError::Missing { event: self.name(), field }
    }
}

/// Whether a text that any application may set leads to a page.
fn is_address(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '`' | '"' | '<' | '>' | '\\');
    rest.is_some_and(|rest| !rest.is_empty() && rest.chars().all(plain))
}

/// A delivery whose repository is known.
struct Parts<'a> {
    reader: &'a Reader<'a>,
    action: &'a str,
    repo: &'a Repo,
    repo_id: Option<u64>,
}

impl Parts<'_> {
    fn what(&self) -> Result<What, ParseError> {
        match self.reader.event {
            "issues" => self.issue(),
            "issue_comment" => self.comment(),
            "pull_request" => self.pull_request(),
            "pull_request_review" => self.review(),
            "pull_request_review_comment" => self.review_comment(),
            "check_run" => self.check_run(),
            "workflow_run" => self.workflow_run(),
            _ => self.status(),
        }
    }

    fn issue(&self) -> Result<What, ParseError> {
        let body: raw::IssueBody = self.reader.json()?;
        let issue = body.issue.ok_or_else(|| self.reader.missing("issue"))?;
        let change = self.change(body.label, body.changes)?;
        Ok(What::Issue { change, issue: self.thread(issue)? })
    }

    fn comment(&self) -> Result<What, ParseError> {
        let body: raw::IssueBody = self.reader.json()?;
        let issue = body.issue.ok_or_else(|| self.reader.missing("issue"))?;
        let comment = body.comment.ok_or_else(|| self.reader.missing("comment"))?;
        let on_pull = issue.pull_request.is_some();
        let thread = self.thread(issue)?;
        Ok(What::Comment {
            change: self.post_change("created"),
            thread,
            on_pull,
            post: post(comment.id, comment.body, comment.user, comment.html_url),
        })
    }

    fn pull_request(&self) -> Result<What, ParseError> {
        let body: raw::PullBody = self.reader.json()?;
        let change = self.change(body.label, body.changes)?;
        Ok(What::Pull { change, pull: self.pull(body.pull_request)? })
    }

    fn review(&self) -> Result<What, ParseError> {
        let body: raw::PullBody = self.reader.json()?;
        let review = body.review.ok_or_else(|| self.reader.missing("review"))?;
        let state = match review.state.as_deref().map(str::to_ascii_lowercase).as_deref() {
            Some("approved") => ReviewState::Approved,
            Some("changes_requested") => ReviewState::ChangesRequested,
            Some("commented") => ReviewState::Commented,
            _ => ReviewState::Other,
        };
        Ok(What::Review {
            change: self.post_change("submitted"),
            pull: self.pull(body.pull_request)?,
            post: post(review.id, review.body, review.user, review.html_url),
            state,
            review: review.id,
        })
    }

    fn review_comment(&self) -> Result<What, ParseError> {
        let body: raw::PullBody = self.reader.json()?;
        let comment = body.comment.ok_or_else(|| self.reader.missing("comment"))?;
        let place = DiffPlace {
            path: comment.path.unwrap_or_default(),
            start_line: comment.start_line,
            line: comment.line.or(comment.original_line),
            side: match comment.side.as_deref() {
                Some("LEFT") => Some(DiffSide::Left),
                Some("RIGHT") => Some(DiffSide::Right),
                _ => None,
            },
            hunk: comment.diff_hunk.unwrap_or_default(),
        };
        Ok(What::ReviewComment {
            change: self.post_change("created"),
            pull: self.pull(body.pull_request)?,
            post: post(comment.id, comment.body, comment.user, comment.html_url),
            place,
            review: comment.pull_request_review_id,
        })
    }

    fn check_run(&self) -> Result<What, ParseError> {
        let body: raw::CheckRunBody = self.reader.json()?;
        let run = body.check_run.ok_or_else(|| self.reader.missing("check_run"))?;
        let branch = run.check_suite.and_then(|suite| suite.head_branch);
        Ok(What::Check(Check {
            name: run.name.unwrap_or_default(),
            app: run.app.and_then(|app| app.slug.or(app.name)),
            conclusion: self.conclusion(run.conclusion.as_deref()),
            sha: self.sha(run.head_sha, "check_run.head_sha")?,
            url: run.html_url,
            foreign_head: false,
            // It names the branch and not the repository that the branch is in.
            own_branches: false,
            pulls: self.check_pulls(run.pull_requests),
            branches: branch.into_iter().collect(),
        }))
    }

    fn workflow_run(&self) -> Result<What, ParseError> {
        let body: raw::WorkflowRunBody = self.reader.json()?;
        let run = body.workflow_run.ok_or_else(|| self.reader.missing("workflow_run"))?;
        let own = run.head_repository.is_some_and(|repository| self.is_own(&repository));
        Ok(What::Check(Check {
            name: run.name.unwrap_or_default(),
            app: Some("github-actions".to_owned()),
            conclusion: self.conclusion(run.conclusion.as_deref()),
            sha: self.sha(run.head_sha, "workflow_run.head_sha")?,
            url: run.html_url,
            foreign_head: !own,
            own_branches: own,
            pulls: self.check_pulls(run.pull_requests),
            branches: run.head_branch.into_iter().collect(),
        }))
    }

    fn status(&self) -> Result<What, ParseError> {
        let body: raw::StatusBody = self.reader.json()?;
        let conclusion = match body.state.as_deref() {
            Some("failure") => Some(Conclusion::Failure),
            Some("error") => Some(Conclusion::Error),
            Some("pending") | None => None,
            Some(_) => Some(Conclusion::NotFailed),
        };
        let branches = body.branches.unwrap_or_default();
        Ok(What::Check(Check {
            name: body.context.unwrap_or_default(),
            app: None,
            conclusion,
            sha: self.sha(body.sha, "sha")?,
            url: body
                .target_url
                .filter(|url| is_address(url))
                .or(body.commit.and_then(|commit| commit.html_url)),
            // Only branches of this repository are listed.
            foreign_head: false,
            own_branches: true,
            pulls: Vec::new(),
            branches: branches.into_iter().filter_map(|branch| branch.name).collect(),
        }))
    }

    fn change(
        &self,
        label: Option<raw::Label>,
        changes: Option<raw::Changes>,
    ) -> Result<Change, ParseError> {
        let edited = changes
            .map(|changes| Edited { title: changes.title.is_some(), body: changes.body.is_some() });
        Ok(match self.action {
            "opened" => Change::Opened,
            "edited" if edited.is_none_or(|edited| edited.title || edited.body) => {
                Change::Edited(edited)
            }
            "labeled" => {
                let name = label.and_then(|label| label.name);
                Change::Labeled(name.ok_or_else(|| self.reader.missing("label.name"))?)
            }
            "closed" => Change::Closed,
            "reopened" => Change::Reopened,
            _ => Change::Other,
        })
    }

    fn post_change(&self, created: &str) -> PostChange {
        match self.action {
            action if action == created => PostChange::Created,
            "edited" => PostChange::Edited,
            _ => PostChange::Other,
        }
    }

    fn conclusion(&self, text: Option<&str>) -> Option<Conclusion> {
        match text {
            _ if self.action != "completed" => None,
            Some("failure") => Some(Conclusion::Failure),
            Some("timed_out") => Some(Conclusion::TimedOut),
            Some("startup_failure") => Some(Conclusion::StartupFailure),
            Some(_) => Some(Conclusion::NotFailed),
            None => None,
        }
    }

    fn thread(&self, issue: raw::Issue) -> Result<Thread, ParseError> {
        Ok(Thread {
            item: self.item(issue.number, "issue.number")?,
            title: issue.title.unwrap_or_default(),
            body: issue.body.unwrap_or_default(),
            author: actor(issue.user),
            labels: labels(issue.labels),
            closed: issue.state.as_deref() == Some("closed"),
            url: issue.html_url,
            updated: time(issue.updated_at),
        })
    }

    fn pull(&self, pull: Option<raw::PullRequest>) -> Result<Pull, ParseError> {
        let pull = pull.ok_or_else(|| self.reader.missing("pull_request"))?;
        let head = pull.head;
        let own_head = head
            .as_ref()
            .and_then(|head| head.repo.as_ref())
            .is_some_and(|repository| self.is_own(repository));
        Ok(Pull {
            thread: Thread {
                item: self.item(pull.number, "pull_request.number")?,
                title: pull.title.unwrap_or_default(),
                body: pull.body.unwrap_or_default(),
                author: actor(pull.user),
                labels: labels(pull.labels),
                closed: pull.state.as_deref() == Some("closed"),
                url: pull.html_url,
                updated: time(pull.updated_at),
            },
            sha: plain_sha(head.as_ref().and_then(|head| head.sha.clone())).unwrap_or_default(),
            branch: head.and_then(|head| head.branch).unwrap_or_default(),
            own_head,
            merged: pull.merged.unwrap_or(false),
        })
    }

    fn check_pulls(&self, pulls: Option<Vec<raw::CheckPullRequest>>) -> Vec<CheckPull> {
        let pull = |pull: raw::CheckPullRequest| {
            let id = |end: &Option<raw::PullEnd>| end.as_ref()?.repo.as_ref()?.id;
            let (head, base) = (id(&pull.head), id(&pull.base));
            // A commit can be the head of pull requests of other repositories,
            // whose numbers mean nothing here.
            let item = self.item(pull.number, "number").ok()?;
            (base.is_some() && base == self.repo_id).then(|| CheckPull {
                item,
                branch: pull.head.and_then(|head| head.branch).unwrap_or_default(),
                own_head: head == base,
            })
        };
        pulls.unwrap_or_default().into_iter().filter_map(pull).collect()
    }

    fn is_own(&self, repository: &raw::Repository) -> bool {
        let url = repository.html_url.as_deref();
        url.and_then(|url| repo_of(url).ok()).is_some_and(|repo| repo == *self.repo)
    }

    fn item(&self, number: Option<u64>, field: &'static str) -> Result<WorkItem, ParseError> {
        let number = number.filter(|number| *number > 0);
        number.map(|number| self.repo.item(number)).ok_or_else(|| self.reader.missing(field))
    }

    fn sha(&self, sha: Option<String>, field: &'static str) -> Result<String, ParseError> {
        plain_sha(sha).ok_or_else(|| self.reader.missing(field))
    }
}

/// A commit's name, when it is nothing else.
fn plain_sha(sha: Option<String>) -> Option<String> {
    sha.filter(|sha| {
        (7..=64).contains(&sha.len()) && sha.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
    .map(|sha| sha.to_ascii_lowercase())
}

/// The repository whose page this is.
pub(crate) fn repo_of(url: &str) -> Result<Repo, InvalidId> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    match rest.unwrap_or_default().trim_end_matches('/').split('/').collect::<Vec<_>>()[..] {
        [host, owner, name] => Repo::new(host, owner, name),
        // What is no address is no host either, and the error quotes it.
        _ => Repo::new(url, "", ""),
    }
}

/// A time that GitHub wrote.
fn time(text: Option<String>) -> Option<Timestamp> {
    text.and_then(|text| text.parse().ok())
}

fn actor(user: Option<raw::User>) -> Actor {
    let Some(user) = user else { return Actor::default() };
    let login = user.login.unwrap_or_default();
    let bot = user.kind.as_deref() == Some("Bot") || login.ends_with("[bot]");
    Actor { login, kind: if bot { ActorKind::Bot } else { ActorKind::User } }
}

fn post(
    id: Option<u64>,
    body: Option<String>,
    author: Option<raw::User>,
    url: Option<String>,
) -> Post {
    Post { id, body: body.unwrap_or_default(), author: actor(author), url }
}

fn labels(labels: Option<Vec<raw::Label>>) -> Vec<String> {
    labels.unwrap_or_default().into_iter().filter_map(|label| label.name).collect()
}
