//! The tmux runner: an agent in a tmux session that anybody on this host can
//! look at and type into.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::base::checkpoint::Checkpoint;
use crate::base::clock::Clock;
use crate::base::failure::chain;
use crate::base::files::{self, atomic};
use crate::base::ids::{DeliveryId, Slug};
use crate::base::process::shell_word;
use crate::base::text::visible;
use crate::core::config::{HarnessName, LiveConfig, RunnerKind};
use crate::core::dispatch::{Delivered, Hosting, StartFailure};
use crate::core::harness::{Harness, StartSpec};
use crate::core::inject::{Outcome, Progress};
use crate::core::outcome::{Reason, State};
use crate::core::session::{SessionRecord, SessionStatus};
use crate::doctor::tool::Tool;
use crate::host::pane_log;
use crate::host::tmux::{NewSession, Pane, PaneState, Tmux, TmuxError};
use crate::state::inbox::{Inbox, QueuedDelivery};
use crate::state::paths::StatePaths;
use crate::state::registry::Registry;
use crate::state::spool;

use super::inject::Injector;
use super::signals::{SignalLog, news};
use super::{Gate, failure};

/// How often a starting agent is looked at while no signal comes.
const LOOK_STARTING: Duration = Duration::from_millis(100);
/// How many of an agent's last lines are kept when it failed.
const LAST_LINES: usize = 15;

/// Everything that the runner is made of.
#[derive(Debug)]
pub struct TmuxRunnerParts {
    /// The tmux server.
    pub tmux: Tmux,
    /// This program, which the panes run first.
    pub program: Tool,
    /// The binary of each harness that has one of its own.
    pub harnesses: BTreeMap<HarnessName, Tool>,
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
    /// Lets sessions start their agents.
    pub gate: Arc<Gate>,
    /// The time.
    pub clock: Clock,
}

/// The tmux runner.
#[derive(Debug)]
pub struct TmuxRunner {
    parts: TmuxRunnerParts,
    live: Mutex<HashMap<Slug, Live>>,
}

/// A session that was found or started by this process.
#[derive(Debug, Clone)]
struct Live {
    pane: Pane,
    harness: Harness,
    signals: Arc<tokio::sync::Mutex<SignalLog>>,
    /// Started by this process: what an earlier agent had been typed is gone.
    is_new: bool,
}

impl TmuxRunner {
    /// A runner made of its parts.
    pub fn new(parts: TmuxRunnerParts) -> Self {
        Self { parts, live: Mutex::new(HashMap::new()) }
    }

    /// Makes sure that the session is live.
    pub(super) async fn start(&self, record: &SessionRecord) -> Result<Hosting, StartFailure> {
        let started = self.adopt_or_spawn(&record.slug(), record).await;
        if let Err(failure) = &started {
            self.note_failed(&record.slug(), failure.detail.clone());
        }
        started
    }

