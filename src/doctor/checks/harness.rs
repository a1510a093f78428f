//! Whether Claude Code would stop an unattended start with a question. Its file
//! is only read here.

use std::io::ErrorKind;
use std::path::Path;

use fs_err as fs;
use serde_json::Value;

use super::Scene;
use crate::base::failure::{bare, plain};
use crate::base::text::{path_text, visible};
use crate::core::config::HarnessName;
use crate::core::platform::Remedy;
use crate::doctor::claude_trust;
use crate::doctor::finding::{Finding, Severity};
use crate::doctor::repair::Repair;

const LIMIT: u64 = 64 * 1024 * 1024;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

pub(super) fn claude(scene: &Scene) -> Vec<Finding> {
    if scene.needs.harness != Some(HarnessName::Claude) {
        return Vec::new();
    }
    let Some(file) = claude_trust::file(&scene.env) else { return Vec::new() };
    look(&file, scene.project.workdir.as_deref())
}

/// What Claude Code's file holds; nothing where it is not there.
pub(in crate::doctor) fn read(file: &Path) -> Result<Value, String> {
    let meta = match std::fs::metadata(file) {
        Err(error) if error.kind() == ErrorKind::NotFound && !file.is_symlink() => {
            return Ok(Value::Null);
        }
        Err(error) => return Err(format!("cannot be read: {}", plain(&error.to_string()))),
        Ok(meta) => meta,
    };
    if !meta.is_file() {
        return Err("is no file".to_owned());
    }
    if meta.len() > LIMIT {
        return Err(format!("is larger than {LIMIT} bytes"));
    }
    let bytes = fs::read(file).map_err(|error| format!("cannot be read: {}", bare(&error)))?;
    if bytes.trim_ascii().is_empty() {
        return Err("is empty".to_owned());
    }
    if bytes.starts_with(BYTE_ORDER_MARK) {
        return Err("begins with a byte order mark, and is no JSON so".to_owned());
    }
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(object)) => Ok(Value::Object(object)),
        Ok(_) => Err("holds no JSON object".to_owned()),
        Err(error) => Err(format!("is no JSON: {}", visible(&error.to_string()))),
    }
}

/// Whether something of an unknown form stands where an answer would be written.
fn is_odd(state: &Value, workdir: &Path) -> bool {
    let projects = &state["projects"];
    let project = &projects[workdir.to_string_lossy().as_ref()];
    [projects, project].into_iter().any(|at| !at.is_null() && !at.is_object())
}

fn look(file: &Path, workdir: Option<&Path>) -> Vec<Finding> {
    let shown = path_text(file);
    let state = match read(file) {
        Ok(state) => state,
        Err(why) => {
            let what = format!("{shown} {why}; it is left alone");
            let note = "look into it, or move it away; `claude`, started once by hand, writes it";
            let about = |id: &str| {
                Finding::new(id, Severity::Warning, what.clone()).remedy(Remedy::note(note))
            };
            let ids = ["claude.onboarding", "claude.trust"];
            let asked = if workdir.is_some() { &ids[..] } else { &ids[..1] };
            return asked.iter().map(|id| about(id)).collect();
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
    let trusted = claude_trust::trusts(&state, &workdir);
    let place = path_text(&workdir);
    findings.push(if trusted {
        Finding::new("claude.trust", Severity::Ok, format!("Claude Code trusts {place}"))
    } else if is_odd(&state, &workdir) {
        let what = format!("`projects` in {shown} has a form that is not known; it is left alone");
        Finding::new("claude.trust", Severity::Warning, what)
            .remedy(Remedy::note("start `claude` there once and answer what it asks"))
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
    }

    #[test]
    fn a_file_that_cannot_be_understood_is_told_as_what_it_is_in_both_checks() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(".claude.json");
        let told = || {
            let found = look(&file, Some(dir.path()));
            assert!(found.iter().all(|found| found.fix.is_none() && found.checked), "{found:?}");
            let ids: Vec<_> = found.iter().map(|found| found.id.as_str()).collect();
            assert_eq!(ids, ["claude.onboarding", "claude.trust"]);
            assert_eq!(found[0].what, found[1].what);
            assert_eq!(found[0].severity, Severity::Warning);
            found[0].what.clone()
        };
        for (text, said) in [
            ("[]", "holds no JSON object"),
            ("3", "holds no JSON object"),
            ("{broken", "is no JSON: key must be a string at line 1 column 2"),
            ("", "is empty"),
            (" \n", "is empty"),
            ("\u{feff}{}", "begins with a byte order mark"),
        ] {
            fs::write(&file, text).unwrap();
            let what = told();
            assert!(what.contains(said), "{text:?}: {what}");
        }
        fs::remove_file(&file).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &file, 0o600.into()).unwrap();
        assert!(told().contains("is no file"));
        fs::remove_file(&file).unwrap();
        std::fs::DirBuilder::new().create(&file).unwrap();
        assert!(told().contains("is no file"));
        std::fs::remove_dir(&file).unwrap();
        std::os::unix::fs::symlink("/nowhere/x", &file).unwrap();
        assert!(told().contains("cannot be read: No such file"));
    }

    #[test]
    fn no_fix_is_offered_where_none_could_be_made() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let file = root.join(".claude.json");
        let project = serde_json::json!({"projects": {root.to_str().unwrap(): 3}}).to_string();
        for text in [r#"{"projects": 3}"#, r#"{"projects": []}"#, &project] {
            fs::write(&file, text).unwrap();
            let found = look(&file, Some(&root));
            assert!(found[1].fix.is_none() && found[0].fix.is_some(), "{found:?}");
            assert!(found[1].what.contains("has a form that is not known"), "{found:?}");
        }
    }
}
