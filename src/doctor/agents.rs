//! The programs of agents that are not in the catalogue of tools: Cursor's, and
//! those of declared harnesses. Found by the same rules as any other tool, and
//! asked for their version; and the files that they need.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use fs_err as fs;
use serde_json::Value;

use super::Needs;
use super::catalogue::is_asked;
use super::finding::{Finding, Severity};
use super::repair::Repair;
use super::resolve::{Candidate, by_others, on_path};
use super::tool::{Origin, Tool};
use super::trouble::Trouble;
use super::{probe, program};
use crate::base::env::Env;
use crate::base::files::{self, atomic};
use crate::base::process::shell_word;
use crate::base::text::{path_text, visible};
use crate::core::config::{HarnessName, RunnerKind, Tools};
use crate::core::harness::{Harness, Probe, Program, Seed};
use crate::core::platform::{Host, Remedy, remedy_by};

mod first_run;

/// How long one may take to tell its version: a large script starts slowly.
const DEADLINE: Duration = Duration::from_secs(20);
/// The largest file of an agent that is read.
const MAX_FILE: u64 = 4 << 20;

/// No program of an agent can be used.
#[derive(Debug)]
pub struct Missing {
    program: String,
    lost: Vec<(PathBuf, Trouble)>,
    install: Option<String>,
}

impl Missing {
    /// What installs it on this machine, where that is known and would help.
    pub fn remedy(&self, host: &Host) -> Option<Remedy> {
        // Installing it would not put it at the path that was written down.
        let helps = !self.is_slow() && !self.program.contains('/');
        let install = self.install.as_deref().filter(|_| helps);
        install.map(|install| remedy_by(install, host))
    }

    /// What helps where it could not be looked at for a limit of this process.
    fn limit(&self) -> Option<&'static str> {
        self.lost.iter().find_map(|(_, why)| why.limit())
    }

    /// Whether one that is there only did not answer in time, as on a host under load.
    pub fn is_slow(&self) -> bool {
        matches!(self.lost.first(), Some((_, Trouble::Hung { .. })))
    }
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.lost.first() {
            None => write!(f, "`{}` was not found", visible(&self.program)),
            Some((path, why)) => {
                write!(f, "`{}`: {} {why}", visible(&self.program), path_text(path))
            }
        }
    }
}

impl std::error::Error for Missing {}

/// The program of an agent: the configured one and no other, else the first on
/// `PATH` that tells a version which is new enough.
pub async fn find_agent(env: &Env, tools: &Tools, agent: &Harness) -> Result<Tool, Missing> {
    let Program::Looked(wanted) = agent.program() else {
        let program = agent.name().to_string();
        return Err(Missing { program, lost: Vec::new(), install: None });
    };
    let configured = (agent.name() == HarnessName::Cursor).then_some(&tools.cursor.path);
    let configured = configured.and_then(Option::as_deref);
    let mut lost = Vec::new();
    for Candidate { path, origin, ignored } in candidates(env, &wanted.program, configured) {
        if let Some(why) = ignored {
            lost.push((path, Trouble::Untrusted { why: why.to_string() }));
            continue;
        }
        if let Some(why) = by_others(&path, origin) {
            lost.push((path, why));
            continue;
        }
        let candidate = Tool::candidate(wanted.program.clone(), &path, origin, env);
        match version(&wanted, &candidate).await {
            Ok(version) => return Ok(candidate.with_version(version)),
            Err(why) => lost.push((path, why)),
        }
    }
    Err(Missing { program: wanted.program, lost, install: wanted.install })
}

fn candidates(env: &Env, name: &str, configured: Option<&Path>) -> Vec<Candidate> {
    let below_home = |below: &str| env.home().map(|home| home.join(below));
    let named = match (configured, name.strip_prefix("~/")) {
        (Some(path), _) => Some(path.to_path_buf()),
        (None, Some(below)) => below_home(below),
        (None, None) => name.starts_with('/').then(|| PathBuf::from(name)),
    };
    match named {
        Some(path) => vec![Candidate { path, origin: Origin::Configured, ignored: None }],
        // Another relative path would be taken out of the work tree.
        None if name.contains('/') => Vec::new(),
        None => on_path(env, name),
    }
}

