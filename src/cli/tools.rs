//! The tmux server that a command works with, through the binary that the
//! doctor finds.

use super::Context;
use super::setup::Loaded;
use crate::base::failure::Failure;
use crate::base::process::shell_word;
use crate::core::config::{Config, LiveConfig};
use crate::doctor::tool::{Origin, Tool, ToolId};
use crate::doctor::{self};
use crate::host::tmux::{Server, Tmux};
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

/// The server of the sessions: the configured socket's; a managed tmux has one
/// of its own, because another version's client cannot talk to the user's
/// server; else the user's own.
pub(crate) fn server_of(tool: Tool, config: &Config, paths: &StatePaths) -> Tmux {
    let server = match &config.routing.tmux.socket {
        Some(socket) => Server::Socket(socket.clone()),
        None if tool.origin() == Origin::Managed => Server::Socket(paths.tmux_socket()),
        None => Server::Default,
    };
    Tmux::new(tool, server, paths.instance())
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
    let managed = loaded.paths.tmux_socket();
    let socket = match (&loaded.config.routing.tmux.socket, tool.origin()) {
        (Some(socket), _) => Some(socket.as_path()),
        (None, Origin::Managed) => Some(managed.as_path()),
        (None, _) => None,
    };
    let server = server_of(tool.clone(), &loaded.config, &loaded.paths).server().clone();
    // A server of another version group is talked to by its own binary.
    let client = doctor::client_for(tool, &context.env, socket).await;
    Ok(Tmux::new(client, server, loaded.paths.instance()))
}
