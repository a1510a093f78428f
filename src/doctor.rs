//! The doctor: finds every tool that the program runs, checks it by running it,
//! says what is missing and how to get it here, and installs pinned builds.
//!
//! It is the only maker of command lines: whoever runs tmux, ttyd, git or an
//! agent holds a [`tool::Tool`] out of a [`Report`]. `gh-webhook start`, the
//! demo and `the-loop doctor` call [`examine`]. It knows nothing of sessions,
//! deliveries or how its report is shown.

pub mod agents;
pub mod catalogue;
pub mod check;
pub mod checks;
pub mod claude_trust;
pub mod finding;
pub mod host;
pub mod install;
mod lack;
mod listener;
mod named;
mod narrow;
mod offer;
mod path;
mod probe;
mod program;
pub mod repair;
pub mod report;
pub mod resolve;
mod running;
mod terminfo;
pub mod tool;
pub mod trouble;
mod whose;

use std::io;

use crate::base::dirs::Dirs;
use crate::base::env::Env;
use crate::base::failure::plain;
use crate::base::runtime::more;
use crate::core::config::{HarnessName, RunnerKind, Tools};
use crate::core::harness::Harness;
use crate::core::platform::{Host, Remedy};

use install::store::Store;

pub use checks::{
    InboxLook, Project, SECRET_MAX, Webhook, Webhooks, inbox_remedy, secret_close, secret_command,
    secret_export, socket_fault,
};
pub use finding::{Finding, Severity};
pub use listener::PortHolder;
pub use named::named;
pub use offer::offer_installs;
pub use report::Report;
pub use running::{Choice, Places, choose};
pub use tool::{Origin, Tool, ToolId};

/// What is enabled, which decides what is checked and how severe a fault is.
/// The default is nothing in particular: a look at the host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Needs {
    /// How sessions are hosted.
    pub runner: Option<RunnerKind>,
    /// The agent that sessions run.
    pub harness: Option<HarnessName>,
    /// The same, where its program is none of the tools in the catalogue.
    pub agent: Option<Harness>,
    /// Whether the web terminal is on.
    pub web: bool,
    /// Whether each item has a git work tree of its own.
    pub workspace: bool,
}

impl Needs {
    /// Whether nothing works without this tool.
    pub fn requires(&self, id: ToolId) -> bool {
        match id {
            // The web terminal serves `tmux attach`.
            ToolId::Tmux => self.runner == Some(RunnerKind::Tmux) || self.web,
            ToolId::Ttyd => self.web,
            ToolId::Git => self.workspace,
            ToolId::Claude => self.harness == Some(HarnessName::Claude),
        }
    }

    /// What a tool is for, which a person who lacks it may not know.
    pub fn purpose(&self, id: ToolId) -> &'static str {
        match id {
            ToolId::Tmux if self.runner == Some(RunnerKind::Tmux) => "sessions run in it",
            ToolId::Tmux if self.web => "the web terminal shows sessions through it",
            ToolId::Tmux => "the runner tmux and the web terminal need it",
            ToolId::Ttyd => "the web terminal needs it",
            ToolId::Git if self.workspace => "each item has a work tree that it makes",
            ToolId::Git => "agents work with it, and work trees are made with it",
            ToolId::Claude if self.requires(id) => "it is the agent in use",
            ToolId::Claude if self.harness.is_none() => "it is the agent of choice",
            ToolId::Claude => "sessions here run another agent",
        }
    }

    /// How severe it is when this tool is missing or broken.
    pub fn severity(&self, id: ToolId) -> Severity {
        match id {
            _ if self.requires(id) => Severity::Error,
            ToolId::Git => Severity::Warning,
            ToolId::Claude if self.harness.is_none() => Severity::Warning,
            _ => Severity::Note,
        }
    }
}

/// Finds and probes every tool, all at the same time, each with a deadline.
pub async fn examine(env: &Env, dirs: &Dirs, tools: &Tools, needs: &Needs) -> Report {
    examine_on(host::gather(env).await, env, dirs, tools, needs).await
}

/// What is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The surroundings.
    pub env: &'a Env,
    /// The user's directories.
    pub dirs: &'a Dirs,
    /// Which binaries are configured.
    pub tools: &'a Tools,
    /// What is enabled.
    pub needs: &'a Needs,
    /// What the configuration says else.
    pub project: &'a Project,
    /// The checks to make; none makes all.
    pub only: &'a [String],
}

