//! The declared harnesses that a configuration uses, value by value: what the
//! file sets, what is shipped, and what is taken where neither says anything.

use std::collections::BTreeSet;

use serde_yaml::Value;

use super::keys::Leaf;
use super::locate::{What, locate};
use super::tree::Step;
use super::{Config, DeclaredHarness, DeclaredName, HarnessName, declarations, shipped};

/// Where a value of a harness comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HarnessOrigin {
    /// This line of the file.
    Line(usize),
    /// The declaration that is part of this program.
    Shipped,
    /// Nobody says it.
    Default,
}

/// The parts of a declaration that are shown key by key.
const GROUPS: &[&str] = &["refusals", "signals", "transcript", "result", "screen", "typing"];

/// The values of the declared harnesses that the configuration names, without
/// those that say nothing.
pub fn harness_leaves(config: &Config, text: &str) -> Vec<(Leaf, HarnessOrigin)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let routing = &config.routing;
    let named = routing.harness_args.keys().chain([&routing.default_harness]);
    let declared = named.filter_map(|name| match name {
        HarnessName::Declared(name) => Some(name),
        _ => None,
    });
    let used: BTreeSet<&DeclaredName> = config.harnesses.keys().chain(declared).collect();
    let all = declarations(&config.harnesses);
    let mut out = Vec::new();
    for name in used {
        let Some(declaration) = all.get(name) else { continue };
        let base = shipped().get(name).map(flat).unwrap_or_default();
        for (path, value) in flat(&declaration.whole(name)) {
            let keys = ["harnesses", name.as_str()].into_iter().chain(path.split('.'));
            let steps: Vec<_> = keys.map(|key| Step::Key(key.to_owned())).collect();
            let origin = match locate(text, &steps, What::Key(0)) {
                Some(spot) => HarnessOrigin::Line(spot.line),
                None if says_nothing(&value) => continue,
                None if base.iter().any(|one| (&one.0, &one.1) == (&path, &value)) => {
                    HarnessOrigin::Shipped
                }
                None => HarnessOrigin::Default,
            };
            let value = serde_json::to_value(value).unwrap_or_default();
            out.push((Leaf { key: format!("harnesses.{name}.{path}"), value }, origin));
        }
    }
    out
}

fn flat(declaration: &DeclaredHarness) -> Vec<(String, Value)> {
    let Ok(Value::Mapping(keys)) = serde_yaml::to_value(declaration) else { return Vec::new() };
    let mut out = Vec::new();
    for (key, value) in keys {
        let Some(key) = key.as_str() else { continue };
        match value {
            Value::Mapping(inner) if GROUPS.contains(&key) => {
                let inner = inner.into_iter();
                out.extend(inner.filter_map(|(below, value)| {
                    Some((format!("{key}.{}", below.as_str()?), value))
                }));
            }
            value => out.push((key.to_owned(), value)),
        }
    }
    out
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Sequence(items) => items.is_empty(),
        Value::Mapping(keys) => keys.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::parse;
    use super::*;

    #[test]
    fn what_is_used_is_told_with_its_origin_and_what_is_not_used_is_not() {
        let text = "routing:\n  defaultHarness: gemini\nharnesses:\n  codex:\n    program: /c\n    \
                    typing: {submit: C-j, gapMs: 500}\n";
        let config = parse(text, Path::new("x")).unwrap();
        let leaves = harness_leaves(&config, text);
        let told = |key: &str| {
            let leaf = leaves.iter().find(|(leaf, _)| leaf.key == format!("harnesses.{key}"));
            leaf.map(|(leaf, origin)| (leaf.shown(), *origin))
        };
        let is = |text: &str, origin| Some((text.to_owned(), origin));
        assert_eq!(told("codex.program"), is("/c", HarnessOrigin::Line(5)));
        assert_eq!(told("codex.typing.submit"), is("C-j", HarnessOrigin::Line(6)));
        assert_eq!(told("codex.typing.retries"), is("3", HarnessOrigin::Default));
        assert_eq!(told("codex.identity"), is("captured", HarnessOrigin::Shipped));
        assert_eq!(told("gemini.program"), is("gemini", HarnessOrigin::Shipped));
        assert_eq!(told("gemini.typing.submit"), is("Enter", HarnessOrigin::Default));
        assert_eq!(told("gemini.create"), None, "it says nothing");
        assert!(!leaves.iter().any(|(leaf, _)| leaf.key.contains("copilot")));
    }
}
