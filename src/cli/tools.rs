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
    /// Where a person sees why a tool cannot be used.
    pub(crate) fn says_why(check: &str) -> String {
        format!("`the-loop doctor --only {check}` says why")
    }

    /// A text whose commands of this program look at the configuration that was named,
    /// be they given from another directory or without its variable.
    pub(crate) fn with_config(&self, text: &str) -> String {
        let Some((path, _)) = self.named().filter(|_| !self.is_found) else {
            return text.to_owned();
        };
        commands_with(text, &format!(" --config {}", shell_word(&path.to_string_lossy())))
    }
}

/// Adds an option to each command of this program: behind the name of the command,
/// and before a first option.
fn commands_with(text: &str, option: &str) -> String {
    const PROGRAM: &str = "the-loop ";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(PROGRAM) {
        let (before, command) = rest.split_at(at);
        out.push_str(before);
        let (words, behind) = command.split_at(command.find(['`', '\n']).unwrap_or(command.len()));
        // In prose it is quoted; else it stands behind what says what it does.
        let is_begun = out.is_empty()
            || out.ends_with(['`', ';'])
            || [": ", "&& "].iter().any(|before| out.ends_with(before));
        let name = words[PROGRAM.len()..].split([' ', '-', '`']).next().unwrap_or_default();
        let is_given = [" --config ", " --help"].iter().any(|option| words.contains(option));
        if is_begun && COMMANDS.contains(&name) && !is_given {
            let end = [" -", " |", "; ", " &&"].iter().filter_map(|end| words.find(end)).min();
            let (head, tail) = words.split_at(end.unwrap_or(words.len()));
            let option_of = [head, option, tail].concat();
            out.push_str(&option_of);
        } else {
            out.push_str(words);
        }
        rest = behind;
    }
    out + rest
}

/// How the names of the commands begin that read a configuration.
const COMMANDS: &[&str] =
    &["doctor", "gh", "sessions", "web", "events", "config", "service", "init"];

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
    let git = found.ok_or_else(|| {
        Failure::refused("no usable git was found").hint(Context::says_why("git"))
    })?;
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
        Failure::refused("no usable tmux was found").hint(Context::says_why("tmux"))
    })?;
    server_of(tool, context, &loaded.config, &loaded.paths).await.map_err(|mut finding| {
        finding.advise(|text| context.with_config(text));
        Failure::refused(format!("tmux cannot be worked with\n{}", finding.told().trim_end()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_in_a_text_carries_the_configuration_and_a_sentence_does_not() {
        for (text, said) in [
            ("the-loop doctor --fix --only x", "the-loop doctor -F --fix --only x"),
            ("the-loop gh-webhook stop", "the-loop gh-webhook stop -F"),
            ("run `the-loop doctor --only disk` here", "run `the-loop doctor -F --only disk` here"),
            ("then `the-loop init`, twice", "then `the-loop init -F`, twice"),
            ("or: the-loop doctor --list", "or: the-loop doctor -F --list"),
            ("hint: the-loop events", "hint: the-loop events -F"),
            ("`the-loop init --help` tells", "`the-loop init --help` tells"),
            ("where the-loop doctor is run", "where the-loop doctor is run"),
            ("the-loop is not there", "the-loop is not there"),
        ] {
            assert_eq!(commands_with(text, " -F"), said);
        }
    }
}
