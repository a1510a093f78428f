//! A harness by its name, and what a declaration of one may say.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::record::{RecordRule, Sign};
use super::submit::SubmitKey;

/// What a harness's name looks like.
const NAME: &str = "^[a-z][a-z0-9-]{0,31}$";

/// A harness by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum HarnessName {
    /// Claude Code.
    #[default]
    Claude,
    /// Cursor's agent.
    Cursor,
    /// The agent that is part of this program and only echoes.
    Demo,
    /// One that is declared: shipped with this program, or in the configuration.
    Declared(DeclaredName),
}

impl HarnessName {
    /// Those whose adapters are part of this program.
    pub const BUILT_IN: [Self; 3] = [Self::Claude, Self::Cursor, Self::Demo];

    /// The name as it is written in the configuration.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Claude => "claude",
            Self::Cursor => "cursor",
            Self::Demo => "demo",
            Self::Declared(name) => name.as_str(),
        }
    }
}

impl fmt::Display for HarnessName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for HarnessName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        match Self::BUILT_IN.into_iter().find(|name| name.as_str() == text) {
            Some(name) => Ok(name),
            None => text.parse().map(Self::Declared),
        }
    }
}

/// The name of a harness that is declared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeclaredName(Arc<str>);

impl DeclaredName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeclaredName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A text cannot be the name of a harness.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a harness's name is of small letters, digits and `-`, 32 at most, as in `my-agent`")]
pub struct InvalidName;

impl FromStr for DeclaredName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let fits = text.len() <= 32
            && text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        if fits { Ok(Self(text.into())) } else { Err(InvalidName) }
    }
}

macro_rules! as_text {
    ($($name:ident: $pattern:expr),+) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(D::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern })
            }
        }
    )+};
}

pub(super) use as_text;

as_text!(HarnessName: NAME, DeclaredName: NAME);

/// `harnesses.<name>.identity`: whence the id of a conversation comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Identity {
    /// We choose it.
    #[default]
    Preassigned,
    /// A command of the harness makes it before the first start.
    Created,
    /// The harness chooses it, and its first signal names it.
    Captured,
    /// We choose it, and the harness's first signal has the last word.
    Proposed,
}

/// `harnesses.<name>`: an agent that is not built in. In every argument `{id}`
/// is the conversation, `{cwd}` the directory, `{hook}` the command that takes
/// signals; `{cwdString}` and `{hookString}` are the same as JSON texts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DeclaredHarness {
    /// The program: a name on `PATH`, or an absolute path. Else the name itself.
    pub program: Option<String>,
    /// The arguments that make it tell its version. Else `--version`.
    pub probe: Vec<String>,
    /// The oldest version that is known to work.
    pub minimum: Option<String>,
    /// The command that installs it, for people.
    pub install: Option<String>,
    /// Variables that it is given.
    pub env: BTreeMap<String, String>,
    /// Whence the id of a conversation comes.
    pub identity: Option<Identity>,
    /// The arguments that make a conversation and print its id, where the
    /// identity is `created`.
    pub create: Vec<String>,
    /// The arguments that start a conversation in a terminal.
    pub spawn: Vec<String>,
    /// The arguments that go on with one in a terminal.
    pub resume: Vec<String>,
    /// The arguments that start one and run one turn, whose prompt comes on
    /// standard input.
    pub one_shot: Vec<String>,
    /// The arguments that go on with one for one turn.
    pub resume_one_shot: Vec<String>,
    /// More arguments for a directory that may be trusted.
    pub trust: Vec<String>,
    /// Files that it needs, by path, each with its content as JSON.
    pub files: BTreeMap<String, Value>,
    /// What it would ask in a home in which it never ran.
    pub first_run: Vec<FirstRun>,
    /// How it says that it will not go on with a conversation, or begin it.
    pub refusals: Refusals,
    /// What its signals mean.
    pub signals: SignalSigns,
    /// Its own record of the conversation.
    pub transcript: TranscriptSigns,
    /// What a turn without a terminal prints.
    pub result: ResultSigns,
    /// What its screen shows.
    pub screen: ScreenSigns,
    /// How a prompt is typed into it.
    pub typing: Typing,
}