async fn version(wanted: &Probe, tool: &Tool) -> Result<crate::core::platform::Version, Trouble> {
    program::inspect(tool.path())?;
    let args: Vec<&str> = wanted.args.iter().map(String::as_str).collect();
    let found = probe::told_version(tool, &args, DEADLINE, None).await?;
    match &wanted.minimum {
        Some(needed) if found < *needed => Err(Trouble::TooOld { found, needed: needed.clone() }),
        _ => Ok(found),
    }
}

/// What a start of the agent that sessions run would meet.
pub(super) async fn findings(
    host: &Host,
    env: &Env,
    tools: &Tools,
    needs: &Needs,
    workdir: Option<&Path>,
    only: &[String],
) -> Vec<Finding> {
    let Some(agent) = &needs.agent else { return Vec::new() };
    let name = agent.name();
    let mut findings = Vec::new();
    if is_asked(only, "agent.found") {
        findings.push(match find_agent(env, tools, agent).await {
            Ok(tool) => {
                let version = tool.version().map(|v| format!(" {v}")).unwrap_or_default();
                let path = path_text(tool.path());
                let what = format!("{name}{version}, {}: {path}", tool.origin().as_str());
                Finding::new("agent.found", Severity::Ok, what)
            }
            Err(missing) => {
                let what = format!("the agent {name} cannot be run: {missing}");
                if let Some(helps) = missing.limit() {
                    let finding = Finding::unchecked("agent.found", what);
                    findings.push(finding.remedy(Remedy::note(helps)));
                    return findings;
                }
                let finding = Finding::new("agent.found", Severity::Error, what);
                match missing.remedy(host) {
                    _ if missing.is_slow() => {
                        finding.remedy(Remedy::note("look again when this machine has less to do"))
                    }
                    Some(remedy) => finding.remedy(remedy),
                    None => finding.remedy(Remedy::note(format!(
                        "correct `harnesses.{name}.program` in the configuration"
                    ))),
                }
            }
        });
    }
    if let Some(runner) = needs.runner.filter(|runner| !agent.can_be(*runner)) {
        let (runner, other) = match runner {
            RunnerKind::Tmux => ("tmux", "process"),
            RunnerKind::Process => ("process", "tmux"),
        };
        let what = format!("the agent {name} cannot be hosted by the runner {runner}");
        findings.push(
            Finding::new("agent.runner", Severity::Error, what)
                .remedy(Remedy::note(format!("set `routing.runner: {other}`"))),
        );
    }
    if needs.runner == Some(RunnerKind::Tmux) && is_asked(only, "agent.files") {
        findings.extend(files_of(env, agent));
    }
    if needs.runner == Some(RunnerKind::Tmux) && is_asked(only, "agent.first-run") {
        findings.extend(first_run::findings(env, agent, workdir));
    }
    findings
}

fn files_of(env: &Env, agent: &Harness) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, seed) in missing_seeds(env, agent) {
        if is_own(&seed.path) && is_replaceable(&file) {
            continue;
        }
        let shown = path_text(&file);
        let what = format!("{} would not tell us anything: {shown} lacks our hooks", agent.name());
        findings.push(
            Finding::new("agent.files", Severity::Error, what)
                .shown_by(seed.content.to_string())
                .remedy(Remedy::command("the-loop doctor --fix --only agent.files"))
                .fix(Repair::Agent { file, content: seed.content }),
        );
    }
    if findings.is_empty() {
        let what = format!("{} has the files that it needs, or gets them from us", agent.name());
        findings.push(Finding::new("agent.files", Severity::Ok, what));
    }
    findings
}

/// The command that agents run for their signals.
pub fn hook_command(program: &Path) -> String {
    format!("{} hook", shell_word(&program.to_string_lossy()))
}

