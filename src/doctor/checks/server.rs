//! The directory of tmux's sockets, and whether a server that may be running there
//! and this client understand each other.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use fs_err as fs;
use rustix::fs::{Access, access};

use super::disk::away;
use super::{Project, Scene, if_tmux};
use crate::base::env::Env;
use crate::base::files::SOCKET_PATH;
use crate::base::process::shell_word;
use crate::base::text::path_text;
use crate::core::platform::Remedy;
use crate::doctor::finding::{Finding, Severity};
use crate::doctor::repair::Repair;
use crate::doctor::running::{Fit, fit, misfit, sockets};
use crate::doctor::tool::{Origin, Tool};

/// What to do where tmux can have no socket.
const ELSEWHERE: &str = "set TMUX_TMPDIR to a private directory of yours";
/// What to do where its path is too long for one.
const SHORTER: &str = "set TMUX_TMPDIR to a private directory of yours with a shorter path";

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
    let dir = sockets(env);
    let place = in_directory(&dir);
    let asked = env.var_os("TMUX_TMPDIR").map(PathBuf::from);
    if let (Severity::Ok, Some(asked)) = (place.severity, asked.filter(|dir| !dir.is_dir())) {
        let how = if asked.exists() { "is no directory" } else { "is not there" };
        let what = format!("TMUX_TMPDIR is {}, which {how}: tmux uses /tmp", path_text(&asked));
        return Finding::new(id, Severity::Warning, what)
            .remedy(Remedy::command("unset TMUX_TMPDIR"));
    }
    place
}

/// Whether tmux can have its default socket in this directory of its own.
fn in_directory(dir: &Path) -> Finding {
    let id = "tmux.socketDir";
    // tmux follows the links of the directory that it is told.
    let parent = dir.parent().unwrap_or(Path::new("/"));
    let real = fs::canonicalize(parent).unwrap_or_else(|_| parent.to_path_buf());
    let socket = real.join(dir.file_name().unwrap_or_default()).join("default");
    if let Some(long) = too_long(&socket, SHORTER) {
        return long;
    }
    let shown = path_text(dir);
    let refused =
        |what: String| Finding::new(id, Severity::Error, what).remedy(Remedy::note(ELSEWHERE));
    let rights = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    match fs::symlink_metadata(dir) {
        Err(_) if !real.is_dir() => refused(format!(
            "tmux's sockets belong into {}, which is no directory",
            path_text(parent)
        )),
        Err(_) if access(&real, rights).is_err() => {
            refused(format!("tmux can make no directory for its sockets in {}", path_text(parent)))
        }
        Err(_) => Finding::new(id, Severity::Ok, "tmux makes its directory of sockets"),
        Ok(meta) if !meta.is_dir() || meta.uid() != rustix::process::getuid().as_raw() => {
            refused(format!("{shown} is not a directory of this user: tmux refuses it"))
        }
        Ok(meta) if meta.mode() & 0o007 != 0 => {
            let what = format!("others may use {shown}: tmux refuses it");
            closable(what, dir)
        }
        Ok(meta) if meta.mode() & 0o700 != 0o700 => {
            closable(format!("this user may not use {shown}: tmux can make no socket"), dir)
        }
        Ok(_) if UnixStream::connect(&socket).is_ok() => {
            Finding::new(id, Severity::Ok, format!("a server listens in {shown}"))
        }
        Ok(_) if access(dir, rights).is_err() => {
            refused(format!("nothing can be written to {shown}: tmux can make no socket"))
        }
        Ok(_)
            if fs::symlink_metadata(&socket).is_ok_and(|there| !there.file_type().is_socket()) =>
        {
            let what = format!("{} is no socket: tmux can start no server", path_text(&socket));
            Finding::new(id, Severity::Error, what).remedy(Remedy::command(away(&socket)))
        }
        Ok(_) => Finding::new(id, Severity::Ok, format!("tmux's sockets are private: {shown}")),
    }
}

/// About a directory whose mode is what tmux does not take.
fn closable(what: String, dir: &Path) -> Finding {
    let word = shell_word(&dir.to_string_lossy());
    Finding::new("tmux.socketDir", Severity::Error, what)
        .remedy(Remedy::command(format!("chmod 700 {word}")))
        .fix(Repair::Private(dir.to_path_buf()))
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
            .remedy(Remedy::note(shorter))
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_tmux_was_told_for_its_sockets_is_told_as_what_it_is() {
        for (asked, how) in [("/etc/passwd", "is no directory"), ("/nowhere", "is not there")] {
            let env = Env::fixed([("TMUX_TMPDIR", asked)], "/", "/bin/the-loop");
            let told = socket_place(&env, None);
            if told.severity == Severity::Warning {
                assert_eq!(
                    told.what,
                    format!("TMUX_TMPDIR is {asked}, which {how}: tmux uses /tmp")
                );
            }
        }
    }

    #[test]
    fn where_tmux_can_make_no_socket_is_told_before_it_tries() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let told = |dir: &Path| {
            let found = in_directory(dir);
            let remedy = found.remedy.unwrap_or_else(|| Remedy::note(""));
            let advice = remedy.commands.first().cloned().or(remedy.note).unwrap_or_default();
            (found.severity, found.what, advice)
        };
        let refused = |dir: &Path, what: &str, advice: &str| {
            let (severity, said, helps) = told(dir);
            assert_eq!(severity, Severity::Error, "{said}");
            assert!(said.contains(what) && helps.contains(advice), "{said}: {helps}");
        };
        assert_eq!(told(&at("tmux-0")).0, Severity::Ok);
        fs::write(at("file"), "").unwrap();
        refused(&at("file/tmux-0"), "which is no directory", "TMUX_TMPDIR");
        refused(&at("nowhere/tmux-0"), "which is no directory", "TMUX_TMPDIR");
        refused(&at("file"), "not a directory of this user", "TMUX_TMPDIR");
        let dir = at("tmux-1");
        fs::create_dir(&dir).unwrap();
        let close = |mode| fs::set_permissions(&dir, PermissionsExt::from_mode(mode)).unwrap();
        close(0o755);
        refused(&dir, "others may use", "chmod 700");
        close(0o500);
        refused(&dir, "this user may not use", "chmod 700");
        close(0o700);
        assert_eq!(told(&dir).0, Severity::Ok);
        fs::write(dir.join("default"), "").unwrap();
        refused(&dir, "default is no socket", "mv ");
        fs::remove_file(dir.join("default")).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(dir.join("default")).unwrap();
        assert_eq!(told(&dir).0, Severity::Ok);
    }
}
