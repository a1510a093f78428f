//! A turn that an earlier receiver began. Its agent may have taken the prompt, so
//! it is waited for and judged, and run again only where nobody can have become
//! its agent.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::base::ids::Slug;
use crate::state::inbox::QueuedDelivery;
use crate::state::turns::{self, Mark, Turn};

use super::judge::Ending;
use super::{ProcessRunner, watch};

/// How long after a failure to claim a turn it is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

impl ProcessRunner {
    /// Takes up a turn; nothing when no agent had begun it, and none can any more.
    pub(super) async fn take_up(
        &self,
        delivery: &QueuedDelivery,
        turn: Turn,
        call_off: &CancellationToken,
    ) -> Option<(Turn, Ending)> {
        match claim(&turn, call_off).await {
            Claim::Ours => return None,
            Claim::Theirs => {}
            Claim::CalledOff => {
                return Some((turn, Ending { called_off: true, ..Ending::default() }));
            }
        }
        let Some(mark) = turn.mark() else {
            tracing::warn!(delivery = %delivery.id, "cannot read who became a turn's agent");
            return Some((turn, Ending::default()));
        };
        if mark.pid == 0 {
            return None;
        }
        tracing::info!(delivery = %delivery.id, pid = mark.pid, "takes up a turn");
        let ending = self.await_end(&turn, &mark, &delivery.slug, call_off).await;
        Some((turn, ending))
    }

    /// Waits for the end of a turn that this process did not start.
    pub(super) async fn await_end(
        &self,
        turn: &Turn,
        mark: &Mark,
        slug: &Slug,
        call_off: &CancellationToken,
    ) -> Ending {
        let spool = self.parts.paths.spool().join(slug.as_str());
        let now = self.parts.clock.now();
        watch::adopted(turn, mark, &spool, self.limit(), now, call_off).await
    }
}

enum Claim {
    /// Nobody had it, and nobody can have it any more.
    Ours,
    /// An agent, or an earlier one who claimed it for nobody.
    Theirs,
    /// The session was closed before it could be told.
    CalledOff,
}

/// Claims a turn for nobody. A disk that is full says nothing about the agent: it
/// is waited for.
async fn claim(turn: &Turn, call_off: &CancellationToken) -> Claim {
    loop {
        match turns::claim(&turn.claim(), &Mark::nobody()) {
            Ok(true) => return Claim::Ours,
            Ok(false) => return Claim::Theirs,
            Err(_) if turn.claim().exists() => return Claim::Theirs,
            Err(error) => tracing::error!(%error, "a turn cannot be taken up yet"),
        }
        tokio::select! {
            () = call_off.cancelled() => return Claim::CalledOff,
            () = tokio::time::sleep(TRY_AGAIN) => {}
        }
    }
}
