//! Follows the inbox and says on GitHub what became of events and sessions: a task of
//! its own, behind everything, for which no delivery waits.
//!
//! `core::github` decides what and when; here it is asked, said and put down. What
//! may have been said when the receiver ended is looked for before it is said again.

mod follow;
mod times;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::{Discriminant, discriminant};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::times::{Times, times};
use super::client::{Api, AskError, TOKENS, tokens_of};
use super::redeliver::Parts;
use super::say::{Sent, say};
use crate::base::checkpoint::Checkpoint;
use crate::base::failure::chain;
use crate::base::ids::{DeliveryId, Repo};
use crate::core::github::{End, Next, Saying, Telling, comment};
use crate::core::routing::OwnVoice;
use crate::state::github::{open_telling, save_telling};
use crate::state::inbox::{InboxError, InboxReader};
use crate::state::registry::Registry;

/// How long after a look that failed there is another.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The longest rest after a fault.
const LONGEST: SignedDuration = SignedDuration::from_mins(15);

/// A kind of trouble: which error, and of GitHub's refusals the status.
type Kind = Option<(Discriminant<AskError>, u16)>;

/// What is being said, and what came of it.
type Busy = Pin<Box<dyn Future<Output = (Box<Saying>, Result<Sent, AskError>)> + Send>>;

/// Says on GitHub what became of events and sessions.
pub struct Tell {
    parts: Parts,
    registry: Registry,
    voice: OwnVoice,
    reloads: watch::Receiver<u64>,
    path: PathBuf,
    telling: Telling,
    /// What was routed again and is to be looked at.
    again: Vec<DeliveryId>,
    /// Of its own, so that no other reader waits for it.
    reader: Option<InboxReader>,
    apis: BTreeMap<String, Arc<Api>>,
    /// The faults of a host in a row, and until when it is left alone.
    pauses: BTreeMap<String, (u32, Timestamp)>,
    /// What kind of trouble there is: the same again is not said again.
    kind: Kind,
    /// When what a look found is to be put down.
    save_by: Option<Instant>,
    times: Times,
}

/// What happened.
enum Happened {
    Configured,
    News,
    Ended(Box<Saying>, Result<Sent, AskError>),
    Due,
}

impl Tell {
    /// One that remembers what an earlier run wrote down. `reloads` tells of each new
    /// configuration.
    pub fn new(
        parts: Parts,
        registry: Registry,
        voice: OwnVoice,
        reloads: watch::Receiver<u64>,
    ) -> Self {
        let path = parts.paths.telling();
        let telling = match open_telling(&path) {
            Ok((telling, None)) => telling,
            Ok((telling, Some(aside))) => {
                let aside = aside.display();
                tracing::warn!(%aside, "what was said on GitHub is damaged; moved aside");
                telling
            }
            Err(error) => {
                tracing::warn!(error = %chain(&error), "what was said on GitHub is unreadable");
                Telling::default()
            }
        };
        let times = times(&parts.env);
        Self {
            parts,
            registry,
            voice,
            reloads,
            path,
            telling,
            again: Vec::new(),
            reader: None,
            apis: BTreeMap::new(),
            pauses: BTreeMap::new(),
            kind: None,
            save_by: None,
            times,
        }
    }

