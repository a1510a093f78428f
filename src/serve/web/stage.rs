//! What is set up for those who look at a session: a tmux session for viewers,
//! a client that follows it and types into it, and a ttyd to look through.
//!
//! `relay` takes a place for each browser and gives it back. The first one sets
//! the stage; with the last one the tmux session goes at once, and a ttyd when it
//! has been idle for a while. What has died in between is set up again for who
//! asks next.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, watch};

use self::follower::Follower;
use super::Web;
use crate::base::ids::Slug;
use crate::core::typed::Typed;
use crate::host::keeper::StartError;
use crate::host::tmux::{Sight, TmuxError};
use crate::host::ttyd::{NewTtyd, Ttyd, TtydError};

mod follower;

/// Why a session cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub(super) enum StageError {
    /// There is no tmux session of it.
    #[error("the session is not in tmux now")]
    NoSession,
    /// tmux failed.
    #[error("tmux does not show the session")]
    Tmux(#[from] TmuxError),
    /// The client that follows did not begin.
    #[error("tmux does not tell what becomes of the session")]
    Follow,
    /// It could not be started.
    #[error("tmux does not tell what becomes of the session")]
    Start(#[from] StartError),
    /// There is no ttyd.
    #[error("there is no ttyd for the session")]
    Ttyd(#[from] TtydError),
}

/// The stages, by session.
#[derive(Debug, Default)]
pub(super) struct Stages(Mutex<BTreeMap<Slug, Arc<Shared>>>);

#[derive(Debug, Default)]
struct Shared {
    audience: Mutex<Audience>,
    /// Why it was not set, the last time.
    failure: Mutex<Option<String>>,
    stage: tokio::sync::Mutex<Stage>,
}

/// The browsers before a stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Audience {
    /// How many may type.
    pub(super) typing: u32,
    /// How many can only look.
    pub(super) watching: u32,
}

impl Audience {
    fn of(&mut self, may_type: bool) -> &mut u32 {
        if may_type { &mut self.typing } else { &mut self.watching }
    }
}

#[derive(Debug, Default)]
struct Stage {
    follower: Option<Follower>,
    ttyd: Option<Ttyd>,
    /// Counts how often it was left by the last viewer.
    left: u64,
}

/// What a viewer needs.
#[derive(Debug)]
pub(super) struct View {
    /// Where the ttyd listens.
    pub(super) socket: PathBuf,
    /// How the pane is.
    pub(super) sight: watch::Receiver<Sight>,
    /// The way to type into it.
    pub(super) keys: mpsc::Sender<Vec<Typed>>,
}

/// A viewer's place; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    web: Arc<Web>,
    slug: Slug,
    may_type: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        let (web, slug) = (Arc::clone(&self.web), self.slug.clone());
        let tasks = self.web.parts.tasks.clone();
        let shared = self.web.stages.of(&slug);
        *shared.audience().of(self.may_type) -= 1;
        tasks.spawn(async move { web.leave(&slug, &shared).await });
    }
}

impl Web {
    /// Takes a place before the stage of a session.
    pub(super) fn take_place(self: &Arc<Self>, slug: &Slug, may_type: bool) -> Place {
        *self.stages.of(slug).audience().of(may_type) += 1;
        Place { web: Arc::clone(self), slug: slug.clone(), may_type }
    }

    /// The browsers that look at a session.
    pub(super) fn audience(&self, slug: &Slug) -> Audience {
        let stages = self.stages.0.lock().unwrap_or_else(PoisonError::into_inner);
        stages.get(slug).map(|shared| *shared.audience()).unwrap_or_default()
    }

    async fn leave(self: Arc<Self>, slug: &Slug, shared: &Shared) {
        let mut stage = shared.stage.lock().await;
        if shared.is_empty() {
            stage.left += 1;
            let left = stage.left;
            self.clear(&mut stage, slug).await;
            drop(stage);
            tokio::select! {
                () = tokio::time::sleep(self.parts.idle) => {}
                () = self.parts.stop.cancelled() => {}
            }
            let mut stage = shared.stage.lock().await;
            if shared.is_empty() && stage.left == left {
                stage.ttyd = None;
            }
        }
    }

    /// Ends what tmux has for the viewers.
    async fn clear(&self, stage: &mut Stage, slug: &Slug) {
        let Some(follower) = stage.follower.take() else { return };
        follower.end().await;
        let tmux = &self.parts.tmux;
        if let Err(error) = tmux.close_for_viewers(&tmux.viewers_name(slug)).await {
            tracing::warn!(%slug, %error, "the session for viewers was not ended");
        }
    }

    /// Ends everything.
    pub(super) async fn close_stages(&self) {
        let stages = self.stages.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (slug, shared) in stages {
            let mut stage = shared.stage.lock().await;
            stage.ttyd = None;
            self.clear(&mut stage, &slug).await;
        }
    }

    /// Sets the stage, or what has died of it, for one who has a place before it.
    pub(super) async fn view(&self, place: &Place) -> Result<View, StageError> {
        let slug = &place.slug;
        let shared = self.stages.of(slug);
        let mut stage = shared.stage.lock().await;
        let tmux = &self.parts.tmux;
        let pane = tmux.find_of(slug).await?.filter(|pane| pane.is_of(slug));
        let pane = pane.ok_or(StageError::NoSession)?;
        let name = tmux.viewers_name(slug);
        let is_followed = stage
            .follower
            .as_ref()
            .is_some_and(|one| one.pane.is_the_same_as(&pane) && !one.is_gone());
        if !is_followed {
            self.clear(&mut stage, slug).await;
            // One that an earlier receiver left may show another pane.
            tmux.close_for_viewers(&name).await?;
            tmux.open_for_viewers(&pane, &name).await?;
            stage.follower = Some(Follower::start(&self.parts, &pane, &name).await?);
        }
        let Some(follower) = &stage.follower else { return Err(StageError::Follow) };
        let (sight, keys) = (follower.sight.clone(), follower.keys.clone());
        let socket = match &stage.ttyd {
            Some(ttyd) if !ttyd.is_gone() => ttyd.socket().to_owned(),
            _ => {
                let paths = &self.parts.paths;
                let socket = paths.ttyd_socket(slug);
                let log = socket.file_name().unwrap_or_default();
                let new = NewTtyd {
                    ttyd: &self.parts.ttyd,
                    program: &self.parts.program,
                    socket: &socket,
                    log: &paths.ttyd_logs().join(log).with_extension("log"),
                    command: &tmux.show_to_viewer(&name),
                    tasks: &self.parts.tasks,
                };
                stage.ttyd = Some(Ttyd::start(new).await?);
                socket
            }
        };
        *shared.failure() = None;
        Ok(View { socket, sight, keys })
    }
}

impl Stages {
    /// Whether it is another reason than the last time why a stage is not set.
    pub(super) fn is_news(&self, slug: &Slug, why: &str) -> bool {
        self.of(slug).failure().replace(why.to_owned()).is_none_or(|before| before != why)
    }

    fn of(&self, slug: &Slug) -> Arc<Shared> {
        let mut stages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(stages.entry(slug.clone()).or_default())
    }
}

impl Shared {
    fn audience(&self) -> MutexGuard<'_, Audience> {
        self.audience.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self) -> MutexGuard<'_, Option<String>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_empty(&self) -> bool {
        *self.audience() == Audience::default()
    }
}
