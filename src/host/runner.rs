//! How a session's process is hosted: started, delivered to, closed.
//!
//! Called by `host::dispatch`. A session keeps the runner it was started with:
//! its registry entry says which, whatever the configuration says now.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::base::failure::chain;
use crate::base::files;
use crate::base::ids::Slug;
use crate::core::dispatch::{Batch, Delivered, Hosting, StartFailure};
use crate::core::outcome::Reason;
use crate::core::session::{SessionRecord, SessionStatus};
use crate::core::workspace::{NoHead, WorkTree};
use crate::host::workspace::{WorkspaceError, Workspaces};
use crate::state::drive::Drive;
use crate::state::paths::StatePaths;
use crate::state::registry::{Registry, RegistryError};

mod attention;
mod gate;
mod inject;
mod process;
mod signals;
mod tmux;
mod told;
mod tools;
mod tracer;

pub use gate::{Gate, HeldStarts};
pub use process::{ProcessRunner, ProcessRunnerParts, end_turn};
pub use signals::SignalLog;
pub use tmux::{TmuxRunner, TmuxRunnerParts};

/// The room on the disk below which no agent is given anything.
const ROOM: u64 = 512 << 10;
/// How often a full disk is looked at.
const LOOK_FOR_ROOM: Duration = Duration::from_secs(1);
/// How often a session that is held is looked at.
const LOOK_HELD: Duration = Duration::from_millis(200);

/// How a delivery that is under way is stopped.
#[derive(Debug, Clone, Default)]
pub struct Brakes {
    /// The session ends: nothing that was not submitted is waited for.
    pub call_off: CancellationToken,
    /// Something else goes first: what was not typed yet is given back.
    pub give_way: CancellationToken,
}

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
    /// it is, starts it where it is not. A paused session is held. `takes_up` what
    /// an earlier receiver began: a headless turn goes on, or has ended, whatever
    /// holds the session back now.
    pub async fn start(&self, slug: &Slug, takes_up: bool) -> Result<Hosting, StartFailure> {
        if takes_up {
            let record = self.record(slug)?;
            if let SessionRunner::Process(runner) = self.of(&record)? {
                return Ok(runner.take_back(&record).await);
            }
        }
        self.wait_for_room(slug).await;
        let record = self.record(slug)?;
        if record.status == SessionStatus::Paused {
            return Ok(Hosting::Held(paused(&record)));
        }
        let record = match &record.work_tree {
            Some(tree) => match self.in_its_tree(slug, &record, tree).await? {
                Some(record) => record,
                None => return Ok(Hosting::Held(Reason::WaitingForStart)),
            },
            None => record,
        };
        let started = match self.of(&record)? {
            SessionRunner::Tmux(runner) => {
                runner.attend(slug, &record);
                runner.start(&record).await
            }
            SessionRunner::Process(runner) => match runner.agents().ready(&record).await {
                Err(fault) if fault.may_pass => {
                    runner.note_failed(slug, &fault.detail);
                    Err(failure(Reason::StartFailed, fault.detail, true))
                }
                // Its turn tells any other fault.
                _ => runner.start(&record).await,
            },
        };
        // A headless agent is there as long as its turn.
        if started != Ok(Hosting::Headless) {
            self.gate.entered(slug);
        }
        // Whoever paused it meanwhile is heard before anything is told.
        if started == Ok(Hosting::Live) {
            let record = self.record(slug)?;
            if record.status == SessionStatus::Paused {
                return Ok(Hosting::Held(paused(&record)));
            }
        }
        // The disk may have filled meanwhile; the next try waits for it.
        started.map_err(|failure| StartFailure {
            transient: failure.transient || !self.has_room(),
            ..failure
        })
    }

    /// Whether the session's agent is there: what comes for it needs no start. A
    /// headless one is there as long as its turn, which is a start.
    pub async fn is_live(&self, slug: &Slug) -> bool {
        match self.record(slug).and_then(|record| self.of(&record)) {
            Ok(SessionRunner::Tmux(runner)) => runner.is_live(slug).await,
            Ok(SessionRunner::Process(_)) | Err(_) => false,
        }
    }

    /// Waits until there is room for what an agent says: one that cannot tell that
    /// it took a text leaves us without a proof.
    async fn wait_for_room(&self, slug: &Slug) {
        let mut is_said = false;
        while !self.has_room() {
            if !std::mem::replace(&mut is_said, true) {
                let dir = self.paths.dir.display();
                tracing::error!(%slug, %dir, "the disk is full: the session's events wait");
            }
            tokio::time::sleep(LOOK_FOR_ROOM).await;
        }
    }

    fn has_room(&self) -> bool {
        files::room(&self.paths.dir).is_none_or(|free| free >= ROOM)
    }

    /// Hands deliveries, as one text, to a session that was started, and waits
    /// until the agent took it.
    pub async fn deliver(&self, slug: &Slug, batch: &Batch, brakes: &Brakes) -> Delivered {
        let delivered = match self.record(slug).and_then(|record| self.of(&record)) {
            Ok(SessionRunner::Tmux(runner)) => runner.deliver(slug, batch, brakes).await,
            Ok(SessionRunner::Process(runner)) => {
                Box::pin(runner.deliver(slug, &batch.deliveries, &brakes.call_off)).await
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

    /// Makes sure that the session's work tree is there, and notes where; nothing while
    /// another one's is made from the same clone.
    async fn in_its_tree(
        &self,
        slug: &Slug,
        record: &SessionRecord,
        tree: &WorkTree,
    ) -> Result<Option<SessionRecord>, StartFailure> {
        let made = if let Some(workspaces) = &self.workspaces {
            let others: Vec<_> = self.registry.load_all().records.into_values().collect();
            let prepared = workspaces.prepare(record, tree, &others).await;
            if matches!(prepared, Err(WorkspaceError::Busy)) {
                return Ok(None);
            }
            prepared.map_err(|error| {
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
                record.be(SessionStatus::Failed);
                record.failure = Some(failure.detail.clone());
            }
        });
        made?;
        updated.map(Some).map_err(|error| unreadable(&error))
    }

    /// Waits until nobody holds the session: it is neither paused nor attached,
    /// and there is room for its agent and its work tree.
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
        if let Some(workspaces) = &self.workspaces
            && let Ok(Some(record)) = self.registry.load(slug)
        {
            workspaces.is_free(&record).await;
        }
        self.gate.room(slug).await;
    }

    /// Shows those who look at these sessions how many events wait for each.
    pub(super) async fn show_waiting(&self, numbers: &BTreeMap<Slug, usize>) {
        if let Some(tmux) = &self.tmux {
            tmux.show_waiting(numbers).await;
        }
    }

    /// Hides the counts that an earlier receiver left.
    pub(super) async fn hide_all_waiting(&self) {
        if let Some(tmux) = &self.tmux {
            tmux.hide_all_waiting().await;
        }
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

/// Why a paused session is held: a person paused it, or the rate limit.
fn paused(record: &SessionRecord) -> Reason {
    match record.paused_why {
        Some(_) => Reason::RateLimited,
        None => Reason::SessionPaused,
    }
}

fn failure(reason: Reason, detail: String, transient: bool) -> StartFailure {
    StartFailure { reason, detail, transient }
}

fn unreadable(error: &RegistryError) -> StartFailure {
    failure(Reason::RegistryUnreadable, chain(error), false)
}
