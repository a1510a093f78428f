//! The project's secret, port, state and locks, and what broken installs left.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use fs_err as fs;

use super::Scene;
use crate::base::process::shell_word;
use crate::base::text::{count, visible};
use crate::core::platform::Remedy;
use crate::doctor::finding::{Finding, Severity};
use crate::doctor::install::store::Store;
use crate::doctor::repair::Repair;
use crate::doctor::tool::ToolId;

/// How many files of the state are looked at.
const FILES: usize = 200;

pub(super) fn secret(scene: &Scene) -> Vec<Finding> {
    let id = "secret.there";
    let Some(name) = &scene.project.secret_env else { return Vec::new() };
    if scene.env.var_os(name).is_some() {
        let what = format!("the webhook's secret is in the variable {name}");
        return vec![Finding::new(id, Severity::Ok, what)];
    }
    let Some(file) = &scene.project.secret_file else {
        let what = format!("the webhook has no secret here: {name} is not set");
        let command = format!("export {name}=\"$(openssl rand -hex 32)\"");
        return vec![Finding::new(id, Severity::Warning, what).remedy(Remedy::command(command))];
    };
    let shown = visible(&file.to_string_lossy());
    vec![match fs::metadata(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let what = format!("the file of the webhook's secret is not there: {shown}");
            Finding::new(id, Severity::Error, what).remedy(Remedy::command(secret_command(file)))
        }
        Err(error) => {
            let what =
                format!("the webhook's secret cannot be read: {}", visible(&error.to_string()));
            Finding::new(id, Severity::Error, what)
        }
        Ok(meta) if meta.mode() & 0o077 != 0 => Finding::new(
            id,
            Severity::Error,
            format!("others may read the webhook's secret {shown}"),
        )
        .remedy(chmod("600", file))
        .fix(Repair::Private(file.clone())),
        Ok(meta) if meta.len() == 0 => {
            Finding::new(id, Severity::Error, format!("the webhook's secret {shown} is empty"))
        }
        Ok(_) => Finding::new(id, Severity::Ok, format!("the webhook's secret is in {shown}")),
    }]
}

/// The command that makes a secret in this file, for this user alone.
pub fn secret_command(file: &Path) -> String {
    let word = shell_word(&file.to_string_lossy());
    let make = format!("(umask 077; openssl rand -hex 32 > {word})");
    match file.parent().filter(|dir| !dir.is_dir()) {
        Some(dir) => format!("mkdir -p -m 700 {} && {make}", shell_word(&dir.to_string_lossy())),
        None => make,
    }
}

pub(super) fn port(scene: &Scene) -> Vec<Finding> {
    let id = "port.free";
    let Some(address) = scene.project.listen else { return Vec::new() };
    let held = scene.project.lock.as_deref().is_some_and(is_held);
    vec![match TcpListener::bind(address) {
        Ok(_) => Finding::new(id, Severity::Ok, format!("the receiver can listen on {address}")),
        Err(_) if held => {
            Finding::new(id, Severity::Ok, format!("the receiver is running on {address}"))
        }
        Err(error) => {
            let what = format!("the receiver cannot listen on {address}: {error}");
            let note = "end what listens there, or set another `webhooks.ghWebhook.port`";
            Finding::new(id, Severity::Error, what).remedy(Remedy::note(note))
        }
    }]
}

/// Whether a process holds this lock. It is not made where it is not there.
fn is_held(lock: &Path) -> bool {
    let Ok(file) = fs::File::open(lock) else { return false };
    let (file, _) = file.into_parts();
    matches!(file.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock))
}

pub(super) fn state(scene: &Scene) -> Vec<Finding> {
    let Some(dir) = scene.project.state.as_deref() else { return Vec::new() };
    let mut findings = modes(dir);
    findings.extend(locks(scene));
    findings
}

