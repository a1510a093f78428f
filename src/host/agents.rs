//! The agents of this machine: which harness a name stands for, which program
//! that is, and the command line that a session's agent is started with.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::base::dirs::Dirs;
use crate::base::env::Env;
use crate::base::failure::chain;
use crate::base::files;
use crate::base::files::stamp::Stamp;
use crate::base::ids::HarnessSessionId;
use crate::base::process::Invocation;
use crate::core::config::{Config, HarnessName, Identity, Routing, RunnerKind, Tools};
use crate::core::harness::{Harness, Harnesses, OneShotSpec, Program, StartPlan, StartSpec};
use crate::core::session::SessionRecord;
use crate::doctor;
use crate::doctor::agents::{find_agent, hook_command, seed_own};
use crate::doctor::claude_trust::trust_clone_of;
use crate::doctor::tool::{Tool, ToolId};
use crate::state::paths::StatePaths;
use crate::state::spool;

/// How long a harness may take to make a conversation.
const CREATE_WITHIN: Duration = Duration::from_mins(1);

/// The agents. Clones share what was found.
#[derive(Debug, Clone)]
pub struct Agents {
    harnesses: Harnesses,
    program: Tool,
    env: Env,
    dirs: Dirs,
    tools: Tools,
    /// What an agent is to find on its `PATH`.
    on_path: Vec<Tool>,
    found: Arc<Mutex<BTreeMap<HarnessName, Found>>>,
}

/// A program that told its version, and the file that it was then.
#[derive(Debug, Clone)]
struct Found {
    tool: Tool,
    file: Option<Stamp>,
}

impl Found {
    fn new(tool: Tool) -> Self {
        Self { file: Stamp::of(tool.path()), tool }
    }

    /// The program, when the file is still the one that was asked.
    fn current(&self) -> Option<&Tool> {
        Some(&self.tool).filter(|tool| self.file.is_some() && Stamp::of(tool.path()) == self.file)
    }
}

/// Why an agent could not be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct AgentFault {
    /// What a person should see.
    pub detail: String,
    /// Whether trying again may help: its program did not answer in time.
    pub may_pass: bool,
}

impl From<String> for AgentFault {
    fn from(detail: String) -> Self {
        Self { detail, may_pass: false }
    }
}

impl From<AgentFault> for String {
    fn from(fault: AgentFault) -> Self {
        fault.detail
    }
}

/// How an agent is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// In a terminal, for a person to watch.
    Terminal,
    /// For one turn, whose prompt comes on standard input.
    OneShot {
        /// Whether each step is told as it happens.
        stream: bool,
    },
}

impl Agents {
    /// Those of a configuration. `program` is this program.
    pub fn new(config: &Config, program: Tool, env: Env, dirs: Dirs) -> Self {
        Self {
            harnesses: Harnesses::new(&config.harnesses, env.home()),
            program,
            env,
            dirs,
            tools: config.tools.clone(),
            on_path: Vec::new(),
            found: Arc::default(),
        }
    }

