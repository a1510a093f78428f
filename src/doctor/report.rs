//! The whole result of an examination: the tools, the findings, and how they
//! are shown.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::finding::{Finding, Severity};
use super::repair::Repair;
use super::resolve::Resolution;
use super::tool::{Tool, ToolId};
use crate::base::text::{count, push_wrapped};
use crate::core::platform::Host;

/// The width of what people read.
const WIDTH: usize = 80;
/// Where the text of a finding begins, after its sign and word.
const INDENT: usize = 12;

/// What the doctor found.
#[derive(Debug)]
pub struct Report {
    host: Host,
    pub(super) resolutions: Vec<Resolution>,
    pub(super) findings: Vec<Finding>,
}

impl Report {
    pub(super) fn new(host: Host, resolutions: Vec<Resolution>, findings: Vec<Finding>) -> Self {
        Self { host, resolutions, findings }
    }

    /// The machine.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// A tool that works.
    pub fn tool(&self, id: ToolId) -> Option<&Tool> {
        self.resolutions.iter().find(|found| found.id == id).and_then(|found| found.chosen.as_ref())
    }

    /// Everything that was found, tool by tool.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The gravest of the findings.
    pub fn worst(&self) -> Severity {
        self.findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Ok)
    }

    /// 0 when nothing stops the work, 1 with errors, 3 when there is none but
    /// something could not be checked.
    pub fn exit_code(&self) -> u8 {
        if self.worst() == Severity::Error {
            1
        } else if self.findings.iter().any(|finding| !finding.checked) {
            3
        } else {
            0
        }
    }

    /// What stops a start: every error, why, and what to do about it here.
    pub fn errors_text(&self) -> Option<String> {
        let errors: Vec<_> =
            self.findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
        if errors.is_empty() {
            return None;
        }
        let mut out = String::new();
        for finding in errors {
            push_finding(&mut out, finding, true);
        }
        Some(out)
    }

    /// The report for a person. `verbose` shows the evidence of what is well too.
    pub fn render(&self, verbose: bool) -> String {
        let mut out = String::new();
        push_wrapped(&mut out, "", 0, &format!("this host: {}", self.host.describe()), WIDTH);
        out.push('\n');
        for finding in &self.findings {
            push_finding(&mut out, finding, verbose || finding.severity > Severity::Ok);
        }
        let of = |severity| self.findings.iter().filter(|f| f.severity == severity).count();
        let errors = count(of(Severity::Error), "error");
        let warnings = count(of(Severity::Warning), "warning");
        let _ = match self.worst() {
            Severity::Ok | Severity::Note => write!(out, "\nnothing stands in the way"),
            _ => write!(out, "\n{errors}, {warnings}"),
        };
        let unchecked = self.findings.iter().filter(|finding| !finding.checked).count();
        if unchecked > 0 {
            let _ = write!(out, "; {} could not be made", count(unchecked, "check"));
        }
        out.push('\n');
        out
    }

    /// The report for a program (docs/doctor.md describes it).
    pub fn to_json(&self) -> Value {
        let tools: Vec<_> = self.resolutions.iter().map(tool_json).collect();
        json!({
            "schema": 1,
            "host": self.host,
            "worst": self.worst(),
            "exitCode": self.exit_code(),
            "tools": tools,
            "findings": self.findings,
        })
    }
}

fn tool_json(resolution: &Resolution) -> Value {
    let lost: Vec<_> = resolution
        .lost
        .iter()
        .map(|lost| {
            json!({
                "path": lost.path.to_string_lossy(),
                "origin": lost.origin,
                "why": lost.why.to_string(),
            })
        })
        .collect();
    let chosen = resolution.chosen.as_ref();
    json!({
        "id": resolution.id.as_str(),
        "path": chosen.map(|tool| tool.path().to_string_lossy()),
        "version": chosen.and_then(Tool::version).map(ToString::to_string),
        "origin": chosen.map(Tool::origin),
        "lost": lost,
    })
}

fn push_finding(out: &mut String, finding: &Finding, with_evidence: bool) {
    let word = if finding.checked { finding.severity.as_str() } else { "unknown" };
    let head = format!("{} {word:<9} ", finding.severity.sign());
    push_wrapped(out, &head, INDENT, &finding.what, WIDTH);
    if with_evidence {
        for evidence in &finding.evidence {
            if evidence.starts_with(' ') || evidence.contains(" | ") {
                // A piece of a file with a pointer: its spaces carry the meaning.
                let _ = writeln!(out, "{:INDENT$}{evidence}", "");
            } else {
                push_wrapped(out, &format!("{:INDENT$}- ", ""), INDENT + 2, evidence, WIDTH);
            }
        }
    }
    let Some(remedy) = &finding.remedy else { return };
    for (index, command) in remedy.commands.iter().enumerate() {
        let label = if index == 0 { "run:" } else { "or:" };
        // A command is never broken: it is there to be pasted.
        let _ = writeln!(out, "{:INDENT$}{label:<5}{command}", "");
    }
    if let Some(note) = &remedy.note {
        push_wrapped(out, &" ".repeat(INDENT), INDENT, note, WIDTH);
    }
}

