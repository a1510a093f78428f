//! What can be found out about this place without asking anybody: the
//! repository, the person, the agent. Nothing of it needs the network; the GitHub
//! CLI may use it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::JoinSet;

use super::gh;
use super::remotes::{self, Remote};
use crate::base::dirs::Dirs;
use crate::base::ids::GITHUB;
use crate::cli::Context;
use crate::core::config::{HarnessName, Tools};
use crate::core::harness::Program;
use crate::doctor;
use crate::doctor::agents::find_agent;
use crate::doctor::tool::{Tool, ToolId};

/// How long git may take.
const GIT_WITHIN: Duration = Duration::from_secs(10);

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The work tree's root; `None` outside one.
    pub(super) root: Option<PathBuf>,
    /// The remotes that lead to GitHub.
    pub(super) remotes: Vec<Remote>,
    /// The hosts of the other remotes.
    pub(super) other_hosts: Vec<String>,
    /// The person's login at each host of the remotes, and who told it.
    pub(super) logins: Vec<(String, &'static str)>,
    /// The hosts at which the GitHub CLI's log-in is not taken any more.
    pub(super) refused_at: Vec<String>,
    /// The agents whose programs answer, each with its program: Claude Code first.
    pub(super) agents: Vec<(HarnessName, PathBuf)>,
}

impl Found {
    /// Looks around.
    pub(super) async fn look(context: &Context, dirs: &Dirs) -> Self {
        let tools = Tools::default();
        let (git, agents, known) = tokio::join!(
            doctor::find(ToolId::Git, &context.env, dirs, &tools),
            agents(context, dirs, &tools),
            gh::accounts(&context.env),
        );
        let mut found = Self { agents, ..Self::default() };
        if let Some(git) = &git {
            let cwd = context.env.cwd();
            found.root = said(git, cwd, &["rev-parse", "--show-toplevel"]).await.map(PathBuf::from);
            let listing = said(git, cwd, &["remote", "-v"]).await.unwrap_or_default();
            let hosts: Vec<_> = known.iter().map(|account| account.host.clone()).collect();
            (found.remotes, found.other_hosts) = remotes::parse(&listing, &hosts);
        }
        let mut hosts: Vec<String> = Vec::new();
        for remote in &found.remotes {
            if !hosts.iter().any(|host| host == remote.repo.host()) {
                hosts.push(remote.repo.host().to_owned());
            }
        }
        if hosts.is_empty() {
            hosts.push(GITHUB.to_owned());
        }
        for host in hosts {
            let account = known.iter().find(|account| account.host == host);
            let login = match account.and_then(|account| account.login.clone()) {
                Some(login) => Some((login, "the GitHub CLI")),
                None => match &git {
                    Some(git) if host == GITHUB => {
                        said(git, context.env.cwd(), &["config", "--get", "github.user"])
                            .await
                            .filter(|login| super::login(login).is_ok())
                            .map(|login| (login, "git's github.user"))
                    }
                    _ => None,
                },
            };
            let is_new = |login: &String| found.logins.iter().all(|(known, _)| known != login);
            found.logins.extend(login.filter(|(login, _)| is_new(login)));
            if account.is_some_and(|account| account.is_refused) {
                found.refused_at.push(host);
            }
        }
        found
    }
}

/// The agents that can be driven and whose programs answer here. All are asked at
/// once: some are large scripts that start slowly.
async fn agents(context: &Context, dirs: &Dirs, tools: &Tools) -> Vec<(HarnessName, PathBuf)> {
    let known = super::known_harnesses();
    let mut asked = JoinSet::new();
    for harness in known.names().into_iter().filter_map(|name| known.get(&name).ok()) {
        let (env, dirs, tools) = (context.env.clone(), dirs.clone(), tools.clone());
        asked.spawn(async move {
            let tool = match harness.program() {
                Program::ThisProgram => None,
                Program::Known(_) => doctor::find(ToolId::Claude, &env, &dirs, &tools).await,
                Program::Looked(_) => find_agent(&env, &tools, &harness).await.ok(),
            };
            tool.map(|tool| (harness.name(), tool.path().to_path_buf()))
        });
    }
    let mut found: Vec<_> = asked.join_all().await.into_iter().flatten().collect();
    let rank = |name: &HarnessName| (*name != HarnessName::Claude, name.to_string());
    found.sort_by_key(|(name, _)| rank(name));
    found
}

/// What git says, without its last newline; `None` when it has nothing to say.
async fn said(git: &Tool, cwd: &Path, args: &[&str]) -> Option<String> {
    let invocation = git.invocation().args(args).cwd(cwd).deadline(GIT_WITHIN);
    let output = invocation.run_ok().await.ok()?;
    Some(output.stdout_text().trim_end().to_owned()).filter(|text| !text.is_empty())
}
