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

/// The arguments of an agent that are not a person's to give.
struct Owns {
    /// Short ones that take a value: what follows in the same word is no other one.
    valued: &'static str,
    own: &'static [Own],
}

const CONVERSATION: &str = "it chooses the conversation for each session";
const TURNS: &str = "it runs headless turns and reads their result";
const PLACE: &str = "it chooses where the agent runs";

const CLAUDE: Owns = Owns {
    valued: "",
    own: &[
        (
            CONVERSATION,
            &[
                "--session-id",
                "--resume",
                "-r",
                "--continue",
                "-c",
                "--fork-session",
                "--from-pr",
                "--teleport",
            ],
        ),
        (
            TURNS,
            &["-p", "--print", "--output-format", "--input-format", "--no-session-persistence"],
        ),
        ("the hooks are in it; put yours into Claude's settings.json", &["--settings", "--bare"]),
        (
            PLACE,
            &[
                "--worktree",
                "-w",
                "--tmux",
                "--bg",
                "--background",
                "--cloud",
                "--remote",
                "--desktop",
                "--remote-control",
            ],
        ),
    ],
};

const CURSOR: Owns = Owns {
    valued: "Ham",
    own: &[
        (CONVERSATION, &["--resume", "--continue"]),
        (TURNS, &["-p", "--print", "--output-format"]),
    ],
};

/// Of declared agents: other names of what stands in their templates, and what would
/// choose another conversation.
const DECLARED: &[(&str, Owns)] = &[
    (
        "gemini",
        Owns {
            valued: "me",
            own: &[
                (CONVERSATION, &["-r", "--resume", "--session-id"]),
                (TURNS, &["-o", "--output-format", "-p", "--prompt", "-i", "--prompt-interactive"]),
            ],
        },
    ),
    (
        "opencode",
        Owns {
            valued: "mf",
            own: &[
                (CONVERSATION, &["-s", "--session", "-c", "--continue", "--fork"]),
                (TURNS, &["--format"]),
            ],
        },
    ),
    (
        "copilot",
        Owns {
            valued: "",
            own: &[
                (CONVERSATION, &["--continue", "--resume", "--session-id"]),
                (TURNS, &["-p", "--prompt", "--output-format"]),
            ],
        },
    ),
];

/// Refuses the first argument that is the program's own.
pub(super) fn check(file: &Path, text: &str, config: &Config) -> Result<(), ConfigError> {
    let declared = declarations(&config.harnesses);
    for (harness, args) in &config.routing.harness_args {
        let whose = |arg: &str| match harness {
            HarnessName::Claude => CLAUDE.whose(arg),
            HarnessName::Cursor => CURSOR.whose(arg),
            HarnessName::Declared(name) => {
                let says = declared.get(name)?;
                let known = DECLARED.iter().find(|(known, _)| *known == name.as_str());
                known.and_then(|(_, owns)| owns.whose(arg)).or_else(|| {
                    let is_own = in_templates(says, arg);
                    let why = "it stands in the harness's own declaration";
                    is_own.then(|| (flag(arg).to_owned(), why))
                })
            }
            HarnessName::Demo => None,
        };
        let found = args.iter().enumerate().find_map(|(at, arg)| Some((at, whose(arg)?)));
        let Some((at, (name, why))) = found else { continue };
        let keys = ["routing", "harnessArgs", harness.as_str()];
        let mut path: Vec<_> = keys.iter().map(|key| Step::Key((*key).to_owned())).collect();
        path.push(Step::Index(at));
        let message = format!("`{}` is set by the-loop itself", shown(&name));
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

impl Owns {
    /// The program's own argument that this one is or holds, and what it is set for.
    fn whose(&self, arg: &str) -> Option<(String, &'static str)> {
        let among = |name: &str| {
            let why = self.own.iter().find(|(_, args)| args.contains(&name)).map(|(why, _)| *why);
            why.map(|why| (name.to_owned(), why))
        };
        among(flag(arg)).or_else(|| self.shorts(arg).into_iter().find_map(|short| among(&short)))
    }

    /// The short arguments of a word that may hold several (`-cp`), or one and its
    /// value (`-rID`).
    fn shorts(&self, arg: &str) -> Vec<String> {
        let Some(letters) = arg.strip_prefix('-').filter(|rest| !rest.starts_with('-')) else {
            return Vec::new();
        };
        let mut shorts = Vec::new();
        for letter in letters.chars().take_while(char::is_ascii_alphabetic) {
            shorts.push(format!("-{letter}"));
            if self.valued.contains(letter) {
                break;
            }
        }
        shorts
    }
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
