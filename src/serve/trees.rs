//! The work trees that a receiver has.

use std::sync::Arc;

use crate::base::failure::Failure;
use crate::core::config::{Config, LiveConfig};
use crate::doctor::tool::Tool;
use crate::host::workspace::Workspaces;
use crate::state::paths::StatePaths;

/// The work trees, where there is a git: of new sessions when they are enabled,
/// and of those from before.
pub(super) fn open(
    git: Option<Tool>,
    config: &Config,
    paths: &StatePaths,
    live: &LiveConfig,
) -> Result<Option<Arc<Workspaces>>, Failure> {
    let root = paths.workspace(config);
    let Some(git) = git.filter(|_| config.routing.workspace.enabled || root.is_dir()) else {
        return Ok(None);
    };
    let made = Workspaces::new(git, &root, live.clone()).map_err(|error| {
        let root = root.display();
        Failure::failed(format!("the directory of work trees, `{root}`, is of no use"))
            .because(error)
    })?;
    Ok(Some(Arc::new(made)))
}
