//! Starting an agent in a tmux session, and waiting for its word that it is
//! ready.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use crate::base::checkpoint::Checkpoint;
use crate::base::failure::chain;
use crate::base::files::{self, atomic};
use crate::base::ids::Slug;
use crate::base::process::shell_word;
use crate::base::text::{cap, visible};
use crate::core::config::{HarnessName, RunnerKind};
use crate::core::dispatch::StartFailure;
use crate::core::harness::{Harness, StartSpec};
use crate::core::inject::screen::{Activity, Screen};
use crate::core::outcome::Reason;
use crate::core::session::{SessionRecord, SessionStatus};
use crate::host::tmux::{Look, NewSession, Pane, PaneState, TmuxError};

use super::{Live, PoisonError, TmuxRunner, failure, tmux_failure};
use crate::host::runner::signals::{SignalLog, news};

/// How often a starting agent is looked at while no signal comes.
const LOOK_STARTING: Duration = Duration::from_millis(100);
/// How long a starting agent shows a question until it counts as one that only
/// a person answers.
const ASKS_FOR: Duration = Duration::from_secs(2);
/// How many lines of a screen are kept as evidence.
const SCREEN_LINES: usize = 40;

impl TmuxRunner {
    pub(super) async fn spawn(
        &self,
        slug: &Slug,
        record: &SessionRecord,
    ) -> Result<(), StartFailure> {
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
            record.blocked = None;
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
        let mut live = self.live_session(slug, record, pane, true);
        live.unready = self.wait_until_ready(slug, &live, began).await?;
        if let Some(screen) = live.unready.clone() {
            tracing::warn!(%slug, "the agent did not say that it is ready");
            self.note(slug, |record| record.blocked = Some(screen));
            self.tell(slug, "first run: it did not say that it is ready");
        }
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

    /// Waits for the agent's own word that it is ready; gives its screen when that
    /// does not come, because it asks a first-run question or the time is over.
    /// Then it is left to the gate of the injection, which types only into an
    /// empty input box.
    async fn wait_until_ready(
        &self,
        slug: &Slug,
        live: &Live,
        began: Timestamp,
    ) -> Result<Option<String>, StartFailure> {
        let seconds = self.parts.config.get().routing.tmux.ready_timeout_seconds;
        let limit = Duration::from_secs(seconds.into());
        let deadline = tokio::time::Instant::now() + limit;
        let mut signals = live.signals.lock().await;
        let mut told = self.news(slug);
        let mut asks_since = None;
        loop {
            if let Err(error) = signals.refresh() {
                tracing::warn!(%slug, %error, "could not read the spool");
            }
            if signals.is_ready_since(began) {
                self.note(slug, |record| record.be(SessionStatus::Active));
                return Ok(None);
            }
            let look = match self.parts.tmux.look(&live.pane).await {
                Ok(look) => Ok(look),
                Err(TmuxError::Absent { .. }) => Err("its session".to_owned()),
                Err(error) => return Err(tmux_failure(&error)),
            };
            let dead = match &look {
                Ok(Look { state: PaneState::Dead(how), .. }) | Err(how) => Some(how.clone()),
                Ok(_) => None,
            };
            if let Some(how) = dead {
                let said = self.last_words(&live.pane).await;
                let detail = format!("the agent ended with {how} before it was ready{said}");
                return Err(failure(Reason::HarnessExited, detail, false));
            }
            let now = tokio::time::Instant::now();
            let asks = look.is_ok_and(|look| {
                let screen =
                    Screen { text: &look.screen, cursor: look.cursor, columns: look.columns };
                matches!(live.harness.read_screen(&screen).activity, Activity::Dialog { .. })
            });
            asks_since = asks.then(|| asks_since.unwrap_or(now));
            let is_asked = asks_since.is_some_and(|since| now - since >= ASKS_FOR);
            if is_asked || now >= deadline {
                return Ok(Some(self.screen_text(&live.pane).await));
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_STARTING) => {}
                () = news(&mut told) => {}
            }
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