/// Makes every check there is, or those that were asked for: the tools, the
/// host, the project's state. All at the same time, each with a deadline. What
/// belongs to the same group is in the report too: [`Report::narrow`] leaves it out.
pub async fn check_up(request: &Request<'_>) -> Report {
    let Request { env, dirs, tools, needs, project, only } = *request;
    let limits = checks::limits(only);
    let host = host::gather(env).await;
    let search = resolve::Search { env, dirs, tools };
    let resolve = async |id: ToolId| {
        let prefix = format!("{}.", id.as_str());
        let mut checks = catalogue::CHECKS.iter().filter(|(check, _)| check.starts_with(&prefix));
        if checks.any(|(check, _)| catalogue::is_asked(only, check)) {
            Some(Box::pin(search.resolve(id)).await)
        } else {
            None
        }
    };
    let (tmux, ttyd, git, claude, others, agent) = tokio::join!(
        resolve(ToolId::Tmux),
        resolve(ToolId::Ttyd),
        resolve(ToolId::Git),
        resolve(ToolId::Claude),
        checks::run(request, &host),
        Box::pin(agents::findings(&host, env, tools, needs, project.workdir.as_deref(), only)),
    );
    let resolutions: Vec<_> = [tmux, ttyd, git, claude].into_iter().flatten().collect();
    let obstacle = Store::new(dirs).obstacle();
    let mut findings: Vec<_> = resolutions
        .iter()
        .flat_map(|resolution| check::findings(resolution, &host, needs, obstacle))
        .collect();
    let mut others = others;
    if resolutions.iter().any(|found| found.id == ToolId::Claude && found.chosen.is_none()) {
        others.iter_mut().for_each(without_claude);
    }
    let tmux = resolutions.iter().find(|found| found.id == ToolId::Tmux);
    findings.extend(checks::skew(env, project, tmux.and_then(|tmux| tmux.chosen.as_ref())).await);
    findings.extend(agent);
    findings.extend(others);
    findings.extend(limits);
    Report::new(host, resolutions, findings)
}

/// What can be said where not even a runtime can be made: which limit is too low.
pub fn at_the_limit(env: &Env, why: &io::Error) -> Report {
    let mut findings = checks::limits(&[]);
    let what = format!("nothing else could be checked: {}", plain(&why.to_string()));
    let remedy = Remedy { commands: Vec::new(), note: more(why).map(ToOwned::to_owned) };
    findings.push(Finding::unchecked("limits.descriptors", what).remedy(remedy));
    Report::new(host::without_asking(env), Vec::new(), findings)
}

/// Takes the advice away to run a Claude Code that is not there.
fn without_claude(finding: &mut Finding) {
    let Some(remedy) = &mut finding.remedy else { return };
    if !finding.id.starts_with("claude.") || finding.severity == Severity::Ok {
        return;
    }
    remedy.commands.retain(|command| command != "claude");
    let has_fix = !remedy.commands.is_empty();
    remedy.note = (!has_fix).then(|| "install Claude Code first: `claude.found` says how".into());
}

/// The binary of a tool for a command that only looks: the first candidate that
/// tells a version which is new enough. Whoever starts something examines.
pub async fn find(id: ToolId, env: &Env, dirs: &Dirs, tools: &Tools) -> Option<Tool> {
    resolve::Search { env, dirs, tools }.find(id).await
}

/// The GitHub CLI, when it is on `PATH` and nobody else can change it. Nothing
/// depends on it: it is only asked who somebody is, and is found out to work by
/// its answer.
pub fn github_cli(env: &Env) -> Option<Tool> {
    system_tool("gh", env)
}

/// A program of the system that is asked, or told, on behalf of the user
/// (`systemctl`, `launchctl`), found by the same rule.
pub fn system_tool(name: &'static str, env: &Env) -> Option<Tool> {
    let path = named::trusted(name, env)?;
    Some(Tool::candidate(name, &path, Origin::System, env))
}

/// Like [`examine`], on a machine that is given: its guidance is that machine's.
pub async fn examine_on(
    host: Host,
    env: &Env,
    dirs: &Dirs,
    tools: &Tools,
    needs: &Needs,
) -> Report {
    let search = resolve::Search { env, dirs, tools };
    let (tmux, ttyd, git, claude, agent) = tokio::join!(
        search.resolve(ToolId::Tmux),
        search.resolve(ToolId::Ttyd),
        search.resolve(ToolId::Git),
        search.resolve(ToolId::Claude),
        Box::pin(agents::findings(&host, env, tools, needs, None, &[])),
    );
    let resolutions = vec![tmux, ttyd, git, claude];
    let obstacle = Store::new(dirs).obstacle();
    let tools = resolutions
        .iter()
        .flat_map(|resolution| check::findings(resolution, &host, needs, obstacle));
    let findings = tools.chain(agent).collect();
    Report::new(host, resolutions, findings)
}

#[cfg(test)]
mod tests {
    use super::Severity::{Error, Note, Warning};
    use super::*;

    #[test]
    fn what_is_enabled_decides_how_severe_a_missing_tool_is() {
        let needs = |runner, harness: &Option<HarnessName>, web| Needs {
            runner,
            harness: harness.clone(),
            web,
            ..Needs::default()
        };
        let (tmux, process) = (Some(RunnerKind::Tmux), Some(RunnerKind::Process));
        let (claude, demo) = (Some(HarnessName::Claude), Some(HarnessName::Demo));
        for (needs, expected) in [
            (needs(None, &None, false), [Note, Note, Warning, Warning]),
            (needs(process, &claude, false), [Note, Note, Warning, Error]),
            (needs(process, &demo, false), [Note, Note, Warning, Note]),
            (needs(tmux, &demo, false), [Error, Note, Warning, Note]),
            (needs(process, &demo, true), [Error, Error, Warning, Note]),
        ] {
            let severities = ToolId::ALL.map(|id| needs.severity(id));
            assert_eq!(severities, expected, "{needs:?}");
        }
        let trees = Needs { workspace: true, ..Needs::default() };
        assert_eq!(trees.severity(ToolId::Git), Error);
    }
}
