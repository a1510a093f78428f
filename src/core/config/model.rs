//! Every key of the configuration file, with its default. Unknown keys are
//! errors; the loader says which known key is nearest.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::amounts::{ByteSize, Span};
use super::values;
use crate::base::ids::Repo;

mod events;
mod harness;
mod record;
mod submit;
mod terminal;

pub use events::{EVENT_NAMES, EVENTS};
pub use harness::*;
pub use record::*;
pub use submit::SubmitKey;
pub use terminal::*;

/// The whole configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// What becomes of events.
    pub routing: Routing,
    /// Where events come in.
    pub webhooks: Webhooks,
    /// Agents that are not built in, by name. One of a shipped name changes only
    /// what it says.
    pub harnesses: BTreeMap<DeclaredName, DeclaredHarness>,
    /// Which binaries are used.
    pub tools: Tools,
    /// What is said and asked on GitHub.
    pub github: GithubConfig,
    /// Who is told when an agent waits for a person.
    pub notify: Notify,
    /// Where figures about this program are given out.
    pub metrics: Metrics,
    /// Where state is kept, and how long.
    pub state: StateConfig,
}

/// `routing`: what becomes of events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Routing {
    /// `false` records deliveries and acts on none.
    pub enabled: bool,
    /// How the process of a new session is hosted.
    pub runner: RunnerKind,
    /// The agent of a new session.
    pub default_harness: HarnessName,
    /// When an event without a session starts one.
    pub spawn_on_unmatched: SpawnPolicy,
    /// The label that arms a work item.
    #[serde(deserialize_with = "values::label")]
    pub auto_execute_label: String,
    /// The logins whose events are acted on, compared without case. Empty:
    /// nothing human is acted on.
    #[serde(deserialize_with = "values::logins")]
    pub authorized_users: Vec<String>,
    /// The repositories whose events are acted on. Empty: all.
    #[schemars(with = "Vec<String>")]
    pub repositories: Vec<Repo>,
    /// The directory a session is started in, relative to the directory that
    /// holds `.the-loop`.
    #[serde(deserialize_with = "values::path")]
    pub spawn_workdir: PathBuf,
    /// Whether each item has a git work tree of its own.
    pub workspace: Workspace,
    /// How many starts and headless turns may be under way at once.
    #[serde(deserialize_with = "values::dispatches")]
    #[schemars(range(min = 1, max = 64))]
    pub max_concurrent_dispatches: u16,
    /// How many sessions may be open; 0: any number.
    pub max_sessions: u16,
    /// No session starts when less memory than this is free; 0: no floor.
    pub memory_floor: ByteSize,
    /// How many events of one item an agent is given in an hour; 0: any number.
    pub rate_limit: u32,
    /// How long one headless turn may take, in seconds.
    #[serde(deserialize_with = "values::seconds")]
    #[schemars(range(min = 1, max = 86_400))]
    pub dispatch_timeout_seconds: u32,
    /// A file with the template of what is said about an event.
    #[serde(deserialize_with = "values::optional_path")]
    pub prompt_template: Option<PathBuf>,
    /// A file with the template of what a new session is told first.
    #[serde(deserialize_with = "values::optional_path")]
    pub spawn_prompt_template: Option<PathBuf>,
    /// Arguments added to a harness's own, by harness.
    pub harness_args: BTreeMap<HarnessName, Vec<String>>,
    /// Whether comments such as `the-loop stop` are obeyed.
    pub control: bool,
    /// Settings of the tmux runner.
    pub tmux: TmuxConfig,
    /// The sessions in the browser.
    pub web_terminal: WebTerminal,
}

impl Default for Routing {
    fn default() -> Self {
        Self {
            enabled: true,
            runner: RunnerKind::Process,
            default_harness: HarnessName::Claude,
            spawn_on_unmatched: SpawnPolicy::Never,
            auto_execute_label: "the-loop: auto-execute".to_owned(),
            authorized_users: Vec::new(),
            repositories: Vec::new(),
            spawn_workdir: PathBuf::from("."),
            workspace: Workspace::default(),
            max_concurrent_dispatches: 4,
            max_sessions: 0,
            memory_floor: ByteSize::default(),
            rate_limit: 30,
            dispatch_timeout_seconds: 1800,
            prompt_template: None,
            spawn_prompt_template: None,
            harness_args: BTreeMap::new(),
            control: true,
            tmux: TmuxConfig::default(),
            web_terminal: WebTerminal::default(),
        }
    }
}

