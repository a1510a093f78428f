//! Arguments of an agent that this program sets itself: a second time in
//! `routing.harnessArgs` they would begin another conversation, silence the agent's
//! signals, or take its result away.

use std::path::Path;

use super::super::declared::declarations;
use super::super::error::ConfigError;
use super::super::locate::{What, locate};
use super::super::model::{Config, DeclaredHarness, HarnessName};
use super::super::tree::Step;
use super::super::values::shown;

/// What the program sets them for, and which they are.
type Own = (&'static str, &'static [&'static str]);

const CLAUDE: &[Own] = &[
    (
        "it chooses the conversation for each session",
        &["--session-id", "--resume", "-r", "--continue", "-c", "--fork-session", "--from-pr"],
    ),
    (
        "it runs headless turns and reads their result",
        &["-p", "--print", "--output-format", "--input-format", "--no-session-persistence"],
    ),
    ("the hooks are in it; put yours into Claude's settings.json", &["--settings", "--bare"]),
    ("it chooses where the agent runs", &["--worktree", "-w", "--tmux", "--bg", "--background"]),
];

const CURSOR: &[Own] = &[
    ("it chooses the conversation for each session", &["--resume", "--continue"]),
    ("it runs headless turns and reads their result", &["-p", "--print", "--output-format"]),
];

/// Refuses the first argument that is the program's own.
pub(super) fn check(file: &Path, text: &str, config: &Config) -> Result<(), ConfigError> {
    let declared = declarations(&config.harnesses);
    for (harness, args) in &config.routing.harness_args {
        let whose = |arg: &str| match harness {
            HarnessName::Claude => among(CLAUDE, arg),
            HarnessName::Cursor => among(CURSOR, arg),
            HarnessName::Declared(name) => {
                let says = declared.get(name)?;
                in_templates(says, arg).then_some("it stands in the harness's own declaration")
            }
            HarnessName::Demo => None,
        };
        let found = args.iter().enumerate().find_map(|(at, arg)| Some((at, arg, whose(arg)?)));
        let Some((at, arg, why)) = found else { continue };
        let keys = ["routing", "harnessArgs", harness.as_str()];
        let mut path: Vec<_> = keys.iter().map(|key| Step::Key((*key).to_owned())).collect();
        path.push(Step::Index(at));
        let name = flag(arg);
        let message = format!("`{}` is set by the-loop itself", shown(name));
        return Err(ConfigError::whole(file, message)
            .at(text, locate(text, &path, What::Value))
            .hint(format!("leave it out: {why}")));
    }
    Ok(())
}

/// The argument without its value.
fn flag(arg: &str) -> &str {
    arg.split_once('=').map_or(arg, |(name, _)| name)
}

fn among(own: &[Own], arg: &str) -> Option<&'static str> {
    let name = flag(arg);
    own.iter().find(|(_, args)| args.contains(&name)).map(|(why, _)| *why)
}

/// Whether a template of the harness has the argument. What it has more than once
/// (`-c`) may be given again.
fn in_templates(says: &DeclaredHarness, arg: &str) -> bool {
    let name = flag(arg);
    let templates = [&says.spawn, &says.resume, &says.one_shot, &says.resume_one_shot];
    name.starts_with('-')
        && name.len() > 1
        && templates.iter().any(|words| words.iter().filter(|word| flag(word) == name).count() == 1)
}
