//! What a decision leaves in the registry: the item's entry, its links, what was told
//! of its pull request, and whether it is paused.

use super::Intake;
use crate::base::failure::chain;
use crate::base::ids::{HarnessSessionId, WorkItem};
use crate::base::random;
use crate::base::text::cap;
use crate::core::config::{Routing, RunnerKind};
use crate::core::routing::{Action, Decision, Named};
use crate::core::session::{RecordedItem, SessionRecord, TOLD_CHECKS};

/// How much of an item's title is kept.
const TITLE_CHARS: usize = 300;

impl Intake {
    pub(super) fn set_paused(&self, item: &WorkItem, paused: bool) -> Result<(), String> {
        let change = |record: &mut SessionRecord| {
            if paused {
                record.pause(None);
            } else {
                record.resume();
            }
        };
        self.registry.update(&item.slug(), change).map(drop).map_err(|error| chain(&error))
    }

    /// Makes the item's entry when it has none.
    pub(super) fn ensure(
        &self,
        item: &WorkItem,
        named: Named,
        routing: &Routing,
    ) -> Result<(), String> {
        if self.registry.load(&item.slug()).map_err(|error| chain(&error))?.is_some() {
            return Ok(());
        }
        let recorded = RecordedItem {
            reference: item.clone(),
            title: named.title.map(|title| cap(&title, TITLE_CHARS)),
            url: named.url,
        };
        let mut record = SessionRecord::new(
            recorded,
            routing.default_harness.clone(),
            HarnessSessionId::uuid(random::bytes()),
            self.project.join(&routing.spawn_workdir),
            routing.runner,
            self.clock.now(),
        );
        if let Some(workspaces) = &self.workspaces {
            workspaces.settle(&mut record);
        }
        if routing.runner == RunnerKind::Tmux {
            record.view = routing.tmux.view;
            record.tmux_socket.clone_from(&routing.tmux.socket);
        }
        self.registry.save(&record).map_err(|error| chain(&error))
    }

    /// Remembers what the decision asks to remember, after it is on disk: a
    /// decision that was not put down is made again, and must find what the
    /// first one found.
    pub(super) fn keep(&self, item: &WorkItem, decision: Decision) -> Result<(), String> {
        if let Action::Start(message) = &decision.action {
            let Named { title, url } = decision.named.clone();
            let named = Named {
                title: title.or_else(|| message.title().map(str::to_owned)),
                url: url.or_else(|| decision.url.clone()),
            };
            self.ensure(item, named, &self.config.routing())?;
        }
        let slug = item.slug();
        let known = self.registry.load(&slug).ok().flatten();
        // One that was registered by hand has no name yet.
        let named = decision.named;
        let lacks = known.as_ref().is_some_and(|SessionRecord { work_item: known, .. }| {
            (known.title.is_none() && named.title.is_some())
                || (known.url.is_none() && named.url.is_some())
        });
        // A tree that is there keeps its branch, whatever a delivery says by now.
        let pull = decision.pull.filter(|told| {
            known.as_ref().and_then(|record| record.work_tree.as_ref()).is_some_and(|tree| {
                let knows_more = told.head.is_some() || tree.told.is_none();
                !tree.made && knows_more && tree.told.as_ref() != Some(told)
            })
        });
        if decision.link.is_none() && decision.told_check.is_none() && pull.is_none() && !lacks {
            return Ok(());
        }
        let result = self.registry.update(&slug, |record| {
            let RecordedItem { title, url, .. } = &mut record.work_item;
            if lacks {
                *title = title.take().or(named.title.map(|title| cap(&title, TITLE_CHARS)));
                *url = url.take().or(named.url);
            }
            if let (Some(tree), Some(told)) = (&mut record.work_tree, pull) {
                tree.told = Some(told);
            }
            if let Some(link) = decision.link
                && !record.pull_requests.contains(&link.pr)
            {
                record.pull_requests.push(link.pr);
            }
            if let Some(check) = decision.told_check {
                record.told_checks.push(check);
                let surplus = record.told_checks.len().saturating_sub(TOLD_CHECKS);
                record.told_checks.drain(..surplus);
            }
        });
        if let Err(error) = result {
            tracing::warn!(%item, error = %chain(&error), "could not update the session");
        }
        Ok(())
    }
}
