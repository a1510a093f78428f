//! The bodies of GitHub's deliveries, as far as this program reads them. Every
//! field may be missing or null; `parse` says what is needed. What stands here
//! is shape only, no meaning.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// What nearly every delivery has.
#[derive(Debug, Deserialize)]
pub(super) struct Head {
    pub(super) action: Option<String>,
    pub(super) repository: Option<Repository>,
    pub(super) sender: Option<User>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Repository {
    pub(super) id: Option<u64>,
    pub(super) html_url: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct User {
    pub(super) login: Option<String>,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Label {
    pub(super) name: Option<String>,
}

/// `issues`, `issue_comment`.
#[derive(Debug, Deserialize)]
pub(super) struct IssueBody {
    pub(super) issue: Option<Issue>,
    pub(super) comment: Option<Comment>,
    pub(super) label: Option<Label>,
    pub(super) changes: Option<Changes>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Issue {
    pub(super) number: Option<u64>,
    pub(super) title: Option<String>,
    pub(super) body: Option<String>,
    pub(super) user: Option<User>,
    pub(super) labels: Option<Vec<Label>>,
    pub(super) html_url: Option<String>,
    pub(super) state: Option<String>,
    pub(super) updated_at: Option<String>,
    pub(super) pull_request: Option<IgnoredAny>,
}

/// What an edit changed.
#[derive(Debug, Deserialize)]
pub(super) struct Changes {
    pub(super) title: Option<IgnoredAny>,
    pub(super) body: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Comment {
    pub(super) id: Option<u64>,
    pub(super) body: Option<String>,
    pub(super) user: Option<User>,
    pub(super) html_url: Option<String>,
    pub(super) path: Option<String>,
    pub(super) line: Option<u64>,
    pub(super) original_line: Option<u64>,
    pub(super) start_line: Option<u64>,
    pub(super) side: Option<String>,
    pub(super) diff_hunk: Option<String>,
    pub(super) pull_request_review_id: Option<u64>,
}

/// `pull_request`, `pull_request_review`, `pull_request_review_comment`.
#[derive(Debug, Deserialize)]
pub(super) struct PullBody {
    pub(super) pull_request: Option<PullRequest>,
    pub(super) review: Option<Review>,
    pub(super) comment: Option<Comment>,
    pub(super) label: Option<Label>,
    pub(super) changes: Option<Changes>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PullRequest {
    pub(super) number: Option<u64>,
    pub(super) title: Option<String>,
    pub(super) body: Option<String>,
    pub(super) user: Option<User>,
    pub(super) labels: Option<Vec<Label>>,
    pub(super) html_url: Option<String>,
    pub(super) state: Option<String>,
    pub(super) updated_at: Option<String>,
    pub(super) merged: Option<bool>,
    pub(super) head: Option<PullEnd>,
}

/// The head or the base of a pull request.
#[derive(Debug, Deserialize)]
pub(super) struct PullEnd {
    pub(super) sha: Option<String>,
    #[serde(rename = "ref")]
    pub(super) branch: Option<String>,
    pub(super) repo: Option<Repository>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Review {
    pub(super) id: Option<u64>,
    pub(super) body: Option<String>,
    pub(super) state: Option<String>,
    pub(super) user: Option<User>,
    pub(super) html_url: Option<String>,
}

/// `check_run`.
#[derive(Debug, Deserialize)]
pub(super) struct CheckRunBody {
    pub(super) check_run: Option<CheckRun>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CheckRun {
    pub(super) name: Option<String>,
    pub(super) head_sha: Option<String>,
    pub(super) conclusion: Option<String>,
    pub(super) html_url: Option<String>,
    pub(super) app: Option<App>,
    pub(super) check_suite: Option<CheckSuite>,
    pub(super) pull_requests: Option<Vec<CheckPullRequest>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct App {
    pub(super) slug: Option<String>,
    pub(super) name: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CheckSuite {
    pub(super) head_branch: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CheckPullRequest {
    pub(super) number: Option<u64>,
    pub(super) head: Option<PullEnd>,
    pub(super) base: Option<PullEnd>,
}

/// `workflow_run`.
#[derive(Debug, Deserialize)]
pub(super) struct WorkflowRunBody {
    pub(super) workflow_run: Option<WorkflowRun>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WorkflowRun {
    pub(super) name: Option<String>,
    pub(super) head_sha: Option<String>,
    pub(super) head_branch: Option<String>,
    pub(super) head_repository: Option<Repository>,
    pub(super) conclusion: Option<String>,
    pub(super) html_url: Option<String>,
    pub(super) pull_requests: Option<Vec<CheckPullRequest>>,
}

/// `status`: its fields stand at the top.
#[derive(Debug, Deserialize)]
pub(super) struct StatusBody {
    pub(super) sha: Option<String>,
    pub(super) state: Option<String>,
    pub(super) context: Option<String>,
    pub(super) target_url: Option<String>,
    pub(super) commit: Option<Commit>,
    pub(super) branches: Option<Vec<Branch>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Commit {
    pub(super) html_url: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Branch {
    pub(super) name: Option<String>,
}
