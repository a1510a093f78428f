//! Starting an agent in a tmux session, until it says that it is ready; and what
//! is done about a conversation that it will not go on with.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use crate::base::checkpoint::Checkpoint;
use crate::base::failure::chain;
use crate::base::files::atomic;
use crate::base::ids::{HarnessSessionId, Slug};
use crate::base::random;
use crate::base::text::{cap, gist, visible};
use crate::core::config::RunnerKind;
use crate::core::dispatch::StartFailure;
use crate::core::harness::Harness;
use crate::core::inject::screen::{Activity, Reading, Screen};
use crate::core::outcome::{Reason, State};
use crate::core::session::{SessionRecord, SessionStatus};
use crate::host::agents::{AgentFault, Form};
use crate::host::live::first_run;
use crate::host::tmux::{Look, NewSession, Pane, PaneState, TmuxError};

use super::super::failure;
use super::super::signals::{SignalLog, news};
use super::super::told::Told;
use super::{Live, TmuxRunner, tmux_failure};

/// How often a starting agent is looked at while no signal comes.
const LOOK_STARTING: Duration = Duration::from_millis(100);
/// How long a starting agent shows a question until it counts as one that only
/// a person answers.
const ASKS_FOR: Duration = Duration::from_secs(2);
/// How many lines of a screen are kept as evidence.
const SCREEN_LINES: usize = 40;
/// How many of an agent's last lines are kept when it failed, and behind how many of
/// the first ones when it failed at its start: what is wrong may stand above a usage.
const LAST_LINES: usize = 15;
const FIRST_LINES: usize = 3;
/// How many lines of an agent that failed at its start are read.
const READ_LINES: usize = 400;

/// An agent that runs and has not said that it is ready.
struct Unready {
    /// What it shows.
    screen: String,
    /// What it asks, for people.
    asks: String,
}

/// Why an agent did not get ready.
enum NotReady {
    /// It ended: how, and with which words.
    Ended { how: String, said: Vec<String> },
    /// It could not be started, or not be seen.
    Failed(StartFailure),
}

impl TmuxRunner {
    /// Starts the session's agent. One that has lost the conversation begins
    /// another; one that has it already, though nobody noted it, goes on with it.
    pub(super) async fn spawn(
        &self,
        slug: &Slug,
        record: &SessionRecord,
    ) -> Result<(), StartFailure> {
        let harness = self.harness(record)?;
        let mut record = record.clone();
        let is_there = SignalLog::has_conversation(harness.clone(), &self.spool_dir(slug), &record);
        if record.conversation_started && !is_there {
            record.conversation_lost = true;
            self.update(slug, |stored| stored.conversation_lost = true)?;
        }
        record.conversation_started = is_there;
        let mut is_second = false;
        loop {
            let (how, said) = match self.try_spawn(slug, &record, &harness).await {
                Ok(()) => return Ok(()),
                Err(NotReady::Failed(failure)) => return Err(failure),
                Err(NotReady::Ended { how, said }) => (how, said),
            };
            let resumed = record.conversation_started;
            // Only the end: above it may stand what others said.
            let last = said[said.len().saturating_sub(LAST_LINES)..].join("\n");
            if !is_second && resumed && harness.refuses_resume(&last) {
                tracing::warn!(%slug, "the agent has lost the conversation: it begins another");
                record.harness_session_id = HarnessSessionId::uuid(random::bytes());
                record.conversation_started = false;
                record.conversation_lost = true;
            } else if !is_second && !resumed && harness.refuses_start(&last) {
                record.conversation_started = true;
            } else {
                let said =
                    gist(said.iter().map(String::as_str), FIRST_LINES, LAST_LINES).join("\n");
                let said = if said.is_empty() { said } else { format!(":\n{said}") };
                let detail = format!("the agent ended with {how} before it was ready{said}");
                return Err(failure(Reason::HarnessExited, detail, true));
            }
            is_second = true;
            self.update(slug, |stored| {
                stored.harness_session_id = record.harness_session_id.clone();
                stored.conversation_started = record.conversation_started;
                stored.conversation_lost = record.conversation_lost;
            })?;
        }
    }

