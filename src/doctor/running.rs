//! The tmux server that sessions are in, and the client that understands it: tmux
//! of 3.6 and later and the ones before it do not understand each other.
//!
//! `gh-webhook start` and every command that looks at sessions choose here, so
//! that they choose the same.

use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;

use super::finding::{Finding, Severity};
use super::listener::listener;
use super::probe;
use super::resolve::by_others;
use super::tool::{Origin, Tool, ToolId};
use crate::base::env::Env;
use crate::base::process::{ExecError, process_text, shell_word};
use crate::base::text::path_text;
use crate::core::platform::{Remedy, Version};

/// How long a running server may take to tell its version. A client of another
/// group can hang.
const DEADLINE: Duration = Duration::from_secs(2);
/// How long its own client waits for it. It answers at once; the host may be slow.
const SILENCE: Duration = Duration::from_secs(5);
/// How often one that cannot be asked is asked again, and after how long.
const AGAIN: u32 = 2;
const PAUSE: Duration = Duration::from_millis(100);

/// Where tmux keeps the sockets of this user.
pub(super) fn sockets(env: &Env) -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    let parent = env.var_os("TMUX_TMPDIR").map(PathBuf::from).filter(|dir| dir.is_dir());
    parent.unwrap_or_else(|| "/tmp".into()).join(format!("tmux-{user}"))
}

/// Versions that understand each other are of one group.
fn group(version: &Version) -> usize {
    ["3.2", "3.6"]
        .iter()
        .filter_map(|text| Version::parse(text))
        .filter(|first| version >= first)
        .count()
}

/// Whether a process of this name can be a tmux server, which calls itself
/// `tmux: server` where the system lets it.
fn is_tmux(name: &str) -> bool {
    let name = name.trim();
    name == "tmux" || name.starts_with("tmux:") || name.starts_with("tmux-")
}

/// What a running server is.
struct Running {
    /// Its own binary, where the system tells.
    own: Option<Tool>,
    version: Version,
    /// Its process, when it does not answer.
    is_silent: Option<u32>,
}

async fn running(env: &Env, tool: &Tool, socket: &Path) -> Result<Option<Running>, String> {
    if UnixStream::connect(socket).is_err() {
        return Ok(None);
    }
    if let Some(pid) = listener(socket) {
        // What is no tmux by its name is not run to be asked.
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if !is_tmux(&name) {
            let who = process_text(pid);
            return Err(format!("{who} listens there, which is not a tmux server"));
        }
        let through = PathBuf::from(format!("/proc/{pid}/exe"));
        // By its own path where that is still the same file.
        let path = fs::read_link(&through)
            .ok()
            .filter(|path| {
                let inode = |path: &Path| fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
                inode(path).is_some() && inode(path) == inode(&through)
            })
            .unwrap_or(through);
        if let Some(why) = by_others(&path, Origin::Configured) {
            return Err(format!("its program {} {why}", path_text(&path)));
        }
        let own = Tool::candidate("tmux", &path, Origin::System, env);
        let version = probe::version(ToolId::Tmux, &own).await.map_err(|why| why.to_string())?;
        // What the program says is not what the server does, which may hang.
        let asked = own.invocation().arg("-S").arg(socket).deadline(SILENCE);
        let asked = asked.args(["display-message", "-p", "#{version}"]).run().await;
        if let Err(ExecError::TimedOut { .. }) = asked {
            return Ok(Some(Running { own: None, version, is_silent: Some(pid) }));
        }
        let own = Some(own.with_version(version.clone()));
        return Ok(Some(Running { own, version, is_silent: None }));
    }
    let asked = tool
        .invocation()
        .arg("-S")
        .arg(socket)
        .args(["display-message", "-p", "#{version}"])
        .deadline(DEADLINE);
    let said = asked.run_ok().await.map_err(|error| crate::base::failure::chain(&error))?;
    let version = Version::find(&said.stdout_text()).ok_or("it told no version")?;
    Ok(Some(Running { own: None, version, is_silent: None }))
}

/// What is known of the server on a socket, for a client of this version.
pub(super) enum Fit {
    /// There is no server.
    None,
    /// They understand each other.
    Same(Version),
    /// They do not.
    Other(Version, Option<Tool>),
    /// It does not answer: the process with this id.
    Silent(u32),
    /// That could not be found out.
    Unknown(String),
}

