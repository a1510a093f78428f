//! What is shown of a report when only some checks were asked for. Each of them
//! is answered: a check that says nothing because all is well, or because it
//! could not be made, must not look like its opposite.

use super::catalogue::{self, CHECKS};
use super::finding::{Finding, Severity};
use super::report::Report;
use super::resolve::Resolution;
use super::tool::ToolId;

/// The checks of a tool that its examination makes, one after the other: what
/// one finds stands in the way of those behind it.
const OF_A_TOOL: &[&str] = &["found", "runs", "version", "server", "pane", "paste", "serves"];

impl Report {
    /// Keeps what answers the checks that were asked for, and says of each that
    /// has no finding whether it passed or could not be made.
    pub fn narrow(&mut self, only: &[String]) {
        if only.is_empty() {
            return;
        }
        let blocked: Vec<ToolId> = only
            .iter()
            .filter_map(|asked| self.blocked(asked))
            .map(|resolution| resolution.id)
            .collect();
        self.findings.retain_mut(|finding| {
            let is_blocking = blocked.iter().any(|id| {
                check_of(*id, &finding.id).is_some_and(|check| OF_A_TOOL.contains(&check))
            });
            if is_blocking {
                // This very thing was asked for, whatever else is needed.
                finding.severity = Severity::Error;
            }
            is_blocking || catalogue::is_asked(only, &finding.id)
        });
        for asked in only {
            let alone = std::slice::from_ref(asked);
            if self.blocked(asked).is_some()
                || self.findings.iter().any(|found| catalogue::is_asked(alone, &found.id))
            {
                continue;
            }
            for (id, what) in CHECKS.iter().filter(|(id, _)| catalogue::is_asked(alone, id)) {
                let answer = self.answer(id, what);
                self.findings.push(answer);
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
    fn answer(&self, id: &str, what: &str) -> Finding {
        if let Some(resolution) = self.resolution_of(id) {
            return of_a_tool(resolution, id, what);
        }
        match id {
            "service.killMode" => {
                Finding::new(id, Severity::Ok, "no service of the-loop is set up here")
            }
            "service.linger" => Finding::unchecked(
                id,
                "systemd does not rule here, or the user is not one whom it logs out",
            ),
            "tmux.skew" if self.tool(ToolId::Tmux).is_some() => {
                Finding::new(id, Severity::Ok, "no tmux server is running there")
            }
            "tmux.skew" => Finding::unchecked(id, "there is no tmux that could be asked"),
            "claude.onboarding" => {
                Finding::unchecked(id, "Claude Code is not the agent in use here")
            }
            "claude.trust" => {
                let why = "Claude Code is not the agent in use, or no configuration says where \
                           sessions start";
                Finding::unchecked(id, why)
            }
            "port.web" => Finding::unchecked(id, "no web terminal is to listen at an address"),
            "workdir.there" => {
                Finding::unchecked(id, "no configuration says that sessions share a directory")
            }
            "port.free" | "secret.there" | "state.modes" | "state.inbox" | "state.locks" => {
                let why = format!("no configuration can be read that says where: {what}");
                Finding::unchecked(id, why)
            }
            _ => Finding::unchecked(id, format!("this could not be found out: {what}")),
        }
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
