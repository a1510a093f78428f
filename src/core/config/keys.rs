//! The keys one by one: what each is set to, where, which of them nothing reads
//! yet, and which a running receiver cannot take up.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Config;
use super::error::is_secret;
use super::locate::{What, locate};
use super::tree::Step;
use crate::base::text::visible;

/// Keys that hold keys of the user's own: shown as one value.
const OPEN: &[&str] = &["routing.harnessArgs", "harnesses"];

/// Keys, and groups of keys, that nothing in this version reads. `config check`
/// names those that are set; a test compares this table with the code.
pub const WITHOUT_EFFECT: &[&str] = &[];

/// Keys, and groups of keys, that a receiver takes up only when it starts.
pub const AT_START: &[&str] = &[
    "routing.runner",
    "routing.maxConcurrentDispatches",
    "routing.workspace",
    "routing.promptTemplate",
    "routing.spawnPromptTemplate",
    "routing.tmux.socket",
    "routing.webTerminal",
    "webhooks",
    "harnesses",
    "tools",
    "metrics",
    "state",
];

/// One key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// The key's path, as in `routing.tmux.size`.
    pub key: String,
    /// Its value.
    pub value: Value,
}

impl Leaf {
    /// The value for people.
    pub fn shown(&self) -> String {
        shown(&self.key, &self.value)
    }
}

/// A key whose value is another one than before.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The key's path.
    pub key: String,
    /// What it was.
    pub old: String,
    /// What it is.
    pub new: String,
    /// Whether it took effect; else it does at the next start.
    pub applied: bool,
}