/// `routing.runner`: how a session's process is hosted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunnerKind {
    /// Headless, one run for each event.
    #[default]
    Process,
    /// A live terminal in a tmux session.
    Tmux,
}

impl RunnerKind {
    /// The name as it is written in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Tmux => "tmux",
        }
    }
}

/// `routing.spawnOnUnmatched`: when an event without a session starts one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SpawnPolicy {
    /// Never; a session is started by hand.
    #[default]
    Never,
    /// When the item is armed by the label.
    Labeled,
    /// At any authorised event.
    Always,
}

impl SpawnPolicy {
    /// The name as it is written in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Labeled => "labeled",
            Self::Always => "always",
        }
    }
}

/// `webhooks`: where events come in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Webhooks {
    /// GitHub's webhook.
    pub gh_webhook: GhWebhook,
}

/// `webhooks.ghWebhook`: the receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GhWebhook {
    /// The address to listen on.
    #[serde(deserialize_with = "values::address")]
    #[schemars(with = "String")]
    pub host: IpAddr,
    /// The port to listen on; 0 takes a free one.
    pub port: u16,
    /// The path that deliveries are posted to.
    #[serde(deserialize_with = "values::url_path")]
    pub path: String,
    /// The variable that holds the secret.
    #[serde(deserialize_with = "values::variable")]
    pub secret_env: String,
    /// A file that holds the secret, used when the variable is unset.
    #[serde(deserialize_with = "values::optional_path")]
    pub secret_file: Option<PathBuf>,
    /// The events that GitHub is asked to send.
    #[serde(deserialize_with = "values::events")]
    #[schemars(schema_with = "events::schema")]
    pub events: Vec<String>,
}

impl Default for GhWebhook {
    fn default() -> Self {
        Self {
            host: IpAddr::from([127, 0, 0, 1]),
            port: 8787,
            path: "/gh-webhook".to_owned(),
            secret_env: "THE_LOOP_GH_WEBHOOK_SECRET".to_owned(),
            secret_file: None,
            events: EVENTS.iter().map(|&event| event.to_owned()).collect(),
        }
    }
}

/// `github`: what is said and asked on GitHub.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GithubConfig {
    /// Whether an event that was taken, or failed, gets a reaction.
    pub reactions: bool,
    /// Whether a session that starts, or an event given up, gets a comment.
    pub comments: bool,
    /// Whether GitHub is asked for deliveries that were missed.
    pub redeliver: bool,
}

/// `notify`: who is told when an agent waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Notify {
    /// The program and its fixed arguments; none: nobody is told.
    pub command: Vec<String>,
}

/// `metrics`: where figures about this program are given out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Metrics {
    /// The address and port; `None`: only on the control socket.
    #[serde(deserialize_with = "values::listen")]
    #[schemars(with = "Option<String>")]
    pub listen: Option<SocketAddr>,
}

/// `tools`: which binaries are used.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Tools {
    /// Which kind wins when both work.
    pub prefer: Prefer,
    /// The tmux binary.
    pub tmux: ToolConfig,
    /// The ttyd binary.
    pub ttyd: ToolConfig,
    /// The git binary.
    pub git: ToolConfig,
    /// The claude binary.
    pub claude: ToolConfig,
    /// The cursor-agent binary.
    pub cursor: ToolConfig,
}

/// `tools.prefer`: which kind of binary wins when both work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Prefer {
    /// The system's.
    #[default]
    System,
    /// The one this program installed.
    Managed,
}

/// `tools.<tool>`: where one binary is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ToolConfig {
    /// The binary's path; `None` looks for it.
    #[serde(deserialize_with = "values::program_path")]
    pub path: Option<PathBuf>,
}

/// `state`: where state is kept, and how long.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct StateConfig {
    /// The directory for inbox, lock, sockets and spools; `None` takes one
    /// below the user's state directory.
    #[serde(deserialize_with = "values::optional_path")]
    pub dir: Option<PathBuf>,
    /// How long deliveries are kept.
    pub retention: Retention,
}

/// `state.retention`: how long deliveries are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Retention {
    /// How old a delivery gets.
    pub age: Span,
    /// How much room the bodies of deliveries may take; 0: any.
    pub size: ByteSize,
}

impl Default for Retention {
    fn default() -> Self {
        Self { age: Span::days(30), size: ByteSize::megabytes(1024) }
    }
}
