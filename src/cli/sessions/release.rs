//! `the-loop sessions release`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use tokio::time::Instant;

use super::{Context, Failure, SessionStatus, Slug, resolve};
use crate::base::failure::Kind;
use crate::base::ids::DeliveryId;
use crate::base::text::{count, visible};
use crate::core::outcome::{Reason, State};
use crate::serve::control;
use crate::state::inbox::{Inbox, InboxError, InboxReader, QueuedDelivery};

/// How long is waited for what was let in to arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(4);
/// How often it is looked whether it did.
const LOOK: Duration = Duration::from_millis(100);
/// How many deliveries are read at a time.
const BATCH: usize = 500;

/// Let in the events that wait for a session
///
/// They wait no longer for the end of the agent's turn, nor because a person
/// typed a moment ago. A dialog, a menu, the copy mode and a line that somebody
/// has half typed still hold them: nothing is ever typed into those.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop sessions release octo/hello#15")]
pub(super) struct Args {
    /// The session: `15`, `owner/repo#15`, a URL or the slug
    item: String,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    let (slug, record) = resolve(&loaded, &args.item)?;
    let item = record.work_item.reference.clone();
    let short = item.short();
    if record.status == SessionStatus::Paused {
        return Err(Failure::refused(format!("{short} is paused"))
            .hint(format!("the-loop sessions resume '{short}'")));
    }
    let unreadable = |error| Failure::failed("the recorded events cannot be read").because(error);
    let inbox = match Inbox::read_only(&loaded.paths.inbox()) {
        Err(InboxError::Missing { .. }) => None,
        inbox => Some(inbox.map_err(unreadable)?),
    };
    let before = match &inbox {
        Some(inbox) => waiting(inbox, &slug).map_err(unreadable)?,
        None => BTreeMap::new(),
    };
    let (Some(inbox), false) = (inbox, before.is_empty()) else {
        context.printer.note(&format!("nothing waits for {short}"));
        return Ok(ExitCode::SUCCESS);
    };
    let left = context.block_on(async {
        if !control::ask_to_release(&loaded.paths.control(), &item).await? {
            return Err(Failure::refused("no receiver runs, and only one can let events in")
                .hint("the-loop gh-webhook start"));
        }
        let deadline = Instant::now() + ARRIVES_WITHIN;
        loop {
            let mut left = waiting(&inbox, &slug).map_err(unreadable)?;
            // What was submitted is in, be it in the agent's own queue.
            left.retain(|id, why| before.contains_key(id) && *why != Reason::Submitted);
            if left.is_empty() || Instant::now() >= deadline {
                return Ok(left);
            }
            tokio::time::sleep(LOOK).await;
        }
    })?;
    let arrived = before.len() - left.len();
    if arrived > 0 {
        context.printer.note(&format!("{} let in", count(arrived, "event")));
    }
    let Some(reason) = left.values().next() else { return Ok(ExitCode::SUCCESS) };
    let verb = if left.len() == 1 { "waits" } else { "wait" };
    let said = format!("{} still {verb}: {}", count(left.len(), "event"), reason.explain());
    Err(Failure::new(Kind::Refused, visible(&said))
        .hint(format!("`the-loop sessions attach '{short}'` shows what is in the way")))
}

/// The deliveries on their way to a session, each with what it waits for.
fn waiting(inbox: &InboxReader, slug: &Slug) -> Result<BTreeMap<DeliveryId, Reason>, InboxError> {
    let mut mine = BTreeMap::new();
    let mut after = 0;
    loop {
        let batch = inbox.pending(after, BATCH)?;
        let Some(last) = batch.last() else { return Ok(mine) };
        after = last.seq;
        let is_mine = |delivery: &QueuedDelivery| {
            delivery.slug == *slug && matches!(delivery.state, State::Queued | State::Injecting)
        };
        let pending = batch.into_iter().filter(is_mine);
        mine.extend(pending.map(|delivery| (delivery.id, delivery.reason)));
    }
}