    async fn try_spawn(
        &self,
        slug: &Slug,
        record: &SessionRecord,
        harness: &Harness,
    ) -> Result<(), NotReady> {
        let record = &self.identified(slug, record).await?;
        let launch_file = self.write_launch_file(slug, record).await.map_err(not_started)?;
        let name = slug.tmux_name();
        let began = self.parts.clock.now();
        let size = self.parts.config.get().routing.tmux.size;
        let resumes = record.conversation_started;
        self.update(slug, |record| {
            record.be(SessionStatus::Starting);
            record.conversation_resumed = resumes;
            if resumes {
                record.resumed_at = Some(began);
            }
            record.failure = None;
            record.blocked = None;
            record.runner = RunnerKind::Tmux;
            record.tmux_target = Some(slug.tmux_name());
        })
        .map_err(NotReady::Failed)?;
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
            .map_err(|error| NotReady::Failed(tmux_failure(&error)))?;
        Checkpoint::Spawn.reached();
        let of = (harness.clone(), &record.harness_session_id);
        let mut live = self.live_session(slug, of, pane, true);
        if let Some(unready) = self.wait_until_ready(slug, &live, began).await? {
            tracing::warn!(%slug, "the agent did not say that it is ready");
            live.unready = Some(unready.screen.clone());
            self.note(slug, |record| record.blocked = Some(unready.screen));
            self.tell(slug, &unready.asks);
        }
        self.live
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .insert(slug.clone(), live);
        Ok(())
    }

    /// The entry with the id of its conversation, where the harness makes it.
    async fn identified(
        &self,
        slug: &Slug,
        record: &SessionRecord,
    ) -> Result<SessionRecord, NotReady> {
        let config = self.parts.config.get();
        let mut record = record.clone();
        let made = self.parts.agents.create(&config.routing, &record).await.map_err(not_started)?;
        if let Some(made) = made {
            self.update(slug, |record| record.harness_session_id = made.clone())
                .map_err(NotReady::Failed)?;
            record.harness_session_id = made;
        }
        Ok(record)
    }

    /// Writes what the pane becomes: the harness's command line and environment.
    async fn write_launch_file(
        &self,
        slug: &Slug,
        record: &SessionRecord,
    ) -> Result<PathBuf, AgentFault> {
        let config = self.parts.config.get();
        let paths = &self.parts.paths;
        let invocation =
            self.parts.agents.invocation(&config.routing, paths, record, Form::Terminal).await?;
        // What every tmux understands and every host's terminfo has.
        let invocation = invocation.env("TERM", "screen-256color");
        let file = paths.launch().join(format!("{slug}.json"));
        let content =
            serde_json::to_vec(&invocation.stored()).map_err(|error| error.to_string())?;
        atomic::write(&file, &content).map_err(|error| error.to_string())?;
        Ok(file)
    }