/// `harnesses.<name>.firstRun[]`: a question that it asks until a file of it holds
/// the answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FirstRun {
    /// What it asks, as in `how to authenticate`.
    pub asks: String,
    /// The file that holds the answer.
    pub file: String,
    /// Other files, each with what begins a line of it that makes it ask nothing.
    pub settled_by: BTreeMap<String, Vec<String>>,
    /// What the file holds then.
    pub holds: Vec<Sign>,
    /// What `doctor --fix` may add to the file, as JSON; `{cwd}` is the directory that
    /// sessions start in. It also holds for what is below one that is there.
    pub adds: Value,
}

/// `harnesses.<name>.refusals`: texts of a refusal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Refusals {
    /// It has no such conversation.
    pub resume: Vec<String>,
    /// It has the conversation already.
    pub start: Vec<String>,
}

/// `harnesses.<name>.signals`: what the records of its hooks mean.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SignalSigns {
    /// It is up and takes prompts.
    pub ready: Vec<Sign>,
    /// It took a prompt.
    pub accepted: Vec<Sign>,
    /// A turn ended.
    pub turn_ended: Vec<Sign>,
    /// It waits for a person.
    pub waiting: Vec<Sign>,
    /// Its process ends.
    pub ended: Vec<Sign>,
    /// Where the prompt stands.
    pub prompt: Vec<String>,
    /// Where the id of the conversation stands.
    pub conversation: Vec<String>,
    /// Where the path of the transcript stands.
    pub transcript: Vec<String>,
    /// Where it stands what a person is asked.
    pub question: Vec<String>,
}

/// `harnesses.<name>.transcript`: its own record, one JSON object in a line.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TranscriptSigns {
    /// Where it is, when no signal says so; `{id}` is the conversation.
    pub path: Option<String>,
    /// What makes a line one of a prompt that was taken.
    pub proof: Vec<Sign>,
    /// Where the prompt stands in such a line.
    pub prompt: Vec<String>,
    /// Where the time of a line stands, as in RFC 3339 or in milliseconds.
    pub at: Vec<String>,
    /// The lines with the agent's own words and calls: a comment that it posted
    /// without its marker is known by them.
    pub words: Vec<RecordRule>,
}

/// `harnesses.<name>.result`: what a turn without a terminal prints: one JSON
/// object, or one in a line.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ResultSigns {
    /// A turn came to its end.
    pub ended: Vec<Sign>,
    /// It ended with a failure.
    pub failed: Vec<Sign>,
    /// It was cut off, whatever its end says.
    pub cut: Vec<Sign>,
    /// Where the id of the conversation stands.
    pub conversation: Vec<String>,
    /// Where its words stand.
    pub text: Vec<String>,
    /// Where the time of a record stands, as in RFC 3339 or in milliseconds.
    pub at: Vec<String>,
    /// What its records show to people, and the agent's own words in them. A record
    /// that no rule is about is shown as it is.
    pub shows: Vec<RecordRule>,
}

/// `harnesses.<name>.screen`: what its screen shows. Texts are compared without
/// case.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ScreenSigns {
    /// The sign before the input.
    pub prompt: Option<String>,
    /// Texts that an empty input box shows.
    pub hints: Vec<String>,
    /// Texts near the input box while it works.
    pub busy: Vec<String>,
    /// Letters that the title begins with while it works.
    pub busy_title: Option<String>,
    /// What its first row ends with when the beginning of its text is out of sight.
    pub more_above: Option<String>,
    /// Texts while it asks something.
    pub dialog: Vec<String>,
    /// Texts of a question of its first run: also just above the input.
    pub first_run: Vec<String>,
    /// Texts while something else has the keys.
    pub overlay: Vec<String>,
    /// Whether an empty input says that it is ready: its first signal comes only
    /// with its first prompt.
    pub says_ready: bool,
    /// Rows below an empty input that it draws before it is up: while nothing else
    /// stands there, it is not ready.
    pub loading: Vec<String>,
}

/// `harnesses.<name>.typing`: how a prompt is typed into it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Typing {
    /// The key that submits. Else `Enter`.
    pub submit: Option<SubmitKey>,
    /// Milliseconds between the text being seen and the submit key. Else 300.
    pub gap_ms: Option<u32>,
    /// How often the submit key may be repeated. Else 3.
    pub retries: Option<u8>,
    /// Milliseconds between two submit keys. Else 1500.
    pub retry_gap_ms: Option<u32>,
    /// Milliseconds that a signal may take once the box is empty. Else 8000.
    pub proof_ms: Option<u32>,
}

