//! `PATH`, locale, terminal, limits, disk.

use std::path::Path;

use super::Scene;
use crate::base::process::shell_word;
use crate::base::text::visible;
use crate::core::platform::Remedy;
use crate::doctor::finding::{Finding, Severity};
use crate::doctor::path::{self, Ignored};
use crate::doctor::repair::Repair;
use crate::doctor::terminfo;

const MIB: u64 = 1024 * 1024;
/// Below this, nothing can be recorded for long.
const DISK_ERROR: u64 = 50 * MIB;
const DISK_WARNING: u64 = 500 * MIB;
const INODES_WARNING: u64 = 1000;
/// A session needs a handful, a delivery one more.
const DESCRIPTORS: u64 = 1024;

pub(super) fn path(scene: &Scene) -> Vec<Finding> {
    let ignored: Vec<String> = path::judged(&scene.env)
        .into_iter()
        .filter_map(|(dir, why)| {
            let why = match why? {
                Ignored::Relative => "it is relative".to_owned(),
                Ignored::Writable(who) => who,
                Ignored::InWorkTree(root) => {
                    format!("it is in the work tree {}", visible(&root.to_string_lossy()))
                }
            };
            let dir = visible(&dir.to_string_lossy());
            let dir = if dir.is_empty() { "(an empty entry)".to_owned() } else { dir };
            Some(format!("{dir}: {why}"))
        })
        .collect();
    let id = "path.entries";
    if ignored.is_empty() {
        return vec![Finding::new(id, Severity::Ok, "nobody else can put a program into PATH")];
    }
    let what = "entries of PATH are ignored, for others could put a program there";
    let mut finding = Finding::new(id, Severity::Warning, what)
        .remedy(Remedy::note("take them out of PATH, or take the right to write from others"));
    finding.evidence = ignored;
    vec![finding]
}

pub(super) fn terminal(scene: &Scene) -> Vec<Finding> {
    let env = &scene.env;
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| env.var(name));
    let locale = visible(locale.unwrap_or("none"));
    let utf8 = if env.locale_is_utf8() {
        Finding::new("locale.utf8", Severity::Ok, format!("the locale is UTF-8: {locale}"))
    } else {
        let what = format!("the locale is not UTF-8 ({locale}); agents get C.UTF-8");
        Finding::new("locale.utf8", Severity::Note, what)
            .remedy(Remedy::command("export LANG=C.UTF-8"))
    };
    let term = match env.var("TERM") {
        None | Some("dumb" | "unknown") => {
            let what = "TERM names no terminal: tmux cannot be attached from here";
            Finding::new("terminal.term", Severity::Note, what)
                .remedy(Remedy::command("export TERM=xterm-256color"))
        }
        Some(term) => {
            let what = format!("TERM is {}", visible(term));
            Finding::new("terminal.term", Severity::Ok, what)
        }
    };
    vec![utf8, term, descriptions(scene)]
}

fn descriptions(scene: &Scene) -> Finding {
    let id = "terminal.descriptions";
    let missing = terminfo::missing_here(&scene.env);
    // macOS has no tmux-256color, and tmux does without it.
    if missing.is_empty() || missing == ["tmux-256color"] {
        return Finding::new(id, Severity::Ok, "the terminals that tmux needs are described");
    }
    let severity = super::if_tmux(&scene.needs, Severity::Warning);
    let what = format!(
        "no description of {} is on this host: tmux cannot be attached",
        missing.join(", ")
    );
    let finding = Finding::new(id, severity, what);
    match terminfo::compiler(&scene.env) {
        Some(_) => finding
            .remedy(Remedy::command("the-loop doctor --fix --only terminal"))
            .fix(Repair::Terminfo),
        None => finding.remedy(Remedy::note(
            "install the package with the terminal descriptions (ncurses-base, \
             ncurses-terminfo-base, terminfo)",
        )),
    }
}

pub(super) fn limits(_: &Scene) -> Vec<Finding> {
    let id = "limits.descriptors";
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    vec![match limit {
        Some(limit) if limit < DESCRIPTORS => {
            let what = format!("only {limit} files can be open at once");
            Finding::new(id, Severity::Warning, what)
                .remedy(Remedy::command(format!("ulimit -n {}", DESCRIPTORS * 4)))
        }
        Some(limit) => Finding::new(id, Severity::Ok, format!("{limit} files can be open at once")),
        None => Finding::new(id, Severity::Ok, "any number of files can be open at once"),
    }]
}

pub(super) fn disk(scene: &Scene) -> Vec<Finding> {
    let state = scene.project.state.as_deref().unwrap_or(&scene.dirs.state);
    let mut findings: Vec<Finding> = Vec::new();
    for dir in [state, &scene.dirs.data] {
        let finding = room(dir);
        // Most often both are on one file system: that is said once.
        if !findings.iter().any(|there| there.what == finding.what) {
            findings.push(finding);
        }
    }
    findings
}

fn room(dir: &Path) -> Finding {
    let id = "disk.space";
    let Some(there) = dir.ancestors().find(|dir| dir.exists()) else {
        return Finding::unchecked(id, format!("`{}` is nowhere", dir.display()));
    };
    let shown = visible(&there.to_string_lossy());
    let stat = match rustix::fs::statvfs(there) {
        Ok(stat) => stat,
        Err(error) => return Finding::unchecked(id, format!("{shown}: {error}")),
    };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let few_files = stat.f_files > 0 && stat.f_favail < INODES_WARNING;
    let told = format!("{} MiB are free", free / MIB);
    let remedy = Remedy::command(format!("df -h {}", shell_word(&there.to_string_lossy())));
    if stat.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
        let what = "state and tools are on a read-only file system";
        return Finding::new(id, Severity::Error, what).shown_by(shown);
    }
    let (severity, what) = if free < DISK_ERROR {
        (Severity::Error, format!("only {told} for state and tools"))
    } else if free < DISK_WARNING {
        (Severity::Warning, format!("only {told} for state and tools"))
    } else if few_files {
        (Severity::Warning, format!("only {} more files fit", stat.f_favail))
    } else {
        return Finding::new(id, Severity::Ok, format!("{told} for state and tools"));
    };
    Finding::new(id, severity, what).shown_by(shown).remedy(remedy)
}
