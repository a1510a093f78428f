//! What `gh-webhook status` tells of GitHub: the webhook of each repository, as its
//! first ping showed it, and the deliveries that were missed.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::redeliver::Parts;
use crate::base::failure::chain;
use crate::base::ids::Repo;
use crate::core::github::Telling;
use crate::state::github::{Memory, read_telling};

/// What is known of GitHub.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GithubStatus {
    /// Whether it is asked for missed deliveries.
    pub redeliver: bool,
    /// Each repository.
    pub repositories: Vec<RepoStatus>,
    /// What is said there.
    #[serde(default)]
    pub telling: TellingStatus,
    /// Why this cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// What is said on GitHub.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TellingStatus {
    /// Whether events get reactions.
    pub reactions: bool,
    /// Whether sessions that start, and events that are given up, get a comment.
    pub comments: bool,
    /// How much waits to be said.
    pub waiting: usize,
    /// What keeps anything from being said.
    pub trouble: Option<String>,
}

/// What is known of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RepoStatus {
    /// The repository.
    pub repository: Repo,
    /// GitHub's number of its webhook; nothing until it has pinged.
    pub hook: Option<u64>,
    /// When it last pinged.
    pub pinged_at: Option<Timestamp>,
    /// What it lacks, each with the call that puts it right.
    pub faults: Vec<FaultStatus>,
    /// When GitHub was last asked for what was missed.
    pub looked_at: Option<Timestamp>,
    /// How many deliveries were missed and have not come yet.
    pub missed: usize,
    /// How many of those that were missed were asked for.
    pub asked: usize,
    /// How many will not come.
    pub lost: usize,
    /// Why GitHub could not be asked.
    pub trouble: Option<String>,
    /// That the webhook says nothing though something happened.
    pub silent: Option<String>,
}

/// Something that a webhook lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultStatus {
    /// What.
    pub what: String,
    /// The call of the GitHub CLI that puts it right.
    pub remedy: String,
}

impl Parts {
    /// What is known now, by what was written down and by the pings in the inbox.
    pub fn report(&self) -> GithubStatus {
        let config = self.config.get();
        let redeliver = config.github.redeliver;
        let mut trouble = None;
        let mut memory = Memory::read(&self.paths.github()).unwrap_or_else(|error| {
            trouble = Some(chain(&error));
            Memory::default()
        });
        if let Err(error) = memory.learn(&self.inbox) {
            trouble.get_or_insert_with(|| chain(&error));
        }
        let wanted = &config.webhooks.gh_webhook.events;
        for repo in &config.routing.repositories {
            memory.repositories.entry(repo.clone()).or_default();
        }
        let repositories = memory.repositories.into_iter().map(|(repository, of)| {
            let faults = of.hook.iter().flat_map(|hook| {
                hook.faults(wanted).into_iter().map(|fault| FaultStatus {
                    what: fault.to_string(),
                    remedy: fault.remedy(&repository, hook.id),
                })
            });
            RepoStatus {
                faults: faults.collect(),
                hook: of.hook.as_ref().map(|hook| hook.id),
                pinged_at: of.pinged_at,
                looked_at: of.looked_at,
                missed: of.open,
                asked: of.asked.len(),
                lost: of.lost.len(),
                trouble: of.trouble,
                silent: of.silent,
                repository,
            }
        });
        let repositories = repositories.collect();
        let telling = read_telling(&self.paths.telling()).unwrap_or_else(|error| {
            trouble.get_or_insert_with(|| chain(&error));
            Telling::default()
        });
        let telling = TellingStatus {
            reactions: config.github.reactions,
            comments: config.github.comments,
            waiting: telling.waiting(),
            trouble: telling.trouble,
        };
        GithubStatus { redeliver, repositories, telling, trouble }
    }
}
