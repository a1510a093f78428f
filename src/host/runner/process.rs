//! The process runner: each event is one headless turn of the harness, which
//! outlives the receiver. What a turn reads and writes are files; who became
//! the agent is written down before it is one; so after a restart a turn is
//! found again, waited for, and judged by what it left.
//!
//! A session whose tmux window only shows the turns (`view: stream`) is hosted
//! here too, with a viewer in its pane.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::base::checkpoint::Checkpoint;
use crate::base::clock::Clock;
use crate::base::failure::chain;
use crate::base::files;
use crate::base::files::lock::{LockError, LockFile};
use crate::base::ids::{DeliveryId, HarnessSessionId, Slug};
use crate::base::random;
use crate::core::config::{Identity, LiveConfig, RunnerKind};
use crate::core::dispatch::{Delivered, Hosting, StartFailure};
use crate::core::outcome::{Reason, State};
use crate::core::routing::prompt::with_rules;
use crate::core::session::{SessionRecord, SessionStatus};
use crate::doctor::tool::Tool;
use crate::host::agents::{Agents, Form};
use crate::host::tmux::{NewSession, PaneState, Tmux, TmuxError};
use crate::state::drive::Drive;
use crate::state::inbox::Inbox;
use crate::state::paths::StatePaths;
use crate::state::registry::Registry;
use crate::state::turns::{End, Turn, Turns};

use super::signals::SignalLog;
use super::told::Told;
use super::{Gate, failure};

mod again;
mod earlier;
mod group;
mod judge;
mod notes;
mod prepare;
mod watch;

use judge::{Ending, Verdict};
pub(super) use judge::{with_notice, with_resumed};
use prepare::Prepared;
pub use watch::end as end_turn;

/// Everything that the runner is made of.
#[derive(Debug)]
pub struct ProcessRunnerParts {
    /// This program, which becomes the agent.
    pub program: Tool,
    /// The agents of this machine.
    pub agents: Agents,
    /// The tmux server, for windows that show turns.
    pub tmux: Option<Tmux>,
    /// The configuration.
    pub config: LiveConfig,
    /// Where state is kept.
    pub paths: StatePaths,
    /// The sessions.
    pub registry: Registry,
    /// The deliveries.
    pub inbox: Inbox,
    /// Lets sessions start their agents.
    pub gate: Arc<Gate>,
    /// The time.
    pub clock: Clock,
}

/// The process runner.
#[derive(Debug)]
pub struct ProcessRunner {
    parts: ProcessRunnerParts,
    /// Sessions that were started and whose turn is about to begin.
    driven: Mutex<HashMap<Slug, Driven>>,
}

/// What a start gives to the delivery behind it.
#[derive(Debug)]
struct Driven {
    /// The right to drive; nothing where a person has it, who waited for the turn.
    _lock: Option<LockFile>,
    /// Whether a turn may be begun, and not only one be taken up.
    may_begin: bool,
}

impl ProcessRunner {
    /// A runner made of its parts.
    pub fn new(parts: ProcessRunnerParts) -> Self {
        Self { parts, driven: Mutex::new(HashMap::new()) }
    }

    /// Takes the right to drive the conversation, unless a person has it.
    pub(super) async fn start(&self, record: &SessionRecord) -> Result<Hosting, StartFailure> {
        let started = self.take_drive(record).await;
        if let Err(failure) = &started {
            self.note_failed(&record.slug(), &failure.detail);
        }
        started
    }

    /// The agents of this machine.
    pub(super) fn agents(&self) -> &Agents {
        &self.parts.agents
    }

    /// Lets in what an earlier receiver began, for its outcome: no new turn. Whoever
    /// drives now waited for its end.
    pub(super) async fn take_back(&self, record: &SessionRecord) -> Hosting {
        let slug = record.slug();
        if record.runner == RunnerKind::Tmux
            && let Err(failure) = self.show(&slug, record).await
        {
            tracing::warn!(%slug, why = failure.detail, "nobody can watch a turn that is taken up");
        }
        let lock = Drive::of(&self.parts.paths, &slug).try_turn().ok();
        self.drives(slug, Driven { _lock: lock, may_begin: false });
        Hosting::Headless
    }

    async fn take_drive(&self, record: &SessionRecord) -> Result<Hosting, StartFailure> {
        let slug = record.slug();
        let drive = Drive::of(&self.parts.paths, &slug);
        if drive.is_attached() {
            return Ok(Hosting::Held(Reason::Attached));
        }
        let lock = match drive.try_turn() {
            Ok(lock) => lock,
            Err(LockError::Held { .. }) => return Ok(Hosting::Held(Reason::Attached)),
            Err(error) => return Err(failure(Reason::StartFailed, chain(&error), true)),
        };
        // Between the look and the lock somebody may have attached.
        if drive.is_attached() {
            return Ok(Hosting::Held(Reason::Attached));
        }
        if let Some(reason) = self.parts.gate.admit(&slug) {
            return Ok(Hosting::Held(reason));
        }
        if record.runner == RunnerKind::Tmux {
            self.show(&slug, record).await?;
        }
        self.drives(slug, Driven { _lock: Some(lock), may_begin: true });
        Ok(Hosting::Headless)
    }

