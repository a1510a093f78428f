//! `PATH`, locale, terminal.

use super::Scene;
use crate::base::text::{path_text, visible};
use crate::core::platform::Remedy;
use crate::doctor::finding::{Finding, Severity};
use crate::doctor::path::{self, Judge};
use crate::doctor::repair::Repair;
use crate::doctor::terminfo;
use crate::doctor::tool::ToolId;

/// A terminal that nearly every other one can pass for.
const USUAL_TERM: &str = "xterm-256color";

pub(super) fn path(scene: &Scene) -> Vec<Finding> {
    let judge = Judge::new(&scene.env);
    let mut entries = Vec::new();
    let mut programs = Vec::new();
    let mut closable = false;
    for (dir, why) in path::judged(&scene.env) {
        closable |= why.is_some() && dir.is_absolute();
        let shown = path_text(&dir);
        match why {
            Some(why) if shown.is_empty() => entries.push(format!("(an empty entry): {why}")),
            Some(why) => entries.push(format!("{shown}: {why}")),
            None => programs.extend(ToolId::ALL.iter().filter_map(|id| {
                let program = dir.join(id.as_str());
                let why = judge.judge(&program)?;
                Some(format!("{}: {why}", path_text(&program)))
            })),
        }
    }
    let id = "path.entries";
    let (what, note) = match (entries.is_empty(), programs.is_empty()) {
        (true, true) => {
            return vec![Finding::new(id, Severity::Ok, "nobody else can put a program into PATH")];
        }
        (false, _) => (
            "entries of PATH are ignored, for others could put a program there",
            if closable {
                "take them out of PATH, or take the right to write from others"
            } else {
                "take them out of PATH: only absolute directories are looked into"
            },
        ),
        (true, false) => (
            "programs on PATH are ignored, for others could change them",
            "take the right to write from others, or put a program of your own there",
        ),
    };
    let mut finding = Finding::new(id, Severity::Warning, what).remedy(Remedy::note(note));
    finding.evidence = entries.into_iter().chain(programs).collect();
    vec![finding]
}

pub(super) fn terminal(scene: &Scene) -> Vec<Finding> {
    let env = &scene.env;
    let set =
        ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| Some((name, env.var(name)?)));
    let (rules, locale) = set.unwrap_or(("LANG", "none"));
    let locale = visible(locale);
    let utf8 = if env.locale_is_utf8() {
        Finding::new("locale.utf8", Severity::Ok, format!("the locale is UTF-8: {locale}"))
    } else {
        let what = format!("the locale is not UTF-8 ({locale}); agents get C.UTF-8");
        Finding::new("locale.utf8", Severity::Note, what)
            .remedy(Remedy::command(format!("export {rules}=C.UTF-8")))
    };
    let term = match env.var("TERM") {
        None | Some("dumb" | "unknown") => {
            let what = "TERM names no terminal: tmux cannot be attached from here";
            Finding::new("terminal.term", Severity::Note, what)
                .remedy(Remedy::command("export TERM=xterm-256color"))
        }
        Some(term) if terminfo::is_missing_here(env, term) => {
            let what = format!(
                "TERM is {}, which is not described on this host: tmux cannot be attached from here",
                visible(term)
            );
            let finding = Finding::new("terminal.term", Severity::Note, what);
            if terminfo::is_missing_here(env, USUAL_TERM) {
                finding.remedy(Remedy::note("`terminal.descriptions` says what helps"))
            } else {
                finding.remedy(Remedy::command(format!("export TERM={USUAL_TERM}")))
            }
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