impl Finding {
    /// Gives what is advised in other words.
    pub fn advise(&mut self, reword: impl Fn(&str) -> String) {
        let Some(remedy) = &mut self.remedy else { return };
        let texts = remedy.commands.iter_mut().chain(&mut remedy.note);
        texts.for_each(|text| *text = reword(text));
    }

    /// As the report shows it, for whoever is stopped by it alone.
    pub fn told(&self) -> String {
        let mut out = String::new();
        push_finding(&mut out, self, true);
        out
    }
}

impl Report {
    /// Gives what is advised in other words.
    pub fn advise(&mut self, reword: impl Fn(&str) -> String) {
        self.findings.iter_mut().for_each(|finding| finding.advise(&reword));
    }

    /// Advises no repair again that was just tried in vain. Says whether there is
    /// such a one.
    pub fn give_up(&mut self, failed: &[Repair]) -> bool {
        let mut is_left = false;
        for finding in &mut self.findings {
            let Some(repair) = finding.fix.take_if(|repair| failed.contains(repair)) else {
                continue;
            };
            is_left = true;
            let remedy = finding.remedy.get_or_insert_default();
            let same = match &repair {
                Repair::Install { id, .. } => format!(" --install {}", id.as_str()),
                _ => " --fix".to_owned(),
            };
            let is_again = |command: &str| command.contains(" --fix") || command.contains(&same);
            remedy.commands.retain(|command| !is_again(command));
            let tried = format!("--fix tried to {} in vain", repair.describe());
            let is_alone = remedy.commands.is_empty();
            remedy.note = Some(match remedy.note.take() {
                // Nothing is left that it would be the other choice of.
                Some(note) if is_alone => {
                    format!("{tried}; {}", note.strip_prefix("or ").unwrap_or(&note))
                }
                Some(note) => format!("{tried}; {note}"),
                None => tried,
            });
        }
        is_left
    }

    /// Says everything in other words.
    pub fn reword(&mut self, reword: impl Fn(&str) -> String) {
        for finding in &mut self.findings {
            let remedy = finding.remedy.iter_mut();
            let remedy = remedy.flat_map(|it| it.commands.iter_mut().chain(&mut it.note));
            let texts = finding.evidence.iter_mut().chain([&mut finding.what]).chain(remedy);
            texts.for_each(|text| *text = reword(text));
        }
    }

    /// Adds a finding that somebody above made.
    pub fn push(&mut self, finding: Finding) {
        self.findings.push(finding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::platform::{Facts, Remedy};

    fn report(findings: Vec<Finding>) -> Report {
        Report::new(Host::from_facts(&Facts::default()), Vec::new(), findings)
    }

    fn finding(severity: Severity, checked: bool) -> Finding {
        Finding {
            id: "tmux.found".into(),
            severity,
            checked,
            what: "a finding whose text is much longer than what fits on one line of a terminal \
                   with eighty columns"
                .into(),
            evidence: vec!["/usr/bin/tmux".into()],
            remedy: Some(Remedy::command("sudo apt install tmux")),
            fix: None,
        }
    }

    #[test]
    fn the_exit_code_tells_errors_from_what_could_not_be_checked() {
        use Severity::{Error, Note, Ok, Warning};
        for (findings, code) in [
            (vec![], 0),
            (vec![finding(Ok, true), finding(Note, true), finding(Warning, true)], 0),
            (vec![finding(Warning, false)], 3),
            (vec![finding(Warning, false), finding(Error, true)], 1),
        ] {
            assert_eq!(report(findings).exit_code(), code);
        }
    }

    #[test]
    fn every_line_fits_and_a_command_stays_whole() {
        let report = report(vec![finding(Severity::Error, true)]);
        let text = report.render(false);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.contains("run: sudo apt install tmux\n"), "{text}");
        assert!(text.contains("✗ error     a finding"), "{text}");
        assert!(report.errors_text().unwrap().contains("sudo apt install tmux"));
    }

    #[test]
    fn what_was_tried_in_vain_is_not_advised_again() {
        let install = Repair::Install { id: ToolId::Tmux, version: "3.6a".into() };
        let mut of_tool = finding(Severity::Error, true).fix(install.clone());
        of_tool.remedy = Some(Remedy::command("the-loop doctor --install tmux@3.6a"));
        let closing = Repair::Private("/x".into());
        let mut of_trust = finding(Severity::Error, true).fix(closing.clone());
        of_trust.remedy = Some(Remedy {
            commands: vec!["the-loop doctor --fix --only x".to_owned()],
            note: Some("or start `claude` there".to_owned()),
        });
        let mut report = report(vec![of_tool, of_trust]);
        assert!(report.give_up(&[install, closing]));
        let told: Vec<_> =
            report.findings.iter().map(|found| found.remedy.clone().unwrap()).collect();
        assert!(told.iter().all(|remedy| remedy.commands.is_empty()), "{told:?}");
        assert_eq!(told[0].note.as_deref(), Some("--fix tried to install tmux 3.6a in vain"));
        assert!(told[1].note.as_ref().unwrap().ends_with("in vain; start `claude` there"));
    }

    #[test]
    fn nothing_stops_a_start_without_errors() {
        assert_eq!(report(vec![finding(Severity::Warning, true)]).errors_text(), None);
    }
}