    /// Follows and says, until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut news = self.parts.inbox.news();
        let mut reloads = self.reloads.clone();
        let mut busy: Option<Busy> = None;
        // Nothing of the past is told; what a crash left behind is.
        let mut look_at = self.configured(true).then(Instant::now);
        loop {
            if look_at.is_some_and(|at| at <= Instant::now()) {
                look_at = self.look_or_again().then(|| Instant::now() + LOOK_AGAIN);
            }
            if self.save_by.is_some_and(|by| by <= Instant::now()) {
                self.save();
            }
            let mut due = None;
            if busy.is_none() {
                (busy, due) = self.begin();
            }
            let wake = look_at.into_iter().chain(due).chain(self.save_by).min();
            let said = async {
                match &mut busy {
                    Some(busy) => busy.as_mut().await,
                    None => std::future::pending().await,
                }
            };
            let happened = tokio::select! {
                () = stop.cancelled() => break,
                Ok(()) = reloads.changed() => Happened::Configured,
                Ok(()) = news.changed(), if self.telling.is_on() && look_at.is_none() => {
                    Happened::News
                }
                (saying, sent) = said => Happened::Ended(saying, sent),
                () = tokio::time::sleep_until(wake.unwrap_or_else(Instant::now)),
                    if wake.is_some() => Happened::Due,
            };
            match happened {
                Happened::Configured => {
                    if self.configured(false) && look_at.is_none() {
                        look_at = Some(Instant::now());
                    }
                }
                // What else is written meanwhile is seen with it.
                Happened::News => look_at = Some(Instant::now() + self.times.gather),
                Happened::Ended(saying, sent) => {
                    busy = None;
                    self.ended(&saying, sent);
                }
                Happened::Due => {}
            }
        }
        if self.telling.is_on() {
            self.save();
        }
    }

    /// Does what the configuration says now. Says whether there is something to do.
    fn configured(&mut self, is_start: bool) -> bool {
        let wanted = self.parts.config.get().github.clone();
        let has_token = TOKENS.iter().any(|name| self.parts.env.var(name).is_some());
        let is_wanted = wanted.reactions || wanted.comments;
        let before = self.telling.clone();
        let (reactions, comments) = (wanted.reactions && has_token, wanted.comments && has_token);
        let is_new = self.telling.turn(reactions, comments, self.parts.clock.now());
        let begun = if self.telling.is_on() {
            self.begin_to_follow(is_new || is_start, is_new)
        } else {
            Ok(())
        };
        if let Err(error) = begun {
            // Rather nothing than what was before.
            self.telling.turn(false, false, self.parts.clock.now());
            self.trouble(Some(format!("what to tell cannot be read: {}", chain(&error))));
        }
        self.telling.mute = self.mute();
        if is_wanted && !has_token {
            let names = TOKENS.join(", ");
            self.trouble(Some(format!("no token is set for the receiver ({names})")));
        }
        if self.telling != before {
            self.save();
        }
        self.telling.is_on()
    }

    /// The hosts of the repositories for which there is no token, where something is
    /// to be said.
    fn mute(&self) -> BTreeSet<String> {
        let config = self.parts.config.get();
        let hosts = config.routing.repositories.iter().map(Repo::host);
        let is_mute = |host: &&str| {
            let names = tokens_of(host);
            self.telling.is_on() && names.iter().all(|name| self.parts.env.var(name).is_none())
        };
        hosts.filter(is_mute).map(str::to_owned).collect()
    }

    /// Begins behind what there is, when it is new, and when what is remembered is of
    /// an inbox that is no more.
    fn begin_to_follow(&mut self, looks: bool, is_new: bool) -> Result<(), InboxError> {
        if looks {
            let reader = self.reader()?;
            let (open, latest) = (reader.under_way()?, reader.last_place()?);
            if is_new || latest < self.telling.latest {
                self.telling.begin_at(latest, open);
                self.again.clear();
                drop(self.parts.inbox.routed_again());
            }
        }
        Ok(())
    }

    /// Begins to say what is next; else gives when something is to be said.
    fn begin(&mut self) -> (Option<Busy>, Option<Instant>) {
        loop {
            let now = self.parts.clock.now();
            let late = self.telling.drop_late(now);
            if late > 0 {
                tracing::warn!(late, "could not be said on GitHub for an hour: given up");
            }
            let rests = |host: &str| {
                let pause = self.pauses.get(host).map(|(_, until)| *until);
                self.parts.rests.of(host).max(pause)
            };
            let saying = match self.telling.next(now, self.times.pace, rests) {
                Next::Say(saying) => saying,
                Next::At(at) => {
                    let wait = Duration::try_from(at.duration_since(now)).unwrap_or_default();
                    return (None, Some(Instant::now() + wait));
                }
                Next::Nothing => return (None, None),
            };
            let api = match self.api(&saying) {
                Ok(api) => api,
                Err(error) => {
                    self.ended(&saying, Err(error));
                    continue;
                }
            };
            self.telling.begin(&saying, now);
            // Before it is said: whatever happens then, it is known that it may have been.
            if !self.save() {
                self.pause(saying.repo.host(), None);
                continue;
            }
            Checkpoint::Say.reached();
            let web = &self.parts.config.get().routing.web_terminal;
            let comment = comment(&saying, &self.voice, web);
            let clock = self.parts.clock.clone();
            let work = async move {
                let sent = say(&api, &saying, comment.as_ref(), &clock).await;
                (saying, sent)
            };
            return (Some(Box::pin(work)), None);
        }
    }

    fn api(&mut self, saying: &Saying) -> Result<Arc<Api>, AskError> {
        let host = saying.repo.host();
        if let Some(api) = self.apis.get(host) {
            return Ok(Arc::clone(api));
        }
        let api = Arc::new(Api::of(&self.parts.env, &saying.repo, self.times.deadline)?);
        self.apis.insert(host.to_owned(), Arc::clone(&api));
        Ok(api)
    }

    fn ended(&mut self, saying: &Saying, sent: Result<Sent, AskError>) {
        let host = saying.repo.host();
        let error = match sent {
            Ok(Sent { rest_until }) => {
                self.pauses.remove(host);
                if let Some(until) = rest_until {
                    self.parts.rests.rest(host, until);
                }
                self.trouble(None);
                self.telling.ended(saying, End::Said);
                self.save();
                return;
            }
            Err(error) => error,
        };
        let end = match &error {
            AskError::Limited { until } => {
                self.parts.rests.rest(host, *until);
                self.pause(host, Some(*until));
                End::NotNow
            }
            // The token may lack the permission, or the conversation be locked: it is
            // tried once more, and stands in no other's way.
            AskError::Refused { status: 403, .. } => {
                self.pause(host, None);
                End::Unsure(2)
            }
            AskError::Refused { status: 401 | 408 | 500.., .. }
            | AskError::Failed { .. }
            | AskError::Garbage { .. } => {
                self.pause(host, None);
                End::AGAIN
            }
            AskError::NoToken(_)
            | AskError::BadToken(_)
            | AskError::BadApi
            | AskError::Trust(_)
            | AskError::Refused { .. } => End::Refused,
        };
        let status = if let AskError::Refused { status, .. } = &error { *status } else { 0 };
        let kind = Some((discriminant(&error), status));
        if kind != self.kind {
            self.trouble(Some(chain(&error)));
        }
        self.kind = kind;
        self.telling.ended(saying, end);
        self.save();
    }

    /// Leaves a host alone for a while, longer with each fault in a row. Where it said
    /// itself until when, that counts the first time.
    fn pause(&mut self, host: &str, said: Option<Timestamp>) {
        let now = self.parts.clock.now();
        let (faults, _) = self.pauses.get(host).copied().unwrap_or((0, now));
        let doubled = self.times.pause * 2_u32.pow(faults.min(5));
        let span = SignedDuration::try_from(doubled).unwrap_or(LONGEST).min(LONGEST);
        let until = match said {
            Some(said) if faults == 0 => said,
            _ => now.checked_add(span).unwrap_or(now).max(said.unwrap_or(now)),
        };
        self.pauses.insert(host.to_owned(), (faults + 1, until));
    }

    /// Notes what keeps anything from being said, and says it once.
    fn trouble(&mut self, trouble: Option<String>) {
        self.kind = None;
        if self.telling.trouble == trouble {
            return;
        }
        if let Some(why) = &trouble {
            tracing::warn!(why, "nothing can be said on GitHub");
        } else {
            tracing::info!("what is said on GitHub arrives again");
        }
        self.telling.trouble = trouble;
    }

    fn save(&mut self) -> bool {
        self.save_by = None;
        match save_telling(&self.path, &mut self.telling) {
            Ok(()) => true,
            Err(error) => {
                self.trouble(Some(format!("it cannot be written down: {}", chain(&error))));
                false
            }
        }
    }
}