/// Looks whether this client and the server on this socket fit.
pub(super) async fn fit(env: &Env, tool: &Tool, socket: &Path) -> Fit {
    let mut found = running(env, tool, socket).await;
    // A server that is going away is there no more after a moment.
    for _ in 0..AGAIN {
        if found.is_ok() {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        found = running(env, tool, socket).await;
    }
    match (found, tool.version()) {
        (Ok(None), _) => Fit::None,
        (Ok(Some(Running { is_silent: Some(pid), .. })), _) => Fit::Silent(pid),
        (Ok(Some(server)), Some(ours)) if group(&server.version) != group(ours) => {
            Fit::Other(server.version, server.own)
        }
        (Ok(Some(server)), _) => Fit::Same(server.version),
        (Err(why), _) => Fit::Unknown(why),
    }
}

/// What is said where client and server do not fit, or nobody can tell.
pub(super) fn misfit(tool: &Tool, socket: &Path, fit: &Fit, severity: Severity) -> Finding {
    let id = "tmux.skew";
    let shown = path_text(socket);
    let ours = tool.version().map(ToString::to_string).unwrap_or_default();
    match fit {
        Fit::Other(version, own) => {
            let what =
                format!("the running tmux server is {version}, and {ours} does not understand it");
            let word = shell_word(&socket.to_string_lossy());
            Finding::new(id, severity, what).shown_by(shown).remedy(match own {
                Some(own) => {
                    let own = shell_word(&own.path().to_string_lossy());
                    Remedy::command(format!("{own} -S {word} attach"))
                }
                None => Remedy::note(
                    "use the tmux that started it, or end that server when nothing in it is needed",
                ),
            })
        }
        Fit::Silent(pid) => {
            let what = format!(
                "the running tmux server does not answer within {} s: {}",
                SILENCE.as_secs(),
                process_text(*pid)
            );
            let remedy = Remedy {
                commands: vec![format!("kill -CONT {pid}")],
                note: Some(
                    "that wakes one that was stopped; one that hangs can only be ended, with \
                     everything in it"
                        .to_owned(),
                ),
            };
            Finding::new(id, severity, what).shown_by(shown).remedy(remedy)
        }
        Fit::Unknown(why) => {
            let what = format!("the version of the running tmux server is not known: {why}");
            Finding::new(id, severity, what).shown_by(shown).remedy(Remedy::note(
                "end that server when nothing in it is needed, or name a socket of the-loop's own \
                 in `routing.tmux.socket`",
            ))
        }
        Fit::None => Finding::new(id, Severity::Ok, "no tmux server is running there"),
        Fit::Same(version) => {
            let what = format!("the running tmux server is {version}, which fits");
            Finding::new(id, Severity::Ok, what).shown_by(shown)
        }
    }
}

/// Where sessions are, and the client for it.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The client.
    pub client: Tool,
    /// The socket; none for the user's own server.
    pub socket: Option<PathBuf>,
}

/// What is chosen from.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// The socket in the configuration.
    pub configured: Option<&'a Path>,
    /// The socket of a server of our own.
    pub own: &'a Path,
    /// The option of a session that says which receiver made it.
    pub mark: &'a str,
    /// What it says on ours.
    pub instance: &'a str,
}

/// Chooses the server: the configured socket's; our own for a managed tmux, or
/// where one is running; else the user's, unless it is of another version group
/// and has none of our sessions. A server of another group is talked to by its
/// own binary. `Err` says why nobody can work with the one that is meant.
pub async fn choose(tool: Tool, env: &Env, places: Places<'_>) -> Result<Choice, Box<Finding>> {
    let is_own = tool.origin() == Origin::Managed || UnixStream::connect(places.own).is_ok();
    let own = is_own.then_some(places.own);
    if let Some(socket) = places.configured.or(own) {
        let client = client_on(tool, env, socket).await?;
        return Ok(Choice { client, socket: Some(socket.to_path_buf()) });
    }
    let default = sockets(env).join("default");
    let fit = fit(env, &tool, &default).await;
    match &fit {
        Fit::None | Fit::Same(_) => Ok(Choice { client: tool, socket: None }),
        Fit::Silent(_) | Fit::Unknown(_) => {
            Err(Box::new(misfit(&tool, &default, &fit, Severity::Error)))
        }
        Fit::Other(_, own) => {
            let client = own.as_ref().unwrap_or(&tool);
            let ours = has_ours(client, &default, &places).await.map_err(|why| {
                Box::new(misfit(&tool, &default, &Fit::Unknown(why), Severity::Error))
            })?;
            match (ours, own) {
                (true, Some(own)) => Ok(Choice { client: own.clone(), socket: None }),
                (true, None) => Err(Box::new(misfit(&tool, &default, &fit, Severity::Error))),
                (false, _) => Ok(Choice { client: tool, socket: Some(places.own.to_path_buf()) }),
            }
        }
    }
}

/// Whether a server has sessions that this receiver made.
async fn has_ours(client: &Tool, socket: &Path, places: &Places<'_>) -> Result<bool, String> {
    let format = format!("#{{{}}}", places.mark);
    let asked = client.invocation().arg("-S").arg(socket).args(["list-sessions", "-F", &format]);
    let said = asked.deadline(DEADLINE).run_ok().await;
    let said = said.map_err(|error| crate::base::failure::chain(&error))?;
    Ok(said.stdout_text().lines().any(|line| line == places.instance))
}

/// The client for the server that may be running on this socket: the server's
/// own binary when this one does not understand it, else this one.
async fn client_on(tool: Tool, env: &Env, socket: &Path) -> Result<Tool, Box<Finding>> {
    match fit(env, &tool, socket).await {
        Fit::None | Fit::Same(_) => Ok(tool),
        Fit::Other(_, Some(own)) => Ok(own),
        fit => Err(Box::new(misfit(&tool, socket, &fit, Severity::Error))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_understand_each_other_are_of_one_group() {
        let group = |text: &str| group(&Version::parse(text).unwrap());
        assert_eq!(group("3.2a"), group("3.5a"));
        assert_eq!(group("3.6a"), group("3.8"));
        assert_ne!(group("3.5a"), group("3.6"));
        assert_ne!(group("3.1c"), group("3.2"));
    }
}
