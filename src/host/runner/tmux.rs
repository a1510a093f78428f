//! The tmux runner: an agent in a tmux session that anybody on this host can
//! look at and type into.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::base::clock::Clock;
use crate::base::failure::chain;
use crate::base::ids::{DeliveryId, HarnessSessionId, Slug};
use crate::core::config::{DeliverWhen, Identity, LiveConfig};
use crate::core::dispatch::{Batch, Delivered, Hosting, StartFailure};
use crate::core::harness::Harness;
use crate::core::inject::{Outcome, Progress};
use crate::core::outcome::{Reason, State};
use crate::core::routing::prompt::with_rules;
use crate::core::session::{SessionRecord, SessionStatus};
use crate::doctor::tool::Tool;
use crate::host::agents::Agents;
use crate::host::notify::Notifier;
use crate::host::pane_log;
use crate::host::tmux::{Pane, PaneState, Tmux, TmuxError};
use crate::state::inbox::{Inbox, QueuedDelivery};
use crate::state::paths::StatePaths;
use crate::state::registry::Registry;
use crate::state::spool;

use super::inject::Injector;
use super::process::{with_notice, with_resumed};
use super::signals::SignalLog;
use super::told::Told;
use super::tracer::Tracer;
use super::{Brakes, Gate, failure};

mod spawn;

/// Everything that the runner is made of.
#[derive(Debug)]
pub struct TmuxRunnerParts {
    /// The tmux server.
    pub tmux: Tmux,
    /// This program, which the panes run first.
    pub program: Tool,
    /// The agents of this machine.
    pub agents: Agents,
    /// The configuration.
    pub config: LiveConfig,
    /// Where state is kept.
    pub paths: StatePaths,
    /// The sessions.
    pub registry: Registry,
    /// The deliveries.
    pub inbox: Inbox,
    /// Tells when an agent has said something.
    pub watcher: spool::Watcher,
    /// The home of the agents' user.
    pub home: Option<PathBuf>,
    /// Lets sessions start their agents.
    pub gate: Arc<Gate>,
    /// The time.
    pub clock: Clock,
    /// Tells people that an agent waits for them.
    pub notifier: Notifier,
    /// What goes on beside, until `stop`.
    pub tasks: TaskTracker,
    /// The receiver ends.
    pub stop: CancellationToken,
}

/// The tmux runner.
#[derive(Debug)]
pub struct TmuxRunner {
    parts: TmuxRunnerParts,
    live: Mutex<HashMap<Slug, Live>>,
    attended: Mutex<HashSet<Slug>>,
}

/// A session that was found or started by this process.
#[derive(Debug, Clone)]
struct Live {
    pane: Pane,
    harness: Harness,
    signals: Arc<tokio::sync::Mutex<SignalLog>>,
    /// Started by this process: what an earlier agent had been typed is gone.
    is_new: bool,
    /// It did not say that it is ready: what its screen showed instead.
    unready: Option<String>,
    /// The process that it is, once that was looked up.
    process: Arc<tokio::sync::OnceCell<Option<(u32, PathBuf)>>>,
    /// The conversation that it was started with.
    conversation: HarnessSessionId,
}

impl TmuxRunner {
    /// A runner made of its parts.
    pub fn new(parts: TmuxRunnerParts) -> Self {
        Self { parts, live: Mutex::default(), attended: Mutex::default() }
    }

    pub(super) fn parts(&self) -> &TmuxRunnerParts {
        &self.parts
    }

    /// `false` when the session is attended to already.
    pub(super) fn begin_to_attend(&self, slug: &Slug) -> bool {
        self.attended.lock().unwrap_or_else(PoisonError::into_inner).insert(slug.clone())
    }

    pub(super) fn end_to_attend(&self, slug: &Slug) {
        self.attended.lock().unwrap_or_else(PoisonError::into_inner).remove(slug);
    }

    /// Makes sure that the session is live.
    pub(super) async fn start(&self, record: &SessionRecord) -> Result<Hosting, StartFailure> {
        let started = self.adopt_or_spawn(&record.slug(), record).await;
        if let Err(failure) = &started {
            self.note_failed(&record.slug(), failure.detail.clone());
        }
        started
    }

    /// Whether the session's agent is there.
    pub(super) async fn is_live(&self, slug: &Slug) -> bool {
        let found = self.find(slug).await.ok().flatten();
        found.is_some_and(|pane| pane.is_of(slug) && !matches!(pane.state, PaneState::Dead(_)))
    }

