//! How a session's process is hosted: started, delivered to, closed.
//!
//! Called by `host::dispatch`. A session keeps the runner it was started with:
//! its registry entry says which, whatever the configuration says now.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::base::failure::chain;
use crate::base::ids::{DeliveryId, Slug};
use crate::core::dispatch::{Delivered, Hosting, StartFailure};
use crate::core::outcome::Reason;
use crate::core::session::{SessionRecord, SessionStatus};
use crate::core::workspace::{NoHead, WorkTree};
use crate::host::workspace::{WorkspaceError, Workspaces};
use crate::state::drive::Drive;
use crate::state::paths::StatePaths;
use crate::state::registry::{Registry, RegistryError};

mod gate;
mod inject;
mod process;
mod signals;
mod tmux;

pub use gate::Gate;
pub use process::{ProcessRunner, ProcessRunnerParts, end_turn};
pub use signals::SignalLog;
pub use tmux::{TmuxRunner, TmuxRunnerParts};

/// How often a session that is held is looked at.
const LOOK_HELD: Duration = Duration::from_millis(200);

/// The runners, behind one contract.
#[derive(Debug, Clone)]
pub enum SessionRunner {
    /// A live terminal in a tmux session.
    Tmux(Arc<TmuxRunner>),
    /// A headless turn for each event.
    Process(Arc<ProcessRunner>),
}

/// Every runner that this host can offer, and the registry that chooses.
#[derive(Debug, Clone)]
pub struct Runners {
    /// The sessions.
    pub registry: Registry,
    /// Where state is kept.
    pub paths: StatePaths,
    /// For headless sessions.
    pub process: Arc<ProcessRunner>,
    /// Lets sessions start their agents.
    pub gate: Arc<Gate>,
    /// The work trees; nothing where no usable git was found.
    pub workspaces: Option<Arc<Workspaces>>,
    /// For sessions in tmux; nothing where no usable tmux was found.
    pub tmux: Option<Arc<TmuxRunner>>,
}

impl Runners {
    /// Makes sure that the session can be delivered to: adopts its agent where
    /// it is, starts it where it is not. A paused session is held.
    pub async fn start(&self, slug: &Slug) -> Result<Hosting, StartFailure> {
        let record = self.record(slug)?;
        if record.status == SessionStatus::Paused {
            return Ok(Hosting::Held(Reason::SessionPaused));
        }
        let record = match &record.work_tree {
            Some(tree) => self.in_its_tree(slug, &record, tree).await?,
            None => record,
        };
        let started = match self.of(&record)? {
            SessionRunner::Tmux(runner) => runner.start(&record).await,
            SessionRunner::Process(runner) => runner.start(&record).await,
        };
        // A headless agent is there as long as its turn.
        if started != Ok(Hosting::Headless) {
            self.gate.entered(slug);
        }
        started
    }

    /// Hands a delivery to a session that was started, and waits until the agent
    /// took it. `call_off` ends the wait while nothing was submitted.
    pub async fn deliver(
        &self,
        slug: &Slug,
        delivery: &DeliveryId,
        call_off: &CancellationToken,
    ) -> Delivered {
        let delivered = match self.record(slug).and_then(|record| self.of(&record)) {
            Ok(SessionRunner::Tmux(runner)) => runner.deliver(slug, delivery, call_off).await,
            Ok(SessionRunner::Process(runner)) => {
                Box::pin(runner.deliver(slug, delivery, call_off)).await
            }
            Err(failure) => Delivered::Broken(failure.detail),
        };
        self.gate.entered(slug);
        delivered
    }

    /// Ends the session's agent and keeps its history.
    pub async fn close(&self, slug: &Slug) -> Result<(), String> {
        let record = self.record(slug).map_err(|failure| failure.detail)?;
        match self.of(&record).map_err(|failure| failure.detail)? {
            SessionRunner::Tmux(runner) => runner.close(slug).await?,
            SessionRunner::Process(runner) => runner.close(slug).await?,
        }
        self.gate.left(slug);
        if let Some(workspaces) = &self.workspaces {
            workspaces.release_of(&self.registry, &record).await;
        }
        Ok(())
    }

    /// Makes sure that the session's work tree is there, and notes where.
    async fn in_its_tree(
        &self,
        slug: &Slug,
        record: &SessionRecord,
        tree: &WorkTree,
    ) -> Result<SessionRecord, StartFailure> {
        let made = if let Some(workspaces) = &self.workspaces {
            let others: Vec<_> = self.registry.load_all().records.into_values().collect();
            workspaces.prepare(record, tree, &others).await.map_err(|error| {
                let denied = matches!(error, WorkspaceError::NoHead(NoHead::Fork));
                let reason = if denied { Reason::ForkDenied } else { Reason::WorkTreeFailed };
                failure(reason, error.to_string(), error.may_pass())
            })
        } else {
            let detail = "the session has a git work tree, and no usable git was found when the \
                          receiver started: `the-loop doctor --only git` says why";
            Err(failure(Reason::WorkTreeFailed, detail.to_owned(), false))
        };
        let updated = self.registry.update(slug, |record| match &made {
            Ok((tree, cwd)) => {
                record.work_tree = Some(tree.clone());
                record.cwd.clone_from(cwd);
            }
            Err(failure) => {
                record.status = SessionStatus::Failed;
                record.failure = Some(failure.detail.clone());
            }
        });
        made?;
        updated.map_err(|error| unreadable(&error))
    }

    /// Waits until nobody holds the session: it is neither paused nor attached,
    /// and there is room for its agent.
    pub async fn released(&self, slug: &Slug) {
        let drive = Drive::of(&self.paths, slug);
        loop {
            let is_paused = self
                .registry
                .load(slug)
                .is_ok_and(|record| record.is_some_and(|r| r.status == SessionStatus::Paused));
            if !is_paused && !drive.is_attached() && !drive.is_in_turn() {
                break;
            }
            tokio::time::sleep(LOOK_HELD).await;
        }
        self.gate.room(slug).await;
    }

    fn of(&self, record: &SessionRecord) -> Result<SessionRunner, StartFailure> {
        if record.is_headless() {
            return Ok(SessionRunner::Process(Arc::clone(&self.process)));
        }
        self.tmux.clone().map(SessionRunner::Tmux).ok_or_else(|| {
            let detail = "the session is in tmux, and no usable tmux was found when the receiver \
                          started: `the-loop doctor --for tmux` says why";
            failure(Reason::NoTmux, detail.to_owned(), false)
        })
    }

    fn record(&self, slug: &Slug) -> Result<SessionRecord, StartFailure> {
        match self.registry.load(slug) {
            Ok(Some(record)) => Ok(record),
            Ok(None) => {
                let detail = format!("the registry has no session `{slug}`");
                Err(failure(Reason::StartFailed, detail, false))
            }
            Err(error) => Err(unreadable(&error)),
        }
    }
}

fn failure(reason: Reason, detail: String, transient: bool) -> StartFailure {
    StartFailure { reason, detail, transient }
}

fn unreadable(error: &RegistryError) -> StartFailure {
    failure(Reason::RegistryUnreadable, chain(error), false)
}
