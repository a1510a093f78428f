//! The command lines of a headless session: its next turn, and the harness's own
//! resume for a person who takes over.

use std::collections::BTreeMap;

use crate::base::files;
use crate::base::process::{Invocation, shell_word};
use crate::core::config::{HarnessName, Routing, RunnerKind};
use crate::core::harness::{Harness, OneShotSpec, StartPlan, StartSpec};
use crate::core::session::SessionRecord;
use crate::doctor::tool::Tool;
use crate::state::paths::StatePaths;

use super::ProcessRunnerParts;

/// The command line of a session's next headless turn.
pub(super) fn oneshot_invocation(
    parts: &ProcessRunnerParts,
    record: &SessionRecord,
) -> Result<Invocation, String> {
    let is_shown = record.runner == RunnerKind::Tmux;
    let config = parts.config.get();
    planned(&parts.program, &parts.harnesses, &config.routing, &parts.paths, record, |start| {
        Harness::named(record.harness).oneshot(&OneShotSpec { start: *start, stream: is_shown })
    })
}

/// The command line that goes on with a session's conversation on a terminal.
pub fn resume_invocation(
    program: &Tool,
    harnesses: &BTreeMap<HarnessName, Tool>,
    routing: &Routing,
    paths: &StatePaths,
    record: &SessionRecord,
) -> Result<Invocation, String> {
    planned(program, harnesses, routing, paths, record, |start| {
        Harness::named(record.harness).start(start)
    })
}

fn planned(
    program: &Tool,
    harnesses: &BTreeMap<HarnessName, Tool>,
    routing: &Routing,
    paths: &StatePaths,
    record: &SessionRecord,
    plan: impl FnOnce(&StartSpec<'_>) -> StartPlan,
) -> Result<Invocation, String> {
    if !record.cwd.is_dir() {
        return Err(format!("the session's directory `{}` is not there", record.cwd.display()));
    }
    let tool = match record.harness {
        HarnessName::Demo => program,
        name @ HarnessName::Claude => harnesses
            .get(&name)
            .ok_or_else(|| format!("the harness `{}` was not found at start", name.as_str()))?,
    };
    let hook_command = format!("{} hook", shell_word(&program.path().to_string_lossy()));
    let empty = Vec::new();
    let plan = plan(&StartSpec {
        session_id: &record.harness_session_id,
        resume: record.conversation_started,
        hook_command: &hook_command,
        extra_args: routing.harness_args.get(&record.harness).unwrap_or(&empty),
        cwd: &record.cwd,
    });
    let spool = paths.spool().join(record.slug().as_str());
    files::private_dir(&spool).map_err(|error| error.to_string())?;
    Ok(plan
        .env
        .iter()
        .fold(tool.invocation().args(&plan.args), |all, (name, value)| all.env(name, value))
        .env("THE_LOOP_SPOOL", &spool)
        .env("THE_LOOP_WORK_ITEM", record.work_item.reference.to_string())
        .cwd(&record.cwd))
}
