//! What is set up for those who look at a session: a tmux session for viewers,
//! a client that follows it, and a ttyd for each way to look.
//!
//! `relay` takes a place for each browser and gives it back. The first one sets
//! the stage; with the last one the tmux session goes at once, and a ttyd when it
//! has been idle for a while. What has died in between is set up again for who
//! asks next.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Web;
use crate::base::ids::Slug;
use crate::host::keeper::{Kept, Order, StartError};
use crate::host::tmux::{Pane, Seen, Sight, Tmux, TmuxError, UNKNOWN_STATUS};
use crate::host::ttyd::{NewTtyd, Ttyd, TtydError};

/// How often a pane is looked at although nothing was told: of the end of a
/// program tmux tells nothing.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a follower may take to begin.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(5);

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
pub(super) struct Stages(Mutex<BTreeMap<Slug, Arc<tokio::sync::Mutex<Stage>>>>);

#[derive(Debug, Default)]
struct Stage {
    viewers: usize,
    follower: Option<Follower>,
    /// The one that types, and the one that does not.
    ttyds: [Option<Ttyd>; 2],
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
}

/// A viewer's place; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    web: Arc<Web>,
    slug: Slug,
}

impl Drop for Place {
    fn drop(&mut self) {
        let (web, slug) = (Arc::clone(&self.web), self.slug.clone());
        let tasks = self.web.parts.tasks.clone();
        tasks.spawn(async move { web.leave(&slug).await });
    }
}

impl Web {
    /// Takes a place before the stage of a session.
    pub(super) async fn take_place(self: &Arc<Self>, slug: &Slug) -> Place {
        let stage = self.stages.of(slug);
        stage.lock().await.viewers += 1;
        Place { web: Arc::clone(self), slug: slug.clone() }
    }

    async fn leave(self: Arc<Self>, slug: &Slug) {
        let shared = self.stages.of(slug);
        let mut stage = shared.lock().await;
        stage.viewers = stage.viewers.saturating_sub(1);
        if stage.viewers > 0 {
            return;
        }
        stage.left += 1;
        let left = stage.left;
        self.clear(&mut stage, slug).await;
        drop(stage);
        tokio::select! {
            () = tokio::time::sleep(self.parts.idle) => {}
            () = self.parts.stop.cancelled() => {}
        }
        let mut stage = shared.lock().await;
        if stage.viewers == 0 && stage.left == left {
            stage.ttyds = [None, None];
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
        for (slug, stage) in stages {
            let mut stage = stage.lock().await;
            stage.ttyds = [None, None];
            self.clear(&mut stage, &slug).await;
        }
    }

    /// Sets the stage, or what has died of it, for one who has a place before it.
    pub(super) async fn view(&self, place: &Place, may_type: bool) -> Result<View, StageError> {
        let slug = &place.slug;
        let shared = self.stages.of(slug);
        let mut stage = shared.lock().await;
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
            stage.follower = Some(self.follow(&pane, &name).await?);
        }
        let Some(follower) = &stage.follower else { return Err(StageError::Follow) };
        let sight = follower.sight.clone();
        let ttyd = &mut stage.ttyds[usize::from(may_type)];
        let socket = match ttyd {
            Some(ttyd) if !ttyd.is_gone() => ttyd.socket().to_owned(),
            _ => {
                let paths = &self.parts.paths;
                let socket = paths.ttyd_socket(slug, may_type);
                let log = socket.file_name().unwrap_or_default();
                let new = NewTtyd {
                    ttyd: &self.parts.ttyd,
                    program: &self.parts.program,
                    socket: &socket,
                    log: &paths.ttyd_logs().join(log).with_extension("log"),
                    command: &tmux.show_to_viewer(&name, may_type),
                    may_type,
                    tasks: &self.parts.tasks,
                };
                *ttyd = Some(Ttyd::start(new).await?);
                socket
            }
        };
        Ok(View { socket, sight })
    }