pub(super) fn inbox(scene: &Scene) -> Vec<Finding> {
    let id = "state.inbox";
    let Some((file, look)) = &scene.project.inbox else { return Vec::new() };
    let seen = look(file);
    let shown = visible(&file.to_string_lossy());
    let mut findings = Vec::new();
    if let Some(trouble) = seen.trouble {
        let note = "the next start of the receiver keeps the file aside and takes over what can \
                    be read; a file that is no inbox it refuses";
        findings.push(
            Finding::new(id, Severity::Error, format!("{shown} cannot be read as it should be"))
                .shown_by(visible(&trouble))
                .remedy(Remedy::note(note)),
        );
    }
    if !seen.kept.is_empty() {
        let what = "an inbox was damaged: what could be read of it was taken over";
        let note = "what could not is only in the file that was kept: look into it, then move it \
                    away";
        let mut finding = Finding::new(id, Severity::Note, what).remedy(Remedy::note(note));
        finding.evidence = seen.kept.iter().map(|path| visible(&path.to_string_lossy())).collect();
        findings.push(finding);
    }
    if findings.is_empty() {
        findings.push(Finding::new(id, Severity::Ok, "the stored deliveries can be read"));
    }
    findings
}

fn modes(dir: &Path) -> Vec<Finding> {
    let id = "state.modes";
    if fs::symlink_metadata(dir).is_err() {
        return vec![Finding::new(id, Severity::Ok, "there is no state yet")];
    }
    let own = rustix::process::geteuid().as_raw();
    let files = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut findings = Vec::new();
    for path in std::iter::once(dir.to_path_buf()).chain(files.take(FILES)) {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        let shown = visible(&path.to_string_lossy());
        if meta.uid() != own {
            let what = format!("{shown} belongs to the user {}", meta.uid());
            let note = "choose another `state.dir`, or have its owner give it back";
            findings.push(Finding::new(id, Severity::Error, what).remedy(Remedy::note(note)));
        } else if !meta.is_symlink() && meta.mode() & 0o077 != 0 {
            let what = format!("others may use {shown}: it holds deliveries and keys");
            let mode = if meta.is_dir() { "700" } else { "600" };
            findings.push(
                Finding::new(id, Severity::Warning, what)
                    .remedy(chmod(mode, &path))
                    .fix(Repair::Private(path)),
            );
        }
    }
    if findings.is_empty() {
        findings.push(Finding::new(id, Severity::Ok, "state belongs to this user alone"));
    }
    findings
}

fn chmod(mode: &str, path: &Path) -> Remedy {
    Remedy::command(format!("chmod {mode} {}", shell_word(&path.to_string_lossy())))
}

fn locks(scene: &Scene) -> Option<Finding> {
    let id = "state.locks";
    let (lock, control) = (scene.project.lock.as_ref()?, scene.project.control.as_ref()?);
    if is_held(lock) {
        return Some(Finding::new(id, Severity::Ok, "the receiver is running"));
    }
    if fs::symlink_metadata(control).is_err() {
        return Some(Finding::new(id, Severity::Ok, "nothing is left of a receiver that died"));
    }
    let what = "the socket of a receiver that died is left; the next start replaces it";
    Some(
        Finding::new(id, Severity::Note, what)
            .shown_by(visible(&control.to_string_lossy()))
            .remedy(Remedy::command("the-loop doctor --fix --only state.locks"))
            .fix(Repair::StaleSocket { socket: control.clone(), lock: lock.clone() }),
    )
}

pub(super) fn litter(scene: &Scene) -> Vec<Finding> {
    let id = "tools.litter";
    let store = Store::new(&scene.dirs);
    let mut findings = Vec::new();
    for tool in ToolId::ALL {
        let litter = store.litter(tool);
        if litter.is_empty() || is_held(&store.lock_path(tool)) {
            continue;
        }
        let name = tool.as_str();
        let pieces = count(litter.len(), "piece");
        let what = format!("{pieces} of a broken install of {name} are left");
        let mut finding = Finding::new(id, Severity::Note, what)
            .remedy(Remedy::command("the-loop doctor --fix --only tools.litter"))
            .fix(Repair::Litter(tool));
        finding.evidence = litter.iter().map(|path| visible(&path.to_string_lossy())).collect();
        findings.push(finding);
    }
    if findings.is_empty() {
        findings.push(Finding::new(id, Severity::Ok, "nothing is left of a broken install"));
    }
    findings
}
