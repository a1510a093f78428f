//! `the-loop sessions close`.

use std::process::ExitCode;
use std::time::Duration;

use tokio::time::Instant;

use super::{Context, Failure, Loaded, Registry, SessionStatus, Slug, resolve, tools};
use crate::base::clock::Clock;
use crate::base::ids::DeliveryId;
use crate::base::text::visible;
use crate::core::config::RunnerKind;
use crate::core::outcome::{Reason, State};
use crate::core::session::SessionRecord;
use crate::host::pane_log;
use crate::host::runner::end_turn;
use crate::serve::control;
use crate::state::drive::Drive;
use crate::state::inbox::{Inbox, LocalMessage, QueuedDelivery, RouteAction, Step};
use crate::state::turns::{Mark, Turns, claim};

/// How long the receiver may take.
const CLOSED_WITHIN: Duration = Duration::from_secs(15);

/// End a session's agent; its history stays
///
/// Closing one that is closed already changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  the-loop sessions close octo/hello#15")]
pub(super) struct Args {
    /// The session: `15`, `owner/repo#15`, a URL or the slug
    item: String,
}

/// How many deliveries are looked at together.
const BATCH: usize = 200;

/// Runs the command.
pub(super) fn run(context: &Context, args: &Args) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    let (slug, record) = resolve(&loaded, &args.item)?;
    let short = record.work_item.reference.short();
    // The agent of a person who took a headless conversation over is theirs.
    let drive = Drive::of(&loaded.paths, &slug);
    if let Some(agent) = drive.orphan() {
        return Err(super::drive::left_behind(&slug, &agent)
            .hint(format!("end it with `kill {}`, then close the session", agent.pid)));
    }
    if drive.is_attached() {
        return Err(Failure::refused(format!("somebody is attached to {short}"))
            .hint("leave the agent there first; `the-loop sessions list` shows `human`"));
    }
    let message = LocalMessage { item: record.work_item.reference.clone(), text: None, now: false };
    context.block_on(async {
        if let Some(id) = control::send_local(&loaded.paths.control(), &message).await? {
            await_end(&loaded, &id).await?;
        } else {
            close_here(context, &loaded, &slug, &record).await?;
        }
        context.printer.note(&format!("{short} is closed; its next event resumes it"));
        let now = Registry::open(&loaded.paths.registry).load(&slug).ok().flatten();
        if let Some(kept) = now.and_then(|record| record.work_tree?.kept) {
            context.printer.note(&format!(
                "its work tree stays: {}\n  `{}`",
                visible(&kept),
                record.cwd.display()
            ));
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Waits until the receiver has closed the session.
async fn await_end(loaded: &Loaded, id: &DeliveryId) -> Result<(), Failure> {
    let failed = |error: crate::state::inbox::InboxError| error.failure("could not read the inbox");
    let inbox = Inbox::read_only(&loaded.paths.inbox()).map_err(failed)?;
    let deadline = Instant::now() + CLOSED_WITHIN;
    loop {
        let found = inbox.history(id).map_err(failed)?.map(|history| history.delivery);
        match found.map(|delivery| (delivery.state, delivery.reason)) {
            Some((State::Done, _)) => return Ok(()),
            Some((state, reason)) if state.is_final() => {
                return Err(Failure::failed(format!("it was not closed: {}", reason.explain()))
                    .hint(format!("`the-loop events {id}` tells more")));
            }
            _ if Instant::now() > deadline => {
                return Err(Failure::failed("it is not closed yet")
                    .hint(format!("`the-loop events {id}` tells what becomes of it")));
            }
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Closes the session without a receiver.
async fn close_here(
    context: &Context,
    loaded: &Loaded,
    slug: &Slug,
    record: &SessionRecord,
) -> Result<(), Failure> {
    if let Ok(Some(turn)) = Turns::of(&loaded.paths, slug).live()
        && let Some(mark) = turn.mark()
    {
        end_turn(&mark).await;
    }
    if record.runner == RunnerKind::Tmux {
        end_pane(context, loaded, slug).await?;
    }
    let registry = Registry::of(&loaded.paths);
    registry
        .update(slug, |record| {
            record.status = SessionStatus::Closed;
            record.closed_at = Some(Clock::System.now());
        })
        .map(drop)
        .map_err(|error| Failure::failed("could not note that it is closed").because(error))?;
    end_queue(loaded, slug, record).await?;
    context.printer.note("no receiver runs: the agent was ended from here");
    if record.work_tree.as_ref().is_some_and(|tree| tree.made) {
        tools::workspaces(context, loaded).await?.release_of(&registry, record).await;
    }
    Ok(())
}

/// Ends what waits for the session, as a receiver would: it came before the close,
/// and what comes after it revives the session.
async fn end_queue(loaded: &Loaded, slug: &Slug, record: &SessionRecord) -> Result<(), Failure> {
    let failed =
        |error: crate::state::inbox::InboxError| error.failure("could not end what waits for it");
    if !loaded.paths.inbox().exists() {
        return Ok(());
    }
    let inbox = Inbox::open(&loaded.paths.inbox(), Clock::System).map_err(failed)?;
    let turns = Turns::of(&loaded.paths, slug);
    let may_have_begun = |delivery: &QueuedDelivery| {
        match turns.last_of(&delivery.id, &delivery.marker) {
            Ok(Some(turn)) if turn.was_taken_back() => false,
            // Nobody can begin it any more.
            Ok(Some(turn)) => !matches!(claim(&turn.claim(), &Mark::nobody()), Ok(true)),
            Ok(None) => false,
            Err(_) => true,
        }
    };
    let (mut steps, mut after) = (Vec::new(), 0);
    loop {
        let batch = inbox.pending(after, BATCH).map_err(failed)?;
        let Some(last) = batch.last() else { break };
        after = last.seq;
        for delivery in batch.into_iter().filter(|delivery| delivery.slug == *slug) {
            let (state, reason) = match (delivery.action, delivery.state) {
                (RouteAction::Close, _) => (State::Done, Reason::ItemClosed),
                // What became of it its turn tells at the next start.
                (_, State::Injecting) if record.is_headless() && may_have_begun(&delivery) => {
                    continue;
                }
                (_, State::Injecting) if record.is_headless() => {
                    (State::Failed, Reason::ClosedBeforeDelivery)
                }
                // It may have been typed.
                (_, State::Injecting) => (State::Unproven, Reason::NoSignal),
                _ => (State::Failed, Reason::ClosedBeforeDelivery),
            };
            steps.push(Step { delivery: delivery.id, state, reason, detail: None, route: None });
        }
    }
    inbox.record(steps).await.map_err(failed)?;
    inbox.close();
    Ok(())
}

async fn end_pane(context: &Context, loaded: &Loaded, slug: &Slug) -> Result<(), Failure> {
    let failed = |error| Failure::failed("could not end the agent").because(error);
    let tmux = tools::tmux(context, loaded).await?;
    if let Some(pane) = tmux.find_of(slug).await.map_err(failed)?
        && pane.is_of(slug)
    {
        pane_log::keep(&loaded.paths, slug, &tmux, &pane).await;
        tmux.end(&pane).await.map_err(failed)?;
    }
    Ok(())
}