    /// Starts the client that follows a pane.
    async fn follow(&self, pane: &Pane, name: &str) -> Result<Follower, StageError> {
        let tmux = &self.parts.tmux;
        // Without its viewers the session would live on, and the agent in it.
        let order = Order {
            command: tmux.follow_for_viewers(name).stored(),
            log: None,
            socket: None,
            farewell: Some(tmux.ending_for_viewers(name).stored()),
        };
        let mut kept = Kept::start(&self.parts.program, &order, &self.parts.tasks).await?;
        let mut stdout = kept.take_stdout().ok_or(StageError::Follow)?;
        let mut buffer = [0; 1024];
        // Its first words: it is attached.
        let begun = tokio::time::timeout(FOLLOWS_WITHIN, stdout.read(&mut buffer)).await;
        let seen = match begun {
            Ok(Ok(1..)) => tmux.sight(pane, name).await?,
            _ => Seen::Unshown,
        };
        let Seen::Shown(first) = seen else {
            return Err(StageError::Follow);
        };
        let (sender, sight) = watch::channel(first);
        let (end, gone) = (CancellationToken::new(), CancellationToken::new());
        let follower = Follower { pane: pane.clone(), sight, end: end.clone(), gone: gone.clone() };
        let (tmux, pane, name) = (self.parts.tmux.clone(), pane.clone(), name.to_owned());
        self.parts.tasks.spawn(async move {
            let mut last = false;
            let mut was_vague = false;
            while !last {
                tokio::select! {
                    () = end.cancelled() => break,
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                    read = stdout.read(&mut buffer) => last = matches!(read, Ok(0) | Err(_)),
                }
                last |= look(&tmux, &pane, &name, &sender, &mut was_vague).await;
            }
            kept.end().await;
            gone.cancel();
        });
        Ok(follower)
    }
}

/// Looks at a pane and tells what is new; `true` when there is nothing more to see.
async fn look(
    tmux: &Tmux,
    pane: &Pane,
    name: &str,
    sender: &watch::Sender<Sight>,
    was_vague: &mut bool,
) -> bool {
    let seen = match tmux.sight(pane, name).await {
        Ok(seen) => seen,
        // A server that is busy; the next look tells.
        Err(error) => {
            tracing::debug!(%error, "a pane was not seen");
            return false;
        }
    };
    // The status comes a moment after the end, or never.
    if let Seen::Shown(Sight { ended: Some(how), .. }) = &seen
        && how == UNKNOWN_STATUS
        && !std::mem::replace(was_vague, true)
    {
        return false;
    }
    let ended = match &seen {
        Seen::Shown(sight) => sight.ended.as_ref().map(|how| format!("the agent has ended: {how}")),
        Seen::Unshown => return true,
        Seen::Gone => {
            // The pane would live on in the viewers' session.
            let _ = tmux.close_for_viewers(name).await;
            Some("its tmux session is gone".to_owned())
        }
    };
    sender.send_if_modified(|sight| {
        let new = match &seen {
            Seen::Shown(new) => Sight { ended: ended.clone(), ..new.clone() },
            _ => Sight { ended: ended.clone(), ..sight.clone() },
        };
        let is_new = *sight != new;
        *sight = new;
        is_new
    });
    seen == Seen::Gone
}

impl Stages {
    fn of(&self, slug: &Slug) -> Arc<tokio::sync::Mutex<Stage>> {
        let mut stages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(stages.entry(slug.clone()).or_default())
    }
}

/// A client of tmux that is told what becomes of a session.
#[derive(Debug)]
struct Follower {
    pane: Pane,
    sight: watch::Receiver<Sight>,
    end: CancellationToken,
    gone: CancellationToken,
}

impl Follower {
    fn is_gone(&self) -> bool {
        self.gone.is_cancelled()
    }

    async fn end(self) {
        self.end.cancel();
        self.gone.cancelled().await;
    }
}
