//! Asks GitHub for the deliveries that it could not hand over, at the start and
//! every few minutes: each once, in the order in which they happened, and the next
//! one when the last has come in.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::client::{Api, AskError, DEADLINE};
use super::rests::Rests;
use crate::base::checkpoint::Checkpoint;
use crate::base::clock::Clock;
use crate::base::env::Env;
use crate::base::failure::chain;
use crate::base::ids::{DeliveryId, Repo};
use crate::core::config::{Config, LiveConfig};
use crate::core::github::{
    Asked, Attempt, Hook, KEPT, NoHook, Plan, attempts, choose, hooks, newest_event, plan, silence,
};
use crate::state::github::{Memory, OfRepo};
use crate::state::inbox::{Inbox, InboxError};
use crate::state::paths::StatePaths;

/// How often GitHub is asked.
const EVERY: Duration = Duration::from_mins(5);
/// How long a delivery that was asked for may take to come in: as long as GitHub
/// waits for its answer, and a little.
const COMES_WITHIN: Duration = Duration::from_secs(12);
/// How often is looked whether it has.
const LOOK: Duration = Duration::from_millis(50);
/// How many pages of deliveries are read at a time: five thousand deliveries.
const PAGES: usize = 50;

/// What it works with.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The deliveries.
    pub inbox: Inbox,
    /// The configuration.
    pub config: LiveConfig,
    /// Where state is kept.
    pub paths: StatePaths,
    /// The receiver's surroundings, which hold the token.
    pub env: Env,
    /// The time.
    pub clock: Clock,
    /// Until when GitHub is not asked.
    pub rests: Rests,
}

/// Asks GitHub for what was missed.
#[derive(Debug)]
pub struct Redeliver {
    parts: Parts,
    path: PathBuf,
    memory: Memory,
    /// That the memory cannot be written was said.
    said: bool,
    times: Times,
    started: Timestamp,
}

/// How long things take; tests have less time.
#[derive(Debug, Clone, Copy)]
struct Times {
    every: Duration,
    deadline: Duration,
    comes_within: Duration,
}

