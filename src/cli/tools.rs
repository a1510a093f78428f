//! The tmux server that a command works with, through the binary that the
//! doctor finds.

use super::Context;
use super::setup::Loaded;
use crate::base::failure::Failure;
use crate::base::process::shell_word;
use crate::core::config::{Config, LiveConfig};
use crate::doctor::tool::{Tool, ToolId};
use crate::doctor::{self, Choice, Finding, Places};
use crate::host::tmux::{INSTANCE_OPTION, Server, Tmux};
use crate::host::workspace::Workspaces;
use crate::state::paths::StatePaths;

impl Context {
    /// Where a person sees why a tool cannot be used: the doctor, looking at the
    /// same configuration.
    pub(crate) fn says_why(&self, check: &str) -> String {
        let config = self.config.as_ref().map(|path| {
            format!(" --config {}", shell_word(&self.absolute(path).to_string_lossy()))
        });
        format!("`the-loop doctor --only {check}{}` says why", config.unwrap_or_default())
    }
}

/// The server of the sessions, and the client that understands it.
pub(crate) async fn server_of(
    tool: Tool,
    context: &Context,
    config: &Config,
    paths: &StatePaths,
) -> Result<Tmux, Box<Finding>> {
    let (own, instance) = (paths.tmux_socket(), paths.instance());
    let places = Places {
        configured: config.routing.tmux.socket.as_deref(),
        own: &own,
        mark: INSTANCE_OPTION,
        instance: &instance,
    };
    let Choice { client, socket } = doctor::choose(tool, &context.env, places).await?;
    let server = socket.map_or(Server::Default, Server::Socket);
    Ok(Tmux::new(client, server, instance))
}

/// The work trees, for a command that looks at them.
pub(crate) async fn workspaces(context: &Context, loaded: &Loaded) -> Result<Workspaces, Failure> {
    let dirs = context.dirs()?;
    let found = doctor::find(ToolId::Git, &context.env, &dirs, &loaded.config.tools).await;
    let git = found
        .ok_or_else(|| Failure::refused("no usable git was found").hint(context.says_why("git")))?;
    let root = loaded.paths.workspace(&loaded.config);
    Workspaces::new(git, &root, LiveConfig::new(loaded.config.clone())).map_err(|error| {
        let root = root.display();
        Failure::failed(format!("the directory of work trees, `{root}`, is of no use"))
            .because(error)
    })
}

/// The server of the sessions, for a command that looks at them.
pub(crate) async fn tmux(context: &Context, loaded: &Loaded) -> Result<Tmux, Failure> {
    let dirs = context.dirs()?;
    let found = doctor::find(ToolId::Tmux, &context.env, &dirs, &loaded.config.tools).await;
    let tool = found.ok_or_else(|| {
        Failure::refused("no usable tmux was found").hint(context.says_why("tmux"))
    })?;
    server_of(tool, context, &loaded.config, &loaded.paths).await.map_err(|finding| {
        Failure::refused(format!("tmux cannot be worked with\n{}", finding.told().trim_end()))
    })
}
