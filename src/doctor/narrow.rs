//! What is shown of a report when only some checks were asked for. Each of them
//! is answered: a check that says nothing because all is well, or because it
//! could not be made, must not look like its opposite.

use super::Needs;
use super::catalogue::{self, CHECKS};
use super::finding::{Finding, Severity};
use super::report::Report;
use super::resolve::Resolution;
use super::tool::ToolId;
use crate::core::config::HarnessName;

/// The checks of a tool that its examination makes, one after the other: what
/// one finds stands in the way of those behind it.
const OF_A_TOOL: &[&str] = &["found", "runs", "version", "server", "pane", "paste", "serves"];

impl Report {
    /// Keeps what answers the checks that were asked for, and says of each that
    /// has no finding whether it passed or could not be made.
    ///
    /// What the configuration says is told by the finding about it.
    pub fn narrow(&mut self, only: &[String], needs: &Needs) {
        if only.is_empty() {
            return;
        }
        let about_config = self.findings.iter().find(|found| found.id == "config.valid");
        let config = match about_config.map(|found| found.severity) {
            Some(Severity::Ok) => Configuration::Read,
            Some(Severity::Error) => Configuration::Broken,
            _ => Configuration::None,
        };
        let blocked: Vec<ToolId> = only
            .iter()
            .filter_map(|asked| self.blocked(asked))
            .map(|resolution| resolution.id)
            .collect();
        self.findings.retain_mut(|finding| {
            let is_blocking = blocked.iter().any(|id| {
                check_of(*id, &finding.id).is_some_and(|check| OF_A_TOOL.contains(&check))
            });
            if is_blocking && finding.checked {
                // This very thing was asked for, whatever else is needed.
                finding.severity = Severity::Error;
            }
            is_blocking || catalogue::is_asked(only, &finding.id)
        });
        for asked in only {
            let alone = std::slice::from_ref(asked);
            if self.blocked(asked).is_some() {
                continue;
            }
            let is_said = |id: &str, found: &Finding| {
                found
                    .id
                    .strip_prefix(id)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            let is_answered = self.findings.iter().any(|found| is_said(asked, found));
            for (id, what) in CHECKS.iter().filter(|(id, _)| catalogue::is_asked(alone, id)) {
                if self.findings.iter().any(|found| is_said(id, found)) {
                    continue;
                }
                let answer = self.answer(id, what, config, needs);
                // Of a group that has said something, what went well may stay unsaid.
                if !is_answered || !answer.checked {
                    self.findings.push(answer);
                }
            }
        }
    }

    /// The tool of which one check was asked for, when it does not work.
    fn blocked(&self, asked: &str) -> Option<&Resolution> {
        let resolution = self.resolution_of(asked)?;
        resolution.chosen.is_none().then_some(resolution)
    }

    fn resolution_of(&self, check: &str) -> Option<&Resolution> {
        self.resolutions.iter().find(|found| {
            check_of(found.id, check)
                .is_some_and(|check| OF_A_TOOL.contains(&check) || check == "defects")
        })
    }

    /// What is to be said of a check that said nothing.
    fn answer(&self, id: &str, what: &str, config: Configuration, needs: &Needs) -> Finding {
        if let Some(resolution) = self.resolution_of(id) {
            return of_a_tool(resolution, id, what);
        }
        let none = |why: &str| Finding::new(id, Severity::Ok, why);
        match id {
            "service.killMode" => none("no service of the-loop is set up here"),
            "service.linger" => {
                none("systemd does not rule here, or the user is not one whom it logs out")
            }
            "tmux.skew" if self.tool(ToolId::Tmux).is_some() => {
                none("no tmux server is running there")
            }
            "tmux.skew" => Finding::unchecked(id, "there is no tmux that could be asked"),
            _ if BY_CONFIGURATION.iter().any(|of| id.starts_with(of)) => match config {
                Configuration::Broken => {
                    let why = format!("the configuration cannot be read that this needs: {what}");
                    Finding::unchecked(id, why)
                }
                Configuration::None => {
                    let why = format!("there is no configuration that this needs: {what}");
                    Finding::unchecked(id, why)
                }
                Configuration::Read => match does_not_apply(id, needs) {
                    Some(why) => none(&why),
                    None => Finding::unchecked(id, format!("this could not be found out: {what}")),
                },
            },
            _ => Finding::unchecked(id, format!("this could not be found out: {what}")),
        }
    }
}

/// Whether there is a configuration that says what is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Configuration {
    Read,
    Broken,
    None,
}

/// How the ids begin of checks that are about what is configured.
const BY_CONFIGURATION: &[&str] = &[
    "claude.onboarding",
    "claude.trust",
    "agent.",
    "port.",
    "workdir.",
    "secret.",
    "github.",
    "state.",
];

