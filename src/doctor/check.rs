//! What a resolution means for a person: findings with evidence and a remedy for
//! this platform.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use fs_err as fs;

use super::Needs;
use super::finding::{Finding, Severity};
use super::lack;
use super::path::{self, Judge};
use super::probe::QUARANTINE;
use super::program;
use super::repair::Repair;
use super::resolve::{Lost, Resolution};
use super::tool::{Origin, Tool, ToolId};
use super::trouble::Trouble;
use crate::base::process::shell_word;
use crate::base::text::path_text;
use crate::core::config::RunnerKind;
use crate::core::platform::{Host, Remedy, remedy_again, remedy_for};

/// How this program's own advice on installs begins.
const INSTALL: &str = "the-loop doctor --install ";

/// The findings about one tool.
///
/// `obstacle` says why nothing could be installed, if so.
pub(super) fn findings(
    resolution: &Resolution,
    host: &Host,
    needs: &Needs,
    obstacle: Option<&str>,
) -> Vec<Finding> {
    let mut findings = match &resolution.chosen {
        Some(tool) => about_chosen(resolution, tool, host, needs),
        None => vec![about_none(resolution, host, needs)],
    };
    if let Some(obstacle) = obstacle {
        for finding in &mut findings {
            offer_no_install(finding, obstacle);
        }
    }
    findings
}

/// Takes the advice away that would not help: what the-loop installs is to be
/// where nothing can be run, or written.
fn offer_no_install(finding: &mut Finding, obstacle: &str) {
    let Some(remedy) = &mut finding.remedy else { return };
    let own = remedy.commands.iter().position(|command| command.starts_with(INSTALL));
    if let Some(own) = own.map(|at| remedy.commands.remove(at)) {
        let note = format!(
            "where the-loop would install it {obstacle}: set THE_LOOP_HOME to a directory where \
             that can be, then `{own}`"
        );
        remedy.note = Some(match remedy.note.take() {
            Some(said) => format!("{said}; {note}"),
            None => note,
        });
        finding.fix = None;
    }
}

fn about_chosen(resolution: &Resolution, tool: &Tool, host: &Host, needs: &Needs) -> Vec<Finding> {
    let id = resolution.id;
    let data = id.data();
    let path = path_text(tool.path());
    let version = tool.version();
    let told = version.map(|version| format!(" {version}")).unwrap_or_default();
    let mut findings = vec![Finding {
        id: format!("{}.found", id.as_str()),
        severity: Severity::Ok,
        checked: true,
        what: format!("{}{told}, {}: {path}", id.as_str(), tool.origin().as_str()),
        evidence: resolution.lost.iter().map(evidence).collect(),
        remedy: None,
        fix: None,
    }];
    if let (Some(version), Some(recommended)) = (version, data.recommended())
        && *version < recommended
    {
        findings.push(Finding {
            id: format!("{}.version", id.as_str()),
            severity: if needs.requires(id) { Severity::Warning } else { Severity::Note },
            checked: true,
            what: format!("{}{told} works; {recommended} or newer is better", id.as_str()),
            evidence: vec![path.clone()],
            remedy: Some(remedy_for(data, host)),
            fix: None,
        });
    }
    for defect in version.into_iter().flat_map(|version| data.defects_of(version)) {
        findings.push(Finding {
            id: format!("{}.defects", id.as_str()),
            severity: Severity::Note,
            checked: true,
            what: format!("{}{told}: {}", id.as_str(), defect.text),
            evidence: Vec::new(),
            remedy: None,
            fix: None,
        });
    }
    findings.extend(resolution.unchecked.iter().map(|unchecked| Finding {
        id: format!("{}.{}", id.as_str(), unchecked.check),
        severity: Severity::Warning,
        checked: false,
        what: format!("could not try {}: {}", id.as_str(), unchecked.why),
        evidence: vec![path.clone()],
        remedy: Some(Remedy::note("set TMPDIR to a directory of yours with room (`the-loop doctor --only disk` looks at it)")),
        fix: None,
    }));
    findings
}

/// Whether a program that is sound came to nothing: what it is run on is at fault.
/// A build of ours was compared with its pin before it was run.
fn is_sound(lost: &Lost) -> bool {
    lost.origin == Origin::Managed
        && matches!(
            lost.why,
            Trouble::Failed { .. }
                | Trouble::Hung { .. }
                | Trouble::Misbehaved { .. }
                | Trouble::NoVersion { .. }
        )
}

