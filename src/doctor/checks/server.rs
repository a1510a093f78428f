//! The directory of tmux's sockets, and a server that may be running there: tmux
//! of 3.6 and later and the ones before it do not understand each other.

use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;

use super::{Project, Scene, if_tmux};
use crate::base::env::Env;
use crate::base::process::shell_word;
use crate::base::text::{path_text, visible};
use crate::core::platform::{Remedy, Version};
use crate::doctor::finding::{Finding, Severity};
use crate::doctor::listener::listener;
use crate::doctor::probe;
use crate::doctor::repair::Repair;
use crate::doctor::resolve::by_others;
use crate::doctor::tool::{Origin, Tool, ToolId};

/// How long a running server may take to tell its version. A client of another
/// group can hang.
const DEADLINE: Duration = Duration::from_secs(2);

/// Where tmux keeps the sockets of this user.
fn sockets(env: &Env) -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    let parent = env.var_os("TMUX_TMPDIR").map(PathBuf::from).filter(|dir| dir.is_dir());
    parent.unwrap_or_else(|| "/tmp".into()).join(format!("tmux-{user}"))
}

fn socket(env: &Env, project: &Project) -> PathBuf {
    project.tmux_socket.clone().unwrap_or_else(|| sockets(env).join("default"))
}

pub(super) fn socket_dir(scene: &Scene) -> Vec<Finding> {
    let id = "tmux.socketDir";
    let asked = scene.env.var_os("TMUX_TMPDIR").map(PathBuf::from);
    if let Some(asked) = asked.filter(|dir| !dir.is_dir()) {
        let what =
            format!("TMUX_TMPDIR is {}, which is not there: tmux uses /tmp", path_text(&asked));
        return vec![
            Finding::new(id, if_tmux(&scene.needs, Severity::Warning), what)
                .remedy(Remedy::command("unset TMUX_TMPDIR")),
        ];
    }
    let dir = sockets(&scene.env);
    let shown = path_text(&dir);
    let bad = if_tmux(&scene.needs, Severity::Error);
    vec![match fs::symlink_metadata(&dir) {
        Err(_) => Finding::new(id, Severity::Ok, "tmux makes its directory of sockets"),
        Ok(meta) if !meta.is_dir() || meta.uid() != rustix::process::getuid().as_raw() => {
            let what = format!("{shown} is not a directory of this user: tmux refuses it");
            let note = "set TMUX_TMPDIR to a private directory of yours";
            Finding::new(id, bad, what).remedy(Remedy::note(note))
        }
        Ok(meta) if meta.mode() & 0o007 != 0 => {
            let what = format!("others may use {shown}: tmux refuses it");
            let word = shell_word(&dir.to_string_lossy());
            Finding::new(id, bad, what)
                .remedy(Remedy::command(format!("chmod 700 {word}")))
                .fix(Repair::Private(dir))
        }
        Ok(_) => Finding::new(id, Severity::Ok, format!("tmux's sockets are private: {shown}")),
    }]
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
}

async fn running(env: &Env, tool: &Tool, socket: &Path) -> Result<Option<Running>, String> {
    if UnixStream::connect(socket).is_err() {
        return Ok(None);
    }
    if let Some(pid) = listener(socket) {
        // What is no tmux by its name is not run to be asked.
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if !is_tmux(&name) {
            let name = visible(name.trim());
            return Err(format!(
                "process {pid} ({name}) listens there, which is not a tmux server"
            ));
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
        let own = Some(own.with_version(version.clone()));
        return Ok(Some(Running { own, version }));
    }
    let asked = tool
        .invocation()
        .arg("-S")
        .arg(socket)
        .args(["display-message", "-p", "#{version}"])
        .deadline(DEADLINE);
    let said = asked.run_ok().await.map_err(|error| crate::base::failure::chain(&error))?;
    let version = Version::find(&said.stdout_text()).ok_or("it told no version")?;
    Ok(Some(Running { own: None, version }))
}

pub(super) async fn skew(env: &Env, project: &Project, tmux: Option<&Tool>) -> Vec<Finding> {
    let id = "tmux.skew";
    let Some((tool, version)) = tmux.and_then(|tool| Some((tool, tool.version()?))) else {
        return Vec::new();
    };
    let socket = socket(env, project);
    let shown = path_text(&socket);
    vec![match running(env, tool, &socket).await {
        Ok(None) => return Vec::new(),
        Err(why) => {
            let what = format!("the version of the running tmux server is not known: {why}");
            Finding::new(id, Severity::Warning, what).shown_by(shown)
        }
        Ok(Some(server)) if group(&server.version) == group(version) => {
            let what = format!("the running tmux server is {}, which fits", server.version);
            Finding::new(id, Severity::Ok, what).shown_by(shown)
        }
        Ok(Some(server)) => {
            let what = format!(
                "the running tmux server is {}, and {version} does not understand it",
                server.version
            );
            let finding = Finding::new(id, Severity::Warning, what).shown_by(shown.clone());
            let word = shell_word(&socket.to_string_lossy());
            finding.remedy(match &server.own {
                Some(own) => {
                    let own = shell_word(&own.path().to_string_lossy());
                    Remedy::command(format!("{own} -S {word} attach"))
                }
                None => Remedy::note(
                    "use the tmux that started it, or end that server when nothing in it is needed",
                ),
            })
        }
    }]
}

/// The client for a server that may be running on this socket (the user's own
/// server without one): the server's own binary when this one does not
/// understand it, else this one.
pub async fn client_for(tool: Tool, env: &Env, socket: Option<&Path>) -> Tool {
    let socket = socket.map_or_else(|| sockets(env).join("default"), Path::to_path_buf);
    match (running(env, &tool, &socket).await, tool.version()) {
        (Ok(Some(Running { own: Some(own), version })), Some(ours))
            if group(&version) != group(ours) =>
        {
            own
        }
        _ => tool,
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
