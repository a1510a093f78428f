//! A registry that was swept away while no receiver ran (`git clean -fdx`) is
//! made again: from the copies of its entries; where there is none, from the
//! inbox, which knows which sessions there were, and from tmux and the spool,
//! which know the conversation of each.

use std::cmp::Reverse;
use std::path::Path;

use jiff::Timestamp;

use crate::base::failure::chain;
use crate::base::ids::{HarnessSessionId, Slug};
use crate::base::random;
use crate::core::config::{Routing, RunnerKind};
use crate::core::session::{RecordedItem, SessionRecord, SessionStatus};
use crate::host::agents::Agents;
use crate::host::dispatch::DispatchHandle;
use crate::host::runner::SignalLog;
use crate::host::tmux::{PaneState, Tmux, pane_of};
use crate::host::workspace::Workspaces;
use crate::state::inbox::Inbox;
use crate::state::paths::StatePaths;
use crate::state::registry::Registry;

/// Has the sessions in tmux resumed that can be, those with the latest event first:
/// not more of them, together with those that are there, than may be open.
pub(super) async fn revive_all(
    registry: &Registry,
    dispatcher: &DispatchHandle,
    tmux: Option<&Tmux>,
    most: usize,
) {
    let panes = match tmux {
        Some(tmux) => tmux.panes().await.unwrap_or_default(),
        None => Vec::new(),
    };
    let is_there = |slug: &Slug| {
        let pane = pane_of(&panes, slug).filter(|pane| pane.is_of(slug));
        pane.is_some_and(|pane| !matches!(pane.state, PaneState::Dead(_)))
    };
    let records = registry.load_all().records.into_iter();
    let mut records: Vec<_> = records.filter(|(_, record)| record.is_resumable()).collect();
    records.sort_by_key(|(slug, record)| (!is_there(slug), Reverse(record.last_event_at)));
    let take = if most == 0 { records.len() } else { records.len().min(most) };
    let left = records.split_off(take);
    for (slug, _) in records {
        dispatcher.revive(slug).await;
    }
    if !left.is_empty() {
        let sessions = left.len();
        tracing::warn!(
            sessions,
            most,
            "above `routing.maxSessions`: their next events resume them"
        );
    }
}

/// Makes the entries again when the registry was swept; else the copies of those
/// that somebody else wrote or removed.
pub(super) async fn rebuild(
    registry: &Registry,
    inbox: &Inbox,
    paths: &StatePaths,
    tmux: Option<&Tmux>,
    routing: &Routing,
    (workdir, trees, agents): (&Path, Option<&Workspaces>, &Agents),
    now: Timestamp,
) {
    if !registry.is_swept() {
        return registry.renew_copies();
    }
    let panes = match tmux {
        Some(tmux) => tmux.panes().await.unwrap_or_default(),
        None => Vec::new(),
    };
    let mut made = registry.bring_back();
    let items = inbox.routed_items().unwrap_or_else(|error| {
        tracing::error!(error = %chain(&error), "could not read which sessions there were");
        Vec::new()
    });
    for (item, is_closed) in items {
        let slug = item.slug();
        if !matches!(registry.load(&slug), Ok(None)) {
            continue;
        }
        let pane = pane_of(&panes, &slug).filter(|pane| pane.is_of(&slug));
        let in_pane = pane.and_then(|pane| pane.conversation.as_deref()?.parse().ok());
        let conversation = spoken_of(&slug, routing, agents, paths).or(in_pane);
        let recorded = RecordedItem { reference: item.clone(), title: None, url: None };
        let has_begun = conversation.is_some();
        let mut record = SessionRecord::new(
            recorded,
            routing.default_harness.clone(),
            conversation.unwrap_or_else(|| HarnessSessionId::uuid(random::bytes())),
            workdir.to_path_buf(),
            // A session that stands in tmux was hosted there, whatever is set now.
            if pane.is_some() { RunnerKind::Tmux } else { routing.runner },
            now,
        );
        if let Some(trees) = trees {
            let workdir = record.cwd.clone();
            trees.settle(&mut record);
            // Without a tree it worked where all do, unless it is to have one.
            if !routing.workspace.enabled && !record.work_tree.as_ref().is_some_and(|t| t.made) {
                (record.cwd, record.work_tree) = (workdir, None);
            }
        }
        record.conversation_started = has_begun;
        if record.runner == RunnerKind::Tmux {
            record.view = routing.tmux.view;
            record.tmux_socket.clone_from(&routing.tmux.socket);
        }
        record.status = match (is_closed, pane) {
            (true, None) => SessionStatus::Closed,
            _ => SessionStatus::Active,
        };
        match registry.save(&record) {
            Ok(()) => made += 1,
            Err(error) => {
                tracing::error!(%item, error = %chain(&error), "could not record a session again");
            }
        }
    }
    if made > 0 {
        tracing::warn!(sessions = made, "the registry had vanished and was made again");
    }
}

/// The conversation that the session's agent spoke of last.
fn spoken_of(
    slug: &Slug,
    routing: &Routing,
    agents: &Agents,
    paths: &StatePaths,
) -> Option<HarnessSessionId> {
    let harness = agents.harnesses().get(&routing.default_harness).ok()?;
    let mut log = SignalLog::new(harness, &paths.spool().join(slug.as_str()));
    log.refresh().ok()?;
    log.conversation().cloned()
}