/// Why a look at one repository ended before its end.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error(transparent)]
    NoHook(#[from] NoHook),
    #[error("what was taken in cannot be looked up")]
    Inbox(#[from] InboxError),
    #[error("what is asked for cannot be written down")]
    Memory(#[from] std::io::Error),
}

impl Redeliver {
    /// One that remembers what an earlier run wrote down.
    pub fn new(parts: Parts) -> Self {
        let path = parts.paths.github();
        let memory = match Memory::open(&path) {
            Ok((memory, None)) => memory,
            Ok((memory, Some(aside))) => {
                let aside = aside.display();
                tracing::warn!(%aside, "what was remembered of GitHub is damaged; moved aside");
                memory
            }
            Err(error) => {
                tracing::warn!(error = %chain(&error), "what is remembered of GitHub is unreadable");
                Memory::default()
            }
        };
        let (times, started) = (times(&parts.env), parts.clock.now());
        Self { parts, path, memory, said: false, times, started }
    }

    /// Asks now and then, until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let mut next = self.times.every;
            let round = async {
                if let Err(error) = self.memory.learn(&self.parts.inbox) {
                    tracing::warn!(error = %chain(&error), "the pings cannot be read");
                }
                let again = self.round().await;
                self.save_all();
                again
            };
            tokio::select! {
                () = stop.cancelled() => return,
                again = round => if let Some(again) = again {
                    let now = self.parts.clock.now();
                    let wait = Duration::try_from(again.duration_since(now)).unwrap_or_default();
                    next = next.min(wait.max(Duration::from_secs(1)));
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(next) => {}
            }
        }
    }

    /// Looks at every repository. Gives when to look again, if that is soon.
    async fn round(&mut self) -> Option<Timestamp> {
        let config = self.parts.config.get();
        if !config.github.redeliver {
            for of in self.memory.repositories.values_mut() {
                (of.trouble, of.silent, of.open) = (None, None, 0);
            }
            return None;
        }
        let mut repos = config.routing.repositories.clone();
        if repos.is_empty() {
            repos = self.memory.repositories.keys().cloned().collect();
        }
        let mut again = None;
        for repo in repos {
            let now = self.parts.clock.now();
            if self.parts.rests.of(repo.host()).is_some_and(|until| now < until) {
                continue;
            }
            let looked = Box::pin(self.look(&repo, &config)).await;
            let of = self.memory.repositories.entry(repo.clone()).or_default();
            let trouble = match looked {
                Ok(soon) => {
                    of.looked_at = Some(now);
                    again = again.into_iter().chain(soon).min();
                    None
                }
                Err(error) => {
                    if let LookError::Ask(AskError::Limited { until }) = &error {
                        self.parts.rests.rest(repo.host(), *until);
                    }
                    Some(chain(&error))
                }
            };
            if trouble != of.trouble {
                if let Some(why) = &trouble {
                    tracing::warn!(%repo, why, "GitHub cannot be asked for missed deliveries");
                } else {
                    tracing::info!(%repo, "GitHub answers again");
                }
            }
            of.trouble = trouble;
            of.forget(now);
        }
        again
    }

    async fn look(&mut self, repo: &Repo, config: &Config) -> Result<Option<Timestamp>, LookError> {
        let api = Api::of(&self.parts.env, repo, self.times.deadline)?;
        let at = format!("repos/{}/{}", repo.owner(), repo.name());
        let now = self.parts.clock.now();
        let answer = api.get(&format!("{at}/hooks"), &[("per_page", "100")], now).await?;
        self.rest(repo, answer.rest_until)?;
        let all = hooks(&answer.body).map_err(|error| garbage("hooks", &error))?;
        let known = self.of(repo).hook.clone();
        let path = &config.webhooks.gh_webhook.path;
        let hook = choose(&all, known.as_ref(), path)?.clone();
        let list = self.attempts(&api, repo, &format!("{at}/hooks/{}/deliveries", hook.id)).await?;
        let soon = self.ask_again(&api, repo, &hook, &list).await?;
        let said = self.silence(&api, repo, &hook, &list).await?;
        let of = self.of(repo);
        if said != of.silent
            && let Some(said) = &said
        {
            tracing::warn!(%repo, "{said}");
        }
        of.silent = said;
        Ok(soon)
    }

    fn of(&mut self, repo: &Repo) -> &mut OfRepo {
        self.memory.repositories.entry(repo.clone()).or_default()
    }

    /// Ends the look where GitHub asked for a pause.
    fn rest(&mut self, repo: &Repo, until: Option<Timestamp>) -> Result<(), AskError> {
        match until {
            Some(until) if until > self.parts.clock.now() => {
                self.parts.rests.rest(repo.host(), until);
                Err(AskError::Limited { until })
            }
            _ => Ok(()),
        }
    }

    /// The attempts since the last look, newest first.
    async fn attempts(
        &mut self,
        api: &Api,
        repo: &Repo,
        path: &str,
    ) -> Result<Vec<Attempt>, LookError> {
        let now = self.parts.clock.now();
        let oldest = now.checked_sub(KEPT).unwrap_or(now);
        let back = self.of(repo).settled.map_or(oldest, |settled| settled.max(oldest));
        let mut list: Vec<Attempt> = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES {
            let mut query = vec![("per_page", "100")];
            query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let answer = api.get(path, &query, now).await?;
            let page = attempts(&answer.body).map_err(|error| garbage("deliveries", &error))?;
            let is_past = page.iter().any(|attempt| attempt.at < back);
            list.extend(page.into_iter().filter(|attempt| attempt.at >= back));
            let same = cursor == answer.cursor;
            cursor = answer.cursor;
            if is_past || cursor.is_none() || same {
                return Ok(list);
            }
            self.rest(repo, answer.rest_until)?;
        }
        tracing::warn!(%repo, "GitHub has more deliveries than are looked at; the oldest are not");
        Ok(list)
    }

    /// Asks for what was missed, one after the other.
    async fn ask_again(
        &mut self,
        api: &Api,
        repo: &Repo,
        hook: &Hook,
        list: &[Attempt],
    ) -> Result<Option<Timestamp>, LookError> {
        loop {
            let Plan { ask, open, lost, again_at, settled } = self.plan(repo, list)?;
            let of = self.of(repo);
            for id in lost.iter().filter(|id| !of.lost.contains(id)) {
                tracing::warn!(%repo, %id, "a missed delivery will not come");
                // Its attempts are looked at no more, and would be judged anew.
                if let Some(mark) = of.asked.get_mut(id) {
                    mark.given_up = true;
                }
            }
            (of.open, of.lost, of.settled) = (open, lost, settled.max(of.settled));
            if ask.is_empty() {
                return Ok(again_at);
            }
            tracing::info!(%repo, count = ask.len(), "asking GitHub for missed deliveries");
            for (attempt, seen) in ask {
                if !self.ask_for(api, repo, hook, &attempt, seen).await? {
                    // The others would fail like it.
                    return Ok(again_at);
                }
            }
        }
    }

    fn plan(&mut self, repo: &Repo, list: &[Attempt]) -> Result<Plan, InboxError> {
        let inbox = self.parts.inbox.clone();
        let mut known = BTreeMap::new();
        let asked = &self.of(repo).asked;
        let given_up = asked.iter().filter_map(|(id, mark)| mark.given_up.then_some(id));
        for id in list.iter().map(|attempt| &attempt.delivery).chain(given_up) {
            if !known.contains_key(id) {
                known.insert(id.clone(), inbox.knows(id)?);
            }
        }
        let has = |id: &DeliveryId| known.get(id).copied().unwrap_or(false);
        let (came, now) = (inbox.last_from_github()?, self.parts.clock.now());
        let started = self.started;
        Ok(plan(list, &self.of(repo).asked, has, came, started, now))
    }

    /// Asks for one delivery, and waits for it. Says whether the next one may be
    /// asked for.
    async fn ask_for(
        &mut self,
        api: &Api,
        repo: &Repo,
        hook: &Hook,
        attempt: &Attempt,
        seen: usize,
    ) -> Result<bool, LookError> {
        let now = self.parts.clock.now();
        let id = attempt.delivery.clone();
        let times = self.of(repo).asked.get(&id).map_or(0, |asked| asked.times) + 1;
        let mark = Asked { at: now, taken: false, seen, times, given_up: false };
        // Before it is asked for: whatever happens then, it is known that it was.
        self.mark(repo, &id, mark.clone())?;
        Checkpoint::AskAgain.reached();
        let path = format!(
            "repos/{}/{}/hooks/{}/deliveries/{}/attempts",
            repo.owner(),
            repo.name(),
            hook.id,
            attempt.id
        );
        match api.post(&path, None, now).await {
            Ok(answer) => {
                // What somebody in between answers is no proof.
                if !answer.body.is_empty() {
                    serde_json::from_slice::<serde_json::Value>(&answer.body).map_err(|error| {
                        AskError::Garbage { asked: format!("POST {path}"), why: error.to_string() }
                    })?;
                }
                Checkpoint::Asked.reached();
                self.mark(repo, &id, Asked { taken: true, ..mark })?;
                tracing::info!(%repo, %id, "asked GitHub for a missed delivery");
                let came = self.comes(&id).await?;
                self.rest(repo, answer.rest_until)?;
                Ok(came)
            }
            // It is too old, or gone: this one only.
            Err(error @ AskError::Refused { status: 404 | 410 | 422, .. }) => {
                tracing::warn!(%repo, %id, error = %chain(&error), "a missed delivery is gone");
                self.mark(repo, &id, Asked { taken: true, given_up: true, ..mark })?;
                Ok(true)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn mark(&mut self, repo: &Repo, id: &DeliveryId, mark: Asked) -> Result<(), LookError> {
        self.of(repo).asked.insert(id.clone(), mark);
        Ok(self.memory.save(&self.path)?)
    }

    /// Waits until a delivery has come in; not for long.
    async fn comes(&self, id: &DeliveryId) -> Result<bool, InboxError> {
        let end = tokio::time::Instant::now() + self.times.comes_within;
        loop {
            if self.parts.inbox.knows(id)? {
                return Ok(true);
            }
            if tokio::time::Instant::now() >= end {
                return Ok(false);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Whether the webhook says nothing though something happened.
    async fn silence(
        &mut self,
        api: &Api,
        repo: &Repo,
        hook: &Hook,
        list: &[Attempt],
    ) -> Result<Option<String>, LookError> {
        // Older ones were looked at before.
        let newest = list.iter().map(|attempt| attempt.at).chain(self.of(repo).settled).max();
        let now = self.parts.clock.now();
        if !hook.active {
            return Ok(silence(hook, newest, None));
        }
        let path = format!("repos/{}/{}/events", repo.owner(), repo.name());
        let answer = api.get(&path, &[("per_page", "100")], now).await?;
        let happened =
            newest_event(&answer.body, hook).map_err(|error| garbage("events", &error))?;
        self.rest(repo, answer.rest_until)?;
        Ok(silence(hook, newest, happened))
    }

    /// Writes down what was found; that it cannot be is said once.
    fn save_all(&mut self) {
        match self.memory.save(&self.path) {
            Ok(()) => self.said = false,
            Err(error) => {
                if !std::mem::replace(&mut self.said, true) {
                    tracing::warn!(error = %chain(&error), "what was found on GitHub is not kept");
                }
            }
        }
    }
}

fn garbage(what: &str, error: &serde_json::Error) -> AskError {
    AskError::Garbage { asked: format!("the list of {what}"), why: error.to_string() }
}

#[cfg(not(feature = "test-fakes"))]
fn times(_: &Env) -> Times {
    Times { every: EVERY, deadline: DEADLINE, comes_within: COMES_WITHIN }
}

/// Tests have a receiver that asks more often, and waits less.
#[cfg(feature = "test-fakes")]
fn times(env: &Env) -> Times {
    let given = env.var("THE_LOOP_GITHUB_TIMES").unwrap_or_default();
    let mut given = given.split(',').map(|ms| ms.parse().ok().map(Duration::from_millis));
    let mut or = |usual| given.next().flatten().unwrap_or(usual);
    Times { every: or(EVERY), deadline: or(DEADLINE), comes_within: or(COMES_WITHIN) }
}
