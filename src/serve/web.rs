//! The web terminal: the sessions in a browser, to watch and to type.
//!
//! The daemon binds it beside the receiver and serves it until the end. A
//! request passes the guard before any page, socket or file of it is reached.
//! A terminal is a WebSocket: `relay` stands between the browser and a ttyd of
//! `stage`, and lets through what harms neither.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::base::clock::Clock;
use crate::core::config::LiveConfig;
use crate::doctor::tool::Tool;
use crate::host::agents::Agents;
use crate::host::tmux::Tmux;
use crate::state::inbox::Inbox;
use crate::state::paths::StatePaths;
use crate::state::registry::Registry;

pub mod guard;
mod listener;
mod pages;
pub mod relay;
mod stage;

pub use listener::{Bound, address_of};

/// How long a ttyd that nobody looks through is kept.
pub const IDLE: Duration = Duration::from_secs(30);

/// How many may look at once, at whatever session.
const MAX_VIEWERS: usize = 256;

/// What the web terminal works with. Shared by all its requests.
#[derive(Debug)]
pub struct Parts {
    /// The sessions.
    pub registry: Registry,
    /// The deliveries.
    pub inbox: Inbox,
    /// The tmux server of the sessions.
    pub tmux: Tmux,
    /// The ttyd that the doctor found.
    pub ttyd: Tool,
    /// This program.
    pub program: Tool,
    /// The agents of this machine.
    pub agents: Agents,
    /// The home directory of this user, where one is known.
    pub home: Option<PathBuf>,
    /// The configuration.
    pub config: LiveConfig,
    /// Where state is kept.
    pub paths: StatePaths,
    /// The time.
    pub clock: Clock,
    /// What runs beside the requests; awaited at the end.
    pub tasks: TaskTracker,
    /// Ends everything. A response that streams must end with it.
    pub stop: CancellationToken,
    /// The address that people are given, with a `/` at its end.
    pub url: String,
    /// How long a ttyd that nobody looks through is kept.
    pub idle: Duration,
}

/// The web terminal behind its listener.
#[derive(Debug)]
pub struct Web {
    /// What it works with.
    pub parts: Parts,
    stages: stage::Stages,
    seats: Arc<Semaphore>,
}

impl Web {
    /// The web terminal of these parts.
    pub fn new(parts: Parts) -> Arc<Self> {
        let stages = stage::Stages::default();
        let web = Arc::new(Self { parts, stages, seats: Arc::new(Semaphore::new(MAX_VIEWERS)) });
        let ending = Arc::clone(&web);
        web.parts.tasks.spawn(async move {
            ending.parts.stop.cancelled().await;
            ending.close_stages().await;
        });
        web
    }
}

/// Every route, without the guard.
fn routes(web: &Arc<Web>) -> Router {
    pages::routes(Arc::clone(web)).merge(relay::routes(Arc::clone(web)))
}