/// The files that an agent needs and that do not hold what it needs.
fn missing_seeds(env: &Env, agent: &Harness) -> Vec<(PathBuf, Seed)> {
    let seeds = agent.seeds(&hook_command(env.program())).into_iter();
    let placed = seeds.filter_map(|seed| match seed.path.strip_prefix("~/") {
        Some(below) => Some((env.home()?.join(below), seed)),
        None => Some((PathBuf::from(&seed.path), seed)),
    });
    placed
        .filter(|(file, seed)| !read(file).is_some_and(|there| holds(&there, &seed.content)))
        .collect()
}

/// Whether a file is ours by its name: that of one of its directories below the
/// home, or its own, is this program's. How the home itself is called says nothing.
fn is_own(path: &str) -> bool {
    let Some(below) = path.strip_prefix("~/") else { return false };
    Path::new(below).components().all(|part| matches!(part, Component::Normal(_)))
        && Path::new(below).components().any(|part| {
            let part = part.as_os_str().to_string_lossy();
            part == "the-loop" || part.starts_with("the-loop.")
        })
}

/// Whether a file with a name of ours may be written anew: there is none, or what
/// is there names this program, as everything does that we wrote.
fn is_replaceable(file: &Path) -> bool {
    let Ok(meta) = fs::symlink_metadata(file) else { return true };
    let small = meta.is_file() && meta.len() <= MAX_FILE;
    small && fs::read_to_string(file).is_ok_and(|text| text.contains("the-loop"))
}

/// Writes the files of ours that an agent needs. One that is not ours and lacks
/// something is an error where it `must` be there; it is never replaced.
pub fn seed_own(env: &Env, agent: &Harness, must: bool) -> Result<(), String> {
    for (file, seed) in missing_seeds(env, agent) {
        if !(is_own(&seed.path) && is_replaceable(&file)) {
            if !must {
                continue;
            }
            return Err(format!(
                "`{}` lacks our hooks: `the-loop doctor --fix --only agent.files` adds them",
                file.display()
            ));
        }
        let text = serde_json::to_vec_pretty(&seed.content).map_err(|error| error.to_string())?;
        let made = file.parent().map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| atomic::write(&file, &text))
            .map_err(|error| format!("could not write `{}`: {error}", file.display()))?;
        tracing::info!(file = %file.display(), "wrote a file that the agent needs");
    }
    Ok(())
}

/// Adds to a file of an agent what it lacks; what is there stays.
pub(super) fn add(file: &Path, content: &Value) -> Result<(), String> {
    // A link to the file stays one.
    let file = &fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf());
    let is_there = fs::symlink_metadata(file).is_ok();
    let there = match read(file) {
        Some(there) => there,
        None if is_there => return Err("is not a JSON object".to_owned()),
        None => Value::Object(serde_json::Map::new()),
    };
    let joined = join(there, content).ok_or("has another form")?;
    let text = serde_json::to_string_pretty(&joined).map_err(|error| error.to_string())?;
    let head = fs::read_to_string(file).map(|text| remarks(&text).to_owned());
    let text = head.unwrap_or_default() + &text;
    if let Some(dir) = file.parent().filter(|dir| !dir.is_dir()) {
        files::private_dir(dir).map_err(|error| error.to_string())?;
    }
    atomic::write_anew(file, text.as_bytes()).map_err(|error| error.to_string())
}

/// The lines of remarks that a file of JSON begins with.
fn remarks(text: &str) -> &str {
    let is_one = |line: &&str| line.trim().is_empty() || line.trim_start().starts_with("//");
    let length: usize = text.split_inclusive('\n').take_while(is_one).map(str::len).sum();
    &text[..length]
}

fn read(file: &Path) -> Option<Value> {
    let meta = fs::metadata(file).ok().filter(|meta| meta.is_file() && meta.len() <= MAX_FILE)?;
    let _ = meta;
    let text = fs::read_to_string(file).ok()?;
    serde_json::from_str(&text[remarks(&text).len()..]).ok().filter(Value::is_object)
}

