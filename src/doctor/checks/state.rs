//! The project's state and locks, where sessions start, and what broken installs left.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::Scene;
use super::disk::{ELSEWHERE, is_in_own_home};
use crate::base::files::lock::is_held;
use crate::base::process::shell_word;
use crate::base::text::{count, path_text, visible};
use crate::core::platform::Remedy;
use crate::doctor::finding::{Finding, Severity};
use crate::doctor::install::store::{RECEIPT, Store};
use crate::doctor::path::{self, Judge, Open};
use crate::doctor::repair::Repair;
use crate::doctor::tool::ToolId;

/// How many files of the state are looked at.
const FILES: usize = 200;

pub(super) fn workdir(scene: &Scene) -> Vec<Finding> {
    let id = "workdir.there";
    let Some(dir) = &scene.project.shared else { return Vec::new() };
    let shown = path_text(dir);
    if dir.is_dir() {
        let what = format!("sessions can start in {shown}");
        return vec![Finding::new(id, Severity::Ok, what)];
    }
    let what = format!("sessions cannot start in {shown}: it is no directory");
    let note = "make it, or set `routing.spawnWorkdir` to one that is there";
    vec![Finding::new(id, Severity::Error, what).remedy(Remedy::note(note))]
}

pub(super) fn state(scene: &Scene) -> Vec<Finding> {
    let Some(dir) = scene.project.state.as_deref() else { return Vec::new() };
    let mut findings = modes(scene, dir);
    let mut open = Judge::of_places().open(dir);
    // Its own mode was looked at above.
    open.retain(|open| open.path != dir);
    if !open.is_empty() {
        findings.retain(|found| found.severity != Severity::Ok);
        let shown = path_text(dir);
        findings.push(replaceable("state.modes", format!("others could replace {shown}"), &open));
    }
    findings.extend(locks(scene));
    findings
}

pub(super) fn inbox(scene: &Scene) -> Vec<Finding> {
    let id = "state.inbox";
    let Some((file, look)) = &scene.project.inbox else { return Vec::new() };
    let seen = look(file);
    let shown = path_text(file);
    let mut findings = Vec::new();
    if let Some(trouble) = seen.trouble {
        let note = inbox_remedy(&trouble);
        findings.push(
            Finding::new(id, Severity::Error, format!("{shown} cannot be read as it should be"))
                .shown_by(visible(&trouble))
                .remedy(Remedy::note(note)),
        );
    }
    if !seen.kept.is_empty() {
        let what = "an inbox was damaged: what could be read of it was taken over";
        let lost = match seen.missing {
            0 => String::new(),
            missing => format!("of up to {missing} deliveries nothing is known; "),
        };
        let note = format!(
            "{lost}what did not arrive: `the-loop events --failed`. Have GitHub send it again (the \
             webhook's page, Recent Deliveries), then move the file away"
        );
        let mut finding = Finding::new(id, Severity::Warning, what).remedy(Remedy::note(note));
        finding.evidence = seen.kept.iter().map(|path| path_text(path)).collect();
        findings.push(finding);
    }
    if findings.is_empty() {
        findings.push(Finding::new(id, Severity::Ok, "the stored deliveries can be read"));
    }
    findings
}

/// What to do about an inbox that cannot be read, by what is wrong with it.
pub fn inbox_remedy(trouble: &str) -> &'static str {
    if trouble.contains("newer version") {
        "take the version of the-loop that wrote it, or a later one"
    } else {
        "the next start of the receiver keeps the file aside and takes over what can be read; a \
         file that is no inbox it refuses: move it away"
    }
}

/// About a place of ours that others could replace.
fn replaceable(id: &str, what: String, open: &[Open]) -> Finding {
    let mut finding = Finding::new(id, Severity::Error, what).remedy(path::remedy(open));
    finding.evidence = open.iter().map(|open| open.why.clone()).collect();
    match path::closable(open) {
        own if own.is_empty() => finding,
        own => finding.fix(Repair::Close(own)),
    }
}

/// What a check says that may not look into what is installed.
fn closed(scene: &Scene, id: &str) -> Option<Finding> {
    let store = Store::new(&scene.dirs);
    let (dir, _) = ToolId::ALL.into_iter().find_map(|tool| store.closed(tool))?;
    // What is behind a directory that is shut may not even be there.
    let shut = dir.ancestors().find(|at| fs::symlink_metadata(at).is_ok()).unwrap_or(&dir);
    let what = format!("this user may not look into {}", path_text(shut));
    let finding = Finding::unchecked(id, what).remedy(give_back(scene, shut));
    Some(if shut == dir { finding } else { finding.shown_by(path_text(&dir)) })
}

/// How a directory of ours becomes this user's to use. What is in another's home is
/// the other's, and stays that.
fn give_back(scene: &Scene, dir: &Path) -> Remedy {
    let own = rustix::process::geteuid().as_raw();
    let word = shell_word(&dir.to_string_lossy());
    match fs::symlink_metadata(dir) {
        Ok(meta) if meta.uid() == own => Remedy::command(format!("chmod u+rwx {word}")),
        _ if is_in_own_home(scene, dir) => {
            Remedy::command(scene.host.as_root(&format!("chown -R {own} {word}")))
        }
        _ => Remedy::note(ELSEWHERE),
    }
}

