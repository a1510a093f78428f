//! Whether Claude Code would stop an unattended start with a question. Its file
//! is only read here.

use std::path::{Path, PathBuf};

use fs_err as fs;
use serde_json::Value;

use super::Scene;
use crate::base::text::visible;
use crate::core::config::HarnessName;
use crate::core::platform::Remedy;
use crate::doctor::finding::{Finding, Severity};
use crate::doctor::repair::Repair;

const LIMIT: u64 = 64 * 1024 * 1024;

pub(super) fn claude(scene: &Scene) -> Vec<Finding> {
    if scene.needs.harness != Some(HarnessName::Claude) {
        return Vec::new();
    }
    // What a session's environment holds counts, not ours.
    let passed = scene.env.passed_on();
    let dir = passed.get(std::ffi::OsStr::new("CLAUDE_CONFIG_DIR")).map(PathBuf::from);
    let Some(dir) = dir.or_else(|| scene.env.home().map(Path::to_path_buf)) else {
        return Vec::new();
    };
    look(&dir.join(".claude.json"), scene.project.workdir.as_deref())
}

fn look(file: &Path, workdir: Option<&Path>) -> Vec<Finding> {
    let shown = visible(&file.to_string_lossy());
    let state = match fs::metadata(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Value::Null,
        Err(error) => return vec![Finding::unchecked("claude.onboarding", error.to_string())],
        Ok(meta) if meta.len() > LIMIT => {
            return vec![Finding::unchecked("claude.onboarding", format!("{shown} is too large"))];
        }
        Ok(_) => {
            let read = fs::read(file).ok();
            let read = read.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
            let Some(Value::Object(_)) = read else {
                let what = format!("{shown} cannot be understood; it is left alone");
                return vec![
                    Finding::new("claude.onboarding", Severity::Warning, what)
                        .remedy(Remedy::note("start `claude` once by hand and see what it says")),
                ];
            };
            read.unwrap_or_default()
        }
    };
    let mut findings = Vec::new();
    let repair = |onboarding, trust| Repair::Claude { file: file.to_path_buf(), onboarding, trust };
    findings.push(if state["hasCompletedOnboarding"] == true {
        Finding::new("claude.onboarding", Severity::Ok, "Claude Code asks no first-run questions")
    } else {
        let what = "Claude Code would begin with its first-run questions and wait";
        Finding::new("claude.onboarding", Severity::Warning, what)
            .shown_by(shown.clone())
            .remedy(Remedy {
                commands: vec![
                    "claude".to_owned(),
                    "the-loop doctor --fix --only claude".to_owned(),
                ],
                note: None,
            })
            .fix(repair(true, None))
    });
    let Some(workdir) = workdir else { return findings };
    let workdir = fs::canonicalize(workdir).unwrap_or_else(|_| workdir.to_path_buf());
    let trusted = workdir.ancestors().any(|dir| {
        state["projects"][dir.to_string_lossy().as_ref()]["hasTrustDialogAccepted"] == true
    });
    let place = visible(&workdir.to_string_lossy());
    findings.push(if trusted {
        Finding::new("claude.trust", Severity::Ok, format!("Claude Code trusts {place}"))
    } else {
        let what = format!("Claude Code would ask whether {place} is trusted, and wait");
        Finding::new("claude.trust", Severity::Warning, what)
            .shown_by(shown)
            .remedy(Remedy {
                commands: vec!["the-loop doctor --fix --only claude.trust".to_owned()],
                note: Some("or start `claude` there once and answer it".to_owned()),
            })
            .fix(repair(false, Some(workdir)))
    });
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_stop_an_unattended_start_is_told() {
        use Severity::{Ok, Warning};
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let file = root.join(".claude.json");
        let severities = |text: Option<&str>| {
            if let Some(text) = text {
                fs::write(&file, text).unwrap();
            }
            let findings = look(&file, Some(&root.join("x")));
            findings.iter().map(|found| (found.severity, found.fix.is_some())).collect::<Vec<_>>()
        };
        assert_eq!(severities(None), [(Warning, true), (Warning, true)]);
        let done = r#"{"hasCompletedOnboarding":true}"#;
        assert_eq!(severities(Some(done)), [(Ok, false), (Warning, true)]);
        let parent = serde_json::json!({
            "hasCompletedOnboarding": true,
            "projects": {root.to_str().unwrap(): {"hasTrustDialogAccepted": true}},
        });
        assert_eq!(severities(Some(&parent.to_string())), [(Ok, false), (Ok, false)]);
        assert_eq!(severities(Some("{broken")), [(Warning, false)]);
    }
}
