//! What would stall the first start of an agent that nobody watches: said where
//! sessions are about to be set up, for a start that waits is seen by nobody.

use std::path::PathBuf;

use super::{Context, Project, Request, Severity, needs_of};
use crate::base::failure::Failure;
use crate::core::config::{Config, RunnerKind};
use crate::core::workspace::Places;
use crate::doctor;
use crate::state::paths::StatePaths;

/// The checks whose warnings mean that an agent would ask something.
const ASKED: &[&str] = &["claude.onboarding", "claude.trust", "agent.first-run"];

/// Where sessions start: one answer holds for all below.
pub(super) fn workdir_of(config: &Config, paths: &StatePaths) -> PathBuf {
    let routing = &config.routing;
    if routing.workspace.enabled {
        Places::below(&paths.workspace(config)).own()
    } else {
        routing.spawn_workdir.clone()
    }
}

/// Says what the agent of new sessions would ask before its first prompt. Headless
/// ones ask nothing.
pub(crate) async fn warn(
    context: &Context,
    config: &Config,
    paths: &StatePaths,
) -> Result<(), Failure> {
    if config.routing.runner != RunnerKind::Tmux {
        return Ok(());
    }
    let workdir = Some(workdir_of(config, paths));
    let only: Vec<String> = ASKED.iter().map(|id| (*id).to_owned()).collect();
    let mut report = Box::pin(doctor::check_up(&Request {
        env: &context.env,
        dirs: &context.dirs()?,
        tools: &config.tools,
        needs: &needs_of(config),
        project: &Project { workdir, ..Project::default() },
        only: &only,
    }))
    .await;
    report.advise(|text| context.with_config(text));
    let asked = report.findings().iter().filter(|finding| {
        finding.severity == Severity::Warning && ASKED.contains(&finding.id.as_str())
    });
    for finding in asked {
        context.printer.note(finding.told().trim_end());
    }
    Ok(())
}
