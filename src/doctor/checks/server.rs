//! The directory of tmux's sockets, and whether a server that may be running there
//! and this client understand each other.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::{Project, Scene, if_tmux};
use crate::base::env::Env;
use crate::base::process::shell_word;
use crate::base::text::path_text;
use crate::core::platform::Remedy;
use crate::doctor::finding::{Finding, Severity};
use crate::doctor::repair::Repair;
use crate::doctor::running::{Fit, fit, misfit, sockets};
use crate::doctor::tool::{Origin, Tool};

/// How long the path of a socket may be: what the system has room for, without
/// the byte that ends it.
const SOCKET_PATH: usize = if cfg!(target_os = "macos") { 103 } else { 107 };

pub(super) fn socket_dir(scene: &Scene) -> Vec<Finding> {
    let mut finding = socket_place(&scene.env, scene.project.tmux_socket.as_deref());
    finding.severity = if_tmux(&scene.needs, finding.severity).min(finding.severity);
    vec![finding]
}

/// Whether tmux can have its socket where it is to be: on the configured path, or
/// in the directory of the user's own server.
fn socket_place(env: &Env, configured: Option<&Path>) -> Finding {
    let id = "tmux.socketDir";
    if let Some(socket) = configured {
        return too_long(socket, "choose a shorter path for `routing.tmux.socket`").unwrap_or_else(
            || Finding::new(id, Severity::Ok, format!("tmux's socket is {}", path_text(socket))),
        );
    }
    let asked = env.var_os("TMUX_TMPDIR").map(PathBuf::from);
    if let Some(asked) = asked.filter(|dir| !dir.is_dir()) {
        let what =
            format!("TMUX_TMPDIR is {}, which is not there: tmux uses /tmp", path_text(&asked));
        return Finding::new(id, Severity::Warning, what)
            .remedy(Remedy::command("unset TMUX_TMPDIR"));
    }
    let dir = sockets(env);
    // tmux follows the links of the directory that it is told.
    let parent = dir.parent().unwrap_or(Path::new("/"));
    let real = fs::canonicalize(parent).unwrap_or_else(|_| parent.to_path_buf());
    let socket = real.join(dir.file_name().unwrap_or_default()).join("default");
    if let Some(long) = too_long(&socket, "set TMUX_TMPDIR to a private directory of yours") {
        return long;
    }
    let shown = path_text(&dir);
    match fs::symlink_metadata(&dir) {
        Err(_) => Finding::new(id, Severity::Ok, "tmux makes its directory of sockets"),
        Ok(meta) if !meta.is_dir() || meta.uid() != rustix::process::getuid().as_raw() => {
            let what = format!("{shown} is not a directory of this user: tmux refuses it");
            let note = "set TMUX_TMPDIR to a private directory of yours";
            Finding::new(id, Severity::Error, what).remedy(Remedy::note(note))
        }
        Ok(meta) if meta.mode() & 0o007 != 0 => {
            let what = format!("others may use {shown}: tmux refuses it");
            let word = shell_word(&dir.to_string_lossy());
            Finding::new(id, Severity::Error, what)
                .remedy(Remedy::command(format!("chmod 700 {word}")))
                .fix(Repair::Private(dir))
        }
        Ok(_) => Finding::new(id, Severity::Ok, format!("tmux's sockets are private: {shown}")),
    }
}

/// A path that has no room in the address of a socket.
fn too_long(socket: &Path, shorter: &str) -> Option<Finding> {
    let length = socket.as_os_str().len();
    (length > SOCKET_PATH).then(|| {
        let what = format!(
            "the path of tmux's socket has {length} bytes, and a socket's may have {SOCKET_PATH}"
        );
        Finding::new("tmux.socketDir", Severity::Error, what)
            .shown_by(path_text(socket))
            .remedy(Remedy::note(format!("{shorter} with a short path")))
    })
}

/// Why tmux could start no server there, if it could not: `None` is the user's
/// own.
pub fn socket_fault(env: &Env, socket: Option<&Path>) -> Option<Finding> {
    let finding = socket_place(env, socket);
    (finding.severity == Severity::Error).then_some(finding)
}

pub(super) async fn skew(env: &Env, project: &Project, tmux: Option<&Tool>) -> Vec<Finding> {
    let Some(tool) = tmux.filter(|tool| tool.version().is_some()) else { return Vec::new() };
    let own = project.own_tmux_socket.as_ref().filter(|_| tool.origin() == Origin::Managed);
    let socket = project.tmux_socket.as_ref().or(own).cloned();
    let is_users = socket.is_none();
    let socket = socket.unwrap_or_else(|| sockets(env).join("default"));
    let fit = fit(env, tool, &socket).await;
    if matches!(fit, Fit::None) {
        return Vec::new();
    }
    let mut finding = misfit(tool, &socket, &fit, Severity::Warning);
    if let (true, Fit::Other(..), Some(remedy)) = (is_users, &fit, &mut finding.remedy) {
        let how = "the-loop starts its sessions on a server of its own, and says where";
        remedy.note = Some(match remedy.note.take() {
            Some(note) => format!("{how}; {note}"),
            None => how.to_owned(),
        });
    }
    vec![finding]
}
