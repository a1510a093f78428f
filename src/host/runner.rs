//! How a session's process is hosted: started, delivered to, closed.
//!
//! Called by `host::dispatch`. A session keeps the runner it was started with;
//! the registry says which.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::base::ids::{DeliveryId, Slug};
use crate::core::dispatch::{Delivered, StartFailure};

mod inject;
mod signals;
mod tmux;

pub use signals::SignalLog;
pub use tmux::{TmuxRunner, TmuxRunnerParts};

/// The runners, behind one contract.
#[derive(Debug, Clone)]
pub enum SessionRunner {
    /// A live terminal in a tmux session.
    Tmux(Arc<TmuxRunner>),
}

impl SessionRunner {
    /// Makes sure that the session is live: adopts it where it is, starts it
    /// where it is not.
    pub async fn start(&self, slug: &Slug) -> Result<(), StartFailure> {
        match self {
            Self::Tmux(runner) => runner.start(slug).await,
        }
    }

    /// Types a delivery into a live session and waits until the agent took it.
    /// `call_off` ends the wait while nothing was submitted.
    pub async fn deliver(
        &self,
        slug: &Slug,
        delivery: &DeliveryId,
        call_off: &CancellationToken,
    ) -> Delivered {
        match self {
            Self::Tmux(runner) => runner.deliver(slug, delivery, call_off).await,
        }
    }

    /// Ends the session's agent and keeps its history.
    pub async fn close(&self, slug: &Slug) -> Result<(), String> {
        match self {
            Self::Tmux(runner) => runner.close(slug).await,
        }
    }
}