    async fn adopt_or_spawn(
        &self,
        slug: &Slug,
        record: &SessionRecord,
    ) -> Result<Hosting, StartFailure> {
        let found = self.find(slug).await.map_err(|error| tmux_failure(&error))?;
        match found {
            Some(pane) if !pane.is_of(slug) => {
                Err(tmux_failure(&TmuxError::NotOurs { name: pane.name }))
            }
            Some(pane) if !matches!(pane.state, PaneState::Dead(_)) => {
                self.adopt(slug, record, self.parts.tmux.rename_back(pane, slug).await);
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

    fn adopt(&self, slug: &Slug, record: &SessionRecord, pane: Pane) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if live.get(slug).is_some_and(|known| known.pane.is_the_same_as(&pane)) {
            return;
        }
        live.insert(slug.clone(), self.live_session(slug, record, pane, false));
    }

    fn live_session(&self, slug: &Slug, record: &SessionRecord, pane: Pane, is_new: bool) -> Live {
        let harness = Harness::named(record.harness);
        let signals = SignalLog::new(harness, &self.spool_dir(slug));
        Live { pane, harness, signals: Arc::new(tokio::sync::Mutex::new(signals)), is_new }
    }

    fn spool_dir(&self, slug: &Slug) -> PathBuf {
        self.parts.paths.spool().join(slug.as_str())
    }

    async fn spawn(&self, slug: &Slug, record: &SessionRecord) -> Result<(), StartFailure> {
        let harness = Harness::named(record.harness);
        let launch_file = self
            .write_launch_file(slug, record, harness)
            .map_err(|error| failure(Reason::StartFailed, error, false))?;
        let name = slug.tmux_name();
        let began = self.parts.clock.now();
        let size = self.parts.config.get().routing.tmux.size;
        self.update(slug, |record| {
            record.be(SessionStatus::Starting);
            record.failure = None;
            record.runner = RunnerKind::Tmux;
            record.tmux_target = Some(slug.tmux_name());
        })?;
        let pane = self
            .parts
            .tmux
            .new_session(&NewSession {
                name: &name,
                item: &record.work_item.reference,
                conversation: record.harness_session_id.as_str(),
                size: (size.columns, size.lines),
                cwd: &record.cwd,
                command: vec![
                    self.parts.program.path().into(),
                    "launch".into(),
                    launch_file.into_os_string(),
                ],
            })
            .await
            .map_err(|error| tmux_failure(&error))?;
        Checkpoint::Spawn.reached();
        let live = self.live_session(slug, record, pane, true);
        self.wait_until_ready(slug, &live, began).await?;
        self.live.lock().unwrap_or_else(PoisonError::into_inner).insert(slug.clone(), live);
        Ok(())
    }

    /// Writes what the pane becomes: the harness's command line and environment.
    fn write_launch_file(
        &self,
        slug: &Slug,
        record: &SessionRecord,
        harness: Harness,
    ) -> Result<PathBuf, String> {
        if !record.cwd.is_dir() {
            return Err(format!("the session's directory `{}` is not there", record.cwd.display()));
        }
        let tool =
            match record.harness {
                HarnessName::Demo => &self.parts.program,
                name @ HarnessName::Claude => self.parts.harnesses.get(&name).ok_or_else(|| {
                    format!("the harness `{}` was not found at start", name.as_str())
                })?,
            };
        let hook_command =
            format!("{} hook", shell_word(&self.parts.program.path().to_string_lossy()));
        let empty = Vec::new();
        let config = self.parts.config.get();
        let plan = harness.start(&StartSpec {
            session_id: &record.harness_session_id,
            resume: SignalLog::has_conversation(harness, &self.spool_dir(slug), record),
            hook_command: &hook_command,
            extra_args: config.routing.harness_args.get(&record.harness).unwrap_or(&empty),
            cwd: &record.cwd,
        });
        let spool = self.spool_dir(slug);
        files::private_dir(&spool).map_err(|error| error.to_string())?;
        let invocation = plan
            .env
            .iter()
            .fold(tool.invocation().args(&plan.args), |all, (name, value)| all.env(name, value))
            .env("THE_LOOP_SPOOL", &spool)
            .env("THE_LOOP_WORK_ITEM", record.work_item.reference.to_string())
            // What every tmux understands and every host's terminfo has.
            .env("TERM", "screen-256color")
            .cwd(&record.cwd);
        let file = self.parts.paths.launch().join(format!("{slug}.json"));
        let content =
            serde_json::to_vec(&invocation.stored()).map_err(|error| error.to_string())?;
        atomic::write(&file, &content).map_err(|error| error.to_string())?;
        Ok(file)
    }

    /// Waits for the agent's own word that it is ready. One that is alive and
    /// silent past the time-out is left to the gate of the injection, which
    /// types only into an empty input box and says what it sees instead.
    async fn wait_until_ready(
        &self,
        slug: &Slug,
        live: &Live,
        began: Timestamp,
    ) -> Result<(), StartFailure> {
        let seconds = self.parts.config.get().routing.tmux.ready_timeout_seconds;
        let limit = Duration::from_secs(seconds.into());
        let deadline = tokio::time::Instant::now() + limit;
        let mut signals = live.signals.lock().await;
        let mut told = self.news(slug);
        loop {
            if let Err(error) = signals.refresh() {
                tracing::warn!(%slug, %error, "could not read the spool");
            }
            if signals.is_ready_since(began) {
                self.note(slug, |record| record.be(SessionStatus::Active));
                return Ok(());
            }
            let state = match self.parts.tmux.look(&live.pane).await {
                Ok(look) => look.state,
                Err(TmuxError::Absent { .. }) => PaneState::Dead("its session".to_owned()),
                Err(error) => return Err(tmux_failure(&error)),
            };
            if let PaneState::Dead(how) = state {
                let said = self.last_words(&live.pane).await;
                let detail = format!("the agent ended with {how} before it was ready{said}");
                return Err(failure(Reason::HarnessExited, detail, false));
            }
            if tokio::time::Instant::now() >= deadline {
                tracing::warn!(%slug, "the agent did not say that it is ready");
                return Ok(());
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_STARTING) => {}
                () = news(&mut told) => {}
            }
        }
    }

    fn news(&self, slug: &Slug) -> Option<watch::Receiver<u64>> {
        self.parts
            .watcher
            .subscribe(slug)
            .inspect_err(|error| tracing::warn!(%slug, %error, "could not watch the spool"))
            .ok()
    }

    async fn last_words(&self, pane: &Pane) -> String {
        match self.parts.tmux.last_lines(pane, LAST_LINES).await {
            Ok(lines) if !lines.is_empty() => {
                let lines: Vec<_> = lines.iter().map(|line| visible(line)).collect();
                format!(":\n{}", lines.join("\n"))
            }
            _ => String::new(),
        }
    }

    /// Types a delivery into a live session.
    pub(super) async fn deliver(
        &self,
        slug: &Slug,
        id: &DeliveryId,
        call_off: &CancellationToken,
    ) -> Delivered {
        let delivery = match self.parts.inbox.queued(id) {
            Ok(Some(delivery)) => delivery,
            Ok(None) => return Delivered::Broken(format!("the inbox has no delivery `{id}`")),
            Err(error) => return Delivered::Broken(chain(&error)),
        };
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner).get(slug).cloned();
        let Some(live) = live else {
            return Delivered::Broken(format!("the session `{slug}` is not live"));
        };
        let mut signals = live.signals.lock().await;
        let progress = progress(&delivery, &live);
        let result = Injector {
            tmux: &self.parts.tmux,
            pane: &live.pane,
            harness: live.harness,
            inbox: &self.parts.inbox,
            news: self.news(slug),
            signals: &mut signals,
            delivery: &delivery,
            clock: &self.parts.clock,
            spool: self.spool_dir(slug),
        }
        .run(progress, call_off)
        .await;
        match &result {
            Delivered::Ended(Outcome::Accepted) => self.note_accepted(slug, id, &signals),
            Delivered::Ended(Outcome::Gone) => {
                let said = self.last_words(&live.pane).await;
                self.live.lock().unwrap_or_else(PoisonError::into_inner).remove(slug);
                self.note_failed(slug, format!("the agent ended before it took a text{said}"));
            }
            _ => {}
        }
        result
    }