pub(super) fn tools(scene: &Scene) -> Vec<Finding> {
    let id = "tools.private";
    if let Some(closed) = closed(scene, id) {
        return vec![closed];
    }
    let store = Store::new(&scene.dirs);
    let root = store.root().to_path_buf();
    let judge = Judge::of_places();
    let mut open = judge.open(&root);
    // What is below it, each once.
    for tool in ToolId::ALL {
        for place in guarded(&store, tool) {
            for more in judge.open(&place) {
                if open.iter().all(|open| open.path != more.path) {
                    open.push(Open { why: more.why_of(&place), ..more });
                }
            }
        }
    }
    if open.is_empty() {
        let what = "nobody else can change what the-loop installs";
        return vec![Finding::new(id, Severity::Ok, what)];
    }
    let shown = path_text(&root);
    vec![replaceable(id, format!("others could change what the-loop installs in {shown}"), &open)]
}

/// All by which others could change what is installed of a tool, as far as it is there:
/// its folder, and in it the lock, the programs and their receipts.
fn guarded(store: &Store, id: ToolId) -> Vec<PathBuf> {
    let programs = store.installed(id).into_iter().map(|installed| installed.path);
    let files = programs.flat_map(|path| [path.with_file_name(RECEIPT), path]);
    let all = files.chain([store.tool_dir(id), store.lock_path(id)]);
    all.filter(|path| fs::symlink_metadata(path).is_ok()).collect()
}

fn modes(scene: &Scene, dir: &Path) -> Vec<Finding> {
    let id = "state.modes";
    if fs::symlink_metadata(dir).is_err() {
        return vec![Finding::new(id, Severity::Ok, "there is no state yet")];
    }
    let own = rustix::process::geteuid().as_raw();
    let files = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut findings = Vec::new();
    for path in std::iter::once(dir.to_path_buf()).chain(files.take(FILES)) {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        let shown = path_text(&path);
        if meta.uid() != own {
            let what = format!("{shown} belongs to the user {}", meta.uid());
            let word = shell_word(&path.to_string_lossy());
            let remedy = Remedy {
                commands: vec![scene.host.as_root(&format!("chown -h {own} {word}"))],
                note: Some("or choose another `state.dir`".to_owned()),
            };
            findings.push(Finding::new(id, Severity::Error, what).remedy(remedy));
        } else if !meta.is_symlink() && meta.mode() & 0o077 != 0 {
            let what = format!("others may use {shown}: it holds deliveries and keys");
            let mode = if meta.is_dir() { "700" } else { "600" };
            // Where others may write, no receiver starts.
            let is_open = meta.is_dir() && meta.mode() & 0o022 != 0;
            let severity = if is_open { Severity::Error } else { Severity::Warning };
            findings.push(
                Finding::new(id, severity, what)
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
            .shown_by(path_text(control))
            .remedy(Remedy::command("the-loop doctor --fix --only state.locks"))
            .fix(Repair::StaleSocket { socket: control.clone(), lock: lock.clone() }),
    )
}

pub(super) fn litter(scene: &Scene) -> Vec<Finding> {
    let id = "tools.litter";
    if let Some(closed) = closed(scene, id) {
        return vec![closed];
    }
    let store = Store::new(&scene.dirs);
    let mut findings = Vec::new();
    for tool in ToolId::ALL {
        if is_held(&store.lock_path(tool)) {
            continue;
        }
        let name = tool.as_str();
        for (version, partial) in store.begun(tool) {
            let bytes = fs::metadata(&partial).map_or(0, |meta| meta.len());
            let bytes = count(usize::try_from(bytes).unwrap_or(usize::MAX), "byte");
            let what =
                format!("{bytes} of {name} {version} are kept: an install goes on from them");
            let again = Remedy::command(format!("the-loop doctor --install {name}@{version}"));
            findings.push(
                Finding::new(id, Severity::Note, what).shown_by(path_text(&partial)).remedy(again),
            );
        }
        let litter = store.useless_litter(tool);
        if litter.is_empty() {
            continue;
        }
        let pieces = count(litter.len(), "piece");
        let verb = if litter.len() == 1 { "is" } else { "are" };
        let what = format!("{pieces} of a broken install of {name} {verb} left");
        let mut finding = Finding::new(id, Severity::Note, what)
            .remedy(Remedy::command("the-loop doctor --fix --only tools.litter"))
            .fix(Repair::Litter(tool));
        finding.evidence = litter.iter().map(|path| path_text(path)).collect();
        findings.push(finding);
    }
    if findings.is_empty() {
        findings.push(Finding::new(id, Severity::Ok, "nothing is left of a broken install"));
    }
    findings
}