/// What helps where the host lacks what every program needs.
fn of_host(lost: &Lost) -> Option<Remedy> {
    let came_to_nothing = matches!(
        lost.why,
        Trouble::Failed { .. } | Trouble::Hung { .. } | Trouble::Misbehaved { .. }
    );
    let lack = lack::of_host().filter(|_| came_to_nothing);
    lack.map(Remedy::note).or_else(|| {
        is_sound(lost).then(|| {
            Remedy::note(
                "its bytes are those that were installed: it is this host that it does not work \
                 on, and installing it again would change nothing",
            )
        })
    })
}

fn about_none(resolution: &Resolution, host: &Host, needs: &Needs) -> Finding {
    let id = resolution.id;
    let name = id.as_str();
    let Some(first) = resolution.lost.first() else {
        return Finding {
            id: format!("{name}.found"),
            severity: needs.severity(id),
            checked: true,
            what: format!("{name} was not found: {}", needs.purpose(id)),
            evidence: vec![
                "not in any absolute directory of PATH, and not installed by \
                            the-loop"
                    .to_owned(),
            ],
            remedy: Some(remedy_for(id.data(), host)),
            fix: install(id, host, needs, None),
        };
    };
    if let Some((lost, helps)) =
        resolution.lost.iter().find_map(|lost| Some((lost, lost.why.limit()?)))
    {
        let what = format!("{name}: {} {}", path_text(&lost.path), lost.why);
        let finding = Finding::unchecked(format!("{name}.{}", lost.why.check()), what);
        return finding.remedy(Remedy::note(helps));
    }
    let configured = first.origin == Origin::Configured;
    let open = match first.why {
        Trouble::Untrusted { .. } => Judge::of_places().open(&first.path),
        _ => Vec::new(),
    };
    let at_fault = of_host(first);
    let shown = path_text(&first.path);
    let place = if configured { format!("`tools.{name}.path` {shown}") } else { shown };
    Finding {
        id: format!("{name}.{}", first.why.check()),
        // A path that somebody wrote down is meant; nothing else is taken for it.
        severity: if configured { Severity::Error } else { needs.severity(id) },
        checked: true,
        what: format!("{name}: {place} {}", first.why),
        evidence: why_needed(id, needs)
            .into_iter()
            .chain(resolution.lost.iter().skip(1).map(evidence))
            .collect(),
        remedy: Some(match first.origin {
            _ if at_fault.is_some() => at_fault.clone().unwrap_or_default(),
            _ if open.is_empty() => remedy_for_trouble(id, first, host),
            // What is this user's own is closed; else another one is needed.
            Origin::System => {
                let mut remedy = remedy_for_trouble(id, first, host);
                if path::closable(&open).len() == open.len() {
                    remedy.commands.splice(0..0, path::remedy(&open).commands);
                }
                remedy
            }
            _ => path::remedy(&open),
        }),
        fix: match path::closable(&open) {
            _ if at_fault.is_some() => None,
            own if !own.is_empty() && first.origin != Origin::System => Some(Repair::Close(own)),
            _ if first.origin != Origin::System && (configured || !open.is_empty()) => None,
            _ => install(id, host, needs, managed_version(id, first, host)),
        },
    }
}

/// Why a tool is needed that nobody chose by its name.
fn why_needed(id: ToolId, needs: &Needs) -> Option<String> {
    let is_chosen = needs.runner == Some(RunnerKind::Tmux) || id != ToolId::Tmux;
    (needs.requires(id) && !is_chosen).then(|| needs.purpose(id).to_owned())
}

/// The version of a build of ours that does not work, when it can be made again.
fn managed_version<'a>(id: ToolId, lost: &'a Lost, host: &Host) -> Option<&'a str> {
    let folder = lost.path.parent().filter(|_| lost.origin == Origin::Managed)?;
    let version = folder.file_name()?.to_str()?;
    id.data().pin_for(host, Some(version)).ok().map(|_| version)
}

/// What `--fix` does about a tool that is needed and not usable.
fn install(id: ToolId, host: &Host, needs: &Needs, version: Option<&str>) -> Option<Repair> {
    let version = id.data().pin_for(host, version).ok()?.version.clone();
    needs.requires(id).then_some(Repair::Install { id, version })
}

fn evidence(lost: &Lost) -> String {
    let path = path_text(&lost.path);
    format!("{path} ({}) {}", lost.origin.as_str(), lost.why)
}

/// A command that only a file's owner, or root, can give.
fn as_owner(host: &Host, command: &str, of: &Path) -> String {
    let own = rustix::process::geteuid().as_raw();
    match fs::metadata(of) {
        Ok(meta) if meta.uid() != own => host.as_root(command),
        _ => command.to_owned(),
    }
}