    /// Until it is started again the session has failed; a pause stays.
    fn note_failed(&self, slug: &Slug, why: String) {
        self.note(slug, |record| {
            record.failure = Some(why);
            record.be(SessionStatus::Failed);
        });
    }

    fn note_accepted(&self, slug: &Slug, id: &DeliveryId, signals: &SignalLog) {
        let now = self.parts.clock.now();
        self.note(slug, |record| {
            record.be(SessionStatus::Active);
            record.failure = None;
            record.conversation_started = true;
            record.note_delivery(id, now);
            if let Some(conversation) = signals.conversation() {
                record.harness_session_id = conversation.clone();
            }
        });
    }

    /// Ends the session's agent; the registry keeps what is needed to resume it.
    pub(super) async fn close(&self, slug: &Slug) -> Result<(), String> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).remove(slug);
        if let Some(pane) = self.parts.tmux.find_of(slug).await.map_err(|error| chain(&error))?
            && pane.is_of(slug)
        {
            pane_log::keep(&self.parts.paths, slug, &self.parts.tmux, &pane).await;
            self.parts.tmux.kill(&pane).await.map_err(|error| chain(&error))?;
        }
        self.parts
            .registry
            .update(slug, |record| record.status = SessionStatus::Closed)
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
    fn note(&self, slug: &Slug, change: impl FnOnce(&mut SessionRecord)) {
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