    async fn adopt_or_spawn(
        &self,
        slug: &Slug,
        record: &SessionRecord,
    ) -> Result<Hosting, StartFailure> {
        let found = self.find(slug).await.map_err(|error| tmux_failure(&error))?;
        match found {
            Some(pane) if !pane.is_of(slug) => {
                Err(tmux_failure(&self.parts.tmux.not_ours(&pane.name)))
            }
            Some(pane) if !matches!(pane.state, PaneState::Dead(_)) => {
                let pane = self.parts.tmux.rename_back(pane, slug).await;
                self.adopt(slug, record, pane)?;
                Ok(Hosting::Live)
            }
            dead => {
                if let Some(reason) = self.parts.gate.admit(slug) {
                    return Ok(Hosting::Held(reason));
                }
                // Its last words go with the pane that is replaced.
                if let Some(pane) = dead {
                    pane_log::keep(&self.parts.paths, slug, &self.parts.tmux, &pane).await;
                }
                Box::pin(self.spawn(slug, record)).await.map(|()| Hosting::Live)
            }
        }
    }

    /// The session's pane. One that was live a moment ago and is not found may
    /// only be out of reach: a cleaner took the server's socket away. A second
    /// agent on the same conversation would destroy its history.
    async fn find(&self, slug: &Slug) -> Result<Option<Pane>, TmuxError> {
        let found = self.parts.tmux.find_of(slug).await?;
        let known = self.live.lock().unwrap_or_else(PoisonError::into_inner).get(slug).cloned();
        match (found, known) {
            (None, Some(known)) if self.parts.tmux.call_back(&known.pane).await => {
                self.parts.tmux.find_of(slug).await
            }
            (found, _) => Ok(found),
        }
    }

    fn adopt(&self, slug: &Slug, record: &SessionRecord, pane: Pane) -> Result<(), StartFailure> {
        let harness = self.harness(record)?;
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if live.get(slug).is_some_and(|known| known.pane.is_the_same_as(&pane)) {
            return Ok(());
        }
        live.insert(
            slug.clone(),
            self.live_session(slug, (harness, &record.harness_session_id), pane, false),
        );
        Ok(())
    }

    fn harness(&self, record: &SessionRecord) -> Result<Harness, StartFailure> {
        let found = self.parts.agents.of(record);
        found.map_err(|error| failure(Reason::StartFailed, error, false))
    }

    fn live_session(
        &self,
        slug: &Slug,
        (harness, conversation): (Harness, &HarnessSessionId),
        pane: Pane,
        is_new: bool,
    ) -> Live {
        let signals = SignalLog::new(harness.clone(), &self.spool_dir(slug));
        Live {
            pane,
            harness,
            signals: Arc::new(tokio::sync::Mutex::new(signals)),
            is_new,
            unready: None,
            process: Arc::default(),
            conversation: conversation.clone(),
        }
    }

    fn spool_dir(&self, slug: &Slug) -> PathBuf {
        self.parts.paths.spool().join(slug.as_str())
    }

    fn news(&self, slug: &Slug) -> Option<watch::Receiver<u64>> {
        self.parts
            .watcher
            .subscribe(slug)
            .inspect_err(|error| tracing::warn!(%slug, %error, "could not watch the spool"))
            .ok()
    }

