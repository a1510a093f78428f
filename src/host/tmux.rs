//! tmux, and the only module that knows its syntax: typed verbs, exact targets,
//! a deadline on every call.
//!
//! Called by `host::runner` and by the commands that attach. What it relies on
//! was measured; docs/tmux.md has the findings.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::ids::WorkItem;
use crate::base::process::{ExecError, Invocation, shell_word};
use crate::doctor::tool::Tool;

mod end;
mod guests;
mod panes;
mod paste;
mod scroll;
mod server;
mod typing;
mod viewers;
mod window;

pub use guests::{Guest, Guests};
pub use panes::{Look, Pane, PaneState, UNKNOWN_STATUS, pane_of};
pub use paste::Spot;
pub use typing::{Desk, done};
pub use viewers::{Cover, Seen, Sight};

/// How long one call may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// The option that holds a session's work item. A session of our name without
/// it is somebody else's.
const ITEM_OPTION: &str = "@the_loop_item";
/// The option that holds the harness's id of the conversation.
const CONVERSATION_OPTION: &str = "@the_loop_conversation";

/// The option that holds which receiver made the session.
pub const INSTANCE_OPTION: &str = "@the_loop_instance";

/// Which tmux server is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server {
    /// The user's own, so that plain `tmux ls` shows the sessions.
    Default,
    /// The one on this socket.
    Socket(PathBuf),
}

impl Server {
    /// The socket, where it is not the user's own server.
    pub fn socket(&self) -> Option<&Path> {
        match self {
            Self::Socket(path) => Some(path),
            Self::Default => None,
        }
    }
}

/// A tmux server, reached through the binary that the doctor found.
#[derive(Debug, Clone)]
pub struct Tmux {
    tool: Tool,
    server: Server,
    instance: String,
}

/// What a new session is made of.
#[derive(Debug)]
pub struct NewSession<'a> {
    /// Its name, from `Slug::tmux_name`.
    pub name: &'a str,
    /// The work item it is for.
    pub item: &'a WorkItem,
    /// The harness's id of the conversation.
    pub conversation: &'a str,
    /// Columns and lines of its window.
    pub size: (u16, u16),
    /// The directory it starts in.
    pub cwd: &'a Path,
    /// The pane's program and its arguments: fixed text of ours.
    pub command: Vec<OsString>,
}

/// Why tmux did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum TmuxError {
    /// There is no server, no session or no pane of that name.
    #[error("tmux has no {what}")]
    Absent {
        /// What is missing.
        what: String,
    },
    /// The pane is gone, its program has ended, a person scrolls in it, or its
    /// cursor stands elsewhere than it should: nothing was typed.
    #[error("pane {pane} does not take text now")]
    NotLive {
        /// The pane.
        pane: String,
    },
    /// A session of our name belongs to somebody else.
    #[error(
        "a tmux session `{name}` exists that this receiver did not make: \
         it is another one's, or a person's; `{look}` shows it"
    )]
    NotOurs {
        /// The session's name.
        name: String,
        /// The command that shows it, with its server.
        look: String,
    },
    /// A session was ended, and a process of it lives on.
    #[error("the agent's process {pid} was killed, and does not end")]
    Survives {
        /// Its number.
        pid: i32,
    },
    /// The session was made and is gone at once: the user's tmux options end it.
    #[error("the tmux session `{name}` ended as soon as it was made")]
    Vanished {
        /// The session's name.
        name: String,
    },
    /// tmux printed something that cannot be read.
    #[error("tmux answered something unexpected to {verb}: `{answer}`")]
    Unexpected {
        /// What was asked.
        verb: &'static str,
        /// What it printed.
        answer: String,
    },
    /// It could not be run, or failed otherwise.
    #[error("tmux failed to {verb}")]
    Failed {
        /// What was asked.
        verb: &'static str,
        /// Why.
        source: ExecError,
    },
}

impl Tmux {
    /// The server `server`, reached through `tool`, for the sessions of the
    /// receiver `instance`: those of another are a stranger's.
    pub fn new(tool: Tool, server: Server, instance: String) -> Self {
        Self { tool, server, instance }
    }

    /// Which server it is.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// How a person speaks to this server, when plain `tmux` is not enough: with a
    /// client that it understands.
    pub fn typed(&self) -> Option<String> {
        let client = self.tool.typed();
        match self.server.socket() {
            Some(socket) => Some(format!("{client} -S {}", shell_word(&socket.to_string_lossy()))),
            None => Some(client).filter(|client| *client != self.tool.id_name()),
        }
    }

    /// A session of this name is somebody else's.
    pub fn not_ours(&self, name: &str) -> TmuxError {
        let tmux = self.typed().unwrap_or_else(|| "tmux".to_owned());
        // Quoted: zsh has a meaning of its own for a word that begins with `=`.
        let look = format!("{tmux} attach -r -t '={}'", name.replace('\'', r"'\''"));
        TmuxError::NotOurs { name: name.to_owned(), look }
    }

