//! Every key of the configuration file, with its default. Unknown keys are
//! errors; the loader says which known key is nearest.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::values;
use crate::base::ids::Repo;

/// The whole configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// What becomes of events.
    pub routing: Routing,
    /// Where events come in.
    pub webhooks: Webhooks,
    /// Which binaries are used.
    pub tools: Tools,
    /// Where state is kept.
    pub state: StateConfig,
}

/// `routing`: what becomes of events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    pub repositories: Vec<Repo>,
    /// The directory a session is started in, relative to the directory that
    /// holds `.the-loop`.
    pub spawn_workdir: PathBuf,
    /// How many starts and headless turns may be under way at once.
    #[serde(deserialize_with = "values::dispatches")]
    pub max_concurrent_dispatches: u16,
    /// How long a headless turn may take, in seconds.
    #[serde(deserialize_with = "values::seconds")]
    pub dispatch_timeout_seconds: u32,
    /// Arguments added to a harness's own, by harness.
    pub harness_args: BTreeMap<HarnessName, Vec<String>>,
    /// Settings of the tmux runner.
    pub tmux: TmuxConfig,
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
            max_concurrent_dispatches: 4,
            dispatch_timeout_seconds: 1800,
            harness_args: BTreeMap::new(),
            tmux: TmuxConfig::default(),
        }
    }
}

/// `routing.runner`: how a session's process is hosted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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

/// A harness by its name.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum HarnessName {
    /// Claude Code.
    #[default]
    Claude,
    /// The agent that is part of this program and only echoes.
    Demo,
}

impl HarnessName {
    /// The name as it is written in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Demo => "demo",
        }
    }
}

/// `routing.spawnOnUnmatched`: when an event without a session starts one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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

/// `routing.tmux`: settings of the tmux runner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TmuxConfig {
    /// The tmux socket: absent for the user's own server, else a path.
    pub socket: Option<PathBuf>,
    /// Columns and lines of a session's window, `COLUMNSxLINES`.
    pub size: WindowSize,
    /// What a new session's window shows.
    pub view: TmuxView,
    /// How long a started agent may take until it is ready, in seconds.
    #[serde(deserialize_with = "values::seconds")]
    pub ready_timeout_seconds: u32,
}

impl Default for TmuxConfig {
    fn default() -> Self {
        Self {
            socket: None,
            size: WindowSize::default(),
            view: TmuxView::Tui,
            ready_timeout_seconds: 60,
        }
    }
}

/// `routing.tmux.view`: what the window of a session shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TmuxView {
    /// The agent's own terminal program, typed into.
    #[default]
    Tui,
    /// Only what headless turns say; nobody can type.
    Stream,
}

/// The size of a session's window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WindowSize {
    /// Columns.
    pub columns: u16,
    /// Lines.
    pub lines: u16,
}

impl Default for WindowSize {
    fn default() -> Self {
        Self { columns: 160, lines: 48 }
    }
}

impl TryFrom<String> for WindowSize {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.split_once('x')
            .and_then(|(columns, lines)| Some((columns.parse().ok()?, lines.parse().ok()?)))
            .filter(|&(columns, lines)| {
                (40..=500).contains(&columns) && (10..=200).contains(&lines)
            })
            .map(|(columns, lines)| Self { columns, lines })
            .ok_or_else(|| {
                let text = crate::base::text::visible(&crate::base::text::cap(&text, 60));
                format!("`{text}` is not a size from `40x10` to `500x200`, as in `160x48`")
            })
    }
}

impl From<WindowSize> for String {
    fn from(size: WindowSize) -> Self {
        format!("{}x{}", size.columns, size.lines)
    }
}

/// `webhooks`: where events come in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Webhooks {
    /// GitHub's webhook.
    pub gh_webhook: GhWebhook,
}

/// `webhooks.ghWebhook`: the receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GhWebhook {
    /// The address to listen on.
    #[serde(deserialize_with = "values::address")]
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
    pub secret_file: Option<PathBuf>,
}

impl Default for GhWebhook {
    fn default() -> Self {
        Self {
            host: IpAddr::from([127, 0, 0, 1]),
            port: 8787,
            path: "/gh-webhook".to_owned(),
            secret_env: "THE_LOOP_GH_WEBHOOK_SECRET".to_owned(),
            secret_file: None,
        }
    }
}

/// `tools`: which binaries are used.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
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
}

/// `tools.prefer`: which kind of binary wins when both work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Prefer {
    /// The system's.
    #[default]
    System,
    /// The one this program installed.
    Managed,
}

/// `tools.<tool>`: where one binary is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ToolConfig {
    /// The binary's path; `None` looks for it.
    pub path: Option<PathBuf>,
}

/// `state`: where state is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct StateConfig {
    /// The directory for inbox, lock, sockets and spools; `None` takes one
    /// below the user's state directory.
    pub dir: Option<PathBuf>,
}