/// Whether the key is in one of the groups.
pub fn is_among(key: &str, groups: &[&str]) -> bool {
    groups.iter().any(|group| {
        key.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// Every key with its value, in the order of the documentation. Empty only when
/// a path in it is not text.
pub fn leaves(config: &Config) -> Vec<Leaf> {
    fn walk(value: &serde_yaml::Value, at: &str, out: &mut Vec<Leaf>) {
        let group = value.as_mapping().filter(|_| !OPEN.contains(&at));
        let Some(group) = group else {
            let value = serde_json::to_value(value).unwrap_or_default();
            out.push(Leaf { key: at.to_owned(), value });
            return;
        };
        for (key, value) in group {
            let Some(key) = key.as_str() else { continue };
            let path = if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
            walk(value, &path, out);
        }
    }
    let mut out = Vec::new();
    if let Ok(value) = serde_yaml::to_value(config) {
        walk(&value, "", &mut out);
    }
    out
}

/// The keys that a text sets, each with its line. The text is a valid
/// configuration.
pub fn lines(text: &str) -> BTreeMap<String, usize> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    leaves(&Config::default())
        .into_iter()
        .filter_map(|leaf| {
            let path: Vec<_> = leaf.key.split('.').map(|key| Step::Key(key.to_owned())).collect();
            let spot = locate(text, &path, What::Key(0))?;
            Some((leaf.key, spot.line))
        })
        .collect()
}

/// What is different in `new`.
pub fn changes(old: &Config, new: &Config) -> Vec<Change> {
    leaves(old)
        .into_iter()
        .zip(leaves(new))
        .filter(|(old, new)| old.value != new.value)
        .map(|(old, new)| Change {
            applied: !is_among(&new.key, AT_START),
            old: old.shown(),
            new: new.shown(),
            key: new.key,
        })
        .collect()
}

impl Config {
    /// Whether sessions should be shown in a browser, which has no effect yet:
    /// whoever starts the receiver is told.
    pub fn wants_browser(&self) -> bool {
        self.routing.web_terminal.enabled
    }

    /// Takes over what a running receiver cannot change: the keys of
    /// [`AT_START`].
    pub fn keep_from(&mut self, running: &Self) {
        let (ours, theirs) = (&mut self.routing, &running.routing);
        ours.runner = theirs.runner;
        ours.max_concurrent_dispatches = theirs.max_concurrent_dispatches;
        ours.workspace.clone_from(&theirs.workspace);
        ours.prompt_template.clone_from(&theirs.prompt_template);
        ours.spawn_prompt_template.clone_from(&theirs.spawn_prompt_template);
        ours.tmux.socket.clone_from(&theirs.tmux.socket);
        ours.web_terminal.clone_from(&theirs.web_terminal);
        self.webhooks.clone_from(&running.webhooks);
        self.harnesses.clone_from(&running.harnesses);
        self.tools.clone_from(&running.tools);
        self.metrics.clone_from(&running.metrics);
        self.state.clone_from(&running.state);
    }
}

/// Whether it is what a variable's name usually is: capitals, digits, underscores.
/// What stands in the place of one may be the secret itself.
fn looks_like_variable(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// The name of the secret's variable as it is shown anywhere: itself, or a word that
/// stands for what `webhooks.ghWebhook.secretEnv` holds.
pub fn variable_shown(name: &str) -> &str {
    if looks_like_variable(name) { name } else { "NAME_IN_SECRETENV" }
}

/// A value for people. Where the name of the secret's variable belongs, the
/// secret itself may stand: only what looks like a name is shown.
fn shown(key: &str, value: &Value) -> String {
    match value {
        Value::Null => "not set".to_owned(),
        Value::String(text) => {
            if key.ends_with(".secretEnv") && !looks_like_variable(text) {
                return "(not shown)".to_owned();
            }
            visible(text)
        }
        Value::Object(map) => {
            let inside = map.iter().map(|(key, value)| {
                let value = if is_secret(key) { "(not shown)".into() } else { shown(key, value) };
                format!("{}: {value}", visible(key))
            });
            format!("{{{}}}", inside.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| shown("", item)).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::parse;
    use super::*;

    /// A value other than the default for every key.
    const ALL: &str = include_str!("../../../tests/fixtures/config/all_keys.yaml");

    fn config(text: &str) -> Config {
        parse(text, Path::new("x")).unwrap()
    }

    #[test]
    fn what_takes_effect_at_start_is_kept_and_everything_else_is_taken() {
        let (old, mut new) = (Config::default(), config(ALL));
        let changed = changes(&old, &new);
        let keys: Vec<_> = leaves(&old).into_iter().map(|leaf| leaf.key).collect();
        let told: Vec<_> = changed.iter().map(|change| change.key.clone()).collect();
        assert_eq!(told, keys, "all_keys.yaml changes every key");
        new.keep_from(&old);
        let taken: Vec<_> = changes(&old, &new).into_iter().map(|change| change.key).collect();
        let live: Vec<_> =
            changed.into_iter().filter(|change| change.applied).map(|change| change.key).collect();
        assert_eq!(taken, live);
    }

    #[test]
    fn a_key_is_found_in_the_line_that_sets_it() {
        let text = "\u{feff}# x\nrouting:\n  runner: tmux\n  tmux: {size: 80x24}\n  harnessArgs:\n    claude: [a]\n";
        let found = lines(text);
        let found: Vec<_> = found.iter().map(|(key, line)| (key.as_str(), *line)).collect();
        assert_eq!(
            found,
            [("routing.harnessArgs", 5), ("routing.runner", 3), ("routing.tmux.size", 4)]
        );
    }

    #[test]
    fn a_secret_in_the_place_of_its_variables_name_is_not_shown() {
        let old = Config::default();
        let new = config("webhooks: {ghWebhook: {secretEnv: abc123def}}\n");
        let changes = changes(&old, &new);
        assert_eq!(changes[0].old, "THE_LOOP_GH_WEBHOOK_SECRET");
        assert_eq!(changes[0].new, "(not shown)");
    }

    #[test]
    fn groups_end_at_a_dot() {
        assert!(is_among("state.dir", &["state"]) && is_among("state", &["state"]));
        assert!(!is_among("statement", &["state"]));
    }
}
