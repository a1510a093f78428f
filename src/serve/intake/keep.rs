//! What a decision leaves in the registry: the item's entry, its links, what was told
//! of its pull request, and whether it is paused.

use super::Intake;
use crate::base::failure::chain;
use crate::base::ids::{HarnessSessionId, WorkItem};
use crate::base::random;
use crate::base::text::cap;
use crate::core::config::{Routing, RunnerKind};
use crate::core::routing::{Action, Decision};
use crate::core::session::{RecordedItem, SessionRecord, TOLD_CHECKS};

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
        title: Option<&str>,
        url: Option<&str>,
        routing: &Routing,
    ) -> Result<(), String> {
        if self.registry.load(&item.slug()).map_err(|error| chain(&error))?.is_some() {
            return Ok(());
        }
        let recorded = RecordedItem {
            reference: item.clone(),
            title: title.map(|title| cap(title, 300)),
            url: url.map(str::to_owned),
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
            let url = decision.url.as_deref();
            self.ensure(item, message.title(), url, &self.config.routing())?;
        }
        let slug = item.slug();
        // A tree that is there keeps its branch, whatever a delivery says by now.
        let pull = decision.pull.filter(|told| {
            let tree = self.registry.load(&slug).ok().flatten().and_then(|record| record.work_tree);
            tree.is_some_and(|tree| {
                let knows_more = told.head.is_some() || tree.told.is_none();
                !tree.made && knows_more && tree.told.as_ref() != Some(told)
            })
        });
        if decision.link.is_none() && decision.told_check.is_none() && pull.is_none() {
            return Ok(());
        }
        let result = self.registry.update(&slug, |record| {
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
