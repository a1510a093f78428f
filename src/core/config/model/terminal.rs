//! How sessions are hosted and shown: work trees, tmux, the browser.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::config::amounts::{ByteSize, Span};
use crate::core::config::values;

/// `routing.workspace`: whether each item has a git work tree of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Workspace {
    /// A work tree for each item; else every session is in `spawnWorkdir`.
    pub enabled: bool,
    /// Whether a session may work on what a fork sent.
    pub forks: Forks,
    /// How repositories are cloned, with your own credentials.
    pub clone: CloneBy,
    /// Where clones and work trees are; `None` takes a directory of the state.
    #[serde(deserialize_with = "values::optional_path")]
    pub root: Option<PathBuf>,
}

/// `routing.workspace.clone`: how repositories are cloned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CloneBy {
    /// By HTTPS, with git's credential helpers.
    #[default]
    Https,
    /// By SSH, with the keys of your agent or your home.
    Ssh,
}

/// `routing.workspace.forks`: whether a session may work on what a fork sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Forks {
    /// No.
    #[default]
    Deny,
    /// Yes.
    Allow,
}

/// `routing.tmux.view`: what the terminal of a session shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TmuxView {
    /// The agent's own interface.
    #[default]
    Tui,
    /// What a headless agent does, to look at only.
    Stream,
}

impl TmuxView {
    /// The word as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tui => "tui",
            Self::Stream => "stream",
        }
    }
}

/// `routing.tmux.deliverWhen`: when an event is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeliverWhen {
    /// When the agent's turn has ended.
    #[default]
    Idle,
    /// At once.
    Now,
}

/// `routing.tmux`: settings of the tmux runner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TmuxConfig {
    /// The tmux socket: absent for the user's own server, else a path.
    #[serde(deserialize_with = "values::optional_path")]
    pub socket: Option<PathBuf>,
    /// What the terminal of a session shows.
    pub view: TmuxView,
    /// When an event is typed.
    pub deliver_when: DeliverWhen,
    /// Columns and lines of a session's window, `COLUMNSxLINES`.
    pub size: WindowSize,
    /// How long an event waits before it is shown as waiting.
    pub wait_notice: Span,
    /// How much is typed; what is longer goes into a file that the text names.
    pub type_max: ByteSize,
    /// How long a started agent may take until it is ready, in seconds.
    #[serde(deserialize_with = "values::seconds")]
    #[schemars(range(min = 1, max = 86_400))]
    pub ready_timeout_seconds: u32,
}

impl Default for TmuxConfig {
    fn default() -> Self {
        Self {
            socket: None,
            view: TmuxView::default(),
            deliver_when: DeliverWhen::default(),
            size: WindowSize::default(),
            wait_notice: Span::minutes(30),
            type_max: ByteSize::kilobytes(16),
            ready_timeout_seconds: 60,
        }
    }
}

/// The size of a session's window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
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
                let text = values::shown(&text);
                format!("`{text}` is not a size from `40x10` to `500x200`, as in `160x48`")
            })
    }
}

impl From<WindowSize> for String {
    fn from(size: WindowSize) -> Self {
        format!("{}x{}", size.columns, size.lines)
    }
}

/// `routing.webTerminal`: the sessions in the browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WebTerminal {
    /// Whether it is served.
    pub enabled: bool,
    /// The address, or the network interface, to listen on.
    #[serde(deserialize_with = "values::interface")]
    pub host: String,
    /// The port to listen on; 0 takes a free one.
    pub port: u16,
    /// A socket file to listen on instead.
    #[serde(deserialize_with = "values::optional_path")]
    pub socket: Option<PathBuf>,
    /// The names by which a browser may ask for it.
    #[serde(deserialize_with = "values::host_names")]
    pub allowed_hosts: Vec<String>,
    /// Whether `host` may be every address of this machine.
    pub expose_all: bool,
    /// The address that people are given, where it is not the one served.
    #[serde(deserialize_with = "values::web_url")]
    pub public_url: Option<String>,
}

impl Default for WebTerminal {
    fn default() -> Self {
        Self {
            enabled: false,
            host: "127.0.0.1".to_owned(),
            port: 7681,
            socket: None,
            allowed_hosts: Vec::new(),
            expose_all: false,
            public_url: None,
        }
    }
}