    /// Types deliveries, as one text, into a live session.
    pub(super) async fn deliver(&self, slug: &Slug, batch: &Batch, brakes: &Brakes) -> Delivered {
        let tmux_config = self.parts.config.get().routing.tmux.clone();
        let limit = usize::try_from(tmux_config.type_max.bytes()).unwrap_or(usize::MAX);
        let told = Told::load(&self.parts.inbox, &batch.deliveries).and_then(|told| {
            told.in_at_most(limit, &self.parts.paths).map_err(|error| error.to_string())
        });
        let mut told = match told {
            Ok(told) => told,
            Err(why) => return Delivered::Broken(why),
        };
        let stored = self.parts.registry.load(slug).ok().flatten();
        if stored.as_ref().is_some_and(|record| record.conversation_lost) {
            // The agent must know that it remembers nothing.
            told.whole.prompt = with_notice(&told.whole.prompt, &told.whole.item);
            if told.whole.state != State::Injecting {
                self.tell_fresh(&told).await;
            }
        } else if stored.as_ref().is_some_and(|record| !record.conversation_started) {
            // What came before and had them was not heard.
            told.whole.prompt = with_rules(&told.whole.prompt, &told.whole.item);
        } else if stored.is_some_and(|record| record.conversation_resumed) {
            told.whole.prompt = with_resumed(&told.whole.prompt);
            if told.whole.state != State::Injecting {
                self.tell_resumed(&told).await;
            }
        }
        let delivery = &told.whole;
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner).get(slug).cloned();
        let Some(live) = live else {
            return Delivered::Broken(format!("the session `{slug}` is not live"));
        };
        if let Some(screen) = &live.unready {
            let steps = told.steps(State::Queued, Reason::NotReady, Some(screen));
            if let Err(error) = self.parts.inbox.record(steps).await {
                tracing::warn!(%slug, error = %chain(&error), "could not record a step");
            }
        }
        let mut signals = live.signals.lock().await;
        let conversation = signals.conversation().unwrap_or(&live.conversation).clone();
        let process = live.process.get_or_init(|| self.process_in(&live)).await.clone();
        let progress = progress(delivery, &live);
        let result = Injector {
            tmux: &self.parts.tmux,
            pane: &live.pane,
            harness: &live.harness,
            inbox: &self.parts.inbox,
            news: self.news(slug),
            signals: &mut signals,
            delivery,
            told: &told,
            into_turns: batch.now || tmux_config.deliver_when == DeliverWhen::Now,
            released_at: batch.released.then(|| self.parts.clock.now().as_second()),
            process,
            conversation,
            tracer: Tracer::new(&self.parts.paths, &self.parts.clock, &told),
            clock: &self.parts.clock,
            spool: self.spool_dir(slug),
            pasted_at: 0,
        }
        .run(progress, brakes)
        .await;
        match &result {
            Delivered::Ended(Outcome::Accepted) => {
                self.note_accepted(slug, &batch.deliveries, &signals, &live.harness);
                // Whatever its screen showed at its start: it takes words now.
                let mut all = self.live.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(live) = all.get_mut(slug) {
                    live.unready = None;
                }
            }
            Delivered::Ended(Outcome::Gone) => {
                let said = self.last_words(&live.pane).await;
                self.live.lock().unwrap_or_else(PoisonError::into_inner).remove(slug);
                let said = if said.is_empty() { said } else { format!(":\n{said}") };
                self.note_failed(slug, format!("the agent ended before it took a text{said}"));
            }
            _ => {}
        }
        result
    }

    /// The process that the pane became, and the home that it looks into.
    async fn process_in(&self, live: &Live) -> Option<(u32, PathBuf)> {
        let home = self.parts.home.clone()?;
        live.harness.status_file(&home, 0)?;
        let pids = self.parts.tmux.pids().await.ok()?;
        Some((*pids.get(&live.pane.pane_id)?, home))
    }

    /// Until it is started again the session has failed; a pause stays.
    fn note_failed(&self, slug: &Slug, why: String) {
        self.note(slug, |record| {
            record.failure = Some(why);
            record.be(SessionStatus::Failed);
        });
    }

    fn note_accepted(
        &self,
        slug: &Slug,
        ids: &[DeliveryId],
        signals: &SignalLog,
        harness: &Harness,
    ) {
        let now = self.parts.clock.now();
        let says_nothing = harness.identity() == Identity::Created;
        self.note(slug, |record| {
            record.be(SessionStatus::Active);
            record.failure = None;
            record.blocked = None;
            record.conversation_lost = false;
            record.conversation_resumed = false;
            for id in ids {
                record.note_delivery(id, now);
            }
            if let Some(conversation) = signals.conversation() {
                record.goes_on_in(conversation.clone(), says_nothing);
            }
            record.conversation_started = true;
        });
    }

    /// Ends the session's agent; the registry keeps what is needed to resume it.
    pub(super) async fn close(&self, slug: &Slug) -> Result<(), String> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).remove(slug);
        self.parts.watcher.forget(slug);
        if let Some(pane) = self.parts.tmux.find_of(slug).await.map_err(|error| chain(&error))?
            && pane.is_of(slug)
        {
            pane_log::keep(&self.parts.paths, slug, &self.parts.tmux, &pane).await;
            self.parts.tmux.end(&pane).await.map_err(|error| chain(&error))?;
        }
        self.parts
            .registry
            .update(slug, |record| {
                record.status = SessionStatus::Closed;
                record.blocked = None;
            })
            .map(drop)
            .map_err(|error| chain(&error))
    }

    fn update(
        &self,
        slug: &Slug,
        change: impl FnOnce(&mut SessionRecord),
    ) -> Result<(), StartFailure> {
        self.parts
            .registry
            .update(slug, change)
            .map(drop)
            .map_err(|error| failure(Reason::RegistryUnreadable, chain(&error), false))
    }

    /// Updates the registry where a failure to do so changes nothing that
    /// matters: it is logged.
    pub(super) fn note(&self, slug: &Slug, change: impl FnOnce(&mut SessionRecord)) {
        if let Err(error) = self.parts.registry.update(slug, change) {
            tracing::warn!(%slug, error = %chain(&error), "could not update the registry");
        }
    }
}

/// How far the delivery had come before this process, or this agent, began.
fn progress(delivery: &QueuedDelivery, live: &Live) -> Progress {
    match (delivery.state, delivery.reason) {
        // The agent that it was typed into is gone; what it took is in its record,
        // and what is not there was not taken.
        _ if live.is_new && live.harness.profile().gives_proof => Progress::None,
        (State::Injecting, Reason::Submitted) => Progress::Submitted,
        (State::Injecting, _) => Progress::Pasted,
        _ => Progress::None,
    }
}

fn tmux_failure(error: &TmuxError) -> StartFailure {
    let transient = !matches!(error, TmuxError::NotOurs { .. });
    failure(Reason::TmuxFailed, chain(error), transient)
}