    /// Waits for the agent's own word that it is ready; of one that says nothing
    /// before its first prompt, for an empty input box. Gives its screen when that
    /// does not come, because it asks a first-run question or the time is over.
    /// Then it is left to the gate of the injection, which types only into an
    /// empty input box.
    async fn wait_until_ready(
        &self,
        slug: &Slug,
        live: &Live,
        began: Timestamp,
    ) -> Result<Option<Unready>, NotReady> {
        let seconds = self.parts.config.get().routing.tmux.ready_timeout_seconds;
        let limit = Duration::from_secs(seconds.into());
        let deadline = tokio::time::Instant::now() + limit;
        let mut signals = live.signals.lock().await;
        let mut told = self.news(slug);
        let (mut asks_since, mut looks_ready) = (None, 0);
        loop {
            if let Err(error) = signals.refresh() {
                tracing::warn!(%slug, %error, "could not read the spool");
            }
            let look = match self.parts.tmux.look(&live.pane).await {
                Ok(look) => Ok(look),
                Err(TmuxError::Absent { .. }) => Err("its session".to_owned()),
                Err(error) => return Err(NotReady::Failed(tmux_failure(&error))),
            };
            let reading = look.as_ref().ok().map(|look| read(&live.harness, look));
            let loads = look.as_ref().is_ok_and(|look| live.harness.is_loading(&screen_of(look)));
            let shows_ready = live.harness.profile().ready_by_screen
                && reading.as_ref().is_some_and(Reading::is_ready)
                && !loads;
            // Twice: one look may be of a screen that is being drawn.
            looks_ready = if shows_ready { looks_ready + 1 } else { 0 };
            if signals.is_ready_since(began) || looks_ready > 1 {
                self.note(slug, |record| record.be(SessionStatus::Active));
                return Ok(None);
            }
            let dead = match &look {
                Ok(Look { state: PaneState::Dead(how), .. }) | Err(how) => Some(how.clone()),
                Ok(_) => None,
            };
            if let Some(how) = dead {
                let said = self.words(&live.pane, READ_LINES).await;
                return Err(NotReady::Ended { how, said });
            }
            let now = tokio::time::Instant::now();
            let asks = match reading.map(|reading| reading.activity) {
                Some(Activity::Dialog { what }) => Some(what),
                _ => None,
            };
            asks_since = asks.is_some().then(|| asks_since.unwrap_or(now));
            let is_asked = asks_since.is_some_and(|since| now - since >= ASKS_FOR);
            if is_asked || now >= deadline {
                let screen = self.screen_text(&live.pane).await;
                return Ok(Some(Unready { screen, asks: first_run(asks.as_deref()) }));
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_STARTING) => {}
                () = news(&mut told) => {}
            }
        }
    }

    /// The last lines of an agent.
    pub(super) async fn last_words(&self, pane: &Pane) -> String {
        self.words(pane, LAST_LINES).await.join("\n")
    }

    /// At most so many lines of an agent, the last ones.
    async fn words(&self, pane: &Pane, limit: usize) -> Vec<String> {
        let mut lines = self.parts.tmux.last_lines(pane, limit).await;
        // A host under load can fail one call; an agent that said nothing is asked
        // twice too, for its words can come a moment after its end.
        if lines.as_ref().map_or(true, Vec::is_empty) {
            tokio::time::sleep(LOOK_STARTING).await;
            lines = self.parts.tmux.last_lines(pane, limit).await;
        }
        let lines = lines.unwrap_or_else(|error| {
            let error = chain(&error);
            tracing::warn!(session = pane.name, error, "could not read an agent's last words");
            Vec::new()
        });
        lines.iter().map(|line| visible(line)).collect()
    }

    /// Says of deliveries that they go to a fresh conversation.
    pub(super) async fn tell_fresh(&self, told: &Told) {
        let why = "the agent had no conversation of this id any more";
        self.tell_first(told, Reason::FreshConversation, why).await;
    }

    /// Says of deliveries that the agent was started again for them, or before them.
    pub(super) async fn tell_resumed(&self, told: &Told) {
        let why = "the agent had ended: it was started again with its conversation";
        self.tell_first(told, Reason::Resumed, why).await;
    }

    async fn tell_first(&self, told: &Told, reason: Reason, why: &str) {
        let steps = told.steps(State::Queued, reason, Some(why));
        if let Err(error) = self.parts.inbox.record(steps).await {
            let error = chain(&error);
            tracing::warn!(delivery = %told.whole.id, error, "could not record a step");
        }
    }

    /// What a pane shows, for people.
    async fn screen_text(&self, pane: &Pane) -> String {
        match self.parts.tmux.last_lines(pane, SCREEN_LINES).await {
            Ok(lines) => {
                let lines = lines.iter().map(|line| visible(line)).filter(|line| !line.is_empty());
                cap(&lines.collect::<Vec<_>>().join("\n"), 2000)
            }
            Err(error) => chain(&error),
        }
    }
}

fn not_started(fault: AgentFault) -> NotReady {
    NotReady::Failed(failure(Reason::StartFailed, fault.detail, fault.may_pass))
}

fn read(harness: &Harness, look: &Look) -> Reading {
    harness.read_screen(&screen_of(look))
}

fn screen_of(look: &Look) -> Screen<'_> {
    let Look { screen: text, cursor, columns, title, .. } = look;
    Screen { text, cursor: *cursor, columns: *columns, title }
}