/// Why a check says nothing where the configuration could be read.
fn does_not_apply(id: &str, needs: &Needs) -> Option<String> {
    let harness = needs.harness.as_ref();
    let is_claude = harness == Some(&HarnessName::Claude);
    let in_use = harness.map(ToString::to_string).unwrap_or_default();
    match id {
        "claude.onboarding" | "claude.trust" if !is_claude => {
            Some("Claude Code is not the agent in use here".to_owned())
        }
        "agent.found" if is_claude => {
            Some("the agent in use is Claude Code: `claude.found` is about it".to_owned())
        }
        "agent.found" if needs.agent.is_none() => {
            Some(format!("the agent in use is {in_use}, which is part of the-loop"))
        }
        "agent.runner" => Some(format!("{in_use} can be hosted as the configuration says")),
        "agent.files" | "agent.first-run" => {
            Some(format!("{in_use} needs no file of its own here for that"))
        }
        "port.web" if needs.web => {
            Some("the web terminal listens at no address that is known before".to_owned())
        }
        "port.web" => Some("no web terminal is to listen".to_owned()),
        "workdir.there" => {
            Some("sessions share no directory: each item has a work tree of its own".to_owned())
        }
        "github.hook" => Some("no repository is known yet".to_owned()),
        _ => None,
    }
}

/// The check within the tool: `paste` of `tmux.paste`.
fn check_of(id: ToolId, check: &str) -> Option<&str> {
    check.strip_prefix(id.as_str())?.strip_prefix('.')
}

/// About a tool that works.
fn of_a_tool(resolution: &Resolution, id: &str, what: &str) -> Finding {
    let name = resolution.id.as_str();
    let told = resolution.chosen.as_ref().and_then(super::tool::Tool::version);
    let told = told.map(|version| format!(" {version}")).unwrap_or_default();
    let is_probe = ["server", "pane", "paste", "serves"]
        .iter()
        .any(|probe| check_of(resolution.id, id) == Some(probe));
    match resolution.unchecked.first() {
        Some(unchecked) if is_probe => {
            Finding::unchecked(id, format!("could not try {name}: {}", unchecked.why))
        }
        _ => Finding::new(id, Severity::Ok, format!("{name}{told}: {what}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::config::RunnerKind;
    use crate::core::platform::{Facts, Host};

    /// What is answered when this is asked for, beside what was found.
    fn answered(config: Severity, needs: &Needs, found: &[&str], only: &str) -> Report {
        let host = Host::from_facts(&Facts::default());
        let found = found.iter().map(|id| Finding::new(*id, Severity::Ok, "well"));
        let config = Finding::new("config.valid", config, "about it");
        let mut report = Report::new(host, Vec::new(), found.chain([config]).collect());
        report.narrow(&[only.to_owned()], needs);
        report
    }

    #[test]
    fn a_group_says_what_of_it_could_not_be_made() {
        let nothing = Needs::default();
        for config in [Severity::Error, Severity::Note] {
            let report = answered(config, &nothing, &["claude.found"], "claude");
            let said: Vec<_> = report.findings().iter().filter(|found| !found.checked).collect();
            let ids: Vec<_> = said.iter().map(|found| found.id.as_str()).collect();
            // Those of the tool itself are answered by its examination.
            assert!(ids.contains(&"claude.onboarding") && ids.contains(&"claude.trust"), "{ids:?}");
            assert!(said.iter().all(|found| !found.what.contains("not the agent")), "{said:?}");
            assert_eq!(report.exit_code(), 3);
            assert!(!report.render(false).contains("nothing stands in the way\n"));
        }
    }

    #[test]
    fn what_does_not_apply_is_well_and_says_so() {
        let claude = Needs {
            runner: Some(RunnerKind::Tmux),
            harness: Some(HarnessName::Claude),
            ..Needs::default()
        };
        for (only, said) in [
            ("agent", "`claude.found` is about it"),
            ("agent.first-run", "needs no file"),
            ("port.web", "no web terminal is to listen"),
            ("service.linger", "systemd does not rule here"),
            ("workdir", "share no directory"),
        ] {
            let report = answered(Severity::Ok, &claude, &[], only);
            assert_eq!(report.exit_code(), 0, "{only}: {}", report.render(true));
            assert!(report.findings()[0].what.contains(said), "{}", report.render(true));
        }
        let demo = Needs { harness: Some(HarnessName::Demo), ..claude };
        let report = answered(Severity::Ok, &demo, &["claude.found"], "claude");
        assert!(report.findings().iter().all(|found| !found.id.contains("trust")));
        let report = answered(Severity::Ok, &demo, &[], "claude.trust");
        assert_eq!(report.findings()[0].severity, Severity::Ok);
    }
}