    /// With the program of one that was found already.
    #[must_use]
    pub fn with(self, name: HarnessName, tool: Tool) -> Self {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).insert(name, Found::new(tool));
        self
    }

    /// With tools that agents are to find on their `PATH`.
    #[must_use]
    pub fn finding(self, tools: impl IntoIterator<Item = Tool>) -> Self {
        Self { on_path: tools.into_iter().collect(), ..self }
    }

    /// Every harness there is.
    pub fn harnesses(&self) -> &Harnesses {
        &self.harnesses
    }

    /// Those that new sessions can be given to without a restart: of Claude Code
    /// only where its program was found at the start.
    pub fn names(&self) -> Vec<HarnessName> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let is_usable =
            |name: &HarnessName| *name != HarnessName::Claude || found.contains_key(name);
        self.harnesses.names().into_iter().filter(is_usable).collect()
    }

    /// The harness of a session.
    pub fn of(&self, record: &SessionRecord) -> Result<Harness, String> {
        self.harnesses.get(&record.harness).map_err(|error| {
            format!("{error}: declare it again under `harnesses`, or close the session")
        })
    }

    /// The program of a harness. One that was not there when it was looked for
    /// is looked for again: it may have been installed since. One whose file is the
    /// same as before is not asked again.
    async fn tool(&self, harness: &Harness) -> Result<Tool, AgentFault> {
        let name = harness.name();
        let known = self.found.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned();
        if let Some(tool) = known.as_ref().and_then(Found::current) {
            return Ok(tool.clone());
        }
        let tool = match harness.program() {
            Program::ThisProgram => return Ok(self.program.clone()),
            Program::Known(id) => {
                let found = match ToolId::parse(id) {
                    Some(id) => doctor::find(id, &self.env, &self.dirs, &self.tools).await,
                    None => None,
                };
                // Why is not told here: it may have been slow.
                found.ok_or_else(|| AgentFault {
                    detail: format!(
                        "the harness `{name}` was not found: `the-loop doctor` says why"
                    ),
                    may_pass: true,
                })?
            }
            Program::Looked(_) => {
                find_agent(&self.env, &self.tools, harness).await.map_err(|missing| {
                    // What installs it differs from host to host.
                    let detail = format!("{missing}: `the-loop doctor` says what helps");
                    AgentFault { detail, may_pass: missing.is_slow() }
                })?
            }
        };
        self.found
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name, Found::new(tool.clone()));
        Ok(tool)
    }

    /// Finds the program of a session's agent, so that what starts it need not.
    pub async fn ready(&self, record: &SessionRecord) -> Result<(), AgentFault> {
        let harness = self.of(record)?;
        self.tool(&harness).await.map(drop)
    }

    /// The command line that goes on with a session's conversation, or begins it.
    pub async fn invocation(
        &self,
        routing: &Routing,
        paths: &StatePaths,
        record: &SessionRecord,
        form: Form,
    ) -> Result<Invocation, AgentFault> {
        let harness = self.of(record)?;
        let runner = match form {
            Form::Terminal => RunnerKind::Tmux,
            Form::OneShot { .. } => RunnerKind::Process,
        };
        if !harness.can_be(runner) {
            let detail = match form {
                Form::Terminal => format!(
                    "the harness `{}` runs headless only: set `routing.runner: process`",
                    record.harness
                ),
                Form::OneShot { .. } => format!(
                    "the harness `{}` has no headless turns: set `routing.runner: tmux`",
                    record.harness
                ),
            };
            return Err(detail.into());
        }
        let invocation = self.planned(routing, record, &harness, |harness, start| match form {
            Form::Terminal => Some(harness.start(start)),
            Form::OneShot { stream } => {
                Some(harness.oneshot(&OneShotSpec { start: *start, stream }))
            }
        });
        let (invocation, _) = invocation.await?;
        // Without a terminal its own output tells enough: a file of the user's is
        // not asked for.
        seed_own(&self.env, &harness, form == Form::Terminal)?;
        if harness.name() == HarnessName::Claude && form == Form::Terminal {
            self.have_clone_trusted(record);
        }
        let spool = paths.spool().join(record.slug().as_str());
        files::private_dir(&spool).map_err(|error| error.to_string())?;
        Ok(invocation
            .env(spool::DIR_VAR, &spool)
            .env("THE_LOOP_WORK_ITEM", record.work_item.reference.to_string()))
    }

    /// Newer versions of Claude Code ask in a work tree whether its clone is trusted,
    /// also where the user had the trees trusted.
    fn have_clone_trusted(&self, record: &SessionRecord) {
        if record.work_tree.as_ref().is_none_or(|tree| tree.foreign || !tree.made) {
            return;
        }
        let item = &record.work_item.reference;
        match trust_clone_of(&self.env, &record.cwd) {
            Ok(Some(clone)) => {
                tracing::info!(%item, clone = %clone.display(), "had Claude Code trust the clone");
            }
            Ok(None) => {}
            // It asks then, and its question is shown.
            Err(why) => tracing::warn!(%item, why, "could not have Claude Code trust the clone"),
        }
    }

    /// A conversation that the harness itself makes, where it is not begun and
    /// its harness must.
    pub async fn create(
        &self,
        routing: &Routing,
        record: &SessionRecord,
    ) -> Result<Option<HarnessSessionId>, AgentFault> {
        let harness = self.of(record)?;
        if record.conversation_started || harness.identity() != Identity::Created {
            return Ok(None);
        }
        let plan = self.planned(routing, record, &harness, |harness, start| harness.create(start));
        let (invocation, is_planned) = plan.await?;
        if !is_planned {
            return Ok(None);
        }
        let output = invocation
            .deadline(CREATE_WITHIN)
            .output_limit(64 << 10)
            .run_ok()
            .await
            .map_err(|error| format!("no conversation was made: {}", chain(&error)))?;
        let said = output.stdout_text();
        let id = said.split_whitespace().rev().find_map(|word| word.parse().ok());
        let id = id.filter(|id| harness.may_call(id));
        id.map(Some).ok_or_else(|| {
            let said = crate::base::text::visible(&crate::base::text::cap(said.trim(), 200));
            format!("`{}` named no conversation, but said `{said}`", record.harness).into()
        })
    }

    /// A command line of a harness in the session's directory, and whether it
    /// has one for what is wanted.
    async fn planned(
        &self,
        routing: &Routing,
        record: &SessionRecord,
        harness: &Harness,
        plan: impl FnOnce(&Harness, &StartSpec<'_>) -> Option<StartPlan>,
    ) -> Result<(Invocation, bool), AgentFault> {
        if !record.cwd.is_dir() {
            let dir = record.cwd.display();
            return Err(format!("the session's directory `{dir}` is not there").into());
        }
        let tool = self.tool(harness).await?;
        let hook_command = hook_command(self.program.path());
        let empty = Vec::new();
        let plan = plan(
            harness,
            &StartSpec {
                session_id: &record.harness_session_id,
                resume: record.conversation_started,
                hook_command: &hook_command,
                extra_args: routing.harness_args.get(&record.harness).unwrap_or(&empty),
                cwd: &record.cwd,
                trusted: record.work_tree.as_ref().is_none_or(|tree| !tree.foreign),
                version: tool.version(),
            },
        );
        let invocation = tool.invocation_finding(&self.on_path).cwd(&record.cwd);
        let Some(plan) = plan else { return Ok((invocation, false)) };
        let invocation = invocation.args(&plan.args);
        let with_env = plan.env.iter().fold(invocation, |all, (name, value)| all.env(name, value));
        Ok((with_env, true))
    }
}