/// Whether a file only lacks the mode of a program: it has a program's form, and one
/// that was named by hand is this user's own.
fn may_be_made_one(lost: &Lost) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let is_own = || fs::metadata(&lost.path).is_ok_and(|meta| meta.uid() == own);
    program::has_form(&lost.path) && (lost.origin != Origin::Configured || is_own())
}

/// Whether a program that does not work is, by its place, a package's: then its
/// install is there already, and is to be made again.
fn is_of_a_package(lost: &Lost) -> bool {
    let is_broken =
        !matches!(lost.why, Trouble::TooOld { .. } | Trouble::Untrusted { .. } | Trouble::Busy);
    let places = ["/usr/bin", "/bin", "/opt/homebrew", "/usr/local/Cellar"];
    lost.origin == Origin::System
        && is_broken
        && places.iter().any(|place| lost.path.starts_with(place))
}

fn remedy_for_trouble(id: ToolId, lost: &Lost, host: &Host) -> Remedy {
    let path = shell_word(&lost.path.to_string_lossy());
    let name = id.as_str();
    let configured = lost.origin == Origin::Configured;
    let mut remedy = match (&lost.why, lost.origin) {
        (Trouble::NotExecutable, Origin::Managed) => Remedy::default(),
        // Of a file that is no program it would help nobody.
        (Trouble::NotExecutable, _) if may_be_made_one(lost) => {
            Remedy::command(as_owner(host, &format!("chmod +x {path}"), &lost.path))
        }
        (Trouble::Quarantined, _) => Remedy::command(format!("xattr -d {QUARANTINE} {path}")),
        _ if configured => Remedy::default(),
        _ if is_of_a_package(lost) => remedy_again(id.data(), host),
        _ => remedy_for(id.data(), host),
    };
    match (&lost.why, lost.origin) {
        (Trouble::Quarantined, _) => {}
        (_, Origin::Managed) => {
            let data = id.data();
            let first = data.pin_for(host, None).map(|pin| pin.version.as_str());
            let at = managed_version(id, lost, host).filter(|at| first != Ok(*at));
            let at = at.map(|at| format!("@{at}")).unwrap_or_default();
            remedy = Remedy::command(format!("{INSTALL}{name}{at}"));
        }
        (Trouble::Untrusted { .. }, _) => {
            let what = "or have one in a directory of PATH that only you may write to".to_owned();
            remedy.note = Some(remedy.note.map_or(what.clone(), |note| format!("{note}; {what}")));
        }
        (Trouble::TooOld { .. }, Origin::System) => {
            // The system's package may be just that old one: ours first.
            remedy.commands.reverse();
        }
        (_, Origin::Configured) => {
            remedy.note = Some(format!(
                "correct `tools.{name}.path` in the configuration, or remove it: then {name} is \
                 looked for"
            ));
        }
        _ => {}
    }
    remedy
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::env::Env;
    use crate::core::config::HarnessName;
    use crate::core::platform::Facts;
    use crate::doctor::Report;
    use crate::doctor::probe::Unchecked;

    #[test]
    fn what_could_not_be_tried_is_no_error_and_not_silent_either() {
        let env = Env::fixed([("PATH", "/bin")], "/", "/bin/the-loop");
        let tool = Tool::candidate("tmux", Path::new("/bin/tmux"), Origin::System, &env);
        let why = "no directory can be made".to_owned();
        let resolution = Resolution {
            id: ToolId::Tmux,
            chosen: Some(tool),
            lost: Vec::new(),
            unchecked: vec![Unchecked { check: "paste", why }],
        };
        let host = Host::from_facts(&Facts::default());
        let findings = findings(&resolution, &host, &Needs::default(), None);
        let report = Report::new(host, vec![resolution], findings);
        assert_eq!((report.exit_code(), report.errors_text()), (3, None));
        let text = report.render(false);
        assert!(text.contains("! unknown   could not try tmux: no directory"), "{text}");
        assert!(text.contains("1 check could not be made"), "{text}");
        assert!(report.tool(ToolId::Tmux).is_some());
    }

    #[test]
    fn a_broken_program_of_a_package_is_installed_again() {
        let facts = Facts {
            os_release: Some("ID=debian\nVERSION_ID=12".into()),
            programs: ["apt", "sudo"].map(str::to_owned).into(),
            ..Facts::default()
        };
        let host = Host::from_facts(&facts);
        let remedy = |path: &str, why| {
            let lost = Lost { path: path.into(), origin: Origin::System, why };
            remedy_for_trouble(ToolId::Git, &lost, &host).commands.remove(0)
        };
        let again = "sudo apt install --reinstall git";
        assert_eq!(remedy("/usr/bin/git", Trouble::WrongFormat), again);
        assert_eq!(remedy("/opt/git", Trouble::WrongFormat), "sudo apt install git");
    }

    #[test]
    fn no_file_is_made_a_program_that_is_none() {
        let host = Host::from_facts(&Facts::default());
        let why = Trouble::NotExecutable;
        let lost = Lost { path: "/etc/passwd".into(), origin: Origin::Configured, why };
        let remedy = remedy_for_trouble(ToolId::Tmux, &lost, &host);
        assert_eq!(remedy.commands, [""; 0]);
        assert!(remedy.note.unwrap().contains("tools.tmux.path"));
    }

    #[test]
    fn a_limit_of_the_process_is_no_fault_of_a_tool() {
        for (errno, said, helps) in [
            (rustix::io::Errno::MFILE, "Too many open files", "ulimit -n 4096"),
            (rustix::io::Errno::AGAIN, "temporarily unavailable", "ulimit -u 4096"),
            (rustix::io::Errno::NOMEM, "Cannot allocate memory", "end some"),
        ] {
            let why = Trouble::Unreadable { source: errno.into() };
            let lost = vec![Lost { path: "/bin/git".into(), origin: Origin::System, why }];
            let id = ToolId::Git;
            let resolution = Resolution { id, chosen: None, lost, unchecked: Vec::new() };
            let host = Host::from_facts(&Facts::default());
            let found = findings(&resolution, &host, &Needs::default(), None).remove(0);
            assert!(!found.checked && found.what.contains(said), "{found:?}");
            let remedy = found.remedy.clone().unwrap();
            assert!(remedy.commands.is_empty() && remedy.note.unwrap().contains(helps));
            // To ask for it alone makes it no fault of the tool either.
            let only = ["git.found".to_owned()];
            let mut report = Report::new(host, vec![resolution], vec![found]);
            report.narrow(&only, &Needs::default());
            assert_eq!(report.exit_code(), 3);
        }
    }

    #[test]
    fn what_is_missing_is_told_with_what_it_is_for() {
        let host = Host::from_facts(&Facts::default());
        let told = |id, runner, web| {
            let resolution =
                Resolution { id, chosen: None, lost: Vec::new(), unchecked: Vec::new() };
            let needs = Needs { runner, web, ..Needs::default() };
            findings(&resolution, &host, &needs, None).remove(0).what
        };
        let (tmux, process) = (Some(RunnerKind::Tmux), Some(RunnerKind::Process));
        for (id, runner, web, what) in [
            (ToolId::Ttyd, tmux, true, "ttyd was not found: the web terminal needs it"),
            (ToolId::Tmux, tmux, false, "tmux was not found: sessions run in it"),
            (
                ToolId::Tmux,
                process,
                true,
                "tmux was not found: the web terminal shows sessions through it",
            ),
        ] {
            assert_eq!(told(id, runner, web), what);
        }
        let of_claude = |harness| Needs { harness, ..Needs::default() }.purpose(ToolId::Claude);
        assert_eq!(of_claude(None), "it is the agent of choice");
        assert_eq!(of_claude(Some(HarnessName::Claude)), "it is the agent in use");
        assert_eq!(of_claude(Some(HarnessName::Demo)), "sessions here run another agent");
    }

    #[test]
    fn a_broken_managed_tool_is_installed_again_and_a_file_made_executable() {
        let host = Host::from_facts(&Facts::default());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a b");
        fs::write(&path, "#!/bin/sh\n").unwrap();
        let shown = path.display();
        let remedy = |why, origin| {
            let lost = Lost { path: path.clone(), origin, why };
            remedy_for_trouble(ToolId::Tmux, &lost, &host)
        };
        let again = remedy(Trouble::NotExecutable, Origin::Managed);
        assert_eq!(again.commands, ["the-loop doctor --install tmux"]);
        let chmod = remedy(Trouble::NotExecutable, Origin::System);
        assert_eq!(chmod.commands, [format!("chmod +x '{shown}'")]);
        let held = remedy(Trouble::Quarantined, Origin::Managed);
        assert_eq!(held.commands, [format!("xattr -d com.apple.quarantine '{shown}'")]);
        let configured = remedy(Trouble::Missing, Origin::Configured);
        assert!(configured.note.unwrap().contains("tools.tmux.path"));
    }
}
