//! The command lines of the agents, as each of them reads its own.

/// Whom it plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Codex,
    Gemini,
    Copilot,
    Opencode,
    Cursor,
}

impl Kind {
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Codex => "codex-cli 0.171.0",
            Self::Gemini => "0.61.0",
            Self::Copilot => {
                "GitHub Copilot CLI 1.0.102.\nRun 'copilot update' to check for updates."
            }
            Self::Opencode => "1.18.33",
            Self::Cursor => "2026.09.10-fd3934a",
        }
    }
}

/// What the command line asks for.
#[derive(Debug, Default)]
pub(crate) struct Args {
    /// The conversation; none where the agent chooses it.
    pub(crate) id: Option<String>,
    pub(crate) resume: bool,
    pub(crate) headless: bool,
    pub(crate) trust: bool,
    pub(crate) hooks: Vec<(String, String)>,
    pub(crate) create: bool,
}

/// Reads it, with the words that the real one knows.
pub(crate) fn args(kind: Kind) -> Args {
    let mut args = Args::default();
    let all: Vec<String> = std::env::args().skip(1).collect();
    let mut words = all.iter();
    while let Some(word) = words.next() {
        let (flag, value) = word.split_once('=').unwrap_or((word, ""));
        match (kind, flag) {
            (Kind::Codex, "-c") => {
                let (key, value) = words.next().unwrap().split_once('=').unwrap();
                if let Some(event) = key.strip_prefix("hooks.") {
                    // A TOML text of these characters is a JSON one.
                    let text =
                        value.split_once("command=").unwrap().1.strip_suffix("}]}]").unwrap();
                    args.hooks.push((event.to_owned(), serde_json::from_str(text).unwrap()));
                }
                args.trust |= key == "projects";
            }
            (Kind::Codex, "exec") => args.headless = true,
            (Kind::Codex, "resume") => {
                args.resume = true;
                let rest: Vec<_> = words.by_ref().filter(|word| !word.starts_with('-')).collect();
                args.id = Some(rest[0].clone());
            }
            (
                Kind::Codex,
                "-"
                | "--json"
                | "--skip-git-repo-check"
                | "--no-daemon"
                | "--dangerously-bypass-hook-trust",
            ) => {}
            (Kind::Gemini | Kind::Copilot, "--session-id") => args.id = words.next().cloned(),
            (Kind::Gemini, "--resume") => {
                args.id = words.next().cloned();
                args.resume = true;
            }
            (Kind::Gemini, "-o") => args.headless = words.next().unwrap() == "stream-json",
            (Kind::Gemini, "--skip-trust") => args.trust = true,
            (Kind::Copilot, "--resume") => {
                args.id = Some(value.to_owned());
                args.resume = true;
            }
            (Kind::Copilot | Kind::Cursor, "--output-format") => {
                args.headless = true;
                words.next().unwrap();
            }
            (Kind::Opencode, "run") => args.headless = true,
            (Kind::Opencode, "--format") => assert_eq!(words.next().unwrap(), "json"),
            (Kind::Opencode, "--session") => {
                args.id = words.next().cloned();
                args.resume = true;
            }
            (Kind::Cursor, "create-chat") => args.create = true,
            (Kind::Cursor, "--resume") => args.id = words.next().cloned(),
            (Kind::Cursor, "-p") => {}
            (Kind::Cursor, "--trust") => args.trust = true,
            _ => panic!("{kind:?} does not know the argument {word}"),
        }
    }
    args
}