    fn drives(&self, slug: Slug, driven: Driven) {
        self.driven.lock().unwrap_or_else(PoisonError::into_inner).insert(slug, driven);
    }

    /// Makes sure that a viewer shows the session's turns in its tmux window.
    async fn show(&self, slug: &Slug, record: &SessionRecord) -> Result<(), StartFailure> {
        let Some(tmux) = &self.parts.tmux else {
            let detail = "the session is shown in tmux, and no usable tmux was found when the \
                          receiver started: `the-loop doctor --for tmux` says why";
            return Err(failure(Reason::NoTmux, detail.to_owned(), false));
        };
        let failed = |error: &TmuxError| failure(Reason::TmuxFailed, chain(error), true);
        let name = slug.tmux_name();
        match tmux.find_of(slug).await.map_err(|error| failed(&error))? {
            Some(pane) if !pane.is_of(slug) => {
                return Err(failure(Reason::TmuxFailed, chain(&tmux.not_ours(&pane.name)), false));
            }
            Some(pane) if !matches!(pane.state, PaneState::Dead(_)) => {
                tmux.rename_back(pane, slug).await;
                return Ok(());
            }
            _ => {}
        }
        let turns = Turns::of(&self.parts.paths, slug);
        files::private_dir(turns.dir())
            .map_err(|error| failure(Reason::StartFailed, error.to_string(), true))?;
        let size = self.parts.config.get().routing.tmux.size;
        tmux.new_session(&NewSession {
            name: &name,
            item: &record.work_item.reference,
            conversation: record.harness_session_id.as_str(),
            size: (size.columns, size.lines),
            cwd: &record.cwd,
            command: vec![self.parts.program.path().into(), "view".into(), turns.dir().into()],
        })
        .await
        .map(drop)
        .map_err(|error| failed(&error))
    }

    /// Runs the turn of these deliveries, or takes up the one that an earlier receiver
    /// began.
    pub(super) async fn deliver(
        &self,
        slug: &Slug,
        ids: &[DeliveryId],
        call_off: &CancellationToken,
    ) -> Delivered {
        let driven = self.driven.lock().unwrap_or_else(PoisonError::into_inner).remove(slug);
        let may_begin = driven.as_ref().is_some_and(|driven| driven.may_begin);
        let result = self.turn(slug, ids, call_off, may_begin).await;
        drop(driven);
        match result {
            Ok(delivered) => delivered,
            Err(detail) => {
                self.note_failed(slug, &detail);
                Delivered::Turn {
                    state: State::Failed,
                    reason: Reason::StartFailed,
                    detail: Some(detail),
                }
            }
        }
    }

    async fn turn(
        &self,
        slug: &Slug,
        ids: &[DeliveryId],
        call_off: &CancellationToken,
        may_begin: bool,
    ) -> Result<Delivered, String> {
        let told = Told::load(&self.parts.inbox, ids)?;
        let delivery = &told.whole;
        let turns = Turns::of(&self.parts.paths, slug);
        let mut left =
            turns.last_of(&delivery.id, &delivery.marker).map_err(|error| error.to_string())?;
        // One that nobody began has told what it had to.
        left = left.filter(|turn| !turn.was_taken_back());
        let stored = self.load(slug)?;
        let mut prompt = if stored.conversation_lost {
            with_notice(&delivery.prompt, &delivery.item)
        } else if stored.conversation_started {
            delivery.prompt.clone()
        } else {
            // What came before and had them was not heard.
            with_rules(&delivery.prompt, &delivery.item)
        };
        let mut is_second = false;
        loop {
            let record = self.load(slug)?;
            let harness = self.parts.agents.of(&record)?;
            let mut signals =
                SignalLog::new(harness.clone(), &self.parts.paths.spool().join(slug.as_str()));
            let (turn, ending) = if let Some(turn) = left.take() {
                match self.take_up(delivery, turn, call_off).await {
                    Some(ended) => ended,
                    // It never began, and nobody can begin it any more.
                    None => continue,
                }
            } else {
                if call_off.is_cancelled() {
                    return Ok(Delivered::CalledOff);
                }
                // It was let in for the turn of an earlier receiver alone.
                if !may_begin {
                    return Ok(Delivered::GaveWay);
                }
                match self.run(&told, &turns, &record, &prompt, call_off).await? {
                    Some(ended) => ended,
                    None => return Ok(Delivered::CalledOff),
                }
            };
            if let Err(error) = signals.refresh() {
                tracing::warn!(%slug, %error, "could not read the spool");
            }
            match judge::judge(&harness, &turn, &ending, &mut signals, &delivery.marker) {
                Verdict::Ended { state, reason, detail, conversation } => {
                    // A harness that chooses its ids may have told it by a signal alone.
                    let by_signal = || signals.conversation().cloned();
                    let is_ours = harness.identity() == Identity::Preassigned;
                    let conversation =
                        conversation.or_else(|| (!is_ours).then(by_signal).flatten());
                    let (state, reason, taken_back) =
                        again::take_back(&turn, &prompt, state, reason);
                    Checkpoint::Acknowledge.reached();
                    let mut is_noted = true;
                    if !judge::has_result(reason) {
                        let detail = detail.clone().unwrap_or_default();
                        let end = End { reason: reason.to_string(), detail, taken_back };
                        if let Err(error) = turn.note_end(&end) {
                            tracing::warn!(%slug, %error, "could not note a turn's end");
                            is_noted = false;
                        }
                    }
                    let says_nothing = harness.identity() == Identity::Created;
                    let conversation = conversation.map(|named| (named, says_nothing));
                    self.note_end(slug, ids, state, reason, detail.as_deref(), conversation);
                    // By the note alone it is known not to have begun.
                    if taken_back && is_noted {
                        let detail = detail.unwrap_or_else(|| reason.explain().to_owned());
                        return Ok(Delivered::NeverBegan { reason, detail });
                    }
                    return Ok(Delivered::Turn { state, reason, detail });
                }
                Verdict::NoConversation if !is_second => {
                    is_second = true;
                    self.begin_anew(slug, &told).await?;
                    prompt = with_notice(&delivery.prompt, &delivery.item);
                }
                Verdict::HasConversation if !is_second => {
                    // A person who was attached began it.
                    is_second = true;
                    self.note(slug, |record| record.conversation_started = true);
                }
                Verdict::NoConversation | Verdict::HasConversation => {
                    return Err("the agent refuses every conversation".to_owned());
                }
            }
        }
    }