    /// Makes a session of one pane whose program is the command itself, never a
    /// shell's child, and says which pane it is.
    ///
    /// A session of that item which is ours is replaced, whatever its name: the
    /// caller has seen that its program has ended. Somebody else's of that name is
    /// an error.
    pub async fn new_session(&self, new: &NewSession<'_>) -> Result<Pane, TmuxError> {
        let item = new.item.to_string();
        let is_ours = |pane: &Pane| pane.item.as_deref() == Some(item.as_str());
        let panes = self.panes().await?;
        if panes.iter().any(|pane| pane.name == new.name && !is_ours(pane)) {
            return Err(self.not_ours(new.name));
        }
        for old in panes.iter().filter(|pane| is_ours(pane)) {
            self.end(old).await?;
        }
        let (columns, lines) = new.size;
        let window = format!("={}:", new.name);
        let is_fatal = self.is_fatal_to_begin().await;
        // One call: nothing can happen between the session's birth and its options.
        let invocation = self
            .begun(is_fatal)
            .args(["new-session", "-d", "-s", new.name, "-n", "agent"])
            .args(["-x", &columns.to_string(), "-y", &lines.to_string()])
            // The directory is format-expanded by tmux.
            .arg("-c")
            .arg(new.cwd.to_string_lossy().replace('#', "##"))
            .arg("--")
            .args(new.command.iter().map(escape_semicolon))
            .args([";", "set-option", "-w", "-t", &window, "remain-on-exit", "on"])
            // What our reading takes out again; older than 3.3 has it built in.
            .args([";", "set-option", "-w", "-q", "-t", &window, "remain-on-exit-format"])
            .arg(panes::DEAD_FORMAT)
            .args([";", "set-option", "-w", "-t", &window, "window-size", "manual"])
            .args([";", "set-option", "-w", "-t", &window, "automatic-rename", "off"])
            .args([";", "set-option", "-w", "-t", &window, "allow-rename", "off"])
            .args([";", "set-option", "-t", &window, "destroy-unattached", "off"])
            .args([";", "set-option", "-t", &window, "detach-on-destroy", "on"])
            .args([";", "set-option", "-t", &window, ITEM_OPTION, &new.item.to_string()])
            .args([";", "set-option", "-t", &window, CONVERSATION_OPTION, new.conversation])
            .args([";", "set-option", "-t", &window, INSTANCE_OPTION, &self.instance])
            // 3.2 makes a detached session 80x23 whatever -x and -y say.
            .args([";", "resize-window", "-t", &window])
            .args(["-x", &columns.to_string(), "-y", &lines.to_string()]);
        let invocation = self.survived(invocation, &window);
        let made = self.retry_birth(&Self::ended(invocation, is_fatal)).await;
        if made.is_err() {
            self.undo(is_fatal).await;
        }
        made?;
        match self.find(new.name).await? {
            Some(pane) if pane.item.is_some() => Ok(pane),
            _ => Err(TmuxError::Vanished { name: new.name.to_owned() }),
        }
    }

    /// Runs a call that may start a server. While an old server on the socket
    /// is going away tmux fails in ways that pass by themselves.
    async fn retry_birth(&self, invocation: &Invocation) -> Result<(), TmuxError> {
        let mut tries = 0;
        loop {
            match invocation.run_ok().await {
                Ok(_) => return Ok(()),
                Err(ExecError::Failed { output, .. })
                    if tries < 3 && is_passing(&output.complaint()) =>
                {
                    tries += 1;
                    tokio::time::sleep(Duration::from_millis(50) * tries).await;
                }
                Err(source) => return Err(TmuxError::Failed { verb: "make a session", source }),
            }
        }
    }

    /// Takes a session away, also where another session of its group shows it. One
    /// that is gone already is fine. Its program is hung up on, no more: see
    /// [`Tmux::end`].
    async fn kill(&self, pane: &Pane) -> Result<(), TmuxError> {
        for kill in [["kill-session", "-t", &pane.session_id], ["kill-pane", "-t", &pane.pane_id]] {
            match self.call().args(kill).run_ok().await {
                Ok(_) => {}
                Err(source) if is_absent(&source) => {}
                Err(source) => return Err(TmuxError::Failed { verb: "end a session", source }),
            }
        }
        Ok(())
    }

    /// Ends the server and every session on it: for servers of our own alone.
    pub async fn kill_server(&self) -> Result<(), TmuxError> {
        match self.call().arg("kill-server").run_ok().await {
            Ok(_) => Ok(()),
            Err(source) if is_absent(&source) => Ok(()),
            Err(source) => Err(TmuxError::Failed { verb: "end its server", source }),
        }
    }

    /// The command line that shows a session on this terminal, for a person or
    /// to become.
    pub fn attach(&self, pane: &Pane, read_only: bool) -> Invocation {
        let call = self.call().args(["attach-session", "-E", "-t", &pane.session_id]);
        if read_only { call.args(["-f", "read-only,ignore-size"]) } else { call }
    }

    /// The command line that switches the terminal `client` to a session.
    pub fn switch(&self, pane: &Pane) -> Invocation {
        self.call().args(["switch-client", "-t", &pane.session_id])
    }

    fn call(&self) -> Invocation {
        let call = self.tool.invocation().deadline(DEADLINE).arg("-u");
        match &self.server {
            Server::Default => call,
            Server::Socket(path) => call.arg("-S").arg(path),
        }
    }
}

/// tmux takes an argument that ends in `;` for the end of a command.
fn escape_semicolon(argument: &OsString) -> OsString {
    match argument.to_str() {
        Some(text) if text.ends_with(';') => format!("{}\\;", &text[..text.len() - 1]).into(),
        _ => argument.clone(),
    }
}

/// Whether tmux says that there is nothing of the kind, or no server at all.
fn is_absent(error: &ExecError) -> bool {
    let ExecError::Failed { output, .. } = error else { return false };
    let text = output.complaint();
    // The last is of a server that has no session (yet): it has just begun.
    [
        "no server running",
        "error connecting to",
        "can't find",
        "no such session",
        "lost server",
        "no current target",
    ]
    .iter()
    .any(|known| text.contains(known))
}

fn is_passing(complaint: &str) -> bool {
    ["no server running", "server exited unexpectedly", "lost server"]
        .iter()
        .any(|known| complaint.contains(known))
}