/// Whether a value has everything of another: its fields, and in its lists what
/// is in those.
fn holds(there: &Value, wanted: &Value) -> bool {
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, value)| there.get(key).is_some_and(|there| holds(there, value))),
        (Value::Array(there), Value::Array(wanted)) => {
            wanted.iter().all(|value| there.contains(value))
        }
        _ => there == wanted,
    }
}

fn join(there: Value, wanted: &Value) -> Option<Value> {
    match (there, wanted) {
        (Value::Object(mut there), Value::Object(wanted)) => {
            for (key, value) in wanted {
                let joined = match there.remove(key) {
                    Some(old) => join(old, value)?,
                    None => value.clone(),
                };
                there.insert(key.clone(), joined);
            }
            Some(Value::Object(there))
        }
        (Value::Array(mut there), Value::Array(wanted)) => {
            for value in wanted {
                if !there.contains(value) {
                    there.push(value.clone());
                }
            }
            Some(Value::Array(there))
        }
        (there, wanted) => (there == *wanted).then_some(there),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_user_wrote_into_an_agents_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("hooks.json");
        fs::write(&file, r#"{"version":1,"hooks":{"stop":[{"command":"mine"}]},"x":2}"#).unwrap();
        let ours = json!({"version": 1, "hooks": {"stop": [{"command": "ours"}]}});
        add(&file, &ours).unwrap();
        let both = json!({"version": 1, "x": 2,
            "hooks": {"stop": [{"command": "mine"}, {"command": "ours"}]}});
        assert_eq!(read(&file), Some(both.clone()));
        assert!(holds(&both, &ours));
        add(&file, &ours).unwrap();
        assert_eq!(read(&file), Some(both));
        fs::write(&file, "// Theirs.\n\n{\"version\": 1}").unwrap();
        add(&file, &ours).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("// Theirs.\n\n{") && read(&file).is_some(), "{text}");
        for other in [r#"{"version":2}"#, "[1]", "{"] {
            fs::write(&file, other).unwrap();
            add(&file, &ours).unwrap_err();
            assert_eq!(fs::read_to_string(&file).unwrap(), other);
        }
    }

    #[test]
    fn only_what_has_our_name_is_written_unasked() {
        for (path, own) in [
            ("~/.copilot/hooks/the-loop.json", true),
            ("~/.gemini/extensions/the-loop/hooks/hooks.json", true),
            ("~/.cursor/hooks.json", false),
            ("~/the-looper/hooks.json", false),
            // The home's own name, and a way around ours.
            ("/home/the-loop/.cursor/hooks.json", false),
            ("~/the-loop/../keep.json", false),
        ] {
            assert_eq!(is_own(path), own, "{path}");
        }
    }

    #[test]
    fn a_users_file_is_never_replaced_wherever_their_home_is() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("the-loop");
        let env = Env::fixed([("HOME", home.as_os_str())], "/", "/opt/the-loop");
        let harnesses = crate::core::harness::Harnesses::new(
            &serde_yaml::from_str("mine: {files: {~/.mine/the-loop.json: {run: '{hook}'}}}")
                .unwrap(),
            env.home(),
        );
        let agent = |name: &str| harnesses.get(&name.parse().unwrap()).unwrap();
        let theirs = r#"{"version":1,"hooks":{}}"#;
        for (name, file) in [("cursor", ".cursor/hooks.json"), ("mine", ".mine/the-loop.json")] {
            let file = home.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, theirs).unwrap();
            seed_own(&env, &agent(name), true).unwrap_err();
            assert_eq!(fs::read_to_string(&file).unwrap(), theirs);
            assert!(files_of(&env, &agent(name)).iter().all(|found| found.fix.is_some()));
        }
        // What we wrote before is written anew, as for a program that was moved.
        let ours = home.join(".mine/the-loop.json");
        fs::write(&ours, r#"{"run":"/old/the-loop hook"}"#).unwrap();
        seed_own(&env, &agent("mine"), true).unwrap();
        assert!(fs::read_to_string(&ours).unwrap().contains("/opt/the-loop hook"));
    }
}