    fn limit(&self) -> std::time::Duration {
        let seconds = self.parts.config.get().routing.dispatch_timeout_seconds;
        std::time::Duration::from_secs(seconds.into())
    }

    /// Runs a new turn to its end; nothing when it was called off before it began.
    async fn run(
        &self,
        told: &Told,
        turns: &Turns,
        record: &SessionRecord,
        prompt: &str,
        call_off: &CancellationToken,
    ) -> Result<Option<(Turn, Ending)>, String> {
        // Nobody drives beside a turn that goes on, whosever it is.
        if let Ok(Some(other)) = turns.live()
            && let Some(mark) = other.mark()
        {
            self.await_end(&other, &mark, &told.whole.slug, call_off).await;
        }
        let config = self.parts.config.get();
        let ProcessRunnerParts { agents, paths, .. } = &self.parts;
        let mut record = record.clone();
        if let Some(made) = agents.create(&config.routing, &record).await? {
            self.note(&record.slug(), |record| record.harness_session_id = made.clone());
            record.harness_session_id = made;
        }
        let form = Form::OneShot { stream: record.runner == RunnerKind::Tmux };
        let invocation = agents.invocation(&config.routing, paths, &record, form).await?;
        let shows = agents.of(&record)?.shows();
        let prepared = prepare::prepare(
            &self.parts,
            told,
            turns,
            &invocation,
            shows.as_deref(),
            prompt,
            call_off,
        )
        .await?;
        let Some(Prepared { turn, stdin, stdout, stderr }) = prepared else { return Ok(None) };
        // An event revives a closed session, from here on.
        if record.status == SessionStatus::Closed {
            self.note(&record.slug(), |record| record.be(SessionStatus::Active));
        }
        let child = self
            .parts
            .program
            .invocation()
            .arg("launch")
            .arg("--claim")
            .arg(turn.claim())
            .arg(turn.launch())
            .cwd(&record.cwd)
            .start(Stdio::from(stdin), Stdio::from(stdout), Stdio::from(stderr))
            .map_err(|error| chain(&error))?;
        Checkpoint::Spawn.reached();
        let ending = watch::child(&turn, child, self.limit(), call_off).await;
        Checkpoint::Submit.reached();
        Ok(Some((turn, ending)))
    }

    /// The agent lost the conversation: the next turn begins another.
    async fn begin_anew(&self, slug: &Slug, told: &Told) -> Result<(), String> {
        self.parts
            .registry
            .update(slug, |record| {
                record.harness_session_id = HarnessSessionId::uuid(random::bytes());
                record.conversation_started = false;
                record.conversation_lost = true;
            })
            .map_err(|error| chain(&error))?;
        let detail = Some("the agent had no conversation of this id any more");
        let steps = told.steps(State::Queued, Reason::FreshConversation, detail);
        self.parts.inbox.record(steps).await.map_err(|error| chain(&error))
    }

    /// Ends the turn that runs, and the viewer.
    pub(super) async fn close(&self, slug: &Slug) -> Result<(), String> {
        if let Ok(Some(turn)) = Turns::of(&self.parts.paths, slug).live()
            && let Some(mark) = turn.mark()
        {
            watch::end(&mark).await;
        }
        if self.load(slug)?.runner == RunnerKind::Tmux
            && let Some(tmux) = &self.parts.tmux
            && let Some(pane) = tmux.find_of(slug).await.map_err(|error| chain(&error))?
            && pane.is_of(slug)
        {
            tmux.end(&pane).await.map_err(|error| chain(&error))?;
        }
        self.parts
            .registry
            .update(slug, |record| record.status = SessionStatus::Closed)
            .map(drop)
            .map_err(|error| chain(&error))
    }
}
