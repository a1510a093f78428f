//! What an agent would ask in a home in which it never ran: an unattended start
//! stalls there, and nothing is ever answered for the user. Its files are only
//! read here.

use std::path::{Path, PathBuf};

use fs_err as fs;
use serde_json::Value;

use super::{MAX_FILE, holds, read};
use crate::base::env::Env;
use crate::base::process::shell_word;
use crate::base::text::path_text;
use crate::core::config::FirstRun;
use crate::core::harness::{Harness, Program};
use crate::core::platform::Remedy;
use crate::doctor::finding::{Finding, Severity};
use crate::doctor::repair::Repair;

/// One finding for each question.
pub(super) fn findings(env: &Env, agent: &Harness, workdir: Option<&Path>) -> Vec<Finding> {
    let workdir = workdir.map(|dir| fs::canonicalize(dir).unwrap_or_else(|_| dir.to_path_buf()));
    let about = |question: &FirstRun| finding(env, agent, question, workdir.as_deref());
    agent.first_run().iter().filter_map(about).collect()
}

fn finding(
    env: &Env,
    agent: &Harness,
    question: &FirstRun,
    workdir: Option<&Path>,
) -> Option<Finding> {
    let file = match question.file.strip_prefix("~/") {
        Some(below) => env.home()?.join(below),
        None => PathBuf::from(&question.file),
    };
    // Nobody knows yet where sessions will start.
    let adds = match (question.adds.is_null(), workdir) {
        (true, _) => None,
        (false, Some(dir)) => Some((&question.adds, dir)),
        (false, None) => return None,
    };
    let there = read(&file);
    let is_answered = there.as_ref().is_some_and(|there| {
        question.holds.iter().any(|sign| sign.fits(there))
            || adds.is_some_and(|(adds, dir)| {
                dir.ancestors().any(|dir| holds(there, &with_dir(adds, dir)))
            })
    });
    let is_answered = is_answered || is_settled(env, question);
    let (name, asks) = (agent.name(), &question.asks);
    if is_answered {
        let what = format!("{name} knows {asks}");
        return Some(Finding::new("agent.first-run", Severity::Ok, what));
    }
    let place = workdir.map(|dir| format!(" in {}", path_text(dir))).unwrap_or_default();
    let program = match agent.program() {
        Program::Looked(probe) => shell_word(&probe.program),
        _ => name.to_string(),
    };
    let note = format!("start `{program}`{place} once by hand and answer what it asks");
    let what = format!("{name} would begin by asking {asks}, and wait");
    let finding =
        Finding::new("agent.first-run", Severity::Warning, what).shown_by(path_text(&file));
    // What is there in another form is left alone.
    let may_add = there.is_some() || fs::symlink_metadata(&file).is_err();
    Some(match adds.filter(|_| may_add) {
        None => finding.remedy(Remedy::note(note)),
        Some((adds, dir)) => finding
            .remedy(Remedy {
                commands: vec!["the-loop doctor --fix --only agent.first-run".to_owned()],
                note: Some(format!("or {note}")),
            })
            .fix(Repair::Agent { file, content: with_dir(adds, dir) }),
    })
}

/// Whether a line of another file makes it ask nothing.
fn is_settled(env: &Env, question: &FirstRun) -> bool {
    question.settled_by.iter().any(|(file, words)| {
        let below = file.strip_prefix("~/").and_then(|below| Some(env.home()?.join(below)));
        let file = below.unwrap_or_else(|| PathBuf::from(file));
        let is_small =
            fs::metadata(&file).is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_FILE);
        let text = is_small.then(|| fs::read_to_string(&file).ok()).flatten().unwrap_or_default();
        let begins = |line: &str, word: &String| {
            let rest = line.trim_start().strip_prefix(word.as_str());
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
        };
        text.lines().any(|line| words.iter().any(|word| begins(line, word)))
    })
}

fn with_dir(content: &Value, dir: &Path) -> Value {
    match content {
        Value::String(text) => Value::from(text.replace("{cwd}", &dir.to_string_lossy())),
        Value::Array(items) => items.iter().map(|item| with_dir(item, dir)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), with_dir(value, dir))).collect()
        }
        other => other.clone(),
    }
}
