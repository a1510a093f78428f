//! A headless turn up to the moment at which its agent could begin: what it will
//! read and write, on disk. A disk that is full is waited for, because nothing
//! has begun yet; what begins and cannot write proves nothing.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::base::checkpoint::Checkpoint;
use crate::base::failure::chain;
use crate::base::files::atomic;
use crate::base::process::Invocation;
use crate::core::config::RecordRule;
use crate::core::outcome::{Reason, State};
use crate::state::inbox::InboxError;
use crate::state::turns::{About, Turn, Turns};

use super::{ProcessRunnerParts, Told};

/// How long after a failure for want of room it is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// A turn that nobody has begun.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) turn: Turn,
    pub(super) stdin: File,
    pub(super) stdout: File,
    pub(super) stderr: File,
}

/// Prepares a turn; nothing when it was called off while there was no room.
pub(super) async fn prepare(
    parts: &ProcessRunnerParts,
    told: &Told,
    turns: &Turns,
    invocation: &Invocation,
    shows: Option<&[RecordRule]>,
    prompt: &str,
    call_off: &CancellationToken,
) -> Result<Option<Prepared>, String> {
    loop {
        match once(parts, told, turns, invocation, shows, prompt).await {
            Ok(prepared) => return Ok(Some(prepared)),
            Err(Trouble { text, passes: true }) => {
                tracing::error!(delivery = %told.whole.id, error = text, "a turn waits for the disk");
            }
            Err(Trouble { text, .. }) => return Err(text),
        }
        tokio::select! {
            () = call_off.cancelled() => return Ok(None),
            () = tokio::time::sleep(TRY_AGAIN) => {}
        }
    }
}

async fn once(
    parts: &ProcessRunnerParts,
    told: &Told,
    turns: &Turns,
    invocation: &Invocation,
    shows: Option<&[RecordRule]>,
    prompt: &str,
) -> Result<Prepared, Trouble> {
    parts.inbox.record(told.steps(State::Injecting, Reason::TurnRunning, None)).await?;
    Checkpoint::BeforePaste.reached();
    let about = About {
        delivery: told.whole.id.clone(),
        marker: Some(told.whole.marker.clone()),
        what: what_happened(prompt),
        began: parts.clock.now(),
        shows: shows.map(<[_]>::to_vec),
    };
    let turn = turns.begin(&about, prompt)?;
    let stored = serde_json::to_vec(&invocation.stored()).map_err(io::Error::from)?;
    atomic::write(&turn.launch(), &stored)?;
    Checkpoint::Paste.reached();
    Ok(Prepared {
        stdin: fs_err::File::open(turn.prompt())?.into_parts().0,
        stdout: Turn::open_output(&turn.stdout())?,
        stderr: Turn::open_output(&turn.stderr())?,
        turn,
    })
}

/// The first line of a prompt without its marker, and how many others follow.
fn what_happened(prompt: &str) -> String {
    let first = prompt.lines().next().unwrap_or_default();
    let what = first.strip_prefix("[the-loop event ").and_then(|rest| rest.split_once("] "));
    let what = what.map_or(first, |(_, what)| what);
    let more = prompt.matches("\n[the-loop event ").count();
    if more == 0 { what.to_owned() } else { format!("{what}, and {more} more") }
}

/// Why a turn could not be prepared, and whether that may be over in a moment.
struct Trouble {
    text: String,
    passes: bool,
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        let passes = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
        Self { text: error.to_string(), passes }
    }
}

impl From<InboxError> for Trouble {
    fn from(error: InboxError) -> Self {
        Self { text: chain(&error), passes: error.may_pass() }
    }
}