impl DeclaredHarness {
    /// This declaration over another of the same name: what it says counts, and
    /// what it does not say is the other's.
    #[must_use]
    pub fn over(&self, base: &Self) -> Self {
        fn pick<T: Default + PartialEq + Clone>(ours: &T, base: &T) -> T {
            if *ours == T::default() { base.clone() } else { ours.clone() }
        }
        Self {
            program: pick(&self.program, &base.program),
            probe: pick(&self.probe, &base.probe),
            minimum: pick(&self.minimum, &base.minimum),
            install: pick(&self.install, &base.install),
            env: base.env.clone().into_iter().chain(self.env.clone()).collect(),
            identity: pick(&self.identity, &base.identity),
            create: pick(&self.create, &base.create),
            spawn: pick(&self.spawn, &base.spawn),
            resume: pick(&self.resume, &base.resume),
            one_shot: pick(&self.one_shot, &base.one_shot),
            resume_one_shot: pick(&self.resume_one_shot, &base.resume_one_shot),
            trust: pick(&self.trust, &base.trust),
            files: pick(&self.files, &base.files),
            first_run: pick(&self.first_run, &base.first_run),
            refusals: pick(&self.refusals, &base.refusals),
            signals: pick(&self.signals, &base.signals),
            transcript: pick(&self.transcript, &base.transcript),
            result: pick(&self.result, &base.result),
            screen: pick(&self.screen, &base.screen),
            typing: pick(&self.typing, &base.typing),
        }
    }

    /// This declaration with what is taken where it says nothing.
    #[must_use]
    pub fn whole(&self, name: &DeclaredName) -> Self {
        let mut whole = self.clone();
        whole.program.get_or_insert_with(|| name.to_string());
        if whole.probe.is_empty() {
            whole.probe = vec!["--version".to_owned()];
        }
        whole.identity.get_or_insert_default();
        let typing = &mut whole.typing;
        typing.submit.get_or_insert_default();
        typing.gap_ms.get_or_insert(300);
        typing.retries.get_or_insert(3);
        typing.retry_gap_ms.get_or_insert(1500);
        typing.proof_ms.get_or_insert(8000);
        whole
    }

    /// What is missing in it, in a sentence.
    pub fn lacks(&self) -> Option<&'static str> {
        if self.spawn.is_empty() && self.one_shot.is_empty() {
            Some("it needs `spawn`, `oneShot` or both")
        } else if self.identity == Some(Identity::Created) && self.create.is_empty() {
            Some("where the identity is `created`, it needs `create`")
        } else if !self.spawn.is_empty() && (self.resume.is_empty() || self.screen.prompt.is_none())
        {
            Some("with `spawn` it needs `resume` and `screen.prompt`")
        } else if !self.one_shot.is_empty() && self.resume_one_shot.is_empty() {
            Some("with `oneShot` it needs `resumeOneShot`")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_built_in_or_declared_and_nothing_that_a_shell_would_read() {
        for name in HarnessName::BUILT_IN {
            assert_eq!(name.as_str().parse::<HarnessName>().unwrap(), name);
        }
        let own = "my-agent2".parse::<HarnessName>().unwrap();
        assert!(matches!(&own, HarnessName::Declared(name) if name.as_str() == "my-agent2"));
        for name in ["", "-x", "2x", "My", "a b", "a/b", "a.b", &"a".repeat(33)] {
            assert!(name.parse::<HarnessName>().is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_declaration_changes_only_what_it_says() {
        let text = |text: &str| Some(text.to_owned());
        let base = DeclaredHarness {
            program: text("a"),
            minimum: text("1.0"),
            env: BTreeMap::from([("A".to_owned(), "1".to_owned())]),
            ..DeclaredHarness::default()
        };
        let ours = DeclaredHarness {
            program: text("/opt/a"),
            env: BTreeMap::from([("B".to_owned(), "2".to_owned())]),
            ..DeclaredHarness::default()
        };
        let both = ours.over(&base);
        assert_eq!((both.program, both.minimum), (text("/opt/a"), text("1.0")));
        assert_eq!(both.env.len(), 2);
    }
}
